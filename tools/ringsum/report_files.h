/* SPDX-License-Identifier: Apache-2.0 */
/* What verify leaves in files for others: a page of HTML, and what to fetch again. */
#ifndef RINGSUM_TOOL_REPORT_FILES_H
#define RINGSUM_TOOL_REPORT_FILES_H

#include "ringsum.h"

#include <stddef.h>

struct command;

/* All zero is the empty state. */
struct report_files {
	const char *html;    /* a file, "-", or NULL */
	const char *refetch; /* likewise */
	struct ringsum_report **reports;
	size_t report_count;
	int has_failed; /* memory ran out */
};

/*
 * How many of these files, and of `json` (may be NULL), are standard output: the text has to stay
 * away from it where it is one, and two are too many.
 */
int report_files_count_stdout(const struct report_files *files, const char *json);

/* Takes a report over; it is kept as long as a file needs it. */
void report_files_keep(struct report_files *files, struct ringsum_report *report);

/*
 * Writes what was asked for and frees all. verdict: for the message where that fails. Returns
 * COMMAND_OK or COMMAND_UNDECIDED.
 */
int report_files_write(struct report_files *files, const struct command *command,
		       const char *verdict);

#endif
