/* SPDX-License-Identifier: Apache-2.0 */
/* Results to standard output or to files. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct ringsum_error *err, int os_errno, const char *what, const char *name)
{
	char buffer[128];
	const char *why = os_errno == ENOENT ? "there is no such directory"
					     : strerror_r(os_errno, buffer, sizeof(buffer));

	if (err) {
		err->code = RINGSUM_E_IO;
		err->os_errno = os_errno;
		snprintf(err->message, sizeof(err->message), "cannot write %s%.300s: %s", what,
			 name, why);
	}
	return RINGSUM_E_IO;
}

/* Returns 0 or an errno. */
static int write_bytes(int fd, const void *data, size_t size_bytes)
{
	const char *at = data;

	while (size_bytes > 0) {
		ssize_t written = write(fd, at, size_bytes);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		if (written == 0)
			return EIO;
		at += written;
		size_bytes -= (size_t)written;
	}
	return 0;
}

/* Some file systems tell of a full disk or a lost server only now. */
static int close_written(int fd)
{
	return close(fd) && errno != EINTR ? errno : 0;
}

/* mkostemp makes files for their owner alone; a result gets what any new file gets. */
static int set_usual_mode(int fd)
{
	mode_t mask = umask(077);

	umask(mask);
	return fchmod(fd, 0666 & ~mask) ? errno : 0;
}

/* Makes the new name last. Without effect where directories cannot be synced. */
static void sync_directory(char *path)
{
	char *slash = strrchr(path, '/');
	int fd;

	if (slash)
		slash[slash == path] = '\0';
	fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!fsync(fd);
	close(fd);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Opens a temporary beside the file, whose name `target` is taken over. Returns 0 or an errno. */
static int open_temporary(struct output *output, char *target)
{
	size_t length;

	output->target = target;
	if (!target)
		return ENOMEM;
	length = strlen(target);
	output->temporary = malloc(length + sizeof(".XXXXXX"));
	if (!output->temporary)
		return ENOMEM;
	memcpy(output->temporary, target, length);
	memcpy(output->temporary + length, ".XXXXXX", sizeof(".XXXXXX"));
	output->fd = mkostemp(output->temporary, O_CLOEXEC);
	if (output->fd < 0) {
		/* There is none to be removed. */
		free(output->temporary);
		output->temporary = NULL;
		return errno;
	}
	return set_usual_mode(output->fd);
}

static int open_path(struct output *output, const char *path)
{
	struct stat status;
	char *target;

	if (stat(path, &status))
		return errno == ENOENT ? open_temporary(output, strdup(path)) : errno;
	if (S_ISDIR(status.st_mode))
		return EISDIR;
	if (!S_ISREG(status.st_mode)) {
		output->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
		return output->fd < 0 ? errno : 0;
	}
	/* Through a link the file behind it is replaced, not the link. */
	target = realpath(path, NULL);
	return target ? open_temporary(output, target) : errno;
}

int output_open(struct output *output, const char *path_or_dash, struct ringsum_error *err)
{
	int os_errno;

	*output = (struct output)OUTPUT_INIT;
	if (!strcmp(path_or_dash, "-")) {
		output->fd = STDOUT_FILENO;
		return RINGSUM_OK;
	}
	if (!*path_or_dash) {
		if (err) {
			err->code = RINGSUM_E_IO;
			err->os_errno = ENOENT;
			snprintf(err->message, sizeof(err->message),
				 "cannot write to a file without a name; give FILE or -");
		}
		return RINGSUM_E_IO;
	}
	output->name = path_or_dash;
	os_errno = open_path(output, path_or_dash);
	if (!os_errno)
		return RINGSUM_OK;
	output_abandon(output);
	return fail(err, os_errno, "", path_or_dash);
}

/* ---- writing and ending --------------------------------------------------------------------- */

static int fail_output(const struct output *output, int os_errno, struct ringsum_error *err)
{
	return fail(err, os_errno, output->name ? "" : "to standard output",
		    output->name ? output->name : "");
}

int output_write(struct output *output, const void *data, size_t size_bytes,
		 struct ringsum_error *err)
{
	int os_errno = write_bytes(output->fd, data, size_bytes);

	return os_errno ? fail_output(output, os_errno, err) : RINGSUM_OK;
}

static int finish(struct output *output)
{
	int os_errno = 0, close_errno;

	if (output->fd == STDOUT_FILENO)
		return 0;
	if (output->temporary && fsync(output->fd))
		os_errno = errno;
	close_errno = close_written(output->fd);
	output->fd = -1;
	if (!os_errno)
		os_errno = close_errno;
	if (os_errno || !output->temporary)
		return os_errno;
	if (rename(output->temporary, output->target))
		return errno;
	sync_directory(output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	return 0;
}

int output_commit(struct output *output, struct ringsum_error *err)
{
	int os_errno = finish(output);
	int result = os_errno ? fail_output(output, os_errno, err) : RINGSUM_OK;

	output_abandon(output);
	return result;
}

void output_abandon(struct output *output)
{
	if (output->fd >= 0 && output->fd != STDOUT_FILENO)
		close(output->fd);
	if (output->temporary)
		unlink(output->temporary);
	free(output->temporary);
	free(output->target);
	*output = (struct output)OUTPUT_INIT;
}

int output_write_all(const char *path_or_dash, const char *text, struct ringsum_error *err)
{
	struct output output = OUTPUT_INIT;
	int result = output_open(&output, path_or_dash, err);

	if (result == RINGSUM_OK)
		result = output_write(&output, text, strlen(text), err);
	if (result == RINGSUM_OK)
		return output_commit(&output, err);
	output_abandon(&output);
	return result;
}
