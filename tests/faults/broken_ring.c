/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring that breaks while reads into the caller's memory are under way. Loads one tensor of a
 * checkpoint on a file system that holds such reads back; at the first progress io_uring_enter is
 * forbidden, so that no completion can be fetched any more. Whatever the load says then, nothing
 * may be written to the destination once it returned.
 *
 * usage: broken_ring CHECKPOINT TENSOR CONTROL
 *
 * CONTROL is the control file of faultfs; emptying it lets the reads go on.
 */
#include "ringsum.h"
#include "seccomp_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *control_path;
static char log_path[4096];
static atomic_int is_released, has_struck;

static void sleep_ms(long milliseconds)
{
	const struct timespec wait = {
		.tv_sec = milliseconds / 1000,
		.tv_nsec = milliseconds % 1000 * 1000000,
	};

	nanosleep(&wait, NULL);
}

static void die(const char *what)
{
	fprintf(stderr, "broken_ring: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Waits until the file system says that it holds a read. */
static int on_progress(void *arg, const struct ringsum_progress *progress)
{
	static const unsigned calls[3] = { SYS_io_uring_enter, SYS_io_uring_enter,
					   SYS_io_uring_enter };
	int attempt;

	(void)arg;
	(void)progress;
	if (has_struck)
		return 0;
	for (attempt = 0; attempt < 500 && access(log_path, F_OK) != 0; attempt++)
		sleep_ms(10);
	if (access(log_path, F_OK) != 0)
		die("no read was held back");
	has_struck = 1;
	if (seccomp_forbid(calls, EPERM) != 0)
		die("the filter was refused");
	return 0;
}

/* Long after a load that does not wait would have returned. */
static void *release_later(void *arg)
{
	int fd;

	(void)arg;
	while (!has_struck)
		sleep_ms(10);
	sleep_ms(700);
	is_released = 1;
	fd = open(control_path, O_WRONLY | O_TRUNC);
	if (fd < 0)
		die(control_path);
	close(fd);
	return NULL;
}

static size_t count_written(const unsigned char *memory, size_t size_bytes)
{
	size_t count = 0, i;

	for (i = 0; i < size_bytes; i++)
		count += memory[i] != 0;
	return count;
}

static int load(struct ringsum_checkpoint *checkpoint, const char *name)
{
	struct ringsum_load one = { .tensor = ringsum_checkpoint_find(checkpoint, name) };
	struct ringsum_error err = { 0 };
	void *block = NULL;
	size_t block_bytes = 0, written;
	int result, was_released;

	if (!one.tensor || ringsum_block_alloc(checkpoint, &one, 1, &block, &block_bytes, &err))
		die("no such tensor, or no memory");
	result = ringsum_checkpoint_load(checkpoint, &one, 1, NULL, &err);
	was_released = is_released;
	printf("load returned %d (%s), %s its reads went on\n", result, err.message,
	       was_released ? "after" : "before");
	while (!is_released)
		sleep_ms(10);
	sleep_ms(500);
	written = count_written(one.destination, (size_t)one.tensor->size_bytes);
	printf("written to the destination after that: %zu of %llu bytes\n", written,
	       (unsigned long long)one.tensor->size_bytes);
	ringsum_block_free(block, block_bytes);
	return !(has_struck && result == RINGSUM_E_UNDECIDED && written == 0);
}

int main(int argc, char **argv)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_error err = { 0 };
	pthread_t releaser;
	int status;

	if (argc != 4) {
		fprintf(stderr, "usage: broken_ring CHECKPOINT TENSOR CONTROL\n");
		return 2;
	}
	control_path = argv[3];
	snprintf(log_path, sizeof(log_path), "%s.log", control_path);
	options.engine = RINGSUM_ENGINE_IO_URING;
	options.chunk_bytes = 65536;
	options.progress = on_progress;
	if (ringsum_checkpoint_open(argv[1], &options, &checkpoint, NULL, &err) != RINGSUM_OK) {
		fprintf(stderr, "broken_ring: %s\n", err.message);
		return err.code == RINGSUM_E_IO ? 77 : 1;
	}
	if (pthread_create(&releaser, NULL, release_later, NULL) != 0)
		die("no thread");
	status = load(checkpoint, argv[2]);
	pthread_join(releaser, NULL);
	ringsum_checkpoint_close(checkpoint);
	return status;
}
