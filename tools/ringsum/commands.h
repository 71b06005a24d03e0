/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of ringsum and their exit statuses. argv[0] is the command's own name. */
#ifndef RINGSUM_TOOL_COMMANDS_H
#define RINGSUM_TOOL_COMMANDS_H

enum command_status {
	COMMAND_OK = 0,	       /* identical, or structurally valid */
	COMMAND_REFUSED = 1,   /* something differs from the promise */
	COMMAND_USAGE = 2,     /* the arguments are wrong; nothing was done */
	COMMAND_UNDECIDED = 3, /* not everything could be read or written */
};

int cmd_verify(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_extract(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_sign(int argc, char **argv);

/* Each command's table of what it takes; see arguments.h. */
struct command;
extern const struct command command_verify;
extern const struct command command_inspect;
extern const struct command command_extract;
extern const struct command command_bench;
extern const struct command command_sign;

#endif
