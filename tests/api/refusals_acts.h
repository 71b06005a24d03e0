/* SPDX-License-Identifier: Apache-2.0 */
/* What no replaced text can break is broken here; the tables name these by function. */
#ifndef TESTS_API_REFUSALS_ACTS_H
#define TESTS_API_REFUSALS_ACTS_H

#include "refusals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- acts on disk: to the file `where` ------------------------------------------------------- */

static void remove_file(const struct drafter *d, const struct refusal *refusal)
{
	drafter_remove(drafter_path(d, refusal->where));
}

static void write_text(const struct drafter *d, const struct refusal *refusal)
{
	drafter_put(d, refusal->where, refusal->argument, strlen(refusal->argument));
}

static void write_zeros(const struct drafter *d, const struct refusal *refusal)
{
	void *zeros = calloc(1, refusal->number);

	assert_non_null(zeros);
	remove_file(d, refusal);
	drafter_put(d, refusal->where, zeros, refusal->number);
	free(zeros);
}

/* The argument's bytes, then zeros to the size that the file had. */
static void write_padded(const struct drafter *d, const struct refusal *refusal)
{
	const char *path = drafter_path(d, refusal->where);
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	drafter_put(d, refusal->where, refusal->argument, refusal->number);
	assert_int_equal(truncate(path, status.st_size), 0);
}

static void write_length(const struct drafter *d, const struct refusal *refusal)
{
	uint64_t length = refusal->number;
	uint8_t bytes[8];
	size_t i;

	for (i = 0; i < sizeof(bytes); i++, length >>= 8)
		bytes[i] = (uint8_t)length;
	drafter_poke(d, refusal->where, 0, bytes, sizeof(bytes));
}

static void resize(const struct drafter *d, const char *file, int64_t by)
{
	struct stat status;

	assert_int_equal(stat(drafter_path(d, file), &status), 0);
	assert_int_equal(truncate(drafter_path(d, file), status.st_size + by), 0);
}

static void cut_file(const struct drafter *d, const struct refusal *refusal)
{
	resize(d, refusal->where, -(int64_t)refusal->number);
}

static void extend_file(const struct drafter *d, const struct refusal *refusal)
{
	resize(d, refusal->where, (int64_t)refusal->number);
}

static void cut_to(const struct drafter *d, const struct refusal *refusal)
{
	assert_int_equal(truncate(drafter_path(d, refusal->where), (off_t)refusal->number), 0);
}

static void put_fifo(const struct drafter *d, const struct refusal *refusal)
{
	remove_file(d, refusal);
	assert_int_equal(mkfifo(drafter_path(d, refusal->where), 0600), 0);
}

static void put_directory(const struct drafter *d, const struct refusal *refusal)
{
	remove_file(d, refusal);
	assert_int_equal(mkdir(drafter_path(d, refusal->where), 0700), 0);
}

static void put_socket(const struct drafter *d, const struct refusal *refusal)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	remove_file(d, refusal);
	assert_true(fd >= 0);
	assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s",
			     drafter_path(d, refusal->where)) < (int)sizeof(address.sun_path));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

/* Moves it beside the root, and leaves a link that would find it there. */
static void leave_link(const struct drafter *d, const struct refusal *refusal, const char *target)
{
	char outside[128];

	snprintf(outside, sizeof(outside), "%s/outside", d->base);
	assert_int_equal(rename(drafter_path(d, refusal->where), outside), 0);
	assert_int_equal(symlink(target, drafter_path(d, refusal->where)), 0);
	assert_int_equal(access(drafter_path(d, refusal->where), R_OK), 0);
}

static void move_out(const struct drafter *d, const struct refusal *refusal)
{
	leave_link(d, refusal, "../outside");
}

static void move_out_absolute(const struct drafter *d, const struct refusal *refusal)
{
	char outside[128];

	snprintf(outside, sizeof(outside), "%s/outside", d->base);
	leave_link(d, refusal, outside);
}

static void link_absolute(const struct drafter *d, const struct refusal *refusal)
{
	assert_int_equal(rename(drafter_path(d, refusal->where), drafter_path(d, "more/elsewhere")),
			 0);
	assert_int_equal(
		symlink(drafter_path(d, "more/elsewhere"), drafter_path(d, refusal->where)), 0);
}

static void link_instead(const struct drafter *d, const struct refusal *refusal, const char *target)
{
	remove_file(d, refusal);
	assert_int_equal(symlink(target, drafter_path(d, refusal->where)), 0);
}

static void link_to_itself(const struct drafter *d, const struct refusal *refusal)
{
	link_instead(d, refusal, refusal->where);
}

static void link_to_nothing(const struct drafter *d, const struct refusal *refusal)
{
	link_instead(d, refusal, "more/nothing");
}

static void link_to_proc(const struct drafter *d, const struct refusal *refusal)
{
	link_instead(d, refusal, "/proc/self/exe");
}

/* The last blanks of the header become NUL, as some writers pad. */
static void pad_header_with_nul(const struct drafter *d, const struct refusal *refusal)
{
	static const char nul[16];

	drafter_poke(d, refusal->where, 8 + d->shards[0].header_bytes - sizeof(nul), nul,
		     sizeof(nul));
}

/* ---- acts in memory: to the tensor `where` --------------------------------------------------- */

static uint8_t *bytes_of(const struct drafter *d, const char *tensor)
{
	size_t index = drafter_find(d, tensor);

	return d->shards[d->shard_of[index]].data + d->data_begin[index];
}

static void flip_byte(struct drafter *d, const struct refusal *refusal)
{
	bytes_of(d, refusal->where)[refusal->number] ^= 0x10;
}

static void zero_tensor(struct drafter *d, const struct refusal *refusal)
{
	memset(bytes_of(d, refusal->where), 0,
	       d->tensors[drafter_find(d, refusal->where)].size_bytes);
}

static void swap_bytes(struct drafter *d, const struct refusal *refusal)
{
	size_t i, size_bytes = d->tensors[drafter_find(d, refusal->where)].size_bytes;
	uint8_t *a = bytes_of(d, refusal->where), *b = bytes_of(d, refusal->argument);

	for (i = 0; i < size_bytes; i++) {
		uint8_t byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

static void change_marker(struct drafter *d, const struct refusal *refusal)
{
	unsigned i;

	for (i = 0; i < 4; i++)
		bytes_of(d, refusal->where)[i] = (uint8_t)(refusal->number >> (8 * i));
	drafter_promise_again(d, refusal->where);
}

static void drop_entry(struct drafter *d, const struct refusal *refusal)
{
	drafter_drop_entry(d, refusal->where);
}

static void repeat_entry(struct drafter *d, const struct refusal *refusal)
{
	char begin[96], twice[512], *entry;

	snprintf(begin, sizeof(begin), "{\"name\": \"%s\"", refusal->where);
	entry = strstr(d->manifest, begin);
	assert_non_null(entry);
	snprintf(twice, sizeof(twice), "[\n%.*s,", (int)(strchr(entry, '}') + 1 - entry), entry);
	d->manifest = document_edit(d->manifest, "\"tensors\"", "[", twice);
}

static void make_path_absolute(struct drafter *d, const struct refusal *refusal)
{
	d->manifest = document_edit_entry(d->manifest, refusal->where, DRAFTER_SHARD_0,
					  drafter_path(d, DRAFTER_SHARD_0));
}

static void make_path_long(struct drafter *d, const struct refusal *refusal)
{
	char name[5000];

	memset(name, 'x', refusal->number);
	name[refusal->number] = '\0';
	d->manifest = document_edit_entry(d->manifest, refusal->where, DRAFTER_SHARD_0, name);
}

static void move_range(struct drafter *d, const struct refusal *refusal)
{
	size_t tensor = drafter_find(d, refusal->where);
	uint64_t begin = drafter_begin(d, tensor) + refusal->number;
	char range[128];

	snprintf(range, sizeof(range), "\"destination_byte_range\": [%llu, %llu], \"none\": [",
		 (unsigned long long)begin,
		 (unsigned long long)(begin + d->tensors[tensor].size_bytes));
	d->manifest = document_edit_entry(d->manifest, refusal->where,
					  "\"destination_byte_range\": [", range);
}

static void swap_in_header(struct drafter *d, const struct refusal *refusal)
{
	char a[96], b[96];

	snprintf(a, sizeof(a), "\"%s\"", refusal->where);
	snprintf(b, sizeof(b), "\"%s\"", refusal->argument);
	drafter_edit_header(d, 0, NULL, a, "\"\x01\"");
	drafter_edit_header(d, 0, NULL, b, a);
	drafter_edit_header(d, 0, NULL, "\"\x01\"", b);
}

#endif
