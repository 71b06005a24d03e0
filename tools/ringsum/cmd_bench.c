/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum bench: what limits this host, measured on the user's own files. */
#include "arguments.h"
#include "output.h"
#include "progress.h"
#include "read_options.h"
#include "ringsum.h"

#include <stdio.h>
#include <string.h>

struct bench_arguments {
	struct ringsum_options options; /* first, for read_option_rows */
	const char *json;		/* a file, "-", or NULL for no JSON */
	int is_progress_wanted;
	const char *path;
};

_Static_assert(offsetof(struct bench_arguments, options) == 0, "read_option_rows go there");

static const struct option_row rows[] = {
	{ "json", 0, OPTION_FILE, "FILE|-",
	  "write the figures as JSON (schema ringsum-bench/1) to FILE as well, or to standard "
	  "output instead of the text",
	  OPTION_INTO(struct bench_arguments, json) },
	PROGRESS_ROW(struct bench_arguments, is_progress_wanted),
	{ .name = NULL },
};

const struct command command_bench = {
	.name = "bench",
	.operands = "PATH",
	.summary = "what limits this host: raw read, hash, verify, load",
	.about = "Measures, cold and on the checkpoint at PATH itself, what reading, hashing, "
		 "verifying and loading come to, each as a share of what limits them, and says in "
		 "one sentence what limits this host and what would help.\n\n"
		 "A pass reads at most 4 GiB (a single larger tensor more) for at most 2 seconds, "
		 "a load at most 1 GiB; three passes of each kind take turns and the median "
		 "counts. With the right to do so the system's page cache is dropped first, from "
		 "64 MiB on; in any case reads are direct, or the shards' pages are given up "
		 "before a pass. A sample proves nothing: for a verdict run ringsum verify.",
	.notes = "Exit status: 0 measured; 1 refused: something differs from the promise; 2 wrong "
		 "usage; 3 undecided: something could not be read.",
	.run = cmd_bench,
	.tables = { rows, read_option_rows },
};

#define complain(...) command_complain(&command_bench, __VA_ARGS__)

static int parse_arguments(int argc, char **argv, struct bench_arguments *arguments)
{
	struct operands operands;
	int status = arguments_parse(&command_bench, argc, argv, arguments, &operands);

	if (status != ARGUMENTS_GOOD)
		return status;
	if (operands.count != 1)
		return complain(COMMAND_USAGE, "%s; see ringsum bench --help",
				operands.count == 0 ? "PATH is missing" : "one PATH at a time");
	arguments->path = operands.words[0];
	return ARGUMENTS_GOOD;
}

static int report_error(const struct ringsum_error *err)
{
	if (err->code == RINGSUM_E_CANCELED)
		return complain(COMMAND_UNDECIDED, "interrupted; nothing was measured to the end");
	(void)complain(0, "%s", err->message[0] ? err->message : ringsum_result_text(err->code));
	switch (err->code) {
	case RINGSUM_E_REFUSED:
		return complain(COMMAND_REFUSED, "run ringsum verify for everything that differs");
	case RINGSUM_E_INVALID:
		return COMMAND_USAGE;
	default:
		return COMMAND_UNDECIDED;
	}
}

static int write_figures(const struct ringsum_bench_result *figures, const char *json,
			 struct ringsum_error *err)
{
	char *text = NULL;
	int result = RINGSUM_OK;

	if (json) {
		result = ringsum_bench_to_json(figures, &text, err);
		if (result == RINGSUM_OK)
			result = output_write_all(json, text, err);
		ringsum_free(text);
		text = NULL;
	}
	if (result == RINGSUM_OK && (!json || strcmp(json, "-") != 0)) {
		result = ringsum_bench_to_text(figures, &text, err);
		if (result == RINGSUM_OK)
			result = output_write_all("-", text, err);
		ringsum_free(text);
	}
	return result;
}

static int measure(struct bench_arguments *arguments, struct ringsum_bench_result *figures,
		   struct ringsum_error *err)
{
	const struct progress_setup setup = {
		.command = &command_bench,
		.is_wanted = arguments->is_progress_wanted,
		.is_json_on_stdout = arguments->json && strcmp(arguments->json, "-") == 0,
		.is_sample = 1,
	};
	int result;

	progress_start(&setup);
	progress_begin(1, 1);
	arguments->options.progress = progress_note;
	result = ringsum_bench(arguments->path, &arguments->options, figures, err);
	progress_stop();
	return result;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_arguments arguments = { .options = RINGSUM_OPTIONS_INIT };
	struct ringsum_bench_result figures = RINGSUM_BENCH_RESULT_INIT;
	struct ringsum_error err = { 0 };
	int status = parse_arguments(argc, argv, &arguments);

	if (status != ARGUMENTS_GOOD)
		return status;
	if (measure(&arguments, &figures, &err) != RINGSUM_OK ||
	    write_figures(&figures, arguments.json, &err) != RINGSUM_OK)
		return report_error(&err);
	return figures.tensors_differing ? COMMAND_REFUSED : COMMAND_OK;
}
