/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the caller's struct ringsum_error. */
#ifndef RSUM_ERROR_H
#define RSUM_ERROR_H

#include "base.h"
#include "ringsum.h"

/* Writes code and one line of text into *err (which may be NULL) and returns `code`. */
RSUM_PRINTF(3, 4)
int rsum_error_set(struct ringsum_error *err, int code, const char *format, ...);

/* The same for a failed system call: keeps os_errno and appends its text to the line. */
RSUM_PRINTF(4, 5)
int rsum_error_set_errno(struct ringsum_error *err, int code, int os_errno, const char *format,
			 ...);

#endif
