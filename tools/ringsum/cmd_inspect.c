/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum inspect: what is in a shard or a directory of shards, as a table or as JSON. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "output.h"
#include "ringsum.h"

static const char usage[] =
	"usage: ringsum inspect [--json FILE|-] PATH\n"
	"       ringsum inspect --json PATH\n"
	"\n"
	"Shows what is in a shard, or in every *.safetensors of a directory: metadata,\n"
	"tensors with dtype, shape, bytes and offset in the file, and totals for each\n"
	"dtype. Headers are checked in full; the tensors' bytes are not read.\n"
	"\n"
	"  --json FILE|-  write JSON (schema ringsum-inspect/1) to FILE as well, or to\n"
	"                 standard output instead of the table; --json PATH, with nothing\n"
	"                 else, means standard output\n"
	"  -h, --help     show this text\n"
	"\n"
	"Exit status: 0 every header is valid; 1 one is refused; 2 wrong usage;\n"
	"3 undecided: a file could not be read, or there was nothing to inspect.\n";

struct inspect_arguments {
	const char *path;
	const char *json; /* a file, "-", or NULL for no JSON */
	int is_help;
};

static int complain(const char *what, const char *about)
{
	fprintf(stderr, "ringsum inspect: %s%s; see ringsum inspect --help\n", what, about);
	return COMMAND_USAGE;
}

/*
 * `--json PATH` with nothing behind it means JSON of PATH to standard output; `--json=FILE`
 * cannot mean that.
 */
static void take_lone_json_value(struct inspect_arguments *arguments, int json_is_separate)
{
	if (!arguments->path && json_is_separate && strcmp(arguments->json, "-") != 0) {
		arguments->path = arguments->json;
		arguments->json = "-";
	}
}

static int parse_arguments(int argc, char **argv, struct inspect_arguments *arguments)
{
	static const struct option options[] = {
		{ "json", required_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	char letter[] = "-?";
	int option, json_is_separate = 0;

	optind = 0; /* begin anew, whatever was parsed before */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			if (arguments->json)
				return complain("--json is given twice", "");
			if (!*optarg)
				return complain("--json needs FILE or -, not an empty name", "");
			arguments->json = optarg;
			json_is_separate = optarg == argv[optind - 1];
			break;
		case 'h':
			arguments->is_help = 1;
			return COMMAND_OK;
		case ':':
			return complain("--json needs FILE or -", "");
		default:
			letter[1] = (char)optopt;
			return complain("unknown option ",
					optopt && strncmp(argv[optind - 1], "--", 2) != 0
						? letter
						: argv[optind - 1]);
		}
	}
	if (optind < argc)
		arguments->path = argv[optind++];
	if (optind < argc)
		return complain("one PATH at a time, not also ", argv[optind]);
	if (arguments->json)
		take_lone_json_value(arguments, json_is_separate);
	if (!arguments->path)
		return complain("PATH is missing", "");
	return COMMAND_OK;
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

	if (status != COMMAND_OK)
		return status;
	if (arguments.is_help)
		return output_write_all("-", usage, &err) ? report_error(&err) : COMMAND_OK;
	if (ringsum_inspect(arguments.path, NULL, &inspection, &err))
		return report_error(&err);
	verdict = ringsum_inspection_verdict(inspection);
	status = write_inspection(inspection, arguments.json, &err) ? report_error(&err)
								    : exit_status(verdict);
	ringsum_inspection_free(inspection);
	return status;
}
