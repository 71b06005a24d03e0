/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints a command is about: its operands, a list in a file, and what lies below them. */
#ifndef RINGSUM_TOOL_PATHS_H
#define RINGSUM_TOOL_PATHS_H

#include "arguments.h"

#define PATHS_MAX 1000000

struct path_wishes {
	const char *files_from; /* a file, "-", or NULL */
	int is_null;		/* its paths end with NUL rather than a newline */
	int is_recursive;
};

/* All zero is the empty state. */
struct paths {
	char **list; /* owned, as are its strings */
	int count;
	int capacity;
	int is_incomplete; /* not all of a tree could be looked through; it was told */
};

/*
 * Fills *paths_out, in order: operands, then those of the file; in place of each, where that is
 * wished for, the checkpoints below it, sorted. A path below which there is none stays, so that it
 * is told of. Returns ARGUMENTS_GOOD, or an exit status where something is wrong and was told.
 */
int paths_gather(const struct command *command, const struct path_wishes *wishes,
		 const struct operands *operands, struct paths *paths_out);

void paths_free(struct paths *paths);

#endif
