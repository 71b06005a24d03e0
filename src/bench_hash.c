/* SPDX-License-Identifier: Apache-2.0 */
/* How fast this host hashes what is in memory already: no disk, no queue, no waiting. */
#include "bench.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

/* Streams walk over parts of this, which is larger than a core's own caches, as a pool is. */
#define MEMORY_BYTES ((size_t)48 << 20)
#define STEP_BYTES ((size_t)64 << 10)
#define MEASURE_NS UINT64_C(100000000)

struct task {
	const struct rsum_digest_impl *impl;
	unsigned stream_count;
	const uint8_t *memory; /* shared, only read */
	uint64_t bytes_per_second;
	int result;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Whole steps of each stream's part. */
static size_t part_bytes(const struct task *task)
{
	return MEMORY_BYTES / task->stream_count / STEP_BYTES * STEP_BYTES;
}

/* One step of every stream. */
static void advance(const struct task *task, struct rsum_sha256 *streams, size_t at)
{
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX] = { 0 };
	unsigned i;

	for (i = 0; i < task->stream_count; i++)
		spans[i] = (struct rsum_sha256_span){
			.stream = &streams[i],
			.data = task->memory + i * part_bytes(task) + at,
			.size_bytes = STEP_BYTES,
		};
	rsum_sha256_update(task->impl, spans, task->stream_count);
}

static void *run_task(void *task_ptr)
{
	struct task *task = task_ptr;
	struct rsum_sha256 streams[RSUM_SHA256_WIDTH_MAX] = { 0 };
	uint8_t digest[RSUM_SHA256_BYTES];
	uint64_t begin_ns, elapsed_ns, bytes = 0;
	size_t at = 0;
	unsigned i;

	task->result = RINGSUM_OK;
	for (i = 0; i < task->stream_count && task->result == RINGSUM_OK; i++)
		task->result = rsum_sha256_init(&streams[i], task->impl);
	begin_ns = now_ns();
	do {
		if (task->result != RINGSUM_OK)
			break;
		advance(task, streams, at);
		at = (at + STEP_BYTES) % part_bytes(task);
		bytes += STEP_BYTES * task->stream_count;
		elapsed_ns = now_ns() - begin_ns;
		task->bytes_per_second = (uint64_t)((double)bytes * 1e9 / (double)elapsed_ns);
	} while (elapsed_ns < MEASURE_NS);
	for (i = 0; i < task->stream_count; i++) {
		if (task->result == RINGSUM_OK)
			task->result = rsum_sha256_final(&streams[i], task->impl, digest);
		rsum_sha256_deinit(&streams[i]);
	}
	return NULL;
}

/* The sum of `count` tasks at the same time; threads that do not start add nothing. */
static int run_tasks(const struct task *model, unsigned count, uint64_t *bytes_per_second_out)
{
	struct task *tasks = calloc(count, sizeof(*tasks));
	pthread_t *threads = calloc(count, sizeof(*threads));
	uint64_t sum = 0;
	unsigned started = 0, i;
	int result = tasks && threads ? RINGSUM_OK : RINGSUM_E_NOMEM;

	while (result == RINGSUM_OK && started < count) {
		tasks[started] = *model;
		if (pthread_create(&threads[started], NULL, run_task, &tasks[started]) != 0)
			break;
		started++;
	}
	for (i = 0; i < started; i++) {
		pthread_join(threads[i], NULL);
		sum += tasks[i].bytes_per_second;
		if (tasks[i].result != RINGSUM_OK)
			result = tasks[i].result;
	}
	free(threads);
	free(tasks);
	if (result == RINGSUM_OK)
		*bytes_per_second_out = sum;
	return result;
}

uint64_t rsum_bench_median(uint64_t values[RSUM_BENCH_ROUNDS])
{
	unsigned i, k;

	for (i = 1; i < RSUM_BENCH_ROUNDS; i++)
		for (k = i; k > 0 && values[k - 1] > values[k]; k--) {
			uint64_t value = values[k];

			values[k] = values[k - 1];
			values[k - 1] = value;
		}
	return values[RSUM_BENCH_ROUNDS / 2];
}

/* What is measured in each round, so that a change of frequency touches all alike. */
struct row {
	struct task task;
	unsigned threads;
	uint64_t *target;
	uint64_t values[RSUM_BENCH_ROUNDS];
};

static_assert(RSUM_BENCH_DIGEST_LAST < RSUM_COUNT_OF(((struct ringsum_bench_result *)0)->hash_core),
	      "every implementation has its place");

int rsum_bench_hash(const struct rsum_digest_impl *impl, unsigned threads,
		    struct ringsum_bench_result *result)
{
	struct row rows[RSUM_BENCH_DIGEST_LAST + 2];
	size_t row_count = 0, round, i;
	uint8_t *memory = malloc(MEMORY_BYTES);
	unsigned option;
	int status = RINGSUM_OK;

	if (!memory)
		return RINGSUM_E_NOMEM;
	memset(memory, 0x5a, MEMORY_BYTES);
	for (option = RINGSUM_DIGEST_LIBCRYPTO; option <= RSUM_BENCH_DIGEST_LAST; option++) {
		const struct rsum_digest_impl *one =
			rsum_digest_impl_get((enum ringsum_digest_impl)option);

		if (one)
			rows[row_count++] = (struct row){
				.task = { .impl = one,
					  .stream_count = rsum_digest_impl_width(one),
					  .memory = memory },
				.threads = 1,
				.target = &result->hash_core[option],
			};
	}
	rows[row_count++] = (struct row){
		.task = { .impl = impl, .stream_count = 1, .memory = memory },
		.threads = 1,
		.target = &result->hash_stream,
	};
	rows[row_count++] = (struct row){
		.task = { .impl = impl,
			  .stream_count = rsum_digest_impl_width(impl),
			  .memory = memory },
		.threads = threads,
		.target = &result->hash_all,
	};
	for (round = 0; round < RSUM_BENCH_ROUNDS; round++)
		for (i = 0; i < row_count && status == RINGSUM_OK; i++)
			status = run_tasks(&rows[i].task, rows[i].threads, &rows[i].values[round]);
	for (i = 0; i < row_count && status == RINGSUM_OK; i++)
		*rows[i].target = rsum_bench_median(rows[i].values);
	free(memory);
	return status;
}
