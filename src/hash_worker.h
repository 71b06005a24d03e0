/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew: threads that hash what was read, in order within a lane, several lanes side by side.
 *
 * The event loop opens lanes, appends buffers to them in the order of the file, marks buffers
 * as read in whatever order reads complete, and takes hashed buffers back. A lane is held by at
 * most one worker at a time, so its stream needs no lock; only the hand-off does.
 */
#ifndef RSUM_HASH_WORKER_H
#define RSUM_HASH_WORKER_H

#include "base.h"
#include "buffer_pool.h"
#include "damage.h"
#include "digest.h"
#include "plan.h"

/* What became of a range; the crew fills one per range id. */
struct rsum_range_result {
	uint8_t digest[RSUM_DIGEST_BYTES_MAX]; /* where is_hashed, as far as its algorithm goes */
	uint8_t head[4];		       /* its first bytes, as far as it has them */
	bool is_hashed;			       /* all of its bytes were read and hashed */
	int error;			       /* a negative errno behind a failed read, or 0 */
	uint64_t error_offset;		       /* in the shard, of the read that failed */
};

enum rsum_lane_state {
	RSUM_LANE_CLOSED,
	RSUM_LANE_WAITING, /* its next buffer is not read yet */
	RSUM_LANE_QUEUED,  /* there are bytes of it to hash and no worker has it */
	RSUM_LANE_HELD,	   /* by a worker */
	RSUM_LANE_DONE,	   /* every range is accounted for */
};

/* An active lane. */
struct rsum_hash_lane {
	/* Fixed while it is open. */
	const struct rsum_lane *plan;
	bool is_long; /* it would end last if it went at the pace of the full width */
	const struct rsum_range *ranges;   /* the plan's */
	struct rsum_range_result *results; /* by range id */
	struct rsum_damage_view *views;	   /* by range id, to look at the bytes besides; or NULL */
	/* Guarded by the crew's lock. */
	enum rsum_lane_state state;
	struct rsum_buffer *head, *tail; /* in the order of the file */
	struct rsum_hash_lane *next;	 /* in the crew's queue */
	/* Of the worker that holds it, or of the queue. */
	struct rsum_buffer *buffer; /* the one being hashed, or NULL */
	struct rsum_sha256 stream;
	struct rsum_stream other;     /* takes its place for all algorithms but SHA-256 */
	struct rsum_sha256_span span; /* what is left of the current run of bytes */
	bool has_span;
	const uint8_t *span_begin;
	size_t span_bytes;   /* of the run when it began, at `position` */
	bool is_unread;	     /* the run was left to the holder to read */
	uint32_t next_range; /* in the plan's ranges */
	uint64_t position;   /* in the shard: the next byte to look at */
	bool is_skipping;    /* the rest of the current range is of no use */
};

struct rsum_hash_crew;

struct rsum_hash_setup {
	const struct rsum_digest_impl *impl;
	unsigned thread_count;
	unsigned lane_count; /* lanes that can be open at the same time */
	bool is_hashing_off; /* buffers only pass through, and no range is ever hashed */
	bool is_idle;	     /* the threads make way for everyone else's */
};

/* Starts the threads. Returns 0, RINGSUM_E_NOMEM, or RINGSUM_E_IO where no thread starts. */
RSUM_MUST_CHECK int rsum_hash_crew_start(const struct rsum_hash_setup *setup,
					 struct rsum_hash_crew **crew_out);

/* Threads that run; fewer than asked where the system gave no more. */
unsigned rsum_hash_crew_threads(const struct rsum_hash_crew *crew);

/* The lane with that number, below lane_count. */
struct rsum_hash_lane *rsum_hash_crew_lane(struct rsum_hash_crew *crew, unsigned lane_number);

/* What a lane is opened for. */
struct rsum_hash_work {
	const struct rsum_lane *lane;
	const struct rsum_range *ranges;   /* the plan's */
	struct rsum_range_result *results; /* by range id */
	struct rsum_damage_view *views;	   /* by range id, or NULL */
};

/*
 * Opens a CLOSED lane for a plan's lane; loop only. The more streams go side by side the slower
 * is each: an is_long lane goes in a narrow company, as fast as a few streams can.
 */
void rsum_hash_lane_open(struct rsum_hash_lane *lane, const struct rsum_hash_work *work,
			 bool is_long);

/* Appends a buffer in state READING; buffers of a lane come in the order of the file. */
void rsum_hash_crew_append(struct rsum_hash_crew *crew, struct rsum_buffer *buffer);

/*
 * Marks buffers as read (READING -> READY) and wakes workers.
 * is_pressed: the loop cannot go on reading until buffers come back, or has nothing left to
 * read; otherwise a worker waits until enough lanes are ready to be hashed side by side.
 */
void rsum_hash_crew_ready(struct rsum_hash_crew *crew, struct rsum_buffer **buffers, unsigned count,
			  bool is_pressed);

/* Sums so far. */
struct rsum_hash_tally {
	uint64_t hashed_bytes;
	uint64_t differing_count; /* ranges whose digest is not the promised one */
};

/*
 * Takes back hashed buffers (a list by ->next, in state HASHING) and waits for the first at most
 * timeout_ms (0: not at all).
 */
struct rsum_buffer *rsum_hash_crew_collect(struct rsum_hash_crew *crew, unsigned timeout_ms,
					   struct rsum_hash_tally *tally_out);

/* Closes a lane that is DONE, or that no buffer is appended to. False where it is neither. */
bool rsum_hash_lane_try_close(struct rsum_hash_crew *crew, struct rsum_hash_lane *lane,
			      bool is_abandoned);

/* Joins the threads and frees all. Every buffer was collected. */
void rsum_hash_crew_stop(struct rsum_hash_crew *crew);

#endif
