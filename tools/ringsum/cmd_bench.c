/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum bench: what limits this host, measured on the user's own files. */
#include "commands.h"
#include "output.h"
#include "read_options.h"
#include "ringsum.h"

#include <stdio.h>
#include <string.h>

static const char usage_head[] =
	"usage: ringsum bench [options] PATH\n"
	"\n"
	"Measures, cold and on the checkpoint at PATH itself, what reading, hashing,\n"
	"verifying and loading come to, each as a share of what limits them, and says in\n"
	"one sentence what limits this host and what would help.\n"
	"\n"
	"A pass reads at most 4 GiB (a single larger tensor more) for at most 2 seconds,\n"
	"a load at most 1 GiB; three passes of each kind take turns and the median\n"
	"counts. With the right to do so the system's page cache is dropped first, from\n"
	"64 MiB on; in any case reads are direct, or the shards' pages are given up\n"
	"before a pass. A sample proves nothing: for a verdict run ringsum verify.\n"
	"\n"
	"  --json FILE|-          write the figures as JSON (schema ringsum-bench/1) to\n"
	"                         FILE as well, or to standard output instead of the\n"
	"                         text\n";

static const char usage_tail[] =
	"  -h, --help             show this text\n"
	"\n"
	"Exit status: 0 measured; 1 refused: something differs from the promise; 2 wrong\n"
	"usage; 3 undecided: something could not be read.\n";

struct bench_arguments {
	struct ringsum_options options;
	const char *json; /* a file, "-", or NULL for no JSON */
	const char *path;
	int is_help;
};

static const struct option long_options[] = {
	{ "json", required_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	READ_OPTION_ROWS,
	{ NULL, 0, NULL, 0 },
};

static int parse_arguments(int argc, char **argv, struct bench_arguments *arguments)
{
	int option;

	optind = 0; /* begin anew, whatever was parsed before */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		switch (option) {
		case 'j':
			if (arguments->json || !*optarg) {
				fprintf(stderr,
					"ringsum bench: --json %s; see ringsum bench --help\n",
					arguments->json ? "is given twice"
							: "needs FILE or -, not an empty name");
				return COMMAND_USAGE;
			}
			arguments->json = optarg;
			break;
		case 'h':
			arguments->is_help = 1;
			return COMMAND_OK;
		case ':':
			fprintf(stderr, "ringsum bench: %s needs a value\n", argv[optind - 1]);
			return COMMAND_USAGE;
		case '?':
			read_options_complain("bench", long_options, argv[optind - 1]);
			return COMMAND_USAGE;
		default:
			if (read_options_take(&arguments->options, option, optarg, "bench") < 0)
				return COMMAND_USAGE;
		}
	}
	if (argc - optind != 1) {
		fprintf(stderr, "ringsum bench: %s; see ringsum bench --help\n",
			argc == optind ? "PATH is missing" : "one PATH at a time");
		return COMMAND_USAGE;
	}
	arguments->path = argv[optind];
	return COMMAND_OK;
}

static int report_error(const struct ringsum_error *err)
{
	fprintf(stderr, "ringsum bench: %s\n",
		err->message[0] ? err->message : ringsum_result_text(err->code));
	switch (err->code) {
	case RINGSUM_E_REFUSED:
		fprintf(stderr, "ringsum bench: run ringsum verify for everything that differs\n");
		return COMMAND_REFUSED;
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

static int print_help(void)
{
	struct ringsum_error err = { 0 };

	if (output_write_all("-", usage_head, &err) == RINGSUM_OK &&
	    output_write_all("-", read_options_help, &err) == RINGSUM_OK &&
	    output_write_all("-", usage_tail, &err) == RINGSUM_OK)
		return COMMAND_OK;
	return report_error(&err);
}

int cmd_bench(int argc, char **argv)
{
	struct bench_arguments arguments = { .options = RINGSUM_OPTIONS_INIT };
	struct ringsum_bench_result figures = RINGSUM_BENCH_RESULT_INIT;
	struct ringsum_error err = { 0 };
	int status = parse_arguments(argc, argv, &arguments);

	if (status != COMMAND_OK)
		return status;
	if (arguments.is_help)
		return print_help();
	if (ringsum_bench(arguments.path, &arguments.options, &figures, &err) != RINGSUM_OK ||
	    write_figures(&figures, arguments.json, &err) != RINGSUM_OK)
		return report_error(&err);
	return figures.tensors_differing ? COMMAND_REFUSED : COMMAND_OK;
}
