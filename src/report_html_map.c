/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map in a page: each shard as a bar to scale and its tensors as cells. A cell tells about
 * itself by an attribute that the style sheet shows while it is pointed at, without a script.
 */
#include <inttypes.h>
#include <string.h>

#include "report_html.h"

static const struct {
	const char *letter; /* the class of its cells */
	const char *sign;
	const char *word;
} states[RSUM_MAP_STATE_COUNT] = {
	[RSUM_MAP_HEADER] = { "h", "\xc2\xb7", "header" },
	[RSUM_MAP_UNPROMISED] = { "n", "\xe2\x97\x8b", "unpromised" },
	[RSUM_MAP_PROVEN] = { "p", "\xe2\x9c\x93", "proven" },
	[RSUM_MAP_UNDECIDED] = { "u", "?", "undecided" },
	[RSUM_MAP_REFUSED] = { "r", "\xe2\x9c\x97", "refused" },
};

const char *rsum_html_sign(enum rsum_map_state state)
{
	return states[state].sign;
}

/* ---- the bar: the file to scale ------------------------------------------------------------- */

/* A run of one state; its share of the strip in parts of 100,000, so that wide files stay exact. */
static void put_segment(struct rsum_text *text, enum rsum_map_state state, uint64_t begin,
			uint64_t end, uint64_t scale)
{
	double share = (double)(end - begin) / (double)scale;
	uint64_t parts = (uint64_t)(share * 100000 + 0.5);

	rsum_text_printf(text, "<i class=%s style=\"flex-grow:%" PRIu64 "\"></i>",
			 states[state].letter, RSUM_MAX(parts, (uint64_t)1));
}

static void put_bar(struct rsum_html *html, const struct rsum_map_shard *shard)
{
	const struct rsum_map_cell *cells = html->report->map->cells + shard->first_cell;
	enum rsum_map_state state = RSUM_MAP_HEADER;
	uint64_t begin = 0, at = 0;

	rsum_html_put(html->text, "<div class=bar aria-hidden=true>");
	for (size_t i = 0; i < shard->cell_count; i++) {
		uint64_t end = RSUM_MIN(cells[i].end, shard->scale_bytes);

		/* What else is promised of the file lies in it, or is what is left. */
		if (cells[i].is_file)
			continue;
		/* Empty tensors, and ranges that a hostile manifest puts behind or over others. */
		if (end <= at)
			continue;
		if (cells[i].state != state) {
			if (at > begin)
				put_segment(html->text, state, begin, at, shard->scale_bytes);
			begin = at;
			state = cells[i].state;
		}
		at = end;
	}
	if (at > begin)
		put_segment(html->text, state, begin, at, shard->scale_bytes);
	rsum_html_put(html->text, "</div>\n");
}

/* ---- cells -------------------------------------------------------------------------------------- */

/* Wider where larger, in few steps: a norm is to be seen beside an expert a million times larger. */
static unsigned width_class(uint64_t bytes)
{
	static const unsigned bits[] = { 12, 16, 20, 24, 28 };
	unsigned width = 0;

	while (width < RSUM_COUNT_OF(bits) && bytes >= UINT64_C(1) << bits[width])
		width++;
	return width;
}

static void put_range(struct rsum_text *text, const struct rsum_map_cell *cell)
{
	rsum_text_printf(text, " \xc2\xb7 [%" PRIu64 ", %" PRIu64 ") \xc2\xb7 ", cell->begin,
			 cell->end);
	rsum_text_append_bytes(text, cell->end - cell->begin);
}

/* "3 proven, 1 refused" */
static void put_counts32(struct rsum_text *text, const uint32_t counts[RSUM_MAP_STATE_COUNT])
{
	const char *comma = "";

	for (unsigned state = RSUM_MAP_PROVEN; state < RSUM_MAP_STATE_COUNT; state++) {
		if (counts[state] == 0)
			continue;
		rsum_html_put(text, comma);
		rsum_text_append_count(text, counts[state]);
		rsum_text_printf(text, " %s", states[state].word);
		comma = ", ";
	}
}

/* What is shown of a cell that is pointed at. */
static void put_tip(struct rsum_text *text, const struct rsum_map_cell *cell)
{
	if (cell->tensor_count == 0) {
		rsum_html_put(text, cell->state == RSUM_MAP_HEADER ? "header, promised by no digest"
				    : cell->state == RSUM_MAP_UNPROMISED
					    ? "bytes that nobody promised"
					    : "bytes promised with the file");
		put_range(text, cell);
		return;
	}
	rsum_html_put_text(text, cell->name);
	if (cell->tensor_count > 1) {
		rsum_html_put(text, " to ");
		rsum_html_put_text(text, cell->last_name);
		rsum_html_put(text, " \xc2\xb7 ");
		rsum_text_append_count(text, cell->tensor_count);
		rsum_html_put(text, " tensors");
	} else {
		rsum_html_put(text, " \xc2\xb7 ");
		rsum_html_put_text(text, cell->type);
	}
	put_range(text, cell);
	rsum_html_put(text, " \xc2\xb7 ");
	if (cell->tensor_count > 1)
		put_counts32(text, cell->counts);
	else
		rsum_html_put(text, states[cell->state].word);
}

/* A cell that has a finding leads to it. */
static void put_cell(struct rsum_html *html, const struct rsum_map_cell *cell)
{
	struct rsum_text *text = html->text;
	uint32_t finding = RSUM_NAME_INDEX_NONE;
	bool has_finding;

	if (cell->tensor_count == 1 && cell->state >= RSUM_MAP_UNDECIDED)
		finding = rsum_name_index_find(cell->is_file ? &html->by_file : &html->by_tensor,
					       cell->name);
	has_finding = finding != RSUM_NAME_INDEX_NONE;
	if (has_finding)
		rsum_text_printf(text, "<a href=\"#f%zu-%" PRIu32 "\"", html->number, finding);
	else
		rsum_html_put(text, "<i");
	rsum_text_printf(text, " class=\"%s w%u\" data-t=\"", states[cell->state].letter,
			 width_class(cell->end - cell->begin));
	put_tip(text, cell);
	rsum_html_put(text, has_finding ? "\"></a>" : "\"></i>");
}

/* ---- shards ------------------------------------------------------------------------------------- */

static enum rsum_map_state worst_of(const struct rsum_map_shard *shard)
{
	for (unsigned state = RSUM_MAP_REFUSED; state > RSUM_MAP_PROVEN; state--)
		if (shard->counts[state])
			return (enum rsum_map_state)state;
	return RSUM_MAP_PROVEN;
}

/* "✗ 1 refused ✓ 3 proven" */
static void put_shard_counts(struct rsum_text *text, const struct rsum_map_shard *shard)
{
	const char *comma = "";

	for (unsigned state = RSUM_MAP_STATE_COUNT; state-- > RSUM_MAP_PROVEN;) {
		if (shard->counts[state] == 0)
			continue;
		rsum_html_put(text, comma);
		rsum_text_printf(text, "<span class=\"k%s\">%s ", states[state].letter,
				 states[state].sign);
		rsum_text_append_count(text, shard->counts[state]);
		rsum_text_printf(text, " %s</span>", states[state].word);
		comma = " ";
	}
}

static void put_shard_size(struct rsum_text *text, const struct rsum_map_shard *shard)
{
	rsum_html_put(text, "<span class=dim>");
	if (!shard->is_there) {
		rsum_html_put(text, "not there");
	} else if (shard->size_bytes < shard->scale_bytes) {
		rsum_html_put_bytes(text, shard->size_bytes);
		rsum_html_put(text, " of ");
		rsum_html_put_bytes(text, shard->scale_bytes);
	} else {
		rsum_html_put_bytes(text, shard->size_bytes);
	}
	rsum_html_put(text, "</span>");
}

/* What is wrong with the shard as a whole, where something is. */
static void put_shard_finding(struct rsum_html *html, const struct rsum_map_shard *shard)
{
	uint32_t index = rsum_name_index_find(&html->by_file, shard->name);

	if (index == RSUM_NAME_INDEX_NONE)
		return;
	rsum_text_printf(html->text,
			 "<p class=why><a href=\"#f%zu-%" PRIu32 "\">%s</a>: ", html->number, index,
			 ringsum_finding_code_name(html->report->findings[index].code));
	rsum_html_put_message(html->text, html->report->findings[index].message);
	rsum_html_put(html->text, "</p>\n");
}

static void put_shard(struct rsum_html *html, const struct rsum_map_shard *shard)
{
	const struct rsum_map_cell *cells = html->report->map->cells + shard->first_cell;
	struct rsum_text *text = html->text;

	rsum_html_put(text, "<section class=shard>\n<h4><bdi>");
	rsum_html_put_text(text, shard->name);
	rsum_html_put(text, "</bdi> ");
	put_shard_size(text, shard);
	rsum_html_put(text, "</h4>\n<p class=counts>");
	put_shard_counts(text, shard);
	rsum_html_put(text, "</p>\n");
	put_shard_finding(html, shard);
	put_bar(html, shard);
	rsum_html_put(text, "<div class=cells>");
	for (size_t i = 0; i < shard->cell_count && !text->has_failed; i++)
		put_cell(html, &cells[i]);
	rsum_html_put(text, "</div>\n</section>\n");
}

static void put_legend(struct rsum_text *text)
{
	rsum_html_put(text, "<p class=legend>");
	for (unsigned state = RSUM_MAP_STATE_COUNT; state-- > 0;)
		rsum_text_printf(text, "<span><i class=\"%s w2\"></i> %s %s</span>\n",
				 states[state].letter, states[state].sign, states[state].word);
	rsum_html_put(text,
		      "</p>\n<p class=dim>The bar is the file to scale. Each cell below it is "
		      "a tensor, in the order of the file and wider where larger; point at "
		      "it to see name, type and range of bytes. A cell that is refused or "
		      "undecided leads to its finding.</p>\n");
}

/* Everything in it is proven, and nothing is wrong with it as a whole. */
static bool is_clean(const struct rsum_html *html, const struct rsum_map_shard *shard)
{
	return worst_of(shard) == RSUM_MAP_PROVEN &&
	       rsum_name_index_find(&html->by_file, shard->name) == RSUM_NAME_INDEX_NONE;
}

static void put_shards(struct rsum_html *html, bool are_clean)
{
	const struct rsum_map *map = html->report->map;

	rsum_text_printf(html->text, "<div class=\"shards%s\">\n", are_clean ? " clean" : "");
	for (size_t i = 0; i < map->shard_count; i++)
		if (map->shards[i].is_drawn && is_clean(html, &map->shards[i]) == are_clean)
			put_shard(html, &map->shards[i]);
	rsum_html_put(html->text, "</div>\n");
}

/* What the map leaves out. */
static void put_remainder(struct rsum_html *html)
{
	const struct rsum_map *map = html->report->map;
	uint64_t left = 0, unclean = 0;

	for (size_t i = 0; i < map->shard_count; i++) {
		left += !map->shards[i].is_drawn;
		unclean += !map->shards[i].is_drawn && worst_of(&map->shards[i]) != RSUM_MAP_PROVEN;
	}
	if (left > 0) {
		rsum_html_put(html->text, "<p>Not drawn: ");
		rsum_text_append_count(html->text, left);
		rsum_html_put(html->text, " more shards, of which ");
		rsum_text_append_count(html->text, unclean);
		rsum_html_put(html->text, " have tensors that are not proven.</p>\n");
	}
	if (map->homeless_count > 0) {
		rsum_html_put(html->text, "<p>Without a place on the map: ");
		rsum_text_append_count(html->text, map->homeless_count);
		rsum_html_put(html->text, " promises that are malformed, or made twice.</p>\n");
	}
}

void rsum_html_put_map(struct rsum_html *html)
{
	if (!html->report->map)
		return;
	rsum_html_put(html->text, "<section>\n<h3>Map</h3>\n");
	put_legend(html->text);
	put_shards(html, false);
	put_shards(html, true);
	put_remainder(html);
	rsum_html_put(html->text, "</section>\n");
}
