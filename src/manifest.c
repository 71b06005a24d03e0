/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The neutral promise list: its lifetime, the table of formats, and the comparison of a promise with what a shard's
 * header shows. How a format spells promises is the business of manifest_<format>.c.
 */
#include "manifest.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "dtype.h"
#include "safetensors.h"

#define TEXT_BYTES 256 /* of an expected or actual value */

void rsum_manifest_deinit(struct rsum_manifest *manifest)
{
	rsum_name_index_deinit(&manifest->by_name);
	rsum_name_index_deinit(&manifest->by_file);
	free(manifest->files);
	free(manifest->promises);
	free(manifest->file_promises);
	if (manifest->statement)
		rsum_statement_deinit(manifest->statement);
	free(manifest->statement);
	rsum_arena_deinit(&manifest->arena);
	*manifest = (struct rsum_manifest){ 0 };
}

/* ---- formats ------------------------------------------------------------------------------ */

/* In the order in which they are asked; the last takes whatever is JSON. */
static const struct rsum_manifest_format *const formats[] = {
	&rsum_manifest_hashdeep,      &rsum_manifest_sums,    &rsum_manifest_oms,
	&rsum_manifest_oms_statement, &rsum_manifest_tensors,
};

bool rsum_manifest_name_is_list(const char *file_name)
{
	static const char *const ends[] = {
		".sha256",    ".sha256sum",    ".sha256sums",	 "sha256sum",
		"sha256sums", "sha256sum.txt", "sha256sums.txt",
	};
	const char *slash = strrchr(file_name, '/'), *name = slash ? slash + 1 : file_name;
	size_t length = strlen(name);

	for (size_t i = 0; i < RSUM_COUNT_OF(ends); i++) {
		size_t end_length = strlen(ends[i]);

		/* Without a dot before it, it is the whole name: "mysha256sums" is any file. */
		if (ends[i][0] == '.' ? length > end_length : length == end_length)
			if (strcasecmp(name + length - end_length, ends[i]) == 0)
				return true;
	}
	return false;
}

const struct rsum_manifest_format *rsum_manifest_detect(const char *text, size_t size_bytes,
							const char *file_name)
{
	for (size_t i = 0; i < RSUM_COUNT_OF(formats); i++)
		if (formats[i]->detect(text, size_bytes))
			return formats[i];
	return rsum_manifest_name_is_list(file_name) ? &rsum_manifest_sums : &rsum_manifest_tensors;
}

int rsum_manifest_parse(char *text, size_t size_bytes, const char *file_name,
			struct rsum_manifest *out, struct ringsum_report *report,
			const struct rsum_manifest_format **format_out)
{
	const struct rsum_manifest_format *format =
		rsum_manifest_detect(text, size_bytes, file_name);

	if (format_out)
		*format_out = format;
	return format->parse(text, size_bytes, file_name, out, report);
}

/* ---- what a document says, for messages --------------------------------------------------- */

bool rsum_manifest_token_is_unsigned(const struct rsum_json_token *token)
{
	return token->type == RSUM_JSON_NUMBER && token->is_integer && !token->is_negative;
}

/* What a NUL hides from a C string has to be said: "silu\0" is not silu. */
static void describe_string(const struct rsum_json_token *token, char *buffer, size_t size_bytes)
{
	const char *begin = "the string ";
	size_t used;

	if (strlen(token->string) != token->length)
		begin = *token->string ? "a string with a NUL after "
				       : "a string that begins with a NUL";
	snprintf(buffer, size_bytes, "%s", begin);
	used = strlen(buffer);
	rsum_text_shorten(token->string, buffer + used, size_bytes - used);
}

static void describe_number(const char *spelled, size_t left, const struct rsum_json_token *token,
			    char *buffer, size_t size_bytes)
{
	static const char beyond[] = " (exceeds 64 bits)";
	size_t length = 0, shown;
	bool is_whole = true;

	for (; length < left && memchr("+-.0123456789Ee", spelled[length], 15); length++)
		is_whole = is_whole && !memchr("+.Ee", spelled[length], 4);
	is_whole = is_whole && !token->is_integer;
	shown = RSUM_MIN(length, size_bytes - sizeof(beyond) - 4);
	snprintf(buffer, size_bytes, "%.*s%s%s", (int)shown, spelled, shown < length ? "..." : "",
		 is_whole ? beyond : "");
}

const char *rsum_manifest_describe_token(const char *text, size_t text_bytes,
					 const struct rsum_json_token *token, char *buffer,
					 size_t size_bytes)
{
	RSUM_ASSERT(size_bytes >= 64);
	if (token->type == RSUM_JSON_STRING)
		describe_string(token, buffer, size_bytes);
	else if (token->type == RSUM_JSON_NUMBER)
		describe_number(text + token->offset, text_bytes - token->offset, token, buffer,
				size_bytes);
	else
		snprintf(buffer, size_bytes, "%s", rsum_json_type_text(token->type));
	return buffer;
}

const char *rsum_manifest_describe_refusal(const struct rsum_json *json, const char *wanted,
					   char *buffer, size_t size_bytes)
{
	size_t blanks = 0;

	while (blanks < json->size_bytes && memchr(" \t\r\n", json->text[blanks], 4))
		blanks++;
	/* Only what is refused at its first byte is no JSON at all, and not yet decoded in place. */
	if (json->error_offset == blanks &&
	    rsum_safetensors_describe_other((const uint8_t *)json->text, json->size_bytes, wanted,
					    buffer, size_bytes))
		return buffer;
	return json->reason;
}

/* ---- a promise and its header (M6) --------------------------------------------------------- */

/* A difference in the making: what all findings about one promise have in common. */
struct difference {
	const struct rsum_promise *promise;
	struct ringsum_report *report;
	char expected[TEXT_BYTES];
	char actual[TEXT_BYTES];
	bool is_found;
};

static void add(struct difference *difference, enum ringsum_finding_code code, const char *message)
{
	const struct ringsum_tensor *tensor = &difference->promise->tensor;

	difference->is_found = true;
	rsum_report_add(difference->report, &(struct ringsum_finding){
						    .code = code,
						    .tensor = tensor->name,
						    .file = tensor->shard,
						    .has_range = 1,
						    .begin = tensor->begin,
						    .end = tensor->end,
						    .expected = difference->expected,
						    .actual = difference->actual,
						    .message = message,
					    });
}

static void print_dtype(char text[TEXT_BYTES], enum ringsum_dtype dtype)
{
	const char *name = ringsum_dtype_name(dtype);

	snprintf(text, TEXT_BYTES, "%s", name ? name : "an unknown dtype");
}

static void print_bytes(char text[TEXT_BYTES], uint64_t bytes)
{
	snprintf(text, TEXT_BYTES, "%" PRIu64 " bytes", bytes);
}

static void print_range(char text[TEXT_BYTES], uint64_t begin, uint64_t end)
{
	snprintf(text, TEXT_BYTES, "[%" PRIu64 ", %" PRIu64 ")", begin, end);
}

static bool shapes_are_equal(const struct ringsum_tensor *tensor, const uint64_t *shape,
			     unsigned rank)
{
	if (tensor->rank != rank)
		return false;
	for (unsigned i = 0; i < rank; i++)
		if (tensor->shape[i] != shape[i])
			return false;
	return true;
}

static void compare_with_header(struct difference *difference,
				const struct rsum_safetensors *header,
				const struct rsum_safetensors_tensor *shown)
{
	const struct ringsum_tensor *tensor = &difference->promise->tensor;
	const uint64_t *shape = rsum_safetensors_shape(header, shown);

	if (tensor->dtype != (enum ringsum_dtype)shown->dtype) {
		print_dtype(difference->expected, tensor->dtype);
		print_dtype(difference->actual, (enum ringsum_dtype)shown->dtype);
		add(difference, RINGSUM_FINDING_HEADER_MISMATCH,
		    "the shard's header gives the tensor another dtype than the manifest");
	}
	if (!shapes_are_equal(tensor, shape, shown->rank)) {
		rsum_shape_format(tensor->shape, tensor->rank, difference->expected, TEXT_BYTES);
		rsum_shape_format(shape, shown->rank, difference->actual, TEXT_BYTES);
		add(difference, RINGSUM_FINDING_HEADER_MISMATCH,
		    "the shard's header gives the tensor another shape than the manifest; the two "
		    "do "
		    "not belong together");
	}
	if (tensor->begin != shown->begin || tensor->end != shown->end) {
		print_range(difference->expected, tensor->begin, tensor->end);
		print_range(difference->actual, shown->begin, shown->end);
		add(difference, RINGSUM_FINDING_HEADER_MISMATCH,
		    "the shard's header puts the tensor elsewhere in the file than the manifest");
	}
}

static void check_size(struct difference *difference)
{
	const struct ringsum_tensor *tensor = &difference->promise->tensor;
	uint64_t bytes = 0;

	print_bytes(difference->actual, tensor->size_bytes);
	switch (rsum_shape_bytes(tensor->dtype, tensor->shape, tensor->rank, &bytes)) {
	case RSUM_SHAPE_OK:
		if (bytes == tensor->size_bytes)
			return;
		print_bytes(difference->expected, bytes);
		add(difference, RINGSUM_FINDING_SIZE_MISMATCH,
		    "the promised range does not hold what dtype and shape come to");
		return;
	case RSUM_SHAPE_OVERFLOW:
		snprintf(difference->expected, TEXT_BYTES, "fewer than 2^64 bits");
		add(difference, RINGSUM_FINDING_SIZE_MISMATCH,
		    "the promised shape is larger than any file can hold");
		return;
	default:
		snprintf(difference->expected, TEXT_BYTES, "whole bytes");
		add(difference, RINGSUM_FINDING_SIZE_MISMATCH,
		    "the promised shape ends inside a byte in this dtype");
		return;
	}
}

bool rsum_promise_matches_header(const struct rsum_promise *promise,
				 const struct rsum_safetensors *header,
				 const struct rsum_safetensors_tensor *shown,
				 bool (*dtype_is_allowed)(enum ringsum_dtype dtype),
				 struct ringsum_report *report)
{
	struct difference difference = { .promise = promise, .report = report };

	if (shown) {
		compare_with_header(&difference, header, shown);
	} else {
		snprintf(difference.expected, TEXT_BYTES, "the tensor");
		snprintf(difference.actual, TEXT_BYTES, "none of that name");
		add(&difference, RINGSUM_FINDING_HEADER_MISMATCH,
		    "the shard's header does not know the tensor");
	}
	if (!dtype_is_allowed(promise->tensor.dtype)) {
		snprintf(difference.expected, TEXT_BYTES, "a dtype that the profile allows");
		print_dtype(difference.actual, promise->tensor.dtype);
		add(&difference, RINGSUM_FINDING_DTYPE_UNSUPPORTED,
		    "the profile does not allow this dtype");
	}
	check_size(&difference);
	if (promise->source_bytes != promise->tensor.size_bytes) {
		print_bytes(difference.expected, promise->source_bytes);
		print_bytes(difference.actual, promise->tensor.size_bytes);
		add(&difference, RINGSUM_FINDING_SIZE_MISMATCH,
		    "the source range and the range in the shard are not of one size");
	}
	return !difference.is_found;
}
