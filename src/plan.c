/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges to lanes, and lanes to reads. */
#include "plan.h"

#include "ringsum.h"
#include "rsum_limits.h"

/* Small tensors share a lane up to a share of the whole, so that every stream gets several. */
#define LANES_PER_STREAM 8
#define LANE_BYTES_MAX (UINT64_C(64) << 20)

/* Bytes that nobody promised are read along rather than beginning another lane behind them. */
#define GAP_BYTES_MAX (UINT64_C(64) << 10)

static int compare_ranges(const void *a_ptr, const void *b_ptr)
{
	const struct rsum_range *a = a_ptr, *b = b_ptr;

	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* Longest first; lanes of one length in the order of the disk. */
static int compare_lanes(const void *a_ptr, const void *b_ptr)
{
	const struct rsum_lane *a = a_ptr, *b = b_ptr;
	uint64_t a_bytes = a->end - a->begin, b_bytes = b->end - b->begin;

	if (a_bytes != b_bytes)
		return a_bytes > b_bytes ? -1 : 1;
	return a->first_range < b->first_range ? -1 : a->first_range > b->first_range;
}

static bool range_joins(const struct rsum_lane *lane, const struct rsum_range *range,
			uint64_t lane_bytes)
{
	return range->shard == lane->shard && range->algorithm == lane->algorithm &&
	       range->begin >= lane->end && range->begin - lane->end <= GAP_BYTES_MAX &&
	       range->end - lane->begin <= lane_bytes;
}

static uint64_t choose_lane_bytes(uint64_t bytes_total, const struct rsum_plan_shape *shape)
{
	uint64_t lane_bytes = bytes_total / ((uint64_t)shape->stream_count * LANES_PER_STREAM);

	return RSUM_MAX(RSUM_MIN(lane_bytes, LANE_BYTES_MAX), shape->chunk_bytes);
}

int rsum_plan_build(struct rsum_range *ranges, size_t range_count,
		    const struct rsum_plan_shape *shape, struct rsum_plan *out)
{
	struct rsum_lane *lanes, *lane = NULL;
	uint64_t bytes_total = 0, lane_bytes;
	size_t lane_count = 0, i;

	if (range_count > UINT32_MAX)
		return RINGSUM_E_LIMIT;
	for (i = 0; i < range_count; i++) {
		if (ranges[i].end <= ranges[i].begin || ranges[i].end > RSUM_LIMIT_FILE_OFFSET)
			return RINGSUM_E_LIMIT;
		if (!rsum_add_u64(bytes_total, ranges[i].end - ranges[i].begin, &bytes_total))
			return RINGSUM_E_LIMIT;
	}
	lanes = calloc(range_count ? range_count : 1, sizeof(*lanes));
	if (!lanes)
		return RINGSUM_E_NOMEM;
	if (range_count)
		qsort(ranges, range_count, sizeof(*ranges), compare_ranges);
	lane_bytes = choose_lane_bytes(bytes_total, shape);
	for (i = 0; i < range_count; i++) {
		if (lane && range_joins(lane, &ranges[i], lane_bytes)) {
			lane->end = ranges[i].end;
			lane->range_count++;
			continue;
		}
		lane = &lanes[lane_count++];
		*lane = (struct rsum_lane){
			.begin = ranges[i].begin,
			.end = ranges[i].end,
			.shard = ranges[i].shard,
			.algorithm = ranges[i].algorithm,
			.first_range = (uint32_t)i,
			.range_count = 1,
		};
	}
	if (lane_count)
		qsort(lanes, lane_count, sizeof(*lanes), compare_lanes);
	*out = (struct rsum_plan){
		.ranges = ranges,
		.range_count = range_count,
		.lanes = lanes,
		.lane_count = lane_count,
		.bytes_total = bytes_total,
	};
	return RINGSUM_OK;
}

void rsum_plan_deinit(struct rsum_plan *plan)
{
	free(plan->lanes);
	*plan = (struct rsum_plan){ 0 };
}

uint64_t rsum_lane_begin(const struct rsum_lane *lane, uint32_t alignment)
{
	return rsum_align_down(lane->begin, alignment);
}

bool rsum_lane_next_read(const struct rsum_lane *lane, uint64_t *cursor, uint32_t chunk_bytes,
			 uint32_t alignment, uint64_t file_bytes, struct rsum_plan_read *read_out)
{
	uint64_t end = rsum_align_up(lane->end, alignment), length;

	if (*cursor >= end)
		return false;
	length = RSUM_MIN(end - *cursor, chunk_bytes - *cursor % chunk_bytes);
	read_out->offset = *cursor;
	read_out->length = (uint32_t)length;
	read_out->expected =
		file_bytes > *cursor ? (uint32_t)RSUM_MIN(length, file_bytes - *cursor) : 0;
	*cursor += length;
	return true;
}
