/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the shared options. */
#include "read_options.h"

#include "nearest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char read_options_help[] =
	"  --manifest FILE        the promise; default: TENSORS.json in the directory\n"
	"  --manifest-sha256 HEX  refuse any other manifest than the one with this digest\n"
	"                         (this and --manifest: for a single PATH)\n"
	"  --profile NAME         auto, dspark-exl3 or none; default auto: dspark-exl3\n"
	"                         where the manifest names a codebook\n"
	"  --strict               refuse what nobody promised (tensors and files)\n"
	"  --threads N            hashing threads, 1 to 256; default: one per processor,\n"
	"                         at most 16\n"
	"  --engine NAME          auto, io_uring or pread; default auto\n"
	"  --direct HOW           require, prefer or off: direct I/O; default prefer\n"
	"  --chunk SIZE           bytes of one read, 64K to 64M, a multiple of 4K;\n"
	"                         default 512K; in a SIZE K, M and G are binary\n"
	"  --depth N              reads in flight, 1 to 256; default 32\n"
	"  --memory SIZE          for buffers, at least one chunk, up to 16G; default\n"
	"                         24M to 256M, by threads and implementation\n"
	"  --digest-impl NAME     auto, libcrypto, sha-ni-x2, sha-ni-x3 or avx512-x16;\n"
	"                         default auto: the fastest here, avx512-x16 where it is\n"
	"                         measured to be; RINGSUM_DIGEST_IMPL in the environment\n"
	"                         can name another in place of auto\n";

struct choice {
	const char *name;
	int value;
};

static const struct choice profiles[] = {
	{ "auto", RINGSUM_PROFILE_AUTO },
	{ "none", RINGSUM_PROFILE_NONE },
	{ "dspark-exl3", RINGSUM_PROFILE_DSPARK_EXL3 },
	{ NULL, 0 },
};

static const struct choice engines[] = {
	{ "auto", RINGSUM_ENGINE_AUTO },
	{ "io_uring", RINGSUM_ENGINE_IO_URING },
	{ "pread", RINGSUM_ENGINE_PREAD },
	{ NULL, 0 },
};

static const struct choice directs[] = {
	{ "prefer", RINGSUM_DIRECT_PREFER },
	{ "require", RINGSUM_DIRECT_REQUIRE },
	{ "off", RINGSUM_DIRECT_OFF },
	{ NULL, 0 },
};

static const struct choice digests[] = {
	{ "auto", RINGSUM_DIGEST_AUTO },
	{ "libcrypto", RINGSUM_DIGEST_LIBCRYPTO },
	{ "sha-ni-x2", RINGSUM_DIGEST_SHANI_X2 },
	{ "sha-ni-x3", RINGSUM_DIGEST_SHANI_X3 },
	{ "avx512-x16", RINGSUM_DIGEST_AVX512_X16 },
	{ NULL, 0 },
};

static int take_choice(const struct choice *choices, const char *value, const char *option,
		       const char *command, int *value_out)
{
	const struct choice *choice;

	for (choice = choices; choice->name; choice++) {
		if (strcmp(choice->name, value) == 0) {
			*value_out = choice->value;
			return 1;
		}
	}
	fprintf(stderr, "ringsum %s: %s: unknown value '%s'; expected", command, option, value);
	for (choice = choices; choice->name; choice++)
		fprintf(stderr, "%s %s", choice == choices ? "" : ",", choice->name);
	fputc('\n', stderr);
	return -1;
}

/* Binary multiples, as for block sizes everywhere: 64K is 65,536. */
static int multiplier_of(const char *suffix, unsigned long long *multiplier_out)
{
	static const struct {
		const char *suffix;
		unsigned shift;
	} suffixes[] = {
		{ "", 0 },   { "K", 10 },   { "k", 10 }, { "KiB", 10 }, { "M", 20 },
		{ "m", 20 }, { "MiB", 20 }, { "G", 30 }, { "g", 30 },	{ "GiB", 30 },
	};
	size_t i;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (strcmp(suffix, suffixes[i].suffix) == 0) {
			*multiplier_out = 1ull << suffixes[i].shift;
			return 1;
		}
	}
	return 0;
}

/* What numbers an option takes, as numbers and as text. */
struct number_range {
	const char *option;
	const char *text;
	unsigned long long least, most;
	int is_size;
};

static const struct number_range threads_range = { "--threads", "1 to 256", 1, 256, 0 };
static const struct number_range depth_range = { "--depth", "1 to 256", 1, 256, 0 };
static const struct number_range chunk_range = { "--chunk", "64K to 64M", 64 << 10, 64 << 20, 1 };
static const struct number_range memory_range = { "--memory", "one chunk to 16G", 1, 16ull << 30,
						  1 };

static int take_number(const char *value, const struct number_range *range, const char *command,
		       unsigned long long *number_out)
{
	unsigned long long number, multiplier = 1;
	char *end;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' ||
	    !(range->is_size ? multiplier_of(end, &multiplier) : *end == '\0')) {
		fprintf(stderr,
			"ringsum %s: %s: '%s' is no %s; expected %s (is its value missing?)\n",
			command, range->option, value, range->is_size ? "size" : "number",
			range->text);
		return -1;
	}
	if (errno == ERANGE || number > range->most / multiplier ||
	    number * multiplier < range->least) {
		fprintf(stderr, "ringsum %s: %s: %s is out of range; expected %s\n", command,
			range->option, value, range->text);
		return -1;
	}
	*number_out = number * multiplier;
	return 1;
}

int read_options_take(struct ringsum_options *options, int option, const char *value,
		      const char *command)
{
	unsigned long long number = 0;
	int choice = 0, result;

	switch ((enum read_option)option) {
	case READ_OPTION_PROFILE:
		result = take_choice(profiles, value, "--profile", command, &choice);
		options->profile = (enum ringsum_profile)choice;
		return result;
	case READ_OPTION_MANIFEST:
		options->manifest_path = value;
		return 1;
	case READ_OPTION_MANIFEST_SHA256:
		options->manifest_sha256 = value;
		return 1;
	case READ_OPTION_STRICT:
		options->strict = 1;
		return 1;
	case READ_OPTION_THREADS:
		result = take_number(value, &threads_range, command, &number);
		options->threads = (unsigned)number;
		return result;
	case READ_OPTION_ENGINE:
		result = take_choice(engines, value, "--engine", command, &choice);
		options->engine = (enum ringsum_engine)choice;
		return result;
	case READ_OPTION_DIRECT:
		result = take_choice(directs, value, "--direct", command, &choice);
		options->direct = (enum ringsum_direct)choice;
		return result;
	case READ_OPTION_CHUNK:
		result = take_number(value, &chunk_range, command, &number);
		options->chunk_bytes = (uint32_t)number;
		return result;
	case READ_OPTION_DEPTH:
		result = take_number(value, &depth_range, command, &number);
		options->depth = (unsigned)number;
		return result;
	case READ_OPTION_MEMORY:
		result = take_number(value, &memory_range, command, &number);
		options->memory_bytes = number;
		return result;
	case READ_OPTION_DIGEST_IMPL:
		result = take_choice(digests, value, "--digest-impl", command, &choice);
		options->digest = (enum ringsum_digest_impl)choice;
		return result;
	}
	return 0;
}

/* The name that is nearest to the word, or NULL: a third of its letters may be wrong. */
static const char *nearest_option(const struct option *table, const char *word)
{
	unsigned most = strlen(word) < 6 ? 1 : (unsigned)strlen(word) / 3;
	unsigned nearest_so_far = (most < NEAREST_MOST ? most : NEAREST_MOST) + 1;
	const char *nearest = NULL;

	for (; table->name; table++) {
		unsigned distance = nearest_distance(word, table->name);

		if (distance < nearest_so_far) {
			nearest_so_far = distance;
			nearest = table->name;
		}
	}
	return nearest;
}

void read_options_complain(const char *command, const struct option *table, const char *given)
{
	const struct option *row = table;
	const char *nearest;
	char word[32];

	if (strncmp(given, "--", 2) != 0) {
		/* One letter of several behind one dash. */
		fprintf(stderr, "ringsum %s: unknown option '-%c'; see ringsum %s --help\n",
			command, optopt, command);
		return;
	}
	/* getopt sets optopt where it knew the option. */
	while (row->name && (optopt == 0 || row->val != optopt))
		row++;
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(given + 2, "="), given + 2);
	nearest = nearest_option(table, word);
	if (row->name)
		fprintf(stderr, "ringsum %s: --%s takes no value\n", command, row->name);
	else if (nearest)
		fprintf(stderr, "ringsum %s: unknown option '%s'; did you mean --%s?\n", command,
			given, nearest);
	else
		fprintf(stderr, "ringsum %s: unknown option '%s'; see ringsum %s --help\n", command,
			given, command);
}
