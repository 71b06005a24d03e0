/* SPDX-License-Identifier: Apache-2.0 */
/* The dtypes of the safetensors format: names and bits; and sizes of shapes. */
#ifndef RSUM_DTYPE_H
#define RSUM_DTYPE_H

#include "base.h"
#include "ringsum.h"

/* True and *dtype_out where `name` is exactly a dtype's name. */
RSUM_MUST_CHECK bool rsum_dtype_from_name(const char *name, enum ringsum_dtype *dtype_out);

enum rsum_shape_result {
	RSUM_SHAPE_OK,
	RSUM_SHAPE_OVERFLOW,	/* elements, or elements x bits, exceed 64 bits */
	RSUM_SHAPE_PART_OF_BYTE /* a sub-byte dtype that does not come to whole bytes */
};

/*
 * Bytes of a tensor. The product is taken from the first dimension to the last and overflow is
 * refused as it arises: [2^63, 2, 0] overflows, [0, 2^63, 2] is 0 (as the reference does).
 */
RSUM_MUST_CHECK enum rsum_shape_result rsum_shape_bytes(enum ringsum_dtype dtype,
							const uint64_t *shape, unsigned rank,
							uint64_t *bytes_out);

/* "[128, 5120]" into `buffer`, shortened with "..." where it does not fit. Returns buffer. */
const char *rsum_shape_format(const uint64_t *shape, unsigned rank, char *buffer, size_t size_bytes);

#endif
