/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 of 16 streams in vectors of 512 bits. The same as digest_avx512_x8.c but for what a
 * vector is; digest_avx512.c says when to use it.
 *
 * Intel has two ports for such vectors, so that 16 blocks take 1,700 operations and 850 cycles
 * at best, 0.83 a byte; Sapphire Rapids needs 880 to 900.
 */
#include "digest_impl.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define LANES 16
#define LANES_CODE __attribute__((target("avx512f,avx512bw,avx512vl")))

typedef __m512i words;

#define add(a, b) _mm512_add_epi32(a, b)
#define add_constant(a, constant) _mm512_add_epi32(a, _mm512_set1_epi32((int)*(constant)))
#define xor3(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0x96)
#define choose(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0xca)
#define majority(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0xe8)
#define rotate_right(a, count) _mm512_ror_epi32(a, count)
#define shift_right(a, count) _mm512_srli_epi32(a, count)
#define unpack32_low(a, b) _mm512_unpacklo_epi32(a, b)
#define unpack32_high(a, b) _mm512_unpackhi_epi32(a, b)
#define unpack64_low(a, b) _mm512_unpacklo_epi64(a, b)
#define unpack64_high(a, b) _mm512_unpackhi_epi64(a, b)
#define join_even(a, b) _mm512_shuffle_i32x4(a, b, 0x88)
#define join_odd(a, b) _mm512_shuffle_i32x4(a, b, 0xdd)

static inline __attribute__((always_inline)) LANES_CODE words swap_bytes(words a)
{
	const __m128i order = _mm_set_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);

	return _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(order));
}

/* Two streams to a row, so that after the joins stream i is in lane i. */
static inline __attribute__((always_inline)) LANES_CODE words
load_row(const uint8_t *const pointers[LANES], unsigned row, size_t offset)
{
	const uint8_t *first = pointers[row + (row & 4)] + offset;
	const uint8_t *second = pointers[row + (row & 4) + 4] + offset;
	__m256i low = _mm256_loadu_si256((const void *)first);
	__m256i high = _mm256_loadu_si256((const void *)second);

	return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* The joins leave the parts of two streams as first, second, first, second. */
static inline __attribute__((always_inline)) LANES_CODE void store_row(
	uint8_t *const pointers[LANES], unsigned row, words a)
{
	a = _mm512_shuffle_i32x4(a, a, 0xd8);
	_mm256_storeu_si256((void *)pointers[row], _mm512_castsi512_si256(a));
	_mm256_storeu_si256((void *)pointers[row + 8], _mm512_extracti64x4_epi64(a, 1));
}

#include "digest_lanes.h"

LANES_CODE void rsum_sha256_blocks_avx512_x16(const struct rsum_sha256_run *runs,
					      unsigned run_count, size_t block_count)
{
	compress_runs(runs, run_count, block_count);
	_mm256_zeroupper();
}

#endif
