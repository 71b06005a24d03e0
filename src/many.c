/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many checkpoints as one stream of reads. Three threads share the work: one prepares checkpoints
 * ahead (manifests, headers, plans), one runs the pipeline over their jobs, and the caller's weighs
 * what was read, asks for second readings and calls back.
 *
 *	preparing -> ready -> reading -> read -> (ready again) -> finished -> told, in order
 *
 * An item has one owner at a time, the thread whose list it is in; lists change under the lock.
 */
#include "error.h"
#include "neighbour.h"
#include "pipeline.h"
#include "rsum_limits.h"
#include "verify.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define TICK_MS 50

struct item {
	size_t path_index;
	struct rsum_verification verification;
	struct rsum_pipeline_job *job;	      /* to be read, or read; NULL where nothing is */
	struct rsum_pipeline_outcome outcome; /* of the job that was read */
	uint64_t tensors_promised;
	int result; /* so far, and of the whole in the end */
	struct ringsum_error err;
	struct ringsum_report *report;
	struct item *next;
};

/* Stands for an item that there was no memory for. */
static struct item no_memory;

struct item_list {
	struct item *head, *tail;
	unsigned count;
	uint64_t tensors;
};

struct many {
	/* Fixed. */
	const char *const *paths;
	size_t path_count;
	const struct ringsum_options *given;
	struct rsum_options options;
	ringsum_verified_fn verified;
	void *verified_arg;
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct item_list ready; /* jobs for the pipeline */
	struct item_list read;	/* back from it, or with nothing to read */
	size_t prepared_count;	/* paths */
	size_t unfinished;	/* prepared, and may yet have something to read */
	bool is_prepared;	/* no further path will be */
	bool is_over;		/* the pipeline's thread has ended */
	bool is_canceled;
	size_t told_count; /* in their order */
	int pipeline_result;
	struct ringsum_error pipeline_err;
	uint64_t bytes_total, bytes_done, bytes_done_before; /* before: by earlier pipelines */
	uint64_t differing_count, differing_count_before; /* tensors whose digest differs, so far */
	uint64_t tensors_total, idle_ns;
	struct item **finished; /* by path */
	/* The caller's thread alone. */
	struct ringsum_many_totals totals;
	uint64_t findings_count;
	uint64_t told_differing_count; /* of differing_count: they have their findings */
	uint64_t next_progress_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void put(struct item_list *list, struct item *item)
{
	item->next = NULL;
	if (list->tail)
		list->tail->next = item;
	else
		list->head = item;
	list->tail = item;
	list->count++;
	list->tensors += item->tensors_promised;
}

static struct item *take(struct item_list *list)
{
	struct item *item = list->head;

	if (!item)
		return NULL;
	list->head = item->next;
	if (!list->head)
		list->tail = NULL;
	list->count--;
	list->tensors -= item->tensors_promised;
	return item;
}

/* Waits for a change, at most so long. With the lock. */
static void wait_for_change(struct many *many, unsigned timeout_ms)
{
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_nsec += (long)timeout_ms * 1000000;
	deadline.tv_sec += deadline.tv_nsec / 1000000000;
	deadline.tv_nsec %= 1000000000;
	(void)pthread_cond_timedwait(&many->changed, &many->lock, &deadline);
}

/* ---- preparing ------------------------------------------------------------------------------ */

/* Leaves in the item what there is to read, or its result. */
static void prepare(struct many *many, struct item *item)
{
	const char *path = many->paths[item->path_index];
	struct ringsum_options options = many->options.given;
	struct ringsum_checkpoint *checkpoint = NULL;

	if (many->given)
		options = *many->given;
	item->result = rsum_checkpoint_prepare(path, &options, &checkpoint, &item->err);
	if (item->result != RINGSUM_OK) {
		item->report = rsum_verification_failure(path, item->result, &item->err);
		return;
	}
	item->result = rsum_verification_begin(&item->verification, checkpoint, &item->err);
	if (item->result != RINGSUM_OK) {
		ringsum_checkpoint_close(checkpoint);
		return;
	}
	item->tensors_promised =
		checkpoint->manifest.promise_count + checkpoint->manifest.file_promise_count;
	item->result = rsum_reading_next(item->verification.pass, &item->job, &item->err);
}

/* Whether enough is prepared, or too much waits to be told. With the lock. */
static bool is_far_ahead(const struct many *many)
{
	return (many->ready.count > 0 && (many->ready.count >= RSUM_LIMIT_AHEAD ||
					  many->ready.tensors >= RSUM_LIMIT_AHEAD_TENSORS)) ||
	       many->prepared_count - many->told_count >= RSUM_LIMIT_UNTOLD;
}

static void hand_out(struct many *many, struct item *item)
{
	many->unfinished++;
	many->tensors_total += item->tensors_promised;
	if (item->job) {
		item->job->owner = item;
		many->bytes_total += item->job->plan->bytes_total;
	}
	put(item->job ? &many->ready : &many->read, item);
	pthread_cond_broadcast(&many->changed);
}

static void *prepare_all(void *many_ptr)
{
	struct many *many = many_ptr;

	if (many->options.given.idle)
		rsum_thread_make_idle();
	pthread_mutex_lock(&many->lock);
	while (many->prepared_count < many->path_count && !many->is_canceled) {
		struct item *item = NULL;

		if (is_far_ahead(many)) {
			wait_for_change(many, TICK_MS);
			continue;
		}
		pthread_mutex_unlock(&many->lock);
		item = calloc(1, sizeof(*item));
		if (item) {
			item->path_index = many->prepared_count;
			prepare(many, item);
		}
		pthread_mutex_lock(&many->lock);
		if (item)
			hand_out(many, item);
		else
			many->finished[many->prepared_count] = &no_memory;
		many->prepared_count++;
	}
	many->is_prepared = true;
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
	return NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static struct rsum_pipeline_job *next_job(void *arg, unsigned timeout_ms, bool *is_over_out)
{
	struct many *many = arg;
	struct item *item;

	pthread_mutex_lock(&many->lock);
	item = take(&many->ready);
	if (!item && timeout_ms > 0 && !(many->is_prepared && many->unfinished == 0)) {
		wait_for_change(many, timeout_ms);
		item = take(&many->ready);
	}
	*is_over_out = !item && many->is_prepared && many->unfinished == 0;
	/* There may be room for one more to be prepared. */
	if (item)
		pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
	return item ? item->job : NULL;
}

static void job_is_done(void *arg, struct rsum_pipeline_job *job,
			const struct rsum_pipeline_outcome *outcome)
{
	struct many *many = arg;
	struct item *item = job->owner;

	pthread_mutex_lock(&many->lock);
	item->outcome = *outcome;
	put(&many->read, item);
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
}

static int note_progress(void *arg, const struct rsum_hash_tally *tally)
{
	struct many *many = arg;
	bool is_canceled;

	pthread_mutex_lock(&many->lock);
	many->bytes_done = many->bytes_done_before + tally->hashed_bytes;
	many->differing_count = many->differing_count_before + tally->differing_count;
	is_canceled = many->is_canceled;
	pthread_mutex_unlock(&many->lock);
	return is_canceled;
}

static bool everything_is_read(struct many *many)
{
	bool is_read;

	pthread_mutex_lock(&many->lock);
	is_read = many->is_prepared && many->unfinished == 0;
	pthread_mutex_unlock(&many->lock);
	return is_read;
}

/* An engine that broke took its jobs with it; the others get a new one. */
static void *read_all(void *many_ptr)
{
	struct many *many = many_ptr;
	const struct rsum_pipeline_source source = {
		.arg = many,
		.next = next_job,
		.done = job_is_done,
	};
	struct rsum_pipeline_outcome outcome;
	struct rsum_pipeline_setup setup;
	struct ringsum_error err = { 0 };
	int result;

	if (many->options.given.idle)
		rsum_thread_make_idle();
	rsum_reading_set_up(&many->options, &setup);
	setup.progress = note_progress;
	setup.progress_arg = many;
	do {
		result = rsum_pipeline_run(&setup, &source, &outcome, &err);
		pthread_mutex_lock(&many->lock);
		many->bytes_done_before = many->bytes_done;
		many->differing_count_before = many->differing_count;
		many->idle_ns += outcome.idle_ns;
		pthread_mutex_unlock(&many->lock);
	} while (result == RINGSUM_OK && !everything_is_read(many));
	pthread_mutex_lock(&many->lock);
	many->pipeline_result = result;
	many->pipeline_err = err;
	many->is_over = true;
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
	return NULL;
}

/* ---- the caller's thread: weighing and telling ---------------------------------------------- */

static void cancel(struct many *many)
{
	pthread_mutex_lock(&many->lock);
	many->is_canceled = true;
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
}

static void report_progress(struct many *many, bool is_last)
{
	struct ringsum_progress progress = { .paths_total = many->path_count };
	uint64_t now = now_ns();

	if (!many->options.given.progress || (!is_last && now < many->next_progress_ns))
		return;
	many->next_progress_ns = now + TICK_MS * UINT64_C(1000000);
	progress.findings_count = many->findings_count;
	pthread_mutex_lock(&many->lock);
	if (many->differing_count > many->told_differing_count)
		progress.findings_count += many->differing_count - many->told_differing_count;
	progress.bytes_total = many->bytes_total;
	progress.bytes_done = RSUM_MIN(many->bytes_done, many->bytes_total);
	progress.tensors_total = many->tensors_total;
	progress.paths_done = many->told_count;
	pthread_mutex_unlock(&many->lock);
	if (many->options.given.progress(many->options.given.progress_arg, &progress) != 0)
		cancel(many);
}

/* Findings that come of a digest; as far as they are listed, which is all that matters here. */
static uint64_t count_differing(const struct ringsum_report *report)
{
	const struct ringsum_finding *finding;
	uint64_t count = 0;
	size_t i;

	for (i = 0; (finding = ringsum_report_finding_at(report, i)) != NULL; i++)
		count += (finding->tensor || finding->has_range) &&
			 (finding->code == RINGSUM_FINDING_DIGEST_MISMATCH ||
			  finding->code == RINGSUM_FINDING_UNSTABLE_READ);
	return count;
}

static void count(struct many *many, const struct item *item)
{
	struct ringsum_many_totals *totals = &many->totals;
	struct ringsum_totals one;

	if (item->report && ringsum_report_verdict(item->report) == RINGSUM_VERDICT_REFUSED)
		totals->paths_refused++;
	else if (item->result == RINGSUM_OK)
		totals->paths_identical++;
	else
		totals->paths_undecided++;
	if (!item->report)
		return;
	ringsum_report_totals(item->report, &one);
	totals->tensors_promised += one.tensors_promised;
	totals->tensors_identical += one.tensors_identical;
	totals->bytes_proven += one.bytes_proven;
	totals->bytes_read += one.bytes_read;
	many->findings_count += one.findings_total;
	many->told_differing_count += count_differing(item->report);
	/* Hostile sizes may exceed 64 bits in sum. */
	if (!rsum_add_u64(totals->bytes_promised, one.bytes_promised, &totals->bytes_promised))
		totals->bytes_promised = UINT64_MAX;
}

/* The report, if any, becomes the callback's. */
static void tell(struct many *many, struct item *item)
{
	if (many->verified(many->verified_arg, item->path_index, item->result, item->report,
			   &item->err) != 0)
		cancel(many);
}

static void tell_lack_of_memory(struct many *many, size_t path_index)
{
	struct item lost = { .path_index = path_index };

	lost.result = rsum_error_set(&lost.err, RINGSUM_E_NOMEM, "out of memory while opening %s",
				     many->paths[path_index]);
	count(many, &lost);
	tell(many, &lost);
}

/* The next that can be told, or NULL; `is_last`: nothing more will be finished, so gaps are passed. */
static struct item *next_to_tell(struct many *many, bool is_last)
{
	struct item *item = NULL;

	pthread_mutex_lock(&many->lock);
	while (!item && many->told_count < many->prepared_count) {
		item = many->finished[many->told_count];
		if (!item && !is_last)
			break;
		many->told_count++;
	}
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
	return item;
}

static void tell_in_order(struct many *many, bool is_last)
{
	struct item *item;

	while ((item = next_to_tell(many, is_last)) != NULL) {
		if (item == &no_memory) {
			tell_lack_of_memory(many, many->told_count - 1);
			continue;
		}
		count(many, item);
		tell(many, item);
		free(item);
	}
}

/* Ends the verification of an item, whose jobs came to `result` (the reason is in item->err). */
static void finish(struct many *many, struct item *item, int result)
{
	struct ringsum_checkpoint *checkpoint = item->verification.checkpoint;
	struct ringsum_error reason = item->err;

	if (item->verification.pass) {
		item->err = (struct ringsum_error){ 0 };
		item->result = rsum_verification_end(&item->verification, result, &reason,
						     &item->report, &item->err);
		ringsum_checkpoint_close(checkpoint);
	}
	pthread_mutex_lock(&many->lock);
	many->unfinished--;
	many->finished[item->path_index] = item;
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
}

/* Nothing of it was read, and nothing will be. */
static void leave_out(struct item *item)
{
	struct ringsum_checkpoint *checkpoint = item->verification.checkpoint;

	(void)!rsum_verification_end(&item->verification, RINGSUM_E_CANCELED, NULL, NULL, NULL);
	ringsum_checkpoint_close(checkpoint);
	free(item);
}

/* An item came back from reading, or has nothing to read. */
static void go_on(struct many *many, struct item *item, bool is_canceled)
{
	struct rsum_pass *pass = item->verification.pass;
	bool was_cut_off = item->job && item->job->is_canceled;

	if (pass && item->job) {
		rsum_reading_take(pass, &item->outcome, item->job->elapsed_ns);
		item->job = NULL;
		if (!was_cut_off)
			item->result = rsum_reading_next(pass, &item->job, &item->err);
	}
	if (item->result == RINGSUM_OK && (was_cut_off || (item->job && is_canceled)))
		item->result = RINGSUM_E_CANCELED;
	if (item->result != RINGSUM_OK || !item->job) {
		finish(many, item, item->result);
		return;
	}
	item->job->owner = item;
	pthread_mutex_lock(&many->lock);
	many->bytes_total += item->job->plan->bytes_total;
	put(&many->ready, item);
	pthread_cond_broadcast(&many->changed);
	pthread_mutex_unlock(&many->lock);
}

/* What the pipeline will not read any more: it was canceled, or did not start. */
static void give_up(struct many *many, struct item *item, bool is_canceled)
{
	if (is_canceled) {
		leave_out(item);
		return;
	}
	item->err = many->pipeline_err;
	finish(many, item, many->pipeline_result);
}

static void tell_all(struct many *many)
{
	for (;;) {
		bool is_unreadable = false, is_canceled, is_over;
		struct item *item;

		pthread_mutex_lock(&many->lock);
		item = take(&many->read);
		if (!item && many->is_over) {
			item = take(&many->ready);
			is_unreadable = item != NULL;
		}
		is_over = !item && many->is_over && many->is_prepared;
		if (!item && !is_over)
			wait_for_change(many, TICK_MS);
		is_canceled = many->is_canceled;
		pthread_mutex_unlock(&many->lock);
		if (is_over)
			break;
		if (is_unreadable)
			give_up(many, item, is_canceled);
		else if (item)
			go_on(many, item, is_canceled);
		tell_in_order(many, false);
		report_progress(many, false);
	}
	tell_in_order(many, true);
	report_progress(many, true);
}

/* ---- the call ------------------------------------------------------------------------------- */

static int run_threads(struct many *many, struct ringsum_error *err)
{
	pthread_t preparing, reading;
	int result = pthread_create(&preparing, NULL, prepare_all, many);

	if (result != 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, result,
					    "no thread to open checkpoints could be started");
	result = pthread_create(&reading, NULL, read_all, many);
	if (result != 0) {
		/* Every path is told so. */
		many->pipeline_result =
			rsum_error_set_errno(&many->pipeline_err, RINGSUM_E_IO, result,
					     "no thread to read checkpoints could be started");
		pthread_mutex_lock(&many->lock);
		many->is_over = true;
		pthread_mutex_unlock(&many->lock);
	}
	tell_all(many);
	pthread_join(preparing, NULL);
	if (result == 0)
		pthread_join(reading, NULL);
	return RINGSUM_OK;
}

static int check(struct many *many, struct ringsum_error *err)
{
	const struct ringsum_options *given = &many->options.given;
	size_t i;
	int result;

	if ((!many->paths && many->path_count > 0) || !many->verified)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no paths or no callback were given");
	for (i = 0; i < many->path_count; i++)
		if (!many->paths[i] || !*many->paths[i])
			return rsum_error_set(err, RINGSUM_E_INVALID, "path %zu of %zu is empty",
					      i + 1, many->path_count);
	result = rsum_options_resolve(many->given, &many->options, err);
	if (result == RINGSUM_OK && many->path_count > 1 &&
	    (given->manifest_path || many->options.has_pin || given->journal_path))
		return rsum_error_set(
			err, RINGSUM_E_INVALID,
			"a manifest, its digest, or a journal was given for %zu paths",
			many->path_count);
	return result;
}

static int conclude(struct many *many, struct ringsum_error *err)
{
	const struct ringsum_many_totals *totals = &many->totals;

	if (many->is_canceled)
		return rsum_error_set(err, RINGSUM_E_CANCELED, "canceled");
	if (totals->paths_refused > 0)
		return rsum_error_set(err, RINGSUM_E_REFUSED, "%llu of %zu checkpoints refused",
				      (unsigned long long)totals->paths_refused, many->path_count);
	if (totals->paths_identical == many->path_count && many->path_count > 0)
		return RINGSUM_OK;
	return rsum_error_set(err, RINGSUM_E_UNDECIDED, "%llu of %zu checkpoints identical",
			      (unsigned long long)totals->paths_identical, many->path_count);
}

RSUM_PUBLIC int ringsum_verify_many(const char *const *paths, size_t path_count,
				    const struct ringsum_options *options,
				    ringsum_verified_fn verified, void *verified_arg,
				    struct ringsum_many_totals *totals_out,
				    struct ringsum_error *err)
{
	struct many many = {
		.paths = paths,
		.path_count = path_count,
		.given = options,
		.verified = verified,
		.verified_arg = verified_arg,
	};
	uint64_t begin_ns = now_ns();
	pthread_condattr_t monotonic;
	int result;

	if (err)
		*err = (struct ringsum_error){ 0 };
	result = check(&many, err);
	if (result != RINGSUM_OK)
		goto out;
	many.finished = calloc(path_count + 1, sizeof(struct item *));
	if (!many.finished) {
		result = rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for %zu paths",
					path_count);
		goto out;
	}
	pthread_mutex_init(&many.lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&many.changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	result = run_threads(&many, err);
	pthread_cond_destroy(&many.changed);
	pthread_mutex_destroy(&many.lock);
	if (result != RINGSUM_OK)
		goto out;
	many.totals.paths_left_out = path_count - many.totals.paths_identical -
				     many.totals.paths_refused - many.totals.paths_undecided;
	many.totals.idle_seconds = (double)many.idle_ns / 1e9;
	many.totals.elapsed_seconds = (double)(now_ns() - begin_ns) / 1e9;
	if (totals_out)
		*totals_out = many.totals;
	result = conclude(&many, err);
out:
	free(many.finished);
	rsum_options_deinit(&many.options);
	return result;
}
