/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of names, each with a number, and the keyed hash behind it. The key is drawn once per
 * process, so that a hostile file cannot choose names that collide.
 */
#ifndef RSUM_NAME_INDEX_H
#define RSUM_NAME_INDEX_H

#include "base.h"

/* SipHash-1-3 under the process's key. */
uint64_t rsum_hash_bytes(const void *data, size_t size_bytes);

#define RSUM_NAME_INDEX_NONE UINT32_MAX

/* All zero is the empty state. Names are referenced, not copied; they must outlive the index. */
struct rsum_name_index {
	struct rsum_name_slot *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t used_count;
};

/* Room for `count` names in all; a mere convenience, since adding makes room too. */
RSUM_MUST_CHECK int rsum_name_index_reserve(struct rsum_name_index *index, size_t count);

/*
 * Adds name -> number. Returns 0, or RINGSUM_E_NOMEM. Where the name is there already,
 * *existing_out is its number and nothing is added; otherwise it is RSUM_NAME_INDEX_NONE.
 */
RSUM_MUST_CHECK int rsum_name_index_add(struct rsum_name_index *index, const char *name,
					uint32_t number, uint32_t *existing_out);

/*
 * The same in steps, for many names in a row: the tag of a name, the place that it will need
 * fetched ahead of time, and the addition.
 */
uint32_t rsum_name_index_tag(const char *name);
void rsum_name_index_expect(const struct rsum_name_index *index, uint32_t tag);
RSUM_MUST_CHECK int rsum_name_index_add_tagged(struct rsum_name_index *index, const char *name,
					       uint32_t tag, uint32_t number,
					       uint32_t *existing_out);

/* The number of `name`, or RSUM_NAME_INDEX_NONE. */
uint32_t rsum_name_index_find(const struct rsum_name_index *index, const char *name);

void rsum_name_index_deinit(struct rsum_name_index *index);

#endif
