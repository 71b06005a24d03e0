/* SPDX-License-Identifier: Apache-2.0 */
/* The fallback: threads that pread. Order of completion is as arbitrary as with io_uring. */
#include "io_engine.h"

#include "neighbour.h"
#include "rsum_limits.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

struct request_queue {
	struct rsum_io_request *head, *tail;
};

struct rsum_io_engine {
	/* Fixed after start. */
	pthread_t readers[RSUM_LIMIT_READERS];
	unsigned reader_count;
	bool is_idle;
	/* Guarded by lock. */
	pthread_mutex_t lock;
	pthread_cond_t submitted, completed;
	struct request_queue waiting, done;
	bool is_stopping;
};

static void queue_push(struct request_queue *queue, struct rsum_io_request *request)
{
	request->next = NULL;
	if (queue->tail)
		queue->tail->next = request;
	else
		queue->head = request;
	queue->tail = request;
}

static struct rsum_io_request *queue_pop(struct request_queue *queue)
{
	struct rsum_io_request *request = queue->head;

	if (request) {
		queue->head = request->next;
		if (!queue->head)
			queue->tail = NULL;
	}
	return request;
}

static void *read_requests(void *engine_ptr)
{
	struct rsum_io_engine *engine = engine_ptr;
	struct rsum_io_request *request;

	if (engine->is_idle)
		rsum_thread_make_idle();
	pthread_mutex_lock(&engine->lock);
	for (;;) {
		request = queue_pop(&engine->waiting);
		if (!request) {
			if (engine->is_stopping)
				break;
			pthread_cond_wait(&engine->submitted, &engine->lock);
			continue;
		}
		pthread_mutex_unlock(&engine->lock);
		ssize_t got = pread(request->fd, request->buffer->data, request->buffer->length,
				    (off_t)request->buffer->offset);
		request->result = got < 0 ? -errno : (int32_t)got;
		pthread_mutex_lock(&engine->lock);
		queue_push(&engine->done, request);
		pthread_cond_signal(&engine->completed);
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

static void pread_stop(struct rsum_io_engine *engine)
{
	unsigned i;

	pthread_mutex_lock(&engine->lock);
	RSUM_ASSERT(!engine->waiting.head && !engine->done.head);
	engine->is_stopping = true;
	pthread_cond_broadcast(&engine->submitted);
	pthread_mutex_unlock(&engine->lock);
	for (i = 0; i < engine->reader_count; i++)
		pthread_join(engine->readers[i], NULL);
	pthread_cond_destroy(&engine->submitted);
	pthread_cond_destroy(&engine->completed);
	pthread_mutex_destroy(&engine->lock);
	free(engine);
}

static int pread_start(const struct rsum_io_setup *setup, struct rsum_io_engine **engine_out,
		       char *why, size_t why_bytes)
{
	struct rsum_io_engine *engine = calloc(1, sizeof(*engine));
	/* More of them only contend; a device that needs more depth has io_uring. */
	unsigned wanted = RSUM_MIN(setup->depth, RSUM_LIMIT_READERS);
	pthread_condattr_t monotonic;
	int result = 0;

	if (!engine) {
		snprintf(why, why_bytes, "no memory for the reader threads");
		return -ENOMEM;
	}
	engine->is_idle = setup->is_idle;
	pthread_mutex_init(&engine->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&engine->submitted, NULL);
	pthread_cond_init(&engine->completed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	while (engine->reader_count < wanted && result == 0) {
		result = pthread_create(&engine->readers[engine->reader_count], NULL, read_requests,
					engine);
		if (result == 0)
			engine->reader_count++;
	}
	/* A few readers are enough to be right; none is not. */
	if (engine->reader_count == 0) {
		snprintf(why, why_bytes, "no thread could be made for reading");
		pread_stop(engine);
		return -result;
	}
	*engine_out = engine;
	return 0;
}

static void pread_set_file(struct rsum_io_engine *engine, uint32_t file_slot, int fd)
{
	(void)engine;
	(void)file_slot;
	(void)fd;
}

static int pread_submit(struct rsum_io_engine *engine, struct rsum_io_request **requests,
			unsigned count)
{
	unsigned i;

	pthread_mutex_lock(&engine->lock);
	for (i = 0; i < count; i++)
		queue_push(&engine->waiting, requests[i]);
	if (count == 1)
		pthread_cond_signal(&engine->submitted);
	else
		pthread_cond_broadcast(&engine->submitted);
	pthread_mutex_unlock(&engine->lock);
	return 0;
}

static struct timespec deadline_after(unsigned timeout_ms)
{
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (deadline.tv_nsec >= 1000000000) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000;
	}
	return deadline;
}

static int pread_reap(struct rsum_io_engine *engine, struct rsum_io_request **done, unsigned count,
		      unsigned timeout_ms)
{
	struct timespec deadline = deadline_after(timeout_ms);
	int reaped = 0;

	pthread_mutex_lock(&engine->lock);
	while (!engine->done.head && timeout_ms > 0)
		if (pthread_cond_timedwait(&engine->completed, &engine->lock, &deadline) != 0)
			break;
	while ((unsigned)reaped < count) {
		struct rsum_io_request *request = queue_pop(&engine->done);

		if (!request)
			break;
		done[reaped++] = request;
	}
	pthread_mutex_unlock(&engine->lock);
	return reaped;
}

/* Readers that hang are left to themselves; they end when their read does. */
static void pread_abandon(struct rsum_io_engine *engine)
{
	unsigned i;

	pthread_mutex_lock(&engine->lock);
	engine->waiting = (struct request_queue){ 0 };
	engine->is_stopping = true;
	pthread_cond_broadcast(&engine->submitted);
	pthread_mutex_unlock(&engine->lock);
	for (i = 0; i < engine->reader_count; i++)
		pthread_detach(engine->readers[i]);
}

const struct rsum_io_engine_ops rsum_io_engine_pread = {
	.name = "pread",
	.is_bypassable = true,
	.start = pread_start,
	.set_file = pread_set_file,
	.submit = pread_submit,
	.reap = pread_reap,
	.abandon = pread_abandon,
	.stop = pread_stop,
};
