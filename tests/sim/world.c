/* SPDX-License-Identifier: Apache-2.0 */
/* Files, weather, and what came of it. */
#include "sim.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sim_world sim;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

const char *const sim_fault_names[SIM_FAULT_COUNT] = {
	[SIM_SHORT] = "short read",
	[SIM_EINTR] = "EINTR",
	[SIM_EAGAIN] = "EAGAIN",
	[SIM_ECANCELED] = "ECANCELED",
	[SIM_NO_PLACE] = "destination refuses direct reads",
	[SIM_NO_DIRECT_AT_READ] = "direct I/O refused at a read",
	[SIM_ERROR] = "EIO and its like",
	[SIM_EMPTY] = "0 bytes",
	[SIM_LONG] = "more bytes than there were",
	[SIM_FLIP_ONCE] = "bits flipped in one read",
	[SIM_FLIP_ALWAYS] = "bits flipped for good",
	[SIM_TOUCH] = "shard touched",
	[SIM_REWRITE] = "shard rewritten",
	[SIM_RESIZE] = "shard resized",
	[SIM_REPLACE] = "shard replaced",
	[SIM_DOCUMENT] = "manifest touched",
	[SIM_OPEN_FAILS] = "shard cannot be opened",
	[SIM_OPEN_GONE] = "shard gone",
	[SIM_TOO_MANY_FILES] = "too many open files",
	[SIM_OPEN_INTERRUPTED] = "opening interrupted",
	[SIM_NO_DIRECT_AT_OPEN] = "direct I/O refused when set",
	[SIM_NO_POOL] = "no memory for the pool",
	[SIM_NO_RING] = "no ring",
	[SIM_NO_READERS] = "no reader threads",
	[SIM_FEWER_THREADS] = "hashing thread refused",
	[SIM_SUBMIT_BREAKS] = "engine breaks at a submit",
	[SIM_REAP_BREAKS] = "engine breaks at a reap",
	[SIM_READS_LOST] = "engine loses its reads",
	[SIM_CANCEL] = "canceled",
	[SIM_HEADER_SHORT] = "header read short",
	[SIM_HEADER_EINTR] = "header read interrupted",
	[SIM_HEADER_ERROR] = "header unreadable",
};

void sim_fail(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	printf("Bail out! seed %llu, round %u: ", (unsigned long long)sim.seed, sim.round);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n# to see it again: test_simulation 1 %llu\n", (unsigned long long)sim.seed);
	fflush(stdout);
	_exit(1);
}

/* ---- chance ----------------------------------------------------------------------------------- */

static uint64_t stir(uint64_t state, uint64_t value)
{
	state ^= value;
	return delivery_random(&state);
}

uint64_t sim_chance(unsigned what, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t state = stir(sim.seed, (uint64_t)sim.round << 32 | what);

	return stir(stir(stir(state, a), b), c);
}

void sim_count(enum sim_fault fault)
{
	__atomic_fetch_add(&sim.injected[fault], 1, __ATOMIC_RELAXED);
}

bool sim_happens(enum sim_fault fault, uint64_t a, uint64_t b, uint64_t c)
{
	if (!sim.is_raining || sim.rates[fault] == 0 ||
	    sim_chance(fault, a, b, c) % 1000000 >= sim.rates[fault])
		return false;
	sim_count(fault);
	return true;
}

uint64_t sim_injected_total(void)
{
	uint64_t total = 0;
	unsigned i;

	for (i = 0; i < SIM_FAULT_COUNT; i++)
		total += sim.injected[i];
	return total;
}

/*
 * Each round has a few kinds of weather, not all of them: rain every day would hide what only a
 * storm alone shows.
 */
static void choose_weather(void)
{
	/* How many of a million reads, openings and so on, and in how many of 64 rounds at all. */
	static const struct {
		unsigned rate;
		unsigned rounds;
	} weather[SIM_FAULT_COUNT] = {
		[SIM_SHORT] = { 200000, 40 },
		[SIM_EINTR] = { 150000, 40 },
		[SIM_EAGAIN] = { 150000, 40 },
		[SIM_ECANCELED] = { 150000, 32 },
		[SIM_NO_PLACE] = { 300000, 16 },
		[SIM_NO_DIRECT_AT_READ] = { 300000, 8 },
		[SIM_ERROR] = { 8000, 16 },
		[SIM_EMPTY] = { 5000, 8 },
		[SIM_LONG] = { 60000, 6 },
		[SIM_FLIP_ONCE] = { 12000, 16 },
		[SIM_FLIP_ALWAYS] = { 500000, 20 },
		[SIM_TOUCH] = { 3000, 4 },
		[SIM_REWRITE] = { 3000, 4 },
		[SIM_RESIZE] = { 3000, 4 },
		[SIM_REPLACE] = { 3000, 4 },
		[SIM_DOCUMENT] = { 1000000, 2 },
		[SIM_OPEN_FAILS] = { 100000, 4 },
		[SIM_OPEN_GONE] = { 60000, 3 },
		[SIM_TOO_MANY_FILES] = { 400000, 8 },
		[SIM_OPEN_INTERRUPTED] = { 200000, 6 },
		[SIM_NO_DIRECT_AT_OPEN] = { 300000, 8 },
		[SIM_NO_POOL] = { 500000, 1 },
		[SIM_NO_RING] = { 600000, 6 },
		[SIM_NO_READERS] = { 300000, 4 },
		[SIM_FEWER_THREADS] = { 500000, 6 },
		[SIM_SUBMIT_BREAKS] = { 4000, 3 },
		[SIM_REAP_BREAKS] = { 4000, 3 },
		[SIM_READS_LOST] = { 4000, 3 },
		[SIM_CANCEL] = { 8000, 4 },
		[SIM_HEADER_SHORT] = { 500000, 24 },
		[SIM_HEADER_EINTR] = { 300000, 24 },
		[SIM_HEADER_ERROR] = { 100000, 16 },
	};
	unsigned i;

	for (i = 0; i < SIM_FAULT_COUNT; i++) {
		uint64_t chance = sim_chance(1000 + i, 0, 0, 0);

		sim.rates[i] = chance % 64 < weather[i].rounds ? weather[i].rate : 0;
		/* Sometimes a little, sometimes much: eight refusals in a row are to be seen too. */
		if (i <= SIM_ECANCELED && chance >> 32 & 1)
			sim.rates[i] = sim.rates[i] / 100 * (uint32_t)((chance >> 33) % 180);
	}
	if (!sim.rates[SIM_SHORT] && !sim.rates[SIM_EINTR] && !sim.rates[SIM_EAGAIN])
		sim.rates[SIM_SHORT] = 200000;
}

/* ---- files -------------------------------------------------------------------------------------- */

static void open_shard(unsigned index)
{
	struct sim_shard *shard = &sim.shards[index];
	struct stat status;
	FILE *file = fopen(delivery_shard_path(sim.delivery, index), "rb");

	SIM_REQUIRE(file && fstat(fileno(file), &status) == 0);
	*shard = (struct sim_shard){
		.device = status.st_dev,
		.inode = status.st_ino,
		.size_bytes = (uint64_t)status.st_size,
	};
	shard->promised = malloc(shard->size_bytes);
	shard->image = malloc(shard->size_bytes);
	SIM_REQUIRE(shard->promised && shard->image);
	SIM_REQUIRE(fread(shard->promised, 1, shard->size_bytes, file) == shard->size_bytes);
	fclose(file);
}

void sim_world_open(const struct delivery *delivery)
{
	char path[128];
	struct stat status;
	unsigned i;

	SIM_REQUIRE(delivery->shard_count <= SIM_SHARDS_MAX);
	sim.delivery = delivery;
	snprintf(path, sizeof(path), "%s/TENSORS.json", delivery->root);
	SIM_REQUIRE(stat(path, &status) == 0);
	sim.manifest_device = status.st_dev;
	sim.manifest_inode = status.st_ino;
	for (i = 0; i < delivery->shard_count; i++)
		open_shard(i);
	sim.digests = calloc(delivery->count, sizeof(*sim.digests));
	SIM_REQUIRE(sim.digests);
	for (i = 0; i < delivery->count; i++)
		SIM_REQUIRE(rsum_sha256_of(delivery->tensors[i].bytes,
					   delivery->tensors[i].size_bytes, sim.digests[i]) == 0);
}

void sim_world_close(void)
{
	unsigned i;

	for (i = 0; i < SIM_SHARDS_MAX; i++) {
		free(sim.shards[i].promised);
		free(sim.shards[i].image);
		sim.shards[i] = (struct sim_shard){ 0 };
	}
	free(sim.digests);
	sim.digests = NULL;
	sim.delivery = NULL;
}

static void reset_shard(unsigned index)
{
	struct sim_shard *shard = &sim.shards[index];
	uint64_t chance = sim_chance(2000, index, 0, 0);
	static const uint32_t alignments[] = { 0, 512, 4096, 4096, 4096, 8192 };

	memcpy(shard->image, shard->promised, shard->size_bytes);
	shard->current_bytes = shard->size_bytes;
	shard->generation = shard->ticks = shard->old_ticks = 0;
	shard->direct_is_known = chance & 1;
	shard->direct_alignment = alignments[(chance >> 1) % RSUM_COUNT_OF(alignments)];
	shard->refuses_direct_at_read = sim_happens(SIM_NO_DIRECT_AT_READ, index, 0, 0);
}

static void flip_for_good(void)
{
	unsigned i;

	sim.flip_count = 0;
	for (i = 0; i < SIM_FLIPS_MAX; i++) {
		uint64_t where = sim_chance(2001, i, 0, 0), what = sim_chance(2002, i, 0, 0);
		size_t index = where % sim.delivery->count;
		const struct delivery_tensor *tensor = &sim.delivery->tensors[index];
		struct sim_flip *flip = &sim.flips[sim.flip_count];

		if (tensor->size_bytes == 0 || !sim_happens(SIM_FLIP_ALWAYS, i, 0, 0))
			continue;
		flip->shard = tensor->shard;
		flip->byte = tensor->begin + (what >> 8) % tensor->size_bytes;
		flip->mask = (uint8_t)(1u << what % 8);
		sim.shards[flip->shard].image[flip->byte] ^= flip->mask;
		sim.flip_count++;
	}
}

void sim_world_begin_round(uint64_t seed, unsigned round, bool is_raining)
{
	unsigned i;

	sim.seed = seed;
	sim.round = round;
	sim.is_raining = is_raining;
	sim.pass_count = sim.header_reads = 0;
	sim.wants_cancel = sim.document_changed = sim.has_header_error = false;
	choose_weather();
	for (i = 0; i < sim.delivery->shard_count; i++)
		reset_shard(i);
	flip_for_good();
}

static void clear_pass(struct sim_pass *pass)
{
	size_t i;

	for (i = 0; i < pass->read_count; i++)
		free(pass->reads[i].spoiled);
	for (i = 0; i < pass->left_count; i++)
		free(pass->left[i].read.spoiled);
	free(pass->left);
	free(pass->reads);
	free(pass->kept);
	*pass = (struct sim_pass){ 0 };
}

void sim_world_end_round(void)
{
	unsigned i;

	for (i = 0; i < RSUM_COUNT_OF(sim.passes); i++)
		clear_pass(&sim.passes[i]);
	sim.pass_count = 0;
	sim_reset_time();
	sim.is_raining = false;
	sim.document_changed = false;
	for (i = 0; i < sim.delivery->shard_count; i++)
		reset_shard(i);
}

/* ---- who is who ---------------------------------------------------------------------------------- */

struct sim_pass *sim_pass(void)
{
	struct sim_pass *pass = sim.pass_count ? &sim.passes[sim.pass_count - 1] : NULL;

	return pass && pass->is_running ? pass : NULL;
}

int sim_shard_of_fd(int fd)
{
	struct stat status;
	unsigned i;

	if (!sim.delivery || fstat(fd, &status) != 0)
		return -1;
	for (i = 0; i < sim.delivery->shard_count; i++)
		if (sim.shards[i].device == status.st_dev && sim.shards[i].inode == status.st_ino)
			return (int)i;
	return -1;
}

/* The read that a request is about: an attempt more of its buffer's latest, or a new one. */
struct sim_read *sim_read_of(const struct rsum_io_request *request)
{
	struct sim_pass *pass = sim_pass();
	const struct rsum_buffer *buffer = request->buffer;
	struct sim_read *latest;

	SIM_REQUIRE(pass && buffer->lane && buffer->lane->plan && buffer->index < SIM_BUFFERS_MAX);
	if (pass->latest[buffer->index] < pass->read_count) {
		latest = &pass->reads[pass->latest[buffer->index]];
		if (latest->lane == buffer->lane->plan && latest->offset == buffer->offset)
			return latest;
	}
	if (pass->read_count == pass->read_capacity) {
		pass->read_capacity = pass->read_capacity ? pass->read_capacity * 2 : 128;
		pass->reads = realloc(pass->reads, pass->read_capacity * sizeof(*pass->reads));
		SIM_REQUIRE(pass->reads);
	}
	pass->reads[pass->read_count] = (struct sim_read){
		.lane = buffer->lane->plan,
		.offset = buffer->offset,
		.is_answered = true, /* nothing is asked yet */
	};
	pass->latest[buffer->index] = pass->read_count;
	return &pass->reads[pass->read_count++];
}
