/* SPDX-License-Identifier: Apache-2.0 */
/* Strict base64. */
#include "base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 0 to 63, or -1. */
static int value_of(char digit)
{
	if (digit >= 'A' && digit <= 'Z')
		return digit - 'A';
	if (digit >= 'a' && digit <= 'z')
		return digit - 'a' + 26;
	if (digit >= '0' && digit <= '9')
		return digit - '0' + 52;
	return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

/* Reads `count` digits as one number of 6 * count bits. */
static bool read_digits(const char *text, unsigned count, uint32_t *bits_out)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < count; i++) {
		int value = value_of(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
	}
	*bits_out = bits;
	return true;
}

/* The last four: "AA==" has 4 bits too many and "AAA=" 2, which have to be zero. */
static bool decode_padded(const char *text, uint8_t *data, size_t *size_bytes)
{
	unsigned digits = text[2] == '=' ? 2 : 3;
	uint32_t bits;

	if (!read_digits(text, digits, &bits))
		return false;
	if (digits == 2) {
		if (bits & 0xf)
			return false;
		data[(*size_bytes)++] = (uint8_t)(bits >> 4);
		return true;
	}
	if (bits & 0x3)
		return false;
	data[(*size_bytes)++] = (uint8_t)(bits >> 10);
	data[(*size_bytes)++] = (uint8_t)(bits >> 2);
	return true;
}

bool rsum_base64_decode(const char *text, size_t length, uint8_t *data, size_t *size_bytes_out)
{
	size_t size_bytes = 0, at;
	uint32_t bits;

	if (length % 4 != 0)
		return false;
	for (at = 0; at < length; at += 4) {
		if (at + 4 == length && text[at + 3] == '=') {
			if (!decode_padded(text + at, data, &size_bytes))
				return false;
			break;
		}
		if (!read_digits(text + at, 4, &bits))
			return false;
		data[size_bytes++] = (uint8_t)(bits >> 16);
		data[size_bytes++] = (uint8_t)(bits >> 8);
		data[size_bytes++] = (uint8_t)bits;
	}
	*size_bytes_out = size_bytes;
	return true;
}

char *rsum_base64_encode(const void *data, size_t size_bytes)
{
	const uint8_t *bytes = data;
	size_t at, used = 0;
	char *text;

	if (size_bytes > SIZE_MAX / 2)
		return NULL;
	text = malloc((size_bytes + 2) / 3 * 4 + 1);
	if (!text)
		return NULL;
	for (at = 0; at < size_bytes; at += 3) {
		size_t left = size_bytes - at;
		uint32_t bits = (uint32_t)bytes[at] << 16;

		if (left > 1)
			bits |= (uint32_t)bytes[at + 1] << 8;
		if (left > 2)
			bits |= bytes[at + 2];
		text[used++] = alphabet[bits >> 18];
		text[used++] = alphabet[bits >> 12 & 63];
		text[used++] = left > 1 ? alphabet[bits >> 6 & 63] : '=';
		text[used++] = left > 2 ? alphabet[bits & 63] : '=';
	}
	text[used] = '\0';
	return text;
}
