/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How bytes look that are not those promised, as far as that is cheap to know: it tells a copy
 * that stopped from one that mixed tensors up. Pure; only ever asked about what is damaged.
 */
#ifndef RSUM_DAMAGE_H
#define RSUM_DAMAGE_H

#include "base.h"
#include "digest.h"
#include "manifest.h"
#include "ringsum.h"

/* Zeros at the end of a tensor tell something from a sector on: weights may end with a few. */
#define RSUM_DAMAGE_ZERO_TAIL_BYTES 512

/* What was seen of a range whose bytes are hashed once more. All zero is the empty state. */
struct rsum_damage_view {
	uint64_t nonzero_end; /* in the range: one past the last byte that is not zero */
	const struct ringsum_tensor *owner; /* whose promise these bytes are, or NULL */
};

/* Looks at bytes of the range, from `at` in it on; runs come in order. */
void rsum_damage_see(struct rsum_damage_view *view, uint64_t at, const uint8_t *data,
		     size_t size_bytes);

/* A digest that is not the one promised, and where to say whose it is. */
struct rsum_damage_digest {
	const uint8_t *digest; /* of RSUM_SHA256_BYTES */
	struct rsum_damage_view *view;
};

/* Sets the owner of each to the first promise with that digest, if any. Sorts `digests`. */
void rsum_damage_find_owners(const struct rsum_manifest *manifest,
			     struct rsum_damage_digest *digests, size_t count);

/* Fills the looks of a finding about `tensor`, which has bytes; view may be NULL. */
void rsum_damage_judge(const struct rsum_damage_view *view, const struct ringsum_tensor *tensor,
		       struct ringsum_finding *finding);

/* The same for a tensor that does not end before its shard of that size does. */
void rsum_damage_judge_cut(const struct ringsum_tensor *tensor, uint64_t shard_bytes,
			   struct ringsum_finding *finding);

/* ": " and how the finding's bytes look, for its message, or "". Returns buffer. */
const char *rsum_damage_describe(const struct ringsum_finding *finding, char *buffer,
				 size_t size_bytes);

/* As many bytes as any description needs. */
#define RSUM_DAMAGE_TEXT_BYTES 768

#endif
