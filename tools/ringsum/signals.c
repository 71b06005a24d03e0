/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers, which note what came and wake whoever waits for the descriptor. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP };

/* Free of locks, so good for handlers; and other threads than theirs look at them. */
static atomic_int stop_signal, is_line_wanted, is_resumed;
static atomic_int event_fd = -1;

/* A copy that nobody frees while a handler may look at it. */
static _Atomic(char *) path_to_remove;

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2, "handlers use them");

void signals_wake(void)
{
	static const uint64_t one = 1;
	int saved_errno = errno, fd = event_fd;

	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
	errno = saved_errno;
}

void signals_drain(void)
{
	uint64_t count;

	if (event_fd >= 0)
		(void)!read(event_fd, &count, sizeof(count));
}

void signals_remove_now(void)
{
	const char *path = path_to_remove;

	if (path)
		unlink(path);
}

static void on_stop(int number);

void signals_end_at_once(void)
{
	struct sigaction before;
	size_t i;

	for (i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
		if (sigaction(stop_signals[i], NULL, &before) == 0 && before.sa_handler == on_stop)
			signal(stop_signals[i], SIG_DFL);
}

/*
 * After the first one the system itself ends the process, unless there is something to be removed
 * first; the signal stays blocked until the handler returns, and ends the process then.
 */
static void on_stop(int number)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&stop_signal, &none, number)) {
		if (!path_to_remove)
			signals_end_at_once();
		signals_wake();
		return;
	}
	signals_remove_now();
	signal(number, SIG_DFL);
	raise(number);
}

static void on_other(int number)
{
	if (number == SIGUSR1)
		is_line_wanted = 1;
	if (number == SIGCONT)
		is_resumed = 1;
	signals_wake();
}

static void catch (int number, void (*handler)(int), int is_ignorable)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, before;

	sigemptyset(&action.sa_mask);
	/* What was ignored from the start, as under nohup, stays ignored. */
	if (is_ignorable && (sigaction(number, NULL, &before) != 0 || before.sa_handler == SIG_IGN))
		return;
	sigaction(number, &action, NULL);
}

int signals_catch(void)
{
	size_t i;

	event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	for (i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
		catch (stop_signals[i], on_stop, 1);
	catch (SIGUSR1, on_other, 0);
	catch (SIGCONT, on_other, 1);
	catch (SIGWINCH, on_other, 1);
	return event_fd;
}

int signals_stop_wanted(void)
{
	return stop_signal;
}

int signals_take_line(void)
{
	return atomic_exchange(&is_line_wanted, 0);
}

int signals_take_resumed(void)
{
	return atomic_exchange(&is_resumed, 0);
}

void signals_remove_at_death(const char *path)
{
	/* What it was before is not freed: a handler may be at it. It is one name. */
	path_to_remove = path ? strdup(path) : NULL;
}
