/* SPDX-License-Identifier: Apache-2.0 */
/* Loads: verified ranges into the caller's memory, and memory for them. */
#include "checkpoint.h"
#include "error.h"
#include "reading.h"

#include <string.h>
#include <sys/mman.h>

#define BLOCK_ALIGNMENT ((size_t)2 << 20)

/* Neighbours in a shard stay neighbours in a block across a gap of this size. */
#define BLOCK_GAP_BYTES ((uint64_t)64 << 10)

RSUM_PUBLIC size_t ringsum_checkpoint_alignment(const struct ringsum_checkpoint *checkpoint)
{
	size_t alignment = 4096, i;

	for (i = 0; i < checkpoint->manifest.file_count; i++) {
		const struct rsum_file_identity *identity = &checkpoint->shards[i].identity;

		alignment = RSUM_MAX(alignment, identity->direct_offset_alignment);
		alignment = RSUM_MAX(alignment, identity->direct_memory_alignment);
	}
	return alignment;
}

/* The promise that a tensor of the public table is part of, or NULL. */
static const struct rsum_promise *promise_of(const struct ringsum_checkpoint *checkpoint,
					     const struct ringsum_tensor *tensor)
{
	const struct rsum_manifest *manifest = &checkpoint->manifest;
	uintptr_t first = (uintptr_t)&manifest->promises[0].tensor, at = (uintptr_t)tensor;

	if (!tensor || manifest->promise_count == 0 || at < first ||
	    (at - first) % sizeof(struct rsum_promise) != 0 ||
	    (at - first) / sizeof(struct rsum_promise) >= manifest->promise_count)
		return NULL;
	return &manifest->promises[(at - first) / sizeof(struct rsum_promise)];
}

/* ---- checks before anything is read ------------------------------------------------------- */

struct extent {
	uintptr_t begin;
	uintptr_t end;
	size_t load;
};

static int compare_extents(const void *a_ptr, const void *b_ptr)
{
	const struct extent *a = a_ptr, *b = b_ptr;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

static int check_load(const struct ringsum_checkpoint *checkpoint, const struct ringsum_load *load,
		      size_t index, struct ringsum_error *err)
{
	if (!promise_of(checkpoint, load->tensor))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "load %zu: its tensor is not one of this checkpoint", index);
	if (load->reserved[0] || load->reserved[1])
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "load %zu: a reserved member is not zero", index);
	if (load->tensor->size_bytes > load->destination_bytes)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "load %zu: %.200s has %llu bytes and its destination %zu",
				      index, load->tensor->name,
				      (unsigned long long)load->tensor->size_bytes,
				      load->destination_bytes);
	if (!load->destination && load->tensor->size_bytes > 0)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "load %zu: the destination of %.200s is NULL", index,
				      load->tensor->name);
	if ((uintptr_t)load->destination > UINTPTR_MAX - load->tensor->size_bytes)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "load %zu: the destination of %.200s runs past the end of "
				      "memory",
				      index, load->tensor->name);
	return RINGSUM_OK;
}

/* Overlapping destinations could not both hold what was proven. */
static int check_overlaps(const struct ringsum_load *loads, size_t load_count,
			  struct ringsum_error *err)
{
	struct extent *extents = calloc(load_count + 1, sizeof(*extents));
	size_t count = 0, i;
	int result = RINGSUM_OK;

	if (!extents)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the loads");
	for (i = 0; i < load_count; i++) {
		uintptr_t begin = (uintptr_t)loads[i].destination;

		if (loads[i].tensor->size_bytes > 0)
			extents[count++] = (struct extent){
				.begin = begin,
				.end = begin + (size_t)loads[i].tensor->size_bytes,
				.load = i,
			};
	}
	qsort(extents, count, sizeof(*extents), compare_extents);
	for (i = 1; i < count && result == RINGSUM_OK; i++)
		if (extents[i].begin < extents[i - 1].end)
			result = rsum_error_set(err, RINGSUM_E_INVALID,
						"the destinations of loads %zu and %zu overlap",
						extents[i - 1].load, extents[i].load);
	free(extents);
	return result;
}

static int check_loads(const struct ringsum_checkpoint *checkpoint,
		       const struct ringsum_load *loads, size_t load_count,
		       struct ringsum_error *err)
{
	size_t i;
	int result;

	if (!checkpoint || (!loads && load_count > 0) || load_count > UINT32_MAX)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no checkpoint or no loads");
	for (i = 0; i < load_count; i++) {
		result = check_load(checkpoint, &loads[i], i, err);
		if (result != RINGSUM_OK)
			return result;
	}
	return check_overlaps(loads, load_count, err);
}

/* ---- loading ----------------------------------------------------------------------------------- */

/* A report on these loads alone: what open found stays with open. */
static struct ringsum_report *new_report(const struct ringsum_checkpoint *checkpoint,
					 const struct ringsum_load *loads, size_t load_count)
{
	struct ringsum_report *report = rsum_report_clone(checkpoint->report);
	size_t i;

	if (!report)
		return NULL;
	report->finding_count = report->note_count = 0;
	report->totals = (struct ringsum_totals){ .tensors_promised = load_count };
	for (i = 0; i < load_count; i++)
		if (!rsum_add_u64(report->totals.bytes_promised, loads[i].tensor->size_bytes,
				  &report->totals.bytes_promised))
			report->totals.bytes_promised = UINT64_MAX;
	return report;
}

static int status_of(enum rsum_promise_status status, bool is_canceled)
{
	switch (status) {
	case RSUM_PROMISE_IDENTICAL:
		return RINGSUM_OK;
	case RSUM_PROMISE_REFUSED:
		return RINGSUM_E_REFUSED;
	case RSUM_PROMISE_UNDECIDED:
	case RSUM_PROMISE_PENDING:
	default:
		return is_canceled ? RINGSUM_E_CANCELED : RINGSUM_E_UNDECIDED;
	}
}

/* Nothing unproven stays in the caller's memory. */
static void settle(struct ringsum_load *loads, const struct rsum_reading *reading, bool is_canceled)
{
	struct ringsum_totals *totals = &reading->report->totals;
	size_t i;

	for (i = 0; i < reading->want_count; i++) {
		loads[i].status = status_of(reading->wants[i].status, is_canceled);
		if (loads[i].status == RINGSUM_OK) {
			totals->tensors_identical++;
			totals->bytes_proven += loads[i].tensor->size_bytes;
			continue;
		}
		if (loads[i].tensor->size_bytes > 0)
			memset(loads[i].destination, 0, (size_t)loads[i].tensor->size_bytes);
		if (loads[i].status == RINGSUM_E_REFUSED)
			totals->tensors_refused++;
		else
			totals->tensors_undecided++;
	}
}

static int load_all(struct ringsum_checkpoint *checkpoint, struct ringsum_load *loads,
		    struct rsum_reading *reading, struct ringsum_error *err)
{
	struct ringsum_error reason = { 0 };
	struct rsum_refusal refusal;
	size_t i;
	int result;

	for (i = 0; i < reading->want_count; i++)
		reading->wants[i] = (struct rsum_want){
			.promise = (uint32_t)(promise_of(checkpoint, loads[i].tensor) -
					      checkpoint->manifest.promises),
			.destination = loads[i].destination,
		};
	result = rsum_reading_run(reading, &reason);
	if (result != RINGSUM_OK && result != RINGSUM_E_CANCELED) {
		(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR,
				       "reading could not be carried out: %s", reason.message);
		rsum_report_add_refusal(reading->report, &refusal, NULL, NULL);
	}
	settle(loads, reading, result == RINGSUM_E_CANCELED);
	if (result == RINGSUM_E_CANCELED)
		return rsum_error_set(err, result, "canceled");
	if (result == RINGSUM_OK)
		rsum_report_set_complete(reading->report);
	/* Of no tensors at all nothing is undecided. */
	if (reading->want_count == 0)
		return RINGSUM_OK;
	return rsum_report_result(reading->report, err);
}

/* Whatever happens next, no load says that it is proven before it is. */
static void mark_undecided(struct ringsum_load *loads, size_t load_count)
{
	size_t i;

	for (i = 0; loads && i < load_count; i++)
		loads[i].status = RINGSUM_E_UNDECIDED;
}

RSUM_PUBLIC int ringsum_checkpoint_load(struct ringsum_checkpoint *checkpoint,
					struct ringsum_load *loads, size_t load_count,
					struct ringsum_report **report_out,
					struct ringsum_error *err)
{
	struct rsum_reading reading = {
		.checkpoint = checkpoint,
		.want_count = load_count,
		.accepts_second_reading = true,
	};
	int result;

	mark_undecided(loads, load_count);
	result = check_loads(checkpoint, loads, load_count, err);
	if (result != RINGSUM_OK)
		return result;
	reading.report = new_report(checkpoint, loads, load_count);
	reading.wants = calloc(load_count + 1, sizeof(*reading.wants));
	if (!reading.report || !reading.wants) {
		ringsum_report_free(reading.report);
		free(reading.wants);
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the loads");
	}
	result = load_all(checkpoint, loads, &reading, err);
	if (report_out)
		*report_out = reading.report;
	else
		ringsum_report_free(reading.report);
	free(reading.wants);
	return result;
}

/* ---- memory for loads ------------------------------------------------------------------------ */

/* A load's place in the order of the disk. */
struct place {
	const struct rsum_promise *promise;
	size_t load;
};

static int compare_places(const void *a_ptr, const void *b_ptr)
{
	const struct place *a = a_ptr, *b = b_ptr;

	if (a->promise->file_index != b->promise->file_index)
		return a->promise->file_index < b->promise->file_index ? -1 : 1;
	if (a->promise->tensor.begin != b->promise->tensor.begin)
		return a->promise->tensor.begin < b->promise->tensor.begin ? -1 : 1;
	return a->load < b->load ? -1 : a->load > b->load;
}

/* The first address from `at` on that is congruent to the offset, modulo the alignment. */
static uint64_t congruent(uint64_t at, uint64_t offset, uint64_t alignment)
{
	return at + ((offset - at) & (alignment - 1));
}

/*
 * Sets destinations relative to the block's start and returns its size, or 0 where it exceeds
 * what an address can say.
 */
static uint64_t lay_out(struct ringsum_load *loads, const struct place *places, size_t count,
			uint64_t alignment)
{
	const struct rsum_promise *before = NULL;
	uint64_t at = 0, begin;
	size_t i;

	for (i = 0; i < count; i++) {
		const struct ringsum_tensor *tensor = &places[i].promise->tensor;
		struct ringsum_load *load = &loads[places[i].load];

		if (before && before->file_index == places[i].promise->file_index &&
		    tensor->begin >= before->tensor.end &&
		    tensor->begin - before->tensor.end <= BLOCK_GAP_BYTES)
			begin = at + (tensor->begin - before->tensor.end);
		else
			begin = congruent(at, tensor->begin, alignment);
		if (!rsum_add_u64(begin, tensor->size_bytes, &at) || at > SIZE_MAX / 2)
			return 0;
		load->destination = (void *)(uintptr_t)begin;
		load->destination_bytes = (size_t)tensor->size_bytes;
		before = places[i].promise;
	}
	return RSUM_MAX(at, 1);
}

/* Maps more than is needed and trims both ends to the alignment of a huge page. */
static void *map_block(size_t size_bytes)
{
	uint8_t *memory = mmap(NULL, size_bytes + BLOCK_ALIGNMENT, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (memory == MAP_FAILED)
		return NULL;
	before = (BLOCK_ALIGNMENT - ((uintptr_t)memory & (BLOCK_ALIGNMENT - 1))) &
		 (BLOCK_ALIGNMENT - 1);
	if (before)
		munmap(memory, before);
	munmap(memory + before + size_bytes, BLOCK_ALIGNMENT - before);
	(void)madvise(memory + before, size_bytes, MADV_HUGEPAGE);
	return memory + before;
}

static size_t block_map_bytes(size_t block_bytes)
{
	return (block_bytes + BLOCK_ALIGNMENT - 1) & ~(BLOCK_ALIGNMENT - 1);
}

RSUM_PUBLIC int ringsum_block_alloc(const struct ringsum_checkpoint *checkpoint,
				    struct ringsum_load *loads, size_t load_count, void **block_out,
				    size_t *block_bytes_out, struct ringsum_error *err)
{
	struct place *places;
	uint64_t size_bytes;
	uint8_t *block;
	size_t i;

	if (!checkpoint || (!loads && load_count > 0) || !block_out || !block_bytes_out)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no checkpoint, loads or place");
	places = calloc(load_count + 1, sizeof(*places));
	if (!places)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the layout");
	for (i = 0; i < load_count; i++) {
		places[i].promise = promise_of(checkpoint, loads[i].tensor);
		places[i].load = i;
		if (!places[i].promise) {
			free(places);
			return rsum_error_set(err, RINGSUM_E_INVALID,
					      "load %zu: its tensor is not one of this checkpoint",
					      i);
		}
	}
	qsort(places, load_count, sizeof(*places), compare_places);
	size_bytes = lay_out(loads, places, load_count, ringsum_checkpoint_alignment(checkpoint));
	free(places);
	block = size_bytes ? map_block(block_map_bytes((size_t)size_bytes)) : NULL;
	for (i = 0; i < load_count; i++)
		loads[i].destination = block ? block + (uintptr_t)loads[i].destination : NULL;
	if (!block)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "no block of %llu bytes could be had",
				      (unsigned long long)size_bytes);
	*block_out = block;
	*block_bytes_out = (size_t)size_bytes;
	return RINGSUM_OK;
}

RSUM_PUBLIC void ringsum_block_free(void *block, size_t block_bytes)
{
	if (block)
		munmap(block, block_map_bytes(block_bytes));
}
