/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges two names of a directory as fast as it can, and tells whether someone opened or read a
 * file that must not be reached meanwhile.
 *
 * usage: swing COUNT ONE OTHER FORBIDDEN STOP
 *
 * ONE and OTHER are exchanged at least COUNT times, and until there is a file STOP; afterwards ONE
 * is what it was. FORBIDDEN is the file to watch. Exit status 0 where nobody touched it, 1 where
 * somebody did.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define ROUND 500 /* swings between two looks for STOP */

static void die(const char *what)
{
	fprintf(stderr, "swing: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void swing(const char *one, const char *other)
{
	if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) != 0)
		die(one);
}

/* How often the file was opened or read. */
static unsigned count_touches(int watch_fd)
{
	_Alignas(struct inotify_event) char events[4096];
	unsigned count = 0;
	ssize_t got, at;

	while ((got = read(watch_fd, events, sizeof(events))) > 0) {
		for (at = 0; at < got; count++)
			at += (ssize_t)sizeof(struct inotify_event) +
			      ((const struct inotify_event *)(const void *)(events + at))->len;
	}
	return count;
}

int main(int argc, char **argv)
{
	unsigned long least, swings = 0;
	unsigned touches;
	int watch_fd, i;

	if (argc != 6) {
		fprintf(stderr, "usage: swing COUNT ONE OTHER FORBIDDEN STOP\n");
		return 2;
	}
	least = strtoul(argv[1], NULL, 10);
	watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (watch_fd < 0 || inotify_add_watch(watch_fd, argv[4], IN_OPEN | IN_ACCESS) < 0)
		die(argv[4]);
	while (swings < least || access(argv[5], F_OK) != 0)
		for (i = 0; i < ROUND; i++, swings += 2) {
			swing(argv[2], argv[3]);
			swing(argv[2], argv[3]);
		}
	touches = count_touches(watch_fd);
	printf("%lu swings; what must not be reached was touched %u times\n", swings, touches);
	return touches != 0;
}
