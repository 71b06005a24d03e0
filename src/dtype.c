/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dtypes, and what a shape comes to. */
#include "dtype.h"

#include <assert.h>
#include <string.h>

struct dtype_row {
	const char *name;
	unsigned bits;
};

static const struct dtype_row dtypes[] = {
	[RINGSUM_DTYPE_BOOL] = { "BOOL", 8 },
	[RINGSUM_DTYPE_F4] = { "F4", 4 },
	[RINGSUM_DTYPE_F6_E2M3] = { "F6_E2M3", 6 },
	[RINGSUM_DTYPE_F6_E3M2] = { "F6_E3M2", 6 },
	[RINGSUM_DTYPE_U8] = { "U8", 8 },
	[RINGSUM_DTYPE_I8] = { "I8", 8 },
	[RINGSUM_DTYPE_F8_E5M2] = { "F8_E5M2", 8 },
	[RINGSUM_DTYPE_F8_E4M3] = { "F8_E4M3", 8 },
	[RINGSUM_DTYPE_F8_E8M0] = { "F8_E8M0", 8 },
	[RINGSUM_DTYPE_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8 },
	[RINGSUM_DTYPE_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8 },
	[RINGSUM_DTYPE_I16] = { "I16", 16 },
	[RINGSUM_DTYPE_U16] = { "U16", 16 },
	[RINGSUM_DTYPE_F16] = { "F16", 16 },
	[RINGSUM_DTYPE_BF16] = { "BF16", 16 },
	[RINGSUM_DTYPE_I32] = { "I32", 32 },
	[RINGSUM_DTYPE_U32] = { "U32", 32 },
	[RINGSUM_DTYPE_F32] = { "F32", 32 },
	[RINGSUM_DTYPE_C64] = { "C64", 64 },
	[RINGSUM_DTYPE_F64] = { "F64", 64 },
	[RINGSUM_DTYPE_I64] = { "I64", 64 },
	[RINGSUM_DTYPE_U64] = { "U64", 64 },
};
static_assert(RSUM_COUNT_OF(dtypes) == RINGSUM_DTYPE_COUNT, "every dtype has its row");

RSUM_PUBLIC const char *ringsum_dtype_name(enum ringsum_dtype dtype)
{
	return (size_t)dtype < RSUM_COUNT_OF(dtypes) ? dtypes[dtype].name : NULL;
}

RSUM_PUBLIC unsigned ringsum_dtype_bits(enum ringsum_dtype dtype)
{
	return (size_t)dtype < RSUM_COUNT_OF(dtypes) ? dtypes[dtype].bits : 0;
}

bool rsum_dtype_from_name(const char *name, enum ringsum_dtype *dtype_out)
{
	for (size_t i = 0; i < RSUM_COUNT_OF(dtypes); i++) {
		if (name[0] == dtypes[i].name[0] && strcmp(name, dtypes[i].name) == 0) {
			*dtype_out = (enum ringsum_dtype)i;
			return true;
		}
	}
	return false;
}

enum rsum_shape_result rsum_shape_bytes(enum ringsum_dtype dtype, const uint64_t *shape,
					unsigned rank, uint64_t *bytes_out)
{
	uint64_t elements = 1;
	uint64_t bits;

	for (unsigned i = 0; i < rank; i++) {
		if (!rsum_mul_u64(elements, shape[i], &elements))
			return RSUM_SHAPE_OVERFLOW;
	}
	if (!rsum_mul_u64(elements, ringsum_dtype_bits(dtype), &bits))
		return RSUM_SHAPE_OVERFLOW;
	if (bits % 8 != 0)
		return RSUM_SHAPE_PART_OF_BYTE;
	*bytes_out = bits / 8;
	return RSUM_SHAPE_OK;
}

const char *rsum_shape_format(const uint64_t *shape, unsigned rank, char *buffer, size_t size_bytes)
{
	static const char shortened[] = "...]";
	char dimension[32];
	size_t used, length;

	RSUM_ASSERT(size_bytes > sizeof(shortened));
	used = (size_t)snprintf(buffer, size_bytes, "[");
	for (unsigned i = 0; i < rank; i++) {
		length = (size_t)snprintf(dimension, sizeof(dimension), "%s%llu", i ? ", " : "",
					  (unsigned long long)shape[i]);
		/* Room stays for the mark that says there is more. */
		if (size_bytes - used < length + sizeof(shortened)) {
			memcpy(buffer + used, shortened, sizeof(shortened));
			return buffer;
		}
		memcpy(buffer + used, dimension, length + 1);
		used += length;
	}
	memcpy(buffer + used, "]", 2);
	return buffer;
}
