/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. */
#include "fuzz.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "json.h"
#include "report.h"
#include "rsum_limits.h"

void fuzz_fail(const char *file, int line, const char *condition, const char *text)
{
	fprintf(stderr, "fuzz: a property does not hold at %s:%d: %s\n", file, line, condition);
	if (text)
		fprintf(stderr, "fuzz: %s\n", text);
	abort();
}

void *fuzz_alloc(size_t size_bytes)
{
	void *memory = malloc(size_bytes ? size_bytes : 1);

	if (!memory) {
		fprintf(stderr, "fuzz: out of memory\n");
		abort();
	}
	return memory;
}

void *fuzz_copy(const void *data, size_t size)
{
	void *copy = malloc(size);

	if (!copy && size)
		return fuzz_alloc(size); /* which says so */
	if (size)
		memcpy(copy, data, size);
	return copy;
}

char *fuzz_copy_text(const void *data, size_t size)
{
	char *copy = fuzz_alloc(size + 1);

	if (size)
		memcpy(copy, data, size);
	copy[size] = '\0';
	return copy;
}

uint64_t fuzz_take(struct fuzz_input *input, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes && input->left; i++) {
		value |= (uint64_t)*input->data++ << (8 * i);
		input->left--;
	}
	return value;
}

/* ---- a growing text ---------------------------------------------------------------------- */

void fuzz_text_add(struct fuzz_text *text, const void *bytes, size_t size_bytes)
{
	size_t needed = text->used_bytes + size_bytes + 1;
	char *grown;

	if (needed > text->capacity_bytes) {
		text->capacity_bytes = RSUM_MAX(needed * 2, (size_t)256);
		grown = fuzz_alloc(text->capacity_bytes);
		if (text->data)
			memcpy(grown, text->data, text->used_bytes);
		free(text->data);
		text->data = grown;
	}
	if (size_bytes)
		memcpy(text->data + text->used_bytes, bytes, size_bytes);
	text->used_bytes += size_bytes;
	text->data[text->used_bytes] = '\0';
}

void fuzz_text_printf(struct fuzz_text *text, const char *format, ...)
{
	char line[512];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	FUZZ_CHECK(length >= 0 && (size_t)length < sizeof(line));
	fuzz_text_add(text, line, (size_t)length);
}

void fuzz_text_add_string(struct fuzz_text *text, const char *string, size_t length)
{
	fuzz_text_add(text, "\"", 1);
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)string[i];

		if (byte < 0x20 || byte == '"' || byte == '\\')
			fuzz_text_printf(text, "\\u%04x", (unsigned)byte);
		else
			fuzz_text_add(text, string + i, 1);
	}
	fuzz_text_add(text, "\"", 1);
}

void fuzz_text_deinit(struct fuzz_text *text)
{
	free(text->data);
	*text = (struct fuzz_text){ 0 };
}

/* ---- second opinions --------------------------------------------------------------------- */

/* The value of "\uXXXX" at the beginning of a text, -1 where that does not stand there. */
static int escaped_unit(const char *text, size_t size)
{
	static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
	int value = 0;

	if (size < 6 || text[0] != '\\' || text[1] != 'u')
		return -1;
	for (size_t i = 2; i < 6; i++) {
		const char *found = memchr(digits, text[i], 32);

		if (!found)
			return -1;
		value = value * 16 + (int)(found - digits) / 2;
	}
	return value;
}

/*
 * Writes a pair of escaped surrogates as UTF-8 where json-c 0.16 has no right to be asked: it looks
 * at the character that a pair makes as if it were half of a pair again, and so makes U+FFFD of
 * those whose low 16 bits are D800 to DFFF. "\ud836\ude00" (U+1DA00) is one. The bits that count are
 * the low six of the first half. Returns what the pair took: 12, or 0 where there is none.
 */
static size_t respell_pair(const char *text, size_t size, char utf8[4])
{
	int high = escaped_unit(text, size), low;
	uint32_t point;

	if (high < 0xd800 || high > 0xdbff || (high & 0x3e) != 0x36)
		return 0;
	low = escaped_unit(text + 6, size - 6);
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	point = 0x10000 + ((uint32_t)(high & 0x3ff) << 10) + (uint32_t)(low & 0x3ff);
	utf8[0] = (char)(0xf0 | point >> 18);
	for (unsigned i = 1; i < 4; i++)
		utf8[i] = (char)(0x80 | (point >> (18 - 6 * i) & 0x3f));
	return 12;
}

/* The same text, with what json-c reads wrong as an escape spelled as UTF-8; returns its size. */
static size_t respell_for_json_c(char *text, size_t size)
{
	size_t from = 0, to = 0, taken;
	char utf8[4];

	while (from < size) {
		taken = respell_pair(text + from, size - from, utf8);
		if (taken) {
			memcpy(text + to, utf8, sizeof(utf8));
			to += sizeof(utf8);
			from += taken;
			continue;
		}
		/* What a backslash takes with it begins no escape of its own. */
		taken = text[from] == '\\' && size - from > 1 ? 2 : 1;
		memmove(text + to, text + from, taken);
		to += taken;
		from += taken;
	}
	text[to] = '\0';
	return to;
}

bool fuzz_json_c_parse(const char *text, size_t size, int depth_max, struct json_object **root_out)
{
	struct json_tokener *tokener = json_tokener_new_ex(depth_max);
	char *copy = fuzz_copy_text(text, size);
	enum json_tokener_error error;
	struct json_object *root;

	FUZZ_CHECK(tokener && size < INT_MAX);
	size = respell_for_json_c(copy, size);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	/* With the NUL, which ends a number that nothing follows. */
	root = json_tokener_parse_ex(tokener, copy, (int)size + 1);
	error = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	free(copy);
	if (error != json_tokener_success) {
		json_object_put(root);
		return false;
	}
	*root_out = root;
	return true;
}

bool fuzz_json_is_strict(const char *text, size_t size, unsigned depth_max)
{
	char *copy = fuzz_copy(text, size);
	struct rsum_json_token token;
	struct rsum_json json;
	int ret;

	FUZZ_CHECK(rsum_json_init(&json, copy, size, depth_max) == 0);
	ret = rsum_json_next(&json, &token);
	if (!ret)
		ret = rsum_json_skip(&json, &token);
	if (!ret)
		ret = rsum_json_next(&json, &token);
	rsum_json_deinit(&json);
	free(copy);
	return !ret;
}

bool fuzz_json_c_is_exact(const char *text, size_t size)
{
	size_t digits = 0;

	for (size_t i = 0; i < size; i++) {
		digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
		if (digits > 18)
			return false;
	}
	return !size || (!memmem(text, size, "-0", 2) && !memmem(text, size, "\\u0000", 6));
}

bool fuzz_utf8_is_valid(const char *text, size_t size)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t i = 0;

	while (i < size) {
		uint32_t byte = (unsigned char)text[i];
		uint32_t point = byte;
		size_t length = 1;

		if ((byte & 0xe0) == 0xc0) {
			length = 2;
			point = byte & 0x1f;
		} else if ((byte & 0xf0) == 0xe0) {
			length = 3;
			point = byte & 0x0f;
		} else if ((byte & 0xf8) == 0xf0) {
			length = 4;
			point = byte & 0x07;
		} else if (byte >= 0x80) {
			return false;
		}
		if (length > size - i)
			return false;
		for (size_t k = 1; k < length; k++) {
			byte = (unsigned char)text[i + k];
			if ((byte & 0xc0) != 0x80)
				return false;
			point = point << 6 | (byte & 0x3f);
		}
		if (length > 1 && point < least[length])
			return false;
		if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
			return false;
		i += length;
	}
	return true;
}

bool fuzz_shape_bytes(enum ringsum_dtype dtype, const uint64_t *shape, unsigned rank,
		      uint64_t *bytes_out)
{
	fuzz_u128 product = 1;

	for (unsigned i = 0; i < rank; i++) {
		product *= shape[i];
		if (product > UINT64_MAX)
			return false;
	}
	product *= ringsum_dtype_bits(dtype);
	if (product > UINT64_MAX || product % 8 != 0)
		return false;
	*bytes_out = (uint64_t)(product / 8);
	return true;
}

void fuzz_check_line(const char *line)
{
	FUZZ_CHECK(line && *line);
	for (; *line; line++)
		FUZZ_CHECK_TEXT((unsigned char)*line >= 0x20 && *line != 0x7f, line);
}

/* ---- reports ----------------------------------------------------------------------------- */

static void check_verdict(const struct ringsum_report *report)
{
	enum ringsum_verdict verdict = ringsum_report_verdict(report);
	struct ringsum_totals totals;
	uint64_t refusing = 0, undecided = 0;

	ringsum_report_totals(report, &totals);
	for (size_t i = 0; i < ringsum_report_finding_count(report); i++) {
		const struct ringsum_finding *finding = ringsum_report_finding_at(report, i);

		FUZZ_CHECK(finding->message && ringsum_finding_code_name(finding->code));
		refusing += finding->severity == RINGSUM_SEVERITY_REFUSE;
		undecided += finding->severity == RINGSUM_SEVERITY_UNDECIDED;
	}
	FUZZ_CHECK(refusing + undecided <= totals.findings_total);
	FUZZ_CHECK(totals.findings_total > RSUM_LIMIT_FINDINGS ||
		   refusing + undecided == totals.findings_total);
	if (refusing)
		FUZZ_CHECK(verdict == RINGSUM_VERDICT_REFUSED);
	if (verdict != RINGSUM_VERDICT_IDENTICAL)
		return;
	FUZZ_CHECK(totals.findings_total == 0);
	FUZZ_CHECK(totals.tensors_promised > 0 &&
		   totals.tensors_identical == totals.tensors_promised);
	FUZZ_CHECK(totals.bytes_proven == totals.bytes_promised);
	FUZZ_CHECK(totals.tensors_refused == 0 && totals.tensors_undecided == 0);
}

static void check_json(const struct ringsum_report *report)
{
	struct ringsum_error err;
	struct json_object *root = NULL, *findings = NULL, *notes = NULL;
	struct rsum_json_token token;
	struct rsum_json json;
	char *text;

	FUZZ_CHECK(ringsum_report_to_json(report, &text, &err) == RINGSUM_OK);
	FUZZ_CHECK_TEXT(fuzz_json_c_parse(text, strlen(text), 64, &root), text);
	FUZZ_CHECK(json_object_object_get_ex(root, "findings", &findings));
	FUZZ_CHECK(json_object_object_get_ex(root, "notes", &notes));
	FUZZ_CHECK(json_object_array_length(findings) + json_object_array_length(notes) ==
		   ringsum_report_finding_count(report));
	json_object_put(root);
	FUZZ_CHECK(rsum_json_init(&json, text, strlen(text), RSUM_LIMIT_JSON_DEPTH) == 0);
	FUZZ_CHECK(rsum_json_next(&json, &token) == 0);
	FUZZ_CHECK_TEXT(rsum_json_skip(&json, &token) == 0, json.reason);
	FUZZ_CHECK(rsum_json_next(&json, &token) == 0 && token.type == RSUM_JSON_END);
	rsum_json_deinit(&json);
	ringsum_free(text);
}

static void check_text(const struct ringsum_report *report)
{
	struct ringsum_error err;
	char *text;

	FUZZ_CHECK(ringsum_report_to_text(report, &text, &err) == RINGSUM_OK);
	FUZZ_CHECK_TEXT(fuzz_utf8_is_valid(text, strlen(text)), text);
	for (const char *at = text; *at; at++)
		FUZZ_CHECK_TEXT(((unsigned char)*at >= 0x20 && *at != 0x7f) || *at == '\n', text);
	ringsum_free(text);
}

void fuzz_check_report(const struct ringsum_report *report)
{
	check_verdict(report);
	check_json(report);
	check_text(report);
}
