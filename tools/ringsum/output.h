/* SPDX-License-Identifier: Apache-2.0 */
/* Writes results whole or not at all: to standard output, or to a file by way of a temporary. */
#ifndef RINGSUM_TOOL_OUTPUT_H
#define RINGSUM_TOOL_OUTPUT_H

#include "ringsum.h"

/*
 * Writes `text` to standard output where path_or_dash is "-"; otherwise to a temporary beside the
 * file of that name, which is synced and renamed over it. A device or FIFO is written to as it is.
 * Returns 0, or RINGSUM_E_IO with *err (which may be NULL); the file is then as it was before.
 */
int output_write_all(const char *path_or_dash, const char *text, struct ringsum_error *err);

#endif
