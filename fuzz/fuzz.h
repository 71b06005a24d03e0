/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share: the entry points of libFuzzer, checks that stay on, a growing text,
 * the reading of numbers from an input, and json-c as the second opinion.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "base.h"
#include "ringsum.h"

struct json_object;

/* For sums and products that 64 bits cannot hold; no part of ISO C. */
__extension__ typedef unsigned __int128 fuzz_u128;

/* Defined by every target; always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Defined by targets that know the structure of their input. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
/* Defined by libFuzzer, or by driver.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* A property of ringsum that must hold for every input. */
#define FUZZ_CHECK(condition)                                            \
	do {                                                             \
		if (__builtin_expect(!(condition), 0))                   \
			fuzz_fail(__FILE__, __LINE__, #condition, NULL); \
	} while (0)

/* The same, with a line that says what was compared. */
#define FUZZ_CHECK_TEXT(condition, text)                                 \
	do {                                                             \
		if (__builtin_expect(!(condition), 0))                   \
			fuzz_fail(__FILE__, __LINE__, #condition, text); \
	} while (0)

__attribute__((noreturn)) void fuzz_fail(const char *file, int line, const char *condition,
					 const char *text);

/* Memory or abort: an input is small, so want of memory is no finding. */
void *fuzz_alloc(size_t size_bytes);
/* Exactly `size` bytes, so that reading past them is seen. */
void *fuzz_copy(const void *data, size_t size);
/* The same and a NUL behind them. */
char *fuzz_copy_text(const void *data, size_t size);

/* ---- numbers from an input: zeros where it has ended ------------------------------------- */

struct fuzz_input {
	const uint8_t *data;
	size_t left;
};

uint64_t fuzz_take(struct fuzz_input *input, unsigned bytes);

/* ---- a growing text ------------------------------------------------------------------------ */

/* All zero is the empty state. */
struct fuzz_text {
	char *data; /* ends with NUL; NULL while empty */
	size_t used_bytes;
	size_t capacity_bytes;
};

void fuzz_text_add(struct fuzz_text *text, const void *bytes, size_t size_bytes);
RSUM_PRINTF(2, 3) void fuzz_text_printf(struct fuzz_text *text, const char *format, ...);
/* A JSON string with quotes. */
void fuzz_text_add_string(struct fuzz_text *text, const char *string, size_t length);
void fuzz_text_deinit(struct fuzz_text *text);

/* ---- second opinions ----------------------------------------------------------------------- */

/*
 * What json-c's strict parser makes of a text: true with *root_out (NULL is the JSON null), or
 * false where it refuses. Escaped pairs that json-c 0.16 is known to read wrong (fuzz/README.md)
 * are given to it in UTF-8, which it reads right.
 */
bool fuzz_json_c_parse(const char *text, size_t size, int depth_max, struct json_object **root_out);

/* Whether our reader takes all of a text. */
bool fuzz_json_is_strict(const char *text, size_t size, unsigned depth_max);

/*
 * Whether json-c can be trusted with a text: no numbers that it does not read as they stand (-0,
 * beyond 64 bits), and no keys with NUL. Says no to some others as well.
 */
bool fuzz_json_c_is_exact(const char *text, size_t size);

/* Whether bytes are UTF-8, by decoding code points one at a time. */
bool fuzz_utf8_is_valid(const char *text, size_t size);

/* Bytes of a shape in 128 bits; false where elements or bits exceed 64 bits on the way, or a bit
 * is left over. */
bool fuzz_shape_bytes(enum ringsum_dtype dtype, const uint64_t *shape, unsigned rank,
		      uint64_t *bytes_out);

/* That a line for a person is one: not empty, no control character. */
void fuzz_check_line(const char *line);

/*
 * What must hold of any report: its verdict follows from its counts, its JSON is read by json-c
 * and by us, and its text has no control character but newlines.
 */
struct ringsum_report;
void fuzz_check_report(const struct ringsum_report *report);

#endif
