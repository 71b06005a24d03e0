/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where promises come from: the documents that the caller names, or else the first kind of promise
 * that a checkpoint's directory holds by itself, in the order of the table below. What is there of
 * a later kind is not used, and said so: promises that nobody asked for must not refuse what the
 * first kind proves.
 */
#include "checkpoint.h"
#include "error.h"
#include "rsum_limits.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TENSORS_FILE "TENSORS.json"
#define BUNDLE_FILE "model.sig"

/* Lists beside each other that are all used: one for each shard is usual. */
#define LISTS_MAX 10000

/* ---- one document ------------------------------------------------------------------------------ */

struct source {
	const char *name;	/* for messages; relative to the root where it is in the root */
	const char *given_path; /* where the caller named it: it may lie anywhere */
	bool is_in_root;
	bool is_stream;
};

/* From the root directory on, so that a process that changes its own finds it again. */
static char *absolute_path(const char *path)
{
	char *here, *absolute = NULL;

	if (path[0] == '/')
		return strdup(path);
	here = getcwd(NULL, 0);
	if (!here)
		return errno == ENOMEM ? NULL : strdup(path);
	if (asprintf(&absolute, "%s/%s", here, path) < 0)
		absolute = NULL;
	free(here);
	return absolute;
}

/* Keeps what has to stay as it is. Returns 0 or RINGSUM_E_NOMEM. */
static int keep_document(struct ringsum_checkpoint *checkpoint, const struct source *source,
			 const struct rsum_file_identity *identity)
{
	size_t count = checkpoint->manifest_count;
	struct rsum_document *documents =
		realloc(checkpoint->manifests, (count + 1) * sizeof(*documents));
	struct rsum_document *document;

	if (!documents)
		return RINGSUM_E_NOMEM;
	checkpoint->manifests = documents;
	document = &documents[count];
	*document = (struct rsum_document){
		.name = strdup(source->name),
		.is_in_root = source->is_in_root,
		.is_stream = source->is_stream,
		.identity = *identity,
	};
	checkpoint->manifest_count++;
	if (source->given_path && !source->is_stream)
		document->given_path = absolute_path(source->given_path);
	if (!document->name || (source->given_path && !source->is_stream && !document->given_path))
		return RINGSUM_E_NOMEM;
	return RINGSUM_OK;
}

/* The pin is compared before anything in the manifest is believed. */
static bool is_pinned(struct ringsum_checkpoint *checkpoint, const char *name,
		      const uint8_t digest[RSUM_SHA256_BYTES])
{
	char expected[65], actual[65];

	if (!checkpoint->options.has_pin ||
	    memcmp(checkpoint->options.pin_sha256, digest, RSUM_SHA256_BYTES) == 0)
		return true;
	rsum_hex_encode_digest(checkpoint->options.pin_sha256, expected);
	rsum_hex_encode_digest(digest, actual);
	rsum_report_add(checkpoint->report,
			&(struct ringsum_finding){
				.code = RINGSUM_FINDING_DIGEST_MISMATCH,
				.file = name,
				.expected = expected,
				.actual = actual,
				.message =
					"the manifest is not the one that was pinned, so nothing "
					"in it was used; fetch the manifest again or check the "
					"pin",
			});
	return false;
}

/*
 * Opens the document. Returns 0 with *fd_out, which is -1 where it has its finding;
 * RINGSUM_E_NOPROMISE where it is not there.
 */
static int open_document(struct ringsum_checkpoint *checkpoint, const struct source *source,
			 int *fd_out, struct rsum_file_identity *identity_out)
{
	enum rsum_confine_result opened;
	struct rsum_refusal refusal;
	int os_errno = 0;

	*fd_out = -1;
	/* What the caller names may lie anywhere; what we look for stays inside the root. */
	if (source->given_path)
		opened = rsum_confine_open_given(source->given_path, fd_out, identity_out,
						 &os_errno, &refusal);
	else
		opened = rsum_confine_open(&checkpoint->root, source->name, fd_out, identity_out,
					   &os_errno, &refusal);
	if (opened == RSUM_CONFINE_OK)
		return RINGSUM_OK;
	*fd_out = -1;
	if (opened == RSUM_CONFINE_REFUSED && refusal.code == RINGSUM_FINDING_FILE_MISSING)
		return RINGSUM_E_NOPROMISE;
	rsum_report_add_refusal(checkpoint->report, &refusal, NULL, source->name);
	return RINGSUM_OK;
}

/* Hashes, compares with the pin and parses; `text` is freed. */
static int use_text(struct ringsum_checkpoint *checkpoint, const struct source *source, char *text,
		    size_t size_bytes, struct ringsum_error *err)
{
	const struct rsum_manifest_format *format;
	uint8_t digest[RSUM_SHA256_BYTES];
	char hex[65];
	int result = rsum_sha256_of(text, size_bytes, digest);

	if (result != RINGSUM_OK) {
		free(text);
		return rsum_error_set(err, result, "the manifest could not be hashed");
	}
	rsum_hex_encode_digest(digest, hex);
	format = rsum_manifest_detect(text, size_bytes, source->name);
	result = rsum_report_add_manifest(checkpoint->report, format->name, source->name, hex);
	if (result != RINGSUM_OK || !is_pinned(checkpoint, source->name, digest)) {
		free(text);
		return result;
	}
	result = format->parse(text, size_bytes, source->name, &checkpoint->manifest,
			       checkpoint->report);
	if (result != RINGSUM_E_REFUSED)
		return result;
	if (source->is_in_root && source->given_path)
		rsum_report_advise(checkpoint->report,
				   "name the checkpoint's directory, or its manifest file");
	return RINGSUM_OK;
}

static int read_stream(struct ringsum_checkpoint *checkpoint, const struct source *source,
		       char **text_out, size_t *size_bytes_out)
{
	struct rsum_refusal refusal;
	int result = rsum_stream_read_all(STDIN_FILENO, RSUM_LIMIT_MANIFEST_BYTES, text_out,
					  size_bytes_out);

	if (result == -ENOMEM)
		return RINGSUM_E_NOMEM;
	if (result == 0)
		return RINGSUM_OK;
	(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR, "could not be read: %s",
			       result == -EFBIG ? "it is larger than the limit of 1 GiB"
						: strerror(-result));
	rsum_report_add_refusal(checkpoint->report, &refusal, NULL, source->name);
	return RINGSUM_OK;
}

/*
 * Reads and parses one document. Returns 0 (the report says where it is unusable),
 * RINGSUM_E_NOPROMISE where it is not there, RINGSUM_E_NOMEM or RINGSUM_E_UNDECIDED.
 */
static int read_source(struct ringsum_checkpoint *checkpoint, const struct source *source,
		       struct ringsum_error *err)
{
	struct rsum_file_identity identity = { 0 };
	size_t size_bytes = 0;
	char *text = NULL;
	int fd, result;

	if (source->is_stream) {
		result = read_stream(checkpoint, source, &text, &size_bytes);
	} else {
		result = open_document(checkpoint, source, &fd, &identity);
		if (result != RINGSUM_OK || fd < 0)
			return result;
		result = rsum_document_read(checkpoint, fd, source->name, RSUM_LIMIT_MANIFEST_BYTES,
					    RINGSUM_FINDING_MANIFEST_INVALID, &text, &size_bytes);
		close(fd);
	}
	if (result == RINGSUM_OK)
		result = keep_document(checkpoint, source, &identity);
	if (result != RINGSUM_OK) {
		free(text);
		return result;
	}
	if (!text)
		return rsum_report_add_manifest(checkpoint->report, NULL, source->name, "");
	return use_text(checkpoint, source, text, size_bytes, err);
}

/* ---- what the caller named ----------------------------------------------------------------------- */

static int read_given(struct ringsum_checkpoint *checkpoint, const char *path,
		      struct ringsum_error *err)
{
	const struct source source = {
		.name = strcmp(path, "-") == 0 ? "standard input" : path,
		.given_path = path,
		.is_stream = strcmp(path, "-") == 0,
	};
	int result = read_source(checkpoint, &source, err);

	if (result == RINGSUM_E_NOPROMISE)
		return rsum_error_set(err, result,
				      "there is no manifest %.300s (named with --manifest)", path);
	return result;
}

static int read_path(struct ringsum_checkpoint *checkpoint, const char *path,
		     struct ringsum_error *err)
{
	const char *slash = strrchr(path, '/');
	const struct source source = {
		.name = slash ? slash + 1 : path,
		.given_path = path,
		.is_in_root = true,
	};
	int result = read_source(checkpoint, &source, err);

	if (result == RINGSUM_E_NOPROMISE)
		return rsum_error_set(err, result, "there is no manifest %.300s", path);
	return result;
}

/* ---- what is there by itself ----------------------------------------------------------------------- */

static int read_found(struct ringsum_checkpoint *checkpoint, const char *name,
		      struct ringsum_error *err)
{
	const struct source source = { .name = name, .is_in_root = true };

	return read_source(checkpoint, &source, err);
}

/* RINGSUM_E_NOPROMISE where there is none. */
static int read_tensors(struct ringsum_checkpoint *checkpoint, struct ringsum_error *err)
{
	return read_found(checkpoint, TENSORS_FILE, err);
}

/* OpenSSF model signing's usual name for a bundle. RINGSUM_E_NOPROMISE where there is none. */
static int read_bundle(struct ringsum_checkpoint *checkpoint, struct ringsum_error *err)
{
	return read_found(checkpoint, BUNDLE_FILE, err);
}

struct names {
	char **names; /* owned */
	size_t count;
	bool has_failed; /* memory ran out */
};

static void visit_entry(void *arg, const char *name)
{
	struct names *names = arg;
	char **grown;

	if (names->has_failed || names->count == LISTS_MAX || !rsum_manifest_name_is_list(name))
		return;
	grown = realloc(names->names, (names->count + 1) * sizeof(*grown));
	if (!grown) {
		names->has_failed = true;
		return;
	}
	names->names = grown;
	grown[names->count] = strdup(name);
	if (grown[names->count])
		names->count++;
	else
		names->has_failed = true;
}

static int compare_names(const void *a_ptr, const void *b_ptr)
{
	return strcmp(*(const char *const *)a_ptr, *(const char *const *)b_ptr);
}

/* The lists in the root itself, sorted. */
static int find_lists(const struct ringsum_checkpoint *checkpoint, struct names *out,
		      struct ringsum_error *err)
{
	bool is_cut = false;
	int result = rsum_root_list(&checkpoint->root, visit_entry, out, &is_cut);

	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result,
					    "%.300s cannot be listed to look for its promise",
					    checkpoint->root_path);
	if (out->has_failed)
		return RINGSUM_E_NOMEM;
	if (out->count > 1)
		qsort(out->names, out->count, sizeof(*out->names), compare_names);
	return RINGSUM_OK;
}

static void free_names(struct names *names)
{
	while (names->count > 0)
		free(names->names[--names->count]);
	free(names->names);
}

/* All of them together. One that is a link to nowhere, or was removed meanwhile, has a finding. */
static int read_lists(struct ringsum_checkpoint *checkpoint, struct ringsum_error *err)
{
	struct names lists = { 0 };
	struct rsum_refusal refusal;
	int result = find_lists(checkpoint, &lists, err);
	size_t i;

	if (result == RINGSUM_OK && lists.count == 0)
		result = RINGSUM_E_NOPROMISE;
	for (i = 0; i < lists.count && result == RINGSUM_OK; i++) {
		result = read_found(checkpoint, lists.names[i], err);
		if (result != RINGSUM_E_NOPROMISE)
			continue;
		(void)rsum_refusal_set(
			&refusal, RINGSUM_FINDING_FILE_MISSING,
			"the list of checksums is a link to nothing, or was removed; "
			"copy it again");
		rsum_report_add_refusal(checkpoint->report, &refusal, NULL, lists.names[i]);
		result = RINGSUM_OK;
	}
	free_names(&lists);
	return result;
}

/* The kinds, the first of which to be there is used. */
static const struct {
	const char *looked_for;
	/* RINGSUM_E_NOPROMISE where nothing of the kind is there; else as rsum_sources_read. */
	int (*read)(struct ringsum_checkpoint *checkpoint, struct ringsum_error *err);
	bool is_signed; /* the kinds that are looked for where a signature is asked for */
} kinds[] = {
	{ TENSORS_FILE, read_tensors, false },
	{ BUNDLE_FILE, read_bundle, true },
	{ "SHA256SUMS, *.sha256 and *.sha256sum", read_lists, false },
};

static bool is_signature_wanted(const struct ringsum_checkpoint *checkpoint)
{
	const struct rsum_trust *trust = &checkpoint->options.trust;

	return trust->public_key || trust->authorities;
}

static int read_first_kind(struct ringsum_checkpoint *checkpoint, struct ringsum_error *err)
{
	char looked_for[256] = "";
	size_t used = 0;
	int result;

	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++) {
		if (is_signature_wanted(checkpoint) && !kinds[i].is_signed)
			continue;
		result = kinds[i].read(checkpoint, err);
		if (result != RINGSUM_E_NOPROMISE)
			return result;
		used += (size_t)snprintf(looked_for + used, sizeof(looked_for) - used, "%s%s",
					 used ? ", " : "", kinds[i].looked_for);
		RSUM_ASSERT(used < sizeof(looked_for));
	}
	return rsum_error_set(err, RINGSUM_E_NOPROMISE,
			      "%.300s holds no %spromise: looked for %s there; name a manifest "
			      "with --manifest",
			      checkpoint->root_path,
			      is_signature_wanted(checkpoint) ? "signed " : "", looked_for);
}

/*
 * Where a signature is asked for, nothing counts that none was checked of: one document, and that
 * one signed. Otherwise whoever can put a list there could leave the signature out.
 */
static void require_signature(struct ringsum_checkpoint *checkpoint)
{
	struct ringsum_report *report = checkpoint->report;

	if (report->facts.authenticity.is_checked && report->manifest_count == 1)
		return;
	/* Why it was refused, or could not be read, is told already. */
	if (report->refusing_count + report->undecided_count == 0)
		rsum_report_add(
			report,
			&(struct ringsum_finding){
				.code = RINGSUM_FINDING_SIGNATURE_INVALID,
				.file = report->manifest_count ? report->manifests[0].path : NULL,
				.expected = "a signed promise",
				.actual = report->manifest_count ? report->manifests[0].kind : NULL,
				.message = "a signature was asked for and there is none, "
					   "so nothing in it was used; get the signed "
					   "promise, or verify without --public-key "
					   "and --ca",
			});
	rsum_manifest_deinit(&checkpoint->manifest);
}

static int read_all(struct ringsum_checkpoint *checkpoint, const struct rsum_location *location,
		    struct ringsum_error *err)
{
	const char *given = checkpoint->options.given.manifest_path;

	if (given)
		return read_given(checkpoint, given, err);
	if (location->manifest_path)
		return read_path(checkpoint, location->manifest_path, err);
	return read_first_kind(checkpoint, err);
}

int rsum_sources_read(struct ringsum_checkpoint *checkpoint, const struct rsum_location *location,
		      struct ringsum_error *err)
{
	int result;

	checkpoint->manifest.trust = &checkpoint->options.trust;
	result = read_all(checkpoint, location, err);
	if (result == RINGSUM_OK && is_signature_wanted(checkpoint))
		require_signature(checkpoint);
	return result;
}
