/* SPDX-License-Identifier: Apache-2.0 */
/* An inspection as text for a person, and its totals. Names are shown escaped. */
#include <inttypes.h>
#include <string.h>

#include "dtype.h"
#include "error.h"
#include "inspect.h"
#include "report.h"
#include "rsum_limits.h"

#define NAME_COLUMNS_MAX 60  /* a longer name shifts its own line only */
#define SHAPE_COLUMNS_MAX 24 /* as does a longer shape */
#define SHAPE_BYTES (RSUM_LIMIT_RANK * 22 + 8)
#define VALUE_SHOWN_BYTES 200 /* of one value of the metadata; JSON has all of it */

/* ---- totals ------------------------------------------------------------------------------- */

static void add_tensor(struct rsum_inspect_sum *sum, uint64_t size_bytes)
{
	sum->tensor_count++;
	if (!rsum_add_u64(sum->size_bytes, size_bytes, &sum->size_bytes))
		sum->size_bytes = UINT64_MAX;
}

static void add_shard(const struct rsum_inspected *inspected, struct rsum_inspect_totals *totals)
{
	size_t i;

	for (i = 0; i < inspected->shard.tensor_count; i++) {
		const struct rsum_safetensors_tensor *tensor = &inspected->header.tensors[i];

		add_tensor(&totals->all, tensor->end - tensor->begin);
		add_tensor(&totals->by_dtype[tensor->dtype], tensor->end - tensor->begin);
	}
	switch (inspected->shard.verdict) {
	case RINGSUM_VERDICT_IDENTICAL:
		totals->shards_valid++;
		break;
	case RINGSUM_VERDICT_REFUSED:
		totals->shards_refused++;
		break;
	default:
		totals->shards_undecided++;
	}
}

void rsum_inspect_add_up(const struct ringsum_inspection *inspection,
			 struct rsum_inspect_totals *totals_out)
{
	struct rsum_inspect_totals totals = { 0 };
	size_t i;

	for (i = 0; i < inspection->shard_count; i++)
		add_shard(&inspection->shards[i], &totals);
	*totals_out = totals;
}

const char *rsum_inspect_verdict_text(enum ringsum_verdict verdict)
{
	switch (verdict) {
	case RINGSUM_VERDICT_IDENTICAL:
		return "valid";
	case RINGSUM_VERDICT_REFUSED:
		return "refused";
	default:
		return "undecided";
	}
}

/* ---- the table ---------------------------------------------------------------------------- */

struct columns {
	size_t name, dtype, shape, size, offset;
};

/* Characters, not bytes: those of UTF-8 that begin one. */
static size_t count_columns(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

static size_t count_digits(uint64_t number)
{
	size_t count = 1;

	for (; number >= 10; number /= 10)
		count++;
	return count;
}

static void pad(struct rsum_text *text, size_t used, size_t width)
{
	if (used < width)
		rsum_text_printf(text, "%*s", (int)(width - used), "");
}

static void append_padded(struct rsum_text *text, const char *cell, size_t width)
{
	rsum_text_append(text, cell, strlen(cell));
	pad(text, count_columns(cell), width);
}

static void append_name(struct rsum_text *text, const char *name, size_t width)
{
	char *shown = rsum_text_escape(name);

	if (shown)
		append_padded(text, shown, width);
	else
		text->has_failed = true;
	free(shown);
}

static size_t name_columns(struct rsum_text *text, const char *name)
{
	char *shown = rsum_text_escape(name);
	size_t count = shown ? count_columns(shown) : 0;

	if (!shown)
		text->has_failed = true;
	free(shown);
	return count;
}

static void widen(size_t *width, size_t needed, size_t most)
{
	if (needed <= most && needed > *width)
		*width = needed;
}

static struct columns measure(struct rsum_text *text, const struct ringsum_inspection *inspection,
			      size_t shard_index)
{
	struct columns columns = {
		.name = strlen("name"),
		.dtype = strlen("dtype"),
		.shape = strlen("shape"),
		.size = strlen("bytes"),
		.offset = strlen("offset"),
	};
	struct ringsum_tensor tensor;
	char shape[SHAPE_BYTES];
	size_t i;

	for (i = 0; !text->has_failed &&
		    !ringsum_inspection_tensor_at(inspection, shard_index, i, &tensor);
	     i++) {
		rsum_shape_format(tensor.shape, tensor.rank, shape, sizeof(shape));
		widen(&columns.name, name_columns(text, tensor.name), NAME_COLUMNS_MAX);
		widen(&columns.dtype, strlen(ringsum_dtype_name(tensor.dtype)), 20);
		widen(&columns.shape, strlen(shape), SHAPE_COLUMNS_MAX);
		widen(&columns.size, count_digits(tensor.size_bytes), 20);
		widen(&columns.offset, count_digits(tensor.begin), 20);
	}
	return columns;
}

static void append_table(struct rsum_text *text, const struct ringsum_inspection *inspection,
			 size_t shard_index)
{
	struct columns columns = measure(text, inspection, shard_index);
	struct ringsum_tensor tensor;
	char shape[SHAPE_BYTES];
	size_t i;

	if (inspection->shards[shard_index].shard.tensor_count == 0)
		return;
	rsum_text_printf(text, "  %-*s  %-*s  %-*s  %*s  %*s\n", (int)columns.name, "name",
			 (int)columns.dtype, "dtype", (int)columns.shape, "shape",
			 (int)columns.size, "bytes", (int)columns.offset, "offset");
	for (i = 0; !text->has_failed &&
		    !ringsum_inspection_tensor_at(inspection, shard_index, i, &tensor);
	     i++) {
		rsum_text_printf(text, "  ");
		append_name(text, tensor.name, columns.name);
		rsum_text_printf(text, "  %-*s  ", (int)columns.dtype,
				 ringsum_dtype_name(tensor.dtype));
		append_padded(text,
			      rsum_shape_format(tensor.shape, tensor.rank, shape, sizeof(shape)),
			      columns.shape);
		rsum_text_printf(text, "  %*" PRIu64 "  %*" PRIu64 "\n", (int)columns.size,
				 tensor.size_bytes, (int)columns.offset, tensor.begin);
	}
}

/* ---- shards ------------------------------------------------------------------------------- */

static void append_metadata(struct rsum_text *text, const struct rsum_inspected *inspected)
{
	char value[VALUE_SHOWN_BYTES];
	size_t i;

	for (i = 0; i < inspected->shard.metadata_count && !text->has_failed; i++) {
		const char *key = rsum_safetensors_key(&inspected->header, i);
		const char *whole = rsum_safetensors_value(&inspected->header, i);

		rsum_text_printf(text, "  metadata  ");
		rsum_text_append_escaped(text, key);
		rsum_text_printf(text, " = ");
		rsum_text_append_escaped(text, rsum_text_shorten(whole, value, sizeof(value)));
		rsum_text_printf(text, "\n");
	}
}

static void append_fault(struct rsum_text *text, const struct ringsum_shard *shard)
{
	rsum_text_printf(text, "%s  %s  ", rsum_inspect_verdict_text(shard->verdict),
			 ringsum_finding_code_name(shard->code));
	rsum_text_append_escaped(text, shard->name);
	rsum_text_printf(text, ": ");
	rsum_text_append_message(text, shard->message);
	rsum_text_printf(text, "\n");
}

/* A file that has the wrong length only is refused, and its table is worth seeing all the same. */
static bool has_table(const struct rsum_inspected *inspected)
{
	return inspected->shard.verdict == RINGSUM_VERDICT_IDENTICAL ||
	       inspected->shard.tensor_count || inspected->shard.metadata_count;
}

/* Faults stand line below line; a table has an empty line before and behind it. */
static void append_shard(struct rsum_text *text, const struct ringsum_inspection *inspection,
			 size_t shard_index)
{
	const struct rsum_inspected *inspected = &inspection->shards[shard_index];
	const struct ringsum_shard *shard = &inspected->shard;

	if (shard->verdict != RINGSUM_VERDICT_IDENTICAL)
		append_fault(text, shard);
	if (has_table(inspected)) {
		rsum_text_append_escaped(text, shard->name);
		rsum_text_printf(text,
				 "  %" PRIu64 " bytes, header %" PRIu64 " bytes, %zu tensor%s\n",
				 shard->size_bytes, shard->header_bytes, shard->tensor_count,
				 shard->tensor_count == 1 ? "" : "s");
		append_metadata(text, inspected);
		append_table(text, inspection, shard_index);
	}
	if (has_table(inspected) || shard_index + 1 == inspection->shard_count ||
	    has_table(inspected + 1))
		rsum_text_printf(text, "\n");
}

static void append_sum(struct rsum_text *text, const char *name, const struct rsum_inspect_sum *sum,
		       const struct rsum_inspect_sum *widest)
{
	rsum_text_printf(text, "  %-11s  %*" PRIu64 " tensor%s  %*" PRIu64 " bytes\n", name,
			 (int)count_digits(widest->tensor_count), sum->tensor_count,
			 sum->tensor_count == 1 ? " " : "s", (int)count_digits(widest->size_bytes),
			 sum->size_bytes);
}

static void append_totals(struct rsum_text *text, const struct rsum_inspect_totals *totals)
{
	unsigned dtype;

	rsum_text_printf(text, "total\n");
	for (dtype = 0; dtype < RINGSUM_DTYPE_COUNT; dtype++) {
		if (totals->by_dtype[dtype].tensor_count)
			append_sum(text, ringsum_dtype_name((enum ringsum_dtype)dtype),
				   &totals->by_dtype[dtype], &totals->all);
	}
	append_sum(text, "all", &totals->all, &totals->all);
}

/* "refused: 3 shards, of which 2 valid, 1 refused, 0 undecided" */
static void append_verdict(struct rsum_text *text, const struct ringsum_inspection *inspection,
			   const struct rsum_inspect_totals *totals)
{
	enum ringsum_verdict verdict = ringsum_inspection_verdict(inspection);

	rsum_text_printf(text, "%s: %zu shard%s", rsum_inspect_verdict_text(verdict),
			 inspection->shard_count, inspection->shard_count == 1 ? "" : "s");
	if (verdict == RINGSUM_VERDICT_IDENTICAL)
		rsum_text_printf(text, "; headers only, no content was compared\n");
	else
		rsum_text_printf(text, ", of which %zu valid, %zu refused, %zu undecided\n",
				 totals->shards_valid, totals->shards_refused,
				 totals->shards_undecided);
}

RSUM_PUBLIC int ringsum_inspection_to_text(const struct ringsum_inspection *inspection,
					   char **text_out, struct ringsum_error *err)
{
	struct rsum_inspect_totals totals;
	struct rsum_text text = { 0 };
	size_t i;

	if (!inspection || !text_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "an inspection and a place for its text are needed");
	rsum_inspect_add_up(inspection, &totals);
	for (i = 0; i < inspection->shard_count && !text.has_failed; i++)
		append_shard(&text, inspection, i);
	if (totals.all.tensor_count > 0)
		append_totals(&text, &totals);
	append_verdict(&text, inspection, &totals);
	if (rsum_text_finish(&text, text_out))
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the inspection was written");
	return RINGSUM_OK;
}
