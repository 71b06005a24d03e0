/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum verify: is this checkpoint what was promised? */
#include "arguments.h"
#include "neighbour.h"
#include "output.h"
#include "progress.h"
#include "read_options.h"
#include "report_files.h"
#include "ringsum.h"
#include "signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify_arguments {
	struct ringsum_options options; /* first, for read_option_rows */
	const char *json;		/* a file, "-", or NULL for no JSON */
	struct report_files files;
	int is_quiet;
	int is_progress_wanted;
	char **paths;
	int path_count;
};

_Static_assert(offsetof(struct verify_arguments, options) == 0, "read_option_rows go there");

#define complain(...) command_complain(&command_verify, __VA_ARGS__)

#define INTO(member) OPTION_INTO(struct verify_arguments, member)

static const struct option_row rows[] = {
	{ "json", 0, OPTION_FILE, "FILE|-",
	  "write the report as JSON to FILE as well, or to standard output instead of the text",
	  INTO(json) },
	{ "html", 0, OPTION_FILE, "FILE|-",
	  "write a page for a browser to FILE as well: verdict, findings and a map of each shard",
	  INTO(files.html) },
	{ "refetch", 0, OPTION_FILE, "FILE|-",
	  "write the ranges of bytes to be fetched again to FILE as well, merged, with tabs "
	  "between "
	  "their values",
	  INTO(files.refetch) },
	{ "quiet", 'q', OPTION_FLAG, NULL, "say nothing where all is identical", INTO(is_quiet) },
	{ "public-key", 0, OPTION_FILE, "FILE",
	  "the signer's public key (PEM): refuse what is not signed with it",
	  INTO(options.public_key_path) },
	{ "ca", 0, OPTION_FILE, "FILE",
	  "certificates of authorities (PEM): refuse what is not signed with a certificate that "
	  "leads to one of them",
	  INTO(options.ca_path) },
	PROGRESS_ROW(struct verify_arguments, is_progress_wanted),
	{ .name = NULL },
};

const struct command command_verify = {
	.name = "verify",
	.operands = "PATH...",
	.summary = "is this checkpoint what was promised?",
	.about = "Proves that the tensors on disk are the tensors that the manifest promises. PATH "
		 "is a checkpoint's directory or its manifest file.",
	.notes = "Exit status: 0 identical; 1 refused: something differs from the promise; 2 wrong "
		 "usage; 3 undecided: something could not be read and nothing was found different. "
		 "With several PATHs refused wins over undecided, and undecided over identical.\n"
		 "SIGINT, SIGTERM and SIGHUP end the reading; what was proven until then is "
		 "reported. "
		 "A second one ends the process. SIGUSR1 tells how far it is.",
	.run = cmd_verify,
	.tables = { rows, read_option_rows, neighbour_option_rows },
};

/* Told before anything is read, as are options out of range, by the first PATH. */
static int check_arguments(const struct verify_arguments *arguments)
{
	int i;

	if (arguments->path_count == 0)
		return complain(COMMAND_USAGE, "PATH is missing; see ringsum verify --help");
	for (i = 0; i < arguments->path_count; i++)
		if (!*arguments->paths[i])
			return complain(COMMAND_USAGE,
					"PATH %d of %d is empty; nothing was verified", i + 1,
					arguments->path_count);
	if (arguments->path_count > 1 &&
	    (arguments->options.manifest_path || arguments->options.manifest_sha256))
		return complain(COMMAND_USAGE, "%s speaks of one PATH, not of %d",
				arguments->options.manifest_path ? "--manifest"
								 : "--manifest-sha256",
				arguments->path_count);
	if (report_files_count_stdout(&arguments->files, arguments->json) > 1)
		return complain(COMMAND_USAGE, "only one of --json, --html and --refetch can go to "
					       "standard output");
	return ARGUMENTS_GOOD;
}

static int parse_arguments(int argc, char **argv, struct verify_arguments *arguments)
{
	struct operands operands;
	int status = arguments_parse(&command_verify, argc, argv, arguments, &operands);

	if (status != ARGUMENTS_GOOD)
		return status;
	arguments->paths = operands.words;
	arguments->path_count = operands.count;
	return check_arguments(arguments);
}

/* ---- reports ------------------------------------------------------------------------------------ */

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

/* A run that was interrupted may have found enough to refuse. */
static int status_of(int result, const struct ringsum_report *report)
{
	if (result == RINGSUM_E_CANCELED && report &&
	    ringsum_report_verdict(report) == RINGSUM_VERDICT_REFUSED)
		return COMMAND_REFUSED;
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

/* Refused wins over undecided, and both over wrong usage: what was found stays found. */
static int worse(int a, int b)
{
	static const int weights[] = {
		[COMMAND_OK] = 0,
		[COMMAND_USAGE] = 1,
		[COMMAND_UNDECIDED] = 2,
		[COMMAND_REFUSED] = 3,
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

static int verify_one(struct verify_arguments *arguments, const char *path,
		      struct json_reports *reports)
{
	struct ringsum_options options = arguments->options;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result, status, print_status = COMMAND_OK;
	int is_taken = report_files_count_stdout(&arguments->files, arguments->json) > 0;

	options.progress = progress_note;
	options.keep_map = arguments->files.html || arguments->files.refetch;
	result = ringsum_verify_path(path, &options, &report, &err);
	progress_end();
	status = status_of(result, report);
	if (!report || result == RINGSUM_E_NOPROMISE || result == RINGSUM_E_IO)
		/* A diagnostic, not a result. */
		fprintf(stderr, "ringsum verify: %s\n",
			err.message[0] ? err.message : ringsum_result_text(result));
	else if (!is_taken && !(arguments->is_quiet && status == COMMAND_OK))
		print_status = print_report(report);
	if (report && arguments->json)
		append_report(reports, report);
	report_files_keep(&arguments->files, report);
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
		(void)complain(0, "out of memory for the JSON report");
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

static void start_progress(const struct verify_arguments *arguments)
{
	const struct progress_setup setup = {
		.command = &command_verify,
		.is_quiet = arguments->is_quiet,
		.is_wanted = arguments->is_progress_wanted,
		.is_json_on_stdout =
			report_files_count_stdout(&arguments->files, arguments->json) > 0,
		/* The library ends by itself what hangs; findings would be lost. */
		.patience_ms = 3000,
	};

	progress_start(&setup);
}

int cmd_verify(int argc, char **argv)
{
	struct verify_arguments arguments = { .options = RINGSUM_OPTIONS_INIT };
	struct json_reports reports = { 0 };
	int status = parse_arguments(argc, argv, &arguments), i;

	if (status != ARGUMENTS_GOOD)
		return status;
	status = COMMAND_OK;
	start_progress(&arguments);
	neighbour_make_idle(&arguments.options, &command_verify);
	/* The first is begun in any case, so that there is a report to write. */
	for (i = 0; i < arguments.path_count && (i == 0 || !signals_stop_wanted()); i++) {
		int one;

		progress_begin((unsigned)i + 1, (unsigned)arguments.path_count);
		one = verify_one(&arguments, arguments.paths[i], &reports);
		/* With the first PATH nothing was read yet, and no other would fare better. */
		if (one == COMMAND_USAGE && i == 0)
			break;
		status = worse(status, one == COMMAND_USAGE ? COMMAND_UNDECIDED : one);
	}
	progress_stop();
	if (i == 0)
		return COMMAND_USAGE;
	if (i < arguments.path_count) {
		fprintf(stderr, "ringsum verify: interrupted; not verified: %d of %d PATHs\n",
			arguments.path_count - i, arguments.path_count);
		status = worse(status, COMMAND_UNDECIDED);
	}
	if (arguments.json)
		status = worse(status, write_json(&arguments, &reports, status));
	status = worse(status,
		       report_files_write(&arguments.files, &command_verify, verdict_text(status)));
	free(reports.text);
	return status;
}
