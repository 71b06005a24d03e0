/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a header takes of memory while it is read: at most three times its size, whatever it is
 * and however large. Every allocation is counted, and where one grows both the old and the new.
 * Sizes go up in small steps, so that tables are met just before and just after they grow.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ringsum.h"
#include "safetensors.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#define SIZE_MIN ((size_t)128 << 10)
#define SIZE_MAX_TRIED ((size_t)(IS_SANITIZED ? 256 : 2048) << 10)
#define FAILING_BYTES ((size_t)40 << 10)
#define SLACK_BYTES ((size_t)256 << 10) /* for what does not grow with the header */

/* ---- every allocation --------------------------------------------------------------------- */

static size_t held_bytes, peak_bytes;
static unsigned fails_at, asked_count; /* the nth allocation from now on fails; 0: none */

static bool fails(void)
{
	return fails_at && ++asked_count == fails_at;
}

static void count(size_t added_bytes, size_t taken_bytes)
{
	held_bytes += added_bytes;
	if (held_bytes > peak_bytes)
		peak_bytes = held_bytes;
	held_bytes -= taken_bytes;
}

#define WRAPPED(type, name, parameters) \
	type __real_##name parameters;  \
	type __wrap_##name parameters;  \
	type __wrap_##name parameters

WRAPPED(void *, malloc, (size_t size))
{
	void *memory = fails() ? NULL : __real_malloc(size);

	count(malloc_usable_size(memory), 0);
	return memory;
}

WRAPPED(void *, calloc, (size_t number, size_t size))
{
	void *memory = fails() ? NULL : __real_calloc(number, size);

	count(malloc_usable_size(memory), 0);
	return memory;
}

WRAPPED(void *, realloc, (void *old, size_t size))
{
	size_t old_bytes = malloc_usable_size(old);
	void *memory = fails() ? NULL : __real_realloc(old, size);

	count(malloc_usable_size(memory), memory ? old_bytes : 0);
	return memory;
}

WRAPPED(void, free, (void *memory))
{
	count(0, malloc_usable_size(memory));
	__real_free(memory);
}

/* ---- headers ------------------------------------------------------------------------------ */

#define TENSOR(shape, offsets) \
	"\"#\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets "},"
#define EIGHT(text) text text text text text text text text
#define RANK_64 "[" EIGHT("0,0,0,0,") EIGHT("0,0,0,") "0,0,0,0,0,0,0,0]"

/* A beginning, one or two kinds of units with half of the size each, and an end. */
struct kind {
	const char *name;
	const char *begin;
	const char *unit;   /* # is a name of three characters, @ a number that counts down */
	const char *middle; /* NULL: nothing but the first unit */
	const char *unit_after;
	const char *end;
	const char *refusal; /* part of the message; NULL: accepted */
};

/* Smaller headers may not reach the limit that refuses a kind. */
#define LIMIT_FROM_BYTES ((size_t)1 << 20)

#define LAST_TENSOR "\"last\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"
#define UNKNOWN "{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":"

static const struct kind kinds[] = {
	{ "scalars", "{", TENSOR("[]", "[0,1]"), NULL, NULL, LAST_TENSOR, "overlap" },
	{ "empty tensors", "{", TENSOR("[0]", "[0,0]"), NULL, NULL, LAST_TENSOR, NULL },
	{ "tensors of rank 4", "{", TENSOR("[0,1,2,3]", "[0,0]"), NULL, NULL, LAST_TENSOR, NULL },
	{ "tensors of rank 7", "{", TENSOR("[0,1,2,3,4,5,6]", "[0,0]"), NULL, NULL, LAST_TENSOR,
	  NULL },
	{ "tensors of rank 9", "{", TENSOR("[0,1,2,3,4,5,6,7,8]", "[0,0]"), NULL, NULL, LAST_TENSOR,
	  "limit" },
	{ "tensors of rank 64", "{", TENSOR(RANK_64, "[0,0]"), NULL, NULL, LAST_TENSOR, "limit" },
	{ "tensors to sort", "{", TENSOR("[0]", "[@,@]"), NULL, NULL, LAST_TENSOR, "hole" },
	{ "metadata", "{\"__metadata__\":{", "\"#\":\"\",", NULL, NULL, "\"last\":\"\"}}",
	  "limit" },
	{ "half metadata", "{\"__metadata__\":{", "\"#\":\"123456789\",", "\"last\":\"\"},",
	  TENSOR("[0,1]", "[0,0]"), LAST_TENSOR, NULL },
	{ "keys", UNKNOWN "{", "\"#\":0,", NULL, NULL, "\"last\":0}}}", NULL },
	{ "half keys", UNKNOWN "{", "\"#\":0,", "\"last\":0}},", TENSOR("[0]", "[0,0]"),
	  LAST_TENSOR, NULL },
	{ "keys beside keys", "{\"t\":{", "\"#\":0,", "\"x\":{", "\"#\":1,", "\"last\":0}}}",
	  "no dtype" },
	{ "objects", UNKNOWN "[", "{\"#\":0},", NULL, NULL, "0]}}", NULL },
	{ "objects of nine keys", UNKNOWN "[",
	  "{\"#\":0,\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8},", NULL, NULL,
	  "0]}}", NULL },
	{ "lists", UNKNOWN "[", "[],", NULL, NULL, "0]}}", NULL },
	{ "escapes", UNKNOWN "\"", "\\u00e9", NULL, NULL, "\"}}", NULL },
	{ "one key again", UNKNOWN "{", "\"#\":0,", NULL, NULL, "\"last\":0,\"last\":0}}}",
	  "duplicate key" },
};

/* Writes a unit; with the buffer NULL only its length is told. */
static size_t write_unit(char *to, const char *unit, size_t number, size_t below)
{
	static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&()*+-./:;<=>?@[]^_`{|}~";
	size_t used = 0, base = sizeof(letters) - 1, rest = number;
	char digits[8];

	for (; *unit; unit++) {
		if (*unit == '#') {
			for (unsigned i = 0; i < 3; i++, rest /= base)
				digits[i] = letters[rest % base];
			used += 3;
			if (to)
				memcpy(to + used - 3, digits, 3);
		} else if (*unit == '@') {
			snprintf(digits, sizeof(digits), "%07zu", 1000000 + below - number);
			used += 7;
			if (to)
				memcpy(to + used - 7, digits, 7);
		} else {
			if (to)
				to[used] = *unit;
			used++;
		}
	}
	return used;
}

static size_t append(char *text, size_t used, const char *unit, size_t units)
{
	for (size_t i = 0; i < units; i++)
		used += write_unit(text + used, unit, i, units);
	return used;
}

static char *make_header(const struct kind *kind, size_t size_bytes, size_t *size_out)
{
	size_t part = kind->middle ? size_bytes / 2 : size_bytes;
	char *text = malloc(size_bytes + 512);
	size_t used;

	assert_non_null(text);
	used = append(text, 0, kind->begin, 1);
	used = append(text, used, kind->unit, part / write_unit(NULL, kind->unit, 0, 0));
	if (kind->middle) {
		used = append(text, used, kind->middle, 1);
		used = append(text, used, kind->unit_after,
			      part / write_unit(NULL, kind->unit_after, 0, 0));
	}
	used = append(text, used, kind->end, 1);
	*size_out = used;
	return text;
}

static bool is_as_expected(const struct kind *kind, size_t size, int result,
			   const struct rsum_refusal *refusal)
{
	if (!kind->refusal)
		return result == 0;
	if (result == 0)
		return strcmp(kind->refusal, "limit") == 0 && size < LIMIT_FROM_BYTES;
	return result == RINGSUM_E_REFUSED && strstr(refusal->message, kind->refusal);
}

static double check_header(const struct kind *kind, size_t size_bytes)
{
	struct rsum_safetensors header = { 0 };
	struct rsum_refusal refusal;
	size_t before = held_bytes, size, took;
	int result;
	char *text;

	peak_bytes = before;
	text = make_header(kind, size_bytes, &size);
	result = rsum_safetensors_parse(text, size, 8 + size, &header, &refusal);
	rsum_safetensors_deinit(&header);
	assert_true(held_bytes == before);
	took = peak_bytes - before;
	if (!is_as_expected(kind, size, result, &refusal))
		fail_msg("%s, %zu bytes: result %d: %s", kind->name, size, result,
			 result ? refusal.message : "");
	if (took > 3 * size + SLACK_BYTES)
		fail_msg("%s, %zu bytes: %zu bytes of memory, %.2f times", kind->name, size, took,
			 (double)took / (double)size);
	return (double)took / (double)size;
}

static void test_three_times_at_every_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++) {
		double most = 0, last = 0;

		for (size_t size = SIZE_MIN; size <= SIZE_MAX_TRIED; size += size / 8) {
			last = check_header(&kinds[i], size);
			most = RSUM_MAX(most, last);
		}
		print_message("# %s: at most %.2f times, %.2f at the largest\n", kinds[i].name,
			      most, last);
	}
}

/* Want of memory at any place is told from a refusal, and nothing is left behind. */
static void test_every_allocation_fails(void **state)
{
	unsigned failed_count = 0;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++) {
		int result = RINGSUM_E_NOMEM;

		for (unsigned nth = 1; result == RINGSUM_E_NOMEM; nth++) {
			struct rsum_safetensors header = { 0 };
			struct rsum_refusal refusal;
			size_t before = held_bytes, size;
			char *text = make_header(&kinds[i], FAILING_BYTES, &size);

			fails_at = nth;
			asked_count = 0;
			result = rsum_safetensors_parse(text, size, 8 + size, &header, &refusal);
			fails_at = 0;
			if (result == RINGSUM_E_NOMEM && header.tensor_count)
				fail_msg("%s: tensors after want of memory", kinds[i].name);
			rsum_safetensors_deinit(&header);
			assert_true(held_bytes == before);
			if ((result == RINGSUM_E_NOMEM) != (asked_count >= nth))
				fail_msg("%s: allocation %u failed, and the result was %d",
					 kinds[i].name, nth, result);
			failed_count++;
		}
	}
	print_message("# %u allocations failed\n", failed_count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_times_at_every_size),
		cmocka_unit_test(test_every_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
