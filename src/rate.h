/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit on bytes a second. Pure: the caller has the clock.
 *
 * Each read pushes the time of the next one on by what its bytes may take. A reader that was held
 * up otherwise may make good for at most RSUM_RATE_CATCH_UP_NS; beyond that time is lost.
 */
#ifndef RSUM_RATE_H
#define RSUM_RATE_H

#include "base.h"

#define RSUM_RATE_CATCH_UP_NS UINT64_C(100000000)

/* All zero is no limit. */
struct rsum_rate {
	uint64_t bytes_per_second; /* 0: no limit */
	uint64_t next_ns;	   /* from then on the next read may begin */
};

/* Nanoseconds until the next read may begin; 0 now. */
uint64_t rsum_rate_wait_ns(const struct rsum_rate *rate, uint64_t now_ns);

/* Accounts for a read of at most 4 GiB that begins now. */
void rsum_rate_take(struct rsum_rate *rate, uint64_t now_ns, uint32_t size_bytes);

/*
 * The largest read that keeps the flow smooth: a sixteenth of a second's bytes, as a power of two
 * between least_bytes and most_bytes (both are multiples of 4,096, and least_bytes a power of
 * two); most_bytes itself where it is small enough.
 */
uint32_t rsum_rate_chunk_bytes(uint64_t bytes_per_second, uint32_t least_bytes,
			       uint32_t most_bytes);

#endif
