/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum verify: is this checkpoint what was promised? */
#include "commands.h"
#include "output.h"
#include "read_options.h"
#include "ringsum.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_head[] =
	"usage: ringsum verify [options] PATH...\n"
	"\n"
	"Proves that the tensors on disk are the tensors that the manifest promises. PATH\n"
	"is a checkpoint's directory or its manifest file.\n"
	"\n"
	"  --json FILE|-          write the report as JSON to FILE as well, or to\n"
	"                         standard output instead of the text\n"
	"  -q, --quiet            say nothing where all is identical\n";

static const char usage_tail[] =
	"  -h, --help             show this text\n"
	"\n"
	"Exit status: 0 identical; 1 refused: something differs from the promise; 2 wrong\n"
	"usage; 3 undecided: something could not be read and nothing was found different.\n"
	"With several PATHs refused wins over undecided, and undecided over identical.\n"
	"SIGINT and SIGTERM end the reading; what was proven until then is reported.\n";

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

/* Told before anything is read, as are options out of range, by the first PATH. */
static int check_arguments(const struct verify_arguments *arguments)
{
	int i;

	if (arguments->path_count == 0) {
		fprintf(stderr, "ringsum verify: PATH is missing; see ringsum verify --help\n");
		return COMMAND_USAGE;
	}
	for (i = 0; i < arguments->path_count; i++) {
		if (*arguments->paths[i])
			continue;
		fprintf(stderr, "ringsum verify: PATH %d of %d is empty; nothing was verified\n",
			i + 1, arguments->path_count);
		return COMMAND_USAGE;
	}
	if ((arguments->json && !*arguments->json) ||
	    (arguments->options.manifest_path && !*arguments->options.manifest_path)) {
		fprintf(stderr, "ringsum verify: %s needs the name of a file; it is empty\n",
			arguments->json && !*arguments->json ? "--json" : "--manifest");
		return COMMAND_USAGE;
	}
	if (arguments->path_count > 1 &&
	    (arguments->options.manifest_path || arguments->options.manifest_sha256)) {
		fprintf(stderr, "ringsum verify: %s speaks of one PATH, not of %d\n",
			arguments->options.manifest_path ? "--manifest" : "--manifest-sha256",
			arguments->path_count);
		return COMMAND_USAGE;
	}
	return COMMAND_OK;
}

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
	return check_arguments(arguments);
}

/* ---- interruption and progress ----------------------------------------------------------------- */

static volatile sig_atomic_t is_interrupted;

static void note_signal(int signal_number)
{
	(void)signal_number;
	is_interrupted = 1;
}

/* The first signal ends the reading; a second one ends the process, as it always did. */
static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction action = { .sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before;
	size_t i;

	sigemptyset(&action.sa_mask);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		/* What was ignored from the start, as under nohup, stays ignored. */
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
}

struct display {
	int is_on; /* standard error is a terminal, and not to be quiet */
	int is_shown;
};

static int on_progress(void *arg, const struct ringsum_progress *progress)
{
	struct display *display = arg;
	double part = progress->bytes_total
			      ? (double)progress->bytes_done / (double)progress->bytes_total
			      : 1;

	if (display->is_on) {
		fprintf(stderr, "\r%3.0f %% of %.1f GB ", part * 100,
			(double)progress->bytes_total / 1e9);
		display->is_shown = 1;
	}
	return is_interrupted;
}

static void clear_display(struct display *display)
{
	if (display->is_shown)
		fputs("\r\033[K", stderr);
	display->is_shown = 0;
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

static int verify_one(const struct verify_arguments *arguments, const char *path,
		      struct json_reports *reports)
{
	struct display display = { .is_on = !arguments->is_quiet && isatty(STDERR_FILENO) };
	struct ringsum_options options = arguments->options;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result, status, print_status = COMMAND_OK;
	int is_json_only = arguments->json && strcmp(arguments->json, "-") == 0;

	options.progress = on_progress;
	options.progress_arg = &display;
	result = ringsum_verify_path(path, &options, &report, &err);
	clear_display(&display);
	status = status_of(result, report);
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
	catch_signals();
	for (i = 0; i < arguments.path_count && !is_interrupted; i++) {
		int one = verify_one(&arguments, arguments.paths[i], &reports);

		/* With the first PATH nothing was read yet, and no other would fare better. */
		if (one == COMMAND_USAGE && i == 0)
			return COMMAND_USAGE;
		status = worse(status, one == COMMAND_USAGE ? COMMAND_UNDECIDED : one);
	}
	if (i < arguments.path_count) {
		fprintf(stderr, "ringsum verify: interrupted; not verified: %d of %d PATHs\n",
			arguments.path_count - i, arguments.path_count);
		status = worse(status, COMMAND_UNDECIDED);
	}
	if (arguments.json)
		status = worse(status, write_json(&arguments, &reports, status));
	free(reports.text);
	return status;
}
