/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files. The input is a name, a line feed, and targets of the links l1 and l2.
 *
 *	- A name is plain exactly where a second reading of the rules says so.
 *	- openat2 and the walk that stands in for it open the same file, or fail alike, for any
 *	  name, plain or not, in a tree of directories, files, and links that lead everywhere.
 *	- What is opened for a name is below the root.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "confine_walk.h"
#include "tree.h"

#define ROOT "root"

/* ---- the rules for names, once more ------------------------------------------------------ */

/* Component by component, each looked at as a whole. */
static bool name_is_plain(const char *name)
{
	char component[PATH_MAX + 2];
	size_t length = strlen(name), used = 0;
	bool is_named = false;

	if (length == 0 || length > 4096 || name[0] == '/')
		return false;
	for (size_t i = 0; i <= length; i++) {
		if (i < length && name[i] != '/') {
			component[used++] = name[i];
			continue;
		}
		component[used] = '\0';
		if (used > 255 || strcmp(component, "..") == 0)
			return false;
		if (used > 0 && strcmp(component, ".") != 0)
			is_named = true;
		used = 0;
	}
	return is_named;
}

static void check_name(const char *name)
{
	struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
	bool is_plain = rsum_confine_name_is_plain(name, &refusal);

	FUZZ_CHECK(is_plain == name_is_plain(name));
	if (is_plain)
		return;
	FUZZ_CHECK(refusal.code == RINGSUM_FINDING_PATH_ESCAPE);
	fuzz_check_line(refusal.message);
	fuzz_check_line(refusal.actual);
}

/* ---- the tree ---------------------------------------------------------------------------- */

static void make_tree(void)
{
	static const char *const files[] = { "outside", ROOT "/f", ROOT "/a/f", ROOT "/a/b/f",
					     ROOT "/a/b/c/f" };
	static const char *const links[][2] = {
		{ ROOT "/up", ".." },
		{ ROOT "/a/up", "../.." },
		{ ROOT "/a/self", "." },
		{ ROOT "/to_b", "a/b" },
		{ ROOT "/a/b/back", "../../a" },
		{ ROOT "/to_f", "a/../f" },
		{ ROOT "/absolute", "/" },
		{ ROOT "/loop", "loop" },
		{ ROOT "/gone", "nothing" },
		{ ROOT "/out", "../outside" },
	};

	for (size_t i = 0; i < RSUM_COUNT_OF(files); i++)
		FUZZ_CHECK(fuzz_tree_write(files[i], files[i], strlen(files[i])));
	for (size_t i = 0; i < RSUM_COUNT_OF(links); i++)
		FUZZ_CHECK(fuzz_tree_link(links[i][0], links[i][1]));
}

static bool has_openat2(const struct rsum_root *root)
{
	static bool is_said;

	if (!root->has_openat2 && !is_said) {
		fprintf(stderr, "fuzz: no openat2 here, so the walk has nothing to agree with\n");
		is_said = true;
	}
	return root->has_openat2;
}

static const struct rsum_root *open_root(void)
{
	static struct rsum_root root = { .fd = -1 };
	char path[PATH_MAX + 8];

	if (root.fd >= 0)
		return &root;
	make_tree();
	snprintf(path, sizeof(path), "%s/" ROOT, fuzz_tree_path());
	FUZZ_CHECK(rsum_root_open(path, &root) == 0);
	return &root;
}

/* ---- two ways to open -------------------------------------------------------------------- */

static int open_by_kernel(int root_fd, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	do {
		fd = syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	return fd < 0 ? -errno : (int)fd;
}

static void check_below_root(int fd)
{
	char link[64], path[PATH_MAX], root[PATH_MAX + 8];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return; /* no /proc here */
	path[length] = '\0';
	snprintf(root, sizeof(root), "%s/" ROOT, fuzz_tree_path());
	FUZZ_CHECK_TEXT(strncmp(path, root, strlen(root)) == 0, path);
	FUZZ_CHECK_TEXT(path[strlen(root)] == '/' || path[strlen(root)] == '\0', path);
}

/*
 * The kernel climbs out of the root only at its second attempt, in which it goes on counting links
 * where the first one stopped: after more than 20 links it says ELOOP where it means EXDEV.
 */
static bool errors_are_alike(int theirs, int ours)
{
	return theirs == ours || (theirs == -ELOOP && ours == -EXDEV);
}

static void check_agreement(const struct rsum_root *root, const char *name, int flags)
{
	int theirs = open_by_kernel(root->fd, name, flags);
	int ours = rsum_confine_walk_open(root->fd, name, flags);
	struct stat a, b;
	char text[128];

	snprintf(text, sizeof(text), "openat2 gives %d, the walk %d", theirs < 0 ? theirs : 0,
		 ours < 0 ? ours : 0);
	FUZZ_CHECK_TEXT((theirs < 0) == (ours < 0), text);
	FUZZ_CHECK_TEXT(theirs >= 0 || errors_are_alike(theirs, ours), text);
	if (theirs < 0)
		return;
	FUZZ_CHECK(fstat(theirs, &a) == 0 && fstat(ours, &b) == 0);
	FUZZ_CHECK(a.st_dev == b.st_dev && a.st_ino == b.st_ino);
	check_below_root(ours);
	close(theirs);
	close(ours);
}

static void check_open(const struct rsum_root *root, const char *name)
{
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int fd = -1, os_errno = 0;

	switch (rsum_confine_open(root, name, &fd, &identity, &os_errno, &refusal)) {
	case RSUM_CONFINE_OK:
		FUZZ_CHECK(name_is_plain(name) && fd >= 0);
		check_below_root(fd);
		close(fd);
		break;
	case RSUM_CONFINE_REFUSED:
		FUZZ_CHECK(refusal.code == RINGSUM_FINDING_PATH_ESCAPE ||
			   refusal.code == RINGSUM_FINDING_FILE_MISSING ||
			   refusal.code == RINGSUM_FINDING_FILE_TYPE);
		fuzz_check_line(refusal.message);
		break;
	default:
		FUZZ_CHECK(os_errno > 0);
		fuzz_check_line(refusal.message);
	}
}

/* ---- the input --------------------------------------------------------------------------- */

/* Takes a line as a C string; one with NUL ends there, as it does for the kernel. */
static char *take_line(struct fuzz_input *input)
{
	const uint8_t *end = input->left ? memchr(input->data, '\n', input->left) : NULL;
	size_t length = end ? (size_t)(end - input->data) : input->left;
	char *line = fuzz_copy_text(input->data, length);

	length += end ? 1 : 0;
	input->data += length;
	input->left -= length;
	return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rsum_root *root = open_root();
	struct fuzz_input input = { data, size };
	char *name = take_line(&input), *first = take_line(&input), *second = take_line(&input);

	check_name(name);
	check_name(first);
	/* A target that cannot be, as an empty one, leaves no link: then nothing is there. */
	(void)fuzz_tree_link(ROOT "/l1", first);
	(void)fuzz_tree_link(ROOT "/a/l2", second);
	if (has_openat2(root)) {
		check_agreement(root, name, O_PATH);
		check_agreement(root, name, O_PATH | O_NOFOLLOW);
		check_agreement(root, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	}
	check_open(root, name);
	free(name);
	free(first);
	free(second);
	return 0;
}
