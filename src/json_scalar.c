/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings and numbers of JSON, and UTF-8. Strings are decoded in the text itself; numbers are
 * exact where they are integers of 64 bits, and the nearest double otherwise.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "json_parts.h"

#define ONES UINT64_C(0x0101010101010101)
#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Length of the well-formed sequence at `bytes`, or 0 (Unicode, table 3-7). */
static size_t utf8_length(const unsigned char *bytes, size_t left)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (bytes[0] < 0x80)
		return 1;
	if (bytes[0] < 0xc2 || bytes[0] > 0xf4)
		return 0;
	length = bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
	if (bytes[0] == 0xe0)
		low = 0xa0;
	else if (bytes[0] == 0xed)
		high = 0x9f;
	else if (bytes[0] == 0xf0)
		low = 0x90;
	else if (bytes[0] == 0xf4)
		high = 0x8f;
	if (left < length || bytes[1] < low || bytes[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

bool rsum_utf8_is_valid(const char *text, size_t size_bytes)
{
	const unsigned char *bytes = (const unsigned char *)text;
	size_t length;
	uint64_t word;

	for (size_t i = 0; i < size_bytes; i += length) {
		length = sizeof(word);
		if (size_bytes - i >= sizeof(word)) {
			memcpy(&word, bytes + i, sizeof(word));
			if (!(word & HIGH_BITS))
				continue;
		}
		length = utf8_length(bytes + i, size_bytes - i);
		if (!length)
			return false;
	}
	return true;
}

/*
 * Bytes before the first that is a quote, a backslash, a control character or not ASCII. Each
 * subtraction raises the high bit of a byte that is one of these, and borrows from the next byte
 * only in such a one: so the lowest high bit is exact, and bits above it do not matter.
 */
static size_t plain_length(const char *text, size_t left)
{
	size_t i = 0;

	for (; left - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
		uint64_t word, special;

		memcpy(&word, text + i, sizeof(word));
		word = le64toh(word);
		special = (word | (word - ONES * 0x20) | ((word ^ ONES * '"') - ONES) |
			   ((word ^ ONES * '\\') - ONES)) &
			  HIGH_BITS;
		if (special)
			return i + (size_t)__builtin_ctzll(special) / 8;
	}
	while (i < left && (unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x80 &&
	       text[i] != '"' && text[i] != '\\')
		i++;
	return i;
}

/* The number of four hex digits at `from`, or -1. */
static int hex4(const struct rsum_json *json, size_t from)
{
	int value = 0;

	if (json->size_bytes - from < 4)
		return -1;
	for (size_t i = from; i < from + 4; i++) {
		char c = json->text[i];

		if (c >= '0' && c <= '9')
			value = value * 16 + (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + (c - 'A' + 10);
		else
			return -1;
	}
	return value;
}

static size_t utf8_encode(char *to, unsigned code)
{
	if (code < 0x80) {
		to[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		to[0] = (char)(0xc0 | code >> 6);
		to[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		to[0] = (char)(0xe0 | code >> 12);
		to[1] = (char)(0x80 | (code >> 6 & 0x3f));
		to[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | code >> 18);
	to[1] = (char)(0x80 | (code >> 12 & 0x3f));
	to[2] = (char)(0x80 | (code >> 6 & 0x3f));
	to[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* Decodes \uXXXX, or a pair of them, at *from to *to. */
static int read_unicode_escape(struct rsum_json *json, size_t *from, size_t *to)
{
	int code = hex4(json, *from + 2);
	int low;

	if (code < 0)
		return rsum_json_refuse(json, *from, "\\u without four hexadecimal digits");
	if (code >= 0xd800 && code <= 0xdfff) {
		low = -1;
		if (code < 0xdc00 && json->size_bytes - *from >= 12 &&
		    json->text[*from + 6] == '\\' && json->text[*from + 7] == 'u')
			low = hex4(json, *from + 8);
		if (low < 0xdc00 || low > 0xdfff)
			return rsum_json_refuse(json, *from,
						"\\u%04x is one half of a surrogate pair",
						(unsigned)code);
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		*from += 6;
	}
	*from += 6;
	*to += utf8_encode(json->text + *to, (unsigned)code);
	return 0;
}

static int read_escape(struct rsum_json *json, size_t *from, size_t *to)
{
	static const char escapes[] = "\"\\/bfnrt";
	static const char meanings[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char c;

	if (json->size_bytes - *from < 2)
		return rsum_json_refuse(json, *from, "the text ends within a string");
	c = json->text[*from + 1];
	if (c == 'u')
		return read_unicode_escape(json, from, to);
	found = memchr(escapes, c, sizeof(escapes) - 1);
	if (!found)
		return rsum_json_refuse(json, *from, "an escape that JSON does not know");
	json->text[*to] = meanings[found - escapes];
	*from += 2;
	*to += 1;
	return 0;
}

/* Copies one character beyond ASCII, or refuses what cannot stand in a string. */
static int read_unusual(struct rsum_json *json, size_t *from, size_t *to)
{
	const unsigned char *bytes = (const unsigned char *)json->text + *from;
	size_t length;

	if (*bytes == '\\')
		return read_escape(json, from, to);
	if (*bytes < 0x20)
		return rsum_json_refuse(json, *from, "control character 0x%02x in a string",
					(unsigned)*bytes);
	length = utf8_length(bytes, json->size_bytes - *from);
	if (!length)
		return rsum_json_refuse(json, *from, "byte 0x%02x is not valid UTF-8",
					(unsigned)*bytes);
	for (size_t i = 0; i < length; i++)
		json->text[(*to)++] = json->text[(*from)++];
	return 0;
}

/* Decodes the string that begins at the position: what is written never overtakes what is read. */
int rsum_json_read_string(struct rsum_json *json, struct rsum_json_token *token)
{
	char *text = json->text;
	size_t from = json->position + 1;
	size_t to = from;
	size_t run;
	int ret;

	token->string = text + from;
	for (;;) {
		run = plain_length(text + from, json->size_bytes - from);
		if (to != from && run)
			memmove(text + to, text + from, run);
		from += run;
		to += run;
		if (from == json->size_bytes)
			return rsum_json_refuse(json, from, "the text ends within a string");
		if (text[from] == '"')
			break;
		ret = read_unusual(json, &from, &to);
		if (ret)
			return ret;
	}
	text[to] = '\0';
	token->length = (size_t)(text + to - token->string);
	json->position = from + 1;
	return 0;
}

/*
 * Significant digits kept for strtod. A double, or the middle between two of them, has at most
 * 768; a digit that is not zero beyond these only says "and a little more".
 */
#define REAL_DIGITS_MAX 800

/*
 * The nearest double. The number is handed to strtod as digits and an exponent, without the
 * decimal point, since the locale would choose that.
 */
static double real_from_text(const char *at, const char *end)
{
	char digits[REAL_DIGITS_MAX + 32];
	size_t used = 0;
	int64_t exponent = 0, written = 0;
	bool in_fraction = false, more = false, is_exponent_negative;
	double real;
	int errno_before = errno;

	if (*at == '-')
		digits[used++] = *at++;
	for (; at < end && (*at | 0x20) != 'e'; at++) {
		if (*at == '.') {
			in_fraction = true;
			continue;
		}
		exponent -= in_fraction;
		if (used < REAL_DIGITS_MAX) {
			if (*at != '0' || (used && digits[used - 1] != '-'))
				digits[used++] = *at;
		} else {
			exponent++;
			more |= *at != '0';
		}
	}
	digits[used++] = more ? '1' : '0';
	exponent--;
	if (at < end) {
		at++;
		is_exponent_negative = *at == '-';
		at += *at == '-' || *at == '+';
		for (; at < end && written < INT64_C(1) << 40; at++)
			written = written * 10 + (*at - '0');
		exponent += is_exponent_negative ? -written : written;
	}
	exponent = RSUM_MAX(RSUM_MIN(exponent, 99999), -99999);
	snprintf(digits + used, sizeof(digits) - used, "e%d", (int)exponent);
	real = strtod(digits, NULL);
	errno = errno_before;
	return real;
}

static size_t skip_digits(const struct rsum_json *json, size_t at)
{
	while (at < json->size_bytes && json->text[at] >= '0' && json->text[at] <= '9')
		at++;
	return at;
}

/* Passes a fraction and an exponent at the position. */
static int pass_fraction(struct rsum_json *json)
{
	const char *text = json->text;
	size_t at = json->position;
	size_t begin;

	if (at < json->size_bytes && text[at] == '.') {
		begin = at + 1;
		json->position = at = skip_digits(json, begin);
		if (at == begin)
			return rsum_json_refuse_found(json, "a digit");
	}
	if (at < json->size_bytes && (text[at] == 'e' || text[at] == 'E')) {
		begin = at + 1;
		if (begin < json->size_bytes && (text[begin] == '+' || text[begin] == '-'))
			begin++;
		json->position = at = skip_digits(json, begin);
		if (at == begin)
			return rsum_json_refuse_found(json, "a digit");
	}
	return 0;
}

int rsum_json_read_number(struct rsum_json *json, struct rsum_json_token *token, bool want_real)
{
	const char *text = json->text;
	size_t begin, at, integer_end;
	bool fits = true;
	uint64_t magnitude = 0;
	int ret;

	token->type = RSUM_JSON_NUMBER;
	token->is_negative = text[json->position] == '-';
	begin = json->position + token->is_negative;
	for (at = begin; at < json->size_bytes && text[at] >= '0' && text[at] <= '9'; at++)
		fits = fits && rsum_mul_u64(magnitude, 10, &magnitude) &&
		       rsum_add_u64(magnitude, (uint64_t)(text[at] - '0'), &magnitude);
	json->position = integer_end = at;
	if (at == begin)
		return rsum_json_refuse_found(json, "a digit");
	if (at - begin > 1 && text[begin] == '0')
		return rsum_json_refuse(json, begin, "a number with a leading zero");
	ret = pass_fraction(json);
	if (ret)
		return ret;
	token->is_integer = fits && json->position == integer_end;
	if (token->is_integer) {
		token->magnitude = magnitude;
		token->real = token->is_negative ? -(double)magnitude : (double)magnitude;
	} else if (want_real) {
		token->real = real_from_text(text + token->offset, text + json->position);
	}
	json->state = RSUM_JSON_STATE_AFTER_VALUE;
	return 0;
}
