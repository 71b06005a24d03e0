/* SPDX-License-Identifier: Apache-2.0 */
/* Names and bits of dtypes, and the sizes of shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dtype.h"

static const struct {
	const char *name;
	unsigned bits;
} known[] = {
	{ "BOOL", 8 },	  { "F4", 4 },		{ "F6_E2M3", 6 },     { "F6_E3M2", 6 },
	{ "U8", 8 },	  { "I8", 8 },		{ "F8_E5M2", 8 },     { "F8_E4M3", 8 },
	{ "F8_E8M0", 8 }, { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "I16", 16 },
	{ "U16", 16 },	  { "F16", 16 },	{ "BF16", 16 },	      { "I32", 32 },
	{ "U32", 32 },	  { "F32", 32 },	{ "C64", 64 },	      { "F64", 64 },
	{ "I64", 64 },	  { "U64", 64 },
};

static void test_every_dtype(void **state)
{
	enum ringsum_dtype dtype;

	(void)state;
	assert_int_equal(RSUM_COUNT_OF(known), RINGSUM_DTYPE_COUNT);
	for (size_t i = 0; i < RSUM_COUNT_OF(known); i++) {
		assert_true(rsum_dtype_from_name(known[i].name, &dtype));
		assert_string_equal(ringsum_dtype_name(dtype), known[i].name);
		assert_int_equal(ringsum_dtype_bits(dtype), known[i].bits);
	}
}

static void test_names_are_exact(void **state)
{
	static const char *const wrong[] = { "",      "f32",  "F3",	  "F321",   " F32",
					     "F32 ",  "FP32", "bfloat16", "F128",   "I4",
					     "F8",    "BF8",  "F8_e4m3",  "float",  "F6_E3M",
					     "BOOL8", "U",    "C128",	  "f8_e8m0" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(wrong); i++) {
		enum ringsum_dtype dtype = RINGSUM_DTYPE_COUNT;

		assert_false(rsum_dtype_from_name(wrong[i], &dtype));
		assert_int_equal(dtype, RINGSUM_DTYPE_COUNT);
	}
}

static void test_values_out_of_range(void **state)
{
	(void)state;
	assert_null(ringsum_dtype_name(RINGSUM_DTYPE_COUNT));
	assert_null(ringsum_dtype_name((enum ringsum_dtype)1000));
	assert_null(ringsum_dtype_name((enum ringsum_dtype) - 1));
	assert_int_equal(ringsum_dtype_bits(RINGSUM_DTYPE_COUNT), 0);
	assert_int_equal(ringsum_dtype_bits((enum ringsum_dtype) - 1), 0);
}

#define P32 (UINT64_C(1) << 32)
#define P60 (UINT64_C(1) << 60)
#define P61 (UINT64_C(1) << 61)
#define P63 (UINT64_C(1) << 63)

static const struct {
	enum ringsum_dtype dtype;
	unsigned rank;
	uint64_t shape[4];
	enum rsum_shape_result result;
	uint64_t bytes;
} sizes[] = {
	{ RINGSUM_DTYPE_F32, 0, { 0 }, RSUM_SHAPE_OK, 4 },
	{ RINGSUM_DTYPE_BF16, 2, { 128, 5120 }, RSUM_SHAPE_OK, 1310720 },
	{ RINGSUM_DTYPE_F64, 1, { 0 }, RSUM_SHAPE_OK, 0 },
	{ RINGSUM_DTYPE_F4, 1, { 4 }, RSUM_SHAPE_OK, 2 },
	{ RINGSUM_DTYPE_F4, 1, { 3 }, RSUM_SHAPE_PART_OF_BYTE, 0 },
	{ RINGSUM_DTYPE_F4, 0, { 0 }, RSUM_SHAPE_PART_OF_BYTE, 0 },
	{ RINGSUM_DTYPE_F4, 1, { 0 }, RSUM_SHAPE_OK, 0 },
	{ RINGSUM_DTYPE_F6_E3M2, 1, { 4 }, RSUM_SHAPE_OK, 3 },
	{ RINGSUM_DTYPE_F6_E2M3, 2, { 2, 2 }, RSUM_SHAPE_OK, 3 },
	{ RINGSUM_DTYPE_F6_E2M3, 1, { 2 }, RSUM_SHAPE_PART_OF_BYTE, 0 },
	/* The product goes from the first dimension to the last: a zero helps only before. */
	{ RINGSUM_DTYPE_U8, 3, { P63, 2, 0 }, RSUM_SHAPE_OVERFLOW, 0 },
	{ RINGSUM_DTYPE_U8, 3, { 0, P63, 2 }, RSUM_SHAPE_OK, 0 },
	{ RINGSUM_DTYPE_U8, 2, { P32, P32 }, RSUM_SHAPE_OVERFLOW, 0 },
	/* Elements fit and their bits do not. */
	{ RINGSUM_DTYPE_U8, 1, { P61 }, RSUM_SHAPE_OVERFLOW, 0 },
	{ RINGSUM_DTYPE_U8, 1, { P61 - 1 }, RSUM_SHAPE_OK, P61 - 1 },
	{ RINGSUM_DTYPE_F4, 1, { P61 }, RSUM_SHAPE_OK, P60 },
	{ RINGSUM_DTYPE_U64, 1, { UINT64_MAX / 64 }, RSUM_SHAPE_OK, UINT64_MAX / 64 * 8 },
	{ RINGSUM_DTYPE_U64, 1, { UINT64_MAX / 64 + 1 }, RSUM_SHAPE_OVERFLOW, 0 },
	{ RINGSUM_DTYPE_U8, 1, { UINT64_MAX }, RSUM_SHAPE_OVERFLOW, 0 },
};

static void test_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(sizes); i++) {
		uint64_t bytes = 0;

		if (rsum_shape_bytes(sizes[i].dtype, sizes[i].shape, sizes[i].rank, &bytes) !=
			    sizes[i].result ||
		    bytes != sizes[i].bytes)
			fail_msg("row %zu: %llu bytes", i, (unsigned long long)bytes);
	}
}

static void test_format(void **state)
{
	static const uint64_t shape[] = { 128, 5120, UINT64_MAX };
	char buffer[64];

	(void)state;
	assert_string_equal(rsum_shape_format(NULL, 0, buffer, sizeof(buffer)), "[]");
	assert_string_equal(rsum_shape_format(shape, 1, buffer, sizeof(buffer)), "[128]");
	assert_string_equal(rsum_shape_format(shape, 3, buffer, sizeof(buffer)),
			    "[128, 5120, 18446744073709551615]");
	/* Never more than the buffer, always closed. */
	for (size_t size = 6; size < sizeof(buffer); size++) {
		memset(buffer, '#', sizeof(buffer));
		assert_ptr_equal(rsum_shape_format(shape, 3, buffer, size), buffer);
		assert_true(strlen(buffer) < size);
		assert_true(buffer[0] == '[' && buffer[strlen(buffer) - 1] == ']');
		assert_int_equal(buffer[size], '#');
	}
	assert_string_equal(rsum_shape_format(shape, 3, buffer, 20), "[128, 5120...]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_dtype),
		cmocka_unit_test(test_names_are_exact),
		cmocka_unit_test(test_values_out_of_range),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
