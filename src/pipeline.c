/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop. */
#include "pipeline.h"

#include "abandoned.h"
#include "error.h"
#include "io_engine.h"
#include "rate.h"
#include "rsum_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

/* Lanes that are read at once: a full set for each worker, and one set on its way. */
#define SPARE_LANES 3

/*
 * Two at a time. The kernel holds back three or more that come in one call, to merge neighbours
 * and to sort them before the device sees the first: eight at a time came to 0.93 of the rate, for
 * fio as well as here. And reads of what is in memory already are done while they are submitted:
 * the first are hashed meanwhile.
 */
#define SUBMIT_BATCH 2

/* A lane's part of the buffers. */
#define LANE_BUFFERS_SHARE 6

/* The same of a lane whose reads are left to the workers: one at work, and one that follows. */
#define LANE_BUFFERS_LEFT 2

/* A short read or a passing error is tried again so often, then the range stays unread. */
#define READ_ATTEMPTS_MAX 8

#define WAIT_MS 50
#define PROGRESS_INTERVAL_NS UINT64_C(50000000)

/* An engine that fails to say what became of its reads is given so many more chances. */
#define BROKEN_REAPS_MAX 100

struct open_file {
	struct rsum_pipeline_file file;
	struct rsum_pipeline_job *job;
	uint32_t shard;	     /* of the job */
	unsigned lane_count; /* active lanes of it; 0: the entry is free */
	bool hides_cache;    /* the kernel does not say whether a read would wait */
};

struct active_lane {
	const struct rsum_lane *plan; /* NULL: not active */
	struct rsum_pipeline_job *job;
	struct rsum_hash_lane *hash;
	uint32_t file_slot;
	uint64_t cursor;      /* where the next read begins */
	bool has_reads;	      /* cursor is before the end */
	bool is_left;	      /* its last read was left to a worker */
	unsigned outstanding; /* buffers on their way or with the crew */
};

struct pipeline {
	const struct rsum_pipeline_setup *setup;
	const struct rsum_pipeline_source *source;
	struct rsum_pipeline_outcome *outcome;
	struct rsum_pipeline_job *jobs;	   /* begun and not given back yet, oldest first */
	struct rsum_pipeline_job *opening; /* the last of them, or NULL: lanes of it are left */
	bool is_over;			   /* the source has no more */
	uint64_t bytes_begun;		   /* of all jobs taken */
	struct rsum_buffer_pool pool;
	const struct rsum_io_engine_ops *ops;
	struct rsum_io_engine *engine;
	struct rsum_hash_crew *crew;
	struct rsum_io_request *requests; /* one per buffer, by its index */
	struct open_file *files;	  /* slot_count of them */
	struct active_lane *lanes;
	unsigned lane_capacity; /* open at one time, but for those in advance */
	unsigned slot_count;	/* those included */
	unsigned active_count;
	unsigned lane_buffers_max; /* of one lane, while others could have some */
	unsigned depth;
	unsigned in_flight;
	unsigned outstanding;	    /* buffers that are not free */
	struct rsum_buffer **ready; /* read since the crew was last told */
	unsigned ready_count;
	struct rsum_io_request **batch;
	bool is_pressed;
	struct rsum_rate rate;
	bool is_throttled; /* a read could start now but for the rate */
	int broken;	   /* a negative errno of the engine */
	bool is_canceled;
	uint64_t canceled_ns;
	bool is_abandoned; /* the engine with requests and pool is nobody's any more */
	struct rsum_hash_tally tally;
	uint64_t next_progress_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- lanes and files --------------------------------------------------------------------- */

/* The slot of a shard, opened where it is not open yet; a negative errno where it cannot be. */
static int acquire_file(struct pipeline *p, struct rsum_pipeline_job *job, uint32_t shard)
{
	struct rsum_pipeline_file file = { .fd = -1 };
	int free_slot = -1, result;
	unsigned i;

	for (i = 0; i < p->slot_count; i++) {
		if (p->files[i].lane_count == 0) {
			free_slot = (int)i;
		} else if (p->files[i].job == job && p->files[i].shard == shard) {
			p->files[i].lane_count++;
			return (int)i;
		}
	}
	RSUM_ASSERT(free_slot >= 0);
	result = job->files.open(job->files.arg, shard, &file);
	if (result < 0)
		return result;
	p->files[free_slot] = (struct open_file){
		.file = file,
		.job = job,
		.shard = shard,
		.lane_count = 1,
	};
	p->ops->set_file(p->engine, (uint32_t)free_slot, file.fd);
	return free_slot;
}

static void release_file(struct pipeline *p, uint32_t file_slot)
{
	struct open_file *open = &p->files[file_slot];

	RSUM_ASSERT(open->lane_count > 0);
	if (--open->lane_count > 0)
		return;
	if (p->engine)
		p->ops->set_file(p->engine, file_slot, -1);
	open->job->files.close(open->job->files.arg, open->shard, &open->file);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

/* Whatever was not reached is unread, never unmentioned. */
static void fail_unreached(const struct rsum_pipeline_job *job, int error)
{
	size_t i;

	for (i = 0; i < job->result_count; i++)
		if (!job->results[i].is_hashed && job->results[i].error == 0)
			job->results[i].error = error;
}

/* Gives a job back, none of whose lanes is open. */
static void finish_job(struct pipeline *p, struct rsum_pipeline_job *job)
{
	struct rsum_pipeline_job **link = &p->jobs;

	while (*link != job)
		link = &(*link)->next;
	*link = job->next;
	job->next = NULL;
	if (p->opening == job)
		p->opening = NULL;
	job->is_canceled = job->lanes_left > 0 && p->is_canceled;
	fail_unreached(job, p->broken ? p->broken : -ECANCELED);
	job->elapsed_ns = now_ns() - job->begin_ns;
	job->starved_ns = p->outcome->starved_ns - job->starved_ns;
	job->throttled_ns = p->outcome->throttled_ns - job->throttled_ns;
	p->source->done(p->source->arg, job, p->outcome);
}

static void close_lane_of(struct pipeline *p, struct rsum_pipeline_job *job,
			  const struct rsum_lane *lane)
{
	if (job->lane_closed)
		job->lane_closed(job->files.arg, lane);
	RSUM_ASSERT(job->lanes_left > 0);
	if (--job->lanes_left == 0)
		finish_job(p, job);
}

/* Takes the next job, where it comes within timeout_ms, as the one whose lanes are opened. */
static bool take_job(struct pipeline *p, unsigned timeout_ms)
{
	struct rsum_pipeline_job *job, **link = &p->jobs;

	if (p->is_over)
		return false;
	job = p->source->next(p->source->arg, timeout_ms, &p->is_over);
	if (!job)
		return false;
	job->bytes_read = job->elapsed_ns = 0;
	job->starved_ns = p->outcome->starved_ns;
	job->throttled_ns = p->outcome->throttled_ns;
	job->is_canceled = false;
	job->next_lane = 0;
	job->lanes_left = job->plan->lane_count;
	job->begin_ns = now_ns();
	job->next = NULL;
	while (*link)
		link = &(*link)->next;
	*link = p->opening = job;
	p->bytes_begun += job->plan->bytes_total;
	if (job->lanes_left == 0)
		finish_job(p, job);
	return true;
}

static void fail_lane(struct pipeline *p, struct rsum_pipeline_job *job,
		      const struct rsum_lane *lane, int error)
{
	uint32_t i;

	for (i = 0; i < lane->range_count; i++) {
		const struct rsum_range *range = &job->plan->ranges[lane->first_range + i];

		job->results[range->id].error = error;
		job->results[range->id].error_offset = range->begin;
	}
	close_lane_of(p, job, lane);
}

/* ---- lanes --------------------------------------------------------------------------------- */

/*
 * At the full width a stream goes at its share of a core's pace. A lane with more bytes than its
 * share of all that is left would still be going when the others have ended.
 */
static bool lane_is_long(const struct pipeline *p, const struct rsum_lane *plan)
{
	unsigned width = rsum_digest_impl_width(p->setup->impl);
	uint64_t streams = (uint64_t)p->setup->threads * width;
	uint64_t left = p->bytes_begun - RSUM_MIN(p->tally.hashed_bytes, p->bytes_begun);

	return width > rsum_digest_impl_narrow_width(p->setup->impl) &&
	       plan->end - plan->begin > left / streams;
}

/* Opens the next lane of the job. False where it must wait for another shard to be closed. */
static bool open_lane(struct pipeline *p, struct active_lane *lane, struct rsum_pipeline_job *job)
{
	const struct rsum_lane *plan = &job->plan->lanes[job->next_lane];
	const struct rsum_hash_work work = {
		.lane = plan,
		.ranges = job->plan->ranges,
		.results = job->results,
		.views = job->views,
	};
	int slot = acquire_file(p, job, plan->shard);

	if ((slot == -EMFILE || slot == -ENFILE) && p->active_count > 0)
		return false;
	if (++job->next_lane == job->plan->lane_count)
		p->opening = NULL;
	if (slot >= 0 && p->files[slot].file.size_bytes < plan->end) {
		release_file(p, (uint32_t)slot);
		slot = -ENODATA;
	}
	if (slot < 0) {
		fail_lane(p, job, plan, slot);
		return true;
	}
	rsum_hash_lane_open(lane->hash, &work, lane_is_long(p, plan));
	lane->plan = plan;
	lane->job = job;
	lane->file_slot = (uint32_t)slot;
	lane->cursor = rsum_lane_begin(plan, p->files[slot].file.alignment);
	lane->has_reads = true;
	lane->is_left = false;
	lane->outstanding = 0;
	p->active_count++;
	return true;
}

/* What a lane has to read for each buffer that it would then have. */
static uint64_t bytes_per_buffer(const struct active_lane *lane)
{
	return (lane->plan->end - lane->cursor) / (lane->outstanding + 1);
}

/*
 * The lane to read next. Buffers go to lanes by what is left of them, so that they end together;
 * but none gets more than its part while others could have some, since a lane that is hashed
 * slower than it is read would in the end hold them all.
 */
static struct active_lane *choose_lane(struct pipeline *p)
{
	struct active_lane *best = NULL, *least = NULL;
	unsigned i;

	for (i = 0; i < p->slot_count; i++) {
		struct active_lane *lane = &p->lanes[i];

		if (!lane->plan || !lane->has_reads)
			continue;
		if (!least || lane->outstanding < least->outstanding)
			least = lane;
		if (lane->outstanding < (lane->is_left ? LANE_BUFFERS_LEFT : p->lane_buffers_max) &&
		    (!best || bytes_per_buffer(lane) > bytes_per_buffer(best)))
			best = lane;
	}
	return best ? best : least;
}

/*
 * Whether another lane may be opened. Lanes end together, as buffers go to them by what is left of
 * them; so where all that are open are read to their ends, and buffers are to spare while they are
 * hashed, one more is opened in advance.
 */
static bool may_open(struct pipeline *p)
{
	if (p->broken || p->is_canceled)
		return false;
	return p->active_count < p->lane_capacity || (p->pool.free_count > 0 && !choose_lane(p));
}

static void open_lanes(struct pipeline *p)
{
	unsigned i;

	for (i = 0; i < p->slot_count; i++)
		while (!p->lanes[i].plan) {
			if (!may_open(p))
				return;
			if (!p->opening && !take_job(p, 0))
				return;
			/* A job without lanes was given back at once. */
			if (p->opening && !open_lane(p, &p->lanes[i], p->opening))
				return;
		}
}

static void close_lanes(struct pipeline *p)
{
	bool is_abandoned = p->broken || p->is_canceled;
	const struct rsum_lane *plan;
	unsigned i;

	for (i = 0; i < p->slot_count; i++) {
		struct active_lane *lane = &p->lanes[i];

		if (!lane->plan || lane->outstanding > 0 || (lane->has_reads && !is_abandoned))
			continue;
		/* All its buffers came back, so no range of it may be left open. */
		RSUM_ASSERT(rsum_hash_lane_try_close(p->crew, lane->hash, is_abandoned));
		release_file(p, lane->file_slot);
		p->active_count--;
		plan = lane->plan;
		lane->plan = NULL;
		if (!is_abandoned || !lane->has_reads)
			close_lane_of(p, lane->job, plan);
	}
}

/* ---- reads ---------------------------------------------------------------------------------- */

/*
 * A read that lies wholly inside one range can land where the range is wanted, if the address is
 * as aligned as the offset. Its buffer then only stands for it.
 */
static uint8_t *direct_target(const struct pipeline *p, const struct active_lane *lane,
			      const struct rsum_plan_read *read)
{
	const struct rsum_range *range = &lane->job->plan->ranges[lane->plan->first_range];
	uint8_t *target;

	if (lane->plan->range_count != 1 || !range->destination || read->offset < range->begin ||
	    read->offset + read->length > range->end)
		return NULL;
	target = range->destination + (read->offset - range->begin);
	return (uintptr_t)target % p->files[lane->file_slot].file.alignment == 0 ? target : NULL;
}

/* Whether one byte of the file can be had without a disk. */
static bool byte_is_at_hand(struct open_file *open, uint64_t offset)
{
	uint8_t byte;
	struct iovec piece = { .iov_base = &byte, .iov_len = 1 };
	ssize_t got = preadv2(open->file.fd, &piece, 1, (off_t)offset, RWF_NOWAIT);

	if (got < 0 && errno != EAGAIN)
		open->hides_cache = true;
	return got == 1;
}

/*
 * Whether to leave a read to the worker that hashes it: what the kernel has in memory is only
 * copied, best a piece at a time on the core that hashes it at once. Both ends tell of the rest;
 * where they tell wrong, the worker waits for the disk.
 */
static bool is_at_hand(const struct pipeline *p, struct open_file *open,
		       const struct rsum_plan_read *read)
{
	if (open->file.is_direct || !p->ops->is_bypassable || p->setup->is_hashing_off ||
	    read->expected == 0)
		return false;
	if (open->file.is_in_memory)
		return true;
	return !open->hides_cache && byte_is_at_hand(open, read->offset) &&
	       byte_is_at_hand(open, read->offset + read->expected - 1);
}

/* The lane's next read, or NULL where it has none left. */
static struct rsum_io_request *next_request(struct pipeline *p, struct active_lane *lane)
{
	struct open_file *open = &p->files[lane->file_slot];
	const struct rsum_pipeline_file *file = &open->file;
	struct rsum_io_request *request;
	struct rsum_buffer *buffer;
	struct rsum_plan_read read;
	uint8_t *target;

	if (!rsum_lane_next_read(lane->plan, &lane->cursor, p->setup->chunk_bytes, file->alignment,
				 file->size_bytes, &read))
		return NULL;
	lane->has_reads = lane->cursor < lane->plan->end;
	buffer = rsum_buffer_acquire(&p->pool);
	RSUM_ASSERT(buffer);
	buffer->offset = read.offset;
	buffer->length = read.length;
	buffer->expected = read.expected;
	buffer->lane = lane->hash;
	lane->is_left = is_at_hand(p, open, &read);
	if (lane->is_left) {
		buffer->left_fd = file->fd;
	} else {
		target = direct_target(p, lane, &read);
		if (target)
			buffer->data = target;
	}
	rsum_hash_crew_append(p->crew, buffer);
	request = &p->requests[buffer->index];
	request->buffer = buffer;
	request->fd = file->fd;
	request->file_slot = lane->file_slot;
	lane->outstanding++;
	p->outstanding++;
	return request;
}

/*
 * By ECANCELED the loop means what it did not reach because it was told to stop, and nobody gets
 * a finding for that. What the system calls so is a failure like any other.
 */
static int own_error(const struct pipeline *p, int error)
{
	return error == -ECANCELED && !p->is_canceled ? -EIO : error;
}

static void set_broken(struct pipeline *p, int error)
{
	if (!p->broken)
		p->broken = own_error(p, error);
}

static void submit(struct pipeline *p, struct rsum_io_request **requests, unsigned count)
{
	unsigned i;
	int result;

	for (i = 0; i < count; i++)
		requests[i]->is_in_flight = true;
	p->in_flight += count;
	result = p->ops->submit(p->engine, requests, count);
	if (result < 0)
		set_broken(p, result);
}

/* Whether the next read has to wait for its turn by the rate. */
static bool must_wait(struct pipeline *p)
{
	p->is_throttled = p->rate.bytes_per_second && rsum_rate_wait_ns(&p->rate, now_ns()) > 0;
	return p->is_throttled;
}

/* What to wait at most for anything: no longer than until the next read may start. */
static unsigned wait_ms(const struct pipeline *p)
{
	uint64_t wait_ns;

	if (!p->is_throttled)
		return WAIT_MS;
	wait_ns = rsum_rate_wait_ns(&p->rate, now_ns());
	return (unsigned)RSUM_MAX(RSUM_MIN((wait_ns + 999999) / 1000000, WAIT_MS), 1);
}

/* Returns whether more could have been submitted. */
static bool submit_reads(struct pipeline *p)
{
	struct active_lane *lane = NULL;
	unsigned count = 0;

	p->is_throttled = false;
	if (p->broken || p->is_canceled)
		return false;
	while (p->in_flight + count < p->depth && p->pool.free_count > 0 &&
	       (lane = choose_lane(p)) != NULL) {
		if (count == SUBMIT_BATCH || must_wait(p))
			break;
		struct rsum_io_request *request = next_request(p, lane);

		RSUM_ASSERT(request);
		if (request->buffer->left_fd >= 0)
			p->ready[p->ready_count++] = request->buffer;
		else
			p->batch[count++] = request;
		if (p->rate.bytes_per_second)
			rsum_rate_take(&p->rate, now_ns(), request->buffer->length);
	}
	if (count > 0)
		submit(p, p->batch, count);
	return count == SUBMIT_BATCH && lane;
}

static struct active_lane *lane_of(struct pipeline *p, const struct rsum_buffer *buffer)
{
	return &p->lanes[buffer->lane - rsum_hash_crew_lane(p->crew, 0)];
}

/* The file opened with O_DIRECT and refuses it only now: go on through the page cache. */
static bool fall_back_to_buffered(struct pipeline *p, struct rsum_pipeline_file *file)
{
	int flags;

	if (p->setup->direct == RINGSUM_DIRECT_REQUIRE)
		return false;
	if (!file->is_direct)
		return false;
	flags = fcntl(file->fd, F_GETFL);
	if (flags < 0 || fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) != 0)
		return false;
	file->is_direct = false;
	return true;
}

/*
 * Not all memory that a caller can write to takes direct reads: that of a mapped file answers
 * EFAULT, or with a part of what was asked for. Such a read lands in the buffer and is copied.
 */
static bool retreat_from_destination(struct rsum_buffer *buffer, int32_t got)
{
	if (buffer->data == buffer->memory)
		return false;
	if (got <= 0 && got != -EFAULT && got != -EINVAL && got != -EOPNOTSUPP)
		return false;
	buffer->data = buffer->memory;
	return true;
}

/*
 * What a completion means. Exactly the expected bytes are success. Less is read again whole,
 * since resuming would break alignment; nothing is the end of a file that became shorter.
 * Returns 0, a negative errno for good, or 1 for another try.
 */
static int judge(struct pipeline *p, struct rsum_io_request *request)
{
	struct rsum_buffer *buffer = request->buffer;
	struct rsum_pipeline_file *file = &p->files[request->file_slot].file;
	int32_t got = request->result;

	if (got >= 0 && (uint32_t)got == buffer->expected)
		return 0;
	if (p->broken)
		return got < 0 ? got : -EIO;
	if (retreat_from_destination(buffer, got))
		return 1;
	if (got == -EINVAL && fall_back_to_buffered(p, file))
		return 1;
	/* Reads that were in flight when the first one was refused. */
	if (got == -EINVAL && p->setup->direct == RINGSUM_DIRECT_PREFER && !file->is_direct &&
	    buffer->attempts++ == 0)
		return 1;
	if (got >= 0 && (uint32_t)got > buffer->expected)
		return -ESTALE;
	if (got > 0 || got == -EINTR || got == -EAGAIN || got == -ECANCELED) {
		if (++buffer->attempts < READ_ATTEMPTS_MAX && !p->is_canceled)
			return 1;
		return got > 0 ? -ENODATA : got;
	}
	return got == 0 ? -ENODATA : got;
}

static void complete(struct pipeline *p, struct rsum_io_request *request)
{
	struct rsum_buffer *buffer = request->buffer;
	int verdict;

	RSUM_ASSERT(request->is_in_flight && buffer->state == RSUM_BUFFER_READING);
	request->is_in_flight = false;
	p->in_flight--;
	if (request->result > 0)
		lane_of(p, buffer)->job->bytes_read += (uint64_t)request->result;
	verdict = judge(p, request);
	if (verdict > 0) {
		submit(p, &request, 1);
		return;
	}
	buffer->error = own_error(p, verdict);
	p->ready[p->ready_count++] = buffer;
}

static void reap(struct pipeline *p, unsigned timeout_ms)
{
	struct rsum_io_request *done[RSUM_LIMIT_DEPTH];
	int count = p->ops->reap(p->engine, done, RSUM_LIMIT_DEPTH, timeout_ms), i;

	if (count < 0) {
		set_broken(p, count);
		return;
	}
	for (i = 0; i < count; i++)
		complete(p, done[i]);
}

/* ---- hand-off ------------------------------------------------------------------------------- */

/*
 * Tells the crew what was read, and whether the loop is held up: workers that would wait for
 * company go ahead then. Without a free buffer, or a lane with something left to read, no read
 * can start.
 */
static void hand_over(struct pipeline *p)
{
	bool is_pressed = p->pool.free_count == 0 || p->in_flight == 0 || p->broken ||
			  p->is_canceled || p->is_throttled || !choose_lane(p);

	if (p->ready_count == 0 && is_pressed == p->is_pressed)
		return;
	p->is_pressed = is_pressed;
	rsum_hash_crew_ready(p->crew, p->ready, p->ready_count, is_pressed);
	p->ready_count = 0;
}

static void collect(struct pipeline *p, unsigned timeout_ms)
{
	struct rsum_buffer *list = rsum_hash_crew_collect(p->crew, timeout_ms, &p->tally);

	while (list) {
		struct rsum_buffer *buffer = list;

		list = buffer->next;
		lane_of(p, buffer)->outstanding--;
		lane_of(p, buffer)->job->bytes_read += buffer->left_bytes;
		p->outstanding--;
		rsum_buffer_release(&p->pool, buffer);
	}
}

static void report_progress(struct pipeline *p, bool is_last)
{
	uint64_t now;

	if (!p->setup->progress)
		return;
	now = now_ns();
	if (!is_last && now < p->next_progress_ns)
		return;
	p->next_progress_ns = now + PROGRESS_INTERVAL_NS;
	if (p->setup->progress(p->setup->progress_arg, &p->tally) != 0 && !p->is_canceled) {
		p->is_canceled = true;
		p->canceled_ns = now;
	}
}

/* What reads in flight would have brought counts as unread. */
static void fail_in_flight(struct pipeline *p, int error)
{
	uint32_t i;

	for (i = 0; i < p->pool.buffer_count; i++) {
		if (!p->requests[i].is_in_flight)
			continue;
		p->requests[i].is_in_flight = false;
		p->pool.buffers[i].error = error;
		p->ready[p->ready_count++] = &p->pool.buffers[i];
	}
	p->in_flight = 0;
}

/* Nothing is in flight: whether that is for want of a job. */
static bool lacks_job(struct pipeline *p)
{
	return !p->is_over && !p->opening && !p->broken && !p->is_canceled && !p->is_throttled &&
	       p->pool.free_count > 0 && !choose_lane(p);
}

/* No lane is open. False where none will be any more; jobs that were not finished are given up. */
static bool wait_for_job(struct pipeline *p)
{
	uint64_t begin;

	if (!p->broken && !p->is_canceled) {
		if (p->opening)
			return true;
		begin = now_ns();
		(void)take_job(p, WAIT_MS);
		if (p->opening || !p->is_over)
			p->outcome->idle_ns += now_ns() - begin;
		return p->opening || !p->is_over;
	}
	while (p->jobs)
		finish_job(p, p->jobs);
	return false;
}

/* Nothing is on its way, and the rate has the next read wait. */
static void sleep_until_turn(struct pipeline *p)
{
	struct timespec wait = { .tv_nsec = (long)wait_ms(p) * 1000000 };
	uint64_t begin = now_ns();

	nanosleep(&wait, NULL);
	p->outcome->throttled_ns += now_ns() - begin;
}

/* The engine lost count of its reads. It is stopped, which waits for their end. */
static void give_up_on_engine(struct pipeline *p)
{
	/* The reads that were ready go to the crew first. */
	hand_over(p);
	p->ops->stop(p->engine);
	p->engine = NULL;
	fail_in_flight(p, p->broken);
}

/* Whether nothing that is in flight lands in memory that is the caller's. */
static bool can_abandon(const struct pipeline *p)
{
	uint32_t i;

	for (i = 0; i < p->pool.buffer_count; i++)
		if (p->requests[i].is_in_flight &&
		    p->pool.buffers[i].data != p->pool.buffers[i].memory)
			return false;
	return true;
}

/* A canceled run does not wait for ever for reads that hang. */
static void abandon_hanging_reads(struct pipeline *p)
{
	if (!p->is_canceled || !p->engine || p->setup->drain_ms == 0 ||
	    now_ns() - p->canceled_ns < (uint64_t)p->setup->drain_ms * 1000000 || !can_abandon(p))
		return;
	hand_over(p);
	p->ops->abandon(p->engine);
	rsum_abandoned_keep(p->engine, p->requests, &p->pool);
	p->is_abandoned = true;
	p->engine = NULL;
	fail_in_flight(p, -ECANCELED);
}

/*
 * Ends: each turn either waits for a read that is in flight, or for a buffer that the crew has
 * and, being pressed, will hash; a lane's oldest buffer is always one of the two, since reads of
 * a lane are submitted in order. So one buffer is enough to go on.
 */
static void run_loop(struct pipeline *p)
{
	unsigned failed_reaps = 0;
	bool has_more;

	for (;;) {
		collect(p, 0);
		close_lanes(p);
		open_lanes(p);
		has_more = submit_reads(p);
		hand_over(p);
		report_progress(p, false);
		if (p->in_flight > 0) {
			uint64_t begin = now_ns();
			bool is_starved = p->pool.free_count == 0 && p->in_flight < p->depth / 2;

			reap(p, has_more ? 0 : wait_ms(p));
			if (p->is_throttled)
				p->outcome->throttled_ns += now_ns() - begin;
			else if (is_starved)
				p->outcome->starved_ns += now_ns() - begin;
			if (p->broken && p->in_flight > 0 && ++failed_reaps > BROKEN_REAPS_MAX)
				give_up_on_engine(p);
			else if (p->in_flight > 0)
				abandon_hanging_reads(p);
		} else if (p->outstanding > 0) {
			uint64_t begin = now_ns();
			bool is_idle = lacks_job(p);

			collect(p, wait_ms(p));
			if (is_idle)
				p->outcome->idle_ns += now_ns() - begin;
			*(p->is_throttled ? &p->outcome->throttled_ns : &p->outcome->starved_ns) +=
				now_ns() - begin;
		} else if (p->is_throttled) {
			sleep_until_turn(p);
		} else if (p->active_count == 0 && !wait_for_job(p)) {
			break;
		}
	}
	RSUM_ASSERT(p->in_flight == 0 && p->ready_count == 0);
	RSUM_ASSERT(p->pool.free_count == p->pool.buffer_count);
}

/* ---- start and end --------------------------------------------------------------------------- */

static int start_engine(struct pipeline *p, struct ringsum_error *err)
{
	const struct rsum_io_setup setup = {
		.pool = &p->pool,
		.depth = p->depth,
		.file_slot_count = p->slot_count,
		.is_idle = p->setup->is_idle,
	};
	struct rsum_pipeline_outcome *outcome = p->outcome;
	char why[192] = "";
	int result;

	if (p->setup->engine != RINGSUM_ENGINE_PREAD) {
		p->ops = &rsum_io_engine_uring;
		result = p->ops->start(&setup, &p->engine, outcome->engine_reason,
				       sizeof(outcome->engine_reason));
		if (result == 0)
			return RINGSUM_OK;
		if (p->setup->engine == RINGSUM_ENGINE_IO_URING) {
			/* The reason ends with the text of its errno. */
			(void)rsum_error_set(err, RINGSUM_E_IO,
					     "%s; use --engine auto to go on without it",
					     outcome->engine_reason);
			if (err)
				err->os_errno = -result;
			return RINGSUM_E_IO;
		}
	}
	p->ops = &rsum_io_engine_pread;
	result = p->ops->start(&setup, &p->engine, why, sizeof(why));
	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result, "%s", why);
	return RINGSUM_OK;
}

static int start_crew(struct pipeline *p, struct ringsum_error *err)
{
	const struct rsum_hash_setup setup = {
		.impl = p->setup->impl,
		.thread_count = p->setup->threads,
		.is_hashing_off = p->setup->is_hashing_off,
		.is_idle = p->setup->is_idle,
		.lane_count = p->slot_count,
	};
	int result = rsum_hash_crew_start(&setup, &p->crew);
	unsigned i;

	if (result == RINGSUM_E_NOMEM)
		return rsum_error_set(err, result, "out of memory for the hashing threads");
	if (result != RINGSUM_OK)
		return rsum_error_set(err, result, "no hashing thread could be started");
	for (i = 0; i < p->slot_count; i++)
		p->lanes[i].hash = rsum_hash_crew_lane(p->crew, i);
	return RINGSUM_OK;
}

/* No more buffers than there are reads: a small checkpoint is not worth a large pool. */
static uint32_t choose_buffer_count(const struct rsum_pipeline_setup *setup)
{
	uint64_t count = RSUM_MAX(setup->memory_bytes / setup->chunk_bytes, 1);

	return (uint32_t)(setup->reads_max ? RSUM_MIN(count, setup->reads_max) : count);
}

static int start(struct pipeline *p, struct ringsum_error *err)
{
	unsigned width = rsum_digest_impl_width(p->setup->impl);
	uint32_t buffer_count = choose_buffer_count(p->setup);
	int result;

	p->lane_capacity = p->setup->threads * width + SPARE_LANES;
	p->slot_count = 2 * p->lane_capacity;
	p->rate.bytes_per_second = p->setup->bytes_per_second_max;
	p->rate.next_ns = now_ns();
	p->depth = RSUM_MIN(p->setup->depth, buffer_count);
	p->lane_buffers_max = RSUM_MAX(buffer_count / LANE_BUFFERS_SHARE, 2);
	p->requests = calloc(buffer_count, sizeof(*p->requests));
	p->ready = calloc(buffer_count, sizeof(*p->ready));
	p->batch = calloc(buffer_count, sizeof(*p->batch));
	p->files = calloc(p->slot_count, sizeof(*p->files));
	p->lanes = calloc(p->slot_count, sizeof(*p->lanes));
	if (!p->requests || !p->ready || !p->batch || !p->files || !p->lanes ||
	    rsum_buffer_pool_init(&p->pool, buffer_count, p->setup->chunk_bytes) != RINGSUM_OK)
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "out of memory for %u buffers of %u bytes", buffer_count,
				      p->setup->chunk_bytes);
	result = start_engine(p, err);
	if (result == RINGSUM_OK)
		result = start_crew(p, err);
	return result;
}

static void stop(struct pipeline *p)
{
	rsum_hash_crew_stop(p->crew);
	if (p->engine)
		p->ops->stop(p->engine);
	if (!p->is_abandoned) {
		rsum_buffer_pool_deinit(&p->pool);
		free(p->requests);
	}
	free(p->ready);
	free(p->batch);
	free(p->files);
	free(p->lanes);
}

int rsum_pipeline_run(const struct rsum_pipeline_setup *setup,
		      const struct rsum_pipeline_source *source,
		      struct rsum_pipeline_outcome *outcome, struct ringsum_error *err)
{
	struct pipeline p = {
		.setup = setup,
		.source = source,
		.outcome = outcome,
	};
	uint64_t begin_ns = now_ns();
	int result;

	*outcome = (struct rsum_pipeline_outcome){ .chunk_bytes = setup->chunk_bytes };
	result = start(&p, err);
	if (result == RINGSUM_OK) {
		outcome->engine = p.ops->name;
		outcome->page_kind = rsum_page_kind_name(p.pool.page_kind);
		outcome->depth = p.depth;
		outcome->threads = rsum_hash_crew_threads(p.crew);
		run_loop(&p);
		report_progress(&p, true);
	}
	stop(&p);
	outcome->elapsed_ns = now_ns() - begin_ns;
	outcome->is_canceled = p.is_canceled;
	if (result == RINGSUM_OK && p.is_canceled)
		return rsum_error_set(err, RINGSUM_E_CANCELED, "canceled");
	return result;
}

/* ---- one job ---------------------------------------------------------------------------------- */

struct lone_job {
	struct rsum_pipeline_job *job; /* NULL once it was taken */
};

static struct rsum_pipeline_job *next_lone(void *arg, unsigned timeout_ms, bool *is_over_out)
{
	struct lone_job *lone = arg;
	struct rsum_pipeline_job *job = lone->job;

	(void)timeout_ms;
	lone->job = NULL;
	*is_over_out = true;
	return job;
}

static void lone_is_done(void *arg, struct rsum_pipeline_job *job,
			 const struct rsum_pipeline_outcome *outcome)
{
	(void)arg;
	(void)job;
	(void)outcome;
}

int rsum_pipeline_run_job(const struct rsum_pipeline_setup *setup, struct rsum_pipeline_job *job,
			  struct rsum_pipeline_outcome *outcome, struct ringsum_error *err)
{
	struct rsum_pipeline_setup own = *setup;
	struct lone_job lone = { .job = job };
	const struct rsum_pipeline_source source = {
		.arg = &lone,
		.next = next_lone,
		.done = lone_is_done,
	};
	int result;

	*outcome = (struct rsum_pipeline_outcome){ .chunk_bytes = setup->chunk_bytes };
	job->bytes_read = 0;
	if (job->plan->lane_count == 0)
		return RINGSUM_OK;
	own.reads_max = job->plan->lane_count * 2 + job->plan->bytes_total / setup->chunk_bytes;
	result = rsum_pipeline_run(&own, &source, outcome, err);
	fail_unreached(job, -ECANCELED);
	return result;
}
