/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark: the same engine, pool and plan as verification, over a sample of the user's own
 * tensors, with hashing off, on, and with a place for the bytes. Rounds take turns, since disks
 * drift; the median of each is told.
 */
#include "bench.h"

#include "checkpoint.h"
#include "error.h"
#include "reading.h"
#include "rsum_limits.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_BYTES_MAX (UINT64_C(4) << 30)
#define LOAD_BYTES_MAX (UINT64_C(1) << 30)
/* A sample is so many runs of neighbours, spread evenly: a whole shard may hold one kind only. */
#define SAMPLE_RUNS 16
/* For less than this the system's page cache is not dropped: everybody would pay for it. */
#define DROP_FROM_BYTES (UINT64_C(64) << 20)
#define PASS_NS_MAX UINT64_C(2000000000)

struct bench {
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_bench_result *result;
	struct ringsum_options given; /* the caller's, resolved */
	struct rsum_want *wants;      /* the sample */
	size_t want_count;
	struct ringsum_load *loads; /* its beginning, as much as memory allows */
	size_t load_count;
	void *block; /* their memory */
	size_t block_bytes;
	const char *stage; /* for progress */
	uint64_t pass_end_ns;
	bool is_canceled;
};

/* One way to go over the sample. */
struct setting {
	const char *stage;
	unsigned depth;
	unsigned threads;
	uint64_t memory_bytes;
	bool is_hashing_off;
	bool is_load;
};

struct series {
	struct setting setting;
	struct ringsum_bench_rate *target;
	uint64_t rates[RSUM_BENCH_ROUNDS];
	uint64_t cpu_us[RSUM_BENCH_ROUNDS];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- the sample ------------------------------------------------------------------------------ */

static const struct rsum_promise *promise_of(const struct bench *bench, size_t want)
{
	return &bench->checkpoint->manifest.promises[bench->wants[want].promise];
}

static int compare_wants(const void *a_ptr, const void *b_ptr, void *bench_ptr)
{
	const struct bench *bench = bench_ptr;
	const struct rsum_promise *promises = bench->checkpoint->manifest.promises;
	const struct rsum_promise *a = &promises[((const struct rsum_want *)a_ptr)->promise];
	const struct rsum_promise *b = &promises[((const struct rsum_want *)b_ptr)->promise];

	if (a->file_index != b->file_index)
		return a->file_index < b->file_index ? -1 : 1;
	return a->tensor.begin < b->tensor.begin ? -1 : a->tensor.begin > b->tensor.begin;
}

/* Every tensor that has bytes, in the order of the disk. */
static int list_wants(struct bench *bench)
{
	const struct rsum_manifest *manifest = &bench->checkpoint->manifest;
	struct ringsum_bench_result *result = bench->result;
	size_t i;

	bench->wants = calloc(manifest->promise_count + 1, sizeof(*bench->wants));
	if (!bench->wants)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < manifest->promise_count; i++) {
		uint64_t bytes = manifest->promises[i].tensor.size_bytes;

		if (bytes == 0 || !bench->checkpoint->standings[i].is_readable)
			continue;
		bench->wants[bench->want_count++].promise = (uint32_t)i;
		result->bytes_largest = RSUM_MAX(result->bytes_largest, bytes);
		if (!rsum_add_u64(result->bytes_promised, bytes, &result->bytes_promised))
			return RINGSUM_E_LIMIT;
	}
	qsort_r(bench->wants, bench->want_count, sizeof(*bench->wants), compare_wants, bench);
	return RINGSUM_OK;
}

/* Keeps SAMPLE_RUNS runs of the list, or all of it where it is small. */
static void sample_wants(struct bench *bench)
{
	uint64_t run_bytes = SAMPLE_BYTES_MAX / SAMPLE_RUNS, total = 0;
	size_t count = bench->want_count, kept = 0, run, i;

	if (bench->result->bytes_promised <= SAMPLE_BYTES_MAX)
		run_bytes = UINT64_MAX;
	for (run = 0; run < SAMPLE_RUNS; run++) {
		uint64_t taken = 0;

		for (i = count * run / SAMPLE_RUNS; i < count * (run + 1) / SAMPLE_RUNS; i++) {
			if (taken >= run_bytes || total >= SAMPLE_BYTES_MAX)
				break;
			taken += promise_of(bench, i)->tensor.size_bytes;
			bench->wants[kept++] = bench->wants[i];
		}
		total += taken;
	}
	bench->want_count = kept;
	bench->result->bytes_sampled = total;
}

/* Bytes that the system could give without swapping, or 0 where it does not say. */
static uint64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kilobytes = 0;
	char line[128];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
			break;
	fclose(file);
	return kilobytes * 1024;
}

/* Memory for a part of the sample, touched, so that page faults are not what is measured. */
static int prepare_load(struct bench *bench, struct ringsum_error *err)
{
	uint64_t most = RSUM_MIN(available_bytes() / 4, LOAD_BYTES_MAX);
	uint64_t *total = &bench->result->bytes_loaded;
	int result;

	bench->loads = calloc(bench->want_count + 1, sizeof(*bench->loads));
	if (!bench->loads)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the loads");
	while (bench->load_count < bench->want_count) {
		const struct ringsum_tensor *tensor = &promise_of(bench, bench->load_count)->tensor;

		if (tensor->size_bytes > most - *total)
			break;
		*total += tensor->size_bytes;
		bench->loads[bench->load_count++].tensor = tensor;
	}
	if (bench->load_count == 0)
		return RINGSUM_OK;
	result = ringsum_block_alloc(bench->checkpoint, bench->loads, bench->load_count,
				     &bench->block, &bench->block_bytes, err);
	if (result == RINGSUM_OK)
		memset(bench->block, 0, bench->block_bytes);
	return result;
}

/* ---- cold caches ----------------------------------------------------------------------------- */

/* Only clean pages go; nothing is lost but time for whoever uses them next. */
static bool drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	bool is_dropped;

	if (fd < 0)
		return false;
	is_dropped = write(fd, "1", 1) == 1;
	close(fd);
	return is_dropped;
}

/* What is asked of every process: pages of these shards are given up, if no one has them mapped. */
static void give_up_pages(const struct ringsum_checkpoint *checkpoint)
{
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int fd, os_errno;
	size_t i;

	for (i = 0; i < checkpoint->manifest.file_count; i++) {
		if (rsum_confine_open(&checkpoint->root, checkpoint->shards[i].name, &fd, &identity,
				      &os_errno, &refusal) != RSUM_CONFINE_OK)
			continue; /* the pass itself will tell */
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

/* ---- passes ---------------------------------------------------------------------------------- */

static int on_progress(void *arg, const struct ringsum_progress *progress)
{
	struct bench *bench = arg;
	struct ringsum_progress ours = *progress;

	ours.stage = bench->stage;
	if (bench->given.progress && bench->given.progress(bench->given.progress_arg, &ours))
		bench->is_canceled = true;
	return bench->is_canceled || now_ns() >= bench->pass_end_ns;
}

static void apply(struct bench *bench, const struct setting *setting)
{
	struct ringsum_options *options = &bench->checkpoint->options.given;

	bench->stage = setting->stage;
	options->depth = setting->depth;
	options->threads = setting->threads;
	options->memory_bytes = setting->memory_bytes;
	options->progress = on_progress;
	options->progress_arg = bench;
}

static int run_reading(struct bench *bench, const struct setting *setting,
		       struct ringsum_report **report_out, struct ringsum_error *err)
{
	struct rsum_reading reading = {
		.checkpoint = bench->checkpoint,
		.report = rsum_report_clone(bench->checkpoint->report),
		.wants = bench->wants,
		.want_count = bench->want_count,
		.is_hashing_off = setting->is_hashing_off,
		.is_patient = true,
	};

	*report_out = reading.report;
	if (!reading.report)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the report");
	return rsum_reading_run(&reading, err);
}

static void note_facts(struct bench *bench, const struct ringsum_report *report)
{
	struct ringsum_bench_result *result = bench->result;

	result->engine = report->facts.engine;
	result->pages = report->facts.buffer_pages;
	result->is_direct = report->facts.files_buffered == 0 && report->facts.files_direct > 0;
	result->tensors_differing =
		RSUM_MAX(result->tensors_differing,
			 report->refusing_count - bench->checkpoint->report->refusing_count);
}

/* One pass; that its time was up is no failure, that a read failed is. */
static int run_pass(struct bench *bench, struct series *series, unsigned round,
		    struct ringsum_error *err)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error reason = { 0 };
	uint64_t begin_us;
	int result;

	give_up_pages(bench->checkpoint);
	apply(bench, &series->setting);
	bench->pass_end_ns = now_ns() + PASS_NS_MAX;
	begin_us = cpu_us();
	if (series->setting.is_load)
		result = ringsum_checkpoint_load(bench->checkpoint, bench->loads, bench->load_count,
						 &report, &reason);
	else
		result = run_reading(bench, &series->setting, &report, &reason);
	begin_us = cpu_us() - begin_us;
	if (bench->is_canceled) {
		result = rsum_error_set(err, RINGSUM_E_CANCELED, "canceled");
	} else if (report && (result == RINGSUM_OK || result == RINGSUM_E_CANCELED ||
			      result == RINGSUM_E_REFUSED || result == RINGSUM_E_UNDECIDED)) {
		note_facts(bench, report);
		series->rates[round] = rsum_report_bytes_per_second(report);
		if (report->totals.bytes_read > 0)
			series->cpu_us[round] = (uint64_t)((double)begin_us * 1e9 /
							   (double)report->totals.bytes_read);
		result = report->undecided_count > 0 ? rsum_report_result(report, err) : RINGSUM_OK;
		/* Told by the result: figures of a checkpoint that differs are figures too. */
		if (result == RINGSUM_E_REFUSED)
			result = RINGSUM_OK;
	} else {
		result = rsum_error_set(err, result, "%s", reason.message);
	}
	ringsum_report_free(report);
	return result;
}

static int run_rounds(struct bench *bench, struct series *series, size_t series_count,
		      struct ringsum_error *err)
{
	unsigned round;
	size_t i;
	int result;

	for (round = 0; round < RSUM_BENCH_ROUNDS; round++) {
		for (i = 0; i < series_count; i++) {
			result = run_pass(bench, &series[i], round, err);
			if (result != RINGSUM_OK)
				return result;
		}
	}
	for (i = 0; i < series_count; i++) {
		series[i].target->bytes_per_second = rsum_bench_median(series[i].rates);
		series[i].target->cpu_us_per_gb = rsum_bench_median(series[i].cpu_us);
	}
	return RINGSUM_OK;
}

static int run_main_rounds(struct bench *bench, struct ringsum_error *err)
{
	struct ringsum_bench_result *result = bench->result;
	const struct setting usual = {
		.stage = "verifying",
		.depth = bench->given.depth,
		.threads = bench->given.threads,
		.memory_bytes = bench->given.memory_bytes,
	};
	struct series series[4] = {
		{ .setting = usual, .target = &result->read },
		{ .setting = usual, .target = &result->verify },
	};
	size_t count = 2;

	series[0].setting.is_hashing_off = true;
	series[0].setting.stage = "reading alone";
	if (usual.depth <= RSUM_LIMIT_DEPTH / 2 &&
	    usual.memory_bytes <= RSUM_LIMIT_MEMORY_BYTES / 2) {
		result->deeper_depth = usual.depth * 2;
		result->deeper_memory_bytes =
			RSUM_MAX(usual.memory_bytes,
				 (uint64_t)result->deeper_depth * bench->given.chunk_bytes) *
			3 / 2;
		result->deeper_memory_bytes =
			RSUM_MIN(result->deeper_memory_bytes, RSUM_LIMIT_MEMORY_BYTES);
		series[count] = (struct series){ .setting = usual, .target = &result->deeper };
		series[count].setting.is_hashing_off = true;
		series[count].setting.stage = "reading alone, more in flight";
		series[count].setting.depth = result->deeper_depth;
		series[count].setting.memory_bytes = result->deeper_memory_bytes;
		count++;
	}
	if (bench->load_count > 0) {
		series[count] = (struct series){ .setting = usual, .target = &result->load };
		series[count].setting.is_load = true;
		series[count].setting.stage = "loading";
		count++;
	}
	return run_rounds(bench, series, count, err);
}

/* More threads are worth a try where there are processors for them and hashing does not keep up. */
static int run_wider_rounds(struct bench *bench, struct ringsum_error *err)
{
	struct ringsum_bench_result *result = bench->result;
	struct series series = {
		.setting = { .stage = "verifying, more threads",
			     .depth = bench->given.depth,
			     .threads = RSUM_MIN(result->threads * 2, result->processors),
			     .memory_bytes = bench->given.memory_bytes },
		.target = &result->wider,
	};

	if (result->processors <= result->threads || result->threads > RSUM_LIMIT_THREADS / 2 ||
	    result->verify.bytes_per_second >= result->read.bytes_per_second / 10 * 9)
		return RINGSUM_OK;
	result->wider_threads = series.setting.threads;
	return run_rounds(bench, &series, 1, err);
}

static int measure(struct bench *bench, struct ringsum_error *err)
{
	struct ringsum_bench_result *result = bench->result;
	const struct rsum_digest_impl *impl = bench->checkpoint->options.digest_impl;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int status = list_wants(bench);

	if (status != RINGSUM_OK)
		return rsum_error_set(err, status, "no list of tensors could be made");
	sample_wants(bench);
	result->processors = processors > 0 ? (unsigned)processors : 1;
	result->threads = bench->given.threads;
	result->depth = bench->given.depth;
	result->chunk_bytes = bench->given.chunk_bytes;
	result->memory_bytes = bench->given.memory_bytes;
	result->digest = rsum_digest_impl_name(impl);
	result->dropped_caches = result->bytes_promised >= DROP_FROM_BYTES && drop_caches();
	status = rsum_bench_hash(impl, result->threads, result);
	if (status != RINGSUM_OK)
		return rsum_error_set(err, status, "hashing in memory failed");
	if (bench->want_count > 0) {
		status = prepare_load(bench, err);
		if (status == RINGSUM_OK)
			status = run_main_rounds(bench, err);
		if (status == RINGSUM_OK)
			status = run_wider_rounds(bench, err);
	}
	rsum_bench_conclude(result);
	return status;
}

RSUM_PUBLIC int ringsum_bench(const char *path, const struct ringsum_options *options,
			      struct ringsum_bench_result *result, struct ringsum_error *err)
{
	struct ringsum_bench_result measured = RINGSUM_BENCH_RESULT_INIT;
	struct bench bench = { .result = &measured };
	uint64_t begin_ns = now_ns();
	int status;

	if (!path || !result || result->size_bytes != sizeof(*result))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a path and a result set up with RINGSUM_BENCH_RESULT_INIT "
				      "are needed");
	status = ringsum_checkpoint_open(path, options, &bench.checkpoint, NULL, err);
	if (status != RINGSUM_OK)
		return status;
	measured.open_us = (now_ns() - begin_ns) / 1000;
	bench.given = bench.checkpoint->options.given;
	status = measure(&bench, err);
	if (status == RINGSUM_OK)
		*result = measured;
	ringsum_block_free(bench.block, bench.block_bytes);
	free(bench.loads);
	free(bench.wants);
	ringsum_checkpoint_close(bench.checkpoint);
	return status;
}
