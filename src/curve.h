/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a run was at which time, in a bounded number of points that is there before the run:
 * once they are used up, every second one gives way and the others stand twice as far apart.
 * Pure; the caller has the clock.
 */
#ifndef RSUM_CURVE_H
#define RSUM_CURVE_H

#include "base.h"

#define RSUM_CURVE_POINTS 256

struct rsum_curve_point {
	uint64_t elapsed_ns;
	uint64_t bytes; /* done by then, in all */
};

/* All zero is the empty state. The run begins at 0 ns with 0 bytes, which is no point. */
struct rsum_curve {
	struct rsum_curve_point points[RSUM_CURVE_POINTS];
	unsigned count;
	unsigned stride; /* of so many reports one becomes a point; 0 stands for 1 */
	unsigned skipped;
	struct rsum_curve_point last; /* what was reported last, point or not */
};

/* Takes a report; one that goes back in time or bytes is passed over. */
void rsum_curve_add(struct rsum_curve *curve, uint64_t elapsed_ns, uint64_t bytes);

#endif
