/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TENSORS.json. The input is the document.
 *
 *	- A well-formed promise has all that is needed of it, within its bounds; names of
 *	  well-formed promises are unique and found; every file is counted once.
 *	- A promise that is not well-formed, and a document that is refused, has a finding that
 *	  refuses; a report of such a manifest is never identical, whatever else was proven.
 *	- json-c reads as many entries, and the same from each that is well-formed.
 *	- Written anew and parsed again the promises are the same.
 */
#include "fuzz.h"

#include <json-c/json.h>
#include <string.h>

#include "digest.h"
#include "dtype.h"
#include "manifest.h"
#include "rsum_limits.h"

#define FILE_NAME "TENSORS.json"

/* ---- what holds of any list -------------------------------------------------------------- */

static void check_promise(const struct rsum_manifest *manifest, size_t index)
{
	const struct rsum_promise *promise = &manifest->promises[index];
	const struct ringsum_tensor *tensor = &promise->tensor;

	FUZZ_CHECK(tensor->name && tensor->shard && tensor->rank <= RSUM_LIMIT_RANK);
	FUZZ_CHECK(!tensor->rank || tensor->shape);
	FUZZ_CHECK(fuzz_utf8_is_valid(tensor->name, strlen(tensor->name)));
	FUZZ_CHECK(fuzz_utf8_is_valid(tensor->shard, strlen(tensor->shard)));
	if (*tensor->shard)
		FUZZ_CHECK(promise->file_index < manifest->file_count &&
			   strcmp(manifest->files[promise->file_index], tensor->shard) == 0);
	else
		FUZZ_CHECK(promise->file_index == RSUM_NAME_INDEX_NONE);
	if (*tensor->name)
		FUZZ_CHECK(rsum_name_index_find(&manifest->by_name, tensor->name) <= index);
	if (!promise->is_wellformed)
		return;
	FUZZ_CHECK(*tensor->name && strlen(tensor->name) <= RSUM_LIMIT_NAME_BYTES);
	FUZZ_CHECK(*tensor->shard && strlen(tensor->shard) <= RSUM_LIMIT_NAME_BYTES);
	FUZZ_CHECK(ringsum_dtype_name(tensor->dtype));
	FUZZ_CHECK(tensor->begin <= tensor->end && tensor->end <= RSUM_LIMIT_FILE_OFFSET);
	FUZZ_CHECK(tensor->size_bytes == tensor->end - tensor->begin);
	FUZZ_CHECK(promise->source_bytes <= RSUM_LIMIT_FILE_OFFSET);
	FUZZ_CHECK(rsum_name_index_find(&manifest->by_name, tensor->name) == index);
	/* Of two promises under one name neither holds. */
	for (size_t i = index + 1; i < manifest->promise_count; i++)
		FUZZ_CHECK(strcmp(manifest->promises[i].tensor.name, tensor->name) != 0);
}

static void check_files(const struct rsum_manifest *manifest)
{
	for (size_t i = 0; i < manifest->file_count; i++)
		FUZZ_CHECK(rsum_name_index_find(&manifest->by_file, manifest->files[i]) == i);
	FUZZ_CHECK(manifest->by_file.used_count == manifest->file_count);
}

static size_t count_wellformed(const struct rsum_manifest *manifest)
{
	size_t count = 0;

	for (size_t i = 0; i < manifest->promise_count; i++)
		count += manifest->promises[i].is_wellformed;
	return count;
}

/* As if everything had been read and proven: findings must still have their say. */
static void check_verdict(const struct rsum_manifest *manifest, struct ringsum_report *report,
			  bool is_faulty)
{
	struct ringsum_totals *totals = &report->totals;

	FUZZ_CHECK(!is_faulty || report->refusing_count > 0);
	totals->tensors_promised = totals->tensors_identical = manifest->promise_count;
	rsum_report_set_complete(report);
	if (is_faulty)
		FUZZ_CHECK(ringsum_report_verdict(report) == RINGSUM_VERDICT_REFUSED);
	else if (manifest->promise_count == 0)
		FUZZ_CHECK(ringsum_report_verdict(report) == RINGSUM_VERDICT_UNDECIDED);
	else
		FUZZ_CHECK(ringsum_report_verdict(report) == RINGSUM_VERDICT_IDENTICAL);
	fuzz_check_report(report);
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

static bool text_is(struct json_object *string, const char *text)
{
	return json_object_is_type(string, json_type_string) &&
	       (size_t)json_object_get_string_len(string) == strlen(text) &&
	       strcmp(json_object_get_string(string), text) == 0;
}

static void compare_promise(const struct rsum_promise *promise, struct json_object *theirs)
{
	const struct ringsum_tensor *tensor = &promise->tensor;
	struct json_object *shape = member(theirs, "shape");
	struct json_object *range = member(theirs, "destination_byte_range");
	struct json_object *source = member(theirs, "source_byte_range");
	char hex[65], given[65];

	FUZZ_CHECK(text_is(member(theirs, "name"), tensor->name));
	FUZZ_CHECK(text_is(member(theirs, "destination_file"), tensor->shard));
	FUZZ_CHECK(text_is(member(theirs, "dtype"), ringsum_dtype_name(tensor->dtype)));
	FUZZ_CHECK(json_object_array_length(shape) == tensor->rank);
	for (unsigned i = 0; i < tensor->rank; i++)
		FUZZ_CHECK(element(shape, i) == tensor->shape[i]);
	FUZZ_CHECK(json_object_array_length(range) == 2 && json_object_array_length(source) == 2);
	FUZZ_CHECK(element(range, 0) == tensor->begin && element(range, 1) == tensor->end);
	FUZZ_CHECK(element(source, 1) - element(source, 0) == promise->source_bytes);
	FUZZ_CHECK(json_object_is_type(member(theirs, "resident_packed_bytes"), json_type_int));
	rsum_hex_encode_digest(tensor->digest_sha256, hex);
	snprintf(given, sizeof(given), "%s",
		 json_object_get_string(member(theirs, "source_byte_range_sha256")));
	for (size_t i = 0; given[i]; i++) {
		if (given[i] >= 'A' && given[i] <= 'F')
			given[i] = (char)(given[i] | 0x20);
	}
	FUZZ_CHECK(strcmp(hex, given) == 0);
}

static void compare_with_json_c(const struct rsum_manifest *manifest, const char *text, size_t size)
{
	struct json_object *root = NULL, *tensors, *codebook = NULL;

	FUZZ_CHECK(fuzz_json_c_parse(text, size, 2 * RSUM_LIMIT_JSON_DEPTH, &root));
	tensors = member(root, "tensors");
	FUZZ_CHECK(json_object_array_length(tensors) == manifest->promise_count);
	for (size_t i = 0; i < manifest->promise_count; i++) {
		if (manifest->promises[i].is_wellformed)
			compare_promise(&manifest->promises[i],
					json_object_array_get_idx(tensors, i));
	}
	FUZZ_CHECK(!manifest->has_codebook ||
		   json_object_object_get_ex(root, "codebook", &codebook));
	if (manifest->codebook)
		FUZZ_CHECK(text_is(codebook, manifest->codebook));
	json_object_put(root);
}

/* json-c ends a key at its first NUL, so such documents are not alike to both. */
static bool has_nul_escape(const char *text, size_t size)
{
	return memmem(text, size, "\\u0000", 6) != NULL;
}

/* ---- parse, write, parse ----------------------------------------------------------------- */

static void write_promise(struct fuzz_text *text, const struct rsum_promise *promise)
{
	const struct ringsum_tensor *tensor = &promise->tensor;
	char hex[65];

	rsum_hex_encode_digest(tensor->digest_sha256, hex);
	fuzz_text_printf(text, "{\"source_byte_range_sha256\":\"%s\",\"name\":", hex);
	fuzz_text_add_string(text, tensor->name, strlen(tensor->name));
	fuzz_text_printf(text, ",\"destination_file\":");
	fuzz_text_add_string(text, tensor->shard, strlen(tensor->shard));
	fuzz_text_printf(text,
			 ",\"dtype\":\"%s\",\"destination_byte_range\":[%llu,%llu],"
			 "\"source_byte_range\":[0,%llu],\"resident_packed_bytes\":0,\"shape\":[",
			 ringsum_dtype_name(tensor->dtype), (unsigned long long)tensor->begin,
			 (unsigned long long)tensor->end,
			 (unsigned long long)promise->source_bytes);
	for (unsigned i = 0; i < tensor->rank; i++)
		fuzz_text_printf(text, "%s%llu", i ? "," : "",
				 (unsigned long long)tensor->shape[i]);
	fuzz_text_printf(text, "]}");
}

static void write_manifest(struct fuzz_text *text, const struct rsum_manifest *manifest)
{
	bool is_first = true;

	fuzz_text_printf(text, "{\"tensors\":[");
	for (size_t i = 0; i < manifest->promise_count; i++) {
		if (!manifest->promises[i].is_wellformed)
			continue;
		fuzz_text_printf(text, "%s", is_first ? "" : ",");
		write_promise(text, &manifest->promises[i]);
		is_first = false;
	}
	fuzz_text_printf(text, "]");
	if (manifest->codebook) {
		fuzz_text_printf(text, ",\"codebook\":");
		fuzz_text_add_string(text, manifest->codebook, strlen(manifest->codebook));
	}
	fuzz_text_printf(text, "}");
}

static void check_same(const struct rsum_promise *a, const struct rsum_promise *b)
{
	FUZZ_CHECK(b->is_wellformed && a->source_bytes == b->source_bytes);
	FUZZ_CHECK(strcmp(a->tensor.name, b->tensor.name) == 0);
	FUZZ_CHECK(strcmp(a->tensor.shard, b->tensor.shard) == 0);
	FUZZ_CHECK(a->tensor.dtype == b->tensor.dtype && a->tensor.rank == b->tensor.rank);
	FUZZ_CHECK(!a->tensor.rank || memcmp(a->tensor.shape, b->tensor.shape,
					     a->tensor.rank * sizeof(uint64_t)) == 0);
	FUZZ_CHECK(a->tensor.begin == b->tensor.begin && a->tensor.end == b->tensor.end);
	FUZZ_CHECK(memcmp(a->tensor.digest_sha256, b->tensor.digest_sha256, 32) == 0);
}

static void check_written(const struct rsum_manifest *manifest)
{
	struct ringsum_report *report = rsum_report_new();
	struct rsum_manifest again = { 0 };
	struct fuzz_text text = { 0 };
	size_t index = 0;

	write_manifest(&text, manifest);
	FUZZ_CHECK(report);
	FUZZ_CHECK(rsum_manifest_tensors.parse(fuzz_copy(text.data, text.used_bytes),
					       text.used_bytes, FILE_NAME, &again, report) == 0);
	FUZZ_CHECK(report->refusing_count == 0);
	FUZZ_CHECK(again.promise_count == count_wellformed(manifest));
	for (size_t i = 0; i < manifest->promise_count; i++) {
		if (manifest->promises[i].is_wellformed)
			check_same(&manifest->promises[i], &again.promises[index++]);
	}
	rsum_manifest_deinit(&again);
	ringsum_report_free(report);
	fuzz_text_deinit(&text);
}

/* ---- a document -------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ringsum_report *report = rsum_report_new();
	struct rsum_manifest manifest = { 0 };
	int ret;

	FUZZ_CHECK(report);
	ret = rsum_manifest_tensors.parse(fuzz_copy(data, size), size, FILE_NAME, &manifest,
					  report);
	FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
	if (ret)
		FUZZ_CHECK(manifest.promise_count == 0 && manifest.file_count == 0);
	for (size_t i = 0; i < manifest.promise_count; i++)
		check_promise(&manifest, i);
	check_files(&manifest);
	if (!ret) {
		check_written(&manifest);
		if (!has_nul_escape((const char *)data, size))
			compare_with_json_c(&manifest, (const char *)data, size);
	}
	check_verdict(&manifest, report,
		      ret || count_wellformed(&manifest) < manifest.promise_count);
	rsum_manifest_deinit(&manifest);
	ringsum_report_free(report);
	return 0;
}
