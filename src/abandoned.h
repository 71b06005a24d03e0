/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that never come back: a server that is gone, a disk that hangs. Whoever was asked to stop
 * does not wait for them for ever, but the kernel may still write to their memory at any time, so
 * that is never given back.
 */
#ifndef RSUM_ABANDONED_H
#define RSUM_ABANDONED_H

#include "buffer_pool.h"
#include "io_engine.h"

/* Takes all of it over, until the process ends. */
void rsum_abandoned_keep(struct rsum_io_engine *engine, struct rsum_io_request *requests,
			 const struct rsum_buffer_pool *pool);

#endif
