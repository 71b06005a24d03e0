/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader. The input is a text.
 *
 *	- It is accepted exactly where a second, plain recursive grammar accepts it, no key stands
 *	  twice in an object and the depth is within the limit.
 *	- Reading and skipping agree, in the result and in where and why a text is refused.
 *	- Strings are UTF-8 and terminated; after the end and after a failure it stays so.
 *	- Written anew and read again it gives the same.
 *	- json-c (strict) reads what we accept, and alike, but for its deviations: see
 *	  is_beyond_json_c() and fuzz/README.md.
 */
#include "fuzz.h"

#include <json-c/json.h>
#include <string.h>

#include "json.h"

#define DEPTH_MAX RSUM_LIMIT_JSON_DEPTH

/* ---- the grammar of RFC 8259, once more -------------------------------------------------- */

enum grammar {
	GRAMMAR_GOOD,
	GRAMMAR_BAD,
	GRAMMAR_DEEP,
};

struct scan {
	const char *at;
	const char *end;
};

static void scan_blanks(struct scan *scan)
{
	while (scan->at < scan->end && memchr(" \t\r\n", *scan->at, 4))
		scan->at++;
}

static bool scan_byte(struct scan *scan, char byte)
{
	if (scan->at == scan->end || *scan->at != byte)
		return false;
	scan->at++;
	return true;
}

static bool scan_word(struct scan *scan, const char *word)
{
	while (*word) {
		if (!scan_byte(scan, *word++))
			return false;
	}
	return true;
}

static bool scan_digits(struct scan *scan)
{
	const char *begin = scan->at;

	while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
		scan->at++;
	return scan->at > begin;
}

static bool scan_number(struct scan *scan)
{
	scan_byte(scan, '-');
	if (!scan_byte(scan, '0') && !scan_digits(scan))
		return false;
	if (scan_byte(scan, '.') && !scan_digits(scan))
		return false;
	if (!scan_byte(scan, 'e') && !scan_byte(scan, 'E'))
		return true;
	if (!scan_byte(scan, '+'))
		scan_byte(scan, '-');
	return scan_digits(scan);
}

static int scan_hex4(struct scan *scan)
{
	static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
	int value = 0;

	for (int i = 0; i < 4; i++) {
		const char *found = scan->at < scan->end ? memchr(digits, *scan->at, 32) : NULL;

		if (!found)
			return -1;
		value = value * 16 + (int)(found - digits) / 2;
		scan->at++;
	}
	return value;
}

static bool scan_escape(struct scan *scan)
{
	int unit;

	if (scan->at == scan->end)
		return false;
	if (*scan->at != 'u')
		return memchr("\"\\/bfnrt", *scan->at++, 8);
	scan->at++;
	unit = scan_hex4(scan);
	if (unit < 0xd800 || unit > 0xdfff)
		return unit >= 0;
	if (unit > 0xdbff || !scan_word(scan, "\\u"))
		return false;
	unit = scan_hex4(scan);
	return unit >= 0xdc00 && unit <= 0xdfff;
}

static bool scan_string(struct scan *scan)
{
	const char *begin;

	if (!scan_byte(scan, '"'))
		return false;
	begin = scan->at;
	while (scan->at < scan->end && *scan->at != '"') {
		if ((unsigned char)*scan->at < 0x20)
			return false;
		if (*scan->at++ == '\\' && !scan_escape(scan))
			return false;
	}
	return fuzz_utf8_is_valid(begin, (size_t)(scan->at - begin)) && scan_byte(scan, '"');
}

static enum grammar scan_value(struct scan *scan, unsigned depth);

static enum grammar scan_members(struct scan *scan, unsigned depth, bool is_object)
{
	enum grammar found;

	scan_blanks(scan);
	if (scan_byte(scan, is_object ? '}' : ']'))
		return GRAMMAR_GOOD;
	for (;;) {
		scan_blanks(scan);
		if (is_object) {
			if (!scan_string(scan))
				return GRAMMAR_BAD;
			scan_blanks(scan);
			if (!scan_byte(scan, ':'))
				return GRAMMAR_BAD;
		}
		found = scan_value(scan, depth);
		if (found != GRAMMAR_GOOD)
			return found;
		scan_blanks(scan);
		if (scan_byte(scan, is_object ? '}' : ']'))
			return GRAMMAR_GOOD;
		if (!scan_byte(scan, ','))
			return GRAMMAR_BAD;
	}
}

static enum grammar scan_value(struct scan *scan, unsigned depth)
{
	bool is_good;

	scan_blanks(scan);
	if (scan->at == scan->end)
		return GRAMMAR_BAD;
	switch (*scan->at) {
	case '{':
	case '[':
		if (depth == DEPTH_MAX)
			return GRAMMAR_DEEP;
		return scan_members(scan, depth + 1, *scan->at++ == '{');
	case '"':
		is_good = scan_string(scan);
		break;
	case 't':
		is_good = scan_word(scan, "true");
		break;
	case 'f':
		is_good = scan_word(scan, "false");
		break;
	case 'n':
		is_good = scan_word(scan, "null");
		break;
	default:
		is_good = scan_number(scan);
	}
	return is_good ? GRAMMAR_GOOD : GRAMMAR_BAD;
}

static enum grammar scan_text(const char *text, size_t size)
{
	struct scan scan = { .at = text, .end = text + size };
	enum grammar found = scan_value(&scan, 0);

	scan_blanks(&scan);
	return found == GRAMMAR_GOOD && scan.at != scan.end ? GRAMMAR_BAD : found;
}

/* ---- reading with everything looked at --------------------------------------------------- */

struct key {
	char *string;
	size_t length;
};

struct walk {
	struct rsum_json json;
	const char *original;
	size_t size;
	struct fuzz_text written;
	struct key *keys; /* of the objects now open; at most one for every 3 bytes */
	size_t key_count;
	bool compares; /* json-c can be expected to have read the same */
	bool has_nul_in_key;
	bool has_deviation;
};

static bool key_equals(const struct key *key, const char *string, size_t length)
{
	return key->length == length && memcmp(key->string, string, length) == 0;
}

static bool key_is_there(const struct walk *walk, size_t first, const char *string, size_t length)
{
	for (size_t i = first; i < walk->key_count; i++) {
		if (key_equals(&walk->keys[i], string, length))
			return true;
	}
	return false;
}

/* A key that was refused as a duplicate stands in its object already. */
static void check_duplicate(const struct walk *walk, size_t first)
{
	size_t offset = walk->json.error_offset;
	struct scan scan = { walk->original + offset, walk->original + walk->size };
	struct rsum_json_token token;
	struct rsum_json json;
	char *copy;
	size_t length;

	FUZZ_CHECK(offset < walk->size && scan_string(&scan));
	length = (size_t)(scan.at - walk->original) - offset;
	copy = fuzz_copy(walk->original + offset, length);
	FUZZ_CHECK(rsum_json_init(&json, copy, length, 1) == 0);
	FUZZ_CHECK(rsum_json_next(&json, &token) == 0 && token.type == RSUM_JSON_STRING);
	FUZZ_CHECK(key_is_there(walk, first, token.string, token.length));
	rsum_json_deinit(&json);
	free(copy);
}

static int next(struct walk *walk, struct rsum_json_token *token)
{
	int ret = rsum_json_next(&walk->json, token);

	if (ret)
		return ret;
	FUZZ_CHECK(token->offset <= walk->size && walk->json.position <= walk->size);
	if (token->type == RSUM_JSON_STRING || token->type == RSUM_JSON_KEY) {
		FUZZ_CHECK(token->string > walk->json.text);
		FUZZ_CHECK(token->string + token->length < walk->json.text + walk->size);
		FUZZ_CHECK(token->string[token->length] == '\0');
		FUZZ_CHECK(fuzz_utf8_is_valid(token->string, token->length));
		FUZZ_CHECK(rsum_utf8_is_valid(token->string, token->length));
	}
	return 0;
}

/*
 * What json-c is known not to read as it stands: integers beyond 64 bits are clamped, and -0 is 0.
 * A key ends at its first NUL. Everything else has to be the same.
 */
static bool is_beyond_json_c(const struct rsum_json_token *token)
{
	return token->is_negative ? token->magnitude > UINT64_C(1) << 63 : false;
}

static void compare_number(struct walk *walk, const struct rsum_json_token *token,
			   struct json_object *theirs, const char *text, size_t length)
{
	double real;

	if (memchr(text, '.', length) || memchr(text, 'e', length) || memchr(text, 'E', length)) {
		FUZZ_CHECK(!token->is_integer && json_object_is_type(theirs, json_type_double));
		real = json_object_get_double(theirs);
		FUZZ_CHECK_TEXT(memcmp(&real, &token->real, sizeof(real)) == 0, walk->original);
		return;
	}
	FUZZ_CHECK(json_object_is_type(theirs, json_type_int));
	if (!token->is_integer || is_beyond_json_c(token)) {
		walk->has_deviation = true;
		return;
	}
	if (token->is_negative)
		FUZZ_CHECK((uint64_t)json_object_get_int64(theirs) == -token->magnitude);
	else
		FUZZ_CHECK(json_object_get_uint64(theirs) == token->magnitude);
}

static void visit_number(struct walk *walk, const struct rsum_json_token *token,
			 struct json_object *theirs)
{
	const char *text = walk->original + token->offset;
	struct scan scan = { text, walk->original + walk->size };
	size_t length;

	FUZZ_CHECK(scan_number(&scan));
	length = (size_t)(scan.at - text);
	FUZZ_CHECK(token->offset + length == walk->json.position);
	FUZZ_CHECK(token->is_negative == (*text == '-'));
	FUZZ_CHECK(token->real == token->real);
	fuzz_text_add(&walk->written, text, length);
	if (walk->compares)
		compare_number(walk, token, theirs, text, length);
}

static void visit_string(struct walk *walk, const struct rsum_json_token *token,
			 struct json_object *theirs)
{
	fuzz_text_add_string(&walk->written, token->string, token->length);
	if (!walk->compares)
		return;
	FUZZ_CHECK(json_object_is_type(theirs, json_type_string));
	FUZZ_CHECK((size_t)json_object_get_string_len(theirs) == token->length);
	FUZZ_CHECK(memcmp(json_object_get_string(theirs), token->string, token->length) == 0);
}

static int visit_value(struct walk *walk, const struct rsum_json_token *token,
		       struct json_object *theirs);

static int visit_array(struct walk *walk, struct json_object *theirs)
{
	struct rsum_json_token token;
	struct json_object *element = NULL;
	size_t count;
	int ret;

	FUZZ_CHECK(!walk->compares || json_object_is_type(theirs, json_type_array));
	fuzz_text_add(&walk->written, "[", 1);
	for (count = 0;; count++) {
		ret = next(walk, &token);
		if (ret)
			return ret;
		if (token.type == RSUM_JSON_ARRAY_END)
			break;
		if (count)
			fuzz_text_add(&walk->written, ",", 1);
		if (walk->compares)
			element = json_object_array_get_idx(theirs, count);
		ret = visit_value(walk, &token, element);
		if (ret)
			return ret;
	}
	FUZZ_CHECK(!walk->compares || json_object_array_length(theirs) == count);
	fuzz_text_add(&walk->written, "]", 1);
	return 0;
}

static int visit_member(struct walk *walk, const struct rsum_json_token *key, size_t first,
			struct json_object *theirs)
{
	struct rsum_json_token token;
	struct json_object *value = NULL;
	int ret;

	FUZZ_CHECK(key->type == RSUM_JSON_KEY);
	FUZZ_CHECK(!key_is_there(walk, first, key->string, key->length));
	walk->has_nul_in_key |= memchr(key->string, '\0', key->length) != NULL;
	walk->keys[walk->key_count++] = (struct key){ key->string, key->length };
	fuzz_text_add_string(&walk->written, key->string, key->length);
	fuzz_text_add(&walk->written, ":", 1);
	if (walk->compares)
		FUZZ_CHECK(json_object_object_get_ex(theirs, key->string, &value));
	ret = next(walk, &token);
	return ret ? ret : visit_value(walk, &token, value);
}

static int visit_object(struct walk *walk, struct json_object *theirs)
{
	struct rsum_json_token key;
	size_t first = walk->key_count;
	int ret;

	FUZZ_CHECK(!walk->compares || json_object_is_type(theirs, json_type_object));
	fuzz_text_add(&walk->written, "{", 1);
	for (;;) {
		ret = next(walk, &key);
		if (ret) {
			if (strncmp(walk->json.reason, "duplicate key", 13) == 0 &&
			    walk->json.depth && walk->keys)
				check_duplicate(walk, first);
			walk->keys = NULL; /* outer objects have no say in it */
			return ret;
		}
		if (key.type == RSUM_JSON_OBJECT_END)
			break;
		if (walk->key_count > first)
			fuzz_text_add(&walk->written, ",", 1);
		ret = visit_member(walk, &key, first, theirs);
		if (ret)
			return ret;
	}
	if (walk->compares)
		FUZZ_CHECK((size_t)json_object_object_length(theirs) == walk->key_count - first);
	walk->key_count = first;
	fuzz_text_add(&walk->written, "}", 1);
	return 0;
}

static int visit_value(struct walk *walk, const struct rsum_json_token *token,
		       struct json_object *theirs)
{
	switch (token->type) {
	case RSUM_JSON_OBJECT_BEGIN:
		return visit_object(walk, theirs);
	case RSUM_JSON_ARRAY_BEGIN:
		return visit_array(walk, theirs);
	case RSUM_JSON_STRING:
		visit_string(walk, token, theirs);
		return 0;
	case RSUM_JSON_NUMBER:
		visit_number(walk, token, theirs);
		return 0;
	case RSUM_JSON_TRUE:
	case RSUM_JSON_FALSE:
		if (walk->compares)
			FUZZ_CHECK(json_object_is_type(theirs, json_type_boolean) &&
				   json_object_get_boolean(theirs) ==
					   (token->type == RSUM_JSON_TRUE));
		fuzz_text_printf(&walk->written, "%s", rsum_json_type_text(token->type));
		return 0;
	default:
		FUZZ_CHECK(token->type == RSUM_JSON_NULL);
		FUZZ_CHECK(!walk->compares || theirs == NULL);
		fuzz_text_add(&walk->written, "null", 4);
		return 0;
	}
}

/* Reads all of a text. With `compares`, `theirs` is what json-c made of it. */
static int walk_text(struct walk *walk, const char *text, size_t size, struct json_object *theirs)
{
	struct rsum_json_token token = { 0 };
	char *copy = fuzz_copy(text, size);
	struct key *keys = fuzz_alloc((size / 3 + 1) * sizeof(*keys));
	int ret;

	walk->original = text;
	walk->size = size;
	walk->keys = keys;
	FUZZ_CHECK(rsum_json_init(&walk->json, copy, size, DEPTH_MAX) == 0);
	ret = next(walk, &token);
	if (!ret)
		ret = visit_value(walk, &token, theirs);
	if (!ret)
		ret = next(walk, &token);
	for (int i = 0; i < 2; i++) {
		if (ret)
			FUZZ_CHECK(rsum_json_next(&walk->json, &token) == ret);
		else
			FUZZ_CHECK(token.type == RSUM_JSON_END && next(walk, &token) == 0);
	}
	if (ret) {
		fuzz_check_line(walk->json.reason);
		FUZZ_CHECK(fuzz_utf8_is_valid(walk->json.reason, strlen(walk->json.reason)));
		FUZZ_CHECK(walk->json.error_offset <= size);
	}
	rsum_json_deinit(&walk->json);
	free(keys);
	free(copy);
	return ret;
}

/* ---- properties -------------------------------------------------------------------------- */

/* Skipping refuses the same texts at the same place for the same reason. */
static void check_skip(const char *text, size_t size, int expected, const struct rsum_json *read)
{
	struct rsum_json_token token;
	char *copy = fuzz_copy(text, size);
	struct rsum_json json;
	int ret;

	FUZZ_CHECK(rsum_json_init(&json, copy, size, DEPTH_MAX) == 0);
	ret = rsum_json_next(&json, &token);
	if (!ret)
		ret = rsum_json_skip(&json, &token);
	if (!ret)
		ret = rsum_json_next(&json, &token);
	FUZZ_CHECK(ret == expected);
	FUZZ_CHECK(!ret || json.error_offset == read->error_offset);
	FUZZ_CHECK(!ret || strcmp(json.reason, read->reason) == 0);
	rsum_json_deinit(&json);
	free(copy);
}

static void check_grammar(const char *text, size_t size, int ret, const char *reason)
{
	enum grammar grammar = scan_text(text, size);

	switch (ret) {
	case 0:
		FUZZ_CHECK(grammar == GRAMMAR_GOOD);
		return;
	case RINGSUM_E_LIMIT:
		FUZZ_CHECK_TEXT(grammar == GRAMMAR_DEEP, reason);
		return;
	default:
		FUZZ_CHECK(ret == RINGSUM_E_REFUSED);
		if (strncmp(reason, "duplicate key", 13) != 0)
			FUZZ_CHECK_TEXT(grammar == GRAMMAR_BAD, reason);
	}
}

static void check_written(const struct fuzz_text *written)
{
	struct walk again = { 0 };

	FUZZ_CHECK(walk_text(&again, written->data, written->used_bytes, NULL) == 0);
	FUZZ_CHECK(again.written.used_bytes == written->used_bytes);
	FUZZ_CHECK(memcmp(again.written.data, written->data, written->used_bytes) == 0);
	fuzz_text_deinit(&again.written);
}

static void check_json_c(const char *text, size_t size)
{
	struct json_object *theirs = NULL;
	struct walk walk = { .compares = true };
	bool is_read = fuzz_json_c_parse(text, size, 2 * DEPTH_MAX, &theirs);

	FUZZ_CHECK_TEXT(is_read, "json-c refuses what we accept");
	FUZZ_CHECK(walk_text(&walk, text, size, theirs) == 0);
	fuzz_text_deinit(&walk.written);
	json_object_put(theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct walk walk = { 0 };
	int ret = walk_text(&walk, text, size, NULL);

	check_grammar(text, size, ret, walk.json.reason);
	check_skip(text, size, ret, &walk.json);
	if (!ret) {
		check_written(&walk.written);
		if (!walk.has_nul_in_key)
			check_json_c(text, size);
	}
	fuzz_text_deinit(&walk.written);
	return 0;
}
