/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast headers and manifests are read, how that grows with their number of tensors, and what
 * hostile headers of 64 MiB cost. Each measurement is a process of its own, so that its peak of
 * memory is its own; the document is made in it beforehand and counts as one time its size.
 *
 *	bench_json [ROUNDS]
 *
 * Prints each figure beside its bound. Exits with 1 where a bound is missed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "manifest.h"
#include "report.h"
#include "ringsum.h"
#include "safetensors.h"

#define ROUNDS_DEFAULT 5
#define ROUNDS_MAX 99

#define RATE_TENSORS 100000
#define RATE_MIN 300e6 /* bytes a second */
#define MEMORY_MAX 3.0 /* times the document */
#define GROWTH_MAX 2.3 /* times as long for twice as many */
#define GROWTH_FROM 62500
#define GROWTH_TO 1000000
#define HOSTILE_BYTES ((size_t)64 << 20)
#define HOSTILE_SECONDS_MAX 2.0

struct document {
	char *text;
	size_t used;
	size_t size_bytes;
};

struct outcome {
	double seconds;
	double memory; /* times the document */
	size_t size_bytes;
	int result;
	char message[160];
};

/* ---- documents ------------------------------------------------------------------------------ */

static void add(struct document *document, const char *format, ...) RSUM_PRINTF(2, 3);

static void add(struct document *document, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (document->size_bytes - document->used < 512) {
		document->size_bytes += document->size_bytes / 2 + (1 << 20);
		document->text = realloc(document->text, document->size_bytes);
		if (!document->text)
			exit(3);
	}
	document->used += (size_t)vsnprintf(document->text + document->used, 512, format, args);
	va_end(args);
}

/* As in a large mixture of experts: some 130 bytes for each tensor. */
static void make_header(struct document *document, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(document,
		    "%c\"model.layers.%zu.mlp.experts.%zu.down_proj.weight\":{\"dtype\":\"BF16\","
		    "\"shape\":[7168,2048],\"data_offsets\":[%zu,%zu]}",
		    i ? ',' : '{', i / 512, i % 512, i * 29360128, (i + 1) * 29360128);
	add(document, "}");
}

/* Less for each, so that a million of them is within the limit on a header's size. */
static void make_short_header(struct document *document, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(document,
		    "%c\"l.%zu.w\":{\"dtype\":\"I8\",\"shape\":[16],\"data_offsets\":[%zu,%zu]}",
		    i ? ',' : '{', i, i * 16, i * 16 + 16);
	add(document, "}");
}

/* Names in the order of the data, listed in another. */
static void make_unsorted_header(struct document *document, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = i * 7919 % count;

		add(document,
		    "%c\"l.%zu.w\":{\"dtype\":\"I8\",\"shape\":[16],\"data_offsets\":[%zu,%zu]}",
		    i ? ',' : '{', at, at * 16, at * 16 + 16);
	}
	add(document, "}");
}

static void make_manifest(struct document *document, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(document,
		    "%s{\"name\":\"l.%zu.w\",\"dtype\":\"I8\",\"shape\":[16],"
		    "\"destination_file\":\"model-%05zu.safetensors\","
		    "\"destination_byte_range\":[%zu,%zu],\"source_byte_range\":[%zu,%zu],"
		    "\"source_byte_range_sha256\":"
		    "\"e5788d5be7863cf49fc08d4587bf23c2c6ae23d271598dca"
		    "e488fc281a560471\",\"resident_packed_bytes\":16}",
		    i ? "," : "{\"tensors\":[", i, i / 10000, i * 16, i * 16 + 16, i * 16,
		    i * 16 + 16);
	add(document, "]}");
}

/* One thing over and over, between a beginning and an end; %zu in it is a number. */
struct hostile {
	const char *name, *begin, *unit, *end;
};

#define WITHIN "{\"t\":{\"any\":"

static const struct hostile hostiles[] = {
	{ "{},", WITHIN "[", "{},", "0]}}" },
	{ "[],", WITHIN "[", "[],", "0]}}" },
	{ "0,", WITHIN "[", "0,", "0]}}" },
	{ "deep nesting", WITHIN, "[", "" },
	{ "nesting to the limit", WITHIN "[", NULL, "0]}}" },
	{ "one long string", WITHIN "\"", "a", "\"}}" },
	{ "one long key", "{\"", "a", "\":0}" },
	{ "a million duplicate keys", WITHIN "{\"a\":1,", "\"a\":1,", "\"a\":1}}}" },
	{ "duplicate at the end", WITHIN "{", "\"%zu\":0,", "\"0\":1}}}" },
	{ "escapes only", WITHIN "\"", "\\u0041", "\"}}" },
	{ "escapes in a key", WITHIN "{\"", "\\n", "\":0}}}" },
	{ "surrogate pairs", WITHIN "\"", "\\ud83d\\ude00", "\"}}" },
	{ "digits", WITHIN, "1", "}}" },
	{ "a fraction", WITHIN "0.", "1", "}}" },
	{ "fractions", WITHIN "[", "1e9,", "0]}}" },
	{ "blanks", WITHIN, " ", "0}}" },
	{ "small objects", WITHIN "[", "{\"a\":0},", "0]}}" },
	{ "metadata", "{\"__metadata__\":{", "\"%zu\":\"\",", "\"\":\"\"}}" },
	{ "empty tensors", "{", "\"%zu\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]},",
	  "\"\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}}" },
	{ "dimensions", "{",
	  "\"%zu\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
	  "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,0],"
	  "\"data_offsets\":[0,0]},",
	  "\"\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[0,0]}}" },
};

/* As many lists as may be open at a time, again and again. */
static void add_nests(struct document *document, size_t bytes)
{
	while (document->used < bytes) {
		for (unsigned i = 0; i < RSUM_LIMIT_HEADER_JSON_DEPTH - 3; i++)
			add(document, "[");
		for (unsigned i = 0; i < RSUM_LIMIT_HEADER_JSON_DEPTH - 3; i++)
			add(document, "]");
		add(document, ",");
	}
}

static void make_hostile(struct document *document, const struct hostile *hostile, size_t bytes)
{
	add(document, "%s", hostile->begin);
	if (!hostile->unit)
		add_nests(document, bytes);
	for (size_t i = 0; hostile->unit && document->used < bytes; i++) {
		if (!strchr(hostile->unit, '%')) {
			add(document, "%s", hostile->unit);
			continue;
		}
		add(document, "%.*s%zu%s", (int)(strchr(hostile->unit, '%') - hostile->unit),
		    hostile->unit, i, strchr(hostile->unit, '%') + 3);
	}
	add(document, "%s", hostile->end);
}

/* ---- readers -------------------------------------------------------------------------------- */

typedef int read_fn(char *text, size_t size_bytes, char *message, size_t message_bytes);

static int read_json(char *text, size_t size_bytes, char *message, size_t message_bytes)
{
	struct rsum_json_token token = { .type = RSUM_JSON_NULL };
	struct rsum_json json;
	int ret = rsum_json_init(&json, text, size_bytes, RSUM_LIMIT_HEADER_JSON_DEPTH);

	while (!ret && token.type != RSUM_JSON_END)
		ret = rsum_json_next(&json, &token);
	snprintf(message, message_bytes, "%s", ret ? json.reason : "");
	rsum_json_deinit(&json);
	return ret;
}

/* The file is said to have no data, so that a sound header is read to its end and then refused. */
static int read_header(char *text, size_t size_bytes, char *message, size_t message_bytes)
{
	struct rsum_safetensors header;
	struct rsum_refusal refusal = { 0 };
	int ret = rsum_safetensors_parse(text, size_bytes, 8 + size_bytes, &header, &refusal);

	snprintf(message, message_bytes, "%s", ret ? refusal.message : "");
	rsum_safetensors_deinit(&header);
	return ret;
}

static int read_manifest(char *text, size_t size_bytes, char *message, size_t message_bytes)
{
	struct ringsum_report *report = rsum_report_new();
	struct rsum_manifest manifest = { 0 };
	int ret = report ? rsum_manifest_tensors.parse(text, size_bytes, "TENSORS.json", &manifest,
						       report)
			 : RINGSUM_E_NOMEM;

	snprintf(message, message_bytes, "%zu promises", manifest.promise_count);
	rsum_manifest_deinit(&manifest);
	ringsum_report_free(report);
	return ret;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static double processor_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A size in /proc/self/status, in bytes. */
static double memory_bytes(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	double kib = -1;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtod(line + strlen(name) + 1, NULL);
	}
	fclose(file);
	return kib * 1024;
}

/* The peak begins anew. */
static void forget_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY);

	if (fd < 0 || write(fd, "5", 1) != 1) {
		fprintf(stderr, "bench_json: no peak of memory here: %s\n", strerror(errno));
		exit(3);
	}
	close(fd);
}

static void measure_here(struct document *document, read_fn *read, struct outcome *outcome)
{
	double before;
	char *text = malloc(document->used);

	if (!text)
		exit(3);
	memcpy(text, document->text, document->used);
	free(document->text);
	outcome->size_bytes = document->used;
	forget_peak();
	before = memory_bytes("VmRSS:") - (double)document->used;
	outcome->seconds = -processor_seconds();
	outcome->result = read(text, document->used, outcome->message, sizeof(outcome->message));
	outcome->seconds += processor_seconds();
	outcome->memory = (memory_bytes("VmHWM:") - before) / (double)document->used;
}

/* What makes a document: one of two. */
struct recipe {
	void (*make)(struct document *document, size_t count);
	const struct hostile *hostile;
	size_t count; /* tensors, or bytes */
	read_fn *read;
};

static struct outcome measure(const struct recipe *recipe)
{
	struct outcome outcome = { 0 };
	int ends[2], status;
	pid_t pid;

	fflush(stdout);
	if (pipe(ends) || (pid = fork()) < 0) {
		fprintf(stderr, "bench_json: no process to measure in: %s\n", strerror(errno));
		exit(3);
	}
	if (pid == 0) {
		struct document document = { 0 };

		if (recipe->hostile)
			make_hostile(&document, recipe->hostile, recipe->count);
		else
			recipe->make(&document, recipe->count);
		measure_here(&document, recipe->read, &outcome);
		_exit(write(ends[1], &outcome, sizeof(outcome)) == sizeof(outcome) ? 0 : 3);
	}
	close(ends[1]);
	if (read(ends[0], &outcome, sizeof(outcome)) != sizeof(outcome) ||
	    waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "bench_json: a measurement ended without its figures\n");
		exit(3);
	}
	close(ends[0]);
	return outcome;
}

static int compare_seconds(const void *a, const void *b)
{
	double x = ((const struct outcome *)a)->seconds, y = ((const struct outcome *)b)->seconds;

	return (x > y) - (x < y);
}

static struct outcome median(const struct recipe *recipe, unsigned rounds)
{
	static struct outcome outcomes[ROUNDS_MAX];

	for (unsigned i = 0; i < rounds; i++)
		outcomes[i] = measure(recipe);
	qsort(outcomes, rounds, sizeof(*outcomes), compare_seconds);
	return outcomes[rounds / 2];
}

/* ---- the tables ----------------------------------------------------------------------------- */

static unsigned missed_count;

static const char *judge(bool is_kept)
{
	missed_count += !is_kept;
	return is_kept ? "" : "  MISSED";
}

static void show_rate(const char *name, void (*make)(struct document *, size_t), read_fn *read,
		      double rate_min, unsigned rounds)
{
	const struct recipe recipe = { .make = make, .count = RATE_TENSORS, .read = read };
	struct outcome outcome = median(&recipe, rounds);
	double rate = (double)outcome.size_bytes / outcome.seconds;

	printf("  %-28s %6.1f MB  %6.0f MB/s  %5.2f times%s\n", name,
	       (double)outcome.size_bytes / 1e6, rate / 1e6, outcome.memory,
	       judge(rate >= rate_min && outcome.memory <= MEMORY_MAX));
}

static void show_growth(const char *name, void (*make)(struct document *, size_t), read_fn *read,
			unsigned rounds)
{
	struct recipe recipe = { .make = make, .read = read };
	double before = 0;

	for (recipe.count = GROWTH_FROM; recipe.count <= GROWTH_TO; recipe.count *= 2) {
		struct outcome outcome = median(&recipe, rounds);

		printf("  %-20s %8zu  %6.1f MB  %8.1f ms  %5.2f times", name, recipe.count,
		       (double)outcome.size_bytes / 1e6, outcome.seconds * 1e3, outcome.memory);
		if (before > 0)
			printf("  %5.2f x the time of half%s", outcome.seconds / before,
			       judge(outcome.seconds / before <= GROWTH_MAX));
		printf("%s\n", judge(outcome.memory <= MEMORY_MAX));
		before = outcome.seconds;
	}
}

static void show_hostile(const struct hostile *hostile)
{
	const struct recipe recipe = {
		.hostile = hostile,
		.count = HOSTILE_BYTES - 1024,
		.read = read_header,
	};
	struct outcome outcome = measure(&recipe);

	printf("  %-26s %6.3f s  %5.2f times  %.80s%s\n", hostile->name, outcome.seconds,
	       outcome.memory, outcome.result ? outcome.message : "read",
	       judge(outcome.seconds <= HOSTILE_SECONDS_MAX && outcome.memory <= MEMORY_MAX));
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : ROUNDS_DEFAULT;

	if (argc > 2 || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_json [ROUNDS (1 to %d)]\n", ROUNDS_MAX);
		return 2;
	}
	printf("rate, %d tensors, median of %d, processor time (bound: %.0f MB/s and %.0f times)\n",
	       RATE_TENSORS, rounds, RATE_MIN / 1e6, MEMORY_MAX);
	show_rate("header, JSON alone", make_header, read_json, RATE_MIN, (unsigned)rounds);
	show_rate("header, to its table", make_header, read_header, 0, (unsigned)rounds);
	show_rate("manifest, JSON alone", make_manifest, read_json, RATE_MIN, (unsigned)rounds);
	show_rate("manifest, to its promises", make_manifest, read_manifest, 0, (unsigned)rounds);
	printf("growth with the number of tensors (bound: %.1f x, and %.0f times)\n", GROWTH_MAX,
	       MEMORY_MAX);
	show_growth("header", make_short_header, read_header, (unsigned)rounds);
	show_growth("header, unsorted", make_unsorted_header, read_header, (unsigned)rounds);
	show_growth("manifest", make_manifest, read_manifest, (unsigned)rounds);
	printf("hostile headers of %zu MiB (bound: %.0f s and %.0f times)\n", HOSTILE_BYTES >> 20,
	       HOSTILE_SECONDS_MAX, MEMORY_MAX);
	for (size_t i = 0; i < RSUM_COUNT_OF(hostiles); i++)
		show_hostile(&hostiles[i]);
	printf("%u of the bounds missed\n", missed_count);
	return missed_count ? 1 : 0;
}
