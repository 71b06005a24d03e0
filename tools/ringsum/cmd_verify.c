/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum verify: is this checkpoint what was promised? */
#include "arguments.h"
#include "neighbour.h"
#include "output.h"
#include "paths.h"
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
	struct path_wishes wishes;
	struct paths paths;
	int are_many; /* whether what is said is said of several, be it one by chance */
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
	{ "recursive", 'r', OPTION_FLAG, NULL,
	  "every checkpoint in PATH and below: each directory that holds a TENSORS.json or a "
	  "list of checksums; links are not followed",
	  INTO(wishes.is_recursive) },
	{ "files-from", 0, OPTION_FILE, "FILE|-",
	  "take further PATHs from FILE, or standard input: one on a line",
	  INTO(wishes.files_from) },
	{ "null", '0', OPTION_FLAG, NULL, "they end with NUL, as find -print0 gives them",
	  INTO(wishes.is_null) },
	{ "journal", 0, OPTION_FILE, "FILE",
	  "note in FILE what is proven, and go on from there where a run was interrupted; for a "
	  "single PATH, whose directory FILE must not be in",
	  INTO(options.journal_path) },
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

/* The options that speak of one checkpoint. */
static const char *single_option(const struct verify_arguments *arguments)
{
	return arguments->options.manifest_path	    ? "--manifest"
	       : arguments->options.manifest_sha256 ? "--manifest-sha256"
	       : arguments->options.journal_path    ? "--journal"
						    : NULL;
}

/* All is told before anything is read, but options out of range, by the library. */
static int parse_arguments(int argc, char **argv, struct verify_arguments *arguments)
{
	struct operands operands;
	int status = arguments_parse(&command_verify, argc, argv, arguments, &operands);

	if (status != ARGUMENTS_GOOD)
		return status;
	arguments->are_many = operands.count > 1 || arguments->wishes.is_recursive ||
			      arguments->wishes.files_from;
	if (arguments->are_many && single_option(arguments) && operands.count > 1)
		return complain(COMMAND_USAGE, "%s speaks of one PATH, not of %d",
				single_option(arguments), operands.count);
	if (arguments->are_many && single_option(arguments))
		return complain(COMMAND_USAGE, "%s speaks of one PATH, not of what %s finds",
				single_option(arguments),
				arguments->wishes.is_recursive ? "--recursive" : "--files-from");
	if (report_files_count_stdout(&arguments->files, arguments->json) > 1)
		return complain(COMMAND_USAGE, "only one of --json, --html and --refetch can go to "
					       "standard output");
	return paths_gather(&command_verify, &arguments->wishes, &operands, &arguments->paths);
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

/* Tells of a report as it was asked for. Returns the exit status that it comes to. */
static int take_report(struct verify_arguments *arguments, int result,
		       struct ringsum_report *report, const struct ringsum_error *err,
		       struct json_reports *reports)
{
	int status = status_of(result, report), print_status = COMMAND_OK;
	int is_taken = report_files_count_stdout(&arguments->files, arguments->json) > 0;

	if (!report || result == RINGSUM_E_NOPROMISE || result == RINGSUM_E_IO)
		/* A diagnostic, not a result. */
		fprintf(stderr, "ringsum verify: %s\n",
			err->message[0] ? err->message : ringsum_result_text(result));
	else if (!is_taken && !(arguments->is_quiet && status == COMMAND_OK))
		print_status = print_report(report);
	if (report && arguments->json)
		append_report(reports, report);
	report_files_keep(&arguments->files, report);
	return worse(status, print_status);
}

static int verify_one(struct verify_arguments *arguments, struct json_reports *reports)
{
	struct ringsum_options options = arguments->options;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result;

	options.progress = progress_note;
	options.keep_map = arguments->files.html || arguments->files.refetch;
	progress_begin(1, 1);
	result = ringsum_verify_path(arguments->paths.list[0], &options, &report, &err);
	progress_end();
	return take_report(arguments, result, report, &err, reports);
}

/* ---- many ----------------------------------------------------------------------------------- */

struct telling {
	struct verify_arguments *arguments;
	struct json_reports *reports;
	int status;
};

static int tell(void *arg, size_t path_index, int result, struct ringsum_report *report,
		const struct ringsum_error *err)
{
	struct telling *telling = arg;
	int status;

	(void)path_index;
	progress_end();
	status = take_report(telling->arguments, result, report, err, telling->reports);
	telling->status =
		worse(telling->status, status == COMMAND_USAGE ? COMMAND_UNDECIDED : status);
	progress_begin(1, 1);
	return 0;
}

/* "in all: 98 of 100 checkpoints identical, 1 refused, 1 undecided; ..." */
static int sum_up(struct verify_arguments *arguments, const struct ringsum_many_totals *totals)
{
	static const char format[] = "in all: %llu of %d checkpoints identical%s%s%s; %llu of %llu "
				     "tensors, %.3g of %.3g GB proven in %.1f s\n";
	char text[512], refused[48] = "", undecided[48] = "", left_out[64] = "";
	struct ringsum_error err = { 0 };

	if (totals->paths_refused)
		snprintf(refused, sizeof(refused), ", %llu refused",
			 (unsigned long long)totals->paths_refused);
	if (totals->paths_undecided)
		snprintf(undecided, sizeof(undecided), ", %llu undecided",
			 (unsigned long long)totals->paths_undecided);
	if (totals->paths_left_out)
		snprintf(left_out, sizeof(left_out), ", %llu not begun",
			 (unsigned long long)totals->paths_left_out);
	snprintf(text, sizeof(text), format, (unsigned long long)totals->paths_identical,
		 arguments->paths.count, refused, undecided, left_out,
		 (unsigned long long)totals->tensors_identical,
		 (unsigned long long)totals->tensors_promised, (double)totals->bytes_proven / 1e9,
		 (double)totals->bytes_promised / 1e9, totals->elapsed_seconds);
	if (output_write_all("-", text, &err) == RINGSUM_OK)
		return COMMAND_OK;
	fprintf(stderr, "ringsum verify: %s\n%s", err.message, text);
	return COMMAND_UNDECIDED;
}

static int verify_many(struct verify_arguments *arguments, struct json_reports *reports)
{
	struct telling telling = { arguments, reports, COMMAND_OK };
	struct ringsum_options options = arguments->options;
	struct ringsum_many_totals totals = { 0 };
	struct ringsum_error err = { 0 };
	int result;

	options.progress = progress_note;
	options.keep_map = arguments->files.html || arguments->files.refetch;
	progress_begin(1, 1);
	result = ringsum_verify_many((const char *const *)arguments->paths.list,
				     (size_t)arguments->paths.count, &options, tell, &telling,
				     &totals, &err);
	progress_end();
	/* Nothing was read, or not all of it; that some are refused or undecided was told. */
	if (result == RINGSUM_E_INVALID || result == RINGSUM_E_NOMEM || result == RINGSUM_E_IO) {
		(void)complain(COMMAND_OK, "%s", err.message);
		return result == RINGSUM_E_INVALID ? COMMAND_USAGE : COMMAND_UNDECIDED;
	}
	if (result == RINGSUM_E_CANCELED)
		(void)complain(COMMAND_OK, "interrupted; not verified: %llu of %d PATHs",
			       (unsigned long long)totals.paths_left_out, arguments->paths.count);
	if (result != RINGSUM_OK)
		telling.status = worse(telling.status, COMMAND_UNDECIDED);
	if (report_files_count_stdout(&arguments->files, arguments->json) == 0 &&
	    !(arguments->is_quiet && telling.status == COMMAND_OK))
		telling.status = worse(telling.status, sum_up(arguments, &totals));
	return telling.status;
}

/* ---- the command ---------------------------------------------------------------------------- */

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

	if (arguments->are_many) {
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
	int status = parse_arguments(argc, argv, &arguments);

	if (status != ARGUMENTS_GOOD)
		return status;
	start_progress(&arguments);
	neighbour_make_idle(&arguments.options, &command_verify);
	status = arguments.are_many ? verify_many(&arguments, &reports)
				    : verify_one(&arguments, &reports);
	progress_stop();
	if (arguments.paths.is_incomplete && status != COMMAND_USAGE)
		status = worse(status, COMMAND_UNDECIDED);
	if (status != COMMAND_USAGE) {
		if (arguments.json)
			status = worse(status, write_json(&arguments, &reports, status));
		status = worse(status, report_files_write(&arguments.files, &command_verify,
							  verdict_text(status)));
	}
	free(reports.text);
	paths_free(&arguments.paths);
	return status;
}
