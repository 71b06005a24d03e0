/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a shard. The input is a file: length, JSON, data.
 *
 *	- Tensors tile the data from its first byte to its last, inside the file; each is as large
 *	  as its shape, reckoned once more in 128 bits; each is found by its name and unique.
 *	- With the file one byte shorter or longer than the header says, that and nothing else is
 *	  wrong, and the table stays the same.
 *	- A header is refused exactly where a second reading of the rules, on json-c's tree, says
 *	  so; json-c reads the same tensors.
 *	- Written anew and parsed again the table is the same.
 *	- A refusal is one line under one of three codes, and leaves nothing to use.
 *
 * The mutator of its own is in mutate_safetensors.c.
 */
#include "fuzz.h"

#include <endian.h>
#include <json-c/json.h>
#include <string.h>

#include "dtype.h"
#include "json.h"
#include "rsum_limits.h"
#include "safetensors.h"
#include "second_header.h"

#define LENGTH_BYTES 8

static const uint64_t *shape_of(const struct rsum_safetensors *header,
				const struct rsum_safetensors_tensor *tensor)
{
	return rsum_safetensors_shape(header, tensor);
}

/* ---- what holds of any table ------------------------------------------------------------- */

static void check_tensor(const struct rsum_safetensors *header,
			 const struct rsum_safetensors_tensor *tensor, uint64_t expected_begin)
{
	uint64_t bytes;

	FUZZ_CHECK(tensor->begin == expected_begin && tensor->end >= tensor->begin);
	FUZZ_CHECK(tensor->end <= RSUM_LIMIT_FILE_OFFSET);
	FUZZ_CHECK(tensor->dtype < RINGSUM_DTYPE_COUNT && tensor->rank <= RSUM_LIMIT_RANK);
	FUZZ_CHECK(tensor->rank <= header->dimension_count);
	FUZZ_CHECK(fuzz_shape_bytes((enum ringsum_dtype)tensor->dtype, shape_of(header, tensor),
				    tensor->rank, &bytes));
	FUZZ_CHECK(bytes == tensor->end - tensor->begin);
	FUZZ_CHECK(strlen(tensor->name) <= RSUM_LIMIT_NAME_BYTES);
	FUZZ_CHECK(fuzz_utf8_is_valid(tensor->name, strlen(tensor->name)));
	FUZZ_CHECK(strcmp(tensor->name, "__metadata__") != 0);
	/* Also says that no two have one name. */
	FUZZ_CHECK(rsum_safetensors_find(header, tensor->name) == tensor);
}

static void check_table(const struct rsum_safetensors *header, uint64_t header_bytes)
{
	uint64_t position = LENGTH_BYTES + header_bytes;

	FUZZ_CHECK(header->header_bytes == header_bytes && header->data_begin == position);
	for (size_t i = 0; i < header->tensor_count; i++) {
		check_tensor(header, &header->tensors[i], position);
		position = header->tensors[i].end;
	}
	FUZZ_CHECK(header->data_end == position);
	for (size_t i = 0; i < header->metadata_count; i++) {
		const char *key = rsum_safetensors_key(header, i);
		const char *value = rsum_safetensors_value(header, i);

		FUZZ_CHECK(fuzz_utf8_is_valid(key, strlen(key)));
		FUZZ_CHECK(fuzz_utf8_is_valid(value, strlen(value)));
	}
	FUZZ_CHECK(rsum_safetensors_find(header, "no such tensor \x01") == NULL);
}

static void check_refusal(const struct rsum_refusal *refusal)
{
	fuzz_check_line(refusal->message);
	FUZZ_CHECK(refusal->code == RINGSUM_FINDING_HEADER_INVALID ||
		   refusal->code == RINGSUM_FINDING_FILE_TRUNCATED ||
		   refusal->code == RINGSUM_FINDING_FILE_TRAILING);
	if (*refusal->expected)
		fuzz_check_line(refusal->expected);
	if (*refusal->actual)
		fuzz_check_line(refusal->actual);
}

/* ---- the same tables --------------------------------------------------------------------- */

/* `b` may have another header, so ranges count from where the data begins. */
static void check_same(const struct rsum_safetensors *a, const struct rsum_safetensors *b)
{
	FUZZ_CHECK(a->tensor_count == b->tensor_count && a->metadata_count == b->metadata_count);
	FUZZ_CHECK(a->data_end - a->data_begin == b->data_end - b->data_begin);
	for (size_t i = 0; i < a->tensor_count; i++) {
		const struct rsum_safetensors_tensor *left = &a->tensors[i];
		const struct rsum_safetensors_tensor *right = rsum_safetensors_find(b, left->name);

		FUZZ_CHECK(right && left->dtype == right->dtype && left->rank == right->rank);
		FUZZ_CHECK(left->begin - a->data_begin == right->begin - b->data_begin);
		FUZZ_CHECK(left->end - a->data_begin == right->end - b->data_begin);
		FUZZ_CHECK(!left->rank || memcmp(shape_of(a, left), shape_of(b, right),
						 left->rank * sizeof(uint64_t)) == 0);
	}
	for (size_t i = 0; i < a->metadata_count; i++) {
		FUZZ_CHECK(strcmp(rsum_safetensors_key(a, i), rsum_safetensors_key(b, i)) == 0);
		FUZZ_CHECK(strcmp(rsum_safetensors_value(a, i), rsum_safetensors_value(b, i)) == 0);
	}
}

static int parse(const char *json, uint64_t header_bytes, uint64_t file_bytes,
		 struct rsum_safetensors *out, struct rsum_refusal *refusal)
{
	return rsum_safetensors_parse(fuzz_copy(json, (size_t)header_bytes), header_bytes,
				      file_bytes, out, refusal);
}

/* With a file of that size the header is accepted, or refused with that code alone. */
static void check_with_size(const struct rsum_safetensors *header, const char *json,
			    uint64_t file_bytes, enum ringsum_finding_code code)
{
	struct rsum_safetensors again;
	struct rsum_refusal refusal;
	int ret = parse(json, header->header_bytes, file_bytes, &again, &refusal);

	if (file_bytes == header->data_end)
		FUZZ_CHECK(ret == 0);
	else
		FUZZ_CHECK(ret == RINGSUM_E_REFUSED && refusal.code == code);
	if (ret)
		check_refusal(&refusal);
	check_table(&again, header->header_bytes);
	check_same(header, &again);
	rsum_safetensors_deinit(&again);
}

/* ---- parse, write, parse ----------------------------------------------------------------- */

static void write_tensor(struct fuzz_text *text, const struct rsum_safetensors *header,
			 const struct rsum_safetensors_tensor *tensor)
{
	fuzz_text_add_string(text, tensor->name, strlen(tensor->name));
	fuzz_text_printf(text, ":{\"dtype\":\"%s\",\"shape\":[",
			 ringsum_dtype_name((enum ringsum_dtype)tensor->dtype));
	for (unsigned i = 0; i < tensor->rank; i++)
		fuzz_text_printf(text, "%s%llu", i ? "," : "",
				 (unsigned long long)shape_of(header, tensor)[i]);
	fuzz_text_printf(text, "],\"data_offsets\":[%llu,%llu]}",
			 (unsigned long long)(tensor->begin - header->data_begin),
			 (unsigned long long)(tensor->end - header->data_begin));
}

/* Backwards, so that sorting has something to do. */
static void write_header(struct fuzz_text *text, const struct rsum_safetensors *header)
{
	fuzz_text_printf(text, "{");
	for (size_t i = header->tensor_count; i > 0; i--) {
		write_tensor(text, header, &header->tensors[i - 1]);
		fuzz_text_printf(text, ",");
	}
	fuzz_text_printf(text, "\"__metadata__\":{");
	for (size_t i = 0; i < header->metadata_count; i++) {
		const char *key = rsum_safetensors_key(header, i);
		const char *value = rsum_safetensors_value(header, i);

		fuzz_text_printf(text, "%s", i ? "," : "");
		fuzz_text_add_string(text, key, strlen(key));
		fuzz_text_printf(text, ":");
		fuzz_text_add_string(text, value, strlen(value));
	}
	fuzz_text_printf(text, "}}");
}

static void check_written(const struct rsum_safetensors *header)
{
	struct fuzz_text text = { 0 };
	struct rsum_safetensors again;
	struct rsum_refusal refusal;
	uint64_t data_bytes = header->data_end - header->data_begin;
	uint64_t file_bytes;
	int ret;

	write_header(&text, header);
	file_bytes = LENGTH_BYTES + text.used_bytes + data_bytes;
	ret = parse(text.data, text.used_bytes, file_bytes, &again, &refusal);
	/* Only a header that grew at the limit of offsets may be refused now. */
	if (ret && file_bytes > RSUM_LIMIT_FILE_OFFSET) {
		check_refusal(&refusal);
	} else {
		FUZZ_CHECK_TEXT(ret == 0, refusal.message);
		check_table(&again, text.used_bytes);
		check_same(header, &again);
	}
	rsum_safetensors_deinit(&again);
	fuzz_text_deinit(&text);
}

/* ---- json-c ------------------------------------------------------------------------------ */

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	FUZZ_CHECK(json_object_object_get_ex(object, key, &value));
	return value;
}

static uint64_t element(struct json_object *array, size_t index)
{
	struct json_object *number = json_object_array_get_idx(array, index);

	FUZZ_CHECK(json_object_is_type(number, json_type_int));
	return json_object_get_uint64(number);
}

static void compare_tensor(const struct rsum_safetensors *header,
			   const struct rsum_safetensors_tensor *tensor, struct json_object *root)
{
	struct json_object *theirs = member(root, tensor->name);
	struct json_object *shape = member(theirs, "shape");
	struct json_object *offsets = member(theirs, "data_offsets");

	FUZZ_CHECK(strcmp(json_object_get_string(member(theirs, "dtype")),
			  ringsum_dtype_name((enum ringsum_dtype)tensor->dtype)) == 0);
	FUZZ_CHECK(json_object_array_length(shape) == tensor->rank);
	for (unsigned i = 0; i < tensor->rank; i++)
		FUZZ_CHECK(element(shape, i) == shape_of(header, tensor)[i]);
	FUZZ_CHECK(json_object_array_length(offsets) == 2);
	FUZZ_CHECK(element(offsets, 0) + header->data_begin == tensor->begin);
	FUZZ_CHECK(element(offsets, 1) + header->data_begin == tensor->end);
}

static void check_json_c(const struct rsum_safetensors *header, const char *json)
{
	struct json_object *root = NULL, *metadata = NULL;
	size_t count = header->tensor_count;
	uint64_t data_bytes;

	FUZZ_CHECK(fuzz_json_c_parse(json, (size_t)header->header_bytes,
				     RSUM_LIMIT_HEADER_JSON_DEPTH + 8, &root));
	FUZZ_CHECK(fuzz_header_is_sound(root, header->header_bytes, &data_bytes));
	FUZZ_CHECK(data_bytes == header->data_end - header->data_begin);
	for (size_t i = 0; i < header->tensor_count; i++)
		compare_tensor(header, &header->tensors[i], root);
	if (json_object_object_get_ex(root, "__metadata__", &metadata))
		count++;
	FUZZ_CHECK((size_t)json_object_object_length(root) == count);
	FUZZ_CHECK(header->metadata_count ==
		   (metadata ? (size_t)json_object_object_length(metadata) : 0));
	for (size_t i = 0; i < header->metadata_count; i++)
		FUZZ_CHECK(strcmp(rsum_safetensors_value(header, i),
				  json_object_get_string(
					  member(metadata, rsum_safetensors_key(header, i)))) == 0);
	json_object_put(root);
}

/* ---- a file ------------------------------------------------------------------------------ */

static void check_is_unsound(const char *json, uint64_t header_bytes, const char *reason)
{
	struct json_object *root = NULL;
	uint64_t data_bytes;

	if (!fuzz_json_is_strict(json, (size_t)header_bytes, RSUM_LIMIT_HEADER_JSON_DEPTH) ||
	    !fuzz_json_c_is_exact(json, (size_t)header_bytes))
		return;
	FUZZ_CHECK(fuzz_json_c_parse(json, (size_t)header_bytes, RSUM_LIMIT_HEADER_JSON_DEPTH + 8,
				     &root));
	FUZZ_CHECK_TEXT(!fuzz_header_is_sound(root, header_bytes, &data_bytes), reason);
	json_object_put(root);
}

static void check_header(const char *json, uint64_t header_bytes, uint64_t file_bytes)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
	int ret = parse(json, header_bytes, file_bytes, &header, &refusal);
	bool is_usable = !ret || refusal.code == RINGSUM_FINDING_FILE_TRUNCATED ||
			 refusal.code == RINGSUM_FINDING_FILE_TRAILING;

	FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
	if (ret)
		check_refusal(&refusal);
	if (is_usable) {
		FUZZ_CHECK((ret == 0) == (header.data_end == file_bytes));
		check_table(&header, header_bytes);
		check_with_size(&header, json, header.data_end, RINGSUM_FINDING_CODE_COUNT);
		check_with_size(&header, json, header.data_end - 1, RINGSUM_FINDING_FILE_TRUNCATED);
		check_with_size(&header, json, header.data_end + 1, RINGSUM_FINDING_FILE_TRAILING);
		check_written(&header);
		check_json_c(&header, json);
	} else {
		FUZZ_CHECK(header.tensor_count == 0 && header.metadata_count == 0);
		FUZZ_CHECK(rsum_safetensors_find(&header, "") == NULL);
		check_is_unsound(json, header_bytes, refusal.message);
	}
	rsum_safetensors_deinit(&header);
}

/* The limits, and whether the length is that of the file, said once more. */
static bool length_is_possible(const uint8_t *data, size_t size, uint64_t limit_bytes)
{
	uint64_t length;

	if (size < LENGTH_BYTES)
		return false;
	memcpy(&length, data, sizeof(length));
	return le64toh(length) <= limit_bytes && le64toh(length) <= size - LENGTH_BYTES;
}

/* A header that is refused for its first bytes is none to the parser either. */
static void check_parser_refuses(const uint8_t *data, size_t size)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal;
	uint64_t length;

	memcpy(&length, data, sizeof(length));
	FUZZ_CHECK(parse((const char *)data + LENGTH_BYTES, le64toh(length), size, &header,
			 &refusal) == RINGSUM_E_REFUSED);
	FUZZ_CHECK(refusal.code == RINGSUM_FINDING_HEADER_INVALID);
	rsum_safetensors_deinit(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t limits[] = { RSUM_LIMIT_HEADER_BYTES, RSUM_LIMIT_HEADER_DRAFTER_BYTES,
					   32 };
	size_t head_bytes = RSUM_MIN(size, (size_t)RSUM_SAFETENSORS_PROBE_BYTES);
	uint8_t *head = fuzz_copy(data, head_bytes);
	struct rsum_refusal refusal;
	uint64_t header_bytes = 0, found;
	bool is_probed = false;

	for (size_t i = 0; i < RSUM_COUNT_OF(limits); i++) {
		int ret =
			rsum_safetensors_probe(head, head_bytes, size, limits[i], &found, &refusal);

		FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
		if (ret)
			check_refusal(&refusal);
		else
			FUZZ_CHECK(length_is_possible(data, size, limits[i]));
		if (!ret && i == 0) {
			header_bytes = found;
			is_probed = true;
		}
	}
	free(head);
	if (is_probed)
		check_header((const char *)data + LENGTH_BYTES, header_bytes, size);
	else if (length_is_possible(data, size, RSUM_LIMIT_HEADER_BYTES))
		check_parser_refuses(data, size);
	return 0;
}
