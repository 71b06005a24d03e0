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
	uint32_t promise;		 /* index in the manifest */
	uint8_t *destination;		 /* tensor.size_bytes of memory for its bytes, or NULL */
	enum rsum_promise_status status; /* out */
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
	/* To measure reading alone: no byte is hashed, so no want that has any is ever proven. */
	bool is_hashing_off;
};

/*
 * Reads and weighs every want. Returns 0 where it was carried through, whatever the statuses;
 * RINGSUM_E_CANCELED where some were not reached; otherwise an error with its line in *err, and
 * statuses are undecided. A destination whose status is not identical holds anything.
 */
RSUM_MUST_CHECK int rsum_reading_run(struct rsum_reading *reading, struct ringsum_error *err);

/* Whether a first word is what the profile asks of a tensor (rule E3); adds the finding if not. */
bool rsum_marker_is_right(const struct rsum_profile *profile, const struct ringsum_tensor *tensor,
			  const uint8_t head[4], struct ringsum_report *report);

#endif
