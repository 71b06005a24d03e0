/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_simulation [COUNT [FIRST [SECONDS]]]: so many seeds from the first on, or as many as fit into
 * the seconds. A seed is a checkpoint, opened, and then verified and loaded in rounds with weather
 * of their own until at least 50 faults were injected. The oracle compares after every round.
 */
#include "sim.h"

#include "checkpoint.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SEEDS_PER_DELIVERY 64
#define FAULTS_MIN 50
#define ROUNDS_MIN 2
#define ROUNDS_MAX 40
#define HANG_SECONDS 300
#define ARENA_BYTES ((size_t)4 << 20)
#define CANARY 0xC5
#define LOADS_MAX 128

static uint8_t *arena; /* for destinations */
static struct delivery delivery;
static uint64_t delivery_number = UINT64_MAX;

struct tally {
	uint64_t seeds, rounds, fewest_faults, most_faults;
	uint64_t identical, refused, undecided, canceled; /* rounds that ended so */
};

static struct tally tally = { .fewest_faults = UINT64_MAX };

/* ---- the checkpoint of a seed ------------------------------------------------------------------- */

static uint64_t choose_size(uint64_t *random)
{
	static const uint64_t sizes[] = { 0,   1,    3,	   4,	 63,   64,   65,   127,	 511,
					  512, 4095, 4096, 4097, 8191, 8192, 8200, 12288 };
	uint64_t chance = delivery_random(random);

	switch (chance % 8) {
	case 0:
	case 1:
	case 2:
		return sizes[(chance >> 8) % RSUM_COUNT_OF(sizes)];
	case 3:
	case 4:
		return (chance >> 8) % 3000;
	case 5:
	case 6:
		return (chance >> 8) % 20000;
	default:
		return 20000 + (chance >> 8) % 70000;
	}
}

static void make_delivery(uint64_t number)
{
	uint64_t random = number * 7919 + 13, total = 0;
	unsigned shard_count = 1 + (unsigned)(delivery_random(&random) % SIM_SHARDS_MAX), i;
	char name[32];

	delivery_init(&delivery, NULL);
	/* At least one tensor in each shard, and enough reads that enough can go wrong. */
	for (i = 0; i < shard_count * 2 || (total < 220000 && i < 60); i++) {
		uint64_t size_bytes = choose_size(&random);

		snprintf(name, sizeof(name), "tensor.%u", i);
		delivery_add(&delivery,
			     i < shard_count ? i
					     : (unsigned)(delivery_random(&random) % shard_count),
			     name, size_bytes, false);
		total += size_bytes;
	}
	delivery_write(&delivery, number, number & 1);
	sim_world_open(&delivery);
	delivery_number = number;
}

static void remove_delivery(void)
{
	if (delivery_number == UINT64_MAX)
		return;
	sim_world_close();
	delivery_deinit(&delivery);
	delivery_number = UINT64_MAX;
}

/* ---- options ------------------------------------------------------------------------------------- */

static int on_progress(void *arg, const struct ringsum_progress *progress)
{
	(void)arg;
	SIM_REQUIRE(progress->bytes_done <= progress->bytes_total);
	return sim.wants_cancel;
}

/* Smaller reads than a user may ask for: more of them, and more that can go wrong. */
static void choose_options(struct ringsum_checkpoint *checkpoint)
{
	static const uint32_t chunks[] = { 4096, 4096, 4096, 8192, 16384 };
	static const uint64_t buffers[] = { 1, 2, 3, 5, 8, 16, 33, 64 };
	struct ringsum_options *options = &checkpoint->options.given;
	uint64_t chance = sim_chance(4000, 0, 0, 0), more = sim_chance(4001, 0, 0, 0);
	const struct rsum_digest_impl *impl;

	options->chunk_bytes = chunks[chance % RSUM_COUNT_OF(chunks)];
	options->memory_bytes =
		options->chunk_bytes * buffers[(chance >> 8) % RSUM_COUNT_OF(buffers)];
	options->depth = 1 + (unsigned)((chance >> 16) % 32);
	options->threads = 1 + (unsigned)((chance >> 24) % 3);
	options->engine = more % 8 == 0	  ? RINGSUM_ENGINE_IO_URING
			  : more % 8 == 1 ? RINGSUM_ENGINE_PREAD
					  : RINGSUM_ENGINE_AUTO;
	options->direct = (more >> 8) % 8 == 0	 ? RINGSUM_DIRECT_REQUIRE
			  : (more >> 8) % 8 == 1 ? RINGSUM_DIRECT_OFF
						 : RINGSUM_DIRECT_PREFER;
	/* Never for long: a checkpoint here is read in less than the hundredth part of a second. */
	if ((more >> 24) % 8 == 0)
		options->bytes_per_second_max = UINT64_C(50000000) << (more >> 32) % 4;
	else
		options->bytes_per_second_max = 0;
	options->progress = on_progress;
	impl = rsum_digest_impl_get(
		(enum ringsum_digest_impl)((more >> 16) % (RINGSUM_DIGEST_AVX512_X16 + 1)));
	if (impl)
		checkpoint->options.digest_impl = impl;
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static void count_result(int result)
{
	tally.rounds++;
	switch (result) {
	case RINGSUM_OK:
		tally.identical++;
		break;
	case RINGSUM_E_REFUSED:
		tally.refused++;
		break;
	case RINGSUM_E_CANCELED:
		tally.canceled++;
		break;
	default:
		tally.undecided++;
		break;
	}
}

static int verify(struct ringsum_checkpoint *checkpoint)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_checkpoint_verify(checkpoint, &report, &err);

	SIM_REQUIRE(result == RINGSUM_OK || err.message[0]);
	sim_check_verify(report, result);
	ringsum_report_free(report);
	return result;
}

/* Destinations in the arena, congruent with the file or not, with room between them. */
static size_t place_loads(struct ringsum_load *loads, size_t count)
{
	size_t at = 4096, i;

	for (i = 0; i < count; i++) {
		uint64_t chance = sim_chance(4002, i, 0, 0);

		at = (size_t)rsum_align_up(at + 64, 4096) + loads[i].tensor->begin % 4096;
		if (chance % 3 == 0)
			at += 1 + (chance >> 8) % 4096;
		loads[i].destination = arena + at;
		loads[i].destination_bytes = loads[i].tensor->size_bytes;
		at += loads[i].tensor->size_bytes;
	}
	at += 4096;
	SIM_REQUIRE(at <= ARENA_BYTES);
	memset(arena, CANARY, at);
	return at;
}

static void check_canaries(const struct ringsum_load *loads, size_t count, size_t used)
{
	size_t at = 0, i;

	for (i = 0; i <= count; i++) {
		size_t end = i < count ? (size_t)((uint8_t *)loads[i].destination - arena) : used;

		for (; at < end; at++)
			if (arena[at] != CANARY)
				sim_fail("byte %zu beside the destinations was written", at);
		if (i < count)
			at += loads[i].tensor->size_bytes;
	}
}

static size_t choose_loads(const struct ringsum_checkpoint *checkpoint, struct ringsum_load *loads)
{
	size_t total = ringsum_checkpoint_tensor_count(checkpoint), count = 0, i;
	uint64_t chance = sim_chance(4003, 0, 0, 0);

	for (i = 0; i < total && count < LOADS_MAX - 1; i++) {
		uint64_t some = sim_chance(4004, i, 0, 0);

		if (chance & 1 && some % 4 == 0)
			continue;
		loads[count++].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
		if (chance & 2 && some >> 8 & 7)
			continue;
		loads[count++].tensor =
			ringsum_checkpoint_tensor_at(checkpoint, (size_t)(some >> 16) % total);
	}
	return count;
}

static int load(struct ringsum_checkpoint *checkpoint)
{
	struct ringsum_load loads[LOADS_MAX] = { 0 };
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	size_t count = choose_loads(checkpoint, loads), used = 0, block_bytes = 0;
	void *block = NULL;
	int result;

	if (count == 0)
		loads[count++].tensor = ringsum_checkpoint_tensor_at(checkpoint, 0);
	if (sim_chance(4005, 0, 0, 0) & 1)
		SIM_REQUIRE(ringsum_block_alloc(checkpoint, loads, count, &block, &block_bytes,
						NULL) == RINGSUM_OK);
	else
		used = place_loads(loads, count);
	result = ringsum_checkpoint_load(checkpoint, loads, count, &report, &err);
	SIM_REQUIRE(result == RINGSUM_OK || err.message[0]);
	sim_check_load(loads, count, report, result);
	if (!block)
		check_canaries(loads, count, used);
	ringsum_report_free(report);
	ringsum_block_free(block, block_bytes);
	return result;
}

static void run_round(struct ringsum_checkpoint *checkpoint, uint64_t seed, unsigned round,
		      bool is_calm)
{
	unsigned descriptors = sim_count_descriptors();
	int result;

	sim_world_begin_round(seed, round, !is_calm);
	choose_options(checkpoint);
	/* Insisting on what a file refuses is no fault of anyone's. */
	if (is_calm)
		checkpoint->options.given.direct = RINGSUM_DIRECT_PREFER;
	result = (seed + round) & 1 ? load(checkpoint) : verify(checkpoint);
	if (is_calm && result != RINGSUM_OK)
		sim_fail("nothing went wrong, and the result is %d", result);
	count_result(result);
	sim_world_end_round();
	if (sim_count_descriptors() != descriptors)
		sim_fail("%u descriptors before, %u after", descriptors, sim_count_descriptors());
}

/* In rain first; a header that could not be read is undecided, whatever else was. */
static struct ringsum_checkpoint *open_checkpoint(uint64_t seed)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	unsigned descriptors = sim_count_descriptors();
	struct ringsum_report *report = NULL;
	int result;

	sim_world_begin_round(seed, 0, true);
	sim.is_opening = true;
	result = ringsum_checkpoint_open(delivery.root, NULL, &checkpoint, &report, NULL);
	sim.is_opening = false;
	if (result != (sim.has_header_error ? RINGSUM_E_UNDECIDED : RINGSUM_OK))
		sim_fail("opening: the result is %d, though %s", result,
			 sim.has_header_error ? "a read failed" : "no read failed");
	SIM_REQUIRE(ringsum_report_verdict(report) == RINGSUM_VERDICT_UNDECIDED);
	ringsum_report_free(report);
	sim_world_end_round();
	if (!checkpoint) {
		SIM_REQUIRE(sim_count_descriptors() == descriptors);
		SIM_REQUIRE(ringsum_checkpoint_open(delivery.root, NULL, &checkpoint, NULL, NULL) ==
			    RINGSUM_OK);
	}
	return checkpoint;
}

static void run_seed(uint64_t seed)
{
	uint64_t before = sim_injected_total(), faults;
	struct ringsum_checkpoint *checkpoint;
	unsigned round;

	if (delivery_number != seed / SEEDS_PER_DELIVERY) {
		remove_delivery();
		make_delivery(seed / SEEDS_PER_DELIVERY);
	}
	sim.seed = seed;
	checkpoint = open_checkpoint(seed);
	for (round = 1; round <= ROUNDS_MAX; round++) {
		run_round(checkpoint, seed, round, false);
		if (round >= ROUNDS_MIN && sim_injected_total() - before >= FAULTS_MIN)
			break;
	}
	faults = sim_injected_total() - before;
	/* What went wrong leaves nothing behind. */
	if (seed % 4 == 0)
		run_round(checkpoint, seed, ROUNDS_MAX + 1, true);
	ringsum_checkpoint_close(checkpoint);
	tally.seeds++;
	tally.fewest_faults = RSUM_MIN(tally.fewest_faults, faults);
	tally.most_faults = RSUM_MAX(tally.most_faults, faults);
}

/* ---- seeds --------------------------------------------------------------------------------------- */

/* An assertion or a crash names its seed too, and so does a hang. */
static void on_signal(int number)
{
	static const char *const words[] = { "crashed", "hung" };
	char text[160];
	int length = snprintf(text, sizeof(text), "Bail out! seed %llu, round %u %s\n",
			      (unsigned long long)sim.seed, sim.round, words[number == SIGALRM]);

	(void)!write(STDOUT_FILENO, text, (size_t)length);
	signal(number == SIGALRM ? SIGABRT : number, SIG_DFL);
	raise(number == SIGALRM ? SIGABRT : number);
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t resident_kib(void)
{
	unsigned long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file) {
		if (fscanf(file, "%lu %lu", &pages, &resident) != 2)
			resident = 0;
		fclose(file);
	}
	return resident * (size_t)(sysconf(_SC_PAGESIZE) / 1024);
}

/* What the allocator has handed out; 0 under the sanitizers, which find leaks themselves. */
static size_t heap_bytes(void)
{
	struct mallinfo2 info;

	remove_delivery();
	malloc_trim(0);
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void print_tally(void)
{
	unsigned i;

	printf("# %llu seeds, %llu rounds: %llu identical, %llu refused, %llu undecided, %llu "
	       "canceled\n",
	       (unsigned long long)tally.seeds, (unsigned long long)tally.rounds,
	       (unsigned long long)tally.identical, (unsigned long long)tally.refused,
	       (unsigned long long)tally.undecided, (unsigned long long)tally.canceled);
	printf("# %llu faults, %llu to %llu a seed; %llu reads and %llu by workers in %llu passes, "
	       "%llu "
	       "overtook others, %llu waits for nothing\n",
	       (unsigned long long)sim_injected_total(), (unsigned long long)tally.fewest_faults,
	       (unsigned long long)tally.most_faults, (unsigned long long)sim.reads,
	       (unsigned long long)sim.left, (unsigned long long)sim.passes_run,
	       (unsigned long long)sim.overtaken, (unsigned long long)sim.delayed);
	for (i = 0; i < SIM_FAULT_COUNT; i++)
		printf("# %10llu %s\n", (unsigned long long)sim.injected[i], sim_fault_names[i]);
}

struct watch {
	size_t heap, resident;
	unsigned descriptors;
};

static struct watch look(void)
{
	return (struct watch){
		.heap = heap_bytes(),
		.resident = resident_kib(),
		.descriptors = sim_count_descriptors(),
	};
}

static void run(uint64_t count, uint64_t first, double seconds)
{
	double begin = now_seconds(), said = begin;
	uint64_t seed;

	for (seed = first; seconds > 0 ? now_seconds() - begin < seconds : seed - first < count;
	     seed++) {
		alarm(HANG_SECONDS);
		run_seed(seed);
		if (seconds <= 0 || now_seconds() - said < 60)
			continue;
		said = now_seconds();
		printf("# %5.0f s: %llu seeds, %zu KiB resident, %u descriptors\n", said - begin,
		       (unsigned long long)tally.seeds, resident_kib(), sim_count_descriptors());
		fflush(stdout);
	}
	alarm(0);
}

/* The allocator keeps up to a quarter of a megabyte of small pieces that it counts as handed out. */
static bool is_flat(const struct watch *before, const struct watch *after)
{
	printf("# heap %zu bytes before, %zu after; resident %zu KiB, %zu KiB; descriptors %u, "
	       "%u\n",
	       before->heap, after->heap, before->resident, after->resident, before->descriptors,
	       after->descriptors);
	/* The sanitizers keep what was freed, and tell no heap. */
	return after->descriptors == before->descriptors && after->heap <= before->heap + 524288 &&
	       (after->heap == 0 || after->resident <= before->resident + 32768);
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	double seconds = argc > 3 ? strtod(argv[3], NULL) : 0;
	struct watch before, after;
	bool had_enough, flat;

	signal(SIGALRM, on_signal);
	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	signal(SIGBUS, on_signal);
	arena = aligned_alloc(1 << 16, ARENA_BYTES);
	SIM_REQUIRE(arena);
	printf("1..3\n");
	/* Once before, so that what is made once is there. */
	run_seed(first);
	tally = (struct tally){ .fewest_faults = UINT64_MAX };
	memset(sim.injected, 0, sizeof(sim.injected));
	sim.reads = sim.left = sim.passes_run = sim.overtaken = sim.delayed = 0;
	before = look();
	run(count, first, seconds);
	after = look();
	print_tally();
	printf("ok 1 - %llu seeds from %llu on: no wrong verdict, status, finding or byte\n",
	       (unsigned long long)tally.seeds, (unsigned long long)first);
	had_enough = tally.fewest_faults >= FAULTS_MIN;
	printf("%sok 2 - at least %d faults were injected for each\n", had_enough ? "" : "not ",
	       FAULTS_MIN);
	flat = is_flat(&before, &after);
	printf("%sok 3 - memory and descriptors are what they were\n", flat ? "" : "not ");
	free(arena);
	return had_enough && flat ? 0 : 1;
}
