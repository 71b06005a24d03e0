/* SPDX-License-Identifier: Apache-2.0 */
/* Part of confine.c: openat2 with RESOLVE_BENEATH, for kernels and sandboxes without it. */
#ifndef RSUM_CONFINE_WALK_H
#define RSUM_CONFINE_WALK_H

#include "base.h"

/*
 * Opens `name` beneath root_fd with open flags of openat2 (O_PATH, O_NOFOLLOW and so on). Links
 * are followed as long as no step leaves the root; an absolute link or a `..` above the root is
 * -EXDEV. Returns the descriptor or a negative errno; -EAGAIN where the tree changed underneath.
 */
RSUM_MUST_CHECK int rsum_confine_walk_open(int root_fd, const char *name, int flags);

#endif
