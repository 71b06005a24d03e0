/* SPDX-License-Identifier: Apache-2.0 */
/* Opening beneath a root: one table of names, through openat2 and through the walk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "confine_walk.h"

static char base_path[512]; /* holds root/ and outside/ */
static char root_path[600];
static struct rsum_root root = { .fd = -1 };

static void at_base(char out[1024], const char *name)
{
	snprintf(out, 1024, "%s/%s", base_path, name);
}

static void make_directory(const char *name)
{
	char path[1024];

	at_base(path, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void make_file(const char *name, const char *text)
{
	char path[1024];
	int fd;

	at_base(path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_link(const char *target, const char *name)
{
	char path[1024];

	at_base(path, name);
	assert_int_equal(symlink(target, path), 0);
}

static void make_socket(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[1024];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at_base(path, name);
	assert_true(fd >= 0 && strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

/* root/chain0 -> chain1 -> ... -> chain<count> -> plain, `count` + 1 links to follow from 0. */
static void make_chain(const char *stem, unsigned count)
{
	char name[64], target[64];
	unsigned i;

	for (i = 0; i <= count; i++) {
		snprintf(name, sizeof(name), "root/%s%u", stem, i);
		if (i == count)
			snprintf(target, sizeof(target), "plain");
		else
			snprintf(target, sizeof(target), "%s%u", stem, i + 1);
		make_link(target, name);
	}
}

static void make_deep(unsigned levels)
{
	char path[1024] = "root";
	unsigned i;

	for (i = 0; i < levels; i++) {
		strcat(path, "/d");
		make_directory(path);
	}
	strcat(path, "/file");
	make_file(path, "deep");
}

static void make_tree(void)
{
	char path[1024];

	make_directory("root");
	make_directory("outside");
	make_file("outside/secret", "secret");
	make_file("root/plain", "plain");
	make_file("root/empty", "");
	make_directory("root/sub");
	make_directory("root/sub/inner");
	make_file("root/sub/inner/file", "inner");
	make_link("plain", "root/link");
	make_link("sub/inner/file", "root/link_down");
	make_link("../../plain", "root/sub/inner/link_up");
	make_link("sub", "root/link_directory");
	make_link("sub/inner/", "root/link_slash");
	make_link("sub/../sub/inner/../../plain", "root/link_zigzag");
	make_link("missing/../plain", "root/link_through_missing");
	make_link("plain/../plain", "root/link_through_file");
	make_link("./././plain", "root/link_dots");
	make_link("..", "root/sub/link_parent");
	make_link("../outside/secret", "root/link_outside");
	make_link("../../outside", "root/sub/link_outside_directory");
	make_link("../root/plain", "root/link_out_and_back");
	make_link("..", "root/link_above");
	make_link("/etc/passwd", "root/link_absolute");
	make_link("/", "root/link_slash_root");
	at_base(path, "root/plain");
	make_link(path, "root/link_absolute_inside");
	make_link("self", "root/self");
	make_link("loop_b", "root/loop_a");
	make_link("loop_a", "root/loop_b");
	make_link("gone", "root/dangling");
	make_chain("ok", 39);
	make_chain("long", 40);
	make_deep(100);
	at_base(path, "root/fifo");
	assert_int_equal(mkfifo(path, 0644), 0);
	make_link("fifo", "root/link_fifo");
	make_socket("root/socket");
	make_file("root/name with \n and \xff", "odd");
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

static int setup(void **state)
{
	const char *parent = getenv("TMPDIR");

	(void)state;
	snprintf(base_path, sizeof(base_path), "%s/confine.XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(base_path) || chmod(base_path, 0755))
		return -1;
	snprintf(root_path, sizeof(root_path), "%s/root", base_path);
	make_tree();
	return rsum_root_open(root_path, &root);
}

static int teardown(void **state)
{
	(void)state;
	rsum_root_close(&root);
	return nftw(base_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

struct expectation {
	const char *name;
	const char *content; /* NULL: refused */
	enum ringsum_finding_code code;
	const char *says; /* part of the message, or NULL */
};

#define ESCAPE RINGSUM_FINDING_PATH_ESCAPE
#define MISSING RINGSUM_FINDING_FILE_MISSING
#define TYPE RINGSUM_FINDING_FILE_TYPE

static const struct expectation expectations[] = {
	{ "plain", "plain", 0, NULL },
	{ "empty", "", 0, NULL },
	{ "./plain", "plain", 0, NULL },
	{ "sub//inner/./file", "inner", 0, NULL },
	{ "name with \n and \xff", "odd", 0, NULL },
	{ "link", "plain", 0, NULL },
	{ "link_down", "inner", 0, NULL },
	{ "sub/inner/link_up", "plain", 0, NULL },
	{ "link_directory/inner/file", "inner", 0, NULL },
	{ "link_slash/file", "inner", 0, NULL },
	{ "link_slash/link_up", "plain", 0, NULL },
	{ "link_zigzag", "plain", 0, NULL },
	{ "link_dots", "plain", 0, NULL },
	{ "sub/link_parent/plain", "plain", 0, NULL },
	{ "sub/link_parent/sub/link_parent/link", "plain", 0, NULL },
	{ "ok0", "plain", 0, NULL }, /* 40 links */
	{ "long1", "plain", 0, NULL },
	{ "long0", NULL, TYPE, "circle" }, /* 41 links */
	{ "link_outside", NULL, ESCAPE, "symbolic link" },
	{ "link_out_and_back", NULL, ESCAPE, "symbolic link" },
	{ "link_above", NULL, ESCAPE, "symbolic link" },
	{ "link_above/outside/secret", NULL, ESCAPE, "symbolic link" },
	{ "sub/link_outside_directory/secret", NULL, ESCAPE, "symbolic link" },
	{ "link_absolute", NULL, ESCAPE, "symbolic link" },
	{ "link_absolute_inside", NULL, ESCAPE, "only relative links that stay inside" },
	{ "link_slash_root/etc/passwd", NULL, ESCAPE, "symbolic link" },
	{ "", NULL, ESCAPE, "empty" },
	{ "/", NULL, ESCAPE, "absolute" },
	{ "/etc/passwd", NULL, ESCAPE, "absolute" },
	{ ".", NULL, ESCAPE, "directory itself" },
	{ "./", NULL, ESCAPE, "directory itself" },
	{ "..", NULL, ESCAPE, "`..`" },
	{ "../outside/secret", NULL, ESCAPE, "`..`" },
	{ "sub/../plain", NULL, ESCAPE, "`..`" },
	{ "sub/..", NULL, ESCAPE, "`..`" },
	{ "self", NULL, TYPE, "circle" },
	{ "self/x", NULL, TYPE, "circle" },
	{ "loop_a", NULL, TYPE, "circle" },
	{ "missing", NULL, MISSING, "nothing" },
	{ "missing/file", NULL, MISSING, "nothing" },
	{ "sub/missing", NULL, MISSING, "nothing" },
	{ "plain/file", NULL, MISSING, "needs a directory" },
	{ "plain/", NULL, MISSING, "needs a directory" },
	{ "link/", NULL, MISSING, "needs a directory" },
	{ "dangling", NULL, MISSING, "symbolic link to something that is not there" },
	{ "link_through_missing", NULL, MISSING, "symbolic link to something" },
	{ "link_through_file", NULL, MISSING, "symbolic link to something" },
	{ "sub", NULL, TYPE, "a directory" },
	{ "sub/", NULL, TYPE, "a directory" },
	{ "link_directory", NULL, TYPE, "a directory" },
	{ "link_slash", NULL, TYPE, "a directory" },
	{ "sub/link_parent", NULL, TYPE, "a directory" },
	{ "fifo", NULL, TYPE, "a FIFO" },
	{ "link_fifo", NULL, TYPE, "a FIFO" },
	{ "socket", NULL, TYPE, "a socket" },
};

static void expect_content(int fd, const struct rsum_file_identity *identity, const char *content)
{
	size_t size_bytes;
	char *text;

	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_RDONLY);
	assert_int_equal(identity->size_bytes, strlen(content));
	assert_int_equal(rsum_file_read_all(fd, 1000, &text, &size_bytes), 0);
	assert_int_equal(size_bytes, strlen(content));
	assert_string_equal(text, content);
	free(text);
	close(fd);
}

static void check(const struct rsum_root *from, const struct expectation *expected)
{
	struct rsum_refusal refusal = { .code = RINGSUM_FINDING_CODE_COUNT };
	struct rsum_file_identity identity;
	enum rsum_confine_result result;
	int fd = -1, os_errno = 0;

	result = rsum_confine_open(from, expected->name, &fd, &identity, &os_errno, &refusal);
	if (expected->content) {
		if (result)
			fail_msg("%s: %s", expected->name, refusal.message);
		expect_content(fd, &identity, expected->content);
		return;
	}
	if (result != RSUM_CONFINE_REFUSED || refusal.code != expected->code ||
	    (!strstr(refusal.message, expected->says) && !strstr(refusal.actual, expected->says)))
		fail_msg("%s: result %d, code %d, message %s", expected->name, (int)result,
			 (int)refusal.code, refusal.message);
	assert_int_equal(fd, -1);
	assert_true(refusal.expected[0] && refusal.actual[0]);
	assert_null(strchr(refusal.message, '\n'));
}

static struct rsum_root walk_root(void)
{
	return (struct rsum_root){ .fd = root.fd, .has_openat2 = false };
}

static void test_table_openat2(void **state)
{
	size_t i;

	(void)state;
	if (!root.has_openat2) {
		print_message("skipped: this kernel or sandbox refuses openat2\n");
		skip();
	}
	for (i = 0; i < RSUM_COUNT_OF(expectations); i++)
		check(&root, &expectations[i]);
}

static void test_table_walk(void **state)
{
	struct rsum_root walk = walk_root();
	size_t i;

	(void)state;
	for (i = 0; i < RSUM_COUNT_OF(expectations); i++)
		check(&walk, &expectations[i]);
}

static void test_long_names(void **state)
{
	struct rsum_refusal refusal;
	char name[4200], deep[300] = "";
	unsigned i;

	(void)state;
	memset(name, 'a', sizeof(name));
	name[256] = '\0';
	assert_false(rsum_confine_name_is_plain(name, &refusal));
	assert_int_equal(refusal.code, ESCAPE);
	assert_non_null(strstr(refusal.message, "a part longer than 255 bytes, which is longer"));
	assert_string_equal(refusal.expected, "at most 255 bytes");
	name[255] = '\0';
	assert_true(rsum_confine_name_is_plain(name, &refusal));
	for (i = 0; i < sizeof(name); i++)
		name[i] = i % 2 ? '/' : 'a';
	name[4097] = '\0';
	assert_false(rsum_confine_name_is_plain(name, &refusal));
	assert_int_equal(refusal.code, ESCAPE);
	assert_non_null(strstr(refusal.message, "is longer than 4096 bytes"));
	name[4096] = '\0';
	assert_true(rsum_confine_name_is_plain(name, &refusal));
	assert_true(rsum_confine_name_is_plain("..a/b../...", &refusal));

	for (i = 0; i < 100; i++)
		strcat(deep, "d/");
	strcat(deep, "file");
	check(&root, &(struct expectation){ deep, "deep", 0, NULL });
	check(&(struct rsum_root){ .fd = root.fd }, &(struct expectation){ deep, "deep", 0, NULL });
}

/* Both ways answer alike, errno for errno, also for flags that the table does not use. */
static void test_walk_agrees_with_openat2(void **state)
{
	struct open_how_bytes {
		uint64_t flags, mode, resolve;
	} how = { .resolve = 0x08 | 0x02 }; /* RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS */
	static const int flags[] = { O_PATH, O_PATH | O_NOFOLLOW };
	size_t i, j;

	(void)state;
	if (!root.has_openat2) {
		print_message("skipped: this kernel or sandbox refuses openat2\n");
		skip();
	}
	for (i = 0; i < RSUM_COUNT_OF(expectations); i++) {
		for (j = 0; j < RSUM_COUNT_OF(flags); j++) {
			struct stat kernel, ours;
			long fd;
			int walked;

			how.flags = (uint64_t)flags[j];
			fd = syscall(SYS_openat2, root.fd, expectations[i].name, &how, sizeof(how));
			if (fd < 0)
				fd = -errno;
			walked = rsum_confine_walk_open(root.fd, expectations[i].name, flags[j]);
			if (fd < 0 || walked < 0) {
				if (fd != walked)
					fail_msg("%s: openat2 %ld, walk %d", expectations[i].name,
						 fd, walked);
				continue;
			}
			assert_int_equal(fstat((int)fd, &kernel), 0);
			assert_int_equal(fstat(walked, &ours), 0);
			assert_int_equal(kernel.st_ino, ours.st_ino);
			assert_int_equal(kernel.st_dev, ours.st_dev);
			close((int)fd);
			close(walked);
		}
	}
}

static void test_device(void **state)
{
	const struct expectation expected = { "device", NULL, TYPE, "a character device" };
	struct rsum_root walk = walk_root();
	char path[1024];

	(void)state;
	at_base(path, "root/device");
	if (mknod(path, S_IFCHR | 0666, makedev(1, 3))) {
		print_message("skipped: making a device node needs privileges\n");
		skip();
	}
	check(&root, &expected);
	check(&walk, &expected);
	unlink(path);
}

static int open_forbidden(const struct rsum_root *from, const char *name)
{
	struct rsum_refusal refusal;
	struct rsum_file_identity identity;
	int fd, os_errno = 0;

	return rsum_confine_open(from, name, &fd, &identity, &os_errno, &refusal) ==
		       RSUM_CONFINE_UNREADABLE &&
	       refusal.code == RINGSUM_FINDING_READ_ERROR && os_errno == EACCES &&
	       strstr(refusal.message, "Permission denied");
}

/* In a child that has given up root. Exits 0 where all is refused as it should be. */
static void forbidden_child(void)
{
	struct rsum_root walk;

	if (getuid() == 0 && (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
			      setresuid(65534, 65534, 65534)))
		_exit(10);
	walk = walk_root();
	if (!open_forbidden(&root, "forbidden") || !open_forbidden(&walk, "forbidden"))
		_exit(11);
	if (!open_forbidden(&root, "closed/file") || !open_forbidden(&walk, "closed/file"))
		_exit(12);
	if (!open_forbidden(&root, "closed_link") || !open_forbidden(&walk, "closed_link"))
		_exit(13);
	_exit(0);
}

static void test_no_permission(void **state)
{
	char path[1024];
	int status;
	pid_t child;

	(void)state;
	make_file("root/forbidden", "x");
	make_directory("root/closed");
	make_file("root/closed/file", "x");
	make_link("closed/../plain", "root/closed_link");
	at_base(path, "root/forbidden");
	assert_int_equal(chmod(path, 0), 0);
	at_base(path, "root/closed");
	assert_int_equal(chmod(path, 0), 0);
	child = fork();
	if (child == 0)
		forbidden_child();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(chmod(path, 0755), 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 10) {
		print_message("skipped: cannot give up root here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

struct swapper {
	atomic_bool is_done;
	char inside[1024], link[1024];
	unsigned failure_count;
};

static void *swap_forever(void *arg)
{
	struct swapper *swapper = arg;

	while (!atomic_load(&swapper->is_done)) {
		if (syscall(SYS_renameat2, AT_FDCWD, swapper->inside, AT_FDCWD, swapper->link, 2))
			swapper->failure_count++;
	}
	return NULL;
}

/* A directory and a link to the outside change places all the time: the outside never opens. */
static void open_while_swapping(const struct rsum_root *from)
{
	struct rsum_refusal refusal;
	struct rsum_file_identity identity;
	int os_errno, fd;
	unsigned i;

	for (i = 0; i < 4000; i++) {
		if (rsum_confine_open(from, i % 2 ? "swap/secret" : "through_swap", &fd, &identity,
				      &os_errno, &refusal))
			continue;
		assert_int_equal(identity.size_bytes, strlen("inside!"));
		close(fd);
	}
}

static void test_swapping(void **state)
{
	struct swapper swapper = { .is_done = false };
	struct rsum_root walk = walk_root();
	pthread_t thread;

	(void)state;
	make_directory("root/swap");
	make_file("root/swap/secret", "inside!");
	make_link("../outside", "root/swapped");
	make_link("sub/../swap/../swap/secret", "root/through_swap");
	at_base(swapper.inside, "root/swap");
	at_base(swapper.link, "root/swapped");
	assert_int_equal(pthread_create(&thread, NULL, swap_forever, &swapper), 0);
	open_while_swapping(&root);
	open_while_swapping(&walk);
	atomic_store(&swapper.is_done, true);
	pthread_join(thread, NULL);
	if (swapper.failure_count)
		print_message("note: this file system cannot exchange names\n");
}

static void test_too_many_open_files(void **state)
{
	struct rsum_refusal refusal[2] = { 0 };
	struct rsum_file_identity identity;
	struct rsum_root walk = walk_root(), second;
	int result[2], os_errno[2] = { 0, 0 }, fds[64], fd, opened;
	struct rlimit before, low;
	unsigned count = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	while (count < RSUM_COUNT_OF(fds) && (fds[count] = dup(root.fd)) >= 0)
		count++;
	result[0] =
		(int)rsum_confine_open(&root, "plain", &fd, &identity, &os_errno[0], &refusal[0]);
	result[1] =
		(int)rsum_confine_open(&walk, "plain", &fd, &identity, &os_errno[1], &refusal[1]);
	opened = rsum_root_open(root_path, &second);
	while (count-- > 0)
		close(fds[count]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(opened, -EMFILE);
	for (count = 0; count < 2; count++) {
		assert_int_equal(result[count], RSUM_CONFINE_UNREADABLE);
		assert_int_equal(refusal[count].code, RINGSUM_FINDING_READ_ERROR);
		assert_int_equal(os_errno[count], EMFILE);
		assert_non_null(strstr(refusal[count].message, "ulimit"));
	}
}

/* What the user names may be a link to anywhere, but never a FIFO that hangs. */
static void test_given(void **state)
{
	struct rsum_refusal refusal;
	struct rsum_file_identity identity;
	int fd, os_errno;
	char path[1024];

	(void)state;
	at_base(path, "root/link_absolute_inside");
	assert_int_equal(rsum_confine_open_given(path, &fd, &identity, &os_errno, &refusal),
			 RSUM_CONFINE_OK);
	expect_content(fd, &identity, "plain");
	at_base(path, "root/link_outside");
	assert_int_equal(rsum_confine_open_given(path, &fd, &identity, &os_errno, &refusal),
			 RSUM_CONFINE_OK);
	expect_content(fd, &identity, "secret");
	at_base(path, "root/link_fifo");
	assert_int_equal(rsum_confine_open_given(path, &fd, &identity, &os_errno, &refusal),
			 RSUM_CONFINE_REFUSED);
	assert_int_equal(refusal.code, TYPE);
	at_base(path, "root/dangling");
	assert_int_equal(rsum_confine_open_given(path, &fd, &identity, &os_errno, &refusal),
			 RSUM_CONFINE_REFUSED);
	assert_int_equal(refusal.code, MISSING);
}

/* What is under the name itself, where opening would follow links. */
static void test_identify(void **state)
{
	struct rsum_file_identity identity, behind;
	unsigned mode;
	int fd, os_errno;
	struct rsum_refusal refusal;

	(void)state;
	assert_int_equal(rsum_root_identify(&root, "sub/inner/file", &identity, &mode), 0);
	assert_true(S_ISREG(mode));
	assert_int_equal(rsum_confine_open(&root, "link_down", &fd, &behind, &os_errno, &refusal),
			 RSUM_CONFINE_OK);
	close(fd);
	assert_true(rsum_file_identity_equal(&identity, &behind));
	assert_int_equal(rsum_root_identify(&root, "link_down", &identity, &mode), 0);
	assert_true(S_ISLNK(mode));
	assert_int_equal(rsum_root_identify(&root, "sub//inner", &identity, &mode), 0);
	assert_true(S_ISDIR(mode));
	assert_int_equal(rsum_root_identify(&root, "link_directory/inner/file", &identity, &mode),
			 -ENOTDIR);
	assert_int_equal(rsum_root_identify(&root, "missing", &identity, &mode), -ENOENT);
}

static void test_root_failures(void **state)
{
	struct rsum_root other = { .fd = -1 };
	char path[1024];

	(void)state;
	at_base(path, "absent");
	assert_int_equal(rsum_root_open(path, &other), -ENOENT);
	at_base(path, "root/plain");
	assert_int_equal(rsum_root_open(path, &other), -ENOTDIR);
	assert_int_equal(other.fd, -1);
	rsum_root_close(&other);
}

static int open_plain(const char *name)
{
	char path[1024];
	int fd;

	at_base(path, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void test_identity(void **state)
{
	struct rsum_file_identity before, after, other;
	int fd = open_plain("root/plain"), other_fd = open_plain("outside/secret");

	(void)state;
	assert_int_equal(rsum_file_identify(fd, &before), 0);
	assert_int_equal(rsum_file_identify(fd, &after), 0);
	assert_int_equal(rsum_file_identify(other_fd, &other), 0);
	assert_true(rsum_file_identity_equal(&before, &after));
	assert_false(rsum_file_identity_equal(&before, &other));
	assert_int_equal(write(fd, "PLAIN", 5), 5);
	assert_int_equal(write(fd, "+", 1), 1);
	assert_int_equal(rsum_file_identify(fd, &after), 0);
	assert_false(rsum_file_identity_equal(&before, &after));
	assert_int_equal(pwrite(fd, "plain", 5, 0), 5);
	assert_int_equal(ftruncate(fd, 5), 0);
	assert_int_equal(rsum_file_identify(-1, &after), -EBADF);
	close(fd);
	close(other_fd);
}

static void test_read(void **state)
{
	int fd = open_plain("outside/secret"), fifo[2];
	char buffer[16] = "";
	size_t size_bytes = 77;
	char *text = NULL;

	(void)state;
	assert_int_equal(rsum_file_read_at(fd, 2, buffer, 3), 0);
	assert_string_equal(buffer, "cre");
	assert_int_equal(rsum_file_read_at(fd, 6, buffer, 0), 0);
	assert_int_equal(rsum_file_read_at(fd, 4, buffer, 3), -ENODATA);
	assert_int_equal(rsum_file_read_at(fd, UINT64_MAX, buffer, 1), -EINVAL);
	assert_int_equal(rsum_file_read_at(fd, UINT64_MAX - 4, buffer, 8), -EINVAL);
	assert_int_equal(rsum_file_read_at(-1, 0, buffer, 1), -EBADF);
	assert_int_equal(rsum_file_read_all(fd, 5, &text, &size_bytes), -EFBIG);
	assert_null(text);
	assert_int_equal(size_bytes, 77);
	assert_int_equal(rsum_file_read_all(fd, 6, &text, &size_bytes), 0);
	assert_string_equal(text, "secret");
	assert_int_equal(size_bytes, 6);
	free(text);
	close(fd);
	assert_int_equal(pipe(fifo), 0);
	assert_int_equal(rsum_file_read_all(fifo[0], 5, &text, &size_bytes), -EINVAL);
	close(fifo[0]);
	close(fifo[1]);
}

/* Files of procfs say that they are empty and are not: growth while being read. */
static void test_read_growing(void **state)
{
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	size_t size_bytes;
	char *text;

	(void)state;
	if (fd < 0) {
		print_message("skipped: no procfs here\n");
		skip();
	}
	assert_int_equal(rsum_file_read_all(fd, 1000, &text, &size_bytes), -ESTALE);
	close(fd);
}

struct seen {
	unsigned count, deep, inner, links, fifos;
	bool has_directory;
};

static void see(void *arg, const char *path)
{
	struct seen *seen = arg;

	seen->count++;
	seen->deep += strstr(path, "d/d/d/") != NULL;
	seen->inner += !strcmp(path, "sub/inner/file");
	seen->links += !strcmp(path, "link_directory");
	seen->fifos += !strcmp(path, "fifo");
	if (!strcmp(path, "sub") || !strcmp(path, "link_directory/inner/file"))
		seen->has_directory = true;
}

static void test_list(void **state)
{
	struct seen seen = { 0 };
	struct rsum_root sub;
	char path[1024];
	bool is_cut_out = false;

	(void)state;
	assert_int_equal(rsum_root_walk(&root, see, &seen, &is_cut_out), 0);
	assert_true(is_cut_out); /* the 100 levels of d */
	assert_int_equal(seen.deep, 0);
	assert_int_equal(seen.inner, 1);
	assert_int_equal(seen.links, 1);
	assert_int_equal(seen.fifos, 1);
	assert_false(seen.has_directory);

	at_base(path, "root/sub");
	assert_int_equal(rsum_root_open(path, &sub), 0);
	seen = (struct seen){ 0 };
	assert_int_equal(rsum_root_walk(&sub, see, &seen, &is_cut_out), 0);
	assert_false(is_cut_out);
	assert_int_equal(seen.count, 4);
	seen = (struct seen){ 0 };
	assert_int_equal(rsum_root_list(&sub, see, &seen, &is_cut_out), 0);
	assert_false(is_cut_out);
	assert_int_equal(seen.count, 3);
	rsum_root_close(&sub);
	assert_int_equal(rsum_root_walk(&sub, see, &seen, &is_cut_out), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_openat2),
		cmocka_unit_test(test_table_walk),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_walk_agrees_with_openat2),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_no_permission),
		cmocka_unit_test(test_swapping),
		cmocka_unit_test(test_too_many_open_files),
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_identify),
		cmocka_unit_test(test_root_failures),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_read_growing),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
