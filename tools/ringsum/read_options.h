/* SPDX-License-Identifier: Apache-2.0 */
/* The options on manifest, profile and engine that several commands share. */
#ifndef RINGSUM_TOOL_READ_OPTIONS_H
#define RINGSUM_TOOL_READ_OPTIONS_H

#include "ringsum.h"

#include <getopt.h>

/* Values of `val` for getopt_long; a command's own options use letters. */
enum read_option {
	READ_OPTION_PROFILE = 256,
	READ_OPTION_MANIFEST,
	READ_OPTION_MANIFEST_SHA256,
	READ_OPTION_STRICT,
	READ_OPTION_THREADS,
	READ_OPTION_ENGINE,
	READ_OPTION_DIRECT,
	READ_OPTION_CHUNK,
	READ_OPTION_DEPTH,
	READ_OPTION_MEMORY,
	READ_OPTION_DIGEST_IMPL,
};

/* Rows for a command's table of long options. */
#define READ_OPTION_ROWS                                                                     \
	{ "profile", required_argument, NULL, READ_OPTION_PROFILE },                         \
		{ "manifest", required_argument, NULL, READ_OPTION_MANIFEST },               \
		{ "manifest-sha256", required_argument, NULL, READ_OPTION_MANIFEST_SHA256 }, \
		{ "strict", no_argument, NULL, READ_OPTION_STRICT },                         \
		{ "threads", required_argument, NULL, READ_OPTION_THREADS },                 \
		{ "engine", required_argument, NULL, READ_OPTION_ENGINE },                   \
		{ "direct", required_argument, NULL, READ_OPTION_DIRECT },                   \
		{ "chunk", required_argument, NULL, READ_OPTION_CHUNK },                     \
		{ "depth", required_argument, NULL, READ_OPTION_DEPTH },                     \
		{ "memory", required_argument, NULL, READ_OPTION_MEMORY },                   \
	{                                                                                    \
		"digest-impl", required_argument, NULL, READ_OPTION_DIGEST_IMPL              \
	}

/* The lines of --help for these rows, 80 columns. */
extern const char read_options_help[];

/*
 * Takes one option. Returns 1 where it was one of these and is good, 0 where it is none of
 * these, -1 where its value is wrong (told on stderr, after the command's name).
 */
int read_options_take(struct ringsum_options *options, int option, const char *value,
		      const char *command);

/* Tells of an unknown option and names the nearest one there is. */
void read_options_complain(const char *command, const struct option *table, const char *given);

#endif
