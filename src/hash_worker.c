/* SPDX-License-Identifier: Apache-2.0 */
/* The hashing threads: hand-off, order within a lane, company for lone streams. */
#include "hash_worker.h"

#include "neighbour.h"
#include "ringsum.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A piece is copied, or read from the page cache, and hashed while the core's cache has it. */
#define PIECE_BYTES ((size_t)32 << 10)

/* A read that is cut short, or interrupted, is gone on with so often. */
#define READ_ATTEMPTS_MAX 8

/* A lone stream waits for the latency of each round; two fill most of the gaps. */
#define COMPANY_MIN 2

struct lane_queue {
	struct rsum_hash_lane *head, *tail;
	unsigned count;
};

struct rsum_hash_crew {
	/* Fixed after start. */
	const struct rsum_digest_impl *impl;
	struct rsum_hash_lane *lanes;
	unsigned lane_count;
	unsigned width;	       /* lanes that one worker advances side by side */
	unsigned company;      /* so many are worth beginning with */
	unsigned narrow_width; /* lanes beside which a long one is not held up */
	bool is_hashing_off;
	bool is_idle;
	pthread_t *threads;
	unsigned thread_count;
	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t work;   /* lanes were queued, pressure rose, or it is over */
	pthread_cond_t hashed; /* buffers came back */
	struct lane_queue long_lanes, short_lanes;
	struct lane_queue lone_lanes; /* of algorithms that go one stream at a time */
	unsigned narrow_count;	      /* workers that hold a long lane */
	bool is_pressed;
	bool is_stopping;
	struct rsum_buffer *hashed_list;
	struct rsum_hash_tally tally;
};

struct worker {
	struct rsum_hash_crew *crew;
	struct rsum_hash_lane *lanes[RSUM_SHA256_WIDTH_MAX];
	struct rsum_sha256_span spans[RSUM_SHA256_WIDTH_MAX]; /* of the lane of the same index */
	unsigned lane_count;
	struct rsum_hash_tally tally; /* since the last hand-off */
};

/* ---- one lane's bytes: no lock, the holder only ---------------------------------------- */

static const struct rsum_range *current_range(const struct rsum_hash_lane *lane)
{
	if (lane->next_range == lane->plan->first_range + lane->plan->range_count)
		return NULL;
	return &lane->ranges[lane->next_range];
}

static void finish_range(struct rsum_hash_lane *lane)
{
	lane->next_range++;
	lane->is_skipping = false;
}

/* Notes the first failure of a range; no byte of the rest of it is looked at. */
static void fail_range(struct rsum_hash_lane *lane, struct rsum_range_result *result, int error,
		       uint64_t offset)
{
	if (result->error == 0) {
		result->error = error;
		result->error_offset = offset;
	}
	lane->is_skipping = true;
}

/* Keeps the first four bytes of a range, which may come in two buffers. */
static void keep_head(struct rsum_range_result *result, uint64_t at, const uint8_t *data,
		      size_t size_bytes)
{
	size_t i;

	for (i = 0; at + i < sizeof(result->head) && i < size_bytes; i++)
		result->head[at + i] = data[i];
}

/* Where the run goes besides, or NULL: the destination, unless the read landed in it. */
static uint8_t *copy_target(const struct rsum_range *range, uint64_t position, const uint8_t *data)
{
	uint8_t *target;

	if (!range->destination)
		return NULL;
	target = range->destination + (position - range->begin);
	return target == data ? NULL : target;
}

static bool is_lone(const struct rsum_hash_lane *lane)
{
	return lane->plan->algorithm != RSUM_ALGORITHM_SHA256;
}

static void restart_stream(const struct rsum_hash_crew *crew, struct rsum_hash_lane *lane,
			   const struct rsum_range *range)
{
	if (is_lone(lane))
		rsum_stream_restart(&lane->other, range->algorithm, range->end - range->begin);
	else
		rsum_sha256_restart(&lane->stream, crew->impl);
}

/* Returns 0, or RINGSUM_E_UNDECIDED where there is no digest. */
static int end_stream(const struct rsum_hash_crew *crew, struct rsum_hash_lane *lane,
		      uint8_t digest_out[RSUM_DIGEST_BYTES_MAX])
{
	if (is_lone(lane))
		return rsum_stream_final(&lane->other, digest_out);
	return rsum_sha256_final(&lane->stream, crew->impl, digest_out);
}

/*
 * Brings the next run of bytes of the lane's buffer to be hashed. False where the buffer has
 * nothing more: it ends, or what is left of it belongs to no range of the lane.
 */
static bool next_span(struct rsum_hash_crew *crew, struct rsum_hash_lane *lane)
{
	const struct rsum_buffer *buffer = lane->buffer;
	uint64_t buffer_end = buffer->offset + buffer->expected;
	bool is_left = buffer->left_fd >= 0;
	const struct rsum_range *range;

	while ((range = current_range(lane)) != NULL) {
		uint64_t position =
			RSUM_MAX(RSUM_MAX(lane->position, buffer->offset), range->begin);
		uint64_t run_end = RSUM_MIN(range->end, buffer_end);
		struct rsum_range_result *result = &lane->results[range->id];
		const uint8_t *data;

		if (position >= buffer_end)
			return false;
		if (buffer->error)
			fail_range(lane, result, buffer->error, buffer->offset);
		else if (crew->is_hashing_off)
			fail_range(lane, result, -ECANCELED, range->begin);
		if (lane->is_skipping) {
			lane->position = run_end;
			if (run_end == range->end)
				finish_range(lane);
			continue;
		}
		data = is_left ? buffer->memory : buffer->data + (position - buffer->offset);
		lane->span_begin = data;
		lane->span_bytes = (size_t)(run_end - position);
		lane->is_unread = is_left;
		if (is_left || copy_target(range, position, data))
			lane->span_bytes = RSUM_MIN(lane->span_bytes, PIECE_BYTES);
		if (position == range->begin)
			restart_stream(crew, lane, range);
		lane->position = position;
		lane->span = (struct rsum_sha256_span){
			.stream = &lane->stream,
			.data = data,
			.size_bytes = lane->span_bytes,
			.ends_message = position + lane->span_bytes == range->end,
		};
		lane->has_span = true;
		return true;
	}
	return false;
}

/* Reads a run that was left to us. Returns 0 or a negative errno. */
static int read_span(struct rsum_hash_lane *lane)
{
	struct rsum_buffer *buffer = lane->buffer;
	size_t done = 0;
	unsigned attempts = 0;

	while (done < lane->span_bytes) {
		ssize_t got = pread(buffer->left_fd, buffer->memory + done, lane->span_bytes - done,
				    (off_t)(lane->position + done));

		if (got == 0)
			return -ENODATA;
		/* ECANCELED is what the loop says of what it did not reach. */
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return errno == ECANCELED ? -EIO : -errno;
		if (got > 0)
			done += (size_t)got;
		if (done < lane->span_bytes && ++attempts == READ_ATTEMPTS_MAX)
			return got < 0 ? -errno : -ENODATA;
	}
	buffer->left_bytes += (uint32_t)done;
	return 0;
}

/* As next_span, if there is no run yet; and its bytes are there. */
static bool bring_span(struct rsum_hash_crew *crew, struct rsum_hash_lane *lane)
{
	while (lane->has_span || next_span(crew, lane)) {
		int error = lane->is_unread ? read_span(lane) : 0;

		lane->is_unread = false;
		if (error == 0)
			return true;
		fail_range(lane, &lane->results[current_range(lane)->id], error, lane->position);
		lane->has_span = false;
	}
	return false;
}

static void finish_span(struct worker *worker, struct rsum_hash_lane *lane)
{
	struct rsum_hash_crew *crew = worker->crew;
	const struct rsum_range *range = current_range(lane);
	struct rsum_range_result *result = &lane->results[range->id];
	const uint8_t *data = lane->span_begin;
	uint8_t *target = copy_target(range, lane->position, data);

	keep_head(result, lane->position - range->begin, data, lane->span_bytes);
	if (target)
		memcpy(target, data, lane->span_bytes);
	if (lane->views)
		rsum_damage_see(&lane->views[range->id], lane->position - range->begin, data,
				lane->span_bytes);
	lane->position += lane->span_bytes;
	worker->tally.hashed_bytes += lane->span_bytes;
	lane->has_span = false;
	if (!lane->span.ends_message)
		return;
	if (end_stream(crew, lane, result->digest) == 0) {
		result->is_hashed = true;
		worker->tally.differing_count +=
			range->promised_digest &&
			memcmp(result->digest, range->promised_digest,
			       rsum_algorithm_bytes(range->algorithm)) != 0;
	} else {
		fail_range(lane, result, -EIO, range->begin);
	}
	finish_range(lane);
}

/* Hashes the held lanes side by side until the buffer of one of them has nothing more to give. */
static void hash_until_exhausted(struct worker *worker)
{
	struct rsum_hash_crew *crew = worker->crew;
	bool is_exhausted = false;
	unsigned i;

	for (;;) {
		for (i = 0; i < worker->lane_count; i++) {
			struct rsum_hash_lane *lane = worker->lanes[i];

			if (!bring_span(crew, lane))
				is_exhausted = true;
			worker->spans[i] = lane->span;
		}
		if (is_exhausted)
			return;
		rsum_sha256_advance(crew->impl, worker->spans, worker->lane_count);
		for (i = 0; i < worker->lane_count; i++) {
			worker->lanes[i]->span = worker->spans[i];
			if (rsum_sha256_span_done(&worker->spans[i]))
				finish_span(worker, worker->lanes[i]);
		}
	}
}

/* The same for a lane of another algorithm, which has no company. */
static void hash_alone_until_exhausted(struct worker *worker)
{
	struct rsum_hash_lane *lane = worker->lanes[0];

	while (bring_span(worker->crew, lane)) {
		rsum_stream_update(&lane->other, lane->span.data, lane->span_bytes);
		finish_span(worker, lane);
	}
}

/* ---- hand-off: under the lock ----------------------------------------------------------- */

static void enqueue_lane(struct rsum_hash_crew *crew, struct rsum_hash_lane *lane)
{
	struct lane_queue *queue = is_lone(lane)   ? &crew->lone_lanes
				   : lane->is_long ? &crew->long_lanes
						   : &crew->short_lanes;

	lane->state = RSUM_LANE_QUEUED;
	lane->next = NULL;
	if (queue->tail)
		queue->tail->next = lane;
	else
		queue->head = lane;
	queue->tail = lane;
	queue->count++;
}

static struct rsum_hash_lane *dequeue_lane(struct lane_queue *queue)
{
	struct rsum_hash_lane *lane = queue->head;

	if (!lane)
		return NULL;
	queue->head = lane->next;
	if (!queue->head)
		queue->tail = NULL;
	queue->count--;
	RSUM_ASSERT(lane->state == RSUM_LANE_QUEUED);
	lane->state = RSUM_LANE_HELD;
	return lane;
}

/* Moves the lane's next buffer from reading to hashing, where it was read. */
static bool take_buffer(struct rsum_hash_lane *lane)
{
	struct rsum_buffer *buffer = lane->head;

	RSUM_ASSERT(!lane->buffer);
	if (!buffer || buffer->state != RSUM_BUFFER_READY)
		return false;
	lane->head = buffer->next;
	if (!lane->head)
		lane->tail = NULL;
	buffer->next = NULL;
	buffer->state = RSUM_BUFFER_HASHING;
	lane->buffer = buffer;
	return true;
}

static void give_back_buffer(struct rsum_hash_crew *crew, struct rsum_hash_lane *lane)
{
	lane->buffer->next = crew->hashed_list;
	crew->hashed_list = lane->buffer;
	lane->buffer = NULL;
	pthread_cond_signal(&crew->hashed);
}

/* Gives back exhausted buffers; a lane goes on with its next buffer, or is let go. */
static void renew_lanes(struct worker *worker)
{
	struct rsum_hash_crew *crew = worker->crew;
	unsigned i = 0;

	crew->tally.hashed_bytes += worker->tally.hashed_bytes;
	crew->tally.differing_count += worker->tally.differing_count;
	worker->tally = (struct rsum_hash_tally){ 0 };
	while (i < worker->lane_count) {
		struct rsum_hash_lane *lane = worker->lanes[i];

		if (lane->has_span || next_span(crew, lane)) {
			i++;
			continue;
		}
		give_back_buffer(crew, lane);
		if (take_buffer(lane))
			continue;
		lane->state = current_range(lane) ? RSUM_LANE_WAITING : RSUM_LANE_DONE;
		worker->lanes[i] = worker->lanes[--worker->lane_count];
	}
}

static void take_lanes(struct worker *worker, struct lane_queue *queue, unsigned most)
{
	struct rsum_hash_lane *lane;

	while (worker->lane_count < most && (lane = dequeue_lane(queue)) != NULL) {
		if (!lane->buffer)
			RSUM_ASSERT(take_buffer(lane));
		worker->lanes[worker->lane_count++] = lane;
	}
}

/* Lanes that lack company wait for it where whoever finds enough of them takes them. */
static void put_lanes_back(struct worker *worker)
{
	while (worker->lane_count > 0)
		enqueue_lane(worker->crew, worker->lanes[--worker->lane_count]);
}

static unsigned count_long_lanes(const struct worker *worker)
{
	unsigned count = 0, i;

	for (i = 0; i < worker->lane_count; i++)
		count += worker->lanes[i]->is_long;
	return count;
}

/*
 * A company around long lanes: they alone where there are two or more, since every further
 * stream slows them; a lone one with whatever keeps it company at no cost.
 */
static bool gather_narrow_company(struct rsum_hash_crew *crew, struct worker *worker)
{
	if (worker->lane_count > crew->narrow_width)
		put_lanes_back(worker);
	take_lanes(worker, &crew->long_lanes, crew->narrow_width);
	if (count_long_lanes(worker) < COMPANY_MIN)
		take_lanes(worker, &crew->short_lanes, COMPANY_MIN);
	return worker->lane_count >= COMPANY_MIN;
}

static bool gather_wide_company(struct rsum_hash_crew *crew, struct worker *worker)
{
	take_lanes(worker, &crew->short_lanes, crew->width);
	return worker->lane_count >= crew->company;
}

/* Company is no use to a lane of another algorithm: it goes on, or begins, whenever it can. */
static bool has_lone_lane(const struct worker *worker)
{
	return worker->lane_count == 1 && is_lone(worker->lanes[0]);
}

/*
 * Makes up a company to hash, or none. Long lanes come first. Too few lanes wait for more to be
 * read, unless the loop is held up by that.
 */
static bool gather_sha256_company(struct rsum_hash_crew *crew, struct worker *worker)
{
	bool is_narrow = count_long_lanes(worker) > 0 ||
			 (crew->long_lanes.count > 0 &&
			  (crew->narrow_count == 0 || worker->lane_count < COMPANY_MIN));
	bool is_enough =
		is_narrow ? gather_narrow_company(crew, worker) : gather_wide_company(crew, worker);

	if (is_enough || (crew->is_pressed && worker->lane_count > 0))
		return true;
	put_lanes_back(worker);
	return false;
}

static bool gather_company(struct rsum_hash_crew *crew, struct worker *worker)
{
	if (has_lone_lane(worker) || gather_sha256_company(crew, worker))
		return true;
	take_lanes(worker, &crew->lone_lanes, 1);
	return worker->lane_count > 0;
}

static void *work(void *crew_ptr)
{
	struct rsum_hash_crew *crew = crew_ptr;
	struct worker worker = { .crew = crew };

	if (crew->is_idle)
		rsum_thread_make_idle();
	pthread_mutex_lock(&crew->lock);
	for (;;) {
		renew_lanes(&worker);
		if (gather_company(crew, &worker)) {
			bool is_narrow = count_long_lanes(&worker) > 0;

			crew->narrow_count += is_narrow;
			pthread_mutex_unlock(&crew->lock);
			if (has_lone_lane(&worker))
				hash_alone_until_exhausted(&worker);
			else
				hash_until_exhausted(&worker);
			pthread_mutex_lock(&crew->lock);
			crew->narrow_count -= is_narrow;
			continue;
		}
		if (crew->is_stopping)
			break;
		pthread_cond_wait(&crew->work, &crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

/* ---- the loop's side --------------------------------------------------------------------- */

struct rsum_hash_lane *rsum_hash_crew_lane(struct rsum_hash_crew *crew, unsigned lane_number)
{
	RSUM_ASSERT(lane_number < crew->lane_count);
	return &crew->lanes[lane_number];
}

unsigned rsum_hash_crew_threads(const struct rsum_hash_crew *crew)
{
	return crew->thread_count;
}

void rsum_hash_lane_open(struct rsum_hash_lane *lane, const struct rsum_hash_work *work,
			 bool is_long)
{
	RSUM_ASSERT(lane->state == RSUM_LANE_CLOSED && !lane->head && !lane->buffer);
	lane->plan = work->lane;
	lane->ranges = work->ranges;
	lane->results = work->results;
	lane->views = work->views;
	lane->is_long = is_long;
	lane->next_range = work->lane->first_range;
	lane->position = 0;
	lane->is_skipping = false;
	lane->state = RSUM_LANE_WAITING;
}

void rsum_hash_crew_append(struct rsum_hash_crew *crew, struct rsum_buffer *buffer)
{
	struct rsum_hash_lane *lane = buffer->lane;

	pthread_mutex_lock(&crew->lock);
	RSUM_ASSERT(buffer->state == RSUM_BUFFER_READING && lane->state != RSUM_LANE_CLOSED);
	RSUM_ASSERT(!lane->tail || lane->tail->offset < buffer->offset);
	buffer->next = NULL;
	if (lane->tail)
		lane->tail->next = buffer;
	else
		lane->head = buffer;
	lane->tail = buffer;
	pthread_mutex_unlock(&crew->lock);
}

/* Companies that can be made up of what is queued, a last small one where it cannot wait. */
static unsigned count_companies(const struct rsum_hash_crew *crew)
{
	unsigned long_count = crew->long_lanes.count, short_count = crew->short_lanes.count;
	unsigned narrow = crew->narrow_width, lone_count = crew->lone_lanes.count;

	if (crew->is_pressed)
		return lone_count + (long_count + narrow - 1) / narrow +
		       (short_count + crew->company - 1) / crew->company;
	if (long_count > 0 && long_count + short_count >= COMPANY_MIN)
		return lone_count + (long_count + narrow - 1) / narrow +
		       short_count / crew->company;
	return lone_count + short_count / crew->company;
}

void rsum_hash_crew_ready(struct rsum_hash_crew *crew, struct rsum_buffer **buffers, unsigned count,
			  bool is_pressed)
{
	unsigned i, wanted;

	pthread_mutex_lock(&crew->lock);
	for (i = 0; i < count; i++) {
		struct rsum_hash_lane *lane = buffers[i]->lane;

		RSUM_ASSERT(buffers[i]->state == RSUM_BUFFER_READING);
		buffers[i]->state = RSUM_BUFFER_READY;
		if (lane->state == RSUM_LANE_WAITING && lane->head == buffers[i])
			enqueue_lane(crew, lane);
	}
	crew->is_pressed = is_pressed;
	wanted = count_companies(crew);
	for (i = 0; i < RSUM_MIN(wanted, crew->thread_count); i++)
		pthread_cond_signal(&crew->work);
	pthread_mutex_unlock(&crew->lock);
}

struct rsum_buffer *rsum_hash_crew_collect(struct rsum_hash_crew *crew, unsigned timeout_ms,
					   struct rsum_hash_tally *tally_out)
{
	struct rsum_buffer *list;
	struct timespec deadline;

	pthread_mutex_lock(&crew->lock);
	if (!crew->hashed_list && timeout_ms > 0) {
		clock_gettime(CLOCK_MONOTONIC, &deadline);
		deadline.tv_nsec += (long)timeout_ms * 1000000;
		deadline.tv_sec += deadline.tv_nsec / 1000000000;
		deadline.tv_nsec %= 1000000000;
		while (!crew->hashed_list)
			if (pthread_cond_timedwait(&crew->hashed, &crew->lock, &deadline) != 0)
				break;
	}
	list = crew->hashed_list;
	crew->hashed_list = NULL;
	*tally_out = crew->tally;
	pthread_mutex_unlock(&crew->lock);
	return list;
}

bool rsum_hash_lane_try_close(struct rsum_hash_crew *crew, struct rsum_hash_lane *lane,
			      bool is_abandoned)
{
	bool is_closed;

	pthread_mutex_lock(&crew->lock);
	is_closed = lane->state == RSUM_LANE_DONE ||
		    (is_abandoned && lane->state == RSUM_LANE_WAITING && !lane->head);
	if (is_closed)
		lane->state = RSUM_LANE_CLOSED;
	pthread_mutex_unlock(&crew->lock);
	return is_closed;
}

static int init_lanes(struct rsum_hash_crew *crew, unsigned lane_count)
{
	crew->lanes = calloc(lane_count, sizeof(*crew->lanes));
	if (!crew->lanes)
		return RINGSUM_E_NOMEM;
	while (crew->lane_count < lane_count) {
		if (rsum_sha256_init(&crew->lanes[crew->lane_count].stream, crew->impl) != 0)
			return RINGSUM_E_NOMEM;
		crew->lane_count++;
	}
	return RINGSUM_OK;
}

int rsum_hash_crew_start(const struct rsum_hash_setup *setup, struct rsum_hash_crew **crew_out)
{
	struct rsum_hash_crew *crew = calloc(1, sizeof(*crew));
	pthread_condattr_t monotonic;
	int result;

	if (!crew)
		return RINGSUM_E_NOMEM;
	crew->impl = setup->impl;
	crew->width = rsum_digest_impl_width(setup->impl);
	crew->company = (crew->width * 3 + 3) / 4;
	crew->narrow_width = RSUM_MIN(rsum_digest_impl_narrow_width(setup->impl), crew->width);
	crew->is_hashing_off = setup->is_hashing_off;
	crew->is_idle = setup->is_idle;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&crew->work, NULL);
	pthread_cond_init(&crew->hashed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	result = init_lanes(crew, setup->lane_count);
	crew->threads = calloc(setup->thread_count, sizeof(*crew->threads));
	if (!crew->threads)
		result = RINGSUM_E_NOMEM;
	while (result == RINGSUM_OK && crew->thread_count < setup->thread_count) {
		if (pthread_create(&crew->threads[crew->thread_count], NULL, work, crew) != 0)
			break;
		crew->thread_count++;
	}
	if (result == RINGSUM_OK && crew->thread_count == 0)
		result = RINGSUM_E_IO;
	if (result != RINGSUM_OK) {
		rsum_hash_crew_stop(crew);
		return result;
	}
	*crew_out = crew;
	return RINGSUM_OK;
}

void rsum_hash_crew_stop(struct rsum_hash_crew *crew)
{
	unsigned i;

	if (!crew)
		return;
	pthread_mutex_lock(&crew->lock);
	RSUM_ASSERT(!crew->long_lanes.head && !crew->short_lanes.head && !crew->lone_lanes.head &&
		    !crew->hashed_list);
	crew->is_stopping = true;
	pthread_cond_broadcast(&crew->work);
	pthread_mutex_unlock(&crew->lock);
	for (i = 0; i < crew->thread_count; i++)
		pthread_join(crew->threads[i], NULL);
	for (i = 0; i < crew->lane_count; i++) {
		rsum_sha256_deinit(&crew->lanes[i].stream);
		rsum_stream_deinit(&crew->lanes[i].other);
	}
	pthread_cond_destroy(&crew->work);
	pthread_cond_destroy(&crew->hashed);
	pthread_mutex_destroy(&crew->lock);
	free(crew->lanes);
	free(crew->threads);
	free(crew);
}
