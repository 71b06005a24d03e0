/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over promised ranges of a checkpoint: read, hash, deliver, compare, and read what
 * differs a second time, so that corruption and storage that answers differently twice are told
 * apart. verify.c wants every promise; load.c wants some, with a place for their bytes.
 */
#ifndef RSUM_READING_H
#define RSUM_READING_H

#include "base.h"
#include "checkpoint.h"

/* One promise to prove. Its header must have confirmed the range (standing.is_readable). */
struct rsum_want {
	uint32_t promise;		 /* index in the manifest's promises */
	bool is_file;			 /* or in its promises of files */
	uint8_t *destination;		 /* tensor.size_bytes of memory for its bytes, or NULL */
	bool is_known;			 /* proven by an earlier run, while the shard was as now */
	uint8_t known_head[4];		 /* its first bytes then */
	enum rsum_promise_status status; /* out */
	bool is_damaged;		 /* out: refused, since its bytes are not those promised */
};

struct rsum_reading {
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_report *report; /* findings and facts go here */
	struct rsum_want *wants;
	size_t want_count;
	/*
	 * Whether bytes that were as promised only in a second reading count as proven: for a
	 * caller who receives exactly those bytes they are; of the storage they prove nothing.
	 */
	bool accepts_second_reading;
	/* Where it is canceled as a matter of course: reads in flight are waited for in any case. */
	bool is_patient;
	/* To measure reading alone: no byte is hashed, so no want that has any is ever proven. */
	bool is_hashing_off;
	struct rsum_journal *journal; /* where what is proven is noted; or NULL */
};

/*
 * Reads and weighs every want. Returns 0 where it was carried through, whatever the statuses;
 * RINGSUM_E_CANCELED where some were not reached; otherwise an error with its line in *err, and
 * statuses are undecided. A destination whose status is not identical holds anything.
 */
RSUM_MUST_CHECK int rsum_reading_run(struct rsum_reading *reading, struct ringsum_error *err);

/*
 * The same in steps, for who reads several checkpoints as one: jobs to read come from
 * rsum_reading_next until it gives none; each goes to rsum_reading_take once it was read.
 */
struct rsum_pass;
struct rsum_pipeline_job;
struct rsum_pipeline_outcome;
struct rsum_pipeline_setup;

/* NULL where memory ran out; statuses are undecided either way. */
RSUM_MUST_CHECK struct rsum_pass *rsum_reading_begin(struct rsum_reading *reading);

/*
 * The next job (every want, then what differs), or NULL where nothing is left to read. It is the
 * pass's, until the next call. Returns 0, or an error that ends the reading, with its line.
 */
RSUM_MUST_CHECK int rsum_reading_next(struct rsum_pass *pass, struct rsum_pipeline_job **job_out,
				      struct ringsum_error *err);

/* Takes note of a job that was read, in so many nanoseconds. */
void rsum_reading_take(struct rsum_pass *pass, const struct rsum_pipeline_outcome *outcome,
		       uint64_t elapsed_ns);

/* All of that until nothing is left to read, with an engine of its own. */
RSUM_MUST_CHECK int rsum_reading_drive(struct rsum_pass *pass, struct ringsum_error *err);

/* Weighs every want, as far as it was read, and frees the pass. */
void rsum_reading_end(struct rsum_pass *pass, bool is_canceled);

/* What the options say of the pipeline. */
void rsum_reading_set_up(const struct rsum_options *options, struct rsum_pipeline_setup *setup_out);

/* How a promise stands in the end, with its want where its bytes were read. */
enum rsum_promise_status rsum_promise_conclude(const struct rsum_standing *standing,
					       const struct rsum_want *want);

/*
 * Fills the map of the reading's report from what became of the wants, which are the readable
 * promises in the manifest's order. Where memory is short the map is lost.
 */
void rsum_map_conclude(const struct rsum_reading *reading);

/* Whether a first word is what the profile asks of a tensor (rule E3); adds the finding if not. */
bool rsum_marker_is_right(const struct rsum_profile *profile, const struct ringsum_tensor *tensor,
			  const uint8_t head[4], struct ringsum_report *report);

#endif
