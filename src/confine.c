/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names from a manifest to open files beneath a root. Owns the rules for names, the two ways to
 * resolve beneath a directory, and what each failure means for a report. Knows no formats.
 */
#include "confine.h"
#include "confine_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rsum_limits.h"

#define COMPONENT_BYTES_MAX 255
#define ATTEMPTS_MAX 64 /* while renames go on, or a lease is being given up */
#define READ_FLAGS (O_RDONLY | O_NOCTTY | O_NONBLOCK)

/* ---- names -------------------------------------------------------------------------------- */

static bool refuse_name(struct rsum_refusal *refusal, const char *actual)
{
	rsum_refusal_set(refusal, RINGSUM_FINDING_PATH_ESCAPE,
			 "the file name is %s; a plain path inside the checkpoint was expected",
			 actual);
	snprintf(refusal->expected, sizeof(refusal->expected), "a plain relative path");
	snprintf(refusal->actual, sizeof(refusal->actual), "%s", actual);
	return false;
}

/* Such a name is no escape, but nothing can be there under it either. */
static bool refuse_long(struct rsum_refusal *refusal, const char *actual, unsigned limit_bytes)
{
	rsum_refusal_set(refusal, RINGSUM_FINDING_PATH_ESCAPE,
			 "the file name %s longer than %u bytes, which is longer than any file "
			 "system takes; get the manifest again",
			 actual, limit_bytes);
	snprintf(refusal->expected, sizeof(refusal->expected), "at most %u bytes", limit_bytes);
	snprintf(refusal->actual, sizeof(refusal->actual), "a longer name");
	return false;
}

bool rsum_confine_name_is_plain(const char *name, struct rsum_refusal *refusal)
{
	const char *component = name;
	bool is_named = false;

	if (name[0] == '\0')
		return refuse_name(refusal, "empty");
	if (name[0] == '/')
		return refuse_name(refusal, "absolute");
	if (strnlen(name, RSUM_LIMIT_NAME_BYTES + 1) > RSUM_LIMIT_NAME_BYTES)
		return refuse_long(refusal, "is", RSUM_LIMIT_NAME_BYTES);
	while (*component) {
		size_t length = strcspn(component, "/");

		if (length > COMPONENT_BYTES_MAX)
			return refuse_long(refusal, "has a part", COMPONENT_BYTES_MAX);
		if (length == 2 && !memcmp(component, "..", 2))
			return refuse_name(refusal, "one that climbs with `..`");
		if (length > 0 && !(length == 1 && component[0] == '.'))
			is_named = true;
		component += length;
		component += strspn(component, "/");
	}
	if (!is_named)
		return refuse_name(refusal, "the directory itself");
	return true;
}

/* ---- the root ----------------------------------------------------------------------------- */

static int open_openat2(int root_fd, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root_fd, name, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int rsum_root_open(const char *path, struct rsum_root *root_out)
{
	int fd, probe;

	do {
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return -errno;

	/* Whatever refuses this harmless call (old kernel, seccomp) leaves the walk, which has the
	 * same meaning; only want of descriptors says nothing about openat2. */
	probe = open_openat2(fd, ".", O_PATH | O_DIRECTORY);
	if (probe == -EMFILE || probe == -ENFILE || probe == -ENOMEM) {
		close(fd);
		return probe;
	}
	if (probe >= 0)
		close(probe);
	root_out->fd = fd;
	root_out->has_openat2 = probe >= 0;
	return 0;
}

void rsum_root_close(struct rsum_root *root)
{
	if (root->fd >= 0)
		close(root->fd);
	root->fd = -1;
}

/* Stands for a path that may lead anywhere. */
static const struct rsum_root anywhere = { .fd = AT_FDCWD };

static int open_once(const struct rsum_root *root, const char *name, int flags)
{
	int fd;

	if (root->fd == AT_FDCWD) {
		fd = open(name, flags | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	if (root->has_openat2)
		return open_openat2(root->fd, name, flags);
	return rsum_confine_walk_open(root->fd, name, flags);
}

/* Resolves beneath root. Returns a descriptor or a negative errno. */
static int open_beneath(const struct rsum_root *root, const char *name, int flags)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd = -EAGAIN;
	unsigned attempt;

	for (attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
		fd = open_once(root, name, flags);
		if (fd != -EAGAIN && fd != -EINTR)
			break;
		if (attempt >= ATTEMPTS_MAX / 4)
			nanosleep(&pause, NULL);
	}
	return fd;
}

/* ---- what a failure means ----------------------------------------------------------------- */

static enum rsum_confine_result refuse_missing(const struct rsum_root *root, const char *name,
					       int os_errno, struct rsum_refusal *refusal)
{
	int link_fd = open_beneath(root, name, O_PATH | O_NOFOLLOW);
	const char *actual =
		os_errno == ENOTDIR ? "a file where the path needs a directory" : "nothing";

	if (link_fd >= 0) {
		actual = "a symbolic link to something that is not there";
		close(link_fd);
	}
	rsum_refusal_set(refusal, RINGSUM_FINDING_FILE_MISSING,
			 "the file is not there; copy it into the checkpoint again");
	snprintf(refusal->expected, sizeof(refusal->expected), "a regular file");
	snprintf(refusal->actual, sizeof(refusal->actual), "%s", actual);
	return RSUM_CONFINE_REFUSED;
}

static enum rsum_confine_result refuse_escape(struct rsum_refusal *refusal)
{
	rsum_refusal_set(
		refusal, RINGSUM_FINDING_PATH_ESCAPE,
		"a symbolic link on the path is absolute or leaves the checkpoint on its way; "
		"only relative links that stay inside at every step are followed: put such a "
		"link or the file itself there");
	snprintf(refusal->expected, sizeof(refusal->expected), "a path inside the checkpoint");
	snprintf(refusal->actual, sizeof(refusal->actual),
		 "a symbolic link that leaves it or is absolute");
	return RSUM_CONFINE_REFUSED;
}

static enum rsum_confine_result refuse_type(struct rsum_refusal *refusal, const char *actual)
{
	rsum_refusal_set(refusal, RINGSUM_FINDING_FILE_TYPE,
			 "only regular files are read; put the file itself there");
	snprintf(refusal->expected, sizeof(refusal->expected), "a regular file");
	snprintf(refusal->actual, sizeof(refusal->actual), "%s", actual);
	return RSUM_CONFINE_REFUSED;
}

static const char *read_error_advice(int os_errno)
{
	switch (os_errno) {
	case EACCES:
	case EPERM:
		return "; verify as a user who may read it";
	case EMFILE:
	case ENFILE:
		return "; raise the limit of open files (ulimit -n)";
	default:
		return "";
	}
}

static enum rsum_confine_result unreadable(int os_errno, int *os_errno_out,
					   struct rsum_refusal *refusal)
{
	char buffer[128];
	const char *text = strerror_r(os_errno, buffer, sizeof(buffer));

	rsum_refusal_set(refusal, RINGSUM_FINDING_READ_ERROR, "the file cannot be opened: %s%s",
			 text, read_error_advice(os_errno));
	snprintf(refusal->expected, sizeof(refusal->expected), "a readable file");
	snprintf(refusal->actual, sizeof(refusal->actual), "%s", text);
	*os_errno_out = os_errno;
	return RSUM_CONFINE_UNREADABLE;
}

static enum rsum_confine_result changed(int *os_errno_out, struct rsum_refusal *refusal)
{
	rsum_refusal_set(
		refusal, RINGSUM_FINDING_CHANGED_DURING_READ,
		"the file was replaced while it was being opened; verify again when nothing "
		"writes to the checkpoint");
	*os_errno_out = ESTALE;
	return RSUM_CONFINE_UNREADABLE;
}

static enum rsum_confine_result judge_errno(const struct rsum_root *root, const char *name,
					    int os_errno, int *os_errno_out,
					    struct rsum_refusal *refusal)
{
	switch (os_errno) {
	case EXDEV:
		return refuse_escape(refusal);
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG: /* longer than this file system allows: it cannot be there */
		return refuse_missing(root, name, os_errno, refusal);
	case ELOOP:
		return refuse_type(refusal, "symbolic links that lead in a circle");
	default:
		return unreadable(os_errno, os_errno_out, refusal);
	}
}

/* ---- opening ------------------------------------------------------------------------------ */

const char *rsum_file_type_text(unsigned mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "a regular file";
	case S_IFDIR:
		return "a directory";
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	case S_IFCHR:
		return "a character device";
	case S_IFBLK:
		return "a block device";
	case S_IFLNK:
		return "a symbolic link";
	default:
		return "a file of unknown type";
	}
}

/* O_NONBLOCK served the opening only: left on, io_uring could answer EAGAIN for a slow read. */
static int clear_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

/*
 * Opens for reading what was looked at through `seen` before, so that a FIFO or a device is
 * never opened; the two must be the same file.
 */
static enum rsum_confine_result open_seen(const struct rsum_root *root, const char *name,
					  const struct rsum_file_identity *seen, int *fd_out,
					  struct rsum_file_identity *identity_out,
					  int *os_errno_out, struct rsum_refusal *refusal)
{
	struct rsum_file_identity identity;
	unsigned mode;
	int result, fd = open_beneath(root, name, READ_FLAGS);

	if (fd < 0)
		return judge_errno(root, name, -fd, os_errno_out, refusal);
	result = rsum_file_identify_mode(fd, &identity, &mode);
	if (!result)
		result = clear_nonblock(fd);
	if (result) {
		close(fd);
		return unreadable(-result, os_errno_out, refusal);
	}
	if (!S_ISREG(mode) || identity.device != seen->device || identity.inode != seen->inode) {
		close(fd);
		return changed(os_errno_out, refusal);
	}
	*fd_out = fd;
	*identity_out = identity;
	return RSUM_CONFINE_OK;
}

static enum rsum_confine_result open_regular(const struct rsum_root *root, const char *name,
					     int *fd_out, struct rsum_file_identity *identity_out,
					     int *os_errno_out, struct rsum_refusal *refusal)
{
	struct rsum_file_identity seen;
	unsigned mode;
	int path_fd, result;

	path_fd = open_beneath(root, name, O_PATH);
	if (path_fd < 0)
		return judge_errno(root, name, -path_fd, os_errno_out, refusal);
	result = rsum_file_identify_mode(path_fd, &seen, &mode);
	close(path_fd);
	if (result)
		return unreadable(-result, os_errno_out, refusal);
	if (!S_ISREG(mode))
		return refuse_type(refusal, rsum_file_type_text(mode));
	return open_seen(root, name, &seen, fd_out, identity_out, os_errno_out, refusal);
}

enum rsum_confine_result rsum_confine_open(const struct rsum_root *root, const char *name,
					   int *fd_out, struct rsum_file_identity *identity_out,
					   int *os_errno_out, struct rsum_refusal *refusal)
{
	RSUM_ASSERT(root->fd != AT_FDCWD);
	if (!rsum_confine_name_is_plain(name, refusal))
		return RSUM_CONFINE_REFUSED;
	return open_regular(root, name, fd_out, identity_out, os_errno_out, refusal);
}

enum rsum_confine_result rsum_confine_open_given(const char *path, int *fd_out,
						 struct rsum_file_identity *identity_out,
						 int *os_errno_out, struct rsum_refusal *refusal)
{
	return open_regular(&anywhere, path, fd_out, identity_out, os_errno_out, refusal);
}
