/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast SHA-256 is on one core: every implementation beside libcrypto's EVP with one stream.
 *
 *	taskset -c 1 bench_digest [ROUNDS]
 *
 * Long streams advance 32 KiB a step over a buffer that stays in the second-level cache, so that
 * memory plays no part; then messages of 1 KiB and of 100 bytes, each with its padding and its
 * digest. Frequency and neighbours drift, so each round measures every row once, and a row's
 * ratio is the median of its ratios to libcrypto within the same round.
 */
#include "digest.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_BYTES ((size_t)32 << 10)
#define STEP_COUNT 48 /* divisible by 1, 2, 3, 6, 8, 12 and 16 streams */
#define BUFFER_BYTES (STEP_BYTES * STEP_COUNT)
#define ROUNDS_DEFAULT 101
#define ROUNDS_MAX 10000

struct row {
	const struct rsum_digest_impl *impl; /* NULL: EVP without anything of ours */
	unsigned streams;
	size_t message_bytes; /* 0: one that does not end */
	double *seconds;      /* of each round */
};

static uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(4096)));
static EVP_MD_CTX *reference;

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool run_reference(size_t message_bytes)
{
	size_t step_bytes = message_bytes != 0 ? message_bytes : STEP_BYTES;
	uint8_t digest[RSUM_SHA256_BYTES];
	int good = 1;

	for (size_t at = 0; at + step_bytes <= BUFFER_BYTES; at += step_bytes) {
		good &= EVP_DigestUpdate(reference, buffer + at, step_bytes);
		if (message_bytes == 0)
			continue;
		good &= EVP_DigestFinal_ex(reference, digest, NULL);
		good &= EVP_DigestInit_ex2(reference, NULL, NULL);
	}
	return good == 1;
}

static bool run_streams(const struct row *row, struct rsum_sha256 *streams)
{
	size_t step_bytes = row->message_bytes != 0 ? row->message_bytes : STEP_BYTES;
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX];
	uint8_t digest[RSUM_SHA256_BYTES];
	bool good = true;

	for (size_t at = 0; at + row->streams * step_bytes <= BUFFER_BYTES;) {
		for (unsigned i = 0; i < row->streams; i++, at += step_bytes)
			spans[i] = (struct rsum_sha256_span){ &streams[i], buffer + at, step_bytes,
							      row->message_bytes != 0 };
		rsum_sha256_update(row->impl, spans, row->streams);
		for (unsigned i = 0; row->message_bytes != 0 && i < row->streams; i++) {
			good &= rsum_sha256_final(&streams[i], row->impl, digest) == 0;
			rsum_sha256_restart(&streams[i], row->impl);
		}
	}
	return good;
}

static bool measure(const struct row *row, double *seconds_out)
{
	struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX];
	bool good = true;
	double begin;

	for (unsigned i = 0; row->impl != NULL && i < row->streams; i++)
		good &= rsum_sha256_init(&streams[i], row->impl) == 0;
	begin = now_seconds();
	if (good)
		good = row->impl != NULL ? run_streams(row, streams)
					 : run_reference(row->message_bytes);
	*seconds_out = now_seconds() - begin;
	for (unsigned i = 0; row->impl != NULL && i < row->streams; i++)
		rsum_sha256_deinit(&streams[i]);
	return good;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return values[count / 2];
}

/* rows[0] is the reference. */
static bool report(const struct row *rows, size_t row_count, size_t rounds)
{
	double *ratios = calloc(rounds, sizeof(*ratios));
	double *times = calloc(rounds, sizeof(*times));
	bool good = ratios != NULL && times != NULL;

	for (size_t i = 0; good && i < row_count; i++) {
		const struct row *row = &rows[i];
		double typical;

		for (size_t k = 0; k < rounds; k++) {
			ratios[k] = rows[0].seconds[k] / row->seconds[k];
			times[k] = row->seconds[k];
		}
		typical = median(times, rounds);
		printf("%-12s %2u %s  %6.3f GB/s  %5.2f\n",
		       row->impl != NULL ? rsum_digest_impl_name(row->impl) : "EVP", row->streams,
		       row->streams == 1 ? "stream " : "streams", 1e-9 * BUFFER_BYTES / typical,
		       median(ratios, rounds));
	}
	free(ratios);
	free(times);
	return good;
}

static bool compare_at(size_t message_bytes, size_t rounds)
{
	const struct rsum_digest_impl *libcrypto = rsum_digest_impl_get(RINGSUM_DIGEST_LIBCRYPTO);
	const struct rsum_digest_impl *x2 = rsum_digest_impl_get(RINGSUM_DIGEST_SHANI_X2);
	const struct rsum_digest_impl *x3 = rsum_digest_impl_get(RINGSUM_DIGEST_SHANI_X3);
	const struct rsum_digest_impl *x16 = rsum_digest_impl_get(RINGSUM_DIGEST_AVX512_X16);
	const struct row all[] = {
		{ .streams = 1 },
		{ .impl = libcrypto, .streams = 1 },
		{ .impl = x2, .streams = 1 },
		{ .impl = x2, .streams = 2 },
		{ .impl = x3, .streams = 3 },
		{ .impl = x16, .streams = 1 },
		{ .impl = x16, .streams = 2 },
		{ .impl = x16, .streams = 3 },
		{ .impl = x16, .streams = 6 },
		{ .impl = x16, .streams = 8 },
		{ .impl = x16, .streams = 12 },
		{ .impl = x16, .streams = 16 },
	};
	struct row rows[RSUM_COUNT_OF(all)];
	size_t row_count = 0;
	bool good = true;

	for (size_t i = 0; i < RSUM_COUNT_OF(all); i++) {
		if (i == 0 || all[i].impl != NULL)
			rows[row_count++] = all[i];
	}
	for (size_t i = 0; i < row_count; i++) {
		rows[i].message_bytes = message_bytes;
		rows[i].seconds = calloc(rounds, sizeof(double));
		good = good && rows[i].seconds != NULL;
	}
	for (size_t k = 0; good && k < rounds; k++) {
		for (size_t i = 0; good && i < row_count; i++)
			good = measure(&rows[i], &rows[i].seconds[k]);
	}
	good = good && report(rows, row_count, rounds);
	for (size_t i = 0; i < row_count; i++)
		free(rows[i].seconds);
	return good;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : ROUNDS_DEFAULT;
	double begin = now_seconds(), before_seconds;
	bool good;

	if (argc > 2 || rounds == 0 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_digest [ROUNDS, 1 to %d]\n", ROUNDS_MAX);
		return 2;
	}
	good = rsum_sha256_of(buffer, 0, (uint8_t[RSUM_SHA256_BYTES]){ 0 }) == 0;
	before_seconds = now_seconds() - begin;
	begin = now_seconds();
	printf("auto is %s, ", rsum_digest_impl_name(rsum_digest_impl_get(RINGSUM_DIGEST_AUTO)));
	printf("checked in %.2f ms after libcrypto's own %.2f ms\n", 1e3 * (now_seconds() - begin),
	       1e3 * before_seconds);

	for (size_t i = 0; i < BUFFER_BYTES; i++)
		buffer[i] = (uint8_t)(i * 2654435761u >> 13);
	reference = EVP_MD_CTX_new();
	good = good && reference != NULL && EVP_DigestInit_ex2(reference, EVP_sha256(), NULL) == 1;
	printf("\nlong streams, 32 KiB a step; the last column is the ratio to EVP\n");
	good = good && compare_at(0, rounds);
	printf("\nmessages of 1 KiB\n");
	good = good && compare_at(1024, rounds);
	printf("\nmessages of 100 bytes\n");
	good = good && compare_at(100, rounds);
	EVP_MD_CTX_free(reference);
	if (!good)
		fprintf(stderr, "bench_digest: memory ran out, or libcrypto refused SHA-256\n");
	return good ? 0 : 3;
}
