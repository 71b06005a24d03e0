/* SPDX-License-Identifier: Apache-2.0 */
/* The neutral promise list: what a manifest of any format says of tensors. */
#ifndef RSUM_MANIFEST_H
#define RSUM_MANIFEST_H

#include "arena.h"
#include "base.h"
#include "json.h"
#include "name_index.h"
#include "report.h"
#include "ringsum.h"

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

/* All zero is the empty state. */
struct rsum_manifest {
	bool is_usable;		       /* the document as a whole was read */
	struct rsum_arena arena;       /* names, paths, shapes */
	struct rsum_promise *promises; /* in the manifest's order, every entry of `tensors` */
	size_t promise_count;	       /* 0 where the document as a whole is unusable */
	const char **files;	       /* each destination_file once, in order of first use */
	size_t file_count;
	struct rsum_name_index by_name; /* usable name -> first promise of that name */
	struct rsum_name_index by_file; /* destination_file -> index in `files` */
	bool has_codebook;
	const char *codebook;	    /* NULL where absent or no name */
	const char *codebook_found; /* what there is that is no name, for a person; or NULL */
};

/*
 * Parses TENSORS.json (rule M1). `text` was allocated with malloc and is freed. Every
 * fault is added to the report (manifest-invalid with the entry and member by name,
 * tensor-duplicate) and reading goes on as far as the JSON itself is sound.
 * file_name is for findings. Returns 0, also where entries were refused; RINGSUM_E_REFUSED where
 * the document as a whole is unusable (the report says why); RINGSUM_E_NOMEM.
 * Ownership: deinit *out in every case.
 */
RSUM_MUST_CHECK int rsum_manifest_parse(char *text, size_t size_bytes, const char *file_name,
					struct rsum_manifest *out, struct ringsum_report *report);

void rsum_manifest_deinit(struct rsum_manifest *manifest);

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
