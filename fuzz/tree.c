/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that a target works in. */
#include "tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static char tree_path[PATH_MAX];
static int tree_fd = -1;
static pid_t tree_owner;

static int remove_below(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status, (void)type;
	return place->level > 0 ? remove(path) : 0;
}

void fuzz_tree_empty(void)
{
	nftw(fuzz_tree_path(), remove_below, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_at_exit(void)
{
	if (getpid() != tree_owner)
		return;
	fuzz_tree_empty();
	rmdir(tree_path);
}

static void make_tree(void)
{
	const char *places[] = { getenv("FUZZ_TREE"), "/dev/shm", getenv("TMPDIR"), "/tmp" };

	for (size_t i = 0; i < RSUM_COUNT_OF(places) && tree_fd < 0; i++) {
		if (!places[i])
			continue;
		snprintf(tree_path, sizeof(tree_path), "%s/ringsum-fuzz-XXXXXX", places[i]);
		if (mkdtemp(tree_path))
			tree_fd = open(tree_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	FUZZ_CHECK_TEXT(tree_fd >= 0, "no directory to work in");
	tree_owner = getpid();
	atexit(remove_at_exit);
}

const char *fuzz_tree_path(void)
{
	if (tree_fd < 0)
		make_tree();
	return tree_path;
}

/*
 * Opens the directory that a name is in, made where it is not there, and says where its last
 * component begins. -1 for a name that is no plain one, and where a file or a link is in the way.
 */
static int open_parent(const char *name, const char **last_out)
{
	char component[NAME_MAX + 1];
	int fd = open(fuzz_tree_path(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;
	const char *slash;

	FUZZ_CHECK(fd >= 0);
	for (;; name = slash + 1) {
		slash = strchrnul(name, '/');
		snprintf(component, sizeof(component), "%.*s", (int)(slash - name), name);
		if (!*component || slash - name > NAME_MAX || strcmp(component, ".") == 0 ||
		    strcmp(component, "..") == 0) {
			close(fd);
			return -1;
		}
		if (!*slash)
			break;
		(void)mkdirat(fd, component, 0700);
		next = openat(fd, component, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		if (next < 0)
			return -1;
		fd = next;
	}
	*last_out = name;
	return fd;
}

bool fuzz_tree_write(const char *name, const void *data, size_t size)
{
	const char *last;
	int parent = open_parent(name, &last), fd;

	if (parent < 0)
		return false;
	/* Not through a link, which could lead anywhere, nor into a FIFO, which would wait. */
	fd = openat(parent, last,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	close(parent);
	if (fd < 0)
		return false;
	FUZZ_CHECK_TEXT(write(fd, data, size) == (ssize_t)size, "no room to work in");
	close(fd);
	return true;
}

bool fuzz_tree_link(const char *name, const char *target)
{
	const char *last;
	int parent = open_parent(name, &last), result;

	if (parent < 0)
		return false;
	unlinkat(parent, last, 0);
	result = symlinkat(target, parent, last);
	close(parent);
	return result == 0;
}

bool fuzz_tree_make_directory(const char *name)
{
	const char *last;
	int parent = open_parent(name, &last), result;

	if (parent < 0)
		return false;
	result = mkdirat(parent, last, 0700);
	close(parent);
	return result == 0;
}

bool fuzz_tree_make_fifo(const char *name)
{
	const char *last;
	int parent = open_parent(name, &last), result;

	if (parent < 0)
		return false;
	result = mkfifoat(parent, last, 0600);
	close(parent);
	return result == 0;
}

int fuzz_tree_open(const char *name)
{
	const char *last;
	int parent = open_parent(name, &last), fd;

	if (parent < 0)
		return -1;
	fd = openat(parent, last, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	close(parent);
	return fd;
}
