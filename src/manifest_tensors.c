/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses TENSORS.json (rule M1) into the promise list. Every entry of `tensors` becomes a
 * promise, also one that is refused, so that nothing falls out of the count unseen.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "digest.h"
#include "dtype.h"
#include "json.h"
#include "manifest.h"
#include "rsum_limits.h"

enum member {
	MEMBER_NAME,
	MEMBER_DTYPE,
	MEMBER_SHAPE,
	MEMBER_FILE,
	MEMBER_RANGE,
	MEMBER_SOURCE_RANGE,
	MEMBER_DIGEST,
	MEMBER_RESIDENT,
	MEMBER_COUNT
};

static const char *const member_names[MEMBER_COUNT] = {
	[MEMBER_NAME] = "name",
	[MEMBER_DTYPE] = "dtype",
	[MEMBER_SHAPE] = "shape",
	[MEMBER_FILE] = "destination_file",
	[MEMBER_RANGE] = "destination_byte_range",
	[MEMBER_SOURCE_RANGE] = "source_byte_range",
	[MEMBER_DIGEST] = "source_byte_range_sha256",
	[MEMBER_RESIDENT] = "resident_packed_bytes",
};

/* What is wrong with one member. `expected` is static; NULL while nothing is wrong. */
struct fault {
	enum ringsum_finding_code code;
	const char *expected;
	char actual[128];
};

/* One entry while it is read: members come in any order, so faults wait for the name. */
struct entry {
	struct rsum_promise promise;
	bool is_seen[MEMBER_COUNT];
	struct fault faults[MEMBER_COUNT];
};

/* No entry with all its members is as short: a digest alone has 64 digits. */
#define SHORT_ENTRY_BYTES 128

struct parser {
	struct rsum_json json;
	const char *text;
	size_t text_bytes;
	const char *file_name;
	struct rsum_manifest *out;
	struct ringsum_report *report;
	size_t first_promise; /* of this document; others may have been read before */
	size_t short_count;   /* entries of fewer than SHORT_ENTRY_BYTES */
};

/* ---- faults ------------------------------------------------------------------------------ */

static void add_entry_finding(const struct parser *parser, enum ringsum_finding_code code,
			      const char *tensor, const char *expected, const char *actual,
			      const char *message)
{
	rsum_report_add(parser->report, &(struct ringsum_finding){
						.code = code,
						.tensor = tensor && *tensor ? tensor : NULL,
						.file = parser->file_name,
						.expected = expected,
						.actual = actual,
						.message = message,
					});
}

/* The first fault of a member stands. */
static void set_fault(struct entry *entry, enum member member, const char *expected,
		      const char *actual)
{
	struct fault *fault = &entry->faults[member];

	if (fault->expected)
		return;
	fault->code = RINGSUM_FINDING_MANIFEST_INVALID;
	fault->expected = expected;
	rsum_text_shorten(actual, fault->actual, sizeof(fault->actual));
}

static void set_token_fault(const struct parser *parser, struct entry *entry, enum member member,
			    const char *expected, const struct rsum_json_token *token)
{
	char actual[128];

	set_fault(entry, member, expected,
		  rsum_manifest_describe_token(parser->text, parser->text_bytes, token, actual,
					       sizeof(actual)));
}

/* ---- members: each reads exactly its value ------------------------------------------------- */

/* A string that can be a name: NULL with a fault where it cannot. */
static const char *usable_string(const struct parser *parser, struct entry *entry,
				 enum member member, const struct rsum_json_token *token)
{
	if (token->type != RSUM_JSON_STRING)
		set_token_fault(parser, entry, member, "a string", token);
	else if (token->length == 0)
		set_fault(entry, member, "a name", "an empty string");
	else if (token->length > RSUM_LIMIT_NAME_BYTES)
		set_fault(entry, member, "at most 4096 bytes (limit on names)", "a longer name");
	else if (strlen(token->string) != token->length)
		set_fault(entry, member, "a name without NUL", "a name with NUL inside");
	else
		return token->string;
	return NULL;
}
static_assert(RSUM_LIMIT_NAME_BYTES == 4096, "as the message above says");

static int read_name(struct parser *parser, struct entry *entry,
		     const struct rsum_json_token *token)
{
	const char *name = usable_string(parser, entry, MEMBER_NAME, token);

	if (name) {
		name = rsum_arena_copy(&parser->out->arena, name, token->length);
		if (!name)
			return RINGSUM_E_NOMEM;
		entry->promise.tensor.name = name;
	}
	return rsum_json_skip(&parser->json, token);
}

static int read_dtype(struct parser *parser, struct entry *entry,
		      const struct rsum_json_token *token)
{
	const char *name = usable_string(parser, entry, MEMBER_DTYPE, token);

	if (name && !rsum_dtype_from_name(name, &entry->promise.tensor.dtype)) {
		set_token_fault(parser, entry, MEMBER_DTYPE, "a dtype of the safetensors format",
				token);
		entry->faults[MEMBER_DTYPE].code = RINGSUM_FINDING_DTYPE_UNSUPPORTED;
	}
	return rsum_json_skip(&parser->json, token);
}

/*
 * Reads a list of whole numbers into numbers[0, limit) and counts all of them. Elements of
 * another kind are a fault of the member. Returns 0 or the reader's refusal.
 */
static int read_numbers(struct parser *parser, struct entry *entry, enum member member,
			const struct rsum_json_token *first, uint64_t *numbers, size_t limit,
			size_t *count_out)
{
	struct rsum_json_token token;
	size_t count = 0;
	int ret;

	if (first->type != RSUM_JSON_ARRAY_BEGIN) {
		set_token_fault(parser, entry, member, "a list of whole numbers", first);
		*count_out = 0;
		return rsum_json_skip(&parser->json, first);
	}
	for (;;) {
		ret = rsum_json_next(&parser->json, &token);
		if (ret)
			return ret;
		if (token.type == RSUM_JSON_ARRAY_END)
			break;
		if (!rsum_manifest_token_is_unsigned(&token))
			set_token_fault(parser, entry, member, "whole numbers", &token);
		else if (count < limit)
			numbers[count] = token.magnitude;
		count++;
		ret = rsum_json_skip(&parser->json, &token);
		if (ret)
			return ret;
	}
	*count_out = count;
	return 0;
}

static int read_shape(struct parser *parser, struct entry *entry,
		      const struct rsum_json_token *token)
{
	struct ringsum_tensor *tensor = &entry->promise.tensor;
	uint64_t dimensions[RSUM_LIMIT_RANK], *shape;
	char actual[32];
	size_t rank;
	int ret = read_numbers(parser, entry, MEMBER_SHAPE, token, dimensions, RSUM_LIMIT_RANK,
			       &rank);

	if (ret)
		return ret;
	if (rank > RSUM_LIMIT_RANK) {
		snprintf(actual, sizeof(actual), "rank %zu", rank);
		set_fault(entry, MEMBER_SHAPE, "a rank of at most 64 (limit)", actual);
	}
	if (entry->faults[MEMBER_SHAPE].expected || rank == 0)
		return 0;
	shape = rsum_arena_alloc(&parser->out->arena, rank * sizeof(*shape));
	if (!shape)
		return RINGSUM_E_NOMEM;
	memcpy(shape, dimensions, rank * sizeof(*shape));
	tensor->shape = shape;
	tensor->rank = (unsigned)rank;
	return 0;
}
static_assert(RSUM_LIMIT_RANK == 64, "as the message above says");

static int read_file(struct parser *parser, struct entry *entry,
		     const struct rsum_json_token *token)
{
	const char *file = usable_string(parser, entry, MEMBER_FILE, token);
	int ret;

	if (!file)
		return rsum_json_skip(&parser->json, token);
	ret = rsum_manifest_number_file(parser->out, file, &entry->promise.file_index);
	if (ret == RINGSUM_E_LIMIT)
		return rsum_json_refuse(&parser->json, token->offset,
					"more than %d different files; that is the limit",
					RSUM_LIMIT_SHARDS);
	if (ret == 0)
		entry->promise.tensor.shard = parser->out->files[entry->promise.file_index];
	return ret;
}

static int read_range(struct parser *parser, struct entry *entry, enum member member,
		      const struct rsum_json_token *token, uint64_t *begin_out, uint64_t *end_out)
{
	uint64_t ends[2] = { 0, 0 };
	char actual[64];
	size_t count;
	int ret = read_numbers(parser, entry, member, token, ends, 2, &count);

	if (ret || entry->faults[member].expected)
		return ret;
	if (count != 2) {
		snprintf(actual, sizeof(actual), "%zu numbers", count);
		set_fault(entry, member, "two numbers, begin and end", actual);
		return 0;
	}
	if (ends[0] > ends[1] || ends[1] > RSUM_LIMIT_FILE_OFFSET) {
		snprintf(actual, sizeof(actual), "[%" PRIu64 ", %" PRIu64 ")", ends[0], ends[1]);
		set_fault(entry, member,
			  ends[0] > ends[1] ? "a begin that is not past the end"
					    : "an end of at most 2^62 (limit on offsets)",
			  actual);
		return 0;
	}
	*begin_out = ends[0];
	*end_out = ends[1];
	return 0;
}
static_assert(RSUM_LIMIT_FILE_OFFSET == UINT64_C(1) << 62, "as the message above says");

static int read_digest(struct parser *parser, struct entry *entry,
		       const struct rsum_json_token *token)
{
	if (token->type != RSUM_JSON_STRING || token->length != 64 ||
	    !rsum_hex_decode_digest(token->string, entry->promise.tensor.digest_sha256))
		set_token_fault(parser, entry, MEMBER_DIGEST, "64 hex digits", token);
	return rsum_json_skip(&parser->json, token);
}

static int read_member(struct parser *parser, struct entry *entry, enum member member,
		       const struct rsum_json_token *token)
{
	struct ringsum_tensor *tensor = &entry->promise.tensor;
	uint64_t source_begin = 0, source_end = 0;
	int ret;

	switch (member) {
	case MEMBER_NAME:
		return read_name(parser, entry, token);
	case MEMBER_DTYPE:
		return read_dtype(parser, entry, token);
	case MEMBER_SHAPE:
		return read_shape(parser, entry, token);
	case MEMBER_FILE:
		return read_file(parser, entry, token);
	case MEMBER_RANGE:
		ret = read_range(parser, entry, member, token, &tensor->begin, &tensor->end);
		tensor->size_bytes = tensor->end - tensor->begin;
		return ret;
	case MEMBER_SOURCE_RANGE:
		ret = read_range(parser, entry, member, token, &source_begin, &source_end);
		entry->promise.source_bytes = source_end - source_begin;
		return ret;
	case MEMBER_DIGEST:
		return read_digest(parser, entry, token);
	default:
		if (!rsum_manifest_token_is_unsigned(token))
			set_token_fault(parser, entry, member, "a whole number", token);
		return rsum_json_skip(&parser->json, token);
	}
}

/* ---- entries ----------------------------------------------------------------------------- */

static enum member member_of(const struct rsum_json_token *key)
{
	for (unsigned i = 0; i < MEMBER_COUNT; i++)
		if (rsum_json_equals(key, member_names[i]))
			return (enum member)i;
	return MEMBER_COUNT;
}

static int read_members(struct parser *parser, struct entry *entry)
{
	struct rsum_json_token key, value;
	enum member member;
	int ret;

	for (;;) {
		ret = rsum_json_next(&parser->json, &key);
		if (ret || key.type == RSUM_JSON_OBJECT_END)
			return ret;
		member = member_of(&key);
		ret = rsum_json_next(&parser->json, &value);
		if (ret)
			return ret;
		if (member == MEMBER_COUNT) {
			ret = rsum_json_skip(&parser->json, &value);
		} else {
			entry->is_seen[member] = true;
			ret = read_member(parser, entry, member, &value);
		}
		if (ret)
			return ret;
	}
}

/* Reports what is wrong with an entry. Returns whether nothing is. */
static bool report_faults(const struct parser *parser, struct entry *entry, size_t index,
			  size_t offset)
{
	bool is_wellformed = true;
	char message[192];

	for (unsigned i = 0; i < MEMBER_COUNT; i++) {
		const struct fault *fault = &entry->faults[i];

		if (!entry->is_seen[i])
			set_fault(entry, (enum member)i, "the member", "none");
		if (!fault->expected)
			continue;
		is_wellformed = false;
		snprintf(message, sizeof(message), "entry %zu (at byte %zu): %s is %s", index,
			 offset, member_names[i],
			 entry->is_seen[i] ? "not what it must be" : "missing");
		add_entry_finding(parser, fault->code, entry->promise.tensor.name, fault->expected,
				  fault->actual, message);
	}
	return is_wellformed;
}

static int push_promise(struct parser *parser, const struct rsum_promise *promise, size_t offset)
{
	struct rsum_manifest *out = parser->out;

	if (out->promise_count == RSUM_LIMIT_TENSORS)
		return rsum_json_refuse(&parser->json, offset,
					"more than %d tensors; that is the limit",
					RSUM_LIMIT_TENSORS);
	if (out->promise_count == out->promise_capacity) {
		size_t capacity = RSUM_MAX(out->promise_capacity * 2, (size_t)64);
		struct rsum_promise *promises;

		capacity = RSUM_MIN(capacity, (size_t)RSUM_LIMIT_TENSORS);
		promises = realloc(out->promises, capacity * sizeof(*promises));
		if (!promises)
			return RINGSUM_E_NOMEM;
		out->promises = promises;
		out->promise_capacity = capacity;
	}
	out->promises[out->promise_count++] = *promise;
	return 0;
}

/* Two promises under one name: which one holds is unknown, so neither does. */
static int index_name(struct parser *parser, size_t index)
{
	struct rsum_manifest *out = parser->out;
	struct rsum_promise *promise = &out->promises[index];
	char message[160];
	uint32_t first;

	if (!*promise->tensor.name)
		return 0;
	if (rsum_name_index_add(&out->by_name, promise->tensor.name, (uint32_t)index, &first))
		return RINGSUM_E_NOMEM;
	if (first == RSUM_NAME_INDEX_NONE)
		return 0;
	promise->is_wellformed = false;
	out->promises[first].is_wellformed = false;
	snprintf(message, sizeof(message),
		 "entry %zu promises the tensor that entry %" PRIu32
		 " promises already; neither can be trusted",
		 index, first);
	add_entry_finding(parser, RINGSUM_FINDING_TENSOR_DUPLICATE, promise->tensor.name,
			  "each name once", "a second entry", message);
	return 0;
}

/* A promise takes more memory than an entry that is none; so many of those are no manifest. */
static int count_short(struct parser *parser, size_t offset)
{
	if (parser->short_count++ < RSUM_LIMIT_SHORT_ENTRIES)
		return 0;
	return rsum_json_refuse(&parser->json, offset,
				"more than %d entries are too short to be promises; that is the "
				"limit",
				RSUM_LIMIT_SHORT_ENTRIES);
}

static int read_entry(struct parser *parser, const struct rsum_json_token *first)
{
	struct entry entry = {
		.promise = {
			.tensor = { .name = "", .shard = "" },
			.file_index = RSUM_NAME_INDEX_NONE,
		},
	};
	size_t index = parser->out->promise_count - parser->first_promise;
	char actual[128], message[96];
	int ret;

	if (first->type == RSUM_JSON_OBJECT_BEGIN) {
		ret = read_members(parser, &entry);
		if (ret)
			return ret;
		entry.promise.is_wellformed = report_faults(parser, &entry, index, first->offset);
	} else {
		rsum_manifest_describe_token(parser->text, parser->text_bytes, first, actual,
					     sizeof(actual));
		snprintf(message, sizeof(message), "entry %zu (at byte %zu) is not an object",
			 index, first->offset);
		add_entry_finding(parser, RINGSUM_FINDING_MANIFEST_INVALID, NULL, "an object",
				  actual, message);
		ret = rsum_json_skip(&parser->json, first);
		if (ret)
			return ret;
	}
	if (parser->json.position - first->offset < SHORT_ENTRY_BYTES) {
		ret = count_short(parser, first->offset);
		if (ret)
			return ret;
	}
	ret = push_promise(parser, &entry.promise, first->offset);
	return ret ? ret : index_name(parser, parser->out->promise_count - 1);
}

/* ---- the document ------------------------------------------------------------------------ */

static int read_tensors(struct parser *parser, const struct rsum_json_token *first)
{
	struct rsum_json_token token;
	int ret;

	if (first->type != RSUM_JSON_ARRAY_BEGIN)
		return rsum_json_refuse(&parser->json, first->offset,
					"`tensors` is %s where a list is expected",
					rsum_json_type_text(first->type));
	for (;;) {
		ret = rsum_json_next(&parser->json, &token);
		if (ret || token.type == RSUM_JSON_ARRAY_END)
			return ret;
		ret = read_entry(parser, &token);
		if (ret)
			return ret;
	}
}

/* A codebook that is no name is kept as a description of it, for the profile's complaint. */
static int keep_codebook(struct parser *parser, const struct rsum_json_token *token)
{
	struct rsum_manifest *out = parser->out;
	char found[128], shown[96];

	out->has_codebook = true;
	if (token->type == RSUM_JSON_STRING && strlen(token->string) == token->length) {
		out->codebook = rsum_arena_copy(&out->arena, token->string, token->length);
		return out->codebook ? 0 : RINGSUM_E_NOMEM;
	}
	rsum_manifest_describe_token(parser->text, parser->text_bytes, token, shown, sizeof(shown));
	snprintf(found, sizeof(found), "%s%s", token->type == RSUM_JSON_NUMBER ? "the number " : "",
		 shown);
	out->codebook_found = rsum_arena_copy(&out->arena, found, strlen(found));
	return out->codebook_found ? 0 : RINGSUM_E_NOMEM;
}

static int read_top_member(struct parser *parser, bool *has_tensors)
{
	struct rsum_json_token key, value;
	int ret = rsum_json_next(&parser->json, &key);

	if (ret || key.type == RSUM_JSON_OBJECT_END)
		return ret ? ret : 1;
	ret = rsum_json_next(&parser->json, &value);
	if (ret)
		return ret;
	if (rsum_json_equals(&key, "tensors")) {
		*has_tensors = true;
		return read_tensors(parser, &value);
	}
	if (rsum_json_equals(&key, "codebook")) {
		ret = keep_codebook(parser, &value);
		if (ret)
			return ret;
	}
	return rsum_json_skip(&parser->json, &value);
}

static int read_document(struct parser *parser)
{
	struct rsum_json_token token;
	bool has_tensors = false;
	int ret = rsum_json_next(&parser->json, &token);

	if (ret)
		return ret;
	if (token.type != RSUM_JSON_OBJECT_BEGIN)
		return rsum_json_refuse(&parser->json, token.offset,
					"%s where an object with `tensors` is expected",
					rsum_json_type_text(token.type));
	do
		ret = read_top_member(parser, &has_tensors);
	while (ret == 0);
	if (ret < 0)
		return ret;
	ret = rsum_json_next(&parser->json, &token); /* nothing but blanks may follow */
	if (ret)
		return ret;
	if (!has_tensors)
		return rsum_json_refuse(&parser->json, token.offset, "there is no list `tensors`");
	return 0;
}

/* A document that is unusable promises nothing: what was read of it is dropped. */
static int refuse_document(struct parser *parser, struct rsum_manifest_mark mark,
			   const char *reason, uint64_t offset)
{
	char message[320];

	snprintf(message, sizeof(message), "the manifest is unusable at byte %" PRIu64 ": %s",
		 offset, reason);
	add_entry_finding(parser, RINGSUM_FINDING_MANIFEST_INVALID, NULL, NULL, NULL, message);
	if (rsum_manifest_rewind(parser->out, mark))
		return RINGSUM_E_NOMEM;
	return RINGSUM_E_REFUSED;
}

static int parse(char *text, size_t size_bytes, const char *file_name, struct rsum_manifest *out,
		 struct ringsum_report *report)
{
	struct rsum_manifest_mark mark = rsum_manifest_mark(out);
	struct parser parser = {
		.text = text,
		.text_bytes = size_bytes,
		.file_name = file_name,
		.out = out,
		.report = report,
		.first_promise = out->promise_count,
	};
	char reason[256];
	int ret;

	if (size_bytes > RSUM_LIMIT_MANIFEST_BYTES) {
		free(text);
		return refuse_document(&parser, mark, "it is larger than 1 GiB, which is the limit",
				       RSUM_LIMIT_MANIFEST_BYTES);
	}
	ret = rsum_json_init(&parser.json, text, size_bytes, RSUM_LIMIT_JSON_DEPTH);
	if (!ret)
		ret = read_document(&parser);
	if (ret == RINGSUM_E_REFUSED || ret == RINGSUM_E_LIMIT)
		ret = refuse_document(&parser, mark,
				      rsum_manifest_describe_refusal(&parser.json, file_name,
								     reason, sizeof(reason)),
				      parser.json.error_offset);
	rsum_json_deinit(&parser.json);
	/* Names are a small part of it; what they were read from would only take memory. */
	free(text);
	out->is_usable |= ret == 0;
	return ret;
}
static_assert(RSUM_LIMIT_MANIFEST_BYTES == UINT64_C(1) << 30, "as the message above says");

/* Any JSON object that no other format took. */
static bool detect(const char *text, size_t size_bytes)
{
	size_t blanks = 0;

	while (blanks < size_bytes && memchr(" \t\r\n", text[blanks], 4))
		blanks++;
	return blanks < size_bytes && text[blanks] == '{';
}

const struct rsum_manifest_format rsum_manifest_tensors = {
	.name = "TENSORS.json",
	.detect = detect,
	.parse = parse,
};
