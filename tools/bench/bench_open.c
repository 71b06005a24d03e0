/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a checkpoint takes to open: manifest, headers and their comparison, without a byte of
 * a tensor. Public API only.
 *
 *	bench_open DIRECTORY [OPENS]
 *
 * Prints tensors, the medians of the opens in milliseconds of the clock and of the processor, and
 * the peak of memory.
 */
#include "ringsum.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define OPENS_DEFAULT 7
#define OPENS_MAX 1000

struct times {
	double wall_ms[OPENS_MAX];
	double processor_ms[OPENS_MAX]; /* hardly drifts where the machine is not quiet */
};

static double now_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Opens, notes how long that took, and closes. */
static int open_once(const char *path, struct times *times, int i, size_t *tensor_count_out)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_error err;
	int result;

	options.profile = RINGSUM_PROFILE_NONE;
	times->wall_ms[i] = -now_ms(CLOCK_MONOTONIC);
	times->processor_ms[i] = -now_ms(CLOCK_PROCESS_CPUTIME_ID);
	result = ringsum_checkpoint_open(path, &options, &checkpoint, NULL, &err);
	times->wall_ms[i] += now_ms(CLOCK_MONOTONIC);
	times->processor_ms[i] += now_ms(CLOCK_PROCESS_CPUTIME_ID);
	if (result != RINGSUM_OK) {
		fprintf(stderr, "bench_open: %s\n", err.message);
		return result;
	}
	*tensor_count_out = ringsum_checkpoint_tensor_count(checkpoint);
	ringsum_checkpoint_close(checkpoint);
	return RINGSUM_OK;
}

int main(int argc, char **argv)
{
	int opens = argc == 3 ? atoi(argv[2]) : OPENS_DEFAULT, i;
	static struct times times;
	size_t tensor_count = 0;
	struct rusage usage;

	if (argc < 2 || argc > 3 || opens < 1 || opens > OPENS_MAX) {
		fprintf(stderr, "usage: bench_open DIRECTORY [OPENS (1 to %d)]\n", OPENS_MAX);
		return 2;
	}
	for (i = 0; i < opens; i++)
		if (open_once(argv[1], &times, i, &tensor_count) != RINGSUM_OK)
			return 1;
	qsort(times.wall_ms, (size_t)opens, sizeof(double), compare);
	qsort(times.processor_ms, (size_t)opens, sizeof(double), compare);
	getrusage(RUSAGE_SELF, &usage);
	printf("%zu tensors: open %.1f ms (median of %d, %.1f to %.1f), processor %.1f ms (%.2f us "
	       "a "
	       "tensor), peak RSS %.1f MB\n",
	       tensor_count, times.wall_ms[opens / 2], opens, times.wall_ms[0],
	       times.wall_ms[opens - 1], times.processor_ms[opens / 2],
	       times.processor_ms[opens / 2] * 1e3 / (double)tensor_count,
	       (double)usage.ru_maxrss * 1024 / 1e6);
	return 0;
}
