/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 of many independent streams, one in each 32-bit lane of a vector: the part that does
 * not depend on the width of the vector. Included once by each kernel's file, after it has said
 * what a vector is:
 *
 *	LANES		how many words a vector has: the streams side by side
 *	LANES_CODE	the attribute of functions that use its instructions
 *	words		its type
 *	add, xor3, choose, majority, add_constant, rotate_right, shift_right	on each word
 *	swap_bytes	of each word
 *	unpack32_low, unpack32_high, unpack64_low, unpack64_high	within parts of 128 bits
 *	join_even, join_odd	the even or the odd parts of two vectors
 *	load_row, store_row	eight words of a stream each, as many streams as fit
 *
 * and it knows nothing of messages, padding or libcrypto. Every operation here takes a slot of
 * the vector ports, which are always busy, so that their number is what counts: 28 for a round
 * with its message word. Order hardly matters; the processor finds enough to do. Fetching ahead
 * gained nothing either, in the cache or beyond it.
 */
#ifndef RSUM_DIGEST_LANES_H
#define RSUM_DIGEST_LANES_H

#include "digest_impl.h"

#define LANES_INLINE static inline __attribute__((always_inline)) LANES_CODE

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractions of the cube roots of 64 primes. */
static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

/* Where the streams are; those that are not there read the first one's data, and write nowhere. */
struct lanes {
	uint8_t *state[LANES];
	const uint8_t *data[LANES];
	uint32_t nowhere[8];
};

/* ---- between rows, eight words of a stream, and vectors, one word of every stream -------- */

/* Four rows: afterwards out[i] has word i of each, part by part. */
LANES_INLINE void transpose_parts(const words rows[4], words out[4])
{
	words low01 = unpack32_low(rows[0], rows[1]), high01 = unpack32_high(rows[0], rows[1]);
	words low23 = unpack32_low(rows[2], rows[3]), high23 = unpack32_high(rows[2], rows[3]);

	out[0] = unpack64_low(low01, low23);
	out[1] = unpack64_high(low01, low23);
	out[2] = unpack64_low(high01, high23);
	out[3] = unpack64_high(high01, high23);
}

LANES_INLINE void transpose(const words rows[8], words out[8])
{
	words parts[8];

	transpose_parts(rows, parts);
	transpose_parts(rows + 4, parts + 4);
	out[0] = join_even(parts[0], parts[4]);
	out[1] = join_even(parts[1], parts[5]);
	out[2] = join_even(parts[2], parts[6]);
	out[3] = join_even(parts[3], parts[7]);
	out[4] = join_odd(parts[0], parts[4]);
	out[5] = join_odd(parts[1], parts[5]);
	out[6] = join_odd(parts[2], parts[6]);
	out[7] = join_odd(parts[3], parts[7]);
}

LANES_INLINE void load_data(const struct lanes *lanes, size_t offset, words out[8])
{
	words rows[8] = {
		load_row(lanes->data, 0, offset), load_row(lanes->data, 1, offset),
		load_row(lanes->data, 2, offset), load_row(lanes->data, 3, offset),
		load_row(lanes->data, 4, offset), load_row(lanes->data, 5, offset),
		load_row(lanes->data, 6, offset), load_row(lanes->data, 7, offset),
	};

	transpose(rows, out);
	out[0] = swap_bytes(out[0]);
	out[1] = swap_bytes(out[1]);
	out[2] = swap_bytes(out[2]);
	out[3] = swap_bytes(out[3]);
	out[4] = swap_bytes(out[4]);
	out[5] = swap_bytes(out[5]);
	out[6] = swap_bytes(out[6]);
	out[7] = swap_bytes(out[7]);
}

LANES_INLINE void load_state(const struct lanes *lanes, words out[8])
{
	const uint8_t *const *state = (const uint8_t *const *)lanes->state;
	words rows[8] = {
		load_row(state, 0, 0), load_row(state, 1, 0), load_row(state, 2, 0),
		load_row(state, 3, 0), load_row(state, 4, 0), load_row(state, 5, 0),
		load_row(state, 6, 0), load_row(state, 7, 0),
	};

	transpose(rows, out);
}

LANES_INLINE void store_state(const struct lanes *lanes, const words state[8])
{
	words rows[8];

	transpose(state, rows);
	store_row(lanes->state, 0, rows[0]);
	store_row(lanes->state, 1, rows[1]);
	store_row(lanes->state, 2, rows[2]);
	store_row(lanes->state, 3, rows[3]);
	store_row(lanes->state, 4, rows[4]);
	store_row(lanes->state, 5, rows[5]);
	store_row(lanes->state, 6, rows[6]);
	store_row(lanes->state, 7, rows[7]);
}

/* ---- compression: FIPS 180-4, 6.2.2 ------------------------------------------------------ */

/* Of the message schedule only the last 16 words live. `t` is a constant after inlining. */
LANES_INLINE void schedule(words w[16], unsigned t)
{
	words old = w[(t + 1) & 15], recent = w[(t + 14) & 15];
	words sum = add(w[t & 15], w[(t + 9) & 15]);

	sum = add(sum, xor3(rotate_right(old, 7), rotate_right(old, 18), shift_right(old, 3)));
	w[t & 15] = add(sum, xor3(rotate_right(recent, 17), rotate_right(recent, 19),
				  shift_right(recent, 10)));
}

/* The letters walk over s, so that nothing is moved: a is s[0] in round 0, s[7] in round 1. */
LANES_INLINE void one_round(words s[8], words w[16], const uint32_t *constants, unsigned t,
			    bool has_words)
{
	words a = s[(0 - t) & 7], b = s[(1 - t) & 7], c = s[(2 - t) & 7];
	words e = s[(4 - t) & 7], f = s[(5 - t) & 7], g = s[(6 - t) & 7];
	words sum;

	if (!has_words)
		schedule(w, t);
	sum = add(s[(7 - t) & 7], add_constant(w[t], constants + t));
	sum = add(sum, choose(e, f, g));
	sum = add(sum, xor3(rotate_right(e, 6), rotate_right(e, 11), rotate_right(e, 25)));
	s[(3 - t) & 7] = add(s[(3 - t) & 7], sum);
	sum = add(sum, majority(a, b, c));
	s[(7 - t) & 7] =
		add(sum, xor3(rotate_right(a, 2), rotate_right(a, 13), rotate_right(a, 22)));
}

/* Written out here and above, since gcc 12 leaves such loops as they are. */
LANES_INLINE void four_rounds(words s[8], words w[16], const uint32_t *constants, unsigned t,
			      bool has_words)
{
	one_round(s, w, constants, t, has_words);
	one_round(s, w, constants, t + 1, has_words);
	one_round(s, w, constants, t + 2, has_words);
	one_round(s, w, constants, t + 3, has_words);
}

LANES_INLINE void sixteen_rounds(words s[8], words w[16], const uint32_t *constants, bool has_words)
{
	four_rounds(s, w, constants, 0, has_words);
	four_rounds(s, w, constants, 4, has_words);
	four_rounds(s, w, constants, 8, has_words);
	four_rounds(s, w, constants, 12, has_words);
}

LANES_INLINE void compress(words state[8], words w[16])
{
	words s[8] = { state[0], state[1], state[2], state[3],
		       state[4], state[5], state[6], state[7] };

	sixteen_rounds(s, w, round_constants, true);
	for (unsigned t = 16; t < 64; t += 16)
		sixteen_rounds(s, w, round_constants + t, false);
	state[0] = add(state[0], s[0]);
	state[1] = add(state[1], s[1]);
	state[2] = add(state[2], s[2]);
	state[3] = add(state[3], s[3]);
	state[4] = add(state[4], s[4]);
	state[5] = add(state[5], s[5]);
	state[6] = add(state[6], s[6]);
	state[7] = add(state[7], s[7]);
}

LANES_INLINE void lanes_begin(struct lanes *lanes, const struct rsum_sha256_run *runs,
			      unsigned run_count)
{
	RSUM_ASSERT(run_count >= 1 && run_count <= LANES);
	for (unsigned i = 0; i < LANES; i++) {
		bool is_there = i < run_count;

		lanes->state[i] = (uint8_t *)(is_there ? runs[i].state : lanes->nowhere);
		lanes->data[i] = runs[is_there ? i : 0].data;
	}
	memset(lanes->nowhere, 0, sizeof(lanes->nowhere));
}

LANES_INLINE void compress_runs(const struct rsum_sha256_run *runs, unsigned run_count,
				size_t block_count)
{
	struct lanes lanes;
	words state[8], w[16];

	lanes_begin(&lanes, runs, run_count);
	load_state(&lanes, state);
	for (size_t at = 0; at < block_count * RSUM_SHA256_BLOCK_BYTES;
	     at += RSUM_SHA256_BLOCK_BYTES) {
		load_data(&lanes, at, w);
		load_data(&lanes, at + 32, w + 8);
		compress(state, w);
	}
	store_state(&lanes, state);
}

#endif
