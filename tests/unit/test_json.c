/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader: what it accepts and as which tokens, what it refuses and where, keys, limits.
 * Every text is read from memory of exactly its size, so that reading past it is caught.
 */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"
#include "ringsum.h"

#define DEPTH_MAX 8

static char *copy_text(const char *text, size_t size_bytes)
{
	char *copy = malloc(RSUM_MAX(size_bytes, 1));

	assert_non_null(copy);
	memcpy(copy, text, size_bytes);
	return copy;
}

static void describe(const struct rsum_json_token *token, FILE *to)
{
	static const char marks[] = "{}[]ks#tfn.";

	fputc(marks[token->type], to);
	if (token->type == RSUM_JSON_KEY || token->type == RSUM_JSON_STRING) {
		assert_int_equal(token->string[token->length], '\0');
		fprintf(to, "<%.*s>", (int)token->length, token->string);
	}
	if (token->type == RSUM_JSON_NUMBER && token->is_integer)
		fprintf(to, "%s%llu", token->is_negative ? "-" : "",
			(unsigned long long)token->magnitude);
	else if (token->type == RSUM_JSON_NUMBER)
		fprintf(to, "~%.17g", token->real);
}

/* Reads it all. The tokens are described in `described`; the reader is left for its reason. */
static int read_all(const char *text, size_t size_bytes, unsigned depth_max, struct rsum_json *json,
		    char *described, size_t described_bytes)
{
	char *copy = copy_text(text, size_bytes);
	struct rsum_json_token token = { .type = RSUM_JSON_NULL };
	FILE *to = fmemopen(described, described_bytes, "w");
	int ret;

	assert_non_null(to);
	assert_int_equal(rsum_json_init(json, copy, size_bytes, depth_max), 0);
	while (!(ret = rsum_json_next(json, &token))) {
		describe(&token, to);
		if (token.type == RSUM_JSON_END)
			break;
	}
	if (ret) {
		assert_int_equal(rsum_json_next(json, &token), ret);
		assert_int_equal(rsum_json_next(json, &token), ret);
		assert_true(json->reason[0]);
		assert_true(json->error_offset <= size_bytes);
	} else {
		assert_int_equal(rsum_json_next(json, &token), 0);
		assert_int_equal(token.type, RSUM_JSON_END);
		assert_int_equal(json->depth, 0);
	}
	fclose(to);
	rsum_json_deinit(json);
	free(copy);
	return ret;
}

/* ---- what is accepted --------------------------------------------------------------------- */

static const struct {
	const char *text;
	const char *tokens;
} accepted[] = {
	{ "{}", "{}." },
	{ "[]", "[]." },
	{ " \t\r\n{ } \n", "{}." },
	{ "null", "n." },
	{ "true", "t." },
	{ "false", "f." },
	{ "\"\"", "s<>." },
	{ "0", "#0." },
	{ "-0", "#-0." },
	{ "[0,-1,12345678901234567890]", "[#0#-1#12345678901234567890]." },
	{ "[ 1 , 2 ]", "[#1#2]." },
	{ "{\"a\":1,\"b\":[true,{\"a\":null}]}", "{k<a>#1k<b>[t{k<a>n}]}." },
	{ "{ \"a\" : \"b\" , \"c\" : { } }", "{k<a>s<b>k<c>{}}." },
	{ "{\"\":\"\"}", "{k<>s<>}." },
	/* 64 bits, and what does not fit them. */
	{ "9223372036854775807", "#9223372036854775807." },
	{ "9223372036854775808", "#9223372036854775808." },
	{ "18446744073709551615", "#18446744073709551615." },
	{ "-18446744073709551615", "#-18446744073709551615." },
	{ "18446744073709551616", "#~1.8446744073709552e+19." },
	{ "184467440737095516150", "#~1.8446744073709552e+20." },
	{ "-99999999999999999999", "#~-1e+20." },
	/* A fraction or an exponent makes no integer, whatever its value. */
	{ "1.0", "#~1." },
	{ "2e0", "#~2." },
	{ "[1E+2,1e-2,-0.5,0.0]", "[#~100#~0.01#~-0.5#~0]." },
	/* Escapes, decoded in place. */
	{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s<\"\\/\b\f\n\r\t>." },
	{ "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00z\"",
	  "s<A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z>." },
	{ "\"\\uD83D\\uDE00\"", "s<\xf0\x9f\x98\x80>." },
	{ "\"\\udbff\\udfff\\uffff\"", "s<\xf4\x8f\xbf\xbf\xef\xbf\xbf>." },
	{ "\"ab\\ncdefghijklmnopqrstuvwxyz\\n0123456789\"",
	  "s<ab\ncdefghijklmnopqrstuvwxyz\n0123456789>." },
	{ "{\"\\u006bey\":1}", "{k<key>#1}." },
	/* Every length of sequence, at every bound that UTF-8 has. */
	{ "\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\"",
	  "s<\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80>." },
	/* The same key in different objects. */
	{ "{\"a\":{\"a\":{\"a\":0}},\"b\":{\"a\":0}}", "{k<a>{k<a>{k<a>#0}}k<b>{k<a>#0}}." },
	{ "[{\"a\":0},{\"a\":0}]", "[{k<a>#0}{k<a>#0}]." },
	{ "[[[[[[[[]]]]]]]]", "[[[[[[[[]]]]]]]]." },
};

static void test_accepted(void **state)
{
	struct rsum_json json;
	char described[512];

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(accepted); i++) {
		int ret = read_all(accepted[i].text, strlen(accepted[i].text), DEPTH_MAX, &json,
				   described, sizeof(described));

		if (ret || strcmp(described, accepted[i].tokens) != 0)
			fail_msg("%s: %d %s, read %s", accepted[i].text, ret, json.reason,
				 described);
	}
}

/* Every text that was cut short is refused, but for numbers, which cannot know. */
static void test_every_truncation_is_refused(void **state)
{
	struct rsum_json json;
	char described[512];

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(accepted); i++) {
		const char *text = accepted[i].text;
		size_t size = strlen(text);

		while (size && strchr(" \t\r\n", text[size - 1]))
			size--;
		if (text[size - 1] != ']' && text[size - 1] != '}' && text[size - 1] != '"')
			continue;
		for (size_t length = 0; length < size; length++)
			assert_int_equal(read_all(text, length, DEPTH_MAX, &json, described,
						  sizeof(described)),
					 RINGSUM_E_REFUSED);
	}
}

/* ---- what is refused ---------------------------------------------------------------------- */

#define TEXT(literal) literal, sizeof(literal) - 1

static const struct {
	const char *text;
	size_t size_bytes;
	size_t offset;
	const char *reason; /* part of it */
} refused[] = {
	{ TEXT(""), 0, "the text ends" },
	{ TEXT("  "), 2, "the text ends" },
	{ TEXT("{}{}"), 2, "the end of the text" },
	{ TEXT("{}x"), 2, "the end of the text" },
	{ TEXT("{}\0"), 2, "byte 0x00" },
	{ TEXT("{}\f"), 2, "byte 0x0c" },
	{ TEXT("{}\xc2\xa0"), 2, "byte 0xc2" },
	{ TEXT("\xef\xbb\xbf{}"), 0, "BOM" },
	{ TEXT("\xff\xfe{\0}\0"), 0, "byte 0xff" },
	{ TEXT("]"), 0, "']'" },
	{ TEXT("[}"), 1, "'}'" },
	{ TEXT("{]"), 1, "']'" },
	{ TEXT("[1}"), 2, "a comma or ]" },
	{ TEXT("{\"a\":1]"), 6, "a comma or }" },
	{ TEXT("[1,]"), 3, "a value" },
	{ TEXT("[,1]"), 1, "a value" },
	{ TEXT("[1,,2]"), 3, "a value" },
	{ TEXT("[1 2]"), 3, "a comma" },
	{ TEXT("{\"a\":1,}"), 7, "a key" },
	{ TEXT("{,}"), 1, "a key" },
	{ TEXT("{\"a\"}"), 4, "a colon" },
	{ TEXT("{\"a\" 1}"), 5, "a colon" },
	{ TEXT("{\"a\":}"), 5, "a value" },
	{ TEXT("{\"a\":1 \"b\":2}"), 7, "a comma" },
	{ TEXT("{a:1}"), 1, "a key" },
	{ TEXT("{'a':1}"), 1, "a key" },
	{ TEXT("{1:1}"), 1, "a key" },
	{ TEXT("{null:1}"), 1, "a key" },
	{ TEXT("[1]/**/"), 3, "the end of the text" },
	{ TEXT("// x\n1"), 0, "a value" },
	{ TEXT("tru"), 0, "a value" },
	{ TEXT("True"), 0, "a value" },
	{ TEXT("nul"), 0, "a value" },
	{ TEXT("nulll"), 4, "the end of the text" },
	{ TEXT("NaN"), 0, "NaN" },
	{ TEXT("[NaN]"), 1, "NaN" },
	{ TEXT("Infinity"), 0, "'I'" },
	{ TEXT("-Infinity"), 1, "a digit" },
	/* Numbers. */
	{ TEXT("01"), 0, "leading zero" },
	{ TEXT("-01"), 1, "leading zero" },
	{ TEXT("00"), 0, "leading zero" },
	{ TEXT("1."), 2, "a digit" },
	{ TEXT("1.e5"), 2, "a digit" },
	{ TEXT(".5"), 0, "a value" },
	{ TEXT("+1"), 0, "a value" },
	{ TEXT("-"), 1, "a digit" },
	{ TEXT("--1"), 1, "a digit" },
	{ TEXT("1e"), 2, "a digit" },
	{ TEXT("1e+"), 3, "a digit" },
	{ TEXT("1e1.5"), 3, "the end of the text" },
	{ TEXT("0x10"), 1, "the end of the text" },
	{ TEXT("1_000"), 1, "the end of the text" },
	{ TEXT("1,5"), 1, "the end of the text" },
	/* Strings. */
	{ TEXT("\""), 1, "within a string" },
	{ TEXT("\"abc"), 4, "within a string" },
	{ TEXT("\"abc\\"), 4, "within a string" },
	{ TEXT("\"a\nb\""), 2, "control character 0x0a" },
	{ TEXT("\"a\0b\""), 2, "control character 0x00" },
	{ TEXT("\"0123456789\x1f\""), 11, "control character 0x1f" },
	{ TEXT("\"\\x41\""), 1, "escape" },
	{ TEXT("\"\\'\""), 1, "escape" },
	{ TEXT("\"\\\0\""), 1, "escape" },
	{ TEXT("\"\\U0041\""), 1, "escape" },
	{ TEXT("\"\\u\""), 1, "hexadecimal" },
	{ TEXT("\"\\u12"), 1, "hexadecimal" },
	{ TEXT("\"\\u12g4\""), 1, "hexadecimal" },
	{ TEXT("\"\\u 123\""), 1, "hexadecimal" },
	{ TEXT("\"\\ud800\""), 1, "surrogate" },
	{ TEXT("\"\\udc00\""), 1, "surrogate" },
	{ TEXT("\"\\ud800x\""), 1, "surrogate" },
	{ TEXT("\"\\ud800\\n12345\""), 1, "surrogate" },
	{ TEXT("\"\\ud800\\u0041\""), 1, "surrogate" },
	{ TEXT("\"\\ud800\\ud800\""), 1, "surrogate" },
	{ TEXT("\"\\udc00\\ud800\""), 1, "surrogate" },
	{ TEXT("\"\\ud800\\udc0"), 1, "surrogate" },
	/* UTF-8. */
	{ TEXT("\"\x80\""), 1, "UTF-8" },
	{ TEXT("\"\xc3\""), 1, "UTF-8" },
	{ TEXT("\"\xc3"), 1, "UTF-8" },
	{ TEXT("\"\xc0\xaf\""), 1, "UTF-8" },
	{ TEXT("\"\xc1\xbf\""), 1, "UTF-8" },
	{ TEXT("\"\xe0\x9f\xbf\""), 1, "UTF-8" },
	{ TEXT("\"\xe2\x82\""), 1, "UTF-8" },
	{ TEXT("\"\xed\xa0\x80\""), 1, "UTF-8" },
	{ TEXT("\"\xed\xbf\xbf\""), 1, "UTF-8" },
	{ TEXT("\"\xf0\x8f\xbf\xbf\""), 1, "UTF-8" },
	{ TEXT("\"\xf0\x9f\x98\""), 1, "UTF-8" },
	{ TEXT("\"\xf4\x90\x80\x80\""), 1, "UTF-8" },
	{ TEXT("\"\xf5\x80\x80\x80\""), 1, "UTF-8" },
	{ TEXT("\"01234567\xff\""), 9, "UTF-8" },
	{ TEXT("{\"a\xc3\":1}"), 3, "UTF-8" },
	/* Duplicate keys, named as they read. */
	{ TEXT("{\"a\":1,\"a\":1}"), 7, "duplicate key \"a\"" },
	{ TEXT("{\"a\":1,\"\\u0061\":1}"), 7, "duplicate key \"a\"" },
	{ TEXT("{\"\":1,\"\":1}"), 6, "duplicate key \"\"" },
	{ TEXT("{\"b\":{\"a\":0,\"a\":0}}"), 12, "duplicate key \"a\"" },
	{ TEXT("{\"a\":{\"a\":0},\"a\":0}"), 13, "duplicate key \"a\"" },
	{ TEXT("{\"a\\u0000b\":0,\"a\\u0000b\":0}"), 14, "duplicate key \"a\\x00b\"" },
	{ TEXT("{\"a\\u001b[31m\":0,\"a\\u001b[31m\":0}"), 17, "duplicate key \"a\\x1b[31m\"" },
	{ TEXT("[{\"a\":0},{\"b\":[{}],\"b\":0}]"), 19, "duplicate key \"b\"" },
};

static void test_refused(void **state)
{
	struct rsum_json json;
	char described[512];

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(refused); i++) {
		int ret = read_all(refused[i].text, refused[i].size_bytes, DEPTH_MAX, &json,
				   described, sizeof(described));

		if (ret != RINGSUM_E_REFUSED || json.error_offset != refused[i].offset ||
		    !strstr(json.reason, refused[i].reason))
			fail_msg("row %zu, %s: %d at %zu: %s", i, refused[i].text, ret,
				 json.error_offset, json.reason);
	}
}

static void test_long_duplicate_is_cut_between_characters(void **state)
{
	struct rsum_json json;
	char text[512], described[512], name[101];

	(void)state;
	memset(name, 'x', 63);
	for (size_t i = 63; i < 99; i += 2)
		memcpy(name + i, "\xc3\xa9", 2);
	name[99] = '\0';
	snprintf(text, sizeof(text), "{\"%s\":0,\"%s\":0}", name, name);
	assert_int_equal(
		read_all(text, strlen(text), DEPTH_MAX, &json, described, sizeof(described)),
		RINGSUM_E_REFUSED);
	snprintf(described, sizeof(described), "duplicate key \"%.63s...\"", name);
	assert_string_equal(json.reason, described);
}

/* ---- strings that hold NUL ---------------------------------------------------------------- */

static void test_nul_in_a_string(void **state)
{
	static const char text[] = "{\"dtype\\u0000x\":\"F32\\u0000\"}";
	char *copy = copy_text(text, sizeof(text) - 1);
	struct rsum_json_token token;
	struct rsum_json json;

	(void)state;
	assert_int_equal(rsum_json_init(&json, copy, sizeof(text) - 1, DEPTH_MAX), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_false(rsum_json_equals(&token, "{"));
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(token.length, 7);
	assert_int_equal(token.offset, 1);
	assert_memory_equal(token.string, "dtype\0x", 8);
	assert_false(rsum_json_equals(&token, "dtype"));
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(token.length, 4);
	assert_false(rsum_json_equals(&token, "F32"));
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(token.type, RSUM_JSON_END);
	rsum_json_deinit(&json);
	free(copy);
}

/* ---- numbers as doubles ------------------------------------------------------------------- */

static double read_real(const char *text, size_t size_bytes)
{
	char *copy = copy_text(text, size_bytes);
	struct rsum_json_token token;
	struct rsum_json json;

	assert_int_equal(rsum_json_init(&json, copy, size_bytes, 1), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(token.type, RSUM_JSON_NUMBER);
	rsum_json_deinit(&json);
	free(copy);
	return token.real;
}

static const struct {
	const char *text;
	double real;
} reals[] = {
	{ "0", 0 },
	{ "7", 7 },
	{ "-7", -7 },
	{ "1e-6", 1e-6 },
	{ "1e-20", 1e-20 },
	{ "10.0", 10 },
	{ "1.5", 1.5 },
	{ "-0.0001e4", -1 },
	{ "0.1", 0.1 },
	{ "123456.789e3", 123456789 },
	{ "9007199254740993", 9007199254740992.0 },
	{ "9007199254740993.0", 9007199254740992.0 },
	{ "9007199254740993.00000000000000000001", 9007199254740994.0 },
	{ "18446744073709551615", 18446744073709551616.0 },
	{ "1.7976931348623157e308", 1.7976931348623157e308 },
	{ "1.8e308", INFINITY },
	{ "-1e309", -INFINITY },
	{ "4.9406564584124654e-324", 4.9406564584124654e-324 },
	{ "1e-400", 0 },
	{ "0e99999999999999999999", 0 },
	{ "1e99999999999999999999", INFINITY },
	{ "1e-99999999999999999999", 0 },
	{ "100000000000000000000000e-23", 1 },
};

static void check_reals(void)
{
	for (size_t i = 0; i < RSUM_COUNT_OF(reals); i++) {
		double real = read_real(reals[i].text, strlen(reals[i].text));

		if (real < reals[i].real || real > reals[i].real)
			fail_msg("%s read as %.17g", reals[i].text, real);
	}
	assert_true(signbit(read_real("-0", 2)) && signbit(read_real("-0.0", 4)));
	assert_false(signbit(read_real("0.0", 3)));
}

static void test_reals(void **state)
{
	(void)state;
	check_reals();
}

static void test_reals_under_a_locale_with_a_comma(void **state)
{
	static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE" };
	bool is_set = false;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(names) && !is_set; i++)
		is_set = setlocale(LC_NUMERIC, names[i]) != NULL;
	if (!is_set) {
		print_message("skipped: no locale with a decimal comma is installed\n");
		skip();
	}
	check_reals();
	setlocale(LC_NUMERIC, "C");
}

/* Digits far beyond what a double holds still decide, and do not overflow any buffer. */
static void test_reals_with_many_digits(void **state)
{
	char text[4200];
	size_t used;

	(void)state;
	used = (size_t)snprintf(text, sizeof(text), "9007199254740993.%02000d", 0);
	assert_int_equal((uint64_t)read_real(text, used), UINT64_C(9007199254740992));
	text[used - 1] = '1';
	assert_int_equal((uint64_t)read_real(text, used), UINT64_C(9007199254740994));
	used = (size_t)snprintf(text, sizeof(text), "1%03000de-3000", 0);
	assert_true(fabs(read_real(text, used) - 1) < 1e-300);
	used = (size_t)snprintf(text, sizeof(text), "0.%03000d1e3001", 0);
	assert_true(fabs(read_real(text, used) - 1) < 1e-300);
	used = (size_t)snprintf(text, sizeof(text), "1e%03000d2", 0);
	assert_true(fabs(read_real(text, used) - 100) < 1e-300);
}

/* ---- limits ------------------------------------------------------------------------------- */

static void test_depth(void **state)
{
	struct rsum_json json;
	char text[64], described[256];

	(void)state;
	for (unsigned depth = 1; depth < 20; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		for (unsigned limit = 0; limit < 20; limit++)
			assert_int_equal(read_all(text, 2 * depth, limit, &json, described,
						  sizeof(described)),
					 depth <= limit ? 0 : RINGSUM_E_LIMIT);
	}
	assert_int_equal(read_all("[[{\"a\":[0]}]]", 13, 3, &json, described, sizeof(described)),
			 RINGSUM_E_LIMIT);
	assert_int_equal(json.error_offset, 7);
	assert_non_null(strstr(json.reason, "3"));
	assert_int_equal(read_all("0", 1, 0, &json, described, sizeof(described)), 0);
}

/* ---- the rest of the interface ------------------------------------------------------------ */

static void test_skip(void **state)
{
	static const char text[] = "{\"a\":[1.5,{\"b\":[]},\"x\"],\"c\":2,\"d\":{}}";
	char *copy = copy_text(text, sizeof(text) - 1);
	struct rsum_json_token token;
	struct rsum_json json;

	(void)state;
	assert_int_equal(rsum_json_init(&json, copy, sizeof(text) - 1, DEPTH_MAX), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0); /* { */
	assert_int_equal(rsum_json_next(&json, &token), 0); /* a */
	assert_int_equal(rsum_json_next(&json, &token), 0); /* [ */
	assert_int_equal(rsum_json_skip(&json, &token), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_true(rsum_json_equals(&token, "c"));
	assert_int_equal(rsum_json_next(&json, &token), 0); /* 2 */
	assert_int_equal(rsum_json_skip(&json, &token), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_true(rsum_json_equals(&token, "d"));
	assert_int_equal(rsum_json_next(&json, &token), 0); /* { */
	assert_int_equal(rsum_json_skip(&json, &token), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(token.type, RSUM_JSON_OBJECT_END);
	rsum_json_deinit(&json);
	free(copy);
}

static void test_skip_checks_what_it_skips(void **state)
{
	static const char *const texts[] = { "[[1,]]", "[[{\"a\":0,\"a\":0}]]", "[[\"\\ud800\"]]",
					     "[[01]]", "[[[[[[[[[0]]]]]]]]]",	"[[" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(texts); i++) {
		size_t size = strlen(texts[i]);
		char *copy = copy_text(texts[i], size);
		struct rsum_json_token token;
		struct rsum_json json;
		int ret;

		assert_int_equal(rsum_json_init(&json, copy, size, DEPTH_MAX), 0);
		assert_int_equal(rsum_json_next(&json, &token), 0);
		ret = rsum_json_skip(&json, &token);
		assert_true(ret == RINGSUM_E_REFUSED || ret == RINGSUM_E_LIMIT);
		assert_int_equal(rsum_json_next(&json, &token), ret);
		rsum_json_deinit(&json);
		free(copy);
	}
}

static void test_refusal_of_the_consumer(void **state)
{
	char text[] = "[1,2]";
	struct rsum_json_token token;
	struct rsum_json json;

	(void)state;
	assert_int_equal(rsum_json_init(&json, text, 5, DEPTH_MAX), 0);
	assert_int_equal(rsum_json_next(&json, &token), 0);
	assert_int_equal(rsum_json_refuse(&json, token.offset, "%s, not %s", "an object",
					  rsum_json_type_text(token.type)),
			 RINGSUM_E_REFUSED);
	assert_string_equal(json.reason, "an object, not an array");
	assert_int_equal(json.error_offset, 0);
	assert_int_equal(rsum_json_next(&json, &token), RINGSUM_E_REFUSED);
	rsum_json_deinit(&json);
}

static void test_every_type_has_a_text(void **state)
{
	(void)state;
	for (int type = RSUM_JSON_OBJECT_BEGIN; type <= RSUM_JSON_END; type++)
		assert_true(strlen(rsum_json_type_text((enum rsum_json_type)type)) > 0);
	assert_string_equal(rsum_json_type_text(RSUM_JSON_STRING), "a string");
}

static void test_utf8(void **state)
{
	(void)state;
	assert_true(rsum_utf8_is_valid("", 0));
	assert_true(rsum_utf8_is_valid("plain text, and \0 too", 22));
	assert_true(rsum_utf8_is_valid("12345678\xc3\xa9\xf0\x9f\x98\x80", 14));
	for (size_t length = 9; length < 14; length++)
		assert_int_equal(rsum_utf8_is_valid("12345678\xc3\xa9\xf0\x9f\x98\x80", length),
				 length == 10);
	assert_false(rsum_utf8_is_valid("\xed\xa0\x80", 3));
	assert_false(rsum_utf8_is_valid("1234567\xff", 8));
	assert_false(rsum_utf8_is_valid("\xc0\x80", 2));
	assert_false(rsum_utf8_is_valid("\xf4\x90\x80\x80", 4));
}

/* ---- mutation ----------------------------------------------------------------------------- */

#define MUTATION_SEED UINT64_C(0x5eed0001)
#define MUTATION_COUNT 30000

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Whatever is read ends in one of three ways, and what is accepted is accepted as well again. */
static void test_mutations(void **state)
{
	static const char alphabet[] = "{}[]\",:\\u0123d8eE+-. tfn\x80\xc3\xa9\xff";
	uint64_t seed = MUTATION_SEED;
	char text[128], described[2048];
	struct rsum_json json;

	(void)state;
	for (size_t i = 0; i < MUTATION_COUNT; i++) {
		const char *valid = accepted[i % RSUM_COUNT_OF(accepted)].text;
		size_t size = strlen(valid);
		int ret;

		memcpy(text, valid, size);
		for (uint64_t k = random_next(&seed) % 4 + 1; k; k--)
			text[random_next(&seed) % size] =
				alphabet[random_next(&seed) % (sizeof(alphabet) - 1)];
		ret = read_all(text, size, DEPTH_MAX, &json, described, sizeof(described));
		if (ret && ret != RINGSUM_E_REFUSED && ret != RINGSUM_E_LIMIT)
			fail_msg("seed %llx, text %zu: %d", (unsigned long long)MUTATION_SEED, i,
				 ret);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_long_duplicate_is_cut_between_characters),
		cmocka_unit_test(test_nul_in_a_string),
		cmocka_unit_test(test_reals),
		cmocka_unit_test(test_reals_under_a_locale_with_a_comma),
		cmocka_unit_test(test_reals_with_many_digits),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_skip_checks_what_it_skips),
		cmocka_unit_test(test_refusal_of_the_consumer),
		cmocka_unit_test(test_every_type_has_a_text),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
