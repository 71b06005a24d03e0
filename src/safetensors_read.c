/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header's JSON into a table: what each tensor says, checked for its form and nothing else.
 * Offsets stay as they are written, relative to the data.
 */
#include <inttypes.h>
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
	size_t block_used; /* dimensions in the newest block of shapes */
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

/* What an element takes of the text, at the least: "":{"dtype":"I8",...}, and 1, and "":"", */
#define TENSOR_TEXT_BYTES 48
#define DIMENSION_TEXT_BYTES 2
#define PAIR_TEXT_BYTES 5
#define ELEMENT_TEXT_BYTES 128 /* of any kind, where there is nothing to reckon with yet */

/* A block is full where another shape might not fit. */
#define SHAPE_BLOCK_DIMENSIONS ((size_t)1 << RSUM_SHAPE_BLOCK_BITS)
#define SHAPE_BLOCK_USED_MIN (SHAPE_BLOCK_DIMENSIONS - RSUM_LIMIT_RANK + 1)

/*
 * The array with room for one more element, or NULL. It grows by half, but not beyond what the
 * rest of the text can fill, since the table may be as large as the text.
 */
static void *make_room(const struct parser *parser, void *array, size_t count, size_t *capacity,
		       size_t element_bytes, size_t text_bytes)
{
	size_t left = parser->json.size_bytes - parser->json.position;
	/* The first will do for most headers, whose tensors take 130 bytes and more each. */
	size_t grown = *capacity ? *capacity + *capacity / 2 : 64 + left / ELEMENT_TEXT_BYTES;

	if (count < *capacity)
		return array;
	grown = RSUM_MIN(grown, count + 1 + left / text_bytes);
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

/* Room for one more shape, whose rank is not yet known, at the end of the newest block. */
static int reserve_shape(struct parser *parser)
{
	struct rsum_safetensors *out = parser->out;
	size_t block_max = RSUM_LIMIT_DIMENSIONS(out->header_bytes) / SHAPE_BLOCK_USED_MIN + 1;
	/* A header that is small has no more than one dimension for every two bytes. */
	size_t capacity = RSUM_MIN(out->header_bytes / DIMENSION_TEXT_BYTES + RSUM_LIMIT_RANK,
				   SHAPE_BLOCK_DIMENSIONS);

	if (out->shape_block_count && parser->block_used + RSUM_LIMIT_RANK <= capacity)
		return 0;
	if (!out->shape_blocks) {
		out->shape_blocks = calloc(block_max, sizeof(*out->shape_blocks));
		if (!out->shape_blocks)
			return RINGSUM_E_NOMEM;
	}
	RSUM_ASSERT(out->shape_block_count < block_max);
	out->shape_blocks[out->shape_block_count] = malloc(capacity * sizeof(uint64_t));
	if (!out->shape_blocks[out->shape_block_count])
		return RINGSUM_E_NOMEM;
	out->shape_block_count++;
	parser->block_used = 0;
	return 0;
}

static int add_dimension(struct parser *parser, struct rsum_safetensors_tensor *tensor,
			 uint64_t dimension)
{
	struct rsum_safetensors *out = parser->out;
	uint64_t limit = RSUM_LIMIT_DIMENSIONS(out->header_bytes);
	char shown[RSUM_SHOWN_NAME_BYTES];
	int ret;

	if (tensor->rank == RSUM_LIMIT_RANK)
		return refuse(parser, "tensor %s: more than %d dimensions, which is the limit",
			      rsum_safetensors_show(tensor->name, shown), RSUM_LIMIT_RANK);
	if (out->dimension_count == limit)
		return refuse(parser,
			      "more than %" PRIu64 " dimensions in all shapes, which is the limit "
			      "for a header of this size",
			      limit);
	if (!tensor->rank) {
		ret = reserve_shape(parser);
		if (ret)
			return ret;
		tensor->shape_index =
			(uint32_t)((out->shape_block_count - 1) << RSUM_SHAPE_BLOCK_BITS |
				   parser->block_used);
	}
	out->shape_blocks[out->shape_block_count - 1][parser->block_used++] = dimension;
	out->dimension_count++;
	tensor->rank++;
	return 0;
}

static int read_shape(struct parser *parser, struct rsum_safetensors_tensor *tensor)
{
	struct rsum_json_token token;
	int ret;

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
	tensors = make_room(parser, out->tensors, out->tensor_count, &parser->tensor_capacity,
			    sizeof(*tensors), TENSOR_TEXT_BYTES);
	if (!tensors)
		return RINGSUM_E_NOMEM;
	out->tensors = tensors;
	tensors[out->tensor_count++] = tensor;
	return 0;
}

static int read_pair(struct parser *parser, const struct rsum_json_token *key)
{
	struct rsum_safetensors *out = parser->out;
	uint64_t limit = RSUM_LIMIT_METADATA(out->header_bytes);
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
	if (out->metadata_count == limit)
		return refuse(parser,
			      "__metadata__: more than %" PRIu64 " pairs, which is the limit for a "
			      "header of this size",
			      limit);
	pairs = make_room(parser, out->metadata, out->metadata_count, &parser->metadata_capacity,
			  sizeof(*pairs), PAIR_TEXT_BYTES);
	if (!pairs)
		return RINGSUM_E_NOMEM;
	out->metadata = pairs;
	pairs[out->metadata_count++] = (struct rsum_safetensors_pair){
		.key = (uint32_t)(key->string - out->text),
		.value = (uint32_t)(token.string - out->text),
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
