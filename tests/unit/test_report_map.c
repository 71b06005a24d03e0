/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of random shards against what has to hold of them, and the points of a curve. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "delivery.h"
#include "report_map.h"
#include "rsum_limits.h"

#define SEED UINT64_C(20261203)
#define SHARDS 5
#define SHARD_BYTES 4000

/* ---- a random checkpoint, and which bytes of it are damaged ------------------------------------- */

struct world {
	struct ringsum_tensor tensors[400];
	struct rsum_map_item items[400];
	size_t count;
	struct rsum_map_source sources[SHARDS];
	bool is_damaged[SHARDS][SHARD_BYTES];
};

static struct world world;

static void add_tensor(uint32_t shard, uint64_t begin, uint64_t end, uint64_t *random)
{
	static const uint8_t states[] = { RSUM_MAP_PROVEN, RSUM_MAP_PROVEN, RSUM_MAP_REFUSED,
					  RSUM_MAP_UNDECIDED };
	struct ringsum_tensor *tensor = &world.tensors[world.count];
	struct rsum_map_item *item = &world.items[world.count++];

	*tensor = (struct ringsum_tensor){ .name = "t", .begin = begin, .end = end };
	tensor->size_bytes = end - begin;
	*item = (struct rsum_map_item){ .tensor = tensor, .shard = shard };
	item->state = states[delivery_random(random) % 4];
	item->is_damaged = item->state == RSUM_MAP_REFUSED && delivery_random(random) % 4 > 0;
	for (uint64_t i = begin; item->is_damaged && i < end; i++)
		world.is_damaged[shard][i] = true;
}

/* A promise of the whole shard that does not hold: all is damaged but what tensors prove. */
static void add_file(uint32_t shard)
{
	struct ringsum_tensor *file = &world.tensors[world.count];
	size_t count = world.count;

	*file = (struct ringsum_tensor){ .name = "s", .end = SHARD_BYTES };
	world.items[world.count++] = (struct rsum_map_item){ .tensor = file,
							     .shard = shard,
							     .state = RSUM_MAP_REFUSED,
							     .is_damaged = true,
							     .is_file = true };
	memset(world.is_damaged[shard], 1, SHARD_BYTES);
	for (size_t i = 0; i < count; i++)
		if (world.items[i].shard == shard && world.items[i].state == RSUM_MAP_PROVEN)
			memset(world.is_damaged[shard] + world.items[i].tensor->begin, 0,
			       world.items[i].tensor->end - world.items[i].tensor->begin);
}

static void make_world(uint64_t *random)
{
	memset(&world, 0, sizeof(world));
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		uint64_t at = 100;

		world.sources[shard] = (struct rsum_map_source){
			.name = "s",
			.is_there = true,
			.size_bytes = SHARD_BYTES,
			.data_begin = 100,
			.data_end = SHARD_BYTES,
			.refetch_begin = RSUM_MAP_NOT_AT_ALL,
		};
		while (at < SHARD_BYTES - 300) {
			uint64_t end = at + delivery_random(random) % 200;

			if (delivery_random(random) % 5 > 0)
				add_tensor(shard, at, end, random);
			at = end;
		}
		if (delivery_random(random) % 3 == 0)
			add_file(shard);
		if (delivery_random(random) % 3 == 0) {
			world.sources[shard].refetch_begin = delivery_random(random) % SHARD_BYTES;
			memset(world.is_damaged[shard] + world.sources[shard].refetch_begin, 1,
			       SHARD_BYTES - world.sources[shard].refetch_begin);
		}
	}
	for (size_t i = world.count; i > 1; i--) {
		size_t other = delivery_random(random) % i;
		struct rsum_map_item item = world.items[other];

		world.items[other] = world.items[i - 1];
		world.items[i - 1] = item;
	}
}

/* Ranges are exactly the damaged bytes, and neither touch nor overlap. */
static const char *check_ranges(const struct rsum_map *map)
{
	static bool is_listed[SHARDS][SHARD_BYTES];

	memset(is_listed, 0, sizeof(is_listed));
	for (size_t i = 0; i < map->range_count; i++) {
		const struct rsum_map_range *range = &map->ranges[i];

		if (i > 0 && (range[-1].shard > range->shard ||
			      (range[-1].shard == range->shard && range[-1].end >= range->begin)))
			return "ranges touch, overlap or are out of order";
		if (range->begin >= range->end)
			return "an empty range";
		for (uint64_t at = range->begin; at < RSUM_MIN(range->end, SHARD_BYTES); at++)
			is_listed[range->shard][at] = true;
		if (range->end > SHARD_BYTES && range->end != RSUM_MAP_TO_THE_END)
			return "a range past the end";
	}
	return memcmp(is_listed, world.is_damaged, sizeof(is_listed)) ? "other bytes are listed"
								      : NULL;
}

/* Cells tile their shard from its first byte to its last, and count every tensor once. */
static const char *check_cells(const struct rsum_map *map)
{
	size_t tensors = 0;

	for (size_t i = 0; i < map->shard_count; i++) {
		const struct rsum_map_shard *shard = &map->shards[i];
		bool is_covered = false;
		uint64_t at = 0;

		for (size_t j = 0; j < shard->cell_count; j++) {
			const struct rsum_map_cell *cell = &map->cells[shard->first_cell + j];

			tensors += cell->tensor_count;
			if (cell->is_file) {
				is_covered = true;
				continue;
			}
			if (cell->begin != at || cell->end < cell->begin)
				return "cells do not tile the shard";
			at = cell->end;
			if (cell->tensor_count > 0 && cell->counts[cell->state] == 0)
				return "a state that nothing in the cell has";
			if (cell->tensor_count == 0 &&
			    is_covered != (cell->state == RSUM_MAP_REFUSED))
				return "a gap of another state than the file";
		}
		if (at != SHARD_BYTES)
			return "cells end before the shard does";
	}
	return tensors == world.count ? NULL : "tensors are lost";
}

static void test_random_checkpoints(void **state)
{
	uint64_t random = SEED;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct rsum_map *map = calloc(1, sizeof(*map));
		const char *fault;

		assert_non_null(map);
		make_world(&random);
		assert_int_equal(
			rsum_map_fill(map, world.items, world.count, world.sources, SHARDS), 0);
		fault = check_ranges(map);
		if (!fault)
			fault = check_cells(map);
		if (fault)
			fail_msg("seed %llu, round %u: %s", (unsigned long long)SEED, round, fault);
		rsum_map_free(map);
	}
}

/* ---- bounds ------------------------------------------------------------------------------------- */

#define CROWD 200000

/* Every second one is refused and none touches the next: the worst that a manifest can do. */
static void test_crowd_is_bounded(void **state)
{
	const struct rsum_map_source source = { .name = "s",
						.is_there = true,
						.size_bytes = CROWD * 4,
						.data_begin = 1,
						.data_end = CROWD * 4,
						.refetch_begin = RSUM_MAP_NOT_AT_ALL };
	struct ringsum_tensor *tensors = calloc(CROWD, sizeof(*tensors));
	struct rsum_map_item *items = calloc(CROWD, sizeof(*items));
	struct rsum_map *map = calloc(1, sizeof(*map));
	uint64_t tensor_count = 0, refused = 0;

	(void)state;
	assert_true(tensors && items && map);
	for (size_t i = 0; i < CROWD; i++) {
		tensors[i] = (struct ringsum_tensor){
			.name = "t", .begin = i * 4 + 1, .end = i * 4 + 3, .size_bytes = 2
		};
		items[i].tensor = &tensors[i];
		items[i].state = i % 2 ? RSUM_MAP_REFUSED : RSUM_MAP_PROVEN;
		items[i].is_damaged = i % 2;
	}
	assert_int_equal(rsum_map_fill(map, items, CROWD, &source, 1), 0);
	assert_true(map->cell_count <= 5 * RSUM_LIMIT_MAP_CELLS);
	for (size_t i = 0; i < map->cell_count; i++) {
		tensor_count += map->cells[i].tensor_count;
		refused += map->cells[i].counts[RSUM_MAP_REFUSED];
		/* What is refused is never hidden by its neighbours. */
		assert_true(map->cells[i].counts[RSUM_MAP_REFUSED] == 0 ||
			    map->cells[i].state == RSUM_MAP_REFUSED);
	}
	assert_int_equal(tensor_count, CROWD);
	assert_int_equal(refused, CROWD / 2);
	assert_int_equal(map->range_count, CROWD / 2); /* of these none is left out */
	rsum_map_free(map);
	free(items);
	free(tensors);
}

/* Of very many shards those that are not clean are drawn, wherever they stand. */
static void test_unclean_shards_are_drawn(void **state)
{
	static struct rsum_map_source sources[RSUM_LIMIT_MAP_SHARDS + 500];
	static const struct ringsum_tensor tensor = { .name = "t", .begin = 8, .end = 9 };
	static struct rsum_map_item items[RSUM_COUNT_OF(sources)];
	struct rsum_map *map = calloc(1, sizeof(*map));
	size_t count = RSUM_COUNT_OF(sources), drawn = 0;

	(void)state;
	assert_non_null(map);
	for (size_t i = 0; i < count; i++) {
		sources[i] = (struct rsum_map_source){ .name = "s",
						       .refetch_begin = RSUM_MAP_NOT_AT_ALL };
		items[i] = (struct rsum_map_item){ .tensor = &tensor,
						   .shard = (uint32_t)i,
						   .state = i >= count - 7 ? RSUM_MAP_UNDECIDED
									   : RSUM_MAP_PROVEN };
	}
	assert_int_equal(rsum_map_fill(map, items, count, sources, count), 0);
	for (size_t i = 0; i < count; i++) {
		drawn += map->shards[i].is_drawn;
		assert_true(map->shards[i].is_drawn || i < count - 7);
	}
	assert_int_equal(drawn, RSUM_LIMIT_MAP_SHARDS);
	rsum_map_free(map);
}

/* Promises that lie over each other, of no bytes, or behind the end, as hostile ones do. */
static void test_odd_promises(void **state)
{
	static const struct ringsum_tensor tensors[] = {
		{ .name = "whole", .begin = 0, .end = UINT64_C(1) << 62, .rank = 0 },
		{ .name = "empty", .begin = 50, .end = 50 },
		{ .name = "inside", .begin = 20, .end = 30 },
		{ .name = "inside", .begin = 20, .end = 30 },
	};
	struct rsum_map_item items[RSUM_COUNT_OF(tensors)];
	const struct rsum_map_source source = { .name = "gone", .refetch_begin = 0 };
	struct rsum_map *map = calloc(1, sizeof(*map));

	(void)state;
	assert_non_null(map);
	for (size_t i = 0; i < RSUM_COUNT_OF(tensors); i++)
		items[i] = (struct rsum_map_item){ .tensor = &tensors[i],
						   .state = RSUM_MAP_REFUSED,
						   .is_damaged = true };
	assert_int_equal(rsum_map_fill(map, items, RSUM_COUNT_OF(items), &source, 1), 0);
	assert_int_equal(map->shards[0].scale_bytes, UINT64_C(1) << 62);
	assert_int_equal(map->shards[0].counts[RSUM_MAP_REFUSED], 4);
	assert_int_equal(map->range_count, 1);
	assert_int_equal(map->ranges[0].begin, 0);
	assert_true(map->ranges[0].end == RSUM_MAP_TO_THE_END);
	rsum_map_free(map);
	map = calloc(1, sizeof(*map));
	assert_non_null(map);
	assert_int_equal(rsum_map_fill(map, items, 0, &source, 0), 0);
	assert_int_equal(map->range_count + map->cell_count + map->shard_count, 0);
	rsum_map_free(map);
	rsum_map_free(NULL);
}

/* ---- the curve -------------------------------------------------------------------------------- */

static void test_curve(void **state)
{
	struct rsum_curve curve = { 0 };

	(void)state;
	for (uint64_t i = 1; i <= 100000; i++) {
		rsum_curve_add(&curve, i * 10, i * 3);
		assert_true(curve.count < RSUM_CURVE_POINTS);
		assert_int_equal(curve.last.elapsed_ns, i * 10);
	}
	assert_true(curve.count >= RSUM_CURVE_POINTS / 2);
	for (unsigned i = 0; i < curve.count; i++) {
		assert_int_equal(curve.points[i].elapsed_ns, (i + 1) * 10 * curve.stride);
		assert_int_equal(curve.points[i].bytes, (i + 1) * 3 * curve.stride);
	}
	rsum_curve_add(&curve, 5, 400000);	 /* back in time */
	rsum_curve_add(&curve, 2000000, 299999); /* fewer bytes than before */
	assert_int_equal(curve.last.elapsed_ns, 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_checkpoints),
		cmocka_unit_test(test_crowd_is_bounded),
		cmocka_unit_test(test_unclean_shards_are_drawn),
		cmocka_unit_test(test_odd_promises),
		cmocka_unit_test(test_curve),
	};

	return cmocka_run_group_tests_name("report_map", tests, NULL, NULL);
}
