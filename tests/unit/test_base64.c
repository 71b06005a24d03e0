/* SPDX-License-Identifier: Apache-2.0 */
/* Base64: what is decoded, and that there is one spelling for any bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base64.h"

static const struct {
	const char *bytes, *text;
} pairs[] = {
	/* RFC 4648, section 10 */
	{ "", "" },
	{ "f", "Zg==" },
	{ "fo", "Zm8=" },
	{ "foo", "Zm9v" },
	{ "foob", "Zm9vYg==" },
	{ "fooba", "Zm9vYmE=" },
	{ "foobar", "Zm9vYmFy" },
	{ "\xfb\xff\xbf", "+/+/" },
};

static void test_known_pairs(void **state)
{
	uint8_t data[16];
	size_t size_bytes;
	char *encoded;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(pairs); i++) {
		size_t length = strlen(pairs[i].bytes);

		encoded = rsum_base64_encode(pairs[i].bytes, length);
		assert_string_equal(encoded, pairs[i].text);
		free(encoded);
		assert_true(rsum_base64_decode(pairs[i].text, strlen(pairs[i].text), data,
					       &size_bytes));
		assert_int_equal(size_bytes, length);
		assert_memory_equal(data, pairs[i].bytes, length);
	}
}

static void test_what_is_refused(void **state)
{
	static const char *const texts[] = {
		"Z",	     "Zg",	 "Zg=",	     "Zm8",	 "Zm9v\n",    " Zm9v",	 "Zm 9v",
		"Zg==Zg==",  "=",	 "====",     "A===",	 "Zg=g",      "Zm9vYg",	 "Zh==",
		"Zi==",	     "Zm9=",	 "Zm-_",     "Zm9v====", "Zm9v\tYg=", "Zm9\x80", "Zg\0=",
		"Zm9vZm9v=", "Zm==Zm9v", "Zm9v,Zm9", "Zm9vZm9.",
	};
	uint8_t data[16];
	size_t size_bytes = 77;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(texts); i++)
		assert_false(rsum_base64_decode(texts[i], strlen(texts[i]), data, &size_bytes));
	assert_false(rsum_base64_decode("Zg\0=", 4, data, &size_bytes));
	assert_int_equal(size_bytes, 77);
}

/* Of every two bytes, and every four digits at the end, exactly one spelling decodes. */
static void test_one_spelling(void **state)
{
	static const char digits[] = "ABghlmwxyz0189+/=";
	uint8_t data[8];
	size_t size_bytes, decoded = 0;
	char text[5] = "", *again;

	(void)state;
	for (unsigned i = 0; i < 17 * 17 * 17 * 17; i++) {
		text[0] = digits[i % 17];
		text[1] = digits[i / 17 % 17];
		text[2] = digits[i / 289 % 17];
		text[3] = digits[i / 4913];
		if (!rsum_base64_decode(text, 4, data, &size_bytes))
			continue;
		decoded++;
		again = rsum_base64_encode(data, size_bytes);
		assert_string_equal(again, text);
		free(again);
	}
	assert_true(decoded > 60000);
}

static void test_in_place(void **state)
{
	uint8_t bytes[1000];
	size_t size_bytes;
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + i / 256);
	for (size_t length = 0; length <= sizeof(bytes); length += 1 + length / 8) {
		text = rsum_base64_encode(bytes, length);
		assert_true(rsum_base64_decode(text, strlen(text), (uint8_t *)text, &size_bytes));
		assert_int_equal(size_bytes, length);
		assert_memory_equal(text, bytes, length);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_pairs),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_one_spelling),
		cmocka_unit_test(test_in_place),
	};

	return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
