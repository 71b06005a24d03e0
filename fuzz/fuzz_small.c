/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hex and the other small readers. The first byte says which, the rest is its input.
 *
 *	- Each agrees with a second, plainer way to the same answer, or undoes what another did;
 *	  buffers are of exactly the size that is said.
 */
#include "fuzz.h"

#include <ctype.h>
#include <string.h>

#include "digest.h"
#include "dtype.h"
#include "json.h"
#include "name_index.h"
#include "options.h"
#include "report.h"
#include "rsum_limits.h"

#define NAMES_MAX 256

/* ---- digests ----------------------------------------------------------------------------- */

static bool is_hex_digest(const char *text)
{
	if (strlen(text) != 64)
		return false;
	for (; *text; text++) {
		if (!isxdigit((unsigned char)*text))
			return false;
	}
	return true;
}

static void check_hex(struct fuzz_input *input)
{
	char *text = fuzz_copy_text(input->data, input->left);
	char hex[65];
	uint8_t digest[RSUM_SHA256_BYTES] = { 1, 2, 3 }, untouched[RSUM_SHA256_BYTES] = { 1, 2, 3 };
	bool is_good = rsum_hex_decode_digest(text, digest);

	FUZZ_CHECK(is_good == is_hex_digest(text));
	rsum_hex_encode_digest(digest, hex);
	FUZZ_CHECK(is_hex_digest(hex));
	if (is_good)
		FUZZ_CHECK(strcasecmp(hex, text) == 0);
	else
		FUZZ_CHECK(memcmp(digest, untouched, sizeof(digest)) == 0);
	FUZZ_CHECK(rsum_hex_decode_digest(hex, untouched));
	FUZZ_CHECK(memcmp(digest, untouched, sizeof(digest)) == 0);
	free(text);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

/* As many messages as can be hashed side by side, each cut into spans anywhere. */
static void check_streams(struct fuzz_input input, const struct rsum_digest_impl *impl)
{
	struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX];
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];
	uint8_t expected[RSUM_SHA256_BYTES], digest[RSUM_SHA256_BYTES];
	const uint8_t *begins[RSUM_SHA256_WIDTH_MAX];
	size_t lengths[RSUM_SHA256_WIDTH_MAX], done[RSUM_SHA256_WIDTH_MAX] = { 0 }, left = 1;
	uint64_t random = fuzz_take(&input, 8);

	for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++) {
		size_t from = input.left ? next_random(&random) % input.left : 0;

		begins[i] = input.data + from;
		lengths[i] = input.left - from;
		FUZZ_CHECK(rsum_sha256_init(&streams[i], impl) == 0);
	}
	while (left) {
		left = 0;
		for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++) {
			size_t cut = 1 + next_random(&random) % 200;
			size_t step = RSUM_MIN(lengths[i] - done[i], cut);

			spans[i] = (struct rsum_sha256_span){ .stream = &streams[i],
							      .data = begins[i] + done[i],
							      .size_bytes = step };
			done[i] += step;
			left += lengths[i] - done[i];
		}
		rsum_sha256_update(impl, spans, RSUM_SHA256_WIDTH_MAX);
	}
	for (unsigned i = 0; i < RSUM_SHA256_WIDTH_MAX; i++) {
		FUZZ_CHECK(rsum_sha256_final(&streams[i], impl, digest) == 0);
		FUZZ_CHECK(rsum_sha256_of(begins[i], lengths[i], expected) == 0);
		FUZZ_CHECK(memcmp(digest, expected, sizeof(digest)) == 0);
		rsum_sha256_deinit(&streams[i]);
	}
}

static void check_digests(struct fuzz_input *input)
{
	/* All that there are, and some that there are not. */
	for (int option = 0; option < 16; option++) {
		const struct rsum_digest_impl *impl =
			rsum_digest_impl_get((enum ringsum_digest_impl)option);

		if (impl)
			check_streams(*input, impl);
	}
}

/* ---- names of choices -------------------------------------------------------------------- */

static void check_names(struct fuzz_input *input)
{
	char *text = fuzz_copy_text(input->data, input->left);
	enum ringsum_digest_impl option;
	enum ringsum_dtype dtype;
	bool is_dtype = false;

	for (int i = 0; i < RINGSUM_DTYPE_COUNT; i++)
		is_dtype |= strcmp(text, ringsum_dtype_name((enum ringsum_dtype)i)) == 0;
	FUZZ_CHECK(rsum_dtype_from_name(text, &dtype) == is_dtype);
	if (is_dtype)
		FUZZ_CHECK(strcmp(ringsum_dtype_name(dtype), text) == 0);
	if (rsum_digest_impl_from_name(text, &option) && option != RINGSUM_DIGEST_AUTO) {
		const struct rsum_digest_impl *impl = rsum_digest_impl_get(option);

		FUZZ_CHECK(!impl || strcmp(rsum_digest_impl_name(impl), text) == 0);
	}
	free(text);
}

/* ---- shapes ------------------------------------------------------------------------------ */

static void check_shape_text(const uint64_t *shape, unsigned rank, size_t size_bytes)
{
	char *buffer = fuzz_alloc(size_bytes);
	struct fuzz_text whole = { 0 };

	fuzz_text_printf(&whole, "[");
	for (unsigned i = 0; i < rank; i++)
		fuzz_text_printf(&whole, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
	fuzz_text_printf(&whole, "]");
	FUZZ_CHECK(rsum_shape_format(shape, rank, buffer, size_bytes) == buffer);
	FUZZ_CHECK(memchr(buffer, '\0', size_bytes));
	if (strcmp(buffer, whole.data) != 0) {
		size_t length = strlen(buffer);

		FUZZ_CHECK(length >= 4 && strcmp(buffer + length - 4, "...]") == 0);
		FUZZ_CHECK(strncmp(buffer, whole.data, length - 4) == 0);
	}
	if (whole.used_bytes + 8 < size_bytes)
		FUZZ_CHECK(strcmp(buffer, whole.data) == 0);
	free(buffer);
	fuzz_text_deinit(&whole);
}

static void check_shape(struct fuzz_input *input)
{
	enum ringsum_dtype dtype = (enum ringsum_dtype)(fuzz_take(input, 1) % RINGSUM_DTYPE_COUNT);
	size_t size_bytes = 6 + fuzz_take(input, 1);
	uint64_t shape[RSUM_LIMIT_RANK], ours = 0, theirs = 0;
	enum rsum_shape_result result;
	unsigned rank = 0;

	while (input->left && rank < RSUM_LIMIT_RANK) {
		uint64_t kind = fuzz_take(input, 1);

		shape[rank++] = kind & 0x80 ? UINT64_C(1) << (kind & 63)
					    : fuzz_take(input, (unsigned)(kind & 7) + 1);
	}
	result = rsum_shape_bytes(dtype, shape, rank, &ours);
	FUZZ_CHECK((result == RSUM_SHAPE_OK) == fuzz_shape_bytes(dtype, shape, rank, &theirs));
	FUZZ_CHECK(ours == theirs);
	if (result == RSUM_SHAPE_PART_OF_BYTE)
		FUZZ_CHECK(ringsum_dtype_bits(dtype) % 8 != 0);
	check_shape_text(shape, rank, size_bytes);
}

/* ---- texts ------------------------------------------------------------------------------- */

static void check_escape(const char *text)
{
	char *escaped = rsum_text_escape(text);

	FUZZ_CHECK(escaped && fuzz_utf8_is_valid(escaped, strlen(escaped)));
	for (const char *at = escaped; *at; at++)
		FUZZ_CHECK((unsigned char)*at >= 0x20 && *at != 0x7f);
	FUZZ_CHECK(!strstr(escaped, "\xc2\x85") && !strstr(escaped, "\xe2\x80\xae"));
	FUZZ_CHECK(strlen(escaped) >= strlen(text));
	free(escaped);
}

static void check_shorten(const char *text, size_t size_bytes)
{
	char *buffer = fuzz_alloc(size_bytes);
	size_t length;

	FUZZ_CHECK(rsum_text_shorten(text, buffer, size_bytes) == buffer);
	FUZZ_CHECK(memchr(buffer, '\0', size_bytes));
	if (strlen(text) < size_bytes) {
		FUZZ_CHECK(strcmp(buffer, text) == 0);
	} else {
		length = strlen(buffer);
		FUZZ_CHECK(length >= 3 && strcmp(buffer + length - 3, "...") == 0);
		FUZZ_CHECK(strncmp(buffer, text, length - 3) == 0);
		if (fuzz_utf8_is_valid(text, strlen(text)))
			FUZZ_CHECK(fuzz_utf8_is_valid(buffer, length));
	}
	free(buffer);
}

static void check_text(struct fuzz_input *input)
{
	size_t size_bytes = 8 + fuzz_take(input, 1);
	char *text = fuzz_copy_text(input->data, input->left);

	FUZZ_CHECK(rsum_utf8_is_valid(text, input->left) == fuzz_utf8_is_valid(text, input->left));
	check_escape(text);
	check_shorten(text, size_bytes);
	free(text);
}

/* ---- the index of names ------------------------------------------------------------------ */

static void check_index(struct fuzz_input *input)
{
	struct rsum_name_index index = { 0 };
	char *text = fuzz_copy_text(input->data, input->left);
	const char *names[NAMES_MAX];
	uint32_t count = 0, existing, expected;

	for (char *at = text; at && count < NAMES_MAX;) {
		names[count] = at;
		at = strchr(at, '\n');
		if (at)
			*at++ = '\0';
		expected = RSUM_NAME_INDEX_NONE;
		for (uint32_t i = 0; i < count && expected == RSUM_NAME_INDEX_NONE; i++) {
			if (strcmp(names[i], names[count]) == 0)
				expected = i;
		}
		FUZZ_CHECK(rsum_name_index_find(&index, names[count]) == expected);
		FUZZ_CHECK(rsum_name_index_add(&index, names[count], count, &existing) == 0);
		FUZZ_CHECK(existing == expected);
		FUZZ_CHECK(rsum_name_index_find(&index, names[count]) ==
			   (expected == RSUM_NAME_INDEX_NONE ? count : expected));
		count++;
	}
	rsum_name_index_deinit(&index);
	free(text);
}

/* ---- options ----------------------------------------------------------------------------- */

static uint64_t take_choice(struct fuzz_input *input, uint64_t usual)
{
	uint64_t kind = fuzz_take(input, 1);

	return kind & 0x80 ? fuzz_take(input, 8) : kind & 0x40 ? usual : kind & 7;
}

static void check_options(struct fuzz_input *input)
{
	struct ringsum_options given = RINGSUM_OPTIONS_INIT;
	struct rsum_options out;
	struct ringsum_error err = { 0 };
	char *pin = fuzz_copy_text(input->data, RSUM_MIN(input->left, (size_t)64));

	given.profile = (enum ringsum_profile)take_choice(input, 1);
	given.engine = (enum ringsum_engine)take_choice(input, 1);
	given.direct = (enum ringsum_direct)take_choice(input, 1);
	given.digest = (enum ringsum_digest_impl)take_choice(input, 1);
	given.threads = (unsigned)take_choice(input, 16);
	given.depth = (unsigned)take_choice(input, 32);
	given.chunk_bytes = (uint32_t)take_choice(input, 1 << 20);
	given.memory_bytes = take_choice(input, 1 << 26);
	given.manifest_sha256 = fuzz_take(input, 1) & 1 ? pin : NULL;
	if (fuzz_take(input, 1) & 1)
		given.size_bytes = (size_t)take_choice(input, sizeof(given));
	/* A longer struct than there is would be read past its end. */
	given.size_bytes = RSUM_MIN(given.size_bytes, sizeof(given));
	if (rsum_options_resolve(&given, &out, &err) == RINGSUM_OK) {
		FUZZ_CHECK(out.digest_impl && out.given.threads >= 1 &&
			   out.given.threads <= RSUM_LIMIT_THREADS);
		FUZZ_CHECK(out.given.depth >= 1 && out.given.depth <= RSUM_LIMIT_DEPTH);
		FUZZ_CHECK(out.given.chunk_bytes >= RSUM_CHUNK_BYTES_MIN &&
			   out.given.chunk_bytes <= RSUM_CHUNK_BYTES_MAX &&
			   out.given.chunk_bytes % 4096 == 0);
		FUZZ_CHECK(out.given.memory_bytes >= out.given.chunk_bytes &&
			   out.given.memory_bytes <= RSUM_LIMIT_MEMORY_BYTES);
		FUZZ_CHECK(out.given.profile <= RINGSUM_PROFILE_DSPARK_EXL3 &&
			   out.given.engine <= RINGSUM_ENGINE_PREAD &&
			   out.given.direct <= RINGSUM_DIRECT_OFF);
		FUZZ_CHECK(!out.has_pin || is_hex_digest(pin));
	} else {
		FUZZ_CHECK(err.code < 0);
		fuzz_check_line(err.message);
	}
	rsum_options_deinit(&out);
	free(pin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(struct fuzz_input *) = {
		check_hex,  check_digests, check_names,	  check_shape,
		check_text, check_index,   check_options,
	};
	struct fuzz_input input = { data, size };

	if (size)
		checks[fuzz_take(&input, 1) % RSUM_COUNT_OF(checks)](&input);
	return 0;
}
