/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the Nth allocation, or the Nth system call, of the library fail. Whoever links this needs
 * the linker's --wrap for each function in failures_wrap.txt.
 */
#ifndef TESTS_SUPPORT_FAILURES_H
#define TESTS_SUPPORT_FAILURES_H

#include <errno.h>
#include <stdbool.h>

enum failure_kind {
	FAILURE_MEMORY, /* malloc and its like, json-c's and libcrypto's objects, mmap */
	FAILURE_CALL,	/* files, rings, threads */
};

/* Lets libcrypto's allocations be counted too; before anything else uses it. */
void failures_install(void);

/* From now on the nth of its kind fails with that errno (0: none does); `lasting`: all after it. */
void failures_arm(enum failure_kind kind, unsigned nth, int os_errno, bool is_lasting);

/* Just before the nth call this is done, which then goes on; it makes no call that is counted. */
void failures_arm_act(unsigned nth, void (*act)(void));

/* Ends it. Returns whether anything failed. */
bool failures_disarm(void);

/* As on a kernel without openat2; such a call is not counted. */
void failures_deny_openat2(bool is_denied);

/* While paused nothing is counted and nothing fails. */
void failures_pause(bool is_paused);

/* What failed, for a message, in a static buffer. */
const char *failures_describe(void);

#endif
