/* SPDX-License-Identifier: Apache-2.0 */
/* What a verification takes from a journal, and what becomes of the journal in the end. */
#ifndef RSUM_RESUME_H
#define RSUM_RESUME_H

#include "base.h"
#include "reading.h"

/*
 * Opens the journal that the options name, where there is a manifest for it to be of, sets
 * reading->journal, and marks the wants that an earlier run had proven. Returns as
 * rsum_journal_open.
 */
RSUM_MUST_CHECK int rsum_resume_open(struct rsum_reading *reading, struct ringsum_error *err);

/* The reading was carried through: removes its journal. What cannot be removed is a finding. */
void rsum_resume_discard(struct rsum_reading *reading);

#endif
