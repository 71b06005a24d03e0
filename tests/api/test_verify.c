/* SPDX-License-Identifier: Apache-2.0 */
/* Verification through the public API: on every engine, with every digest, direct and not. */
#include "delivery.h"
#include "ringsum.h"
#include "rsum_limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20261201)

struct way {
	const char *name;
	struct ringsum_options options;
};

#define WAY(label, ...)                                               \
	{                                                             \
		.name = label, .options = {                           \
			.size_bytes = sizeof(struct ringsum_options), \
			.chunk_bytes = 65536,                         \
			__VA_ARGS__                                   \
		}                                                     \
	}

static const struct way ways[] = {
	WAY("io_uring", .memory_bytes = 1 << 20, .threads = 2),
	WAY("io_uring, page cache", .direct = RINGSUM_DIRECT_OFF, .threads = 2),
	WAY("io_uring, one buffer", .memory_bytes = 65536, .threads = 1),
	WAY("io_uring, libcrypto", .digest = RINGSUM_DIGEST_LIBCRYPTO),
	WAY("pread", .engine = RINGSUM_ENGINE_PREAD),
	WAY("pread, page cache, depth 1", .engine = RINGSUM_ENGINE_PREAD,
	    .direct = RINGSUM_DIRECT_OFF, .depth = 1),
	WAY("many threads", .memory_bytes = 1 << 20, .threads = 9),
};

#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

static struct delivery delivery;
static char context[160]; /* what is being tried, for a failure's message */

static int make_delivery(void **state)
{
	(void)state;
	delivery_init(&delivery, NULL);
	delivery_add_mixture(&delivery, 3, SEED);
	delivery_write(&delivery, SEED, true);
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	delivery_deinit(&delivery);
	return 0;
}

static struct ringsum_report *verify(const struct ringsum_options *options, int expected_result)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_verify_path(delivery.root, options, &report, &err);

	if (result != expected_result)
		fail_msg("%s: result %d, expected %d: %s", context, result, expected_result,
			 err.message);
	return report;
}

static void assert_clean(const struct way *way)
{
	struct ringsum_report *report = verify(&way->options, RINGSUM_OK);
	struct ringsum_totals totals;
	uint64_t bytes = 0;
	size_t i;

	ringsum_report_totals(report, &totals);
	for (i = 0; i < delivery.count; i++)
		bytes += delivery.tensors[i].size_bytes;
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_IDENTICAL);
	assert_int_equal(totals.tensors_promised, delivery.count);
	assert_int_equal(totals.tensors_identical, delivery.count);
	assert_int_equal(totals.bytes_proven, bytes);
	assert_int_equal(totals.findings_total, 0);
	assert_true(totals.bytes_read >= bytes);
	ringsum_report_free(report);
}

/* One deciding finding: digest-mismatch of that tensor; all others are identical. */
static void assert_refused_tensor(const struct way *way, size_t tensor)
{
	struct ringsum_report *report = verify(&way->options, RINGSUM_E_REFUSED);
	const struct ringsum_finding *finding = ringsum_report_finding_at(report, 0);
	struct ringsum_totals totals;

	ringsum_report_totals(report, &totals);
	if (totals.findings_total != 1 || finding->code != RINGSUM_FINDING_DIGEST_MISMATCH ||
	    strcmp(finding->tensor, delivery.tensors[tensor].name) != 0)
		fail_msg("%s: %llu findings, the first %s of %s", context,
			 (unsigned long long)totals.findings_total,
			 ringsum_finding_code_name(finding->code), finding->tensor);
	assert_int_equal(totals.tensors_refused, 1);
	assert_int_equal(totals.tensors_identical, delivery.count - 1);
	assert_true(finding->has_range);
	assert_int_equal(finding->begin, delivery.tensors[tensor].begin);
	assert_int_equal(finding->end,
			 delivery.tensors[tensor].begin + delivery.tensors[tensor].size_bytes);
	ringsum_report_free(report);
}

static void test_clean_is_identical(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < WAY_COUNT; i++)
		assert_clean(&ways[i]);
}

static void flip_and_check(size_t way, size_t tensor, uint64_t byte, unsigned bit)
{
	delivery_flip(&delivery, tensor, byte, bit);
	snprintf(context, sizeof(context), "%s: %s byte %llu bit %u", ways[way].name,
		 delivery.tensors[tensor].name, (unsigned long long)byte, bit);
	assert_refused_tensor(&ways[way], tensor);
	delivery_flip(&delivery, tensor, byte, bit);
}

static void test_first_and_last_byte_of_every_tensor(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < delivery.count; i++) {
		if (delivery.tensors[i].size_bytes == 0)
			continue;
		flip_and_check(i % WAY_COUNT, i, 0, (unsigned)i % 8);
		flip_and_check((i + 1) % WAY_COUNT, i, delivery.tensors[i].size_bytes - 1,
			       (unsigned)(i + 3) % 8);
	}
	assert_clean(&ways[0]);
}

static void test_random_flips(void **state)
{
	uint64_t random = SEED;
	unsigned i;

	(void)state;
	for (i = 0; i < 400; i++) {
		size_t tensor = delivery_random(&random) % delivery.count;

		if (delivery.tensors[tensor].size_bytes == 0)
			continue;
		flip_and_check(i % WAY_COUNT, tensor,
			       delivery_random(&random) % delivery.tensors[tensor].size_bytes,
			       (unsigned)(delivery_random(&random) % 8));
	}
	assert_clean(&ways[0]);
}

static void test_many_flips_are_all_reported(void **state)
{
	size_t i, flipped = 0, w;

	(void)state;
	for (i = 0; i < delivery.count; i += 3)
		if (delivery.tensors[i].size_bytes > 0)
			delivery_flip(&delivery, i, delivery.tensors[i].size_bytes / 2, 5);
	for (w = 0; w < WAY_COUNT; w++) {
		struct ringsum_report *report = verify(&ways[w].options, RINGSUM_E_REFUSED);
		size_t finding = 0;

		flipped = 0;
		for (i = 0; i < delivery.count; i += 3) {
			if (delivery.tensors[i].size_bytes == 0)
				continue;
			flipped++;
			assert_string_equal(ringsum_report_finding_at(report, finding++)->tensor,
					    delivery.tensors[i].name);
		}
		assert_int_equal(ringsum_report_finding_count(report), flipped);
		ringsum_report_free(report);
	}
	for (i = 0; i < delivery.count; i += 3)
		if (delivery.tensors[i].size_bytes > 0)
			delivery_flip(&delivery, i, delivery.tensors[i].size_bytes / 2, 5);
}

/* A promise about an empty tensor is checked too: its digest can only be that of no bytes. */
static void test_wrong_digest_of_an_empty_tensor(void **state)
{
	static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb924";
	char path[128], *text, *found;
	struct ringsum_report *report;
	long size;
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/TENSORS.json", delivery.root);
	file = fopen(path, "r+");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	text = calloc(1, (size_t)size + 1);
	rewind(file);
	assert_int_equal(fread(text, 1, (size_t)size, file), size);
	found = strstr(text, empty);
	assert_non_null(found);
	fseek(file, found - text, SEEK_SET);
	fputc('f', file);
	fclose(file);
	report = verify(&ways[0].options, RINGSUM_E_REFUSED);
	assert_int_equal(ringsum_report_finding_at(report, 0)->code,
			 RINGSUM_FINDING_DIGEST_MISMATCH);
	assert_string_equal(ringsum_report_finding_at(report, 0)->tensor, "s0.size0");
	assert_non_null(strstr(ringsum_report_finding_at(report, 0)->message, "is empty"));
	ringsum_report_free(report);
	free(text);
	delivery_write(&delivery, SEED, true);
}

static bool says(const struct ringsum_report *report, const char *piece)
{
	char *text = NULL;
	bool is_said;

	assert_int_equal(ringsum_report_to_text(report, &text, NULL), RINGSUM_OK);
	is_said = strstr(text, piece) != NULL;
	ringsum_free(text);
	return is_said;
}

/* The path of a name in the delivery, in a buffer of at least 128 bytes. */
static char *in_root(char *path, const char *name)
{
	snprintf(path, 128, "%s/%s", delivery.root, name);
	return path;
}

static void make_file(const char *path)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
}

static int cancel_at_once(void *arg, const struct ringsum_progress *progress)
{
	(void)arg;
	(void)progress;
	return 1;
}

static void test_cancel(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < WAY_COUNT; i++) {
		struct ringsum_options options = ways[i].options;
		struct ringsum_report *report;

		options.progress = cancel_at_once;
		report = verify(&options, RINGSUM_E_CANCELED);
		assert_non_null(report);
		assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
		assert_true(says(report, "\nundecided: interrupted before everything was read; "));
		ringsum_report_free(report);
	}
}

struct watch {
	unsigned calls;
	uint64_t bytes_done;
	uint64_t findings_count;
};

static int watch_progress(void *arg, const struct ringsum_progress *progress)
{
	struct watch *watch = arg;

	watch->calls++;
	assert_int_equal(progress->tensors_total, delivery.count);
	assert_true(progress->bytes_done >= watch->bytes_done);
	assert_true(progress->bytes_done <= progress->bytes_total);
	watch->bytes_done = progress->bytes_done;
	watch->findings_count = progress->findings_count;
	return 0;
}

static void test_progress(void **state)
{
	struct ringsum_options options = ways[0].options;
	struct watch watch = { 0 };
	struct ringsum_totals totals;
	struct ringsum_report *report;
	char path[128];

	(void)state;
	snprintf(context, sizeof(context), "progress");
	options.progress = watch_progress;
	options.progress_arg = &watch;
	report = verify(&options, RINGSUM_OK);
	ringsum_report_totals(report, &totals);
	assert_true(watch.calls > 0);
	assert_int_equal(watch.bytes_done, totals.bytes_promised);
	assert_int_equal(watch.findings_count, 0);
	ringsum_report_free(report);

	/* What was found before the reading is counted during it. */
	in_root(path, "stranger");
	make_file(path);
	options.strict = 1;
	watch = (struct watch){ 0 };
	report = verify(&options, RINGSUM_E_REFUSED);
	assert_int_equal(watch.findings_count, 1);
	ringsum_report_free(report);
	assert_int_equal(unlink(path), 0);
}

/* ---- what nobody promised ------------------------------------------------------------------- */

static void test_unpromised_come_in_order(void **state)
{
	static const char *const names[] = {
		"zeta", "beta", "alpha", "beta2", "a/z", "a.b", "gamma"
	};
	static const char *const sorted[] = { "a.b",   "a/z",	"alpha", "beta",
					      "beta2", "gamma", "zeta" };
	struct ringsum_options options = ways[0].options;
	struct ringsum_report *report;
	char path[128];
	size_t i;
	int round;

	(void)state;
	snprintf(context, sizeof(context), "unpromised files");
	assert_int_equal(mkdir(in_root(path, "a"), 0700), 0);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		make_file(in_root(path, names[i]));
	for (round = 0; round < 2; round++) {
		options.strict = round;
		report = verify(&options, round ? RINGSUM_E_REFUSED : RINGSUM_OK);
		assert_int_equal(ringsum_report_finding_count(report), 7);
		for (i = 0; i < 7; i++)
			assert_string_equal(ringsum_report_finding_at(report, i)->file, sorted[i]);
		ringsum_report_free(report);
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(unlink(in_root(path, names[i])), 0);
	assert_int_equal(rmdir(in_root(path, "a")), 0);
}

/* A link to what is promised, and what it leads to, are no strangers; another name is one. */
static void test_strict_knows_links(void **state)
{
	struct ringsum_options options = ways[0].options;
	const char *shard = delivery_shard_path(&delivery, 0);
	const char *name = strrchr(shard, '/') + 1;
	char directory[128], moved[256], first[256], manifest[128], alias[128];
	struct ringsum_error err = { 0 };
	struct ringsum_report *report;

	(void)state;
	snprintf(context, sizeof(context), "links under strict");
	options.strict = 1;
	ringsum_report_free(verify(&options, RINGSUM_OK));

	/* name -> first -> sub/moved */
	assert_int_equal(mkdir(in_root(directory, "sub"), 0700), 0);
	snprintf(moved, sizeof(moved), "%s/moved", directory);
	in_root(first, "first");
	assert_int_equal(rename(shard, moved), 0);
	assert_int_equal(symlink("sub/moved", first), 0);
	assert_int_equal(symlink("first", shard), 0);
	ringsum_report_free(verify(&options, RINGSUM_OK));

	/* The manifest under the name that the caller gives it, from elsewhere. */
	options.manifest_path = in_root(manifest, "TENSORS.json");
	ringsum_report_free(verify(&options, RINGSUM_OK));
	options.manifest_path = NULL;

	assert_int_equal(unlink(shard), 0);
	assert_int_equal(unlink(first), 0);
	assert_int_equal(rename(moved, shard), 0);
	assert_int_equal(rmdir(directory), 0);

	/* The shard is there under its own name: a second one is more than was promised. */
	assert_int_equal(link(shard, in_root(alias, "alias")), 0);
	report = NULL;
	assert_int_equal(ringsum_verify_path(delivery.root, &options, &report, &err),
			 RINGSUM_E_REFUSED);
	assert_int_equal(strncmp(err.message, "1 finding; the first: the manifest promises no", 46),
			 0);
	assert_int_equal(ringsum_report_finding_count(report), 1);
	assert_string_equal(ringsum_report_finding_at(report, 0)->file, "alias");
	ringsum_report_free(report);
	assert_int_equal(unlink(alias), 0);
	assert_int_equal(symlink(name, alias), 0);
	ringsum_report_free(verify(&options, RINGSUM_E_REFUSED));
	assert_int_equal(unlink(alias), 0);
}

/* A directory on the way is a link: it too is what the promise names. */
static void test_strict_knows_linked_directories(void **state)
{
	static const char promised[] =
		"{\"tensors\":[{\"name\":\"t\",\"dtype\":\"U8\","
		"\"shape\":[0],\"destination_file\":\"by/shard\","
		"\"destination_byte_range\":[%zu,%zu],"
		"\"source_byte_range\":[0,0],\"resident_packed_bytes\":0,"
		"\"source_byte_range_sha256\":\"e3b0c44298fc1c149afbf4c8996fb924"
		"27ae41e4649b934ca495991b7852b855\"}]}";
	static const char header[] =
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
	struct ringsum_options options = ways[0].options;
	struct ringsum_error err = { 0 };
	unsigned char length[8] = { sizeof(header) - 1 };
	struct delivery other;
	char path[128];
	FILE *file;

	(void)state;
	delivery_init(&other, NULL);
	snprintf(path, sizeof(path), "%s/real", other.root);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/by", other.root);
	assert_int_equal(symlink("real", path), 0);
	snprintf(path, sizeof(path), "%s/real/shard", other.root);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(length, 1, 8, file), 8);
	fputs(header, file);
	assert_int_equal(fclose(file), 0);
	snprintf(path, sizeof(path), "%s/TENSORS.json", other.root);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, promised, 8 + sizeof(header) - 1, 8 + sizeof(header) - 1);
	assert_int_equal(fclose(file), 0);
	options.strict = 1;
	if (ringsum_verify_path(other.root, &options, NULL, &err) != RINGSUM_OK)
		fail_msg("%s", err.message);
	delivery_deinit(&other);
}

/*
 * Writes the manifest again: every n-th promise that is in `from` names `to` instead, and the
 * promise of `dropped` (may be NULL) is left out.
 */
static void rename_shard(const char *from, const char *to, unsigned n, const char *dropped)
{
	char path[128], quoted[64], drop[96], *line = NULL, *found;
	size_t capacity = 0;
	unsigned count = 0;
	FILE *in, *out;

	in_root(path, "TENSORS.json");
	snprintf(quoted, sizeof(quoted), "\"%s\"", from);
	snprintf(drop, sizeof(drop), "{\"name\":\"%s\",", dropped ? dropped : "");
	in = fopen(path, "r");
	assert_non_null(in);
	assert_int_equal(unlink(path), 0);
	out = fopen(path, "w");
	assert_non_null(out);
	while (getline(&line, &capacity, in) > 0) {
		if (strncmp(line, drop, strlen(drop)) == 0)
			continue;
		found = strstr(line, quoted);
		if (found && count++ % n == 0)
			fprintf(out, "%.*s\"%s\"%s", (int)(found - line), line, to,
				found + strlen(quoted));
		else
			fputs(line, out);
	}
	free(line);
	assert_int_equal(fclose(in), 0);
	assert_int_equal(fclose(out), 0);
}

/* Of one file named twice a tensor is promised under either name, and a stranger is one stranger. */
static void check_several_names(const char *alias, unsigned n)
{
	static const char shard[] = "shard-0.safetensors";
	struct ringsum_options options = ways[0].options;
	struct ringsum_report *report;
	struct ringsum_totals totals;
	const char *dropped;

	snprintf(context, sizeof(context), "a shard named %s too, every %u", alias, n);
	options.strict = 1;
	rename_shard(shard, alias, n, NULL);
	ringsum_report_free(verify(&options, RINGSUM_OK));
	delivery_write(&delivery, SEED, true);
	dropped = delivery.tensors[3].name;
	rename_shard(shard, alias, n, dropped);
	report = verify(&options, RINGSUM_E_REFUSED);
	assert_int_equal(ringsum_report_finding_count(report), 1);
	assert_string_equal(ringsum_report_finding_at(report, 0)->tensor, dropped);
	ringsum_report_totals(report, &totals);
	assert_int_equal(totals.tensors_unpromised, 1);
	ringsum_report_free(report);
	delivery_write(&delivery, SEED, true);
}

static void test_strict_knows_shards_of_several_names(void **state)
{
	char alias[128];

	(void)state;
	check_several_names("./shard-0.safetensors", 2);
	check_several_names("./shard-0.safetensors", 1);
	check_several_names(".//.//shard-0.safetensors", 3);
	assert_int_equal(symlink("shard-0.safetensors", in_root(alias, "alias")), 0);
	check_several_names("alias", 2);
	check_several_names("./alias", 3);
	assert_int_equal(unlink(alias), 0);
	assert_int_equal(link(delivery_shard_path(&delivery, 0), alias), 0);
	check_several_names("alias", 2);
	check_several_names("./alias", 7);
	assert_int_equal(unlink(alias), 0);
}

static bool json_says(const struct ringsum_report *report, const char *piece)
{
	char *json = NULL;
	bool is_said;

	assert_int_equal(ringsum_report_to_json(report, &json, NULL), RINGSUM_OK);
	is_said = strstr(json, piece) != NULL;
	ringsum_free(json);
	return is_said;
}

/* What was not looked for is not called absent. */
static void test_directory_that_is_not_listed(void **state)
{
	struct ringsum_options options = ways[0].options;
	struct ringsum_report *report;
	struct ringsum_totals totals;
	char path[1024];
	unsigned depth;
	size_t length;

	(void)state;
	snprintf(context, sizeof(context), "too deep a directory");
	report = verify(&options, RINGSUM_OK);
	assert_true(json_says(report, "\"files_unpromised\":0,"));
	ringsum_report_free(report);
	length = strlen(in_root(path, ""));
	for (depth = 0; depth < RSUM_LIMIT_WALK_DEPTH + 1; depth++) {
		strcpy(path + length + 2 * (size_t)depth, "d/");
		assert_int_equal(mkdir(path, 0700), 0);
	}
	report = verify(&options, RINGSUM_OK);
	ringsum_report_totals(report, &totals);
	assert_true(totals.files_unpromised == UINT64_MAX);
	assert_true(json_says(report, "\"files_unpromised\":null,"));
	assert_true(says(report, "note  read-error: not all of the directory could be listed: "));
	ringsum_report_free(report);
	options.strict = 1;
	report = verify(&options, RINGSUM_E_UNDECIDED);
	assert_int_equal(ringsum_report_finding_count(report), 1);
	assert_true(json_says(report, "\"files_unpromised\":null,"));
	ringsum_report_free(report);
	while (depth-- > 0) {
		path[length + 2 * (size_t)depth + 2] = '\0';
		assert_int_equal(rmdir(path), 0);
	}
}

/* ---- shards that fail as a whole ----------------------------------------------------------- */

/* With no descriptor left no shard can be opened: that is told once for each. */
static void test_unopened_shards_are_told_once(void **state)
{
	struct ringsum_options options = ways[4].options; /* pread: its start needs no descriptor */
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_report *report = NULL;
	struct rlimit before, none;
	struct ringsum_totals totals;
	size_t i;
	int result;

	(void)state;
	assert_int_equal(ringsum_checkpoint_open(delivery.root, &options, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	result = ringsum_checkpoint_verify(checkpoint, &report, NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(result, RINGSUM_E_UNDECIDED);
	/* Nor can the manifest be looked at again. */
	assert_int_equal(ringsum_report_finding_count(report), delivery.shard_count + 1);
	for (i = 0; i <= delivery.shard_count; i++) {
		const struct ringsum_finding *finding = ringsum_report_finding_at(report, i);

		assert_int_equal(finding->code, RINGSUM_FINDING_READ_ERROR);
		assert_null(finding->tensor);
		if (i == delivery.shard_count)
			assert_string_equal(finding->file, "TENSORS.json");
		else
			assert_non_null(strstr(finding->message, "cannot be opened again"));
	}
	ringsum_report_totals(report, &totals);
	assert_true(totals.tensors_undecided > delivery.shard_count);
	ringsum_report_free(report);
	ringsum_checkpoint_close(checkpoint);
}

struct meddler {
	int calls;
	void (*meddle)(const char *path);
	const char *path; /* NULL: shard 1 */
	bool is_at_end;	  /* once everything was read */
};

static int meddle_once(void *arg, const struct ringsum_progress *progress)
{
	struct meddler *meddler = arg;

	if (meddler->is_at_end && progress->bytes_done < progress->bytes_total)
		return 0;
	if (meddler->calls++ == 0)
		meddler->meddle(meddler->path ? meddler->path : delivery_shard_path(&delivery, 1));
	return 0;
}

static void remove_it(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

static void touch(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 20), 1);
	/* A clock tick may hide a write; two names for the file show it for certain. */
	assert_int_equal(futimens(fd, (struct timespec[]){ { .tv_sec = 1 }, { .tv_sec = 1 } }), 0);
	close(fd);
}

static void cut_short(const char *path)
{
	assert_int_equal(truncate(path, 100), 0);
}

static void replace(const char *path)
{
	char copy[160];
	FILE *file;

	snprintf(copy, sizeof(copy), "%s.new", path);
	file = fopen(copy, "w");
	assert_non_null(file);
	fputs("something else", file);
	fclose(file);
	assert_int_equal(rename(copy, path), 0);
}

/* What changes while it is read is never identical, and never blamed on the promise. */
static void test_changed_during_read(void **state)
{
	static void (*const meddlings[])(const char *) = { touch, cut_short, replace };
	size_t i, w;

	(void)state;
	for (i = 0; i < sizeof(meddlings) / sizeof(meddlings[0]); i++) {
		for (w = 0; w < WAY_COUNT; w++) {
			struct meddler meddler = { .meddle = meddlings[i] };
			struct ringsum_options options = ways[w].options;
			struct ringsum_report *report = NULL;
			int result;

			delivery_write(&delivery, SEED, true);
			options.progress = meddle_once;
			options.progress_arg = &meddler;
			result = ringsum_verify_path(delivery.root, &options, &report, NULL);
			/*
			 * Replacing may come after the shard was read through its descriptor; then
			 * what was read is still what was promised.
			 */
			if (meddlings[i] == replace && result == RINGSUM_OK) {
				ringsum_report_free(report);
				continue;
			}
			if (result != RINGSUM_E_UNDECIDED)
				fail_msg("%s, meddling %zu: result %d", ways[w].name, i, result);
			assert_int_equal(ringsum_report_finding_at(report, 0)->code,
					 RINGSUM_FINDING_CHANGED_DURING_READ);
			assert_string_equal(ringsum_report_finding_at(report, 0)->file,
					    "shard-1.safetensors");
			ringsum_report_free(report);
		}
	}
	delivery_write(&delivery, SEED, true);
}

/* The manifest decides what to expect: where it changes, nothing is proven. */
static void test_changed_manifest(void **state)
{
	static void (*const meddlings[])(const char *) = { touch, cut_short, replace, remove_it };
	char manifest[128];
	size_t i, naming;

	(void)state;
	in_root(manifest, "TENSORS.json");
	for (i = 0; i < sizeof(meddlings) / sizeof(meddlings[0]); i++) {
		for (naming = 0; naming < 3; naming++) {
			struct meddler meddler = { .meddle = meddlings[i], .path = manifest };
			struct ringsum_options options = ways[i % WAY_COUNT].options;
			struct ringsum_report *report = NULL;
			struct ringsum_totals totals;

			delivery_write(&delivery, SEED, true);
			options.progress = meddle_once;
			options.progress_arg = &meddler;
			options.manifest_path = naming == 1 ? manifest : NULL;
			assert_int_equal(ringsum_verify_path(naming == 2 ? manifest : delivery.root,
							     &options, &report, NULL),
					 RINGSUM_E_UNDECIDED);
			assert_int_equal(ringsum_report_finding_count(report), 1);
			assert_int_equal(ringsum_report_finding_at(report, 0)->code,
					 RINGSUM_FINDING_CHANGED_DURING_READ);
			assert_non_null(
				strstr(ringsum_report_finding_at(report, 0)->file, "TENSORS.json"));
			ringsum_report_totals(report, &totals);
			assert_int_equal(totals.tensors_undecided, delivery.count);
			assert_int_equal(totals.bytes_proven, 0);
			ringsum_report_free(report);
		}
	}
	delivery_write(&delivery, SEED, true);
}

/* A process may change its directory between opening and verifying. */
static void test_manifest_named_from_another_directory(void **state)
{
	struct ringsum_checkpoint *checkpoint;
	char before[1024];

	(void)state;
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(delivery.root), 0);
	assert_int_equal(ringsum_checkpoint_open("TENSORS.json", NULL, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(ringsum_checkpoint_verify(checkpoint, NULL, NULL), RINGSUM_OK);
	assert_int_equal(chdir(before), 0);
	ringsum_checkpoint_close(checkpoint);
}

/* A shard that changes hides what was read, but not which of it differed. */
static void test_changed_shard_tells_what_differs(void **state)
{
	size_t tensor = 0, w;

	(void)state;
	while (delivery.tensors[tensor].shard != 1 || delivery.tensors[tensor].size_bytes < 4096)
		tensor++;
	for (w = 0; w < WAY_COUNT; w++) {
		struct meddler meddler = { .meddle = touch, .is_at_end = true };
		struct ringsum_options options = ways[w].options;
		const struct ringsum_finding *finding;
		struct ringsum_report *report;
		struct ringsum_totals totals;

		delivery_write(&delivery, SEED, true);
		delivery_flip(&delivery, tensor, 7, 3);
		snprintf(context, sizeof(context), "%s: changed and damaged", ways[w].name);
		options.progress = meddle_once;
		options.progress_arg = &meddler;
		report = verify(&options, RINGSUM_E_UNDECIDED);
		assert_int_equal(ringsum_report_finding_count(report), 2);
		finding = ringsum_report_finding_at(report, 0);
		assert_null(finding->tensor);
		assert_non_null(strstr(finding->message, "; 61 tensors in it are undecided"));
		finding = ringsum_report_finding_at(report, 1);
		assert_int_equal(finding->code, RINGSUM_FINDING_CHANGED_DURING_READ);
		assert_int_equal(finding->severity, RINGSUM_SEVERITY_UNDECIDED);
		assert_string_equal(finding->tensor, delivery.tensors[tensor].name);
		assert_int_equal(finding->begin, delivery.tensors[tensor].begin);
		assert_string_not_equal(finding->expected, finding->actual);
		assert_non_null(strstr(finding->message, "was changed while it was read"));
		ringsum_report_totals(report, &totals);
		assert_int_equal(totals.tensors_undecided, 61);
		assert_int_equal(totals.tensors_identical, delivery.count - 61);
		ringsum_report_free(report);
	}
	delivery_write(&delivery, SEED, true);
}

static int cancel_at_end(void *arg, const struct ringsum_progress *progress)
{
	(void)arg;
	return progress->bytes_done == progress->bytes_total;
}

/* What one reading found is told, although there was no time for a second. */
static void test_interrupted_after_damage(void **state)
{
	size_t w;

	(void)state;
	delivery_flip(&delivery, 5, 3, 1);
	for (w = 0; w < WAY_COUNT; w++) {
		struct ringsum_options options = ways[w].options;
		const struct ringsum_finding *finding;
		struct ringsum_report *report;
		struct ringsum_totals totals;

		snprintf(context, sizeof(context), "%s: interrupted after damage", ways[w].name);
		options.progress = cancel_at_end;
		report = verify(&options, RINGSUM_E_CANCELED);
		assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_REFUSED);
		finding = ringsum_report_finding_at(report, 0);
		assert_int_equal(finding->code, RINGSUM_FINDING_DIGEST_MISMATCH);
		assert_string_equal(finding->tensor, delivery.tensors[5].name);
		assert_non_null(
			strstr(finding->message, "in one reading: the run was interrupted"));
		ringsum_report_totals(report, &totals);
		assert_int_equal(totals.tensors_refused, 1);
		assert_true(says(report, "\nrefused: interrupted before everything was read; "));
		ringsum_report_free(report);
	}
	delivery_flip(&delivery, 5, 3, 1);
}

static void *verify_handle(void *checkpoint)
{
	return ringsum_checkpoint_verify(checkpoint, NULL, NULL) == RINGSUM_OK ? checkpoint : NULL;
}

static void test_one_handle_in_several_threads(void **state)
{
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_report *report;
	pthread_t threads[4];
	void *returned;
	size_t i;

	(void)state;
	assert_int_equal(ringsum_checkpoint_open(delivery.root, &ways[0].options, &checkpoint,
						 &report, NULL),
			 RINGSUM_OK);
	assert_int_equal(ringsum_report_verdict(report), RINGSUM_VERDICT_UNDECIDED);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, verify_handle, checkpoint), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &returned), 0);
		assert_ptr_equal(returned, checkpoint);
	}
	ringsum_checkpoint_close(checkpoint);
	ringsum_report_free(report);
}

static void test_tensor_table(void **state)
{
	struct ringsum_checkpoint *checkpoint;
	const struct ringsum_tensor *tensor;
	size_t i;

	(void)state;
	assert_int_equal(ringsum_checkpoint_open(delivery.root, NULL, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	assert_int_equal(ringsum_checkpoint_tensor_count(checkpoint), delivery.count);
	for (i = 0; i < delivery.count; i++) {
		tensor = ringsum_checkpoint_find(checkpoint, delivery.tensors[i].name);
		assert_ptr_equal(tensor, ringsum_checkpoint_tensor_at(checkpoint, i));
		assert_int_equal(tensor->size_bytes, delivery.tensors[i].size_bytes);
		assert_int_equal(tensor->begin, delivery.tensors[i].begin);
		assert_int_equal(tensor->rank, delivery.tensors[i].rank);
		assert_string_equal(ringsum_dtype_name(tensor->dtype), "U8");
	}
	assert_null(ringsum_checkpoint_tensor_at(checkpoint, delivery.count));
	assert_null(ringsum_checkpoint_find(checkpoint, "no such tensor"));
	ringsum_checkpoint_close(checkpoint);
}

static void test_open_fails_closed(void **state)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_report *report = NULL;

	(void)state;
	assert_int_equal(truncate(delivery_shard_path(&delivery, 2), 3000), 0);
	assert_int_equal(ringsum_checkpoint_open(delivery.root, NULL, &checkpoint, &report, NULL),
			 RINGSUM_E_REFUSED);
	assert_null(checkpoint);
	assert_non_null(report);
	assert_int_equal(ringsum_report_finding_at(report, 0)->code,
			 RINGSUM_FINDING_FILE_TRUNCATED);
	ringsum_report_free(report);
	delivery_write(&delivery, SEED, true);
}

static void test_wrong_options(void **state)
{
	static const struct ringsum_options wrong[] = {
		{ .size_bytes = 0 },
		{ .size_bytes = sizeof(struct ringsum_options), .threads = 257 },
		{ .size_bytes = sizeof(struct ringsum_options), .depth = 257 },
		{ .size_bytes = sizeof(struct ringsum_options), .chunk_bytes = 4096 },
		{ .size_bytes = sizeof(struct ringsum_options), .chunk_bytes = 1000000 },
		{ .size_bytes = sizeof(struct ringsum_options), .memory_bytes = 4096 },
		{ .size_bytes = sizeof(struct ringsum_options), .manifest_sha256 = "abc" },
		{ .size_bytes = sizeof(struct ringsum_options), .engine = (enum ringsum_engine)9 },
	};
	struct {
		struct ringsum_options options;
		int more;
	} longer = { .options = RINGSUM_OPTIONS_INIT };
	struct ringsum_report *report;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_null(verify(&wrong[i], RINGSUM_E_INVALID));
	longer.options.size_bytes = sizeof(longer);
	report = verify(&longer.options, RINGSUM_OK);
	ringsum_report_free(report);
	memset((char *)&longer + sizeof(longer.options), 1,
	       sizeof(longer) - sizeof(longer.options));
	assert_null(verify(&longer.options, RINGSUM_E_INVALID));
}

/* Whoever names an implementation in the environment wants that one or an error. */
static void test_digest_of_the_environment(void **state)
{
	static const char *const known[] = { "auto", "", "libcrypto" };
	static const char *const optional[] = { "sha-ni-x2", "sha-ni-x3", "avx512-x16" };
	static const enum ringsum_digest_impl of_optional[] = { RINGSUM_DIGEST_SHANI_X2,
								RINGSUM_DIGEST_SHANI_X3,
								RINGSUM_DIGEST_AVX512_X16 };
	const char *before = getenv("RINGSUM_DIGEST_IMPL");
	char *kept = before ? strdup(before) : NULL;
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		setenv("RINGSUM_DIGEST_IMPL", known[i], 1);
		ringsum_report_free(verify(NULL, RINGSUM_OK));
	}
	for (i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
		int result;

		unsetenv("RINGSUM_DIGEST_IMPL");
		options.digest = of_optional[i];
		result = ringsum_verify_path(delivery.root, &options, &report, NULL);
		if (result == RINGSUM_OK)
			ringsum_report_free(report);
		setenv("RINGSUM_DIGEST_IMPL", optional[i], 1);
		ringsum_report_free(verify(NULL, result));
	}
	setenv("RINGSUM_DIGEST_IMPL", "bogus", 1);
	assert_null(verify(NULL, RINGSUM_E_INVALID));
	assert_int_equal(ringsum_verify_path(delivery.root, NULL, NULL, &err), RINGSUM_E_INVALID);
	assert_non_null(
		strstr(err.message, "unknown implementation in RINGSUM_DIGEST_IMPL: bogus"));
	assert_non_null(strstr(err.message, "libcrypto, sha-ni-x2, sha-ni-x3 or avx512-x16"));
	options.digest = RINGSUM_DIGEST_LIBCRYPTO;
	ringsum_report_free(verify(&options, RINGSUM_OK)); /* the option is not auto */
	if (kept)
		setenv("RINGSUM_DIGEST_IMPL", kept, 1);
	else
		unsetenv("RINGSUM_DIGEST_IMPL");
	free(kept);
}

static void test_nothing_there(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/none", delivery.root);
	assert_int_equal(ringsum_verify_path(path, NULL, NULL, NULL), RINGSUM_E_NOPROMISE);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(ringsum_verify_path(path, NULL, NULL, NULL), RINGSUM_E_NOPROMISE);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_is_identical),
		cmocka_unit_test(test_first_and_last_byte_of_every_tensor),
		cmocka_unit_test(test_random_flips),
		cmocka_unit_test(test_many_flips_are_all_reported),
		cmocka_unit_test(test_wrong_digest_of_an_empty_tensor),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_progress),
		cmocka_unit_test(test_unpromised_come_in_order),
		cmocka_unit_test(test_strict_knows_links),
		cmocka_unit_test(test_strict_knows_linked_directories),
		cmocka_unit_test(test_strict_knows_shards_of_several_names),
		cmocka_unit_test(test_directory_that_is_not_listed),
		cmocka_unit_test(test_unopened_shards_are_told_once),
		cmocka_unit_test(test_changed_during_read),
		cmocka_unit_test(test_changed_manifest),
		cmocka_unit_test(test_manifest_named_from_another_directory),
		cmocka_unit_test(test_changed_shard_tells_what_differs),
		cmocka_unit_test(test_interrupted_after_damage),
		cmocka_unit_test(test_one_handle_in_several_threads),
		cmocka_unit_test(test_tensor_table),
		cmocka_unit_test(test_open_fails_closed),
		cmocka_unit_test(test_wrong_options),
		cmocka_unit_test(test_digest_of_the_environment),
		cmocka_unit_test(test_nothing_there),
	};

	return cmocka_run_group_tests(tests, make_delivery, remove_delivery);
}
