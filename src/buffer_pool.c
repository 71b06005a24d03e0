/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's memory. Physically contiguous pages matter more to direct I/O than anything else:
 * scattered 4 KiB pages fill a device's descriptor ring. So huge pages are tried first.
 */
#include "buffer_pool.h"

#include "ringsum.h"

#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint8_t *map_anonymous(size_t size_bytes, int extra_flags)
{
	void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Maps more than is needed and trims both ends, so that transparent huge pages can serve it. */
static uint8_t *map_huge_aligned(size_t size_bytes)
{
	uint8_t *memory = map_anonymous(size_bytes + HUGE_PAGE_BYTES, 0);
	size_t before;

	if (!memory)
		return NULL;
	before = (HUGE_PAGE_BYTES - ((uintptr_t)memory & (HUGE_PAGE_BYTES - 1))) &
		 (HUGE_PAGE_BYTES - 1);
	if (before)
		munmap(memory, before);
	munmap(memory + before + size_bytes, HUGE_PAGE_BYTES - before);
	return memory + before;
}

static int map_pool(struct rsum_buffer_pool *pool, size_t size_bytes)
{
	pool->mapped_bytes = (size_t)rsum_align_up(size_bytes, HUGE_PAGE_BYTES);
	pool->page_kind = RSUM_PAGES_HUGE;
	pool->memory = map_anonymous(pool->mapped_bytes, MAP_HUGETLB | MAP_POPULATE);
	if (pool->memory)
		return RINGSUM_OK;
	pool->memory = map_huge_aligned(pool->mapped_bytes);
	if (!pool->memory)
		return RINGSUM_E_NOMEM;
	pool->page_kind = RSUM_PAGES_SMALL;
	if (madvise(pool->memory, pool->mapped_bytes, MADV_HUGEPAGE) == 0)
		pool->page_kind = RSUM_PAGES_TRANSPARENT_HUGE;
	/* Older kernels do not know it; then the pages come on first use. */
	(void)madvise(pool->memory, pool->mapped_bytes, MADV_POPULATE_WRITE);
	return RINGSUM_OK;
}

int rsum_buffer_pool_init(struct rsum_buffer_pool *pool, uint32_t buffer_count,
			  uint32_t chunk_bytes)
{
	uint32_t i;

	*pool = (struct rsum_buffer_pool){ .buffer_count = buffer_count };
	pool->buffers = calloc(buffer_count, sizeof(*pool->buffers));
	if (!pool->buffers)
		return RINGSUM_E_NOMEM;
	if (map_pool(pool, (size_t)buffer_count * chunk_bytes) != RINGSUM_OK) {
		rsum_buffer_pool_deinit(pool);
		return RINGSUM_E_NOMEM;
	}
	for (i = buffer_count; i-- > 0;) {
		pool->buffers[i].index = i;
		pool->buffers[i].memory = pool->memory + (size_t)i * chunk_bytes;
		pool->buffers[i].next = pool->free_list;
		pool->free_list = &pool->buffers[i];
	}
	pool->free_count = buffer_count;
	return RINGSUM_OK;
}

void rsum_buffer_pool_deinit(struct rsum_buffer_pool *pool)
{
	if (pool->memory)
		munmap(pool->memory, pool->mapped_bytes);
	free(pool->buffers);
	*pool = (struct rsum_buffer_pool){ 0 };
}

struct rsum_buffer *rsum_buffer_acquire(struct rsum_buffer_pool *pool)
{
	struct rsum_buffer *buffer = pool->free_list;

	if (!buffer)
		return NULL;
	RSUM_ASSERT(buffer->state == RSUM_BUFFER_FREE);
	pool->free_list = buffer->next;
	pool->free_count--;
	buffer->next = NULL;
	buffer->state = RSUM_BUFFER_READING;
	buffer->data = buffer->memory;
	buffer->error = 0;
	buffer->attempts = 0;
	buffer->left_fd = -1;
	buffer->left_bytes = 0;
	return buffer;
}

void rsum_buffer_release(struct rsum_buffer_pool *pool, struct rsum_buffer *buffer)
{
	RSUM_ASSERT(buffer->state == RSUM_BUFFER_HASHING || buffer->state == RSUM_BUFFER_READING);
	buffer->state = RSUM_BUFFER_FREE;
	buffer->lane = NULL;
	buffer->next = pool->free_list;
	pool->free_list = buffer;
	pool->free_count++;
}

const char *rsum_page_kind_name(enum rsum_page_kind kind)
{
	switch (kind) {
	case RSUM_PAGES_HUGE:
		return "huge";
	case RSUM_PAGES_TRANSPARENT_HUGE:
		return "transparent-huge";
	case RSUM_PAGES_SMALL:
		break;
	}
	return "small";
}
