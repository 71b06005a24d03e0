/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others on the machine notice: with direct I/O the page cache stays as it was, --idle lowers
 * every thread of ringsum and not the caller's, and a limit on the rate is a limit.
 */
#include "delivery.h"
#include "ringsum.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/ioprio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20260606)
#define SHARDS 3
#define OTHER_BYTES ((size_t)8 << 20)

static struct delivery delivery;
static char other_path[96]; /* a file of someone else's, in the page cache */

static int make_delivery(void **state)
{
	(void)state;
	/* A disk, as a rule: files in memory are in the page cache whatever is done. */
	delivery_init(&delivery, "/var/tmp");
	delivery_add_mixture(&delivery, SHARDS, SEED);
	delivery_add(&delivery, 0, "large", 6 << 20, false);
	delivery_write(&delivery, SEED, true);
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	unlink(other_path);
	delivery_deinit(&delivery);
	return 0;
}

/* Pages of the file that are in the page cache, and how many it has. */
static size_t count_cached(const char *path, size_t *page_count_out)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), count, cached = 0, i;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char *pages;
	struct stat status;
	void *mapped;

	assert_true(fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0);
	count = ((size_t)status.st_size + page_bytes - 1) / page_bytes;
	pages = malloc(count);
	mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(pages && mapped != MAP_FAILED);
	assert_int_equal(mincore(mapped, (size_t)status.st_size, pages), 0);
	for (i = 0; i < count; i++)
		cached += pages[i] & 1;
	munmap(mapped, (size_t)status.st_size);
	free(pages);
	close(fd);
	*page_count_out = count;
	return cached;
}

static void give_up_pages(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
}

static void take_into_cache(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	static char buffer[1 << 16];

	assert_true(fd >= 0);
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
	close(fd);
}

static bool takes_direct_reads(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	void *buffer = aligned_alloc(4096, 4096);
	bool takes = fd >= 0 && buffer && pread(fd, buffer, 4096, 0) > 0;
	size_t count;

	free(buffer);
	if (fd >= 0)
		close(fd);
	if (!takes)
		return false;
	/* A file system in memory takes them too, and has nowhere else to keep its files. */
	give_up_pages(path);
	return count_cached(path, &count) == 0;
}

/* Every file of the checkpoint: its shards and the manifest. */
static const char *file_path(unsigned index)
{
	static char path[128];

	if (index < SHARDS)
		return delivery_shard_path(&delivery, index);
	snprintf(path, sizeof(path), "%s/TENSORS.json", delivery.root);
	return path;
}

static void verify(const struct ringsum_options *options, int expected)
{
	struct ringsum_error err = { 0 };
	int result = ringsum_verify_path(delivery.root, options, NULL, &err);

	if (result != expected)
		fail_msg("engine %d: result %d: %s", (int)options->engine, result, err.message);
}

static void check_nothing_enters(const struct ringsum_options *options, int expected)
{
	size_t count;
	unsigned i;

	for (i = 0; i <= SHARDS; i++) {
		give_up_pages(file_path(i));
		assert_int_equal(count_cached(file_path(i), &count), 0);
	}
	verify(options, expected);
	for (i = 0; i <= SHARDS; i++) {
		size_t cached = count_cached(file_path(i), &count);

		if (cached != 0)
			fail_msg("engine %d: %zu of %zu pages of %s are in the page cache now",
				 (int)options->engine, cached, count, file_path(i));
	}
}

/* What others have there stays, also where it is of the checkpoint itself. */
static void check_nothing_leaves(const struct ringsum_options *options, int expected)
{
	size_t cached, count;
	unsigned i;

	take_into_cache(other_path);
	for (i = 0; i <= SHARDS; i++)
		take_into_cache(file_path(i));
	verify(options, expected);
	for (i = 0; i <= SHARDS + 1; i++) {
		const char *path = i <= SHARDS ? file_path(i) : other_path;

		cached = count_cached(path, &count);
		if (cached != count)
			fail_msg("engine %d: %zu of %zu pages of %s were pushed out",
				 (int)options->engine, count - cached, count, path);
	}
}

static void test_page_cache_stays_as_it_was(void **state)
{
	static const enum ringsum_engine engines[] = { RINGSUM_ENGINE_AUTO, RINGSUM_ENGINE_PREAD };
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	static char zeros[OTHER_BYTES];
	size_t cached, count;
	unsigned i;
	int fd;

	(void)state;
	snprintf(other_path, sizeof(other_path), "%s.other", delivery.root);
	fd = open(other_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
	close(fd);
	if (!takes_direct_reads(other_path)) {
		print_message("the file system of /var/tmp takes no direct reads\n");
		skip();
	}
	options.direct = RINGSUM_DIRECT_REQUIRE;
	options.chunk_bytes = 65536;
	for (i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		options.engine = engines[i];
		check_nothing_enters(&options, RINGSUM_OK);
		check_nothing_leaves(&options, RINGSUM_OK);
		/* A second reading of what differs is no different. */
		delivery_flip(&delivery, 3, 0, 1);
		check_nothing_enters(&options, RINGSUM_E_REFUSED);
		check_nothing_leaves(&options, RINGSUM_E_REFUSED);
		delivery_flip(&delivery, 3, 0, 1);
	}
	/* The test can see it where it happens. */
	options.direct = RINGSUM_DIRECT_OFF;
	give_up_pages(file_path(0));
	verify(&options, RINGSUM_OK);
	cached = count_cached(file_path(0), &count);
	assert_int_equal(cached, count);
}

/* ---- priorities --------------------------------------------------------------------------------- */

struct thread_count {
	unsigned others, lowered;
};

static bool is_lowered(pid_t thread)
{
	long io = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, thread);

	errno = 0;
	return getpriority(PRIO_PROCESS, (id_t)thread) == 19 && errno == 0 && io >= 0 &&
	       IOPRIO_PRIO_CLASS(io) == IOPRIO_CLASS_IDLE;
}

/*
 * Threads lower themselves as the first thing that they do, so the first calls may come before;
 * the counts of the last one stand.
 */
static int count_threads(void *arg, const struct ringsum_progress *progress)
{
	struct thread_count *count = arg;
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;

	(void)progress;
	assert_non_null(tasks);
	*count = (struct thread_count){ 0 };
	while ((entry = readdir(tasks)) != NULL) {
		pid_t thread = (pid_t)atoi(entry->d_name);

		if (thread <= 0 || thread == gettid())
			continue;
		/* The kernel's own threads for a ring are of this process too. */
		count->others++;
		count->lowered += is_lowered(thread);
	}
	closedir(tasks);
	return 0;
}

static void test_idle_lowers_its_own_threads_alone(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct thread_count count = { 0 };
	int nice_before = getpriority(PRIO_PROCESS, 0);
	unsigned strangers;
	long io_before = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);

	(void)state;
	if (io_before < 0 || access("/proc/self/task", R_OK) != 0) {
		print_message("I/O priorities or /proc are not to be had here\n");
		skip();
	}
	/* What is there besides, such as a sanitizer's own threads, stays as it is. */
	count_threads(&count, NULL);
	strangers = count.others - count.lowered;
	options.engine = RINGSUM_ENGINE_PREAD;
	options.progress = count_threads;
	options.progress_arg = &count;
	options.threads = 3;
	verify(&options, RINGSUM_OK);
	assert_true(count.others > 3);
	if (nice_before < 19)
		assert_int_equal(count.lowered, 0);
	options.idle = 1;
	verify(&options, RINGSUM_OK);
	assert_true(count.others > 3);
	assert_int_equal(count.lowered + strangers, count.others);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice_before);
	assert_int_equal(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0), io_before);
}

/* ---- the priority of each read through the ring ------------------------------------------------- */

static unsigned ring_reads, idle_reads; /* seen on their way to the kernel */

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring)
{
	unsigned at;

	for (at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++) {
		const struct io_uring_sqe *sqe = &ring->sq.sqes[at & ring->sq.ring_mask];

		ring_reads++;
		idle_reads += IOPRIO_PRIO_CLASS(sqe->ioprio) == IOPRIO_CLASS_IDLE;
	}
	return __real_io_uring_submit(ring);
}

static void test_idle_reads_say_so(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	(void)state;
	ring_reads = idle_reads = 0;
	verify(&options, RINGSUM_OK);
	if (ring_reads < 2) {
		print_message("io_uring is not to be had here\n");
		skip();
	}
	assert_int_equal(idle_reads, 0);
	ring_reads = 0;
	options.idle = 1;
	verify(&options, RINGSUM_OK);
	assert_true(ring_reads > 1);
	assert_int_equal(idle_reads, ring_reads);
}

/* ---- rate --------------------------------------------------------------------------------------- */

/* Slower than the limit a machine may always be; faster never. */
static void test_rate_is_a_limit(void **state)
{
	static const enum ringsum_engine engines[] = { RINGSUM_ENGINE_AUTO, RINGSUM_ENGINE_PREAD };
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_totals totals;
	struct ringsum_report *report;
	unsigned i;
	char *json;

	(void)state;
	options.bytes_per_second_max = 32 << 20;
	for (i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		struct timespec begin, end;
		double seconds;

		options.engine = engines[i];
		clock_gettime(CLOCK_MONOTONIC, &begin);
		assert_int_equal(ringsum_verify_path(delivery.root, &options, &report, NULL),
				 RINGSUM_OK);
		clock_gettime(CLOCK_MONOTONIC, &end);
		seconds = (double)(end.tv_sec - begin.tv_sec) +
			  (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
		ringsum_report_totals(report, &totals);
		/* What may be made good at once, and a read, are beyond it. */
		assert_true((double)totals.bytes_read <=
			    (seconds + 0.1) * (double)options.bytes_per_second_max + (1 << 20));
		assert_int_equal(ringsum_report_to_json(report, &json, NULL), RINGSUM_OK);
		assert_non_null(strstr(json, "\"limited_by\":\"rate\""));
		ringsum_free(json);
		ringsum_report_free(report);
	}
}

static void test_rates_out_of_range(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	(void)state;
	options.bytes_per_second_max = 65535;
	verify(&options, RINGSUM_E_INVALID);
	options.bytes_per_second_max = (UINT64_C(1) << 40) + 1;
	verify(&options, RINGSUM_E_INVALID);
	options.bytes_per_second_max = UINT64_C(1) << 40;
	verify(&options, RINGSUM_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_page_cache_stays_as_it_was),
		cmocka_unit_test(test_idle_lowers_its_own_threads_alone),
		cmocka_unit_test(test_idle_reads_say_so),
		cmocka_unit_test(test_rate_is_a_limit),
		cmocka_unit_test(test_rates_out_of_range),
	};

	return cmocka_run_group_tests(tests, make_delivery, remove_delivery);
}
