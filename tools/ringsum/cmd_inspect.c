/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum inspect: what is in a shard or a directory of shards, as a table or as JSON. */
#include "arguments.h"
#include "output.h"
#include "ringsum.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct inspect_arguments {
	const char *path;
	const char *json; /* a file, "-", or NULL for no JSON */
};

static const struct option_row rows[] = {
	{ "json", 0, OPTION_FILE, "FILE|-",
	  "write JSON (schema ringsum-inspect/1) to FILE as well, or to standard output instead of "
	  "the table; --json PATH, with nothing else, means standard output",
	  OPTION_INTO(struct inspect_arguments, json) },
	{ .name = NULL },
};

const struct command command_inspect = {
	.name = "inspect",
	.operands = "PATH",
	.summary = "what is in it: a table of tensors, or --json",
	.about = "Shows what is in a shard, or in every *.safetensors of a directory: metadata, "
		 "tensors with dtype, shape, bytes and offset in the file, and totals for each "
		 "dtype. Headers are checked in full; the tensors' bytes are not read.",
	.notes = "Exit status: 0 every header is valid; 1 one is refused; 2 wrong usage; 3 "
		 "undecided: a file could not be read, or there was nothing to inspect.",
	.run = cmd_inspect,
	.tables = { rows },
};

#define complain(...) command_complain(&command_inspect, __VA_ARGS__)

/*
 * `--json PATH` with nothing behind it means JSON of PATH to standard output; `--json=FILE`
 * cannot mean that, and is no word of its own.
 */
static void take_lone_json_value(struct inspect_arguments *arguments, int argc, char **argv)
{
	int i;

	if (arguments->path || !arguments->json || strcmp(arguments->json, "-") == 0)
		return;
	for (i = 0; i < argc; i++)
		if (argv[i] == arguments->json)
			arguments->path = arguments->json;
	if (arguments->path)
		arguments->json = "-";
}

static int parse_arguments(int argc, char **argv, struct inspect_arguments *arguments)
{
	struct operands operands;
	int status = arguments_parse(&command_inspect, argc, argv, arguments, &operands);

	if (status != ARGUMENTS_GOOD)
		return status;
	if (operands.count > 1)
		return complain(COMMAND_USAGE,
				"one PATH at a time, not also %s; see ringsum inspect --help",
				operands.words[1]);
	if (operands.count == 1)
		arguments->path = operands.words[0];
	take_lone_json_value(arguments, argc, argv);
	if (!arguments->path)
		return complain(COMMAND_USAGE, "PATH is missing; see ringsum inspect --help");
	return ARGUMENTS_GOOD;
}

static int report_error(const struct ringsum_error *err)
{
	/* Whoever read the table has seen enough of it. */
	if (err->os_errno == EPIPE)
		return COMMAND_UNDECIDED;
	fprintf(stderr, "ringsum inspect: %s\n", err->message);
	return err->code == RINGSUM_E_INVALID ? COMMAND_USAGE : COMMAND_UNDECIDED;
}

/* Writes one form of the inspection. Returns 0 or a negative enum ringsum_result. */
static int write_form(const struct ringsum_inspection *inspection,
		      int (*to_text)(const struct ringsum_inspection *, char **,
				     struct ringsum_error *),
		      const char *target, struct ringsum_error *err)
{
	char *text = NULL;
	int result = to_text(inspection, &text, err);

	if (!result)
		result = output_write_all(target, text, err);
	ringsum_free(text);
	return result;
}

static int write_inspection(const struct ringsum_inspection *inspection, const char *json,
			    struct ringsum_error *err)
{
	int result = 0;

	if (json)
		result = write_form(inspection, ringsum_inspection_to_json, json, err);
	if (!result && (!json || strcmp(json, "-") != 0))
		result = write_form(inspection, ringsum_inspection_to_text, "-", err);
	return result;
}

static int exit_status(enum ringsum_verdict verdict)
{
	switch (verdict) {
	case RINGSUM_VERDICT_IDENTICAL:
		return COMMAND_OK;
	case RINGSUM_VERDICT_REFUSED:
		return COMMAND_REFUSED;
	default:
		return COMMAND_UNDECIDED;
	}
}

int cmd_inspect(int argc, char **argv)
{
	struct inspect_arguments arguments = { 0 };
	struct ringsum_error err = { 0 };
	struct ringsum_inspection *inspection;
	enum ringsum_verdict verdict;
	int status = parse_arguments(argc, argv, &arguments);

	if (status != ARGUMENTS_GOOD)
		return status;
	if (ringsum_inspect(arguments.path, NULL, &inspection, &err))
		return report_error(&err);
	verdict = ringsum_inspection_verdict(inspection);
	status = write_inspection(inspection, arguments.json, &err) ? report_error(&err)
								    : exit_status(verdict);
	ringsum_inspection_free(inspection);
	return status;
}
