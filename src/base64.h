/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 (RFC 4648), strict: the standard alphabet, padding where it belongs, no blanks, and no
 * second spelling of the same bytes.
 */
#ifndef RSUM_BASE64_H
#define RSUM_BASE64_H

#include "base.h"

/*
 * Decodes text[0, length) into memory for at least length / 4 * 3 bytes, which may begin where
 * the text does. False for anything that is not strict base64; `data` then holds anything.
 */
RSUM_MUST_CHECK bool rsum_base64_decode(const char *text, size_t length, uint8_t *data,
					size_t *size_bytes_out);

/* A NUL-terminated string from malloc, or NULL. */
RSUM_MUST_CHECK char *rsum_base64_encode(const void *data, size_t size_bytes);

#endif
