/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes to a safetensors file that keep it one: numbers of the JSON are changed as numbers,
 * dtypes as dtypes, tensors are doubled and dropped, offsets are mended so that they tile again,
 * and the length before the JSON follows it, mostly.
 */
#include "fuzz.h"

#include <ctype.h>
#include <endian.h>
#include <string.h>

#include "dtype.h"

#define LENGTH_BYTES 8
#define JSON_BYTES_MAX ((size_t)64 << 10)
#define SPOTS_MAX 256

struct mutation {
	char json[JSON_BYTES_MAX + 1];
	size_t json_bytes;
	uint64_t random;
};

/* Where something stands in the JSON. */
struct spot {
	size_t begin;
	size_t end;
};

static uint64_t next_random(struct mutation *mutation)
{
	mutation->random ^= mutation->random << 13;
	mutation->random ^= mutation->random >> 7;
	mutation->random ^= mutation->random << 17;
	return mutation->random;
}

static void replace(struct mutation *mutation, struct spot spot, const char *with, size_t length)
{
	size_t rest = mutation->json_bytes - spot.end;

	if (spot.begin + length + rest > JSON_BYTES_MAX)
		return;
	memmove(mutation->json + spot.begin + length, mutation->json + spot.end, rest);
	memcpy(mutation->json + spot.begin, with, length);
	mutation->json_bytes = spot.begin + length + rest;
	mutation->json[mutation->json_bytes] = '\0';
}

/* ---- numbers ----------------------------------------------------------------------------- */

static size_t find_numbers(const struct mutation *mutation, struct spot spots[SPOTS_MAX])
{
	const char *json = mutation->json;
	size_t count = 0, i = 0;

	while (i < mutation->json_bytes && count < SPOTS_MAX) {
		size_t begin = i;

		while (i < mutation->json_bytes && isdigit((unsigned char)json[i]))
			i++;
		if (i > begin && (!begin || strchr("[, :", json[begin - 1])))
			spots[count++] = (struct spot){ begin, i };
		if (i == begin)
			i++;
	}
	return count;
}

static uint64_t number_at(const struct mutation *mutation, struct spot spot)
{
	uint64_t value = 0;

	for (size_t i = spot.begin; i < spot.end; i++)
		value = value * 10 + (uint64_t)(mutation->json[i] - '0');
	return value;
}

static uint64_t change_number(struct mutation *mutation, uint64_t value, uint64_t other)
{
	static const uint8_t powers[] = { 0, 1, 3, 7, 8, 16, 31, 32, 33, 53, 60, 61, 62, 63 };
	uint64_t random = next_random(mutation);

	switch (random % 8) {
	case 0:
		return value + 1;
	case 1:
		return value - 1;
	case 2:
		return other;
	case 3:
		return value + other;
	case 4:
		return value * (1 + (random >> 8) % 9);
	case 5:
		return value / (1 + (random >> 8) % 9);
	case 6:
		return (UINT64_C(1) << powers[(random >> 8) % sizeof(powers)]) +
		       (random >> 16) % 3 - 1;
	default:
		return (random >> 8) % 20;
	}
}

static void mutate_number(struct mutation *mutation)
{
	struct spot spots[SPOTS_MAX];
	size_t count = find_numbers(mutation, spots);
	char text[32];
	struct spot spot;
	uint64_t value;

	if (!count)
		return;
	spot = spots[next_random(mutation) % count];
	value = change_number(mutation, number_at(mutation, spot),
			      number_at(mutation, spots[next_random(mutation) % count]));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	replace(mutation, spot, text, strlen(text));
}

/* ---- members and tensors ----------------------------------------------------------------- */

/* Every place where `key` is given a value: from behind the colon to `end` beyond its begin. */
static size_t find_values(const struct mutation *mutation, const char *key, char begin, char end,
			  struct spot spots[SPOTS_MAX])
{
	const char *at = mutation->json;
	size_t count = 0;

	while (count < SPOTS_MAX && (at = strstr(at, key))) {
		const char *from, *to;

		at += strlen(key);
		from = at + strspn(at, "\": \n\t");
		if (begin == '"' && from > at && from[-1] == '"')
			from--;
		if (*from != begin)
			continue;
		to = strchr(from + 1, end);
		if (!to)
			break;
		spots[count++] = (struct spot){ (size_t)(from - mutation->json),
						(size_t)(to - mutation->json) + 1 };
	}
	return count;
}

static void mutate_dtype(struct mutation *mutation)
{
	struct spot spots[SPOTS_MAX];
	size_t count = find_values(mutation, "\"dtype", '"', '"', spots);
	uint64_t random = next_random(mutation);
	char text[32];

	if (!count)
		return;
	snprintf(text, sizeof(text), "\"%s\"",
		 ringsum_dtype_name((enum ringsum_dtype)((random >> 8) % RINGSUM_DTYPE_COUNT)));
	replace(mutation, spots[random % count], text, strlen(text));
}

/* Another shape: a dimension more or less, or some of another one. */
static void mutate_shape(struct mutation *mutation)
{
	static const char *const shapes[] = { "[]",    "[0]",	   "[1]",     "[3,5]",
					      "[2,4]", "[0,9999]", "[1,1,1]", "[8]" };
	struct spot spots[SPOTS_MAX], spot;
	size_t count = find_values(mutation, "\"shape", '[', ']', spots);
	uint64_t random = next_random(mutation);
	const char *shape = shapes[(random >> 8) % RSUM_COUNT_OF(shapes)];

	if (!count)
		return;
	spot = spots[random % count];
	if (random >> 16 & 1)
		replace(mutation, spot, shape, strlen(shape));
	else
		replace(mutation, (struct spot){ spot.begin + 1, spot.begin + 1 },
			spot.end - spot.begin > 2 ? "2," : "2", spot.end - spot.begin > 2 ? 2 : 1);
}

/* The innermost objects, which are tensors or metadata, each with its key. */
static size_t find_tensors(const struct mutation *mutation, struct spot spots[SPOTS_MAX])
{
	const char *json = mutation->json;
	size_t count = 0, open = 0, quotes;

	for (size_t i = 1; i < mutation->json_bytes && count < SPOTS_MAX; i++) {
		if (json[i] == '{')
			open = i;
		if (json[i] != '}' || !open)
			continue;
		for (quotes = 0; open > 1 && quotes < 2; open--)
			quotes += json[open - 1] == '"';
		if (quotes == 2)
			spots[count++] = (struct spot){ open, i + 1 };
		open = 0;
	}
	return count;
}

static void mutate_tensor(struct mutation *mutation)
{
	struct spot spots[SPOTS_MAX], spot;
	size_t count = find_tensors(mutation, spots);
	uint64_t random = next_random(mutation);
	struct fuzz_text text = { 0 };

	if (!count)
		return;
	spot = spots[random % count];
	if (random >> 8 & 1) { /* dropped, with a comma */
		if (mutation->json[spot.end] == ',')
			spot.end++;
		else if (spot.begin && mutation->json[spot.begin - 1] == ',')
			spot.begin--;
		replace(mutation, spot, "", 0);
		return;
	}
	/* Doubled, mostly under another name. */
	fuzz_text_add(&text, ",", 1);
	fuzz_text_add(&text, mutation->json + spot.begin, spot.end - spot.begin);
	if (random >> 9 & 3)
		text.data[2] = (char)('a' + (random >> 16) % 26);
	replace(mutation, (struct spot){ spot.end, spot.end }, text.data, text.used_bytes);
	fuzz_text_deinit(&text);
}

/* ---- mending ----------------------------------------------------------------------------- */

static unsigned dtype_bits_at(const struct mutation *mutation, struct spot spot)
{
	char name[32] = "";
	enum ringsum_dtype dtype;
	size_t length = spot.end - spot.begin - 2;

	if (length < sizeof(name))
		memcpy(name, mutation->json + spot.begin + 1, length);
	return rsum_dtype_from_name(name, &dtype) ? ringsum_dtype_bits(dtype) : 8;
}

static uint64_t elements_at(const struct mutation *mutation, struct spot spot)
{
	uint64_t product = 1;

	for (size_t i = spot.begin + 1; i + 1 < spot.end; i++) {
		size_t begin = i;

		while (isdigit((unsigned char)mutation->json[i]))
			i++;
		if (i > begin)
			product *= number_at(mutation, (struct spot){ begin, i });
	}
	return product;
}

/* Gives all tensors offsets that follow from dtypes and shapes, from the first to the last. */
static void mend_offsets(struct mutation *mutation)
{
	struct spot offsets[SPOTS_MAX], dtypes[SPOTS_MAX], shapes[SPOTS_MAX];
	uint64_t ends[SPOTS_MAX], position = 0;
	size_t count = find_values(mutation, "\"data_offsets", '[', ']', offsets);
	char text[64];

	if (find_values(mutation, "\"dtype", '"', '"', dtypes) != count ||
	    find_values(mutation, "\"shape", '[', ']', shapes) != count)
		return;
	for (size_t i = 0; i < count; i++)
		ends[i] = position +=
			elements_at(mutation, shapes[i]) * dtype_bits_at(mutation, dtypes[i]) / 8;
	for (size_t i = count; i > 0; i--) { /* from behind: the places before stay as they are */
		snprintf(text, sizeof(text), "[%llu,%llu]",
			 (unsigned long long)(i > 1 ? ends[i - 2] : 0),
			 (unsigned long long)ends[i - 1]);
		replace(mutation, offsets[i - 1], text, strlen(text));
	}
}

/* ---- the whole --------------------------------------------------------------------------- */

static void mutate_json(struct mutation *mutation)
{
	uint64_t random = next_random(mutation);

	switch (random % 8) {
	case 0:
	case 1:
	case 2:
		mutate_number(mutation);
		break;
	case 3:
		mutate_dtype(mutation);
		break;
	case 4:
		mutate_shape(mutation);
		break;
	case 5:
		mutate_tensor(mutation);
		break;
	default:
		mutation->json_bytes = LLVMFuzzerMutate((uint8_t *)mutation->json,
							mutation->json_bytes, JSON_BYTES_MAX);
		mutation->json[mutation->json_bytes] = '\0';
	}
	if ((random >> 8) % 3 == 0)
		mend_offsets(mutation);
}

static uint64_t length_of(const uint8_t *data, size_t size)
{
	uint64_t length = 0;

	if (size < LENGTH_BYTES)
		return 0;
	memcpy(&length, data, sizeof(length));
	length = le64toh(length);
	return RSUM_MIN(length, size - LENGTH_BYTES);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	static struct mutation mutation;
	uint64_t length = length_of(data, size), written;
	size_t data_bytes = size < LENGTH_BYTES ? 0 : size - LENGTH_BYTES - (size_t)length;

	mutation.random = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	if (max_size < LENGTH_BYTES || length > JSON_BYTES_MAX || next_random(&mutation) % 8 == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	mutation.json_bytes = (size_t)length;
	if (length)
		memcpy(mutation.json, data + LENGTH_BYTES, (size_t)length);
	mutation.json[length] = '\0';
	if (data_bytes && next_random(&mutation) % 16 == 0)
		data_bytes = next_random(&mutation) % (2 * data_bytes);
	else
		mutate_json(&mutation);
	if (mutation.json_bytes > max_size - LENGTH_BYTES)
		return LLVMFuzzerMutate(data, size, max_size);
	written = mutation.json_bytes;
	if (next_random(&mutation) % 32 == 0)
		written = change_number(&mutation, written, size);
	data_bytes = RSUM_MIN(data_bytes, max_size - LENGTH_BYTES - mutation.json_bytes);
	written = htole64(written);
	memcpy(data, &written, sizeof(written));
	memcpy(data + LENGTH_BYTES, mutation.json, mutation.json_bytes);
	memset(data + LENGTH_BYTES + mutation.json_bytes, 0, data_bytes);
	return LENGTH_BYTES + mutation.json_bytes + data_bytes;
}
