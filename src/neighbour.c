/* SPDX-License-Identifier: Apache-2.0 */
/* Being a good neighbour. */
#include "neighbour.h"

#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE_LOWEST 19

unsigned rsum_idle_io_priority(void)
{
	return IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
}

void rsum_thread_make_idle(void)
{
	/* On Linux both are of the thread alone, where 0 stands for the one that calls. */
	(void)setpriority(PRIO_PROCESS, 0, NICE_LOWEST);
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, rsum_idle_io_priority());
}
