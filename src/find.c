/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for checkpoints in a tree: directories that hold a manifest of a usual name. */
#include "confine.h"
#include "error.h"
#include "manifest.h"

#include <errno.h>
#include <string.h>

#define MANIFEST_FILE "TENSORS.json"

struct found {
	const char *path; /* where the search begins */
	char **paths;
	size_t count, capacity;
	bool has_failed; /* memory ran out: a path was lost */
};

/* "a/b/TENSORS.json" below "top" is the checkpoint "top/a/b". */
static void add(struct found *found, const char *below, size_t below_bytes)
{
	size_t path_bytes = strlen(found->path);
	char *joined;

	if (found->count == found->capacity) {
		size_t capacity = found->capacity * 2 + 16;
		char **grown = realloc(found->paths, capacity * sizeof(*grown));

		if (!grown) {
			found->has_failed = true;
			return;
		}
		found->paths = grown;
		found->capacity = capacity;
	}
	joined = malloc(path_bytes + below_bytes + 2);
	if (!joined) {
		found->has_failed = true;
		return;
	}
	memcpy(joined, found->path, path_bytes);
	if (below_bytes > 0 && found->path[path_bytes - 1] != '/')
		joined[path_bytes++] = '/';
	memcpy(joined + path_bytes, below, below_bytes);
	joined[path_bytes + below_bytes] = '\0';
	found->paths[found->count++] = joined;
}

static void see(void *arg, const char *relative_path)
{
	const char *slash = strrchr(relative_path, '/');
	const char *name = slash ? slash + 1 : relative_path;

	if (strcmp(name, MANIFEST_FILE) == 0 || rsum_manifest_name_is_list(name))
		add(arg, relative_path, slash ? (size_t)(slash - relative_path) : 0);
}

static int compare_paths(const void *a_ptr, const void *b_ptr)
{
	return strcmp(*(const char *const *)a_ptr, *(const char *const *)b_ptr);
}

/* Sorted; a directory with several manifests is one checkpoint. */
static void settle(struct found *found)
{
	size_t kept = 0, i;

	if (found->count == 0)
		return;
	qsort(found->paths, found->count, sizeof(*found->paths), compare_paths);
	for (i = 1; i < found->count; i++) {
		if (strcmp(found->paths[kept], found->paths[i]) == 0)
			free(found->paths[i]);
		else
			found->paths[++kept] = found->paths[i];
	}
	found->count = kept + 1;
}

static void free_found(struct found *found)
{
	while (found->count > 0)
		free(found->paths[--found->count]);
	free(found->paths);
}

RSUM_PUBLIC int ringsum_find_checkpoints(const char *path, char ***paths_out,
					 size_t *path_count_out, int *is_cut_out,
					 struct ringsum_error *err)
{
	struct found found = { .path = path };
	struct rsum_root root;
	bool is_cut = false;
	int result;

	if (err)
		*err = (struct ringsum_error){ 0 };
	if (!path || !*path || !paths_out || !path_count_out || !is_cut_out)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "no path, or no place for the result");
	result = rsum_root_open(path, &root);
	if (result < 0)
		return rsum_error_set_errno(
			err,
			result == -ENOENT || result == -ENOTDIR ? RINGSUM_E_NOPROMISE
								: RINGSUM_E_IO,
			-result, "%.300s cannot be searched for checkpoints", path);
	result = rsum_root_walk(&root, see, &found, &is_cut);
	rsum_root_close(&root);
	if (result < 0 || found.has_failed) {
		free_found(&found);
		if (result < 0)
			return rsum_error_set_errno(err, RINGSUM_E_IO, -result,
						    "%.300s cannot be searched for checkpoints",
						    path);
		return rsum_error_set(err, RINGSUM_E_NOMEM,
				      "out of memory for the checkpoints below %.300s", path);
	}
	settle(&found);
	*paths_out = found.paths;
	*path_count_out = found.count;
	*is_cut_out = is_cut;
	return RINGSUM_OK;
}
