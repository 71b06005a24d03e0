/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report as text for a person, and the escaping that makes hostile names safe to show. Numbers
 * are written without floating point, so that no locale of the host program changes them.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "error.h"
#include "json.h"
#include "report.h"
#include "rsum_limits.h"

#define VALUE_SHOWN_BYTES 256 /* of an expected or actual value */

/* ---- a growing string -------------------------------------------------------------------- */

/* Room for `more` bytes and a NUL. */
static bool reserve(struct rsum_text *text, size_t more)
{
	size_t needed, capacity;
	char *data;

	if (text->has_failed)
		return false;
	if (more >= SIZE_MAX / 4 - text->used_bytes) {
		text->has_failed = true;
		return false;
	}
	needed = text->used_bytes + more + 1;
	if (needed <= text->capacity_bytes)
		return true;
	capacity = RSUM_MAX(needed, text->capacity_bytes * 2);
	capacity = RSUM_MAX(capacity, (size_t)256);
	data = realloc(text->data, capacity);
	if (!data) {
		text->has_failed = true;
		return false;
	}
	text->data = data;
	text->capacity_bytes = capacity;
	return true;
}

void rsum_text_append(struct rsum_text *text, const char *bytes, size_t size_bytes)
{
	if (!reserve(text, size_bytes))
		return;
	memcpy(text->data + text->used_bytes, bytes, size_bytes);
	text->used_bytes += size_bytes;
	text->data[text->used_bytes] = '\0';
}

void rsum_text_printf(struct rsum_text *text, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		text->has_failed = true;
	if (length < 0 || !reserve(text, (size_t)length))
		return;
	va_start(args, format);
	vsnprintf(text->data + text->used_bytes, (size_t)length + 1, format, args);
	va_end(args);
	text->used_bytes += (size_t)length;
}

static char *escape(const char *text, bool keeps_backslash);

static void append_and_free(struct rsum_text *text, char *safe)
{
	if (safe)
		rsum_text_append(text, safe, strlen(safe));
	else
		text->has_failed = true;
	free(safe);
}

void rsum_text_append_escaped(struct rsum_text *text, const char *unsafe)
{
	append_and_free(text, escape(unsafe, false));
}

void rsum_text_append_message(struct rsum_text *text, const char *message)
{
	append_and_free(text, escape(message, true));
}

int rsum_text_finish(struct rsum_text *text, char **string_out)
{
	rsum_text_append(text, "", 0); /* an empty text is an empty string, not NULL */
	if (text->has_failed) {
		free(text->data);
		*text = (struct rsum_text){ 0 };
		return RINGSUM_E_NOMEM;
	}
	*string_out = text->data;
	*text = (struct rsum_text){ 0 };
	return RINGSUM_OK;
}

/* ---- escaping ---------------------------------------------------------------------------- */

/* Bytes of the well-formed character at `bytes`, or 0 where there is none. */
static size_t character_bytes(const char *bytes, uint32_t *code_point_out)
{
	const uint8_t *unit = (const uint8_t *)bytes;
	size_t length = unit[0] < 0x80 ? 1 : unit[0] < 0xe0 ? 2 : unit[0] < 0xf0 ? 3 : 4;
	uint32_t code_point = unit[0];

	/* The text ends with NUL, which is never inside a character: nothing is read past it. */
	if (strnlen(bytes, length) < length || !rsum_utf8_is_valid(bytes, length))
		return 0;
	if (length > 1)
		code_point &= 0x7fu >> length;
	for (size_t i = 1; i < length; i++)
		code_point = code_point << 6 | (unit[i] & 0x3fu);
	*code_point_out = code_point;
	return length;
}

/* What would move the cursor, reorder the line, or be there without being seen. */
static bool is_deceptive(uint32_t code_point)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },	     /* C0 controls */
		{ '\\', '\\' },	     /* the escape itself */
		{ 0x7f, 0x9f },	     /* DEL, C1 controls */
		{ 0xad, 0xad },	     /* soft hyphen */
		{ 0x61c, 0x61c },    /* Arabic letter mark */
		{ 0x200b, 0x200f },  /* zero width, directional marks */
		{ 0x2028, 0x202e },  /* line and paragraph separators, bidirectional overrides */
		{ 0x2060, 0x206f },  /* invisible operators, bidirectional isolates */
		{ 0xfeff, 0xfeff },  /* zero width no-break space */
		{ 0xfff9, 0xfffb },  /* interlinear annotation */
		{ 0xe0000, 0xe007f } /* tags */
	};

	for (size_t i = 0; i < RSUM_COUNT_OF(ranges); i++)
		if (code_point >= ranges[i].first && code_point <= ranges[i].last)
			return true;
	return false;
}

static char *escape_byte(char *out, uint8_t byte)
{
	static const char hex[] = "0123456789abcdef";

	*out++ = '\\';
	switch (byte) {
	case '\n':
		*out++ = 'n';
		return out;
	case '\t':
		*out++ = 't';
		return out;
	case '\r':
		*out++ = 'r';
		return out;
	case '\\':
		*out++ = '\\';
		return out;
	default:
		*out++ = 'x';
		*out++ = hex[byte >> 4];
		*out++ = hex[byte & 15];
		return out;
	}
}

static char *escape(const char *text, bool keeps_backslash)
{
	size_t length = strlen(text);
	uint32_t code_point = 0;
	char *escaped, *out;

	if (length > SIZE_MAX / 4 - 1)
		return NULL;
	out = escaped = malloc(length * 4 + 1); /* \xHH at most for each byte */
	if (!escaped)
		return NULL;
	while (*text) {
		size_t bytes = character_bytes(text, &code_point);

		if (bytes > 0 &&
		    (!is_deceptive(code_point) || (keeps_backslash && code_point == '\\'))) {
			memcpy(out, text, bytes);
			out += bytes;
			text += bytes;
			continue;
		}
		for (bytes = RSUM_MAX(bytes, (size_t)1); bytes > 0; bytes--)
			out = escape_byte(out, (uint8_t)*text++);
	}
	*out = '\0';
	return escaped;
}

char *rsum_text_escape(const char *text)
{
	return escape(text, false);
}

const char *rsum_text_shorten(const char *text, char *buffer, size_t size_bytes)
{
	size_t length = strnlen(text, size_bytes);

	RSUM_ASSERT(size_bytes >= 8);
	if (length < size_bytes) {
		memcpy(buffer, text, length + 1);
		return buffer;
	}
	length = size_bytes - 4;
	while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80)
		length--;
	memcpy(buffer, text, length);
	memcpy(buffer + length, "...", 4);
	return buffer;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* 4755 as "4,755". */
static void append_count(struct rsum_text *text, uint64_t count)
{
	char digits[32];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			rsum_text_append(text, ",", 1);
		rsum_text_append(text, digits + i, 1);
	}
}

/* "1 tensor", "4,755 tensors" */
static void append_counted(struct rsum_text *text, uint64_t count, const char *noun)
{
	append_count(text, count);
	rsum_text_printf(text, " %s%s", noun, count == 1 ? "" : "s");
}

/* Two digits below 10, else whole: "7.5 GB", "631 MB". Decimal units. */
static void append_bytes(struct rsum_text *text, uint64_t bytes)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
	uint64_t unit_bytes = 1000;
	size_t unit = 0;

	if (bytes < 1000) {
		rsum_text_printf(text, "%" PRIu64 " B", bytes);
		return;
	}
	/* 999.5 kB and more would be rounded to 1000 kB: it is 1.0 MB. */
	while (unit + 1 < RSUM_COUNT_OF(units) && bytes >= unit_bytes * 1000 - unit_bytes / 2) {
		unit_bytes *= 1000;
		unit++;
	}
	if (bytes < unit_bytes * 10 - unit_bytes / 20) {
		uint64_t tenths = (bytes + unit_bytes / 20) / (unit_bytes / 10);

		rsum_text_printf(text, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
				 units[unit]);
		return;
	}
	rsum_text_printf(text, "%" PRIu64 " %s",
			 bytes / unit_bytes + (bytes % unit_bytes >= unit_bytes / 2), units[unit]);
}

static void append_seconds(struct rsum_text *text, double seconds)
{
	uint64_t ms = seconds > 0 && seconds < 1e12 ? (uint64_t)(seconds * 1000 + 0.5) : 0;

	if (ms < 100)
		rsum_text_printf(text, "%" PRIu64 " ms", ms);
	else if (ms < 100000)
		rsum_text_printf(text, "%" PRIu64 ".%" PRIu64 " s", (ms + 50) / 1000,
				 (ms + 50) / 100 % 10);
	else
		rsum_text_printf(text, "%" PRIu64 " s", (ms + 500) / 1000);
}

void rsum_text_append_count(struct rsum_text *text, uint64_t count)
{
	append_count(text, count);
}

void rsum_text_append_bytes(struct rsum_text *text, uint64_t bytes)
{
	append_bytes(text, bytes);
}

void rsum_text_append_seconds(struct rsum_text *text, double seconds)
{
	append_seconds(text, seconds);
}

/* ---- findings ---------------------------------------------------------------------------- */

static void append_value(struct rsum_text *text, const char *label, const char *value)
{
	char shown[VALUE_SHOWN_BYTES];

	rsum_text_printf(text, "%s ", label);
	rsum_text_append_escaped(text, rsum_text_shorten(value, shown, sizeof(shown)));
}

/* "refused  CODE  TENSOR  FILE [BEGIN, END)  expected X, found Y: MESSAGE" */
static void append_finding(struct rsum_text *text, const struct ringsum_finding *finding)
{
	static const char *const words[] = {
		[RINGSUM_SEVERITY_REFUSE] = "refused",
		[RINGSUM_SEVERITY_UNDECIDED] = "undecided",
		[RINGSUM_SEVERITY_NOTE] = "note",
	};

	rsum_text_printf(text, "%s  %s", words[finding->severity],
			 ringsum_finding_code_name(finding->code));
	if (finding->tensor) {
		rsum_text_append(text, "  ", 2);
		rsum_text_append_escaped(text, finding->tensor);
	}
	if (finding->file) {
		rsum_text_append(text, "  ", 2);
		rsum_text_append_escaped(text, finding->file);
	}
	if (finding->has_range)
		rsum_text_printf(text, "%s[%" PRIu64 ", %" PRIu64 ")", finding->file ? " " : "  ",
				 finding->begin, finding->end);
	if (finding->expected)
		append_value(text, "  expected", finding->expected);
	if (finding->actual)
		append_value(text, finding->expected ? ", found" : "  found", finding->actual);
	rsum_text_append(text, ": ", 2);
	rsum_text_append_message(text, finding->message);
	rsum_text_append(text, "\n", 1);
}

static void append_findings(struct rsum_text *text, const struct ringsum_report *report)
{
	uint64_t total = report->refusing_count + report->undecided_count;
	size_t listed = report->finding_count - report->note_count;
	size_t notes_shown = 0;

	for (size_t i = 0; i < report->finding_count; i++)
		if (report->findings[i].severity != RINGSUM_SEVERITY_NOTE)
			append_finding(text, &report->findings[i]);
	if (total > listed) {
		rsum_text_append(text, "and ", 4);
		append_counted(text, total - listed, "more finding");
		rsum_text_printf(text, ", counted but not listed\n");
	}
	for (size_t i = 0; i < report->finding_count && notes_shown < RSUM_LIMIT_NOTES_SHOWN; i++) {
		if (report->findings[i].severity != RINGSUM_SEVERITY_NOTE)
			continue;
		append_finding(text, &report->findings[i]);
		notes_shown++;
	}
	if (report->note_count > notes_shown) {
		rsum_text_append(text, "note  and ", 10);
		append_counted(text, report->note_count - notes_shown, "more note");
		rsum_text_printf(text, "; --json lists them\n");
	}
}

/* ---- what was checked, and how ------------------------------------------------------------ */

/* So many are named; JSON has them all. */
#define MANIFESTS_SHOWN 4

static void append_subject(struct rsum_text *text, const struct ringsum_report *report)
{
	const struct rsum_report_facts *facts = &report->facts;

	if (facts->error || (!facts->root && !report->manifest_count))
		return;
	rsum_text_append(text, "checked: ", 9);
	rsum_text_append_escaped(text, facts->root ? facts->root : ".");
	for (size_t i = 0; i < report->manifest_count && i < MANIFESTS_SHOWN; i++) {
		rsum_text_printf(text, "%s", i ? ", " : " against ");
		rsum_text_append_escaped(text, report->manifests[i].path);
		if (report->manifests[i].sha256[0])
			rsum_text_printf(text, " (sha256 %s)", report->manifests[i].sha256);
	}
	if (report->manifest_count > MANIFESTS_SHOWN) {
		rsum_text_append(text, " and ", 5);
		append_count(text, report->manifest_count - MANIFESTS_SHOWN);
		rsum_text_append(text, " more", 5);
	}
	if (facts->profile)
		rsum_text_printf(text, ", profile %s", facts->profile);
	rsum_text_append(text, "\n", 1);
}

/* What did not go the fast way, and what nobody promised. */
static void append_remarks(struct rsum_text *text, const struct ringsum_report *report)
{
	const struct rsum_report_facts *facts = &report->facts;
	const struct ringsum_totals *totals = &report->totals;

	/* Under strict they are findings, and counted as such. */
	if (!facts->is_strict && totals->files_unpromised != UINT64_MAX &&
	    (totals->tensors_unpromised > 0 || totals->files_unpromised > 0)) {
		rsum_text_append(text, "unpromised: ", 12);
		append_counted(text, totals->tensors_unpromised, "tensor");
		rsum_text_append(text, " and ", 5);
		append_counted(text, totals->files_unpromised, "file");
		rsum_text_printf(text, " that the manifest does not speak of, not checked\n");
	} else if (!facts->is_strict && totals->tensors_unpromised > 0) {
		rsum_text_append(text, "unpromised: ", 12);
		append_counted(text, totals->tensors_unpromised, "tensor");
		rsum_text_printf(text, " that the manifest does not speak of, not checked, and an "
				       "unknown number of files\n");
	}
	if (facts->engine_reason) {
		rsum_text_append(text, "io_uring not used: ", 19);
		rsum_text_append_escaped(text, facts->engine_reason);
		rsum_text_append(text, "\n", 1);
	}
	if (facts->files_direct > 0 && facts->files_buffered > 0) {
		rsum_text_append(text, "direct I/O not used for ", 24);
		append_count(text, facts->files_buffered);
		rsum_text_append(text, " of ", 4);
		append_counted(text, (uint64_t)facts->files_direct + facts->files_buffered,
			       "shard");
		rsum_text_append(text, "\n", 1);
	}
}

/* What this run did not read itself is never claimed silently. */
static void append_earlier(struct rsum_text *text, const struct ringsum_totals *totals)
{
	if (totals->tensors_proven_earlier == 0 && totals->files_proven_earlier == 0)
		return;
	rsum_text_printf(text, "proven by an interrupted run before, as its journal says, and not "
			       "read again: ");
	if (totals->tensors_proven_earlier > 0) {
		append_counted(text, totals->tensors_proven_earlier, "tensor");
		rsum_text_append(text, ", ", 2);
	}
	if (totals->files_proven_earlier > 0) {
		append_counted(text, totals->files_proven_earlier, "promise");
		rsum_text_append(text, " of files, ", 11);
	}
	append_bytes(text, totals->bytes_proven_earlier);
	rsum_text_append(text, "\n", 1);
}

/* ---- the summary line --------------------------------------------------------------------- */

/* "631 MB", or "630 MB of 631 MB proven", to the byte where that would read as if all were. */
static void append_proven(struct rsum_text *text, const struct ringsum_report *report)
{
	uint64_t proven = report->totals.bytes_proven, promised = report->totals.bytes_promised;
	struct rsum_text left = { 0 }, right = { 0 };

	append_bytes(&left, proven);
	append_bytes(&right, promised);
	if (ringsum_report_verdict(report) == RINGSUM_VERDICT_IDENTICAL) {
		append_bytes(text, proven);
	} else if (proven != promised && left.data && right.data &&
		   strcmp(left.data, right.data) == 0) {
		append_count(text, proven);
		rsum_text_append(text, " of ", 4);
		append_counted(text, promised, "byte");
		rsum_text_append(text, " proven", 7);
	} else {
		append_bytes(text, proven);
		rsum_text_append(text, " of ", 4);
		append_bytes(text, promised);
		rsum_text_append(text, " proven", 7);
	}
	free(left.data);
	free(right.data);
}

/* ", 631 MB in 0.3 s, 2.1 GB/s, direct I/O" */
static void append_speed(struct rsum_text *text, const struct ringsum_report *report)
{
	const struct ringsum_totals *totals = &report->totals;
	const struct rsum_report_facts *facts = &report->facts;
	uint64_t rate = rsum_report_bytes_per_second(report);

	rsum_text_append(text, ", ", 2);
	append_proven(text, report);
	if (totals->elapsed_seconds > 0) {
		rsum_text_append(text, " in ", 4);
		append_seconds(text, totals->elapsed_seconds);
	}
	if (rate > 0) {
		rsum_text_append(text, ", ", 2);
		append_bytes(text, rate);
		rsum_text_append(text, "/s", 2);
	}
	if (facts->files_direct > 0)
		rsum_text_printf(text, ", %sdirect I/O", facts->files_buffered ? "partly " : "");
	else if (facts->files_buffered > 0)
		rsum_text_printf(text, ", page cache");
}

/* Why there is no verdict although no finding says so; "" where findings do. */
static const char *undecided_reason(const struct ringsum_report *report)
{
	const struct ringsum_totals *totals = &report->totals;

	if (report->is_incomplete_for_memory)
		return "memory ran out, so not everything that was found is known; ";
	if (report->undecided_count > 0 || report->facts.is_interrupted)
		return "";
	if (!report->is_complete)
		return "the check did not run to its end; ";
	if (totals->tensors_promised == 0 && totals->files_promised == 0)
		return "nothing is promised, so nothing could be proven; ";
	if (totals->tensors_identical == totals->tensors_promised &&
	    totals->files_identical == totals->files_promised)
		return "the bytes proven are not the bytes promised; ";
	return totals->files_promised ? "not all that is promised could be proven; "
				      : "not every promised tensor could be proven; ";
}

/* Said wherever a promise can be signed, so that what was not checked never looks as if it was. */
static void append_authenticity(struct rsum_text *text,
				const struct rsum_authenticity *authenticity)
{
	if (!authenticity->method || authenticity->is_refused)
		return;
	if (!authenticity->is_checked) {
		rsum_text_printf(text, "signature not checked: ");
		rsum_text_append_message(text, authenticity->reason ? authenticity->reason : "");
	} else {
		rsum_text_printf(text, "signature checked: %s, %s sha256 %s",
				 authenticity->algorithm, authenticity->method,
				 authenticity->fingerprint);
		if (authenticity->signer) {
			rsum_text_append(text, ", ", 2);
			rsum_text_append_escaped(text, authenticity->signer);
		}
	}
	rsum_text_append(text, "\n", 1);
}

/* "4,754 of 4,755 tensors" */
static void append_part(struct rsum_text *text, uint64_t part, uint64_t whole, const char *noun)
{
	append_count(text, part);
	rsum_text_append(text, " of ", 4);
	append_counted(text, whole, noun);
}

static void append_summary(struct rsum_text *text, const struct ringsum_report *report)
{
	const struct ringsum_totals *totals = &report->totals;
	enum ringsum_verdict verdict = ringsum_report_verdict(report);
	/* Of nothing at all it is tensors that are none. */
	bool has_files = totals->files_promised > 0;
	bool has_tensors = totals->tensors_promised > 0 || !has_files;

	if (report->facts.error) {
		rsum_text_append(text, "undecided: ", 11);
		rsum_text_append_message(text, report->facts.error);
		rsum_text_append(text, "\n", 1);
		return;
	}
	if (verdict == RINGSUM_VERDICT_IDENTICAL) {
		rsum_text_append(text, "identical: ", 11);
		if (has_tensors)
			append_counted(text, totals->tensors_identical, "tensor");
		if (has_tensors && has_files)
			rsum_text_append(text, " and ", 5);
		if (has_files)
			append_counted(text, totals->files_identical, "file");
	} else {
		rsum_text_printf(
			text, "%s: ", verdict == RINGSUM_VERDICT_REFUSED ? "refused" : "undecided");
		if (report->facts.is_interrupted)
			rsum_text_printf(text, "interrupted before everything was read; ");
		if (verdict == RINGSUM_VERDICT_UNDECIDED)
			rsum_text_printf(text, "%s", undecided_reason(report));
		append_counted(text, report->refusing_count + report->undecided_count, "finding");
		rsum_text_append(text, "; ", 2);
		if (has_tensors)
			append_part(text, totals->tensors_identical, totals->tensors_promised,
				    "tensor");
		if (has_tensors && has_files)
			rsum_text_append(text, " and ", 5);
		if (has_files)
			append_part(text, totals->files_identical, totals->files_promised, "file");
		rsum_text_append(text, " identical", 10);
	}
	append_speed(text, report);
	rsum_text_append(text, "\n", 1);
}

RSUM_PUBLIC int ringsum_report_to_text(const struct ringsum_report *report, char **text_out,
				       struct ringsum_error *err)
{
	struct rsum_text text = { 0 };

	if (!report || !text_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a report and a place for its text "
				      "are needed");
	append_subject(&text, report);
	append_authenticity(&text, &report->facts.authenticity);
	append_findings(&text, report);
	append_remarks(&text, report);
	append_earlier(&text, &report->totals);
	append_summary(&text, report);
	if (rsum_text_finish(&text, text_out))
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the report was "
				      "written");
	return RINGSUM_OK;
}
