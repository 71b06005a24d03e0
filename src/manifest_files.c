/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of manifest.h: what the parsers of all formats add to the list. The table of files,
 * promises of files, and which of those agree.
 */
#include "manifest.h"

#include <inttypes.h>
#include <string.h>

#include "rsum_limits.h"

void rsum_manifest_complain(struct ringsum_report *report, const char *file_name,
			    const char *expected, const char *actual, const char *message)
{
	rsum_report_add(report, &(struct ringsum_finding){
					.code = RINGSUM_FINDING_MANIFEST_INVALID,
					.file = file_name,
					.expected = expected,
					.actual = actual,
					.message = message,
				});
}

/* ---- files -------------------------------------------------------------------------------- */

int rsum_manifest_number_file(struct rsum_manifest *manifest, const char *file,
			      uint32_t *number_out)
{
	uint32_t existing = rsum_name_index_find(&manifest->by_file, file);

	if (existing != RSUM_NAME_INDEX_NONE) {
		*number_out = existing;
		return 0;
	}
	if (manifest->file_count == RSUM_LIMIT_SHARDS)
		return RINGSUM_E_LIMIT;
	if (manifest->file_count == manifest->file_capacity) {
		size_t capacity = RSUM_MAX(manifest->file_capacity * 2, (size_t)16);
		const char **files = realloc(manifest->files, capacity * sizeof(*files));

		if (!files)
			return RINGSUM_E_NOMEM;
		manifest->files = files;
		manifest->file_capacity = capacity;
	}
	file = rsum_arena_copy(&manifest->arena, file, strlen(file));
	if (!file)
		return RINGSUM_E_NOMEM;
	*number_out = (uint32_t)manifest->file_count;
	manifest->files[manifest->file_count] = file;
	if (rsum_name_index_add(&manifest->by_file, file, *number_out, &existing))
		return RINGSUM_E_NOMEM;
	manifest->file_count++;
	return 0;
}

/* "./a//b" as "a/b", in place. A name that is all dots and slashes stays as it is. */
static void respell(char *name)
{
	char *from = name, *to = name;

	while (strncmp(from, "./", 2) == 0) {
		from += 2;
		from += strspn(from, "/");
	}
	if (!*from)
		return;
	while (*from) {
		if (*from == '/' && (from[1] == '/' || (from[1] == '.' && from[2] == '/'))) {
			from += from[1] == '/' ? 1 : 2;
			continue;
		}
		*to++ = *from++;
	}
	*to = '\0';
}

/* ---- promises of files ----------------------------------------------------------------------- */

static int grow_file_promises(struct rsum_manifest *manifest)
{
	size_t capacity = RSUM_MAX(manifest->file_promise_capacity * 2, (size_t)16);
	struct rsum_file_promise *promises;

	capacity = RSUM_MIN(capacity, (size_t)RSUM_LIMIT_TENSORS);
	promises = realloc(manifest->file_promises, capacity * sizeof(*promises));
	if (!promises)
		return RINGSUM_E_NOMEM;
	manifest->file_promises = promises;
	manifest->file_promise_capacity = capacity;
	return 0;
}

int rsum_manifest_add_file(struct rsum_manifest *manifest, const struct rsum_file_promise *promise)
{
	struct rsum_file_promise copy = *promise;
	char *path;
	int result;

	if (manifest->file_promise_count == RSUM_LIMIT_TENSORS)
		return RINGSUM_E_LIMIT;
	RSUM_ASSERT(copy.digest_bytes == rsum_algorithm_bytes(copy.algorithm));
	RSUM_ASSERT(copy.begin <= copy.end);
	if (manifest->file_promise_count == manifest->file_promise_capacity) {
		result = grow_file_promises(manifest);
		if (result)
			return result;
	}
	path = strdup(promise->path);
	if (!path)
		return RINGSUM_E_NOMEM;
	respell(path);
	result = rsum_manifest_number_file(manifest, path, &copy.file_index);
	free(path);
	if (result)
		return result;
	copy.path = manifest->files[copy.file_index];
	if (!copy.algorithm_name)
		copy.algorithm_name = rsum_algorithm_name(copy.algorithm);
	copy.algorithm_name =
		rsum_arena_copy(&manifest->arena, copy.algorithm_name, strlen(copy.algorithm_name));
	if (!copy.algorithm_name)
		return RINGSUM_E_NOMEM;
	copy.is_conflicting = false;
	manifest->file_promises[manifest->file_promise_count++] = copy;
	return 0;
}

/* Alike in all that says which digest of which bytes it is. */
static int compare_subjects(const struct rsum_file_promise *a, const struct rsum_file_promise *b)
{
	if (a->file_index != b->file_index)
		return a->file_index < b->file_index ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	if (a->algorithm != b->algorithm)
		return a->algorithm < b->algorithm ? -1 : 1;
	if (a->algorithm == RSUM_ALGORITHM_UNKNOWN)
		return strcmp(a->algorithm_name, b->algorithm_name);
	return 0;
}

static int compare_promises(const void *a_ptr, const void *b_ptr)
{
	const struct rsum_file_promise *a = a_ptr, *b = b_ptr;
	int order = compare_subjects(a, b);

	if (order == 0)
		order = memcmp(a->digest, b->digest, sizeof(a->digest));
	if (order == 0 && a->size_bytes != b->size_bytes)
		order = a->size_bytes < b->size_bytes ? -1 : 1;
	return order;
}

static void print_promise(const struct rsum_file_promise *promise, char text[192])
{
	size_t used;

	rsum_hex_encode(promise->digest, promise->digest_bytes, text);
	used = strlen(text);
	if (promise->size_bytes != UINT64_MAX)
		snprintf(text + used, 192 - used, "%s%" PRIu64 " bytes", used ? ", " : "",
			 promise->size_bytes);
}

static void report_conflict(const struct rsum_file_promise *first,
			    const struct rsum_file_promise *second, struct ringsum_report *report)
{
	char expected[192], actual[192];

	print_promise(first, expected);
	print_promise(second, actual);
	rsum_report_add(report,
			&(struct ringsum_finding){
				.code = RINGSUM_FINDING_MANIFEST_INVALID,
				.file = first->path,
				.has_range = first->begin > 0 || first->end != UINT64_MAX,
				.begin = first->begin,
				.end = first->end,
				.expected = expected,
				.actual = actual,
				.message = "the same bytes are promised twice, and "
					   "otherwise; neither can be trusted: get promises "
					   "that agree",
			});
}

/* Whether two promises of the same subject can both hold. */
static bool can_both_hold(const struct rsum_file_promise *a, const struct rsum_file_promise *b)
{
	if (memcmp(a->digest, b->digest, sizeof(a->digest)) != 0)
		return false;
	return a->size_bytes == b->size_bytes || a->size_bytes == UINT64_MAX ||
	       b->size_bytes == UINT64_MAX;
}

int rsum_manifest_settle(struct rsum_manifest *manifest, struct ringsum_report *report)
{
	struct rsum_file_promise *promises = manifest->file_promises;
	size_t kept = 0, i;

	if (manifest->file_promise_count > 1)
		qsort(promises, manifest->file_promise_count, sizeof(*promises), compare_promises);
	for (i = 0; i < manifest->file_promise_count; i++) {
		struct rsum_file_promise *before = kept ? &promises[kept - 1] : NULL;

		if (!before || compare_subjects(before, &promises[i]) != 0) {
			promises[kept++] = promises[i];
			continue;
		}
		if (can_both_hold(before, &promises[i])) {
			before->size_bytes = RSUM_MIN(before->size_bytes, promises[i].size_bytes);
			continue;
		}
		/* Of one subject one is kept: it is refused, whatever the bytes are. */
		if (!before->is_conflicting)
			report_conflict(before, &promises[i], report);
		before->is_conflicting = true;
	}
	manifest->file_promise_count = kept;
	return 0;
}

/* ---- documents that turn out to be unusable --------------------------------------------------- */

struct rsum_manifest_mark rsum_manifest_mark(const struct rsum_manifest *manifest)
{
	return (struct rsum_manifest_mark){
		.promise_count = manifest->promise_count,
		.file_promise_count = manifest->file_promise_count,
		.file_count = manifest->file_count,
	};
}

/* The indexes know no removal: they are made anew of what stays. */
static int index_again(struct rsum_manifest *manifest)
{
	uint32_t existing;
	size_t i;

	rsum_name_index_deinit(&manifest->by_name);
	rsum_name_index_deinit(&manifest->by_file);
	for (i = 0; i < manifest->promise_count; i++)
		if (*manifest->promises[i].tensor.name &&
		    rsum_name_index_add(&manifest->by_name, manifest->promises[i].tensor.name,
					(uint32_t)i, &existing))
			return RINGSUM_E_NOMEM;
	for (i = 0; i < manifest->file_count; i++)
		if (rsum_name_index_add(&manifest->by_file, manifest->files[i], (uint32_t)i,
					&existing))
			return RINGSUM_E_NOMEM;
	return 0;
}

int rsum_manifest_rewind(struct rsum_manifest *manifest, struct rsum_manifest_mark mark)
{
	int result;

	manifest->promise_count = mark.promise_count;
	manifest->file_promise_count = mark.file_promise_count;
	manifest->file_count = mark.file_count;
	result = index_again(manifest);
	if (result) {
		manifest->promise_count = 0;
		manifest->file_promise_count = 0;
		manifest->file_count = 0;
		(void)index_again(manifest);
	}
	return result;
}
