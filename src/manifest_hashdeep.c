/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses lists of hashdeep into promises of whole files: a first line "%%%% HASHDEEP-1.0", one
 * with the columns ("%%%% size,md5,sha256,filename"), comments behind "##", and a line for each
 * file whose last column is its name, to the end of the line.
 *
 * Of several digests of a file the strongest that we have is what is promised, and the note that
 * the others were passed over is one for the list.
 */
#include "manifest.h"

#include <assert.h>
#include <string.h>

#include "rsum_limits.h"

#define FIRST_LINE "%%%% HASHDEEP-"
#define COLUMNS_MAX 16
#define COLUMN_NAME_BYTES_MAX 24

struct list {
	const char *file_name;
	struct rsum_manifest *out;
	struct ringsum_report *report;
	size_t column_count;  /* 0: not known yet */
	size_t size_column;   /* column_count where there is none */
	size_t digest_column; /* the one that is used */
	enum rsum_algorithm algorithm;
	char algorithm_name[COLUMN_NAME_BYTES_MAX + 1];
	size_t line_number;
	size_t malformed_count;
	bool has_passed_over; /* another digest than the one that is used: it is noted */
};

/* Ends at `separator`, or at the end. Returns its length, and advances to behind it. */
static size_t take_column(const char **at, const char *end, char separator)
{
	const char *begin = *at;
	const char *stop = memchr(begin, separator, (size_t)(end - begin));

	*at = stop ? stop + 1 : end;
	return (size_t)((stop ? stop : end) - begin);
}

static bool column_is(const char *column, size_t length, const char *name)
{
	return strlen(name) == length && memcmp(column, name, length) == 0;
}

/* Whether to use this digest rather than the one that was found before. */
static bool is_better(enum rsum_algorithm algorithm, enum rsum_algorithm before, bool has_before)
{
	return !has_before ||
	       (before != RSUM_ALGORITHM_SHA256 &&
		(algorithm == RSUM_ALGORITHM_SHA256 || before == RSUM_ALGORITHM_UNKNOWN));
}

static void note_passed_over(const struct list *list)
{
	char message[192];

	snprintf(message, sizeof(message),
		 "the list has several digests of each file: %s was compared, the others were not",
		 list->algorithm_name);
	rsum_report_add(list->report, &(struct ringsum_finding){
					      .code = RINGSUM_FINDING_MANIFEST_INVALID,
					      .severity = RINGSUM_SEVERITY_NOTE,
					      .file = list->file_name,
					      .message = message,
				      });
}

/* "size,md5,sha256,filename". Returns NULL, or why it is none. */
static const char *read_columns(struct list *list, const char *line, size_t length)
{
	const char *end = line + length;
	size_t count = 0, digest_count = 0;
	bool has_name = false;

	list->size_column = COLUMNS_MAX;
	while (line < end) {
		const char *column = line;
		size_t column_length = take_column(&line, end, ',');
		enum rsum_algorithm algorithm = rsum_algorithm_of_name(column, column_length);

		if (count == COLUMNS_MAX || column_length > COLUMN_NAME_BYTES_MAX || has_name)
			return "its columns are not those of a list";
		if (column_is(column, column_length, "size")) {
			list->size_column = count;
		} else if (column_is(column, column_length, "filename")) {
			has_name = true;
		} else {
			if (is_better(algorithm, list->algorithm, digest_count > 0)) {
				list->algorithm = algorithm;
				list->digest_column = count;
				memcpy(list->algorithm_name, column, column_length);
				list->algorithm_name[column_length] = '\0';
			}
			digest_count++;
		}
		count++;
	}
	if (!has_name || digest_count == 0)
		return "its columns lack a digest, or `filename` at the end";
	list->column_count = count;
	if (digest_count > 1 && !list->has_passed_over)
		note_passed_over(list);
	list->has_passed_over |= digest_count > 1;
	return NULL;
}

static bool read_number(const char *text, size_t length, uint64_t *number_out)
{
	uint64_t number = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9' || !rsum_mul_u64(number, 10, &number) ||
		    !rsum_add_u64(number, (uint64_t)(text[i] - '0'), &number))
			return false;
	}
	*number_out = number;
	return length > 0;
}

static const char *read_digest(const char *hex, size_t length, struct rsum_file_promise *promise)
{
	promise->digest_bytes = rsum_algorithm_bytes(promise->algorithm);
	if (promise->algorithm != RSUM_ALGORITHM_UNKNOWN &&
	    (length != 2 * promise->digest_bytes ||
	     !rsum_hex_decode(hex, promise->digest_bytes, promise->digest)))
		return "its digest is not as many hex digits as its algorithm gives";
	return NULL;
}

/* Fills *promise but for the path, which is *name_out. Returns NULL, or why it cannot. */
static const char *read_file(const struct list *list, const char *line, size_t length,
			     struct rsum_file_promise *promise, const char **name_out)
{
	const char *end = line + length, *reason;

	for (size_t i = 0; i + 1 < list->column_count; i++) {
		const char *column = line;
		size_t column_length = take_column(&line, end, ',');

		if (line == end)
			return "it has fewer columns than the list says";
		if (i == list->size_column &&
		    !read_number(column, column_length, &promise->size_bytes))
			return "its size is no number";
		if (i == list->digest_column) {
			reason = read_digest(column, column_length, promise);
			if (reason)
				return reason;
		}
	}
	if ((size_t)(end - line) > RSUM_LIMIT_NAME_BYTES)
		return "its name is longer than 4096 bytes, which is the limit";
	*name_out = line;
	return NULL;
}
static_assert(RSUM_LIMIT_NAME_BYTES == 4096, "as the message above says");

/* Returns 0, RINGSUM_E_NOMEM, RINGSUM_E_LIMIT, or RINGSUM_E_REFUSED with *reason_out. */
static int add_file(struct list *list, const char *line, size_t length, const char **reason_out)
{
	struct rsum_file_promise promise = {
		.end = UINT64_MAX,
		.size_bytes = UINT64_MAX,
		.algorithm = list->algorithm,
		.algorithm_name = list->algorithm_name,
	};
	const char *name = NULL;
	char *copy;
	int result;

	*reason_out = read_file(list, line, length, &promise, &name);
	if (*reason_out)
		return RINGSUM_E_REFUSED;
	copy = strndup(name, (size_t)(line + length - name));
	if (!copy)
		return RINGSUM_E_NOMEM;
	promise.path = copy;
	result = rsum_manifest_add_file(list->out, &promise);
	free(copy);
	return result;
}

static void complain_of_line(struct list *list, const char *reason)
{
	char message[256];

	list->malformed_count++;
	snprintf(message, sizeof(message), "line %zu is not one of a hashdeep list: %s",
		 list->line_number, reason);
	rsum_manifest_complain(list->report, list->file_name, NULL, NULL, message);
}

static int read_line(struct list *list, const char *line, size_t length)
{
	const char *reason = NULL;
	int result = 0;

	if (length >= strlen(FIRST_LINE) && memcmp(line, FIRST_LINE, strlen(FIRST_LINE)) == 0)
		return 0;
	if (length >= 5 && memcmp(line, "%%%% ", 5) == 0)
		reason = read_columns(list, line + 5, length - 5);
	else if (list->column_count == 0)
		reason = "no line with the columns is before it";
	else
		result = add_file(list, line, length, &reason);
	if (reason)
		complain_of_line(list, reason);
	return result == RINGSUM_E_REFUSED ? 0 : result;
}

static int read_lines(struct list *list, const char *text, size_t size_bytes)
{
	const char *end = text + size_bytes;
	int result = 0;

	while (text < end && result == 0) {
		const char *line = text;
		size_t length = take_column(&text, end, '\n');

		if (length > 0 && line[length - 1] == '\r')
			length--;
		list->line_number++;
		if (length > 0 && *line != '#')
			result = read_line(list, line, length);
		if (list->malformed_count == RSUM_LIMIT_SHORT_ENTRIES)
			return RINGSUM_E_LIMIT;
	}
	return result;
}

static int parse(char *text, size_t size_bytes, const char *file_name, struct rsum_manifest *out,
		 struct ringsum_report *report)
{
	struct list list = { .file_name = file_name, .out = out, .report = report };
	struct rsum_manifest_mark mark = rsum_manifest_mark(out);
	int result = RINGSUM_E_LIMIT;

	if (size_bytes <= RSUM_LIMIT_MANIFEST_BYTES && !memchr(text, '\0', size_bytes))
		result = read_lines(&list, text, size_bytes);
	free(text);
	if (result == RINGSUM_E_LIMIT) {
		rsum_manifest_complain(report, file_name, NULL, NULL,
				       "the list is unusable: it holds NUL or more than 10000 "
				       "lines that are none of a list, or exceeds the limit of "
				       "100000 files or 1 GiB");
		return rsum_manifest_rewind(out, mark) ? RINGSUM_E_NOMEM : RINGSUM_E_REFUSED;
	}
	if (result)
		return result;
	out->is_usable = true;
	return 0;
}
static_assert(RSUM_LIMIT_SHORT_ENTRIES == 10000 && RSUM_LIMIT_SHARDS == 100000 &&
		      RSUM_LIMIT_MANIFEST_BYTES == UINT64_C(1) << 30,
	      "as the message above says");

static bool detect(const char *text, size_t size_bytes)
{
	return size_bytes >= strlen(FIRST_LINE) &&
	       memcmp(text, FIRST_LINE, strlen(FIRST_LINE)) == 0;
}

const struct rsum_manifest_format rsum_manifest_hashdeep = {
	.name = "hashdeep",
	.detect = detect,
	.parse = parse,
};
