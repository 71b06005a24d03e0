/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the shared options. */
#include "read_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char read_options_help[] =
	"  --manifest FILE        the promise; default: TENSORS.json in the directory\n"
	"  --manifest-sha256 HEX  refuse any other manifest than the one with this digest\n"
	"  --profile NAME         auto, dspark-exl3 or none; default auto: dspark-exl3 where\n"
	"                         the manifest names a codebook\n"
	"  --strict               refuse what nobody promised (tensors and files)\n"
	"  --threads N            hashing threads, 1 to 256; default: one per processor\n"
	"  --engine NAME          auto, io_uring or pread; default auto\n"
	"  --direct HOW           require, prefer or off: direct I/O; default prefer\n"
	"  --chunk SIZE           bytes of one read, 64K to 64M; default 1M\n"
	"  --depth N              reads in flight, 1 to 256; default 32\n"
	"  --memory SIZE          for buffers, up to 16G; default 48M\n"
	"  --digest-impl NAME     auto, libcrypto, sha-ni-x2 or sha-ni-x3; default auto\n";

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

static int take_number(const char *value, unsigned long long most, int is_size, const char *option,
		       const char *command, unsigned long long *number_out)
{
	unsigned long long number, multiplier = 1;
	char *end;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (value[0] >= '0' && value[0] <= '9' && errno == 0 &&
	    (is_size ? multiplier_of(end, &multiplier) : *end == '\0') && number > 0 &&
	    number <= most / multiplier) {
		*number_out = number * multiplier;
		return 1;
	}
	fprintf(stderr, "ringsum %s: %s: '%s' is not a %s that is possible here%s\n", command,
		option, value, is_size ? "size" : "number",
		is_size ? "; expected for example 512K, 1M or 64M" : "");
	return -1;
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
		result = take_number(value, 256, 0, "--threads", command, &number);
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
		result = take_number(value, 64ull << 20, 1, "--chunk", command, &number);
		options->chunk_bytes = (uint32_t)number;
		return result;
	case READ_OPTION_DEPTH:
		result = take_number(value, 256, 0, "--depth", command, &number);
		options->depth = (unsigned)number;
		return result;
	case READ_OPTION_MEMORY:
		result = take_number(value, 16ull << 30, 1, "--memory", command, &number);
		options->memory_bytes = number;
		return result;
	case READ_OPTION_DIGEST_IMPL:
		result = take_choice(digests, value, "--digest-impl", command, &choice);
		options->digest = (enum ringsum_digest_impl)choice;
		return result;
	}
	return 0;
}

/* Edits that make one word of another, for words of up to 31 letters. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[32], length_b = (unsigned)strlen(b), i, j;

	if (length_b > 31)
		return 32;
	for (j = 0; j <= length_b; j++)
		row[j] = j;
	for (i = 1; a[i - 1] && i < 32; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (j = 1; j <= length_b; j++) {
			unsigned above = row[j];
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[length_b];
}

void read_options_complain(const char *command, const struct option *table, const char *given)
{
	const char *nearest = NULL;
	unsigned nearest_distance = 4;
	char name[32];

	fprintf(stderr, "ringsum %s: unknown option '%s'", command, given);
	if (strncmp(given, "--", 2) == 0) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(given + 2, "="), given + 2);
		for (; table->name; table++) {
			unsigned distance = edit_distance(name, table->name);

			if (distance < nearest_distance) {
				nearest_distance = distance;
				nearest = table->name;
			}
		}
	}
	if (nearest)
		fprintf(stderr, "; did you mean --%s?\n", nearest);
	else
		fprintf(stderr, "; see ringsum %s --help\n", command);
}
