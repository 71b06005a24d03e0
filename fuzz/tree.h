/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of this process in memory (/dev/shm where it is there), removed at exit. Names are
 * relative, links on the way to them are not followed: nothing is ever made outside.
 */
#ifndef FUZZ_TREE_H
#define FUZZ_TREE_H

#include "base.h"

/* The directory's path, made at the first call. Never NULL. */
const char *fuzz_tree_path(void);

/* Removes what is in it. */
void fuzz_tree_empty(void);

/* All of these are false where there can be nothing of that name. */
bool fuzz_tree_write(const char *name, const void *data, size_t size);
bool fuzz_tree_link(const char *name, const char *target);
bool fuzz_tree_make_directory(const char *name);
bool fuzz_tree_make_fifo(const char *name);

/* Opens what is there for reading and writing: a descriptor, or -1. */
int fuzz_tree_open(const char *name);

#endif
