/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes the promised bytes of a checkpoint and weighs every promise. What differs is read a
 * second time, so that corruption and storage that answers differently twice are told apart.
 */
#include "checkpoint.h"
#include "error.h"
#include "rsum_limits.h"
#include "pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What one verification knows of a shard. */
struct shard_reading {
	bool is_changed; /* it was not the same file throughout */
	bool was_direct; /* some of it was read with O_DIRECT */
	bool was_buffered;
};

struct verification {
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_report *report;
	struct shard_reading *shards;
	struct rsum_range_result *results; /* by promise */
	struct rsum_range_result *second;  /* by promise; NULL where nothing was read twice */
	bool is_second_reading;
	uint64_t bytes_total;
};

/* ---- shards for the pipeline ------------------------------------------------------------- */

/* The alignment that a direct read of this file needs, or 0 where there is no direct I/O. */
static uint32_t direct_alignment(const struct rsum_file_identity *identity, uint32_t chunk_bytes)
{
	uint32_t alignment = 4096;

	if (identity->direct_is_known) {
		if (identity->direct_offset_alignment == 0)
			return 0;
		alignment = RSUM_MAX(alignment, identity->direct_offset_alignment);
		alignment = RSUM_MAX(alignment, identity->direct_memory_alignment);
	}
	if ((alignment & (alignment - 1)) != 0 || chunk_bytes % alignment != 0)
		return 0;
	return alignment;
}

static int set_direct(const struct verification *verification, struct rsum_pipeline_file *file,
		      const struct rsum_file_identity *identity)
{
	const struct ringsum_options *options = &verification->checkpoint->options.given;
	uint32_t alignment = direct_alignment(identity, options->chunk_bytes);
	int flags;

	file->alignment = 4096;
	if (options->direct == RINGSUM_DIRECT_OFF)
		return 0;
	flags = fcntl(file->fd, F_GETFL);
	if (alignment != 0 && flags >= 0 && fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0) {
		file->alignment = alignment;
		file->is_direct = true;
		return 0;
	}
	return options->direct == RINGSUM_DIRECT_REQUIRE ? -EOPNOTSUPP : 0;
}

static int open_shard(void *arg, uint32_t shard_index, struct rsum_pipeline_file *file_out)
{
	struct verification *verification = arg;
	struct rsum_shard *shard = &verification->checkpoint->shards[shard_index];
	struct rsum_pipeline_file file = { 0 };
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int os_errno = 0, result;

	switch (rsum_confine_open(&verification->checkpoint->root, shard->name, &file.fd, &identity,
				  &os_errno, &refusal)) {
	case RSUM_CONFINE_OK:
		break;
	case RSUM_CONFINE_REFUSED:
		/* It was there when its header was read. */
		verification->shards[shard_index].is_changed = true;
		return -ESTALE;
	case RSUM_CONFINE_UNREADABLE:
	default:
		return os_errno ? -os_errno : -EIO;
	}
	if (!rsum_file_identity_equal(&identity, &shard->identity)) {
		verification->shards[shard_index].is_changed = true;
		close(file.fd);
		return -ESTALE;
	}
	file.size_bytes = identity.size_bytes;
	result = set_direct(verification, &file, &identity);
	if (result < 0) {
		close(file.fd);
		return result;
	}
	/* A second reading from the page cache would only repeat the first. */
	if (!file.is_direct && verification->is_second_reading)
		(void)posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
	*file_out = file;
	return 0;
}

static void close_shard(void *arg, uint32_t shard_index, const struct rsum_pipeline_file *file)
{
	struct verification *verification = arg;
	struct shard_reading *reading = &verification->shards[shard_index];
	struct rsum_file_identity identity;

	if (rsum_file_identify(file->fd, &identity) < 0 ||
	    !rsum_file_identity_equal(&identity,
				      &verification->checkpoint->shards[shard_index].identity))
		reading->is_changed = true;
	if (file->is_direct)
		reading->was_direct = true;
	else
		reading->was_buffered = true;
	close(file->fd);
}

/* ---- reading ------------------------------------------------------------------------------- */

static int on_progress(void *arg, uint64_t bytes_done)
{
	struct verification *verification = arg;
	const struct ringsum_options *options = &verification->checkpoint->options.given;
	struct ringsum_progress progress = {
		.bytes_total = verification->bytes_total,
		.bytes_done = bytes_done,
		.tensors_total = verification->report->totals.tensors_promised,
		.findings_count = verification->report->totals.findings_total,
	};

	return options->progress(options->progress_arg, &progress);
}

/* Reads the promises that `wanted` picks and fills `results` (by promise). */
static int read_promises(struct verification *verification, const bool *wanted,
			 struct rsum_range_result *results, struct rsum_pipeline_outcome *outcome,
			 struct ringsum_error *err)
{
	const struct rsum_options *options = &verification->checkpoint->options;
	const struct rsum_manifest *manifest = &verification->checkpoint->manifest;
	const struct rsum_pipeline_setup setup = {
		.engine = options->given.engine,
		.direct = options->given.direct,
		.chunk_bytes = options->given.chunk_bytes,
		.memory_bytes = options->given.memory_bytes,
		.depth = options->given.depth,
		.threads = options->given.threads,
		.impl = options->digest_impl,
		.files = { .arg = verification, .open = open_shard, .close = close_shard },
		.progress = options->given.progress ? on_progress : NULL,
		.progress_arg = verification,
	};
	const struct rsum_plan_shape shape = {
		.chunk_bytes = setup.chunk_bytes,
		.stream_count = setup.threads * rsum_digest_impl_width(setup.impl),
	};
	struct rsum_range *ranges = calloc(manifest->promise_count + 1, sizeof(*ranges));
	struct rsum_plan plan = { 0 };
	size_t range_count = 0, i;
	int result;

	if (!ranges)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the plan");
	for (i = 0; i < manifest->promise_count; i++) {
		const struct rsum_promise *promise = &manifest->promises[i];

		if (!wanted[i] || promise->tensor.size_bytes == 0)
			continue;
		ranges[range_count++] = (struct rsum_range){
			.begin = promise->tensor.begin,
			.end = promise->tensor.end,
			.shard = promise->file_index,
			.id = (uint32_t)i,
		};
	}
	result = rsum_plan_build(ranges, range_count, &shape, &plan);
	if (result == RINGSUM_OK) {
		verification->bytes_total = plan.bytes_total;
		result = rsum_pipeline_run(&setup, &plan, results, manifest->promise_count, outcome,
					   err);
	} else {
		(void)rsum_error_set(err, result, "no plan for reading could be made");
	}
	rsum_plan_deinit(&plan);
	free(ranges);
	return result;
}

/* An empty tensor has nothing to read, and a digest all the same. */
static int hash_empty(struct verification *verification)
{
	const struct ringsum_checkpoint *checkpoint = verification->checkpoint;
	size_t i;

	for (i = 0; i < checkpoint->manifest.promise_count; i++) {
		struct rsum_range_result *result = &verification->results[i];

		if (!checkpoint->standings[i].is_readable ||
		    checkpoint->manifest.promises[i].tensor.size_bytes != 0)
			continue;
		if (rsum_sha256_of("", 0, result->digest) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
		result->is_hashed = true;
		result->error = 0;
	}
	return RINGSUM_OK;
}

static bool digest_differs(const struct verification *verification, size_t promise_index)
{
	const struct rsum_range_result *result = &verification->results[promise_index];

	return result->is_hashed &&
	       memcmp(result->digest,
		      verification->checkpoint->manifest.promises[promise_index]
			      .tensor.digest_sha256,
		      RSUM_SHA256_BYTES) != 0;
}

/* ---- weighing -------------------------------------------------------------------------------- */

static void add_finding(struct verification *verification, enum ringsum_finding_code code,
			const struct ringsum_tensor *tensor, const char *expected,
			const char *actual, const char *message)
{
	struct ringsum_finding finding = {
		.code = code,
		.tensor = tensor->name,
		.file = tensor->shard,
		.has_range = 1,
		.begin = tensor->begin,
		.end = tensor->end,
		.expected = expected,
		.actual = actual,
		.message = message,
	};

	rsum_report_add(verification->report, &finding);
}

static enum rsum_promise_status weigh_unread(struct verification *verification,
					     const struct ringsum_tensor *tensor,
					     const struct rsum_range_result *result)
{
	char message[224], offset[64];

	if (result->error == -ECANCELED)
		return RSUM_PROMISE_UNDECIDED; /* not reached; the report is not complete */
	snprintf(offset, sizeof(offset), "at byte %llu of the shard",
		 (unsigned long long)result->error_offset);
	if (result->error == -ENODATA)
		snprintf(message, sizeof(message),
			 "the shard ended early when read %s, though its size says otherwise",
			 offset);
	else if (result->error == -EOPNOTSUPP || result->error == -EINVAL)
		snprintf(message, sizeof(message),
			 "direct I/O was required and the file refuses it (%s %s)",
			 strerror(-result->error), offset);
	else
		snprintf(message, sizeof(message), "could not be read %s: %s", offset,
			 strerror(-result->error));
	add_finding(verification, RINGSUM_FINDING_READ_ERROR, tensor, NULL, NULL, message);
	return RSUM_PROMISE_UNDECIDED;
}

/* The first reading differed from the promise: what does the second say? */
static enum rsum_promise_status weigh_difference(struct verification *verification, size_t index)
{
	const struct ringsum_tensor *tensor =
		&verification->checkpoint->manifest.promises[index].tensor;
	const struct rsum_range_result *first = &verification->results[index];
	const struct rsum_range_result *second =
		verification->second ? &verification->second[index] : NULL;
	char expected[65], actual[65];

	rsum_hex_encode_digest(tensor->digest_sha256, expected);
	rsum_hex_encode_digest(first->digest, actual);
	if (!second || !second->is_hashed) {
		add_finding(verification, RINGSUM_FINDING_READ_ERROR, tensor, expected, actual,
			    "the bytes differ from the promise, and a second reading to be sure of "
			    "it failed; verify again");
		return RSUM_PROMISE_UNDECIDED;
	}
	if (memcmp(first->digest, second->digest, RSUM_SHA256_BYTES) == 0) {
		add_finding(verification, RINGSUM_FINDING_DIGEST_MISMATCH, tensor, expected, actual,
			    "the bytes on disk are not the bytes promised, in two readings alike; "
			    "fetch this range again");
		return RSUM_PROMISE_REFUSED;
	}
	if (memcmp(tensor->digest_sha256, second->digest, RSUM_SHA256_BYTES) == 0)
		add_finding(verification, RINGSUM_FINDING_UNSTABLE_READ, tensor, expected, actual,
			    "the first reading differed, the second was as promised: the storage "
			    "answers differently twice; check the disk, its cable and the memory");
	else
		add_finding(verification, RINGSUM_FINDING_UNSTABLE_READ, tensor, expected, actual,
			    "two readings differed from the promise and from each other; check the "
			    "disk, its cable and the memory");
	return RSUM_PROMISE_UNDECIDED;
}

/* Rule E3, on bytes that are as promised: the promise itself may be of the wrong codebook. */
static bool marker_is_right(struct verification *verification, const struct ringsum_tensor *tensor,
			    const struct rsum_range_result *result)
{
	const struct rsum_profile *profile = verification->checkpoint->profile;
	uint32_t wanted, found;
	char expected[16], actual[16];

	if (!profile->marker_of || !profile->marker_of(tensor->name, &wanted))
		return true;
	found = (uint32_t)result->head[0] | (uint32_t)result->head[1] << 8 |
		(uint32_t)result->head[2] << 16 | (uint32_t)result->head[3] << 24;
	if (tensor->size_bytes >= sizeof(found) && found == wanted)
		return true;
	snprintf(expected, sizeof(expected), "0x%08X", wanted);
	snprintf(actual, sizeof(actual), "0x%08X", found);
	add_finding(verification, RINGSUM_FINDING_EXL3_INVALID, tensor, expected, actual,
		    "the marker is not that of the mul1 codebook");
	return false;
}

static enum rsum_promise_status weigh(struct verification *verification, size_t index)
{
	const struct ringsum_checkpoint *checkpoint = verification->checkpoint;
	const struct rsum_promise *promise = &checkpoint->manifest.promises[index];
	const struct rsum_standing *standing = &checkpoint->standings[index];
	const struct rsum_range_result *result = &verification->results[index];
	enum rsum_promise_status status = RSUM_PROMISE_UNDECIDED;

	if (standing->is_readable) {
		if (verification->shards[promise->file_index].is_changed)
			status = RSUM_PROMISE_UNDECIDED; /* the shard has its finding */
		else if (!result->is_hashed)
			status = weigh_unread(verification, &promise->tensor, result);
		else if (digest_differs(verification, index))
			status = weigh_difference(verification, index);
		else if (!marker_is_right(verification, &promise->tensor, result))
			status = RSUM_PROMISE_REFUSED;
		else
			status = RSUM_PROMISE_IDENTICAL;
	}
	if (standing->is_refused)
		return RSUM_PROMISE_REFUSED;
	/* Whatever was not read for another reason than a refusal was not decided. */
	if (standing->is_undecided)
		return RSUM_PROMISE_UNDECIDED;
	return status;
}

static void report_changed_shards(struct verification *verification)
{
	const struct ringsum_checkpoint *checkpoint = verification->checkpoint;
	struct rsum_refusal refusal;
	size_t i;

	for (i = 0; i < checkpoint->manifest.file_count; i++) {
		if (!verification->shards[i].is_changed)
			continue;
		(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_CHANGED_DURING_READ,
				       "the shard was changed or replaced while it was verified; "
				       "wait until nothing writes to it and verify again");
		rsum_report_add_refusal(verification->report, &refusal, NULL,
					checkpoint->shards[i].name);
	}
}

static void weigh_all(struct verification *verification)
{
	const struct rsum_manifest *manifest = &verification->checkpoint->manifest;
	struct ringsum_totals *totals = &verification->report->totals;
	size_t i;

	report_changed_shards(verification);
	totals->tensors_identical = totals->tensors_refused = totals->tensors_undecided = 0;
	totals->bytes_proven = 0;
	for (i = 0; i < manifest->promise_count; i++) {
		switch (weigh(verification, i)) {
		case RSUM_PROMISE_IDENTICAL:
			totals->tensors_identical++;
			totals->bytes_proven += manifest->promises[i].tensor.size_bytes;
			break;
		case RSUM_PROMISE_REFUSED:
			totals->tensors_refused++;
			break;
		case RSUM_PROMISE_UNDECIDED:
		case RSUM_PROMISE_PENDING:
		default:
			totals->tensors_undecided++;
			break;
		}
	}
	RSUM_ASSERT(totals->tensors_identical + totals->tensors_refused +
			    totals->tensors_undecided ==
		    totals->tensors_promised);
}

static void record_facts(struct verification *verification,
			 const struct rsum_pipeline_outcome *outcome)
{
	struct rsum_report_facts *facts = &verification->report->facts;
	size_t i;

	verification->report->totals.bytes_read += outcome->bytes_read;
	verification->report->totals.elapsed_seconds += (double)outcome->elapsed_ns / 1e9;
	facts->chunk_bytes = outcome->chunk_bytes;
	if (!outcome->engine)
		return;
	facts->engine = outcome->engine;
	facts->buffer_pages = outcome->page_kind;
	facts->depth = outcome->depth;
	facts->threads = outcome->threads;
	if (outcome->engine_reason[0])
		rsum_report_set_text(verification->report, &facts->engine_reason,
				     outcome->engine_reason);
	facts->limited_by = outcome->starved_ns * 2 > outcome->elapsed_ns ? "hash" : "disk";
	facts->files_direct = facts->files_buffered = 0;
	for (i = 0; i < verification->checkpoint->manifest.file_count; i++) {
		facts->files_direct +=
			verification->shards[i].was_direct && !verification->shards[i].was_buffered;
		facts->files_buffered += verification->shards[i].was_buffered;
	}
}

/* Every difference is read once more through fresh requests. */
static int read_differences_again(struct verification *verification, bool *wanted,
				  struct ringsum_error *err)
{
	size_t count = verification->checkpoint->manifest.promise_count, differences = 0, i;
	struct rsum_pipeline_outcome outcome;
	int result;

	for (i = 0; i < count; i++) {
		wanted[i] = digest_differs(verification, i);
		differences += wanted[i];
	}
	if (differences == 0)
		return RINGSUM_OK;
	verification->second = calloc(count, sizeof(*verification->second));
	if (!verification->second)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for a second reading");
	verification->is_second_reading = true;
	result = read_promises(verification, wanted, verification->second, &outcome, err);
	verification->report->totals.bytes_read += outcome.bytes_read;
	verification->report->totals.elapsed_seconds += (double)outcome.elapsed_ns / 1e9;
	/* A promise of no bytes that has the wrong digest cannot be misread. */
	for (i = 0; i < count; i++)
		if (wanted[i] &&
		    verification->checkpoint->manifest.promises[i].tensor.size_bytes == 0)
			verification->second[i] = verification->results[i];
	return result;
}

static int read_all(struct verification *verification, struct ringsum_error *err)
{
	const struct ringsum_checkpoint *checkpoint = verification->checkpoint;
	size_t count = checkpoint->manifest.promise_count, i;
	struct rsum_pipeline_outcome outcome = { 0 };
	bool *wanted = calloc(count + 1, sizeof(*wanted));
	int result;

	verification->results = calloc(count + 1, sizeof(*verification->results));
	verification->shards =
		calloc(checkpoint->manifest.file_count + 1, sizeof(*verification->shards));
	if (!wanted || !verification->results || !verification->shards) {
		result = rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the results");
		goto out;
	}
	for (i = 0; i < count; i++)
		wanted[i] = checkpoint->standings[i].is_readable;
	result = read_promises(verification, wanted, verification->results, &outcome, err);
	record_facts(verification, &outcome);
	if (result == RINGSUM_OK)
		result = hash_empty(verification);
	if (result == RINGSUM_OK)
		result = read_differences_again(verification, wanted, err);
out:
	free(wanted);
	return result;
}

static void deinit(struct verification *verification)
{
	free(verification->shards);
	free(verification->results);
	free(verification->second);
}

/*
 * Fills the report. Returns 0 where it was carried through (the verdict may be any),
 * RINGSUM_E_CANCELED where the report tells of a part, or an error without a report.
 */
static int verify(struct ringsum_checkpoint *checkpoint, struct ringsum_report *report,
		  struct ringsum_error *err)
{
	struct verification verification = { .checkpoint = checkpoint, .report = report };
	struct ringsum_error reason = { 0 };
	struct rsum_refusal refusal;
	int result = read_all(&verification, &reason);

	if (!verification.results || !verification.shards) {
		deinit(&verification);
		return rsum_error_set(err, RINGSUM_E_NOMEM, "%s", reason.message);
	}
	if (result != RINGSUM_OK && result != RINGSUM_E_CANCELED) {
		/* What was found before stays worth telling, so this becomes one more finding. */
		(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR,
				       "reading could not be carried out: %s", reason.message);
		rsum_report_add_refusal(report, &refusal, NULL, NULL);
	}
	weigh_all(&verification);
	deinit(&verification);
	if (result == RINGSUM_E_CANCELED)
		return rsum_error_set(err, RINGSUM_E_CANCELED, "canceled");
	if (result == RINGSUM_OK)
		rsum_report_set_complete(report);
	return RINGSUM_OK;
}

RSUM_PUBLIC int ringsum_checkpoint_verify(struct ringsum_checkpoint *checkpoint,
					  struct ringsum_report **report_out,
					  struct ringsum_error *err)
{
	struct ringsum_report *report;
	int result;

	if (!checkpoint)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no checkpoint was given");
	report = rsum_report_clone(checkpoint->report);
	if (!report)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the report");
	result = verify(checkpoint, report, err);
	if (result == RINGSUM_OK)
		result = rsum_report_result(report, err);
	if (report_out && result != RINGSUM_E_NOMEM)
		*report_out = report;
	else
		ringsum_report_free(report);
	return result;
}

RSUM_PUBLIC int ringsum_verify_path(const char *path, const struct ringsum_options *options,
				    struct ringsum_report **report_out, struct ringsum_error *err)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	int result = rsum_checkpoint_prepare(path, options, &checkpoint, err);

	if (result != RINGSUM_OK)
		return result;
	result = ringsum_checkpoint_verify(checkpoint, report_out, err);
	ringsum_checkpoint_close(checkpoint);
	return result;
}
