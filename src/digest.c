/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the table of SHA-256 implementations, the streams with their buffers and padding, and
 * hex. It knows nothing of files or tensors, and nothing of the processor:
 * for that there are digest_shani.c and digest_avx512*.c, whose kernels digest_check.c judges.
 *
 * Two kinds of streams. `libcrypto` keeps an EVP context and takes one stream at a time. The
 * others keep eight words of state, so that several streams can be advanced by one kernel, and
 * the blocks of padding with them.
 */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Update takes our own state; EVP cannot */
#include "digest.h"
#include "digest_impl.h"

#include <assert.h>
#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)RSUM_SHA256_BLOCK_BYTES)
#define WIDTH_MAX RSUM_SHA256_WIDTH_MAX

/* The length is written as 64 bits of bits: FIPS 180-4, 5.1.1. */
#define MESSAGE_BYTES_MAX (UINT64_MAX / 8)

const struct rsum_digest_impl rsum_digest_libcrypto = {
	.name = "libcrypto",
	.option = RINGSUM_DIGEST_LIBCRYPTO,
	.width = 1,
};

/* ---- streams of our own: buffers, padding, runs ----------------------------------------- */

static void store_be32(uint8_t *bytes, uint32_t value)
{
	value = htobe32(value);
	memcpy(bytes, &value, sizeof(value));
}

static void store_be64(uint8_t *bytes, uint64_t value)
{
	value = htobe64(value);
	memcpy(bytes, &value, sizeof(value));
}

static void own_restart(struct rsum_sha256 *stream)
{
	/* FIPS 180-4, 5.3.3 */
	static const uint32_t initial[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(stream->state, initial, sizeof(initial));
}

static void take_bytes(struct rsum_sha256_span *span, size_t size_bytes)
{
	span->data += size_bytes;
	span->size_bytes -= size_bytes;
	span->stream->total_bytes += size_bytes;
}

/* A failed stream takes everything and keeps nothing, so that callers' loops end. */
static void drain(struct rsum_sha256_span *span)
{
	if (span->size_bytes != 0)
		span->data += span->size_bytes;
	span->size_bytes = 0;
	span->stream->failed = true;
	span->stream->ended = true;
	span->stream->pending_blocks = 0;
}

/* 55 bytes in the buffer leave room for the mark and the length in one block; 56 need two. */
static void pad(struct rsum_sha256 *stream)
{
	size_t used = stream->buffered_bytes;
	size_t end = used < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES;

	/* Sizes that are fixed become a few stores; gcc 12 makes others the slow `rep stos`. */
	memset(stream->buffer + used, 0, BLOCK_BYTES);
	memset(stream->buffer + BLOCK_BYTES, 0, BLOCK_BYTES);
	stream->buffer[used] = 0x80;
	store_be64(stream->buffer + end - 8, stream->total_bytes * 8);
	stream->buffered_bytes = 0;
	stream->pending_begin = 0;
	stream->pending_blocks = (uint8_t)(end / BLOCK_BYTES);
	stream->ended = true;
}

/* Moves input to the buffer until a block is full, or the input is at its end. */
static void fill_buffer(struct rsum_sha256_span *span)
{
	struct rsum_sha256 *stream = span->stream;
	size_t count = RSUM_MIN(span->size_bytes, BLOCK_BYTES - stream->buffered_bytes);

	if (count != 0) {
		memcpy(stream->buffer + stream->buffered_bytes, span->data, count);
		stream->buffered_bytes = (uint8_t)(stream->buffered_bytes + count);
		take_bytes(span, count);
	}
	if (stream->buffered_bytes == BLOCK_BYTES) {
		stream->buffered_bytes = 0;
		stream->pending_begin = 0;
		stream->pending_blocks = 1;
	} else if (span->ends_message && !stream->ended) {
		pad(stream);
	}
}

/* Says which blocks of the span come next, and returns how many; 0 where it is done. */
static size_t next_run(struct rsum_sha256_span *span, struct rsum_sha256_run *run_out)
{
	struct rsum_sha256 *stream = span->stream;
	bool misused = stream->ended && span->size_bytes != 0;

	if (stream->failed || misused || span->size_bytes > MESSAGE_BYTES_MAX - stream->total_bytes)
		drain(span);
	else if (stream->pending_blocks == 0 &&
		 (stream->buffered_bytes != 0 || span->size_bytes < BLOCK_BYTES))
		fill_buffer(span);

	run_out->state = stream->state;
	if (stream->pending_blocks != 0) {
		run_out->data = stream->buffer + stream->pending_begin * BLOCK_BYTES;
		return stream->pending_blocks;
	}
	run_out->data = span->data;
	return span->size_bytes / BLOCK_BYTES;
}

static void run_taken(struct rsum_sha256_span *span, size_t block_count)
{
	struct rsum_sha256 *stream = span->stream;

	if (stream->pending_blocks == 0) {
		take_bytes(span, block_count * BLOCK_BYTES);
		return;
	}
	stream->pending_begin = (uint8_t)(stream->pending_begin + block_count);
	stream->pending_blocks = (uint8_t)(stream->pending_blocks - block_count);
}

static_assert(sizeof(((SHA256_CTX *)NULL)->h) == sizeof(((struct rsum_sha256 *)NULL)->state),
	      "the same eight words");

/*
 * One stream is bound by latency, so that libcrypto's code is as fast as any, and is the one
 * with more eyes on it. False leaves the state as it was.
 */
static bool compress_by_libcrypto(const struct rsum_sha256_run *run, size_t block_count)
{
	SHA256_CTX context;

	if (SHA256_Init(&context) != 1)
		return false;
	memcpy(context.h, run->state, sizeof(context.h));
	if (SHA256_Update(&context, run->data, block_count * BLOCK_BYTES) != 1)
		return false;
	memcpy(run->state, context.h, sizeof(context.h));
	return true;
}

static void compress(const struct rsum_sha256_kernels *kernels, const struct rsum_sha256_run *runs,
		     unsigned width, size_t block_count)
{
	while (width > 0) {
		unsigned count = kernels->take[width - 1];

		if (kernels->clean_registers != NULL)
			kernels->clean_registers();
		if (count > 1 || block_count < kernels->lone_blocks ||
		    !compress_by_libcrypto(runs, block_count))
			kernels->blocks[count - 1](runs, count, block_count);
		runs += count;
		width -= count;
	}
}

static void own_advance(const struct rsum_sha256_kernels *kernels, struct rsum_sha256_span **spans,
			unsigned width)
{
	struct rsum_sha256_run runs[WIDTH_MAX];

	for (;;) {
		size_t common = SIZE_MAX;

		for (unsigned i = 0; i < width; i++) {
			size_t block_count = next_run(spans[i], &runs[i]);

			common = RSUM_MIN(common, block_count);
		}
		if (common == 0)
			return;
		compress(kernels, runs, width, common);
		for (unsigned i = 0; i < width; i++)
			run_taken(spans[i], common);
	}
}

static void own_final(struct rsum_sha256 *stream, const struct rsum_sha256_kernels *kernels,
		      uint8_t digest_out[RSUM_SHA256_BYTES])
{
	struct rsum_sha256_span rest = { .stream = stream, .ends_message = true };
	struct rsum_sha256_span *spans[1] = { &rest };

	own_advance(kernels, spans, 1);
	for (size_t i = 0; i < 8; i++)
		store_be32(digest_out + 4 * i, stream->state[i]);
}

/* ---- streams of libcrypto --------------------------------------------------------------- */

static pthread_mutex_t fetch_lock = PTHREAD_MUTEX_INITIALIZER;
static EVP_MD *fetched_sha256; /* guarded by fetch_lock; once there, kept for good */

/* NULL where libcrypto has none; tried again then, since memory may only have been short. */
static const EVP_MD *fetch_sha256(void)
{
	const EVP_MD *md;

	pthread_mutex_lock(&fetch_lock);
	if (fetched_sha256 == NULL)
		fetched_sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	md = fetched_sha256;
	pthread_mutex_unlock(&fetch_lock);
	return md;
}

static int evp_init(struct rsum_sha256 *stream)
{
	const EVP_MD *md = fetch_sha256();

	if (md == NULL)
		return RINGSUM_E_UNDECIDED;
	stream->evp = EVP_MD_CTX_new();
	if (stream->evp == NULL)
		return RINGSUM_E_NOMEM;
	if (EVP_DigestInit_ex2(stream->evp, md, NULL) == 1)
		return 0;
	rsum_sha256_deinit(stream);
	return RINGSUM_E_NOMEM;
}

static void evp_restart(struct rsum_sha256 *stream)
{
	RSUM_ASSERT(stream->evp != NULL);
	if (EVP_DigestInit_ex2(stream->evp, NULL, NULL) != 1)
		stream->failed = true;
}

static void evp_advance(struct rsum_sha256_span *span)
{
	struct rsum_sha256 *stream = span->stream;
	bool misused = stream->ended && span->size_bytes != 0;
	size_t size_bytes = span->size_bytes;

	RSUM_ASSERT(stream->evp != NULL);
	if (stream->failed || misused || size_bytes > MESSAGE_BYTES_MAX - stream->total_bytes ||
	    (size_bytes != 0 && EVP_DigestUpdate(stream->evp, span->data, size_bytes) != 1)) {
		drain(span);
		return;
	}
	if (size_bytes != 0)
		take_bytes(span, size_bytes);
	stream->ended |= span->ends_message;
}

static void evp_final(struct rsum_sha256 *stream, uint8_t digest_out[RSUM_SHA256_BYTES])
{
	unsigned size_bytes = 0;

	RSUM_ASSERT(stream->evp != NULL);
	if (stream->failed)
		return;
	if (EVP_DigestFinal_ex(stream->evp, digest_out, &size_bytes) != 1 ||
	    size_bytes != RSUM_SHA256_BYTES)
		stream->failed = true;
}

/* ---- the common face -------------------------------------------------------------------- */

int rsum_sha256_init(struct rsum_sha256 *stream, const struct rsum_digest_impl *impl)
{
	memset(stream, 0, sizeof(*stream));
	if (impl->kernels == NULL)
		return evp_init(stream);
	own_restart(stream);
	return 0;
}

void rsum_sha256_restart(struct rsum_sha256 *stream, const struct rsum_digest_impl *impl)
{
	stream->total_bytes = 0;
	stream->buffered_bytes = 0;
	stream->pending_blocks = 0;
	stream->ended = false;
	stream->failed = false;
	if (impl->kernels == NULL)
		evp_restart(stream);
	else
		own_restart(stream);
}

void rsum_sha256_deinit(struct rsum_sha256 *stream)
{
	EVP_MD_CTX_free(stream->evp);
	stream->evp = NULL;
}

static void advance(const struct rsum_digest_impl *impl, struct rsum_sha256_span **spans,
		    unsigned span_count)
{
	if (impl->kernels == NULL)
		evp_advance(spans[0]);
	else
		own_advance(impl->kernels, spans, RSUM_MIN(span_count, impl->width));
}

void rsum_sha256_advance(const struct rsum_digest_impl *impl, struct rsum_sha256_span *spans,
			 unsigned span_count)
{
	struct rsum_sha256_span *all[WIDTH_MAX];

	RSUM_ASSERT(span_count >= 1 && span_count <= WIDTH_MAX);
	for (unsigned i = 0; i < span_count; i++)
		all[i] = &spans[i];
	advance(impl, all, span_count);
}

void rsum_sha256_update(const struct rsum_digest_impl *impl, struct rsum_sha256_span *spans,
			unsigned span_count)
{
	RSUM_ASSERT(span_count >= 1 && span_count <= WIDTH_MAX);
	for (;;) {
		struct rsum_sha256_span *open[WIDTH_MAX];
		unsigned open_count = 0;

		for (unsigned i = 0; i < span_count; i++) {
			if (!rsum_sha256_span_done(&spans[i]))
				open[open_count++] = &spans[i];
		}
		if (open_count == 0)
			return;
		advance(impl, open, open_count);
	}
}

int rsum_sha256_final(struct rsum_sha256 *stream, const struct rsum_digest_impl *impl,
		      uint8_t digest_out[RSUM_SHA256_BYTES])
{
	bool failed;

	if (impl->kernels == NULL)
		evp_final(stream, digest_out);
	else
		own_final(stream, impl->kernels, digest_out);
	failed = stream->failed;
	stream->failed = true; /* until it is restarted */
	if (!failed)
		return 0;
	memset(digest_out, 0, RSUM_SHA256_BYTES);
	return RINGSUM_E_UNDECIDED;
}

int rsum_sha256_of(const void *data, size_t size_bytes, uint8_t digest_out[RSUM_SHA256_BYTES])
{
	struct rsum_sha256 stream;
	struct rsum_sha256_span span = { &stream, data, size_bytes, true };
	uint8_t digest[RSUM_SHA256_BYTES];
	int result = rsum_sha256_init(&stream, &rsum_digest_libcrypto);

	if (result != 0)
		return result;
	rsum_sha256_update(&rsum_digest_libcrypto, &span, 1);
	result = rsum_sha256_final(&stream, &rsum_digest_libcrypto, digest);
	if (result == 0)
		memcpy(digest_out, digest, sizeof(digest));
	rsum_sha256_deinit(&stream);
	return result;
}

/* ---- the table -------------------------------------------------------------------------- */

/*
 * The fastest first. Three streams are never slower than two where that was measured: as fast on
 * Intel (Sapphire Rapids 1.35 to 1.31 times libcrypto, three streams being at the unit's limit),
 * and clearly faster on AMD (Zen 4), whose unit starts an operation every other cycle. So that
 * choice is fixed.
 *
 * Whether vectors are faster than the SHA instructions depends on how many ports the processor
 * has for either: 2.3 times libcrypto on Sapphire Rapids, while a processor with a quicker SHA
 * unit and halved vectors may well be the other way round. So that is measured at start; where
 * it is not clear, the narrower implementation has the less to schedule. The choice cannot
 * change a digest.
 */
static struct rsum_digest_impl own_impls[] = {
	{ .name = "avx512-x16", .option = RINGSUM_DIGEST_AVX512_X16, .width = 16 },
	{ .name = "sha-ni-x3", .option = RINGSUM_DIGEST_SHANI_X3, .width = 3 },
	{ .name = "sha-ni-x2", .option = RINGSUM_DIGEST_SHANI_X2, .width = 2 },
};

static pthread_once_t own_impls_once = PTHREAD_ONCE_INIT;

/* A row without kernels is not to be used: the processor lacks them, or they disagreed. */
static void own_impls_check(void)
{
	static struct rsum_sha256_kernels avx512;
	const struct rsum_sha256_kernels *shani = rsum_shani_kernels();
	/* In the order of the table. */
	const struct rsum_sha256_kernels *candidates[RSUM_COUNT_OF(own_impls)] = {
		rsum_avx512_kernels(&avx512) ? &avx512 : NULL, shani, shani
	};
	struct rsum_digest_impl *wide = &own_impls[0], *narrow = &own_impls[1];

	for (size_t i = 0; i < RSUM_COUNT_OF(own_impls); i++) {
		if (candidates[i] != NULL &&
		    rsum_sha256_kernels_agree(candidates[i], own_impls[i].width))
			own_impls[i].kernels = candidates[i];
	}
	if (wide->kernels != NULL && narrow->kernels != NULL)
		wide->is_passed_over = !rsum_sha256_kernels_are_faster(
			wide->kernels, wide->width, narrow->kernels, narrow->width);
}

const char *rsum_digest_environment(void)
{
	const char *name = secure_getenv("RINGSUM_DIGEST_IMPL");

	return name != NULL && *name != '\0' ? name : NULL;
}

static enum ringsum_digest_impl option_of_environment(void)
{
	const char *name = rsum_digest_environment();
	enum ringsum_digest_impl option;

	if (name != NULL && rsum_digest_impl_from_name(name, &option))
		return option;
	return RINGSUM_DIGEST_AUTO;
}

const struct rsum_digest_impl *rsum_digest_impl_get(enum ringsum_digest_impl option)
{
	enum ringsum_digest_impl wanted = option;
	const struct rsum_digest_impl *fastest = &rsum_digest_libcrypto;

	pthread_once(&own_impls_once, own_impls_check);
	if (option == RINGSUM_DIGEST_AUTO)
		wanted = option_of_environment();
	if (wanted == RINGSUM_DIGEST_LIBCRYPTO)
		return &rsum_digest_libcrypto;

	for (size_t i = RSUM_COUNT_OF(own_impls); i-- > 0;) {
		if (own_impls[i].kernels == NULL)
			continue;
		if (own_impls[i].option == wanted)
			return &own_impls[i];
		if (!own_impls[i].is_passed_over)
			fastest = &own_impls[i];
	}
	return option == RINGSUM_DIGEST_AUTO ? fastest : NULL;
}

const char *rsum_digest_impl_name(const struct rsum_digest_impl *impl)
{
	return impl->name;
}

unsigned rsum_digest_impl_width(const struct rsum_digest_impl *impl)
{
	return impl->width;
}

unsigned rsum_digest_impl_narrow_width(const struct rsum_digest_impl *impl)
{
	return impl->kernels != NULL ? RSUM_MIN(impl->width, impl->kernels->narrow_width) : 1;
}

bool rsum_digest_impl_from_name(const char *name, enum ringsum_digest_impl *option_out)
{
	if (strcmp(name, "auto") == 0) {
		*option_out = RINGSUM_DIGEST_AUTO;
		return true;
	}
	if (strcmp(name, rsum_digest_libcrypto.name) == 0) {
		*option_out = rsum_digest_libcrypto.option;
		return true;
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(own_impls); i++) {
		if (strcmp(name, own_impls[i].name) == 0) {
			*option_out = own_impls[i].option;
			return true;
		}
	}
	return false;
}

/* ---- hex -------------------------------------------------------------------------------- */

static int hex_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

bool rsum_hex_decode(const char *hex, size_t byte_count, uint8_t *bytes_out)
{
	for (size_t i = 0; i < byte_count; i++) {
		int high = hex_value(hex[2 * i]);
		int low = high < 0 ? -1 : hex_value(hex[2 * i + 1]); /* not past a NUL */

		if (low < 0)
			return false;
		bytes_out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void rsum_hex_encode(const uint8_t *bytes, size_t byte_count, char *hex_out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < byte_count; i++) {
		hex_out[2 * i] = digits[bytes[i] >> 4];
		hex_out[2 * i + 1] = digits[bytes[i] & 15];
	}
	hex_out[2 * byte_count] = '\0';
}

bool rsum_hex_decode_digest(const char *hex, uint8_t digest_out[RSUM_SHA256_BYTES])
{
	uint8_t digest[RSUM_SHA256_BYTES];

	if (!rsum_hex_decode(hex, sizeof(digest), digest) || hex[sizeof(digest) * 2] != '\0')
		return false;
	memcpy(digest_out, digest, sizeof(digest));
	return true;
}

void rsum_hex_encode_digest(const uint8_t digest[RSUM_SHA256_BYTES], char hex_out[65])
{
	rsum_hex_encode(digest, RSUM_SHA256_BYTES, hex_out);
}

void rsum_digest_versions(const char **built_out, const char **running_out)
{
	*built_out = OPENSSL_VERSION_STR;
	*running_out = OpenSSL_version(OPENSSL_VERSION_STRING);
}
