/* SPDX-License-Identifier: Apache-2.0 */
/* The index of names and the hash behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "name_index.h"

#define NAME_COUNT 50000

static void test_empty_index_finds_nothing(void **state)
{
	struct rsum_name_index index = { 0 };

	(void)state;
	assert_int_equal(rsum_name_index_find(&index, "a"), RSUM_NAME_INDEX_NONE);
	assert_int_equal(rsum_name_index_find(&index, ""), RSUM_NAME_INDEX_NONE);
	rsum_name_index_deinit(&index);
	rsum_name_index_deinit(&index);
}

static void test_second_of_a_name_is_told(void **state)
{
	struct rsum_name_index index = { 0 };
	char copy[] = "model.norm.weight";
	uint32_t existing = 0;

	(void)state;
	assert_int_equal(rsum_name_index_add(&index, "model.norm.weight", 7, &existing), 0);
	assert_int_equal(existing, RSUM_NAME_INDEX_NONE);
	assert_int_equal(rsum_name_index_add(&index, copy, 8, &existing), 0);
	assert_int_equal(existing, 7);
	assert_int_equal(rsum_name_index_find(&index, copy), 7);
	assert_int_equal(index.used_count, 1);
	assert_int_equal(rsum_name_index_add(&index, "", 9, &existing), 0);
	assert_int_equal(existing, RSUM_NAME_INDEX_NONE);
	assert_int_equal(rsum_name_index_find(&index, ""), 9);
	assert_int_equal(rsum_name_index_find(&index, "model.norm.weigh"), RSUM_NAME_INDEX_NONE);
	assert_int_equal(rsum_name_index_find(&index, "model.norm.weightt"), RSUM_NAME_INDEX_NONE);
	rsum_name_index_deinit(&index);
}

static void check_many(size_t reserve)
{
	struct rsum_name_index index = { 0 };
	char(*names)[24] = malloc(NAME_COUNT * sizeof(*names));
	uint32_t existing;

	assert_non_null(names);
	assert_int_equal(rsum_name_index_reserve(&index, reserve), 0);
	for (uint32_t i = 0; i < NAME_COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "experts.%u.w1", i);
		assert_int_equal(rsum_name_index_add(&index, names[i], i, &existing), 0);
		assert_int_equal(existing, RSUM_NAME_INDEX_NONE);
	}
	assert_true(index.slot_count > index.used_count);
	for (uint32_t i = 0; i < NAME_COUNT; i++) {
		assert_int_equal(rsum_name_index_find(&index, names[i]), i);
		assert_int_equal(rsum_name_index_add(&index, names[i], i + 1, &existing), 0);
		assert_int_equal(existing, i);
	}
	assert_int_equal(index.used_count, NAME_COUNT);
	assert_int_equal(rsum_name_index_find(&index, "experts.50000.w1"), RSUM_NAME_INDEX_NONE);
	rsum_name_index_deinit(&index);
	free(names);
}

static void test_many_names(void **state)
{
	(void)state;
	check_many(0);
	check_many(10);
	check_many(NAME_COUNT);
}

/* The same bytes hash alike wherever they lie, and every byte and the length count. */
static void test_hash_sees_every_byte(void **state)
{
	unsigned char text[72], moved[80];
	uint64_t hashes[64];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)(i * 37 + 11);
	for (size_t length = 0; length < RSUM_COUNT_OF(hashes); length++) {
		hashes[length] = rsum_hash_bytes(text, length);
		for (size_t shift = 0; shift < 8; shift++) {
			memcpy(moved + shift, text, length);
			assert_true(rsum_hash_bytes(moved + shift, length) == hashes[length]);
		}
		for (size_t i = 0; i < length; i++) {
			moved[7 + i] ^= 0x80;
			assert_true(rsum_hash_bytes(moved + 7, length) != hashes[length]);
			moved[7 + i] ^= 0x80;
		}
		for (size_t i = 0; i < length; i++)
			assert_true(hashes[i] != hashes[length]);
	}
}

/* Zero bytes at the end are not padding. */
static void test_hash_sees_trailing_zeros(void **state)
{
	static const unsigned char zeros[32];

	(void)state;
	for (size_t i = 0; i + 1 < sizeof(zeros); i++)
		assert_true(rsum_hash_bytes(zeros, i) != rsum_hash_bytes(zeros, i + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_index_finds_nothing),
		cmocka_unit_test(test_second_of_a_name_is_told),
		cmocka_unit_test(test_many_names),
		cmocka_unit_test(test_hash_sees_every_byte),
		cmocka_unit_test(test_hash_sees_trailing_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
