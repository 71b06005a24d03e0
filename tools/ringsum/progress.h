/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows how far a command is, on standard error: one line that is drawn anew where that is a
 * terminal, a line now and then where it is none and --progress asks, and one line for each
 * SIGUSR1. A thread of its own attends to that, so that it works while the library is held up,
 * and ends the process where it does not come back after an interruption. One at a time.
 */
#ifndef RINGSUM_TOOL_PROGRESS_H
#define RINGSUM_TOOL_PROGRESS_H

#include "arguments.h"
#include "ringsum.h"

struct progress_setup {
	const struct command *command;
	int is_quiet;	       /* nothing of itself */
	int is_sample;	       /* what is read is not all of it */
	int is_wanted;	       /* lines where there is no terminal */
	int is_json_on_stdout; /* nothing may get between */
	unsigned patience_ms;  /* so long reading may go on after an interruption; 0: briefly */
};

/* The row of --progress, for an int member. */
#define PROGRESS_ROW(type, member)                                                         \
	{                                                                                  \
		"progress", 0, OPTION_FLAG, NULL,                                          \
			"where standard error is no terminal, say every 30 s how far "     \
			"it is (RINGSUM_PROGRESS_SECONDS in the environment sets another " \
			"time)",                                                           \
			OPTION_INTO(type, member)                                          \
	}

/* Catches signals and starts the thread; does without it where there is none to be had. */
void progress_start(const struct progress_setup *setup);

/* Before each PATH, from 1; and after it, before anything else is printed. */
void progress_begin(unsigned index, unsigned count);
void progress_end(void);

/* For ringsum_options.progress: asks to cancel where a signal asked to stop. */
int progress_note(void *arg, const struct ringsum_progress *progress);

/* Ends it; signals stay caught. */
void progress_stop(void);

#endif
