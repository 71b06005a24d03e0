/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the promises of a checkpoint lie and how they stand, as a report keeps it where it is
 * asked to: cells of each shard to be looked at, of a bounded number, and every range that has to
 * be fetched again. Pure: it knows neither files nor how anything was read.
 */
#ifndef RSUM_REPORT_MAP_H
#define RSUM_REPORT_MAP_H

#include "arena.h"
#include "base.h"
#include "curve.h"
#include "ringsum.h"

/* In the order of what wins where several share a cell. */
enum rsum_map_state {
	RSUM_MAP_HEADER,     /* the safetensors header, which no digest promises */
	RSUM_MAP_UNPROMISED, /* data that nobody promised */
	RSUM_MAP_PROVEN,
	RSUM_MAP_UNDECIDED,
	RSUM_MAP_REFUSED,
	RSUM_MAP_STATE_COUNT
};

/*
 * A promised tensor, several neighbours in one, or bytes between them (tensor_count 0), whose state
 * is that of the file's promise where there is one. A promise of a file counts like a tensor.
 */
struct rsum_map_cell {
	uint64_t begin; /* in the shard; ranges that hostile manifests give may overlap */
	uint64_t end;
	const char *name;      /* of the first tensor, shortened; NULL where there is none */
	const char *last_name; /* of the last one, where there are several; else NULL */
	const char *type;      /* "BF16 [512, 128]" of a single tensor, else NULL */
	uint32_t tensor_count;
	uint32_t counts[RSUM_MAP_STATE_COUNT]; /* of them, by state */
	enum rsum_map_state state;	       /* the worst of them */
	bool is_file;			       /* one of a file or a range: others may lie in it */
};

struct rsum_map_shard {
	const char *name;
	uint64_t size_bytes;  /* on disk */
	uint64_t scale_bytes; /* what its strip stands for: also what is missing; not 0 */
	uint64_t tensor_count;
	uint64_t counts[RSUM_MAP_STATE_COUNT]; /* of promised tensors, by state */
	size_t first_cell;
	size_t cell_count; /* 0 where it is not drawn */
	bool is_there;	   /* it could be opened */
	bool is_drawn;
};

/* Bytes to be fetched again. */
struct rsum_map_range {
	uint32_t shard;
	uint64_t begin;
	uint64_t end; /* one past the last; RSUM_MAP_TO_THE_END: whatever the good file has */
};

#define RSUM_MAP_TO_THE_END UINT64_MAX
#define RSUM_MAP_NOT_AT_ALL UINT64_MAX

struct rsum_map {
	struct rsum_arena strings;
	struct rsum_map_shard *shards; /* in the manifest's order */
	size_t shard_count;
	struct rsum_map_cell *cells; /* by shard, then by begin */
	size_t cell_count;
	size_t cell_capacity;
	struct rsum_map_range *ranges; /* by shard, then by begin; neither touch nor overlap */
	size_t range_count;
	size_t range_capacity;
	uint64_t homeless_count; /* promises too broken to have a place in a shard */
	struct rsum_curve curve; /* of the first reading */
	int64_t ended_at;	 /* seconds since 1970, UTC; 0 where unknown */
};

/* A promise as it stands in the end. */
struct rsum_map_item {
	const struct ringsum_tensor *tensor;
	uint32_t shard;
	uint8_t state;	 /* enum rsum_map_state: proven, undecided or refused */
	bool is_damaged; /* its bytes are there and are not those promised */
	bool is_file;	 /* of a file or a range of it, which tensors may be in */
};

/* What is known of a shard. */
struct rsum_map_source {
	const char *name;
	bool is_there;
	uint64_t size_bytes;	/* on disk */
	uint64_t data_begin;	/* where the header ends; 0 where there is no valid one */
	uint64_t data_end;	/* where the header says that the file ends; 0 likewise */
	uint64_t refetch_begin; /* from here on to its end it has to be fetched again, or
				   RSUM_MAP_NOT_AT_ALL */
};

/*
 * Fills a map of which nothing but curve and ended_at is set. Sorts `items`. Returns 0, or
 * RINGSUM_E_NOMEM with a map that is good for nothing but being freed. Copies all strings.
 */
RSUM_MUST_CHECK int rsum_map_fill(struct rsum_map *map, struct rsum_map_item *items,
				  size_t item_count, const struct rsum_map_source *sources,
				  size_t source_count);

/* NULL is fine. */
void rsum_map_free(struct rsum_map *map);

#endif
