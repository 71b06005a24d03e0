/* SPDX-License-Identifier: Apache-2.0 */
/* Loads through the public API: what is delivered, what is zeroed, and what is never touched. */
#include "delivery.h"
#include "ringsum.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20261202)
#define ROUNDS 160
#define LOADS_MAX 64
#define CANARY 0xA5
#define PAGE 4096

static struct delivery delivery;
static char context[192]; /* what is being tried, for a failure's message */

/* A test's memory: destinations lie in it among canaries. */
struct arena {
	uint8_t *bytes;	   /* page aligned */
	uint8_t *expected; /* what all of it should hold in the end */
	size_t size_bytes;
	size_t used_bytes;
};

static void write_delivery(void)
{
	delivery_write(&delivery, SEED, true);
}

static int make_delivery(void **state)
{
	(void)state;
	delivery_init(&delivery, NULL);
	delivery_add_mixture(&delivery, 3, SEED);
	delivery_add(&delivery, 0, "large", 700001, false);
	delivery_add(&delivery, 1, "larger", 1300000, false);
	write_delivery();
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	delivery_deinit(&delivery);
	return 0;
}

static void arena_init(struct arena *arena, size_t size_bytes)
{
	*arena = (struct arena){ .size_bytes = size_bytes };
	arena->bytes = aligned_alloc(PAGE, (size_bytes + PAGE - 1) / PAGE * PAGE);
	arena->expected = malloc(size_bytes);
	assert_non_null(arena->bytes);
	assert_non_null(arena->expected);
	memset(arena->bytes, CANARY, size_bytes);
	memset(arena->expected, CANARY, size_bytes);
}

static void arena_free(struct arena *arena)
{
	free(arena->bytes);
	free(arena->expected);
}

/* Places a load so many bytes behind the last, and then on to that remainder of a page. */
static void arena_place(struct arena *arena, struct ringsum_load *load, size_t gap_bytes,
			size_t remainder)
{
	size_t at = arena->used_bytes + gap_bytes;

	if (remainder < PAGE)
		at += (remainder - at) % PAGE;
	assert_true(at + load->tensor->size_bytes <= arena->size_bytes);
	load->destination = arena->bytes + at;
	load->destination_bytes = load->tensor->size_bytes;
	arena->used_bytes = at + load->tensor->size_bytes;
}

/* Notes what the load should have left: the tensor's bytes, or zeros. */
static void arena_expect(struct arena *arena, const struct ringsum_load *load, bool is_delivered,
			 const uint8_t *bytes)
{
	uint8_t *at = arena->expected + ((uint8_t *)load->destination - arena->bytes);

	if (is_delivered)
		memcpy(at, bytes, load->tensor->size_bytes);
	else
		memset(at, 0, load->tensor->size_bytes);
}

static void arena_check(const struct arena *arena)
{
	size_t i;

	if (memcmp(arena->bytes, arena->expected, arena->size_bytes) == 0)
		return;
	for (i = 0; arena->bytes[i] == arena->expected[i]; i++)
		;
	fail_msg("%s: byte %zu is %02x, expected %02x", context, i, arena->bytes[i],
		 arena->expected[i]);
}

static struct ringsum_checkpoint *open_with(const struct ringsum_options *options)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_checkpoint_open(delivery.root, options, &checkpoint, NULL, &err);

	if (result != RINGSUM_OK)
		fail_msg("%s: open gives %d: %s", context, result, err.message);
	return checkpoint;
}

static void load_with(struct ringsum_checkpoint *checkpoint, struct ringsum_load *loads,
		      size_t count, int expected_result, struct ringsum_report **report_out)
{
	struct ringsum_error err = { 0 };
	int result = ringsum_checkpoint_load(checkpoint, loads, count, report_out, &err);

	if (result != expected_result)
		fail_msg("%s: load gives %d, expected %d: %s", context, result, expected_result,
			 err.message);
}

/* ---- the property: any tensors, anywhere, by any means -------------------------------------- */

static const uint8_t *promised_bytes(const struct ringsum_tensor *tensor)
{
	size_t i = 0;

	while (strcmp(delivery.tensors[i].name, tensor->name) != 0)
		i++;
	return delivery.tensors[i].bytes;
}

static void choose_options(uint64_t *random, struct ringsum_options *options)
{
	*options = (struct ringsum_options)RINGSUM_OPTIONS_INIT;
	options->engine = (enum ringsum_engine)(1 + delivery_random(random) % 2);
	options->direct = delivery_random(random) % 3 ? RINGSUM_DIRECT_PREFER : RINGSUM_DIRECT_OFF;
	options->digest =
		delivery_random(random) % 3 ? RINGSUM_DIGEST_AUTO : RINGSUM_DIGEST_LIBCRYPTO;
	options->chunk_bytes = (uint32_t)(65536 + delivery_random(random) % 20 * PAGE);
	options->memory_bytes = options->chunk_bytes * (1 + delivery_random(random) % 12);
	options->threads = (unsigned)(1 + delivery_random(random) % 4);
	options->depth = (unsigned)(1 + delivery_random(random) % 8);
}

/* One address in three is congruent to the tensor's offset, one nearly so, one is any. */
static void place(uint64_t *random, struct arena *arena, struct ringsum_load *load)
{
	size_t remainder = load->tensor->begin % PAGE;
	size_t gap_bytes = delivery_random(random) % 2 ? 0 : delivery_random(random) % 200;

	switch (delivery_random(random) % 3) {
	case 0:
		break;
	case 1:
		remainder = (remainder + 1 + delivery_random(random) % 64) % PAGE;
		break;
	default:
		remainder = PAGE;
	}
	arena_place(arena, load, gap_bytes, remainder);
	load->destination_bytes += delivery_random(random) % 100;
}

static void load_and_check(struct ringsum_checkpoint *checkpoint, struct arena *arena,
			   struct ringsum_load *loads, size_t count)
{
	struct ringsum_report *report = NULL;
	struct ringsum_totals totals;
	uint64_t bytes = 0;
	size_t i;

	load_with(checkpoint, loads, count, RINGSUM_OK, &report);
	for (i = 0; i < count; i++) {
		assert_int_equal(loads[i].status, RINGSUM_OK);
		bytes += loads[i].tensor->size_bytes;
		if (loads[i].destination)
			arena_expect(arena, &loads[i], true, promised_bytes(loads[i].tensor));
	}
	arena_check(arena);
	ringsum_report_totals(report, &totals);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_IDENTICAL);
	assert_int_equal(totals.tensors_promised, count);
	assert_int_equal(totals.bytes_proven, bytes);
	assert_int_equal(ringsum_report_finding_count(report), 0);
	ringsum_report_free(report);
}

static void test_any_tensors_anywhere(void **state)
{
	uint64_t random = SEED;
	unsigned round;

	(void)state;
	for (round = 0; round < ROUNDS; round++) {
		struct ringsum_load loads[LOADS_MAX] = { 0 };
		struct ringsum_options options;
		struct ringsum_checkpoint *checkpoint;
		struct arena arena;
		size_t count = 1 + delivery_random(&random) % LOADS_MAX, total = 0, i;

		choose_options(&random, &options);
		snprintf(context, sizeof(context),
			 "seed %llu round %u: engine %d direct %d digest %d chunk %u memory %llu",
			 (unsigned long long)SEED, round, (int)options.engine, (int)options.direct,
			 (int)options.digest, options.chunk_bytes,
			 (unsigned long long)options.memory_bytes);
		checkpoint = open_with(&options);
		for (i = 0; i < count; i++) {
			loads[i].tensor = ringsum_checkpoint_tensor_at(
				checkpoint, delivery_random(&random) % delivery.count);
			/* Some twice: where the dice say so, and these besides. */
			if (i > 0 && delivery_random(&random) % 8 == 0)
				loads[i].tensor = loads[i - 1].tensor;
			total += loads[i].tensor->size_bytes + 2 * PAGE;
		}
		arena_init(&arena, total);
		for (i = 0; i < count; i++)
			place(&random, &arena, &loads[i]);
		load_and_check(checkpoint, &arena, loads, count);
		arena_free(&arena);
		ringsum_checkpoint_close(checkpoint);
	}
}

/* The helper's block: all destinations apart, congruent to their offsets, and delivered. */
static void test_block(void **state)
{
	uint64_t random = SEED + 1;
	unsigned round;

	(void)state;
	for (round = 0; round < 20; round++) {
		struct ringsum_load *loads = calloc(delivery.count + 10, sizeof(*loads));
		size_t count = delivery.count + 10, block_bytes = 0, alignment, i;
		struct ringsum_checkpoint *checkpoint;
		struct ringsum_options options;
		void *block = NULL;

		choose_options(&random, &options);
		snprintf(context, sizeof(context), "block, round %u", round);
		checkpoint = open_with(&options);
		alignment = ringsum_checkpoint_alignment(checkpoint);
		assert_true(alignment >= PAGE && (alignment & (alignment - 1)) == 0);
		for (i = 0; i < count; i++)
			loads[i].tensor = ringsum_checkpoint_tensor_at(
				checkpoint, i < delivery.count
						    ? (i * 7919 + round) % delivery.count
						    : delivery_random(&random) % delivery.count);
		assert_int_equal(
			ringsum_block_alloc(checkpoint, loads, count, &block, &block_bytes, NULL),
			RINGSUM_OK);
		assert_int_equal((uintptr_t)block % (2 << 20), 0);
		load_with(checkpoint, loads, count, RINGSUM_OK, NULL);
		for (i = 0; i < count; i++) {
			const struct ringsum_tensor *tensor = loads[i].tensor;
			size_t at = (size_t)((uint8_t *)loads[i].destination - (uint8_t *)block);

			assert_true(at + tensor->size_bytes <= block_bytes);
			assert_int_equal(at % alignment, tensor->begin % alignment);
			assert_memory_equal(loads[i].destination, promised_bytes(tensor),
					    tensor->size_bytes);
		}
		ringsum_block_free(block, block_bytes);
		ringsum_checkpoint_close(checkpoint);
		free(loads);
	}
	ringsum_block_free(NULL, 0);
}

static void test_nothing_and_empty_tensors(void **state)
{
	struct ringsum_checkpoint *checkpoint = open_with(NULL);
	struct ringsum_load loads[4] = { 0 };
	uint8_t byte = CANARY, scalar[2] = { CANARY, CANARY };
	struct ringsum_report *report = NULL;
	void *block = NULL;
	size_t block_bytes = 0;

	(void)state;
	snprintf(context, sizeof(context), "nothing at all");
	load_with(checkpoint, NULL, 0, RINGSUM_OK, &report);
	assert_non_null(report);
	ringsum_report_free(report);
	snprintf(context, sizeof(context), "empty and 0-dim tensors");
	loads[0].tensor = loads[1].tensor = ringsum_checkpoint_find(checkpoint, "s0.size0");
	loads[1].destination = &byte;
	loads[1].destination_bytes = 1;
	loads[2].tensor = ringsum_checkpoint_find(checkpoint, "s2.scalar");
	loads[2].destination = scalar;
	loads[2].destination_bytes = 2;
	loads[3].tensor = ringsum_checkpoint_find(checkpoint, "s1.size0");
	assert_int_equal(loads[2].tensor->rank, 0);
	load_with(checkpoint, loads, 4, RINGSUM_OK, NULL);
	assert_int_equal(byte, CANARY);
	assert_int_equal(scalar[0], promised_bytes(loads[2].tensor)[0]);
	assert_int_equal(scalar[1], CANARY);
	load_with(checkpoint, loads, 2, RINGSUM_OK, NULL);
	assert_int_equal(ringsum_block_alloc(checkpoint, loads, 2, &block, &block_bytes, NULL),
			 RINGSUM_OK);
	load_with(checkpoint, loads, 2, RINGSUM_OK, NULL);
	ringsum_block_free(block, block_bytes);
	ringsum_checkpoint_close(checkpoint);
}

/* ---- the caller's mistakes: told before any read, nothing touched --------------------------- */

static void expect_invalid(struct ringsum_checkpoint *checkpoint, struct arena *arena,
			   struct ringsum_load *loads, size_t count, const char *what)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	size_t i;

	snprintf(context, sizeof(context), "%s", what);
	for (i = 0; i < count; i++)
		loads[i].status = RINGSUM_OK; /* not believed by a caller who ignores the result */
	assert_int_equal(ringsum_checkpoint_load(checkpoint, loads, count, &report, &err),
			 RINGSUM_E_INVALID);
	assert_null(report);
	assert_int_equal(err.code, RINGSUM_E_INVALID);
	assert_true(err.message[0] != '\0');
	for (i = 0; i < count; i++)
		assert_int_equal(loads[i].status, RINGSUM_E_UNDECIDED);
	arena_check(arena);
}

static void test_mistakes(void **state)
{
	struct ringsum_checkpoint *checkpoint = open_with(NULL), *other = open_with(NULL);
	struct ringsum_load good[3] = { 0 }, loads[3];
	struct ringsum_tensor copy;
	struct arena arena;
	void *block = NULL;
	size_t block_bytes = 0;

	(void)state;
	arena_init(&arena, 500000);
	good[0].tensor = ringsum_checkpoint_find(checkpoint, "s0.size65537");
	good[1].tensor = ringsum_checkpoint_find(checkpoint, "s1.size200001");
	good[2].tensor = ringsum_checkpoint_find(checkpoint, "s2.size4");
	arena_place(&arena, &good[0], 10, PAGE);
	arena_place(&arena, &good[1], 10, good[1].tensor->begin % PAGE);
	arena_place(&arena, &good[2], 0, PAGE);

	memcpy(loads, good, sizeof(loads));
	loads[1].destination_bytes--;
	expect_invalid(checkpoint, &arena, loads, 3, "too small by one");
	memcpy(loads, good, sizeof(loads));
	loads[2].destination = NULL;
	expect_invalid(checkpoint, &arena, loads, 3, "no destination");
	memcpy(loads, good, sizeof(loads));
	loads[2].destination = (uint8_t *)good[1].destination + good[1].tensor->size_bytes - 1;
	expect_invalid(checkpoint, &arena, loads, 3, "overlap by one byte");
	loads[2].destination = (uint8_t *)good[0].destination + 100;
	expect_invalid(checkpoint, &arena, loads, 3, "one within another");
	memcpy(loads, good, sizeof(loads));
	loads[1] = loads[0];
	expect_invalid(checkpoint, &arena, loads, 3, "the same destination twice");
	memcpy(loads, good, sizeof(loads));
	loads[1].tensor = ringsum_checkpoint_find(other, "s1.size200001");
	expect_invalid(checkpoint, &arena, loads, 3, "a tensor of another handle");
	copy = *good[1].tensor;
	loads[1].tensor = &copy;
	expect_invalid(checkpoint, &arena, loads, 3, "a copy of a tensor");
	loads[1].tensor = NULL;
	expect_invalid(checkpoint, &arena, loads, 3, "no tensor");
	loads[1].tensor =
		(const struct ringsum_tensor *)(const void *)((const char *)good[1].tensor + 8);
	expect_invalid(checkpoint, &arena, loads, 3, "not quite a tensor");
	memcpy(loads, good, sizeof(loads));
	loads[2].reserved[1] = 1;
	expect_invalid(checkpoint, &arena, loads, 3, "a reserved member");
	memcpy(loads, good, sizeof(loads));
	loads[1].destination = (void *)(UINTPTR_MAX - 100);
	expect_invalid(checkpoint, &arena, loads, 3, "past the end of memory");
	expect_invalid(NULL, &arena, loads, 0, "no checkpoint");
	assert_int_equal(ringsum_checkpoint_load(checkpoint, NULL, 1, NULL, NULL),
			 RINGSUM_E_INVALID);

	loads[1].tensor = &copy;
	assert_int_equal(ringsum_block_alloc(checkpoint, loads, 3, &block, &block_bytes, NULL),
			 RINGSUM_E_INVALID);
	assert_null(block);
	/* Sound loads go through after all that. */
	load_and_check(checkpoint, &arena, good, 3);
	arena_free(&arena);
	ringsum_checkpoint_close(checkpoint);
	ringsum_checkpoint_close(other);
}

/* A load's report speaks of the load alone, not of what opening noticed. */
static void test_report_of_a_load(void **state)
{
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_report *report = NULL;
	struct ringsum_load load = { 0 };
	char path[96], byte;
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/unpromised.txt", delivery.root);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(ringsum_checkpoint_open(delivery.root, NULL, &checkpoint, &report, NULL),
			 RINGSUM_OK);
	assert_int_equal(ringsum_report_finding_count(report), 1);
	ringsum_report_free(report);
	load.tensor = ringsum_checkpoint_find(checkpoint, "s0.size1");
	load.destination = &byte;
	load.destination_bytes = 1;
	load_with(checkpoint, &load, 1, RINGSUM_OK, &report);
	assert_int_equal(ringsum_report_finding_count(report), 0);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_IDENTICAL);
	ringsum_report_free(report);
	ringsum_checkpoint_close(checkpoint);
	assert_int_equal(unlink(path), 0);
}

/* ---- what differs is zeroed and named, the rest is delivered -------------------------------- */

static void place_all(struct ringsum_checkpoint *checkpoint, struct arena *arena,
		      struct ringsum_load *loads)
{
	size_t total = PAGE, i;

	for (i = 0; i < delivery.count; i++)
		total += delivery.tensors[i].size_bytes + PAGE;
	arena_init(arena, total);
	for (i = 0; i < delivery.count; i++) {
		loads[i] = (struct ringsum_load){
			.tensor = ringsum_checkpoint_tensor_at(checkpoint, i),
		};
		/* Every other one is open to direct reads. */
		arena_place(arena, &loads[i], i % 5, i % 2 ? loads[i].tensor->begin % PAGE : PAGE);
	}
}

static void expect_one_refused(const struct ringsum_options *options, size_t damaged)
{
	struct ringsum_load *loads = calloc(delivery.count, sizeof(*loads));
	struct ringsum_checkpoint *checkpoint = open_with(options);
	const struct ringsum_finding *finding;
	struct ringsum_report *report = NULL;
	struct ringsum_totals totals;
	struct arena arena;
	size_t i;

	place_all(checkpoint, &arena, loads);
	load_with(checkpoint, loads, delivery.count, RINGSUM_E_REFUSED, &report);
	for (i = 0; i < delivery.count; i++) {
		if (loads[i].status != (i == damaged ? RINGSUM_E_REFUSED : RINGSUM_OK))
			fail_msg("%s: status of %zu is %d", context, i, loads[i].status);
		arena_expect(&arena, &loads[i], i != damaged, delivery.tensors[i].bytes);
	}
	arena_check(&arena);
	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.tensors_refused, 1);
	assert_int_equal(totals.tensors_identical, delivery.count - 1);
	assert_int_equal(totals.findings_total, 1);
	finding = ringsum_report_finding_at(report, 0);
	assert_int_equal(finding->code, RINGSUM_FINDING_DIGEST_MISMATCH);
	assert_string_equal(finding->tensor, delivery.tensors[damaged].name);
	ringsum_report_free(report);
	arena_free(&arena);
	ringsum_checkpoint_close(checkpoint);
	free(loads);
}

static void test_one_changed_byte(void **state)
{
	uint64_t random = SEED + 2;
	unsigned round;

	(void)state;
	for (round = 0; round < 60; round++) {
		size_t damaged = delivery_random(&random) % delivery.count;
		struct ringsum_options options;
		uint64_t byte;

		if (round < 4) /* a tensor of many chunks, read in place and copied */
			damaged = delivery.count - 1 - round % 2;
		if (delivery.tensors[damaged].size_bytes == 0)
			continue;
		choose_options(&random, &options);
		byte = delivery_random(&random) % delivery.tensors[damaged].size_bytes;
		snprintf(context, sizeof(context), "seed %llu round %u: byte %llu of %s",
			 (unsigned long long)SEED + 2, round, (unsigned long long)byte,
			 delivery.tensors[damaged].name);
		delivery_flip(&delivery, damaged, byte, round % 8);
		expect_one_refused(&options, damaged);
		delivery_flip(&delivery, damaged, byte, round % 8);
	}
}

/* ---- interruptions --------------------------------------------------------------------------- */

static unsigned count_entries(const char *directory)
{
	DIR *stream = opendir(directory);
	unsigned count = 0;

	assert_non_null(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}

static unsigned threads_at_start;

static void *do_nothing(void *arg)
{
	return arg;
}

/* A sanitizer starts a thread of its own along with the first. */
static void count_threads_at_start(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	usleep(100000);
	threads_at_start = count_entries("/proc/self/task");
}

/* A thread that was joined may still be listed for a moment. */
static void assert_no_thread_is_left(void)
{
	unsigned patience = 5000;

	while (count_entries("/proc/self/task") > threads_at_start && patience-- > 0)
		usleep(1000);
	assert_int_equal(count_entries("/proc/self/task"), threads_at_start);
}

struct interruption {
	int calls;
	int at_call;
	void (*act)(void);
	int answer;
};

static int interrupt(void *arg, const struct ringsum_progress *progress)
{
	struct interruption *interruption = arg;

	assert_true(progress->bytes_done <= progress->bytes_total);
	if (interruption->calls++ != interruption->at_call)
		return 0;
	if (interruption->act)
		interruption->act();
	return interruption->answer;
}

#define ALL_SHARDS (-2)

/*
 * Proven bytes are delivered, all others zeroed, whatever the interruption did. lost_shard: none of
 * its tensors is delivered and all others are; -1 where that is left to chance.
 */
static void check_interrupted(const struct ringsum_options *options, int expected_result,
			      int expected_status, int lost_shard)
{
	struct ringsum_load *loads = calloc(delivery.count, sizeof(*loads));
	struct ringsum_checkpoint *checkpoint = open_with(options);
	unsigned descriptors;
	struct ringsum_report *report = NULL;
	struct arena arena;
	size_t i;

	place_all(checkpoint, &arena, loads);
	descriptors = count_entries("/proc/self/fd");
	load_with(checkpoint, loads, delivery.count, expected_result, &report);
	assert_int_equal(count_entries("/proc/self/fd"), descriptors);
	assert_no_thread_is_left();
	assert_non_null(report);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
	for (i = 0; i < delivery.count; i++) {
		bool is_delivered = loads[i].status == RINGSUM_OK;

		if (!is_delivered && loads[i].status != expected_status)
			fail_msg("%s: status of %zu is %d", context, i, loads[i].status);
		assert_false(is_delivered && lost_shard == ALL_SHARDS);
		if (lost_shard >= 0 &&
		    is_delivered != (delivery.tensors[i].shard != (unsigned)lost_shard))
			fail_msg("%s: %s is delivered: %d", context, delivery.tensors[i].name,
				 is_delivered);
		arena_expect(&arena, &loads[i], is_delivered, delivery.tensors[i].bytes);
	}
	arena_check(&arena);
	ringsum_report_free(report);
	arena_free(&arena);
	ringsum_checkpoint_close(checkpoint);
	free(loads);
}

static void test_cancel(void **state)
{
	uint64_t random = SEED + 3;
	unsigned round;

	(void)state;
	for (round = 0; round < 24; round++) {
		struct interruption interruption = { .at_call = 0, .answer = 1 };
		struct ringsum_options options;

		choose_options(&random, &options);
		options.progress = interrupt;
		options.progress_arg = &interruption;
		snprintf(context, sizeof(context), "cancel, round %u", round);
		check_interrupted(&options, RINGSUM_E_CANCELED, RINGSUM_E_CANCELED, -1);
	}
}

static void touch_shard(void)
{
	int fd = open(delivery_shard_path(&delivery, 1), O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, (struct timespec[]){ { .tv_sec = 1 }, { .tv_sec = 1 } }), 0);
	close(fd);
}

static void touch_manifest(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/TENSORS.json", delivery.root);
	assert_int_equal(utimensat(AT_FDCWD, path,
				   (struct timespec[]){ { .tv_sec = 1 }, { .tv_sec = 1 } }, 0),
			 0);
}

/* Nothing is delivered against a manifest that is no longer the one that was read. */
static void test_changed_manifest_while_loading(void **state)
{
	struct interruption interruption = { .act = touch_manifest };
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	(void)state;
	options.progress = interrupt;
	options.progress_arg = &interruption;
	snprintf(context, sizeof(context), "manifest changed");
	check_interrupted(&options, RINGSUM_E_UNDECIDED, RINGSUM_E_UNDECIDED, ALL_SHARDS);
	write_delivery();
}

static void test_changed_while_loading(void **state)
{
	uint64_t random = SEED + 4;
	unsigned round;

	(void)state;
	for (round = 0; round < 12; round++) {
		struct interruption interruption = { .act = touch_shard };
		struct ringsum_options options;

		choose_options(&random, &options);
		options.progress = interrupt;
		options.progress_arg = &interruption;
		snprintf(context, sizeof(context), "changed, round %u", round);
		check_interrupted(&options, RINGSUM_E_UNDECIDED, RINGSUM_E_UNDECIDED, 1);
		write_delivery();
	}
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *load_in_thread(void *checkpoint_ptr)
{
	struct ringsum_checkpoint *checkpoint = checkpoint_ptr;
	struct ringsum_load *loads = calloc(delivery.count, sizeof(*loads));
	size_t block_bytes = 0, i, wrong = 0;
	void *block = NULL;

	for (i = 0; i < delivery.count; i++)
		loads[i].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
	if (ringsum_block_alloc(checkpoint, loads, delivery.count, &block, &block_bytes, NULL) !=
		    RINGSUM_OK ||
	    ringsum_checkpoint_load(checkpoint, loads, delivery.count, NULL, NULL) != RINGSUM_OK)
		wrong++;
	for (i = 0; i < delivery.count && !wrong; i++)
		wrong += memcmp(loads[i].destination, delivery.tensors[i].bytes,
				delivery.tensors[i].size_bytes) != 0;
	ringsum_block_free(block, block_bytes);
	free(loads);
	return wrong ? NULL : checkpoint;
}

static void test_four_threads_on_one_handle(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	unsigned engine, i;

	(void)state;
	options.chunk_bytes = 65536;
	options.memory_bytes = 1 << 20;
	options.threads = 2;
	for (engine = RINGSUM_ENGINE_IO_URING; engine <= RINGSUM_ENGINE_PREAD; engine++) {
		struct ringsum_checkpoint *checkpoint;
		pthread_t threads[4];
		void *returned;

		options.engine = (enum ringsum_engine)engine;
		checkpoint = open_with(&options);
		for (i = 0; i < 4; i++)
			assert_int_equal(
				pthread_create(&threads[i], NULL, load_in_thread, checkpoint), 0);
		for (i = 0; i < 4; i++) {
			assert_int_equal(pthread_join(threads[i], &returned), 0);
			assert_ptr_equal(returned, checkpoint);
		}
		ringsum_checkpoint_close(checkpoint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_tensors_anywhere),
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_nothing_and_empty_tensors),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_report_of_a_load),
		cmocka_unit_test(test_one_changed_byte),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_changed_manifest_while_loading),
		cmocka_unit_test(test_changed_while_loading),
		cmocka_unit_test(test_four_threads_on_one_handle),
	};

	count_threads_at_start();
	return cmocka_run_group_tests(tests, make_delivery, remove_delivery);
}
