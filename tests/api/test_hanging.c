/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that never come back. The linker puts the pread below in the place of the system's
 * (--wrap); it holds reads of one shard until the test lets them go, which is after the call that
 * they belong to has ended.
 */
#include "delivery.h"
#include "ringsum.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20261204)
#define TENSOR_BYTES (UINT64_C(4) << 20)
#define CHUNK 65536
#define ALIGNMENT 4096

static struct delivery delivery;

ssize_t __real_pread64(int fd, void *buffer, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset);

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_hanging;
	unsigned held, passed; /* reads that hang; that came through */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* The tensor `stuck` is the last of its shard; its first read comes through, as all others do. */
static uint64_t stuck_from(void)
{
	uint64_t begin = delivery.tensors[delivery.count - 1].begin;

	return begin / ALIGNMENT * ALIGNMENT + CHUNK;
}

ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset)
{
	pthread_mutex_lock(&gate.lock);
	if (gate.is_hanging && (uint64_t)offset >= stuck_from()) {
		gate.held++;
		pthread_cond_broadcast(&gate.changed);
		while (gate.is_hanging)
			pthread_cond_wait(&gate.changed, &gate.lock);
		pthread_mutex_unlock(&gate.lock);
		/* Whatever its memory is by now, it must be there. */
		ssize_t got = __real_pread64(fd, buffer, count, offset);
		memset(buffer, 0x5A, count);
		pthread_mutex_lock(&gate.lock);
		gate.passed++;
		pthread_cond_broadcast(&gate.changed);
		pthread_mutex_unlock(&gate.lock);
		return got;
	}
	pthread_mutex_unlock(&gate.lock);
	return __real_pread64(fd, buffer, count, offset);
}

struct watch {
	uint64_t bytes_done;
	unsigned unchanged; /* calls since it last changed */
};

/*
 * Cancels once all is hashed but what hangs. Where the reads of it begin is the plan's affair, so
 * some may be more than is sure to be hashed; therefore a few calls without a change are awaited.
 */
static int cancel_when_stuck(void *arg, const struct ringsum_progress *progress)
{
	uint64_t never = delivery.tensors[delivery.count - 1].begin + TENSOR_BYTES - stuck_from();
	struct watch *watch = arg;
	bool hangs;

	pthread_mutex_lock(&gate.lock);
	hangs = gate.held > 0;
	pthread_mutex_unlock(&gate.lock);
	watch->unchanged = progress->bytes_done == watch->bytes_done ? watch->unchanged + 1 : 0;
	watch->bytes_done = progress->bytes_done;
	return hangs && watch->unchanged >= 5 &&
	       progress->bytes_done >= progress->bytes_total - never;
}

static void hold(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.is_hanging = true;
	gate.held = gate.passed = 0;
	pthread_mutex_unlock(&gate.lock);
}

/* Lets the reads go, and waits until the last of them has written to its memory. */
static void let_go(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.is_hanging = false;
	pthread_cond_broadcast(&gate.changed);
	while (gate.passed < gate.held)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static void verify_and_cancel(unsigned threads, struct ringsum_totals *totals_out)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	struct watch watch = { 0 };

	options.engine = RINGSUM_ENGINE_PREAD;
	options.chunk_bytes = CHUNK;
	options.memory_bytes = 64 * CHUNK;
	options.threads = threads;
	/* Hashes what there is, and does not wait for more streams to hash side by side. */
	options.digest = RINGSUM_DIGEST_LIBCRYPTO;
	options.progress = cancel_when_stuck;
	options.progress_arg = &watch;
	hold();
	assert_int_equal(ringsum_verify_path(delivery.root, &options, &report, &err),
			 RINGSUM_E_CANCELED);
	assert_non_null(report);
	ringsum_report_totals(report, totals_out);
	assert_int_equal(gate.passed, 0);
	ringsum_report_free(report);
	let_go();
}

/* What was proven until then is in the report; nothing that was not. */
static void test_canceled_while_reads_hang(void **state)
{
	struct ringsum_totals totals = { 0 };

	(void)state;
	verify_and_cancel(1, &totals);
	assert_int_equal(totals.tensors_promised, delivery.count);
	assert_int_equal(totals.tensors_identical, delivery.count - 1);
	assert_int_equal(totals.tensors_undecided, 1);
	assert_int_equal(totals.tensors_refused, 0);
	verify_and_cancel(4, &totals);
	assert_int_equal(totals.tensors_undecided, 1);
}

/* A difference that was seen before is refused all the same. */
static void test_difference_before_reads_hang(void **state)
{
	struct ringsum_totals totals = { 0 };

	(void)state;
	delivery_flip(&delivery, 0, 77, 3);
	verify_and_cancel(2, &totals);
	delivery_flip(&delivery, 0, 77, 3);
	assert_int_equal(totals.tensors_refused, 1);
	assert_int_equal(totals.tensors_undecided, 1);
	assert_int_equal(totals.tensors_identical, delivery.count - 2);
}

/* What hung once does not spoil what is read later. */
static void test_next_run_is_whole(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	(void)state;
	options.engine = RINGSUM_ENGINE_PREAD;
	assert_int_equal(ringsum_verify_path(delivery.root, &options, NULL, NULL), RINGSUM_OK);
}

static int set_up(void **state)
{
	(void)state;
	delivery_init(&delivery, NULL);
	delivery_add(&delivery, 0, "first", 300000, false);
	delivery_add(&delivery, 0, "second", 1 << 20, false);
	delivery_add(&delivery, 0, "stuck", TENSOR_BYTES, false);
	delivery_write(&delivery, SEED, false);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	delivery_deinit(&delivery);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canceled_while_reads_hang),
		cmocka_unit_test(test_difference_before_reads_hang),
		cmocka_unit_test(test_next_run_is_whole),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
