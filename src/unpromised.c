/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies below the root that nobody promised. A file is known by the name under which it was
 * checked; where links led to it, by what it is as well, so that neither the link nor the file
 * behind it is taken for a stranger. Another name for a shard that is its own file is one.
 */
#include "checkpoint.h"
#include "rsum_limits.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Tells files apart, whatever their names. */
struct known_file {
	uint64_t device;
	uint64_t inode;
};

struct search {
	struct ringsum_checkpoint *checkpoint;
	struct known_file *known; /* sorted: the manifests, and what links led to */
	size_t known_count;
	const char **linked; /* sorted: names that lead through a link */
	size_t linked_count;
	char **respelled; /* owned, sorted: names that were not spelled as they are found */
	size_t respelled_count;
	char **names; /* owned: the first in order of those found, and some more */
	size_t name_count;
	size_t name_capacity;
	size_t listed_max;
	uint64_t found_count;
	uint64_t left_out_count; /* by the rules of a signed list */
	bool has_failed;	 /* memory ran out: a name was lost */
};

/* A signed list is of all files there are: another one could be what the model is loaded from. */
static bool must_be_promised(const struct ringsum_checkpoint *checkpoint)
{
	return checkpoint->options.given.strict || checkpoint->manifest.statement;
}

void rsum_unpromised_report(struct ringsum_checkpoint *checkpoint, const char *tensor,
			    const char *file)
{
	struct ringsum_finding finding = {
		.code = RINGSUM_FINDING_UNPROMISED,
		.severity = must_be_promised(checkpoint) ? RINGSUM_SEVERITY_REFUSE
							 : RINGSUM_SEVERITY_NOTE,
		.tensor = tensor,
		.file = file,
		.message = tensor ? "the shard holds a tensor that the manifest does not promise"
			   : checkpoint->manifest.statement
				   ? "the list names every file there is to be, and not this one; "
				     "see whether it belongs there"
				   : "the manifest promises nothing about this file",
	};

	rsum_report_add(checkpoint->report, &finding);
}

/* ---- what was checked under another name ------------------------------------------------------ */

static int compare_files(const void *a_ptr, const void *b_ptr)
{
	const struct known_file *a = a_ptr, *b = b_ptr;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->inode < b->inode ? -1 : a->inode > b->inode;
}

static int compare_names(const void *a_ptr, const void *b_ptr)
{
	return strcmp(*(const char *const *)a_ptr, *(const char *const *)b_ptr);
}

static void learn_file(struct search *search, const struct rsum_file_identity *identity)
{
	search->known[search->known_count++] = (struct known_file){
		.device = identity->device,
		.inode = identity->inode,
	};
}

/* "./a//b" as "a/b": as a walk finds it. Returns 0 or RINGSUM_E_NOMEM. */
static int respell(struct search *search, const char *name, const char **name_out)
{
	char *copy, *to;

	*name_out = name;
	if (strncmp(name, "./", 2) != 0 && !strstr(name, "//") && !strstr(name, "/./"))
		return RINGSUM_OK;
	copy = to = malloc(strlen(name) + 1);
	if (!copy)
		return RINGSUM_E_NOMEM;
	while (*name) {
		size_t length = strcspn(name, "/");

		if (length > 0 && !(length == 1 && name[0] == '.')) {
			if (to != copy)
				*to++ = '/';
			memcpy(to, name, length);
			to += length;
		}
		name += length + (name[length] == '/');
	}
	*to = '\0';
	search->respelled[search->respelled_count++] = copy;
	*name_out = copy;
	return RINGSUM_OK;
}

/* `identity` is where the name led when the file was checked. */
static void learn_name(struct search *search, const char *name,
		       const struct rsum_file_identity *identity)
{
	struct rsum_file_identity itself;
	unsigned mode;

	if (rsum_root_identify(&search->checkpoint->root, name, &itself, &mode) == 0 &&
	    itself.device == identity->device && itself.inode == identity->inode)
		return; /* no link on the way: the name is enough */
	learn_file(search, identity);
	search->linked[search->linked_count++] = name;
}

static void learn_profile_file(struct search *search, const char *name)
{
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int fd, os_errno;

	if (rsum_confine_open(&search->checkpoint->root, name, &fd, &identity, &os_errno,
			      &refusal) != RSUM_CONFINE_OK)
		return;
	close(fd);
	learn_name(search, name, &identity);
}

static int learn_all(struct search *search)
{
	const struct ringsum_checkpoint *checkpoint = search->checkpoint;
	/* With the manifests, config and plan. */
	size_t most = checkpoint->manifest.file_count + checkpoint->manifest_count + 2, i;

	search->known = calloc(most, sizeof(*search->known));
	search->linked = calloc(most, sizeof(*search->linked));
	search->respelled = calloc(most, sizeof(*search->respelled));
	if (!search->known || !search->linked || !search->respelled)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < checkpoint->manifest_count; i++)
		if (!checkpoint->manifests[i].is_stream)
			learn_file(search, &checkpoint->manifests[i].identity);
	if (checkpoint->profile->needs_config) {
		learn_profile_file(search, RSUM_CONFIG_FILE);
		learn_profile_file(search, RSUM_PLAN_FILE);
	}
	for (i = 0; i < checkpoint->manifest.file_count; i++) {
		const char *name;

		if (respell(search, checkpoint->shards[i].name, &name) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
		if (checkpoint->shards[i].is_opened)
			learn_name(search, name, &checkpoint->shards[i].identity);
	}
	qsort(search->respelled, search->respelled_count, sizeof(*search->respelled),
	      compare_names);
	qsort(search->known, search->known_count, sizeof(*search->known), compare_files);
	qsort(search->linked, search->linked_count, sizeof(*search->linked), compare_names);
	return RINGSUM_OK;
}

static bool file_is_known(const struct search *search, const struct rsum_file_identity *identity)
{
	const struct known_file file = { .device = identity->device, .inode = identity->inode };

	return bsearch(&file, search->known, search->known_count, sizeof(file), compare_files);
}

/* Whether a linked name begins with this path and a slash. */
static bool is_on_the_way(const struct search *search, const char *path)
{
	size_t low = 0, high = search->linked_count, length = strlen(path);

	/* The first name that is not before "path/" begins with it, if any does. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *name = search->linked[middle];
		int order = strncmp(name, path, length);

		if (order < 0 || (order == 0 && (unsigned char)name[length] < '/'))
			low = middle + 1;
		else
			high = middle;
	}
	return low < search->linked_count && !strncmp(search->linked[low], path, length) &&
	       search->linked[low][length] == '/';
}

static bool is_known_otherwise(const struct search *search, const char *path)
{
	const struct rsum_root *root = &search->checkpoint->root;
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	unsigned mode;
	int fd, os_errno;

	if (rsum_root_identify(root, path, &identity, &mode) < 0)
		return false;
	if (!S_ISLNK(mode))
		return S_ISREG(mode) && file_is_known(search, &identity);
	if (is_on_the_way(search, path))
		return true;
	if (rsum_confine_open(root, path, &fd, &identity, &os_errno, &refusal) != RSUM_CONFINE_OK)
		return false;
	close(fd);
	return file_is_known(search, &identity);
}

/* ---- what remains, in order -------------------------------------------------------------------- */

/* Directories come in no order; of what is too much for the list the first in order are kept. */
static void keep_first(struct search *search)
{
	if (search->name_count > 0) /* qsort takes no NULL, not even for nothing */
		qsort(search->names, search->name_count, sizeof(*search->names), compare_names);
	while (search->name_count > search->listed_max)
		free(search->names[--search->name_count]);
}

static void keep_name(struct search *search, const char *path)
{
	search->found_count++;
	if (search->name_count == search->name_capacity) {
		size_t most = search->listed_max + search->listed_max / 4;
		size_t capacity = RSUM_MIN(RSUM_MAX(search->name_capacity * 2, (size_t)64), most);
		char **names;

		if (search->name_capacity == most) {
			keep_first(search);
		} else {
			names = realloc(search->names, capacity * sizeof(*names));
			if (!names) {
				search->has_failed = true;
				return;
			}
			search->names = names;
			search->name_capacity = capacity;
		}
	}
	search->names[search->name_count] = strdup(path);
	if (search->names[search->name_count])
		search->name_count++;
	else
		search->has_failed = true;
}

/* A list of pieces has none of a file without bytes, so it cannot speak of such files. */
static bool is_left_out(const struct search *search, const char *path)
{
	const struct rsum_statement *statement = search->checkpoint->manifest.statement;
	struct rsum_file_identity identity;
	unsigned mode;

	if (!statement)
		return false;
	if (rsum_statement_ignores(statement, path))
		return true;
	return statement->is_in_pieces &&
	       rsum_root_identify(&search->checkpoint->root, path, &identity, &mode) == 0 &&
	       S_ISREG(mode) && identity.size_bytes == 0;
}

static void report_left_out(const struct search *search)
{
	char message[192];

	if (search->left_out_count == 0)
		return;
	snprintf(message, sizeof(message),
		 "%llu file%s left out by the list's own rules (paths to ignore, git's own%s): "
		 "nobody vouches for %s",
		 (unsigned long long)search->left_out_count,
		 search->left_out_count == 1 ? " is" : "s are",
		 search->checkpoint->manifest.statement->is_in_pieces ? ", files without bytes"
								      : "",
		 search->left_out_count == 1 ? "it" : "them");
	rsum_report_add(search->checkpoint->report, &(struct ringsum_finding){
							    .code = RINGSUM_FINDING_UNPROMISED,
							    .severity = RINGSUM_SEVERITY_NOTE,
							    .message = message,
						    });
}

static void visit_file(void *arg, const char *relative_path)
{
	struct search *search = arg;
	const struct ringsum_checkpoint *checkpoint = search->checkpoint;
	size_t i;

	for (i = 0; i < checkpoint->manifest_count; i++)
		if (checkpoint->manifests[i].is_in_root &&
		    strcmp(relative_path, checkpoint->manifests[i].name) == 0)
			return;
	if (checkpoint->profile->needs_config && (strcmp(relative_path, RSUM_CONFIG_FILE) == 0 ||
						  strcmp(relative_path, RSUM_PLAN_FILE) == 0))
		return;
	if (rsum_name_index_find(&checkpoint->manifest.by_file, relative_path) !=
	    RSUM_NAME_INDEX_NONE)
		return;
	if (bsearch(&relative_path, search->respelled, search->respelled_count,
		    sizeof(*search->respelled), compare_names))
		return;
	if (is_left_out(search, relative_path))
		search->left_out_count++;
	else if (!is_known_otherwise(search, relative_path))
		keep_name(search, relative_path);
}

static void report_found(struct search *search)
{
	struct ringsum_report *report = search->checkpoint->report;
	uint64_t i;

	keep_first(search);
	report_left_out(search);
	for (i = 0; i < search->name_count; i++)
		rsum_unpromised_report(search->checkpoint, NULL, search->names[i]);
	/* Past the list, but findings are counted all the same. */
	if (must_be_promised(search->checkpoint))
		for (; i < search->found_count; i++)
			rsum_unpromised_report(search->checkpoint, NULL, NULL);
	report->totals.files_unpromised = search->found_count;
	if (search->has_failed)
		report->is_incomplete_for_memory = true;
}

/* Under strict, files that were not looked for could be the ones that matter. */
static void report_cut(struct ringsum_checkpoint *checkpoint, int error)
{
	char message[256];
	struct ringsum_finding finding = {
		.code = RINGSUM_FINDING_READ_ERROR,
		.severity = must_be_promised(checkpoint) ? RINGSUM_SEVERITY_UNDECIDED
							 : RINGSUM_SEVERITY_NOTE,
		.message = message,
	};

	snprintf(message, sizeof(message),
		 "not all of the directory could be listed: %s; files that nobody promised may be "
		 "there",
		 error < 0 ? strerror(-error)
			   : "a directory in it may not be read, or there is too much in it");
	rsum_report_add(checkpoint->report, &finding);
}

int rsum_unpromised_find(struct ringsum_checkpoint *checkpoint)
{
	struct search search = {
		.checkpoint = checkpoint,
		.listed_max = must_be_promised(checkpoint) ? RSUM_LIMIT_FINDINGS : RSUM_LIMIT_NOTES,
	};
	bool is_cut = false;
	int result = learn_all(&search), walked;
	size_t i;

	if (result == RINGSUM_OK) {
		walked = rsum_root_walk(&checkpoint->root, visit_file, &search, &is_cut);
		/* First, so that it is listed however much there is. */
		if (walked < 0 || is_cut)
			report_cut(checkpoint, walked);
		report_found(&search);
		if (walked < 0 || is_cut)
			checkpoint->report->totals.files_unpromised = UINT64_MAX;
	}
	for (i = 0; i < search.name_count; i++)
		free(search.names[i]);
	free(search.names);
	for (i = 0; i < search.respelled_count; i++)
		free(search.respelled[i]);
	free(search.respelled);
	free(search.linked);
	free(search.known);
	return result;
}
