/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header's JSON into a table: what each tensor says, checked for its form and nothing else.
 * Offsets stay as they are written, relative to the data.
 */
#include <string.h>

#include "dtype.h"
#include "json.h"
#include "rsum_limits.h"
#include "safetensors_parts.h"

struct parser {
	struct rsum_json json;
	struct rsum_safetensors *out;
	struct rsum_refusal *refusal;
	size_t tensor_capacity;
	size_t dimension_capacity;
	size_t metadata_capacity;
};

/* What one tensor's object has said so far. */
struct tensor_members {
	bool has_dtype;
	bool has_shape;
	bool has_offsets;
};

#define refuse(parser, ...) \
	rsum_refusal_set((parser)->refusal, RINGSUM_FINDING_HEADER_INVALID, __VA_ARGS__)

/* The reader's refusal as the header's. */
static int refuse_json(struct parser *parser, int code)
{
	const struct rsum_json *json = &parser->json;
	size_t nul_count = 0;

	if (code == RINGSUM_E_NOMEM)
		return code;
	while (!json->depth && json->error_offset + nul_count < json->size_bytes &&
	       !json->text[json->error_offset + nul_count])
		nul_count++;
	if (nul_count && json->error_offset + nul_count == json->size_bytes)
		return refuse(parser, "%zu NUL byte%s %s the header's JSON; only blanks may pad it",
			      nul_count, nul_count == 1 ? "" : "s",
			      json->error_offset ? "after" : "in place of");
	return refuse(parser, "byte %zu of the header's JSON: %s", json->error_offset,
		      json->reason);
}

static int next(struct parser *parser, struct rsum_json_token *token)
{
	int ret = rsum_json_next(&parser->json, token);

	return ret ? refuse_json(parser, ret) : 0;
}

/* Keys and values that we keep become C strings, so they must not hold NUL. */
static int check_string(struct parser *parser, const struct rsum_json_token *token)
{
	char shown[RSUM_SHOWN_NAME_BYTES];

	if (!memchr(token->string, '\0', token->length))
		return 0;
	return refuse(parser, "byte %zu of the header's JSON: a NUL character in %s %s",
		      token->offset, rsum_json_type_text(token->type),
		      rsum_safetensors_show(token->string, shown));
}

/* The array with room for one more element, or NULL. */
static void *make_room(void *array, size_t count, size_t *capacity, size_t element_bytes)
{
	size_t grown = RSUM_MAX(*capacity + *capacity / 2, 64);

	if (count < *capacity)
		return array;
	array = realloc(array, grown * element_bytes);
	if (array)
		*capacity = grown;
	return array;
}

/* What a member holds instead, for a person. */
static const char *found_text(const struct rsum_json_token *token)
{
	if (token->type != RSUM_JSON_NUMBER)
		return rsum_json_type_text(token->type);
	if (!token->is_integer)
		return "a number that is no integer of 64 bits";
	return token->is_negative ? "a negative number" : "a number";
}

static int refuse_member(struct parser *parser, const char *name, const char *member,
			 const char *expected, const struct rsum_json_token *token)
{
	char shown[RSUM_SHOWN_NAME_BYTES];

	return refuse(parser, "tensor %s: %s where %s is expected in %s",
		      rsum_safetensors_show(name, shown), found_text(token), expected, member);
}

static bool is_unsigned(const struct rsum_json_token *token)
{
	return token->type == RSUM_JSON_NUMBER && token->is_integer && !token->is_negative;
}

static int read_dtype(struct parser *parser, struct rsum_safetensors_tensor *tensor)
{
	struct rsum_json_token token;
	char shown[RSUM_SHOWN_NAME_BYTES], shown_dtype[RSUM_SHOWN_NAME_BYTES];
	enum ringsum_dtype dtype;
	int ret;

	ret = next(parser, &token);
	if (ret)
		return ret;
	if (token.type != RSUM_JSON_STRING)
		return refuse_member(parser, tensor->name, "dtype", "a string", &token);
	ret = check_string(parser, &token);
	if (ret)
		return ret;
	if (!rsum_dtype_from_name(token.string, &dtype))
		return refuse(parser, "tensor %s: unknown dtype %s",
			      rsum_safetensors_show(tensor->name, shown),
			      rsum_safetensors_show(token.string, shown_dtype));
	tensor->dtype = (uint8_t)dtype;
	return 0;
}

static int add_dimension(struct parser *parser, struct rsum_safetensors_tensor *tensor,
			 uint64_t dimension)
{
	struct rsum_safetensors *out = parser->out;
	char shown[RSUM_SHOWN_NAME_BYTES];
	uint64_t *dimensions;

	if (tensor->rank == RSUM_LIMIT_RANK)
		return refuse(parser, "tensor %s: more than %d dimensions, which is the limit",
			      rsum_safetensors_show(tensor->name, shown), RSUM_LIMIT_RANK);
	if (out->dimension_count == RSUM_LIMIT_DIMENSIONS)
		return refuse(parser, "more than %d dimensions in all shapes, which is the limit",
			      RSUM_LIMIT_DIMENSIONS);
	dimensions = make_room(out->dimensions, out->dimension_count, &parser->dimension_capacity,
			       sizeof(*dimensions));
	if (!dimensions)
		return RINGSUM_E_NOMEM;
	out->dimensions = dimensions;
	dimensions[out->dimension_count++] = dimension;
	tensor->rank++;
	return 0;
}

static int read_shape(struct parser *parser, struct rsum_safetensors_tensor *tensor)
{
	struct rsum_json_token token;
	int ret;

	tensor->shape_index = (uint32_t)parser->out->dimension_count;
	ret = next(parser, &token);
	if (ret)
		return ret;
	if (token.type != RSUM_JSON_ARRAY_BEGIN)
		return refuse_member(parser, tensor->name, "shape", "an array", &token);
	for (;;) {
		ret = next(parser, &token);
		if (ret || token.type == RSUM_JSON_ARRAY_END)
			return ret;
		if (!is_unsigned(&token))
			return refuse_member(parser, tensor->name, "shape", "an unsigned integer",
					     &token);
		ret = add_dimension(parser, tensor, token.magnitude);
		if (ret)
			return ret;
	}
}

static int read_offsets(struct parser *parser, struct rsum_safetensors_tensor *tensor)
{
	uint64_t *const offsets[] = { &tensor->begin, &tensor->end };
	struct rsum_json_token token;
	int ret;

	ret = next(parser, &token);
	if (ret)
		return ret;
	if (token.type != RSUM_JSON_ARRAY_BEGIN)
		return refuse_member(parser, tensor->name, "data_offsets", "an array", &token);
	for (size_t i = 0; i < RSUM_COUNT_OF(offsets); i++) {
		ret = next(parser, &token);
		if (ret)
			return ret;
		if (!is_unsigned(&token))
			return refuse_member(parser, tensor->name, "data_offsets",
					     i ? "the second of two unsigned integers"
					       : "the first of two unsigned integers",
					     &token);
		*offsets[i] = token.magnitude;
	}
	ret = next(parser, &token);
	if (!ret && token.type != RSUM_JSON_ARRAY_END)
		ret = refuse_member(parser, tensor->name, "data_offsets",
				    "the end of exactly two numbers", &token);
	return ret;
}

static int read_member(struct parser *parser, struct rsum_safetensors_tensor *tensor,
		       const struct rsum_json_token *key, struct tensor_members *members)
{
	struct rsum_json_token token;
	int ret;

	if (rsum_json_equals(key, "dtype")) {
		members->has_dtype = true;
		return read_dtype(parser, tensor);
	}
	if (rsum_json_equals(key, "shape")) {
		members->has_shape = true;
		return read_shape(parser, tensor);
	}
	if (rsum_json_equals(key, "data_offsets")) {
		members->has_offsets = true;
		return read_offsets(parser, tensor);
	}
	ret = check_string(parser, key);
	if (!ret)
		ret = next(parser, &token);
	if (ret)
		return ret;
	ret = rsum_json_skip(&parser->json, &token);
	return ret ? refuse_json(parser, ret) : 0;
}

static int check_name(struct parser *parser, const struct rsum_json_token *key)
{
	char shown[RSUM_SHOWN_NAME_BYTES];

	if (key->length > RSUM_LIMIT_NAME_BYTES)
		return refuse(parser, "name %s has %zu bytes; the limit is %d",
			      rsum_safetensors_show(key->string, shown), key->length,
			      RSUM_LIMIT_NAME_BYTES);
	if (parser->out->tensor_count == RSUM_LIMIT_TENSORS)
		return refuse(parser, "more than %d tensors, which is the limit",
			      RSUM_LIMIT_TENSORS);
	return 0;
}

static int read_members(struct parser *parser, struct rsum_safetensors_tensor *tensor)
{
	struct tensor_members members = { 0 };
	struct rsum_json_token token;
	char shown[RSUM_SHOWN_NAME_BYTES];
	int ret;

	ret = next(parser, &token);
	if (ret)
		return ret;
	if (token.type != RSUM_JSON_OBJECT_BEGIN)
		return refuse(parser, "tensor %s: %s where an object is expected",
			      rsum_safetensors_show(tensor->name, shown),
			      rsum_json_type_text(token.type));
	for (;;) {
		ret = next(parser, &token);
		if (ret)
			return ret;
		if (token.type == RSUM_JSON_OBJECT_END)
			break;
		ret = read_member(parser, tensor, &token, &members);
		if (ret)
			return ret;
	}
	if (members.has_dtype && members.has_shape && members.has_offsets)
		return 0;
	return refuse(parser, "tensor %s has no %s", rsum_safetensors_show(tensor->name, shown),
		      !members.has_dtype   ? "dtype"
		      : !members.has_shape ? "shape"
					   : "data_offsets");
}

static int read_tensor(struct parser *parser, const struct rsum_json_token *key)
{
	struct rsum_safetensors *out = parser->out;
	struct rsum_safetensors_tensor tensor = { .name = key->string };
	struct rsum_safetensors_tensor *tensors;
	int ret;

	ret = check_name(parser, key);
	if (!ret)
		ret = read_members(parser, &tensor);
	if (ret)
		return ret;
	tensors = make_room(out->tensors, out->tensor_count, &parser->tensor_capacity,
			    sizeof(*tensors));
	if (!tensors)
		return RINGSUM_E_NOMEM;
	out->tensors = tensors;
	tensors[out->tensor_count++] = tensor;
	return 0;
}

static int read_pair(struct parser *parser, const struct rsum_json_token *key)
{
	struct rsum_safetensors *out = parser->out;
	struct rsum_safetensors_pair *pairs;
	struct rsum_json_token token;
	char shown[RSUM_SHOWN_NAME_BYTES];
	int ret;

	ret = check_string(parser, key);
	if (!ret)
		ret = next(parser, &token);
	if (ret)
		return ret;
	if (token.type != RSUM_JSON_STRING)
		return refuse(parser, "__metadata__: %s holds %s where a string is expected",
			      rsum_safetensors_show(key->string, shown),
			      rsum_json_type_text(token.type));
	ret = check_string(parser, &token);
	if (ret)
		return ret;
	if (out->metadata_count == RSUM_LIMIT_METADATA)
		return refuse(parser, "__metadata__: more than %d pairs, which is the limit",
			      RSUM_LIMIT_METADATA);
	pairs = make_room(out->metadata, out->metadata_count, &parser->metadata_capacity,
			  sizeof(*pairs));
	if (!pairs)
		return RINGSUM_E_NOMEM;
	out->metadata = pairs;
	pairs[out->metadata_count++] = (struct rsum_safetensors_pair){
		.key = key->string,
		.value = token.string,
	};
	return 0;
}

static int read_metadata(struct parser *parser)
{
	struct rsum_json_token token;
	int ret;

	ret = next(parser, &token);
	if (ret || token.type == RSUM_JSON_NULL)
		return ret;
	if (token.type != RSUM_JSON_OBJECT_BEGIN)
		return refuse(parser, "__metadata__ is %s where an object is expected",
			      rsum_json_type_text(token.type));
	for (;;) {
		ret = next(parser, &token);
		if (ret || token.type == RSUM_JSON_OBJECT_END)
			return ret;
		ret = read_pair(parser, &token);
		if (ret)
			return ret;
	}
}

static int read_header(struct parser *parser)
{
	struct rsum_json_token token;
	int ret;

	ret = next(parser, &token);
	if (ret)
		return ret;
	if (token.type != RSUM_JSON_OBJECT_BEGIN)
		return refuse(parser, "the header's JSON is %s where an object is expected",
			      rsum_json_type_text(token.type));
	for (;;) {
		ret = next(parser, &token);
		if (ret)
			return ret;
		if (token.type == RSUM_JSON_OBJECT_END)
			break;
		ret = check_string(parser, &token);
		if (!ret)
			ret = rsum_json_equals(&token, "__metadata__")
				      ? read_metadata(parser)
				      : read_tensor(parser, &token);
		if (ret)
			return ret;
	}
	return next(parser, &token);
}

int rsum_safetensors_read(struct rsum_safetensors *out, struct rsum_refusal *refusal)
{
	struct parser parser = { .out = out, .refusal = refusal };
	int ret;

	ret = rsum_json_init(&parser.json, out->text, (size_t)out->header_bytes,
			     RSUM_LIMIT_HEADER_JSON_DEPTH);
	if (!ret)
		ret = read_header(&parser);
	rsum_json_deinit(&parser.json);
	return ret;
}
