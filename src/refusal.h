/* SPDX-License-Identifier: Apache-2.0 */
/* Why a pure check said no: what a finding needs but for the tensor and file it is about. */
#ifndef RSUM_REFUSAL_H
#define RSUM_REFUSAL_H

#include "base.h"
#include "ringsum.h"

struct rsum_refusal {
	enum ringsum_finding_code code;
	char expected[128]; /* "" where there is none */
	char actual[128];   /* "" where there is none */
	char message[384];
};

/* Fills code and message, clears expected and actual, and returns RINGSUM_E_REFUSED. */
RSUM_PRINTF(3, 4)
int rsum_refusal_set(struct rsum_refusal *refusal, enum ringsum_finding_code code,
		     const char *format, ...);

/* Appends "; 88 NOUN" to the message, whose end gives way where there is no room; 0: nothing. */
void rsum_refusal_add_count(struct rsum_refusal *refusal, uint64_t count, const char *one,
			    const char *many);

#endif
