/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum: the table of commands. */
#include "ringsum.h"
#include "arguments.h"
#include "commands.h"
#include "nearest.h"
#include "output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
	&command_verify,
	&command_inspect,
	&command_extract,
	&command_bench,
	&command_sign,
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void tell_usage(FILE *to)
{
	size_t i;

	fputs("usage: ringsum COMMAND [options] PATH...\n\n", to);
	for (i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-8s%-16s%s\n", commands[i]->name, commands[i]->operands,
			commands[i]->summary);
	fprintf(to, "  %-8s%-16s%s\n\n", "help", "COMMAND",
		"the options of a command, as COMMAND --help");
	help_wrap(
		to, 0, 0,
		"ringsum --version tells the versions of it and of what it stands on, and what it "
		"would use here; ringsum --facts tells commands and options as a table for "
		"programs.\n\n"
		"Exit status: 0 identical (inspect: valid); 1 refused: something differs from the "
		"promise; 2 wrong usage; 3 undecided: something could not be read and nothing was "
		"found different.");
}

/* Where there is no memory for more, the version itself is told all the same. */
static void tell_version(FILE *to)
{
	char *text = NULL;

	if (ringsum_system_to_text(&text, NULL) == RINGSUM_OK)
		fputs(text, to);
	else
		fprintf(to, "ringsum %s\n", ringsum_version());
	ringsum_free(text);
}

/* Commands and their options; what stands in place of a command has none. */
static void tell_facts(FILE *to)
{
	size_t i;

	for (i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "command\t%s\t%s\n", commands[i]->name, commands[i]->operands);
	fputs("command\thelp\tCOMMAND\n"
	      "option\t\t--help\tflag\t\n"
	      "option\t\t-h\tflag\t\n"
	      "option\t\t--version\tflag\t\n"
	      "option\t\t--facts\tflag\t\n",
	      to);
	for (i = 0; i < COMMAND_COUNT; i++)
		command_facts(to, commands[i]);
}

/* All of it to standard output, or a line on why not. */
static int say(void (*tell)(FILE *to))
{
	struct ringsum_error err = { .message = "out of memory" };
	char *text = NULL;
	size_t text_bytes;
	FILE *to = open_memstream(&text, &text_bytes);
	int status = COMMAND_UNDECIDED;

	if (to) {
		tell(to);
		if (fclose(to) == 0 && output_write_all("-", text, &err) == RINGSUM_OK)
			status = COMMAND_OK;
	}
	if (status != COMMAND_OK)
		fprintf(stderr, "ringsum: %s\n", err.message);
	free(text);
	return status;
}

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static int complain_of_command(const char *given)
{
	struct nearest nearest = NEAREST_TO(given);
	int is_option = given[0] == '-';
	size_t i;

	if (is_option) {
		nearest_consider(&nearest, "--help");
		nearest_consider(&nearest, "--version");
		nearest_consider(&nearest, "--facts");
	} else {
		for (i = 0; i < COMMAND_COUNT; i++)
			nearest_consider(&nearest, commands[i]->name);
		nearest_consider(&nearest, "help");
		nearest_consider(&nearest, "--version");
	}
	if (nearest.word)
		fprintf(stderr, "ringsum: unknown %s '%s'; did you mean ringsum %s?\n",
			is_option ? "option" : "command", given, nearest.word);
	else if (is_option)
		fprintf(stderr,
			"ringsum: unknown option '%s'; options stand behind the command; see "
			"ringsum --help\n",
			given);
	else if (access(given, F_OK) == 0)
		fprintf(stderr,
			"ringsum: '%s' is no command but a path; did you mean ringsum verify %s?\n",
			given, given);
	else
		fprintf(stderr, "ringsum: unknown command '%s'; see ringsum --help\n", given);
	return COMMAND_USAGE;
}

/* `ringsum help COMMAND` is `ringsum COMMAND --help`. */
static int help_on(int count, char **names)
{
	const struct command *command = count > 0 ? find_command(names[0]) : NULL;

	if (count > 1) {
		fprintf(stderr, "ringsum help: one COMMAND at a time, not also '%s'\n", names[1]);
		return COMMAND_USAGE;
	}
	if (command)
		return command_help(command);
	if (count == 0 || strcmp(names[0], "help") == 0 || strcmp(names[0], "--help") == 0 ||
	    strcmp(names[0], "-h") == 0)
		return say(tell_usage);
	return complain_of_command(names[0]);
}

/*
 * A standard descriptor that was closed by whoever started us must not become a shard's; opened
 * for reading it still tells whoever writes to it. A reader of our output that went away, or a
 * limit on file sizes, is an error to report, not a reason to die.
 */
static void prepare_process(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* Who asks too early how far it is gets no answer, and does not end it either. */
	signal(SIGUSR1, SIG_IGN);
}

int main(int argc, char **argv)
{
	const struct command *command;

	prepare_process();
	if (argc < 2) {
		tell_usage(stderr);
		return COMMAND_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return say(tell_usage);
	if (strcmp(argv[1], "--version") == 0)
		return say(tell_version);
	if (strcmp(argv[1], "--facts") == 0)
		return say(tell_facts);
	if (strcmp(argv[1], "help") == 0)
		return help_on(argc - 2, argv + 2);
	command = find_command(argv[1]);
	return command ? command->run(argc - 1, argv + 1) : complain_of_command(argv[1]);
}
