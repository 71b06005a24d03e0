/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed set of aligned buffers. One owner at a time:
 *
 *	FREE -> READING -> READY -> HASHING -> FREE
 *
 * The event loop takes and gives back; a read moves a buffer to READY, a worker to HASHING.
 */
#ifndef RSUM_BUFFER_POOL_H
#define RSUM_BUFFER_POOL_H

#include "base.h"

enum rsum_buffer_state {
	RSUM_BUFFER_FREE,
	RSUM_BUFFER_READING,
	RSUM_BUFFER_READY,
	RSUM_BUFFER_HASHING,
};

enum rsum_page_kind {
	RSUM_PAGES_SMALL,
	RSUM_PAGES_TRANSPARENT_HUGE, /* asked for with MADV_HUGEPAGE and populated */
	RSUM_PAGES_HUGE,	     /* MAP_HUGETLB */
};

struct rsum_hash_lane;

/* One chunk on its way. `data` is the buffer's own memory, or the caller's for a direct read. */
struct rsum_buffer {
	uint8_t *memory; /* fixed: chunk_bytes in the pool */
	uint8_t *data;	 /* where this read lands */
	enum rsum_buffer_state state;
	uint32_t index;	   /* fixed: in the pool */
	uint32_t length;   /* bytes asked for */
	uint32_t expected; /* bytes that the file should give */
	uint64_t offset;   /* in the shard */
	int error;	   /* 0, or a negative errno: no byte of it may be used */
	unsigned attempts;
	int left_fd;	     /* to read it from, where that is left to who hashes it; else -1 */
	uint32_t left_bytes; /* so many were read that way */
	struct rsum_hash_lane *lane;
	struct rsum_buffer *next; /* in the free list or the lane's queue */
};

/* All zero is the empty state. */
struct rsum_buffer_pool {
	uint8_t *memory;
	size_t mapped_bytes;
	enum rsum_page_kind page_kind;
	struct rsum_buffer *buffers;
	uint32_t buffer_count;
	struct rsum_buffer *free_list;
	uint32_t free_count;
};

/* Returns 0 or RINGSUM_E_NOMEM. */
RSUM_MUST_CHECK int rsum_buffer_pool_init(struct rsum_buffer_pool *pool, uint32_t buffer_count,
					  uint32_t chunk_bytes);
void rsum_buffer_pool_deinit(struct rsum_buffer_pool *pool);

/* FREE -> READING, or NULL where none is free. */
struct rsum_buffer *rsum_buffer_acquire(struct rsum_buffer_pool *pool);
/* HASHING or READING -> FREE. */
void rsum_buffer_release(struct rsum_buffer_pool *pool, struct rsum_buffer *buffer);

/* "huge", "transparent-huge", "small". */
const char *rsum_page_kind_name(enum rsum_page_kind kind);

#endif
