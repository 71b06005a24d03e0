/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of headers and documents that leave the page cache alone: what is read once and not again
 * needs no place there, and must not take that of what others have in it.
 */
#ifndef RSUM_UNCACHED_H
#define RSUM_UNCACHED_H

#include "base.h"

/*
 * As rsum_file_read_at, with direct reads where the file takes them, through the page cache where
 * it does not. is_uncached false is rsum_file_read_at itself. Also -ENOMEM.
 */
RSUM_MUST_CHECK int rsum_uncached_read_at(int fd, bool is_uncached, uint64_t offset, void *buffer,
					  size_t size_bytes);

/* As rsum_file_read_all, likewise. */
RSUM_MUST_CHECK int rsum_uncached_read_all(int fd, bool is_uncached, uint64_t limit_bytes,
					   char **text_out, size_t *size_bytes_out);

#endif
