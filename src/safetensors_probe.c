/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a file: the length of its header, or what the file is instead. */
#include <ctype.h>
#include <endian.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "rsum_limits.h"
#include "safetensors_parts.h"

#define LENGTH_BYTES RSUM_SAFETENSORS_LENGTH_BYTES

struct magic {
	const char *bytes;
	size_t length;
	const char *what;
};

#define MAGIC(literal, text)                       \
	{                                          \
		literal, sizeof(literal) - 1, text \
	}

static const struct magic magics[] = {
	MAGIC("PK\x03\x04", "a zip archive, as torch.save writes it,"),
	MAGIC("GGUF", "a GGUF file"),
	MAGIC("\x80\x02", "a Python pickle"),
	MAGIC("\x80\x03", "a Python pickle"),
	MAGIC("\x80\x04", "a Python pickle"),
	MAGIC("\x80\x05", "a Python pickle"),
	MAGIC("\x1f\x8b", "a gzip file"),
	MAGIC("\xfd"
	      "7zXZ\0",
	      "an xz file"),
	MAGIC("\x28\xb5\x2f\xfd", "a zstd file"),
	MAGIC("\x89HDF", "an HDF5 file"),
	MAGIC("\xff\xfe", "UTF-16 text"),
	MAGIC("\xfe\xff", "UTF-16 text"),
};

static const struct magic markups[] = {
	MAGIC("<!doctype", "an HTML page"),
	MAGIC("<html", "an HTML page"),
	MAGIC("<?xml", "an XML document"),
	MAGIC("{", "a JSON document"),
};

static const char lfs_magic[] = "version https://git-lfs.github.com/spec/";

static size_t count_blanks(const uint8_t *bytes, size_t size_bytes)
{
	size_t count = 0;

	while (count < size_bytes && bytes[count] && strchr(" \t\r\n", bytes[count]))
		count++;
	return count;
}

/* What the file is instead of safetensors, or NULL where its beginning says nothing. */
static const char *name_what_it_is(const uint8_t *head, size_t head_bytes)
{
	size_t blanks = count_blanks(head, head_bytes);
	const char *text = (const char *)head + blanks;

	for (size_t i = 0; i < RSUM_COUNT_OF(magics); i++) {
		if (head_bytes >= magics[i].length &&
		    memcmp(head, magics[i].bytes, magics[i].length) == 0)
			return magics[i].what;
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(markups); i++) {
		if (head_bytes - blanks >= markups[i].length &&
		    strncasecmp(text, markups[i].bytes, markups[i].length) == 0)
			return markups[i].what;
	}
	return NULL;
}

/* Copies the value of a line "key value" of a pointer, as far as it is printable. */
static void lfs_value(const char *pointer, const char *key, char *value, size_t value_bytes)
{
	const char *at = strstr(pointer, key);
	size_t used = 0;

	for (at = at ? at + strlen(key) : ""; isgraph((unsigned char)*at); at++) {
		if (used + 1 < value_bytes)
			value[used++] = *at;
	}
	value[used] = '\0';
}

struct lfs_pointer {
	char oid[80];  /* "" where it has none */
	char size[24]; /* as it is spelled */
};

/* False where the file is no pointer. */
static bool read_lfs_pointer(const uint8_t *head, size_t head_bytes, struct lfs_pointer *out)
{
	char pointer[RSUM_SAFETENSORS_PROBE_BYTES + 1];
	size_t length = RSUM_MIN(head_bytes, sizeof(pointer) - 1);

	if (length < sizeof(lfs_magic) - 1 || memcmp(head, lfs_magic, sizeof(lfs_magic) - 1) != 0)
		return false;
	memcpy(pointer, head, length);
	pointer[length] = '\0';
	lfs_value(pointer, "\noid ", out->oid, sizeof(out->oid));
	lfs_value(pointer, "\nsize ", out->size, sizeof(out->size));
	return true;
}

bool rsum_safetensors_describe_other(const uint8_t *head, size_t head_bytes, const char *wanted,
				     char *text, size_t text_bytes)
{
	struct lfs_pointer pointer;
	const char *what;

	if (read_lfs_pointer(head, head_bytes, &pointer)) {
		snprintf(text, text_bytes,
			 "a Git LFS pointer in place of the file itself, which has oid %s and "
			 "size %s: fetch it with \"git lfs pull\"",
			 *pointer.oid ? pointer.oid : "unknown",
			 *pointer.size ? pointer.size : "unknown");
		return true;
	}
	what = name_what_it_is(head, head_bytes);
	if (what)
		snprintf(text, text_bytes, "%s in place of %s", what, wanted);
	return what;
}

/* Refuses what is plainly another file; 0 where it is not. */
static int refuse_other(const uint8_t *head, size_t head_bytes, uint64_t file_bytes,
			struct rsum_refusal *refusal)
{
	struct lfs_pointer pointer;
	char text[sizeof(refusal->message)];
	int ret;

	if (!rsum_safetensors_describe_other(head, head_bytes, "a safetensors file", text,
					     sizeof(text)))
		return 0;
	ret = rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID, "%s", text);
	if (!read_lfs_pointer(head, head_bytes, &pointer))
		return ret;
	if (*pointer.size)
		snprintf(refusal->expected, sizeof(refusal->expected), "%s bytes", pointer.size);
	snprintf(refusal->actual, sizeof(refusal->actual), "%" PRIu64 " bytes", file_bytes);
	return ret;
}

static int refuse_short(uint64_t file_bytes, uint64_t wanted_bytes, struct rsum_refusal *refusal,
			const char *what)
{
	int ret;

	ret = rsum_refusal_set(refusal, RINGSUM_FINDING_FILE_TRUNCATED,
			       "%s: %" PRIu64 " of at least %" PRIu64 " bytes, %" PRIu64 " missing",
			       what, file_bytes, wanted_bytes, wanted_bytes - file_bytes);
	snprintf(refusal->expected, sizeof(refusal->expected), "at least %" PRIu64 " bytes",
		 wanted_bytes);
	snprintf(refusal->actual, sizeof(refusal->actual), "%" PRIu64 " bytes", file_bytes);
	return ret;
}

static int refuse_length(uint64_t header_bytes, uint64_t limit_bytes, struct rsum_refusal *refusal)
{
	int ret;

	ret = rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
			       "the first 8 bytes give the header %" PRIu64
			       " bytes; the limit is %" PRIu64,
			       header_bytes, limit_bytes);
	snprintf(refusal->expected, sizeof(refusal->expected), "at most %" PRIu64 " bytes",
		 limit_bytes);
	snprintf(refusal->actual, sizeof(refusal->actual), "%" PRIu64 " bytes", header_bytes);
	return ret;
}

static bool is_all_zero(const uint8_t *bytes, size_t size_bytes)
{
	for (size_t i = 0; i < size_bytes; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

/* Whether the header begins like one; also where all that is seen of it is blank. */
static bool begins_as_object(const uint8_t *head, size_t head_bytes)
{
	size_t at = LENGTH_BYTES + count_blanks(head + LENGTH_BYTES, head_bytes - LENGTH_BYTES);

	return at == head_bytes || head[at] == '{';
}

/* A file that could be safetensors by its numbers, but whose header is no JSON object. */
static int refuse_header_text(const uint8_t *head, size_t head_bytes, struct rsum_refusal *refusal)
{
	const uint8_t *text = head + LENGTH_BYTES;
	size_t text_bytes = head_bytes - LENGTH_BYTES;
	const char *found = NULL;

	if (is_all_zero(head, head_bytes))
		found = "zeros where the header should be: the file was never written, or not "
			"wholly";
	else if (is_all_zero(text, text_bytes) && text_bytes)
		found = "zeros where the header's JSON should be";
	else if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		found = "the header begins with a byte order mark (BOM); it must begin with {";
	else if (text_bytes >= 2 &&
		 (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0 ||
		  memcmp(text, "{\0", 2) == 0 || memcmp(text, "\0{", 2) == 0))
		found = "the header is UTF-16; it must be UTF-8";
	if (!found)
		return 0;
	return rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID, "%s", found);
}

int rsum_safetensors_probe(const uint8_t *head, size_t head_bytes, uint64_t file_bytes,
			   uint64_t header_limit_bytes, uint64_t *header_bytes_out,
			   struct rsum_refusal *refusal)
{
	uint64_t limit = RSUM_MIN(header_limit_bytes, RSUM_LIMIT_HEADER_BYTES);
	uint64_t header_bytes;
	int ret;

	file_bytes = head_bytes < LENGTH_BYTES ? head_bytes : file_bytes;
	if (!file_bytes)
		return refuse_short(0, LENGTH_BYTES, refusal, "empty file");
	if (file_bytes < LENGTH_BYTES)
		return refuse_short(file_bytes, LENGTH_BYTES, refusal,
				    "the file ends within the length of its header");
	memcpy(&header_bytes, head, sizeof(header_bytes));
	header_bytes = le64toh(header_bytes);
	if (header_bytes > limit || header_bytes > file_bytes - LENGTH_BYTES ||
	    !begins_as_object(head, head_bytes)) {
		ret = refuse_other(head, head_bytes, file_bytes, refusal);
		if (ret)
			return ret;
	}
	if (header_bytes > limit)
		return refuse_length(header_bytes, limit, refusal);
	if (header_bytes > file_bytes - LENGTH_BYTES)
		return refuse_short(file_bytes, LENGTH_BYTES + header_bytes, refusal,
				    "the file ends within its header");
	ret = refuse_header_text(head, head_bytes, refusal);
	if (ret)
		return ret;
	*header_bytes_out = header_bytes;
	return 0;
}
