/* SPDX-License-Identifier: Apache-2.0 */
/* Records of an input to files. Headers are read through json-c alone. */
#include "delivery.h"

#include <endian.h>
#include <json-c/json.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rsum_limits.h"
#include "tree.h"

#define MARK "%%"
#define FILE_BYTES_MAX (UINT64_C(1) << 20)
#define LENGTH_BYTES 8
#define MARKER UINT32_C(0x83DCD12D)

struct record {
	char *kind;
	char *name; /* of the rest of its first line */
	const char *body;
	size_t body_bytes;
};

/* ---- the input --------------------------------------------------------------------------- */

/* Takes the next record. False at the end. */
static bool take_record(struct fuzz_input *input, struct record *record)
{
	const char *begin = (const char *)input->data, *end, *line_end, *blank;
	size_t line_bytes;

	if (input->left < strlen(MARK))
		return false;
	begin += strncmp(begin, MARK, strlen(MARK)) == 0 ? strlen(MARK) : 0;
	end = memmem(begin, input->left - (size_t)(begin - (const char *)input->data), "\n" MARK,
		     strlen(MARK) + 1);
	if (!end)
		end = (const char *)input->data + input->left;
	line_end = memchr(begin, '\n', (size_t)(end - begin));
	line_bytes = (size_t)((line_end ? line_end : end) - begin);
	blank = line_bytes ? memchr(begin, ' ', line_bytes) : NULL;
	record->kind = fuzz_copy_text(begin, blank ? (size_t)(blank - begin) : line_bytes);
	record->name = blank ? fuzz_copy_text(blank + 1, line_bytes - (size_t)(blank + 1 - begin))
			     : fuzz_copy_text("", 0);
	record->body = line_end ? line_end + 1 : end;
	record->body_bytes = (size_t)(end - record->body);
	input->left -= (size_t)(end - (const char *)input->data);
	input->data = (const uint8_t *)end;
	if (input->left) { /* the line feed before the next mark */
		input->data++;
		input->left--;
	}
	return true;
}

/* A number at the beginning of a body. */
static uint64_t number_of(const struct record *record)
{
	uint64_t value = 0;

	for (size_t i = 0; i < record->body_bytes && i < 18; i++) {
		if (record->body[i] < '0' || record->body[i] > '9')
			break;
		value = value * 10 + (uint64_t)(record->body[i] - '0');
	}
	return value;
}

/* ---- shards ------------------------------------------------------------------------------ */

static struct json_object *read_header(const struct fuzz_shard *shard)
{
	struct json_object *root = NULL;

	if (!fuzz_json_c_parse(shard->header, shard->header_bytes, RSUM_LIMIT_HEADER_JSON_DEPTH + 8,
			       &root) ||
	    !json_object_is_type(root, json_type_object)) {
		json_object_put(root);
		return NULL;
	}
	return root;
}

/* A tensor's two offsets; false where it has none. */
static bool get_offsets(struct json_object *tensor, uint64_t offsets[2])
{
	struct json_object *array = NULL;

	if (!json_object_is_type(tensor, json_type_object) ||
	    !json_object_object_get_ex(tensor, "data_offsets", &array) ||
	    !json_object_is_type(array, json_type_array) || json_object_array_length(array) < 2)
		return false;
	offsets[0] = json_object_get_uint64(json_object_array_get_idx(array, 0));
	offsets[1] = json_object_get_uint64(json_object_array_get_idx(array, 1));
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Data as long as the largest offset says; where a mul1 begins, its marker. */
static void make_data(const struct fuzz_shard *shard, struct fuzz_text *file)
{
	struct json_object *root = read_header(shard);
	uint64_t offsets[2], size = 0;
	const uint32_t marker = htole32(MARKER);
	size_t begin = file->used_bytes;

	if (!root)
		return;
	json_object_object_foreach(root, name, tensor)
	{
		(void)name;
		if (get_offsets(tensor, offsets) && offsets[1] <= FILE_BYTES_MAX)
			size = RSUM_MAX(size, offsets[1]);
	}
	for (uint64_t i = 0; i < size; i++) {
		char byte = (char)(i * 131 + (i >> 8) * 7);

		fuzz_text_add(file, &byte, 1);
	}
	json_object_object_foreach(root, mark_name, mark_tensor)
	{
		if (ends_with(mark_name, ".mul1") && get_offsets(mark_tensor, offsets) &&
		    size >= sizeof(marker) && offsets[0] <= size - sizeof(marker))
			memcpy(file->data + begin + offsets[0], &marker, sizeof(marker));
	}
	json_object_put(root);
}

static void make_shard(struct fuzz_delivery *delivery, const struct record *record)
{
	struct fuzz_shard *shard = &delivery->shards[delivery->shard_count];
	uint64_t length = htole64(record->body_bytes);
	struct fuzz_text file = { 0 };

	if (delivery->shard_count == FUZZ_DELIVERY_SHARDS_MAX)
		return;
	delivery->is_sound = false;
	shard->header = fuzz_copy_text(record->body, record->body_bytes);
	shard->header_bytes = record->body_bytes;
	fuzz_text_add(&file, &length, sizeof(length));
	fuzz_text_add(&file, record->body, record->body_bytes);
	make_data(shard, &file);
	if (fuzz_tree_write(record->name, file.data, file.used_bytes)) {
		shard->name = fuzz_copy_text(record->name, strlen(record->name));
		delivery->shard_count++;
	} else {
		free(shard->header);
	}
	fuzz_text_deinit(&file);
}

/* ---- the promise ------------------------------------------------------------------------- */

static void add_digest(struct fuzz_text *text, const char *name, uint64_t begin, uint64_t end)
{
	uint8_t *bytes = fuzz_alloc(FILE_BYTES_MAX);
	uint8_t digest[EVP_MAX_MD_SIZE];
	int fd = fuzz_tree_open(name);
	ssize_t length = 0;

	if (fd >= 0 && begin <= end && end - begin <= FILE_BYTES_MAX)
		length = pread(fd, bytes, (size_t)(end - begin), (off_t)begin);
	if (fd >= 0)
		close(fd);
	FUZZ_CHECK(EVP_Digest(bytes, length > 0 ? (size_t)length : 0, digest, NULL, EVP_sha256(),
			      NULL));
	for (size_t i = 0; i < 32; i++)
		fuzz_text_printf(text, "%02x", (unsigned)digest[i]);
	free(bytes);
}

static void add_member(struct fuzz_text *text, struct json_object *tensor, const char *key)
{
	struct json_object *value = NULL;
	const char *spelled;

	json_object_object_get_ex(tensor, key, &value);
	spelled = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
	fuzz_text_printf(text, ",\"%s\":", key);
	fuzz_text_add(text, spelled, strlen(spelled));
}

static void promise_shard(struct fuzz_text *text, const struct fuzz_shard *shard, bool *is_first)
{
	struct json_object *root = read_header(shard);
	uint64_t offsets[2], begin, end;

	if (!root)
		return;
	json_object_object_foreach(root, name, tensor)
	{
		if (strcmp(name, "__metadata__") == 0 || !get_offsets(tensor, offsets))
			continue;
		begin = offsets[0] + LENGTH_BYTES + shard->header_bytes;
		end = offsets[1] + LENGTH_BYTES + shard->header_bytes;
		fuzz_text_printf(text, "%s\n{\"name\":", *is_first ? "" : ",");
		fuzz_text_add_string(text, name, strlen(name));
		add_member(text, tensor, "dtype");
		add_member(text, tensor, "shape");
		fuzz_text_printf(text, ",\"destination_file\":");
		fuzz_text_add_string(text, shard->name, strlen(shard->name));
		fuzz_text_printf(text,
				 ",\"destination_byte_range\":[%llu,%llu],\"source_byte_range\":"
				 "[%llu,%llu],\"resident_packed_bytes\":0,"
				 "\"source_byte_range_sha256\":\"",
				 (unsigned long long)begin, (unsigned long long)end,
				 (unsigned long long)offsets[0], (unsigned long long)offsets[1]);
		add_digest(text, shard->name, begin, end);
		fuzz_text_printf(text, "\"}");
		*is_first = false;
	}
	json_object_put(root);
}

/* One line OLD=>NEW. True where something was changed. */
static bool change(struct fuzz_text *text, const char *line, size_t length)
{
	const char *arrow = length ? memmem(line, length, "=>", 2) : NULL;
	size_t old_bytes = arrow ? (size_t)(arrow - line) : 0, before;
	struct fuzz_text changed = { 0 };
	const char *found;

	if (!old_bytes)
		return false;
	found = memmem(text->data, text->used_bytes, line, old_bytes);
	if (!found)
		return false;
	before = (size_t)(found - text->data);
	fuzz_text_add(&changed, text->data, before);
	fuzz_text_add(&changed, arrow + 2, length - old_bytes - 2);
	fuzz_text_add(&changed, found + old_bytes, text->used_bytes - before - old_bytes);
	fuzz_text_deinit(text);
	*text = changed;
	return true;
}

static void make_promise(struct fuzz_delivery *delivery, const struct record *record)
{
	const char *line = record->body, *end = record->body + record->body_bytes, *next;
	struct fuzz_text text = { 0 };
	bool is_first = true, is_changed = false;

	fuzz_text_printf(&text, "{%s\"tensors\":[",
			 strcmp(record->name, "mul1") == 0 ? "\"codebook\":\"mul1\"," : "");
	for (size_t i = 0; i < delivery->shard_count; i++)
		promise_shard(&text, &delivery->shards[i], &is_first);
	fuzz_text_printf(&text, "]}\n");
	for (; line < end; line = next + 1) {
		next = memchr(line, '\n', (size_t)(end - line));
		if (!next)
			next = end;
		is_changed |= change(&text, line, (size_t)(next - line));
	}
	if (fuzz_tree_write("TENSORS.json", text.data, text.used_bytes))
		delivery->is_sound = !is_changed;
	fuzz_text_deinit(&text);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void flip_bit(const struct record *record)
{
	uint64_t bit = number_of(record);
	int fd = fuzz_tree_open(record->name);
	uint8_t byte;

	if (fd < 0)
		return;
	if (pread(fd, &byte, 1, (off_t)(bit / 8)) == 1) {
		byte ^= (uint8_t)(1U << bit % 8);
		FUZZ_CHECK(pwrite(fd, &byte, 1, (off_t)(bit / 8)) == 1);
	}
	close(fd);
}

static void set_size(const struct record *record)
{
	uint64_t size = number_of(record);
	int fd = fuzz_tree_open(record->name), result = 0;

	if (fd < 0)
		return;
	if (size <= FILE_BYTES_MAX)
		result = ftruncate(fd, (off_t)size);
	(void)result; /* a FIFO has no size, which is as well */
	close(fd);
}

static void make_link(const struct record *record)
{
	size_t length = strcspn(record->body_bytes ? record->body : "\n", "\n");
	char *target = fuzz_copy_text(record->body, RSUM_MIN(length, record->body_bytes));

	(void)fuzz_tree_link(record->name, target);
	free(target);
}

/* ---- the whole --------------------------------------------------------------------------- */

static void run_record(struct fuzz_delivery *delivery, const struct record *record)
{
	if (strcmp(record->kind, "shard") == 0) {
		make_shard(delivery, record);
		return;
	}
	if (strcmp(record->kind, "promise") == 0) {
		make_promise(delivery, record);
		return;
	}
	if (strcmp(record->kind, "options") == 0) {
		snprintf(delivery->options, sizeof(delivery->options), "%s", record->name);
		return;
	}
	delivery->is_sound = false;
	if (strcmp(record->kind, "file") == 0)
		(void)fuzz_tree_write(record->name, record->body, record->body_bytes);
	else if (strcmp(record->kind, "link") == 0)
		make_link(record);
	else if (strcmp(record->kind, "dir") == 0)
		(void)fuzz_tree_make_directory(record->name);
	else if (strcmp(record->kind, "fifo") == 0)
		(void)fuzz_tree_make_fifo(record->name);
	else if (strcmp(record->kind, "flip") == 0)
		flip_bit(record);
	else if (strcmp(record->kind, "size") == 0)
		set_size(record);
}

void fuzz_delivery_init(struct fuzz_delivery *delivery, const uint8_t *data, size_t size)
{
	/* A body that ends the input is followed by NUL, so that lines of it can be looked for. */
	char *text = fuzz_copy_text(data, size);
	struct fuzz_input input = { (const uint8_t *)text, size };
	struct record record;

	*delivery = (struct fuzz_delivery){ 0 };
	fuzz_tree_empty();
	while (take_record(&input, &record)) {
		run_record(delivery, &record);
		free(record.kind);
		free(record.name);
	}
	free(text);
}

void fuzz_delivery_deinit(struct fuzz_delivery *delivery)
{
	for (size_t i = 0; i < delivery->shard_count; i++) {
		free(delivery->shards[i].name);
		free(delivery->shards[i].header);
	}
}
