/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command is called with, as one table: parsing, --help, shell completion and the tests all
 * come from it. A new option is one row in the table of the commands that take it, and a line in
 * the manual page.
 */
#ifndef RINGSUM_TOOL_ARGUMENTS_H
#define RINGSUM_TOOL_ARGUMENTS_H

#include "commands.h"

#include <stddef.h>
#include <stdio.h>

/* What an option's value is, and what the member is that it goes to. */
enum option_kind {
	OPTION_FLAG,   /* no value; int, set to 1 */
	OPTION_TEXT,   /* const char *, as given */
	OPTION_FILE,   /* the same; an empty name and a second one are refused */
	OPTION_NUMBER, /* unsigned integer of any width */
	OPTION_SIZE,   /* the same, and K, M and G multiply it */
	OPTION_CHOICE, /* int or enum: the value of the choice named */
};

struct option_choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct command;

struct option_row {
	const char *name; /* without its dashes; NULL ends the table */
	char letter;	  /* the same option behind one dash, or 0 */
	enum option_kind kind;
	const char *value; /* what --help calls its value: "FILE"; NULL for a flag */
	const char *
		help; /* for --help, which breaks the lines; choices come before it by themselves */
	size_t offset; /* of the member, in the command's arguments */
	size_t width;
	const struct option_choice *choices; /* of OPTION_CHOICE */
	unsigned long long least, most;	     /* of OPTION_NUMBER and OPTION_SIZE */
	const char *range;		     /* the same in words: "1 to 256" */
	/*
	 * In place of all that, for what is not like the others. Returns COMMAND_OK, or what
	 * command_complain returned.
	 */
	int (*take)(const struct command *command, const struct option_row *row, void *arguments,
		    const char *value);
};

/* Where the value goes. */
#define OPTION_INTO(type, member) \
	.offset = offsetof(type, member), .width = sizeof(((type *)0)->member)

#define OPTION_TABLES_MAX 4

struct command {
	const char *name;
	const char *operands; /* as --help shows them: "PATH..." */
	const char *summary;  /* for the list of commands */
	const char *about;    /* what it does; a newline ends a paragraph */
	const char *notes;    /* the end of --help: exit status and so on */
	int (*run)(int argc, char **argv);
	const struct option_row *tables[OPTION_TABLES_MAX]; /* its own first; NULL ends them */
};

/* What is left of the command line: the words that are no options. */
struct operands {
	char **words;
	int count;
};

/* The command line is good; go on. No exit status. */
#define ARGUMENTS_GOOD (-1)

/*
 * Fills `arguments`, which holds the defaults, by the command's tables, and *operands_out. Returns
 * ARGUMENTS_GOOD; or the exit status where everything is done, be it that help was asked for and
 * printed, or that something is wrong and was told.
 */
int arguments_parse(const struct command *command, int argc, char **argv, void *arguments,
		    struct operands *operands_out);

/* Says "ringsum COMMAND: ..." on standard error. Returns `status`. */
__attribute__((format(printf, 3, 4))) int command_complain(const struct command *command,
							   int status, const char *format, ...);

/* Prints what --help prints. Returns an exit status. */
int command_help(const struct command *command);

/* Text broken at blanks within 80 columns, each line but the first indented, all of it ended. */
void help_wrap(FILE *to, unsigned column, unsigned indent, const char *text);

/*
 * Options of a command, one on each line, for completion and tests: "option", command, name, kind,
 * then the value's name or the choices; tabs between them.
 */
void command_facts(FILE *to, const struct command *command);

#endif
