/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a benchmark: rates from memory, and what the measurements mean. */
#ifndef RSUM_BENCH_H
#define RSUM_BENCH_H

#include "base.h"
#include "digest.h"
#include "ringsum.h"

#define RSUM_BENCH_ROUNDS 3

/* Implementations of the digest are RINGSUM_DIGEST_LIBCRYPTO and so on, to this one. */
#define RSUM_BENCH_DIGEST_LAST RINGSUM_DIGEST_AVX512_X16

/* The middle one of RSUM_BENCH_ROUNDS values, which are sorted in place. */
uint64_t rsum_bench_median(uint64_t values[RSUM_BENCH_ROUNDS]);

/*
 * Fills the hash_* members: every implementation that this processor has, `impl` with a lone
 * stream, and `impl` on `threads` threads. Takes about a second and a half. Returns 0,
 * RINGSUM_E_NOMEM, or RINGSUM_E_UNDECIDED where libcrypto refused.
 */
RSUM_MUST_CHECK int rsum_bench_hash(const struct rsum_digest_impl *impl, unsigned threads,
				    struct ringsum_bench_result *result);

/* The lower of what the disk gave and what hashing can do: 100% in the tables. */
uint64_t rsum_bench_bound(const struct ringsum_bench_result *result);

/* Sets limit and conclusion from everything else. Pure. */
void rsum_bench_conclude(struct ringsum_bench_result *result);

#endif
