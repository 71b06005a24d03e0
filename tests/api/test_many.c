/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many checkpoints as one: each gets the report that it would get alone, in order, whatever its
 * neighbours are; a cancellation leaves out what was not begun.
 */
#include "delivery.h"
#include "ringsum.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20260603)
#define COUNT 12

static char root[64];
static struct delivery deliveries[COUNT];
static const char *paths[COUNT + 3]; /* and three that are no checkpoints */
#define PATH_COUNT (COUNT + 3)
static char missing[96], empty[96], broken[96];

static int make_deliveries(void **state)
{
	char manifest[128];
	size_t i;
	int fd;

	(void)state;
	snprintf(root, sizeof(root), "/var/tmp/ringsum-many.XXXXXX");
	assert_non_null(mkdtemp(root));
	for (i = 0; i < COUNT; i++) {
		delivery_init(&deliveries[i], root);
		if (i % 3 == 0)
			delivery_add_mixture(&deliveries[i], 2, SEED + i);
		else if (i % 3 == 1)
			delivery_add(&deliveries[i], 0, "one", 3 << 20, false);
		else
			delivery_add(&deliveries[i], 0, "small", 100 + i, false);
		delivery_write(&deliveries[i], SEED + i, i % 2 == 0);
	}
	snprintf(missing, sizeof(missing), "%s/missing", root);
	snprintf(empty, sizeof(empty), "%s/empty", root);
	snprintf(broken, sizeof(broken), "%s/broken", root);
	assert_int_equal(mkdir(empty, 0700), 0);
	assert_int_equal(mkdir(broken, 0700), 0);
	snprintf(manifest, sizeof(manifest), "%s/TENSORS.json", broken);
	fd = open(manifest, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "{\"tensors\": [3", 14), 14);
	close(fd);
	/* What goes wrong comes first, last and in between. */
	paths[0] = missing;
	for (i = 0; i < COUNT; i++)
		paths[1 + i + (i >= 4)] = deliveries[i].root;
	paths[5] = broken;
	paths[PATH_COUNT - 1] = empty;
	return 0;
}

static int remove_deliveries(void **state)
{
	char manifest[128];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT; i++)
		delivery_deinit(&deliveries[i]);
	snprintf(manifest, sizeof(manifest), "%s/TENSORS.json", broken);
	unlink(manifest);
	rmdir(broken);
	rmdir(empty);
	return rmdir(root);
}

/* ---- reports, as they come -------------------------------------------------------------------- */

struct taken {
	size_t count;	  /* callbacks so far */
	size_t cancel_at; /* the callback that cancels, from 1; 0: none */
	int results[PATH_COUNT];
	struct ringsum_report *reports[PATH_COUNT];
	size_t indexes[PATH_COUNT];
	pthread_t thread;
};

static int take(void *arg, size_t path_index, int result, struct ringsum_report *report,
		const struct ringsum_error *err)
{
	struct taken *taken = arg;

	assert_true(pthread_equal(pthread_self(), taken->thread));
	assert_true(taken->count < PATH_COUNT && path_index < PATH_COUNT);
	assert_true(taken->count == 0 || taken->indexes[taken->count - 1] < path_index);
	assert_int_equal(err->code, result);
	taken->indexes[taken->count] = path_index;
	taken->results[taken->count] = result;
	taken->reports[taken->count++] = report;
	return taken->count == taken->cancel_at;
}

static void free_taken(struct taken *taken)
{
	while (taken->count > 0)
		ringsum_report_free(taken->reports[--taken->count]);
}

static int verify(const struct ringsum_options *options, size_t path_count, struct taken *taken,
		  struct ringsum_many_totals *totals)
{
	struct ringsum_error err;
	int result;

	taken->thread = pthread_self();
	result = ringsum_verify_many(paths, path_count, options, take, taken, totals, &err);
	assert_int_equal(err.code, result);
	return result;
}

/* What a report says besides its times. */
static void compare_reports(const struct ringsum_report *a, const struct ringsum_report *b)
{
	struct ringsum_totals one, other;
	size_t i;

	assert_int_equal(a == NULL, b == NULL);
	if (!a)
		return;
	assert_int_equal(ringsum_report_verdict(a), ringsum_report_verdict(b));
	ringsum_report_totals(a, &one);
	ringsum_report_totals(b, &other);
	one.elapsed_seconds = other.elapsed_seconds = 0;
	assert_memory_equal(&one, &other, sizeof(one));
	assert_int_equal(ringsum_report_finding_count(a), ringsum_report_finding_count(b));
	for (i = 0; i < ringsum_report_finding_count(a); i++) {
		const struct ringsum_finding *x = ringsum_report_finding_at(a, i);
		const struct ringsum_finding *y = ringsum_report_finding_at(b, i);

		assert_int_equal(x->code, y->code);
		assert_string_equal(x->message, y->message);
	}
}

static void check_like_alone(const struct ringsum_options *options, int expected)
{
	struct ringsum_many_totals totals;
	struct taken taken = { 0 };
	size_t i, identical = 0, refused = 0;

	assert_int_equal(verify(options, PATH_COUNT, &taken, &totals), expected);
	assert_int_equal(taken.count, PATH_COUNT);
	for (i = 0; i < PATH_COUNT; i++) {
		struct ringsum_report *alone = NULL;
		int result = ringsum_verify_path(paths[i], options, &alone, NULL);

		assert_int_equal(taken.indexes[i], i);
		assert_int_equal(taken.results[i], result);
		compare_reports(taken.reports[i], alone);
		identical += result == RINGSUM_OK;
		refused += result == RINGSUM_E_REFUSED;
		ringsum_report_free(alone);
	}
	assert_int_equal(totals.paths_identical, identical);
	assert_int_equal(totals.paths_refused, refused);
	assert_int_equal(totals.paths_undecided, PATH_COUNT - identical - refused);
	assert_int_equal(totals.paths_left_out, 0);
	assert_true(totals.idle_seconds >= 0 && totals.idle_seconds <= totals.elapsed_seconds);
	free_taken(&taken);
}

static void test_each_as_if_alone(void **state)
{
	static const enum ringsum_engine engines[] = { RINGSUM_ENGINE_AUTO, RINGSUM_ENGINE_PREAD };
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		options.engine = engines[i];
		options.chunk_bytes = 65536;
		options.memory_bytes = i == 0 ? 65536 : 0; /* one buffer for all of them, too */
		/* `broken` is refused. */
		check_like_alone(&options, RINGSUM_E_REFUSED);
		/* Second readings are jobs like others. */
		delivery_flip(&deliveries[3], 5, 0, 1);
		delivery_flip(&deliveries[7], 0, 12345, 1);
		check_like_alone(&options, RINGSUM_E_REFUSED);
		delivery_flip(&deliveries[3], 5, 0, 1);
		delivery_flip(&deliveries[7], 0, 12345, 1);
	}
}

static void test_results(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	const char *clean[] = { deliveries[0].root, deliveries[1].root };
	const char *holed[] = { deliveries[0].root, missing };
	const char *hollow[] = { deliveries[0].root, "" };
	struct ringsum_many_totals totals = { .bytes_read = 77 };
	struct taken taken = { .thread = pthread_self() };

	(void)state;
	assert_int_equal(ringsum_verify_many(clean, 2, NULL, take, &taken, &totals, NULL),
			 RINGSUM_OK);
	assert_true(totals.bytes_proven == totals.bytes_promised && totals.bytes_proven > 0);
	free_taken(&taken);
	assert_int_equal(ringsum_verify_many(holed, 2, NULL, take, &taken, NULL, NULL),
			 RINGSUM_E_UNDECIDED);
	free_taken(&taken);
	assert_int_equal(ringsum_verify_many(NULL, 0, NULL, take, &taken, &totals, NULL),
			 RINGSUM_E_UNDECIDED);
	assert_int_equal(taken.count, 0);
	totals.bytes_read = 77;
	assert_int_equal(ringsum_verify_many(hollow, 2, NULL, take, &taken, &totals, NULL),
			 RINGSUM_E_INVALID);
	assert_int_equal(ringsum_verify_many(clean, 2, NULL, NULL, NULL, &totals, NULL),
			 RINGSUM_E_INVALID);
	options.manifest_path = "x";
	assert_int_equal(ringsum_verify_many(clean, 2, &options, take, &taken, &totals, NULL),
			 RINGSUM_E_INVALID);
	options.manifest_path = NULL;
	options.depth = 1000;
	assert_int_equal(ringsum_verify_many(clean, 2, &options, take, &taken, &totals, NULL),
			 RINGSUM_E_INVALID);
	assert_int_equal(taken.count, 0);
	assert_int_equal(totals.bytes_read, 77);
}

/* ---- cancellation ----------------------------------------------------------------------------- */

static void test_callback_cancels(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_many_totals totals;
	size_t at, i;

	(void)state;
	for (at = 1; at <= PATH_COUNT; at += 3) {
		struct taken taken = { .cancel_at = at };

		assert_int_equal(verify(&options, PATH_COUNT, &taken, &totals), RINGSUM_E_CANCELED);
		assert_true(taken.count >= at);
		assert_int_equal(taken.count + totals.paths_left_out, PATH_COUNT);
		/* What is told is true, as far as it goes. */
		for (i = 0; i < taken.count; i++)
			if (taken.results[i] == RINGSUM_OK)
				assert_int_equal(ringsum_report_verdict(taken.reports[i]),
						 RINGSUM_VERDICT_IDENTICAL);
		free_taken(&taken);
	}
}

struct watch {
	uint64_t calls, cancel_at;
	struct ringsum_progress last;
};

static int watch_progress(void *arg, const struct ringsum_progress *progress)
{
	struct watch *watch = arg;

	assert_true(progress->bytes_done <= progress->bytes_total);
	assert_true(progress->bytes_done >= watch->last.bytes_done);
	assert_true(progress->paths_done >= watch->last.paths_done);
	assert_int_equal(progress->paths_total, PATH_COUNT);
	watch->last = *progress;
	return ++watch->calls == watch->cancel_at;
}

static void test_progress(void **state)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_many_totals totals;
	struct watch watch = { 0 };
	struct taken taken = { 0 };

	(void)state;
	options.progress = watch_progress;
	options.progress_arg = &watch;
	assert_int_equal(verify(&options, PATH_COUNT, &taken, &totals), RINGSUM_E_REFUSED);
	assert_true(watch.calls > 0);
	assert_int_equal(watch.last.paths_done, PATH_COUNT);
	assert_int_equal(watch.last.bytes_done, totals.bytes_promised);
	free_taken(&taken);
	watch = (struct watch){ .cancel_at = 1 };
	options.bytes_per_second_max = 1 << 20; /* so that there is something to cancel */
	assert_int_equal(verify(&options, PATH_COUNT, &taken, &totals), RINGSUM_E_CANCELED);
	assert_true(totals.paths_left_out > 0);
	assert_int_equal(taken.count + totals.paths_left_out, PATH_COUNT);
	free_taken(&taken);
}

/* ---- trees ------------------------------------------------------------------------------------- */

static void test_find(void **state)
{
	char **found = NULL, link_path[128];
	size_t count = 0, i;
	int is_cut_out = 7;

	(void)state;
	/* A list of checksums is a manifest as well; beside another it makes no second checkpoint. */
	snprintf(link_path, sizeof(link_path), "%s/SHA256SUMS", deliveries[2].root);
	close(open(link_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	snprintf(link_path, sizeof(link_path), "%s/sha256sums.txt", empty);
	close(open(link_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	snprintf(link_path, sizeof(link_path), "%s/link", root);
	assert_int_equal(symlink(deliveries[0].root, link_path), 0);
	assert_int_equal(ringsum_find_checkpoints(root, &found, &count, &is_cut_out, NULL),
			 RINGSUM_OK);
	unlink(link_path);
	assert_int_equal(count, COUNT + 2);
	assert_int_equal(is_cut_out, 0);
	for (i = 0; i < count; i++) {
		assert_true(i == 0 || strcmp(found[i - 1], found[i]) < 0);
		assert_int_equal(strncmp(found[i], root, strlen(root)), 0);
	}
	for (i = 0; i < count; i++)
		ringsum_free(found[i]);
	snprintf(link_path, sizeof(link_path), "%s/sha256sums.txt", empty);
	assert_int_equal(unlink(link_path), 0);
	snprintf(link_path, sizeof(link_path), "%s/SHA256SUMS", deliveries[2].root);
	assert_int_equal(unlink(link_path), 0);
	ringsum_free(found);
	assert_int_equal(
		ringsum_find_checkpoints(deliveries[0].root, &found, &count, &is_cut_out, NULL),
		RINGSUM_OK);
	assert_int_equal(count, 1);
	assert_string_equal(found[0], deliveries[0].root);
	ringsum_free(found[0]);
	ringsum_free(found);
	assert_int_equal(ringsum_find_checkpoints(empty, &found, &count, &is_cut_out, NULL),
			 RINGSUM_OK);
	assert_int_equal(count, 0);
	ringsum_free(found);
	assert_int_equal(ringsum_find_checkpoints(missing, &found, &count, &is_cut_out, NULL),
			 RINGSUM_E_NOPROMISE);
	assert_int_equal(ringsum_find_checkpoints(NULL, &found, &count, &is_cut_out, NULL),
			 RINGSUM_E_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_as_if_alone),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_callback_cancels),
		cmocka_unit_test(test_progress),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, make_deliveries, remove_deliveries);
}
