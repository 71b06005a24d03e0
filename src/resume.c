/* SPDX-License-Identifier: Apache-2.0 */
/* What a journal says is believed only where promise and shard are what they were. */
#include "resume.h"

#include "error.h"
#include "journal.h"

#include <string.h>

/* The want of a promise, or NULL; wants are those of tensors in order, then those of files. */
static struct rsum_want *find_want(const struct rsum_reading *reading, uint32_t promise,
				   bool is_file)
{
	size_t low = 0, high = reading->want_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct rsum_want *want = &reading->wants[middle];

		if (want->is_file != is_file ? is_file : want->promise < promise)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == reading->want_count || reading->wants[low].is_file != is_file ||
	    reading->wants[low].promise != promise)
		return NULL;
	return &reading->wants[low];
}

/* What is promised of it, as a journal's entry has it. Returns 0 or RINGSUM_E_NOMEM. */
static int describe(const struct rsum_reading *reading, const struct rsum_want *want,
		    struct rsum_journal_entry *entry)
{
	const struct rsum_manifest *manifest = &reading->checkpoint->manifest;
	const struct rsum_file_promise *file;
	const struct ringsum_tensor *tensor;
	uint32_t file_index;
	int result;

	if (want->is_file) {
		file = &manifest->file_promises[want->promise];
		file_index = file->file_index;
		entry->begin = file->begin;
		entry->end = file->end;
		result = rsum_journal_seal(file->algorithm, file->digest, file->digest_bytes,
					   entry->seal);
	} else {
		tensor = &manifest->promises[want->promise].tensor;
		file_index = manifest->promises[want->promise].file_index;
		entry->begin = tensor->begin;
		entry->end = tensor->end;
		result = rsum_journal_seal(RSUM_ALGORITHM_SHA256, tensor->digest_sha256,
					   RSUM_SHA256_BYTES, entry->seal);
	}
	entry->identity = reading->checkpoint->shards[file_index].identity;
	return reading->checkpoint->shards[file_index].is_opened ? result : RINGSUM_E_UNDECIDED;
}

static void take_entry(void *arg, const struct rsum_journal_entry *entry)
{
	const struct rsum_reading *reading = arg;
	struct rsum_want *want = find_want(reading, entry->promise, entry->is_file);
	struct rsum_journal_entry now = { 0 };

	if (!want || describe(reading, want, &now) != RINGSUM_OK)
		return;
	if (entry->begin != now.begin || entry->end != now.end ||
	    memcmp(entry->seal, now.seal, sizeof(now.seal)) != 0 ||
	    !rsum_file_identity_equal(&entry->identity, &now.identity))
		return;
	want->is_known = true;
	memcpy(want->known_head, entry->head, sizeof(want->known_head));
}

/* One manifest stands for itself; several for all of them, in the order in which they were read. */
static int digest_manifests(const struct ringsum_report *report, uint8_t out[RSUM_SHA256_BYTES])
{
	char *text;
	size_t i;
	int result;

	if (report->manifest_count == 1)
		return rsum_hex_decode_digest(report->manifests[0].sha256, out)
			       ? RINGSUM_OK
			       : RINGSUM_E_UNDECIDED;
	text = calloc(report->manifest_count, sizeof(report->manifests[0].sha256));
	if (!text)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < report->manifest_count; i++)
		memcpy(text + i * sizeof(report->manifests[i].sha256), report->manifests[i].sha256,
		       sizeof(report->manifests[i].sha256));
	result = rsum_sha256_of(text, report->manifest_count * sizeof(report->manifests[0].sha256),
				out);
	free(text);
	return result;
}

int rsum_resume_open(struct rsum_reading *reading, struct ringsum_error *err)
{
	const struct ringsum_checkpoint *checkpoint = reading->checkpoint;
	uint8_t digest[RSUM_SHA256_BYTES];
	int result;

	/* Without a manifest nothing is read. */
	if (!checkpoint->options.given.journal_path || reading->report->manifest_count == 0 ||
	    reading->want_count == 0)
		return RINGSUM_OK;
	result = digest_manifests(reading->report, digest);
	if (result != RINGSUM_OK)
		return rsum_error_set(err, result, "the journal's manifest could not be hashed");
	return rsum_journal_open(checkpoint->options.given.journal_path, &checkpoint->root, digest,
				 take_entry, reading, &reading->journal, err);
}

/* A journal that outlived its run would have the next one skip what nobody interrupted. */
void rsum_resume_discard(struct rsum_reading *reading)
{
	struct rsum_refusal refusal;
	int result = rsum_journal_discard(reading->journal);

	reading->journal = NULL;
	if (result == 0)
		return;
	(void)rsum_refusal_set(
		&refusal, RINGSUM_FINDING_READ_ERROR,
		"the journal could be neither removed nor emptied: %s; remove it, so "
		"that no later run goes on from it",
		strerror(-result));
	rsum_report_add_refusal(reading->report, &refusal, NULL, NULL);
}
