/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a checkpoint against its promises: paths, headers, tensors nobody promised. */
#include "checkpoint.h"
#include "rsum_limits.h"
#include "safetensors.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Promises grouped by file: those of file f are order[begin[f]] to order[begin[f + 1] - 1]. */
struct grouping {
	uint32_t *begin;
	uint32_t *order;
};

static int group_promises(const struct rsum_manifest *manifest, struct grouping *out)
{
	size_t files = manifest->file_count, i;

	out->begin = calloc(files + 2, sizeof(*out->begin));
	out->order = calloc(manifest->promise_count + 1, sizeof(*out->order));
	if (!out->begin || !out->order)
		return RINGSUM_E_NOMEM;
	/* Count into begin[f + 2], sum up, and place through begin[f + 1], which then is right. */
	for (i = 0; i < manifest->promise_count; i++)
		if (manifest->promises[i].file_index < files)
			out->begin[manifest->promises[i].file_index + 2]++;
	for (i = 2; i < files + 2; i++)
		out->begin[i] += out->begin[i - 1];
	for (i = 0; i < manifest->promise_count; i++) {
		uint32_t file = manifest->promises[i].file_index;

		if (file < files)
			out->order[out->begin[file + 1]++] = (uint32_t)i;
	}
	return RINGSUM_OK;
}

/* One shard while it is checked. */
struct shard_check {
	struct ringsum_checkpoint *checkpoint;
	struct rsum_shard *shard;
	const uint32_t *members; /* promises of this shard */
	size_t member_count;
	int fd;
	struct rsum_safetensors header;
};

static void refuse_all(struct shard_check *check)
{
	size_t i;

	for (i = 0; i < check->member_count; i++)
		check->checkpoint->standings[check->members[i]].is_refused = true;
}

static void leave_all_undecided(struct shard_check *check)
{
	size_t i;

	for (i = 0; i < check->member_count; i++)
		check->checkpoint->standings[check->members[i]].is_undecided = true;
}

static void report_unreadable(struct shard_check *check, int error, const char *what)
{
	struct rsum_refusal refusal;

	(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR,
			       "%s could not be read: %s; mend that and verify again", what,
			       strerror(-error));
	rsum_report_add_refusal(check->checkpoint->report, &refusal, NULL, check->shard->name);
	leave_all_undecided(check);
}

/*
 * Reads and parses the header. Returns 0 where check->header can be compared with the promises
 * (a wrong file size has its finding then), RINGSUM_E_REFUSED where it cannot, or
 * RINGSUM_E_NOMEM.
 */
static int read_header(struct shard_check *check)
{
	const struct rsum_file_identity *identity = &check->shard->identity;
	uint8_t head[RSUM_SAFETENSORS_PROBE_BYTES];
	size_t head_bytes = (size_t)RSUM_MIN(identity->size_bytes, sizeof(head));
	struct rsum_refusal refusal;
	uint64_t header_bytes;
	char *text;
	int result;

	result = rsum_file_read_at(check->fd, 0, head, head_bytes);
	if (result < 0) {
		report_unreadable(check, result, "the header");
		return RINGSUM_E_REFUSED;
	}
	result = rsum_safetensors_probe(head, head_bytes, identity->size_bytes,
					check->checkpoint->profile->header_limit_bytes,
					&header_bytes, &refusal);
	if (result != RINGSUM_OK)
		goto refused;
	text = malloc((size_t)header_bytes + 1);
	if (!text)
		return RINGSUM_E_NOMEM;
	result = rsum_file_read_at(check->fd, 8, text, (size_t)header_bytes);
	if (result < 0) {
		free(text);
		report_unreadable(check, result, "the header");
		return RINGSUM_E_REFUSED;
	}
	result = rsum_safetensors_parse(text, header_bytes, identity->size_bytes, &check->header,
					&refusal);
	if (result != RINGSUM_E_REFUSED)
		return result;
	if (refusal.code == RINGSUM_FINDING_FILE_TRUNCATED ||
	    refusal.code == RINGSUM_FINDING_FILE_TRAILING) {
		rsum_report_add_refusal(check->checkpoint->report, &refusal, NULL,
					check->shard->name);
		return RINGSUM_OK;
	}
refused:
	rsum_report_add_refusal(check->checkpoint->report, &refusal, NULL, check->shard->name);
	refuse_all(check);
	return RINGSUM_E_REFUSED;
}

/* The header is right about the tensor, but the file ends before it does. */
static void report_cut_off(struct shard_check *check, const struct ringsum_tensor *tensor)
{
	char expected[64], actual[64], message[160];
	struct ringsum_finding finding = {
		.code = RINGSUM_FINDING_FILE_TRUNCATED,
		.tensor = tensor->name,
		.file = check->shard->name,
		.has_range = 1,
		.begin = tensor->begin,
		.end = tensor->end,
		.expected = expected,
		.actual = actual,
		.message = message,
	};
	uint64_t missing = tensor->end - check->shard->identity.size_bytes;

	snprintf(expected, sizeof(expected), "a file of at least %llu bytes",
		 (unsigned long long)tensor->end);
	snprintf(actual, sizeof(actual), "%llu bytes",
		 (unsigned long long)check->shard->identity.size_bytes);
	snprintf(message, sizeof(message),
		 "the last %llu of its %llu bytes are not in the file; fetch the range again",
		 (unsigned long long)RSUM_MIN(missing, tensor->size_bytes),
		 (unsigned long long)tensor->size_bytes);
	rsum_report_add(check->checkpoint->report, &finding);
}

static int compare_with_promises(struct shard_check *check)
{
	struct ringsum_checkpoint *checkpoint = check->checkpoint;
	const struct rsum_safetensors *header = &check->header;
	bool *is_promised = calloc(header->tensor_count + 1, sizeof(*is_promised));
	size_t i;

	if (!is_promised)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < check->member_count; i++) {
		const struct rsum_promise *promise =
			&checkpoint->manifest.promises[check->members[i]];
		struct rsum_standing *standing = &checkpoint->standings[check->members[i]];
		const struct rsum_safetensors_tensor *shown =
			rsum_safetensors_find(header, promise->tensor.name);

		if (shown)
			is_promised[shown - header->tensors] = true;
		if (!promise->is_wellformed)
			continue;
		if (!rsum_promise_matches_header(promise, header, shown,
						 checkpoint->profile->dtype_is_allowed,
						 checkpoint->report)) {
			standing->is_refused = true;
		} else if (promise->tensor.end > check->shard->identity.size_bytes) {
			report_cut_off(check, &promise->tensor);
			standing->is_refused = true;
		} else {
			standing->is_readable = true;
		}
	}
	for (i = 0; i < header->tensor_count; i++) {
		if (is_promised[i])
			continue;
		checkpoint->report->totals.tensors_unpromised++;
		rsum_unpromised_report(checkpoint, header->tensors[i].name, check->shard->name);
	}
	free(is_promised);
	return RINGSUM_OK;
}

static int check_shard(struct shard_check *check)
{
	struct ringsum_checkpoint *checkpoint = check->checkpoint;
	struct rsum_refusal refusal;
	int os_errno, result;

	switch (rsum_confine_open(&checkpoint->root, check->shard->name, &check->fd,
				  &check->shard->identity, &os_errno, &refusal)) {
	case RSUM_CONFINE_OK:
		check->shard->is_opened = true;
		break;
	case RSUM_CONFINE_REFUSED:
		rsum_report_add_refusal(checkpoint->report, &refusal, NULL, check->shard->name);
		refuse_all(check);
		return RINGSUM_OK;
	case RSUM_CONFINE_UNREADABLE:
	default:
		rsum_report_add_refusal(checkpoint->report, &refusal, NULL, check->shard->name);
		leave_all_undecided(check);
		return RINGSUM_OK;
	}
	result = read_header(check);
	if (result == RINGSUM_OK)
		result = compare_with_promises(check);
	else if (result == RINGSUM_E_REFUSED)
		result = RINGSUM_OK;
	rsum_safetensors_deinit(&check->header);
	close(check->fd);
	return result;
}

int rsum_shards_check(struct ringsum_checkpoint *checkpoint)
{
	const struct rsum_manifest *manifest = &checkpoint->manifest;
	struct grouping grouping = { 0 };
	size_t i;
	int result = RINGSUM_E_NOMEM;

	checkpoint->shards = calloc(manifest->file_count + 1, sizeof(*checkpoint->shards));
	if (!checkpoint->shards || group_promises(manifest, &grouping) != RINGSUM_OK)
		goto out;
	for (i = 0; i < manifest->file_count; i++) {
		struct shard_check check = {
			.checkpoint = checkpoint,
			.shard = &checkpoint->shards[i],
			.members = grouping.order + grouping.begin[i],
			.member_count = grouping.begin[i + 1] - grouping.begin[i],
			.fd = -1,
		};

		check.shard->name = manifest->files[i];
		result = check_shard(&check);
		if (result != RINGSUM_OK)
			goto out;
	}
	result = RINGSUM_OK;
out:
	free(grouping.begin);
	free(grouping.order);
	return result;
}
