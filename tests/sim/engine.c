/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of the simulation, once in the place of io_uring and once in that of the threads. Its reads are answered from memory, late, in any order, and not always
 * well. It checks what the loop above may not do.
 */
#include "sim.h"

#include "rsum_limits.h"

#include <errno.h>
#include <string.h>

#define POISON 0xE7
#define IDLE_REAPS_MAX 3

/* By these names the pipeline of this program knows its engines; see tests/meson.build. */
extern const struct rsum_io_engine_ops sim_engine_ring, sim_engine_readers;

enum breakage { SOUND, BREAKS_AT_SUBMIT, BREAKS_AT_REAP, LOSES_READS };

struct flight {
	struct rsum_io_request *request;
	bool is_served; /* its result is there, though not told yet */
	uint64_t submitted;
};

struct rsum_io_engine {
	struct rsum_io_setup setup;
	int slots[RSUM_LIMIT_THREADS * RSUM_SHA256_WIDTH_MAX + 8];
	struct flight flights[RSUM_LIMIT_DEPTH];
	unsigned in_flight;
	struct rsum_io_request *refused; /* not taken: reaped with `broken` */
	int broken;
	bool has_lost_reads;
	uint64_t random;
	unsigned idle_reaps;
	uint64_t submitted;
};

/* ---- start and stop ----------------------------------------------------------------------------- */

static int start(const struct rsum_io_setup *setup, struct rsum_io_engine **engine_out, char *why,
		 size_t why_bytes, enum sim_fault refusal)
{
	static const struct {
		int os_errno;
		const char *step;
	} steps[] = {
		{ ENOMEM, "no memory for the ring" },
		{ EPERM, "setup was refused: Operation not permitted" },
		{ ENOSYS, "setup was refused: Function not implemented" },
		{ EACCES, "the first submit was refused: Permission denied" },
		{ EINVAL, "the first read was refused: Invalid argument" },
		{ ETIME, "the first read never came back" },
	};
	struct sim_pass *pass = sim_pass();
	uint64_t chance = sim_chance(3000, pass->number, refusal, 0);
	struct rsum_io_engine *engine;

	SIM_REQUIRE(setup->depth >= 1 && setup->depth <= RSUM_LIMIT_DEPTH);
	SIM_REQUIRE(setup->depth <= pass->setup.depth);
	SIM_REQUIRE(setup->pool->buffer_count >= 1);
	if (sim_happens(refusal, pass->number, 0, 0)) {
		unsigned step = (unsigned)(chance % RSUM_COUNT_OF(steps));

		/* Where the ring is refused the threads may do. */
		pass->could_not_begin |=
			refusal == SIM_NO_READERS || pass->setup.engine == RINGSUM_ENGINE_IO_URING;
		snprintf(why, why_bytes, "%s", steps[step].step);
		return -steps[step].os_errno;
	}
	engine = calloc(1, sizeof(*engine));
	SIM_REQUIRE(engine && setup->file_slot_count <= RSUM_COUNT_OF(engine->slots));
	engine->setup = *setup;
	engine->random = chance;
	memset(engine->slots, -1, sizeof(engine->slots));
	pass->engines_running++;
	pass->pool = setup->pool;
	*engine_out = engine;
	return 0;
}

static int start_ring(const struct rsum_io_setup *setup, struct rsum_io_engine **engine_out,
		      char *why, size_t why_bytes)
{
	return start(setup, engine_out, why, why_bytes, SIM_NO_RING);
}

static int start_readers(const struct rsum_io_setup *setup, struct rsum_io_engine **engine_out,
			 char *why, size_t why_bytes)
{
	return start(setup, engine_out, why, why_bytes, SIM_NO_READERS);
}

static void stop(struct rsum_io_engine *engine)
{
	unsigned i;

	/* What was taken is drained before the end, unless it is lost. */
	SIM_REQUIRE(engine->broken || (engine->in_flight == 0 && !engine->refused));
	SIM_REQUIRE(engine->has_lost_reads || engine->in_flight == 0);
	for (i = 0; i < engine->setup.file_slot_count; i++)
		SIM_REQUIRE(engine->slots[i] == -1 || engine->has_lost_reads);
	sim_pass()->engines_running--;
	free(engine);
}

static void set_file(struct rsum_io_engine *engine, uint32_t file_slot, int fd)
{
	unsigned i;

	SIM_REQUIRE(file_slot < engine->setup.file_slot_count);
	SIM_REQUIRE((fd == -1) != (engine->slots[file_slot] == -1));
	SIM_REQUIRE(fd == -1 || sim_shard_of_fd(fd) >= 0);
	for (i = 0; i < engine->in_flight; i++)
		SIM_REQUIRE(engine->flights[i].request->file_slot != file_slot);
	engine->slots[file_slot] = fd;
}

/* ---- what a read is about ------------------------------------------------------------------------ */

/* What tells this attempt from every other of the round. */
struct occasion {
	uint64_t lane, offset, attempt;
};

static struct occasion occasion_of(const struct sim_read *read)
{
	const struct sim_pass *pass = sim_pass();

	return (struct occasion){
		.lane = (uint64_t)pass->number << 40 | (uint64_t)read->lane->shard << 32 |
			read->lane->first_range,
		.offset = read->offset,
		.attempt = read->attempts,
	};
}

static bool happens(enum sim_fault fault, const struct occasion *at)
{
	return sim_happens(fault, at->lane, at->offset, at->attempt);
}

static uint64_t chance(unsigned what, const struct occasion *at)
{
	return sim_chance(what, at->lane, at->offset, at->attempt);
}

static bool is_placed(const struct rsum_buffer *buffer)
{
	return buffer->data != buffer->memory;
}

/* Where a read may land: in its buffer, or within the destination of the one range it is of. */
static void check_target(const struct rsum_io_engine *engine, const struct rsum_buffer *buffer)
{
	const struct rsum_buffer_pool *pool = engine->setup.pool;
	const struct sim_pass *pass = sim_pass();
	const struct rsum_range *range = &pass->plan->ranges[buffer->lane->plan->first_range];

	SIM_REQUIRE(buffer->length >= 1 && buffer->length <= pass->setup.chunk_bytes);
	SIM_REQUIRE(buffer->memory >= pool->memory &&
		    buffer->memory + pass->setup.chunk_bytes <= pool->memory + pool->mapped_bytes);
	if (!is_placed(buffer))
		return;
	SIM_REQUIRE(range->destination && buffer->lane->plan->range_count == 1);
	SIM_REQUIRE(buffer->offset >= range->begin &&
		    buffer->offset + buffer->length <= range->end);
	SIM_REQUIRE(buffer->data == range->destination + (buffer->offset - range->begin));
}

static void check_alignment(const struct rsum_io_request *request, const struct sim_shard *shard)
{
	const struct rsum_buffer *buffer = request->buffer;
	uint32_t alignment = shard->direct_is_known ? shard->direct_alignment : 512;

	if (!sim_fd_is_direct(request->fd))
		return;
	SIM_REQUIRE(alignment != 0);
	SIM_REQUIRE(buffer->offset % alignment == 0 && buffer->length % alignment == 0);
	SIM_REQUIRE((uintptr_t)buffer->data % alignment == 0);
}

/* ---- answers ------------------------------------------------------------------------------------- */

/* Files change when someone reads them, which is when it matters. */
static void change_files(const struct sim_read *read, const struct occasion *at)
{
	struct sim_shard *shard = &sim.shards[read->lane->shard];
	struct sim_pass *pass = sim_pass();
	uint64_t i, what = chance(3001, at);
	bool is_seen = true;

	if (happens(SIM_TOUCH, at)) {
		shard->ticks++;
		shard->old_ticks++;
	} else if (happens(SIM_REWRITE, at)) {
		for (i = what % 97; i < shard->size_bytes; i += 97)
			shard->image[i] ^= (uint8_t)(1 + what % 255);
		shard->ticks++;
		shard->old_ticks++;
	} else if (happens(SIM_RESIZE, at)) {
		shard->current_bytes = what % (2 * shard->size_bytes);
		if (shard->current_bytes == shard->size_bytes)
			shard->current_bytes++;
		shard->ticks++;
		shard->old_ticks++;
	} else if (happens(SIM_REPLACE, at)) {
		/* Who has the old one open may see that its last name went, or nothing. */
		shard->generation++;
		shard->ticks++;
		shard->old_ticks += what & 1;
		is_seen = what & 1;
	} else {
		is_seen = false;
	}
	if (is_seen)
		pass->must_see_change[read->lane->shard] = true;
	if (!sim.document_changed && happens(SIM_DOCUMENT, at))
		sim.document_changed = true;
}

static int fail_with(uint64_t what)
{
	static const int errnos[] = { EIO,    EIO,	 EIO,	 ENXIO,	     EINVAL,
				      ENOMEM, ETIMEDOUT, ESTALE, EOPNOTSUPP, EFAULT };

	return -errnos[what % RSUM_COUNT_OF(errnos)];
}

/* A negative errno or what is left of the read; 0 where it goes well. */
static int refuse(const struct rsum_io_request *request, const struct sim_shard *shard,
		  const struct occasion *at)
{
	static const int no_place[] = { -EFAULT, -EINVAL, -EOPNOTSUPP };
	uint64_t what = chance(3002, at);

	if (sim_fd_is_direct(request->fd) && shard->refuses_direct_at_read) {
		sim_count(SIM_NO_DIRECT_AT_READ);
		return -EINVAL;
	}
	if (is_placed(request->buffer) && happens(SIM_NO_PLACE, at))
		return no_place[what % RSUM_COUNT_OF(no_place)];
	if (happens(SIM_ERROR, at))
		return fail_with(what);
	if (happens(SIM_EINTR, at))
		return -EINTR;
	if (happens(SIM_EAGAIN, at))
		return -EAGAIN;
	if (happens(SIM_ECANCELED, at))
		return -ECANCELED;
	return 0;
}

static void keep_spoiled(struct sim_read *read, const uint8_t *data)
{
	const struct sim_shard *shard = &sim.shards[read->lane->shard];

	if (memcmp(data, shard->promised + read->offset, read->expected) == 0)
		return;
	read->spoiled = malloc(read->expected);
	SIM_REQUIRE(read->spoiled);
	memcpy(read->spoiled, data, read->expected);
}

/* The bytes, as the file has them now. */
static int deliver(struct rsum_io_request *request, struct sim_read *read,
		   const struct occasion *at)
{
	const struct sim_shard *shard = &sim.shards[read->lane->shard];
	struct rsum_buffer *buffer = request->buffer;
	uint64_t what = chance(3003, at), there = 0;
	uint32_t length, written;

	if (buffer->offset < shard->current_bytes)
		there = shard->current_bytes - buffer->offset;
	length = (uint32_t)RSUM_MIN(there, buffer->length);
	if (read->expected > 0 && happens(SIM_EMPTY, at))
		length = 0;
	else if (read->expected > 1 && happens(SIM_SHORT, at))
		length = RSUM_MIN(length, (uint32_t)(1 + what % (read->expected - 1)));
	else if (read->expected < buffer->length && happens(SIM_LONG, at))
		length = read->expected + (uint32_t)(1 + what % (buffer->length - read->expected));
	/* A file that grew has anything behind its old end. */
	written = buffer->offset < shard->size_bytes
			  ? (uint32_t)RSUM_MIN(length, shard->size_bytes - buffer->offset)
			  : 0;
	memcpy(buffer->data, shard->image + buffer->offset, written);
	memset(buffer->data + written, (uint8_t)what, length - written);
	if (length == read->expected && length > 0 && happens(SIM_FLIP_ONCE, at))
		buffer->data[(what >> 16) % length] ^= (uint8_t)(1u << (what >> 8) % 8);
	read->is_exact = length == read->expected;
	if (read->is_exact)
		keep_spoiled(read, buffer->data);
	return (int)length;
}

static void serve(struct flight *flight)
{
	struct rsum_io_request *request = flight->request;
	struct sim_read *read = sim_read_of(request);
	const struct occasion at = occasion_of(read);
	int result;

	flight->is_served = true;
	SIM_REQUIRE(request->buffer->state == RSUM_BUFFER_READING);
	sim_lock();
	change_files(read, &at);
	result = refuse(request, &sim.shards[read->lane->shard], &at);
	request->result = result < 0 ? result : deliver(request, read, &at);
	sim_unlock();
	if (happens(SIM_CANCEL, &at)) {
		sim.wants_cancel = true;
		sim_let_time_pass();
	}
}

/* ---- reads that are left to the workers ---------------------------------------------------------- */

/* The lane that a worker reads for: it reads into the memory of one of the lane's buffers. */
static const struct rsum_lane *lane_of_memory(const struct sim_pass *pass, const uint8_t *data)
{
	size_t index = (size_t)(data - pass->pool->memory) / pass->setup.chunk_bytes;
	const struct rsum_buffer *buffer = &pass->pool->buffers[index];

	SIM_REQUIRE(data >= pass->pool->memory && index < pass->pool->buffer_count);
	SIM_REQUIRE(buffer->state == RSUM_BUFFER_HASHING && buffer->left_fd >= 0);
	return buffer->lane->plan;
}

static struct sim_left *note_left(struct sim_pass *pass)
{
	if (pass->left_count == pass->left_capacity) {
		pass->left_capacity = pass->left_capacity ? pass->left_capacity * 2 : 128;
		pass->left = realloc(pass->left, pass->left_capacity * sizeof(*pass->left));
		SIM_REQUIRE(pass->left);
	}
	return &pass->left[pass->left_count++];
}

static unsigned count_attempts(const struct sim_pass *pass, const struct rsum_lane *lane,
			       uint64_t offset)
{
	unsigned count = 0;
	size_t i;

	for (i = 0; i < pass->left_count; i++)
		count += pass->left[i].read.lane == lane && pass->left[i].read.offset == offset;
	return count;
}

/* A negative errno, or how many bytes to give. */
static int answer_left(const struct occasion *at, const struct sim_shard *shard, uint64_t offset,
		       size_t size_bytes)
{
	static const int errnos[] = { EIO, EIO, ENXIO, ECANCELED, EINVAL, ESTALE };
	uint64_t there = offset < shard->current_bytes ? shard->current_bytes - offset : 0;
	uint64_t what = chance(3011, at);

	if (happens(SIM_ERROR, at))
		return -errnos[what % RSUM_COUNT_OF(errnos)];
	if (happens(SIM_EINTR, at))
		return -EINTR;
	if (happens(SIM_EAGAIN, at))
		return -EAGAIN;
	if (happens(SIM_EMPTY, at))
		return 0;
	size_bytes = RSUM_MIN(size_bytes, there);
	if (size_bytes > 1 && happens(SIM_SHORT, at))
		size_bytes = 1 + what % (size_bytes - 1);
	return (int)size_bytes;
}

ssize_t sim_read_left(int shard_index, uint8_t *data, size_t size_bytes, uint64_t offset)
{
	struct sim_pass *pass = sim_pass();
	const struct sim_shard *shard = &sim.shards[shard_index];
	struct sim_read read = {
		.lane = lane_of_memory(pass, data),
		.offset = offset,
		.is_answered = true,
	};
	struct occasion at;

	SIM_REQUIRE(size_bytes >= 1 && offset + size_bytes <= shard->size_bytes);
	SIM_REQUIRE((int)read.lane->shard == shard_index);
	read.attempts = 1000 + count_attempts(pass, read.lane, offset);
	at = occasion_of(&read);
	change_files(&read, &at);
	read.result = answer_left(&at, shard, offset, size_bytes);
	memset(data, POISON, size_bytes);
	if (read.result > 0) {
		read.expected = (uint32_t)read.result;
		read.is_exact = true;
		memcpy(data, shard->image + offset, read.expected);
		if (happens(SIM_FLIP_ONCE, &at))
			data[chance(3012, &at) % read.expected] ^= 1;
		keep_spoiled(&read, data);
	}
	sim.left++;
	*note_left(pass) = (struct sim_left){
		.read = read,
		.is_passing = read.result == -EINTR || read.result == -EAGAIN ||
			      (read.result > 0 && (size_t)read.result < size_bytes),
	};
	return read.result;
}

/* ---- submit and reap ---------------------------------------------------------------------------- */

static void begin_attempt(struct rsum_io_engine *engine, struct rsum_io_request *request)
{
	struct rsum_buffer *buffer = request->buffer;
	struct sim_read *read = sim_read_of(request);
	const struct sim_shard *shard = &sim.shards[read->lane->shard];
	uint64_t there =
		buffer->offset < shard->size_bytes ? shard->size_bytes - buffer->offset : 0;

	SIM_REQUIRE(read->is_answered && !read->is_exact);
	SIM_REQUIRE(buffer->state == RSUM_BUFFER_READING && request->is_in_flight);
	SIM_REQUIRE(request->file_slot < engine->setup.file_slot_count);
	SIM_REQUIRE(engine->slots[request->file_slot] == request->fd);
	SIM_REQUIRE(sim_shard_of_fd(request->fd) == (int)read->lane->shard);
	check_target(engine, buffer);
	check_alignment(request, shard);
	read->expected = (uint32_t)RSUM_MIN(there, buffer->length);
	SIM_REQUIRE(read->expected == buffer->expected);
	read->attempts++;
	read->is_answered = false;
	read->was_placed = is_placed(buffer);
	sim.reads++;
	/* Whoever looks before it is read does not see what was promised. */
	memset(buffer->data, POISON, buffer->length);
}

static void end_attempt(struct rsum_io_request *request)
{
	struct sim_read *read = sim_read_of(request);

	read->is_answered = true;
	read->result = request->result;
	if (read->is_exact)
		return;
	if (request->result > 0 || request->result == -EINTR || request->result == -EAGAIN ||
	    request->result == -ECANCELED)
		read->passing++;
}

static void break_down(struct rsum_io_engine *engine, int error)
{
	engine->broken = error;
	sim_pass()->broken = error;
}

static int submit(struct rsum_io_engine *engine, struct rsum_io_request **requests, unsigned count)
{
	unsigned i;

	SIM_REQUIRE(count >= 1);
	for (i = 0; i < count; i++) {
		struct flight *flight = &engine->flights[engine->in_flight];
		struct occasion at;

		begin_attempt(engine, requests[i]);
		at = occasion_of(sim_read_of(requests[i]));
		if (!engine->broken && happens(SIM_SUBMIT_BREAKS, &at))
			break_down(engine, -EBADF);
		if (engine->broken) {
			requests[i]->next = engine->refused;
			engine->refused = requests[i];
			continue;
		}
		SIM_REQUIRE(engine->in_flight < engine->setup.depth);
		*flight = (struct flight){
			.request = requests[i],
			.submitted = engine->submitted++,
		};
		engine->in_flight++;
		/* Some devices have the bytes before they say so. */
		if (chance(3004, &at) & 1)
			serve(flight);
	}
	return engine->broken;
}

static unsigned reap_refused(struct rsum_io_engine *engine, struct rsum_io_request **done,
			     unsigned count)
{
	unsigned reaped = 0;

	while (reaped < count && engine->refused) {
		struct rsum_io_request *request = engine->refused;

		engine->refused = request->next;
		request->result = engine->broken;
		end_attempt(request);
		done[reaped++] = request;
	}
	return reaped;
}

static void overtake(const struct rsum_io_engine *engine, const struct flight *flight)
{
	unsigned i;

	for (i = 0; i < engine->in_flight; i++)
		if (engine->flights[i].submitted < flight->submitted) {
			sim.overtaken++;
			return;
		}
}

/* Any one that is in flight. NULL where the engine breaks instead. */
static struct rsum_io_request *complete_one(struct rsum_io_engine *engine)
{
	unsigned which = (unsigned)(delivery_random(&engine->random) % engine->in_flight);
	struct flight *flight = &engine->flights[which], last;
	struct rsum_io_request *request = flight->request;
	const struct occasion at = occasion_of(sim_read_of(request));

	if (!engine->broken) {
		if (happens(SIM_READS_LOST, &at)) {
			engine->has_lost_reads = true;
			break_down(engine, -EBADF);
			return NULL;
		}
		if (happens(SIM_REAP_BREAKS, &at)) {
			break_down(engine, -EBADFD);
			return NULL;
		}
	}
	if (!flight->is_served)
		serve(flight);
	overtake(engine, flight);
	last = engine->flights[--engine->in_flight];
	*flight = last;
	end_attempt(request);
	return request;
}

static int reap(struct rsum_io_engine *engine, struct rsum_io_request **done, unsigned count,
		unsigned timeout_ms)
{
	unsigned reaped = reap_refused(engine, done, count), wanted;
	uint64_t random = delivery_random(&engine->random);

	SIM_REQUIRE(count >= 1);
	if (engine->in_flight == 0 || reaped == count)
		return (int)reaped;
	if (engine->has_lost_reads)
		return reaped > 0 ? (int)reaped : engine->broken;
	/* Nothing yet: none is ready, or the wait was interrupted. */
	if (reaped == 0 && random % 4 == 0 &&
	    (timeout_ms == 0 || engine->idle_reaps < IDLE_REAPS_MAX)) {
		engine->idle_reaps++;
		sim.delayed++;
		return 0;
	}
	engine->idle_reaps = 0;
	wanted = 1 + (unsigned)((random >> 8) % engine->in_flight);
	wanted = RSUM_MIN(wanted, count - reaped);
	while (wanted-- > 0) {
		struct rsum_io_request *request = complete_one(engine);

		if (!request)
			return reaped > 0 ? (int)reaped : engine->broken;
		done[reaped++] = request;
	}
	return (int)reaped;
}

const struct rsum_io_engine_ops sim_engine_ring = {
	.name = "io_uring",
	.is_bypassable = true,
	.start = start_ring,
	.set_file = set_file,
	.submit = submit,
	.reap = reap,
	.stop = stop,
};

const struct rsum_io_engine_ops sim_engine_readers = {
	.name = "pread",
	.start = start_readers,
	.set_file = set_file,
	.submit = submit,
	.reap = reap,
	.stop = stop,
};
