/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load of every tensor of a checkpoint costs, into one block of huge pages. Public API only.
 *
 *	bench_load fresh|touched DIRECTORY
 *
 * Prints the clock's seconds, the processor's seconds (user and system, all threads) and the peak
 * of memory in KiB. `fresh` counts the allocation of the block too, whose pages come while it is
 * filled; `touched` counts the load alone, into a block that was written to before. Opening the
 * checkpoint counts in neither.
 */
#include "ringsum.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct block {
	struct ringsum_load *loads;
	size_t load_count;
	void *memory;
	size_t size_bytes;
};

static double now(clockid_t clock)
{
	struct timespec at;

	clock_gettime(clock, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static int list_all(const struct ringsum_checkpoint *checkpoint, struct block *block)
{
	size_t i;

	block->load_count = ringsum_checkpoint_tensor_count(checkpoint);
	block->loads = calloc(block->load_count, sizeof(*block->loads));
	for (i = 0; block->loads && i < block->load_count; i++)
		block->loads[i].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
	return block->loads ? RINGSUM_OK : RINGSUM_E_NOMEM;
}

static int allocate(const struct ringsum_checkpoint *checkpoint, struct block *block,
		    struct ringsum_error *err)
{
	return ringsum_block_alloc(checkpoint, block->loads, block->load_count, &block->memory,
				   &block->size_bytes, err);
}

static int measure(struct ringsum_checkpoint *checkpoint, bool is_touched,
		   struct ringsum_error *err)
{
	struct block block = { 0 };
	double wall, processor;
	struct rusage usage;
	int result = list_all(checkpoint, &block);

	if (result == RINGSUM_OK && is_touched) {
		result = allocate(checkpoint, &block, err);
		if (result == RINGSUM_OK)
			memset(block.memory, 1, block.size_bytes);
	}
	wall = -now(CLOCK_MONOTONIC);
	processor = -now(CLOCK_PROCESS_CPUTIME_ID);
	if (result == RINGSUM_OK && !is_touched)
		result = allocate(checkpoint, &block, err);
	if (result == RINGSUM_OK)
		result = ringsum_checkpoint_load(checkpoint, block.loads, block.load_count, NULL,
						 err);
	wall += now(CLOCK_MONOTONIC);
	processor += now(CLOCK_PROCESS_CPUTIME_ID);
	getrusage(RUSAGE_SELF, &usage);
	if (result == RINGSUM_OK)
		printf("%.6f %.6f %ld\n", wall, processor, usage.ru_maxrss);
	ringsum_block_free(block.memory, block.size_bytes);
	free(block.loads);
	return result;
}

int main(int argc, char **argv)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_error err = { 0 };
	bool is_touched = argc == 3 && strcmp(argv[1], "touched") == 0;
	int result;

	if (argc != 3 || (!is_touched && strcmp(argv[1], "fresh") != 0)) {
		fprintf(stderr, "usage: bench_load fresh|touched DIRECTORY\n");
		return 2;
	}
	result = ringsum_checkpoint_open(argv[2], &options, &checkpoint, NULL, &err);
	if (result == RINGSUM_OK)
		result = measure(checkpoint, is_touched, &err);
	if (result != RINGSUM_OK)
		fprintf(stderr, "bench_load: %s\n", err.message);
	ringsum_checkpoint_close(checkpoint);
	return result == RINGSUM_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
