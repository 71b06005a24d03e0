/* SPDX-License-Identifier: Apache-2.0 */
/* Plain and slow: tensors are put in order by looking for the next one again and again. */
#include "second_header.h"

#include <json-c/json.h>
#include <string.h>

#include "dtype.h"
#include "rsum_limits.h"

#define TENSORS_MAX 4096
#define LENGTH_BYTES 8

struct span {
	uint64_t begin;
	uint64_t end;
	bool is_placed;
};

static struct json_object *get(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return value;
}

static bool is_unsigned(struct json_object *value)
{
	return json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= 0;
}

static bool has_nul(struct json_object *string)
{
	return strlen(json_object_get_string(string)) != (size_t)json_object_get_string_len(string);
}

static bool metadata_is_sound(struct json_object *metadata)
{
	if (!metadata) /* null */
		return true;
	if (!json_object_is_type(metadata, json_type_object))
		return false;
	json_object_object_foreach(metadata, key, value)
	{
		(void)key;
		if (!json_object_is_type(value, json_type_string) || has_nul(value))
			return false;
	}
	return true;
}

static bool read_span(struct json_object *offsets, struct span *span)
{
	if (!json_object_is_type(offsets, json_type_array) ||
	    json_object_array_length(offsets) != 2 ||
	    !is_unsigned(json_object_array_get_idx(offsets, 0)) ||
	    !is_unsigned(json_object_array_get_idx(offsets, 1)))
		return false;
	span->begin = json_object_get_uint64(json_object_array_get_idx(offsets, 0));
	span->end = json_object_get_uint64(json_object_array_get_idx(offsets, 1));
	span->is_placed = false;
	return span->begin <= span->end;
}

static bool tensor_is_sound(struct json_object *tensor, struct span *span)
{
	struct json_object *dtype_name, *shape;
	uint64_t dimensions[RSUM_LIMIT_RANK], bytes;
	enum ringsum_dtype dtype;
	size_t rank;

	if (!json_object_is_type(tensor, json_type_object))
		return false;
	dtype_name = get(tensor, "dtype");
	if (!json_object_is_type(dtype_name, json_type_string) || has_nul(dtype_name) ||
	    !rsum_dtype_from_name(json_object_get_string(dtype_name), &dtype))
		return false;
	shape = get(tensor, "shape");
	if (!json_object_is_type(shape, json_type_array))
		return false;
	rank = json_object_array_length(shape);
	if (rank > RSUM_LIMIT_RANK)
		return false;
	for (size_t i = 0; i < rank; i++) {
		if (!is_unsigned(json_object_array_get_idx(shape, i)))
			return false;
		dimensions[i] = json_object_get_uint64(json_object_array_get_idx(shape, i));
	}
	return read_span(get(tensor, "data_offsets"), span) &&
	       fuzz_shape_bytes(dtype, dimensions, (unsigned)rank, &bytes) &&
	       bytes == span->end - span->begin;
}

/* The next one begins where the last one ended; an empty one comes before one that is not. */
static bool spans_tile(struct span *spans, size_t count, uint64_t *end_out)
{
	uint64_t position = 0;

	for (size_t placed = 0; placed < count; placed++) {
		struct span *next = NULL;

		for (size_t i = 0; i < count; i++) {
			if (!spans[i].is_placed && spans[i].begin == position &&
			    (!next || spans[i].end < next->end))
				next = &spans[i];
		}
		if (!next)
			return false;
		next->is_placed = true;
		position = next->end;
	}
	*end_out = position;
	return true;
}

bool fuzz_header_is_sound(struct json_object *root, uint64_t header_bytes, uint64_t *data_bytes_out)
{
	static struct span spans[TENSORS_MAX];
	size_t count = 0;

	if (!json_object_is_type(root, json_type_object))
		return false;
	json_object_object_foreach(root, name, tensor)
	{
		if (strcmp(name, "__metadata__") == 0) {
			if (!metadata_is_sound(tensor))
				return false;
			continue;
		}
		FUZZ_CHECK(count < TENSORS_MAX);
		if (strlen(name) > RSUM_LIMIT_NAME_BYTES || !tensor_is_sound(tensor, &spans[count]))
			return false;
		count++;
	}
	return spans_tile(spans, count, data_bytes_out) &&
	       *data_bytes_out <= RSUM_LIMIT_FILE_OFFSET - LENGTH_BYTES - header_bytes;
}
