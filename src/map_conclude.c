/* SPDX-License-Identifier: Apache-2.0 */
/* What became of promises and shards, for the map of a report. */
#include "reading.h"
#include "report_map.h"

#include <time.h>

static uint8_t state_of(enum rsum_promise_status status)
{
	switch (status) {
	case RSUM_PROMISE_IDENTICAL:
		return RSUM_MAP_PROVEN;
	case RSUM_PROMISE_REFUSED:
		return RSUM_MAP_REFUSED;
	case RSUM_PROMISE_UNDECIDED:
	case RSUM_PROMISE_PENDING:
	default:
		return RSUM_MAP_UNDECIDED;
	}
}

struct listing {
	const struct rsum_reading *reading;
	struct rsum_map_item *items;
	size_t count;
	size_t next_want; /* wants are the readable promises, of tensors and then of files */
};

static void list_item(struct listing *listing, const struct rsum_standing *standing,
		      const struct ringsum_tensor *tensor, uint32_t shard, bool is_file)
{
	const struct rsum_want *want =
		standing->is_readable ? &listing->reading->wants[listing->next_want++] : NULL;

	if (shard >= listing->reading->checkpoint->manifest.file_count)
		return; /* it has no place in a shard */
	listing->items[listing->count++] = (struct rsum_map_item){
		.tensor = tensor,
		.shard = shard,
		.state = state_of(rsum_promise_conclude(standing, want)),
		.is_damaged = want && want->is_damaged,
		.is_file = is_file,
	};
}

static void list_tensors(struct listing *listing)
{
	const struct ringsum_checkpoint *checkpoint = listing->reading->checkpoint;
	size_t i;

	for (i = 0; i < checkpoint->manifest.promise_count; i++) {
		const struct rsum_promise *promise = &checkpoint->manifest.promises[i];

		list_item(listing, &checkpoint->standings[i], &promise->tensor,
			  promise->is_wellformed ? promise->file_index : UINT32_MAX, false);
	}
}

/* `stand_ins` take the place of tensors, one for each promise of a file. */
static void list_files(struct listing *listing, struct ringsum_tensor *stand_ins)
{
	const struct ringsum_checkpoint *checkpoint = listing->reading->checkpoint;
	size_t i;

	for (i = 0; i < checkpoint->manifest.file_promise_count; i++) {
		const struct rsum_file_promise *promise = &checkpoint->manifest.file_promises[i];
		const struct rsum_standing *standing = &checkpoint->file_standings[i];
		uint64_t size_bytes = checkpoint->shards[promise->file_index].identity.size_bytes;

		stand_ins[i] = (struct ringsum_tensor){
			.name = promise->path,
			.begin = promise->begin,
			.end = promise->end == UINT64_MAX ? size_bytes : promise->end,
		};
		stand_ins[i].size_bytes = stand_ins[i].end - stand_ins[i].begin;
		list_item(listing, standing, &stand_ins[i], promise->file_index, true);
		/* What is not of the size promised was not read at all. */
		if (standing->is_refused && !promise->is_conflicting)
			listing->items[listing->count - 1].is_damaged = true;
	}
}

static void list_sources(const struct ringsum_checkpoint *checkpoint,
			 struct rsum_map_source *sources)
{
	size_t i;

	for (i = 0; i < checkpoint->manifest.file_count; i++) {
		const struct rsum_shard *shard = &checkpoint->shards[i];

		sources[i] = (struct rsum_map_source){
			.name = checkpoint->manifest.files[i],
			.is_there = shard->is_opened,
			.size_bytes = shard->is_opened ? shard->identity.size_bytes : 0,
			.data_begin = shard->data_begin,
			.data_end = shard->data_end,
			.refetch_begin =
				shard->is_to_refetch ? shard->refetch_begin : RSUM_MAP_NOT_AT_ALL,
		};
	}
}

void rsum_map_conclude(const struct rsum_reading *reading)
{
	const struct rsum_manifest *manifest = &reading->checkpoint->manifest;
	struct ringsum_report *report = reading->report;
	struct rsum_map_source *sources = calloc(manifest->file_count + 1, sizeof(*sources));
	struct ringsum_tensor *stand_ins =
		calloc(manifest->file_promise_count + 1, sizeof(*stand_ins));
	struct listing listing = { .reading = reading };

	listing.items = calloc(manifest->promise_count + manifest->file_promise_count + 1,
			       sizeof(*listing.items));
	report->map_is_lost = true;
	if (listing.items && sources && stand_ins) {
		list_tensors(&listing);
		report->map->homeless_count = manifest->promise_count - listing.count;
		list_files(&listing, stand_ins);
		RSUM_ASSERT(listing.next_want == reading->want_count);
		list_sources(reading->checkpoint, sources);
		report->map->ended_at = (int64_t)time(NULL);
		report->map_is_lost = rsum_map_fill(report->map, listing.items, listing.count,
						    sources, manifest->file_count) != RINGSUM_OK;
	}
	free(listing.items);
	free(stand_ins);
	free(sources);
	if (report->map_is_lost) {
		rsum_map_free(report->map);
		report->map = NULL;
	}
}
