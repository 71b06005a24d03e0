/* SPDX-License-Identifier: Apache-2.0 */
/* A list of blocks, each twice the size of the one before up to a bound. */
#include "arena.h"

#include <string.h>

#define BLOCK_BYTES_MIN ((size_t)4 << 10)
#define BLOCK_BYTES_MAX ((size_t)1 << 20)

struct rsum_arena_block {
	struct rsum_arena_block *next;
	size_t size_bytes;
	max_align_t data[];
};

void *rsum_arena_alloc(struct rsum_arena *arena, size_t size_bytes)
{
	struct rsum_arena_block *block = arena->blocks;
	size_t rounded, capacity;

	if (size_bytes > SIZE_MAX / 2)
		return NULL;
	rounded = (size_bytes + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
	if (!block || block->size_bytes - arena->used_bytes < rounded) {
		capacity = RSUM_MAX(arena->next_block_bytes, BLOCK_BYTES_MIN);
		arena->next_block_bytes = RSUM_MIN(capacity * 2, BLOCK_BYTES_MAX);
		capacity = RSUM_MAX(capacity, rounded);
		block = malloc(sizeof(*block) + capacity);
		if (!block)
			return NULL;
		block->size_bytes = capacity;
		block->next = arena->blocks;
		arena->blocks = block;
		arena->used_bytes = 0;
	}
	arena->used_bytes += rounded;
	return (char *)block->data + arena->used_bytes - rounded;
}

char *rsum_arena_copy(struct rsum_arena *arena, const char *text, size_t length)
{
	char *copy = rsum_arena_alloc(arena, length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

void rsum_arena_deinit(struct rsum_arena *arena)
{
	while (arena->blocks) {
		struct rsum_arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
	*arena = (struct rsum_arena){ 0 };
}
