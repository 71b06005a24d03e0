/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter in plain BPF that lets some system calls fail. For the calling thread. */
#ifndef FAULTS_SECCOMP_FILTER_H
#define FAULTS_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Three calls, which may be the same, fail with os_errno from now on. Returns 0 or -1. */
static inline int seccomp_forbid(const unsigned calls[3], unsigned os_errno)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[0], 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[1], 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[2], 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (os_errno & SECCOMP_RET_DATA)),
	};
	struct sock_fprog program = {
		.len = (unsigned short)(sizeof(filter) / sizeof(filter[0])),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#endif
