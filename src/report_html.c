/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports as one page of HTML: no network, no script (and a policy that forbids both, should a
 * name ever get through as markup), readable without colours and on a narrow screen.
 */
#include "report_html.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "rsum_limits.h"

#define UNFOLDED_ROWS 12

/* ---- escaping and numbers ---------------------------------------------------------------------- */

void rsum_html_put(struct rsum_text *text, const char *markup)
{
	rsum_text_append(text, markup, strlen(markup));
}

static void put_escaped(struct rsum_text *text, const char *safe)
{
	size_t length;

	for (; *safe; safe += length + 1) {
		length = strcspn(safe, "&<>\"'`");
		rsum_text_append(text, safe, length);
		if (!safe[length])
			return;
		rsum_text_printf(text, "&#%u;", (unsigned)(uint8_t)safe[length]);
	}
}

/* Takes over an escaped text, which may have failed. */
static void put_finished(struct rsum_text *text, struct rsum_text *escaped)
{
	char *safe = NULL;

	if (rsum_text_finish(escaped, &safe) == RINGSUM_OK)
		put_escaped(text, safe);
	else
		text->has_failed = true;
	free(safe);
}

void rsum_html_put_text(struct rsum_text *text, const char *unsafe)
{
	struct rsum_text escaped = { 0 };

	rsum_text_append_escaped(&escaped, unsafe);
	put_finished(text, &escaped);
}

void rsum_html_put_message(struct rsum_text *text, const char *message)
{
	struct rsum_text escaped = { 0 };

	rsum_text_append_message(&escaped, message);
	put_finished(text, &escaped);
}

void rsum_html_put_bytes(struct rsum_text *text, uint64_t bytes)
{
	rsum_text_printf(text, "<span title=\"%" PRIu64 " bytes\">", bytes);
	rsum_text_append_bytes(text, bytes);
	rsum_html_put(text, "</span>");
}

/* ---- the verdict ----------------------------------------------------------------------------------- */

static const struct {
	const char *word; /* also the class */
	const char *title;
	const char *sign;
} verdicts[] = {
	[RINGSUM_VERDICT_UNDECIDED] = { "undecided", "Undecided", "?" },
	[RINGSUM_VERDICT_IDENTICAL] = { "identical", "Identical", "\xe2\x9c\x93" },
	[RINGSUM_VERDICT_REFUSED] = { "refused", "Refused", "\xe2\x9c\x97" },
};

static const char *root_of(const struct ringsum_report *report)
{
	return report->facts.root ? report->facts.root : ".";
}

static void put_verdict_text(struct rsum_text *text, const struct ringsum_report *report,
			     enum ringsum_verdict verdict)
{
	if (report->facts.error) {
		rsum_html_put_message(text, report->facts.error);
	} else if (verdict == RINGSUM_VERDICT_IDENTICAL) {
		rsum_html_put(text, "Every promised byte was read and is as promised.");
	} else {
		if (report->facts.is_interrupted)
			rsum_html_put(text, "Interrupted before everything was read. ");
		rsum_html_put(text, verdict == RINGSUM_VERDICT_REFUSED
					    ? "Something differs from the promise."
					    : "Not everything could be established; nothing was "
					      "found different.");
	}
}

static void put_verdict(struct rsum_html *html)
{
	enum ringsum_verdict verdict = ringsum_report_verdict(html->report);
	struct rsum_text *text = html->text;

	rsum_text_printf(text,
			 "<div class=\"verdict %s\"><span class=sign aria-hidden=true>%s"
			 "</span><div><h1>%s</h1>\n<p><bdi>",
			 verdicts[verdict].word, verdicts[verdict].sign, verdicts[verdict].title);
	rsum_html_put_text(text, root_of(html->report));
	rsum_html_put(text, "</bdi></p>\n<p>");
	put_verdict_text(text, html->report, verdict);
	rsum_html_put(text, "</p></div></div>\n");
}

/* ---- totals ---------------------------------------------------------------------------------------- */

static void put_tile_of(struct rsum_text *text, uint64_t part, uint64_t whole, const char *what)
{
	rsum_html_put(text, "<div><b>");
	rsum_text_append_count(text, part);
	rsum_html_put(text, "</b><span>of ");
	rsum_text_append_count(text, whole);
	rsum_text_printf(text, " %s</span></div>\n", what);
}

static void put_tile(struct rsum_text *text, uint64_t count, const char *what)
{
	if (count == 0)
		return;
	rsum_html_put(text, "<div><b>");
	rsum_text_append_count(text, count);
	rsum_text_printf(text, "</b><span>%s</span></div>\n", what);
}

static void put_speed_tile(struct rsum_text *text, const struct ringsum_report *report)
{
	uint64_t rate = rsum_report_bytes_per_second(report);

	if (rate == 0)
		return;
	rsum_html_put(text, "<div><b>");
	rsum_text_append_seconds(text, report->totals.elapsed_seconds);
	rsum_html_put(text, "</b><span>for ");
	rsum_text_append_bytes(text, report->totals.bytes_read);
	rsum_html_put(text, ", ");
	rsum_text_append_bytes(text, rate);
	rsum_html_put(text, "/s</span></div>\n");
}

static void put_tiles(struct rsum_html *html)
{
	const struct ringsum_report *report = html->report;
	const struct ringsum_totals *totals = &report->totals;
	struct rsum_text *text = html->text;

	if (report->facts.error)
		return;
	rsum_html_put(text, "<div class=tiles>\n");
	if (totals->tensors_promised > 0 || totals->files_promised == 0)
		put_tile_of(text, totals->tensors_identical, totals->tensors_promised,
			    "tensors proven");
	if (totals->files_promised > 0)
		put_tile_of(text, totals->files_identical, totals->files_promised, "files proven");
	put_tile(text, totals->tensors_refused, "tensors refused");
	put_tile(text, totals->tensors_undecided, "tensors undecided");
	put_tile(text, totals->files_refused, "files refused");
	put_tile(text, totals->files_undecided, "files undecided");
	rsum_html_put(text, "<div><b>");
	rsum_html_put_bytes(text, totals->bytes_proven);
	rsum_html_put(text, "</b><span>of ");
	rsum_html_put_bytes(text, totals->bytes_promised);
	rsum_html_put(text, " proven</span></div>\n");
	put_tile(text, report->refusing_count + report->undecided_count, "findings");
	put_speed_tile(text, report);
	rsum_html_put(text, "</div>\n");
}

/* ---- findings --------------------------------------------------------------------------------------- */

static void put_badge(struct rsum_text *text, const struct ringsum_finding *finding)
{
	switch (finding->severity) {
	case RINGSUM_SEVERITY_REFUSE:
		rsum_text_printf(text, "<span class=\"badge refused\">%s refused</span>",
				 rsum_html_sign(RSUM_MAP_REFUSED));
		return;
	case RINGSUM_SEVERITY_UNDECIDED:
		rsum_text_printf(text, "<span class=\"badge undecided\">%s undecided</span>",
				 rsum_html_sign(RSUM_MAP_UNDECIDED));
		return;
	case RINGSUM_SEVERITY_NOTE:
	default:
		rsum_html_put(text, "<span class=badge>note</span>");
	}
}

static void put_labelled(struct rsum_text *text, const char *label, const char *value)
{
	char shown[512];

	if (!value)
		return;
	rsum_text_printf(text, "<span class=small>%s <code><bdi>", label);
	rsum_html_put_text(text, rsum_text_shorten(value, shown, sizeof(shown)));
	rsum_html_put(text, "</bdi></code></span>");
}

static void put_place(struct rsum_text *text, const struct ringsum_finding *finding)
{
	rsum_html_put(text, "<td class=where>");
	if (finding->tensor) {
		rsum_html_put(text, "<code><bdi>");
		rsum_html_put_text(text, finding->tensor);
		rsum_html_put(text, "</bdi></code>");
	}
	if (finding->file) {
		rsum_html_put(text, "<span class=small><bdi>");
		rsum_html_put_text(text, finding->file);
		rsum_html_put(text, "</bdi></span>");
	}
	if (finding->has_range) {
		rsum_text_printf(text, "<span class=small>[%" PRIu64 ", %" PRIu64 ") \xc2\xb7 ",
				 finding->begin, finding->end);
		rsum_text_append_bytes(text, finding->end - finding->begin);
		rsum_html_put(text, "</span>");
	}
	rsum_html_put(text, "</td>");
}

static void put_finding(struct rsum_html *html, size_t index)
{
	const struct ringsum_finding *finding = &html->report->findings[index];
	struct rsum_text *text = html->text;

	rsum_text_printf(text, "<tr id=\"f%zu-%zu\"><td class=what>", html->number, index);
	put_badge(text, finding);
	rsum_text_printf(text, "<span class=small>%s</span></td>",
			 ringsum_finding_code_name(finding->code));
	put_place(text, finding);
	rsum_html_put(text, "<td>");
	rsum_html_put_message(text, finding->message);
	put_labelled(text, "expected", finding->expected);
	put_labelled(text, "found", finding->actual);
	rsum_html_put(text, "</td></tr>\n");
}

static bool is_note(const struct ringsum_finding *finding)
{
	return finding->severity == RINGSUM_SEVERITY_NOTE;
}

static void put_table_head(struct rsum_text *text)
{
	rsum_html_put(text, "<table><thead><tr><th scope=col>What</th><th scope=col>Where</th>"
			    "<th scope=col>Details</th></tr></thead><tbody>\n");
}

/* What follows is folded, so that the map is not out of sight. A link to a row unfolds it. */
static void fold(struct rsum_text *text, uint64_t left)
{
	rsum_html_put(text, "</tbody></table>\n<details><summary>Show ");
	rsum_text_append_count(text, left);
	rsum_html_put(text, " more</summary>\n");
	put_table_head(text);
}

/* Findings, or notes; those past the limit are only counted. */
static void put_list(struct rsum_html *html, const char *title, bool are_notes, uint64_t total)
{
	const struct ringsum_report *report = html->report;
	struct rsum_text *text = html->text;
	uint64_t limit = RSUM_MIN(total, (uint64_t)RSUM_LIMIT_HTML_FINDINGS), shown = 0;

	if (total == 0)
		return;
	rsum_text_printf(text, "<section>\n<h3>%s</h3>\n", title);
	put_table_head(text);
	for (size_t i = 0; i < report->finding_count && shown < limit; i++) {
		if (is_note(&report->findings[i]) != are_notes)
			continue;
		if (shown == UNFOLDED_ROWS)
			fold(text, limit - shown);
		put_finding(html, i);
		shown++;
	}
	rsum_html_put(text, "</tbody></table>\n");
	if (shown > UNFOLDED_ROWS)
		rsum_html_put(text, "</details>\n");
	if (shown < total) {
		rsum_html_put(text, "<p class=dim>And ");
		rsum_text_append_count(text, total - shown);
		rsum_html_put(text, " more; the JSON report lists them.</p>\n");
	}
	rsum_html_put(text, "</section>\n");
}

/* What cells and shards lead to. Only what the table shows: a dead link helps nobody. */
static int index_findings(struct rsum_html *html)
{
	const struct ringsum_report *report = html->report;
	uint32_t existing;
	size_t shown = 0;
	int result = RINGSUM_OK;

	for (size_t i = 0; i < report->finding_count && result == RINGSUM_OK; i++) {
		const struct ringsum_finding *finding = &report->findings[i];

		if (is_note(finding))
			continue;
		if (shown++ == RSUM_LIMIT_HTML_FINDINGS)
			break;
		if (finding->tensor)
			result = rsum_name_index_add(&html->by_tensor, finding->tensor, (uint32_t)i,
						     &existing);
		else if (finding->file)
			result = rsum_name_index_add(&html->by_file, finding->file, (uint32_t)i,
						     &existing);
	}
	return result;
}

/* ---- what ran ---------------------------------------------------------------------------------------- */

static void put_fact(struct rsum_text *text, const char *label, const char *value)
{
	if (!value || !*value)
		return;
	rsum_text_printf(text, "<dt>%s</dt><dd><bdi>", label);
	rsum_html_put_text(text, value);
	rsum_html_put(text, "</bdi></dd>\n");
}

static void put_count_fact(struct rsum_text *text, const char *label, uint64_t count)
{
	if (count == 0)
		return;
	rsum_text_printf(text, "<dt>%s</dt><dd>", label);
	rsum_text_append_count(text, count);
	rsum_html_put(text, "</dd>\n");
}

static void put_time_fact(struct rsum_text *text, const struct rsum_map *map)
{
	time_t seconds = map ? (time_t)map->ended_at : 0;
	struct tm utc;
	char shown[64];

	if (seconds <= 0 || !gmtime_r(&seconds, &utc) ||
	    strftime(shown, sizeof(shown), "%Y-%m-%d %H:%M:%S UTC", &utc) == 0)
		return;
	put_fact(text, "verified", shown);
}

static void put_facts(struct rsum_html *html)
{
	const struct ringsum_report *report = html->report;
	const struct rsum_report_facts *facts = &report->facts;
	struct rsum_text *text = html->text;

	rsum_html_put(text, "<section>\n<h3>What was checked, and how</h3>\n<dl class=facts>\n");
	put_time_fact(text, report->map);
	for (size_t i = 0; i < report->manifest_count; i++) {
		put_fact(text, "manifest", report->manifests[i].path);
		put_fact(text, "its SHA-256", report->manifests[i].sha256);
	}
	put_fact(text, "profile", facts->profile);
	put_count_fact(text, "unpromised tensors", report->totals.tensors_unpromised);
	if (report->totals.files_unpromised != UINT64_MAX)
		put_count_fact(text, "unpromised files", report->totals.files_unpromised);
	else
		put_fact(text, "unpromised files", "unknown");
	put_fact(text, "read by", facts->engine);
	put_fact(text, "io_uring not used", facts->engine_reason);
	put_count_fact(text, "shards with direct I/O", facts->files_direct);
	put_count_fact(text, "shards by page cache", facts->files_buffered);
	put_fact(text, "hashed by", facts->digest_impl);
	put_count_fact(text, "threads", facts->threads);
	put_fact(text, "limited by", facts->limited_by);
	rsum_html_put(text, "</dl>\n</section>\n");
}

/* ---- the page ------------------------------------------------------------------------------------------ */

static int put_report(struct rsum_text *text, const struct ringsum_report *report, size_t number)
{
	struct rsum_html html = { .text = text, .report = report, .number = number };
	int result = index_findings(&html);

	if (result == RINGSUM_OK) {
		rsum_text_printf(text, "<article id=\"c%zu\">\n", number);
		put_verdict(&html);
		put_tiles(&html);
		put_list(&html, "Findings", false,
			 report->refusing_count + report->undecided_count);
		rsum_html_put_map(&html);
		rsum_html_put_curve(&html);
		put_facts(&html);
		put_list(&html, "Notes", true, report->note_count);
		rsum_html_put(text, "</article>\n");
	}
	rsum_name_index_deinit(&html.by_tensor);
	rsum_name_index_deinit(&html.by_file);
	return result;
}

static void put_head(struct rsum_text *text, const char *title)
{
	rsum_html_put(text,
		      "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
		      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
		      "style-src 'unsafe-inline'\">\n"
		      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n"
		      "<title>");
	rsum_html_put_text(text, title);
	rsum_html_put(text, " \xc2\xb7 ringsum</title>\n<style>\n");
	for (size_t i = 0; rsum_html_style[i]; i++)
		rsum_html_put(text, rsum_html_style[i]);
	rsum_html_put(text, "</style>\n</head>\n<body>\n");
}

/* Refused wins over undecided, and undecided over identical. */
static enum ringsum_verdict verdict_of_all(const struct ringsum_report *const *reports,
					   size_t count)
{
	enum ringsum_verdict verdict = RINGSUM_VERDICT_IDENTICAL;

	for (size_t i = 0; i < count; i++) {
		enum ringsum_verdict one = ringsum_report_verdict(reports[i]);

		if (one == RINGSUM_VERDICT_REFUSED ||
		    (one == RINGSUM_VERDICT_UNDECIDED && verdict == RINGSUM_VERDICT_IDENTICAL))
			verdict = one;
	}
	return verdict;
}

/* With several reports: which they are, each with its verdict. */
static void put_overview(struct rsum_text *text, const struct ringsum_report *const *reports,
			 size_t count)
{
	rsum_html_put(text, "<h2>Checkpoints</h2>\n"
			    "<table><thead><tr><th scope=col>Checkpoint</th><th scope=col>"
			    "Verdict</th><th scope=col>Proven</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < count; i++) {
		enum ringsum_verdict verdict = ringsum_report_verdict(reports[i]);
		const struct ringsum_totals *totals = &reports[i]->totals;

		rsum_text_printf(text, "<tr><td><a href=\"#c%zu\"><bdi>", i);
		rsum_html_put_text(text, root_of(reports[i]));
		rsum_text_printf(text,
				 "</bdi></a></td><td class=what><span class=\"badge %s\">"
				 "%s %s</span></td><td>",
				 verdicts[verdict].word, verdicts[verdict].sign,
				 verdicts[verdict].word);
		rsum_text_append_count(text, totals->tensors_identical);
		rsum_html_put(text, " of ");
		rsum_text_append_count(text, totals->tensors_promised);
		rsum_html_put(text, " tensors, ");
		if (totals->files_promised > 0) {
			rsum_text_append_count(text, totals->files_identical);
			rsum_html_put(text, " of ");
			rsum_text_append_count(text, totals->files_promised);
			rsum_html_put(text, " files, ");
		}
		rsum_html_put_bytes(text, totals->bytes_proven);
		rsum_html_put(text, "</td></tr>\n");
	}
	rsum_html_put(text, "</tbody></table>\n");
}

static void put_title(struct rsum_text *text, const struct ringsum_report *const *reports,
		      size_t count)
{
	enum ringsum_verdict verdict = verdict_of_all(reports, count);
	char title[128];

	if (count == 1)
		snprintf(title, sizeof(title), "%s: %.96s", verdicts[verdict].word,
			 root_of(reports[0]));
	else
		snprintf(title, sizeof(title), "%s: %zu checkpoints", verdicts[verdict].word,
			 count);
	put_head(text, title);
}

RSUM_PUBLIC int ringsum_reports_to_html(const struct ringsum_report *const *reports,
					size_t report_count, char **html_out,
					struct ringsum_error *err)
{
	struct rsum_text text = { 0 };
	int result = RINGSUM_OK;

	if (!reports || report_count == 0 || !html_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a report and a place for its text are needed");
	put_title(&text, reports, report_count);
	if (report_count > 1)
		put_overview(&text, reports, report_count);
	for (size_t i = 0; i < report_count && result == RINGSUM_OK; i++)
		result = put_report(&text, reports[i], i);
	rsum_html_put(&text, "<footer class=dim>Made by ringsum " RSUM_VERSION
			     " verify. This page needs no network and runs no script.</footer>\n"
			     "</body>\n</html>\n");
	if (result != RINGSUM_OK)
		text.has_failed = true;
	if (rsum_text_finish(&text, html_out))
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the report was written");
	return RINGSUM_OK;
}
