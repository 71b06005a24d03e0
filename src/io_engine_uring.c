/* SPDX-License-Identifier: Apache-2.0 */
/* Reads through io_uring. The only user of liburing. */
#include "io_engine.h"

#include "neighbour.h"
#include "rsum_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* An iovec of registered memory may hold 1 GiB. */
#define REGISTERED_PIECE_BYTES ((size_t)1 << 30)
#define REGISTERED_PIECES_MAX (RSUM_LIMIT_MEMORY_BYTES / REGISTERED_PIECE_BYTES)

/* Memory charged to RLIMIT_MEMLOCK by a ring just closed is given back late. */
#define SETUP_RETRIES 5
#define SETUP_RETRY_NS 20000000

/* The kernel asks for another try, or a signal came: neither may become an endless loop. */
#define SUBMIT_RETRIES 1000

#define PROBE_BYTES 4096

struct rsum_io_engine {
	struct io_uring ring;
	struct rsum_buffer_pool *pool;
	bool has_buffers;	    /* the pool is registered */
	bool has_files;		    /* file slots are registered */
	int end_fd;		    /* a pipe to read from; only the ring holds its other end */
	int broken;		    /* a negative errno after which nothing is submitted any more */
	unsigned short io_priority; /* of every read; 0: that of the thread */
	unsigned in_flight;
	/* What the system did not take, to be reaped with `broken`. */
	struct rsum_io_request *refused;
};

static void sleep_ns(long wait_ns)
{
	struct timespec wait = { .tv_nsec = wait_ns };

	nanosleep(&wait, NULL);
}

/*
 * Best flags first; a kernel that lacks one answers EINVAL. DEFER_TASKRUN completes reads when
 * we ask for them rather than by interrupting us; it needs a single issuer, which the event
 * loop is.
 */
static int queue_init(struct io_uring *ring, unsigned depth)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	unsigned i, attempt = 0;
	int result = -EINVAL;

	for (i = 0; i < RSUM_COUNT_OF(flags);) {
		struct io_uring_params params = { .flags = flags[i] };

		result = io_uring_queue_init_params(depth, ring, &params);
		if (result == -EINVAL) {
			i++;
		} else if ((result == -ENOMEM || result == -EAGAIN) && attempt++ < SETUP_RETRIES) {
			sleep_ns(SETUP_RETRY_NS);
		} else {
			return result;
		}
	}
	return result;
}

/* Entries are halved once more than memory allows: completions have twice as many anyway. */
static int setup_ring(struct rsum_io_engine *engine, unsigned depth, char *why, size_t why_bytes)
{
	int result = queue_init(&engine->ring, depth);

	if (result == -ENOMEM && depth > 1)
		result = queue_init(&engine->ring, (depth + 1) / 2);
	if (result < 0) {
		snprintf(why, why_bytes, "io_uring setup was refused: %s", strerror(-result));
		return result;
	}
	if (!(engine->ring.features & IORING_FEAT_EXT_ARG)) {
		snprintf(why, why_bytes, "this kernel's io_uring is too old (before 5.11)");
		io_uring_queue_exit(&engine->ring);
		return -ENOSYS;
	}
	return 0;
}

/* A gain, not a need: reads work without it. */
static void register_buffers(struct rsum_io_engine *engine)
{
	const struct rsum_buffer_pool *pool = engine->pool;
	struct iovec pieces[REGISTERED_PIECES_MAX];
	size_t begin = 0;
	unsigned count = 0;

	while (begin < pool->mapped_bytes && count < REGISTERED_PIECES_MAX) {
		pieces[count].iov_base = pool->memory + begin;
		pieces[count].iov_len =
			RSUM_MIN(pool->mapped_bytes - begin, REGISTERED_PIECE_BYTES);
		begin += pieces[count++].iov_len;
	}
	engine->has_buffers = begin == pool->mapped_bytes &&
			      io_uring_register_buffers(&engine->ring, pieces, count) == 0;
}

/*
 * Slots for files are a gain as well, but the ring has to hold one file in any case: a ring that
 * is closed is freed only when none of its reads can write to memory any more, and lets go of its
 * files then. So the end of a pipe that nobody else holds tells when that is, however broken the
 * ring may be (await_end).
 */
static int register_files(struct rsum_io_engine *engine, unsigned slot_count)
{
	int ends[2], result;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	engine->end_fd = ends[0];
	if (io_uring_register_files_sparse(&engine->ring, slot_count + 1) == 0) {
		engine->has_files = true;
		result = io_uring_register_files_update(&engine->ring, slot_count, &ends[1], 1);
		result = result < 0 ? result : result == 1 ? 0 : -EIO;
	} else {
		result = io_uring_register_files(&engine->ring, &ends[1], 1);
	}
	close(ends[1]);
	return result;
}

static void uring_set_file(struct rsum_io_engine *engine, uint32_t file_slot, int fd)
{
	if (!engine->has_files || engine->broken)
		return;
	if (io_uring_register_files_update(&engine->ring, file_slot, &fd, 1) == 1)
		return;
	/* A slot in doubt must not serve a read: go on with plain descriptors. */
	engine->has_files = false;
}

/* The registered piece that holds the whole buffer, or -1. */
static int registered_piece(const struct rsum_io_engine *engine, const struct rsum_buffer *buffer)
{
	size_t begin, end;

	if (!engine->has_buffers || buffer->data != buffer->memory)
		return -1;
	begin = (size_t)(buffer->memory - engine->pool->memory);
	end = begin + buffer->length - 1;
	if (begin / REGISTERED_PIECE_BYTES != end / REGISTERED_PIECE_BYTES)
		return -1;
	return (int)(begin / REGISTERED_PIECE_BYTES);
}

static void prepare_read(const struct rsum_io_engine *engine, struct io_uring_sqe *sqe,
			 struct rsum_io_request *request)
{
	const struct rsum_buffer *buffer = request->buffer;
	int piece = registered_piece(engine, buffer);
	int fd = engine->has_files ? (int)request->file_slot : request->fd;

	if (piece >= 0)
		io_uring_prep_read_fixed(sqe, fd, buffer->data, buffer->length, buffer->offset,
					 piece);
	else
		io_uring_prep_read(sqe, fd, buffer->data, buffer->length, buffer->offset);
	if (engine->has_files)
		sqe->flags |= IOSQE_FIXED_FILE;
	sqe->ioprio = engine->io_priority;
	io_uring_sqe_set_data(sqe, request);
}

/* Hands all prepared entries to the kernel. Returns how many it did not take. */
static unsigned flush(struct rsum_io_engine *engine)
{
	unsigned retries = 0, pending;

	while ((pending = io_uring_sq_ready(&engine->ring)) > 0) {
		int taken = io_uring_submit(&engine->ring);

		if (taken > 0) {
			engine->in_flight += (unsigned)taken;
			continue;
		}
		if ((taken == 0 || taken == -EINTR || taken == -EAGAIN || taken == -EBUSY) &&
		    retries++ < SUBMIT_RETRIES) {
			if (taken != -EINTR)
				sleep_ns(100000);
			continue;
		}
		engine->broken = taken < 0 ? taken : -EIO;
		return pending;
	}
	return 0;
}

static int uring_submit(struct rsum_io_engine *engine, struct rsum_io_request **requests,
			unsigned count)
{
	unsigned prepared = 0, left, i;

	while (prepared < count && !engine->broken) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&engine->ring);

		if (sqe) {
			prepare_read(engine, sqe, requests[prepared++]);
			if (prepared < count)
				continue;
		}
		left = flush(engine);
		/* The last `left` of those prepared stayed in the ring, which is never flushed
		 * again. */
		prepared -= left;
		if (!sqe && left == 0 && io_uring_sq_space_left(&engine->ring) == 0)
			engine->broken = -EIO;
	}
	for (i = prepared; i < count; i++) {
		requests[i]->next = engine->refused;
		engine->refused = requests[i];
	}
	return engine->broken;
}

static unsigned reap_refused(struct rsum_io_engine *engine, struct rsum_io_request **done,
			     unsigned count)
{
	unsigned reaped = 0;

	while (reaped < count && engine->refused) {
		done[reaped] = engine->refused;
		engine->refused = engine->refused->next;
		done[reaped++]->result = engine->broken;
	}
	return reaped;
}

static int uring_reap(struct rsum_io_engine *engine, struct rsum_io_request **done, unsigned count,
		      unsigned timeout_ms)
{
	struct io_uring_cqe *cqes[RSUM_LIMIT_DEPTH];
	unsigned reaped = reap_refused(engine, done, count), got, i;

	if (reaped == count || engine->in_flight == 0)
		return (int)reaped;
	count = RSUM_MIN(count - reaped, RSUM_LIMIT_DEPTH);
	got = io_uring_peek_batch_cqe(&engine->ring, cqes, count);
	if (got == 0 && timeout_ms > 0 && reaped == 0) {
		struct __kernel_timespec timeout = {
			.tv_sec = timeout_ms / 1000,
			.tv_nsec = (long long)(timeout_ms % 1000) * 1000000,
		};
		int result = io_uring_wait_cqe_timeout(&engine->ring, &cqes[0], &timeout);

		if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN) {
			engine->broken = result;
			return result;
		}
		got = io_uring_peek_batch_cqe(&engine->ring, cqes, count);
	}
	for (i = 0; i < got; i++) {
		done[reaped] = io_uring_cqe_get_data(cqes[i]);
		done[reaped++]->result = cqes[i]->res;
	}
	io_uring_cq_advance(&engine->ring, got);
	RSUM_ASSERT(got <= engine->in_flight);
	engine->in_flight -= got;
	return (int)reaped;
}

/*
 * Refusals come at setup, at the first submit, or as a completion with an error: only a real
 * read through all three tells. A file in memory serves, so that no one's file is needed.
 */
static int probe(struct rsum_io_engine *engine, char *why, size_t why_bytes)
{
	static const char pattern[] = "ringsum probe";
	struct rsum_buffer buffer = {
		.memory = engine->pool->memory,
		.data = engine->pool->memory,
		.length = PROBE_BYTES,
	};
	struct rsum_io_request request = { .buffer = &buffer, .fd = -1 };
	struct rsum_io_request *one = &request, *done = NULL;
	int result = 0, attempt;

	request.fd = memfd_create("ringsum-probe", MFD_CLOEXEC);
	if (request.fd < 0 ||
	    write(request.fd, pattern, sizeof(pattern)) != (ssize_t)sizeof(pattern)) {
		result = -errno;
		snprintf(why, why_bytes, "no file in memory for the probe: %s", strerror(-result));
		goto out;
	}
	uring_set_file(engine, 0, request.fd);
	(void)uring_submit(engine, &one, 1);
	for (attempt = 0; !done && attempt < 50 && result >= 0; attempt++)
		result = uring_reap(engine, &done, 1, 100);
	uring_set_file(engine, 0, -1);
	if (result >= 0 && !done)
		result = -ETIME;
	else if (result >= 0)
		result = request.result;
	if (result == (int)sizeof(pattern) && memcmp(buffer.data, pattern, sizeof(pattern)) == 0) {
		result = 0;
		goto out;
	}
	if (result >= 0)
		result = -EIO;
	snprintf(why, why_bytes, "io_uring was set up but a read through it failed: %s",
		 strerror(-result));
out:
	if (request.fd >= 0)
		close(request.fd);
	return result;
}

/*
 * Waits until the kernel has freed the ring, which was closed. Reads from a disk cannot be
 * cancelled, and closing the ring waits for nothing: without this they would land in memory that
 * its owner, told that they failed, has begun to use for something else. (A process that was forked
 * meanwhile and did not exec holds the ring as well, and is waited for.)
 */
static void await_end(const struct rsum_io_engine *engine)
{
	struct pollfd end = { .fd = engine->end_fd };

	while (poll(&end, 1, -1) <= 0)
		sleep_ns(SETUP_RETRY_NS);
}

static void uring_stop(struct rsum_io_engine *engine)
{
	RSUM_ASSERT(engine->broken || engine->in_flight == 0);
	io_uring_queue_exit(&engine->ring);
	if (engine->in_flight > 0)
		await_end(engine);
	if (engine->end_fd >= 0)
		close(engine->end_fd);
	free(engine);
}

static void uring_versions(const char **built_out, const char **running_out)
{
	*built_out = RSUM_LIBURING_VERSION;
	*running_out = NULL;
#ifdef IO_URING_VERSION_MAJOR /* since liburing 2.4 */
	static char running[32];

	snprintf(running, sizeof(running), "%d.%d", io_uring_major_version(),
		 io_uring_minor_version());
	*running_out = running;
#endif
}

/* The kernel has what was submitted; nothing else is on its way. */
static void uring_abandon(struct rsum_io_engine *engine)
{
	(void)engine;
}

static int uring_start(const struct rsum_io_setup *setup, struct rsum_io_engine **engine_out,
		       char *why, size_t why_bytes)
{
	struct rsum_io_engine *engine = calloc(1, sizeof(*engine));
	int result;

	RSUM_ASSERT(setup->depth >= 1 && setup->depth <= RSUM_LIMIT_DEPTH);
	if (!engine) {
		snprintf(why, why_bytes, "no memory for the ring");
		return -ENOMEM;
	}
	engine->pool = setup->pool;
	engine->end_fd = -1;
	if (setup->is_idle)
		engine->io_priority = (unsigned short)rsum_idle_io_priority();
	result = setup_ring(engine, setup->depth, why, why_bytes);
	if (result < 0) {
		free(engine);
		return result;
	}
	register_buffers(engine);
	result = register_files(engine, setup->file_slot_count);
	if (result < 0)
		snprintf(why, why_bytes, "io_uring would not register a file: %s",
			 strerror(-result));
	else
		result = probe(engine, why, why_bytes);
	if (result < 0) {
		engine->broken = result;
		uring_stop(engine);
		return result;
	}
	*engine_out = engine;
	return 0;
}

const struct rsum_io_engine_ops rsum_io_engine_uring = {
	.name = "io_uring",
	.is_bypassable = true,
	.start = uring_start,
	.set_file = uring_set_file,
	.submit = uring_submit,
	.reap = uring_reap,
	.versions = uring_versions,
	.abandon = uring_abandon,
	.stop = uring_stop,
};
