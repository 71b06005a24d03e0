/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises become cells and ranges. A map has room for RSUM_LIMIT_MAP_CELLS cells, so where there
 * are more tensors neighbours share one: of equal state as long as there is room for it, else the
 * worst of them gives its state. Ranges are never left out.
 */
#include "report_map.h"

#include <inttypes.h>
#include <string.h>

#include "report.h"
#include "rsum_limits.h"

#define NAME_KEPT_BYTES 256
#define TYPE_KEPT_BYTES 128

struct builder {
	struct rsum_map *map;
	const struct rsum_map_item *items; /* by shard and place */
	const struct rsum_map_source *sources;
	size_t group;	    /* so many tensors may share a cell */
	size_t breaks_left; /* cells that may begin early, for another state */
};

static int compare_items(const void *a_ptr, const void *b_ptr)
{
	const struct rsum_map_item *a = a_ptr, *b = b_ptr;

	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	if (a->tensor->begin != b->tensor->begin)
		return a->tensor->begin < b->tensor->begin ? -1 : 1;
	if (a->tensor->end != b->tensor->end)
		return a->tensor->end < b->tensor->end ? -1 : 1;
	if (a->is_file != b->is_file)
		return a->is_file ? -1 : 1;
	/* Promises stand side by side in the manifest: its order decides. */
	return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

/* Room for one more element; false where memory ran out. */
static bool reserve(void *array_ptr, size_t count, size_t *capacity, size_t element_bytes)
{
	size_t wanted = *capacity ? *capacity * 2 : 64;
	void *array, *grown;

	if (count < *capacity)
		return true;
	memcpy(&array, array_ptr, sizeof(array));
	grown = realloc(array, wanted * element_bytes);
	if (!grown)
		return false;
	memcpy(array_ptr, &grown, sizeof(grown));
	*capacity = wanted;
	return true;
}

/* ---- cells --------------------------------------------------------------------------------- */

static const char *keep_name(struct rsum_map *map, const char *name)
{
	char shown[NAME_KEPT_BYTES];

	rsum_text_shorten(name, shown, sizeof(shown));
	return rsum_arena_copy(&map->strings, shown, strlen(shown));
}

/* "BF16 [512, 128]" */
static const char *keep_type(struct rsum_map *map, const struct rsum_map_item *item)
{
	const struct ringsum_tensor *tensor = item->tensor;
	const char *dtype = ringsum_dtype_name(tensor->dtype);
	char type[TYPE_KEPT_BYTES];
	size_t used;

	if (item->is_file)
		return rsum_arena_copy(&map->strings, "file", strlen("file"));
	used = (size_t)snprintf(type, sizeof(type), "%s [", dtype ? dtype : "bytes");
	for (unsigned i = 0; i < tensor->rank && used < sizeof(type); i++)
		used += (size_t)snprintf(type + used, sizeof(type) - used, "%s%" PRIu64,
					 i ? ", " : "", tensor->shape[i]);
	if (used < sizeof(type))
		used += (size_t)snprintf(type + used, sizeof(type) - used, "]");
	if (used >= sizeof(type))
		memcpy(type + sizeof(type) - 5, "...]", 5);
	return rsum_arena_copy(&map->strings, type, strlen(type));
}

static struct rsum_map_cell *add_cell(struct rsum_map *map)
{
	if (!reserve(&map->cells, map->cell_count, &map->cell_capacity, sizeof(*map->cells)))
		return NULL;
	map->cells[map->cell_count] = (struct rsum_map_cell){ 0 };
	return &map->cells[map->cell_count++];
}

/* Up to where a promise of the file reaches, and how it stands. */
struct cover {
	uint64_t end;
	enum rsum_map_state state;
};

/* Bytes between tensors: promised with the file, or of its header, or that nobody promised. */
static int add_gap(struct rsum_map *map, const struct rsum_map_source *source,
		   const struct cover *cover, uint64_t begin, uint64_t end)
{
	static const enum rsum_map_state plain[] = { RSUM_MAP_HEADER, RSUM_MAP_UNPROMISED };
	uint64_t covered = RSUM_MIN(RSUM_MAX(cover->end, begin), end);
	uint64_t header = RSUM_MIN(RSUM_MAX(source->data_begin, covered), end);
	const uint64_t bounds[] = { begin, covered, header, end };

	for (unsigned i = 0; i < 3; i++) {
		struct rsum_map_cell *cell;

		if (bounds[i] == bounds[i + 1])
			continue;
		cell = add_cell(map);
		if (!cell)
			return RINGSUM_E_NOMEM;
		cell->begin = bounds[i];
		cell->end = bounds[i + 1];
		cell->state = i == 0 ? cover->state : plain[i - 1];
	}
	return RINGSUM_OK;
}

/* How many of the `left` items from `first` on share a cell. */
static size_t count_in_cell(struct builder *builder, size_t first, size_t left)
{
	const struct rsum_map_item *items = builder->items + first;
	size_t count = 1;

	for (; count < left && count < builder->group; count++) {
		bool is_alike = items[count].state == items[0].state &&
				items[count].is_file == items[0].is_file &&
				items[count].tensor->begin <= items[count - 1].tensor->end;

		if (is_alike || builder->breaks_left == 0)
			continue;
		builder->breaks_left--;
		break;
	}
	return count;
}

static int add_tensors(struct builder *builder, size_t first, size_t count)
{
	const struct rsum_map_item *items = builder->items + first;
	struct rsum_map *map = builder->map;
	struct rsum_map_cell *cell = add_cell(map);

	if (!cell)
		return RINGSUM_E_NOMEM;
	cell->begin = items[0].tensor->begin;
	cell->tensor_count = (uint32_t)count;
	cell->is_file = items[0].is_file;
	for (size_t i = 0; i < count; i++) {
		cell->end = RSUM_MAX(cell->end, items[i].tensor->end);
		cell->counts[items[i].state]++;
		cell->state = RSUM_MAX(cell->state, (enum rsum_map_state)items[i].state);
	}
	cell->name = keep_name(map, items[0].tensor->name);
	if (count > 1)
		cell->last_name = keep_name(map, items[count - 1].tensor->name);
	else
		cell->type = keep_type(map, &items[0]);
	if (!cell->name || (!cell->last_name && !cell->type))
		return RINGSUM_E_NOMEM;
	return RINGSUM_OK;
}

static int draw_shard(struct builder *builder, struct rsum_map_shard *shard,
		      const struct rsum_map_source *source, size_t first, size_t count)
{
	struct rsum_map *map = builder->map;
	struct cover cover = { 0, RSUM_MAP_HEADER };
	const struct rsum_map_cell *cell;
	uint64_t at = 0;
	size_t taken;

	shard->first_cell = map->cell_count;
	for (size_t i = 0; i < count; i += taken) {
		const struct rsum_map_item *item = &builder->items[first + i];

		if (!item->is_file && item->tensor->begin > at &&
		    add_gap(map, source, &cover, at, item->tensor->begin) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
		taken = count_in_cell(builder, first + i, count - i);
		if (add_tensors(builder, first + i, taken) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
		cell = &map->cells[map->cell_count - 1];
		if (!cell->is_file)
			at = RSUM_MAX(at, cell->end);
		else if (cell->end > cover.end)
			cover = (struct cover){ cell->end, cell->state };
	}
	if (at < shard->scale_bytes &&
	    add_gap(map, source, &cover, at, shard->scale_bytes) != RINGSUM_OK)
		return RINGSUM_E_NOMEM;
	shard->cell_count = map->cell_count - shard->first_cell;
	shard->is_drawn = true;
	return RINGSUM_OK;
}

/* ---- ranges to fetch again --------------------------------------------------------------------- */

static int add_range(struct rsum_map *map, uint32_t shard, uint64_t begin, uint64_t end)
{
	if (begin >= end)
		return RINGSUM_OK;
	if (!reserve(&map->ranges, map->range_count, &map->range_capacity, sizeof(*map->ranges)))
		return RINGSUM_E_NOMEM;
	map->ranges[map->range_count++] = (struct rsum_map_range){ shard, begin, end };
	return RINGSUM_OK;
}

static int compare_ranges(const void *a_ptr, const void *b_ptr)
{
	const struct rsum_map_range *a = a_ptr, *b = b_ptr;

	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Sorts the ranges of a shard, from `first` on, and joins those that touch. */
static void join_ranges(struct rsum_map *map, size_t first)
{
	size_t kept = first;

	if (map->range_count > first)
		qsort(map->ranges + first, map->range_count - first, sizeof(*map->ranges),
		      compare_ranges);
	for (size_t i = first; i < map->range_count; i++) {
		struct rsum_map_range *last = kept > first ? &map->ranges[kept - 1] : NULL;

		if (last && map->ranges[i].begin <= last->end)
			last->end = RSUM_MAX(last->end, map->ranges[i].end);
		else
			map->ranges[kept++] = map->ranges[i];
	}
	map->range_count = kept;
}

/* Of a file that is not as promised all that no tensor in it proves. */
static int add_unproven(struct builder *builder, uint32_t shard, size_t first, size_t count)
{
	uint64_t at = 0, size_bytes = builder->sources[shard].size_bytes;

	for (size_t i = first; i < first + count; i++) {
		const struct rsum_map_item *item = &builder->items[i];

		if (item->is_file || item->state != RSUM_MAP_PROVEN)
			continue;
		if (add_range(builder->map, shard, at, item->tensor->begin) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
		at = RSUM_MAX(at, item->tensor->end);
	}
	if (at > 0 && at >= size_bytes)
		return RINGSUM_OK;
	return add_range(builder->map, shard, at, RSUM_MAP_TO_THE_END);
}

/* A promise of all that there is of the file. */
static bool is_of_whole_file(const struct rsum_map_item *item, const struct rsum_map_source *source)
{
	return item->is_file && item->tensor->begin == 0 && item->tensor->end >= source->size_bytes;
}

static int add_ranges(struct builder *builder, uint32_t shard, size_t first, size_t count)
{
	const struct rsum_map_source *source = &builder->sources[shard];
	size_t first_range = builder->map->range_count;
	bool is_whole_damaged = false;

	for (size_t i = first; i < first + count; i++) {
		const struct rsum_map_item *item = &builder->items[i];

		if (!item->is_damaged)
			continue;
		if (is_of_whole_file(item, source))
			is_whole_damaged = true;
		else if (add_range(builder->map, shard, item->tensor->begin, item->tensor->end) !=
			 RINGSUM_OK)
			return RINGSUM_E_NOMEM;
	}
	if (is_whole_damaged && add_unproven(builder, shard, first, count) != RINGSUM_OK)
		return RINGSUM_E_NOMEM;
	if (source->refetch_begin != RSUM_MAP_NOT_AT_ALL &&
	    add_range(builder->map, shard, source->refetch_begin, RSUM_MAP_TO_THE_END) !=
		    RINGSUM_OK)
		return RINGSUM_E_NOMEM;
	join_ranges(builder->map, first_range);
	return RINGSUM_OK;
}

/* ---- all shards --------------------------------------------------------------------------------- */

static int describe_shard(struct builder *builder, uint32_t index, size_t first, size_t count)
{
	const struct rsum_map_source *source = &builder->sources[index];
	struct rsum_map_shard *shard = &builder->map->shards[index];
	uint64_t promised_end = 0;

	shard->name = rsum_arena_copy(&builder->map->strings, source->name, strlen(source->name));
	if (!shard->name)
		return RINGSUM_E_NOMEM;
	shard->is_there = source->is_there;
	shard->size_bytes = source->size_bytes;
	shard->tensor_count = count;
	for (size_t i = first; i < first + count; i++) {
		shard->counts[builder->items[i].state]++;
		promised_end = RSUM_MAX(promised_end, builder->items[i].tensor->end);
	}
	/* A header that is valid, or else the file itself, tells more than a wrong promise. */
	shard->scale_bytes = RSUM_MAX(source->data_end, source->size_bytes);
	if (shard->scale_bytes == 0)
		shard->scale_bytes = RSUM_MAX(promised_end, 1);
	return RINGSUM_OK;
}

static bool is_clean(const struct rsum_map_shard *shard)
{
	return shard->counts[RSUM_MAP_REFUSED] + shard->counts[RSUM_MAP_UNDECIDED] == 0;
}

/* Where there are very many shards, those that are not clean are drawn rather than the others. */
static size_t clean_to_be_drawn(const struct rsum_map *map)
{
	size_t unclean = 0;

	for (size_t i = 0; i < map->shard_count; i++)
		unclean += !is_clean(&map->shards[i]);
	return unclean < RSUM_LIMIT_MAP_SHARDS ? RSUM_LIMIT_MAP_SHARDS - unclean : 0;
}

static int fill(struct builder *builder, const size_t *firsts)
{
	struct rsum_map *map = builder->map;
	size_t clean_left, unclean_left = RSUM_LIMIT_MAP_SHARDS;

	for (uint32_t i = 0; i < map->shard_count; i++)
		if (describe_shard(builder, i, firsts[i], firsts[i + 1] - firsts[i]) !=
			    RINGSUM_OK ||
		    add_ranges(builder, i, firsts[i], firsts[i + 1] - firsts[i]) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
	clean_left = clean_to_be_drawn(map);
	for (size_t i = 0; i < map->shard_count; i++) {
		size_t *left = is_clean(&map->shards[i]) ? &clean_left : &unclean_left;

		if (*left == 0)
			continue;
		--*left;
		if (draw_shard(builder, &map->shards[i], &builder->sources[i], firsts[i],
			       firsts[i + 1] - firsts[i]) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
	}
	return RINGSUM_OK;
}

int rsum_map_fill(struct rsum_map *map, struct rsum_map_item *items, size_t item_count,
		  const struct rsum_map_source *sources, size_t source_count)
{
	struct builder builder = {
		.map = map,
		.items = items,
		.sources = sources,
		.group = item_count / RSUM_LIMIT_MAP_CELLS + 1,
		.breaks_left = RSUM_LIMIT_MAP_CELLS,
	};
	size_t *firsts = calloc(source_count + 2, sizeof(*firsts));
	int result = RINGSUM_E_NOMEM;

	map->shards = calloc(source_count + 1, sizeof(*map->shards));
	map->shard_count = source_count;
	if (!firsts || !map->shards)
		goto out;
	qsort(items, item_count, sizeof(*items), compare_items);
	for (size_t i = 0; i < item_count; i++) {
		RSUM_ASSERT(items[i].shard < source_count);
		firsts[items[i].shard + 1]++;
	}
	for (size_t i = 0; i < source_count; i++)
		firsts[i + 1] += firsts[i];
	result = fill(&builder, firsts);
out:
	free(firsts);
	return result;
}

void rsum_map_free(struct rsum_map *map)
{
	if (!map)
		return;
	rsum_arena_deinit(&map->strings);
	free(map->shards);
	free(map->cells);
	free(map->ranges);
	free(map);
}
