/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader: what may come next, and the containers now open. Strings and numbers are read
 * by json_scalar.c, keys are compared by json_keys.c. Knows nothing of what documents mean.
 */
#include "json.h"

#include <stdarg.h>
#include <string.h>

#include "json_parts.h"
#include "ringsum.h"

RSUM_PRINTF(4, 0)
static void stop(struct rsum_json *json, int code, size_t offset, const char *format, va_list args)
{
	json->state = RSUM_JSON_STATE_FAILED + (unsigned)-code;
	json->error_offset = offset;
	vsnprintf(json->reason, sizeof(json->reason), format, args);
}

int rsum_json_stop(struct rsum_json *json, int code, size_t offset, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	stop(json, code, offset, format, args);
	va_end(args);
	return code;
}

int rsum_json_refuse(struct rsum_json *json, size_t offset, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	stop(json, RINGSUM_E_REFUSED, offset, format, args);
	va_end(args);
	return RINGSUM_E_REFUSED;
}

int rsum_json_refuse_found(struct rsum_json *json, const char *expected)
{
	size_t left = json->size_bytes - json->position;
	const char *at;
	unsigned byte;

	if (!left)
		return rsum_json_refuse(json, json->position, "the text ends where %s is expected",
					expected);
	at = json->text + json->position;
	byte = (unsigned char)*at;
	if (left >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		return rsum_json_refuse(json, json->position,
					"a byte order mark (BOM) where %s is expected", expected);
	if (left >= 3 && memcmp(at, "NaN", 3) == 0)
		return rsum_json_refuse(json, json->position, "NaN where %s is expected", expected);
	if (byte > 0x20 && byte < 0x7f)
		return rsum_json_refuse(json, json->position, "'%c' where %s is expected", *at,
					expected);
	return rsum_json_refuse(json, json->position, "byte 0x%02x where %s is expected", byte,
				expected);
}

static void skip_blanks(struct rsum_json *json)
{
	const char *text = json->text;
	size_t at = json->position;

	while (at < json->size_bytes &&
	       (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
		at++;
	json->position = at;
}

/* The byte at the position; NUL, which nothing expects, at the end of the text. */
static char peek(const struct rsum_json *json)
{
	return json->position < json->size_bytes ? json->text[json->position] : '\0';
}

static int read_literal(struct rsum_json *json, struct rsum_json_token *token, const char *word,
			enum rsum_json_type type)
{
	size_t length = strlen(word);

	if (json->size_bytes - json->position < length ||
	    memcmp(json->text + json->position, word, length) != 0)
		return rsum_json_refuse_found(json, "a value");
	token->type = type;
	json->position += length;
	json->state = RSUM_JSON_STATE_AFTER_VALUE;
	return 0;
}

static int open_container(struct rsum_json *json, struct rsum_json_token *token, bool is_object)
{
	struct rsum_json_scope *scope;

	if (json->depth == json->depth_max)
		return rsum_json_stop(json, RINGSUM_E_LIMIT, json->position,
				      "nested deeper than %u, which is the limit", json->depth_max);
	scope = &json->scopes[json->depth++];
	rsum_json_keys_enter(json, scope);
	scope->is_object = is_object;
	token->type = is_object ? RSUM_JSON_OBJECT_BEGIN : RSUM_JSON_ARRAY_BEGIN;
	json->state = is_object ? RSUM_JSON_STATE_OBJECT_BEGUN : RSUM_JSON_STATE_ARRAY_BEGUN;
	json->position++;
	return 0;
}

static int close_container(struct rsum_json *json, struct rsum_json_token *token)
{
	bool is_object = json->scopes[json->depth - 1].is_object;

	rsum_json_keys_leave(json);
	token->type = is_object ? RSUM_JSON_OBJECT_END : RSUM_JSON_ARRAY_END;
	json->depth--;
	json->state = RSUM_JSON_STATE_AFTER_VALUE;
	json->position++;
	return 0;
}

static int read_value(struct rsum_json *json, struct rsum_json_token *token, bool want_real)
{
	char c = peek(json);

	switch (c) {
	case '"':
		token->type = RSUM_JSON_STRING;
		json->state = RSUM_JSON_STATE_AFTER_VALUE;
		return rsum_json_read_string(json, token);
	case '{':
	case '[':
		return open_container(json, token, c == '{');
	case 't':
		return read_literal(json, token, "true", RSUM_JSON_TRUE);
	case 'f':
		return read_literal(json, token, "false", RSUM_JSON_FALSE);
	case 'n':
		return read_literal(json, token, "null", RSUM_JSON_NULL);
	default:
		if (c == '-' || (c >= '0' && c <= '9'))
			return rsum_json_read_number(json, token, want_real);
		return rsum_json_refuse_found(json, "a value");
	}
}

static int read_key(struct rsum_json *json, struct rsum_json_token *token)
{
	int ret;

	if (peek(json) != '"')
		return rsum_json_refuse_found(json, "a key in double quotes");
	token->type = RSUM_JSON_KEY;
	ret = rsum_json_read_string(json, token);
	if (!ret)
		ret = rsum_json_keys_add(json, token);
	if (ret)
		return ret;
	skip_blanks(json);
	if (peek(json) != ':')
		return rsum_json_refuse_found(json, "a colon");
	json->position++;
	json->state = RSUM_JSON_STATE_VALUE;
	return 0;
}

/* After a value: the end of the text, or of the container, or what a comma announces. */
static int read_after_value(struct rsum_json *json, struct rsum_json_token *token, bool want_real)
{
	bool is_object;
	char c = peek(json);

	if (!json->depth) {
		if (json->position != json->size_bytes)
			return rsum_json_refuse_found(json, "the end of the text");
		token->type = RSUM_JSON_END;
		json->state = RSUM_JSON_STATE_COMPLETE;
		return 0;
	}
	is_object = json->scopes[json->depth - 1].is_object;
	if (c == (is_object ? '}' : ']'))
		return close_container(json, token);
	if (c != ',')
		return rsum_json_refuse_found(json, is_object ? "a comma or }" : "a comma or ]");
	json->position++;
	skip_blanks(json);
	token->offset = json->position;
	return is_object ? read_key(json, token) : read_value(json, token, want_real);
}

static int read_token(struct rsum_json *json, struct rsum_json_token *token, bool want_real)
{
	skip_blanks(json);
	*token = (struct rsum_json_token){ .offset = json->position };
	switch (json->state) {
	case RSUM_JSON_STATE_VALUE:
		return read_value(json, token, want_real);
	case RSUM_JSON_STATE_ARRAY_BEGUN:
		if (peek(json) == ']')
			return close_container(json, token);
		return read_value(json, token, want_real);
	case RSUM_JSON_STATE_OBJECT_BEGUN:
		if (peek(json) == '}')
			return close_container(json, token);
		return read_key(json, token);
	case RSUM_JSON_STATE_AFTER_VALUE:
		return read_after_value(json, token, want_real);
	case RSUM_JSON_STATE_COMPLETE:
		token->type = RSUM_JSON_END;
		return 0;
	default:
		return -(int)(json->state - RSUM_JSON_STATE_FAILED);
	}
}

int rsum_json_init(struct rsum_json *json, char *text, size_t size_bytes, unsigned depth_max)
{
	RSUM_ASSERT(size_bytes <= UINT32_MAX);
	*json = (struct rsum_json){
		.text = text,
		.size_bytes = size_bytes,
		.depth_max = depth_max,
		.state = RSUM_JSON_STATE_VALUE,
		.scopes = calloc((size_t)depth_max + 1, sizeof(*json->scopes)),
		.keys = rsum_json_keys_new(),
	};
	if (!json->scopes || !json->keys) {
		rsum_json_deinit(json);
		return rsum_json_stop(json, RINGSUM_E_NOMEM, 0, "out of memory");
	}
	return 0;
}

int rsum_json_next(struct rsum_json *json, struct rsum_json_token *token_out)
{
	return read_token(json, token_out, true);
}

int rsum_json_skip(struct rsum_json *json, const struct rsum_json_token *first)
{
	struct rsum_json_token token;
	unsigned depth = json->depth;
	int ret = 0;

	if (first->type != RSUM_JSON_OBJECT_BEGIN && first->type != RSUM_JSON_ARRAY_BEGIN)
		return 0;
	while (!ret && json->depth >= depth)
		ret = read_token(json, &token, false);
	return ret;
}

bool rsum_json_equals(const struct rsum_json_token *token, const char *text)
{
	return (token->type == RSUM_JSON_KEY || token->type == RSUM_JSON_STRING) &&
	       token->length == strlen(text) && memcmp(token->string, text, token->length) == 0;
}

const char *rsum_json_type_text(enum rsum_json_type type)
{
	static const char *const texts[] = {
		[RSUM_JSON_OBJECT_BEGIN] = "an object",
		[RSUM_JSON_OBJECT_END] = "the end of an object",
		[RSUM_JSON_ARRAY_BEGIN] = "an array",
		[RSUM_JSON_ARRAY_END] = "the end of an array",
		[RSUM_JSON_KEY] = "a key",
		[RSUM_JSON_STRING] = "a string",
		[RSUM_JSON_NUMBER] = "a number",
		[RSUM_JSON_TRUE] = "true",
		[RSUM_JSON_FALSE] = "false",
		[RSUM_JSON_NULL] = "null",
		[RSUM_JSON_END] = "the end of the text",
	};

	return texts[type];
}

void rsum_json_deinit(struct rsum_json *json)
{
	rsum_json_keys_free(json->keys);
	free(json->scopes);
	json->keys = NULL;
	json->scopes = NULL;
}
