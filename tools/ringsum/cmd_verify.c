/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum verify: is this checkpoint what was promised? */
#include "commands.h"
#include "output.h"
#include "read_options.h"
#include "ringsum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_head[] =
	"usage: ringsum verify [options] PATH...\n"
	"\n"
	"Proves that the tensors on disk are the tensors that the manifest promises. PATH is a\n"
	"checkpoint's directory or its manifest file.\n"
	"\n"
	"  --json FILE|-          write the report as JSON to FILE as well, or to standard\n"
	"                         output instead of the text\n"
	"  --quiet                say nothing where all is identical\n";

static const char usage_tail[] =
	"  -h, --help             show this text\n"
	"\n"
	"Exit status: 0 identical; 1 refused: something differs from the promise; 2 wrong usage;\n"
	"3 undecided: something could not be read and nothing was found different. With several\n"
	"PATHs refused wins over undecided, and undecided over identical.\n";

struct verify_arguments {
	struct ringsum_options options;
	const char *json; /* a file, "-", or NULL for no JSON */
	int is_quiet;
	int is_help;
	char **paths;
	int path_count;
};

static const struct option long_options[] = {
	{ "json", required_argument, NULL, 'j' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	READ_OPTION_ROWS,
	{ NULL, 0, NULL, 0 },
};

static int parse_arguments(int argc, char **argv, struct verify_arguments *arguments)
{
	int option;

	optind = 0; /* begin anew, whatever was parsed before */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":hq", long_options, NULL)) != -1) {
		switch (option) {
		case 'j':
			arguments->json = optarg;
			break;
		case 'q':
			arguments->is_quiet = 1;
			break;
		case 'h':
			arguments->is_help = 1;
			return COMMAND_OK;
		case ':':
			fprintf(stderr, "ringsum verify: %s needs a value\n", argv[optind - 1]);
			return COMMAND_USAGE;
		case '?':
			read_options_complain("verify", long_options, argv[optind - 1]);
			return COMMAND_USAGE;
		default:
			if (read_options_take(&arguments->options, option, optarg, "verify") < 0)
				return COMMAND_USAGE;
		}
	}
	arguments->paths = argv + optind;
	arguments->path_count = argc - optind;
	if (arguments->path_count == 0) {
		fprintf(stderr, "ringsum verify: PATH is missing; see ringsum verify --help\n");
		return COMMAND_USAGE;
	}
	if (arguments->options.manifest_path && arguments->path_count > 1) {
		fprintf(stderr, "ringsum verify: --manifest speaks of one PATH, not of %d\n",
			arguments->path_count);
		return COMMAND_USAGE;
	}
	return COMMAND_OK;
}

/* JSON of all reports, as it grows. */
struct json_reports {
	char *text;
	size_t length;
	int has_failed;
};

static void append(struct json_reports *reports, const char *text)
{
	size_t length = strlen(text);
	char *grown;

	if (reports->has_failed)
		return;
	grown = realloc(reports->text, reports->length + length + 1);
	if (!grown) {
		reports->has_failed = 1;
		return;
	}
	reports->text = grown;
	memcpy(grown + reports->length, text, length + 1);
	reports->length += length;
}

static void append_report(struct json_reports *reports, const struct ringsum_report *report)
{
	char *json = NULL;

	if (ringsum_report_to_json(report, &json, NULL) != RINGSUM_OK) {
		reports->has_failed = 1;
		return;
	}
	if (reports->length > 0)
		append(reports, ",");
	append(reports, json);
	ringsum_free(json);
}

static int status_of(int result)
{
	switch (result) {
	case RINGSUM_OK:
		return COMMAND_OK;
	case RINGSUM_E_REFUSED:
		return COMMAND_REFUSED;
	case RINGSUM_E_INVALID:
		return COMMAND_USAGE;
	default:
		return COMMAND_UNDECIDED;
	}
}

/* Refused wins over undecided; wrong usage over all, since nothing was done then. */
static int worse(int a, int b)
{
	static const int weights[] = {
		[COMMAND_OK] = 0,
		[COMMAND_UNDECIDED] = 1,
		[COMMAND_REFUSED] = 2,
		[COMMAND_USAGE] = 3,
	};

	return weights[a] >= weights[b] ? a : b;
}

/* Prints one report for a person. Returns 0, or COMMAND_UNDECIDED where it cannot be printed. */
static int print_report(const struct ringsum_report *report)
{
	struct ringsum_error err = { 0 };
	char *text = NULL;
	int result = ringsum_report_to_text(report, &text, &err);

	if (result == RINGSUM_OK)
		result = output_write_all("-", text, &err);
	if (result != RINGSUM_OK) {
		fprintf(stderr, "ringsum verify: %s\n", err.message);
		/* The verdict must reach someone. */
		if (text)
			fputs(text, stderr);
	}
	ringsum_free(text);
	return result == RINGSUM_OK ? COMMAND_OK : COMMAND_UNDECIDED;
}

static int verify_one(const struct verify_arguments *arguments, const char *path,
		      struct json_reports *reports)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_verify_path(path, &arguments->options, &report, &err);
	int status = status_of(result), print_status = COMMAND_OK;
	int is_json_only = arguments->json && strcmp(arguments->json, "-") == 0;

	if (!report || result == RINGSUM_E_NOPROMISE || result == RINGSUM_E_IO)
		/* A diagnostic, not a result. */
		fprintf(stderr, "ringsum verify: %s\n",
			err.message[0] ? err.message : ringsum_result_text(result));
	else if (!is_json_only && !(arguments->is_quiet && status == COMMAND_OK))
		print_status = print_report(report);
	if (report && arguments->json)
		append_report(reports, report);
	ringsum_report_free(report);
	return worse(status, print_status);
}

static const char *verdict_text(int status)
{
	return status == COMMAND_OK	   ? "identical"
	       : status == COMMAND_REFUSED ? "refused"
					   : "undecided";
}

/* One PATH gives its report; several give one document that holds them. */
static int write_json(const struct verify_arguments *arguments, struct json_reports *reports,
		      int status)
{
	struct json_reports whole = { 0 };
	struct ringsum_error err = { 0 };
	int result;

	if (arguments->path_count > 1) {
		append(&whole, "{\"schema\":\"ringsum-reports/1\",\"verdict\":\"");
		append(&whole, verdict_text(status));
		append(&whole, "\",\"reports\":[");
		append(&whole, reports->text ? reports->text : "");
		append(&whole, "]}\n");
	} else {
		append(&whole, reports->text ? reports->text : "");
	}
	if (reports->has_failed || whole.has_failed) {
		fprintf(stderr, "ringsum verify: out of memory for the JSON report\n");
		result = RINGSUM_E_NOMEM;
	} else {
		result = output_write_all(arguments->json, whole.text, &err);
		if (result != RINGSUM_OK)
			fprintf(stderr, "ringsum verify: %s\nringsum verify: the verdict is: %s\n",
				err.message, verdict_text(status));
	}
	free(whole.text);
	return result == RINGSUM_OK ? COMMAND_OK : COMMAND_UNDECIDED;
}

int cmd_verify(int argc, char **argv)
{
	struct verify_arguments arguments = { .options = RINGSUM_OPTIONS_INIT };
	struct json_reports reports = { 0 };
	int status = parse_arguments(argc, argv, &arguments), i;
	struct ringsum_error err = { 0 };

	if (status != COMMAND_OK)
		return status;
	if (arguments.is_help) {
		if (output_write_all("-", usage_head, &err) == RINGSUM_OK &&
		    output_write_all("-", read_options_help, &err) == RINGSUM_OK &&
		    output_write_all("-", usage_tail, &err) == RINGSUM_OK)
			return COMMAND_OK;
		fprintf(stderr, "ringsum verify: %s\n", err.message);
		return COMMAND_UNDECIDED;
	}
	for (i = 0; i < arguments.path_count && status != COMMAND_USAGE; i++)
		status = worse(status, verify_one(&arguments, arguments.paths[i], &reports));
	if (arguments.json && status != COMMAND_USAGE)
		status = worse(status, write_json(&arguments, &reports, status));
	free(reports.text);
	return status;
}
