/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage to headers of shards. A changed header keeps its length, so that nothing but the change
 * is found; only a tensor more moves the data, and the manifest is brought in line with it.
 */
#include "mkdelivery.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20)
#define EXTRA_BYTES 8

struct header {
	int fd;
	uint64_t bytes; /* of JSON and padding */
	uint64_t file_bytes;
	json_object *json;
};

static uint64_t decode_u64(const uint8_t bytes[8])
{
	uint64_t value = 0;

	for (int i = 7; i >= 0; i--)
		value = value << 8 | bytes[i];
	return value;
}

static void encode_u64(uint64_t value, uint8_t bytes[8])
{
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

static struct header header_load(struct md_damage *damage, const char *file)
{
	struct header header = { 0 };
	uint8_t length[8];
	char *text;

	header.fd = md_file_open(damage, file, &header.file_bytes);
	md_read_at(header.fd, length, sizeof(length), 0);
	header.bytes = decode_u64(length);
	if (header.bytes > header.file_bytes)
		md_die("%s has no header to change", file);
	text = md_alloc(1, header.bytes + 1);
	md_read_at(header.fd, text, header.bytes, sizeof(length));
	header.json = json_tokener_parse(text);
	if (!json_object_is_type(header.json, json_type_object))
		md_die("the header of %s is no JSON object", file);
	free(text);
	return header;
}

static const char *header_text(const struct header *header, size_t *size_out)
{
	return json_object_to_json_string_length(
		header->json, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, size_out);
}

static void pad_and_write(int fd, const char *text, size_t size, uint64_t header_bytes)
{
	char *padded = md_alloc(1, header_bytes);

	memset(padded, ' ', header_bytes);
	memcpy(padded, text, size);
	md_write_at(fd, padded, header_bytes, 8);
	free(padded);
}

/* In place: where the JSON has grown, __metadata__ gives way. */
static void header_store(struct header *header, const char *file)
{
	size_t size;
	const char *text = header_text(header, &size);

	if (size > header->bytes) {
		json_object_object_del(header->json, "__metadata__");
		text = header_text(header, &size);
	}
	if (size > header->bytes)
		md_die("the changed header of %s does not fit", file);
	pad_and_write(header->fd, text, size, header->bytes);
	close(header->fd);
	json_object_put(header->json);
}

static json_object *header_tensor(const struct header *header, const struct md_entry *entry)
{
	json_object *tensor = NULL;

	if (!json_object_object_get_ex(header->json, entry->name, &tensor))
		md_die("the header of %s has no tensor %s", entry->file, entry->name);
	return tensor;
}

static void say_header(const struct md_entry *entry, json_object *was, json_object *is)
{
	printf(" tensor=%s file=%s was=%s is=%s", entry->name, entry->file,
	       json_object_to_json_string_ext(was, JSON_C_TO_STRING_PLAIN),
	       json_object_to_json_string_ext(is, JSON_C_TO_STRING_PLAIN));
}

static void header_change(struct md_damage *damage, const char *name, const char *key,
			  json_object *(*changed)(json_object *was))
{
	struct md_entry entry = md_entry_find(damage, name, "");
	struct header header = header_load(damage, entry.file);
	json_object *tensor = header_tensor(&header, &entry);
	json_object *was = json_object_get(json_object_object_get(tensor, key));
	json_object *is = changed(was);

	json_object_object_add(tensor, key, is);
	say_header(&entry, was, is);
	json_object_put(was);
	header_store(&header, entry.file);
}

/* As many elements in another shape: the first two dimensions swapped, or a 1 put before all. */
static json_object *other_shape(json_object *was)
{
	size_t rank = json_object_array_length(was);
	json_object *shape = json_object_new_array();
	bool swap = rank > 1 && !json_object_equal(json_object_array_get_idx(was, 0),
						   json_object_array_get_idx(was, 1));

	if (!swap)
		json_object_array_add(shape, json_object_new_int(1));
	for (size_t i = 0; i < rank; i++) {
		size_t from = swap && i < 2 ? 1 - i : i;

		json_object_array_add(shape, json_object_get(json_object_array_get_idx(was, from)));
	}
	return shape;
}

static json_object *other_dtype(json_object *was)
{
	static const char *const pairs[][2] = {
		{ "BF16", "F16" },	  { "F16", "BF16" }, { "I16", "F16" },
		{ "F32", "I32" },	  { "I32", "F32" },  { "F8_E4M3", "F8_E8M0" },
		{ "F8_E8M0", "F8_E4M3" },
	};
	const char *dtype = json_object_get_string(was);

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (!strcmp(dtype, pairs[i][0]))
			return json_object_new_string(pairs[i][1]);
	}
	md_die("no other dtype of the width of %s is known", dtype);
}

void md_damage_header_shape(struct md_damage *damage, char **args)
{
	header_change(damage, args[0], "shape", other_shape);
}

void md_damage_header_dtype(struct md_damage *damage, char **args)
{
	header_change(damage, args[0], "dtype", other_dtype);
}

void md_damage_header_garbage(struct md_damage *damage, char **args)
{
	const char *file = md_shard_find(damage, args[0]);
	int fd = md_file_open(damage, file, NULL);
	uint8_t garbage[16];

	memset(garbage, 0xff, sizeof(garbage));
	md_write_at(fd, garbage, sizeof(garbage), 8);
	close(fd);
	printf(" file=%s offset=8", file);
}

/* ---- a tensor more ---- */

static void copy_data(const struct header *header, int to, uint64_t to_start)
{
	uint64_t from_start = 8 + header->bytes;
	uint8_t *buffer = md_alloc(1, COPY_BYTES);

	for (uint64_t at = from_start; at < header->file_bytes;) {
		uint64_t left = header->file_bytes - at;
		size_t size = left < COPY_BYTES ? (size_t)left : COPY_BYTES;

		md_read_at(header->fd, buffer, size, at);
		md_write_at(to, buffer, size, to_start + (at - from_start));
		at += size;
	}
	free(buffer);
}

static void add_tensor(struct header *header, const char *name)
{
	uint64_t end = header->file_bytes - 8 - header->bytes;
	json_object *tensor = json_object_new_object();
	json_object *shape = json_object_new_array();
	json_object *offsets = json_object_new_array();

	json_object_array_add(shape, json_object_new_int(EXTRA_BYTES / 4));
	json_object_array_add(offsets, json_object_new_int64((int64_t)end));
	json_object_array_add(offsets, json_object_new_int64((int64_t)end + EXTRA_BYTES));
	json_object_object_add(tensor, "dtype", json_object_new_string("F32"));
	json_object_object_add(tensor, "shape", shape);
	json_object_object_add(tensor, "data_offsets", offsets);
	json_object_object_add(header->json, name, tensor);
}

static void move_entries(struct md_damage *damage, const char *file, int64_t by)
{
	size_t count = json_object_array_length(damage->tensors);

	for (size_t i = 0; i < count; i++) {
		struct md_entry entry = md_entry_at(damage, i);

		if (!strcmp(entry.file, file))
			md_entry_move(damage, &entry, by);
	}
}

void md_damage_unpromised_tensor(struct md_damage *damage, char **args)
{
	/* Strings of the manifest go with its entries; this one has to outlive them. */
	char *file = strdup(md_shard_find(damage, args[1] ? args[1] : "1"));
	char *path = md_path(damage->dir, file ? file : "");
	char *temporary = md_path(damage->dir, ".mkdelivery.tmp");
	struct header header = header_load(damage, file);
	static const uint8_t extra[EXTRA_BYTES] = { 0 };
	uint8_t length[8];
	uint64_t header_bytes;
	const char *text;
	size_t size;
	int fd;

	add_tensor(&header, args[0]);
	text = header_text(&header, &size);
	header_bytes = (size + 7) & ~UINT64_C(7);
	encode_u64(header_bytes, length);
	fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		md_die("cannot create %s: %s", temporary, strerror(errno));
	md_write_at(fd, length, sizeof(length), 0);
	pad_and_write(fd, text, size, header_bytes);
	copy_data(&header, fd, 8 + header_bytes);
	md_write_at(fd, extra, sizeof(extra),
		    8 + header_bytes + (header.file_bytes - 8 - header.bytes));
	if (close(fd) || rename(temporary, path))
		md_die("cannot write %s: %s", path, strerror(errno));
	move_entries(damage, file, (int64_t)header_bytes - (int64_t)header.bytes);
	close(header.fd);
	json_object_put(header.json);
	printf(" tensor=%s file=%s", args[0], file);
	free(temporary);
	free(path);
	free(file);
}
