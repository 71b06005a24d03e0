/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promised ranges become lanes of aligned, bounded reads. Pure: no files, no threads.
 *
 * A lane is one shard's run of ranges, read in order. sha256 is serial within a tensor, so a
 * large tensor is a lane of its own and small neighbours share one; lanes are ordered longest
 * first, since a long lane that begins late would run alone at the end.
 */
#ifndef RSUM_PLAN_H
#define RSUM_PLAN_H

#include "base.h"
#include "digest.h"

struct rsum_range {
	uint64_t begin; /* first byte in the shard */
	uint64_t end;	/* one past the last; end > begin, at most RSUM_LIMIT_FILE_OFFSET */
	uint32_t shard; /* the caller's number of the file */
	uint32_t id;	/* the caller's number of the range */
	enum rsum_algorithm algorithm;
	uint8_t *destination;		/* where its bytes are wanted too, or NULL */
	const uint8_t *promised_digest; /* to count what differs while it is read; or NULL */
};

struct rsum_lane {
	uint64_t begin; /* of its first range */
	uint64_t end;	/* of its last range */
	uint32_t shard;
	enum rsum_algorithm algorithm; /* of all its ranges */
	uint32_t first_range;	       /* in rsum_plan.ranges */
	uint32_t range_count;
};

struct rsum_plan_shape {
	uint32_t chunk_bytes;  /* one read; a multiple of 4,096 */
	unsigned stream_count; /* lanes that can be hashed at the same time */
};

/* All zero is the empty state. */
struct rsum_plan {
	struct rsum_range *ranges; /* sorted by shard, begin; the caller's array */
	size_t range_count;
	struct rsum_lane *lanes; /* longest first; owned */
	size_t lane_count;
	uint64_t bytes_total; /* of all ranges */
};

/*
 * Builds a plan over `ranges`, which are sorted in place and stay the caller's. Returns 0,
 * RINGSUM_E_NOMEM, or RINGSUM_E_LIMIT for a range that is empty, reversed or out of bounds.
 */
RSUM_MUST_CHECK int rsum_plan_build(struct rsum_range *ranges, size_t range_count,
				    const struct rsum_plan_shape *shape, struct rsum_plan *out);

void rsum_plan_deinit(struct rsum_plan *plan);

/* One aligned read of a lane. */
struct rsum_plan_read {
	uint64_t offset;   /* aligned */
	uint32_t length;   /* aligned; reaches past the end of the file at most by the alignment */
	uint32_t expected; /* bytes that the file has there */
};

/*
 * The read of `lane` that begins at *cursor, which it advances; start with rsum_lane_begin.
 * False where the lane is read. Reads end at multiples of the chunk in the file, since a device
 * that is laid out in such pieces then serves each from one: reads at odd offsets came to 0.94 of
 * the rate, for fio as well as here. Example, chunk 8,192 and alignment 4,096: the lane
 * [5000, 17000) of a 17,500-byte file is read as [4096, 8192), [8192, 16384) and [16384, 20480),
 * of which 1,116 bytes come.
 */
RSUM_MUST_CHECK bool rsum_lane_next_read(const struct rsum_lane *lane, uint64_t *cursor,
					 uint32_t chunk_bytes, uint32_t alignment,
					 uint64_t file_bytes, struct rsum_plan_read *read_out);

/* Where the lane's first read begins. */
uint64_t rsum_lane_begin(const struct rsum_lane *lane, uint32_t alignment);

#endif
