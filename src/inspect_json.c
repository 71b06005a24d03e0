/* SPDX-License-Identifier: Apache-2.0 */
/* An inspection as JSON (schema ringsum-inspect/1), one tensor or pair on each line. */
#include "error.h"
#include "inspect.h"
#include "json_write.h"

#define SCHEMA "ringsum-inspect/1"

static void append_metadata(struct rsum_text *text, const struct rsum_inspected *inspected)
{
	size_t i;

	rsum_text_printf(text, ",\n     \"metadata\":{");
	for (i = 0; i < inspected->shard.metadata_count && !text->has_failed; i++) {
		const char *key = rsum_safetensors_key(&inspected->header, i);
		const char *value = rsum_safetensors_value(&inspected->header, i);

		rsum_text_printf(text, "%s\n      ", i ? "," : "");
		rsum_json_append_string(text, key);
		rsum_text_printf(text, ":");
		rsum_json_append_string(text, value);
	}
	rsum_text_printf(text, "}");
}

static void append_tensors(struct rsum_text *text, const struct ringsum_inspection *inspection,
			   size_t shard_index)
{
	const struct rsum_inspected *inspected = &inspection->shards[shard_index];
	struct ringsum_tensor tensor;
	size_t i;

	rsum_text_printf(text, ",\n     \"tensors\":[");
	for (i = 0; !text->has_failed &&
		    !ringsum_inspection_tensor_at(inspection, shard_index, i, &tensor);
	     i++) {
		struct rsum_json_object object = rsum_json_object_new();
		uint64_t data_begin = inspected->header.data_begin;
		uint64_t range[] = { tensor.begin, tensor.end };
		uint64_t offsets[] = { tensor.begin - data_begin, tensor.end - data_begin };

		rsum_json_put_text(&object, "name", tensor.name);
		rsum_json_put_text(&object, "dtype", ringsum_dtype_name(tensor.dtype));
		rsum_json_put_counts(&object, "shape", tensor.shape, tensor.rank);
		rsum_json_put_count(&object, "size_bytes", tensor.size_bytes);
		rsum_json_put_counts(&object, "range", range, 2);
		rsum_json_put_counts(&object, "data_offsets", offsets, 2);
		rsum_text_printf(text, "%s\n      ", i ? "," : "");
		rsum_json_append(text, &object);
	}
	rsum_text_printf(text, "]");
}

/* 0 says not known, but for a file that was seen to be empty. */
static void put_known(struct rsum_json_object *object, const char *key, uint64_t count,
		      bool zero_is_known)
{
	if (count || zero_is_known)
		rsum_json_put_count(object, key, count);
	else
		rsum_json_put_null(object, key);
}

static void append_shard(struct rsum_text *text, const struct ringsum_inspection *inspection,
			 size_t shard_index)
{
	const struct ringsum_shard *shard = &inspection->shards[shard_index].shard;
	bool is_valid = shard->verdict == RINGSUM_VERDICT_IDENTICAL;
	bool was_opened = is_valid || shard->code == RINGSUM_FINDING_HEADER_INVALID ||
			  shard->code == RINGSUM_FINDING_FILE_TRUNCATED;
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_text(&object, "name", shard->name);
	put_known(&object, "size_bytes", shard->size_bytes, was_opened);
	put_known(&object, "header_bytes", shard->header_bytes, false);
	rsum_json_put_text(&object, "verdict", rsum_inspect_verdict_text(shard->verdict));
	rsum_json_put_text(&object, "code",
			   is_valid ? NULL : ringsum_finding_code_name(shard->code));
	rsum_json_put_text(&object, "message", shard->message);
	rsum_json_append_without_end(text, &object);
	append_metadata(text, &inspection->shards[shard_index]);
	append_tensors(text, inspection, shard_index);
	rsum_text_printf(text, "}");
}

static struct rsum_json_object sum_object(const struct rsum_inspect_sum *sum)
{
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_count(&object, "tensors", sum->tensor_count);
	rsum_json_put_count(&object, "bytes", sum->size_bytes);
	return object;
}

static void append_totals(struct rsum_text *text, const struct rsum_inspect_totals *totals)
{
	struct rsum_json_object object = sum_object(&totals->all);
	bool is_first = true;
	unsigned dtype;

	rsum_text_printf(text, ",\n \"totals\":");
	rsum_json_append_without_end(text, &object);
	rsum_text_printf(text, ",\"by_dtype\":{");
	for (dtype = 0; dtype < RINGSUM_DTYPE_COUNT; dtype++) {
		if (totals->by_dtype[dtype].tensor_count == 0)
			continue;
		rsum_text_printf(text, "%s\n   \"%s\":", is_first ? "" : ",",
				 ringsum_dtype_name((enum ringsum_dtype)dtype));
		object = sum_object(&totals->by_dtype[dtype]);
		rsum_json_append(text, &object);
		is_first = false;
	}
	rsum_text_printf(text, "}}}\n");
}

RSUM_PUBLIC int ringsum_inspection_to_json(const struct ringsum_inspection *inspection,
					   char **json_out, struct ringsum_error *err)
{
	struct rsum_inspect_totals totals;
	struct rsum_json_object object;
	struct rsum_text text = { 0 };
	size_t i;

	if (!inspection || !json_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "an inspection and a place for its text are needed");
	rsum_inspect_add_up(inspection, &totals);
	object = rsum_json_object_new();
	rsum_json_put_text(&object, "schema", SCHEMA);
	rsum_json_put_text(&object, "verdict",
			   rsum_inspect_verdict_text(ringsum_inspection_verdict(inspection)));
	rsum_json_put_text(&object, "path", inspection->path);
	rsum_json_append_without_end(&text, &object);
	rsum_text_printf(&text, ",\n \"shards\":[");
	for (i = 0; i < inspection->shard_count && !text.has_failed; i++) {
		rsum_text_printf(&text, "%s\n    ", i ? "," : "");
		append_shard(&text, inspection, i);
	}
	rsum_text_printf(&text, "]");
	append_totals(&text, &totals);
	if (rsum_text_finish(&text, json_out))
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the inspection was written");
	return RINGSUM_OK;
}
