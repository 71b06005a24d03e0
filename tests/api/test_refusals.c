/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rule that a drafter delivery can break, broken alone: it is refused, the finding says
 * what and where, and whatever was not touched is still proven. Then several at once.
 */
#include "refusals.h"
#include "refusals_acts.h"
#include "refusals_documents.h"
#include "refusals_shards.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct drafter drafter;

/* ---- breaking -------------------------------------------------------------------------------- */

static void edit_header(const struct refusal *refusal)
{
	char after[96];

	if (!refusal->where) {
		drafter_edit_header(&drafter, 0, NULL, refusal->find, refusal->replace);
		return;
	}
	snprintf(after, sizeof(after), "\n\"%s\"", refusal->where);
	drafter_edit_header(&drafter, drafter.shard_of[drafter_find(&drafter, refusal->where)],
			    after, refusal->find, refusal->replace);
}

static void edit_entry(const struct refusal *refusal)
{
	drafter.manifest = document_edit_entry(drafter.manifest, refusal->where, refusal->find,
					       refusal->replace);
}

static void break_in_memory(const struct refusal *refusal)
{
	const char *find = refusal->find, *replace = refusal->replace;

	switch (refusal->place) {
	case IN_CONFIG:
		drafter.config = document_edit(drafter.config, refusal->where, find, replace);
		break;
	case IN_PLAN:
		drafter.plan = document_edit(drafter.plan, refusal->where, find, replace);
		break;
	case IN_MANIFEST:
		drafter.manifest = document_edit(drafter.manifest, refusal->where, find, replace);
		break;
	case IN_ENTRY:
		edit_entry(refusal);
		break;
	case IN_HEADER:
		edit_header(refusal);
		break;
	case IN_BOTH:
		edit_header(refusal);
		edit_entry(refusal);
		break;
	case NOWHERE:
		break;
	}
	if (refusal->in_memory)
		refusal->in_memory(&drafter, refusal);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static struct ringsum_report *verify(enum ringsum_profile profile, int strict, int expected_result)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	char *text;
	int result;

	options.profile = profile;
	options.strict = strict;
	options.threads = 1;
	options.memory_bytes = 1 << 20;
	options.chunk_bytes = 65536;
	options.engine = RINGSUM_ENGINE_PREAD;
	options.direct = RINGSUM_DIRECT_OFF;
	result = ringsum_verify_path(drafter.root, &options, &report, &err);
	if (result == expected_result)
		return report;
	if (report && ringsum_report_to_text(report, &text, NULL) == RINGSUM_OK) {
		print_error("%s", text);
		ringsum_free(text);
	}
	ringsum_report_free(report);
	fail_msg("result %d, expected %d: %s", result, expected_result, err.message);
	return NULL;
}

static bool is_same(const char *expected, const char *actual)
{
	return !expected || (actual && strcmp(expected, actual) == 0);
}

static bool says(const struct ringsum_finding *finding, const char *text)
{
	return strstr(finding->message, text) ||
	       (finding->actual && strstr(finding->actual, text)) ||
	       (finding->expected && strstr(finding->expected, text));
}

static bool is_found(const struct ringsum_report *report, const struct refusal *refusal)
{
	const struct ringsum_finding *finding;
	size_t i;

	for (i = 0; (finding = ringsum_report_finding_at(report, i)); i++)
		if (finding->code == refusal->code &&
		    finding->severity == RINGSUM_SEVERITY_REFUSE &&
		    is_same(refusal->tensor, finding->tensor) &&
		    is_same(refusal->file, finding->file) && says(finding, refusal->says))
			return true;
	return false;
}

static void fail_with_report(const char *problem, const struct ringsum_report *report,
			     const struct refusal *refusal)
{
	char *text = NULL;

	if (ringsum_report_to_text(report, &text, NULL) == RINGSUM_OK)
		print_error("%s", text);
	ringsum_free(text);
	fail_msg("%s: %s", refusal->name, problem);
}

static size_t promised_count(const struct refusal *refusal)
{
	if (refusal->refused == NO_PROMISES)
		return 0;
	if (refusal->in_memory == drop_entry)
		return drafter.tensor_count - 1;
	return drafter.tensor_count + (refusal->in_memory == repeat_entry ? 1 : 0);
}

static size_t refused_count(const struct refusal *refusal)
{
	switch (refusal->refused) {
	case ALL_OF_SHARD_0:
		return drafter.shards[0].tensor_count;
	case ALL_OF_SHARD_1:
		return drafter.shards[1].tensor_count;
	case NO_PROMISES:
		return 0;
	default:
		return (size_t)refusal->refused;
	}
}

/* Whatever the fault does not touch has been read, and is identical. */
static void check_totals(const struct ringsum_report *report, const struct refusal *refusal)
{
	struct ringsum_totals totals;

	ringsum_report_totals(report, &totals);
	if (totals.tensors_promised != promised_count(refusal))
		fail_with_report("another number of promised tensors", report, refusal);
	if (totals.tensors_refused != refused_count(refusal) || totals.tensors_undecided != 0)
		fail_with_report("another number of refused tensors", report, refusal);
	if (totals.tensors_identical != totals.tensors_promised - totals.tensors_refused)
		fail_with_report("untouched tensors are not identical", report, refusal);
}

/* A shard that falls as a whole says how much falls with it. */
static void check_count_told(const struct ringsum_report *report, const struct refusal *refusal)
{
	struct refusal counted = *refusal;
	char text[64];

	if (refusal->refused != ALL_OF_SHARD_0 && refusal->refused != ALL_OF_SHARD_1)
		return;
	snprintf(text, sizeof(text), "; %zu promised tensors are in it", refused_count(refusal));
	counted.says = text;
	if (!is_found(report, &counted))
		fail_with_report("the promised tensors in it are not counted", report, refusal);
}

static void refuse(void **state)
{
	const struct refusal *refusal = *state;
	enum ringsum_profile profile =
		refusal->is_profile_ordered ? RINGSUM_PROFILE_DSPARK_EXL3 : RINGSUM_PROFILE_AUTO;
	struct ringsum_report *report;
	struct ringsum_totals totals;

	drafter_build(&drafter, 0);
	break_in_memory(refusal);
	drafter_write(&drafter);
	if (refusal->on_disk)
		refusal->on_disk(&drafter, refusal);
	report = verify(profile, 0, RINGSUM_E_REFUSED);
	ringsum_report_totals(report, &totals);
	if (!is_found(report, refusal))
		fail_with_report("no such finding", report, refusal);
	if (totals.findings_total != (refusal->findings ? refusal->findings : 1))
		fail_with_report("another number of findings", report, refusal);
	check_totals(report, refusal);
	check_count_told(report, refusal);
	ringsum_report_free(report);

	/* Rules of the profile are no rules without it; all others hold all the same. */
	report = verify(RINGSUM_PROFILE_NONE, 0,
			refusal->needs_profile ? RINGSUM_OK : RINGSUM_E_REFUSED);
	if (!refusal->needs_profile)
		check_totals(report, refusal);
	if (!refusal->needs_profile && !refusal->is_profile_ordered && !is_found(report, refusal))
		fail_with_report("no such finding without profile", report, refusal);
	ringsum_report_free(report);
}

/* ---- several at once ------------------------------------------------------------------------- */

static const struct refusal *find_refusal(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT_OF(document_refusals); i++)
		if (strcmp(document_refusals[i].name, name) == 0)
			return &document_refusals[i];
	for (i = 0; i < COUNT_OF(shard_refusals); i++)
		if (strcmp(shard_refusals[i].name, name) == 0)
			return &shard_refusals[i];
	fail_msg("no refusal %s", name);
	return NULL;
}

/* Of tensors that differ, in both shards; the first eleven say nothing of an entry's number. */
static const char *const together[] = {
	"refuse-config-activation",    "refuse-config-exl3-version",
	"refuse-plan-codebook",	       "refuse-manifest-codebook",
	"refuse-tensor-missing",       "refuse-tensor-unexpected",
	"refuse-exl3-mul1-dtype",      "refuse-exl3-marker-of-expert",
	"refuse-path-parent",	       "refuse-mismatch-shape-in-header",
	"refuse-digest-other-promise", "refuse-digest-middle",
	"refuse-truncated-by-1",
};
#define LAST_TENSOR_CUT 1 /* the file's end is a finding, its tensor another */

static struct ringsum_report *verify_together(unsigned seed)
{
	size_t i;

	drafter_build(&drafter, seed);
	for (i = 0; i < COUNT_OF(together); i++)
		break_in_memory(find_refusal(together[i]));
	drafter_write(&drafter);
	for (i = 0; i < COUNT_OF(together); i++)
		if (find_refusal(together[i])->on_disk)
			find_refusal(together[i])->on_disk(&drafter, find_refusal(together[i]));
	return verify(RINGSUM_PROFILE_AUTO, 0, RINGSUM_E_REFUSED);
}

static void test_all_faults_are_reported(void **state)
{
	struct ringsum_report *report = verify_together(0);
	struct ringsum_totals totals;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(together); i++)
		if (!is_found(report, find_refusal(together[i])))
			fail_with_report("no such finding among others", report,
					 find_refusal(together[i]));
	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.findings_total, COUNT_OF(together) + LAST_TENSOR_CUT);
	ringsum_report_free(report);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All findings as one text, sorted. */
static char *sorted_findings(const struct ringsum_report *report)
{
	size_t count = ringsum_report_finding_count(report), i, size;
	char **lines = calloc(count, sizeof(*lines)), *text = NULL;
	FILE *memory = open_memstream(&text, &size);

	assert_true(lines && memory);
	for (i = 0; i < count; i++) {
		const struct ringsum_finding *f = ringsum_report_finding_at(report, i);

		assert_true(asprintf(&lines[i], "%s|%s|%s|%llu|%llu|%s|%s|%s\n",
				     ringsum_finding_code_name(f->code), f->tensor ? f->tensor : "",
				     f->file ? f->file : "", (unsigned long long)f->begin,
				     (unsigned long long)f->end, f->expected ? f->expected : "",
				     f->actual ? f->actual : "", f->message) > 0);
	}
	qsort(lines, count, sizeof(*lines), compare_texts);
	for (i = 0; i < count; i++) {
		fputs(lines[i], memory);
		free(lines[i]);
	}
	fclose(memory);
	free(lines);
	return text;
}

static void test_order_of_the_manifest_changes_nothing(void **state)
{
	struct ringsum_report *report = verify_together(0);
	char *expected = sorted_findings(report), *actual;
	unsigned seed;

	(void)state;
	ringsum_report_free(report);
	for (seed = 1; seed <= 6; seed++) {
		report = verify_together(seed);
		actual = sorted_findings(report);
		if (strcmp(actual, expected) != 0)
			fail_msg("shuffled by seed %u:\n%sexpected:\n%s", seed, actual, expected);
		ringsum_report_free(report);
		free(actual);
	}
	free(expected);
}

/* ---- the sound delivery ---------------------------------------------------------------------- */

static void assert_identical(enum ringsum_profile profile, int strict)
{
	struct ringsum_report *report = verify(profile, strict, RINGSUM_OK);
	struct ringsum_totals totals;

	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.tensors_identical, drafter.tensor_count);
	assert_int_equal(totals.findings_total, 0);
	ringsum_report_free(report);
}

static void test_sound_is_identical(void **state)
{
	unsigned seed;

	(void)state;
	for (seed = 0; seed < 4; seed++) {
		drafter_build(&drafter, seed);
		drafter_write(&drafter);
		assert_identical(RINGSUM_PROFILE_AUTO, 0);
		assert_identical(RINGSUM_PROFILE_AUTO, 1);
		assert_identical(RINGSUM_PROFILE_DSPARK_EXL3, 1);
		assert_identical(RINGSUM_PROFILE_NONE, 0);
	}
}

/* What looks odd and breaks no rule. */
static void test_oddities_are_identical(void **state)
{
	static const struct refusal oddities[] = {
		{ .place = IN_CONFIG, .find = "[2, 1, 0]", .replace = "[2, 1, 0, 7]" },
		{ .place = IN_CONFIG, .find = "[2, 1, 0]", .replace = "[2, 1, -0]" },
		{ .place = IN_CONFIG,
		  .find = "\"hidden_size\"",
		  .replace = "\"hidden\\u005fsize\"" },
		{ .place = IN_CONFIG, .find = "1e-6", .replace = "1E-06" },
		{ .place = IN_PLAN, .find = "mul1", .replace = "\\u006dul1" },
		{ .place = IN_ENTRY,
		  .where = "head.suh",
		  .find = "\"name\"",
		  .replace = "\"any\": [{\"name\": 1}], \"name\"" },
		{ .place = IN_ENTRY,
		  .where = "head.suh",
		  .find = "\"head.suh\"",
		  .replace = "\"he\\u0061d.suh\"" },
		{ .place = IN_ENTRY,
		  .where = "head.suh",
		  .find = DRAFTER_SHARD_0,
		  .replace = "./" DRAFTER_SHARD_0 },
		{ .place = IN_HEADER, .find = "{\"format\": \"pt\"}", .replace = "null" },
		{ .place = IN_HEADER, .find = "{\"format\": \"pt\"}", .replace = "{}" },
		{ .place = IN_HEADER,
		  .find = "\"__metadata__\": {\"format\": \"pt\"},\n",
		  .replace = "" },
		{ .place = IN_HEADER,
		  .find = "{\"__metadata__\"",
		  .replace = " \t\r\n{\"__metadata__\"" },
		{ .place = IN_HEADER, .find = "\"head.suh\"", .replace = "\"he\\u0061d.suh\"" },
		{ .place = IN_HEADER,
		  .find = "\"dtype\": \"BF16\"",
		  .replace = "\"any\": [{}], \"dtype\": \"BF16\"" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(oddities); i++) {
		drafter_build(&drafter, 0);
		break_in_memory(&oddities[i]);
		drafter_write(&drafter);
		assert_identical(RINGSUM_PROFILE_AUTO, 0);
	}
}

static void test_the_extra_norm_may_be_absent(void **state)
{
	struct ringsum_report *report;

	(void)state;
	drafter_build(&drafter, 0);
	drafter_drop_entry(&drafter, "norm.weight");
	drafter_write(&drafter);
	report = verify(RINGSUM_PROFILE_AUTO, 0, RINGSUM_OK);
	ringsum_report_free(report);
}

static void test_links_that_stay_inside(void **state)
{
	(void)state;
	drafter_build(&drafter, 0);
	drafter_write(&drafter);
	assert_int_equal(rename(drafter_path(&drafter, DRAFTER_SHARD_0),
				drafter_path(&drafter, "more/blob")),
			 0);
	assert_int_equal(symlink("more/../more/blob", drafter_path(&drafter, DRAFTER_SHARD_0)), 0);
	assert_int_equal(rename(drafter_path(&drafter, "more"), drafter_path(&drafter, "blobs")),
			 0);
	assert_int_equal(symlink("blobs", drafter_path(&drafter, "more")), 0);
	assert_int_equal(rename(drafter_path(&drafter, "config.json"),
				drafter_path(&drafter, "blobs/config")),
			 0);
	assert_int_equal(symlink("more/config", drafter_path(&drafter, "config.json")), 0);
	assert_identical(RINGSUM_PROFILE_AUTO, 0);
	assert_identical(RINGSUM_PROFILE_NONE, 0);
}

/* ---- strict ---------------------------------------------------------------------------------- */

static void check_strict(const struct refusal *expected)
{
	struct ringsum_report *report = verify(RINGSUM_PROFILE_AUTO, 0, RINGSUM_OK);
	struct ringsum_totals totals;

	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.tensors_unpromised, expected->tensor ? 1 : 0);
	assert_int_equal(totals.files_unpromised, expected->tensor ? 0 : 1);
	ringsum_report_free(report);
	report = verify(RINGSUM_PROFILE_AUTO, 1, RINGSUM_E_REFUSED);
	if (!is_found(report, expected))
		fail_with_report("no such finding", report, expected);
	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.findings_total, 1);
	assert_int_equal(totals.tensors_identical, totals.tensors_promised);
	ringsum_report_free(report);
}

static void test_strict_refuses_what_nobody_promised(void **state)
{
	(void)state;
	drafter_build(&drafter, 0);
	drafter_drop_entry(&drafter, "norm.weight");
	drafter_write(&drafter);
	check_strict(&(struct refusal){ .name = "a tensor",
					.code = RINGSUM_FINDING_UNPROMISED,
					.tensor = "norm.weight",
					.file = DRAFTER_SHARD_0,
					.says = "does not promise" });
	drafter_build(&drafter, 0);
	drafter_write(&drafter);
	drafter_put(&drafter, "more/modeling.py", "import os\n", 10);
	check_strict(&(struct refusal){ .name = "a file",
					.code = RINGSUM_FINDING_UNPROMISED,
					.file = "more/modeling.py",
					.says = "promises nothing about this file" });
}

/* ---- what changes meanwhile ------------------------------------------------------------------ */

static int touch_once(void *arg, const struct ringsum_progress *progress)
{
	const char **name = arg;

	(void)progress;
	if (*name)
		drafter_put(&drafter, *name, "{}", 2);
	*name = NULL;
	return 0;
}

/* The config says what is required: where it or the plan changes, nothing is proven. */
static void test_changed_documents(void **state)
{
	static const char *const names[] = { "config.json", "exl3_moe_plan.json", "TENSORS.json" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(names); i++) {
		const char *name = names[i];
		struct ringsum_options options = RINGSUM_OPTIONS_INIT;
		struct ringsum_report *report = NULL;
		struct ringsum_totals totals;

		drafter_build(&drafter, 0);
		drafter_write(&drafter);
		options.progress = touch_once;
		options.progress_arg = &name;
		assert_int_equal(ringsum_verify_path(drafter.root, &options, &report, NULL),
				 RINGSUM_E_UNDECIDED);
		assert_int_equal(ringsum_report_finding_count(report), 1);
		assert_int_equal(ringsum_report_finding_at(report, 0)->code,
				 RINGSUM_FINDING_CHANGED_DURING_READ);
		assert_string_equal(ringsum_report_finding_at(report, 0)->file, names[i]);
		ringsum_report_totals(report, &totals);
		assert_int_equal(totals.tensors_undecided, drafter.tensor_count);
		ringsum_report_free(report);
	}
}

/* ---- all ------------------------------------------------------------------------------------- */

static int make_drafter(void **state)
{
	(void)state;
	drafter_init(&drafter, 1, 2);
	return 0;
}

static int remove_drafter(void **state)
{
	(void)state;
	drafter_deinit(&drafter);
	return 0;
}

static void list(struct CMUnitTest *tests, const struct refusal *refusals, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		tests[i] = (struct CMUnitTest){
			.name = refusals[i].name,
			.test_func = refuse,
			.initial_state = (void *)(uintptr_t)&refusals[i],
		};
}

int main(void)
{
	static const struct CMUnitTest others[] = {
		cmocka_unit_test(test_sound_is_identical),
		cmocka_unit_test(test_oddities_are_identical),
		cmocka_unit_test(test_the_extra_norm_may_be_absent),
		cmocka_unit_test(test_links_that_stay_inside),
		cmocka_unit_test(test_strict_refuses_what_nobody_promised),
		cmocka_unit_test(test_changed_documents),
		cmocka_unit_test(test_all_faults_are_reported),
		cmocka_unit_test(test_order_of_the_manifest_changes_nothing),
	};
	static struct CMUnitTest
		tests[COUNT_OF(others) + COUNT_OF(document_refusals) + COUNT_OF(shard_refusals)];

	memcpy(tests, others, sizeof(others));
	list(tests + COUNT_OF(others), document_refusals, COUNT_OF(document_refusals));
	list(tests + COUNT_OF(others) + COUNT_OF(document_refusals), shard_refusals,
	     COUNT_OF(shard_refusals));
	return cmocka_run_group_tests(tests, make_drafter, remove_drafter);
}
