/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flips [COUNT [SEED]]: single bits of a small delivery on disk are inverted, one in each of
 * many tensors at a time, and every one has to be found through the engine of this machine: the
 * right tensors named, once each, with the right range, and no other.
 */
#include "delivery.h"
#include "ringsum.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TENSORS 1000
#define SHARDS 2

static uint64_t wanted = 100000;
static uint64_t seed = 20261201;
static struct delivery delivery;

/* Bits that are inverted now, by tensor. */
struct flip {
	bool is_flipped;
	uint64_t byte;
	unsigned bit;
};

static struct flip flips[TENSORS];

static int make_delivery(void **state)
{
	uint64_t random = seed;
	char name[32];
	unsigned i;

	(void)state;
	delivery_init(&delivery, NULL);
	for (i = 0; i < TENSORS; i++) {
		snprintf(name, sizeof(name), "tensor.%u", i);
		delivery_add(&delivery, i % SHARDS, name, 1 + delivery_random(&random) % 700,
			     false);
	}
	/* More than one read long. */
	delivery.tensors[77].size_bytes = delivery.tensors[77].shape[0] = 200001;
	delivery_write(&delivery, seed, true);
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	delivery_deinit(&delivery);
	return 0;
}

/* The first and the last bit of a tensor come more often than chance has it. */
static struct flip choose_flip(const struct delivery_tensor *tensor, uint64_t *random)
{
	uint64_t chance = delivery_random(random);
	struct flip flip = {
		.is_flipped = true,
		.byte = delivery_random(random) % tensor->size_bytes,
		.bit = (unsigned)(chance >> 8) % 8,
	};

	if (chance % 16 == 0)
		flip.byte = flip.bit = 0;
	else if (chance % 16 == 1)
		flip.byte = tensor->size_bytes - 1;
	return flip;
}

static void invert_on_disk(void)
{
	int fds[SHARDS];
	unsigned shard;
	size_t i;

	for (shard = 0; shard < SHARDS; shard++) {
		fds[shard] = open(delivery_shard_path(&delivery, shard), O_RDWR | O_CLOEXEC);
		assert_true(fds[shard] >= 0);
	}
	for (i = 0; i < TENSORS; i++) {
		const struct delivery_tensor *tensor = &delivery.tensors[i];
		off_t at = (off_t)(tensor->begin + flips[i].byte);
		uint8_t value;

		if (!flips[i].is_flipped)
			continue;
		assert_int_equal(pread(fds[tensor->shard], &value, 1, at), 1);
		value ^= (uint8_t)(1u << flips[i].bit);
		assert_int_equal(pwrite(fds[tensor->shard], &value, 1, at), 1);
	}
	for (shard = 0; shard < SHARDS; shard++)
		close(fds[shard]);
}

/* So many tensors, a different set each time. */
static size_t choose_flips(uint64_t *random, size_t most)
{
	size_t count = 0, i;

	for (i = 0; i < TENSORS; i++) {
		flips[i].is_flipped = false;
		if (count < most && delivery_random(random) % 2)
			flips[i] = choose_flip(&delivery.tensors[i], random);
		count += flips[i].is_flipped;
	}
	return count;
}

static void check_finding(const struct ringsum_finding *finding, bool *is_named)
{
	const struct delivery_tensor *tensor;
	unsigned long index;

	assert_int_equal(finding->code, RINGSUM_FINDING_DIGEST_MISMATCH);
	assert_non_null(finding->tensor);
	index = strtoul(finding->tensor + strlen("tensor."), NULL, 10);
	assert_true(index < TENSORS);
	tensor = &delivery.tensors[index];
	if (!flips[index].is_flipped)
		fail_msg("%s is named, and no bit of it is wrong", finding->tensor);
	if (is_named[index])
		fail_msg("%s is named twice", finding->tensor);
	is_named[index] = true;
	assert_string_equal(finding->tensor, tensor->name);
	assert_int_equal(finding->begin, tensor->begin);
	assert_int_equal(finding->end, tensor->begin + tensor->size_bytes);
}

static void check_found(struct ringsum_report *report, size_t expected)
{
	size_t count = ringsum_report_finding_count(report), i;
	bool is_named[TENSORS] = { false };
	struct ringsum_totals totals;

	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.tensors_refused, expected);
	assert_int_equal(totals.tensors_identical, TENSORS - expected);
	assert_int_equal(count, expected);
	for (i = 0; i < count; i++)
		check_finding(ringsum_report_finding_at(report, i), is_named);
	for (i = 0; i < TENSORS; i++)
		if (flips[i].is_flipped && !is_named[i])
			fail_msg("bit %u of byte %llu of tensor.%zu was not found", flips[i].bit,
				 (unsigned long long)flips[i].byte, i);
}

static void test_flips(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	uint64_t random = seed, flipped = 0, runs = 0;

	(void)state;
	options.chunk_bytes = 65536;
	while (flipped < wanted) {
		struct ringsum_report *report = NULL;
		size_t count = choose_flips(&random, wanted - flipped);

		if (count == 0)
			continue;
		/* Every way of reading and hashing that this machine has, in turns. */
		options.engine = runs % 4 == 3 ? RINGSUM_ENGINE_PREAD : RINGSUM_ENGINE_AUTO;
		options.direct = runs % 3 == 2 ? RINGSUM_DIRECT_OFF : RINGSUM_DIRECT_PREFER;
		options.digest = runs % 5 == 4 ? RINGSUM_DIGEST_LIBCRYPTO : RINGSUM_DIGEST_AUTO;
		invert_on_disk();
		assert_int_equal(ringsum_verify_path(delivery.root, &options, &report, NULL),
				 RINGSUM_E_REFUSED);
		check_found(report, count);
		ringsum_report_free(report);
		invert_on_disk();
		flipped += count;
		runs++;
	}
	assert_int_equal(ringsum_verify_path(delivery.root, &options, NULL, NULL), RINGSUM_OK);
	print_message("# seed %llu: %llu bits in %llu runs, all found\n", (unsigned long long)seed,
		      (unsigned long long)flipped, (unsigned long long)runs);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flips),
	};

	if (argc > 1)
		wanted = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, make_delivery, remove_delivery);
}
