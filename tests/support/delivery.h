/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small checkpoint of any tensors, on disk with its manifest (no profile), for tests of the
 * reading side. Aborts the test where it cannot be made.
 */
#ifndef TESTS_SUPPORT_DELIVERY_H
#define TESTS_SUPPORT_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DELIVERY_RANK_MAX 3

struct delivery_tensor {
	char name[64];
	const char *dtype;
	unsigned rank;
	uint64_t shape[DELIVERY_RANK_MAX];
	unsigned shard;
	uint64_t size_bytes;
	uint64_t begin; /* in the shard, once written */
	uint8_t *bytes; /* as written, and as promised */
};

struct delivery {
	char root[64]; /* a directory of its own */
	struct delivery_tensor *tensors;
	size_t count;
	unsigned shard_count;
};

/* A new empty directory below $TMPDIR or /tmp, or below `parent` where it is not NULL. */
void delivery_init(struct delivery *delivery, const char *parent);

/* A U8 tensor of that many bytes; rank 0 where size_bytes is 1 and `is_scalar`. */
void delivery_add(struct delivery *delivery, unsigned shard, const char *name, uint64_t size_bytes,
		  bool is_scalar);

/*
 * Many tensors of the kinds that matter: empty, 0-dim, 1 byte, around a block and a page, larger
 * than a chunk of 64 KiB, and crowds of tiny ones; over `shard_count` shards.
 */
void delivery_add_mixture(struct delivery *delivery, unsigned shard_count, uint64_t seed);

/* Writes shards and TENSORS.json with bytes from the seed. Odd headers shift all offsets. */
void delivery_write(struct delivery *delivery, uint64_t seed, bool is_unaligned);

/* The shard's path in a static buffer. */
const char *delivery_shard_path(const struct delivery *delivery, unsigned shard);

/* Inverts one bit of a tensor on disk (and back again when called twice). */
void delivery_flip(const struct delivery *delivery, size_t tensor, uint64_t byte, unsigned bit);

/* Removes the directory and frees all. */
void delivery_deinit(struct delivery *delivery);

/* A small generator that is the same everywhere. */
uint64_t delivery_random(uint64_t *state);

#endif
