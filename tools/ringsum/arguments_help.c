/* SPDX-License-Identifier: Apache-2.0 */
/* What a command's tables say to people (--help) and to programs (facts). */
#include "arguments.h"

#include "output.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS 80
#define HELP_COLUMN 25 /* where the text on an option begins */

void help_wrap(FILE *to, unsigned column, unsigned indent, const char *text)
{
	int is_line_begun = 0;

	while (*text) {
		unsigned length = (unsigned)strcspn(text, " \n");

		if (is_line_begun && column + 1 + length > COLUMNS) {
			fprintf(to, "\n%*s", (int)indent, "");
			column = indent;
		} else if (is_line_begun) {
			fputc(' ', to);
			column++;
		}
		fprintf(to, "%.*s", (int)length, text);
		column += length;
		is_line_begun = 1;
		text += length;
		if (*text == ' ')
			text++;
		if (*text == '\n') {
			fputc('\n', to);
			text++;
			if (*text && *text != '\n')
				fprintf(to, "%*s", (int)indent, "");
			column = indent;
			is_line_begun = 0;
		}
	}
	if (is_line_begun)
		fputc('\n', to);
}

/* "auto, io_uring or pread; " before what else is to be said. */
static void list_choices(FILE *to, const struct option_choice *choices)
{
	const struct option_choice *choice;

	for (choice = choices; choice->name; choice++)
		fprintf(to, "%s%s",
			choice == choices ? ""
			: choice[1].name  ? ", "
					  : " or ",
			choice->name);
	fputs("; ", to);
}

static void show_row(FILE *to, const struct option_row *row)
{
	char head[64], *text = NULL;
	size_t text_bytes;
	FILE *whole = open_memstream(&text, &text_bytes);
	int length = 0;

	if (row->letter)
		length = snprintf(head, sizeof(head), "-%c, ", row->letter);
	length += snprintf(head + length, sizeof(head) - (size_t)length, "--%s%s%s", row->name,
			   row->value ? " " : "", row->value ? row->value : "");
	if (length + 4 > HELP_COLUMN)
		fprintf(to, "  %s\n%*s", head, HELP_COLUMN, "");
	else
		fprintf(to, "  %-*s", HELP_COLUMN - 2, head);
	if (!whole)
		return;
	if (row->choices)
		list_choices(whole, row->choices);
	fputs(row->help, whole);
	if (fclose(whole) == 0)
		help_wrap(to, HELP_COLUMN, HELP_COLUMN, text);
	free(text);
}

static void show_command(FILE *to, const struct command *command)
{
	const struct option_row *row;
	size_t i;

	fprintf(to, "usage: ringsum %s [options] %s\n\n", command->name, command->operands);
	help_wrap(to, 0, 0, command->about);
	fputc('\n', to);
	for (i = 0; i < OPTION_TABLES_MAX && command->tables[i]; i++)
		for (row = command->tables[i]; row->name; row++)
			show_row(to, row);
	fprintf(to, "  %-*sshow this text\n\n", HELP_COLUMN - 2, "-h, --help");
	help_wrap(to, 0, 0, command->notes);
}

int command_help(const struct command *command)
{
	struct ringsum_error err = { 0 };
	char *text = NULL;
	size_t text_bytes;
	FILE *to = open_memstream(&text, &text_bytes);
	int status = COMMAND_OK;

	if (!to)
		return command_complain(command, COMMAND_UNDECIDED, "out of memory");
	show_command(to, command);
	if (fclose(to) != 0)
		status = command_complain(command, COMMAND_UNDECIDED, "out of memory");
	else if (output_write_all("-", text, &err) != RINGSUM_OK)
		status = command_complain(command, COMMAND_UNDECIDED, "%s", err.message);
	free(text);
	return status;
}

/* ---- facts -------------------------------------------------------------------------------------- */

static const char *kind_name(enum option_kind kind)
{
	static const char *const names[] = {
		[OPTION_FLAG] = "flag",	    [OPTION_TEXT] = "text", [OPTION_FILE] = "file",
		[OPTION_NUMBER] = "number", [OPTION_SIZE] = "size", [OPTION_CHOICE] = "choice",
	};

	return names[kind];
}

static void tell_row(FILE *to, const struct command *command, const char *dashes, const char *name,
		     const struct option_row *row)
{
	const struct option_choice *choice;

	fprintf(to, "option\t%s\t%s%s\t%s\t", command->name, dashes, name, kind_name(row->kind));
	if (!row->choices)
		fputs(row->value ? row->value : "", to);
	for (choice = row->choices; choice && choice->name; choice++)
		fprintf(to, "%s%s", choice == row->choices ? "" : " ", choice->name);
	fputc('\n', to);
}

void command_facts(FILE *to, const struct command *command)
{
	static const struct option_row help = { .name = "help", .letter = 'h' };
	const struct option_row *row;
	size_t i;

	for (i = 0; i < OPTION_TABLES_MAX && command->tables[i]; i++)
		for (row = command->tables[i]; row->name; row++) {
			char letter[2] = { row->letter, '\0' };

			tell_row(to, command, "--", row->name, row);
			if (row->letter)
				tell_row(to, command, "-", letter, row);
		}
	tell_row(to, command, "--", "help", &help);
	tell_row(to, command, "-", "h", &help);
}
