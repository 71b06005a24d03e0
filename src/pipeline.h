/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: keeps reads in flight over the active lanes, hands what was read to the crew,
 * and takes the buffers back. The only place where engine, pool and workers meet. It knows
 * ranges and their results; what a result means is decided above.
 */
#ifndef RSUM_PIPELINE_H
#define RSUM_PIPELINE_H

#include "base.h"
#include "buffer_pool.h"
#include "digest.h"
#include "hash_worker.h"
#include "plan.h"
#include "ringsum.h"

/* A shard while lanes of it are read. */
struct rsum_pipeline_file {
	int fd;
	uint64_t size_bytes;
	uint32_t alignment; /* of offsets, lengths and memory; a power of two */
	bool is_direct;	    /* O_DIRECT is set on fd; cleared here where the file refuses it */
	bool is_in_memory;  /* its file system has no disk: a read never waits */
};

/* How the loop comes to shards. Called from the loop's thread only. */
struct rsum_pipeline_files {
	void *arg;
	/* Returns 0 or a negative errno; -EMFILE is tried again once another shard is closed. */
	int (*open)(void *arg, uint32_t shard, struct rsum_pipeline_file *file_out);
	/* No lane of the shard is active any more; it may be opened again. Closes fd. */
	void (*close)(void *arg, uint32_t shard, const struct rsum_pipeline_file *file);
};

/*
 * A plan to be read. Several may be open at one time: where a job has no lane left to open, the
 * lanes of the next are opened, so that the disk goes on while the first is hashed to its end.
 */
struct rsum_pipeline_job {
	/* The caller's; fixed until the job is given back. */
	const struct rsum_plan *plan;
	struct rsum_range_result *results; /* by range id; zeroed */
	size_t result_count;
	struct rsum_damage_view *views; /* by range id, where it is asked how bytes look; or NULL */
	struct rsum_pipeline_files files;
	/* Every range of the lane is hashed or has an error. With files.arg. May be NULL. */
	void (*lane_closed)(void *arg, const struct rsum_lane *lane);
	void *owner; /* of no concern here */
	/* Filled when it is given back. */
	uint64_t bytes_read;
	uint64_t elapsed_ns;   /* since its first lane was opened; other jobs may have shared it */
	uint64_t starved_ns;   /* of those, as in the outcome */
	uint64_t throttled_ns; /* of those, as in the outcome */
	bool is_canceled;      /* not all of it was reached */
	/* The loop's. */
	size_t next_lane;  /* in the plan: the next to be opened */
	size_t lanes_left; /* not closed yet */
	uint64_t begin_ns;
	struct rsum_pipeline_job *next;
};

struct rsum_pipeline_outcome;

/* Where jobs come from and go to. Called from the loop's thread only. */
struct rsum_pipeline_source {
	void *arg;
	/*
	 * The next job, or NULL where there is none after timeout_ms (0: does not wait).
	 * *is_over_out is set where none will come any more.
	 */
	struct rsum_pipeline_job *(*next)(void *arg, unsigned timeout_ms, bool *is_over_out);
	/* Takes a job back: each of its ranges is hashed or has an error. */
	void (*done)(void *arg, struct rsum_pipeline_job *job,
		     const struct rsum_pipeline_outcome *outcome);
};

struct rsum_pipeline_setup {
	enum ringsum_engine engine;
	enum ringsum_direct direct;
	uint32_t chunk_bytes;
	uint64_t memory_bytes;
	unsigned depth;
	unsigned threads;
	const struct rsum_digest_impl *impl;
	/* To measure reading alone: every range ends with -ECANCELED, or with a read's error. */
	bool is_hashing_off;
	uint64_t bytes_per_second_max; /* 0: no limit */
	bool is_idle;		       /* reads and threads make way for others */
	uint64_t reads_max;	       /* no more buffers than that are of use; 0: not known */
	/* Called at most 20 times a second with what was hashed; non-zero cancels. May be NULL. */
	int (*progress)(void *arg, const struct rsum_hash_tally *tally);
	void *progress_arg;
	/*
	 * Reads in flight when it is canceled are waited for so long, then left to themselves with
	 * their buffers; 0: for ever. Those into a range's destination are always waited for.
	 */
	unsigned drain_ms;
};

/* What ran. */
struct rsum_pipeline_outcome {
	const char *engine;
	char engine_reason[192]; /* why not io_uring, or "" */
	const char *page_kind;
	uint32_t chunk_bytes;
	unsigned depth;
	unsigned threads;
	uint64_t idle_ns; /* nothing was in flight, for want of a job */
	uint64_t elapsed_ns;
	uint64_t starved_ns;   /* the loop could not read on because buffers were being hashed */
	uint64_t throttled_ns; /* it could have, but for bytes_per_second_max */
	bool is_canceled;
};

/*
 * Reads and hashes the jobs of a source until it is over. Where it ends early, because the engine
 * broke or for a cancellation, jobs that were not begun stay with the source.
 * Returns 0 (also where ranges failed); RINGSUM_E_NOMEM, or RINGSUM_E_IO where no engine or thread
 * starts, with no job taken; or RINGSUM_E_CANCELED.
 */
RSUM_MUST_CHECK int rsum_pipeline_run(const struct rsum_pipeline_setup *setup,
				      const struct rsum_pipeline_source *source,
				      struct rsum_pipeline_outcome *outcome,
				      struct ringsum_error *err);

/*
 * The same for one job, with no more buffers than it has reads. Whatever is returned, each of its
 * ranges is hashed or has an error afterwards.
 */
RSUM_MUST_CHECK int rsum_pipeline_run_job(const struct rsum_pipeline_setup *setup,
					  struct rsum_pipeline_job *job,
					  struct rsum_pipeline_outcome *outcome,
					  struct ringsum_error *err);

#endif
