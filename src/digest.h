/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256, one stream or several independent streams side by side; other algorithms, one stream at
 * a time; and hex. The only user of libcrypto, which is the reference, the fallback and the judge of our own code at start.
 *
 * One stream is bound by the latency of the SHA instructions; two or three independent streams
 * in one loop fill the unit, and 16 fill the vectors of AVX-512, which is faster still. A caller
 * keeps one rsum_sha256 per tensor and advances up to rsum_digest_impl_width() of them together.
 */
#ifndef RSUM_DIGEST_H
#define RSUM_DIGEST_H

#include "base.h"
#include "ringsum.h"

#define RSUM_SHA256_BYTES 32
#define RSUM_SHA256_BLOCK_BYTES 64
#define RSUM_SHA256_WIDTH_MAX 16

struct rsum_digest_impl;

/* One stream. The members are the module's own, but for reading total_bytes. */
struct rsum_sha256 {
	uint32_t state[8];
	uint64_t total_bytes;			     /* taken so far, the buffered ones included */
	uint8_t buffer[2 * RSUM_SHA256_BLOCK_BYTES]; /* a partial block, or blocks to compress */
	uint8_t buffered_bytes;			     /* of the partial block, 0 to 63 */
	uint8_t pending_blocks;			     /* whole ones in buffer, 0 to 2 */
	uint8_t pending_begin;			     /* the first of them, 0 or 1 */
	bool ended;  /* the padding is in the buffer or compressed */
	bool failed; /* libcrypto refused, or misuse: final gives no digest until restart */
	void *evp;   /* EVP_MD_CTX of the libcrypto implementation, kept from init to deinit */
};

/* A run of input for one stream. */
struct rsum_sha256_span {
	struct rsum_sha256 *stream;
	const uint8_t *data;
	size_t size_bytes;
	bool ends_message; /* nothing of this message comes after: the padding is taken too */
};

/*
 * The implementation for an option; AUTO gives the fastest that CPUID shows and that agreed
 * with libcrypto on known answers and random lengths in this process (checked once). Never
 * fails for AUTO and LIBCRYPTO; NULL where the processor lacks what the option asks.
 * RINGSUM_DIGEST_IMPL in the environment (auto or one of the names below) overrides AUTO; one that
 * cannot be had is passed over here, so whoever takes a user's options refuses it beforehand.
 */
const struct rsum_digest_impl *rsum_digest_impl_get(enum ringsum_digest_impl option);

/* What RINGSUM_DIGEST_IMPL says, unchecked; NULL where it is not set or empty. */
const char *rsum_digest_environment(void);

/* "libcrypto", "sha-ni-x2", "sha-ni-x3", "avx512-x16". */
const char *rsum_digest_impl_name(const struct rsum_digest_impl *impl);

/* How many streams one call advances best: 1 to RSUM_SHA256_WIDTH_MAX. */
unsigned rsum_digest_impl_width(const struct rsum_digest_impl *impl);

/*
 * How many make good company already where there are not so many: as many as the width, or less
 * where the implementation has another way for few (3 of avx512-x16's 16).
 */
unsigned rsum_digest_impl_narrow_width(const struct rsum_digest_impl *impl);

/* True and *option_out where `name` is one of the names above or "auto". */
RSUM_MUST_CHECK bool rsum_digest_impl_from_name(const char *name,
						enum ringsum_digest_impl *option_out);

/*
 * Prepares a stream for an implementation, ready for the first message. Use the stream with
 * that implementation only. Returns 0, RINGSUM_E_NOMEM, or RINGSUM_E_UNDECIDED where libcrypto
 * has no SHA-256 to offer.
 */
RSUM_MUST_CHECK int rsum_sha256_init(struct rsum_sha256 *stream,
				     const struct rsum_digest_impl *impl);
/* Begins a new message, whatever became of the last one. We allocate nothing here. */
void rsum_sha256_restart(struct rsum_sha256 *stream, const struct rsum_digest_impl *impl);
/* Accepts a stream that is all zero, or whose init failed. */
void rsum_sha256_deinit(struct rsum_sha256 *stream);

/*
 * The way to hash many messages, small ones too: takes from 1 to RSUM_SHA256_WIDTH_MAX spans
 * of different streams, side by side, until at least one of them is done, and leaves the rest
 * in the spans (data and size_bytes advance), so that the caller can bring new work beside the
 * longer ones. Padding is interleaved like any other block. Spans beyond the implementation's
 * width stay untouched for now. Which are done: rsum_sha256_span_done(). The buffer of a span
 * with size_bytes 0 is no longer needed. A worker's loop:
 *
 *	fill the empty ones of spans[0..width): stream, data up to the tensor's or the chunk's
 *	end, ends_message where it is the tensor's end;
 *	rsum_sha256_advance(impl, spans, count);
 *	for each span done: if ends_message, rsum_sha256_final() and rsum_sha256_restart().
 */
void rsum_sha256_advance(const struct rsum_digest_impl *impl, struct rsum_sha256_span *spans,
			 unsigned span_count);

/* True where nothing of the span is left to take. */
static inline bool rsum_sha256_span_done(const struct rsum_sha256_span *span)
{
	const struct rsum_sha256 *stream = span->stream;

	if (span->size_bytes != 0)
		return false;
	return !span->ends_message || (stream->ended && stream->pending_blocks == 0);
}

/*
 * Takes all of 1 to RSUM_SHA256_WIDTH_MAX spans of different streams, interleaved as far as
 * their lengths go: afterwards every span is done.
 */
void rsum_sha256_update(const struct rsum_digest_impl *impl, struct rsum_sha256_span *spans,
			unsigned span_count);

/*
 * Ends the message if no span did, and writes the digest, once. The stream can be restarted.
 * Returns 0, or RINGSUM_E_UNDECIDED where libcrypto refused an operation or input came after
 * the end of the message; digest_out is then zeroed and must not be used.
 */
RSUM_MUST_CHECK int rsum_sha256_final(struct rsum_sha256 *stream,
				      const struct rsum_digest_impl *impl,
				      uint8_t digest_out[RSUM_SHA256_BYTES]);

/*
 * One message at once, through libcrypto. Returns 0, RINGSUM_E_NOMEM, or RINGSUM_E_UNDECIDED
 * where libcrypto refused.
 */
RSUM_MUST_CHECK int rsum_sha256_of(const void *data, size_t size_bytes,
				   uint8_t digest_out[RSUM_SHA256_BYTES]);

/* Of libcrypto: as built, as running. */
void rsum_digest_versions(const char **built_out, const char **running_out);

/* ---- other algorithms: one stream at a time, through libcrypto ----------------------------- */

/* What a promise's digest was made with. The names in reports are those of the table. */
enum rsum_algorithm {
	RSUM_ALGORITHM_SHA256, /* the only one that goes through the fast lanes above */
	RSUM_ALGORITHM_SHA1,
	RSUM_ALGORITHM_GIT_BLOB_SHA1, /* sha1 of "blob SIZE\0" and the content, as git has it */
	RSUM_ALGORITHM_BLAKE2B_512,
	RSUM_ALGORITHM_SHA512,
	RSUM_ALGORITHM_UNKNOWN, /* one that we do not have: what it promises stays undecided */
};

#define RSUM_DIGEST_BYTES_MAX 64

/* "sha256", "sha1", "git-blob-sha1", "blake2b", "sha512", "unknown". Ownership: static. */
const char *rsum_algorithm_name(enum rsum_algorithm algorithm);

/* Bytes of a digest; 0 for RSUM_ALGORITHM_UNKNOWN. */
size_t rsum_algorithm_bytes(enum rsum_algorithm algorithm);

/* By any usual spelling, in either case ("SHA2-256", "BLAKE2b-512"); UNKNOWN where there is none. */
enum rsum_algorithm rsum_algorithm_of_name(const char *name, size_t length);

/* Whether libcrypto has it here: its providers can be configured away. */
bool rsum_algorithm_is_available(enum rsum_algorithm algorithm);

/* One stream of any algorithm but UNKNOWN. All zero is the empty state. */
struct rsum_stream {
	void *evp; /* EVP_MD_CTX, kept until deinit */
	enum rsum_algorithm algorithm;
	bool has_failed;
};

/* Begins a message of message_bytes in all, which git's digest begins with. A failure is kept. */
void rsum_stream_restart(struct rsum_stream *stream, enum rsum_algorithm algorithm,
			 uint64_t message_bytes);
void rsum_stream_update(struct rsum_stream *stream, const void *data, size_t size_bytes);
/* Writes rsum_algorithm_bytes() of digest. RINGSUM_E_UNDECIDED where something failed before. */
RSUM_MUST_CHECK int rsum_stream_final(struct rsum_stream *stream,
				      uint8_t digest_out[RSUM_DIGEST_BYTES_MAX]);
void rsum_stream_deinit(struct rsum_stream *stream);

/* One message at once. Returns 0, or RINGSUM_E_UNDECIDED where libcrypto refused. */
RSUM_MUST_CHECK int rsum_digest_of(enum rsum_algorithm algorithm, const void *data,
				   size_t size_bytes, uint8_t digest_out[RSUM_DIGEST_BYTES_MAX]);

/* ---- hex ------------------------------------------------------------------------------------ */

/* 2 * byte_count digits of either case, no NUL needed behind them. False for anything else. */
RSUM_MUST_CHECK bool rsum_hex_decode(const char *hex, size_t byte_count, uint8_t *bytes_out);

/* 2 * byte_count lower-case digits and a NUL. */
void rsum_hex_encode(const uint8_t *bytes, size_t byte_count, char *hex_out);

/* 64 hex digits of either case. False for anything else, also for a longer string. */
RSUM_MUST_CHECK bool rsum_hex_decode_digest(const char *hex, uint8_t digest_out[RSUM_SHA256_BYTES]);

/* 64 lower-case hex digits and a NUL. */
void rsum_hex_encode_digest(const uint8_t digest[RSUM_SHA256_BYTES], char hex_out[65]);

#endif
