/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings, totals and the one function that computes the verdict. A report fails closed: it
 * is identical only where it was finished as complete, everything promised was proven, and
 * nothing was left out for want of memory.
 */
#ifndef RSUM_REPORT_H
#define RSUM_REPORT_H

#include "arena.h"
#include "base.h"
#include "refusal.h"
#include "ringsum.h"

/* Who vouches for the promise, as far as that was checked. */
struct rsum_authenticity {
	bool is_checked; /* and right */
	bool is_refused; /* there is a finding that says why */
	/*
	 * How the promise was signed: "key", "certificate", "keyless", or "none" for one that could
	 * have been; NULL where promises of its kind have no signatures. Static.
	 */
	const char *method;
	const char *algorithm; /* of a signature that was checked; static */
	char fingerprint[65];  /* SHA-256 of the key or certificate that was checked; else "" */
	const char *signer;    /* owned; the subject of that certificate, or NULL */
	const char *reason;    /* owned; why it was not checked, or NULL */
};

/* What the report says besides findings; strings are static unless said. */
struct rsum_report_facts {
	const char *root;	   /* owned by the report, see rsum_report_set_text */
	const char *profile;	   /* "dspark-exl3" or "none"; NULL where unknown */
	const char *engine;	   /* "io_uring" or "pread"; NULL where nothing was read */
	const char *engine_reason; /* owned; why not io_uring, or NULL */
	uint32_t files_direct;	   /* shards read with O_DIRECT */
	uint32_t files_buffered;   /* shards read through the page cache */
	const char *buffer_pages;  /* "huge", "transparent-huge" or "small" */
	uint32_t chunk_bytes;
	uint32_t depth;
	const char *digest_impl; /* "sha-ni-x3", "sha-ni-x2" or "libcrypto" */
	uint32_t threads;
	const char *limited_by; /* "disk", "hash", "rate" or NULL where unknown */
	const char *error;	/* owned; why nothing could be checked, or NULL */
	struct rsum_authenticity authenticity;
	bool is_strict;	     /* what nobody promised is a finding */
	bool is_interrupted; /* canceled before everything was read */
};

/* A document that promises something. */
struct rsum_report_manifest {
	const char *kind; /* "TENSORS.json", "sha256sum" and so on; static */
	const char *path; /* owned by the report */
	char sha256[65];  /* "" where unknown */
};

struct ringsum_report {
	struct rsum_arena strings;
	struct rsum_report_manifest *manifests; /* in the order in which they were read */
	size_t manifest_count;
	struct ringsum_finding *findings;
	size_t finding_count;
	size_t finding_capacity;
	size_t note_count;	  /* of the listed findings */
	uint64_t refusing_count;  /* all of them, listed or not */
	uint64_t undecided_count; /* all of them, listed or not */
	struct ringsum_totals totals;
	struct rsum_report_facts facts;
	struct rsum_map *map;	       /* owned; NULL where it was not asked for, or is lost */
	bool map_is_lost;	       /* for want of memory */
	bool is_complete;	       /* every phase ran to its end */
	bool is_incomplete_for_memory; /* a finding was lost */
};

/* NULL where memory ran out. */
RSUM_MUST_CHECK struct ringsum_report *rsum_report_new(void);

/*
 * Adds a copy of *draft. severity is taken from the draft only where it is NOTE; otherwise it
 * follows from the code (read-error, changed-during-read, unstable-read and digest-unsupported leave
 * undecided, all others refuse). Never fails: what cannot be kept makes the report incomplete.
 */
void rsum_report_add(struct ringsum_report *report, const struct ringsum_finding *draft);

/* Adds a refusal about `tensor` (may be NULL) in `file` (may be NULL), without a range. */
void rsum_report_add_refusal(struct ringsum_report *report, const struct rsum_refusal *refusal,
			     const char *tensor, const char *file);

/* Appends "; " and what to do to the message of the finding that was listed last. */
void rsum_report_advise(struct ringsum_report *report, const char *advice);

/* Says what the promises come from. `kind` is static. Returns 0 or RINGSUM_E_NOMEM. */
RSUM_MUST_CHECK int rsum_report_add_manifest(struct ringsum_report *report, const char *kind,
					     const char *path, const char *sha256);

/* Keeps a copy of `text` in *slot, one of the owned strings of report->facts. */
void rsum_report_set_text(struct ringsum_report *report, const char **slot, const char *text);

/* Says that every phase ran to its end; without it no report is identical. */
void rsum_report_set_complete(struct ringsum_report *report);

/* A copy for a second phase (findings, facts and totals), not complete yet, or NULL. */
RSUM_MUST_CHECK struct ringsum_report *rsum_report_clone(const struct ringsum_report *report);

/*
 * Escapes `text` for a terminal: control characters, DEL, backslash and bytes that are not
 * UTF-8 become \n, \t, \\ or \xHH (C1 controls and bidirectional overrides too).
 * Ownership: the caller frees the result; NULL where memory ran out.
 */
RSUM_MUST_CHECK char *rsum_text_escape(const char *text);

/*
 * `text` into `buffer`, cut between characters and ended with "..." where it does not fit (8
 * bytes or more are there). Returns buffer.
 */
const char *rsum_text_shorten(const char *text, char *buffer, size_t size_bytes);

/* Bytes read from disk in a second, or 0 where it is not known. */
uint64_t rsum_report_bytes_per_second(const struct ringsum_report *report);

/* A growing string for the writers. All zero is the empty state; a failure is kept. */
struct rsum_text {
	char *data; /* from malloc, ends with NUL; NULL while empty */
	size_t used_bytes;
	size_t capacity_bytes;
	bool has_failed; /* memory ran out: the text is of no use */
};

void rsum_text_append(struct rsum_text *text, const char *bytes, size_t size_bytes);
RSUM_PRINTF(2, 3) void rsum_text_printf(struct rsum_text *text, const char *format, ...);
/* Appends a name or message of unknown origin, escaped. */
void rsum_text_append_escaped(struct rsum_text *text, const char *unsafe);
/*
 * Appends a message, escaped but for its backslashes: where it shows a name, or quotes JSON, they
 * begin an escape already.
 */
void rsum_text_append_message(struct rsum_text *text, const char *message);
/* "4,755", "7.5 GB", "0.3 s"; no locale has a say. */
void rsum_text_append_count(struct rsum_text *text, uint64_t count);
void rsum_text_append_bytes(struct rsum_text *text, uint64_t bytes);
void rsum_text_append_seconds(struct rsum_text *text, double seconds);
/* Gives the string to the caller (RINGSUM_OK), or frees it (RINGSUM_E_NOMEM). */
RSUM_MUST_CHECK int rsum_text_finish(struct rsum_text *text, char **string_out);

#endif
