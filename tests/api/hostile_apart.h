/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies a delivery in a process of its own, whose peak memory and time are measured. */
#ifndef TESTS_API_HOSTILE_APART_H
#define TESTS_API_HOSTILE_APART_H

#include "drafter.h"
#include "hostile_texts.h"
#include "ringsum.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HANG_SECONDS 120 /* no answer by then is none */

#define SLACK_KIB 2048 /* for what does not grow with the document */

static struct drafter drafter;
static unsigned failure_count;
static long baseline_kib; /* peak of a process that verifies next to nothing */

struct expectation {
	int result;
	enum ringsum_finding_code code;
	const char *says; /* part of a finding's message, expected or actual; NULL: any */
	enum ringsum_profile profile;
	int strict;
	uint64_t identical; /* tensors */
};

static bool is_said(const struct ringsum_finding *finding, const char *text)
{
	return strstr(finding->message, text) ||
	       (finding->expected && strstr(finding->expected, text)) ||
	       (finding->actual && strstr(finding->actual, text));
}

static bool is_found(const struct ringsum_report *report, const struct expectation *expected)
{
	const struct ringsum_finding *finding;
	size_t i;

	for (i = 0; (finding = ringsum_report_finding_at(report, i)); i++)
		if (finding->code == expected->code && finding->severity != RINGSUM_SEVERITY_NOTE &&
		    is_said(finding, expected->says))
			return true;
	return false;
}

static int verify(const struct expectation *expected, struct ringsum_report **report_out,
		  struct ringsum_error *err)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	options.profile = expected->profile;
	options.strict = expected->strict;
	options.engine = RINGSUM_ENGINE_PREAD;
	options.direct = RINGSUM_DIRECT_OFF;
	options.memory_bytes = 1 << 20;
	options.chunk_bytes = 65536;
	options.threads = 1;
	return ringsum_verify_path(drafter.root, &options, report_out, err);
}

/* The life of the process; what it says is for a failure. */
static void verify_and_exit(const char *name, const struct expectation *expected)
{
	struct ringsum_report *report = NULL;
	struct ringsum_totals totals;
	struct ringsum_error err;
	int result;

	alarm(HANG_SECONDS);
	result = verify(expected, &report, &err);
	ringsum_report_totals(report, &totals);
	if (result != expected->result)
		fprintf(stderr, "%s: result %d, expected %d: %s\n", name, result, expected->result,
			err.message);
	else if (expected->says && !is_found(report, expected))
		fprintf(stderr, "%s: no finding %s with \"%s\"; the first: %s\n", name,
			ringsum_finding_code_name(expected->code), expected->says, err.message);
	else if (totals.tensors_identical != expected->identical)
		fprintf(stderr, "%s: %llu tensors identical\n", name,
			(unsigned long long)totals.tensors_identical);
	else
		_exit(0);
	_exit(1);
}

/* So that one fault does not hide the next. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprint_error(format, args);
	va_end(args);
	print_error("\n");
	failure_count++;
}

static void assert_no_complaint(void)
{
	unsigned count = failure_count;

	failure_count = 0;
	assert_int_equal(count, 0);
}

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* Returns the peak of memory in KiB beyond the baseline. */
static long verify_apart(const char *name, const struct expectation *expected, size_t size_bytes)
{
	struct rusage usage;
	int status;
	pid_t pid, waited;
	long peak_kib;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		verify_and_exit(name, expected);
	do
		waited = wait4(pid, &status, 0, &usage);
	while (waited < 0 && errno == EINTR);
	assert_int_equal(waited, pid);
	if (WIFSIGNALED(status))
		complain("%s: ended by signal %d", name, WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		complain("%s: not as expected", name);
	peak_kib = usage.ru_maxrss - baseline_kib;
	if (size_bytes > 0)
		print_message("# %s: %zu KiB, peak %ld KiB (%.2f times), %.2f s\n", name,
			      size_bytes >> 10, peak_kib,
			      (double)peak_kib * 1024 / (double)size_bytes,
			      seconds(&usage.ru_utime) + seconds(&usage.ru_stime));
	return peak_kib;
}

static void verify_within(const char *name, const struct expectation *expected, size_t size_bytes,
			  long limit_kib)
{
	long peak_kib = verify_apart(name, expected, size_bytes);

	if (!IS_SANITIZED && peak_kib > limit_kib)
		complain("%s: peak memory of %ld KiB where %ld KiB are allowed", name, peak_kib,
			 limit_kib);
}

/* Three times the document, whatever it is. */
static void verify_large(const char *name, const struct expectation *expected, size_t size_bytes)
{
	verify_within(name, expected, size_bytes, (long)(size_bytes >> 10) * 3 + SLACK_KIB);
}

/* Nothing that is worth memory. */
static void verify_small(const char *name, const struct expectation *expected)
{
	verify_within(name, expected, 0, SLACK_KIB);
}

#endif
