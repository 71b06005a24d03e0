/* SPDX-License-Identifier: Apache-2.0 */
/* The crew with reads that are left to it: the bytes of the file, and what fails stays unproven. */
#include "hash_worker.h"

#include "ringsum.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_BYTES 300000
#define CHUNK_BYTES 65536
#define CHUNKS ((FILE_BYTES + CHUNK_BYTES - 1) / CHUNK_BYTES)
#define RANGES 6

/* Neighbours, a gap, and one that goes over several chunks; the last ends the file. */
static const struct rsum_range all_ranges[RANGES] = {
	{ .begin = 100, .end = 101, .id = 0 },	    { .begin = 101, .end = 40000, .id = 1 },
	{ .begin = 40000, .end = 40003, .id = 2 },  { .begin = 65534, .end = 65538, .id = 3 },
	{ .begin = 70000, .end = 250000, .id = 4 }, { .begin = 250001, .end = FILE_BYTES, .id = 5 },
};

struct bench {
	uint8_t content[FILE_BYTES];
	uint8_t destination[FILE_BYTES];
	struct rsum_range ranges[RANGES];
	struct rsum_range_result results[RANGES];
	struct rsum_buffer_pool pool;
	uint64_t left_bytes;
	int fd;
};

static struct bench bench;

static int set_up(void **state)
{
	size_t i;

	(void)state;
	memset(&bench, 0, sizeof(bench));
	for (i = 0; i < FILE_BYTES; i++)
		bench.content[i] = (uint8_t)(i * 2654435761U >> 13);
	memcpy(bench.ranges, all_ranges, sizeof(all_ranges));
	bench.fd = memfd_create("shard", MFD_CLOEXEC);
	assert_true(bench.fd >= 0);
	assert_int_equal(write(bench.fd, bench.content, FILE_BYTES), FILE_BYTES);
	assert_int_equal(rsum_buffer_pool_init(&bench.pool, CHUNKS, CHUNK_BYTES), RINGSUM_OK);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	rsum_buffer_pool_deinit(&bench.pool);
	close(bench.fd);
	return 0;
}

static struct rsum_buffer *leave_chunk(struct rsum_hash_lane *lane, unsigned chunk, int fd)
{
	struct rsum_buffer *buffer = rsum_buffer_acquire(&bench.pool);

	assert_non_null(buffer);
	buffer->offset = (uint64_t)chunk * CHUNK_BYTES;
	buffer->length = CHUNK_BYTES;
	buffer->expected = (uint32_t)RSUM_MIN(CHUNK_BYTES, FILE_BYTES - buffer->offset);
	buffer->left_fd = fd;
	buffer->lane = lane;
	return buffer;
}

/* All ranges as one lane, whose reads are left to the crew; `fd` is what it reads from. */
static void hash_all(int fd, enum ringsum_digest_impl option)
{
	static const struct rsum_lane plan = { .end = FILE_BYTES, .range_count = RANGES };
	const struct rsum_hash_setup setup = {
		.impl = rsum_digest_impl_get(option),
		.thread_count = 2,
		.lane_count = 1,
	};
	const struct rsum_hash_work work = {
		.lane = &plan,
		.ranges = bench.ranges,
		.results = bench.results,
	};
	struct rsum_buffer *buffers[CHUNKS], *list;
	struct rsum_hash_crew *crew;
	unsigned i, collected = 0;
	struct rsum_hash_tally tally;

	assert_int_equal(rsum_hash_crew_start(&setup, &crew), RINGSUM_OK);
	rsum_hash_lane_open(rsum_hash_crew_lane(crew, 0), &work, false);
	for (i = 0; i < CHUNKS; i++) {
		buffers[i] = leave_chunk(rsum_hash_crew_lane(crew, 0), i, fd);
		rsum_hash_crew_append(crew, buffers[i]);
	}
	rsum_hash_crew_ready(crew, buffers, CHUNKS, true);
	while (collected < CHUNKS) {
		for (list = rsum_hash_crew_collect(crew, 1000, &tally); list; collected++) {
			struct rsum_buffer *buffer = list;

			list = buffer->next;
			bench.left_bytes += buffer->left_bytes;
			rsum_buffer_release(&bench.pool, buffer);
		}
	}
	assert_true(rsum_hash_lane_try_close(crew, rsum_hash_crew_lane(crew, 0), false));
	rsum_hash_crew_stop(crew);
}

static void assert_hashed(unsigned id)
{
	const struct rsum_range *range = &all_ranges[id];
	const struct rsum_range_result *result = &bench.results[id];
	size_t size_bytes = range->end - range->begin;
	uint8_t digest[RSUM_SHA256_BYTES];

	assert_true(result->is_hashed);
	assert_int_equal(result->error, 0);
	assert_int_equal(rsum_sha256_of(bench.content + range->begin, size_bytes, digest), 0);
	assert_memory_equal(result->digest, digest, sizeof(digest));
	assert_memory_equal(result->head, bench.content + range->begin, RSUM_MIN(size_bytes, 4));
}

static void test_digests_are_those_of_the_file(void **state)
{
	static const enum ringsum_digest_impl options[] = { RINGSUM_DIGEST_AUTO,
							    RINGSUM_DIGEST_LIBCRYPTO };
	uint64_t promised = 0;
	unsigned i, option;

	(void)state;
	for (i = 0; i < RANGES; i++)
		promised += all_ranges[i].end - all_ranges[i].begin;
	for (option = 0; option < RSUM_COUNT_OF(options); option++) {
		memset(bench.results, 0, sizeof(bench.results));
		bench.left_bytes = 0;
		hash_all(bench.fd, options[option]);
		for (i = 0; i < RANGES; i++)
			assert_hashed(i);
		assert_int_equal(bench.left_bytes, promised);
	}
}

static void test_bytes_are_delivered(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < RANGES; i++)
		bench.ranges[i].destination = bench.destination + all_ranges[i].begin;
	hash_all(bench.fd, RINGSUM_DIGEST_AUTO);
	for (i = 0; i < RANGES; i++) {
		assert_hashed(i);
		assert_memory_equal(bench.destination + all_ranges[i].begin,
				    bench.content + all_ranges[i].begin,
				    all_ranges[i].end - all_ranges[i].begin);
	}
	/* Nothing beside them. */
	assert_int_equal(bench.destination[99], 0);
	assert_int_equal(bench.destination[40003], 0);
	assert_int_equal(bench.destination[250000], 0);
}

/* The file ends within a range: that one and all behind it are unread, where it ended. */
static void test_a_file_that_ends_early(void **state)
{
	unsigned i;

	(void)state;
	assert_int_equal(ftruncate(bench.fd, 200000), 0);
	hash_all(bench.fd, RINGSUM_DIGEST_AUTO);
	for (i = 0; i < 4; i++)
		assert_hashed(i);
	for (; i < RANGES; i++) {
		assert_false(bench.results[i].is_hashed);
		assert_int_equal(bench.results[i].error, -ENODATA);
	}
	assert_true(bench.results[4].error_offset <= 200000 &&
		    bench.results[4].error_offset > 200000 - CHUNK_BYTES);
	assert_int_equal(bench.results[5].error_offset, all_ranges[5].begin);
}

/* A descriptor that cannot be read from proves nothing. */
static void test_a_read_that_fails(void **state)
{
	int write_only = open("/dev/null", O_WRONLY | O_CLOEXEC);
	unsigned i;

	(void)state;
	assert_true(write_only >= 0);
	hash_all(write_only, RINGSUM_DIGEST_AUTO);
	for (i = 0; i < RANGES; i++) {
		assert_false(bench.results[i].is_hashed);
		assert_int_equal(bench.results[i].error, -EBADF);
	}
	assert_int_equal(bench.left_bytes, 0);
	close(write_only);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_digests_are_those_of_the_file, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_bytes_are_delivered, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_file_that_ends_early, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_read_that_fails, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
