/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage to a finished delivery: the table of kinds, and what they share. The manifest is loaded
 * once and stored once, after the last kind, so that several kinds add up.
 */
#include "mkdelivery.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGS_MAX 3

struct kind {
	const char *name;
	size_t args_min;
	size_t args_max;
	md_damage_fn apply;
	const char *usage;
	const char *what;
};

static const struct kind kinds[] = {
	{ "flip", 0, 3, md_damage_flip, "flip[:TENSOR[:BYTE[:BIT]]]", "flip one bit" },
	{ "zero", 0, 1, md_damage_zero, "zero[:TENSOR]", "zero all its bytes" },
	{ "swap", 2, 2, md_damage_swap, "swap:TENSOR:TENSOR", "swap the bytes of two of a size" },
	{ "mul1", 0, 1, md_damage_mul1, "mul1[:LINEAR]", "wrong marker, and its right digest" },
	{ "truncate", 2, 2, md_damage_truncate, "truncate:FILE:BYTES", "cut off at the end" },
	{ "extend", 2, 2, md_damage_extend, "extend:FILE:BYTES", "append random bytes" },
	{ "remove-shard", 1, 1, md_damage_remove, "remove-shard:FILE", "delete it" },
	{ "fifo", 1, 1, md_damage_fifo, "fifo:FILE", "put a FIFO in its place" },
	{ "symlink-out", 1, 1, md_damage_symlink_out, "symlink-out:FILE",
	  "move it to DIR.outside, leave a link" },
	{ "lfs-pointer", 1, 1, md_damage_lfs_pointer, "lfs-pointer:FILE", "its Git LFS pointer" },
	{ "html", 1, 1, md_damage_html, "html:FILE", "an error page in its place" },
	{ "header-shape", 0, 1, md_damage_header_shape, "header-shape[:TENSOR]",
	  "another shape of as many elements" },
	{ "header-dtype", 0, 1, md_damage_header_dtype, "header-dtype[:TENSOR]",
	  "another dtype of its width" },
	{ "header-garbage", 1, 1, md_damage_header_garbage, "header-garbage:FILE",
	  "0xff over its first bytes" },
	{ "unpromised-tensor", 1, 2, md_damage_unpromised_tensor, "unpromised-tensor:NAME[:FILE]",
	  "a tensor more in a shard" },
	{ "unpromised-file", 1, 1, md_damage_unpromised_file, "unpromised-file:NAME",
	  "a file more in DIR" },
	{ "drop-entry", 0, 1, md_damage_drop_entry, "drop-entry[:TENSOR]", "out of the manifest" },
	{ "add-entry", 1, 1, md_damage_add_entry, "add-entry:NAME", "a promise more" },
	{ "dup-entry", 0, 1, md_damage_dup_entry, "dup-entry[:TENSOR]", "promise it twice" },
	{ "digest", 0, 1, md_damage_digest, "digest[:TENSOR]", "change the promised digest" },
	{ "config", 1, 1, md_damage_config, "config:KEY[=VALUE]", "set or delete a.b.c in config" },
	{ "codebook", 0, 1, md_damage_codebook, "codebook[:VALUE]",
	  "set or delete in TENSORS.json" },
	{ "plan-codebook", 0, 1, md_damage_plan_codebook, "plan-codebook[:VALUE]",
	  "set or delete in the plan" },
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

void md_damage_help(FILE *out)
{
	fputs("Kinds of damage. A TENSOR not given is chosen by --seed. FILE is a name in\n"
	      "DIR, or N for the Nth shard that the manifest names.\n\n",
	      out);
	for (size_t i = 0; i < KIND_COUNT; i++)
		fprintf(out, "  %-30s %s\n", kinds[i].usage, kinds[i].what);
}

uint64_t md_damage_draw(struct md_damage *damage, uint64_t below)
{
	damage->random += UINT64_C(0x9e3779b97f4a7c15);
	return md_mix(damage->random) % below;
}

/* ---- entries of the manifest ---- */

static json_object *member(json_object *object, const char *key, json_type type)
{
	json_object *value = NULL;

	if (!json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, type))
		md_die("%s: no `%s` of the expected kind in an entry", MD_MANIFEST, key);
	return value;
}

static uint64_t range_at(json_object *object, size_t index)
{
	json_object *range = member(object, "destination_byte_range", json_type_array);

	return json_object_get_uint64(json_object_array_get_idx(range, index));
}

struct md_entry md_entry_at(struct md_damage *damage, size_t index)
{
	json_object *object = json_object_array_get_idx(damage->tensors, index);
	struct md_entry entry = { .object = object, .index = index };

	entry.name = json_object_get_string(member(object, "name", json_type_string));
	entry.file = json_object_get_string(member(object, "destination_file", json_type_string));
	entry.begin = range_at(object, 0);
	entry.end = range_at(object, 1);
	return entry;
}

static bool ends_with(const char *text, const char *suffix)
{
	size_t text_size = strlen(text);
	size_t suffix_size = strlen(suffix);

	return text_size >= suffix_size && !strcmp(text + text_size - suffix_size, suffix);
}

/* The entry of that name, or with no name a random one that ends in `suffix`. */
struct md_entry md_entry_find(struct md_damage *damage, const char *name, const char *suffix)
{
	size_t count = json_object_array_length(damage->tensors);
	size_t first = name || !count ? 0 : (size_t)md_damage_draw(damage, count);

	for (size_t i = 0; i < count; i++) {
		struct md_entry entry = md_entry_at(damage, (first + i) % count);

		if (name ? !strcmp(entry.name, name)
			 : entry.end > entry.begin && ends_with(entry.name, suffix))
			return entry;
	}
	if (name)
		md_die("%s has no tensor '%s'", MD_MANIFEST, name);
	md_die("%s has no tensor '*%s' with bytes", MD_MANIFEST, suffix);
}

/* A file in the delivery: its name, or N for the Nth that the manifest names. */
const char *md_shard_find(struct md_damage *damage, const char *arg)
{
	size_t count = json_object_array_length(damage->tensors);
	char *path = md_path(damage->dir, arg);
	uint64_t wanted;
	uint64_t seen = 0;
	bool there = !access(path, F_OK);

	free(path);
	if (there)
		return arg;
	wanted = md_parse_u64(arg, "a shard that is no file in the directory");
	for (size_t i = 0; i < count; i++) {
		struct md_entry entry = md_entry_at(damage, i);
		bool known = false;

		for (size_t j = 0; j < i && !known; j++)
			known = !strcmp(md_entry_at(damage, j).file, entry.file);
		if (!known && ++seen == wanted)
			return entry.file;
	}
	md_die("%s names %ju shards, there is no number %ju", MD_MANIFEST, (uintmax_t)seen,
	       (uintmax_t)wanted);
}

void md_entry_set_digest(struct md_damage *damage, const struct md_entry *entry, const char *hex)
{
	json_object_object_add(entry->object, "source_byte_range_sha256",
			       json_object_new_string(hex));
	damage->manifest_changed = true;
}

void md_entry_move(struct md_damage *damage, const struct md_entry *entry, int64_t by)
{
	json_object *range = json_object_new_array();

	json_object_array_add(range, json_object_new_int64((int64_t)entry->begin + by));
	json_object_array_add(range, json_object_new_int64((int64_t)entry->end + by));
	json_object_object_add(entry->object, "destination_byte_range", range);
	damage->manifest_changed = true;
}

/* ---- files ---- */

int md_file_open(struct md_damage *damage, const char *name, uint64_t *size_out)
{
	char *path = md_path(damage->dir, name);
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		md_die("cannot open %s: %s", path, strerror(errno));
	if (size_out)
		*size_out = (uint64_t)st.st_size;
	free(path);
	return fd;
}

void md_read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(fd, (char *)bytes + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			md_die("cannot read %zu bytes at %ju: %s", size, (uintmax_t)offset,
			       n ? strerror(errno) : "the file ends before");
		done += (size_t)n;
	}
}

/* Some file systems accept O_DIRECT at open and refuse it at the first write. */
static bool direct_given_up(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_DIRECT) && !fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

void md_write_at(int fd, const void *bytes, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t n =
			pwrite(fd, (const char *)bytes + done, size - done, (off_t)(offset + done));

		if (n < 0 && (errno == EINTR || (errno == EINVAL && direct_given_up(fd))))
			continue;
		if (n <= 0)
			md_die("cannot write %zu bytes at %ju: %s", size, (uintmax_t)offset,
			       strerror(errno));
		done += (size_t)n;
	}
}

json_object *md_json_load(const char *dir, const char *name)
{
	char *path = md_path(dir, name);
	json_object *object = json_object_from_file(path);

	if (!object)
		md_die("cannot read %s: %s", path, json_util_get_last_err());
	free(path);
	return object;
}

/* Truncates and rewrites in place would hurt a hard-linked copy, so a new file is renamed. */
void md_json_store(const char *dir, const char *name, json_object *object)
{
	char *path = md_path(dir, name);
	char *temporary = md_path(dir, ".mkdelivery.tmp");

	if (json_object_to_file_ext(temporary, object,
				    JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE) ||
	    rename(temporary, path))
		md_die("cannot write %s: %s", path, strerror(errno));
	free(temporary);
	free(path);
}

/* ---- the driver ---- */

static const struct kind *kind_find(const char *name)
{
	for (size_t i = 0; i < KIND_COUNT; i++) {
		if (!strcmp(name, kinds[i].name))
			return &kinds[i];
	}
	fprintf(stderr, "mkdelivery: there is no damage '%s'; see --help\n", name);
	exit(2);
}

static void apply_one(struct md_damage *damage, char *text)
{
	char *args[ARGS_MAX + 1] = { NULL };
	char *rest = text;
	const struct kind *kind = kind_find(strsep(&rest, ":"));
	size_t count = 0;

	while (rest && count < kind->args_max) {
		/* The last argument may hold colons of its own. */
		args[count] = count + 1 == kind->args_max ? rest : strsep(&rest, ":");
		if (count + 1 == kind->args_max)
			rest = NULL;
		count++;
	}
	if (rest || count < kind->args_min) {
		fprintf(stderr, "mkdelivery: --damage %s, as in %s\n", kind->name, kind->usage);
		exit(2);
	}
	printf("damaged: %s", kind->name);
	kind->apply(damage, args);
	putchar('\n');
}

void md_damage_apply(const char *dir, uint64_t seed, char **damages, size_t count)
{
	struct md_damage damage = { .dir = dir, .random = md_mix(seed) };

	damage.manifest = md_json_load(dir, MD_MANIFEST);
	damage.tensors = member(damage.manifest, "tensors", json_type_array);
	for (size_t i = 0; i < count; i++)
		apply_one(&damage, damages[i]);
	if (damage.manifest_changed)
		md_json_store(dir, MD_MANIFEST, damage.manifest);
	json_object_put(damage.manifest);
}
