/* SPDX-License-Identifier: Apache-2.0 */
/* Verification: every promise of a checkpoint is proven, refused, or left undecided. */
#include "verify.h"

#include "error.h"
#include "journal.h"
#include "report_map.h"
#include "resume.h"

enum rsum_promise_status rsum_promise_conclude(const struct rsum_standing *standing,
					       const struct rsum_want *want)
{
	if (standing->is_refused)
		return RSUM_PROMISE_REFUSED;
	/* Whatever was not read for another reason than a refusal was not decided. */
	if (standing->is_undecided || !want)
		return RSUM_PROMISE_UNDECIDED;
	return want->status;
}

static void count_tensor(struct ringsum_totals *totals, enum rsum_promise_status status,
			 uint64_t size_bytes)
{
	switch (status) {
	case RSUM_PROMISE_IDENTICAL:
		totals->tensors_identical++;
		totals->bytes_proven += size_bytes;
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

/* The want of a promise, where it is readable; wants are in the order of the promises. */
static const struct rsum_want *want_of(const struct rsum_reading *reading,
				       const struct rsum_standing *standing, size_t promise,
				       bool is_file, size_t *next_want)
{
	const struct rsum_want *want;

	if (!standing->is_readable)
		return NULL;
	RSUM_ASSERT(*next_want < reading->want_count);
	want = &reading->wants[(*next_want)++];
	RSUM_ASSERT(want->promise == promise && want->is_file == is_file);
	return want;
}

static void conclude_tensors(const struct rsum_reading *reading, size_t *next_want)
{
	const struct ringsum_checkpoint *checkpoint = reading->checkpoint;
	struct ringsum_totals *totals = &reading->report->totals;
	size_t i;

	totals->tensors_identical = totals->tensors_refused = totals->tensors_undecided = 0;
	for (i = 0; i < checkpoint->manifest.promise_count; i++) {
		const struct rsum_standing *standing = &checkpoint->standings[i];
		const struct rsum_want *want = want_of(reading, standing, i, false, next_want);

		count_tensor(totals, rsum_promise_conclude(standing, want),
			     checkpoint->manifest.promises[i].tensor.size_bytes);
		if (want && want->is_known &&
		    rsum_promise_conclude(standing, want) == RSUM_PROMISE_IDENTICAL) {
			totals->tensors_proven_earlier++;
			totals->bytes_proven_earlier +=
				checkpoint->manifest.promises[i].tensor.size_bytes;
		}
	}
	RSUM_ASSERT(totals->tensors_identical + totals->tensors_refused +
			    totals->tensors_undecided ==
		    totals->tensors_promised);
}

/* Refused wins over undecided, and undecided over identical. */
static enum rsum_promise_status worse(enum rsum_promise_status a, enum rsum_promise_status b)
{
	if (a == RSUM_PROMISE_REFUSED || b == RSUM_PROMISE_REFUSED)
		return RSUM_PROMISE_REFUSED;
	return a == RSUM_PROMISE_IDENTICAL && b == RSUM_PROMISE_IDENTICAL ? RSUM_PROMISE_IDENTICAL
									  : RSUM_PROMISE_UNDECIDED;
}

static void count_file(struct ringsum_totals *totals, enum rsum_promise_status status)
{
	totals->files_identical += status == RSUM_PROMISE_IDENTICAL;
	totals->files_refused += status == RSUM_PROMISE_REFUSED;
	totals->files_undecided +=
		status != RSUM_PROMISE_IDENTICAL && status != RSUM_PROMISE_REFUSED;
}

/* A file is identical where all that is promised of it holds. */
static void conclude_files(const struct rsum_reading *reading, size_t *next_want)
{
	const struct ringsum_checkpoint *checkpoint = reading->checkpoint;
	const struct rsum_file_promise *promises = checkpoint->manifest.file_promises;
	struct ringsum_totals *totals = &reading->report->totals;
	enum rsum_promise_status file = RSUM_PROMISE_IDENTICAL, status;
	size_t count = checkpoint->manifest.file_promise_count, i;

	totals->files_identical = totals->files_refused = totals->files_undecided = 0;
	for (i = 0; i < count; i++) {
		const struct rsum_standing *standing = &checkpoint->file_standings[i];
		const struct rsum_want *want = want_of(reading, standing, i, true, next_want);

		status = rsum_promise_conclude(standing, want);
		if (status == RSUM_PROMISE_IDENTICAL)
			totals->bytes_proven += promises[i].end - promises[i].begin;
		if (status == RSUM_PROMISE_IDENTICAL && want->is_known) {
			totals->files_proven_earlier++;
			totals->bytes_proven_earlier += promises[i].end - promises[i].begin;
		}
		file = worse(file, status);
		if (i + 1 < count && promises[i + 1].file_index == promises[i].file_index)
			continue;
		count_file(totals, file);
		file = RSUM_PROMISE_IDENTICAL;
	}
	RSUM_ASSERT(totals->files_identical + totals->files_refused + totals->files_undecided ==
		    totals->files_promised);
}

static void conclude_all(const struct rsum_reading *reading)
{
	size_t next_want = 0;

	struct ringsum_totals *totals = &reading->report->totals;

	totals->bytes_proven = totals->bytes_proven_earlier = 0;
	totals->tensors_proven_earlier = totals->files_proven_earlier = 0;
	conclude_tensors(reading, &next_want);
	conclude_files(reading, &next_want);
	RSUM_ASSERT(next_want == reading->want_count);
}

/* Everything that can be read: tensors in the manifest's order, then files. */
static int list_wants(struct rsum_reading *reading)
{
	const struct ringsum_checkpoint *checkpoint = reading->checkpoint;
	const struct rsum_manifest *manifest = &checkpoint->manifest;
	size_t i;

	reading->wants = calloc(manifest->promise_count + manifest->file_promise_count + 1,
				sizeof(*reading->wants));
	if (!reading->wants)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < manifest->promise_count; i++)
		if (checkpoint->standings[i].is_readable)
			reading->wants[reading->want_count++].promise = (uint32_t)i;
	for (i = 0; i < manifest->file_promise_count; i++)
		if (checkpoint->file_standings[i].is_readable)
			reading->wants[reading->want_count++] =
				(struct rsum_want){ .promise = (uint32_t)i, .is_file = true };
	return RINGSUM_OK;
}

static void release(struct rsum_verification *verification)
{
	rsum_journal_keep(verification->reading.journal);
	free(verification->reading.wants);
	*verification = (struct rsum_verification){ 0 };
}

int rsum_verification_begin(struct rsum_verification *verification,
			    struct ringsum_checkpoint *checkpoint, struct ringsum_error *err)
{
	struct rsum_reading *reading = &verification->reading;
	int result;

	*verification = (struct rsum_verification){ .checkpoint = checkpoint };
	verification->report = rsum_report_clone(checkpoint->report);
	if (!verification->report)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the report");
	if (checkpoint->options.given.keep_map) {
		verification->report->map = calloc(1, sizeof(*verification->report->map));
		verification->report->map_is_lost = !verification->report->map;
	}
	reading->checkpoint = checkpoint;
	reading->report = verification->report;
	if (list_wants(reading) != RINGSUM_OK)
		goto no_memory;
	result = rsum_resume_open(reading, err);
	if (result == RINGSUM_OK) {
		verification->pass = rsum_reading_begin(reading);
		if (verification->pass)
			return RINGSUM_OK;
	no_memory:
		result = rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the promises");
	}
	ringsum_report_free(verification->report);
	release(verification);
	return result;
}

int rsum_verification_end(struct rsum_verification *verification, int result,
			  const struct ringsum_error *reason, struct ringsum_report **report_out,
			  struct ringsum_error *err)
{
	struct ringsum_report *report = verification->report;
	struct rsum_refusal refusal;

	rsum_reading_end(verification->pass, result == RINGSUM_E_CANCELED);
	if (result != RINGSUM_OK && result != RINGSUM_E_CANCELED) {
		/* What was found before stays worth telling, so this becomes one more finding. */
		(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR,
				       "reading could not be carried out: %s", reason->message);
		rsum_report_add_refusal(report, &refusal, NULL, NULL);
	}
	conclude_all(&verification->reading);
	if (report->map)
		rsum_map_conclude(&verification->reading);
	if (result == RINGSUM_OK)
		rsum_resume_discard(&verification->reading);
	if (result == RINGSUM_E_CANCELED) {
		(void)rsum_error_set(err, result, "canceled");
	} else {
		if (result == RINGSUM_OK)
			rsum_report_set_complete(report);
		result = rsum_report_result(report, err);
	}
	if (report_out)
		*report_out = report;
	else
		ringsum_report_free(report);
	release(verification);
	return result;
}

RSUM_PUBLIC int ringsum_checkpoint_verify(struct ringsum_checkpoint *checkpoint,
					  struct ringsum_report **report_out,
					  struct ringsum_error *err)
{
	struct rsum_verification verification;
	struct ringsum_error reason = { 0 };
	int result;

	if (!checkpoint)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no checkpoint was given");
	result = rsum_verification_begin(&verification, checkpoint, err);
	if (result != RINGSUM_OK)
		return result;
	result = rsum_reading_drive(verification.pass, &reason);
	return rsum_verification_end(&verification, result, &reason, report_out, err);
}

/* Where there is nothing to verify there is still something to report. */
struct ringsum_report *rsum_verification_failure(const char *path, int result,
						 const struct ringsum_error *reason)
{
	struct ringsum_report *report;

	if (result != RINGSUM_E_NOPROMISE && result != RINGSUM_E_IO)
		return NULL;
	report = rsum_report_new();
	if (!report)
		return NULL;
	report->totals.files_unpromised = UINT64_MAX;
	rsum_report_set_text(report, &report->facts.root, path);
	rsum_report_set_text(report, &report->facts.error, reason->message);
	return report;
}

RSUM_PUBLIC int ringsum_verify_path(const char *path, const struct ringsum_options *options,
				    struct ringsum_report **report_out, struct ringsum_error *err)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_report *report = NULL;
	struct ringsum_error reason = { 0 };
	int result = rsum_checkpoint_prepare(path, options, &checkpoint, &reason);

	if (result == RINGSUM_OK) {
		result = ringsum_checkpoint_verify(checkpoint, &report, &reason);
		ringsum_checkpoint_close(checkpoint);
	}
	if (!report)
		report = rsum_verification_failure(path, result, &reason);
	if (report_out && report)
		*report_out = report;
	else
		ringsum_report_free(report);
	if (err)
		*err = reason;
	return result;
}
