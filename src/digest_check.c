/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of our own SHA-256 kernels, once in each process and before their first use: do they
 * give what the standard's examples and libcrypto give? A wrong kernel could only make a sound
 * tensor look different, but it could also do so to every one. And which of two are faster here?
 * That is the only use of the clock, and no digest depends on it.
 */
#include "digest_impl.h"

#include <string.h>
#include <time.h>

#define CHECK_ROUNDS 96
#define CHECK_BYTES 8192

struct check {
	struct rsum_digest_impl candidate;
	struct rsum_sha256 reference; /* of libcrypto */
	uint64_t seed;
	uint8_t data[CHECK_BYTES];
};

/* xorshift64: the values need not be good, only varied and the same everywhere. */
static size_t check_random(struct check *check, size_t below)
{
	check->seed ^= check->seed << 13;
	check->seed ^= check->seed >> 7;
	check->seed ^= check->seed << 17;
	return (size_t)(check->seed >> 16) % below;
}

/* FIPS 180-4 examples: the reference itself must give these too. */
static bool known_answers_agree(const struct rsum_digest_impl *impl)
{
	static const struct {
		const char *message;
		const char *digest;
	} known[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	struct rsum_sha256 stream;
	bool agree = rsum_sha256_init(&stream, impl) == 0;

	for (size_t i = 0; agree && i < RSUM_COUNT_OF(known); i++) {
		const uint8_t *message = (const uint8_t *)known[i].message;
		struct rsum_sha256_span span = { &stream, message, strlen(known[i].message), true };
		uint8_t expected[RSUM_SHA256_BYTES], digest[RSUM_SHA256_BYTES];

		rsum_sha256_restart(&stream, impl);
		rsum_sha256_update(impl, &span, 1);
		agree = rsum_sha256_final(&stream, impl, digest) == 0 &&
			rsum_hex_decode_digest(known[i].digest, expected) &&
			memcmp(digest, expected, sizeof(digest)) == 0;
	}
	rsum_sha256_deinit(&stream);
	return agree;
}

static bool reference_agrees(struct check *check, const struct rsum_sha256_span *message,
			     const uint8_t digest[RSUM_SHA256_BYTES])
{
	struct rsum_sha256_span span = { &check->reference, message->data, message->size_bytes,
					 true };
	uint8_t expected[RSUM_SHA256_BYTES];

	rsum_sha256_restart(&check->reference, &rsum_digest_libcrypto);
	rsum_sha256_update(&rsum_digest_libcrypto, &span, 1);
	return rsum_sha256_final(&check->reference, &rsum_digest_libcrypto, expected) == 0 &&
	       memcmp(digest, expected, sizeof(expected)) == 0;
}

/* Hashes messages[i] of the candidate's streams side by side, in two parts each where `in_two`. */
static bool side_by_side_agree(struct check *check, struct rsum_sha256_span *messages,
			       unsigned count, bool in_two)
{
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];
	bool agree = true;

	for (unsigned i = 0; i < count; i++) {
		spans[i] = messages[i];
		spans[i].size_bytes = in_two ? check_random(check, messages[i].size_bytes + 1) : 0;
		spans[i].ends_message = false;
		rsum_sha256_restart(spans[i].stream, &check->candidate);
	}
	rsum_sha256_update(&check->candidate, spans, count);
	for (unsigned i = 0; i < count; i++) {
		size_t done_bytes = (size_t)(spans[i].data - messages[i].data);

		spans[i].size_bytes = messages[i].size_bytes - done_bytes;
		spans[i].ends_message = true;
	}
	rsum_sha256_update(&check->candidate, spans, count);
	for (unsigned i = 0; i < count; i++) {
		uint8_t digest[RSUM_SHA256_BYTES];

		agree = agree &&
			rsum_sha256_final(spans[i].stream, &check->candidate, digest) == 0 &&
			reference_agrees(check, &messages[i], digest);
	}
	return agree;
}

/* Then all streams have several blocks at once; 8 and 16 streams have such rounds too. */
static bool is_long_round(unsigned round)
{
	return round % 8 == 7;
}

/* Lengths about the edges of the padding, random ones, and runs long enough for every path. */
static size_t check_length(struct check *check, unsigned round)
{
	static const uint8_t edges[] = { 0, 1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 183 };
	size_t lone_blocks = check->candidate.kernels->lone_blocks;

	if (round % 32 == 31)
		return (lone_blocks + 2) * RSUM_SHA256_BLOCK_BYTES +
		       check_random(check, RSUM_SHA256_BLOCK_BYTES);
	if (is_long_round(round))
		return 512 + check_random(check, 128);
	if (round % 3 == 2)
		return check_random(check, 640);
	return edges[check_random(check, RSUM_COUNT_OF(edges))];
}

bool rsum_sha256_kernels_agree(const struct rsum_sha256_kernels *kernels, unsigned width)
{
	struct check check = { .candidate = { .kernels = kernels, .width = width },
			       .seed = 0x9e3779b97f4a7c15 };
	struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX];
	bool agree = known_answers_agree(&rsum_digest_libcrypto) &&
		     known_answers_agree(&check.candidate);

	agree = rsum_sha256_init(&check.reference, &rsum_digest_libcrypto) == 0 && agree;
	for (size_t i = 0; i < CHECK_BYTES; i++)
		check.data[i] = (uint8_t)check_random(&check, 256);
	for (unsigned i = 0; i < width; i++)
		agree = rsum_sha256_init(&streams[i], &check.candidate) == 0 && agree;

	for (unsigned round = 0; agree && round < CHECK_ROUNDS; round++) {
		struct rsum_sha256_span messages[RSUM_SHA256_WIDTH_MAX];
		unsigned count = 1 + round % width;

		for (unsigned i = 0; i < count; i++) {
			messages[i].stream = &streams[i];
			messages[i].data = check.data + check_random(&check, 64);
			messages[i].size_bytes = check_length(&check, round);
		}
		agree = side_by_side_agree(&check, messages, count, !is_long_round(round));
	}
	rsum_sha256_deinit(&check.reference);
	return agree;
}

/* ---- which is faster --------------------------------------------------------------------- */

#define TIMING_BYTES ((size_t)8 << 10) /* a turn: a few microseconds, seldom interrupted */
#define TIMING_TURNS 12		       /* the first ones wake the units for wide vectors */
#define FASTER_FACTOR 1.15

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds a block, for about TIMING_BYTES side by side; all streams share data in the cache. */
static double turn_cost(const struct rsum_sha256_kernels *kernels, unsigned width,
			const uint8_t data[TIMING_BYTES])
{
	uint32_t states[RSUM_SHA256_WIDTH_MAX][8] = { 0 };
	struct rsum_sha256_run runs[RSUM_SHA256_WIDTH_MAX];
	size_t block_count = TIMING_BYTES / RSUM_SHA256_BLOCK_BYTES / width;
	uint64_t begin_ns;

	for (unsigned i = 0; i < width; i++)
		runs[i] = (struct rsum_sha256_run){ states[i], data };
	if (kernels->clean_registers != NULL)
		kernels->clean_registers();
	begin_ns = now_ns();
	kernels->blocks[width - 1](runs, width, block_count);
	return (double)(now_ns() - begin_ns) / (double)(width * block_count);
}

/* By turns, so that a change of frequency touches both; the best, since all else is disturbance. */
bool rsum_sha256_kernels_are_faster(const struct rsum_sha256_kernels *kernels, unsigned width,
				    const struct rsum_sha256_kernels *others, unsigned others_width)
{
	uint8_t data[TIMING_BYTES] = { 0 };
	double best = 1e9, others_best = 1e9;

	for (unsigned turn = 0; turn < TIMING_TURNS; turn++) {
		double cost = turn_cost(kernels, width, data);
		double others_cost = turn_cost(others, others_width, data);

		best = RSUM_MIN(best, cost);
		others_best = RSUM_MIN(others_best, others_cost);
	}
	return best * FASTER_FACTOR < others_best;
}
