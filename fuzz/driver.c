/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files, without libFuzzer: the corpora as an ordinary test, with any
 * compiler. With -r it also changes inputs at random, which is no more than a substitute.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_BYTES_MAX ((size_t)256 << 20)
#define MUTATED_BYTES_MAX ((size_t)64 << 10)
#define FAILURE_BYTES_SHOWN 4096

/* Targets without a mutator of their own leave this one undefined. */
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
						     unsigned seed);

struct run {
	uint8_t **inputs; /* kept for -r */
	size_t *sizes;
	size_t count;
	size_t capacity;
	bool keeps;
};

/* ---- what to say when a property breaks -------------------------------------------------- */

static const char *current_name;
static const uint8_t *current_data;
static size_t current_size;

static void say(const char *text)
{
	ssize_t written = write(STDERR_FILENO, text, strlen(text));

	(void)written;
}

/* Async-signal-safe: the input that was being run, by name and in hex. */
static void on_abort(int number)
{
	static const char digits[] = "0123456789abcdef";
	char pair[3] = "";

	say("\nfuzz: stopped at the input ");
	say(current_name ? current_name : "(none)");
	say(", in hex: ");
	for (size_t i = 0; i < current_size && i < FAILURE_BYTES_SHOWN; i++) {
		pair[0] = digits[current_data[i] >> 4];
		pair[1] = digits[current_data[i] & 15];
		say(pair);
	}
	say(current_size > FAILURE_BYTES_SHOWN ? "... (cut)\n" : "\n");
	signal(number, SIG_DFL);
	raise(number);
}

static void run_one(const char *name, const uint8_t *data, size_t size)
{
	/* A buffer of its own, of exactly this size, as libFuzzer gives it. */
	uint8_t *copy = fuzz_copy(data, size);

	current_name = name;
	current_data = copy;
	current_size = size;
	(void)LLVMFuzzerTestOneInput(copy, size);
	FUZZ_CHECK_TEXT(size == 0 || memcmp(copy, data, size) == 0, "the target changed its input");
	current_name = NULL;
	current_size = 0;
	free(copy);
}

/* ---- files ------------------------------------------------------------------------------- */

static void keep(struct run *run, uint8_t *data, size_t size)
{
	size_t capacity = run->capacity ? run->capacity * 2 : 64;

	if (run->count == run->capacity) {
		run->inputs = realloc(run->inputs, capacity * sizeof(*run->inputs));
		run->sizes = realloc(run->sizes, capacity * sizeof(*run->sizes));
		FUZZ_CHECK(run->inputs && run->sizes);
		run->capacity = capacity;
	}
	run->inputs[run->count] = data;
	run->sizes[run->count++] = size;
}

static bool run_file(struct run *run, const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	bool is_read;

	if (!file || size > INPUT_BYTES_MAX) {
		fprintf(stderr, "fuzz: %s: %s\n", path,
			file ? "larger than any input should be" : strerror(errno));
		if (file)
			fclose(file);
		return false;
	}
	data = fuzz_alloc(size);
	is_read = fread(data, 1, size, file) == size;
	fclose(file);
	if (!is_read) {
		fprintf(stderr, "fuzz: %s: could not be read\n", path);
		free(data);
		return false;
	}
	run_one(path, data, size);
	if (run->keeps) {
		keep(run, data, size);
	} else {
		run->count++;
		free(data);
	}
	return true;
}

static bool run_path(struct run *run, const char *path);

/* In the order of names, so that two runs are alike. */
static bool run_directory(struct run *run, const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);
	bool is_good = count >= 0;

	if (count < 0)
		fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
	for (int i = 0; i < count; i++) {
		struct fuzz_text full = { 0 };

		if (entries[i]->d_name[0] != '.') {
			fuzz_text_add(&full, path, strlen(path));
			fuzz_text_add(&full, "/", 1);
			fuzz_text_add(&full, entries[i]->d_name, strlen(entries[i]->d_name));
			is_good = run_path(run, full.data) && is_good;
			fuzz_text_deinit(&full);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return is_good;
}

static bool run_path(struct run *run, const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0) {
		fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
		return false;
	}
	if (S_ISDIR(status.st_mode))
		return run_directory(run, path);
	return run_file(run, path, (size_t)status.st_size);
}

/* ---- random changes ---------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t next_random(void)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A stand-in for libFuzzer's: one change of a byte, a bit, a run of bytes or the length. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
	uint64_t random = next_random();
	size_t at = size ? next_random() % size : 0;
	size_t length = next_random() % 16 + 1, to;

	length = RSUM_MIN(length, size - at);
	switch (random % 6) {
	case 0:
		if (size)
			data[at] = (uint8_t)(random >> 8);
		return size;
	case 1:
		if (size)
			data[at] ^= (uint8_t)(1U << (random >> 8) % 8);
		return size;
	case 2: /* removed */
		memmove(data + at, data + at + length, size - at - length);
		return size - length;
	case 3: /* doubled */
		length = RSUM_MIN(length, max_size - size);
		memmove(data + at + length, data + at, size - at);
		return size + length;
	case 4: /* copied elsewhere */
		to = size ? next_random() % size : 0;
		memmove(data + to, data + at, RSUM_MIN(length, size - to));
		return size;
	default: /* put in */
		if (size == max_size)
			return size;
		memmove(data + at + 1, data + at, size - at);
		data[at] = (uint8_t)(random >> 8);
		return size + 1;
	}
}

static void run_random(struct run *run, uint64_t runs, uint64_t seed)
{
	static uint8_t buffer[MUTATED_BYTES_MAX];

	random_state = seed;
	for (uint64_t i = 0; i < runs && run->count; i++) {
		size_t chosen = next_random() % run->count;
		size_t size = RSUM_MIN(run->sizes[chosen], sizeof(buffer));
		unsigned changes = 1 + next_random() % 8;

		if (size)
			memcpy(buffer, run->inputs[chosen], size);
		while (changes--) {
			if (LLVMFuzzerCustomMutator)
				size = LLVMFuzzerCustomMutator(buffer, size, sizeof(buffer),
							       (unsigned)next_random());
			else
				size = LLVMFuzzerMutate(buffer, size, sizeof(buffer));
		}
		run_one("made at random", buffer, size);
	}
}

int main(int argc, char **argv)
{
	struct run run = { 0 };
	uint64_t runs = 0, seed = 1;
	bool is_good = true;
	int option;

	while ((option = getopt(argc, argv, "r:s:")) != -1) {
		if (option == 'r') {
			runs = strtoull(optarg, NULL, 10);
		} else if (option == 's') {
			seed = strtoull(optarg, NULL, 10);
		} else {
			fprintf(stderr, "Usage: %s [-r RUNS [-s SEED]] FILE|DIRECTORY...\n",
				argv[0]);
			return 2;
		}
	}
	run.keeps = runs > 0;
	signal(SIGABRT, on_abort);
	for (int i = optind; i < argc; i++)
		is_good = run_path(&run, argv[i]) && is_good;
	printf("%zu inputs\n", run.count);
	if (runs) {
		printf("%llu runs at random, seed %llu\n", (unsigned long long)runs,
		       (unsigned long long)seed);
		fflush(stdout);
		run_random(&run, runs, seed);
		for (size_t i = 0; i < run.count; i++)
			free(run.inputs[i]);
	}
	free(run.inputs);
	free(run.sizes);
	/* A corpus that is not there tests nothing, which is no success. */
	return is_good && run.count ? 0 : 1;
}
