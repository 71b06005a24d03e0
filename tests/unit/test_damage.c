/* SPDX-License-Identifier: Apache-2.0 */
/* How damaged bytes look: zeros however they are cut into runs, owners, and the words for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "damage.h"
#include "delivery.h"

#define SEED UINT64_C(20261202)
#define RANGE_BYTES_MAX 20000

/* Looks at `size` bytes in runs of random lengths. */
static struct rsum_damage_view see_in_runs(const uint8_t *bytes, size_t size, uint64_t *random)
{
	struct rsum_damage_view view = { 0 };
	size_t at = 0;

	while (at < size) {
		size_t run = 1 + (size_t)(delivery_random(random) % 9000);

		run = RSUM_MIN(run, size - at);
		rsum_damage_see(&view, at, bytes + at, run);
		at += run;
	}
	return view;
}

static void test_zeros_against_the_plain_way(void **state)
{
	static uint8_t bytes[RANGE_BYTES_MAX];
	uint64_t random = SEED;

	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		size_t size = 1 + (size_t)(delivery_random(&random) % RANGE_BYTES_MAX), end;
		struct rsum_damage_view view;

		memset(bytes, 0, size);
		/* A few bytes that are not zero, of which the last decides. */
		for (uint64_t i = delivery_random(&random) % 4; i > 0; i--)
			bytes[delivery_random(&random) % size] = 1;
		for (end = size; end > 0 && bytes[end - 1] == 0; end--)
			;
		view = see_in_runs(bytes, size, &random);
		if (view.nonzero_end != end)
			fail_msg("seed %llu, round %u: of %zu bytes %llu, expected %zu",
				 (unsigned long long)SEED, round, size,
				 (unsigned long long)view.nonzero_end, end);
	}
}

static struct ringsum_finding judge(uint64_t nonzero_end, const struct ringsum_tensor *owner)
{
	const struct ringsum_tensor tensor = { .size_bytes = 4096, .begin = 100, .end = 4196 };
	const struct rsum_damage_view view = { .nonzero_end = nonzero_end, .owner = owner };
	struct ringsum_finding finding = { 0 };

	rsum_damage_judge(&view, &tensor, &finding);
	return finding;
}

static void assert_described(const struct ringsum_finding *finding, const char *expected)
{
	char text[RSUM_DAMAGE_TEXT_BYTES];

	assert_string_equal(rsum_damage_describe(finding, text, sizeof(text)), expected);
}

static void test_judgement(void **state)
{
	const struct ringsum_tensor owner = { .name = "a\n\xe2\x80\xae" };
	const struct ringsum_tensor empty = { 0 };
	const struct rsum_damage_view nothing_seen = { 0 };
	struct ringsum_finding finding;

	(void)state;
	finding = judge(0, NULL);
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_ZERO);
	assert_described(&finding, ": all of them are zero");
	finding = judge(0, &owner); /* that they are zero says more */
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_ZERO);
	finding = judge(4096 - 512, NULL);
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_ZERO_TAIL);
	assert_int_equal(finding.looks_offset, 100 + 4096 - 512);
	assert_described(&finding,
			 ": from byte 3684 of the shard to the end of the range they are zero");
	finding = judge(4096 - 511, NULL);
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_UNKNOWN);
	assert_described(&finding, "");
	finding = judge(4096, &owner);
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_OTHER_TENSOR);
	assert_string_equal(finding.looks_tensor, owner.name);
	assert_described(&finding, ": they are those promised for a\\n\\xe2\\x80\\xae");
	finding = (struct ringsum_finding){ 0 };
	rsum_damage_judge(&nothing_seen, &empty, &finding);
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_UNKNOWN);
	rsum_damage_judge(NULL, &owner, &finding);
	assert_int_equal(finding.looks_like, RINGSUM_LOOKS_UNKNOWN);
}

/* The longest name, of bytes that take most room when escaped, fits. */
static void test_longest_description(void **state)
{
	struct ringsum_finding finding = { .looks_like = RINGSUM_LOOKS_OTHER_TENSOR };
	char name[5000], text[RSUM_DAMAGE_TEXT_BYTES];
	size_t length;

	(void)state;
	memset(name, 0xff, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	finding.looks_tensor = name;
	length = strlen(rsum_damage_describe(&finding, text, sizeof(text)));
	assert_true(length < sizeof(text) - 1);
	assert_string_equal(text + length - 7, "\\xff...");
}

static void test_cut(void **state)
{
	const struct ringsum_tensor tensor = { .size_bytes = 50, .begin = 100, .end = 150 };
	static const struct {
		uint64_t shard_bytes;
		enum ringsum_looks looks;
	} cases[] = {
		{ 0, RINGSUM_LOOKS_ABSENT },	  { 100, RINGSUM_LOOKS_ABSENT },
		{ 101, RINGSUM_LOOKS_TRUNCATED }, { 149, RINGSUM_LOOKS_TRUNCATED },
		{ 150, RINGSUM_LOOKS_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		struct ringsum_finding finding = { 0 };

		rsum_damage_judge_cut(&tensor, cases[i].shard_bytes, &finding);
		assert_int_equal(finding.looks_like, cases[i].looks);
		assert_int_equal(finding.looks_offset, cases[i].looks == RINGSUM_LOOKS_TRUNCATED
							       ? cases[i].shard_bytes
							       : 0);
		assert_described(&finding, ""); /* the finding's own message says it */
	}
}

static void set_promise(struct rsum_promise *promise, const char *name, uint8_t digest,
			bool is_wellformed, uint64_t size_bytes)
{
	*promise = (struct rsum_promise){ .is_wellformed = is_wellformed };
	promise->tensor.name = name;
	promise->tensor.size_bytes = size_bytes;
	memset(promise->tensor.digest_sha256, digest, RSUM_SHA256_BYTES);
}

static void test_owners(void **state)
{
	static const uint8_t wanted[] = { 9, 2, 7, 2, 4, 1, 0 };
	static const char *const owners[] = { NULL, "b", NULL, "b", NULL, "a", NULL };
	uint8_t digests[RSUM_COUNT_OF(wanted)][RSUM_SHA256_BYTES];
	struct rsum_damage_digest asked[RSUM_COUNT_OF(wanted)];
	struct rsum_damage_view views[RSUM_COUNT_OF(wanted)] = { 0 };
	struct rsum_promise promises[6];
	const struct rsum_manifest manifest = { .promises = promises,
						.promise_count = RSUM_COUNT_OF(promises) };

	(void)state;
	set_promise(&promises[0], "broken", 7, false, 8);
	set_promise(&promises[1], "b", 2, true, 8);
	set_promise(&promises[2], "a", 1, true, 8);
	set_promise(&promises[3], "b again", 2, true, 8);
	set_promise(&promises[4], "empty", 4, true, 0);
	set_promise(&promises[5], "c", 5, true, 8);
	for (size_t i = 0; i < RSUM_COUNT_OF(wanted); i++) {
		memset(digests[i], wanted[i], RSUM_SHA256_BYTES);
		asked[i] = (struct rsum_damage_digest){ digests[i], &views[i] };
	}
	rsum_damage_find_owners(&manifest, asked, RSUM_COUNT_OF(asked));
	for (size_t i = 0; i < RSUM_COUNT_OF(wanted); i++) {
		assert_true((views[i].owner != NULL) == (owners[i] != NULL));
		if (owners[i])
			assert_string_equal(views[i].owner->name, owners[i]);
	}
	rsum_damage_find_owners(&manifest, asked, 0);
}

static void test_names(void **state)
{
	(void)state;
	for (unsigned looks = 0; looks < RINGSUM_LOOKS_COUNT; looks++)
		assert_non_null(ringsum_looks_name((enum ringsum_looks)looks));
	assert_null(ringsum_looks_name(RINGSUM_LOOKS_COUNT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zeros_against_the_plain_way),
		cmocka_unit_test(test_judgement),
		cmocka_unit_test(test_longest_description),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_owners),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
