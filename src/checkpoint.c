/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, describes and closes a checkpoint. */
#include "checkpoint.h"

#include "error.h"
#include "rsum_limits.h"
#include "uncached.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	if (slash == path)
		return strdup("/");
	return strndup(path, (size_t)(slash - path));
}

/* A path is the directory, or a manifest file in it. */
static int locate(const char *path, const struct rsum_options *options, struct rsum_location *out,
		  struct ringsum_error *err)
{
	struct stat status;

	if (stat(path, &status) != 0) {
		if (errno != ENOENT)
			return rsum_error_set_errno(err, RINGSUM_E_NOPROMISE, errno,
						    "cannot look at %.300s", path);
		return rsum_error_set(err, RINGSUM_E_NOPROMISE,
				      "%.300s is not there; expected a checkpoint's directory or "
				      "its manifest file",
				      path);
	}
	if (S_ISDIR(status.st_mode)) {
		out->root_path = strdup(path);
	} else if (S_ISREG(status.st_mode)) {
		out->root_path = directory_of(path);
		if (!options->given.manifest_path)
			out->manifest_path = path;
	} else {
		return rsum_error_set(err, RINGSUM_E_NOPROMISE,
				      "%.300s is neither a directory nor a manifest file", path);
	}
	if (!out->root_path)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory");
	return RINGSUM_OK;
}

static void refuse_file(struct ringsum_report *report, enum ringsum_finding_code code,
			const char *file, const char *expected, const char *actual,
			const char *message)
{
	struct ringsum_finding finding = {
		.code = code,
		.file = file,
		.expected = expected,
		.actual = actual,
		.message = message,
	};

	rsum_report_add(report, &finding);
}

int rsum_document_read(struct ringsum_checkpoint *checkpoint, int fd, const char *name,
		       uint64_t limit_bytes, enum ringsum_finding_code invalid_code,
		       char **text_out, size_t *size_bytes_out)
{
	struct ringsum_report *report = checkpoint->report;
	char message[160];
	int result = rsum_uncached_read_all(fd, rsum_options_pass_cache(&checkpoint->options),
					    limit_bytes, text_out, size_bytes_out);

	if (result == -ENOMEM)
		return RINGSUM_E_NOMEM;
	if (result == -EFBIG) {
		snprintf(message, sizeof(message),
			 "the file is larger than the limit of %llu bytes",
			 (unsigned long long)limit_bytes);
		refuse_file(report, invalid_code, name, NULL, NULL, message);
	} else if (result < 0) {
		snprintf(message, sizeof(message), "could not be read: %s", strerror(-result));
		refuse_file(report, RINGSUM_FINDING_READ_ERROR, name, NULL, NULL, message);
	}
	return RINGSUM_OK;
}

static bool document_is_unchanged(const struct ringsum_checkpoint *checkpoint,
				  const struct rsum_document *document,
				  struct ringsum_report *report)
{
	enum rsum_confine_result opened;
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int fd, os_errno;

	if (!document->name || document->is_stream)
		return true;
	if (document->given_path)
		opened = rsum_confine_open_given(document->given_path, &fd, &identity, &os_errno,
						 &refusal);
	else
		opened = rsum_confine_open(&checkpoint->root, document->name, &fd, &identity,
					   &os_errno, &refusal);
	if (opened == RSUM_CONFINE_OK)
		close(fd);
	if (opened == RSUM_CONFINE_OK && rsum_file_identity_equal(&identity, &document->identity))
		return true;
	if (opened != RSUM_CONFINE_UNREADABLE)
		(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_CHANGED_DURING_READ,
				       "the file was changed, replaced or removed after it was "
				       "read, so what was checked against it is undecided; wait "
				       "until nothing writes to it and verify again");
	rsum_report_add_refusal(report, &refusal, NULL, document->name);
	return false;
}

bool rsum_documents_are_unchanged(const struct ringsum_checkpoint *checkpoint,
				  struct ringsum_report *report)
{
	bool all_are = true;
	size_t i;

	for (i = 0; i < checkpoint->manifest_count; i++)
		if (!document_is_unchanged(checkpoint, &checkpoint->manifests[i], report))
			all_are = false;
	for (i = 0; i < RSUM_DOCUMENT_COUNT; i++)
		if (!document_is_unchanged(checkpoint, &checkpoint->documents[i], report))
			all_are = false;
	return all_are;
}

/* Reads one of the profile's own files; *text_out stays NULL where it has its finding. */
static int read_profile_file(struct ringsum_checkpoint *checkpoint, const char *name,
			     struct rsum_document *document, enum ringsum_finding_code invalid_code,
			     char **text_out, size_t *size_bytes_out)
{
	struct rsum_refusal refusal;
	int fd, os_errno, result;

	if (rsum_confine_open(&checkpoint->root, name, &fd, &document->identity, &os_errno,
			      &refusal) != RSUM_CONFINE_OK) {
		rsum_report_add_refusal(checkpoint->report, &refusal, NULL, name);
		return RINGSUM_OK;
	}
	result = rsum_document_read(checkpoint, fd, name, RSUM_LIMIT_CONFIG_BYTES, invalid_code,
				    text_out, size_bytes_out);
	close(fd);
	if (result == RINGSUM_OK && *text_out)
		document->name = name;
	return result;
}

static int check_profile(struct ringsum_checkpoint *checkpoint)
{
	const struct rsum_profile *profile = checkpoint->profile;
	char *config = NULL, *plan = NULL;
	size_t config_bytes = 0, plan_bytes = 0, i;
	bool *refused = NULL;
	int result = RINGSUM_OK;

	if (profile->needs_config) {
		result = read_profile_file(checkpoint, RSUM_CONFIG_FILE,
					   &checkpoint->documents[RSUM_DOCUMENT_CONFIG],
					   RINGSUM_FINDING_CONFIG_INVALID, &config, &config_bytes);
		if (result == RINGSUM_OK)
			result =
				read_profile_file(checkpoint, RSUM_PLAN_FILE,
						  &checkpoint->documents[RSUM_DOCUMENT_PLAN],
						  RINGSUM_FINDING_PLAN_INVALID, &plan, &plan_bytes);
	}
	if (result == RINGSUM_OK && profile->check_config)
		result = profile->check_config(&checkpoint->profile_state, config, config_bytes,
					       plan, plan_bytes, checkpoint->report);
	if (result != RINGSUM_OK || !profile->check_promises)
		goto out;
	refused = calloc(checkpoint->manifest.promise_count + 1, sizeof(*refused));
	result =
		refused ? profile->check_promises(&checkpoint->profile_state, &checkpoint->manifest,
						  refused, checkpoint->report)
			: RINGSUM_E_NOMEM;
	for (i = 0; result == RINGSUM_OK && i < checkpoint->manifest.promise_count; i++)
		checkpoint->standings[i].is_refused |= refused[i];
out:
	free(refused);
	free(config);
	free(plan);
	return result;
}

/* Standings and totals as far as the manifest itself goes. */
static int weigh_manifest(struct ringsum_checkpoint *checkpoint)
{
	const struct rsum_manifest *manifest = &checkpoint->manifest;
	struct ringsum_totals *totals = &checkpoint->report->totals;
	size_t i;

	checkpoint->standings = calloc(manifest->promise_count + 1, sizeof(*checkpoint->standings));
	checkpoint->file_standings =
		calloc(manifest->file_promise_count + 1, sizeof(*checkpoint->file_standings));
	if (!checkpoint->standings || !checkpoint->file_standings)
		return RINGSUM_E_NOMEM;
	totals->tensors_promised = manifest->promise_count;
	/* They are sorted by file. */
	for (i = 0; i < manifest->file_promise_count; i++)
		totals->files_promised +=
			i == 0 || manifest->file_promises[i].file_index !=
					  manifest->file_promises[i - 1].file_index;
	for (i = 0; i < manifest->promise_count; i++) {
		const struct rsum_promise *promise = &manifest->promises[i];

		if (!promise->is_wellformed)
			checkpoint->standings[i].is_refused = true;
		/* Hostile sizes may exceed 64 bits in sum; such a sum is never proven. */
		else if (!rsum_add_u64(totals->bytes_promised, promise->tensor.size_bytes,
				       &totals->bytes_promised))
			totals->bytes_promised = UINT64_MAX;
	}
	return RINGSUM_OK;
}

static int prepare(struct ringsum_checkpoint *checkpoint, const struct rsum_location *location,
		   struct ringsum_error *err)
{
	struct ringsum_report *report = checkpoint->report;
	int result;

	rsum_report_set_text(report, &report->facts.root, checkpoint->root_path);
	report->facts.is_strict = checkpoint->options.given.strict != 0;
	/* Until the directory was listed. */
	report->totals.files_unpromised = UINT64_MAX;
	report->facts.digest_impl = rsum_digest_impl_name(checkpoint->options.digest_impl);
	result = rsum_root_open(checkpoint->root_path, &checkpoint->root);
	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result, "%s cannot be opened",
					    checkpoint->root_path);
	result = rsum_sources_read(checkpoint, location, err);
	if (result == RINGSUM_OK)
		result = rsum_manifest_settle(&checkpoint->manifest, report);
	if (result != RINGSUM_OK)
		return result;
	checkpoint->profile =
		rsum_profile_choose(checkpoint->options.given.profile, &checkpoint->manifest);
	result = weigh_manifest(checkpoint);
	/* Without a usable manifest nothing else can be said: its finding stands alone. */
	if (result != RINGSUM_OK || !checkpoint->manifest.is_usable)
		return result;
	report->facts.profile = checkpoint->profile->name;
	result = check_profile(checkpoint);
	if (result == RINGSUM_OK)
		result = rsum_shards_check(checkpoint);
	if (result == RINGSUM_OK)
		result = rsum_unpromised_find(checkpoint);
	return result;
}

int rsum_checkpoint_prepare(const char *path, const struct ringsum_options *options,
			    struct ringsum_checkpoint **checkpoint_out, struct ringsum_error *err)
{
	struct ringsum_checkpoint *checkpoint;
	struct rsum_location location = { 0 };
	int result;

	if (err)
		*err = (struct ringsum_error){ 0 };
	if (!path || !*path || !checkpoint_out)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no path was given");
	checkpoint = calloc(1, sizeof(*checkpoint));
	if (!checkpoint)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory");
	checkpoint->root.fd = -1;
	result = rsum_options_resolve(options, &checkpoint->options, err);
	if (result == RINGSUM_OK)
		result = locate(path, &checkpoint->options, &location, err);
	checkpoint->root_path = location.root_path;
	if (result == RINGSUM_OK) {
		checkpoint->report = rsum_report_new();
		result = checkpoint->report ? prepare(checkpoint, &location, err) : RINGSUM_E_NOMEM;
	}
	if (result != RINGSUM_OK) {
		if (result == RINGSUM_E_NOMEM)
			(void)rsum_error_set(err, result, "out of memory while opening %s", path);
		ringsum_checkpoint_close(checkpoint);
		return result;
	}
	*checkpoint_out = checkpoint;
	return RINGSUM_OK;
}

/* The message of the first finding of that severity; "" where none is listed. */
static const char *first_message(const struct ringsum_report *report,
				 enum ringsum_severity severity)
{
	for (size_t i = 0; i < report->finding_count; i++)
		if (report->findings[i].severity == severity)
			return report->findings[i].message;
	return "";
}

int rsum_report_result(const struct ringsum_report *report, struct ringsum_error *err)
{
	unsigned long long count = report->refusing_count + report->undecided_count;
	const char *message;

	switch (ringsum_report_verdict(report)) {
	case RINGSUM_VERDICT_IDENTICAL:
		return RINGSUM_OK;
	case RINGSUM_VERDICT_REFUSED:
		return rsum_error_set(err, RINGSUM_E_REFUSED, "%llu finding%s; the first: %s",
				      count, count == 1 ? "" : "s",
				      first_message(report, RINGSUM_SEVERITY_REFUSE));
	case RINGSUM_VERDICT_UNDECIDED:
		break;
	}
	message = first_message(report, RINGSUM_SEVERITY_UNDECIDED);
	return rsum_error_set(err, RINGSUM_E_UNDECIDED, "not everything could be read%s%s",
			      *message ? ": " : "", message);
}

static bool promises_anything(const struct ringsum_checkpoint *checkpoint)
{
	return checkpoint->manifest.promise_count > 0 ||
	       checkpoint->manifest.file_promise_count > 0;
}

RSUM_PUBLIC int ringsum_checkpoint_open(const char *path, const struct ringsum_options *options,
					struct ringsum_checkpoint **checkpoint_out,
					struct ringsum_report **report_out,
					struct ringsum_error *err)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_report *report = NULL;
	int result;

	if (!checkpoint_out)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no place for the checkpoint");
	result = rsum_checkpoint_prepare(path, options, &checkpoint, err);
	if (result != RINGSUM_OK)
		return result;
	if (report_out) {
		report = rsum_report_clone(checkpoint->report);
		if (!report) {
			ringsum_checkpoint_close(checkpoint);
			return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the report");
		}
	}
	/* Nothing is proven yet, but nothing may stand against it, and something is promised. */
	if (checkpoint->report->refusing_count > 0 || checkpoint->report->undecided_count > 0 ||
	    checkpoint->report->is_incomplete_for_memory || !promises_anything(checkpoint)) {
		result = rsum_report_result(checkpoint->report, err);
		RSUM_ASSERT(result != RINGSUM_OK);
		if (!promises_anything(checkpoint) && result == RINGSUM_E_UNDECIDED &&
		    checkpoint->report->undecided_count == 0)
			result = rsum_error_set(err, RINGSUM_E_UNDECIDED,
						"the manifest promises no tensor and no file");
		ringsum_checkpoint_close(checkpoint);
		checkpoint = NULL;
	}
	if (report_out)
		*report_out = report;
	if (checkpoint)
		*checkpoint_out = checkpoint;
	return result;
}

RSUM_PUBLIC size_t ringsum_checkpoint_tensor_count(const struct ringsum_checkpoint *checkpoint)
{
	return checkpoint->manifest.promise_count;
}

RSUM_PUBLIC const struct ringsum_tensor *ringsum_checkpoint_tensor_at(
	const struct ringsum_checkpoint *checkpoint, size_t index)
{
	if (index >= checkpoint->manifest.promise_count)
		return NULL;
	return &checkpoint->manifest.promises[index].tensor;
}

RSUM_PUBLIC const struct ringsum_tensor *ringsum_checkpoint_find(
	const struct ringsum_checkpoint *checkpoint, const char *name)
{
	uint32_t index = rsum_name_index_find(&checkpoint->manifest.by_name, name);

	return index == RSUM_NAME_INDEX_NONE ? NULL : &checkpoint->manifest.promises[index].tensor;
}

RSUM_PUBLIC void ringsum_checkpoint_close(struct ringsum_checkpoint *checkpoint)
{
	size_t i;

	if (!checkpoint)
		return;
	rsum_root_close(&checkpoint->root);
	rsum_manifest_deinit(&checkpoint->manifest);
	rsum_profile_state_deinit(&checkpoint->profile_state);
	rsum_options_deinit(&checkpoint->options);
	ringsum_report_free(checkpoint->report);
	for (i = 0; i < checkpoint->manifest_count; i++) {
		free((char *)(uintptr_t)checkpoint->manifests[i].name);
		free(checkpoint->manifests[i].given_path);
	}
	free(checkpoint->manifests);
	free(checkpoint->root_path);
	free(checkpoint->shards);
	free(checkpoint->standings);
	free(checkpoint->file_standings);
	free(checkpoint);
}
