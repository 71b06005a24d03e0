/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a shard, or in all shards of a directory, with no promise needed. Owns the choice
 * of files and the tables read from their headers; how they are shown is the writers' matter.
 */
#include "inspect.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "confine.h"
#include "error.h"
#include "report.h"
#include "rsum_limits.h"

#define SHARD_SUFFIX ".safetensors"

/* ---- one shard ---------------------------------------------------------------------------- */

static int set_verdict(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
		       enum ringsum_verdict verdict, const struct rsum_refusal *refusal)
{
	char text[sizeof(refusal->message) + sizeof(refusal->actual) + 16];
	const char *message;

	/* A finding shows what was found before its message; here the message has to. */
	if (refusal->code == RINGSUM_FINDING_FILE_TYPE ||
	    refusal->code == RINGSUM_FINDING_FILE_MISSING)
		snprintf(text, sizeof(text), "found %s; %s", refusal->actual, refusal->message);
	else
		snprintf(text, sizeof(text), "%s", refusal->message);
	message = rsum_arena_copy(&inspection->strings, text, strlen(text));
	if (!message)
		return RINGSUM_E_NOMEM;
	inspected->shard.verdict = verdict;
	inspected->shard.code = refusal->code;
	inspected->shard.message = message;
	return 0;
}

static int set_refused(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
		       const struct rsum_refusal *refusal)
{
	return set_verdict(inspection, inspected, RINGSUM_VERDICT_REFUSED, refusal);
}

static int set_changed(struct ringsum_inspection *inspection, struct rsum_inspected *inspected)
{
	struct rsum_refusal refusal;

	rsum_refusal_set(
		&refusal, RINGSUM_FINDING_CHANGED_DURING_READ,
		"the file changed while its header was read; inspect it again when nothing "
		"writes to it");
	return set_verdict(inspection, inspected, RINGSUM_VERDICT_UNDECIDED, &refusal);
}

static int set_unread(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
		      int os_errno)
{
	struct rsum_refusal refusal;
	char buffer[128];

	if (os_errno == ENODATA) /* shorter than it was a moment ago */
		return set_changed(inspection, inspected);
	rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR, "the header cannot be read: %s",
			 strerror_r(os_errno, buffer, sizeof(buffer)));
	return set_verdict(inspection, inspected, RINGSUM_VERDICT_UNDECIDED, &refusal);
}

/* Parses what was read; the text is consumed. */
static int take_header(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
		       char *text, uint64_t header_bytes)
{
	struct ringsum_shard *shard = &inspected->shard;
	struct rsum_refusal refusal;
	int result;

	result = rsum_safetensors_parse(text, header_bytes, shard->size_bytes, &inspected->header,
					&refusal);
	if (result == 0) {
		shard->verdict = RINGSUM_VERDICT_IDENTICAL;
	} else if (result == RINGSUM_E_REFUSED) {
		result = set_refused(inspection, inspected, &refusal);
		if (result)
			return result;
		if (refusal.code != RINGSUM_FINDING_FILE_TRUNCATED &&
		    refusal.code != RINGSUM_FINDING_FILE_TRAILING) {
			rsum_safetensors_deinit(&inspected->header);
			return 0;
		}
	} else {
		return result;
	}
	shard->tensor_count = inspected->header.tensor_count;
	shard->metadata_count = inspected->header.metadata_count;
	return 0;
}

/* Forgets a table that may belong to another state of the file than its size. */
static int drop_if_changed(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
			   int fd, const struct rsum_file_identity *before)
{
	struct rsum_file_identity after;
	int result = rsum_file_identify(fd, &after);

	if (!result && rsum_file_identity_equal(before, &after))
		return 0;
	rsum_safetensors_deinit(&inspected->header);
	inspected->shard.tensor_count = 0;
	inspected->shard.metadata_count = 0;
	return result ? set_unread(inspection, inspected, -result)
		      : set_changed(inspection, inspected);
}

static int read_header(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
		       int fd, uint64_t *headers_bytes)
{
	struct ringsum_shard *shard = &inspected->shard;
	uint8_t head[RSUM_SAFETENSORS_PROBE_BYTES];
	size_t head_bytes = (size_t)RSUM_MIN(shard->size_bytes, sizeof(head));
	struct rsum_refusal refusal;
	char *text;
	int result;

	result = rsum_file_read_at(fd, 0, head, head_bytes);
	if (result)
		return set_unread(inspection, inspected, -result);
	if (rsum_safetensors_probe(head, head_bytes, shard->size_bytes, RSUM_LIMIT_HEADER_BYTES,
				   &shard->header_bytes, &refusal))
		return set_refused(inspection, inspected, &refusal);
	*headers_bytes += shard->header_bytes;
	if (*headers_bytes > RSUM_LIMIT_INSPECT_BYTES)
		return RINGSUM_E_LIMIT;
	text = malloc((size_t)shard->header_bytes + 1);
	if (!text)
		return RINGSUM_E_NOMEM;
	result = rsum_file_read_at(fd, sizeof(uint64_t), text, (size_t)shard->header_bytes);
	if (result) {
		free(text);
		return set_unread(inspection, inspected, -result);
	}
	text[shard->header_bytes] = '\0';
	return take_header(inspection, inspected, text, shard->header_bytes);
}

/* Fills inspected->shard but its name. Returns 0 for refused shards too. */
static int inspect_shard(struct ringsum_inspection *inspection, struct rsum_inspected *inspected,
			 const struct rsum_root *root, uint64_t *headers_bytes)
{
	const char *name = inspected->shard.name;
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	enum rsum_confine_result opened;
	int result, os_errno, fd = -1;

	opened = root ? rsum_confine_open(root, name, &fd, &identity, &os_errno, &refusal)
		      : rsum_confine_open_given(name, &fd, &identity, &os_errno, &refusal);
	if (opened == RSUM_CONFINE_REFUSED)
		return set_refused(inspection, inspected, &refusal);
	if (opened == RSUM_CONFINE_UNREADABLE)
		return set_verdict(inspection, inspected, RINGSUM_VERDICT_UNDECIDED, &refusal);
	inspected->shard.size_bytes = identity.size_bytes;
	result = read_header(inspection, inspected, fd, headers_bytes);
	if (!result)
		result = drop_if_changed(inspection, inspected, fd, &identity);
	close(fd);
	return result;
}

/* ---- which shards ------------------------------------------------------------------------- */

struct shard_names {
	struct rsum_arena *arena;
	const char **names;
	size_t count;
	size_t capacity;
	int result;
};

static bool name_is_shard(const char *name)
{
	size_t length = strlen(name), suffix = strlen(SHARD_SUFFIX);

	return length >= suffix && !strcmp(name + length - suffix, SHARD_SUFFIX);
}

static void collect_name(void *arg, const char *name)
{
	struct shard_names *found = arg;

	if (found->result || !name_is_shard(name))
		return;
	if (found->count == found->capacity) {
		size_t capacity = RSUM_MAX(found->capacity * 2, 64);
		const char **names;

		if (found->count >= RSUM_LIMIT_SHARDS) {
			found->result = RINGSUM_E_LIMIT;
			return;
		}
		names = realloc(found->names, capacity * sizeof(*names));
		if (!names) {
			found->result = RINGSUM_E_NOMEM;
			return;
		}
		found->names = names;
		found->capacity = capacity;
	}
	found->names[found->count] = rsum_arena_copy(found->arena, name, strlen(name));
	if (!found->names[found->count])
		found->result = RINGSUM_E_NOMEM;
	else
		found->count++;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int inspect_names(struct ringsum_inspection *inspection, const char *const *names,
			 size_t count, const struct rsum_root *root)
{
	uint64_t headers_bytes = 0;
	size_t i;
	int result;

	inspection->shards = calloc(count, sizeof(*inspection->shards));
	if (!inspection->shards)
		return RINGSUM_E_NOMEM;
	inspection->shard_count = count;
	for (i = 0; i < count; i++) {
		inspection->shards[i].shard.name = names[i];
		result = inspect_shard(inspection, &inspection->shards[i], root, &headers_bytes);
		if (result)
			return result;
	}
	return 0;
}

/* Returns 0, RINGSUM_E_NOPROMISE, RINGSUM_E_LIMIT, RINGSUM_E_NOMEM, or E_IO with *os_errno_out. */
static int inspect_directory(struct ringsum_inspection *inspection, const struct rsum_root *root,
			     int *os_errno_out)
{
	struct shard_names found = { .arena = &inspection->strings };
	bool is_cut_out = false;
	int result = rsum_root_list(root, collect_name, &found, &is_cut_out);

	if (result) {
		*os_errno_out = -result;
		result = result == -ENOMEM ? RINGSUM_E_NOMEM : RINGSUM_E_IO;
	} else if (found.result) {
		result = found.result;
	} else if (is_cut_out || found.count > RSUM_LIMIT_SHARDS) {
		result = RINGSUM_E_LIMIT;
	} else if (found.count == 0) {
		result = RINGSUM_E_NOPROMISE;
	} else {
		qsort(found.names, found.count, sizeof(*found.names), compare_names);
		result = inspect_names(inspection, found.names, found.count, root);
	}
	free(found.names);
	return result;
}

static int inspect_file(struct ringsum_inspection *inspection)
{
	const struct ringsum_shard *shard;
	int result = inspect_names(inspection, &inspection->path, 1, NULL);

	if (result)
		return result;
	shard = &inspection->shards[0].shard;
	if (shard->verdict == RINGSUM_VERDICT_REFUSED &&
	    shard->code == RINGSUM_FINDING_FILE_MISSING)
		return RINGSUM_E_NOPROMISE;
	return 0;
}

static int inspect_path(struct ringsum_inspection *inspection, int *os_errno_out)
{
	struct rsum_root root = { .fd = -1 };
	int result = rsum_root_open(inspection->path, &root);

	switch (-result) {
	case 0:
		result = inspect_directory(inspection, &root, os_errno_out);
		rsum_root_close(&root);
		return result;
	case ENOMEM:
		return RINGSUM_E_NOMEM;
	case ENOTDIR:
	case ELOOP:
	case ENOENT: /* opening it as a file tells what it is */
		return inspect_file(inspection);
	default: /* it may be a sound directory: nothing is known of it */
		*os_errno_out = -result;
		return RINGSUM_E_IO;
	}
}

/* ---- the public calls --------------------------------------------------------------------- */

static bool options_are_known(const struct ringsum_options *options)
{
	const unsigned char *bytes = (const unsigned char *)options;
	size_t i;

	if (!options)
		return true;
	if (options->size_bytes < sizeof(options->size_bytes))
		return false;
	for (i = sizeof(*options); i < options->size_bytes; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

static int explain(int result, const char *path, int os_errno, struct ringsum_error *err)
{
	char *shown = rsum_text_escape(path);
	const char *name = shown ? shown : "the path";

	switch (result) {
	case RINGSUM_E_NOPROMISE:
		rsum_error_set(err, result,
			       "%.300s: nothing to inspect; looked for a safetensors file, or a "
			       "directory with *" SHARD_SUFFIX " files directly in it",
			       name);
		break;
	case RINGSUM_E_LIMIT:
		rsum_error_set(
			err, result,
			"%.300s: more than %d shards, %d files or %llu header bytes; inspect "
			"the shards one by one",
			name, RSUM_LIMIT_SHARDS, RSUM_LIMIT_WALK_FILES,
			(unsigned long long)RSUM_LIMIT_INSPECT_BYTES);
		break;
	case RINGSUM_E_IO:
		rsum_error_set_errno(err, result, os_errno, "%.300s: the directory cannot be read",
				     name);
		break;
	default:
		rsum_error_set(err, result, "%.300s: %s", name, ringsum_result_text(result));
	}
	free(shown);
	return result;
}

RSUM_PUBLIC int ringsum_inspect(const char *path, const struct ringsum_options *options,
				struct ringsum_inspection **inspection_out,
				struct ringsum_error *err)
{
	struct ringsum_inspection *inspection;
	int result, os_errno = 0;

	if (!path || !inspection_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "inspecting needs a path and a place for the result");
	if (!options_are_known(options))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "the options are of an unknown version; set them up with "
				      "RINGSUM_OPTIONS_INIT");
	inspection = calloc(1, sizeof(*inspection));
	if (!inspection)
		return explain(RINGSUM_E_NOMEM, path, 0, err);
	inspection->path = rsum_arena_copy(&inspection->strings, path, strlen(path));
	result = inspection->path ? inspect_path(inspection, &os_errno) : RINGSUM_E_NOMEM;
	if (result) {
		ringsum_inspection_free(inspection);
		return explain(result, path, os_errno, err);
	}
	*inspection_out = inspection;
	return RINGSUM_OK;
}

RSUM_PUBLIC enum ringsum_verdict ringsum_inspection_verdict(
	const struct ringsum_inspection *inspection)
{
	struct rsum_inspect_totals totals;

	rsum_inspect_add_up(inspection, &totals);
	if (totals.shards_refused)
		return RINGSUM_VERDICT_REFUSED;
	if (totals.shards_undecided || !totals.shards_valid)
		return RINGSUM_VERDICT_UNDECIDED;
	return RINGSUM_VERDICT_IDENTICAL;
}

RSUM_PUBLIC size_t ringsum_inspection_shard_count(const struct ringsum_inspection *inspection)
{
	return inspection->shard_count;
}

RSUM_PUBLIC const struct ringsum_shard *ringsum_inspection_shard_at(
	const struct ringsum_inspection *inspection, size_t shard_index)
{
	return shard_index < inspection->shard_count ? &inspection->shards[shard_index].shard
						     : NULL;
}

RSUM_PUBLIC int ringsum_inspection_tensor_at(const struct ringsum_inspection *inspection,
					     size_t shard_index, size_t tensor_index,
					     struct ringsum_tensor *tensor_out)
{
	const struct rsum_safetensors_tensor *tensor;
	const struct rsum_inspected *inspected;

	if (shard_index >= inspection->shard_count)
		return RINGSUM_E_NOTFOUND;
	inspected = &inspection->shards[shard_index];
	if (tensor_index >= inspected->shard.tensor_count)
		return RINGSUM_E_NOTFOUND;
	tensor = &inspected->header.tensors[tensor_index];
	*tensor_out = (struct ringsum_tensor){
		.name = tensor->name,
		.dtype = (enum ringsum_dtype)tensor->dtype,
		.rank = tensor->rank,
		.shape = rsum_safetensors_shape(&inspected->header, tensor),
		.size_bytes = tensor->end - tensor->begin,
		.shard = inspected->shard.name,
		.begin = tensor->begin,
		.end = tensor->end,
	};
	return RINGSUM_OK;
}

RSUM_PUBLIC int ringsum_inspection_metadata_at(const struct ringsum_inspection *inspection,
					       size_t shard_index, size_t metadata_index,
					       const char **key_out, const char **value_out)
{
	const struct rsum_inspected *inspected;

	if (shard_index >= inspection->shard_count)
		return RINGSUM_E_NOTFOUND;
	inspected = &inspection->shards[shard_index];
	if (metadata_index >= inspected->shard.metadata_count)
		return RINGSUM_E_NOTFOUND;
	*key_out = rsum_safetensors_key(&inspected->header, metadata_index);
	*value_out = rsum_safetensors_value(&inspected->header, metadata_index);
	return RINGSUM_OK;
}

RSUM_PUBLIC void ringsum_inspection_free(struct ringsum_inspection *inspection)
{
	size_t i;

	if (!inspection)
		return;
	for (i = 0; i < inspection->shard_count; i++)
		rsum_safetensors_deinit(&inspection->shards[i].header);
	free(inspection->shards);
	rsum_arena_deinit(&inspection->strings);
	free(inspection);
}
