/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of safetensors files: the table of cases, the resulting table of tensors, limits, order,
 * and that nothing hostile gets out of hand. Every buffer is of exactly its size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dtype.h"
#include "rsum_limits.h"
#include "safetensors.h"
#include "safetensors_cases.h"

#define LENGTH_BYTES 8

static char *copy_bytes(const char *bytes, size_t size_bytes)
{
	char *copy = malloc(RSUM_MAX(size_bytes, 1));

	assert_non_null(copy);
	memcpy(copy, bytes, size_bytes);
	return copy;
}

/* What every table must keep, whatever the header said. */
static void check_table(const struct rsum_safetensors *header)
{
	uint64_t begin = header->data_begin;

	assert_true(header->data_begin == LENGTH_BYTES + header->header_bytes);
	for (size_t i = 0; i < header->tensor_count; i++) {
		const struct rsum_safetensors_tensor *tensor = &header->tensors[i];
		const uint64_t *shape = rsum_safetensors_shape(header, tensor);
		uint64_t size_bytes;

		assert_true(tensor->begin == begin && tensor->end >= begin);
		begin = tensor->end;
		assert_true(tensor->rank <= RSUM_LIMIT_RANK);
		assert_true(tensor->rank <= header->dimension_count);
		assert_int_equal(rsum_shape_bytes((enum ringsum_dtype)tensor->dtype, shape,
						  tensor->rank, &size_bytes),
				 RSUM_SHAPE_OK);
		assert_true(size_bytes == tensor->end - tensor->begin);
		assert_ptr_equal(rsum_safetensors_find(header, tensor->name), tensor);
	}
	assert_true(header->data_end == begin);
}

/* Probe, then parse. `head_bytes` of the file are at `head`; `text` becomes the header's. */
static int read_file(const char *file, size_t held_bytes, uint64_t file_bytes, uint64_t limit_bytes,
		     struct rsum_safetensors *header, struct rsum_refusal *refusal)
{
	size_t head_bytes = RSUM_MIN(held_bytes, RSUM_SAFETENSORS_PROBE_BYTES);
	char *head = copy_bytes(file, head_bytes);
	uint64_t header_bytes = UINT64_MAX;
	char *text;
	int ret;

	*header = (struct rsum_safetensors){ 0 };
	ret = rsum_safetensors_probe((const uint8_t *)head, head_bytes, file_bytes, limit_bytes,
				     &header_bytes, refusal);
	free(head);
	if (ret) {
		assert_true(header_bytes == UINT64_MAX);
		return ret;
	}
	assert_true(header_bytes <= held_bytes - LENGTH_BYTES);
	text = copy_bytes(file + LENGTH_BYTES, (size_t)header_bytes);
	ret = rsum_safetensors_parse(text, header_bytes, file_bytes, header, refusal);
	if (ret && refusal->code == RINGSUM_FINDING_HEADER_INVALID)
		assert_int_equal(header->tensor_count + header->metadata_count, 0);
	else
		check_table(header);
	return ret;
}

static int read_header(const char *text, size_t header_bytes, uint64_t data_bytes,
		       struct rsum_safetensors *header, struct rsum_refusal *refusal)
{
	char *file = malloc(LENGTH_BYTES + header_bytes);
	int ret;

	assert_non_null(file);
	for (size_t i = 0; i < LENGTH_BYTES; i++)
		file[i] = (char)((uint64_t)header_bytes >> (8 * i));
	memcpy(file + LENGTH_BYTES, text, header_bytes);
	ret = read_file(file, LENGTH_BYTES + header_bytes, LENGTH_BYTES + header_bytes + data_bytes,
			RSUM_LIMIT_HEADER_BYTES, header, refusal);
	free(file);
	return ret;
}

static void check_verdict(const char *name, int ret, enum ringsum_finding_code code,
			  const char *message, const struct rsum_refusal *refusal)
{
	if (code == ACCEPTED) {
		if (ret)
			fail_msg("%s: refused: %s", name, refusal->message);
		return;
	}
	if (ret != RINGSUM_E_REFUSED || refusal->code != code || !strstr(refusal->message, message))
		fail_msg("%s: %d, code %d: %s", name, ret, refusal->code, refusal->message);
	for (const char *at = refusal->message; *at; at++)
		assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void test_header_cases(void **state)
{
	struct rsum_safetensors header;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(header_cases); i++) {
		const struct header_case *row = &header_cases[i];
		struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
		int ret = read_header(row->header, row->header_bytes, row->data_bytes, &header,
				      &refusal);

		check_verdict(row->name, ret, row->code, row->message, &refusal);
		rsum_safetensors_deinit(&header);
	}
}

/* The text alone decides as well: not everybody looks at the file's head before. */
static void test_header_cases_without_a_probe(void **state)
{
	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(header_cases); i++) {
		const struct header_case *row = &header_cases[i];
		struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
		struct rsum_safetensors header;
		char *text = copy_bytes(row->header, row->header_bytes);
		int ret = rsum_safetensors_parse(text, row->header_bytes,
						 LENGTH_BYTES + row->header_bytes + row->data_bytes,
						 &header, &refusal);

		check_verdict(row->name, ret, row->code, "", &refusal);
		rsum_safetensors_deinit(&header);
	}
}

static void test_file_cases(void **state)
{
	struct rsum_safetensors header;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(file_cases); i++) {
		const struct file_case *row = &file_cases[i];
		struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
		int ret = read_file(row->file, row->file_bytes, row->file_bytes,
				    RSUM_LIMIT_HEADER_BYTES, &header, &refusal);

		check_verdict(row->name, ret, row->code, row->message, &refusal);
		rsum_safetensors_deinit(&header);
	}
}

/* ---- what the table holds ----------------------------------------------------------------- */

static const char example[] =
	"{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
	"\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\":\"\"},"
	"\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
	"\"c\\\"\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[16,16]}}";
#define EXAMPLE_BYTES (sizeof(example) - 1)

static void test_table(void **state)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal;
	const struct rsum_safetensors_tensor *b;

	(void)state;
	assert_int_equal(read_header(example, EXAMPLE_BYTES, 16, &header, &refusal), 0);
	assert_int_equal(header.header_bytes, EXAMPLE_BYTES);
	assert_int_equal(header.data_end, LENGTH_BYTES + EXAMPLE_BYTES + 16);
	assert_int_equal(header.tensor_count, 3);
	assert_string_equal(header.tensors[0].name, "a");
	assert_string_equal(header.tensors[1].name, "b");
	assert_string_equal(header.tensors[2].name, "c\"");
	b = rsum_safetensors_find(&header, "b");
	assert_ptr_equal(b, &header.tensors[1]);
	assert_int_equal(b->dtype, RINGSUM_DTYPE_BF16);
	assert_int_equal(b->rank, 2);
	assert_int_equal(rsum_safetensors_shape(&header, b)[0], 2);
	assert_int_equal(rsum_safetensors_shape(&header, b)[1], 3);
	assert_int_equal(b->begin, LENGTH_BYTES + EXAMPLE_BYTES + 4);
	assert_int_equal(header.tensors[0].rank, 0);
	assert_null(rsum_safetensors_find(&header, "c"));
	assert_null(rsum_safetensors_find(&header, "__metadata__"));
	assert_int_equal(header.metadata_count, 2);
	assert_string_equal(rsum_safetensors_key(&header, 0), "format");
	assert_string_equal(rsum_safetensors_value(&header, 0), "pt");
	assert_string_equal(rsum_safetensors_key(&header, 1), "\xc3\xa9");
	assert_string_equal(rsum_safetensors_value(&header, 1), "");
	rsum_safetensors_deinit(&header);
	assert_null(rsum_safetensors_find(&header, "b"));
	rsum_safetensors_deinit(&header);
}

/* A file of the wrong size leaves the table for use, with the numbers in the refusal. */
static void test_wrong_size_keeps_the_table(void **state)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal;
	char expected[64];

	(void)state;
	snprintf(expected, sizeof(expected), "%zu bytes", LENGTH_BYTES + EXAMPLE_BYTES + 16);
	for (uint64_t data_bytes = 0; data_bytes < 40; data_bytes++) {
		int ret = read_header(example, EXAMPLE_BYTES, data_bytes, &header, &refusal);

		assert_int_equal(header.tensor_count, 3);
		assert_int_equal(header.metadata_count, 2);
		assert_non_null(rsum_safetensors_find(&header, "b"));
		rsum_safetensors_deinit(&header);
		assert_int_equal(ret, data_bytes == 16 ? 0 : RINGSUM_E_REFUSED);
		if (!ret)
			continue;
		assert_int_equal(refusal.code, data_bytes < 16 ? TRUNCATED : TRAILING);
		assert_string_equal(refusal.expected, expected);
		assert_string_not_equal(refusal.actual, expected);
	}
}

static void test_every_truncation_is_refused(void **state)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal;

	(void)state;
	for (size_t length = 0; length < EXAMPLE_BYTES; length++) {
		assert_int_equal(read_header(example, length, 16, &header, &refusal),
				 RINGSUM_E_REFUSED);
		assert_int_equal(refusal.code, INVALID);
		rsum_safetensors_deinit(&header);
	}
}

/* ---- order -------------------------------------------------------------------------------- */

#define ORDER_SEED UINT64_C(0x5eed0003)
#define ORDER_COUNT 50000 /* several blocks of the sort, and a part of one */

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Tensor i has i % 5 bytes, so that every fifth is empty; written in the order of `order`. */
static size_t write_ordered(char *text, const unsigned *order, unsigned count)
{
	size_t used = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned t = order[i];
		unsigned begin = t / 5 * 10 + t % 5 * (t % 5 - (t % 5 ? 1 : 0)) / 2;

		used += (size_t)sprintf(text + used,
					"%c\"t%u\":{\"dtype\":\"U8\",\"shape\":[%u],"
					"\"data_offsets\":[%u,%u]}",
					i ? ',' : '{', t, t % 5, begin, begin + t % 5);
	}
	text[used++] = '}';
	return used;
}

static void test_any_order_of_tensors(void **state)
{
	static const unsigned counts[] = { 1, 2, 3, 5, 8, 63, 64, 65, 16384, 16385, ORDER_COUNT };
	unsigned *order = malloc(ORDER_COUNT * sizeof(*order));
	char *text = malloc(ORDER_COUNT * 80);
	uint64_t seed = ORDER_SEED;

	(void)state;
	assert_true(order && text);
	for (size_t round = 0; round < RSUM_COUNT_OF(counts) * 3; round++) {
		unsigned count = counts[round / 3];
		struct rsum_safetensors header;
		struct rsum_refusal refusal;
		uint64_t data_bytes = 0;
		size_t size;

		for (unsigned i = 0; i < count; i++) {
			order[i] = round % 3 == 1 ? count - 1 - i : i;
			data_bytes += i % 5;
		}
		for (unsigned i = count - 1; round % 3 == 2 && i; i--) {
			unsigned other = (unsigned)(random_next(&seed) % (i + 1));
			unsigned swap = order[i];

			order[i] = order[other];
			order[other] = swap;
		}
		size = write_ordered(text, order, count);
		if (read_header(text, size, data_bytes, &header, &refusal))
			fail_msg("seed %llx, round %zu: %s", (unsigned long long)ORDER_SEED, round,
				 refusal.message);
		assert_int_equal(header.tensor_count, count);
		rsum_safetensors_deinit(&header);
	}
	free(text);
	free(order);
}

/* ---- limits ------------------------------------------------------------------------------- */

static void check_limit(const char *text, size_t size_bytes, uint64_t data_bytes,
			const char *message)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal = { 0 };
	int ret = read_header(text, size_bytes, data_bytes, &header, &refusal);

	check_verdict(text, ret, message ? INVALID : ACCEPTED, message, &refusal);
	rsum_safetensors_deinit(&header);
}

static void test_limit_of_a_name(void **state)
{
	char text[RSUM_LIMIT_NAME_BYTES + 128], name[RSUM_LIMIT_NAME_BYTES + 2];
	int size;

	(void)state;
	for (size_t length = RSUM_LIMIT_NAME_BYTES; length < sizeof(name); length++) {
		memset(name, 'n', length);
		name[length] = '\0';
		size = snprintf(text, sizeof(text), "{\"%s\":" F32_4 "}", name);
		check_limit(text, (size_t)size, 16,
			    length > RSUM_LIMIT_NAME_BYTES ? "4097 bytes; the limit is 4096"
							   : NULL);
	}
}

static void test_limit_of_rank(void **state)
{
	char text[512];
	size_t used;

	(void)state;
	for (unsigned rank = RSUM_LIMIT_RANK; rank < RSUM_LIMIT_RANK + 2; rank++) {
		used = (size_t)snprintf(text, sizeof(text),
					"{\"w\":{\"dtype\":\"U8\",\"shape\":[1");
		for (unsigned i = 1; i < rank; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, ",1");
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "],\"data_offsets\":[0,1]}}");
		check_limit(text, used, 1,
			    rank > RSUM_LIMIT_RANK ? "more than 64 dimensions" : NULL);
	}
}

/* Writes `count` units between a beginning and an end; the name in each is its number. */
static size_t write_many(char *text, const char *begin, const char *unit, unsigned count,
			 const char *end, size_t padded_bytes)
{
	size_t used = (size_t)sprintf(text, "%s", begin), length = strlen(unit);

	for (unsigned i = 0; i < count; i++) {
		memcpy(text + used, unit, length);
		for (unsigned digit = 0; digit < 3; digit++)
			text[used + 1 + digit] =
				"0123456789abcdefghijklmnopqrstuv"[i >> 5 * digit & 31];
		used += length;
	}
	used += (size_t)sprintf(text + used, "%s", end);
	assert_true(used <= padded_bytes);
	memset(text + used, ' ', padded_bytes - used);
	return padded_bytes;
}

#define ONES_16 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
#define RANK_64 "[" ONES_16 ONES_16 ONES_16 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,0]"

/* Dimensions and pairs of metadata are bounded by the size of the header, to the byte. */
static void test_limits_that_grow_with_the_header(void **state)
{
	static char text[100000];
	struct {
		const char *begin, *unit, *end, *refusal;
		unsigned count;
		size_t enough_bytes;
	} cases[] = {
		{ "{", "\"###\":{\"dtype\":\"U8\",\"shape\":" RANK_64 ",\"data_offsets\":[0,0]},",
		  "\"last\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
		  "more than 25599 dimensions", 400, (400 * 64 - 16384) * 10 },
		{ "{\"__metadata__\":{", "\"###\":\"\",", "\"###\":\"\"}}", "more than 9999 pairs",
		  9999, (10000 - 4096) * 16 },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		for (unsigned lacking = 0; lacking < 2; lacking++) {
			size_t size =
				write_many(text, cases[i].begin, cases[i].unit, cases[i].count,
					   cases[i].end, cases[i].enough_bytes - lacking);

			check_limit(text, size, i == 0, lacking ? cases[i].refusal : NULL);
		}
	}
}

/*
 * No range ends beyond 2^62: reads past that would be no offsets to the system. One tensor has
 * at most 2^61 bytes, for its bits must fit 64; an F4 of 2^62 elements is as large, so several
 * tensors are needed to come so far.
 */
static void test_limit_of_an_offset(void **state)
{
	static const unsigned long long half = 1ULL << 60;
	struct rsum_safetensors header;
	struct rsum_refusal refusal;
	char text[1024];

	(void)state;
	for (unsigned count = 3; count < 6; count++) {
		size_t used = 0;

		for (unsigned i = 0; i < count; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "%c\"%u\":{\"dtype\":\"U8\",\"shape\":[%llu],"
						 "\"data_offsets\":[%llu,%llu]}",
						 i ? ',' : '{', i, half, i * half, (i + 1) * half);
		text[used++] = '}';
		assert_int_equal(read_header(text, used, 0, &header, &refusal), RINGSUM_E_REFUSED);
		assert_int_equal(refusal.code, count < 4 ? TRUNCATED : INVALID);
		if (count >= 4)
			assert_non_null(strstr(refusal.message, "tensor \"3\" ends beyond byte "
								"4611686018427387904"));
		rsum_safetensors_deinit(&header);
	}
}

/* The caller's limit is kept, but never above our own. */
static void test_limit_of_the_header(void **state)
{
	static const char file[] = "\x10\0\0\0\0\0\0\0{}              ";
	static const char huge[] = "\1\xe1\xf5\5\0\0\0\0{}";
	struct rsum_safetensors header;
	struct rsum_refusal refusal;

	(void)state;
	assert_int_equal(read_file(file, 24, 24, 16, &header, &refusal), 0);
	rsum_safetensors_deinit(&header);
	assert_int_equal(read_file(file, 24, 24, 15, &header, &refusal), RINGSUM_E_REFUSED);
	assert_int_equal(refusal.code, INVALID);
	assert_string_equal(refusal.expected, "at most 15 bytes");
	assert_string_equal(refusal.actual, "16 bytes");
	assert_int_equal(read_file(huge, 10, UINT64_MAX, UINT64_MAX, &header, &refusal),
			 RINGSUM_E_REFUSED);
	assert_int_equal(refusal.code, INVALID);
}

/* Less was read than the file is said to have: it shrank meanwhile. */
static void test_head_shorter_than_the_file(void **state)
{
	static const uint8_t head[] = { 2, 0, 0, 0 };
	struct rsum_refusal refusal;
	uint64_t header_bytes = 7;

	(void)state;
	assert_int_equal(rsum_safetensors_probe(head, 4, 1000, RSUM_LIMIT_HEADER_BYTES,
						&header_bytes, &refusal),
			 RINGSUM_E_REFUSED);
	assert_int_equal(refusal.code, TRUNCATED);
	assert_int_equal(header_bytes, 7);
}

/* Names longer than a message are cut between characters, and two of them fit. */
static void test_long_names_in_messages(void **state)
{
	char text[4096], name[1001];
	struct rsum_safetensors header;
	struct rsum_refusal refusal;
	int size;

	(void)state;
	for (size_t shift = 0; shift < 3; shift++) {
		memset(name, 'n', shift);
		for (size_t i = shift; i < 990; i += 3)
			memcpy(name + i, "\xe9\x87\x8d", 4);
		size = snprintf(text, sizeof(text), "{\"%s1\":" F32_4 ",\"%s2\":" F32_4 "}", name,
				name);
		assert_int_equal(read_header(text, (size_t)size, 16, &header, &refusal),
				 RINGSUM_E_REFUSED);
		assert_non_null(strstr(refusal.message, "...\" overlap"));
		rsum_safetensors_deinit(&header);
	}
}

/* ---- mutation ----------------------------------------------------------------------------- */

#define MUTATION_SEED UINT64_C(0x5eed0004)
#define MUTATION_COUNT 40000

/* check_table, in read_file, holds for all that is accepted. */
static void test_mutations(void **state)
{
	static const char alphabet[] = "{}[]\",:\\0123456789-eEU8F4BIx \0\x80\xff";
	uint64_t seed = MUTATION_SEED;
	char text[EXAMPLE_BYTES];
	struct rsum_safetensors header;

	(void)state;
	for (size_t i = 0; i < MUTATION_COUNT; i++) {
		struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
		int ret;

		memcpy(text, example, sizeof(text));
		for (uint64_t k = random_next(&seed) % 3 + 1; k; k--)
			text[random_next(&seed) % sizeof(text)] =
				alphabet[random_next(&seed) % (sizeof(alphabet) - 1)];
		ret = read_header(text, sizeof(text), 16, &header, &refusal);
		if (ret && (ret != RINGSUM_E_REFUSED || !refusal.message[0]))
			fail_msg("seed %llx, text %zu: %d", (unsigned long long)MUTATION_SEED, i,
				 ret);
		rsum_safetensors_deinit(&header);
	}
}

static void test_mutations_of_the_head(void **state)
{
	uint64_t seed = MUTATION_SEED;
	char file[600];
	struct rsum_safetensors header;

	(void)state;
	for (size_t i = 0; i < MUTATION_COUNT; i++) {
		const struct file_case *row = &file_cases[i % RSUM_COUNT_OF(file_cases)];
		struct rsum_refusal refusal;
		size_t size = row->file_bytes;

		memcpy(file, row->file, size);
		for (uint64_t k = random_next(&seed) % 3 + 1; size && k; k--)
			file[random_next(&seed) % size] = (char)random_next(&seed);
		size = size ? random_next(&seed) % (size + 1) : 0;
		read_file(file, size, size, RSUM_LIMIT_HEADER_BYTES, &header, &refusal);
		rsum_safetensors_deinit(&header);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header_cases),
		cmocka_unit_test(test_header_cases_without_a_probe),
		cmocka_unit_test(test_file_cases),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_wrong_size_keeps_the_table),
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_any_order_of_tensors),
		cmocka_unit_test(test_limit_of_a_name),
		cmocka_unit_test(test_limit_of_rank),
		cmocka_unit_test(test_limits_that_grow_with_the_header),
		cmocka_unit_test(test_limit_of_an_offset),
		cmocka_unit_test(test_limit_of_the_header),
		cmocka_unit_test(test_head_shorter_than_the_file),
		cmocka_unit_test(test_long_names_in_messages),
		cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_mutations_of_the_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
