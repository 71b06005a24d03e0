/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of digest.h: the table of algorithms that a promise may be made with, and streams of all
 * of them through libcrypto's EVP, one at a time. SHA-256 has its fast way in digest.c.
 */
#include "digest.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

struct algorithm {
	const char *name;
	const char *libcrypto_name; /* NULL: we do not have it */
	size_t digest_bytes;
	const char *spellings[5]; /* others than `name`; ends with NULL */
};

/* By enum rsum_algorithm. */
static const struct algorithm algorithms[] = {
	[RSUM_ALGORITHM_SHA256] = { "sha256", "SHA256", 32, { "sha-256", "sha2-256" } },
	[RSUM_ALGORITHM_SHA1] = { "sha1", "SHA1", 20, { "sha-1" } },
	[RSUM_ALGORITHM_GIT_BLOB_SHA1] = { "git-blob-sha1", "SHA1", 20, { NULL } },
	[RSUM_ALGORITHM_BLAKE2B_512] = { "blake2b",
					 "BLAKE2B-512",
					 64,
					 { "blake2b-512", "blake2b512", "blake2-512", "b2" } },
	[RSUM_ALGORITHM_SHA512] = { "sha512", "SHA512", 64, { "sha-512", "sha2-512" } },
	[RSUM_ALGORITHM_UNKNOWN] = { "unknown", NULL, 0, { NULL } },
};

const char *rsum_algorithm_name(enum rsum_algorithm algorithm)
{
	return algorithms[algorithm].name;
}

size_t rsum_algorithm_bytes(enum rsum_algorithm algorithm)
{
	return algorithms[algorithm].digest_bytes;
}

static bool spells(const char *spelling, const char *name, size_t length)
{
	return strlen(spelling) == length && strncasecmp(spelling, name, length) == 0;
}

enum rsum_algorithm rsum_algorithm_of_name(const char *name, size_t length)
{
	for (unsigned i = 0; i < RSUM_ALGORITHM_UNKNOWN; i++) {
		const char *const *spelling = algorithms[i].spellings;

		if (spells(algorithms[i].name, name, length))
			return (enum rsum_algorithm)i;
		for (; *spelling; spelling++)
			if (spells(*spelling, name, length))
				return (enum rsum_algorithm)i;
	}
	return RSUM_ALGORITHM_UNKNOWN;
}

static pthread_mutex_t fetch_lock = PTHREAD_MUTEX_INITIALIZER;
static EVP_MD *fetched[RSUM_ALGORITHM_UNKNOWN]; /* guarded by fetch_lock; kept for good */

/* NULL where libcrypto has none; tried again then, since memory may only have been short. */
static const EVP_MD *fetch(enum rsum_algorithm algorithm)
{
	const EVP_MD *md;

	if (algorithm >= RSUM_ALGORITHM_UNKNOWN)
		return NULL;
	pthread_mutex_lock(&fetch_lock);
	if (fetched[algorithm] == NULL)
		fetched[algorithm] = EVP_MD_fetch(NULL, algorithms[algorithm].libcrypto_name, NULL);
	md = fetched[algorithm];
	pthread_mutex_unlock(&fetch_lock);
	return md;
}

bool rsum_algorithm_is_available(enum rsum_algorithm algorithm)
{
	return fetch(algorithm) != NULL;
}

void rsum_stream_restart(struct rsum_stream *stream, enum rsum_algorithm algorithm,
			 uint64_t message_bytes)
{
	const EVP_MD *md = fetch(algorithm);
	char head[32];
	int length;

	stream->algorithm = algorithm;
	stream->has_failed = true;
	if (stream->evp == NULL)
		stream->evp = EVP_MD_CTX_new();
	if (md == NULL || stream->evp == NULL || EVP_DigestInit_ex2(stream->evp, md, NULL) != 1)
		return;
	stream->has_failed = false;
	if (algorithm != RSUM_ALGORITHM_GIT_BLOB_SHA1)
		return;
	length = snprintf(head, sizeof(head), "blob %" PRIu64, message_bytes);
	rsum_stream_update(stream, head, (size_t)length + 1); /* git hashes the NUL as well */
}

void rsum_stream_update(struct rsum_stream *stream, const void *data, size_t size_bytes)
{
	if (!stream->has_failed && size_bytes != 0 &&
	    EVP_DigestUpdate(stream->evp, data, size_bytes) != 1)
		stream->has_failed = true;
}

int rsum_stream_final(struct rsum_stream *stream, uint8_t digest_out[RSUM_DIGEST_BYTES_MAX])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned size_bytes = 0;
	bool failed = stream->has_failed ||
		      EVP_DigestFinal_ex(stream->evp, digest, &size_bytes) != 1 ||
		      size_bytes != algorithms[stream->algorithm].digest_bytes;

	stream->has_failed = true; /* until it is restarted */
	if (failed)
		return RINGSUM_E_UNDECIDED;
	memcpy(digest_out, digest, size_bytes);
	return 0;
}
static_assert(EVP_MAX_MD_SIZE <= RSUM_DIGEST_BYTES_MAX, "any digest fits");

void rsum_stream_deinit(struct rsum_stream *stream)
{
	EVP_MD_CTX_free(stream->evp);
	*stream = (struct rsum_stream){ 0 };
}

int rsum_digest_of(enum rsum_algorithm algorithm, const void *data, size_t size_bytes,
		   uint8_t digest_out[RSUM_DIGEST_BYTES_MAX])
{
	struct rsum_stream stream = { 0 };
	int result;

	rsum_stream_restart(&stream, algorithm, size_bytes);
	rsum_stream_update(&stream, data, size_bytes);
	result = rsum_stream_final(&stream, digest_out);
	rsum_stream_deinit(&stream);
	return result;
}
