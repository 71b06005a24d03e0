/* SPDX-License-Identifier: Apache-2.0 */
/* The header that makes a tensor's bytes a NumPy file (NEP 1, format 1.0). */
#ifndef RINGSUM_TOOL_NPY_H
#define RINGSUM_TOOL_NPY_H

#include "ringsum.h"

#include <stddef.h>

/* Enough for the 64 numbers that a shape may have. */
#define NPY_HEADER_BYTES_MAX 2048

/*
 * Writes the header of a tensor, whose bytes follow it unchanged. Returns its length, a multiple
 * of 64, or 0 where NumPy has no such dtype.
 */
size_t npy_header(const struct ringsum_tensor *tensor, char header[NPY_HEADER_BYTES_MAX]);

#endif
