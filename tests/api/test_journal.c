/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interrupted verification goes on from its journal: with the verdict of one that was not
 * interrupted, whatever was done to shards, manifest or journal in between.
 */
#include "delivery.h"
#include "ringsum.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20260604)
#define SHARDS 3
#define RECORD_BYTES 128
#define RECORDS_MAX 4096

static struct delivery delivery;
static char journal[96];

static int make_delivery(void **state)
{
	size_t i;

	(void)state;
	delivery_init(&delivery, NULL);
	delivery_add_mixture(&delivery, SHARDS, SEED);
	/* More than are read side by side, so that some are proven before others are begun. */
	for (i = 0; i < 60; i++) {
		char name[32];

		snprintf(name, sizeof(name), "further-%zu", i);
		delivery_add(&delivery, (unsigned)(i % SHARDS), name, 200000 + i, false);
	}
	delivery_write(&delivery, SEED, true);
	snprintf(journal, sizeof(journal), "%s.journal", delivery.root);
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	unlink(journal);
	delivery_deinit(&delivery);
	return 0;
}

static int no_journal(void **state)
{
	(void)state;
	unlink(journal);
	return 0;
}

/* What was changed within two seconds is not noted: until then there is nothing to test. */
static void wait_until_settled(void)
{
	struct timespec now, wait = { .tv_nsec = 50000000 };
	struct stat status;
	int64_t newest = 0;
	unsigned i;

	for (i = 0; i < SHARDS; i++) {
		assert_int_equal(stat(delivery_shard_path(&delivery, i), &status), 0);
		if (status.st_ctim.tv_sec > newest)
			newest = status.st_ctim.tv_sec;
	}
	do {
		nanosleep(&wait, NULL);
		clock_gettime(CLOCK_REALTIME, &now);
	} while (now.tv_sec < newest + 3);
}

struct stop {
	uint64_t at; /* bytes done; UINT64_MAX: never */
};

static int stop_at(void *arg, const struct ringsum_progress *progress)
{
	const struct stop *stop = arg;

	return progress->bytes_done >= stop->at;
}

static int run(uint64_t stop_bytes, struct ringsum_totals *totals, struct ringsum_error *err)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_report *report = NULL;
	struct stop stop = { stop_bytes };
	int result;

	options.journal_path = journal;
	options.chunk_bytes = 65536;
	options.progress = stop_at;
	options.progress_arg = &stop;
	/* Slow enough to be interrupted in the middle. */
	if (stop_bytes != UINT64_MAX)
		options.bytes_per_second_max = 48 << 20;
	result = ringsum_verify_path(delivery.root, &options, &report, err);
	if (totals)
		*totals = (struct ringsum_totals){ 0 };
	if (report && totals)
		ringsum_report_totals(report, totals);
	ringsum_report_free(report);
	return result;
}

static uint64_t promised_bytes(void)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < delivery.count; i++)
		bytes += delivery.tensors[i].size_bytes;
	return bytes;
}

/* Interrupts a run in its middle, with some of it proven and noted. */
static void interrupt(void)
{
	struct ringsum_totals totals;

	assert_int_equal(run(promised_bytes() / 2, &totals, NULL), RINGSUM_E_CANCELED);
	assert_true(totals.tensors_identical > 0);
	assert_true(totals.tensors_identical < delivery.count);
	assert_int_equal(access(journal, F_OK), 0);
}

static size_t journal_bytes(void)
{
	struct stat status;

	assert_int_equal(stat(journal, &status), 0);
	return (size_t)status.st_size;
}

static void test_goes_on(void **state)
{
	struct ringsum_totals first, then;

	(void)state;
	wait_until_settled();
	assert_int_equal(run(promised_bytes() / 2, &first, NULL), RINGSUM_E_CANCELED);
	assert_int_equal(first.tensors_proven_earlier, 0);
	assert_true(journal_bytes() > RECORD_BYTES);
	assert_int_equal(journal_bytes() % RECORD_BYTES, 0);
	assert_int_equal(run(UINT64_MAX, &then, NULL), RINGSUM_OK);
	assert_int_equal(then.tensors_identical, delivery.count);
	assert_int_equal(then.bytes_proven, promised_bytes());
	assert_true(then.tensors_proven_earlier > 0 && then.bytes_proven_earlier > 0);
	assert_true(then.bytes_proven_earlier <= first.bytes_proven);
	/* It was not read again. */
	assert_true(then.bytes_read < promised_bytes());
	/* And what ran to its end leaves nothing to go on from. */
	assert_int_equal(access(journal, F_OK), -1);
	assert_int_equal(run(UINT64_MAX, &then, NULL), RINGSUM_OK);
	assert_int_equal(then.tensors_proven_earlier, 0);
	assert_true(then.bytes_read >= promised_bytes());
}

static void test_goes_on_several_times(void **state)
{
	struct ringsum_totals totals;
	uint64_t earlier = 0;
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(run(promised_bytes() / (i == 0 ? 2 : 6), &totals, NULL), RINGSUM_E_CANCELED);
		assert_true(totals.bytes_proven_earlier >= earlier);
		earlier = totals.bytes_proven_earlier;
	}
	assert_true(earlier > 0);
	assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_OK);
	assert_true(totals.bytes_proven_earlier >= earlier);
}

/* A run that refuses is carried through as well. */
static void test_refused_is_finished(void **state)
{
	struct ringsum_totals totals;

	(void)state;
	delivery_flip(&delivery, 3, 0, 1);
	assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_E_REFUSED);
	assert_int_equal(access(journal, F_OK), -1);
	delivery_flip(&delivery, 3, 0, 1);
}

/* Damage after the interruption is found, wherever it is; what is of other shards still counts. */
static void test_damage_in_between(void **state)
{
	struct ringsum_totals totals;
	size_t i;

	(void)state;
	for (i = 0; i < delivery.count; i += 1 + delivery.count / 3) {
		if (delivery.tensors[i].size_bytes == 0)
			continue;
		wait_until_settled();
		interrupt();
		delivery_flip(&delivery, i, 0, 1);
		assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_E_REFUSED);
		assert_int_equal(totals.tensors_refused, 1);
		assert_int_equal(totals.tensors_identical, delivery.count - 1);
		delivery_flip(&delivery, i, 0, 1);
	}
}

static void test_touched_in_between(void **state)
{
	struct ringsum_totals totals;
	unsigned i;

	(void)state;
	wait_until_settled();
	interrupt();
	/* Times as they were, but for the change time, which nobody sets. */
	for (i = 0; i < SHARDS; i++) {
		struct stat status;
		struct timespec times[2];

		assert_int_equal(stat(delivery_shard_path(&delivery, i), &status), 0);
		times[0] = status.st_atim;
		times[1] = status.st_mtim;
		assert_int_equal(utimensat(AT_FDCWD, delivery_shard_path(&delivery, i), times, 0),
				 0);
	}
	assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_OK);
	assert_int_equal(totals.tensors_proven_earlier, 0);
	assert_true(totals.bytes_read >= promised_bytes());
}

/* A shard that was changed a moment ago is not noted at all. */
static void test_fresh_shards_are_not_noted(void **state)
{
	(void)state;
	/* The test before touched them. */
	interrupt();
	assert_int_equal(journal_bytes(), RECORD_BYTES);
}

/* ---- the file ----------------------------------------------------------------------------------- */

static void read_journal(uint8_t *bytes, size_t size_bytes)
{
	int fd = open(journal, O_RDONLY | O_CLOEXEC);

	assert_int_equal(read(fd, bytes, size_bytes), size_bytes);
	close(fd);
}

static void write_journal(const uint8_t *bytes, size_t size_bytes)
{
	int fd = open(journal, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size_bytes), size_bytes);
	close(fd);
}

/* Cut off or changed anywhere behind its header, it counts as far as it is right. */
static void test_torn_tail(void **state)
{
	static uint8_t whole[RECORD_BYTES * RECORDS_MAX], torn[RECORD_BYTES * RECORDS_MAX];
	struct ringsum_totals totals;
	uint64_t random = SEED;
	size_t size, i;

	(void)state;
	wait_until_settled();
	interrupt();
	size = journal_bytes();
	assert_true(size > 3 * RECORD_BYTES && size <= sizeof(whole));
	read_journal(whole, size);
	for (i = 0; i < 40; i++) {
		size_t at =
			RECORD_BYTES + (size_t)(delivery_random(&random) % (size - RECORD_BYTES));
		size_t right = at / RECORD_BYTES - 1;

		memcpy(torn, whole, size);
		if (i % 2)
			torn[at] ^= (uint8_t)(1 + delivery_random(&random) % 255);
		write_journal(torn, i % 2 ? size : at);
		assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_OK);
		assert_int_equal(totals.tensors_proven_earlier, right);
		assert_int_equal(totals.tensors_identical, delivery.count);
	}
	/* Records in another order, or twice, are none. */
	memcpy(torn, whole, size);
	memcpy(torn + RECORD_BYTES, whole + 2 * RECORD_BYTES, RECORD_BYTES);
	write_journal(torn, size);
	assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_OK);
	assert_int_equal(totals.tensors_proven_earlier, 0);
	/* One that was hardly begun is begun anew. */
	for (i = 0; i < RECORD_BYTES; i += 9) {
		write_journal(whole, i);
		assert_int_equal(run(UINT64_MAX, &totals, NULL), RINGSUM_OK);
		assert_int_equal(totals.tensors_proven_earlier, 0);
	}
}

static void expect_refused(const char *why)
{
	struct ringsum_error err = { 0 };
	int result = run(UINT64_MAX, NULL, &err);

	if (result != RINGSUM_E_INVALID || !strstr(err.message, why))
		fail_msg("expected '%s', found %d: %s", why, result, err.message);
}

static void test_of_something_else(void **state)
{
	static const uint8_t other[300] = "{\"schema\":\"ringsum-report/1\"}";
	uint8_t header[RECORD_BYTES];
	struct delivery elsewhere;
	char kept[96];
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct stat status;

	(void)state;
	write_journal(other, sizeof(other));
	expect_refused("a file of another kind");
	write_journal(other, 20);
	expect_refused("a file of another kind");
	assert_int_equal(journal_bytes(), 20);
	unlink(journal);
	interrupt();
	read_journal(header, sizeof(header));
	/* That of another manifest. */
	delivery_init(&elsewhere, NULL);
	delivery_add(&elsewhere, 0, "x", 5, false);
	delivery_write(&elsewhere, SEED + 1, false);
	options.journal_path = journal;
	assert_int_equal(ringsum_verify_path(elsewhere.root, &options, NULL, NULL),
			 RINGSUM_E_INVALID);
	assert_true(journal_bytes() >= RECORD_BYTES);
	delivery_deinit(&elsewhere);
	header[25] ^= 1;
	write_journal(header, sizeof(header));
	expect_refused("its beginning is damaged");
	unlink(journal);
	/* Where nothing is trusted, and what others could have made. */
	strcpy(kept, journal);
	snprintf(journal, sizeof(journal), "%s/journal", delivery.root);
	expect_refused("in the checkpoint's directory");
	assert_int_equal(stat(journal, &status), -1);
	strcpy(journal, kept);
	assert_int_equal(symlink("elsewhere", journal), 0);
	expect_refused("a symbolic link");
	unlink(journal);
	assert_int_equal(mkdir(journal, 0700), 0);
	expect_refused("a directory");
	rmdir(journal);
	write_journal(header, 0);
	assert_int_equal(chmod(journal, 0620), 0);
	expect_refused("others may write to it");
	assert_int_equal(chmod(journal, 0600), 0);
	snprintf(kept, sizeof(kept), "%s.other", delivery.root);
	assert_int_equal(link(journal, kept), 0);
	expect_refused("another name");
	unlink(kept);
	if (geteuid() == 0) {
		assert_int_equal(chown(journal, 12345, 12345), 0);
		expect_refused("belongs to someone else");
	}
	unlink(journal);
	assert_int_equal(mkfifo(journal, 0600), 0);
	expect_refused("no regular file");
	unlink(journal);
}

static void test_in_use(void **state)
{
	int fd;

	(void)state;
	fd = open(journal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	expect_refused("another run uses it");
	close(fd);
	assert_int_equal(run(UINT64_MAX, NULL, NULL), RINGSUM_OK);
}

static void test_many_have_no_journal(void **state)
{
	const char *paths[] = { delivery.root, delivery.root };
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	(void)state;
	options.journal_path = journal;
	assert_int_equal(ringsum_verify_many(paths, 2, &options,
					     (ringsum_verified_fn)(uintptr_t)abort, NULL, NULL,
					     NULL),
			 RINGSUM_E_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_goes_on, no_journal),
		cmocka_unit_test_setup(test_goes_on_several_times, no_journal),
		cmocka_unit_test_setup(test_damage_in_between, no_journal),
		cmocka_unit_test_setup(test_torn_tail, no_journal),
		cmocka_unit_test_setup(test_touched_in_between, no_journal),
		cmocka_unit_test_setup(test_fresh_shards_are_not_noted, no_journal),
		cmocka_unit_test_setup(test_refused_is_finished, no_journal),
		cmocka_unit_test_setup(test_of_something_else, no_journal),
		cmocka_unit_test_setup(test_in_use, no_journal),
		cmocka_unit_test_setup(test_many_have_no_journal, no_journal),
	};

	return cmocka_run_group_tests(tests, make_delivery, remove_delivery);
}
