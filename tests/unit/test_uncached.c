/* SPDX-License-Identifier: Apache-2.0 */
/* Reads past the page cache give what reads through it give. */
#include "uncached.h"

#include "confine.h"
#include "delivery.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(60609)
#define FILE_BYTES ((size_t)(3 << 20) + 1234)

static uint8_t content[FILE_BYTES];
static int file_fd = -1;   /* on a file system that takes direct reads, as a rule */
static int memory_fd = -1; /* in memory */

static void fill(int fd)
{
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, FILE_BYTES), FILE_BYTES);
}

static int make_files(void **state)
{
	char name[] = "/var/tmp/ringsum-uncached.XXXXXX";
	uint64_t random = SEED;
	size_t i;

	(void)state;
	for (i = 0; i < FILE_BYTES; i++)
		content[i] = (uint8_t)delivery_random(&random);
	file_fd = mkstemp(name);
	fill(file_fd);
	unlink(name);
	memory_fd = memfd_create("uncached", MFD_CLOEXEC);
	fill(memory_fd);
	return 0;
}

static int close_files(void **state)
{
	(void)state;
	close(file_fd);
	close(memory_fd);
	return 0;
}

static void check_read(int fd, uint64_t offset, size_t size_bytes)
{
	static uint8_t buffer[FILE_BYTES + 2];

	memset(buffer, 0x5A, sizeof(buffer));
	if (rsum_uncached_read_at(fd, true, offset, buffer + 1, size_bytes) != 0 ||
	    memcmp(buffer + 1, content + offset, size_bytes) != 0)
		fail_msg("%zu bytes at %llu", size_bytes, (unsigned long long)offset);
	assert_int_equal(buffer[0], 0x5A);
	assert_int_equal(buffer[size_bytes + 1], 0x5A);
	assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
}

static void check_reads(int fd)
{
	static const uint64_t offsets[] = { 0, 1, 8, 511, 4095, 4096, 4097, 1 << 20, FILE_BYTES };
	uint64_t random = SEED + 1;
	uint8_t byte = 0;
	size_t i, j;

	for (i = 0; i < RSUM_COUNT_OF(offsets); i++)
		for (j = 0; j < RSUM_COUNT_OF(offsets); j++)
			if (offsets[i] + offsets[j] <= FILE_BYTES)
				check_read(fd, offsets[i], (size_t)offsets[j]);
	for (i = 0; i < 100; i++) {
		uint64_t offset = delivery_random(&random) % FILE_BYTES;

		check_read(fd, offset, (size_t)(delivery_random(&random) % (FILE_BYTES - offset)));
	}
	check_read(fd, FILE_BYTES - 1, 1);
	assert_int_equal(rsum_uncached_read_at(fd, true, FILE_BYTES, &byte, 1), -ENODATA);
	assert_int_equal(rsum_uncached_read_at(fd, true, FILE_BYTES + 9999, &byte, 1), -ENODATA);
	assert_int_equal(rsum_uncached_read_at(fd, true, UINT64_MAX - 1, &byte, 8), -EINVAL);
	assert_int_equal(rsum_uncached_read_at(fd, true, UINT64_MAX / 2, &byte, 1), -EINVAL);
}

static void test_reads_are_alike(void **state)
{
	(void)state;
	check_reads(file_fd);
	check_reads(memory_fd);
	assert_true(rsum_uncached_read_at(-1, true, 0, content, 1) < 0);
}

/* The end of the file is told from less than was asked for. */
static void test_short_file(void **state)
{
	static uint8_t buffer[FILE_BYTES + 1];

	(void)state;
	assert_int_equal(rsum_uncached_read_at(file_fd, true, 0, buffer, FILE_BYTES + 1), -ENODATA);
	assert_int_equal(rsum_uncached_read_at(memory_fd, true, 0, buffer, FILE_BYTES + 1),
			 -ENODATA);
	assert_int_equal(rsum_uncached_read_at(file_fd, true, FILE_BYTES - 10, buffer, 11),
			 -ENODATA);
}

static void test_whole_files(void **state)
{
	size_t size_bytes = 1;
	char *text = NULL;

	(void)state;
	assert_int_equal(rsum_uncached_read_all(file_fd, true, FILE_BYTES, &text, &size_bytes), 0);
	assert_int_equal(size_bytes, FILE_BYTES);
	assert_memory_equal(text, content, FILE_BYTES);
	assert_int_equal(text[FILE_BYTES], 0);
	free(text);
	text = NULL;
	assert_int_equal(rsum_uncached_read_all(file_fd, true, FILE_BYTES - 1, &text, &size_bytes),
			 -EFBIG);
	assert_null(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_are_alike),
		cmocka_unit_test(test_short_file),
		cmocka_unit_test(test_whole_files),
	};

	return cmocka_run_group_tests(tests, make_files, close_files);
}
