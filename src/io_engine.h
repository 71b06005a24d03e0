/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between the event loop and the system: start, submit, reap, stop. One thread calls
 * them all. An engine moves bytes and reports exactly what the system answered; what an answer
 * means (short reads, retries, the end of a file) is decided above, once for all engines.
 */
#ifndef RSUM_IO_ENGINE_H
#define RSUM_IO_ENGINE_H

#include "base.h"
#include "buffer_pool.h"
#include "ringsum.h"

/* A read in flight. It stays where it is, untouched by the loop, until it is reaped. */
struct rsum_io_request {
	struct rsum_buffer *buffer; /* data, offset, length */
	int fd;
	uint32_t file_slot;	      /* of the registered file, below file_slot_count */
	int32_t result;		      /* after reaping: bytes read, or a negative errno */
	bool is_in_flight;	      /* the loop's: submitted, and not reaped yet */
	struct rsum_io_request *next; /* the engine's */
};

struct rsum_io_setup {
	struct rsum_buffer_pool *pool; /* registered where the engine can */
	unsigned depth;		       /* most requests in flight; at most RSUM_LIMIT_DEPTH */
	unsigned file_slot_count;
	bool is_idle; /* reads make way for everyone else's */
};

struct rsum_io_engine;

struct rsum_io_engine_ops {
	const char *name; /* as in reports */
	/* What a read brings is what pread on the descriptor brings: others may do it instead. */
	bool is_bypassable;
	/* Of the library under it: as built, as running (NULL: not known). NULL: there is none. */
	void (*versions)(const char **built_out, const char **running_out);
	/*
	 * Sets up and completes one real read before it says that it works. Returns 0 or a
	 * negative errno, with a line in `why` (for the report) about what was refused.
	 */
	int (*start)(const struct rsum_io_setup *setup, struct rsum_io_engine **engine_out,
		     char *why, size_t why_bytes);
	/* Announces the descriptor behind a slot; -1 takes it away. Never with reads on it. */
	void (*set_file)(struct rsum_io_engine *engine, uint32_t file_slot, int fd);
	/*
	 * Hands requests to the system. Returns 0, or a negative errno where the engine is
	 * broken: requests that the system did not take are then reaped with that error.
	 */
	int (*submit)(struct rsum_io_engine *engine, struct rsum_io_request **requests,
		      unsigned count);
	/*
	 * Gives up to `count` completed requests; waits for the first at most timeout_ms
	 * (0: does not wait). Returns their number, or a negative errno where the engine is
	 * broken.
	 */
	int (*reap)(struct rsum_io_engine *engine, struct rsum_io_request **done, unsigned count,
		    unsigned timeout_ms);
	/*
	 * In place of stop, where requests in flight do not come back: begins no more of them, and
	 * frees nothing. They, their buffers and the engine may be touched for ever.
	 */
	void (*abandon)(struct rsum_io_engine *engine);
	/*
	 * Frees everything. Requests are in flight only where the engine is broken; then it waits
	 * until none of them can write to memory any more. They are not reaped.
	 */
	void (*stop)(struct rsum_io_engine *engine);
};

extern const struct rsum_io_engine_ops rsum_io_engine_uring;
extern const struct rsum_io_engine_ops rsum_io_engine_pread;

#endif
