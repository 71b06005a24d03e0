/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256: every implementation against the standard's examples and against libcrypto, for all
 * short lengths and for random messages in random pieces, alone and side by side; misuse and a
 * refusing libcrypto give no digest; the choice of an implementation; hex.
 */
#include "digest.h"
#include "digest_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SEED 0x2545f4914f6cdd1du
#define DATA_BYTES 40000
#define IMPLS_MAX 5
#define ENVIRONMENT "RINGSUM_DIGEST_IMPL"

static uint64_t random_state;
static uint8_t data[DATA_BYTES];
static EVP_MD_CTX *reference;

static size_t random_below(size_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (size_t)(random_state >> 11) % limit;
}

static void reference_digest(const uint8_t *message, size_t size_bytes, uint8_t *digest_out)
{
	assert_int_equal(EVP_DigestInit_ex(reference, EVP_sha256(), NULL), 1);
	assert_int_equal(EVP_DigestUpdate(reference, message, size_bytes), 1);
	assert_int_equal(EVP_DigestFinal_ex(reference, digest_out, NULL), 1);
}

/* What a processor without SHA-NI would use: vectors for any number of streams. */
static const struct rsum_digest_impl *vectors_alone(void)
{
	static struct rsum_sha256_kernels kernels;
	static struct rsum_digest_impl impl = { .name = "vectors alone", .width = 16 };

	if (!rsum_avx512_kernels(&kernels))
		return NULL;
#if defined(__x86_64__)
	for (unsigned count = 1; count <= RSUM_SHA256_WIDTH_MAX; count++) {
		kernels.take[count - 1] = (uint8_t)count;
		kernels.blocks[count - 1] =
			count <= 8 ? rsum_sha256_blocks_avx512_x8 : rsum_sha256_blocks_avx512_x16;
	}
#endif
	kernels.lone_blocks = SIZE_MAX; /* so that they are tested, and not libcrypto */
	impl.kernels = &kernels;
	return &impl;
}

/* Those of this processor; the test of one that is not there would prove nothing. */
static unsigned implementations(const struct rsum_digest_impl **impls_out)
{
	static const enum ringsum_digest_impl options[] = { RINGSUM_DIGEST_LIBCRYPTO,
							    RINGSUM_DIGEST_SHANI_X2,
							    RINGSUM_DIGEST_SHANI_X3,
							    RINGSUM_DIGEST_AVX512_X16 };
	unsigned count = 0;

	for (size_t i = 0; i < RSUM_COUNT_OF(options); i++) {
		impls_out[count] = rsum_digest_impl_get(options[i]);
		if (impls_out[count] != NULL)
			count++;
	}
	impls_out[count] = vectors_alone();
	if (impls_out[count] != NULL)
		count++;
	return count;
}

/* ---- known answers ---------------------------------------------------------------------- */

static void expect_hex(const struct rsum_digest_impl *impl, struct rsum_sha256 *stream,
		       const char *expected)
{
	uint8_t digest[RSUM_SHA256_BYTES];
	char hex[65];

	assert_int_equal(rsum_sha256_final(stream, impl, digest), 0);
	rsum_hex_encode_digest(digest, hex);
	assert_string_equal(hex, expected);
}

static void known_answers_of(const struct rsum_digest_impl *impl)
{
	static const struct {
		const char *message;
		const char *digest;
	} known[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnop"
		  "jklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	};
	struct rsum_sha256 stream;

	assert_int_equal(rsum_sha256_init(&stream, impl), 0);
	for (size_t i = 0; i < RSUM_COUNT_OF(known); i++) {
		struct rsum_sha256_span span = { &stream, (const uint8_t *)known[i].message,
						 strlen(known[i].message), true };

		rsum_sha256_advance(impl, &span, 1);
		assert_true(rsum_sha256_span_done(&span));
		expect_hex(impl, &stream, known[i].digest);
		rsum_sha256_restart(&stream, impl);
	}
	rsum_sha256_deinit(&stream);
}

/* FIPS 180-4 examples: one million times "a". */
static void million_of(const struct rsum_digest_impl *impl)
{
	static const char expected[] =
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
	struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX];
	uint8_t letters[1000];

	memset(letters, 'a', sizeof(letters));
	for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++)
		assert_int_equal(rsum_sha256_init(&streams[i], impl), 0);
	for (unsigned turn = 0; turn < 1000; turn++) {
		struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];

		for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++)
			spans[i] = (struct rsum_sha256_span){ &streams[i], letters, sizeof(letters),
							      false };
		rsum_sha256_update(impl, spans, RSUM_SHA256_WIDTH_MAX);
	}
	for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++) {
		assert_int_equal(streams[i].total_bytes, 1000000);
		expect_hex(impl, &streams[i], expected);
		rsum_sha256_deinit(&streams[i]);
	}
}

static void test_known_answers(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned count = implementations(impls);

	(void)state;
	for (unsigned i = 0; i < count; i++) {
		known_answers_of(impls[i]);
		million_of(impls[i]);
	}
}

/* ---- against libcrypto ------------------------------------------------------------------ */

static void expect_reference(const struct rsum_digest_impl *impl, struct rsum_sha256 *stream,
			     const uint8_t *message, size_t size_bytes)
{
	uint8_t expected[RSUM_SHA256_BYTES], digest[RSUM_SHA256_BYTES];

	reference_digest(message, size_bytes, expected);
	assert_int_equal(rsum_sha256_final(stream, impl, digest), 0);
	if (memcmp(digest, expected, sizeof(digest)) != 0)
		fail_msg("%s, %zu bytes: a wrong digest (seed %#llx)", rsum_digest_impl_name(impl),
			 size_bytes, (unsigned long long)SEED);
}

/* Lengths length, length + 1, ... side by side, each in memory that ends where it ends. */
static void one_length(const struct rsum_digest_impl *impl, struct rsum_sha256 *streams,
		       size_t length, unsigned count)
{
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];
	uint8_t *messages[RSUM_SHA256_WIDTH_MAX];

	for (unsigned i = 0; i < count; i++) {
		messages[i] = malloc(length + i + 1); /* one unaligned byte before it */
		assert_non_null(messages[i]);
		memcpy(messages[i] + 1, data + i, length + i);
		spans[i] =
			(struct rsum_sha256_span){ &streams[i], messages[i] + 1, length + i, true };
		rsum_sha256_restart(&streams[i], impl);
	}
	rsum_sha256_update(impl, spans, count);
	for (unsigned i = 0; i < count; i++) {
		assert_true(rsum_sha256_span_done(&spans[i]));
		expect_reference(impl, &streams[i], data + i, length + i);
		free(messages[i]);
	}
}

static void test_all_short_lengths(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned impl_count = implementations(impls);

	(void)state;
	for (unsigned k = 0; k < impl_count; k++) {
		struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX];

		for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++)
			assert_int_equal(rsum_sha256_init(&streams[i], impls[k]), 0);
		for (size_t length = 0; length <= 300; length++) {
			for (unsigned count = 1; count <= RSUM_SHA256_WIDTH_MAX; count++)
				one_length(impls[k], streams, length, count);
		}
		for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++)
			rsum_sha256_deinit(&streams[i]);
	}
}

/* Some messages, in pieces of random lengths that they all get at random times. */
static void random_pieces(const struct rsum_digest_impl *impl, struct rsum_sha256 *streams)
{
	static const size_t limits[] = { 5, 130, 130, 300, 9000 };
	struct rsum_sha256_span rest[RSUM_SHA256_WIDTH_MAX];
	struct rsum_sha256_span whole[RSUM_SHA256_WIDTH_MAX];
	unsigned count = 1 + (unsigned)random_below(RSUM_SHA256_WIDTH_MAX);
	bool more = true;

	for (unsigned i = 0; i < count; i++) {
		size_t size_bytes = random_below(limits[random_below(RSUM_COUNT_OF(limits))]);

		whole[i] = (struct rsum_sha256_span){ &streams[i],
						      data + random_below(DATA_BYTES - size_bytes),
						      size_bytes, false };
		rest[i] = whole[i];
		rsum_sha256_restart(&streams[i], impl);
	}
	while (more) {
		struct rsum_sha256_span pieces[RSUM_SHA256_WIDTH_MAX];

		more = false;
		for (unsigned i = 0; i < count; i++) {
			pieces[i] = rest[i];
			pieces[i].size_bytes = random_below(rest[i].size_bytes + 1);
			if (random_below(3) == 0)
				pieces[i].size_bytes = rest[i].size_bytes;
			rest[i].data += pieces[i].size_bytes;
			rest[i].size_bytes -= pieces[i].size_bytes;
			more |= rest[i].size_bytes != 0;
			if (rest[i].size_bytes == 0)
				pieces[i].ends_message = random_below(2) == 0;
		}
		rsum_sha256_update(impl, pieces, count);
	}
	for (unsigned i = 0; i < count; i++)
		expect_reference(impl, &streams[i], whole[i].data, whole[i].size_bytes);
}

static void test_random_pieces(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned impl_count = implementations(impls);

	(void)state;
	for (unsigned k = 0; k < impl_count; k++) {
		struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX];

		for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++)
			assert_int_equal(rsum_sha256_init(&streams[i], impls[k]), 0);
		for (unsigned round = 0; round < 20000; round++)
			random_pieces(impls[k], streams);
		for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++)
			rsum_sha256_deinit(&streams[i]);
	}
}

/* ---- the worker's way ------------------------------------------------------------------- */

struct lane {
	struct rsum_sha256 stream;
	const uint8_t *message;
	size_t message_bytes;
	size_t given_bytes;
};

/* A new message, or the next piece of this one. */
static struct rsum_sha256_span lane_next(struct lane *lane, const struct rsum_digest_impl *impl,
					 bool ended)
{
	struct rsum_sha256_span span = { .stream = &lane->stream };

	if (ended) {
		lane->message_bytes = random_below(random_below(8) == 0 ? 5000 : 200);
		lane->message = data + random_below(DATA_BYTES - lane->message_bytes);
		lane->given_bytes = 0;
		rsum_sha256_restart(&lane->stream, impl);
	}
	span.data = lane->message + lane->given_bytes;
	span.size_bytes = lane->message_bytes - lane->given_bytes;
	if (random_below(4) == 0)
		span.size_bytes = random_below(span.size_bytes + 1);
	lane->given_bytes += span.size_bytes;
	span.ends_message = lane->given_bytes == lane->message_bytes;
	return span;
}

static void lanes_of(const struct rsum_digest_impl *impl, unsigned lane_count, unsigned messages)
{
	struct lane lanes[RSUM_SHA256_WIDTH_MAX];
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];

	for (unsigned i = 0; i < lane_count; i++) {
		assert_int_equal(rsum_sha256_init(&lanes[i].stream, impl), 0);
		spans[i] = lane_next(&lanes[i], impl, true);
	}
	while (messages > 0) {
		unsigned done = 0;

		rsum_sha256_advance(impl, spans, lane_count);
		for (unsigned i = 0; i < lane_count; i++) {
			bool ended = spans[i].ends_message;

			if (!rsum_sha256_span_done(&spans[i]))
				continue;
			done++;
			if (ended) {
				expect_reference(impl, &lanes[i].stream, lanes[i].message,
						 lanes[i].message_bytes);
				messages -= messages > 0;
			}
			spans[i] = lane_next(&lanes[i], impl, ended);
		}
		assert_true(done >= 1);
	}
	for (unsigned i = 0; i < lane_count; i++)
		rsum_sha256_deinit(&lanes[i].stream);
}

static void test_lanes(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned impl_count = implementations(impls);

	(void)state;
	for (unsigned k = 0; k < impl_count; k++) {
		for (unsigned count = 1; count <= rsum_digest_impl_width(impls[k]); count++)
			lanes_of(impls[k], count, 40000);
	}
}

/* ---- no digest where there is none ------------------------------------------------------- */

static void expect_no_digest(const struct rsum_digest_impl *impl, struct rsum_sha256 *stream)
{
	static const uint8_t zeros[RSUM_SHA256_BYTES];
	uint8_t digest[RSUM_SHA256_BYTES];

	memset(digest, 0xaa, sizeof(digest));
	assert_int_equal(rsum_sha256_final(stream, impl, digest), RINGSUM_E_UNDECIDED);
	assert_memory_equal(digest, zeros, sizeof(digest));
}

static void test_misuse_gives_no_digest(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned impl_count = implementations(impls);

	(void)state;
	for (unsigned k = 0; k < impl_count; k++) {
		struct rsum_sha256 stream;
		struct rsum_sha256_span span = { &stream, data, 100, true };

		assert_int_equal(rsum_sha256_init(&stream, impls[k]), 0);
		rsum_sha256_update(impls[k], &span, 1);
		span = (struct rsum_sha256_span){ &stream, data + 100, 200, true };
		rsum_sha256_update(impls[k], &span, 1);
		assert_int_equal(span.size_bytes, 0);
		expect_no_digest(impls[k], &stream);

		rsum_sha256_restart(&stream, impls[k]);
		span = (struct rsum_sha256_span){ &stream, data, 200, false };
		rsum_sha256_update(impls[k], &span, 1);
		expect_reference(impls[k], &stream, data, 200);
		expect_no_digest(impls[k], &stream); /* a second time */
		rsum_sha256_deinit(&stream);
	}
}

/* A length in bits that does not fit 64 bits has no digest: FIPS 180-4, 1. */
static void test_too_long_gives_no_digest(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned impl_count = implementations(impls);

	(void)state;
	for (unsigned k = 0; k < impl_count; k++) {
		struct rsum_sha256 stream;
		struct rsum_sha256_span span = { &stream, data, 128, true };

		assert_int_equal(rsum_sha256_init(&stream, impls[k]), 0);
		stream.total_bytes = UINT64_MAX / 8 - 127;
		rsum_sha256_update(impls[k], &span, 1);
		assert_true(rsum_sha256_span_done(&span));
		expect_no_digest(impls[k], &stream);
		rsum_sha256_deinit(&stream);
	}
}

/* A context that was never set up makes libcrypto refuse, as one does that ran out of memory. */
static void test_refusing_libcrypto_gives_no_digest(void **state)
{
	const struct rsum_digest_impl *impl = rsum_digest_impl_get(RINGSUM_DIGEST_LIBCRYPTO);
	struct rsum_sha256 stream;
	struct rsum_sha256_span span = { &stream, data, 100, true };

	(void)state;
	assert_int_equal(rsum_sha256_init(&stream, impl), 0);
	EVP_MD_CTX_free(stream.evp);
	stream.evp = EVP_MD_CTX_new();
	rsum_sha256_update(impl, &span, 1);
	assert_true(rsum_sha256_span_done(&span));
	expect_no_digest(impl, &stream);

	rsum_sha256_restart(&stream, impl);
	expect_no_digest(impl, &stream);
	rsum_sha256_deinit(&stream);
}

/* ---- memory ------------------------------------------------------------------------------ */

static long allocations_left = -1; /* of libcrypto; negative: as many as it wants */

static bool allocation_granted(void)
{
	if (allocations_left < 0)
		return true;
	if (allocations_left == 0)
		return false;
	allocations_left--;
	return true;
}

static void *limited_malloc(size_t size_bytes, const char *file, int line)
{
	(void)file;
	(void)line;
	return allocation_granted() ? malloc(size_bytes) : NULL;
}

static void *limited_realloc(void *memory, size_t size_bytes, const char *file, int line)
{
	(void)file;
	(void)line;
	return allocation_granted() ? realloc(memory, size_bytes) : NULL;
}

static void limited_free(void *memory, const char *file, int line)
{
	(void)file;
	(void)line;
	free(memory);
}

/* Two messages with one stream; true where both digests came, which are then right. */
static bool two_messages(const struct rsum_digest_impl *impl)
{
	uint8_t digest[2][RSUM_SHA256_BYTES], expected[RSUM_SHA256_BYTES];
	int results[2] = { RINGSUM_E_NOMEM, RINGSUM_E_NOMEM };
	struct rsum_sha256 stream;

	if (rsum_sha256_init(&stream, impl) == 0) {
		for (size_t i = 0; i < 2; i++) {
			struct rsum_sha256_span span = { &stream, data, 100, true };

			rsum_sha256_update(impl, &span, 1);
			results[i] = rsum_sha256_final(&stream, impl, digest[i]);
			rsum_sha256_restart(&stream, impl);
		}
	}
	allocations_left = -1;
	rsum_sha256_deinit(&stream);
	reference_digest(data, 100, expected);
	for (size_t i = 0; i < 2; i++) {
		if (results[i] == 0)
			assert_memory_equal(digest[i], expected, sizeof(expected));
	}
	return results[0] == 0 && results[1] == 0;
}

static void test_memory_runs_out(void **state)
{
	const struct rsum_digest_impl *impl = rsum_digest_impl_get(RINGSUM_DIGEST_LIBCRYPTO);
	bool enough = false;
	long granted;

	(void)state;
	for (granted = 0; !enough && granted < 100; granted++) {
		allocations_left = granted;
		enough = two_messages(impl);
	}
	assert_true(enough);
	assert_true(granted > 1);
}

static void test_deinit_accepts_what_was_never_there(void **state)
{
	struct rsum_sha256 stream = { .evp = NULL };

	(void)state;
	rsum_sha256_deinit(&stream);
	rsum_sha256_deinit(&stream);
}

static void test_one_message_at_once(void **state)
{
	uint8_t expected[RSUM_SHA256_BYTES], digest[RSUM_SHA256_BYTES];

	(void)state;
	reference_digest(data, 1000, expected);
	assert_int_equal(rsum_sha256_of(data, 1000, digest), 0);
	assert_memory_equal(digest, expected, sizeof(digest));
	reference_digest(data, 0, expected);
	assert_int_equal(rsum_sha256_of(NULL, 0, digest), 0);
	assert_memory_equal(digest, expected, sizeof(digest));
}

/* ---- the check of the kernels ------------------------------------------------------------ */

static const struct rsum_sha256_kernels *sound;

static void broken_x1(const struct rsum_sha256_run *runs, unsigned run_count, size_t block_count)
{
	sound->blocks[0](runs, run_count, block_count);
	if (block_count == 2) /* only where the padding takes two blocks, or so */
		runs[0].state[7] ^= 1;
}

static void broken_x2(const struct rsum_sha256_run *runs, unsigned run_count, size_t block_count)
{
	sound->blocks[1](runs, run_count, block_count);
	runs[1].state[0] ^= 0x80000000;
}

static void broken_x3(const struct rsum_sha256_run *runs, unsigned run_count, size_t block_count)
{
	sound->blocks[2](runs, run_count, block_count);
	if (block_count > 1)
		runs[2].state[3] += 1;
}

static void test_broken_kernels_are_found(void **state)
{
	struct rsum_sha256_kernels kernels;

	(void)state;
	sound = rsum_shani_kernels();
	if (sound == NULL) {
		print_message("this processor has no SHA-NI, so there are no kernels to break\n");
		skip();
	}
	for (unsigned width = 1; width <= 3; width++)
		assert_true(rsum_sha256_kernels_agree(sound, width));

	kernels = *sound;
	kernels.blocks[2] = broken_x3;
	assert_false(rsum_sha256_kernels_agree(&kernels, 3));
	assert_true(rsum_sha256_kernels_agree(&kernels, 2)); /* the next one is still good */
	kernels.blocks[1] = broken_x2;
	assert_false(rsum_sha256_kernels_agree(&kernels, 2));
	kernels = *sound;
	kernels.blocks[0] = broken_x1;
	assert_false(rsum_sha256_kernels_agree(&kernels, 1));
	assert_false(rsum_sha256_kernels_agree(&kernels, 3));
}

static unsigned broken_lane;

static void broken_vectors(const struct rsum_sha256_run *runs, unsigned run_count,
			   size_t block_count)
{
	sound->blocks[run_count - 1](runs, run_count, block_count);
	if (block_count > 1 && broken_lane < run_count)
		runs[broken_lane].state[broken_lane % 8] ^= 0x10000;
}

static void test_broken_lanes_are_found(void **state)
{
	struct rsum_sha256_kernels vectors, kernels;

	(void)state;
	if (!rsum_avx512_kernels(&vectors)) {
		print_message("this processor has no AVX-512, so there are no vectors to break\n");
		skip();
	}
	sound = &vectors;
	assert_true(rsum_sha256_kernels_agree(sound, 16));
	for (broken_lane = 0; broken_lane < 16; broken_lane++) {
		kernels = vectors;
		kernels.blocks[15] = broken_vectors;
		assert_false(rsum_sha256_kernels_agree(&kernels, 16));
		if (broken_lane >= 8)
			continue;
		kernels = vectors;
		kernels.blocks[7] = broken_vectors;
		assert_false(rsum_sha256_kernels_agree(&kernels, 16));
	}
}

/* Every number of runs is taken by kernels that are there. */
static void test_every_count_is_taken(void **state)
{
	const struct rsum_digest_impl *impls[IMPLS_MAX];
	unsigned impl_count = implementations(impls);

	(void)state;
	for (unsigned k = 0; k < impl_count; k++) {
		const struct rsum_sha256_kernels *kernels = impls[k]->kernels;

		for (unsigned count = 1; kernels != NULL && count <= impls[k]->width; count++) {
			assert_in_range(kernels->take[count - 1], 1, count);
			assert_non_null(kernels->blocks[kernels->take[count - 1] - 1]);
		}
		assert_in_range(rsum_digest_impl_narrow_width(impls[k]), 1, impls[k]->width);
	}
}

/* ---- the choice -------------------------------------------------------------------------- */

static void options_of_shani(void)
{
	const struct rsum_digest_impl *impl = rsum_digest_impl_get(RINGSUM_DIGEST_SHANI_X2);

	if (rsum_shani_kernels() == NULL) {
		assert_null(impl);
		assert_null(rsum_digest_impl_get(RINGSUM_DIGEST_SHANI_X3));
		return;
	}
	assert_string_equal(rsum_digest_impl_name(impl), "sha-ni-x2");
	assert_int_equal(rsum_digest_impl_width(impl), 2);
	assert_int_equal(rsum_digest_impl_narrow_width(impl), 2);
	impl = rsum_digest_impl_get(RINGSUM_DIGEST_SHANI_X3);
	assert_string_equal(rsum_digest_impl_name(impl), "sha-ni-x3");
	assert_int_equal(rsum_digest_impl_width(impl), 3);
	assert_int_equal(rsum_digest_impl_narrow_width(impl), 3);
}

/* Where there are both, AUTO may be either: the clock says which. */
static void options_of_avx512(void)
{
	const struct rsum_digest_impl *fastest = rsum_digest_impl_get(RINGSUM_DIGEST_AUTO);
	const struct rsum_digest_impl *shani = rsum_digest_impl_get(RINGSUM_DIGEST_SHANI_X3);
	const struct rsum_digest_impl *impl = rsum_digest_impl_get(RINGSUM_DIGEST_AVX512_X16);
	struct rsum_sha256_kernels kernels;

	if (!rsum_avx512_kernels(&kernels)) {
		assert_null(impl);
		impl = rsum_digest_impl_get(RINGSUM_DIGEST_LIBCRYPTO);
		assert_ptr_equal(fastest, shani != NULL ? shani : impl);
		return;
	}
	assert_string_equal(rsum_digest_impl_name(impl), "avx512-x16");
	assert_int_equal(rsum_digest_impl_width(impl), 16);
	assert_int_equal(rsum_digest_impl_narrow_width(impl), shani != NULL ? 3 : 4);
	assert_true(fastest == impl || (shani != NULL && fastest == shani));
}

static void test_options(void **state)
{
	const struct rsum_digest_impl *impl = rsum_digest_impl_get(RINGSUM_DIGEST_LIBCRYPTO);

	(void)state;
	assert_string_equal(rsum_digest_impl_name(impl), "libcrypto");
	assert_int_equal(rsum_digest_impl_width(impl), 1);
	assert_int_equal(rsum_digest_impl_narrow_width(impl), 1);
	assert_null(rsum_digest_impl_get((enum ringsum_digest_impl)99));
	unsetenv(ENVIRONMENT);
	assert_non_null(rsum_digest_impl_get(RINGSUM_DIGEST_AUTO));
	options_of_shani();
	options_of_avx512();
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		enum ringsum_digest_impl option;
	} names[] = {
		{ "auto", RINGSUM_DIGEST_AUTO },
		{ "libcrypto", RINGSUM_DIGEST_LIBCRYPTO },
		{ "sha-ni-x2", RINGSUM_DIGEST_SHANI_X2 },
		{ "sha-ni-x3", RINGSUM_DIGEST_SHANI_X3 },
		{ "avx512-x16", RINGSUM_DIGEST_AVX512_X16 },
	};
	static const char *const strange[] = { "",	     "AUTO",	   "sha-ni",
					       "sha-ni-x33", "libcrypto ", "avx512" };
	enum ringsum_digest_impl option = (enum ringsum_digest_impl)99;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(strange); i++) {
		assert_false(rsum_digest_impl_from_name(strange[i], &option));
		assert_int_equal(option, 99);
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(names); i++) {
		assert_true(rsum_digest_impl_from_name(names[i].name, &option));
		assert_int_equal(option, names[i].option);
	}
}

static void test_environment_overrides_auto_only(void **state)
{
	static const enum ringsum_digest_impl options[] = { RINGSUM_DIGEST_LIBCRYPTO,
							    RINGSUM_DIGEST_SHANI_X2,
							    RINGSUM_DIGEST_SHANI_X3,
							    RINGSUM_DIGEST_AVX512_X16 };
	static const char *const names[] = { "libcrypto", "sha-ni-x2", "sha-ni-x3", "avx512-x16" };
	static const char *const ignored[] = { "auto", "", "quantum" };
	const struct rsum_digest_impl *fastest;

	(void)state;
	unsetenv(ENVIRONMENT);
	fastest = rsum_digest_impl_get(RINGSUM_DIGEST_AUTO);
	for (size_t i = 0; i < RSUM_COUNT_OF(options); i++) {
		const struct rsum_digest_impl *named = rsum_digest_impl_get(options[i]);

		setenv(ENVIRONMENT, names[i], 1);
		assert_ptr_equal(rsum_digest_impl_get(RINGSUM_DIGEST_AUTO),
				 named != NULL ? named : fastest);
		for (size_t j = 0; j < RSUM_COUNT_OF(options); j++) {
			const struct rsum_digest_impl *other = rsum_digest_impl_get(options[j]);

			if (other != NULL)
				assert_string_equal(rsum_digest_impl_name(other), names[j]);
		}
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(ignored); i++) {
		setenv(ENVIRONMENT, ignored[i], 1);
		assert_ptr_equal(rsum_digest_impl_get(RINGSUM_DIGEST_AUTO), fastest);
	}
	unsetenv(ENVIRONMENT);
}

static void *first_use(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)rsum_digest_impl_get(RINGSUM_DIGEST_AUTO);
}

/* Runs first, so that the threads race for the check. */
static void test_first_use_by_several_threads(void **state)
{
	pthread_t threads[4];
	void *chosen[4];

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, first_use, NULL), 0);
	for (size_t i = 0; i < RSUM_COUNT_OF(threads); i++)
		assert_int_equal(pthread_join(threads[i], &chosen[i]), 0);
	for (size_t i = 0; i < RSUM_COUNT_OF(threads); i++)
		assert_ptr_equal(chosen[i], rsum_digest_impl_get(RINGSUM_DIGEST_AUTO));
}

/* ---- hex --------------------------------------------------------------------------------- */

#define HEX_31 "00112233445566778899aabbccddeeff0123456789abcdefABCDEFfedcba98"

static void test_hex(void **state)
{
	static const char *const strange[] = {
		"",
		"0",
		HEX_31,
		HEX_31 "0",
		HEX_31 "0g",
		HEX_31 "g0",
		HEX_31 "001",
		HEX_31 "00 ",
		HEX_31 "00\n",
		" " HEX_31 "0",
		"0x" HEX_31,
		HEX_31 "+1",
		HEX_31 "\xc3\xa9",
	};
	uint8_t digest[RSUM_SHA256_BYTES], before[RSUM_SHA256_BYTES];
	char hex[65];

	(void)state;
	memset(digest, 0x55, sizeof(digest));
	memcpy(before, digest, sizeof(before));
	for (size_t i = 0; i < RSUM_COUNT_OF(strange); i++) {
		assert_false(rsum_hex_decode_digest(strange[i], digest));
		assert_memory_equal(digest, before, sizeof(digest));
	}
	assert_true(rsum_hex_decode_digest(HEX_31 "7F", digest));
	assert_int_equal(digest[1], 0x11);
	assert_int_equal(digest[31], 0x7f);
	rsum_hex_encode_digest(digest, hex);
	assert_string_equal(hex, "00112233445566778899aabbccddeeff0123456789abcdef"
				 "abcdeffedcba987f");
}

static int group_setup(void **state)
{
	(void)state;
	random_state = SEED;
	for (size_t i = 0; i < DATA_BYTES; i++)
		data[i] = (uint8_t)random_below(256);
	unsetenv(ENVIRONMENT);
	reference = EVP_MD_CTX_new();
	return reference == NULL;
}

static int group_teardown(void **state)
{
	(void)state;
	EVP_MD_CTX_free(reference);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_use_by_several_threads),
		cmocka_unit_test(test_known_answers),
		cmocka_unit_test(test_all_short_lengths),
		cmocka_unit_test(test_random_pieces),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_misuse_gives_no_digest),
		cmocka_unit_test(test_too_long_gives_no_digest),
		cmocka_unit_test(test_refusing_libcrypto_gives_no_digest),
		cmocka_unit_test(test_memory_runs_out),
		cmocka_unit_test(test_deinit_accepts_what_was_never_there),
		cmocka_unit_test(test_one_message_at_once),
		cmocka_unit_test(test_broken_kernels_are_found),
		cmocka_unit_test(test_broken_lanes_are_found),
		cmocka_unit_test(test_every_count_is_taken),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_environment_overrides_auto_only),
		cmocka_unit_test(test_hex),
	};

	/* Only before libcrypto's first allocation. */
	if (CRYPTO_set_mem_functions(limited_malloc, limited_realloc, limited_free) != 1)
		return 1;
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
