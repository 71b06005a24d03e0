/* SPDX-License-Identifier: Apache-2.0 */
/* Being a good neighbour: threads and reads that make way for everyone else's. */
#ifndef RSUM_NEIGHBOUR_H
#define RSUM_NEIGHBOUR_H

#include "base.h"

/* The I/O priority of the idle class, as the kernel takes it for a thread or a request. */
unsigned rsum_idle_io_priority(void);

/*
 * Gives the calling thread the lowest priority for the processor (nice 19) and for I/O (idle).
 * What the system refuses stays as it was: the work is the same.
 */
void rsum_thread_make_idle(void);

#endif
