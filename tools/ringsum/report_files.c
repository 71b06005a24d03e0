/* SPDX-License-Identifier: Apache-2.0 */
/* The page and the list of ranges: each is whole, or as it was before. */
#include "report_files.h"

#include "arguments.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

static int is_stdout(const char *name)
{
	return name && strcmp(name, "-") == 0;
}

int report_files_count_stdout(const struct report_files *files, const char *json)
{
	return is_stdout(json) + is_stdout(files->html) + is_stdout(files->refetch);
}

void report_files_keep(struct report_files *files, struct ringsum_report *report)
{
	struct ringsum_report **grown;

	if (!report)
		return;
	if ((!files->html && !files->refetch) || files->has_failed) {
		ringsum_report_free(report);
		return;
	}
	grown = realloc(files->reports, (files->report_count + 1) * sizeof(*grown));
	if (!grown) {
		files->has_failed = 1;
		ringsum_report_free(report);
		return;
	}
	files->reports = grown;
	grown[files->report_count++] = report;
}

static int fail(struct ringsum_error *err)
{
	err->code = RINGSUM_E_NOMEM;
	snprintf(err->message, sizeof(err->message), "out of memory for the reports");
	return RINGSUM_E_NOMEM;
}

static int write_html(const struct report_files *files, struct ringsum_error *err)
{
	char *html = NULL;
	int result;

	if (!files->html || files->report_count == 0)
		return RINGSUM_OK;
	result = ringsum_reports_to_html((const struct ringsum_report *const *)files->reports,
					 files->report_count, &html, err);
	if (result == RINGSUM_OK)
		result = output_write_all(files->html, html, err);
	ringsum_free(html);
	return result;
}

static int write_refetch(const struct report_files *files, struct ringsum_error *err)
{
	struct output output = OUTPUT_INIT;
	int result;
	size_t i;

	if (!files->refetch)
		return RINGSUM_OK;
	result = output_open(&output, files->refetch, err);
	for (i = 0; i < files->report_count && result == RINGSUM_OK; i++) {
		char *text = NULL;

		result = ringsum_report_to_refetch(files->reports[i], &text, err);
		if (result == RINGSUM_OK)
			result = output_write(&output, text, strlen(text), err);
		ringsum_free(text);
	}
	if (result == RINGSUM_OK)
		return output_commit(&output, err);
	output_abandon(&output);
	return result;
}

static int tell(const struct command *command, const struct ringsum_error *err, const char *verdict)
{
	(void)command_complain(command, 0, "%s", err->message);
	return command_complain(command, COMMAND_UNDECIDED, "the verdict is: %s", verdict);
}

int report_files_write(struct report_files *files, const struct command *command,
		       const char *verdict)
{
	struct ringsum_error err = { 0 };
	int status = COMMAND_OK;
	size_t i;

	if (files->has_failed) {
		(void)fail(&err);
		status = tell(command, &err, verdict);
	} else {
		if (write_html(files, &err) != RINGSUM_OK)
			status = tell(command, &err, verdict);
		if (write_refetch(files, &err) != RINGSUM_OK)
			status = tell(command, &err, verdict);
	}
	for (i = 0; i < files->report_count; i++)
		ringsum_report_free(files->reports[i]);
	free(files->reports);
	*files = (struct report_files){ 0 };
	return status;
}
