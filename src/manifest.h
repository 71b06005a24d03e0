/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The neutral promise list: what manifests of any format say of tensors, and of files or ranges of
 * files; and the table of formats. A format is one row and one file, manifest_<format>.c.
 */
#ifndef RSUM_MANIFEST_H
#define RSUM_MANIFEST_H

#include "arena.h"
#include "base.h"
#include "digest.h"
#include "json.h"
#include "name_index.h"
#include "report.h"
#include "ringsum.h"
#include "statement.h"

enum rsum_promise_status {
	RSUM_PROMISE_PENDING,
	RSUM_PROMISE_IDENTICAL,
	RSUM_PROMISE_REFUSED,
	RSUM_PROMISE_UNDECIDED,
};

struct rsum_promise {
	struct ringsum_tensor tensor; /* name, dtype, shape, shard, destination range, digest */
	uint64_t source_bytes;	      /* length of the source range */
	uint32_t file_index;	      /* of tensor.shard in the manifest's files */
	/*
	 * False: some member is unusable, or the name is promised twice; it is refused and never
	 * read. name and shard are "" and file_index is RSUM_NAME_INDEX_NONE where unusable.
	 */
	bool is_wellformed;
};

/* What is promised of a file as a whole, or of a range of it. */
struct rsum_file_promise {
	const char *path;    /* relative to the root; whether it stays inside is judged later */
	uint32_t file_index; /* of path in the manifest's files; set by rsum_manifest_add_file */
	uint64_t begin;	     /* first byte */
	uint64_t end;	     /* one past the last; UINT64_MAX: to the end of the file */
	uint64_t size_bytes; /* of the whole file; UINT64_MAX: not promised */
	enum rsum_algorithm algorithm;
	const char *algorithm_name; /* as the document spells it; NULL: the table's own name */
	uint8_t digest[RSUM_DIGEST_BYTES_MAX];
	size_t digest_bytes; /* rsum_algorithm_bytes(algorithm); 0 where that is UNKNOWN */
	bool is_conflicting; /* out of rsum_manifest_settle: promised otherwise as well */
};

/* All zero is the empty state. */
struct rsum_manifest {
	bool is_usable;		       /* at least one document was read as a whole */
	struct rsum_arena arena;       /* names, paths, shapes */
	struct rsum_promise *promises; /* in the manifest's order, every entry of `tensors` */
	size_t promise_count;	       /* 0 where the document as a whole is unusable */
	size_t promise_capacity;
	struct rsum_file_promise *file_promises; /* by file, begin, end once they are settled */
	size_t file_promise_count;
	size_t file_promise_capacity;
	const char **files; /* each file once, in order of first use */
	size_t file_count;
	size_t file_capacity;
	struct rsum_name_index by_name; /* usable name -> first promise of that name */
	struct rsum_name_index by_file; /* file -> index in `files` */
	/* What a signature has to be checked with, set beforehand; NULL: none is asked for. */
	const struct rsum_trust *trust;
	/* Where promises come from a list of all files there are; owned. Its resources are gone. */
	struct rsum_statement *statement;
	bool has_codebook;
	const char *codebook;	    /* NULL where absent or no name */
	const char *codebook_found; /* what there is that is no name, for a person; or NULL */
};

/* ---- formats -------------------------------------------------------------------------------- */

struct rsum_manifest_format {
	const char *name; /* as reports show it */
	/* Whether a document is of this format, by its content alone. Never changes it. */
	bool (*detect)(const char *text, size_t size_bytes);
	/*
	 * Adds what a document promises to *out, which may hold the promises of others already.
	 * `text` was allocated with malloc and is freed; no NUL need be behind it. Every fault is
	 * added to the report (manifest-invalid, with the entry or line) and reading goes on as far
	 * as the document is sound. file_name is the document's, for findings.
	 * Returns 0, also where entries were refused; RINGSUM_E_REFUSED where the document as a
	 * whole is unusable (the report says why, and it promises nothing); RINGSUM_E_NOMEM.
	 */
	int (*parse)(char *text, size_t size_bytes, const char *file_name,
		     struct rsum_manifest *out, struct ringsum_report *report);
};

/* TENSORS.json (rule M1). */
extern const struct rsum_manifest_format rsum_manifest_tensors;
/* OpenSSF model signing: signed lists of files, and bare ones. */
extern const struct rsum_manifest_format rsum_manifest_oms;
extern const struct rsum_manifest_format rsum_manifest_oms_statement;
/* Lists of sha256sum and its like. */
extern const struct rsum_manifest_format rsum_manifest_sums;
/* Lists of hashdeep. */
extern const struct rsum_manifest_format rsum_manifest_hashdeep;

/* Whether a file is called as lists of sha256sum are ("SHA256SUMS", "model.sha256", ...). */
bool rsum_manifest_name_is_list(const char *file_name);

/*
 * The format of a document: the first whose detect says so; where none does, what its name is
 * usual for, so that the parser can say what is there instead. Never NULL.
 */
const struct rsum_manifest_format *rsum_manifest_detect(const char *text, size_t size_bytes,
							const char *file_name);

/*
 * Detects the format and parses, as rsum_manifest_format.parse says. *format_out (may be NULL) is
 * set in every case. Start with a *out that is all zero; deinit it in every case.
 */
RSUM_MUST_CHECK int rsum_manifest_parse(char *text, size_t size_bytes, const char *file_name,
					struct rsum_manifest *out, struct ringsum_report *report,
					const struct rsum_manifest_format **format_out);

/*
 * Once every document is parsed: sorts the promises of files, drops those made twice alike, and
 * marks those that contradict each other (manifest-invalid). Several for the same bytes stay where
 * their algorithms differ: all of them have to hold. Returns 0 or RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_manifest_settle(struct rsum_manifest *manifest,
					 struct ringsum_report *report);

void rsum_manifest_deinit(struct rsum_manifest *manifest);

/* ---- for the parsers ------------------------------------------------------------------------ */

/*
 * Gives `file` one number, in order of first use; the name is copied. "./a//b" is the file "a/b".
 * Returns 0, RINGSUM_E_NOMEM, or RINGSUM_E_LIMIT past RSUM_LIMIT_SHARDS files.
 */
RSUM_MUST_CHECK int rsum_manifest_number_file(struct rsum_manifest *manifest, const char *file,
					      uint32_t *number_out);

/*
 * Adds a copy of *promise (path and algorithm_name are copied, file_index and is_conflicting are
 * ignored). Returns 0, RINGSUM_E_NOMEM, or RINGSUM_E_LIMIT past RSUM_LIMIT_SHARDS files or
 * RSUM_LIMIT_TENSORS promises: the parser then refuses its document.
 */
RSUM_MUST_CHECK int rsum_manifest_add_file(struct rsum_manifest *manifest,
					   const struct rsum_file_promise *promise);

/* How far a manifest is filled, for a document that turns out to be unusable. */
struct rsum_manifest_mark {
	size_t promise_count;
	size_t file_promise_count;
	size_t file_count;
};
struct rsum_manifest_mark rsum_manifest_mark(const struct rsum_manifest *manifest);
/* Drops what was added since. Returns 0 or RINGSUM_E_NOMEM, and then drops everything. */
RSUM_MUST_CHECK int rsum_manifest_rewind(struct rsum_manifest *manifest,
					 struct rsum_manifest_mark mark);

/* Adds a finding about a document as a whole, or one of its entries. */
void rsum_manifest_complain(struct ringsum_report *report, const char *file_name,
			    const char *expected, const char *actual, const char *message);

/*
 * For messages about a JSON document: what a token is, "the string ..." and numbers as they are
 * spelled, shortened to fit (64 bytes or more are there). `text` is the document that is being read. Returns buffer.
 */
const char *rsum_manifest_describe_token(const char *text, size_t text_bytes,
					 const struct rsum_json_token *token, char *buffer,
					 size_t size_bytes);

/*
 * Why the reader refused a document, for a person: what the document is instead, where its
 * beginning says so (a Git LFS pointer, an HTML page), else the reader's reason. Returns either
 * buffer or the reader's own text.
 */
const char *rsum_manifest_describe_refusal(const struct rsum_json *json, const char *wanted,
					   char *buffer, size_t size_bytes);

/* Whether a token is a whole number that is not negative, without fraction or exponent. */
bool rsum_manifest_token_is_unsigned(const struct rsum_json_token *token);

/*
 * Compares a promise with the tensor that the shard's header shows (rule M6). Adds one finding
 * for each difference (header-mismatch, dtype-unsupported, size-mismatch) and returns whether
 * there was none. `shown` is NULL where the header does not know the name.
 */
struct rsum_safetensors;
struct rsum_safetensors_tensor;
bool rsum_promise_matches_header(const struct rsum_promise *promise,
				 const struct rsum_safetensors *header,
				 const struct rsum_safetensors_tensor *shown,
				 bool (*dtype_is_allowed)(enum ringsum_dtype dtype),
				 struct ringsum_report *report);

#endif
