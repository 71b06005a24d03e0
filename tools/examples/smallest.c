/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest loader: one tensor, proven, in memory of our own. smallest PATH TENSOR */
#include <ringsum.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_error err;
	struct ringsum_load load;
	int result;

	if (argc != 3)
		return 2;
	result = ringsum_checkpoint_open(argv[1], NULL, &checkpoint, NULL, &err);
	memset(&load, 0, sizeof(load));
	if (result == RINGSUM_OK && (load.tensor = ringsum_checkpoint_find(checkpoint, argv[2]))) {
		load.destination_bytes = (size_t)load.tensor->size_bytes;
		load.destination = malloc(load.destination_bytes + 1);
		result = ringsum_checkpoint_load(checkpoint, &load, 1, NULL, &err);
	}
	if (result == RINGSUM_OK && load.tensor)
		printf("%s: %zu bytes of %s, proven\n", load.tensor->name, load.destination_bytes,
		       ringsum_dtype_name(load.tensor->dtype));
	else
		fprintf(stderr, "%s\n", result == RINGSUM_OK ? "no such tensor" : err.message);
	result = result == RINGSUM_OK && load.tensor ? EXIT_SUCCESS : EXIT_FAILURE;
	free(load.destination);
	ringsum_checkpoint_close(checkpoint);
	return result;
}
