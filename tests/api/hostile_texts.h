/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large documents that are one thing over and over, as a shard's header and as a manifest, and
 * what is to be said of each.
 */
#ifndef TESTS_API_HOSTILE_TEXTS_H
#define TESTS_API_HOSTILE_TEXTS_H

#include "ringsum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

/* Of a large document; sanitizers take their time, and their memory says nothing. */
#define LARGE_BYTES ((size_t)(IS_SANITIZED ? 4 : 64) << 20)

/* A document: a beginning, units up to its size, one more unit, an end. */
struct text {
	const char *name;
	const char *begin;
	const char *unit; /* # in it is a number of seven digits that counts */
	const char *last;
	const char *end;
	const char *says;		/* the finding; NULL: none about the document itself */
	enum ringsum_finding_code code; /* 0: the usual one of such a document */
};

/* Where a document under a sanitizer does not reach the limit, nothing is said about it. */
#define LARGE_SAYS(text) (IS_SANITIZED ? NULL : (text))
#define COUNTED "\"#\""
#define SHAPE_64                                                                                  \
	"[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0," \
	"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"
#define TENSOR(name, shape, offsets) \
	name ":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ENTRY(name, shape, file)                                                             \
	"{\"name\":" name ",\"dtype\":\"U8\",\"shape\":" shape ",\"destination_file\":" file \
	",\"destination_byte_range\":[9,9],\"source_byte_range\":[9,9],"                     \
	"\"source_byte_range_sha256\":"                                                      \
	"\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\","              \
	"\"resident_packed_bytes\":0}"

/* As many bytes as an entry, and no member but one. */
#define ENTRY_CUT                                                                                 \
	"{\"name\":" COUNTED ",\"any\":\"0000000000000000000000000000000000000000000000000000000" \
	"0000000000000000000000000000000000000000000000000000000000000000000000000000000000\"}"

/* What any document may hold where nobody looks at it. */
#define ANYWHERE(begin, end, says)                                                               \
	{ "objects", begin "[", "{},", "{}", "]" end, says, 0 },                                 \
		{ "lists", begin "[", "[],", "[]", "]" end, says, 0 },                           \
		{ "numbers", begin "[", "0,", "0", "]" end, says, 0 },                           \
		{ "a string", begin "\"", "a", "", "\"" end, says, 0 },                          \
		{ "escapes", begin "\"", "\\u0041", "", "\"" end, says, 0 },                     \
		{ "a key", begin "{\"", "a", "", "\":0}" end, says, 0 },                         \
		{ "keys", begin "{", COUNTED ":0,", "\"\":0", "}" end, LARGE_SAYS("limit"), 0 }, \
		{ "one key", begin "{", "\"a\":0,", "\"a\":0", "}" end, "duplicate key", 0 },    \
	{                                                                                        \
		"deep lists", begin, "[", "", end, "deep", 0                                     \
	}

static const struct text headers[] = {
	ANYWHERE("{\"t\":{\"any\":", "}}", "no dtype"),
	{ "digits", "{\"t\":{\"any\":", "1", "", "}}", "no dtype", 0 },
	{ "a fraction", "{\"t\":{\"any\":0.", "1", "", "}}", "no dtype", 0 },
	{ "blanks", "{\"t\":{\"any\":", " ", "0", "}}", "no dtype", 0 },
	{ "surrogate pairs", "{\"t\":{\"any\":\"", "\\ud83d\\ude00", "", "\"}}", "no dtype", 0 },
	{ "a key of escapes", "{\"t\":{\"", "\\u0041", "", "\":0}}", "no dtype", 0 },
	{ "small objects", "{\"t\":{\"any\":[", "{\"a\":0},", "0", "]}}", "no dtype", 0 },
	{ "deep objects", "{\"t\":{\"any\":", "{\"a\":", "", "}}", "deep", 0 },
	{ "a name", "{\"", "a", "", "\":{}}", "4096", 0 },
	{ "empty tensors", "{", TENSOR(COUNTED, "[0]", "[0,0]") ",", TENSOR("\"\"", "[0]", "[0,0]"),
	  "}", "does not know the tensor", RINGSUM_FINDING_HEADER_MISMATCH },
	{ "tensors to sort", "{", TENSOR(COUNTED, "[0]", "[#,#]") ",",
	  TENSOR("\"\"", "[0]", "[0,0]"), "}", "hole", 0 },
	{ "tensors of rank 64", "{", TENSOR(COUNTED, SHAPE_64, "[0,0]") ",",
	  TENSOR("\"\"", "[0]", "[0,0]"), "}", LARGE_SAYS("limit"), 0 },
	{ "dimensions", "{\"t\":{\"dtype\":\"U8\",\"shape\":[", "1,", "1", "]}}", "64 dimensions",
	  0 },
	{ "offsets", "{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[", "1,", "1", "]}}",
	  "data_offsets", 0 },
	{ "metadata", "{\"__metadata__\":{", COUNTED ":\"\",", "\"\":\"\"", "}}",
	  LARGE_SAYS("limit"), 0 },
	{ "a value of metadata", "{\"__metadata__\":{\"a\":\"", "\\u0041", "", "\"}}",
	  "does not know the tensor", RINGSUM_FINDING_HEADER_MISMATCH },
};

/* Nothing is wrong with them, but that there is no file x. */
static const struct text sound_entries = {
	"sound entries",
	"{\"tensors\":[",
	ENTRY(COUNTED, "[0]", "\"x\"") ",",
	ENTRY("\"a\"", "[0]", "\"x\""),
	"]}",
	"not there",
	RINGSUM_FINDING_FILE_MISSING,
};

static const struct text manifests[] = {
	ANYWHERE("{\"any\":", "}", "no list `tensors`"),
	{ "entries of nothing", "{\"tensors\":[", "{},", "{}", "]}", "limit", 0 },
	{ "entries that are numbers", "{\"tensors\":[", "0,", "0", "]}", "limit", 0 },
	{ "entries that are lists", "{\"tensors\":[", "[],", "[]", "]}", "limit", 0 },
	{ "entries of a name", "{\"tensors\":[", "{\"name\":" COUNTED "},", "{}", "]}", "limit",
	  0 },
	{ "entries cut short", "{\"tensors\":[", ENTRY_CUT ",", "{}", "]}", "missing", 0 },
	{ "sound entries of rank 64", "{\"tensors\":[", ENTRY(COUNTED, SHAPE_64, "\"x\"") ",",
	  ENTRY("\"a\"", "[0]", "\"x\""), "]}", "not there", RINGSUM_FINDING_FILE_MISSING },
	{ "one name", "{\"tensors\":[", ENTRY("\"a\"", "[0]", "\"x\"") ",", "{}", "]}",
	  "promises already", RINGSUM_FINDING_TENSOR_DUPLICATE },
	{ "many files", "{\"tensors\":[", ENTRY(COUNTED, "[0]", COUNTED) ",", "{}", "]}",
	  LARGE_SAYS("files"), 0 },
	{ "a shape", "{\"tensors\":[{\"shape\":[", "1,", "1", "]}]}", "rank", 0 },
	{ "a codebook", "{\"tensors\":[],\"codebook\":\"", "a", "", "\"}", "codebook", 0 },
};

static size_t unit_size(const struct text *text)
{
	size_t bytes = strlen(text->unit), i;

	for (i = 0; text->unit[i]; i++)
		bytes += text->unit[i] == '#' ? 6 : 0;
	return bytes;
}

/* Writes one unit to `at` and returns its end. */
static char *write_unit(char *at, const char *unit, unsigned number)
{
	for (; *unit; unit++) {
		if (*unit != '#') {
			*at++ = *unit;
			continue;
		}
		for (unsigned digit = 0, rest = number; digit < 7; digit++, rest /= 10)
			at[6 - digit] = (char)('0' + rest % 10);
		at += 7;
	}
	return at;
}

static void write_units(FILE *file, const struct text *text, size_t count)
{
	static char block[1 << 16];
	size_t in_block = sizeof(block) / unit_size(text), i, k;
	char *at;

	for (i = 0; i < count; i += in_block) {
		for (at = block, k = i; k < count && k < i + in_block; k++)
			at = write_unit(at, text->unit, 1000000 + (unsigned)k);
		fwrite(block, 1, (size_t)(at - block), file);
	}
}

/* Writes about as many bytes as are wanted, and returns how many; a shard's header or not. */
static size_t write_text(const char *path, const struct text *text, size_t size_bytes,
			 bool is_header)
{
	size_t count = size_bytes / unit_size(text), i;
	size_t size = strlen(text->begin) + count * unit_size(text) + strlen(text->last) +
		      strlen(text->end);
	FILE *file;

	/* Written over, it would be flushed to the disk first. */
	unlink(path);
	file = fopen(path, "wb");
	assert_non_null(file);
	for (i = 0; is_header && i < 8; i++)
		putc((int)(size >> (8 * i)) & 0xff, file);
	fputs(text->begin, file);
	write_units(file, text, count);
	fputs(text->last, file);
	fputs(text->end, file);
	assert_int_equal(fclose(file), 0);
	return size;
}

#endif
