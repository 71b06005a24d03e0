/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of --limit-rate and --idle, and the process's own priorities. */
#include "neighbour.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INTO(member) OPTION_INTO(struct ringsum_options, member)

const struct option_row neighbour_option_rows[] = {
	{ "limit-rate", 0, OPTION_SIZE, "SIZE",
	  "read at most SIZE bytes a second, evenly, 64K to 1024G; default: no limit",
	  INTO(bytes_per_second_max), .least = 64 << 10, .most = 1ull << 40,
	  .range = "64K to 1024G" },
	{ "idle", 0, OPTION_FLAG, NULL, "make way for others: I/O of the idle class, nice 19",
	  INTO(idle) },
	{ .name = NULL },
};

void neighbour_make_idle(const struct ringsum_options *options, const struct command *command)
{
	unsigned idle = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);

	if (!options->idle)
		return;
	if (setpriority(PRIO_PROCESS, 0, 19) != 0)
		(void)command_complain(command, COMMAND_OK, "--idle: nice 19 was refused: %s",
				       strerror(errno));
	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, idle) != 0)
		(void)command_complain(command, COMMAND_OK,
				       "--idle: the idle class of I/O was refused: %s",
				       strerror(errno));
}
