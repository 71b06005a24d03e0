/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 compression of one, two or three independent streams with the SHA instructions of
 * x86. The only file that may assume a processor; elsewhere it offers nothing. It knows nothing
 * of messages, padding or libcrypto.
 *
 * Two rounds are one sha256rnds2, and each needs the result of the one before: 4 cycles of
 * latency, so that a lone stream takes 128 cycles a block on Intel and AMD alike, whatever else
 * is done. The unit itself can start one every 2 to 3 cycles. Three streams in one loop fill it:
 * on Sapphire Rapids they run at the unit's own limit of 96 cycles a block.
 *
 * That holds only if the instructions come in a good order. With intrinsics the compilers draw
 * the message schedule of all streams together and lose a tenth (gcc 12, clang 14). So the SHA
 * instructions are volatile asm statements, which keep their order among themselves, and the
 * compilers only allocate registers and place the cheap instructions. The order: stream by
 * stream in steps of four rounds; within a step, the schedule of the *next* four words stands
 * before and between this step's rounds, which hides its latency of about 8 cycles.
 *
 * The functions are built without AVX even where the rest of the program has it: the SHA
 * instructions have an SSE encoding only, and beside AVX code the gain halves (clang 14).
 */
#include "digest_impl.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <string.h>

#define SHANI_CODE __attribute__((target("sha,sse4.1,ssse3,no-avx")))
#define SHANI_INLINE static inline __attribute__((always_inline)) SHANI_CODE

/* A lone run of so many blocks or more goes to libcrypto; the call costs less than a hundredth. */
#define LONE_BLOCKS 64

/* Four words of 32 bits, the first one lowest; + adds each. */
typedef uint32_t words4 __attribute__((vector_size(16)));

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractions of the cube roots of 64 primes. */
static const words4 round_constants[16] = {
	{ 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5 },
	{ 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5 },
	{ 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3 },
	{ 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174 },
	{ 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc },
	{ 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da },
	{ 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7 },
	{ 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967 },
	{ 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13 },
	{ 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85 },
	{ 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3 },
	{ 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070 },
	{ 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5 },
	{ 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3 },
	{ 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208 },
	{ 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 },
};

/* For pshufb: a message is words whose first byte is the highest. */
static const words4 big_endian_order = { 0x00010203, 0x04050607, 0x08090a0b, 0x0c0d0e0f };

/*
 * One stream in registers. The instructions want the state as two vectors, a b e f and c d g h,
 * highest first. Of the message schedule only the last 16 words live; words 4g to 4g + 3 are in
 * words[g % 4].
 */
struct lane {
	words4 abef, cdgh;
	words4 abef_before, cdgh_before;
	words4 words[4];
	const uint8_t *data;
};

/* From memory: clang would keep the constants in a register and spill the state instead. */
SHANI_INLINE words4 add_constants(words4 words, int group)
{
	__asm__ volatile("paddd %1, %0" : "+x"(words) : "m"(round_constants[group]));
	return words;
}

SHANI_INLINE void two_rounds(words4 *older, words4 newer, words4 words_and_constants)
{
	__asm__ volatile("sha256rnds2 %1, %0"
			 : "+x"(*older)
			 : "x"(newer), "Yz"(words_and_constants));
}

SHANI_INLINE words4 upper_half(words4 words)
{
	words4 upper;

	__asm__("pshufd $0x0e, %1, %0" : "=x"(upper) : "x"(words));
	return upper;
}

/* The part of words 4 * group on that takes words 16 and 15 before. */
SHANI_INLINE void schedule_begin(struct lane *lane, int group)
{
	__asm__ volatile("sha256msg1 %1, %0"
			 : "+x"(lane->words[group & 3])
			 : "x"(lane->words[(group + 1) & 3]));
}

/* The rest, that takes words 7 and 2 before: then words 4 * group on are there. */
SHANI_INLINE void schedule_end(struct lane *lane, int group)
{
	words4 *words = &lane->words[group & 3];
	words4 last = lane->words[(group + 3) & 3];
	words4 seven_before = last;

	__asm__("palignr $4, %1, %0" : "+x"(seven_before) : "x"(lane->words[(group + 2) & 3]));
	*words += seven_before;
	__asm__ volatile("sha256msg2 %1, %0" : "+x"(*words) : "x"(last));
}

SHANI_INLINE void load_words(struct lane *lane, int group)
{
	words4 *words = &lane->words[group];

	memcpy(words, lane->data + 16 * group, sizeof(*words));
	__asm__ volatile("pshufb %1, %0" : "+x"(*words) : "m"(big_endian_order));
}

/* Four rounds, and the words that later groups need. `group` is a constant after inlining. */
SHANI_INLINE void four_rounds(struct lane *lane, int group)
{
	words4 sum;

	if (group >= 3 && group <= 14)
		schedule_end(lane, group + 1);
	sum = add_constants(lane->words[group & 3], group);
	two_rounds(&lane->cdgh, lane->abef, sum);
	if (group >= 1 && group <= 12)
		schedule_begin(lane, group + 3);
	two_rounds(&lane->abef, lane->cdgh, upper_half(sum));
}

SHANI_INLINE void load_all(struct lane *lanes, unsigned width, int group)
{
	load_words(&lanes[0], group);
	if (width > 1)
		load_words(&lanes[1], group);
	if (width > 2)
		load_words(&lanes[2], group);
}

SHANI_INLINE void step_all(struct lane *lanes, unsigned width, int group)
{
	four_rounds(&lanes[0], group);
	if (width > 1)
		four_rounds(&lanes[1], group);
	if (width > 2)
		four_rounds(&lanes[2], group);
}

SHANI_INLINE void compress_all(struct lane *lanes, unsigned width)
{
	load_all(lanes, width, 0);
	load_all(lanes, width, 1);
	step_all(lanes, width, 0);
	load_all(lanes, width, 2);
	step_all(lanes, width, 1);
	load_all(lanes, width, 3);
	step_all(lanes, width, 2);
	step_all(lanes, width, 3);
	step_all(lanes, width, 4);
	step_all(lanes, width, 5);
	step_all(lanes, width, 6);
	step_all(lanes, width, 7);
	step_all(lanes, width, 8);
	step_all(lanes, width, 9);
	step_all(lanes, width, 10);
	step_all(lanes, width, 11);
	step_all(lanes, width, 12);
	step_all(lanes, width, 13);
	step_all(lanes, width, 14);
	step_all(lanes, width, 15);
}

SHANI_INLINE void lane_begin(struct lane *lane, const struct rsum_sha256_run *run)
{
	const uint32_t *state = run->state;

	lane->abef = (words4){ state[5], state[4], state[1], state[0] };
	lane->cdgh = (words4){ state[7], state[6], state[3], state[2] };
	lane->data = run->data;
}

SHANI_INLINE void lane_end(const struct lane *lane, const struct rsum_sha256_run *run)
{
	uint32_t *state = run->state;

	state[0] = lane->abef[3];
	state[1] = lane->abef[2];
	state[2] = lane->cdgh[3];
	state[3] = lane->cdgh[2];
	state[4] = lane->abef[1];
	state[5] = lane->abef[0];
	state[6] = lane->cdgh[1];
	state[7] = lane->cdgh[0];
}

SHANI_INLINE void block_begin(struct lane *lane)
{
	lane->abef_before = lane->abef;
	lane->cdgh_before = lane->cdgh;
}

SHANI_INLINE void block_end(struct lane *lane)
{
	lane->abef += lane->abef_before;
	lane->cdgh += lane->cdgh_before;
	lane->data += RSUM_SHA256_BLOCK_BYTES;
}

SHANI_CODE static void blocks_x1(const struct rsum_sha256_run *runs, unsigned run_count,
				 size_t block_count)
{
	struct lane lanes[1];

	RSUM_ASSERT(run_count == 1);
	lane_begin(&lanes[0], &runs[0]);
	for (; block_count > 0; block_count--) {
		block_begin(&lanes[0]);
		compress_all(lanes, 1);
		block_end(&lanes[0]);
	}
	lane_end(&lanes[0], &runs[0]);
}

SHANI_CODE static void blocks_x2(const struct rsum_sha256_run *runs, unsigned run_count,
				 size_t block_count)
{
	struct lane lanes[2];

	RSUM_ASSERT(run_count == 2);
	lane_begin(&lanes[0], &runs[0]);
	lane_begin(&lanes[1], &runs[1]);
	for (; block_count > 0; block_count--) {
		block_begin(&lanes[0]);
		block_begin(&lanes[1]);
		compress_all(lanes, 2);
		block_end(&lanes[0]);
		block_end(&lanes[1]);
	}
	lane_end(&lanes[0], &runs[0]);
	lane_end(&lanes[1], &runs[1]);
}

SHANI_CODE static void blocks_x3(const struct rsum_sha256_run *runs, unsigned run_count,
				 size_t block_count)
{
	struct lane lanes[3];

	RSUM_ASSERT(run_count == 3);
	lane_begin(&lanes[0], &runs[0]);
	lane_begin(&lanes[1], &runs[1]);
	lane_begin(&lanes[2], &runs[2]);
	for (; block_count > 0; block_count--) {
		block_begin(&lanes[0]);
		block_begin(&lanes[1]);
		block_begin(&lanes[2]);
		compress_all(lanes, 3);
		block_end(&lanes[0]);
		block_end(&lanes[1]);
		block_end(&lanes[2]);
	}
	lane_end(&lanes[0], &runs[0]);
	lane_end(&lanes[1], &runs[1]);
	lane_end(&lanes[2], &runs[2]);
}

/*
 * Upper halves that AVX code left dirty make SSE instructions merge with them on some processors:
 * it halved the speed of a Zen 4 core, and does nothing to a Sapphire Rapids. One instruction of
 * a few cycles, so it is done before every run.
 */
static void clean_registers(void)
{
	__asm__ volatile("vzeroupper");
}

#define KERNELS                                                                                \
	.blocks = { blocks_x1, blocks_x2, blocks_x3 }, .take = { 1, 2, 3 }, .narrow_width = 3, \
	.lone_blocks = LONE_BLOCKS

static const struct rsum_sha256_kernels kernels_sse = { KERNELS };

static const struct rsum_sha256_kernels kernels_avx = {
	KERNELS,
	.clean_registers = clean_registers,
};

/* AVX instructions fault unless the system saves their registers: XCR0 bits 1 and 2. */
static bool system_has_avx(unsigned leaf1_ecx)
{
	unsigned low, high;

	if (!(leaf1_ecx & bit_OSXSAVE) || !(leaf1_ecx & bit_AVX))
		return false;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & 6) == 6;
}

/* The SHA instructions use the XMM registers only, which every x86-64 system saves. */
const struct rsum_sha256_kernels *rsum_shani_kernels(void)
{
	unsigned eax, ebx, ecx, edx, leaf1_ecx;

	if (!__get_cpuid(1, &eax, &ebx, &leaf1_ecx, &edx) ||
	    !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		return NULL;
	if (!(ebx & bit_SHA) || !(leaf1_ecx & bit_SSSE3) || !(leaf1_ecx & bit_SSE4_1))
		return NULL;
	return system_has_avx(leaf1_ecx) ? &kernels_avx : &kernels_sse;
}

#else

const struct rsum_sha256_kernels *rsum_shani_kernels(void)
{
	return NULL;
}

#endif
