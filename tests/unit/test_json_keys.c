/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Duplicate keys, where objects are large enough to be hashed, nest, and come one after another;
 * against a model that compares every key with every other of its object. And the limit on keys.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"
#include "ringsum.h"

#define DEPTH_MAX 16

static int read_all(char *text, size_t size_bytes, char reason[128])
{
	struct rsum_json_token token = { .type = RSUM_JSON_NULL };
	struct rsum_json json;
	int ret;

	assert_int_equal(rsum_json_init(&json, text, size_bytes, DEPTH_MAX), 0);
	do
		ret = rsum_json_next(&json, &token);
	while (!ret && token.type != RSUM_JSON_END);
	memcpy(reason, json.reason, 128);
	rsum_json_deinit(&json);
	return ret;
}

/* ---- one object --------------------------------------------------------------------------- */

/* {"k0":0,"k1":0,...}, where the key at `last` is that at `first` again, if `last` is not 0. */
static size_t write_object(char *text, unsigned count, unsigned first, unsigned last)
{
	size_t used = 0;

	for (unsigned i = 0; i < count; i++)
		used += (size_t)sprintf(text + used, "%s\"k%u\":0", i ? "," : "{",
					last && i == last ? first : i);
	text[used++] = '}';
	return used;
}

/* Every pair of equal keys, in objects just below, at and above the sizes where things change. */
static void test_every_pair_in_one_object(void **state)
{
	static const unsigned counts[] = { 2, 7, 8, 9, 10, 20 };
	char text[4096], reason[128];

	(void)state;
	for (size_t c = 0; c < RSUM_COUNT_OF(counts); c++) {
		assert_int_equal(read_all(text, write_object(text, counts[c], 0, 0), reason), 0);
		for (unsigned last = 1; last < counts[c]; last++) {
			for (unsigned first = 0; first < last; first++) {
				size_t size = write_object(text, counts[c], first, last);

				assert_int_equal(read_all(text, size, reason), RINGSUM_E_REFUSED);
				assert_non_null(strstr(reason, "duplicate key"));
			}
		}
	}
}

/* Across every growth of the table: the first and the last key are still known at the end. */
static void test_many_keys_in_one_object(void **state)
{
	enum { COUNT = 20000 };
	char *text = malloc(COUNT * 12 + 2);
	char reason[128];

	(void)state;
	assert_non_null(text);
	assert_int_equal(read_all(text, write_object(text, COUNT, 0, 0), reason), 0);
	for (unsigned i = 0; i < 5; i++) {
		size_t size = write_object(text, COUNT, i * (COUNT - 2) / 4, COUNT - 1);

		assert_int_equal(read_all(text, size, reason), RINGSUM_E_REFUSED);
	}
	free(text);
}

/* ---- random documents against the model --------------------------------------------------- */

#define DOCUMENT_SEED UINT64_C(0x5eed0002)
#define DOCUMENT_COUNT 4000
#define KEYS_PER_OBJECT_MAX 40

struct writer {
	char text[1 << 16];
	size_t used;
	uint64_t seed;
	bool has_duplicate;
};

static unsigned random_below(struct writer *writer, unsigned bound)
{
	writer->seed ^= writer->seed << 13;
	writer->seed ^= writer->seed >> 7;
	writer->seed ^= writer->seed << 17;
	return (unsigned)(writer->seed >> 32) % bound;
}

/* A key is spelled plainly or with an escape. */
static void write_key(struct writer *writer, unsigned key)
{
	const char *letter = random_below(writer, 4) ? "k" : "\\u006b";

	writer->used += (size_t)sprintf(writer->text + writer->used, "\"%sey%u\":", letter, key);
}

static void write_value(struct writer *writer, unsigned depth)
{
	unsigned keys[KEYS_PER_OBJECT_MAX];
	unsigned count = random_below(writer, depth < 2 ? KEYS_PER_OBJECT_MAX : 12);

	if (depth > 4 || writer->used > sizeof(writer->text) / 2 ||
	    (depth && random_below(writer, 3))) {
		writer->text[writer->used++] = '0';
		return;
	}
	writer->text[writer->used++] = '{';
	for (unsigned i = 0; i < count; i++) {
		if (i)
			writer->text[writer->used++] = ',';
		/* Nearly always a key of its own; all objects draw from the same keys. */
		keys[i] = random_below(writer, 400) ? i : random_below(writer, count);
		for (unsigned k = 0; k < i; k++)
			writer->has_duplicate |= keys[k] == keys[i];
		write_key(writer, keys[i]);
		write_value(writer, depth + 1);
	}
	writer->text[writer->used++] = '}';
}

static void test_random_documents(void **state)
{
	struct writer *writer = malloc(sizeof(*writer));
	unsigned duplicate_count = 0;
	char reason[128];

	(void)state;
	assert_non_null(writer);
	writer->seed = DOCUMENT_SEED;
	for (unsigned i = 0; i < DOCUMENT_COUNT; i++) {
		int expected;
		int ret;

		writer->used = 0;
		writer->has_duplicate = false;
		write_value(writer, 0);
		expected = writer->has_duplicate ? RINGSUM_E_REFUSED : 0;
		duplicate_count += writer->has_duplicate;
		ret = read_all(writer->text, writer->used, reason);
		if (ret != expected)
			fail_msg("seed %llx, document %u: %d instead of %d: %s",
				 (unsigned long long)DOCUMENT_SEED, i, ret, expected, reason);
	}
	assert_true(duplicate_count > DOCUMENT_COUNT / 20);
	assert_true(duplicate_count < DOCUMENT_COUNT / 20 * 19);
	free(writer);
}

/* ---- the limit ---------------------------------------------------------------------------- */

#define KEY_BYTES 9 /* "aaaa":0, */

/* An object with `count` keys of four letters, all different. */
static size_t write_short_keys(char *text, size_t count)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		memcpy(text + used, ",\"aaaa\":0", KEY_BYTES);
		for (size_t k = 0, rest = i; k < 4; k++, rest /= 64)
			text[used + 2 + k] = (char)('#' + rest % 64 + (rest % 64 > 56));
		used += KEY_BYTES;
	}
	text[0] = '{';
	text[used++] = '}';
	return used;
}

/* Keys count while their object is open: as many as the limit pass, the next one does not. */
static void test_limit_on_keys(void **state)
{
	char *text = malloc((RSUM_LIMIT_JSON_KEYS + 1) * (size_t)KEY_BYTES + 1);
	struct rsum_json_token token;
	struct rsum_json json;
	size_t size_bytes;
	int ret;

	(void)state;
	assert_non_null(text);
	size_bytes = write_short_keys(text, RSUM_LIMIT_JSON_KEYS + 1);
	assert_int_equal(rsum_json_init(&json, text, size_bytes, 1), 0);
	do
		ret = rsum_json_next(&json, &token);
	while (!ret);
	assert_int_equal(ret, RINGSUM_E_LIMIT);
	assert_int_equal(json.error_offset, RSUM_LIMIT_JSON_KEYS * (size_t)KEY_BYTES + 1);
	assert_non_null(strstr(json.reason, "5000000"));
	rsum_json_deinit(&json);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_pair_in_one_object),
		cmocka_unit_test(test_many_keys_in_one_object),
		cmocka_unit_test(test_random_documents),
		cmocka_unit_test(test_limit_on_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
