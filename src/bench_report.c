/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a benchmark's figures mean, and the figures as text and JSON. Pure. Numbers are written
 * without floating point, so that no locale of the host program changes them.
 */
#include "bench.h"

#include "error.h"
#include "json_write.h"
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* Differences below this, in per cent, are the noise of a disk. */
#define NOISE_PERCENT 8

#define RATE_TEXT_BYTES 32

static const char *const digest_names[] = {
	[RINGSUM_DIGEST_LIBCRYPTO] = "libcrypto",
	[RINGSUM_DIGEST_SHANI_X2] = "sha-ni-x2",
	[RINGSUM_DIGEST_SHANI_X3] = "sha-ni-x3",
	[RINGSUM_DIGEST_AVX512_X16] = "avx512-x16",
};

RSUM_PUBLIC const char *ringsum_bench_limit_name(enum ringsum_bench_limit limit)
{
	switch (limit) {
	case RINGSUM_BENCH_LIMIT_DISK:
		return "disk";
	case RINGSUM_BENCH_LIMIT_DEPTH:
		return "depth";
	case RINGSUM_BENCH_LIMIT_HASH:
		return "hash";
	case RINGSUM_BENCH_LIMIT_TENSOR:
		return "tensor";
	case RINGSUM_BENCH_LIMIT_PROCESSORS:
		return "processors";
	case RINGSUM_BENCH_LIMIT_UNKNOWN:
	default:
		return "unknown";
	}
}

/* "2.35 GB/s", or "57 MB/s" for what is slow. */
static const char *rate_text(uint64_t bytes_per_second, char text[RATE_TEXT_BYTES])
{
	uint64_t hundredths = (bytes_per_second + 5000000) / 10000000;

	if (hundredths >= 100)
		snprintf(text, RATE_TEXT_BYTES, "%" PRIu64 ".%02" PRIu64 " GB/s", hundredths / 100,
			 hundredths % 100);
	else
		snprintf(text, RATE_TEXT_BYTES, "%" PRIu64 " MB/s",
			 (bytes_per_second + 500000) / 1000000);
	return text;
}

static const char *size_text(uint64_t bytes, char text[RATE_TEXT_BYTES])
{
	uint64_t tenths = (bytes + 50000000) / 100000000;

	if (tenths >= 10)
		snprintf(text, RATE_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " GB", tenths / 10,
			 tenths % 10);
	else
		snprintf(text, RATE_TEXT_BYTES, "%" PRIu64 " MB", (bytes + 500000) / 1000000);
	return text;
}

static uint64_t percent_of(uint64_t value, uint64_t whole)
{
	return whole ? (uint64_t)((double)value * 100 / (double)whole + 0.5) : 0;
}

/* Whether `value` is above `base` by more than noise. */
static bool is_well_above(uint64_t value, uint64_t base)
{
	return percent_of(value, base) > 100 + NOISE_PERCENT;
}

/* The best that any pass got from the disk: hashing in between changes when reads are submitted. */
static uint64_t disk_rate(const struct ringsum_bench_result *result)
{
	uint64_t rate = RSUM_MAX(result->read.bytes_per_second, result->deeper.bytes_per_second);

	rate = RSUM_MAX(rate, result->verify.bytes_per_second);
	return RSUM_MAX(rate, result->load.bytes_per_second);
}

uint64_t rsum_bench_bound(const struct ringsum_bench_result *result)
{
	uint64_t bound = RSUM_MIN(disk_rate(result), result->hash_all);

	/* What was reached is possible, whatever hashing alone came to a moment earlier. */
	return RSUM_MAX(bound, result->verify.bytes_per_second);
}

/* ---- the conclusion -------------------------------------------------------------------------- */

/* The largest tensor alone takes longer than all of them side by side. */
static bool is_bound_by_tensor(const struct ringsum_bench_result *result)
{
	double lone = (double)result->bytes_largest / (double)result->hash_stream;
	double all = (double)result->bytes_promised / (double)rsum_bench_bound(result);

	return lone > all * (100 + NOISE_PERCENT) / 100;
}

static enum ringsum_bench_limit choose_limit(const struct ringsum_bench_result *result)
{
	const uint64_t read = result->read.bytes_per_second;
	const uint64_t verify = result->verify.bytes_per_second;

	if (read == 0 || verify == 0 || result->hash_stream == 0 || result->hash_all == 0)
		return RINGSUM_BENCH_LIMIT_UNKNOWN;
	if (is_bound_by_tensor(result))
		return RINGSUM_BENCH_LIMIT_TENSOR;
	if (is_well_above(disk_rate(result), result->hash_all) &&
	    !is_well_above(verify, result->hash_all))
		return RINGSUM_BENCH_LIMIT_HASH;
	if (is_well_above(read, verify))
		return RINGSUM_BENCH_LIMIT_PROCESSORS;
	if (is_well_above(result->deeper.bytes_per_second, RSUM_MAX(read, verify)))
		return RINGSUM_BENCH_LIMIT_DEPTH;
	return RINGSUM_BENCH_LIMIT_DISK;
}

RSUM_PRINTF(2, 3)
static void conclude(struct ringsum_bench_result *result, const char *format, ...)
{
	size_t used = strlen(result->conclusion);
	va_list args;

	va_start(args, format);
	vsnprintf(result->conclusion + used, sizeof(result->conclusion) - used, format, args);
	va_end(args);
}

static bool has_streams_side_by_side(const struct ringsum_bench_result *result)
{
	size_t i;

	for (i = RINGSUM_DIGEST_LIBCRYPTO + 1; i < RSUM_COUNT_OF(digest_names); i++)
		if (result->hash_core[i])
			return true;
	return false;
}

/* What more threads did, where they were tried. */
static void conclude_threads(struct ringsum_bench_result *result)
{
	char text[RATE_TEXT_BYTES];

	if (result->wider_threads == 0 && result->processors == 1)
		conclude(result, "; the one processor hashes already, so another or a faster one "
				 "would help");
	else if (result->wider_threads == 0)
		conclude(result,
			 "; all %u processors hash already, so more or faster ones would "
			 "help",
			 result->processors);
	else if (is_well_above(result->wider.bytes_per_second, result->verify.bytes_per_second))
		conclude(result, "; --threads %u gives %s", result->wider_threads,
			 rate_text(result->wider.bytes_per_second, text));
	else
		conclude(result, "; --threads %u was tried and does not help (%s)",
			 result->wider_threads, rate_text(result->wider.bytes_per_second, text));
	if (!has_streams_side_by_side(result))
		conclude(result, "; this processor has no instructions that hash several streams "
				 "side by side");
}

/* Only said where reading is what counts: which pages lie under the buffers, and direct I/O. */
static void conclude_reading(struct ringsum_bench_result *result)
{
	if (!result->is_direct)
		conclude(result, "; shards are read through the page cache, which costs most of "
				 "what a fast disk gives: direct I/O would help");
	else if (result->pages && strcmp(result->pages, "huge") != 0)
		conclude(result,
			 "; the buffers lie in %s pages, and with reserved huge ones (sysctl "
			 "vm.nr_hugepages=%" PRIu64 ") many disks give more",
			 result->pages, (result->memory_bytes + (2 << 20) - 1) / (2 << 20));
}

static void conclude_tensor(struct ringsum_bench_result *result)
{
	char size[RATE_TEXT_BYTES], stream[RATE_TEXT_BYTES], bound[RATE_TEXT_BYTES];

	conclude(result,
		 "limited by one tensor: the largest has %s and is hashed serially at %s, while "
		 "the rest could go at %s; a digest for each smaller range of it would help",
		 size_text(result->bytes_largest, size), rate_text(result->hash_stream, stream),
		 rate_text(rsum_bench_bound(result), bound));
}

void rsum_bench_conclude(struct ringsum_bench_result *result)
{
	char read[RATE_TEXT_BYTES], other[RATE_TEXT_BYTES];

	result->limit = choose_limit(result);
	result->conclusion[0] = '\0';
	rate_text(disk_rate(result), read);
	switch (result->limit) {
	case RINGSUM_BENCH_LIMIT_TENSOR:
		conclude_tensor(result);
		break;
	case RINGSUM_BENCH_LIMIT_HASH:
		conclude(result, "limited by hashing: %u thread%s %s, the disk gives %s",
			 result->threads, result->threads == 1 ? " hashes" : "s hash",
			 rate_text(result->hash_all, other), read);
		conclude_threads(result);
		break;
	case RINGSUM_BENCH_LIMIT_PROCESSORS:
		conclude(result,
			 "limited by the processors: reading alone gives %s and hashing alone %s, "
			 "but together they compete for %u processor%s",
			 read, rate_text(result->hash_all, other), result->processors,
			 result->processors == 1 ? "" : "s");
		conclude_threads(result);
		conclude_reading(result);
		break;
	case RINGSUM_BENCH_LIMIT_DEPTH:
		conclude(result,
			 "limited by the depth: %u reads in flight give %s and %u give %s; verify "
			 "with --depth %u --memory %" PRIu64 "M",
			 result->depth, rate_text(result->read.bytes_per_second, read),
			 result->deeper_depth, rate_text(result->deeper.bytes_per_second, other),
			 result->deeper_depth, result->deeper_memory_bytes >> 20);
		conclude_reading(result);
		break;
	case RINGSUM_BENCH_LIMIT_DISK:
		conclude(result,
			 "limited by the disk: it gives %s and verification keeps up; hashing "
			 "could do %s",
			 read, rate_text(result->hash_all, other));
		conclude_reading(result);
		break;
	case RINGSUM_BENCH_LIMIT_UNKNOWN:
	default:
		conclude(result, "nothing can be said: there was nothing to read");
	}
}

/* ---- text ---------------------------------------------------------------------------------- */

static void append_row(struct rsum_text *text, const char *what, uint64_t rate, uint64_t bound,
		       uint64_t cpu_us_per_gb)
{
	char rate_buffer[RATE_TEXT_BYTES];

	if (rate == 0) {
		rsum_text_printf(text, "  %-36s %12s\n", what, "not measured");
		return;
	}
	rsum_text_printf(text, "  %-36s %12s", what, rate_text(rate, rate_buffer));
	if (bound)
		rsum_text_printf(text, " %9" PRIu64 "%%", percent_of(rate, bound));
	if (cpu_us_per_gb)
		rsum_text_printf(text, " %*s%" PRIu64 ".%02" PRIu64, bound ? 6 : 17, "",
				 (cpu_us_per_gb + 5000) / 1000000,
				 (cpu_us_per_gb + 5000) / 10000 % 100);
	rsum_text_append(text, "\n", 1);
}

static void append_passes(struct rsum_text *text, const struct ringsum_bench_result *result)
{
	uint64_t bound = rsum_bench_bound(result);
	char what[64];

	rsum_text_printf(text, "\n  %-36s %12s %10s %10s\n", "", "rate", "of limit", "CPU s/GB");
	append_row(text, "read, nothing hashed", result->read.bytes_per_second, bound,
		   result->read.cpu_us_per_gb);
	if (result->deeper_depth) {
		snprintf(what, sizeof(what), "read, %u in flight", result->deeper_depth);
		append_row(text, what, result->deeper.bytes_per_second, bound,
			   result->deeper.cpu_us_per_gb);
	}
	snprintf(what, sizeof(what), "hash in memory, %u thread%s", result->threads,
		 result->threads == 1 ? "" : "s");
	append_row(text, what, result->hash_all, bound, 0);
	append_row(text, "verify", result->verify.bytes_per_second, bound,
		   result->verify.cpu_us_per_gb);
	if (result->wider_threads) {
		snprintf(what, sizeof(what), "verify, %u threads", result->wider_threads);
		append_row(text, what, result->wider.bytes_per_second, bound,
			   result->wider.cpu_us_per_gb);
	}
	append_row(text, "load", result->load.bytes_per_second, bound, result->load.cpu_us_per_gb);
}

static void append_hashing(struct rsum_text *text, const struct ringsum_bench_result *result)
{
	char what[64];
	size_t i;

	rsum_text_append(text, "\n", 1);
	for (i = RINGSUM_DIGEST_LIBCRYPTO; i < RSUM_COUNT_OF(digest_names); i++) {
		if (!result->hash_core[i])
			continue;
		snprintf(what, sizeof(what), "hash on one core, %s%s", digest_names[i],
			 strcmp(digest_names[i], result->digest) == 0 ? " (used)" : "");
		append_row(text, what, result->hash_core[i], 0, 0);
	}
	append_row(text, "hash of a tensor without company", result->hash_stream, 0, 0);
}

static void append_circumstances(struct rsum_text *text, const struct ringsum_bench_result *result)
{
	char sampled[RATE_TEXT_BYTES], promised[RATE_TEXT_BYTES], loaded[RATE_TEXT_BYTES];

	rsum_text_printf(text,
			 "measured: %s of %s promised, %d passes of each kind in turns, at most "
			 "2 s a pass; loads of %s\n",
			 size_text(result->bytes_sampled, sampled),
			 size_text(result->bytes_promised, promised), RSUM_BENCH_ROUNDS,
			 size_text(result->bytes_loaded, loaded));
	if (result->engine)
		rsum_text_printf(text,
				 "by: %s, reads of %u KiB, %u in flight, %" PRIu64
				 " MiB of buffers in %s pages, %u hashing thread%s, %s\n",
				 result->engine, result->chunk_bytes >> 10, result->depth,
				 result->memory_bytes >> 20, result->pages, result->threads,
				 result->threads == 1 ? "" : "s", result->digest);
	rsum_text_printf(text, "cold: %s; %s\n",
			 result->is_direct ? "direct I/O, which passes by the page cache"
					   : "without direct I/O, the shards' pages given up "
					     "before each pass",
			 result->dropped_caches ? "the system's page cache was dropped beforehand"
						: "the system's page cache was left alone (no "
						  "right to drop it, or little to read)");
	rsum_text_printf(text, "opening (manifest, config, headers) took %" PRIu64 " ms\n",
			 (result->open_us + 500) / 1000);
}

static int finish(struct rsum_text *text, char **string_out, struct ringsum_error *err)
{
	if (rsum_text_finish(text, string_out) != RINGSUM_OK)
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "memory ran out while the figures were written");
	return RINGSUM_OK;
}

RSUM_PUBLIC int ringsum_bench_to_text(const struct ringsum_bench_result *result, char **text_out,
				      struct ringsum_error *err)
{
	struct rsum_text text = { 0 };

	if (!result || !text_out || result->size_bytes != sizeof(*result))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a result and a place for its text are needed");
	append_circumstances(&text, result);
	append_passes(&text, result);
	append_hashing(&text, result);
	if (result->tensors_differing)
		rsum_text_printf(&text,
				 "\n%" PRIu64 " of the tensors measured are not as promised or "
				 "differ between readings: run ringsum verify\n",
				 result->tensors_differing);
	rsum_text_printf(&text, "\n%s\n", result->conclusion);
	return finish(&text, text_out, err);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void append_rate(struct rsum_text *text, const char *key, struct ringsum_bench_rate rate,
			uint64_t bound)
{
	struct rsum_json_object object;

	rsum_text_printf(text, ",\n \"%s\":", key);
	if (rate.bytes_per_second == 0) {
		rsum_text_printf(text, "null");
		return;
	}
	object = rsum_json_object_new();
	rsum_json_put_count(&object, "bytes_per_second", rate.bytes_per_second);
	rsum_json_put_count(&object, "cpu_us_per_gb", rate.cpu_us_per_gb);
	rsum_json_put_count(&object, "percent_of_limit", percent_of(rate.bytes_per_second, bound));
	rsum_json_append(text, &object);
}

static void append_hash_rates(struct rsum_text *text, const struct ringsum_bench_result *result)
{
	struct rsum_json_object object = rsum_json_object_new();
	size_t i;

	for (i = RINGSUM_DIGEST_LIBCRYPTO; i < RSUM_COUNT_OF(digest_names); i++)
		if (result->hash_core[i])
			rsum_json_put_count(&object, digest_names[i], result->hash_core[i]);
	rsum_text_printf(text, ",\n \"hash_core\":");
	rsum_json_append(text, &object);
	rsum_text_printf(text, ",\n \"hash_stream\":%" PRIu64 ",\n \"hash_all\":%" PRIu64,
			 result->hash_stream, result->hash_all);
}

static void append_how(struct rsum_text *text, const struct ringsum_bench_result *result)
{
	struct rsum_json_object object = rsum_json_object_new();

	rsum_json_put_text(&object, "engine", result->engine);
	rsum_json_put_text(&object, "buffer_pages", result->pages);
	rsum_json_put_text(&object, "digest", result->digest);
	rsum_json_put_count(&object, "chunk_bytes", result->chunk_bytes);
	rsum_json_put_count(&object, "depth", result->depth);
	rsum_json_put_count(&object, "deeper_depth", result->deeper_depth);
	rsum_json_put_count(&object, "memory_bytes", result->memory_bytes);
	rsum_json_put_count(&object, "deeper_memory_bytes", result->deeper_memory_bytes);
	rsum_json_put_count(&object, "processors", result->processors);
	rsum_json_put_count(&object, "threads", result->threads);
	rsum_json_put_count(&object, "wider_threads", result->wider_threads);
	rsum_text_printf(text, ",\n \"how\":");
	rsum_json_append_without_end(text, &object);
	rsum_text_printf(text, ",\"direct\":%s,\"dropped_caches\":%s}",
			 result->is_direct ? "true" : "false",
			 result->dropped_caches ? "true" : "false");
}

RSUM_PUBLIC int ringsum_bench_to_json(const struct ringsum_bench_result *result, char **json_out,
				      struct ringsum_error *err)
{
	struct rsum_text text = { 0 };
	uint64_t bound;

	if (!result || !json_out || result->size_bytes != sizeof(*result))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a result and a place for its text are needed");
	bound = rsum_bench_bound(result);
	rsum_text_printf(&text,
			 "{\"schema\":\"ringsum-bench/1\",\n \"limit\":\"%s\",\n"
			 " \"conclusion\":",
			 ringsum_bench_limit_name(result->limit));
	rsum_json_append_string(&text, result->conclusion);
	rsum_text_printf(&text,
			 ",\n \"bytes\":{\"promised\":%" PRIu64 ",\"sampled\":%" PRIu64
			 ",\"loaded\":%" PRIu64 ",\"largest_tensor\":%" PRIu64
			 "},\n \"rounds\":%d,\n \"open_us\":%" PRIu64
			 ",\n \"tensors_differing\":%" PRIu64
			 ",\n \"limit_bytes_per_second\":%" PRIu64,
			 result->bytes_promised, result->bytes_sampled, result->bytes_loaded,
			 result->bytes_largest, RSUM_BENCH_ROUNDS, result->open_us,
			 result->tensors_differing, bound);
	append_rate(&text, "read", result->read, bound);
	append_rate(&text, "read_deeper", result->deeper, bound);
	append_rate(&text, "verify", result->verify, bound);
	append_rate(&text, "verify_wider", result->wider, bound);
	append_rate(&text, "load", result->load, bound);
	append_hash_rates(&text, result);
	append_how(&text, result);
	rsum_text_printf(&text, "}\n");
	return finish(&text, json_out, err);
}
