/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a command line by the command's tables. */
#include "arguments.h"

#include "nearest.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* More than any command has; counted when the command starts. */
#define ROWS_MAX 64

/* What getopt_long gives for the row of that index; letters are below. */
#define FIRST_VAL 256

/* A command's rows, in the form that getopt_long wants them. */
struct parser {
	const struct command *command;
	const struct option_row *rows[ROWS_MAX];
	struct option options[ROWS_MAX + 1];
	char letters[2 * ROWS_MAX + 2];
	int is_given[ROWS_MAX];
	int row_count;
	void *arguments;
};

static const struct option_row help_rows[] = {
	{ .name = "help", .letter = 'h' },
	{ .name = NULL },
};

int command_complain(const struct command *command, int status, const char *format, ...)
{
	va_list values;

	fprintf(stderr, "ringsum %s: ", command->name);
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
	return status;
}

/* ---- the table for getopt_long ----------------------------------------------------------------- */

static void add_rows(struct parser *parser, const struct option_row *rows)
{
	size_t used = strlen(parser->letters);

	for (; rows->name; rows++) {
		int index = parser->row_count;

		if (index == ROWS_MAX)
			abort();
		parser->rows[index] = rows;
		parser->options[index] = (struct option){
			.name = rows->name,
			.has_arg = rows->value ? required_argument : no_argument,
			.val = FIRST_VAL + index,
		};
		parser->row_count++;
		if (!rows->letter)
			continue;
		parser->letters[used++] = rows->letter;
		if (rows->value)
			parser->letters[used++] = ':';
	}
}

static void set_up(struct parser *parser, const struct command *command, void *arguments)
{
	size_t i;

	*parser = (struct parser){ .command = command, .arguments = arguments, .letters = ":" };
	for (i = 0; i < OPTION_TABLES_MAX && command->tables[i]; i++)
		add_rows(parser, command->tables[i]);
	add_rows(parser, help_rows);
}

/* The index of the row that getopt_long means by a val or a letter. */
static int row_index(const struct parser *parser, int val)
{
	int i;

	if (val >= FIRST_VAL)
		return val - FIRST_VAL;
	for (i = 0; i < parser->row_count; i++)
		if (parser->rows[i]->letter == val)
			return i;
	return 0;
}

/* ---- values ------------------------------------------------------------------------------------ */

static int take_choice(const struct parser *parser, const struct option_row *row, const char *value,
		       unsigned long long *number_out)
{
	const struct option_choice *choice;
	struct nearest nearest = NEAREST_TO(value);
	char *list = NULL;
	size_t list_bytes;
	FILE *to;

	for (choice = row->choices; choice->name; choice++) {
		nearest_consider(&nearest, choice->name);
		if (strcmp(choice->name, value) == 0) {
			*number_out = (unsigned)choice->value;
			return COMMAND_OK;
		}
	}
	to = open_memstream(&list, &list_bytes);
	for (choice = row->choices; to && choice->name; choice++)
		fprintf(to, "%s %s", choice == row->choices ? "" : ",", choice->name);
	if (to)
		fclose(to);
	(void)command_complain(parser->command, COMMAND_USAGE,
			       "--%s: unknown value '%s'; %s%s%sexpected%s", row->name, value,
			       nearest.word ? "did you mean " : "",
			       nearest.word ? nearest.word : "", nearest.word ? "? " : "",
			       list ? list : " another");
	free(list);
	return COMMAND_USAGE;
}

/* Binary multiples, as for block sizes everywhere: 64K is 65,536. */
static int multiplier_of(const char *suffix, unsigned long long *multiplier_out)
{
	static const struct {
		const char *suffix;
		unsigned shift;
	} suffixes[] = {
		{ "", 0 },   { "K", 10 },   { "k", 10 }, { "KiB", 10 }, { "M", 20 },
		{ "m", 20 }, { "MiB", 20 }, { "G", 30 }, { "g", 30 },	{ "GiB", 30 },
	};
	size_t i;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (strcmp(suffix, suffixes[i].suffix) == 0) {
			*multiplier_out = 1ull << suffixes[i].shift;
			return 1;
		}
	}
	return 0;
}

static int take_number(const struct parser *parser, const struct option_row *row, const char *value,
		       unsigned long long *number_out)
{
	unsigned long long number, multiplier = 1;
	int is_size = row->kind == OPTION_SIZE;
	char *end;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' ||
	    !(is_size ? multiplier_of(end, &multiplier) : *end == '\0'))
		return command_complain(parser->command, COMMAND_USAGE,
					"--%s: '%s' is no %s; expected %s (is its value missing?)",
					row->name, value, is_size ? "size" : "number", row->range);
	if (errno == ERANGE || number > row->most / multiplier || number * multiplier < row->least)
		return command_complain(parser->command, COMMAND_USAGE,
					"--%s: %s is out of range; expected %s", row->name, value,
					row->range);
	*number_out = number * multiplier;
	return COMMAND_OK;
}

/* Whatever integer the member is: a row's range keeps within it. */
static void store_number(const struct parser *parser, const struct option_row *row,
			 unsigned long long number)
{
	char *member = (char *)parser->arguments + row->offset;

	switch (row->width) {
	case sizeof(uint64_t):
		*(uint64_t *)(void *)member = number;
		break;
	case sizeof(uint32_t):
		*(uint32_t *)(void *)member = (uint32_t)number;
		break;
	default:
		abort();
	}
}

static int store_text(const struct parser *parser, const struct option_row *row, const char *value)
{
	char *member = (char *)parser->arguments + row->offset;

	*(const char **)(void *)member = value;
	return COMMAND_OK;
}

static int take_value(struct parser *parser, int index, const char *value)
{
	const struct option_row *row = parser->rows[index];
	int is_again = parser->is_given[index]++;
	unsigned long long number = 1;
	int status = COMMAND_OK;

	if (row->take)
		return row->take(parser->command, row, parser->arguments, value);
	switch (row->kind) {
	case OPTION_TEXT:
		return store_text(parser, row, value);
	case OPTION_FILE:
		if (is_again)
			return command_complain(parser->command, COMMAND_USAGE,
						"--%s is given twice", row->name);
		if (!*value)
			return command_complain(parser->command, COMMAND_USAGE,
						"--%s needs %s, not an empty name", row->name,
						row->value);
		return store_text(parser, row, value);
	case OPTION_CHOICE:
		status = take_choice(parser, row, value, &number);
		break;
	case OPTION_NUMBER:
	case OPTION_SIZE:
		status = take_number(parser, row, value, &number);
		break;
	case OPTION_FLAG:
		break;
	}
	if (status == COMMAND_OK)
		store_number(parser, row, number);
	return status;
}

/* ---- what cannot be parsed ---------------------------------------------------------------------- */

/* The names that a word begins, as getopt_long would complete it. Returns how many. */
static int list_begun(const struct parser *parser, const char *word, FILE *to)
{
	int count = 0, i;

	for (i = 0; i < parser->row_count; i++)
		if (strncmp(parser->rows[i]->name, word, strlen(word)) == 0)
			fprintf(to, "%s--%s", count++ ? ", " : "", parser->rows[i]->name);
	return count;
}

static int complain_of_long(const struct parser *parser, const char *given)
{
	struct nearest nearest;
	char word[64], *list = NULL;
	size_t list_bytes;
	int begun = 0, i;
	FILE *to;

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(given + 2, "="), given + 2);
	to = open_memstream(&list, &list_bytes);
	if (to) {
		begun = list_begun(parser, word, to);
		fclose(to);
	}
	if (begun > 1)
		(void)command_complain(parser->command, COMMAND_USAGE,
				       "'%s' may be any of %s; say which", given, list);
	free(list);
	if (begun > 1)
		return COMMAND_USAGE;
	nearest = (struct nearest)NEAREST_TO(word);
	for (i = 0; i < parser->row_count; i++)
		nearest_consider(&nearest, parser->rows[i]->name);
	if (nearest.word)
		return command_complain(parser->command, COMMAND_USAGE,
					"unknown option '%s'; did you mean --%s?", given,
					nearest.word);
	return command_complain(parser->command, COMMAND_USAGE,
				"unknown option '%s'; see ringsum %s --help", given,
				parser->command->name);
}

/* getopt_long sets optopt to the val or letter that it knows, to the letter it does not, or 0. */
static int complain_of_option(const struct parser *parser, int is_value_missing, const char *given)
{
	const struct option_row *row = parser->rows[row_index(parser, optopt)];

	if (is_value_missing)
		return command_complain(parser->command, COMMAND_USAGE,
					"--%s needs a value: %s; see ringsum %s --help", row->name,
					row->value, parser->command->name);
	if (optopt >= FIRST_VAL)
		return command_complain(parser->command, COMMAND_USAGE, "--%s takes no value",
					row->name);
	if (optopt)
		return command_complain(parser->command, COMMAND_USAGE,
					"unknown option '-%c'; see ringsum %s --help", optopt,
					parser->command->name);
	return complain_of_long(parser, given);
}

int arguments_parse(const struct command *command, int argc, char **argv, void *arguments,
		    struct operands *operands_out)
{
	int option, index, status = COMMAND_OK;
	struct parser parser;

	set_up(&parser, command, arguments);
	optind = 0; /* begin anew, whatever was parsed before */
	opterr = 0;
	while (status == COMMAND_OK &&
	       (option = getopt_long(argc, argv, parser.letters, parser.options, NULL)) != -1) {
		if (option == ':' || option == '?')
			return complain_of_option(&parser, option == ':', argv[optind - 1]);
		index = row_index(&parser, option);
		if (parser.rows[index] == help_rows)
			return command_help(command);
		status = take_value(&parser, index, optarg);
	}
	operands_out->words = argv + optind;
	operands_out->count = argc - optind;
	return status == COMMAND_OK ? ARGUMENTS_GOOD : status;
}
