/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation and every system call fails, one run each, once or from then on. No run may call anything
 * identical that is not, refuse what is sound, keep a descriptor, touch memory that it must not,
 * or crash; leaks are AddressSanitizer's to find. The linker's --wrap puts the functions below in
 * the place of the system's for everything that the library itself calls.
 */
#include "drafter.h"
#include "failures.h"
#include "ringsum.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STAGES 1
#define EXPERTS 1
#define LINEAR "mtp.0.attn.wq_a"
#define CANARY 0xA5

static struct drafter drafter;
static enum ringsum_engine engine;
static enum ringsum_direct direct;
static bool is_damaged; /* one byte of embed.weight is not as promised */
static const char *operation_name;

static struct ringsum_options usual_options(void)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	options.engine = engine;
	options.direct = direct;
	options.chunk_bytes = 65536;
	options.threads = 2;
	options.depth = 4;
	options.keep_map = 1;
	return options;
}

static void fail_at(const char *what)
{
	fail_msg("%s, engine %d, %s: %s", operation_name, (int)engine, failures_describe(), what);
}

/* ---- the operations, each with what must hold of its result ---------------------------------- */

/* A list without the ranges that it needs would be taken for good news. */
static void check_refetch(const struct ringsum_report *report)
{
	char *text = NULL;
	int result = ringsum_report_to_refetch(report, &text, NULL);

	if ((result == RINGSUM_OK) != (text != NULL))
		fail_at("list and result contradict each other");
	if (text && ringsum_report_verdict(report) == RINGSUM_VERDICT_REFUSED &&
	    !strstr(text, ".safetensors"))
		fail_at("refused, and nothing to fetch");
	ringsum_free(text);
}

static int check_report(struct ringsum_report *report, int result)
{
	struct ringsum_totals totals;
	char *json = NULL, *text = NULL;
	int json_result, text_result;

	if (!report)
		return result;
	ringsum_report_totals(report, &totals);
	if ((ringsum_report_verdict(report) == RINGSUM_VERDICT_IDENTICAL) != (result == RINGSUM_OK))
		fail_at("result and verdict contradict each other");
	if (result == RINGSUM_OK && (totals.tensors_identical != drafter.tensor_count ||
				     totals.bytes_proven != totals.bytes_promised))
		fail_at("identical without all of it");
	json_result = ringsum_report_to_json(report, &json, NULL);
	text_result = ringsum_report_to_text(report, &text, NULL);
	if ((json_result == RINGSUM_OK) != (json != NULL) ||
	    (text_result == RINGSUM_OK) != (text != NULL))
		fail_at("text and result contradict each other");
	if (text && (strstr(text, "identical: ") != NULL) != (result == RINGSUM_OK))
		fail_at("the text says otherwise");
	ringsum_free(json);
	ringsum_free(text);
	check_refetch(report);
	ringsum_report_free(report);
	return result;
}

static int verify(void)
{
	struct ringsum_options options = usual_options();
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_verify_path(drafter.root, &options, &report, &err);

	if (result != RINGSUM_OK && !err.message[0])
		fail_at("no word of explanation");
	return check_report(report, result);
}

static int take_report(void *arg, size_t path_index, int result, struct ringsum_report *report,
		       const struct ringsum_error *err)
{
	unsigned *told = arg;

	if (path_index != *told || result != err->code)
		fail_at("told out of order, or with another error");
	++*told;
	check_report(report, result);
	return 0;
}

static int verify_two(void)
{
	const char *const paths[] = { drafter.root, drafter.root };
	struct ringsum_options options = usual_options();
	unsigned told = 0;
	int result = ringsum_verify_many(paths, 2, &options, take_report, &told, NULL, NULL);

	if (told != 2 && result != RINGSUM_E_NOMEM && result != RINGSUM_E_IO)
		fail_at("a path was left out");
	return result;
}

static int open_and_describe(void)
{
	struct ringsum_options options = usual_options();
	struct ringsum_drafter_shape shape = { .size_bytes = sizeof(shape) };
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_report *report = NULL;
	struct ringsum_exl3 linear;
	int result;

	result = ringsum_checkpoint_open(drafter.root, &options, &checkpoint, &report, NULL);
	if ((result == RINGSUM_OK) != (checkpoint != NULL))
		fail_at("checkpoint and result contradict each other");
	ringsum_report_free(report);
	if (!checkpoint)
		return result;
	if (ringsum_checkpoint_tensor_count(checkpoint) != drafter.tensor_count ||
	    !ringsum_checkpoint_find(checkpoint, "embed.weight") ||
	    ringsum_checkpoint_drafter_shape(checkpoint, &shape, NULL) != RINGSUM_OK ||
	    shape.n_experts != EXPERTS)
		fail_at("opened without all of it");
	result = ringsum_checkpoint_exl3(checkpoint, LINEAR, &linear, NULL);
	if (result == RINGSUM_OK && linear.k != 3)
		fail_at("a wrong K");
	ringsum_checkpoint_close(checkpoint);
	return result;
}

static void check_loaded(const struct ringsum_load *load, int result)
{
	size_t index = drafter_find(&drafter, load->tensor->name), i;
	const uint8_t *bytes = load->destination, *promised;
	uint8_t filler = result == RINGSUM_E_NOMEM || result == RINGSUM_E_INVALID ? CANARY : 0;

	promised = drafter.shards[drafter.shard_of[index]].data + drafter.data_begin[index];
	if (filler == 0 && load->status == RINGSUM_OK) {
		if (memcmp(bytes, promised, load->tensor->size_bytes) != 0)
			fail_at("delivered other bytes");
		return;
	}
	if (result == RINGSUM_OK)
		fail_at("success without a tensor");
	for (i = 0; i < load->tensor->size_bytes; i++)
		if (bytes[i] != filler)
			fail_at("an unproven byte was left behind");
}

/* Sets out the loads in a block of canaries, without failures. */
static void *prepare_loads(struct ringsum_checkpoint *checkpoint, struct ringsum_load *loads,
			   size_t *block_bytes_out)
{
	void *block = NULL;
	size_t i;

	for (i = 0; i < drafter.tensor_count; i++)
		loads[i].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
	assert_int_equal(ringsum_block_alloc(checkpoint, loads, drafter.tensor_count, &block,
					     block_bytes_out, NULL),
			 RINGSUM_OK);
	memset(block, CANARY, *block_bytes_out);
	return block;
}

static int load(void)
{
	struct ringsum_options options = usual_options();
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_report *report = NULL;
	struct ringsum_load *loads;
	size_t block_bytes = 0, i;
	void *block;
	int result;

	failures_pause(true);
	loads = calloc(drafter.tensor_count, sizeof(*loads));
	assert_int_equal(ringsum_checkpoint_open(drafter.root, &options, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	block = prepare_loads(checkpoint, loads, &block_bytes);
	failures_pause(false);
	result = ringsum_checkpoint_load(checkpoint, loads, drafter.tensor_count, &report, NULL);
	failures_pause(true);
	if (result == RINGSUM_E_NOMEM ? report != NULL : report == NULL)
		fail_at("a report where none should be, or none");
	for (i = 0; i < drafter.tensor_count; i++)
		check_loaded(&loads[i], result);
	check_report(report, result);
	ringsum_block_free(block, block_bytes);
	ringsum_checkpoint_close(checkpoint);
	free(loads);
	failures_pause(false);
	return result;
}

static int make_block(void)
{
	struct ringsum_load some[2] = { 0 };
	struct ringsum_options options = usual_options();
	struct ringsum_checkpoint *checkpoint = NULL;
	size_t block_bytes = 0;
	void *block = NULL;
	int result;

	failures_pause(true);
	assert_int_equal(ringsum_checkpoint_open(drafter.root, &options, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	some[0].tensor = ringsum_checkpoint_tensor_at(checkpoint, 0);
	some[1].tensor = ringsum_checkpoint_tensor_at(checkpoint, 1);
	failures_pause(false);
	result = ringsum_block_alloc(checkpoint, some, 2, &block, &block_bytes, NULL);
	if ((result == RINGSUM_OK) != (block != NULL))
		fail_at("block and result contradict each other");
	ringsum_block_free(block, block_bytes);
	ringsum_checkpoint_close(checkpoint);
	return result;
}

static int inspect(void)
{
	struct ringsum_inspection *inspection = NULL;
	char *json = NULL, *text = NULL;
	int result = ringsum_inspect(drafter.root, NULL, &inspection, NULL);

	if ((result == RINGSUM_OK) != (inspection != NULL))
		fail_at("inspection and result contradict each other");
	if (!inspection)
		return result;
	if (ringsum_inspection_verdict(inspection) == RINGSUM_VERDICT_REFUSED)
		result = RINGSUM_E_REFUSED;
	else if (ringsum_inspection_verdict(inspection) != RINGSUM_VERDICT_IDENTICAL)
		result = RINGSUM_E_UNDECIDED;
	else if (ringsum_inspection_shard_count(inspection) != 1 ||
		 ringsum_inspection_shard_at(inspection, 0)->tensor_count !=
			 drafter.shards[0].tensor_count)
		fail_at("sound without all of it");
	if ((ringsum_inspection_to_json(inspection, &json, NULL) == RINGSUM_OK) != (json != NULL) ||
	    (ringsum_inspection_to_text(inspection, &text, NULL) == RINGSUM_OK) != (text != NULL))
		fail_at("text and result contradict each other");
	ringsum_free(json);
	ringsum_free(text);
	ringsum_inspection_free(inspection);
	return result;
}

/* What is measured is of no matter here: it is to end, and to say so where it has no figures. */
static int bench(void)
{
	struct ringsum_bench_result figures = RINGSUM_BENCH_RESULT_INIT;
	struct ringsum_options options = usual_options();
	struct ringsum_error err = { 0 };
	char *json = NULL, *text = NULL;
	int result = ringsum_bench(drafter.root, &options, &figures, &err);

	if (result != RINGSUM_OK && !err.message[0])
		fail_at("no word of explanation");
	if (result == RINGSUM_OK && figures.bytes_promised == 0)
		fail_at("measured without a byte");
	if ((ringsum_bench_to_json(&figures, &json, NULL) == RINGSUM_OK) != (json != NULL) ||
	    (ringsum_bench_to_text(&figures, &text, NULL) == RINGSUM_OK) != (text != NULL))
		fail_at("text and result contradict each other");
	ringsum_free(json);
	ringsum_free(text);
	return result;
}

/* ---- one failure after the other --------------------------------------------------------------- */

static unsigned count_descriptors(void)
{
	DIR *stream = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}

static void fail_one_by_one(const char *name, int (*operation)(void), enum failure_kind kind,
			    int os_errno, bool is_lasting)
{
	int expected = is_damaged ? RINGSUM_E_REFUSED : RINGSUM_OK;
	unsigned descriptors, nth;
	int result;

	operation_name = name;
	failures_arm(kind, 0, os_errno, false);
	assert_int_equal(operation(), expected); /* warm */
	failures_disarm();
	descriptors = count_descriptors();
	for (nth = 1;; nth++) {
		failures_arm(kind, nth, os_errno, is_lasting);
		result = operation();
		if (!failures_disarm()) {
			assert_int_equal(result, expected);
			break;
		}
		if (result == (is_damaged ? RINGSUM_OK : RINGSUM_E_REFUSED))
			fail_at(is_damaged ? "damage was passed over"
					   : "what is sound was refused");
		if (count_descriptors() != descriptors)
			fail_at("a descriptor was left open");
	}
	print_message("# %s, engine %d: %u %s failed\n", name, (int)engine, nth - 1,
		      kind == FAILURE_MEMORY ? "allocations" : "calls");
	assert_true(nth > 1);
}

/* The later failures of what takes long, in steps that grow; all after each fail too. */
static void fail_in_steps(const char *name, int (*operation)(void), enum failure_kind kind,
			  int os_errno)
{
	unsigned descriptors, nth, runs = 0;
	int result;

	operation_name = name;
	assert_int_equal(operation(), RINGSUM_OK); /* warm */
	descriptors = count_descriptors();
	for (nth = 1;; nth += 1 + nth / 3, runs++) {
		failures_arm(kind, nth, os_errno, true);
		result = operation();
		if (!failures_disarm())
			break;
		if (result == RINGSUM_E_REFUSED)
			fail_at("what is sound was refused");
		if (count_descriptors() != descriptors)
			fail_at("a descriptor was left open");
	}
	print_message("# %s: %u runs\n", name, runs);
	assert_int_equal(result, RINGSUM_OK);
}

static void fail_everything(enum failure_kind kind, int os_errno, bool is_lasting)
{
	static const struct {
		const char *name;
		int (*run)(void);
		bool needs_engine;
	} operations[] = {
		{ "open", open_and_describe, false },
		{ "inspect", inspect, false },
		{ "block", make_block, false },
		{ "verify", verify, true },
		{ "load", load, true },
	};
	size_t i;

	for (i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		engine = RINGSUM_ENGINE_PREAD;
		fail_one_by_one(operations[i].name, operations[i].run, kind, os_errno, is_lasting);
		if (!operations[i].needs_engine)
			continue;
		engine = RINGSUM_ENGINE_AUTO;
		fail_one_by_one(operations[i].name, operations[i].run, kind, os_errno, is_lasting);
	}
}

static void test_memory(void **state)
{
	(void)state;
	fail_everything(FAILURE_MEMORY, ENOMEM, false);
}

static void test_no_more_memory(void **state)
{
	(void)state;
	fail_everything(FAILURE_MEMORY, ENOMEM, true);
}

static void test_calls(void **state)
{
	static const int errnos[] = { EIO, EMFILE, EPERM, ENOMEM, EINTR, EAGAIN, EINVAL };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
		fail_everything(FAILURE_CALL, errnos[i], false);
}

static void test_no_more_calls(void **state)
{
	(void)state;
	fail_everything(FAILURE_CALL, EMFILE, true);
}

static void test_bench(void **state)
{
	(void)state;
	engine = RINGSUM_ENGINE_AUTO;
	fail_in_steps("bench", bench, FAILURE_MEMORY, ENOMEM);
	fail_in_steps("bench", bench, FAILURE_CALL, EIO);
}

/* Where the engine and direct I/O are insisted on, and something is in the way. */
static void test_calls_of_what_is_insisted_on(void **state)
{
	static const int errnos[] = { EINVAL, EPERM };
	struct ringsum_options options;
	size_t i;

	(void)state;
	engine = RINGSUM_ENGINE_IO_URING;
	direct = RINGSUM_DIRECT_REQUIRE;
	options = usual_options();
	if (ringsum_verify_path(drafter.root, &options, NULL, NULL) == RINGSUM_OK)
		for (i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
			fail_one_by_one("verify, insisted", verify, FAILURE_CALL, errnos[i], false);
			fail_one_by_one("load, insisted", load, FAILURE_CALL, errnos[i], true);
		}
	else
		print_message("# io_uring or direct I/O is not to be had here\n");
	direct = RINGSUM_DIRECT_PREFER;
}

/* Without openat2, and with links on the way to both shards. */
static void test_walk(void **state)
{
	static const int errnos[] = { EIO, EINTR, EACCES };
	char from[4][128];
	size_t i;

	(void)state;
	snprintf(from[0], sizeof(from[0]), "%s/more", drafter.root);
	snprintf(from[1], sizeof(from[1]), "%s/most", drafter.root);
	snprintf(from[2], sizeof(from[2]), "%s/" DRAFTER_SHARD_0, drafter.root);
	snprintf(from[3], sizeof(from[3]), "%s/most/part-0", drafter.root);
	assert_int_equal(rename(from[0], from[1]), 0);
	assert_int_equal(symlink("./most", from[0]), 0);
	assert_int_equal(rename(from[2], from[3]), 0);
	assert_int_equal(symlink("more/../more/part-0", from[2]), 0);
	failures_deny_openat2(true);
	engine = RINGSUM_ENGINE_PREAD;
	fail_one_by_one("verify by walking", verify, FAILURE_MEMORY, ENOMEM, false);
	for (i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
		fail_one_by_one("verify by walking", verify, FAILURE_CALL, errnos[i], false);
		fail_one_by_one("inspect by walking", inspect, FAILURE_CALL, errnos[i], false);
	}
	failures_deny_openat2(false);
	drafter_write(&drafter);
}

/* A page of a report that is there already: it asks for memory very often. */
static struct ringsum_report *kept;

static int write_page(void)
{
	char *html = NULL;
	int result = ringsum_reports_to_html((const struct ringsum_report *const *)&kept, 1, &html,
					     NULL);

	if ((result == RINGSUM_OK) != (html != NULL))
		fail_at("page and result contradict each other");
	if (html && !strstr(html, "</html>\n"))
		fail_at("half a page");
	ringsum_free(html);
	return result;
}

static void test_page(void **state)
{
	struct ringsum_options options;

	(void)state;
	engine = RINGSUM_ENGINE_AUTO;
	options = usual_options();
	assert_int_equal(ringsum_verify_path(drafter.root, &options, &kept, NULL), RINGSUM_OK);
	fail_one_by_one("page", write_page, FAILURE_MEMORY, ENOMEM, false);
	fail_one_by_one("page", write_page, FAILURE_MEMORY, ENOMEM, true);
	ringsum_report_free(kept);
}

/* Whatever fails besides, a changed byte never passes. */
static void test_damage(void **state)
{
	static const struct {
		enum failure_kind kind;
		int os_errno;
	} failures[] = { { FAILURE_MEMORY, ENOMEM }, { FAILURE_CALL, EIO } };
	size_t embed = drafter_find(&drafter, "embed.weight"), i;
	uint8_t byte = (uint8_t)(drafter.shards[0].data[drafter.data_begin[embed] + 77] ^ 4);

	(void)state;
	drafter_poke(&drafter, DRAFTER_SHARD_0, drafter_begin(&drafter, embed) + 77, &byte, 1);
	is_damaged = true;
	for (engine = RINGSUM_ENGINE_AUTO; engine <= RINGSUM_ENGINE_PREAD; engine += 2) {
		for (i = 0; i < 4; i++) {
			const bool is_lasting = i & 1;

			fail_one_by_one("verify of damage", verify, failures[i / 2].kind,
					failures[i / 2].os_errno, is_lasting);
			fail_one_by_one("load of damage", load, failures[i / 2].kind,
					failures[i / 2].os_errno, is_lasting);
		}
	}
	is_damaged = false;
	drafter_write(&drafter);
}

/* Several threads count together, so the nth call is another one each time. */
static void test_many(void **state)
{
	size_t i;

	(void)state;
	engine = RINGSUM_ENGINE_PREAD;
	for (i = 0; i < 2; i++) {
		fail_one_by_one("verify two", verify_two, FAILURE_MEMORY, ENOMEM, i == 1);
		fail_one_by_one("verify two", verify_two, FAILURE_CALL, EIO, i == 1);
	}
}

static int make_drafter(void **state)
{
	(void)state;
	drafter_init(&drafter, STAGES, EXPERTS);
	drafter_build(&drafter, 0);
	drafter_write(&drafter);
	return 0;
}

static int remove_drafter(void **state)
{
	(void)state;
	drafter_deinit(&drafter);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory), cmocka_unit_test(test_no_more_memory),
		cmocka_unit_test(test_calls),  cmocka_unit_test(test_no_more_calls),
		cmocka_unit_test(test_bench),  cmocka_unit_test(test_calls_of_what_is_insisted_on),
		cmocka_unit_test(test_walk),   cmocka_unit_test(test_damage),
		cmocka_unit_test(test_many),   cmocka_unit_test(test_page),
	};

	failures_install();
	return cmocka_run_group_tests(tests, make_drafter, remove_drafter);
}
