/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk component by component that stands in for openat2. It never hands `..` or a link to
 * the kernel: each step opens one plain component without following it, links are read and
 * spliced into what is still to walk, and `..` drops the last component walked and starts again
 * from the root. So a directory that is moved out of the root meanwhile cannot carry the walk
 * outside, and two descriptors are enough for any depth.
 */
#include "confine_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40	/* as the kernel's MAXSYMLINKS */
#define STEPS_MAX 65536 /* opens of one walk; no honest name comes near it */
#define TEXT_BYTES ((size_t)(LINKS_MAX + 2) * (PATH_MAX + 1))

struct walk {
	int root_fd;
	int directory_fd; /* where `walked` leads, or -1 where it has to be opened again */
	char *walked;	  /* plain components from the root, each followed by '/' */
	size_t walked_bytes;
	char *pending; /* what is still to walk, at the end of its memory */
	char *memory;
	unsigned link_count;
	unsigned step_count;
};

static int open_step(struct walk *walk, int at_fd, const char *component, int flags)
{
	int fd;

	if (++walk->step_count > STEPS_MAX)
		return -ELOOP;
	do {
		fd = openat(at_fd, component, flags | O_NOFOLLOW | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

static void leave_directory(struct walk *walk)
{
	if (walk->directory_fd >= 0)
		close(walk->directory_fd);
	walk->directory_fd = -1;
}

/* Opens the directory that `walked` names, by plain components from the root. */
static int enter_walked(struct walk *walk)
{
	char *component = walk->walked;
	char *end = walk->walked + walk->walked_bytes;

	if (walk->directory_fd >= 0)
		return 0;
	walk->directory_fd = open_step(walk, walk->root_fd, ".", O_PATH | O_DIRECTORY);
	while (walk->directory_fd >= 0 && component < end) {
		char *slash = memchr(component, '/', (size_t)(end - component));
		int fd;

		*slash = '\0';
		fd = open_step(walk, walk->directory_fd, component, O_PATH | O_DIRECTORY);
		*slash = '/';
		leave_directory(walk);
		/* It was a directory when it was walked first, so the tree is changing. */
		walk->directory_fd = fd == -ENOTDIR || fd == -ENOENT ? -EAGAIN : fd;
		component = slash + 1;
	}
	if (walk->directory_fd < 0) {
		int result = walk->directory_fd;

		walk->directory_fd = -1;
		return result;
	}
	return 0;
}

static int go_up(struct walk *walk)
{
	size_t length = walk->walked_bytes;

	if (length == 0)
		return -EXDEV;
	length--;
	while (length > 0 && walk->walked[length - 1] != '/')
		length--;
	walk->walked_bytes = length;
	leave_directory(walk);
	return 0;
}

static void go_down(struct walk *walk, const char *component, size_t length, int fd)
{
	RSUM_ASSERT(walk->walked_bytes + length + 1 <= TEXT_BYTES);
	memcpy(walk->walked + walk->walked_bytes, component, length);
	walk->walked[walk->walked_bytes + length] = '/';
	walk->walked_bytes += length + 1;
	leave_directory(walk);
	walk->directory_fd = fd;
}

/* Puts the target of a link before what is still to walk, which begins with '/' or is empty. */
static int splice_link(struct walk *walk, int link_fd)
{
	char target[PATH_MAX];
	ssize_t length;

	if (++walk->link_count > LINKS_MAX)
		return -ELOOP;
	length = readlinkat(link_fd, "", target, sizeof(target));
	if (length < 0)
		return -errno;
	if (length == 0)
		return -ENOENT;
	if ((size_t)length == sizeof(target))
		return -ENAMETOOLONG;
	if (target[0] == '/')
		return -EXDEV;
	RSUM_ASSERT(walk->pending - walk->memory >= length);
	walk->pending -= length;
	memcpy(walk->pending, target, (size_t)length);
	return 0;
}

/* Takes the next component off `pending`: copied to `component`, at most NAME_MAX bytes. */
static int next_component(struct walk *walk, char component[NAME_MAX + 1], size_t *length_out)
{
	size_t length;

	while (*walk->pending == '/')
		walk->pending++;
	length = strcspn(walk->pending, "/");
	if (length > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(component, walk->pending, length);
	component[length] = '\0';
	walk->pending += length;
	*length_out = length;
	return 0;
}

/*
 * The last component is known to be no link: opens it as asked. It can only be one now where it
 * was replaced meanwhile, and then the walk is to begin again.
 */
static int open_last(struct walk *walk, const char *component, int flags)
{
	int fd = open_step(walk, walk->directory_fd, component, flags);

	return fd == -ELOOP && !(flags & O_PATH) ? -EAGAIN : fd;
}

/* `.` and `..`: both need the right to search the directory, as any other name does. */
static int walk_dots(struct walk *walk, const char *component)
{
	int fd = open_step(walk, walk->directory_fd, ".", O_PATH | O_DIRECTORY);

	if (fd < 0)
		return fd;
	close(fd);
	return component[1] == '.' ? go_up(walk) : 0;
}

/* One component. Returns 0 to go on, -errno, or 1 with the result in *fd_out. */
static int walk_step(struct walk *walk, int flags, int *fd_out)
{
	char component[NAME_MAX + 1];
	size_t length;
	struct stat status;
	bool is_last;
	int fd, result;

	result = enter_walked(walk);
	if (!result)
		result = next_component(walk, component, &length);
	if (result)
		return result;
	if (length == 0) { /* the name ended in a directory */
		*fd_out = open_step(walk, walk->directory_fd, ".", flags);
		return *fd_out < 0 ? *fd_out : 1;
	}
	if (!strcmp(component, ".") || !strcmp(component, ".."))
		return walk_dots(walk, component);

	is_last = *walk->pending == '\0';
	fd = open_step(walk, walk->directory_fd, component, O_PATH);
	if (fd < 0)
		return fd;
	if (fstat(fd, &status)) {
		result = -errno;
	} else if (S_ISLNK(status.st_mode) && !(is_last && (flags & O_NOFOLLOW))) {
		result = splice_link(walk, fd);
	} else if (is_last) {
		*fd_out = open_last(walk, component, flags);
		result = *fd_out < 0 ? *fd_out : 1;
	} else if (S_ISDIR(status.st_mode)) {
		go_down(walk, component, length, fd);
		return 0;
	} else {
		result = -ENOTDIR;
	}
	close(fd);
	return result;
}

int rsum_confine_walk_open(int root_fd, const char *name, int flags)
{
	struct walk walk = { .root_fd = root_fd, .directory_fd = -1 };
	size_t length = strlen(name);
	int result, fd = -1;

	if (length == 0)
		return -ENOENT;
	if (length >= PATH_MAX)
		return -ENAMETOOLONG;
	if (name[0] == '/')
		return -EXDEV;
	walk.memory = malloc(TEXT_BYTES);
	walk.walked = malloc(TEXT_BYTES);
	if (!walk.memory || !walk.walked) {
		result = -ENOMEM;
		goto out;
	}
	walk.pending = walk.memory + TEXT_BYTES - 1 - length;
	memcpy(walk.pending, name, length + 1);
	do {
		result = walk_step(&walk, flags, &fd);
	} while (result == 0);
out:
	leave_directory(&walk);
	free(walk.walked);
	free(walk.memory);
	return result < 0 ? result : fd;
}
