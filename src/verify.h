/* SPDX-License-Identifier: Apache-2.0 */
/* A verification in steps, for one checkpoint (verify.c) and for many (many.c). */
#ifndef RSUM_VERIFY_H
#define RSUM_VERIFY_H

#include "base.h"
#include "checkpoint.h"
#include "reading.h"

/* All zero is the empty state. */
struct rsum_verification {
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_report *report;
	struct rsum_reading reading;
	struct rsum_pass *pass;
};

/* Begins to verify a prepared checkpoint. Returns 0, or RINGSUM_E_NOMEM with nothing to end. */
RSUM_MUST_CHECK int rsum_verification_begin(struct rsum_verification *verification,
					    struct ringsum_checkpoint *checkpoint,
					    struct ringsum_error *err);

/*
 * Ends it after its jobs were read, which came to `result` (RINGSUM_OK, RINGSUM_E_CANCELED or an
 * error with its line in *reason). Gives the report to *report_out (NULL: frees it). Returns what
 * goes with the verdict, or RINGSUM_E_CANCELED.
 */
RSUM_MUST_CHECK int rsum_verification_end(struct rsum_verification *verification, int result,
					  const struct ringsum_error *reason,
					  struct ringsum_report **report_out,
					  struct ringsum_error *err);

/*
 * The report on a path that could not be prepared, for the results that give one (NOPROMISE and
 * IO); NULL for others, or where memory ran out.
 */
struct ringsum_report *rsum_verification_failure(const char *path, int result,
						 const struct ringsum_error *reason);

#endif
