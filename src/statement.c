/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every statement: paths, their order, coverage, and what is left out. */
#include "statement.h"

#include <inttypes.h>
#include <string.h>

#include "report.h"

#define SHOWN_BYTES 96 /* of a path in a message */

bool rsum_statement_path_is_plain(const char *path, const char **fault_out)
{
	const char *part = path;

	*fault_out = NULL;
	if (*path == '\0')
		*fault_out = "empty";
	else if (*path == '/')
		*fault_out = "absolute";
	else if (strlen(path) > RSUM_LIMIT_NAME_BYTES)
		*fault_out = "longer than 4096 bytes, which is the limit";
	while (!*fault_out) {
		size_t length = strcspn(part, "/");

		if (length == 0)
			*fault_out = "spelled with an empty part";
		else if (length == 1 && part[0] == '.')
			*fault_out = "spelled with a part `.`";
		else if (length == 2 && memcmp(part, "..", 2) == 0)
			*fault_out = "one that climbs with `..`";
		if (part[length] == '\0')
			break;
		part += length + 1;
	}
	return !*fault_out;
}

/* ---- order ------------------------------------------------------------------------------- */

/* Part by part, as paths are compared: "a/b" comes before "a.b", since "a" comes before "a.b". */
static int compare_paths(const char *a, const char *b)
{
	int left, right;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	left = *a == '/' ? 1 : *a ? 1 + (unsigned char)*a : 0;
	right = *b == '/' ? 1 : *b ? 1 + (unsigned char)*b : 0;
	return (left > right) - (left < right);
}

static int compare_resources(const void *first, const void *second)
{
	const struct rsum_statement_resource *a = first, *b = second;
	int order = compare_paths(a->path, b->path);

	if (order == 0)
		order = (a->begin > b->begin) - (a->begin < b->begin);
	return order ? order : (a->end > b->end) - (a->end < b->end);
}

/* ---- coverage ---------------------------------------------------------------------------- */

static bool refuse(const struct rsum_statement_resource *resource, const char *what,
		   char reason[RSUM_STATEMENT_REASON_BYTES])
{
	char shown[SHOWN_BYTES], range[64] = "";

	if (resource->is_piece)
		snprintf(range, sizeof(range), ":%" PRIu64 ":%" PRIu64, resource->begin,
			 resource->end);
	snprintf(reason, RSUM_STATEMENT_REASON_BYTES, "\"%s%s\" %s",
		 rsum_text_shorten(resource->path, shown, sizeof(shown)), range, what);
	return false;
}

/* A piece begins where the one before it ended, and only the last of a file may be shorter. */
static bool piece_fits(const struct rsum_statement_resource *piece,
		       const struct rsum_statement_resource *before, bool is_last,
		       uint64_t piece_bytes, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	uint64_t begin = before ? before->end : 0;

	if (before && before->begin == piece->begin && before->end == piece->end)
		return refuse(piece, "is listed twice", reason);
	if (piece->begin >= piece->end)
		return refuse(piece, "is a piece without bytes", reason);
	if (piece->begin > begin)
		return refuse(piece, "does not begin where the piece before it ends", reason);
	if (piece->begin < begin)
		return refuse(piece, "overlaps the piece before it", reason);
	if (piece->end - piece->begin > piece_bytes ||
	    (!is_last && piece->end - piece->begin < piece_bytes))
		return refuse(piece, "is not a piece of the size that the list names", reason);
	return true;
}

bool rsum_statement_arrange(struct rsum_statement_resource *resources, size_t resource_count,
			    uint64_t piece_bytes, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	size_t i;

	qsort(resources, resource_count, sizeof(*resources), compare_resources);
	for (i = 0; i < resource_count; i++) {
		const struct rsum_statement_resource *at = &resources[i];
		bool follows = i > 0 && strcmp(at[-1].path, at->path) == 0;
		bool is_last = i + 1 == resource_count || strcmp(at->path, at[1].path) != 0;

		if (!at->is_piece) {
			if (follows)
				return refuse(at, "is listed twice", reason);
			continue;
		}
		if (!piece_fits(at, follows ? at - 1 : NULL, is_last, piece_bytes, reason))
			return false;
	}
	return true;
}

/* ---- what is left out -------------------------------------------------------------------- */

bool rsum_statement_ignores(const struct rsum_statement *statement, const char *path)
{
	static const char *const always[] = { ".git", ".gitattributes", ".github", ".gitignore" };
	char prefix[RSUM_LIMIT_NAME_BYTES + 1];
	size_t length = strlen(path), end, i;

	if (length > RSUM_LIMIT_NAME_BYTES)
		return false;
	memcpy(prefix, path, length + 1);
	for (end = strcspn(path, "/"); end <= length; end += 1 + strcspn(path + end + 1, "/")) {
		prefix[end] = '\0';
		for (i = 0; i < RSUM_COUNT_OF(always); i++)
			if (strcmp(prefix, always[i]) == 0)
				return true;
		if (rsum_name_index_find(&statement->ignored, prefix) != RSUM_NAME_INDEX_NONE)
			return true;
		prefix[end] = path[end];
		if (end == length)
			break;
	}
	return false;
}

void rsum_statement_deinit(struct rsum_statement *statement)
{
	rsum_name_index_deinit(&statement->ignored);
	free(statement->resources);
	rsum_arena_deinit(&statement->arena);
	*statement = (struct rsum_statement){ 0 };
}
