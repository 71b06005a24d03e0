/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of our own SHA-256 kernels, once in each process and before their first use: do they
 * give what the standard's examples and libcrypto give? A wrong kernel could only make a sound
 * tensor look different, but it could also do so to every one.
 */
#include "digest_impl.h"

#include <string.h>

#define CHECK_ROUNDS 96
#define CHECK_BYTES 8192

struct check {
	struct rsum_digest_impl candidate;
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

/* Hashes messages[i] of the candidate's streams in two parts each, side by side. */
static bool side_by_side_agree(struct check *check, struct rsum_sha256_span *messages,
			       unsigned count)
{
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];
	bool agree = true;

	for (unsigned i = 0; i < count; i++) {
		spans[i] = messages[i];
		spans[i].size_bytes = check_random(check, messages[i].size_bytes + 1);
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
		uint8_t expected[RSUM_SHA256_BYTES], digest[RSUM_SHA256_BYTES];

		agree = agree &&
			rsum_sha256_of(messages[i].data, messages[i].size_bytes, expected) == 0 &&
			rsum_sha256_final(spans[i].stream, &check->candidate, digest) == 0 &&
			memcmp(digest, expected, sizeof(digest)) == 0;
	}
	return agree;
}

/* Lengths about the edges of the padding, random ones, and runs long enough for every path. */
static size_t check_length(struct check *check, unsigned round)
{
	static const uint8_t edges[] = { 0, 1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 183 };

	if (round % 32 == 31)
		return (RSUM_SHA256_LONE_BLOCKS + 2) * RSUM_SHA256_BLOCK_BYTES +
		       check_random(check, RSUM_SHA256_BLOCK_BYTES);
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
		agree = side_by_side_agree(&check, messages, count);
	}
	return agree;
}
