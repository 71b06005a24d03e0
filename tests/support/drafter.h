/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small complete drafter delivery: documents, and shards whose bytes are as promised. Its parts
 * lie in memory to be broken one by one, and are then written to disk, to be broken there.
 * Aborts the test where it cannot be made.
 */
#ifndef TESTS_SUPPORT_DRAFTER_H
#define TESTS_SUPPORT_DRAFTER_H

#include "documents.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRAFTER_SHARDS 2
#define DRAFTER_SHARD_0 "part-0.safetensors"
#define DRAFTER_SHARD_1 "more/part-1.safetensors" /* the routed experts */

struct drafter_shard {
	char *header; /* ends in spare blanks, so that an edit leaves the data where it is */
	size_t header_bytes;
	uint8_t *data;
	size_t data_bytes;
	size_t tensor_count;
};

struct drafter {
	char base[64]; /* a directory of its own; what is not in the root lies beside it */
	char root[80]; /* base/delivery */
	unsigned stages, experts;
	struct document_tensor *tensors;
	size_t tensor_count;
	unsigned *shard_of; /* by tensor */
	size_t *data_begin; /* by tensor, in the shard's data */
	char *config;
	char *plan;
	char *manifest;
	struct drafter_shard shards[DRAFTER_SHARDS];
};

/* Makes the directory and lists the tensors; the allowed `norm.weight` comes with them. */
void drafter_init(struct drafter *drafter, unsigned stages, unsigned experts);

/* The sound delivery in memory; the manifest's entries shuffled where the seed is not 0. */
void drafter_build(struct drafter *drafter, unsigned seed);

/* Empties the root and writes everything. */
void drafter_write(const struct drafter *drafter);

/* The index of a tensor, which must be there. */
size_t drafter_find(const struct drafter *drafter, const char *tensor);

/* Where a tensor begins in its shard. */
uint64_t drafter_begin(const struct drafter *drafter, size_t tensor);

/* The file's path in a static buffer; the next call but three overwrites it. */
const char *drafter_path(const struct drafter *drafter, const char *file);

/* As document_edit, on a shard's header, which keeps its length. */
void drafter_edit_header(struct drafter *drafter, unsigned shard, const char *after,
			 const char *find, const char *replace);

/* Takes a tensor's entry out of the manifest. */
void drafter_drop_entry(struct drafter *drafter, const char *tensor);

/* Promises the tensor's bytes in memory as they are now. */
void drafter_promise_again(struct drafter *drafter, const char *tensor);

/* Makes a file of the root, or overwrites bytes of one. */
void drafter_put(const struct drafter *drafter, const char *file, const void *bytes, size_t count);
void drafter_poke(const struct drafter *drafter, const char *file, uint64_t offset,
		  const void *bytes, size_t count);

/* Removes what lies at a path and below it; nothing may be there. */
void drafter_remove(const char *path);

void drafter_deinit(struct drafter *drafter);

#endif
