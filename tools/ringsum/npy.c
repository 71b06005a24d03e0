/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's header: a magic word, a version, a length, and a Python literal padded with blanks. */
#include "npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT 64
#define RANK_MAX 64	/* of a struct ringsum_tensor */
#define PREFIX_BYTES 10 /* magic, version, length */
#define NUMBER_BYTES 22 /* "18446744073709551615, " */

/* The longest literal: its fixed words, a dtype, and the numbers. */
_Static_assert(PREFIX_BYTES + 64 + RANK_MAX * NUMBER_BYTES + ALIGNMENT < NPY_HEADER_BYTES_MAX,
	       "every shape has room");

/* safetensors are little-endian on every host, and so says the header. */
static const char *descr_of(enum ringsum_dtype dtype)
{
	switch (dtype) {
	case RINGSUM_DTYPE_BOOL:
		return "|b1";
	case RINGSUM_DTYPE_U8:
		return "|u1";
	case RINGSUM_DTYPE_I8:
		return "|i1";
	case RINGSUM_DTYPE_I16:
		return "<i2";
	case RINGSUM_DTYPE_U16:
		return "<u2";
	case RINGSUM_DTYPE_F16:
		return "<f2";
	case RINGSUM_DTYPE_I32:
		return "<i4";
	case RINGSUM_DTYPE_U32:
		return "<u4";
	case RINGSUM_DTYPE_F32:
		return "<f4";
	case RINGSUM_DTYPE_I64:
		return "<i8";
	case RINGSUM_DTYPE_U64:
		return "<u8";
	case RINGSUM_DTYPE_F64:
		return "<f8";
	case RINGSUM_DTYPE_C64:
		return "<c8";
	default:
		return NULL;
	}
}

size_t npy_header(const struct ringsum_tensor *tensor, char header[NPY_HEADER_BYTES_MAX])
{
	static const char magic[] = "\x93NUMPY\x01";
	const char *descr = descr_of(tensor->dtype);
	size_t used = PREFIX_BYTES, room = NPY_HEADER_BYTES_MAX, whole, length;
	unsigned i;

	if (!descr || tensor->rank > RANK_MAX)
		return 0;
	memcpy(header, magic, sizeof(magic)); /* its NUL is the minor version */
	used += (size_t)snprintf(header + used, room - used,
				 "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (i = 0; i < tensor->rank; i++)
		used += (size_t)snprintf(header + used, room - used, "%s%" PRIu64,
					 i > 0 ? ", " : "", tensor->shape[i]);
	/* A tuple of one needs its comma. */
	used += (size_t)snprintf(header + used, room - used, "%s), }",
				 tensor->rank == 1 ? "," : "");
	/* One more for the newline that ends it. */
	whole = (used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	memset(header + used, ' ', whole - used);
	header[whole - 1] = '\n';
	length = whole - PREFIX_BYTES;
	header[8] = (char)(length & 0xff);
	header[9] = (char)(length >> 8);
	return whole;
}
