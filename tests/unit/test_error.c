/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of explanation: it stays one line of whole characters whatever names are in it, and
 * says what the system said. And a text for every result.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "error.h"
#include "json.h"

static void test_a_text_for_every_result(void **state)
{
	const char *texts[12];

	(void)state;
	for (int i = 0; i < 12; i++) {
		texts[i] = ringsum_result_text(-i);
		assert_true(texts[i] && texts[i][0]);
	}
	/* All the codes are told apart; -10 and -11 are none. */
	for (int i = 0; i < 10; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(texts[i], texts[k]);
	assert_string_equal(texts[10], texts[11]);
	assert_string_equal(ringsum_result_text(1), texts[10]);
	assert_true(ringsum_version()[0] != '\0');
}

static void test_without_a_place_the_code_remains(void **state)
{
	(void)state;
	assert_int_equal(rsum_error_set(NULL, RINGSUM_E_LIMIT, "x"), RINGSUM_E_LIMIT);
	assert_int_equal(rsum_error_set_errno(NULL, RINGSUM_E_IO, EIO, "x"), RINGSUM_E_IO);
}

static void test_what_the_system_said(void **state)
{
	struct ringsum_error err;

	(void)state;
	assert_int_equal(rsum_error_set_errno(&err, RINGSUM_E_IO, ENOENT, "opening %s", "it"),
			 RINGSUM_E_IO);
	assert_int_equal(err.code, RINGSUM_E_IO);
	assert_int_equal(err.os_errno, ENOENT);
	assert_string_equal(err.message, "opening it: No such file or directory");
	assert_int_equal(rsum_error_set(&err, RINGSUM_E_LIMIT, "none of that"), RINGSUM_E_LIMIT);
	assert_int_equal(err.os_errno, 0);
}

static void test_control_characters_do_not_reach_a_terminal(void **state)
{
	static const struct {
		const char *name, *shown;
	} cases[] = {
		{ "a\nb\x1b[2J\x7f", "a?b?[2J?" },
		{ "\xc2\x9b"
		  "31m",
		  "??31m" }, /* U+009B, which some terminals obey */
		{ "\xc2\x80\xc2\x9f", "????" },
		{ "\xc2\xa0\xc3\x9b", "\xc2\xa0\xc3\x9b" },
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "\xc2", "\xc2" },
		{ "", "" },
	};
	struct ringsum_error err;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		assert_int_equal(rsum_error_set(&err, RINGSUM_E_IO, "%s", cases[i].name),
				 RINGSUM_E_IO);
		assert_string_equal(err.message, cases[i].shown);
	}
}

/* A message that is too long ends with a whole character, wherever its characters fall. */
static void test_a_message_is_cut_between_characters(void **state)
{
	static const char *const characters[] = { "e", "\xc3\xa9", "\xe2\x82\xac",
						  "\xf0\x9f\x98\x80" };
	char name[sizeof(((struct ringsum_error *)NULL)->message) + 64];
	struct ringsum_error err;

	(void)state;
	for (size_t c = 0; c < RSUM_COUNT_OF(characters); c++) {
		size_t width = strlen(characters[c]);

		for (size_t shift = 0; shift < 4; shift++) {
			size_t used = shift, length;

			memset(name, 'x', shift);
			while (used + width < sizeof(name)) {
				memcpy(name + used, characters[c], width);
				used += width;
			}
			name[used] = '\0';
			assert_int_equal(rsum_error_set(&err, RINGSUM_E_IO, "%s", name),
					 RINGSUM_E_IO);
			length = strlen(err.message);
			assert_true(length + 2 * width >= sizeof(err.message));
			assert_int_equal((length - shift) % width, 0);
			assert_true(rsum_utf8_is_valid(err.message, length));
			assert_memory_equal(err.message, name, length);
		}
	}
}

/* Nothing but parts of characters: there is no place to cut, and nothing is left of it. */
static void test_a_message_of_parts_of_characters(void **state)
{
	char name[sizeof(((struct ringsum_error *)NULL)->message) + 1];
	struct ringsum_error err;

	(void)state;
	memset(name, 0x80, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(rsum_error_set(&err, RINGSUM_E_IO, "%s", name), RINGSUM_E_IO);
	assert_string_equal(err.message, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_text_for_every_result),
		cmocka_unit_test(test_without_a_place_the_code_remains),
		cmocka_unit_test(test_what_the_system_said),
		cmocka_unit_test(test_control_characters_do_not_reach_a_terminal),
		cmocka_unit_test(test_a_message_is_cut_between_characters),
		cmocka_unit_test(test_a_message_of_parts_of_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
