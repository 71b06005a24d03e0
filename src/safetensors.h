/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file: bytes in, table of tensors out. Follows the rules of the
 * reference implementation and is stricter where two parsers could disagree. Knows no files.
 */
#ifndef RSUM_SAFETENSORS_H
#define RSUM_SAFETENSORS_H

#include "base.h"
#include "name_index.h"
#include "refusal.h"

/* The first bytes of a file that rsum_safetensors_probe wants to see. */
#define RSUM_SAFETENSORS_PROBE_BYTES 512

/* A tensor's shape_index is the number of its block, and in these bits its place in the block. */
#define RSUM_SHAPE_BLOCK_BITS 12

struct rsum_safetensors_tensor {
	const char *name;     /* in the header's text */
	uint64_t begin;	      /* in the file: data_offsets[0] + 8 + N */
	uint64_t end;	      /* in the file */
	uint32_t shape_index; /* see rsum_safetensors_shape */
	uint8_t rank;
	uint8_t dtype; /* enum ringsum_dtype */
};

/* Where they begin in the header's text, decoded and terminated; see rsum_safetensors_key. */
struct rsum_safetensors_pair {
	uint32_t key;
	uint32_t value;
};

/* All zero is the empty state. */
struct rsum_safetensors {
	char *text;	       /* the header's JSON, consumed; owned */
	uint64_t header_bytes; /* N */
	uint64_t data_begin;   /* 8 + N */
	uint64_t data_end;     /* where the last tensor ends; the file should end here */
	struct rsum_safetensors_tensor *tensors; /* sorted by (begin, end) */
	size_t tensor_count;
	/*
	 * All shapes, one after the other, in blocks that no shape crosses and that stay where they
	 * are: one array, copied whenever it grows, would be the largest part of what a header of
	 * many dimensions takes.
	 */
	uint64_t **shape_blocks;
	size_t shape_block_count;
	size_t dimension_count; /* in all */
	struct rsum_safetensors_pair *metadata;
	size_t metadata_count;
	struct rsum_name_index by_name; /* name -> index in `tensors` */
};

/*
 * Looks at the first bytes of a file (all of them, up to RSUM_SAFETENSORS_PROBE_BYTES) and finds
 * N, the length of the header. Refuses, by name, what is no safetensors file: a Git LFS pointer,
 * zip, pickle, GGUF, HTML, zeros; a header longer than `header_limit_bytes` or than the file.
 * Returns 0 or RINGSUM_E_REFUSED with *refusal.
 */
RSUM_MUST_CHECK int rsum_safetensors_probe(const uint8_t *head, size_t head_bytes,
					   uint64_t file_bytes, uint64_t header_limit_bytes,
					   uint64_t *header_bytes_out,
					   struct rsum_refusal *refusal);

/*
 * What a file is by its first bytes, where they tell that it is another one than `wanted`: "an
 * HTML page in place of WANTED", or a Git LFS pointer with its oid, its size and what to do.
 * False, with nothing written, where they do not.
 */
bool rsum_safetensors_describe_other(const uint8_t *head, size_t head_bytes, const char *wanted,
				     char *text, size_t text_bytes);

/*
 * Parses the N bytes of a header. `text` was allocated with malloc and becomes *out's, also on
 * failure. Returns 0; RINGSUM_E_REFUSED with *refusal; RINGSUM_E_NOMEM.
 * Where only the file's size is wrong (code file-truncated or file-trailing) *out is complete and
 * usable all the same: the tensors that lie inside the file can still be verified.
 * Ownership: deinit *out after success and after refusal alike.
 */
RSUM_MUST_CHECK int rsum_safetensors_parse(char *text, uint64_t header_bytes, uint64_t file_bytes,
					   struct rsum_safetensors *out,
					   struct rsum_refusal *refusal);

/* The tensor's dimensions, `rank` of them; NULL for a scalar. */
const uint64_t *rsum_safetensors_shape(const struct rsum_safetensors *header,
				       const struct rsum_safetensors_tensor *tensor);

/* Key and value of a pair of the metadata; metadata_index is below metadata_count. */
const char *rsum_safetensors_key(const struct rsum_safetensors *header, size_t metadata_index);
const char *rsum_safetensors_value(const struct rsum_safetensors *header, size_t metadata_index);

/* The tensor of that name, or NULL. */
const struct rsum_safetensors_tensor *rsum_safetensors_find(const struct rsum_safetensors *header,
							    const char *name);

void rsum_safetensors_deinit(struct rsum_safetensors *header);

#endif
