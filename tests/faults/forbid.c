/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command that may not use some system calls, as in a container: those of io_uring, one or
 * all, or openat2.
 *
 *   forbid setup|enter|register|all|openat2 ERRNO COMMAND [ARGUMENT...]
 *
 * The filter is plain BPF, for this architecture's own calls.
 */
#include "seccomp_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned calls[3];
	} sets[] = {
		{ "setup", { SYS_io_uring_setup, SYS_io_uring_setup, SYS_io_uring_setup } },
		{ "enter", { SYS_io_uring_enter, SYS_io_uring_enter, SYS_io_uring_enter } },
		{ "register",
		  { SYS_io_uring_register, SYS_io_uring_register, SYS_io_uring_register } },
		{ "openat2", { SYS_openat2, SYS_openat2, SYS_openat2 } },
		{ "all", { SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register } },
	};
	size_t i;

	for (i = 0; argc >= 4 && i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (strcmp(argv[1], sets[i].name) != 0)
			continue;
		if (seccomp_forbid(sets[i].calls, (unsigned)atoi(argv[2])) != 0) {
			perror("forbid: the filter was refused");
			return 125;
		}
		execvp(argv[3], argv + 3);
		perror(argv[3]);
		return 127;
	}
	fprintf(stderr, "usage: forbid setup|enter|register|all|openat2 ERRNO COMMAND...\n");
	return 125;
}
