/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to fetch again, as tab-separated values (ringsum-refetch/1). Lines that begin with # are
 * comments; no field is empty or begins with #, as a number comes first.
 */
#include <inttypes.h>
#include <string.h>

#include "error.h"
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

/* Whether the bytes of another copy may be what was promised. */
static bool is_curable(const struct ringsum_finding *finding)
{
	switch (finding->code) {
	case RINGSUM_FINDING_DIGEST_MISMATCH:
		return finding->has_range && finding->end > finding->begin;
	case RINGSUM_FINDING_FILE_MISSING:
	case RINGSUM_FINDING_FILE_TYPE:
	case RINGSUM_FINDING_FILE_TRUNCATED:
	case RINGSUM_FINDING_FILE_TRAILING:
	case RINGSUM_FINDING_HEADER_INVALID:
	case RINGSUM_FINDING_HEADER_MISMATCH:
		return true;
	default:
		return false;
	}
}

/* What is left when everything is fetched: it would be a surprise otherwise. */
static void append_rest(struct rsum_text *text, const struct ringsum_report *report)
{
	uint64_t total = report->refusing_count + report->undecided_count;
	uint64_t curable = 0;

	for (size_t i = 0; i < report->finding_count; i++)
		curable += report->findings[i].severity == RINGSUM_SEVERITY_REFUSE &&
			   is_curable(&report->findings[i]);
	if (report->facts.error)
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
