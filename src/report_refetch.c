/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to fetch again, as tab-separated values (ringsum-refetch/1). Lines that begin with # are
 * comments; no field is empty or begins with #, as a number comes first.
 */
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "name_index.h"
#include "report.h"
#include "report_map.h"

/* As RFC 3986 has it: what is not unreserved is %HH; a slash stays, since names are paths. */
static void append_url(struct rsum_text *text, const char *name)
{
	for (; *name; name++) {
		uint8_t byte = (uint8_t)*name;
		bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
				(byte >= '0' && byte <= '9') || strchr("-._~/", byte);

		if (is_plain)
			rsum_text_append(text, name, 1);
		else
			rsum_text_printf(text, "%%%02X", byte);
	}
}

static void append_range(struct rsum_text *text, const struct rsum_map_range *range)
{
	if (range->end == RSUM_MAP_TO_THE_END)
		rsum_text_printf(text, "%" PRIu64 "\tend\t%" PRIu64 "-", range->begin,
				 range->begin);
	else
		rsum_text_printf(text, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "-%" PRIu64,
				 range->begin, range->end - 1, range->begin, range->end - 1);
}

/* The last range that begins at or before that byte of that shard, or one of a shard before. */
static const struct rsum_map_range *last_before(const struct rsum_map *map, uint32_t shard,
						uint64_t begin)
{
	size_t low = 0, high = map->range_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct rsum_map_range *range = &map->ranges[middle];

		if (range->shard < shard || (range->shard == shard && range->begin <= begin))
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? &map->ranges[low - 1] : NULL;
}

/* Whether [begin, end) of a shard is in one of the ranges, of which no two touch. */
static bool is_listed(const struct rsum_map *map, uint32_t shard, uint64_t begin, uint64_t end)
{
	const struct rsum_map_range *range = last_before(map, shard, begin);

	return range && range->shard == shard && range->end >= end;
}

static bool has_range(const struct rsum_map *map, uint32_t shard)
{
	const struct rsum_map_range *range = last_before(map, shard, RSUM_MAP_TO_THE_END);

	return range && range->shard == shard;
}

/*
 * Whether what is listed may mend it: the bytes that it speaks of are listed, or, of a shard as a
 * whole, its last ones.
 */
static bool is_curable(const struct rsum_map *map, const struct rsum_name_index *shards,
		       const struct ringsum_finding *finding)
{
	uint32_t shard;

	if (finding->severity != RINGSUM_SEVERITY_REFUSE || !finding->file)
		return false;
	shard = rsum_name_index_find(shards, finding->file);
	if (shard == RSUM_NAME_INDEX_NONE)
		return false;
	switch (finding->code) {
	case RINGSUM_FINDING_DIGEST_MISMATCH:
		if (!finding->tensor) /* of the file: what tensors in it prove is not listed */
			return has_range(map, shard);
		return finding->has_range && finding->end > finding->begin &&
		       is_listed(map, shard, finding->begin, finding->end);
	case RINGSUM_FINDING_HEADER_MISMATCH:
		return is_listed(map, shard, 0, RSUM_MAP_TO_THE_END);
	case RINGSUM_FINDING_FILE_MISSING:
	case RINGSUM_FINDING_FILE_TYPE:
	case RINGSUM_FINDING_FILE_TRUNCATED:
	case RINGSUM_FINDING_FILE_TRAILING:
	case RINGSUM_FINDING_HEADER_INVALID:
		return is_listed(map, shard, RSUM_MAP_TO_THE_END, RSUM_MAP_TO_THE_END);
	default:
		return false;
	}
}

static int count_curable(const struct ringsum_report *report, uint64_t *count_out)
{
	const struct rsum_map *map = report->map;
	struct rsum_name_index shards = { 0 };
	int result = RINGSUM_OK;
	uint32_t existing;

	*count_out = 0;
	for (size_t i = 0; map && i < map->shard_count && result == RINGSUM_OK; i++)
		result = rsum_name_index_add(&shards, map->shards[i].name, (uint32_t)i, &existing);
	for (size_t i = 0; map && i < report->finding_count && result == RINGSUM_OK; i++)
		*count_out += is_curable(map, &shards, &report->findings[i]);
	rsum_name_index_deinit(&shards);
	return result;
}

/* What is left when everything is fetched: it would be a surprise otherwise. */
static void append_rest(struct rsum_text *text, const struct ringsum_report *report)
{
	uint64_t total = report->refusing_count + report->undecided_count, curable;

	if (count_curable(report, &curable) != RINGSUM_OK)
		text->has_failed = true;
	else if (report->facts.error)
		rsum_text_printf(text, "# nothing could be verified\n");
	else if (curable < total)
		rsum_text_printf(text,
				 "# not cured by fetching, as far as listed: %" PRIu64
				 " of %" PRIu64 " findings\n",
				 total - curable, total);
}

RSUM_PUBLIC int ringsum_report_to_refetch(const struct ringsum_report *report, char **text_out,
					  struct ringsum_error *err)
{
	struct rsum_text text = { 0 };
	const struct rsum_map *map;

	if (!report || !text_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a report and a place for its text are needed");
	map = report->map;
	if (!map && report->map_is_lost)
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the ranges to fetch were collected");
	if (!map && !report->facts.error)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "the report has no map: set options.keep_map");
	rsum_text_printf(&text, "# ringsum-refetch/1\n# first\tlast\trange\troot\tfile\turl\n");
	for (size_t i = 0; map && i < map->range_count && !text.has_failed; i++) {
		const char *file = map->shards[map->ranges[i].shard].name;

		append_range(&text, &map->ranges[i]);
		rsum_text_append(&text, "\t", 1);
		rsum_text_append_escaped(&text, report->facts.root ? report->facts.root : ".");
		rsum_text_append(&text, "\t", 1);
		rsum_text_append_escaped(&text, file);
		rsum_text_append(&text, "\t", 1);
		append_url(&text, file);
		rsum_text_append(&text, "\n", 1);
	}
	append_rest(&text, report);
	if (rsum_text_finish(&text, text_out))
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the ranges to fetch were written");
	return RINGSUM_OK;
}
