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
};

/* How the loop comes to shards. Called from the loop's thread only. */
struct rsum_pipeline_files {
	void *arg;
	/* Returns 0 or a negative errno; -EMFILE is tried again once another shard is closed. */
	int (*open)(void *arg, uint32_t shard, struct rsum_pipeline_file *file_out);
	/* No lane of the shard is active any more; it may be opened again. Closes fd. */
	void (*close)(void *arg, uint32_t shard, const struct rsum_pipeline_file *file);
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
	/* By range id, where it is asked how the bytes look that are hashed; or NULL. */
	struct rsum_damage_view *views;
	uint64_t bytes_per_second_max; /* 0: no limit */
	bool is_idle;		       /* reads and threads make way for others */
	struct rsum_pipeline_files files;
	/* Called at most 20 times a second with the bytes hashed; non-zero cancels. May be NULL. */
	int (*progress)(void *arg, uint64_t bytes_done);
	void *progress_arg;
};

/* What ran. */
struct rsum_pipeline_outcome {
	const char *engine;
	char engine_reason[192]; /* why not io_uring, or "" */
	const char *page_kind;
	uint32_t chunk_bytes;
	unsigned depth;
	unsigned threads;
	uint64_t bytes_read;
	uint64_t elapsed_ns;
	uint64_t starved_ns;   /* the loop could not read on because buffers were being hashed */
	uint64_t throttled_ns; /* it could have, but for bytes_per_second_max */
	bool is_canceled;
};

/*
 * Reads and hashes every range of the plan. results has one entry per range id and is zeroed by
 * the caller; afterwards each is either hashed or has an error.
 * Returns 0 (also where ranges failed), RINGSUM_E_NOMEM, RINGSUM_E_IO where no engine or thread
 * starts, or RINGSUM_E_CANCELED.
 */
RSUM_MUST_CHECK int rsum_pipeline_run(const struct rsum_pipeline_setup *setup,
				      const struct rsum_plan *plan,
				      struct rsum_range_result *results, size_t result_count,
				      struct rsum_pipeline_outcome *outcome,
				      struct ringsum_error *err);

#endif
