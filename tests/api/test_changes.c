/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody changes the checkpoint while it is verified or inspected: before one system call after
 * the other (or every few) one file is replaced, cut, removed or made into something else. An answer comes, result and
 * report agree, what was in place before anything was opened is told apart, and the answer to a
 * file of the very same bytes is never that they differ.
 */
#include "drafter.h"
#include "failures.h"
#include "ringsum.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define ANSWER_SECONDS 120 /* no answer by then is none */

static struct drafter drafter;
static char target[128]; /* the file that is changed */
static char spare[128];	 /* what takes its place, made beforehand */
static off_t target_bytes;

/* ---- acts: nothing in them is counted -------------------------------------------------------- */

static void replace(void)
{
	if (rename(spare, target) == 0)
		return;
	unlink(target); /* a directory does not take the place of a file by itself */
	rename(spare, target);
}

static void shorten(void)
{
	(void)!truncate(target, target_bytes - 2); /* more than the blank that may end a text */
}

static void lengthen(void)
{
	(void)!truncate(target, target_bytes + 1);
}

static void empty(void)
{
	(void)!truncate(target, 0);
}

static void vanish(void)
{
	unlink(target);
}

/* ---- spares ---------------------------------------------------------------------------------- */

static void copy_target(bool is_changed)
{
	FILE *from = fopen(target, "rb"), *to = fopen(spare, "wb");
	off_t at = 0;
	int byte;

	assert_true(from && to);
	while ((byte = getc(from)) != EOF)
		putc(byte ^ (is_changed && ++at == target_bytes), to);
	assert_int_equal(fclose(from) | fclose(to), 0);
}

static void make_twin(void)
{
	copy_target(false);
}

static void make_other(void)
{
	copy_target(true);
}

static void make_fifo(void)
{
	assert_int_equal(mkfifo(spare, 0600), 0);
}

static void make_directory(void)
{
	assert_int_equal(mkdir(spare, 0700), 0);
}

static void make_escape(void)
{
	assert_int_equal(symlink("/etc/passwd", spare), 0);
}

static void make_circle(void)
{
	assert_int_equal(symlink(strrchr(target, '/') + 1, spare), 0);
}

static void make_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_true(fd >= 0 && strlen(spare) < sizeof(address.sun_path));
	strcpy(address.sun_path, spare);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static const struct {
	const char *name;
	void (*prepare)(void); /* or NULL */
	void (*act)(void);
	bool is_same; /* the bytes are those promised all the same */
} changes[] = {
	{ "a twin", make_twin, replace, true },
	{ "another file", make_other, replace, false },
	{ "a FIFO", make_fifo, replace, false },
	{ "a directory", make_directory, replace, false },
	{ "a link that leaves", make_escape, replace, false },
	{ "a link in a circle", make_circle, replace, false },
	{ "a socket", make_socket, replace, false },
	{ "two bytes less", NULL, shorten, false },
	{ "one byte more", NULL, lengthen, false },
	{ "nothing in it", NULL, empty, false },
	{ "no file", NULL, vanish, false },
};

/* ---- operations ------------------------------------------------------------------------------ */

static int verify(enum ringsum_engine engine)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_report *report = NULL;
	struct ringsum_totals totals;
	struct ringsum_error err = { 0 };
	char *text = NULL;
	int result;

	options.engine = engine;
	options.chunk_bytes = 65536;
	options.threads = 1;
	options.depth = 4;
	result = ringsum_verify_path(drafter.root, &options, &report, &err);
	if (!report)
		return result;
	ringsum_report_totals(report, &totals);
	if ((ringsum_report_verdict(report) == RINGSUM_VERDICT_IDENTICAL) !=
		    (result == RINGSUM_OK) ||
	    (result == RINGSUM_OK && (totals.tensors_identical != drafter.tensor_count ||
				      totals.bytes_proven != totals.bytes_promised)))
		fail_msg("%s: identical without all of it", failures_describe());
	assert_int_equal(ringsum_report_to_text(report, &text, NULL), RINGSUM_OK);
	if ((strstr(text, "identical: ") != NULL) != (result == RINGSUM_OK))
		fail_msg("%s: the text says otherwise: %s", failures_describe(), text);
	ringsum_free(text);
	ringsum_report_free(report);
	return result;
}

static int verify_by_threads(void)
{
	return verify(RINGSUM_ENGINE_PREAD);
}

static int verify_by_ring(void)
{
	return verify(RINGSUM_ENGINE_AUTO);
}

static int inspect(void)
{
	static const int results[] = {
		[RINGSUM_VERDICT_UNDECIDED] = RINGSUM_E_UNDECIDED,
		[RINGSUM_VERDICT_IDENTICAL] = RINGSUM_OK,
		[RINGSUM_VERDICT_REFUSED] = RINGSUM_E_REFUSED,
	};
	struct ringsum_inspection *inspection = NULL;
	int result = ringsum_inspect(drafter.root, NULL, &inspection, NULL);

	if (result != RINGSUM_OK)
		return result;
	result = results[ringsum_inspection_verdict(inspection)];
	ringsum_inspection_free(inspection);
	return result;
}

static unsigned count_descriptors(void)
{
	DIR *stream = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(stream);
	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}

static void put_back(const char *file, size_t change)
{
	struct stat status;

	drafter_write(&drafter);
	snprintf(target, sizeof(target), "%s/%s", drafter.root, file);
	snprintf(spare, sizeof(spare), "%s/spare", drafter.base);
	drafter_remove(spare);
	assert_int_equal(stat(target, &status), 0);
	target_bytes = status.st_size;
	if (changes[change].prepare)
		changes[change].prepare();
}

/* Whether the nth call was reached. */
static bool change_at(unsigned nth, int (*run)(void), bool sees_bytes, const char *file,
		      size_t change, unsigned descriptors)
{
	bool is_reached;
	int result;

	put_back(file, change);
	failures_arm_act(nth, changes[change].act);
	result = run();
	is_reached = failures_disarm();
	if (count_descriptors() != descriptors)
		fail_msg("%s becomes %s at %s: a descriptor was left open", file,
			 changes[change].name, failures_describe());
	if (result == RINGSUM_E_NOMEM || result == RINGSUM_E_INVALID)
		fail_msg("%s becomes %s at %s: result %d", file, changes[change].name,
			 failures_describe(), result);
	if (changes[change].is_same && result == RINGSUM_E_REFUSED)
		fail_msg("%s becomes %s at %s: what is sound was refused", file,
			 changes[change].name, failures_describe());
	if (nth == 1 && sees_bytes && !changes[change].is_same && result == RINGSUM_OK)
		fail_msg("%s is %s from the first call on, and it passed", file,
			 changes[change].name);
	if (!is_reached)
		assert_int_equal(result, RINGSUM_OK);
	return is_reached;
}

/* Before every `step`th call. */
static void change_everywhere(const char *name, int (*run)(void), bool sees_bytes, unsigned step,
			      const char *const *files, size_t file_count)
{
	unsigned descriptors, nth, runs = 0;

	alarm(ANSWER_SECONDS);
	drafter_write(&drafter);
	assert_int_equal(run(), RINGSUM_OK); /* warm */
	descriptors = count_descriptors();
	for (size_t change = 0; change < sizeof(changes) / sizeof(changes[0]); change++)
		for (size_t file = 0; file < file_count; file++)
			for (nth = 1;
			     change_at(nth, run, sees_bytes, files[file], change, descriptors);
			     nth += step)
				runs++;
	alarm(0);
	print_message("# %s: %u changes\n", name, runs);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const char *const shards[] = { DRAFTER_SHARD_0, "TENSORS.json" };

static void test_verify_by_threads(void **state)
{
	(void)state;
	change_everywhere("verify by threads", verify_by_threads, true, 3, shards, 2);
}

static void test_verify_by_ring(void **state)
{
	(void)state;
	change_everywhere("verify by io_uring", verify_by_ring, true, 5, shards, 1);
}

static void test_verify_by_walking(void **state)
{
	(void)state;
	failures_deny_openat2(true);
	change_everywhere("verify by walking", verify_by_threads, true, 4, shards, 1);
	failures_deny_openat2(false);
}

/* It compares no bytes, so that another file of the same header is as valid as the first. */
static void test_inspect(void **state)
{
	(void)state;
	change_everywhere("inspect", inspect, false, 1, shards, 1);
}

static int make_drafter(void **state)
{
	(void)state;
	drafter_init(&drafter, 1, 1);
	drafter_build(&drafter, 0);
	return 0;
}

static int remove_drafter(void **state)
{
	(void)state;
	drafter_deinit(&drafter);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verify_by_threads),
		cmocka_unit_test(test_verify_by_ring),
		cmocka_unit_test(test_verify_by_walking),
		cmocka_unit_test(test_inspect),
	};

	return cmocka_run_group_tests(tests, make_drafter, remove_drafter);
}
