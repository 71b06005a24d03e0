/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is given piece by piece and freed all at once. */
#ifndef RSUM_ARENA_H
#define RSUM_ARENA_H

#include "base.h"

struct rsum_arena_block;

/* All zero is the empty state. */
struct rsum_arena {
	struct rsum_arena_block *blocks; /* newest first */
	size_t used_bytes;		 /* of the newest block */
	size_t next_block_bytes;
};

/* `size_bytes` of memory aligned for any type, not zeroed, or NULL. */
RSUM_MUST_CHECK void *rsum_arena_alloc(struct rsum_arena *arena, size_t size_bytes);

/* A NUL-terminated copy of `length` bytes, or NULL. */
RSUM_MUST_CHECK char *rsum_arena_copy(struct rsum_arena *arena, const char *text, size_t length);

void rsum_arena_deinit(struct rsum_arena *arena);

#endif
