/* SPDX-License-Identifier: Apache-2.0 */
/* Direct reads of a few bytes, by way of an aligned piece of memory. */
#include "uncached.h"

#include "confine.h"
#include "rsum_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* No common device asks for more; one that does answers EINVAL, and is read through the cache. */
#define ALIGNMENT ((size_t)4096)
#define PIECE_BYTES ((size_t)1 << 20)

/* A read may come short for any reason; so often in a row without getting on, the file ends there. */
#define SHORT_READS_MAX 8

/* One read of some bytes in the middle of a file. */
struct window {
	int fd;
	uint8_t *piece; /* aligned */
	size_t piece_bytes;
	uint64_t at; /* aligned: where the next piece begins */
	uint64_t begin, end;
	uint8_t *out;	      /* begin is there */
	unsigned short_reads; /* in a row, none of which filled an aligned part */
};

static bool is_refusal(int os_errno)
{
	return os_errno == EINVAL || os_errno == EOPNOTSUPP;
}

/* Reads the next piece and takes what is wanted of it. Returns 0 or a negative errno. */
static int read_piece(struct window *window)
{
	uint64_t left = rsum_align_up(window->end, ALIGNMENT) - window->at, from, to;
	ssize_t got;

	do
		got = pread(window->fd, window->piece, (size_t)RSUM_MIN(left, window->piece_bytes),
			    (off_t)window->at);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	from = RSUM_MAX(window->at, window->begin);
	to = RSUM_MIN(window->at + (uint64_t)got, window->end);
	if (to > from)
		memcpy(window->out + (from - window->begin), window->piece + (from - window->at),
		       (size_t)(to - from));
	/* Goes on where it is aligned, since direct reads begin nowhere else. */
	window->at += to == window->end ? (uint64_t)got : rsum_align_down((uint64_t)got, ALIGNMENT);
	window->short_reads = (size_t)got < ALIGNMENT ? window->short_reads + 1 : 0;
	if (window->at < window->end && (got == 0 || window->short_reads == SHORT_READS_MAX))
		return -ENODATA;
	return 0;
}

static int read_window(struct window *window)
{
	uint8_t *memory;
	int result = 0;

	window->at = window->begin - window->begin % ALIGNMENT;
	window->piece_bytes =
		(size_t)RSUM_MIN(rsum_align_up(window->end, ALIGNMENT) - window->at, PIECE_BYTES);
	memory = malloc(window->piece_bytes + ALIGNMENT);
	if (!memory)
		return -ENOMEM;
	window->piece = memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT) % ALIGNMENT;
	while (window->at < window->end && result == 0)
		result = read_piece(window);
	free(memory);
	return result;
}

static int read_at_uncached(int fd, uint64_t offset, void *buffer, size_t size_bytes)
{
	struct window window = { .fd = fd, .begin = offset, .out = buffer };
	int flags = fcntl(fd, F_GETFL), result;

	if (!rsum_add_u64(offset, size_bytes, &window.end) || window.end > RSUM_LIMIT_FILE_OFFSET)
		return -EINVAL;
	if (size_bytes == 0)
		return 0;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
		return rsum_file_read_at(fd, offset, buffer, size_bytes);
	result = read_window(&window);
	if (fcntl(fd, F_SETFL, flags) != 0 && result == 0)
		result = -errno;
	if (is_refusal(-result))
		result = rsum_file_read_at(fd, offset, buffer, size_bytes);
	return result;
}

int rsum_uncached_read_at(int fd, bool is_uncached, uint64_t offset, void *buffer,
			  size_t size_bytes)
{
	return (is_uncached ? read_at_uncached : rsum_file_read_at)(fd, offset, buffer, size_bytes);
}

int rsum_uncached_read_all(int fd, bool is_uncached, uint64_t limit_bytes, char **text_out,
			   size_t *size_bytes_out)
{
	return rsum_file_read_all_by(is_uncached ? read_at_uncached : rsum_file_read_at, fd,
				     limit_bytes, text_out, size_bytes_out);
}
