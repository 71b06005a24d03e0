/* SPDX-License-Identifier: Apache-2.0 */
/* An opened checkpoint, as its parts see it. */
#ifndef RSUM_CHECKPOINT_H
#define RSUM_CHECKPOINT_H

#include "base.h"
#include "confine.h"
#include "manifest.h"
#include "options.h"
#include "profile.h"
#include "report.h"

/* A file that the manifests name: a shard where it is a safetensors file. */
struct rsum_shard {
	const char *name;
	bool is_opened;			    /* it could be, so identity is known */
	struct rsum_file_identity identity; /* when it was opened first */
	uint64_t data_begin;		    /* by its header; 0 where that is not valid */
	uint64_t data_end;		    /* where it should end by its header; 0 likewise */
	bool is_to_refetch;		    /* another copy may be what was promised, */
	uint64_t refetch_begin;		    /* from here on */
};

/* How a promise stands before its bytes are hashed. */
struct rsum_standing {
	bool is_refused;   /* something about it differs already */
	bool is_undecided; /* its shard could not be read */
	bool is_readable;  /* the header confirms its range: the bytes can be hashed */
};

/* What was read whole at opening, and tells what to expect ever since. */
enum rsum_document_kind { RSUM_DOCUMENT_CONFIG, RSUM_DOCUMENT_PLAN, RSUM_DOCUMENT_COUNT };

struct rsum_document {
	const char *name; /* for messages; NULL where it was not read */
	char *given_path; /* where the caller named it; owned. Else below the root */
	bool is_in_root;  /* `name` is relative to the root */
	bool is_stream;	  /* standard input: it cannot be looked at again */
	struct rsum_file_identity identity; /* when it was read */
};

struct ringsum_checkpoint {
	/* Fixed once it is prepared. */
	struct rsum_options options;
	char *root_path;
	struct rsum_root root;
	struct rsum_document documents[RSUM_DOCUMENT_COUNT];
	struct rsum_document *manifests; /* what the promises come from */
	size_t manifest_count;
	struct rsum_manifest manifest; /* of all of them together */
	const struct rsum_profile *profile;
	struct rsum_profile_state profile_state;
	struct rsum_shard *shards;	      /* manifest.file_count of them */
	struct rsum_standing *standings;      /* one per promise of a tensor */
	struct rsum_standing *file_standings; /* one per promise of a file */
	struct ringsum_report *report;	      /* what was found so far */
};

/*
 * Does all that can be done without hashing, and goes on past every finding; the checkpoint's
 * report has them. Returns 0; RINGSUM_E_INVALID, RINGSUM_E_NOPROMISE, RINGSUM_E_NOMEM or
 * RINGSUM_E_IO where there is no report to give.
 * Ownership: close *checkpoint_out with ringsum_checkpoint_close.
 */
RSUM_MUST_CHECK int rsum_checkpoint_prepare(const char *path, const struct ringsum_options *options,
					    struct ringsum_checkpoint **checkpoint_out,
					    struct ringsum_error *err);

/* Where the promises come from; see sources.c. */
struct rsum_location {
	char *root_path;	   /* owned */
	const char *manifest_path; /* the file that was given where a directory is usual, or NULL */
};

/*
 * Finds and reads every document that promises something: those that the caller named, or else
 * what is there by itself. A finding for each that is unusable. Returns 0, RINGSUM_E_NOPROMISE,
 * RINGSUM_E_NOMEM or RINGSUM_E_UNDECIDED for a digest that failed.
 */
RSUM_MUST_CHECK int rsum_sources_read(struct ringsum_checkpoint *checkpoint,
				      const struct rsum_location *location,
				      struct ringsum_error *err);

/*
 * Reads a whole document. Returns 0 with *text_out, which is NULL where the file is at fault (the
 * report says why), or RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_document_read(struct ringsum_checkpoint *checkpoint, int fd,
				       const char *name, uint64_t limit_bytes,
				       enum ringsum_finding_code invalid_code, char **text_out,
				       size_t *size_bytes_out);

/*
 * Whether manifests, config and plan are still the files that were read; a finding for each that is
 * not, or cannot be looked at, goes to `report`.
 */
RSUM_MUST_CHECK bool rsum_documents_are_unchanged(const struct ringsum_checkpoint *checkpoint,
						  struct ringsum_report *report);

/*
 * Opens every file that is promised, reads the headers of shards and compares them with the
 * promises (rules M4 to M6). Fills shards and standings, and gives promises of whole files their
 * ends. Returns 0 or RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_shards_check(struct ringsum_checkpoint *checkpoint);

/*
 * Looks below the root for files that nobody promised, and reports them in the order of their
 * names. Returns 0 or RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_unpromised_find(struct ringsum_checkpoint *checkpoint);

/* A tensor in `file`, or (tensor NULL) the file: a note, or under strict a finding. */
void rsum_unpromised_report(struct ringsum_checkpoint *checkpoint, const char *tensor,
			    const char *file);

/* The result that goes with a report's verdict, with a line in *err where it is no success. */
int rsum_report_result(const struct ringsum_report *report, struct ringsum_error *err);

#endif
