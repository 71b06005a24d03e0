/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller may get wrong: each call with each of its arguments missing or wrong gives the
 * result that ringsum.h names, says why, and touches nothing.
 */
#include "drafter.h"
#include "ringsum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct drafter drafter;
static struct ringsum_checkpoint *checkpoint;
static struct ringsum_error err;

/* The call on the right was wrong: it says so, in a line. */
#define expect(result, call)                            \
	do {                                            \
		err = (struct ringsum_error){ 0 };      \
		assert_int_equal(call, result);         \
		assert_int_equal(err.code, result);     \
		assert_true(err.message[0] != '\0');    \
		assert_null(strchr(err.message, '\n')); \
	} while (0)

#define expect_invalid(call) expect(RINGSUM_E_INVALID, call)

static int open_drafter(void **state)
{
	(void)state;
	drafter_init(&drafter, 1, 1);
	drafter_build(&drafter, 0);
	drafter_write(&drafter);
	assert_int_equal(ringsum_checkpoint_open(drafter.root, NULL, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	return 0;
}

static int close_drafter(void **state)
{
	(void)state;
	ringsum_checkpoint_close(checkpoint);
	drafter_deinit(&drafter);
	return 0;
}

static void test_opening(void **state)
{
	struct ringsum_checkpoint *opened = NULL;
	struct ringsum_report *report = NULL;

	(void)state;
	expect_invalid(ringsum_checkpoint_open(NULL, NULL, &opened, NULL, &err));
	expect_invalid(ringsum_checkpoint_open("", NULL, &opened, &report, &err));
	expect_invalid(ringsum_checkpoint_open(drafter.root, NULL, NULL, &report, &err));
	expect_invalid(ringsum_verify_path(NULL, NULL, &report, &err));
	expect_invalid(ringsum_verify_path("", NULL, &report, &err));
	expect_invalid(ringsum_checkpoint_verify(NULL, &report, &err));
	assert_null(opened);
	assert_null(report);
	ringsum_checkpoint_close(NULL);
}

/* Nobody need take what a call can give besides its result. */
static void test_places_that_may_be_missing(void **state)
{
	(void)state;
	assert_int_equal(ringsum_checkpoint_verify(checkpoint, NULL, NULL), RINGSUM_OK);
	assert_int_equal(ringsum_verify_path(drafter.root, NULL, NULL, NULL), RINGSUM_OK);
	assert_int_equal(ringsum_verify_path("/nowhere/at/all", NULL, NULL, NULL),
			 RINGSUM_E_NOPROMISE);
}

static void test_looking_up(void **state)
{
	(void)state;
	assert_null(ringsum_checkpoint_tensor_at(checkpoint, drafter.tensor_count));
	assert_null(ringsum_checkpoint_tensor_at(checkpoint, SIZE_MAX));
	assert_null(ringsum_checkpoint_find(checkpoint, "no such tensor"));
	assert_null(ringsum_dtype_name(RINGSUM_DTYPE_COUNT));
	assert_null(ringsum_finding_code_name(RINGSUM_FINDING_CODE_COUNT));
	assert_int_equal(ringsum_dtype_bits((enum ringsum_dtype) - 1), 0);
}

static void test_reports(void **state)
{
	struct ringsum_report *report = NULL;
	struct ringsum_totals totals = { .bytes_read = 7 };
	char *text = NULL;

	(void)state;
	expect_invalid(ringsum_report_to_json(NULL, &text, &err));
	expect_invalid(ringsum_report_to_text(NULL, &text, &err));
	assert_null(text);
	assert_int_equal(ringsum_report_verdict(NULL), RINGSUM_VERDICT_UNDECIDED);
	assert_int_equal(ringsum_report_finding_count(NULL), 0);
	assert_null(ringsum_report_finding_at(NULL, 0));
	ringsum_report_totals(NULL, &totals);
	assert_int_equal(totals.bytes_read, 0);
	assert_int_equal(ringsum_checkpoint_verify(checkpoint, &report, NULL), RINGSUM_OK);
	expect_invalid(ringsum_report_to_json(report, NULL, &err));
	expect_invalid(ringsum_report_to_text(report, NULL, &err));
	ringsum_report_totals(report, NULL);
	assert_null(ringsum_report_finding_at(report, SIZE_MAX));
	ringsum_report_free(report);
	ringsum_report_free(NULL);
	ringsum_free(NULL);
}

static void test_inspections(void **state)
{
	struct ringsum_options longer = RINGSUM_OPTIONS_INIT;
	struct ringsum_inspection *inspection = NULL;
	struct ringsum_tensor tensor;
	const char *key, *value;
	char *text = NULL;

	(void)state;
	longer.size_bytes = 1;
	expect_invalid(ringsum_inspect(NULL, NULL, &inspection, &err));
	expect_invalid(ringsum_inspect(drafter.root, NULL, NULL, &err));
	expect_invalid(ringsum_inspect(drafter.root, &longer, &inspection, &err));
	expect_invalid(ringsum_inspection_to_json(NULL, &text, &err));
	expect_invalid(ringsum_inspection_to_text(NULL, &text, &err));
	expect(RINGSUM_E_NOPROMISE, ringsum_inspect("/nowhere/at/all", NULL, &inspection, &err));
	assert_null(inspection);
	assert_int_equal(ringsum_inspect(drafter.root, NULL, &inspection, NULL), RINGSUM_OK);
	expect_invalid(ringsum_inspection_to_json(inspection, NULL, &err));
	expect_invalid(ringsum_inspection_to_text(inspection, NULL, &err));
	assert_null(ringsum_inspection_shard_at(inspection, SIZE_MAX));
	assert_int_equal(ringsum_inspection_tensor_at(inspection, SIZE_MAX, 0, &tensor),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(ringsum_inspection_tensor_at(inspection, 0, SIZE_MAX, &tensor),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(ringsum_inspection_metadata_at(inspection, SIZE_MAX, 0, &key, &value),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(ringsum_inspection_metadata_at(inspection, 0, SIZE_MAX, &key, &value),
			 RINGSUM_E_NOTFOUND);
	ringsum_inspection_free(inspection);
	ringsum_inspection_free(NULL);
}

static void test_loads(void **state)
{
	const struct ringsum_tensor *tensor = ringsum_checkpoint_find(checkpoint, "embed.weight");
	struct ringsum_tensor stranger = *tensor;
	size_t bytes = (size_t)tensor->size_bytes;
	void *memory = malloc(bytes);
	const struct ringsum_load sound = {
		.tensor = tensor,
		.destination = memory,
		.destination_bytes = bytes,
	};
	struct ringsum_load loads[2] = { sound, sound };

	(void)state;
	assert_non_null(memory);
	expect_invalid(ringsum_checkpoint_load(NULL, loads, 1, NULL, &err));
	expect_invalid(ringsum_checkpoint_load(checkpoint, NULL, 1, NULL, &err));
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 2, NULL, &err)); /* overlap */
	loads[0].tensor = NULL;
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	loads[0].tensor = &stranger;
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	loads[0].tensor = (const struct ringsum_tensor *)((const char *)tensor + 1);
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	for (int i = 0; i < 2; i++) {
		loads[0] = sound;
		loads[0].reserved[i] = 1;
		expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	}
	loads[0] = sound;
	loads[0].destination_bytes = bytes - 1;
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	loads[0] = sound;
	loads[0].destination = NULL;
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	loads[0].destination = (void *)(UINTPTR_MAX - bytes / 2);
	expect_invalid(ringsum_checkpoint_load(checkpoint, loads, 1, NULL, &err));
	assert_int_equal(ringsum_checkpoint_load(checkpoint, NULL, 0, NULL, NULL), RINGSUM_OK);
	free(memory);
}

static void test_blocks(void **state)
{
	struct ringsum_tensor stranger = *ringsum_checkpoint_tensor_at(checkpoint, 0);
	struct ringsum_load load = { .tensor = &stranger };
	size_t bytes = 7;
	void *block = NULL;

	(void)state;
	expect_invalid(ringsum_block_alloc(NULL, &load, 1, &block, &bytes, &err));
	expect_invalid(ringsum_block_alloc(checkpoint, NULL, 1, &block, &bytes, &err));
	expect_invalid(ringsum_block_alloc(checkpoint, &load, 1, NULL, &bytes, &err));
	expect_invalid(ringsum_block_alloc(checkpoint, &load, 1, &block, NULL, &err));
	expect_invalid(ringsum_block_alloc(checkpoint, &load, 1, &block, &bytes, &err));
	assert_null(block);
	assert_int_equal(bytes, 7);
	ringsum_block_free(NULL, 7);
}

static void test_drafters(void **state)
{
	struct ringsum_drafter_shape shape = { 0 };
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *plain = NULL;
	struct ringsum_exl3 linear;
	const char *name;
	int64_t k;

	(void)state;
	expect_invalid(ringsum_checkpoint_exl3(NULL, "mtp.0.attn.wq_a", &linear, &err));
	expect_invalid(ringsum_checkpoint_exl3(checkpoint, NULL, &linear, &err));
	expect_invalid(ringsum_checkpoint_exl3(checkpoint, "mtp.0.attn.wq_a", NULL, &err));
	expect(RINGSUM_E_NOTFOUND, ringsum_checkpoint_exl3(checkpoint, "mtp.7", &linear, &err));
	expect_invalid(ringsum_checkpoint_drafter_shape(checkpoint, NULL, &err));
	expect_invalid(ringsum_checkpoint_drafter_shape(checkpoint, &shape, &err));
	shape.size_bytes = sizeof(shape);
	expect(RINGSUM_E_NOTFOUND, ringsum_checkpoint_drafter_shape(NULL, &shape, &err));
	assert_int_equal(ringsum_checkpoint_drafter_k(checkpoint, SIZE_MAX, &name, &k),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(ringsum_checkpoint_drafter_k(NULL, 0, &name, &k), RINGSUM_E_NOTFOUND);
	options.profile = RINGSUM_PROFILE_NONE;
	assert_int_equal(ringsum_checkpoint_open(drafter.root, &options, &plain, NULL, NULL),
			 RINGSUM_OK);
	expect(RINGSUM_E_NOTFOUND, ringsum_checkpoint_drafter_shape(plain, &shape, &err));
	ringsum_checkpoint_close(plain);
}

static void test_benchmarks(void **state)
{
	struct ringsum_bench_result result = RINGSUM_BENCH_RESULT_INIT;
	char *text = NULL;

	(void)state;
	expect_invalid(ringsum_bench(NULL, NULL, &result, &err));
	expect_invalid(ringsum_bench(drafter.root, NULL, NULL, &err));
	expect_invalid(ringsum_bench_to_text(NULL, &text, &err));
	expect_invalid(ringsum_bench_to_json(NULL, &text, &err));
	expect_invalid(ringsum_bench_to_text(&result, NULL, &err));
	expect_invalid(ringsum_bench_to_json(&result, NULL, &err));
	result.size_bytes = 1;
	expect_invalid(ringsum_bench(drafter.root, NULL, &result, &err));
	expect_invalid(ringsum_bench_to_text(&result, &text, &err));
	expect_invalid(ringsum_bench_to_json(&result, &text, &err));
	assert_null(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opening),
		cmocka_unit_test(test_places_that_may_be_missing),
		cmocka_unit_test(test_looking_up),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_inspections),
		cmocka_unit_test(test_loads),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_drafters),
		cmocka_unit_test(test_benchmarks),
	};

	return cmocka_run_group_tests(tests, open_drafter, close_drafter);
}
