/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report as JSON (schema ringsum-report/1). What is not known is null; no member is ever left
 * out. Numbers that json-c would write through floating point are written here.
 */
#include <inttypes.h>

#include "error.h"
#include "json_write.h"
#include "report.h"

#define SCHEMA "ringsum-report/1"

/* Zero says that it is not known. */
static void put_known(struct rsum_json_object *object, const char *key, uint64_t count)
{
	if (count)
		rsum_json_put_count(object, key, count);
	else
		rsum_json_put_null(object, key);
}

static const char *verdict_word(const struct ringsum_report *report)
{
	switch (ringsum_report_verdict(report)) {
	case RINGSUM_VERDICT_IDENTICAL:
		return "identical";
	case RINGSUM_VERDICT_REFUSED:
		return "refused";
	default:
		return "undecided";
	}
}

/* ---- members, one on a line ---------------------------------------------------------------- */

static void append_head(struct rsum_text *text, const struct ringsum_report *report)
{
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_text(&object, "schema", SCHEMA);
	rsum_json_put_text(&object, "verdict", verdict_word(report));
	rsum_json_put_text(&object, "root", report->facts.root);
	rsum_json_put_text(&object, "profile", report->facts.profile);
	rsum_json_put_text(&object, "error", report->facts.error);
	rsum_json_append_without_end(text, &object);
}

static void append_manifest(struct rsum_text *text, const struct rsum_report_manifest *manifest)
{
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_text(&object, "kind", manifest->kind);
	rsum_json_put_text(&object, "path", manifest->path);
	rsum_json_put_text(&object, "sha256", manifest->sha256[0] ? manifest->sha256 : NULL);
	rsum_json_append(text, &object);
}

/* The first is a member of its own as well: mostly it is the only one. */
static void append_manifests(struct rsum_text *text, const struct ringsum_report *report)
{
	static const struct rsum_report_manifest none;

	rsum_text_printf(text, ",\n \"manifest\":");
	append_manifest(text, report->manifest_count ? &report->manifests[0] : &none);
	rsum_text_printf(text, ",\n \"manifests\":[");
	for (size_t i = 0; i < report->manifest_count && !text->has_failed; i++) {
		rsum_text_printf(text, "%s", i ? ",\n  " : "");
		append_manifest(text, &report->manifests[i]);
	}
	rsum_text_append(text, "]", 1);
}

static void append_authenticity(struct rsum_text *text,
				const struct rsum_authenticity *authenticity)
{
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_bool(&object, "checked", authenticity->is_checked);
	rsum_json_put_text(&object, "method", authenticity->method);
	rsum_json_put_text(&object, "algorithm", authenticity->algorithm);
	rsum_json_put_text(&object, "fingerprint",
			   authenticity->fingerprint[0] ? authenticity->fingerprint : NULL);
	rsum_json_put_text(&object, "signer", authenticity->signer);
	rsum_json_put_text(&object, "reason", authenticity->reason);
	rsum_text_printf(text, ",\n \"authenticity\":");
	rsum_json_append(text, &object);
}

static void append_totals(struct rsum_text *text, const struct ringsum_totals *totals)
{
	struct rsum_json_object tensors = rsum_json_object_new();
	struct rsum_json_object files = rsum_json_object_new();
	struct rsum_json_object bytes = rsum_json_object_new();
	struct rsum_json_object earlier = rsum_json_object_new();

	rsum_json_put_count(&tensors, "promised", totals->tensors_promised);
	rsum_json_put_count(&tensors, "identical", totals->tensors_identical);
	rsum_json_put_count(&tensors, "refused", totals->tensors_refused);
	rsum_json_put_count(&tensors, "undecided", totals->tensors_undecided);
	rsum_json_put_count(&tensors, "unpromised", totals->tensors_unpromised);
	rsum_text_printf(text, ",\n \"tensors\":");
	rsum_json_append(text, &tensors);
	rsum_json_put_count(&files, "promised", totals->files_promised);
	rsum_json_put_count(&files, "identical", totals->files_identical);
	rsum_json_put_count(&files, "refused", totals->files_refused);
	rsum_json_put_count(&files, "undecided", totals->files_undecided);
	rsum_text_printf(text, ",\n \"files\":");
	rsum_json_append(text, &files);
	rsum_json_put_count(&bytes, "promised", totals->bytes_promised);
	rsum_json_put_count(&bytes, "proven", totals->bytes_proven);
	rsum_json_put_count(&bytes, "read", totals->bytes_read);
	rsum_text_printf(text, ",\n \"bytes\":");
	rsum_json_append(text, &bytes);
	rsum_json_put_count(&earlier, "tensors", totals->tensors_proven_earlier);
	rsum_json_put_count(&earlier, "files", totals->files_proven_earlier);
	rsum_json_put_count(&earlier, "bytes", totals->bytes_proven_earlier);
	rsum_text_printf(text, ",\n \"proven_earlier\":");
	rsum_json_append(text, &earlier);
}

/* direct: true where every shard was read so, null where none was read. */
static void append_io(struct rsum_text *text, const struct rsum_report_facts *facts)
{
	struct rsum_json_object object = rsum_json_object_new();
	const char *direct = "null";

	rsum_json_put_text(&object, "engine", facts->engine);
	rsum_json_put_text(&object, "engine_reason", facts->engine_reason);
	rsum_json_put_count(&object, "files_direct", facts->files_direct);
	rsum_json_put_count(&object, "files_buffered", facts->files_buffered);
	rsum_json_put_text(&object, "buffer_pages", facts->buffer_pages);
	put_known(&object, "chunk_bytes", facts->chunk_bytes);
	put_known(&object, "depth", facts->depth);
	rsum_text_printf(text, ",\n \"io\":");
	rsum_json_append_without_end(text, &object);
	if (facts->files_buffered > 0)
		direct = "false";
	else if (facts->files_direct > 0)
		direct = "true";
	rsum_text_printf(text, ",\"direct\":%s}", direct);
}

static void append_digest(struct rsum_text *text, const struct rsum_report_facts *facts)
{
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_text(&object, "algorithm", "sha256");
	rsum_json_put_text(&object, "implementation", facts->digest_impl);
	put_known(&object, "threads", facts->threads);
	rsum_text_printf(text, ",\n \"digest\":");
	rsum_json_append(text, &object);
}

static void append_files_unpromised(struct rsum_text *text, const struct ringsum_totals *totals)
{
	rsum_text_printf(text, ",\n \"files_unpromised\":");
	if (totals->files_unpromised == UINT64_MAX)
		rsum_text_printf(text, "null");
	else
		rsum_text_printf(text, "%" PRIu64, totals->files_unpromised);
}

/* To the microsecond, without floating point: no locale of the host program has a say. */
static void append_seconds(struct rsum_text *text, double seconds)
{
	uint64_t micros = seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e6 + 0.5) : 0;

	rsum_text_printf(text, ",\n \"elapsed_seconds\":%" PRIu64 ".%06" PRIu64, micros / 1000000,
			 micros % 1000000);
}

static void append_rate(struct rsum_text *text, const struct ringsum_report *report)
{
	uint64_t rate = rsum_report_bytes_per_second(report);

	if (rate)
		rsum_text_printf(text, ",\n \"bytes_per_second\":%" PRIu64, rate);
	else
		rsum_text_printf(text, ",\n \"bytes_per_second\":null");
	rsum_text_printf(text, ",\n \"limited_by\":");
	if (report->facts.limited_by)
		rsum_json_append_string(text, report->facts.limited_by);
	else
		rsum_text_printf(text, "null");
}

/* ---- findings ---------------------------------------------------------------------------- */

static void append_looks(struct rsum_text *text, const struct ringsum_finding *finding)
{
	struct rsum_json_object object;

	rsum_text_printf(text, ",\"looks_like\":");
	if (finding->looks_like == RINGSUM_LOOKS_UNKNOWN) {
		rsum_text_printf(text, "null}");
		return;
	}
	object = rsum_json_object_new();
	rsum_json_put_text(&object, "kind", ringsum_looks_name(finding->looks_like));
	put_known(&object, "offset", finding->looks_offset);
	rsum_json_put_text(&object, "tensor", finding->looks_tensor);
	rsum_json_append(text, &object);
	rsum_text_append(text, "}", 1);
}

static void append_finding(struct rsum_text *text, const struct ringsum_finding *finding)
{
	static const char *const words[] = {
		[RINGSUM_SEVERITY_REFUSE] = "refused",
		[RINGSUM_SEVERITY_UNDECIDED] = "undecided",
		[RINGSUM_SEVERITY_NOTE] = "note",
	};
	struct rsum_json_object object = rsum_json_object_new();
	uint64_t range[] = { finding->begin, finding->end };

	rsum_json_put_text(&object, "code", ringsum_finding_code_name(finding->code));
	rsum_json_put_text(&object, "severity", words[finding->severity]);
	rsum_json_put_text(&object, "tensor", finding->tensor);
	rsum_json_put_text(&object, "file", finding->file);
	if (finding->has_range)
		rsum_json_put_counts(&object, "range", range, RSUM_COUNT_OF(range));
	else
		rsum_json_put_null(&object, "range");
	rsum_json_put_text(&object, "expected", finding->expected);
	rsum_json_put_text(&object, "actual", finding->actual);
	rsum_json_put_text(&object, "message", finding->message);
	rsum_json_append_without_end(text, &object);
	append_looks(text, finding);
}

/* A member that lists the notes, or the findings that are none; each on a line of its own. */
static void append_list(struct rsum_text *text, const struct ringsum_report *report,
			const char *key, bool is_for_notes)
{
	bool is_first = true;

	rsum_text_printf(text, ",\n \"%s\":[", key);
	for (size_t i = 0; i < report->finding_count && !text->has_failed; i++) {
		const struct ringsum_finding *finding = &report->findings[i];

		if ((finding->severity == RINGSUM_SEVERITY_NOTE) != is_for_notes)
			continue;
		rsum_text_printf(text, "%s\n  ", is_first ? "" : ",");
		append_finding(text, finding);
		is_first = false;
	}
	rsum_text_append(text, "]", 1);
}

RSUM_PUBLIC int ringsum_report_to_json(const struct ringsum_report *report, char **json_out,
				       struct ringsum_error *err)
{
	struct rsum_text text = { 0 };
	struct ringsum_totals totals;

	if (!report || !json_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a report and a place for its text "
				      "are needed");
	ringsum_report_totals(report, &totals);
	append_head(&text, report);
	append_manifests(&text, report);
	append_authenticity(&text, &report->facts.authenticity);
	append_totals(&text, &totals);
	append_io(&text, &report->facts);
	append_digest(&text, &report->facts);
	append_seconds(&text, totals.elapsed_seconds);
	append_rate(&text, report);
	rsum_text_printf(&text, ",\n \"interrupted\":%s",
			 report->facts.is_interrupted ? "true" : "false");
	append_files_unpromised(&text, &totals);
	rsum_text_printf(&text, ",\n \"findings_total\":%" PRIu64, totals.findings_total);
	append_list(&text, report, "findings", false);
	append_list(&text, report, "notes", true);
	rsum_text_append(&text, "}\n", 2);
	if (rsum_text_finish(&text, json_out))
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the report was "
				      "written");
	return RINGSUM_OK;
}
