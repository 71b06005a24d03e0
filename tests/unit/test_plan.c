/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: every promised byte is read exactly in its lane, aligned, bounded, longest lane first. */
#include "plan.h"

#include "delivery.h"
#include "ringsum.h"
#include "rsum_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEED UINT64_C(4711)
#define RANGES_MAX 400

static const struct rsum_plan_shape small = { .chunk_bytes = 65536, .stream_count = 6 };

/* Random ranges: mostly neighbours, some gaps, some overlaps, a few very large ones. */
static size_t make_ranges(struct rsum_range *ranges, uint64_t *random)
{
	size_t count = delivery_random(random) % RANGES_MAX, i;
	uint64_t at = delivery_random(random) % 5000;

	for (i = 0; i < count; i++) {
		uint64_t size = 1 + delivery_random(random) % 5000;

		if (delivery_random(random) % 20 == 0)
			size = delivery_random(random) % (UINT64_C(1) << 30) + 1;
		if (delivery_random(random) % 10 == 0)
			at += delivery_random(random) % 200000;
		if (delivery_random(random) % 30 == 0)
			at = delivery_random(random) % 100000;
		ranges[i] = (struct rsum_range){
			.begin = at,
			.end = at + size,
			.shard = (uint32_t)(delivery_random(random) % 4),
			.id = (uint32_t)i,
		};
		at += size;
	}
	return count;
}

/* Walks the reads of a lane: aligned, in order, without holes, and no more than they must be. */
static void check_reads(const struct rsum_lane *lane, uint32_t chunk_bytes, uint32_t alignment)
{
	uint64_t cursor = rsum_lane_begin(lane, alignment), file_bytes = lane->end + 17,
		 at = cursor;
	struct rsum_plan_read read;
	uint64_t reads = 0;

	assert_true(cursor <= lane->begin && lane->begin - cursor < alignment);
	while (rsum_lane_next_read(lane, &cursor, chunk_bytes, alignment, file_bytes, &read)) {
		assert_int_equal(read.offset, at);
		assert_int_equal(read.offset % alignment, 0);
		assert_int_equal(read.length % alignment, 0);
		assert_true(read.length > 0 && read.length <= chunk_bytes);
		assert_true(cursor % chunk_bytes == 0 || cursor >= lane->end);
		assert_int_equal(read.expected, RSUM_MIN(read.length, file_bytes - read.offset));
		at += read.length;
		reads++;
	}
	assert_true(at >= lane->end && at - lane->end < alignment);
	assert_true(reads <= (lane->end - lane->begin) / chunk_bytes + 2);
}

static void check_plan(const struct rsum_plan *plan, const struct rsum_plan_shape *shape)
{
	bool is_seen[RANGES_MAX] = { false };
	uint64_t bytes = 0;
	size_t seen = 0, l;
	uint32_t r;

	for (l = 0; l < plan->lane_count; l++) {
		const struct rsum_lane *lane = &plan->lanes[l];
		uint64_t at = lane->begin;

		assert_true(lane->range_count >= 1);
		if (l > 0)
			assert_true(plan->lanes[l - 1].end - plan->lanes[l - 1].begin >=
				    lane->end - lane->begin);
		for (r = lane->first_range; r < lane->first_range + lane->range_count; r++) {
			const struct rsum_range *range = &plan->ranges[r];

			assert_false(is_seen[range->id]);
			is_seen[range->id] = true;
			seen++;
			bytes += range->end - range->begin;
			assert_int_equal(range->shard, lane->shard);
			/* A worker walks a lane once: its ranges neither overlap nor go back. */
			assert_true(range->begin >= at);
			at = range->end;
		}
		assert_int_equal(at, lane->end);
		check_reads(lane, shape->chunk_bytes, 4096);
		check_reads(lane, shape->chunk_bytes, 65536);
	}
	assert_int_equal(seen, plan->range_count);
	assert_int_equal(bytes, plan->bytes_total);
}

static void test_random_plans(void **state)
{
	static struct rsum_range ranges[RANGES_MAX];
	uint64_t random = SEED;
	unsigned i;

	(void)state;
	for (i = 0; i < 500; i++) {
		struct rsum_plan plan;
		size_t count = make_ranges(ranges, &random);

		assert_int_equal(rsum_plan_build(ranges, count, &small, &plan), RINGSUM_OK);
		check_plan(&plan, &small);
		rsum_plan_deinit(&plan);
	}
}

static void test_large_tensor_is_a_lane_of_its_own(void **state)
{
	struct rsum_range ranges[] = {
		{ .begin = 100, .end = 200, .id = 0 },
		{ .begin = 200, .end = 200 + (UINT64_C(64) << 20), .id = 1 },
		{ .begin = 200 + (UINT64_C(64) << 20), .end = 300 + (UINT64_C(64) << 20), .id = 2 },
	};
	struct rsum_plan plan;

	(void)state;
	assert_int_equal(rsum_plan_build(ranges, 3, &small, &plan), RINGSUM_OK);
	assert_int_equal(plan.lane_count, 3);
	assert_int_equal(plan.ranges[plan.lanes[0].first_range].id, 1);
	rsum_plan_deinit(&plan);
}

static void test_order_of_input_changes_nothing(void **state)
{
	static struct rsum_range ranges[RANGES_MAX], shuffled[RANGES_MAX];
	struct rsum_plan plan, other;
	uint64_t random = SEED;
	size_t count = 0, i;

	(void)state;
	while (count < 100)
		count = make_ranges(ranges, &random);
	memcpy(shuffled, ranges, sizeof(ranges));
	for (i = count; i > 1; i--) {
		size_t j = delivery_random(&random) % i;
		struct rsum_range swap = shuffled[i - 1];

		shuffled[i - 1] = shuffled[j];
		shuffled[j] = swap;
	}
	assert_int_equal(rsum_plan_build(ranges, count, &small, &plan), RINGSUM_OK);
	assert_int_equal(rsum_plan_build(shuffled, count, &small, &other), RINGSUM_OK);
	assert_int_equal(plan.lane_count, other.lane_count);
	assert_memory_equal(plan.lanes, other.lanes, plan.lane_count * sizeof(*plan.lanes));
	for (i = 0; i < count; i++)
		assert_int_equal(plan.ranges[i].id, other.ranges[i].id);
	rsum_plan_deinit(&plan);
	rsum_plan_deinit(&other);
}

static void test_refuses_what_cannot_be_read(void **state)
{
	static const struct rsum_range wrong[] = {
		{ .begin = 5, .end = 5 },
		{ .begin = 6, .end = 5 },
		{ .begin = 0, .end = RSUM_LIMIT_FILE_OFFSET + 1 },
		{ .begin = UINT64_MAX - 1, .end = UINT64_MAX },
	};
	struct rsum_plan plan = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < RSUM_COUNT_OF(wrong); i++) {
		struct rsum_range range = wrong[i];

		assert_int_equal(rsum_plan_build(&range, 1, &small, &plan), RINGSUM_E_LIMIT);
	}
	assert_int_equal(rsum_plan_build(NULL, 0, &small, &plan), RINGSUM_OK);
	assert_int_equal(plan.lane_count, 0);
	rsum_plan_deinit(&plan);
}

/* The worked example of the header. */
static void test_example(void **state)
{
	static const struct rsum_plan_read expected[] = {
		{ .offset = 4096, .length = 4096, .expected = 4096 },
		{ .offset = 8192, .length = 8192, .expected = 8192 },
		{ .offset = 16384, .length = 4096, .expected = 1116 },
	};
	const struct rsum_lane lane = { .begin = 5000, .end = 17000 };
	uint64_t cursor = rsum_lane_begin(&lane, 4096);
	struct rsum_plan_read read;
	size_t i;

	(void)state;
	for (i = 0; i < RSUM_COUNT_OF(expected); i++) {
		assert_true(rsum_lane_next_read(&lane, &cursor, 8192, 4096, 17500, &read));
		assert_int_equal(read.offset, expected[i].offset);
		assert_int_equal(read.length, expected[i].length);
		assert_int_equal(read.expected, expected[i].expected);
	}
	assert_false(rsum_lane_next_read(&lane, &cursor, 8192, 4096, 17500, &read));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_plans),
		cmocka_unit_test(test_large_tensor_is_a_lane_of_its_own),
		cmocka_unit_test(test_order_of_input_changes_nothing),
		cmocka_unit_test(test_refuses_what_cannot_be_read),
		cmocka_unit_test(test_example),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
