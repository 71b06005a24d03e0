/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXL3 linears and the drafter's numbers, as a loader asks for them. The linker puts the pread
 * below in the place of the system's (--wrap).
 */
#include "drafter.h"
#include "ringsum.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LINEAR "mtp.0.attn.wq_a"

static struct drafter drafter;

static int make_drafter(void **state)
{
	(void)state;
	drafter_init(&drafter, 3, 2);
	return 0;
}

static int remove_drafter(void **state)
{
	(void)state;
	drafter_deinit(&drafter);
	return 0;
}

/* A sound delivery before every test. */
static int write_drafter(void **state)
{
	(void)state;
	drafter_build(&drafter, 7);
	drafter_write(&drafter);
	return 0;
}

static struct ringsum_checkpoint *open_with(enum ringsum_profile profile)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_error err = { 0 };
	int result;

	options.profile = profile;
	result = ringsum_checkpoint_open(drafter.root, &options, &checkpoint, NULL, &err);
	if (result != RINGSUM_OK)
		fail_msg("open gives %d: %s", result, err.message);
	return checkpoint;
}

/* ---- EXL3 --------------------------------------------------------------------------------------- */

static void expect_exl3(struct ringsum_checkpoint *checkpoint, const char *prefix, int expected)
{
	struct ringsum_exl3 out, untouched;
	struct ringsum_error err = { 0 };
	int result;

	memset(&out, 0x5A, sizeof(out));
	memset(&untouched, 0x5A, sizeof(untouched));
	result = ringsum_checkpoint_exl3(checkpoint, prefix, &out, &err);
	if (result != expected)
		fail_msg("%s gives %d, expected %d: %s", prefix, result, expected, err.message);
	if (result == RINGSUM_OK)
		return;
	assert_int_equal(err.code, expected);
	assert_true(err.message[0] != '\0');
	assert_memory_equal(&out, &untouched, sizeof(out));
}

/* Opens whatever lies there without the profile, and asks for the linear. */
static void expect_exl3_anew(int expected)
{
	struct ringsum_checkpoint *checkpoint;

	drafter_write(&drafter);
	checkpoint = open_with(RINGSUM_PROFILE_NONE);
	expect_exl3(checkpoint, LINEAR, expected);
	ringsum_checkpoint_close(checkpoint);
}

static void test_exl3(void **state)
{
	static const char *const prefixes[] = {
		"head",
		LINEAR,
		"mtp.0.main_proj",
		"mtp.2.ffn.experts.1.w3",
	};
	struct ringsum_checkpoint *checkpoint = open_with(RINGSUM_PROFILE_AUTO);
	struct ringsum_exl3 linear;
	char name[128];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		assert_int_equal(ringsum_checkpoint_exl3(checkpoint, prefixes[i], &linear, NULL),
				 RINGSUM_OK);
		snprintf(name, sizeof(name), "%s.trellis", prefixes[i]);
		assert_ptr_equal(linear.trellis, ringsum_checkpoint_find(checkpoint, name));
		snprintf(name, sizeof(name), "%s.suh", prefixes[i]);
		assert_ptr_equal(linear.suh, ringsum_checkpoint_find(checkpoint, name));
		snprintf(name, sizeof(name), "%s.svh", prefixes[i]);
		assert_ptr_equal(linear.svh, ringsum_checkpoint_find(checkpoint, name));
		snprintf(name, sizeof(name), "%s.mul1", prefixes[i]);
		assert_ptr_equal(linear.mul1, ringsum_checkpoint_find(checkpoint, name));
		assert_int_equal(linear.in_features, 32);
		assert_int_equal(linear.out_features, 48);
		assert_int_equal(linear.k, 3);
	}
	expect_exl3(checkpoint, "mtp.0.attn", RINGSUM_E_NOTFOUND);
	expect_exl3(checkpoint, "", RINGSUM_E_NOTFOUND);
	expect_exl3(checkpoint, NULL, RINGSUM_E_INVALID);
	expect_exl3(NULL, LINEAR, RINGSUM_E_INVALID);
	assert_int_equal(ringsum_checkpoint_exl3(checkpoint, LINEAR, NULL, NULL),
			 RINGSUM_E_INVALID);
	ringsum_checkpoint_close(checkpoint);
}

/* Gives the linear's trellis another shape, and moves what lies behind it in the shard. */
static void set_trellis(const char *shape, unsigned size_bytes)
{
	size_t trellis = drafter_find(&drafter, LINEAR ".trellis"), i;
	size_t grown = (size_t)size_bytes - drafter.tensors[trellis].size_bytes; /* may wrap */

	drafter.tensors[trellis].shape = shape;
	drafter.tensors[trellis].size_bytes = size_bytes;
	for (i = trellis + 1; i < drafter.tensor_count; i++)
		if (drafter.shard_of[i] == drafter.shard_of[trellis])
			drafter.data_begin[i] += grown;
	drafter.shards[drafter.shard_of[trellis]].data_bytes += grown;
	drafter_build(&drafter, 0);
	drafter_write(&drafter);
}

static void test_exl3_of_another_k(void **state)
{
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_exl3 linear;

	(void)state;
	set_trellis("[2, 3, 80]", 960);
	checkpoint = open_with(RINGSUM_PROFILE_AUTO);
	assert_int_equal(ringsum_checkpoint_exl3(checkpoint, LINEAR, &linear, NULL), RINGSUM_OK);
	assert_int_equal(linear.k, 5);
	assert_int_equal(ringsum_checkpoint_exl3(checkpoint, "head", &linear, NULL), RINGSUM_OK);
	assert_int_equal(linear.k, 3);
	ringsum_checkpoint_close(checkpoint);
	set_trellis("[2, 3, 48]", 576);
}

static void test_exl3_with_a_very_long_prefix(void **state)
{
	struct ringsum_checkpoint *checkpoint = open_with(RINGSUM_PROFILE_AUTO);
	char *prefix = malloc(100000);

	(void)state;
	memset(prefix, 'x', 100000);
	prefix[99999] = '\0';
	expect_exl3(checkpoint, prefix, RINGSUM_E_NOTFOUND);
	prefix[4096] = '\0';
	expect_exl3(checkpoint, prefix, RINGSUM_E_NOTFOUND);
	free(prefix);
	ringsum_checkpoint_close(checkpoint);
}

static void test_exl3_with_a_part_missing(void **state)
{
	static const char *const parts[] = { "trellis", "suh", "svh", "mul1" };
	char name[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		drafter_build(&drafter, 0);
		snprintf(name, sizeof(name), LINEAR ".%s", parts[i]);
		drafter_drop_entry(&drafter, name);
		expect_exl3_anew(RINGSUM_E_NOTFOUND);
	}
}

/* A shape or dtype that header and manifest agree on, and that no linear has. */
static void test_exl3_that_is_none(void **state)
{
	static const struct {
		const char *part, *find, *replace;
	} edits[] = {
		{ "trellis", "[2, 3, 48]", "[6, 48]" },
		{ "trellis", "[2, 3, 48]", "[2, 9, 16]" },
		{ "trellis", "[2, 3, 48]", "[3, 2, 48]" },
		{ "trellis", "[2, 3, 48]", "[2, 16, 9]" },
		{ "trellis", "I16", "F16" },
		{ "suh", "[32]", "[16, 2]" },
		{ "suh", "F16", "I16" },
		{ "svh", "[48]", "[48, 1]" },
		{ "mul1", "I32", "F32" },
	};
	char name[64], key[80];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		drafter_build(&drafter, 0);
		snprintf(name, sizeof(name), LINEAR ".%s", edits[i].part);
		snprintf(key, sizeof(key), "\"%s\"", name);
		drafter.manifest = document_edit_entry(drafter.manifest, name, edits[i].find,
						       edits[i].replace);
		drafter_edit_header(&drafter, 0, key, edits[i].find, edits[i].replace);
		expect_exl3_anew(RINGSUM_E_REFUSED);
	}
}

static void test_exl3_with_a_changed_marker(void **state)
{
	size_t mul1 = drafter_find(&drafter, LINEAR ".mul1");
	struct ringsum_checkpoint *checkpoint;
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++) {
		uint8_t byte = drafter.shards[0].data[drafter.data_begin[mul1] + i] ^ 0x10;

		drafter_write(&drafter);
		drafter_poke(&drafter, DRAFTER_SHARD_0, drafter_begin(&drafter, mul1) + i, &byte,
			     1);
		checkpoint = open_with(RINGSUM_PROFILE_AUTO);
		expect_exl3(checkpoint, LINEAR, RINGSUM_E_REFUSED);
		expect_exl3(checkpoint, "mtp.1.attn.wq_a", RINGSUM_OK);
		ringsum_checkpoint_close(checkpoint);
	}
}

/* The promise is kept, and it is of another codebook. */
static void test_exl3_with_a_marker_of_another_codebook(void **state)
{
	size_t mul1 = drafter_find(&drafter, LINEAR ".mul1");
	enum ringsum_profile profile;

	(void)state;
	drafter.shards[0].data[drafter.data_begin[mul1] + 3] ^= 1;
	drafter_promise_again(&drafter, LINEAR ".mul1");
	drafter_write(&drafter);
	for (profile = RINGSUM_PROFILE_AUTO; profile <= RINGSUM_PROFILE_DSPARK_EXL3; profile++) {
		struct ringsum_checkpoint *checkpoint = open_with(profile);
		uint8_t word[4] = { 1, 1, 1, 1 };
		struct ringsum_load load = {
			.tensor = ringsum_checkpoint_find(checkpoint, LINEAR ".mul1"),
			.destination = word,
			.destination_bytes = sizeof(word),
		};
		bool is_refused = profile != RINGSUM_PROFILE_NONE;

		expect_exl3(checkpoint, LINEAR, RINGSUM_E_REFUSED);
		/* Loaded as a tensor like any other, it is refused where the profile asks. */
		assert_int_equal(ringsum_checkpoint_load(checkpoint, &load, 1, NULL, NULL),
				 is_refused ? RINGSUM_E_REFUSED : RINGSUM_OK);
		assert_int_equal(word[0] | word[1] | word[2] | word[3], is_refused ? 0 : 0xff);
		ringsum_checkpoint_close(checkpoint);
	}
}

static void test_exl3_of_a_shard_that_changed(void **state)
{
	struct ringsum_checkpoint *checkpoint = open_with(RINGSUM_PROFILE_AUTO);
	static const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	(void)state;
	expect_exl3(checkpoint, LINEAR, RINGSUM_OK);
	assert_int_equal(utimensat(AT_FDCWD, drafter_path(&drafter, DRAFTER_SHARD_0), times, 0), 0);
	expect_exl3(checkpoint, LINEAR, RINGSUM_E_UNDECIDED);
	expect_exl3(checkpoint, "mtp.1.ffn.experts.0.w1", RINGSUM_OK);
	assert_int_equal(unlink(drafter_path(&drafter, DRAFTER_SHARD_1)), 0);
	expect_exl3(checkpoint, "mtp.1.ffn.experts.0.w1", RINGSUM_E_UNDECIDED);
	ringsum_checkpoint_close(checkpoint);
}

/* So many readings of a marker, the first of them, come back with a bit changed, each another. */
static unsigned readings_to_spoil;
static uint64_t marker_offset; /* in the shard: its first byte */

/* A file that is touched while a marker is read, or NULL. */
static const char *touched_while_reading;

static void touch(const char *path)
{
	static const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

ssize_t __real_pread64(int fd, void *buffer, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset);

ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset)
{
	ssize_t got = __real_pread64(fd, buffer, count, offset);

	if (got <= 0 || (uint64_t)offset > marker_offset ||
	    marker_offset >= (uint64_t)offset + (uint64_t)got)
		return got;
	if (readings_to_spoil > 0)
		((uint8_t *)buffer)[marker_offset - (uint64_t)offset] ^=
			(uint8_t)(1u << --readings_to_spoil);
	if (touched_while_reading)
		touch(touched_while_reading);
	return got;
}

static void test_exl3_on_unstable_storage(void **state)
{
	struct ringsum_checkpoint *checkpoint = open_with(RINGSUM_PROFILE_AUTO);

	(void)state;
	marker_offset = ringsum_checkpoint_find(checkpoint, LINEAR ".mul1")->begin;
	readings_to_spoil = 1;
	expect_exl3(checkpoint, LINEAR, RINGSUM_OK);
	assert_int_equal(readings_to_spoil, 0);
	readings_to_spoil = 2;
	expect_exl3(checkpoint, LINEAR, RINGSUM_E_UNDECIDED);
	assert_int_equal(readings_to_spoil, 0);
	expect_exl3(checkpoint, LINEAR, RINGSUM_OK);
	ringsum_checkpoint_close(checkpoint);
}

/* Who else changes manifest, config or plan may have changed what the marker was compared with. */
static void test_exl3_of_documents_that_change(void **state)
{
	static const char *const documents[] = { "TENSORS.json", "config.json",
						 "exl3_moe_plan.json" };
	static const char *const readings[] = { "before", "while" };
	struct ringsum_checkpoint *checkpoint;
	size_t i, when;

	(void)state;
	for (i = 0; i < 3; i++) {
		for (when = 0; when < 2; when++) {
			struct ringsum_exl3 linear = { 0 };
			struct ringsum_error err = { 0 };

			drafter_write(&drafter);
			checkpoint = open_with(RINGSUM_PROFILE_AUTO);
			expect_exl3(checkpoint, LINEAR, RINGSUM_OK);
			marker_offset = ringsum_checkpoint_find(checkpoint, LINEAR ".mul1")->begin;
			if (when == 0)
				touch(drafter_path(&drafter, documents[i]));
			else
				touched_while_reading = drafter_path(&drafter, documents[i]);
			if (ringsum_checkpoint_exl3(checkpoint, LINEAR, &linear, &err) !=
			    RINGSUM_E_UNDECIDED)
				fail_msg("%s touched %s the marker was read: %s", documents[i],
					 readings[when], err.message);
			touched_while_reading = NULL;
			assert_non_null(strstr(err.message, documents[i]));
			assert_null(linear.mul1);
			ringsum_checkpoint_close(checkpoint);
		}
	}
	/* Without the profile the config is nobody's business. */
	drafter_write(&drafter);
	checkpoint = open_with(RINGSUM_PROFILE_NONE);
	touch(drafter_path(&drafter, "config.json"));
	expect_exl3(checkpoint, LINEAR, RINGSUM_OK);
	touch(drafter_path(&drafter, "TENSORS.json"));
	expect_exl3(checkpoint, LINEAR, RINGSUM_E_UNDECIDED);
	ringsum_checkpoint_close(checkpoint);
}

/* ---- the config's numbers ----------------------------------------------------------------------- */

/* As in the config that the delivery was made with. */
static void check_shape(const struct ringsum_drafter_shape *shape)
{
	assert_int_equal(shape->hidden, 32);
	assert_int_equal(shape->vocab, 64);
	assert_int_equal(shape->n_heads, 4);
	assert_int_equal(shape->head_dim, 8);
	assert_int_equal(shape->rope_dim, 4);
	assert_int_equal(shape->q_lora, 16);
	assert_int_equal(shape->o_lora, 17);
	assert_int_equal(shape->o_groups, 2);
	assert_int_equal(shape->inter, 48);
	assert_int_equal(shape->n_experts, 2);
	assert_int_equal(shape->top_k, 1);
	assert_int_equal(shape->n_stages, 3);
	assert_int_equal(shape->n_target_layers, DOCUMENT_LAYERS);
	assert_int_equal(shape->window, 128);
	assert_int_equal(shape->block, 5);
	assert_int_equal(shape->noise_token, 63);
	assert_int_equal(shape->markov_rank, 9);
	assert_int_equal(shape->hc_mult, 7);
	assert_int_equal(shape->hc_iters, 20);
	assert_true(shape->hc_eps == 1e-6);
	assert_true(shape->rms_eps == 1e-20);
	assert_true(shape->swiglu_limit == 10.0);
	assert_true(shape->route_scale == 1.5);
	assert_true(shape->rope_theta == 10000.0);
	assert_int_equal(shape->tap_count, 2);
	assert_int_equal(shape->taps[0], 0);
	assert_int_equal(shape->taps[1], 1);
	assert_int_equal(shape->head_k, 6);
}

/* Numbers that are alike in the usual config could be taken one for the other. */
static void make_numbers_distinct(void)
{
	drafter.config =
		document_edit(drafter.config, NULL, "\"o_lora_rank\": 16", "\"o_lora_rank\": 17");
	drafter.config = document_edit(drafter.config, NULL, "\"dspark_markov_rank\": 8",
				       "\"dspark_markov_rank\": 9");
	drafter.config = document_edit(drafter.config, NULL, "\"hc_mult\": 4", "\"hc_mult\": 7");
	drafter_write(&drafter);
}

static void test_drafter_shape(void **state)
{
	struct ringsum_drafter_shape shape = { .size_bytes = sizeof(shape) };
	struct ringsum_checkpoint *checkpoint;
	const char *name = NULL;
	int64_t k = 0;

	(void)state;
	make_numbers_distinct();
	checkpoint = open_with(RINGSUM_PROFILE_AUTO);
	assert_int_equal(ringsum_checkpoint_drafter_shape(checkpoint, &shape, NULL), RINGSUM_OK);
	check_shape(&shape);
	assert_int_equal(shape.size_bytes, sizeof(shape));
	assert_int_equal(ringsum_checkpoint_drafter_k(checkpoint, 0, &name, &k), RINGSUM_OK);
	assert_string_equal(name, "wq_a");
	assert_int_equal(k, 5);
	assert_int_equal(ringsum_checkpoint_drafter_k(checkpoint, 1, &name, &k), RINGSUM_OK);
	assert_string_equal(name, "wkv");
	assert_int_equal(k, 4);
	assert_int_equal(ringsum_checkpoint_drafter_k(checkpoint, 2, &name, &k),
			 RINGSUM_E_NOTFOUND);
	assert_string_equal(name, "wkv");
	ringsum_checkpoint_close(checkpoint);
}

/* Callers built against another header: as much is filled as they have room for. */
static void test_drafter_shape_of_another_size(void **state)
{
	struct {
		struct ringsum_drafter_shape shape;
		uint64_t more;
	} longer = { .more = 77 };
	struct ringsum_checkpoint *checkpoint = open_with(RINGSUM_PROFILE_AUTO);
	struct ringsum_drafter_shape shape = {
		.size_bytes = offsetof(struct ringsum_drafter_shape, vocab),
		.vocab = 12345,
		.head_k = 999,
	};

	(void)state;
	assert_int_equal(ringsum_checkpoint_drafter_shape(checkpoint, &shape, NULL), RINGSUM_OK);
	assert_int_equal(shape.size_bytes, offsetof(struct ringsum_drafter_shape, vocab));
	assert_int_equal(shape.hidden, 32);
	assert_int_equal(shape.vocab, 12345);
	assert_int_equal(shape.head_k, 999);
	longer.shape.size_bytes = sizeof(longer);
	assert_int_equal(ringsum_checkpoint_drafter_shape(checkpoint, &longer.shape, NULL),
			 RINGSUM_OK);
	assert_int_equal(longer.shape.head_k, 6);
	assert_int_equal(longer.more, 77);
	shape.size_bytes = 0;
	assert_int_equal(ringsum_checkpoint_drafter_shape(checkpoint, &shape, NULL),
			 RINGSUM_E_INVALID);
	assert_int_equal(ringsum_checkpoint_drafter_shape(checkpoint, NULL, NULL),
			 RINGSUM_E_INVALID);
	ringsum_checkpoint_close(checkpoint);
}

static void test_no_drafter_without_the_profile(void **state)
{
	struct ringsum_checkpoint *checkpoint = open_with(RINGSUM_PROFILE_NONE);
	struct ringsum_drafter_shape shape = { .size_bytes = sizeof(shape), .hidden = 5 };
	const char *name;
	int64_t k;

	(void)state;
	assert_int_equal(ringsum_checkpoint_drafter_shape(checkpoint, &shape, NULL),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(shape.hidden, 5);
	assert_int_equal(ringsum_checkpoint_drafter_k(checkpoint, 0, &name, &k),
			 RINGSUM_E_NOTFOUND);
	expect_exl3(checkpoint, LINEAR, RINGSUM_OK);
	ringsum_checkpoint_close(checkpoint);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup(function, write_drafter)
	const struct CMUnitTest tests[] = {
		TEST(test_exl3),
		TEST(test_exl3_of_another_k),
		TEST(test_exl3_with_a_very_long_prefix),
		TEST(test_exl3_with_a_part_missing),
		TEST(test_exl3_that_is_none),
		TEST(test_exl3_with_a_changed_marker),
		TEST(test_exl3_with_a_marker_of_another_codebook),
		TEST(test_exl3_of_a_shard_that_changed),
		TEST(test_exl3_on_unstable_storage),
		TEST(test_exl3_of_documents_that_change),
		TEST(test_drafter_shape),
		TEST(test_drafter_shape_of_another_size),
		TEST(test_no_drafter_without_the_profile),
	};

	return cmocka_run_group_tests(tests, make_drafter, remove_drafter);
}
