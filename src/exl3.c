/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an EXL3 linear: rules E1 and E2, and what E3 needs. */
#include "exl3.h"

#include <inttypes.h>

#include "dtype.h"

#define TILE 16 /* a trellis counts in tiles of 16 x 16 weights */

const char *const rsum_exl3_part_names[RSUM_EXL3_PART_COUNT] = {
	[RSUM_EXL3_TRELLIS] = "trellis",
	[RSUM_EXL3_SUH] = "suh",
	[RSUM_EXL3_SVH] = "svh",
	[RSUM_EXL3_MUL1] = "mul1",
};

static const enum ringsum_dtype part_dtypes[RSUM_EXL3_PART_COUNT] = {
	[RSUM_EXL3_TRELLIS] = RINGSUM_DTYPE_I16,
	[RSUM_EXL3_SUH] = RINGSUM_DTYPE_F16,
	[RSUM_EXL3_SVH] = RINGSUM_DTYPE_F16,
	[RSUM_EXL3_MUL1] = RINGSUM_DTYPE_I32,
};

struct check {
	const struct rsum_manifest *manifest;
	struct ringsum_report *report;
	bool *refused; /* one for each promise: it is at fault */
};

static void refuse_part(const struct check *check, uint32_t index, const char *expected,
			const char *actual, const char *message)
{
	const struct ringsum_tensor *tensor = &check->manifest->promises[index].tensor;

	check->refused[index] = true;
	rsum_report_add(check->report, &(struct ringsum_finding){
					       .code = RINGSUM_FINDING_EXL3_INVALID,
					       .tensor = tensor->name,
					       .file = tensor->shard,
					       .has_range = 1,
					       .begin = tensor->begin,
					       .end = tensor->end,
					       .expected = expected,
					       .actual = actual,
					       .message = message,
				       });
}

static void refuse_shape(const struct check *check, uint32_t index, const char *expected,
			 const char *message)
{
	const struct ringsum_tensor *tensor = &check->manifest->promises[index].tensor;
	char actual[128];

	refuse_part(check, index, expected,
		    rsum_shape_format(tensor->shape, tensor->rank, actual, sizeof(actual)),
		    message);
}

static bool trellis_is_good(const struct ringsum_tensor *tensor)
{
	return tensor->rank == 3 && tensor->shape[2] > 0 && tensor->shape[2] % TILE == 0;
}

/* E2: suh has 16 elements for each of the trellis's rows of tiles, svh for each column. */
static void check_scale(const struct check *check, uint32_t index,
			const struct ringsum_tensor *trellis, unsigned axis)
{
	const struct ringsum_tensor *tensor = &check->manifest->promises[index].tensor;
	char expected[64] = "[N]";
	uint64_t length = 0;
	bool is_known = trellis && trellis->rank == 3, is_good;

	if (is_known && !rsum_mul_u64(trellis->shape[axis], TILE, &length)) {
		snprintf(expected, sizeof(expected), "[16 x %" PRIu64 "]", trellis->shape[axis]);
		is_good = false; /* beyond 64 bits: no shape can be that */
	} else {
		if (is_known)
			snprintf(expected, sizeof(expected), "[%" PRIu64 "]", length);
		is_good = tensor->rank == 1 && (!is_known || tensor->shape[0] == length);
	}
	if (!is_good)
		refuse_shape(check, index, expected,
			     axis == 0
				     ? "suh must have 16 elements for each row of the trellis"
				     : "svh must have 16 elements for each column of the trellis");
}

/* What E3 needs: a first word to look at. */
static void check_mul1(const struct check *check, uint32_t index)
{
	const struct ringsum_tensor *tensor = &check->manifest->promises[index].tensor;
	uint64_t bytes = 0;

	if (rsum_shape_bytes(RINGSUM_DTYPE_I32, tensor->shape, tensor->rank, &bytes) !=
		    RSUM_SHAPE_OK ||
	    bytes < 4 || tensor->size_bytes < 4)
		refuse_shape(check, index, "one element or more",
			     "mul1 has no first word that could be the codebook's marker");
}

static void check_dtype(const struct check *check, uint32_t index, enum rsum_exl3_part part)
{
	enum ringsum_dtype dtype = check->manifest->promises[index].tensor.dtype;

	if (dtype != part_dtypes[part])
		refuse_part(check, index, ringsum_dtype_name(part_dtypes[part]),
			    ringsum_dtype_name(dtype),
			    "this part of an EXL3 linear has a dtype "
			    "that it cannot have");
}

void rsum_exl3_check(const struct rsum_manifest *manifest,
		     const uint32_t found[RSUM_EXL3_PART_COUNT], bool *refused,
		     struct ringsum_report *report)
{
	const struct check linear = { .manifest = manifest, .report = report, .refused = refused };
	const struct check *check = &linear;
	const struct rsum_promise *promises = manifest->promises;
	const struct ringsum_tensor *trellis = NULL;

	for (unsigned part = 0; part < RSUM_EXL3_PART_COUNT; part++) {
		uint32_t index = found[part];

		if (index == RSUM_NAME_INDEX_NONE || !promises[index].is_wellformed)
			continue;
		check_dtype(check, index, (enum rsum_exl3_part)part);
		if (part == RSUM_EXL3_TRELLIS) {
			trellis = &promises[index].tensor;
			if (!trellis_is_good(trellis))
				refuse_shape(check, index, "[in/16, out/16, 16 x K], K at least 1",
					     "the trellis has a shape that no EXL3 linear has");
		} else if (part == RSUM_EXL3_MUL1) {
			check_mul1(check, index);
		} else {
			check_scale(check, index, trellis, part == RSUM_EXL3_SUH ? 0 : 1);
		}
	}
}
