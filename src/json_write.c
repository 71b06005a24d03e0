/* SPDX-License-Identifier: Apache-2.0 */
/* Members, objects and strings of JSON through json-c. */
#include "json_write.h"

#include <json-c/json.h>
#include <string.h>

#include "json.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

struct rsum_json_object rsum_json_object_new(void)
{
	struct json_object *json = json_object_new_object();

	return (struct rsum_json_object){ .json = json, .has_failed = !json };
}

/* Takes `value` over; NULL is the JSON null. */
static void put_member(struct rsum_json_object *object, const char *key, struct json_object *value)
{
	if (object->has_failed || json_object_object_add(object->json, key, value)) {
		object->has_failed = true;
		json_object_put(value);
	}
}

/* Takes `value` over; NULL says that it could not be made. */
static void put_value(struct rsum_json_object *object, const char *key, struct json_object *value)
{
	if (value)
		put_member(object, key, value);
	else
		object->has_failed = true;
}

static struct json_object *new_string(const char *text)
{
	size_t length = strlen(text);

	return length < INT32_MAX ? json_object_new_string_len(text, (int)length) : NULL;
}

/* Bytes of the well-formed character at `text`, or 0. */
static size_t character_bytes(const char *text, size_t size_bytes)
{
	size_t length;

	for (length = 1; length <= RSUM_MIN(size_bytes, (size_t)4); length++) {
		if (rsum_utf8_is_valid(text, length))
			return length;
	}
	return 0;
}

/* A copy with U+FFFD for each byte that is no UTF-8, or NULL where memory ran out. */
static char *repair_text(const char *text)
{
	struct rsum_text repaired = { 0 };
	size_t left = strlen(text);
	char *result;

	while (left > 0) {
		size_t length = character_bytes(text, left);

		if (length)
			rsum_text_append(&repaired, text, length);
		else
			rsum_text_append(&repaired, REPLACEMENT, sizeof(REPLACEMENT) - 1);
		length = RSUM_MAX(length, (size_t)1);
		text += length;
		left -= length;
	}
	return rsum_text_finish(&repaired, &result) ? NULL : result;
}

static void put_hex(struct rsum_json_object *object, const char *key, const char *text)
{
	struct rsum_text hex = { 0 };
	char hex_key[64], *result;

	for (; *text; text++)
		rsum_text_printf(&hex, "%02x", (unsigned)(uint8_t)*text);
	if (rsum_text_finish(&hex, &result)) {
		object->has_failed = true;
		return;
	}
	snprintf(hex_key, sizeof(hex_key), "%s_hex", key);
	put_value(object, hex_key, new_string(result));
	free(result);
}

void rsum_json_put_text(struct rsum_json_object *object, const char *key, const char *text)
{
	char *repaired;

	if (!text) {
		rsum_json_put_null(object, key);
		return;
	}
	if (rsum_utf8_is_valid(text, strlen(text))) {
		put_value(object, key, new_string(text));
		return;
	}
	repaired = repair_text(text);
	put_value(object, key, repaired ? new_string(repaired) : NULL);
	free(repaired);
	put_hex(object, key, text);
}

void rsum_json_put_count(struct rsum_json_object *object, const char *key, uint64_t count)
{
	put_value(object, key, json_object_new_uint64(count));
}

void rsum_json_put_bool(struct rsum_json_object *object, const char *key, bool value)
{
	put_value(object, key, json_object_new_boolean(value));
}

void rsum_json_put_null(struct rsum_json_object *object, const char *key)
{
	put_member(object, key, NULL);
}

void rsum_json_put_counts(struct rsum_json_object *object, const char *key, const uint64_t *counts,
			  size_t count)
{
	struct json_object *array = json_object_new_array();
	size_t i;

	for (i = 0; array && i < count; i++) {
		struct json_object *number = json_object_new_uint64(counts[i]);

		if (number && !json_object_array_add(array, number))
			continue;
		json_object_put(number);
		json_object_put(array);
		array = NULL;
	}
	put_value(object, key, array);
}

/* ---- completeness ------------------------------------------------------------------------- */

/*
 * json-c does not tell when its output buffer could not grow and then leaves pieces out, and its
 * parser does not survive want of memory. So the length that a value has to come to is added up
 * here, without memory, and compared.
 */
static size_t string_length(const char *string, size_t size_bytes)
{
	size_t length = 2, i;

	for (i = 0; i < size_bytes; i++) {
		unsigned char byte = (unsigned char)string[i];

		if (byte && strchr("\b\t\n\f\r\"\\", byte))
			length += 2;
		else
			length += byte < ' ' ? strlen("\\u0000") : 1;
	}
	return length;
}

static size_t number_length(struct json_object *value)
{
	char buffer[32];

	return (size_t)snprintf(buffer, sizeof(buffer), "%llu",
				(unsigned long long)json_object_get_uint64(value));
}

static size_t value_length(struct json_object *value);

static size_t array_length(struct json_object *array)
{
	size_t count = json_object_array_length(array), length = 2, i;

	for (i = 0; i < count; i++)
		length += (i > 0) + value_length(json_object_array_get_idx(array, i));
	return length;
}

static size_t object_length(struct json_object *object)
{
	size_t length = 2;

	json_object_object_foreach(object, key, value)
	{
		length += length > 2; /* the comma */
		length += string_length(key, strlen(key)) + 1 + value_length(value);
	}
	return length;
}

static size_t value_length(struct json_object *value)
{
	switch (json_object_get_type(value)) {
	case json_type_null:
		return strlen("null");
	case json_type_boolean:
		return json_object_get_boolean(value) ? strlen("true") : strlen("false");
	case json_type_string:
		return string_length(json_object_get_string(value),
				     (size_t)json_object_get_string_len(value));
	case json_type_array:
		return array_length(value);
	case json_type_object:
		return object_length(value);
	default:
		return number_length(value);
	}
}

/* ---- appending ---------------------------------------------------------------------------- */

static void append_value(struct rsum_text *text, struct json_object *value, size_t omitted_bytes)
{
	const char *written;
	size_t length = 0;

	written = json_object_to_json_string_length(
		value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
	if (written && length == value_length(value))
		rsum_text_append(text, written, length - omitted_bytes);
	else
		text->has_failed = true;
	json_object_put(value);
}

static void append_object(struct rsum_text *text, struct rsum_json_object *object,
			  size_t omitted_bytes)
{
	if (object->has_failed) {
		text->has_failed = true;
		json_object_put(object->json);
	} else {
		append_value(text, object->json, omitted_bytes);
	}
	object->json = NULL;
	object->has_failed = true; /* nothing more can be put in */
}

void rsum_json_append(struct rsum_text *text, struct rsum_json_object *object)
{
	append_object(text, object, 0);
}

void rsum_json_append_without_end(struct rsum_text *text, struct rsum_json_object *object)
{
	append_object(text, object, 1);
}

void rsum_json_append_string(struct rsum_text *text, const char *string)
{
	struct json_object *value;
	char *repaired = repair_text(string);

	value = repaired ? new_string(repaired) : NULL;
	free(repaired);
	if (value)
		append_value(text, value, 0);
	else
		text->has_failed = true;
}

void rsum_json_write_versions(const char **built_out, const char **running_out)
{
	*built_out = JSON_C_VERSION;
	*running_out = json_c_version();
}
