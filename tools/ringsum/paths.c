/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers paths. */
#include "paths.h"

#include "ringsum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void paths_free(struct paths *paths)
{
	while (paths->count > 0)
		free(paths->list[--paths->count]);
	free(paths->list);
	*paths = (struct paths){ 0 };
}

/* Takes over `path`. Returns ARGUMENTS_GOOD, or a status that was told. */
static int add(const struct command *command, struct paths *paths, char *path)
{
	char **grown = paths->list;

	if (path && paths->count == paths->capacity) {
		int capacity = paths->capacity * 2 + 16;

		grown = paths->count < PATHS_MAX
				? realloc(paths->list, (size_t)capacity * sizeof(*grown))
				: NULL;
		if (grown) {
			paths->list = grown;
			paths->capacity = capacity;
		}
	}
	if (!path || !grown) {
		free(path);
		return command_complain(command, COMMAND_UNDECIDED,
					paths->count >= PATHS_MAX
						? "more than %d PATHs; verify them in parts"
						: "out of memory after %d PATHs",
					paths->count);
	}
	paths->list[paths->count++] = path;
	return ARGUMENTS_GOOD;
}

static int add_below(const struct command *command, struct paths *paths, const char *path)
{
	int is_cut_out = 0, status = ARGUMENTS_GOOD;
	struct ringsum_error err = { 0 };
	size_t count = 0, i;
	char **found = NULL;

	/* What is no directory, or cannot be listed, is told of when it is verified. */
	if (ringsum_find_checkpoints(path, &found, &count, &is_cut_out, &err) != RINGSUM_OK ||
	    count == 0) {
		if (err.code == RINGSUM_E_NOMEM)
			return command_complain(command, COMMAND_UNDECIDED, "%s", err.message);
		status = add(command, paths, strdup(path));
	}
	for (i = 0; i < count; i++) {
		if (status == ARGUMENTS_GOOD)
			status = add(command, paths, found[i]);
		else
			ringsum_free(found[i]);
	}
	ringsum_free(found);
	if (is_cut_out) {
		paths->is_incomplete = 1;
		(void)command_complain(command, COMMAND_UNDECIDED,
				       "not all below %s could be looked through: a directory that "
				       "cannot be read, or too many or too deep",
				       path);
	}
	return status;
}

static int add_one(const struct command *command, const struct path_wishes *wishes,
		   struct paths *paths, const char *path)
{
	if (wishes->is_recursive)
		return add_below(command, paths, path);
	return add(command, paths, strdup(path));
}

static int add_lines(const struct command *command, const struct path_wishes *wishes,
		     struct paths *paths, FILE *from)
{
	const char *name = wishes->files_from;
	int end = wishes->is_null ? '\0' : '\n', status = ARGUMENTS_GOOD;
	char *line = NULL;
	size_t room = 0;
	ssize_t length;

	errno = 0;
	while (status == ARGUMENTS_GOOD && (length = getdelim(&line, &room, end, from)) > 0) {
		if (line[length - 1] == end)
			line[--length] = '\0';
		if (strlen(line) != (size_t)length)
			status = command_complain(
				command, COMMAND_USAGE,
				"%s holds a NUL; where its paths end with NUL, say "
				"--null",
				name);
		else if (length > 0)
			status = add_one(command, wishes, paths, line);
	}
	if (status == ARGUMENTS_GOOD && (ferror(from) || errno == ENOMEM))
		status = command_complain(command, COMMAND_UNDECIDED, "cannot read %s: %s", name,
					  strerror(errno));
	free(line);
	return status;
}

static int add_from_file(const struct command *command, const struct path_wishes *wishes,
			 struct paths *paths)
{
	int is_stdin = strcmp(wishes->files_from, "-") == 0, status;
	FILE *from = is_stdin ? stdin : fopen(wishes->files_from, "re");

	if (!from)
		return command_complain(command, COMMAND_UNDECIDED, "cannot read %s: %s",
					wishes->files_from, strerror(errno));
	status = add_lines(command, wishes, paths, from);
	if (!is_stdin)
		fclose(from);
	return status;
}

int paths_gather(const struct command *command, const struct path_wishes *wishes,
		 const struct operands *operands, struct paths *paths_out)
{
	struct paths paths = { 0 };
	int status = ARGUMENTS_GOOD, i;

	if (wishes->is_null && !wishes->files_from)
		return command_complain(
			command, COMMAND_USAGE,
			"--null says how paths end in --files-from, which is missing");
	if (operands->count == 0 && !wishes->files_from)
		return command_complain(command, COMMAND_USAGE,
					"PATH is missing; see ringsum %s --help", command->name);
	for (i = 0; i < operands->count; i++)
		if (!*operands->words[i])
			return command_complain(command, COMMAND_USAGE,
						"PATH %d of %d is empty; nothing was verified",
						i + 1, operands->count);
	for (i = 0; i < operands->count && status == ARGUMENTS_GOOD; i++)
		status = add_one(command, wishes, &paths, operands->words[i]);
	if (status == ARGUMENTS_GOOD && wishes->files_from)
		status = add_from_file(command, wishes, &paths);
	if (status == ARGUMENTS_GOOD && paths.count == 0)
		status = command_complain(command, COMMAND_UNDECIDED,
					  "%s names no PATH; nothing was verified",
					  wishes->files_from);
	if (status != ARGUMENTS_GOOD) {
		paths_free(&paths);
		return status;
	}
	*paths_out = paths;
	return ARGUMENTS_GOOD;
}
