/* SPDX-License-Identifier: Apache-2.0 */
/* Findings, the verdict, and the report as text and as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "report.h"
#include "rsum_limits.h"

static struct ringsum_report *new_report(void)
{
	struct ringsum_report *report = rsum_report_new();

	assert_non_null(report);
	return report;
}

/* A report of a run in which everything was proven. */
static struct ringsum_report *proven_report(void)
{
	struct ringsum_report *report = new_report();

	report->totals.tensors_promised = 4755;
	report->totals.tensors_identical = 4755;
	report->totals.bytes_promised = 631000000;
	report->totals.bytes_proven = 631000000;
	report->totals.bytes_read = 631000000;
	report->totals.elapsed_seconds = 0.3;
	report->facts.files_direct = 4;
	report->facts.profile = "dspark-exl3";
	report->facts.engine = "io_uring";
	rsum_report_set_text(report, &report->facts.root, "/models/drafter");
	rsum_report_set_complete(report);
	return report;
}

static void add(struct ringsum_report *report, enum ringsum_finding_code code)
{
	rsum_report_add(report, &(struct ringsum_finding){ .code = code, .message = "m" });
}

static void add_note(struct ringsum_report *report, const char *file)
{
	rsum_report_add(report, &(struct ringsum_finding){ .code = RINGSUM_FINDING_UNPROMISED,
							   .severity = RINGSUM_SEVERITY_NOTE,
							   .file = file,
							   .message = "nobody promised it" });
}

static bool is_undecided_code(enum ringsum_finding_code code)
{
	return code == RINGSUM_FINDING_READ_ERROR || code == RINGSUM_FINDING_UNSTABLE_READ ||
	       code == RINGSUM_FINDING_CHANGED_DURING_READ ||
	       code == RINGSUM_FINDING_DIGEST_UNSUPPORTED;
}

/* ---- verdict ------------------------------------------------------------------------------ */

static void test_verdict_of_each_code(void **state)
{
	(void)state;
	for (unsigned code = 0; code < RINGSUM_FINDING_CODE_COUNT; code++) {
		struct ringsum_report *report = proven_report();
		bool is_undecided = is_undecided_code((enum ringsum_finding_code)code);

		assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_IDENTICAL);
		add(report, (enum ringsum_finding_code)code);
		assert_int_equal(ringsum_report_verdict(report), is_undecided
									 ? RINGSUM_VERDICT_UNDECIDED
									 : RINGSUM_VERDICT_REFUSED);
		assert_int_equal(ringsum_report_finding_at(report, 0)->severity,
				 is_undecided ? RINGSUM_SEVERITY_UNDECIDED
					      : RINGSUM_SEVERITY_REFUSE);
		assert_non_null(ringsum_finding_code_name((enum ringsum_finding_code)code));
		add(report, RINGSUM_FINDING_DIGEST_MISMATCH); /* refused wins */
		assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_REFUSED);
		ringsum_report_free(report);
	}
	assert_null(ringsum_finding_code_name(RINGSUM_FINDING_CODE_COUNT));
}

/* Every condition alone takes "identical" away. */
static void test_verdict_truth_table(void **state)
{
	(void)state;
	for (unsigned mask = 0; mask < 1u << 9; mask++) {
		struct ringsum_report *report = proven_report();
		bool is_refused = mask & 3u;

		if (mask & 1u)
			report->totals.tensors_refused = 1;
		if (mask & 2u)
			report->refusing_count = 1;
		if (mask & 4u)
			report->is_complete = false;
		if (mask & 8u)
			report->is_incomplete_for_memory = true;
		if (mask & 16u)
			report->undecided_count = 1;
		if (mask & 32u)
			report->totals.tensors_undecided = 1;
		if (mask & 64u)
			report->totals.tensors_identical--;
		if (mask & 128u)
			report->totals.bytes_proven--;
		if (mask & 256u)
			report->totals.tensors_promised = report->totals.tensors_identical = 0;
		assert_int_equal(ringsum_report_verdict(report),
				 is_refused ? RINGSUM_VERDICT_REFUSED
				 : mask	    ? RINGSUM_VERDICT_UNDECIDED
					    : RINGSUM_VERDICT_IDENTICAL);
		ringsum_report_free(report);
	}
	assert_int_equal(ringsum_report_verdict(NULL), RINGSUM_VERDICT_UNDECIDED);
}

/* One thing that could not be established is enough, though all else was proven. */
static void test_one_undecided_finding_is_enough(void **state)
{
	struct ringsum_report *report = proven_report();

	(void)state;
	add(report, RINGSUM_FINDING_READ_ERROR);
	assert_int_equal(report->undecided_count, 1);
	assert_int_equal(report->totals.tensors_identical, report->totals.tensors_promised);
	assert_int_equal(report->totals.tensors_undecided, 0);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
	ringsum_report_free(report);
}

static void test_files_not_listed(void **state)
{
	struct ringsum_report *report = proven_report();
	char *text = NULL;

	(void)state;
	report->totals.files_unpromised = UINT64_MAX;
	assert_int_equal(ringsum_report_to_json(report, &text, NULL), RINGSUM_OK);
	assert_non_null(strstr(text, "\"files_unpromised\":null,"));
	ringsum_free(text);
	assert_int_equal(ringsum_report_to_text(report, &text, NULL), RINGSUM_OK);
	assert_null(strstr(text, "unpromised"));
	ringsum_free(text);
	report->totals.tensors_unpromised = 2;
	assert_int_equal(ringsum_report_to_text(report, &text, NULL), RINGSUM_OK);
	assert_non_null(strstr(text, "unpromised: 2 tensors that the manifest does not speak of, "
				     "not checked, and an unknown number of files\n"));
	ringsum_free(text);
	ringsum_report_free(report);
}

static void test_refusal_count(void **state)
{
	struct rsum_refusal refusal;
	size_t i;

	(void)state;
	(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_FILE_MISSING, "gone");
	rsum_refusal_add_count(&refusal, 0, "egg", "eggs");
	assert_string_equal(refusal.message, "gone");
	rsum_refusal_add_count(&refusal, 1, "egg", "eggs");
	assert_string_equal(refusal.message, "gone; 1 egg");
	for (i = 0; i < sizeof(refusal.message) - 2; i += 2)
		memcpy(refusal.message + i, "\xc3\xa9", 3);
	rsum_refusal_add_count(&refusal, 12, "egg", "eggs");
	i = strlen(refusal.message);
	assert_true(i < sizeof(refusal.message));
	assert_memory_equal(refusal.message + i - 10, "\xa9; 12 eggs", 10);
}

static void test_new_report_is_undecided(void **state)
{
	struct ringsum_report *report = new_report();

	(void)state;
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
	rsum_report_set_complete(report);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
	ringsum_report_free(report);
	ringsum_report_free(NULL);
}

static void test_notes_do_not_decide(void **state)
{
	struct ringsum_report *report = proven_report();
	struct ringsum_totals totals;

	(void)state;
	add_note(report, "x");
	rsum_report_add(report, &(struct ringsum_finding){ .code = RINGSUM_FINDING_UNSTABLE_READ,
							   .severity = RINGSUM_SEVERITY_NOTE });
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_IDENTICAL);
	assert_int_equal(ringsum_report_finding_count(report), 2);
	assert_string_equal(ringsum_report_finding_at(report, 1)->message, "unstable-read");
	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.findings_total, 0);
	ringsum_report_free(report);
}

/* ---- the list ----------------------------------------------------------------------------- */

static void test_findings_are_copies(void **state)
{
	struct ringsum_report *report = new_report();
	char tensor[] = "t", file[] = "f", expected[] = "e", actual[] = "a", message[] = "m";
	const struct ringsum_finding *finding;
	struct rsum_refusal refusal;

	(void)state;
	rsum_report_add(report, &(struct ringsum_finding){
					.code = RINGSUM_FINDING_DIGEST_MISMATCH,
					.severity = RINGSUM_SEVERITY_UNDECIDED, /* not taken over */
					.tensor = tensor,
					.file = file,
					.has_range = 1,
					.begin = 5,
					.end = 6,
					.expected = expected,
					.actual = actual,
					.message = message,
				});
	tensor[0] = file[0] = expected[0] = actual[0] = message[0] = '?';
	finding = ringsum_report_finding_at(report, 0);
	assert_string_equal(finding->tensor, "t");
	assert_string_equal(finding->file, "f");
	assert_string_equal(finding->expected, "e");
	assert_string_equal(finding->actual, "a");
	assert_string_equal(finding->message, "m");
	assert_int_equal(finding->severity, RINGSUM_SEVERITY_REFUSE);
	assert_int_equal(finding->end, 6);
	assert_null(ringsum_report_finding_at(report, 1));

	rsum_refusal_set(&refusal, RINGSUM_FINDING_FILE_TYPE, "a %s", "FIFO");
	rsum_report_add_refusal(report, &refusal, NULL, "f");
	finding = ringsum_report_finding_at(report, 1);
	assert_string_equal(finding->message, "a FIFO");
	assert_null(finding->expected);
	assert_null(finding->actual);
	assert_null(finding->tensor);
	ringsum_report_free(report);
}

static void test_list_limit(void **state)
{
	struct ringsum_report *report = proven_report();
	struct ringsum_totals totals;
	size_t listed;

	(void)state;
	for (unsigned i = 0; i < 20000; i++)
		add_note(report, "n");
	listed = ringsum_report_finding_count(report);
	assert_true(listed >= 1000 && listed < 20000);
	for (unsigned i = 0; i < RSUM_LIMIT_FINDINGS; i++)
		add(report, RINGSUM_FINDING_READ_ERROR);
	/* Notes made room: everything that decides is listed. */
	assert_int_equal(ringsum_report_finding_count(report), RSUM_LIMIT_FINDINGS);
	for (size_t i = 0; i < RSUM_LIMIT_FINDINGS; i++)
		assert_int_equal(ringsum_report_finding_at(report, i)->severity,
				 RINGSUM_SEVERITY_UNDECIDED);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
	/* Past the limit it is counted, and it decides. */
	add(report, RINGSUM_FINDING_DIGEST_MISMATCH);
	add_note(report, "n");
	assert_int_equal(ringsum_report_finding_count(report), RSUM_LIMIT_FINDINGS);
	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.findings_total, RSUM_LIMIT_FINDINGS + 1);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_REFUSED);
	ringsum_report_free(report);
}

static void test_clone(void **state)
{
	struct ringsum_report *report = proven_report(), *copy;

	(void)state;
	add_note(report, "n");
	add(report, RINGSUM_FINDING_READ_ERROR);
	rsum_report_set_text(report, &report->facts.engine_reason, "not permitted");
	copy = rsum_report_clone(report);
	assert_non_null(copy);
	ringsum_report_free(report);
	assert_string_equal(copy->facts.root, "/models/drafter");
	assert_string_equal(copy->facts.engine_reason, "not permitted");
	assert_string_equal(copy->facts.profile, "dspark-exl3");
	assert_int_equal(copy->finding_count, 2);
	assert_int_equal(copy->note_count, 1);
	assert_int_equal(copy->undecided_count, 1);
	assert_int_equal(copy->totals.tensors_promised, 4755);
	assert_int_equal(copy->findings[0].severity, RINGSUM_SEVERITY_NOTE);
	assert_false(copy->is_complete); /* the second phase has yet to run */
	ringsum_report_free(copy);
}

/* ---- text --------------------------------------------------------------------------------- */

static void test_escape(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "plain name", "plain name" },
		{ "a\nb\tc\rd\\e", "a\\nb\\tc\\rd\\\\e" },
		{ "\x1b[31m", "\\x1b[31m" },
		{ "\x7f", "\\x7f" },
		{ "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		  "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "\xff", "\\xff" },
		{ "a\x80"
		  "b",
		  "a\\x80b" },
		{ "\xc3", "\\xc3" },
		{ "\xe2\x82", "\\xe2\\x82" },
		{ "\xc0\x80", "\\xc0\\x80" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xc2\x85", "\\xc2\\x85" },
		{ "\xc2\xa0", "\xc2\xa0" },
		{ "a\xe2\x80\xae"
		  "b",
		  "a\\xe2\\x80\\xaeb" },
		{ "\xe2\x80\x8f", "\\xe2\\x80\\x8f" },
		{ "\xe2\x81\xa6", "\\xe2\\x81\\xa6" },
		{ "\xe2\x80\xa8", "\\xe2\\x80\\xa8" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		char *escaped = rsum_text_escape(cases[i][0]);

		assert_non_null(escaped);
		assert_string_equal(escaped, cases[i][1]);
		free(escaped);
	}
}

/* Messages show names that are escaped already; no second backslash is put before the first. */
static void test_messages_keep_backslashes(void **state)
{
	struct rsum_text text = { 0 };
	char *string = NULL;

	(void)state;
	rsum_text_append_message(&text, "\\ud800 and \\x1b, but \x1b[31m\n\xff");
	assert_int_equal(rsum_text_finish(&text, &string), RINGSUM_OK);
	assert_string_equal(string, "\\ud800 and \\x1b, but \\x1b[31m\\n\\xff");
	ringsum_free(string);
}

static void test_shorten(void **state)
{
	char buffer[8];

	(void)state;
	assert_string_equal(rsum_text_shorten("1234567", buffer, 8), "1234567");
	assert_string_equal(rsum_text_shorten("12345678", buffer, 8), "1234...");
	assert_string_equal(rsum_text_shorten("123\xc3\xa9"
					      "56789",
					      buffer, 8),
			    "123...");
	assert_string_equal(rsum_text_shorten("", buffer, 8), "");
}

static char *to_text(const struct ringsum_report *report)
{
	char *text = NULL;

	assert_int_equal(ringsum_report_to_text(report, &text, NULL), RINGSUM_OK);
	assert_non_null(text);
	assert_true(strlen(text) > 0 && text[strlen(text) - 1] == '\n');
	return text;
}

static void assert_holds(const char *text, const char *piece)
{
	if (!text || !strstr(text, piece))
		fail_msg("%s\nis not in\n%s", piece, text ? text : "(nothing)");
}

static void assert_text_holds(const struct ringsum_report *report, const char *piece)
{
	char *text = to_text(report);

	assert_holds(text, piece);
	ringsum_free(text);
}

static void test_text_identical(void **state)
{
	struct ringsum_report *report = proven_report();
	char *text;

	(void)state;
	assert_int_equal(rsum_report_add_manifest(report, "TENSORS.json", "TENSORS.json", "00ff"),
			 0);
	text = to_text(report);
	assert_string_equal(text,
			    "checked: /models/drafter against TENSORS.json (sha256 00ff), "
			    "profile dspark-exl3\n"
			    "identical: 4,755 tensors, 631 MB in 0.3 s, 2.1 GB/s, direct I/O\n");
	ringsum_free(text);
	report->totals.tensors_promised = report->totals.tensors_identical = 1;
	assert_text_holds(report, "identical: 1 tensor, ");
	ringsum_report_free(report);
}

static void test_text_refused(void **state)
{
	struct ringsum_report *report = proven_report();
	char *text;

	(void)state;
	rsum_report_add(report, &(struct ringsum_finding){
					.code = RINGSUM_FINDING_DIGEST_MISMATCH,
					.tensor = "mtp.0.attn.wq_a.trellis",
					.file = "model-00001.safetensors",
					.has_range = 1,
					.begin = 1024,
					.end = 5120,
					.expected = "9f",
					.actual = "3a",
					.message = "the bytes differ",
				});
	add(report, RINGSUM_FINDING_READ_ERROR);
	report->totals.tensors_refused = 1;
	report->totals.tensors_undecided = 1;
	report->totals.tensors_identical -= 2;
	report->facts.files_buffered = 1;
	rsum_report_set_text(report, &report->facts.engine_reason, "not permitted");
	text = to_text(report);
	assert_holds(text, "refused  digest-mismatch  mtp.0.attn.wq_a.trellis  "
			   "model-00001.safetensors [1024, 5120)  expected 9f, found 3a: "
			   "the bytes differ\n");
	assert_holds(text, "undecided  read-error: m\n");
	assert_holds(text, "io_uring not used: not permitted\n");
	assert_holds(text, "direct I/O not used for 1 of 5 shards\n");
	assert_holds(text, "\nrefused: 2 findings; 4,753 of 4,755 tensors identical, ");
	ringsum_free(text);
	ringsum_report_free(report);
}

/* One shows to which checkpoint findings belong before they come. */
static void test_text_begins_with_what_was_checked(void **state)
{
	struct ringsum_report *report = proven_report();
	char *text;

	(void)state;
	add(report, RINGSUM_FINDING_DIGEST_MISMATCH);
	text = to_text(report);
	assert_int_equal(strncmp(text, "checked: /models/drafter", 24), 0);
	assert_holds(text, "\nrefused  digest-mismatch");
	ringsum_free(text);
	ringsum_report_free(report);
}

/* What was not proven must not be lost in rounding. */
static void test_text_nearly_all_bytes(void **state)
{
	struct ringsum_report *report = proven_report();

	(void)state;
	report->totals.bytes_proven -= 1000;
	assert_text_holds(report, ", 630,999,000 of 631,000,000 bytes proven in ");
	report->totals.bytes_proven -= 99000000;
	assert_text_holds(report, ", 532 MB of 631 MB proven in ");
	ringsum_report_free(report);
}

static void test_advice(void **state)
{
	struct ringsum_report *report = rsum_report_new();

	(void)state;
	assert_non_null(report);
	rsum_report_advise(report, "nothing to advise on");
	add(report, RINGSUM_FINDING_READ_ERROR);
	rsum_report_add(report, &(struct ringsum_finding){
					.code = RINGSUM_FINDING_MANIFEST_INVALID,
					.message = "unusable",
				});
	rsum_report_advise(report, "get another");
	assert_string_equal(ringsum_report_finding_at(report, 1)->message, "unusable; get another");
	ringsum_report_free(report);
}

/* Without a finding it still says why nothing is decided. */
static void test_text_undecided(void **state)
{
	struct ringsum_report *report = proven_report();

	(void)state;
	report->is_complete = false;
	assert_text_holds(report, "undecided: the check did not run to its end; 0 findings; ");
	report->is_incomplete_for_memory = true;
	assert_text_holds(report, "undecided: memory ran out");
	report->is_complete = true;
	report->is_incomplete_for_memory = false;
	report->totals.tensors_identical--;
	assert_text_holds(report, "undecided: not every promised tensor could be proven; ");
	report->totals.tensors_identical++;
	report->totals.bytes_proven--;
	assert_text_holds(report, "undecided: the bytes proven are not the bytes promised; ");
	report->totals = (struct ringsum_totals){ 0 };
	assert_text_holds(report, "undecided: nothing is promised");
	add(report, RINGSUM_FINDING_READ_ERROR);
	assert_text_holds(report, "undecided: 1 finding; 0 of 0 tensors identical");
	ringsum_report_free(report);
}

static void test_text_hostile_names(void **state)
{
	struct ringsum_report *report = proven_report();
	char *text, *longest = malloc(5001);

	(void)state;
	assert_non_null(longest);
	memset(longest, 'x', 5000);
	longest[5000] = '\0';
	rsum_report_set_text(report, &report->facts.root, "/tmp/\x1b[2J\nidentical: all");
	rsum_report_add(report, &(struct ringsum_finding){
					.code = RINGSUM_FINDING_TENSOR_UNEXPECTED,
					.tensor = "a\n\x1b]0;owned\x07\xff",
					.file = "b\r\xe2\x80\xae",
					.expected = longest,
					.actual = "\x9b",
					.message = "line\nbreak",
				});
	text = to_text(report);
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= 0x20);
	assert_holds(text, "a\\n\\x1b]0;owned\\x07\\xff");
	assert_holds(text, "b\\r\\xe2\\x80\\xae");
	assert_holds(text, "/tmp/\\x1b[2J\\nidentical: all");
	assert_holds(text, "line\\nbreak");
	assert_null(strstr(text, "\nidentical"));
	assert_true(strlen(text) < 2000); /* values are shortened */
	ringsum_free(text);
	free(longest);
	ringsum_report_free(report);
}

static void test_text_many_notes(void **state)
{
	struct ringsum_report *report = proven_report();
	size_t shown = 0;
	char *text;

	(void)state;
	for (unsigned i = 0; i < 25; i++)
		add_note(report, "file");
	report->totals.files_unpromised = 25;
	text = to_text(report);
	for (const char *at = text; (at = strstr(at, "note  unpromised  file")); at++)
		shown++;
	assert_int_equal(shown, 20);
	assert_holds(text, "and 5 more notes; --json lists them");
	assert_holds(text, "unpromised: 0 tensors and 25 files");
	assert_holds(text, "\nidentical: ");
	ringsum_free(text);
	report->facts.is_strict = true; /* findings then, and told as such */
	text = to_text(report);
	assert_null(strstr(text, "\nunpromised: "));
	ringsum_free(text);
	ringsum_report_free(report);
}

static void test_text_numbers(void **state)
{
	static const struct {
		uint64_t bytes;
		double seconds;
		const char *piece;
	} cases[] = {
		{ 0, 0, ", 0 B," },
		{ 999, 1, ", 999 B in 1.0 s" },
		{ 1000, 0.0004, ", 1.0 kB in 0 ms" },
		{ 999499, 0.0996, ", 999 kB in 0.1 s" },
		{ 999500, 0.05, ", 1.0 MB in 50 ms" },
		{ 9949999, 99.94, ", 9.9 MB in 99.9 s" },
		{ 9950000, 100, ", 10 MB in 100 s" },
		{ 7526000000, 3600, ", 7.5 GB in 3600 s" },
		{ UINT64_MAX, 1, ", 18 EB in 1.0 s" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		struct ringsum_report *report = proven_report();

		report->totals.bytes_promised = report->totals.bytes_proven = cases[i].bytes;
		report->totals.bytes_read = cases[i].bytes;
		report->totals.elapsed_seconds = cases[i].seconds;
		assert_text_holds(report, cases[i].piece);
		ringsum_report_free(report);
	}
}

/* ---- JSON --------------------------------------------------------------------------------- */

static struct json_object *to_json(const struct ringsum_report *report)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *json;
	char *text = NULL;

	assert_non_null(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	assert_int_equal(ringsum_report_to_json(report, &text, NULL), RINGSUM_OK);
	assert_int_equal(text[strlen(text) - 1], '\n');
	json = json_tokener_parse_ex(tokener, text, (int)strlen(text) - 1);
	assert_int_equal(json_tokener_get_error(tokener), json_tokener_success);
	json_tokener_free(tokener);
	ringsum_free(text);
	return json;
}

/* The value at a dotted path; fails where a member is absent (null is a value). */
static struct json_object *at(struct json_object *json, const char *path)
{
	char copy[128], *rest = copy;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key; (key = strsep(&rest, "."));) {
		struct json_object *value = NULL;

		if (json_object_is_type(json, json_type_array))
			value = json_object_array_get_idx(json, (size_t)atoi(key));
		else if (!json_object_object_get_ex(json, key, &value))
			fail_msg("no member %s", path);
		json = value;
	}
	return json;
}

static void assert_string_at(struct json_object *json, const char *path, const char *expected)
{
	assert_true(json_object_is_type(at(json, path), json_type_string));
	assert_string_equal(json_object_get_string(at(json, path)), expected);
}

static void assert_count_at(struct json_object *json, const char *path, uint64_t expected)
{
	assert_true(json_object_is_type(at(json, path), json_type_int));
	assert_true(json_object_get_uint64(at(json, path)) == expected);
}

static void test_json_full(void **state)
{
	struct ringsum_report *report = proven_report();
	struct json_object *json;

	(void)state;
	assert_int_equal(rsum_report_add_manifest(report, "TENSORS.json", "TENSORS.json", "00ff"),
			 0);
	rsum_report_set_text(report, &report->facts.engine_reason, "why not");
	report->facts.buffer_pages = "huge";
	report->facts.chunk_bytes = 1048576;
	report->facts.depth = 32;
	report->facts.digest_impl = "sha-ni-x3";
	report->facts.threads = 2;
	report->facts.limited_by = "disk";
	report->totals.bytes_read = UINT64_MAX;
	report->totals.tensors_unpromised = 7;
	report->totals.files_unpromised = 8;
	add_note(report, "dir/extra");
	json = to_json(report);
	assert_string_at(json, "schema", "ringsum-report/1");
	assert_string_at(json, "verdict", "identical");
	assert_string_at(json, "root", "/models/drafter");
	assert_string_at(json, "profile", "dspark-exl3");
	assert_string_at(json, "manifest.kind", "TENSORS.json");
	assert_string_at(json, "manifest.path", "TENSORS.json");
	assert_string_at(json, "manifest.sha256", "00ff");
	assert_count_at(json, "tensors.promised", 4755);
	assert_count_at(json, "tensors.identical", 4755);
	assert_count_at(json, "tensors.refused", 0);
	assert_count_at(json, "tensors.undecided", 0);
	assert_count_at(json, "tensors.unpromised", 7);
	assert_count_at(json, "bytes.promised", 631000000);
	assert_count_at(json, "bytes.proven", 631000000);
	assert_count_at(json, "bytes.read", UINT64_MAX);
	assert_string_at(json, "io.engine", "io_uring");
	assert_string_at(json, "io.engine_reason", "why not");
	assert_true(json_object_is_type(at(json, "io.direct"), json_type_boolean));
	assert_true(json_object_get_boolean(at(json, "io.direct")));
	assert_count_at(json, "io.files_direct", 4);
	assert_count_at(json, "io.files_buffered", 0);
	assert_string_at(json, "io.buffer_pages", "huge");
	assert_count_at(json, "io.chunk_bytes", 1048576);
	assert_count_at(json, "io.depth", 32);
	assert_string_at(json, "digest.algorithm", "sha256");
	assert_string_at(json, "digest.implementation", "sha-ni-x3");
	assert_count_at(json, "digest.threads", 2);
	assert_true(json_object_get_double(at(json, "elapsed_seconds")) > 0.2999);
	assert_true(json_object_get_double(at(json, "elapsed_seconds")) < 0.3001);
	assert_string_at(json, "limited_by", "disk");
	assert_count_at(json, "files_unpromised", 8);
	assert_false(json_object_get_boolean(at(json, "interrupted")));
	assert_count_at(json, "findings_total", 0);
	assert_int_equal(json_object_array_length(at(json, "findings")), 0);
	assert_int_equal(json_object_array_length(at(json, "notes")), 1);
	assert_string_at(json, "notes.0.severity", "note");
	assert_string_at(json, "notes.0.file", "dir/extra");
	json_object_put(json);

	report->facts.files_buffered = 1;
	json = to_json(report);
	assert_false(json_object_get_boolean(at(json, "io.direct")));
	json_object_put(json);
	ringsum_report_free(report);
}

static void test_interrupted(void **state)
{
	struct ringsum_report *report = proven_report();
	struct json_object *json;

	(void)state;
	report->is_complete = false;
	report->facts.is_interrupted = true;
	assert_text_holds(report,
			  "undecided: interrupted before everything was read; 0 findings; ");
	json = to_json(report);
	assert_true(json_object_get_boolean(at(json, "interrupted")));
	assert_string_at(json, "verdict", "undecided");
	json_object_put(json);
	add(report, RINGSUM_FINDING_DIGEST_MISMATCH);
	assert_text_holds(report, "refused: interrupted before everything was read; 1 finding; ");
	ringsum_report_free(report);
}

/* What is not known is there, and null. */
static void test_json_empty(void **state)
{
	static const char *const nulls[] = {
		"root",
		"profile",
		"manifest.kind",
		"manifest.path",
		"manifest.sha256",
		"io.engine",
		"io.engine_reason",
		"io.direct",
		"io.buffer_pages",
		"io.chunk_bytes",
		"io.depth",
		"digest.implementation",
		"digest.threads",
		"bytes_per_second",
		"limited_by",
	};
	struct ringsum_report *report = new_report();
	struct json_object *json;

	(void)state;
	report->totals.elapsed_seconds = -1;
	json = to_json(report);
	for (size_t i = 0; i < RSUM_COUNT_OF(nulls); i++)
		assert_null(at(json, nulls[i]));
	assert_string_at(json, "verdict", "undecided");
	assert_count_at(json, "tensors.promised", 0);
	assert_true(json_object_get_double(at(json, "elapsed_seconds")) < 1e-9);
	json_object_put(json);
	ringsum_report_free(report);
}

static void test_json_findings(void **state)
{
	struct ringsum_report *report = proven_report();
	struct json_object *json;

	(void)state;
	rsum_report_add(report, &(struct ringsum_finding){
					.code = RINGSUM_FINDING_HEADER_MISMATCH,
					.tensor = "a/b \"c\"\n\xe2\x82\xac\x7f",
					.file = "bad\xff\xc3"
						"name",
					.has_range = 1,
					.begin = 0,
					.end = UINT64_MAX,
					.message = "what",
				});
	add(report, RINGSUM_FINDING_READ_ERROR);
	json = to_json(report);
	assert_string_at(json, "verdict", "refused");
	assert_count_at(json, "findings_total", 2);
	assert_int_equal(json_object_array_length(at(json, "findings")), 2);
	assert_string_at(json, "findings.0.code", "header-mismatch");
	assert_string_at(json, "findings.0.severity", "refused");
	assert_string_at(json, "findings.0.tensor", "a/b \"c\"\n\xe2\x82\xac\x7f");
	assert_string_at(json, "findings.0.file", "bad\xef\xbf\xbd\xef\xbf\xbdname");
	assert_string_at(json, "findings.0.file_hex", "626164ffc36e616d65");
	assert_count_at(json, "findings.0.range.0", 0);
	assert_count_at(json, "findings.0.range.1", UINT64_MAX);
	assert_null(at(json, "findings.0.expected"));
	assert_null(at(json, "findings.0.actual"));
	assert_string_at(json, "findings.0.message", "what");
	assert_string_at(json, "findings.1.severity", "undecided");
	assert_null(at(json, "findings.1.tensor"));
	assert_null(at(json, "findings.1.file"));
	assert_null(at(json, "findings.1.range"));
	json_object_put(json);
	ringsum_report_free(report);
}

static void test_json_escapes_no_slash(void **state)
{
	struct ringsum_report *report = proven_report();
	char *text = NULL;

	(void)state;
	assert_int_equal(ringsum_report_to_json(report, &text, NULL), RINGSUM_OK);
	assert_holds(text, "/models/drafter");
	ringsum_free(text);
	ringsum_report_free(report);
}

static void test_misuse(void **state)
{
	struct ringsum_error err;
	char *text = NULL;

	(void)state;
	assert_int_equal(ringsum_report_to_json(NULL, &text, &err), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_report_to_text(NULL, &text, &err), RINGSUM_E_INVALID);
	assert_int_equal(err.code, RINGSUM_E_INVALID);
	assert_null(text);
	assert_int_equal(ringsum_report_finding_count(NULL), 0);
	assert_null(ringsum_report_finding_at(NULL, 0));
	ringsum_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdict_of_each_code),
		cmocka_unit_test(test_verdict_truth_table),
		cmocka_unit_test(test_one_undecided_finding_is_enough),
		cmocka_unit_test(test_files_not_listed),
		cmocka_unit_test(test_refusal_count),
		cmocka_unit_test(test_new_report_is_undecided),
		cmocka_unit_test(test_notes_do_not_decide),
		cmocka_unit_test(test_findings_are_copies),
		cmocka_unit_test(test_list_limit),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_messages_keep_backslashes),
		cmocka_unit_test(test_shorten),
		cmocka_unit_test(test_text_identical),
		cmocka_unit_test(test_text_refused),
		cmocka_unit_test(test_text_begins_with_what_was_checked),
		cmocka_unit_test(test_text_nearly_all_bytes),
		cmocka_unit_test(test_text_undecided),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_text_hostile_names),
		cmocka_unit_test(test_text_many_notes),
		cmocka_unit_test(test_text_numbers),
		cmocka_unit_test(test_json_full),
		cmocka_unit_test(test_json_empty),
		cmocka_unit_test(test_json_findings),
		cmocka_unit_test(test_json_escapes_no_slash),
		cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
