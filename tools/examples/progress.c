/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader that shows how far it is, and stops when told to: by Ctrl-C, or once PERCENT is
 * reached. progress PATH [PERCENT]
 */
#include <ringsum.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
	(void)number;
	is_interrupted = 1;
}

struct watch {
	double stop_at_percent;
};

/* Called from the thread that loads. Whatever is not 0 stops it. */
static int on_progress(void *watch_ptr, const struct ringsum_progress *progress)
{
	const struct watch *watch = (const struct watch *)watch_ptr;
	double percent = 100;

	if (progress->bytes_total > 0)
		percent *= (double)progress->bytes_done / (double)progress->bytes_total;
	fprintf(stderr, "\r%5.1f %%", percent);
	return is_interrupted || percent >= watch->stop_at_percent;
}

static int load_all(struct ringsum_checkpoint *checkpoint, struct ringsum_error *err)
{
	size_t count = ringsum_checkpoint_tensor_count(checkpoint), block_bytes = 0, proven = 0, i;
	struct ringsum_load *loads = (struct ringsum_load *)calloc(count, sizeof(*loads));
	void *block = NULL;
	int result;

	if (!loads)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < count; i++)
		loads[i].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
	result = ringsum_block_alloc(checkpoint, loads, count, &block, &block_bytes, err);
	if (result == RINGSUM_OK)
		result = ringsum_checkpoint_load(checkpoint, loads, count, NULL, err);
	/* Also after a cancellation: what was proven by then can be used. */
	for (i = 0; block && i < count; i++)
		proven += loads[i].status == RINGSUM_OK;
	printf("\n%s: %zu of %zu tensors proven\n", ringsum_result_text(result), proven, count);
	ringsum_block_free(block, block_bytes);
	free(loads);
	return result;
}

int main(int argc, char **argv)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *checkpoint = NULL;
	struct watch watch = { 1000 };
	struct ringsum_error err;
	int result;

	if (argc < 2 || argc > 3)
		return 2;
	if (argc == 3)
		watch.stop_at_percent = atof(argv[2]);
	signal(SIGINT, interrupt);
	options.progress = on_progress;
	options.progress_arg = &watch;
	result = ringsum_checkpoint_open(argv[1], &options, &checkpoint, NULL, &err);
	if (result == RINGSUM_OK)
		result = load_all(checkpoint, &err);
	if (result != RINGSUM_OK)
		fprintf(stderr, "%s\n", err.message);
	ringsum_checkpoint_close(checkpoint);
	return result == RINGSUM_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
