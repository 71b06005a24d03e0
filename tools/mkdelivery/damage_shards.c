/* SPDX-License-Identifier: Apache-2.0 */
/* Damage to the bytes of tensors and to shards as files. */
#include "mkdelivery.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void say_tensor(const struct md_entry *entry)
{
	printf(" tensor=%s file=%s range=%ju-%ju", entry->name, entry->file,
	       (uintmax_t)entry->begin, (uintmax_t)entry->end);
}

static void *entry_read(struct md_damage *damage, const struct md_entry *entry)
{
	void *bytes = md_alloc(1, entry->end - entry->begin);
	int fd = md_file_open(damage, entry->file, NULL);

	md_read_at(fd, bytes, entry->end - entry->begin, entry->begin);
	close(fd);
	return bytes;
}

static void entry_write(struct md_damage *damage, const struct md_entry *entry, const void *bytes)
{
	int fd = md_file_open(damage, entry->file, NULL);

	md_write_at(fd, bytes, entry->end - entry->begin, entry->begin);
	close(fd);
}

/* ---- tensors ---- */

void md_damage_flip(struct md_damage *damage, char **args)
{
	struct md_entry entry = md_entry_find(damage, args[0], "");
	uint64_t size = entry.end - entry.begin;
	uint64_t at;
	uint64_t bit;
	uint8_t byte;
	int fd;

	if (!size)
		md_die("%s has no bytes to flip", entry.name);
	at = args[0] && args[1] ? md_parse_u64(args[1], "BYTE") : md_damage_draw(damage, size);
	bit = args[0] && args[1] && args[2] ? md_parse_u64(args[2], "BIT")
					    : md_damage_draw(damage, 8);
	if (at >= size || bit > 7)
		md_die("%s has %ju bytes of 8 bits, there is no byte %ju bit %ju", entry.name,
		       (uintmax_t)size, (uintmax_t)at, (uintmax_t)bit);
	fd = md_file_open(damage, entry.file, NULL);
	md_read_at(fd, &byte, 1, entry.begin + at);
	byte ^= (uint8_t)(1u << bit);
	md_write_at(fd, &byte, 1, entry.begin + at);
	close(fd);
	say_tensor(&entry);
	printf(" offset=%ju bit=%ju", (uintmax_t)(entry.begin + at), (uintmax_t)bit);
}

void md_damage_zero(struct md_damage *damage, char **args)
{
	struct md_entry entry = md_entry_find(damage, args[0], "");
	void *zeros = md_alloc(1, entry.end - entry.begin);

	entry_write(damage, &entry, zeros);
	free(zeros);
	say_tensor(&entry);
}

void md_damage_swap(struct md_damage *damage, char **args)
{
	struct md_entry one = md_entry_find(damage, args[0], "");
	struct md_entry two = md_entry_find(damage, args[1], "");
	void *bytes_one;
	void *bytes_two;

	if (one.end - one.begin != two.end - two.begin)
		md_die("%s and %s differ in size", one.name, two.name);
	bytes_one = entry_read(damage, &one);
	bytes_two = entry_read(damage, &two);
	entry_write(damage, &one, bytes_two);
	entry_write(damage, &two, bytes_one);
	free(bytes_one);
	free(bytes_two);
	say_tensor(&one);
	printf(" with=%s", two.name);
}

/* The argument may be the linear or its marker tensor. */
void md_damage_mul1(struct md_damage *damage, char **args)
{
	static const uint8_t wrong[4] = { 0x2e, 0xd1, 0xdc, 0x83 };
	char *name = NULL;
	struct md_entry entry;
	uint8_t digest[MD_DIGEST_BYTES];
	char hex[2 * MD_DIGEST_BYTES + 1];

	if (args[0] &&
	    asprintf(&name, "%s%s", args[0], strstr(args[0], ".mul1") ? "" : ".mul1") < 0)
		md_die("out of memory for a name");
	entry = md_entry_find(damage, name, ".mul1");
	if (entry.end - entry.begin != sizeof(wrong))
		md_die("%s is no marker of 4 bytes", entry.name);
	entry_write(damage, &entry, wrong);
	md_sha256(wrong, sizeof(wrong), digest);
	md_hex(digest, hex);
	md_entry_set_digest(damage, &entry, hex);
	say_tensor(&entry);
	free(name);
}

/* ---- files ---- */

void md_damage_truncate(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);
	uint64_t cut = md_parse_u64(args[1], "BYTES");
	uint64_t size;
	int fd = md_file_open(damage, file, &size);

	if (cut > size)
		cut = size;
	if (ftruncate(fd, (off_t)(size - cut)))
		md_die("cannot truncate %s: %s", file, strerror(errno));
	close(fd);
	printf(" file=%s size=%ju was=%ju", file, (uintmax_t)(size - cut), (uintmax_t)size);
}

void md_damage_extend(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);
	uint64_t more = md_parse_u64(args[1], "BYTES");
	uint64_t size;
	int fd = md_file_open(damage, file, &size);

	for (uint64_t i = 0; i < more; i++) {
		uint8_t byte = (uint8_t)md_damage_draw(damage, 256);

		md_write_at(fd, &byte, 1, size + i);
	}
	close(fd);
	printf(" file=%s size=%ju was=%ju", file, (uintmax_t)(size + more), (uintmax_t)size);
}

static char *removed(struct md_damage *damage, const char *file)
{
	char *path = md_path(damage->dir, file);

	if (unlink(path))
		md_die("cannot remove %s: %s", path, strerror(errno));
	return path;
}

void md_damage_remove(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);

	free(removed(damage, file));
	printf(" file=%s", file);
}

void md_damage_fifo(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);
	char *path = removed(damage, file);

	if (mkfifo(path, 0666))
		md_die("cannot make a FIFO %s: %s", path, strerror(errno));
	free(path);
	printf(" file=%s", file);
}

void md_damage_symlink_out(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);
	char *path = md_path(damage->dir, file);
	char *real = realpath(damage->dir, NULL);
	char *outside;
	char *target;

	if (!real || asprintf(&outside, "%s.outside", real) < 0)
		md_die("cannot find %s: %s", damage->dir, strerror(errno));
	if (mkdir(outside, 0777) && errno != EEXIST)
		md_die("cannot make %s: %s", outside, strerror(errno));
	target = md_path(outside, file);
	if (rename(path, target) || symlink(target, path))
		md_die("cannot move %s to %s: %s", path, target, strerror(errno));
	printf(" file=%s target=%s", file, target);
	free(target);
	free(outside);
	free(real);
	free(path);
}

static void replace(struct md_damage *damage, const char *file, const char *text)
{
	char *path = removed(damage, file);
	FILE *out = fopen(path, "we");

	if (!out || fputs(text, out) < 0 || fclose(out))
		md_die("cannot write %s: %s", path, strerror(errno));
	free(path);
}

void md_damage_lfs_pointer(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);
	struct md_entry whole = { .file = file };
	uint8_t digest[MD_DIGEST_BYTES];
	char hex[2 * MD_DIGEST_BYTES + 1];
	char text[256];
	void *bytes;

	close(md_file_open(damage, file, &whole.end));
	bytes = entry_read(damage, &whole);
	md_sha256(bytes, whole.end, digest);
	md_hex(digest, hex);
	free(bytes);
	snprintf(text, sizeof(text),
		 "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %ju\n", hex,
		 (uintmax_t)whole.end);
	replace(damage, file, text);
	printf(" file=%s oid=%s size=%ju", file, hex, (uintmax_t)whole.end);
}

void md_damage_html(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);

	replace(damage, file,
		"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>\n"
		"<body><h1>Not Found</h1></body></html>\n");
	printf(" file=%s", file);
}

void md_damage_unpromised_file(struct md_damage *damage, char **args)
{
	char *path = md_path(damage->dir, args[0]);
	FILE *out = fopen(path, "wex");

	if (!out || fputs("nobody promised this file\n", out) < 0 || fclose(out))
		md_die("cannot create %s: %s", path, strerror(errno));
	free(path);
	printf(" file=%s", args[0]);
}
