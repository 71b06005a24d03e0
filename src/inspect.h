/* SPDX-License-Identifier: Apache-2.0 */
/* What an inspection holds, for its writers. The functions are those of ringsum.h. */
#ifndef RSUM_INSPECT_H
#define RSUM_INSPECT_H

#include "arena.h"
#include "base.h"
#include "ringsum.h"
#include "safetensors.h"

struct rsum_inspected {
	struct ringsum_shard shard;
	struct rsum_safetensors header; /* complete where shard.tensor_count is not 0 */
};

struct ringsum_inspection {
	struct rsum_arena strings;
	const char *path;	       /* as given */
	struct rsum_inspected *shards; /* sorted by name */
	size_t shard_count;
};

/* Tensors and bytes as the headers show them, the headers of truncated files included. */
struct rsum_inspect_sum {
	uint64_t tensor_count;
	uint64_t size_bytes; /* UINT64_MAX where it does not fit */
};

struct rsum_inspect_totals {
	struct rsum_inspect_sum all;
	struct rsum_inspect_sum by_dtype[RINGSUM_DTYPE_COUNT];
	size_t shards_valid, shards_refused, shards_undecided;
};

void rsum_inspect_add_up(const struct ringsum_inspection *inspection,
			 struct rsum_inspect_totals *totals_out);

/* "valid", "refused" or "undecided". Ownership: static. */
const char *rsum_inspect_verdict_text(enum ringsum_verdict verdict);

#endif
