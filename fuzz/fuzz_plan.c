/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges to lanes, and lanes to reads. The input is numbers: the shape of a plan, an alignment,
 * then ranges.
 *
 *	- A plan is refused exactly where a range is empty, reversed or out of bounds, or the sum
 *	  of all exceeds 64 bits.
 *	- Every range is in exactly one lane, ranges of a lane are of one shard, in order and
 *	  without overlap, and the longest lane comes first.
 *	- The reads of a lane are aligned, within the size of a chunk, follow each other without a
 *	  gap, and cover the lane from its first byte to its last with less than the alignment to
 *	  spare at either end; what they expect is what the file has.
 *	- Every byte of every range is so read exactly once.
 */
#include "fuzz.h"

#include <string.h>

#include "plan.h"
#include "rsum_limits.h"

#define RANGES_MAX 512
#define READS_LOOKED_AT 24 /* at either end of a lane */

struct setup {
	struct rsum_plan_shape shape;
	uint32_t alignment;
	uint64_t file_bytes;
	struct rsum_range ranges[RANGES_MAX];
	size_t range_count;
};

/* ---- the input --------------------------------------------------------------------------- */

/* A begin is far from, near to, or right at the end of the range before it. */
static void take_range(struct fuzz_input *input, struct setup *setup)
{
	struct rsum_range *range = &setup->ranges[setup->range_count];
	uint64_t kind = fuzz_take(input, 1);
	uint64_t before = setup->range_count ? range[-1].end : 0;

	range->shard = (uint32_t)(kind >> 6);
	range->id = (uint32_t)setup->range_count++;
	range->destination = NULL;
	switch (kind & 3) {
	case 0:
		range->begin = before;
		break;
	case 1:
		range->begin = before + fuzz_take(input, 3);
		break;
	case 2:
		range->begin = before - fuzz_take(input, 2);
		break;
	default:
		range->begin = fuzz_take(input, 8);
	}
	switch (kind >> 2 & 3) {
	case 0:
		range->end = range->begin + fuzz_take(input, 1);
		break;
	case 1:
		range->end = range->begin + fuzz_take(input, 2);
		break;
	case 2:
		range->end = range->begin + fuzz_take(input, 4);
		break;
	default:
		range->end = kind & 0x20 ? fuzz_take(input, 8)
					 : range->begin + (fuzz_take(input, 2) << 20);
	}
}

static void take_setup(struct fuzz_input *input, struct setup *setup)
{
	uint64_t kind = fuzz_take(input, 1);

	setup->alignment = UINT32_C(1) << (9 + kind % 8); /* 512 to 65,536 */
	setup->shape.chunk_bytes = RSUM_MAX(setup->alignment, UINT32_C(4096)) *
				   (uint32_t)(1 + fuzz_take(input, 2) % 1024);
	setup->shape.stream_count = (unsigned)(1 + fuzz_take(input, 1));
	setup->file_bytes = kind & 0x80 ? fuzz_take(input, 8) : UINT64_MAX;
	while (input->left && setup->range_count < RANGES_MAX)
		take_range(input, setup);
}

/* ---- lanes ------------------------------------------------------------------------------- */

static bool ranges_are_good(const struct setup *setup, uint64_t *total_out)
{
	fuzz_u128 total = 0;

	for (size_t i = 0; i < setup->range_count; i++) {
		const struct rsum_range *range = &setup->ranges[i];

		if (range->begin >= range->end || range->end > RSUM_LIMIT_FILE_OFFSET)
			return false;
		total += range->end - range->begin;
	}
	*total_out = (uint64_t)total;
	return total <= UINT64_MAX;
}

static void check_lane(const struct rsum_plan *plan, const struct rsum_lane *lane, bool *is_taken)
{
	uint64_t position = lane->begin;

	FUZZ_CHECK(lane->range_count > 0);
	FUZZ_CHECK((size_t)lane->first_range + lane->range_count <= plan->range_count);
	for (size_t i = lane->first_range; i < lane->first_range + lane->range_count; i++) {
		const struct rsum_range *range = &plan->ranges[i];

		FUZZ_CHECK(!is_taken[i] && range->shard == lane->shard);
		FUZZ_CHECK(range->begin >= position && range->end > range->begin);
		is_taken[i] = true;
		position = range->end;
	}
	FUZZ_CHECK(plan->ranges[lane->first_range].begin == lane->begin);
	FUZZ_CHECK(position == lane->end);
}

static void check_lanes(const struct rsum_plan *plan)
{
	bool is_taken[RANGES_MAX] = { false };

	for (size_t i = 0; i < plan->lane_count; i++) {
		const struct rsum_lane *lane = &plan->lanes[i];

		check_lane(plan, lane, is_taken);
		FUZZ_CHECK(i == 0 || lane->end - lane->begin <= lane[-1].end - lane[-1].begin);
	}
	for (size_t i = 0; i < plan->range_count; i++)
		FUZZ_CHECK(is_taken[i]);
}

/* The caller's ranges, each once, in another order. */
static void check_ranges(const struct rsum_plan *plan, const struct setup *given)
{
	bool is_there[RANGES_MAX] = { false };

	FUZZ_CHECK(plan->range_count == given->range_count);
	for (size_t i = 0; i < plan->range_count; i++) {
		const struct rsum_range *range = &plan->ranges[i];
		const struct rsum_range *before = &given->ranges[range->id];

		FUZZ_CHECK(range->id < given->range_count && !is_there[range->id]);
		is_there[range->id] = true;
		FUZZ_CHECK(range->begin == before->begin && range->end == before->end);
		FUZZ_CHECK(range->shard == before->shard);
	}
}

/* ---- reads ------------------------------------------------------------------------------- */

static void check_read(const struct setup *setup, const struct rsum_lane *lane,
		       const struct rsum_plan_read *read)
{
	uint64_t left = setup->file_bytes > read->offset ? setup->file_bytes - read->offset : 0;

	FUZZ_CHECK(read->offset % setup->alignment == 0 && read->length % setup->alignment == 0);
	FUZZ_CHECK(read->length > 0 && read->length <= setup->shape.chunk_bytes);
	FUZZ_CHECK(read->offset + setup->alignment > lane->begin && read->offset < lane->end);
	FUZZ_CHECK(read->offset + read->length < lane->end + setup->alignment);
	FUZZ_CHECK(read->expected == RSUM_MIN(left, (uint64_t)read->length));
	/* Nothing but the last ends elsewhere than at a multiple of the chunk. */
	if ((read->offset + read->length) % setup->shape.chunk_bytes != 0)
		FUZZ_CHECK(read->offset + read->length >= lane->end);
}

/* Adds to covered[] how much of each range of the lane a read brings. */
static void count_covered(const struct rsum_plan *plan, const struct rsum_lane *lane,
			  const struct rsum_plan_read *read, uint64_t *covered)
{
	for (size_t i = lane->first_range; i < lane->first_range + lane->range_count; i++) {
		uint64_t begin = RSUM_MAX(plan->ranges[i].begin, read->offset);
		uint64_t end = RSUM_MIN(plan->ranges[i].end, read->offset + read->length);

		if (begin < end)
			covered[i] += end - begin;
	}
}

/* True where every read of the lane was looked at, and not only those at its ends. */
static bool check_reads(const struct setup *setup, const struct rsum_plan *plan,
			const struct rsum_lane *lane, uint64_t *covered)
{
	uint64_t chunk = setup->shape.chunk_bytes;
	uint64_t cursor = rsum_lane_begin(lane, setup->alignment), position = cursor, chunks;
	struct rsum_plan_read read;
	bool is_whole = true;
	unsigned count = 0;

	FUZZ_CHECK(cursor <= lane->begin && lane->begin - cursor < setup->alignment);
	while (rsum_lane_next_read(lane, &cursor, setup->shape.chunk_bytes, setup->alignment,
				   setup->file_bytes, &read)) {
		FUZZ_CHECK(read.offset == position && cursor == read.offset + read.length);
		check_read(setup, lane, &read);
		count_covered(plan, lane, &read, covered);
		chunks = cursor < lane->end ? (lane->end - cursor) / chunk : 0;
		if (++count == READS_LOOKED_AT && chunks > READS_LOOKED_AT) {
			cursor += (chunks - READS_LOOKED_AT) * chunk;
			is_whole = false;
		}
		position = cursor;
	}
	FUZZ_CHECK(position >= lane->end && position - lane->end < setup->alignment);
	return is_whole;
}

static void check_all_reads(const struct setup *setup, const struct rsum_plan *plan)
{
	uint64_t covered[RANGES_MAX] = { 0 };

	for (size_t i = 0; i < plan->lane_count; i++) {
		const struct rsum_lane *lane = &plan->lanes[i];

		if (!check_reads(setup, plan, lane, covered))
			continue;
		for (size_t k = lane->first_range; k < lane->first_range + lane->range_count; k++)
			FUZZ_CHECK(covered[k] == plan->ranges[k].end - plan->ranges[k].begin);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct setup setup, given;
	struct fuzz_input input = { data, size };
	struct rsum_plan plan = { 0 };
	uint64_t total = 0;
	int ret;

	setup.range_count = 0;
	take_setup(&input, &setup);
	given = setup;
	ret = rsum_plan_build(setup.ranges, setup.range_count, &setup.shape, &plan);
	FUZZ_CHECK(ret == (ranges_are_good(&given, &total) ? RINGSUM_OK : RINGSUM_E_LIMIT));
	if (ret == RINGSUM_OK) {
		FUZZ_CHECK(plan.bytes_total == total);
		check_ranges(&plan, &given);
		check_lanes(&plan);
		check_all_reads(&setup, &plan);
	} else {
		FUZZ_CHECK(plan.lane_count == 0 && !plan.lanes);
	}
	rsum_plan_deinit(&plan);
	return 0;
}
