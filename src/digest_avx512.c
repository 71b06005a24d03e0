/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which SHA-256 kernels go together where the processor has AVX-512: vectors for many streams,
 * and the SHA instructions, if it has them, for few. It knows nothing of messages or libcrypto.
 */
#include "digest_impl.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <string.h>

/*
 * A vector takes as long for one stream as for all its lanes. In units of a block by libcrypto
 * with SHA-NI, measured on Sapphire Rapids: 1 and 1.5 and 2.2 for one, two and three streams by
 * SHA-NI, 4.7 for up to 8 in vectors of 256 bits, 6.9 for up to 16 in vectors of 512 bits. These
 * are the cheapest sums: 4 streams are 2 and 2, 6 are 3 and 3, 10 are 8 and 2.
 */
static const uint8_t take_beside_shani[RSUM_SHA256_WIDTH_MAX] = { 1, 2, 3,  2,	3,  3,	7,  8,
								  8, 8, 11, 12, 13, 14, 15, 16 };

/* libcrypto without SHA-NI is several times slower, so that two streams are worth a vector. */
static const uint8_t take_alone[RSUM_SHA256_WIDTH_MAX] = { 1, 2,  3,  4,  5,  6,  7,  8,
							   9, 10, 11, 12, 13, 14, 15, 16 };

/* Instructions on registers that the system does not save fault: XCR0 bits 1, 2 and 5 to 7. */
static bool system_has_avx512(void)
{
	const unsigned saved = 0xe6;
	unsigned eax, ebx, ecx, edx, low, high;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
		return false;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if ((low & saved) != saved || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		return false;
	return (ebx & bit_AVX512F) && (ebx & bit_AVX512BW) && (ebx & bit_AVX512VL);
}

bool rsum_avx512_kernels(struct rsum_sha256_kernels *kernels_out)
{
	const struct rsum_sha256_kernels *shani = rsum_shani_kernels();
	struct rsum_sha256_kernels kernels = { .narrow_width = 4, .lone_blocks = 1 };

	if (!system_has_avx512())
		return false;
	if (shani != NULL)
		kernels = *shani;
	for (unsigned count = shani != NULL ? 4 : 1; count <= RSUM_SHA256_WIDTH_MAX; count++)
		kernels.blocks[count - 1] =
			count <= 8 ? rsum_sha256_blocks_avx512_x8 : rsum_sha256_blocks_avx512_x16;
	memcpy(kernels.take, shani != NULL ? take_beside_shani : take_alone, sizeof(kernels.take));
	*kernels_out = kernels;
	return true;
}

#else

bool rsum_avx512_kernels(struct rsum_sha256_kernels *kernels_out)
{
	(void)kernels_out;
	return false;
}

#endif
