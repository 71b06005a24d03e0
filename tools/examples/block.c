/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader that reads a whole checkpoint into one block of huge pages: reads land where the
 * tensors will be used, and nothing is copied. block PATH
 */
#include <ringsum.h>

#include <stdio.h>
#include <stdlib.h>

/* One load for every tensor; destinations come with the block. */
static struct ringsum_load *list_all(const struct ringsum_checkpoint *checkpoint, size_t *count_out)
{
	size_t count = ringsum_checkpoint_tensor_count(checkpoint), i;
	struct ringsum_load *loads = (struct ringsum_load *)calloc(count, sizeof(*loads));

	for (i = 0; loads && i < count; i++)
		loads[i].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
	*count_out = count;
	return loads;
}

/* What was not proven is zeroed and says so; everything else is there all the same. */
static void tell_of_failures(const struct ringsum_load *loads, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (loads[i].status != RINGSUM_OK)
			fprintf(stderr, "%s: %s\n", loads[i].tensor->name,
				ringsum_result_text(loads[i].status));
}

int main(int argc, char **argv)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_load *loads = NULL;
	struct ringsum_error err;
	size_t count = 0, block_bytes = 0;
	void *block = NULL;
	int result;

	if (argc != 2)
		return 2;
	options.direct = RINGSUM_DIRECT_PREFER;
	result = ringsum_checkpoint_open(argv[1], &options, &checkpoint, NULL, &err);
	if (result == RINGSUM_OK) {
		loads = list_all(checkpoint, &count);
		if (!loads)
			return EXIT_FAILURE;
		result = ringsum_block_alloc(checkpoint, loads, count, &block, &block_bytes, &err);
	}
	if (result == RINGSUM_OK) {
		result = ringsum_checkpoint_load(checkpoint, loads, count, NULL, &err);
		tell_of_failures(loads, count);
	}
	if (result == RINGSUM_OK)
		printf("%zu tensors proven in a block of %zu bytes\n", count, block_bytes);
	else
		fprintf(stderr, "%s\n", err.message);
	ringsum_block_free(block, block_bytes);
	ringsum_checkpoint_close(checkpoint);
	free(loads);
	return result == RINGSUM_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
