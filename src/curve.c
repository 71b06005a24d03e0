/* SPDX-License-Identifier: Apache-2.0 */
/* Points of a run's progress. */
#include "curve.h"

#include <assert.h>

static_assert(RSUM_CURVE_POINTS % 2 == 0, "halving keeps the points evenly apart");

static void halve(struct rsum_curve *curve)
{
	/* Those at odd places stay, so that the next one is as far from the last as they are. */
	for (unsigned i = 0; i < RSUM_CURVE_POINTS / 2; i++)
		curve->points[i] = curve->points[2 * i + 1];
	curve->count = RSUM_CURVE_POINTS / 2;
	curve->stride *= 2;
}

void rsum_curve_add(struct rsum_curve *curve, uint64_t elapsed_ns, uint64_t bytes)
{
	if (elapsed_ns <= curve->last.elapsed_ns || bytes < curve->last.bytes)
		return;
	curve->last = (struct rsum_curve_point){ elapsed_ns, bytes };
	if (curve->stride == 0)
		curve->stride = 1;
	if (++curve->skipped < curve->stride)
		return;
	curve->skipped = 0;
	curve->points[curve->count++] = curve->last;
	if (curve->count == RSUM_CURVE_POINTS)
		halve(curve);
}
