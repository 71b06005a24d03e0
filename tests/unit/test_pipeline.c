/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop over several jobs: results of each are its own, and reads go on across them. */
#include "pipeline.h"

#include "delivery.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(8088)
#define JOBS 40
#define JOB_RANGES 5
#define FILE_BYTES ((uint64_t)1 << 20)

/* Jobs over one file in memory; a job's shard number is always 0, so that they must not mix. */
struct bench {
	int fd;
	uint8_t *content;
	struct job {
		struct rsum_pipeline_job job;
		struct rsum_range ranges[JOB_RANGES];
		struct rsum_range_result results[JOB_RANGES];
		struct rsum_plan plan;
		unsigned open_count, lanes_closed;
		int open_error; /* of every opening, or 0 */
		bool is_done;
		struct bench *bench;
	} jobs[JOBS];
	size_t next, done;
	size_t withheld;  /* so many calls give no job though there are some */
	size_t cancel_at; /* jobs done before the progress callback cancels; 0: never */
};

static struct bench bench;

static int open_file(void *arg, uint32_t shard, struct rsum_pipeline_file *file_out)
{
	struct job *job = arg;

	assert_int_equal(shard, 0);
	if (job->open_error)
		return job->open_error;
	job->open_count++;
	*file_out = (struct rsum_pipeline_file){
		.fd = dup(bench.fd),
		.size_bytes = FILE_BYTES,
		.alignment = 4096,
	};
	return file_out->fd < 0 ? -errno : 0;
}

static void close_file(void *arg, uint32_t shard, const struct rsum_pipeline_file *file)
{
	struct job *job = arg;

	(void)shard;
	assert_false(job->is_done);
	assert_true(job->open_count > 0);
	job->open_count--;
	close(file->fd);
}

static void see_lane(void *arg, const struct rsum_lane *lane)
{
	struct job *job = arg;
	uint32_t i;

	job->lanes_closed++;
	for (i = 0; i < lane->range_count; i++) {
		const struct rsum_range_result *result =
			&job->results[job->ranges[lane->first_range + i].id];

		assert_true(result->is_hashed || result->error != 0);
	}
}

static struct rsum_pipeline_job *give(void *arg, unsigned timeout_ms, bool *is_over_out)
{
	(void)arg;
	(void)timeout_ms;
	*is_over_out = false;
	if (bench.withheld > 0) {
		bench.withheld--;
		return NULL;
	}
	*is_over_out = bench.next == JOBS;
	return bench.next < JOBS ? &bench.jobs[bench.next++].job : NULL;
}

static void take_back(void *arg, struct rsum_pipeline_job *given,
		      const struct rsum_pipeline_outcome *outcome)
{
	struct job *job = given->owner;

	(void)arg;
	assert_non_null(outcome->engine);
	assert_false(job->is_done);
	assert_int_equal(job->open_count, 0);
	job->is_done = true;
	bench.done++;
}

static int progress(void *arg, const struct rsum_hash_tally *tally)
{
	(void)arg;
	(void)tally;
	return bench.cancel_at > 0 && bench.done >= bench.cancel_at;
}

static void make_jobs(uint64_t seed)
{
	const struct rsum_plan_shape shape = { .chunk_bytes = 65536, .stream_count = 6 };
	uint64_t random = seed;
	size_t i, j;

	bench.next = bench.done = bench.withheld = bench.cancel_at = 0;
	for (i = 0; i < JOBS; i++) {
		struct job *job = &bench.jobs[i];
		size_t count = i % 7 == 6 ? 0 : JOB_RANGES; /* some have nothing to read */

		rsum_plan_deinit(&job->plan);
		memset(job, 0, sizeof(*job));
		for (j = 0; j < count; j++) {
			uint64_t begin = delivery_random(&random) % (FILE_BYTES - 1);
			uint64_t most = FILE_BYTES - begin;

			if (j > 0)
				most = RSUM_MIN(most, 5000);
			job->ranges[j] = (struct rsum_range){
				.begin = begin,
				.end = begin + 1 + delivery_random(&random) % most,
				.id = (uint32_t)j,
			};
		}
		assert_int_equal(rsum_plan_build(job->ranges, count, &shape, &job->plan), 0);
		job->bench = &bench;
		job->job = (struct rsum_pipeline_job){
			.plan = &job->plan,
			.results = job->results,
			.result_count = count,
			.files = { .arg = job, .open = open_file, .close = close_file },
			.lane_closed = see_lane,
			.owner = job,
		};
	}
}

static const struct rsum_pipeline_source source = { .next = give, .done = take_back };

static struct rsum_pipeline_setup usual_setup(enum ringsum_engine engine)
{
	return (struct rsum_pipeline_setup){
		.engine = engine,
		.direct = RINGSUM_DIRECT_OFF,
		.chunk_bytes = 65536,
		.memory_bytes = 4 << 20,
		.depth = 16,
		.threads = 2,
		.impl = rsum_digest_impl_get(RINGSUM_DIGEST_AUTO),
		.progress = progress,
	};
}

static void check_results(const struct job *job)
{
	uint8_t digest[RSUM_SHA256_BYTES];
	size_t i;

	assert_true(job->is_done);
	assert_int_equal(job->lanes_closed, job->plan.lane_count);
	for (i = 0; i < job->job.result_count; i++) {
		const struct rsum_range *range = &job->ranges[i];
		const struct rsum_range_result *result = &job->results[range->id];

		if (job->open_error) {
			assert_int_equal(result->error, job->open_error);
			continue;
		}
		assert_true(result->is_hashed);
		assert_int_equal(rsum_sha256_of(bench.content + range->begin,
						(size_t)(range->end - range->begin), digest),
				 0);
		assert_memory_equal(digest, result->digest, sizeof(digest));
	}
}

static void run_and_check(enum ringsum_engine engine, uint64_t memory_bytes)
{
	struct rsum_pipeline_setup setup = usual_setup(engine);
	struct rsum_pipeline_outcome outcome;
	size_t i;

	setup.memory_bytes = memory_bytes;
	bench.jobs[3].open_error = -EACCES;
	bench.jobs[JOBS - 1].open_error = -EIO;
	assert_int_equal(rsum_pipeline_run(&setup, &source, &outcome, NULL), RINGSUM_OK);
	assert_int_equal(bench.done, JOBS);
	for (i = 0; i < JOBS; i++)
		check_results(&bench.jobs[i]);
}

static void test_results_are_each_jobs_own(void **state)
{
	(void)state;
	make_jobs(SEED);
	run_and_check(RINGSUM_ENGINE_AUTO, 4 << 20);
	make_jobs(SEED + 1);
	run_and_check(RINGSUM_ENGINE_PREAD, 4 << 20);
	make_jobs(SEED + 2);
	run_and_check(RINGSUM_ENGINE_AUTO, 65536); /* one buffer */
	make_jobs(SEED + 3);
	bench.withheld = 10; /* the loop waits for what is late */
	run_and_check(RINGSUM_ENGINE_AUTO, 1 << 20);
}

/*
 * The next job is always there, and every job needs sixteen of 64 buffers: so at no time can all
 * lanes be read to their ends with buffers to spare, and the loop always has something to read.
 */
static void test_reads_go_on_across_jobs(void **state)
{
	const struct rsum_plan_shape shape = { .chunk_bytes = 65536, .stream_count = 6 };
	struct rsum_pipeline_setup setup = usual_setup(RINGSUM_ENGINE_AUTO);
	struct rsum_pipeline_outcome outcome;
	size_t i;

	(void)state;
	make_jobs(SEED);
	for (i = 0; i < JOBS; i++) {
		struct job *job = &bench.jobs[i];

		rsum_plan_deinit(&job->plan);
		job->ranges[0] = (struct rsum_range){ .begin = 0, .end = FILE_BYTES };
		job->job.result_count = 1;
		assert_int_equal(rsum_plan_build(job->ranges, 1, &shape, &job->plan), 0);
	}
	setup.depth = 4;
	assert_int_equal(rsum_pipeline_run(&setup, &source, &outcome, NULL), RINGSUM_OK);
	assert_int_equal(bench.done, JOBS);
	for (i = 0; i < JOBS; i++)
		check_results(&bench.jobs[i]);
	assert_int_equal(outcome.idle_ns, 0);
	/* The same jobs, but late, and the loop knows that it waited. */
	for (i = 0; i < JOBS; i++) {
		bench.jobs[i].is_done = false;
		memset(bench.jobs[i].results, 0, sizeof(bench.jobs[i].results));
	}
	bench.next = bench.done = 0;
	bench.withheld = 1000;
	assert_int_equal(rsum_pipeline_run(&setup, &source, &outcome, NULL), RINGSUM_OK);
	assert_int_equal(bench.done, JOBS);
	assert_true(outcome.idle_ns > 0);
}

static void test_cancel_keeps_what_was_not_begun(void **state)
{
	struct rsum_pipeline_setup setup = usual_setup(RINGSUM_ENGINE_AUTO);
	struct rsum_pipeline_outcome outcome;
	size_t i;

	(void)state;
	make_jobs(SEED + 9);
	bench.cancel_at = 1;
	setup.bytes_per_second_max = 1 << 20;
	assert_int_equal(rsum_pipeline_run(&setup, &source, &outcome, NULL), RINGSUM_E_CANCELED);
	assert_true(bench.next < JOBS);
	/* What was taken came back, with every range accounted for. */
	for (i = 0; i < JOBS; i++) {
		size_t j;

		assert_int_equal(bench.jobs[i].is_done, i < bench.next);
		for (j = 0; i < bench.next && j < bench.jobs[i].job.result_count; j++)
			assert_true(bench.jobs[i].results[j].is_hashed ||
				    bench.jobs[i].results[j].error != 0);
	}
}

static int make_file(void **state)
{
	uint64_t random = SEED;
	size_t i;

	(void)state;
	bench.fd = memfd_create("pipeline", MFD_CLOEXEC);
	bench.content = malloc(FILE_BYTES);
	if (bench.fd < 0 || !bench.content)
		return -1;
	for (i = 0; i < FILE_BYTES; i++)
		bench.content[i] = (uint8_t)delivery_random(&random);
	return write(bench.fd, bench.content, FILE_BYTES) == (ssize_t)FILE_BYTES ? 0 : -1;
}

static int remove_file(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < JOBS; i++)
		rsum_plan_deinit(&bench.jobs[i].plan);
	free(bench.content);
	return close(bench.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results_are_each_jobs_own),
		cmocka_unit_test(test_reads_go_on_across_jobs),
		cmocka_unit_test(test_cancel_keeps_what_was_not_begun),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
