/* SPDX-License-Identifier: Apache-2.0 */
/* Checks options and fills in defaults. */
#include "options.h"

#include "error.h"
#include "key_files.h"
#include "rate.h"
#include "rsum_limits.h"

#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_MULTIPLE 4096

static unsigned default_threads(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return (unsigned)RSUM_MAX(1, RSUM_MIN(processors, RSUM_DEFAULT_THREADS_MAX));
}

/*
 * A caller built against an older header has a shorter struct, and gets defaults for the rest; a
 * newer caller's longer struct is accepted where it asks nothing that we do not know.
 */
static int copy_sized(const struct ringsum_options *options, struct ringsum_options *out,
		      struct ringsum_error *err)
{
	const unsigned char *bytes = (const unsigned char *)options;
	size_t i;

	/* No struct has another size, and one that ends within a pointer would give half of it. */
	if (options->size_bytes < sizeof(options->size_bytes) ||
	    options->size_bytes % alignof(struct ringsum_options) != 0)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "options.size_bytes is %zu: use RINGSUM_OPTIONS_INIT",
				      options->size_bytes);
	for (i = sizeof(*options); i < options->size_bytes; i++)
		if (bytes[i] != 0)
			return rsum_error_set(err, RINGSUM_E_INVALID,
					      "an option that this version does not know is set");
	memcpy(out, options, RSUM_MIN(options->size_bytes, sizeof(*out)));
	out->size_bytes = sizeof(*out);
	return RINGSUM_OK;
}

static const char *digest_name(enum ringsum_digest_impl digest)
{
	switch (digest) {
	case RINGSUM_DIGEST_SHANI_X2:
		return "sha-ni-x2";
	case RINGSUM_DIGEST_SHANI_X3:
		return "sha-ni-x3";
	case RINGSUM_DIGEST_AVX512_X16:
		return "avx512-x16";
	case RINGSUM_DIGEST_AUTO:
	case RINGSUM_DIGEST_LIBCRYPTO:
	default:
		return "the digest implementation asked for";
	}
}

static int check_range(const char *name, uint64_t value, uint64_t low, uint64_t high,
		       struct ringsum_error *err)
{
	if (value >= low && value <= high)
		return RINGSUM_OK;
	return rsum_error_set(err, RINGSUM_E_INVALID, "%s is %llu; expected %llu to %llu", name,
			      (unsigned long long)value, (unsigned long long)low,
			      (unsigned long long)high);
}

/* Enough that every stream has a chunk to hash while the next ones are read. */
static uint64_t default_memory(const struct rsum_options *options)
{
	const struct ringsum_options *given = &options->given;
	uint64_t streams = (uint64_t)given->threads * rsum_digest_impl_width(options->digest_impl);
	uint64_t wanted = (streams * 3 + 1) / 2 * given->chunk_bytes;

	wanted = RSUM_MAX(RSUM_MIN(wanted, RSUM_DEFAULT_MEMORY_BYTES_MAX),
			  RSUM_DEFAULT_MEMORY_BYTES_MIN);
	return RSUM_MAX(wanted, (uint64_t)given->chunk_bytes * 2);
}

static int check_sizes(struct rsum_options *options, struct ringsum_error *err)
{
	struct ringsum_options *given = &options->given;
	int result;

	if (!given->threads)
		given->threads = default_threads();
	if (!given->chunk_bytes)
		given->chunk_bytes = RSUM_DEFAULT_CHUNK_BYTES;
	if (!given->memory_bytes)
		given->memory_bytes = default_memory(options);
	if (!given->depth)
		given->depth = RSUM_DEFAULT_DEPTH;
	if ((result = check_range("threads", given->threads, 1, RSUM_LIMIT_THREADS, err)) ||
	    (result = check_range("depth", given->depth, 1, RSUM_LIMIT_DEPTH, err)) ||
	    (result = check_range("the chunk size (--chunk)", given->chunk_bytes,
				  RSUM_CHUNK_BYTES_MIN, RSUM_CHUNK_BYTES_MAX, err)) ||
	    (result = check_range("the memory for buffers (--memory)", given->memory_bytes, 1,
				  RSUM_LIMIT_MEMORY_BYTES, err)))
		return result;
	if (given->bytes_per_second_max &&
	    (result = check_range("the limit on the rate (--limit-rate)",
				  given->bytes_per_second_max, RSUM_LIMIT_RATE_BYTES_MIN,
				  RSUM_LIMIT_RATE_BYTES_MAX, err)))
		return result;
	if (given->memory_bytes < given->chunk_bytes)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "memory for buffers is %llu bytes, less than one chunk (%u); "
				      "raise --memory or lower --chunk",
				      (unsigned long long)given->memory_bytes, given->chunk_bytes);
	if (given->chunk_bytes % CHUNK_MULTIPLE != 0)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "the chunk size (--chunk) is %u; expected a multiple of %u",
				      given->chunk_bytes, CHUNK_MULTIPLE);
	given->chunk_bytes = rsum_rate_chunk_bytes(given->bytes_per_second_max,
						   RSUM_CHUNK_BYTES_MIN, given->chunk_bytes);
	return RINGSUM_OK;
}

static int check_choices(const struct ringsum_options *given, struct ringsum_error *err)
{
	int result;

	if ((result =
		     check_range("profile", given->profile, 0, RINGSUM_PROFILE_DSPARK_EXL3, err)) ||
	    (result = check_range("engine", given->engine, 0, RINGSUM_ENGINE_PREAD, err)) ||
	    (result = check_range("direct", given->direct, 0, RINGSUM_DIRECT_OFF, err)) ||
	    (result = check_range("digest", given->digest, 0, RINGSUM_DIGEST_AVX512_X16, err)))
		return result;
	return RINGSUM_OK;
}

static int copy_strings(struct rsum_options *out, const struct ringsum_options *options,
			struct ringsum_error *err)
{
	out->given.manifest_path = NULL;
	out->given.manifest_sha256 = NULL; /* held decoded */
	out->given.public_key_path = NULL; /* held read */
	out->given.ca_path = NULL;
	out->given.journal_path = NULL;
	if (options->manifest_path) {
		out->given.manifest_path = strdup(options->manifest_path);
		if (!out->given.manifest_path)
			return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory");
	}
	if (options->journal_path) {
		out->given.journal_path = strdup(options->journal_path);
		if (!out->given.journal_path)
			return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory");
	}
	if (options->manifest_sha256) {
		size_t length = strlen(options->manifest_sha256);

		if (!rsum_hex_decode_digest(options->manifest_sha256, out->pin_sha256))
			return rsum_error_set(err, RINGSUM_E_INVALID,
					      "--manifest-sha256 has to be 64 hex digits; given: "
					      "%zu characters%s",
					      length, length == 64 ? ", not all of them hex" : "");
		out->has_pin = true;
	}
	return RINGSUM_OK;
}

static int read_trust(struct rsum_options *out, const struct ringsum_options *options,
		      struct ringsum_error *err)
{
	if (options->public_key_path && options->ca_path)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a signature is checked with a key (--public-key) or with "
				      "authorities (--ca), not with both");
	if (options->public_key_path)
		return rsum_public_key_load(options->public_key_path, &out->trust.public_key, err);
	if (options->ca_path)
		return rsum_authorities_load(options->ca_path, &out->trust.authorities, err);
	return RINGSUM_OK;
}

/* Whoever names an implementation wants that one: nothing takes its place unseen. */
static int choose_digest(struct rsum_options *out, struct ringsum_error *err)
{
	enum ringsum_digest_impl option = out->given.digest;
	const char *name =
		option == RINGSUM_DIGEST_AUTO ? rsum_digest_environment() : digest_name(option);

	if (option == RINGSUM_DIGEST_AUTO && name && !rsum_digest_impl_from_name(name, &option))
		return rsum_error_set(
			err, RINGSUM_E_INVALID,
			"unknown implementation in RINGSUM_DIGEST_IMPL: %.100s; "
			"expected auto, libcrypto, sha-ni-x2, sha-ni-x3 or avx512-x16",
			name);
	out->digest_impl = rsum_digest_impl_get(option);
	if (!out->digest_impl)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "this processor cannot run %s%s; use auto or libcrypto", name,
				      out->given.digest == RINGSUM_DIGEST_AUTO
					      ? ", which RINGSUM_DIGEST_IMPL names"
					      : "");
	return RINGSUM_OK;
}

int rsum_options_resolve(const struct ringsum_options *options, struct rsum_options *out,
			 struct ringsum_error *err)
{
	static const struct ringsum_options defaults = RINGSUM_OPTIONS_INIT;
	struct ringsum_options given = { 0 };
	int result;

	*out = (struct rsum_options){ 0 };
	result = copy_sized(options ? options : &defaults, &given, err);
	if (result != RINGSUM_OK)
		return result;
	out->given = given;
	result = copy_strings(out, &given, err);
	if (result == RINGSUM_OK)
		result = check_choices(&out->given, err);
	if (result == RINGSUM_OK)
		result = choose_digest(out, err);
	if (result == RINGSUM_OK)
		result = check_sizes(out, err);
	if (result == RINGSUM_OK)
		result = read_trust(out, &given, err);
	return result;
}

void rsum_options_deinit(struct rsum_options *options)
{
	free((char *)(uintptr_t)options->given.manifest_path);
	rsum_public_key_free(options->trust.public_key);
	rsum_authorities_free(options->trust.authorities);
	free((char *)(uintptr_t)options->given.journal_path);
	*options = (struct rsum_options){ 0 };
}
