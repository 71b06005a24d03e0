/* SPDX-License-Identifier: Apache-2.0 */
/* ringsum: the table of commands. */
#include "ringsum.h"
#include "commands.h"
#include "output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{ "verify", cmd_verify },
	{ "inspect", cmd_inspect },
	{ "extract", cmd_extract },
	{ "bench", cmd_bench },
};

static const char usage[] =
	"usage: ringsum COMMAND [options] PATH...\n"
	"\n"
	"  verify PATH...          is this checkpoint what was promised?\n"
	"  inspect PATH            what is in it: a table of tensors, or --json\n"
	"  extract PATH TENSOR...  verified bytes of tensors, or a NumPy file\n"
	"  bench PATH              what limits this host: raw read, hash, verify, load\n"
	"  help COMMAND            the options of a command, as COMMAND --help\n"
	"\n"
	"ringsum --version tells the version.\n"
	"\n"
	"Exit status: 0 identical (inspect: valid); 1 refused: something differs from\n"
	"the promise; 2 wrong usage; 3 undecided: something could not be read and\n"
	"nothing was found different.\n";

static int say(const char *text)
{
	struct ringsum_error err = { 0 };

	if (output_write_all("-", text, &err) == RINGSUM_OK)
		return COMMAND_OK;
	fprintf(stderr, "ringsum: %s\n", err.message);
	return COMMAND_UNDECIDED;
}

static int say_version(void)
{
	char text[64];

	snprintf(text, sizeof(text), "ringsum %s\n", ringsum_version());
	return say(text);
}

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* `ringsum help COMMAND` is `ringsum COMMAND --help`. */
static int help_on(char *name)
{
	const struct command *command = find_command(name);
	char option[] = "--help";
	char *argv[] = { name, option, NULL };

	if (command)
		return command->run(2, argv);
	fprintf(stderr, "ringsum: unknown command '%s'; see ringsum --help\n", name);
	return COMMAND_USAGE;
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
}

int main(int argc, char **argv)
{
	const struct command *command;

	prepare_process();
	if (argc < 2) {
		fputs(usage, stderr);
		return COMMAND_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return say(usage);
	if (strcmp(argv[1], "--version") == 0)
		return say_version();
	if (strcmp(argv[1], "help") == 0)
		return argc > 2 ? help_on(argv[2]) : say(usage);
	command = find_command(argv[1]);
	if (command)
		return command->run(argc - 1, argv + 1);
	fprintf(stderr, "ringsum: unknown command '%s'; see ringsum --help\n", argv[1]);
	return COMMAND_USAGE;
}
