/* SPDX-License-Identifier: Apache-2.0 */
/* Writes results whole or not at all: to standard output, or to a file by way of a temporary. */
#ifndef RINGSUM_TOOL_OUTPUT_H
#define RINGSUM_TOOL_OUTPUT_H

#include "ringsum.h"

#include <stddef.h>

/* A result on its way. OUTPUT_INIT is the empty state, which may be abandoned. */
struct output {
	int fd;
	const char *name; /* for messages; the caller's, NULL for standard output */
	char *target;	  /* the file to be replaced; NULL where fd is written to as it is */
	char *temporary;  /* beside it, what fd is open on */
};

#define OUTPUT_INIT      \
	{                \
		.fd = -1 \
	}

/*
 * Begins with standard output where path_or_dash is "-"; with a device or FIFO as it is;
 * otherwise with a temporary beside the file of that name, which stays as it is until the commit.
 * Returns 0, or RINGSUM_E_IO with *err (which may be NULL).
 */
int output_open(struct output *output, const char *path_or_dash, struct ringsum_error *err);

/* Writes all of it. Returns as output_open does. */
int output_write(struct output *output, const void *data, size_t size_bytes,
		 struct ringsum_error *err);

/* Syncs the temporary and renames it over the file. Ends the output, on failure by abandoning. */
int output_commit(struct output *output, struct ringsum_error *err);

/* Ends the output and removes the temporary; nothing is left to do after a commit. */
void output_abandon(struct output *output);

/* All of that for a text. The file is whole, or as it was before. */
int output_write_all(const char *path_or_dash, const char *text, struct ringsum_error *err);

#endif
