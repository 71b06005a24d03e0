/* SPDX-License-Identifier: Apache-2.0 */
/* What a benchmark makes of its figures; and that reading without hashing never proves anything. */
#include "bench.h"
#include "checkpoint.h"
#include "delivery.h"
#include "reading.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SEED UINT64_C(20261201)
#define GB UINT64_C(1000000000)

/* A host whose disk gives 2 GB/s and whose 2 threads hash 5, over many tensors. */
static struct ringsum_bench_result usual(void)
{
	return (struct ringsum_bench_result){
		.size_bytes = sizeof(struct ringsum_bench_result),
		.bytes_promised = 100 * GB,
		.bytes_sampled = 4 * GB,
		.bytes_largest = GB / 10,
		.read = { 2 * GB, 50000 },
		.deeper = { 2 * GB, 50000 },
		.verify = { 2 * GB, 300000 },
		.load = { 2 * GB, 300000 },
		.hash_core = { 0, 2 * GB, 3 * GB, 4 * GB },
		.hash_stream = 2 * GB,
		.hash_all = 5 * GB,
		.processors = 2,
		.threads = 2,
		.depth = 32,
		.deeper_depth = 64,
		.chunk_bytes = 1 << 20,
		.memory_bytes = 48 << 20,
		.deeper_memory_bytes = 96 << 20,
		.engine = "io_uring",
		.pages = "huge",
		.digest = "sha-ni-x3",
		.is_direct = 1,
	};
}

static void expect(struct ringsum_bench_result *result, enum ringsum_bench_limit limit,
		   const char *said)
{
	rsum_bench_conclude(result);
	assert_string_equal(ringsum_bench_limit_name(result->limit),
			    ringsum_bench_limit_name(limit));
	if (!strstr(result->conclusion, said))
		fail_msg("'%s' is not in: %s", said, result->conclusion);
	assert_null(strchr(result->conclusion, '\n'));
}

static void test_conclusions(void **state)
{
	struct ringsum_bench_result result = usual();

	(void)state;
	expect(&result, RINGSUM_BENCH_LIMIT_DISK, "the disk: it gives 2.00 GB/s");
	assert_null(strstr(result.conclusion, "nr_hugepages"));
	result.pages = "small";
	expect(&result, RINGSUM_BENCH_LIMIT_DISK, "vm.nr_hugepages=24");
	result.is_direct = 0;
	expect(&result, RINGSUM_BENCH_LIMIT_DISK, "direct I/O would help");

	result = usual();
	result.deeper.bytes_per_second = 3 * GB;
	expect(&result, RINGSUM_BENCH_LIMIT_DEPTH, "--depth 64 --memory 96M");

	result = usual();
	result.read.bytes_per_second = 9 * GB;
	result.verify.bytes_per_second = 5 * GB;
	expect(&result, RINGSUM_BENCH_LIMIT_HASH, "all 2 processors hash already");
	result.wider_threads = 4;
	result.wider.bytes_per_second = 8 * GB;
	expect(&result, RINGSUM_BENCH_LIMIT_HASH, "--threads 4 gives 8.00 GB/s");
	result.wider.bytes_per_second = 5 * GB;
	expect(&result, RINGSUM_BENCH_LIMIT_HASH, "does not help");

	result = usual();
	result.verify.bytes_per_second = GB;
	expect(&result, RINGSUM_BENCH_LIMIT_PROCESSORS, "compete for 2 processors");

	result = usual();
	result.bytes_largest = 90 * GB;
	result.hash_stream = GB;
	expect(&result, RINGSUM_BENCH_LIMIT_TENSOR, "the largest has 90.0 GB");
}

static void test_nothing_measured(void **state)
{
	struct ringsum_bench_result result = { .size_bytes = sizeof(result) };

	(void)state;
	expect(&result, RINGSUM_BENCH_LIMIT_UNKNOWN, "nothing can be said");
	assert_string_equal(ringsum_bench_limit_name((enum ringsum_bench_limit)99), "unknown");
}

static uint64_t member(struct json_object *json, const char *object, const char *key)
{
	struct json_object *inner = json_object_object_get(json, object);

	assert_non_null(inner);
	assert_non_null(json_object_object_get(inner, key));
	return json_object_get_uint64(json_object_object_get(inner, key));
}

static void test_writers(void **state)
{
	struct ringsum_bench_result result = usual();
	struct json_object *json;
	char *text = NULL;

	(void)state;
	result.load.bytes_per_second = 0;
	rsum_bench_conclude(&result);
	assert_int_equal(ringsum_bench_to_json(&result, &text, NULL), RINGSUM_OK);
	json = json_tokener_parse(text);
	assert_non_null(json);
	assert_int_equal(member(json, "verify", "bytes_per_second"), 2 * GB);
	assert_int_equal(member(json, "verify", "percent_of_limit"), 100);
	assert_int_equal(member(json, "hash_core", "sha-ni-x2"), 3 * GB);
	assert_int_equal(member(json, "how", "depth"), 32);
	assert_null(json_object_object_get(json, "load"));
	json_object_put(json);
	ringsum_free(text);

	assert_int_equal(ringsum_bench_to_text(&result, &text, NULL), RINGSUM_OK);
	assert_non_null(strstr(text, "not measured"));
	assert_non_null(strstr(text, result.conclusion));
	ringsum_free(text);

	result.size_bytes--;
	assert_int_equal(ringsum_bench_to_json(&result, &text, NULL), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_bench_to_text(&result, &text, NULL), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_bench("/", NULL, &result, NULL), RINGSUM_E_INVALID);
}

/* The text of these figures holds each of the sentences (NULL ends them), or must not hold it. */
static void expect_text(const struct ringsum_bench_result *result, bool is_said,
			const char *const *sentences)
{
	char *text = NULL;

	assert_int_equal(ringsum_bench_to_text(result, &text, NULL), RINGSUM_OK);
	for (; *sentences; sentences++)
		if ((strstr(text, *sentences) != NULL) != is_said)
			fail_msg("'%s' is %s in: %s", *sentences, is_said ? "not" : "there", text);
	ringsum_free(text);
}

/* One processor that hashes one stream at a time, and no right to anything. */
static void test_a_small_host(void **state)
{
	static const char *const said[] = { "hash in memory, 1 thread ", "1 hashing thread,",
					    "without direct I/O",	 "was left alone",
					    "1 of the tensors measured", NULL };
	static const char *const not_said[] = { "in flight\n", "sha-ni", "threads", NULL };
	struct ringsum_bench_result result = usual();

	(void)state;
	result.threads = result.processors = 1;
	result.deeper = (struct ringsum_bench_rate){ 0, 0 };
	result.deeper_depth = 0;
	result.hash_core[2] = result.hash_core[3] = 0;
	result.digest = "libcrypto";
	result.is_direct = 0;
	result.tensors_differing = 1;
	result.read.bytes_per_second = 9 * GB;
	result.verify.bytes_per_second = result.hash_all = 2 * GB;
	expect(&result, RINGSUM_BENCH_LIMIT_HASH, "1 thread hashes 2.00 GB/s");
	assert_non_null(strstr(result.conclusion, "the one processor hashes already"));
	assert_non_null(strstr(result.conclusion, "no instructions that hash several streams"));
	expect_text(&result, true, said);
	expect_text(&result, false, not_said);
	result.verify.bytes_per_second = GB;
	result.hash_all = 9 * GB;
	expect(&result, RINGSUM_BENCH_LIMIT_PROCESSORS, "compete for 1 processor;");
	assert_non_null(strstr(result.conclusion, "direct I/O would help"));
}

/* Everything was tried and dropped. */
static void test_a_large_host(void **state)
{
	static const char *const said[] = { "verify, 4 threads",
					    "read, 64 in flight",
					    "hash in memory, 2 threads",
					    "2 hashing threads",
					    "direct I/O, which passes by the page cache",
					    "was dropped beforehand",
					    NULL };
	struct ringsum_bench_result result = usual();
	struct json_object *json;
	char *text = NULL;

	(void)state;
	result.wider = (struct ringsum_bench_rate){ 3 * GB, 0 };
	result.wider_threads = 4;
	result.dropped_caches = 1;
	rsum_bench_conclude(&result);
	expect_text(&result, true, said);
	assert_int_equal(ringsum_bench_to_json(&result, &text, NULL), RINGSUM_OK);
	json = json_tokener_parse(text);
	assert_non_null(json);
	assert_int_equal(member(json, "verify_wider", "bytes_per_second"), 3 * GB);
	json_object_put(json);
	ringsum_free(text);
}

/* Whatever is missing of the figures, nothing is concluded from the rest. */
static void test_figures_that_are_missing(void **state)
{
	static const char *const not_said[] = { "by: ", NULL };

	(void)state;
	for (unsigned missing = 0; missing < 4; missing++) {
		struct ringsum_bench_result result = usual();
		uint64_t *const figures[] = { &result.read.bytes_per_second,
					      &result.verify.bytes_per_second, &result.hash_stream,
					      &result.hash_all };

		*figures[missing] = 0;
		result.engine = NULL;
		expect(&result, RINGSUM_BENCH_LIMIT_UNKNOWN, "nothing can be said");
		expect_text(&result, false, not_said);
	}
}

/* ---- on disk ------------------------------------------------------------------------------- */

static struct delivery delivery;

static int make_delivery(void **state)
{
	(void)state;
	delivery_init(&delivery, NULL);
	delivery_add_mixture(&delivery, 3, SEED);
	delivery_write(&delivery, SEED, true);
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	delivery_deinit(&delivery);
	return 0;
}

static void test_without_hashing_nothing_is_proven(void **state)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct rsum_reading reading = { .is_hashing_off = true };
	size_t i;

	(void)state;
	assert_int_equal(ringsum_checkpoint_open(delivery.root, NULL, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	reading.checkpoint = checkpoint;
	reading.want_count = ringsum_checkpoint_tensor_count(checkpoint);
	reading.report = rsum_report_clone(checkpoint->report);
	reading.wants = calloc(reading.want_count, sizeof(*reading.wants));
	assert_non_null(reading.report);
	assert_non_null(reading.wants);
	for (i = 0; i < reading.want_count; i++)
		reading.wants[i].promise = (uint32_t)i;
	assert_int_equal(rsum_reading_run(&reading, NULL), RINGSUM_OK);
	for (i = 0; i < reading.want_count; i++)
		if (ringsum_checkpoint_tensor_at(checkpoint, i)->size_bytes > 0)
			assert_int_equal(reading.wants[i].status, RSUM_PROMISE_UNDECIDED);
	assert_int_equal(ringsum_report_finding_count(reading.report), 0);
	assert_true(reading.report->totals.bytes_read > 0);
	ringsum_report_free(reading.report);
	free(reading.wants);
	ringsum_checkpoint_close(checkpoint);
}

static int cancel(void *arg, const struct ringsum_progress *progress)
{
	(void)arg;
	(void)progress;
	return 1;
}

static void test_bench(void **state)
{
	struct ringsum_bench_result result = RINGSUM_BENCH_RESULT_INIT;
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_error err;

	(void)state;
	options.progress = cancel;
	assert_int_equal(ringsum_bench(delivery.root, &options, &result, &err), RINGSUM_E_CANCELED);
	assert_int_equal(result.bytes_promised, 0);
	options.progress = NULL;
	assert_int_equal(ringsum_bench(delivery.root, &options, &result, &err), RINGSUM_OK);
	assert_true(result.bytes_promised > 0);
	assert_int_equal(result.bytes_sampled, result.bytes_promised);
	assert_int_equal(result.bytes_loaded, result.bytes_promised);
	assert_true(result.read.bytes_per_second > 0 && result.verify.bytes_per_second > 0 &&
		    result.load.bytes_per_second > 0 && result.hash_all > 0);
	assert_int_equal(result.tensors_differing, 0);
	assert_int_not_equal(result.limit, RINGSUM_BENCH_LIMIT_UNKNOWN);
}

static void test_bench_of_damage(void **state)
{
	struct ringsum_bench_result result = RINGSUM_BENCH_RESULT_INIT;
	size_t largest = 0, i;

	(void)state;
	for (i = 0; i < delivery.count; i++)
		if (delivery.tensors[i].size_bytes > delivery.tensors[largest].size_bytes)
			largest = i;
	delivery_flip(&delivery, largest, 5, 3);
	assert_int_equal(ringsum_bench(delivery.root, NULL, &result, NULL), RINGSUM_OK);
	assert_int_equal(result.tensors_differing, 1);
	delivery_flip(&delivery, largest, 5, 3);
	result = (struct ringsum_bench_result)RINGSUM_BENCH_RESULT_INIT;
	assert_int_equal(ringsum_bench("/nowhere/at/all", NULL, &result, NULL),
			 RINGSUM_E_NOPROMISE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conclusions),
		cmocka_unit_test(test_nothing_measured),
		cmocka_unit_test(test_writers),
		cmocka_unit_test(test_a_small_host),
		cmocka_unit_test(test_a_large_host),
		cmocka_unit_test(test_figures_that_are_missing),
		cmocka_unit_test_setup_teardown(test_without_hashing_nothing_is_proven,
						make_delivery, remove_delivery),
		cmocka_unit_test_setup_teardown(test_bench, make_delivery, remove_delivery),
		cmocka_unit_test_setup_teardown(test_bench_of_damage, make_delivery,
						remove_delivery),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
