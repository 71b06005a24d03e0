/* SPDX-License-Identifier: Apache-2.0 */
/* A limit on bytes a second. */
#include "rate.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define CHUNKS_PER_SECOND 16

uint64_t rsum_rate_wait_ns(const struct rsum_rate *rate, uint64_t now_ns)
{
	if (!rate->bytes_per_second || now_ns >= rate->next_ns)
		return 0;
	return rate->next_ns - now_ns;
}

void rsum_rate_take(struct rsum_rate *rate, uint64_t now_ns, uint32_t size_bytes)
{
	uint64_t earliest = now_ns - RSUM_MIN(now_ns, RSUM_RATE_CATCH_UP_NS);

	if (!rate->bytes_per_second)
		return;
	/* 2^32 x 10^9 stays below 2^62. */
	rate->next_ns = RSUM_MAX(rate->next_ns, earliest) +
			(uint64_t)size_bytes * NS_PER_SECOND / rate->bytes_per_second;
}

uint32_t rsum_rate_chunk_bytes(uint64_t bytes_per_second, uint32_t least_bytes, uint32_t most_bytes)
{
	uint64_t wanted = bytes_per_second / CHUNKS_PER_SECOND;
	uint32_t chunk = least_bytes;

	if (!bytes_per_second || wanted >= most_bytes || least_bytes >= most_bytes)
		return most_bytes;
	while ((uint64_t)chunk * 2 <= wanted)
		chunk *= 2;
	return chunk;
}
