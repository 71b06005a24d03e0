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

	if (err) {
		err->code = RINGSUM_E_IO;
		err->os_errno = os_errno;
		snprintf(err->message, sizeof(err->message), "cannot write %s%.300s: %s", what,
			 name, strerror_r(os_errno, buffer, sizeof(buffer)));
	}
	return RINGSUM_E_IO;
}

/* Returns 0 or an errno. */
static int write_text(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		ssize_t written = write(fd, text, left);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		if (written == 0)
			return EIO;
		text += written;
		left -= (size_t)written;
	}
	return 0;
}

/* Some file systems tell of a full disk or a lost server only now. */
static int close_written(int fd)
{
	return close(fd) && errno != EINTR ? errno : 0;
}

static int write_in_place(const char *path, const char *text)
{
	int result, close_result, fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	result = write_text(fd, text);
	close_result = close_written(fd);
	return result ? result : close_result;
}

/* mkostemp makes files for their owner alone; a report gets what any new file gets. */
static int set_usual_mode(int fd)
{
	mode_t mask = umask(077);

	umask(mask);
	return fchmod(fd, 0666 & ~mask) ? errno : 0;
}

static int fill_temporary(int fd, const char *text)
{
	int result, close_result;

	result = set_usual_mode(fd);
	if (!result)
		result = write_text(fd, text);
	if (!result && fsync(fd))
		result = errno;
	close_result = close_written(fd);
	return result ? result : close_result;
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

static int replace_file(const char *path, const char *text)
{
	size_t length = strlen(path);
	char *temporary = malloc(length + sizeof(".XXXXXX"));
	int result, fd;

	if (!temporary)
		return ENOMEM;
	memcpy(temporary, path, length);
	memcpy(temporary + length, ".XXXXXX", sizeof(".XXXXXX"));
	fd = mkostemp(temporary, O_CLOEXEC);
	result = fd < 0 ? errno : fill_temporary(fd, text);
	if (fd >= 0 && !result && rename(temporary, path))
		result = errno;
	if (fd >= 0 && result)
		unlink(temporary);
	if (!result)
		sync_directory(temporary);
	free(temporary);
	return result;
}

static int write_file(const char *path, const char *text)
{
	struct stat status;
	char *target;
	int result;

	if (stat(path, &status))
		return errno == ENOENT ? replace_file(path, text) : errno;
	if (S_ISDIR(status.st_mode))
		return EISDIR;
	if (!S_ISREG(status.st_mode))
		return write_in_place(path, text);
	/* Through a link the file behind it is replaced, not the link. */
	target = realpath(path, NULL);
	if (!target)
		return errno;
	result = replace_file(target, text);
	free(target);
	return result;
}

int output_write_all(const char *path_or_dash, const char *text, struct ringsum_error *err)
{
	int result;

	if (!strcmp(path_or_dash, "-")) {
		result = write_text(STDOUT_FILENO, text);
		return result ? fail(err, result, "to standard output", "") : 0;
	}
	result = write_file(path_or_dash, text);
	return result ? fail(err, result, "", path_or_dash) : 0;
}
