/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a statement. Members come in any order, so what resources mean is settled once all of it
 * is read: whether names are files or pieces, and which digests they have.
 */
#include "statement.h"

#include <string.h>

#include "digest.h"
#include "json_members.h"
#include "report.h"

#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define PREDICATE_TYPE "https://model_signing/signature/v1.0"
#define PREDICATE_TYPE_LEGACY "https://model_signing/Digests/v0.1"
#define LIKELY_BYTES 4096		 /* of a document, where the first key is looked for */
#define SHOWN_BYTES 96			 /* of a name in a message */
#define WHOLE_DOUBLES 9007199254740992.0 /* 2^53: up to here a double tells whole numbers apart */

static const struct {
	const char *name;
	size_t digest_bytes;
} algorithms[] = {
	{ "sha256", 32 },
	{ "blake2b", 64 },
	{ "blake3", 32 },
};

struct reading {
	struct rsum_statement *out;
	size_t resource_capacity;
	struct rsum_statement_resource current; /* its path is the name as listed */
	const char *digest_hex;			/* of the current one */
	const char *predicate_type;
	const char *method;
	const char *hash_type;
	const char *last_algorithm; /* most are the same */
	bool has_piece_bytes;
	/* Subjects: one with the digest of the whole or, in the legacy form, the resources. */
	struct rsum_statement_resource *subjects;
	size_t subject_count;
	size_t subject_capacity;
	bool has_predicate;
	bool has_resources;
	bool has_serialization;
};

/* ---- one resource -------------------------------------------------------------------------- */

static int nibble(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit = (char)(digit | 0x20);
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static int read_digest(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;
	uint8_t digest[RSUM_STATEMENT_DIGEST_BYTES_MAX], *kept;
	size_t length = token->length / 2, i;
	const char *hex;
	int ret = rsum_json_take_text(json, token, "digest", &hex);

	if (ret)
		return ret;
	if (token->length % 2 || length == 0 || length > sizeof(digest))
		return rsum_json_refuse(json, token->offset, "a digest is not 2 to 128 hex digits");
	for (i = 0; i < length; i++) {
		int high = nibble(hex[2 * i]), low = nibble(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return rsum_json_refuse(json, token->offset, "a digest is not hex");
		digest[i] = (uint8_t)(high << 4 | low);
	}
	kept = rsum_arena_alloc(&reading->out->arena, length);
	if (!kept)
		return RINGSUM_E_NOMEM;
	memcpy(kept, digest, length);
	reading->current.digest = kept;
	reading->current.digest_bytes = length;
	return 0;
}

static int read_name(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	return rsum_json_take_text(json, token, "name", &reading->current.path);
}

static int read_algorithm(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	return rsum_json_take_text(json, token, "algorithm", &reading->current.algorithm);
}

/* Adds the current one to a list that grows. */
static int push(struct rsum_json *json, const struct rsum_json_token *token,
		const struct reading *reading, struct rsum_statement_resource **list, size_t *count,
		size_t *capacity)
{
	if (*count == RSUM_LIMIT_TENSORS)
		return rsum_json_refuse(json, token->offset,
					"more than %d entries; that is the limit",
					RSUM_LIMIT_TENSORS);
	if (*count == *capacity) {
		size_t wanted = RSUM_MAX(*capacity * 2, (size_t)16);
		struct rsum_statement_resource *grown = realloc(*list, wanted * sizeof(**list));

		if (!grown)
			return RINGSUM_E_NOMEM;
		*list = grown;
		*capacity = wanted;
	}
	(*list)[(*count)++] = reading->current;
	return 0;
}

static int read_resource(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "name", read_name, true },
		{ "algorithm", read_algorithm, true },
		{ "digest", read_digest, true },
	};
	static const struct rsum_json_shape shape = { "a resource", members, 3, false };
	struct reading *reading = arg;
	int ret;

	reading->current = (struct rsum_statement_resource){ 0 };
	ret = rsum_json_read_object(json, token, &shape, arg);
	if (ret)
		return ret;
	return push(json, token, reading, &reading->out->resources, &reading->out->resource_count,
		    &reading->resource_capacity);
}

static int read_resources(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	reading->has_resources = true;
	return rsum_json_read_list(json, token, "resources", read_resource, arg);
}

/* ---- serialization ------------------------------------------------------------------------- */

static int read_method(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;
	int ret = rsum_json_take_text(json, token, "method", &reading->method);

	if (ret)
		return ret;
	reading->out->is_in_pieces = strcmp(reading->method, "shards") == 0;
	if (!reading->out->is_in_pieces && strcmp(reading->method, "files") != 0)
		return rsum_json_refuse(json, token->offset,
					"the method is neither \"files\" nor \"shards\"");
	return 0;
}

static int read_hash_type(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	return rsum_json_take_text(json, token, "hash_type", &reading->hash_type);
}

/* Writers that keep every number as a double spell it 1000000000.0. */
static int read_piece_bytes(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;
	uint64_t bytes = 0;

	if (token->type == RSUM_JSON_NUMBER && token->is_integer && !token->is_negative)
		bytes = token->magnitude;
	else if (token->type == RSUM_JSON_NUMBER && token->real >= 1 &&
		 token->real <= WHOLE_DOUBLES && (double)(uint64_t)token->real == token->real)
		bytes = (uint64_t)token->real;
	if (bytes == 0 || bytes > RSUM_LIMIT_FILE_OFFSET)
		return rsum_json_refuse(json, token->offset,
					"shard_size is not a whole number from 1 to 2^62");
	reading->out->piece_bytes = bytes;
	reading->has_piece_bytes = true;
	return 0;
}

static int read_allow_links(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct reading *reading = arg;

	if (token->type != RSUM_JSON_TRUE && token->type != RSUM_JSON_FALSE)
		return rsum_json_refuse(json, token->offset,
					"allow_symlinks is neither true nor false");
	reading->out->allows_links = token->type == RSUM_JSON_TRUE;
	return 0;
}

/* The canonical spelling of a path to ignore: "a//b/./c/" is "a/b/c". In place. */
static void tidy_path(char *path)
{
	const char *from = path;
	char *to = path;

	while (*from) {
		size_t length = strcspn(from, "/");

		if (length > 0 && !(length == 1 && *from == '.')) {
			if (to > path)
				*to++ = '/';
			memmove(to, from, length);
			to += length;
		}
		from += length;
		from += strspn(from, "/");
	}
	*to = '\0';
}

static int read_ignored(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	struct rsum_statement *out = ((struct reading *)arg)->out;
	const char *path, *fault;
	uint32_t existing;
	int ret = rsum_json_take_text(json, token, "a path to ignore", &path);

	if (ret)
		return ret;
	/* Outside the directory there is nothing to ignore; absolute paths are of another machine. */
	if (*path == '/')
		return 0;
	tidy_path(token->string);
	if (*path == '\0')
		return rsum_json_refuse(json, token->offset,
					"ignore_paths leaves out the whole directory");
	if (!rsum_statement_path_is_plain(path, &fault))
		return 0;
	if (out->ignored_count == RSUM_LIMIT_IGNORES)
		return rsum_json_refuse(json, token->offset,
					"more than %d paths to ignore; that is the limit",
					RSUM_LIMIT_IGNORES);
	path = rsum_arena_copy(&out->arena, path, strlen(path));
	if (!path || rsum_name_index_add(&out->ignored, path, 0, &existing))
		return RINGSUM_E_NOMEM;
	out->ignored_count += existing == RSUM_NAME_INDEX_NONE;
	return 0;
}

static int read_ignore_list(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	return rsum_json_read_list(json, token, "ignore_paths", read_ignored, arg);
}

static int read_serialization(struct rsum_json *json, const struct rsum_json_token *token,
			      void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "method", read_method, true },
		{ "hash_type", read_hash_type, true },
		{ "shard_size", read_piece_bytes, false },
		{ "allow_symlinks", read_allow_links, false },
		{ "ignore_paths", read_ignore_list, false },
	};
	static const struct rsum_json_shape shape = { "serialization", members, 5, false };
	struct reading *reading = arg;

	reading->has_serialization = true;
	return rsum_json_read_object(json, token, &shape, arg);
}

/* ---- subjects and the document ------------------------------------------------------------- */

static int read_digests(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = { { "sha256", read_digest, true } };
	static const struct rsum_json_shape shape = { "a subject's digest", members, 1, false };

	return rsum_json_read_object(json, token, &shape, arg);
}

static int read_annotations(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "actual_hash_algorithm", read_algorithm, false },
	};
	static const struct rsum_json_shape shape = { "annotations", members, 1, false };

	return rsum_json_read_object(json, token, &shape, arg);
}

static int read_subject(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "name", read_name, false },
		{ "digest", read_digests, true },
		{ "annotations", read_annotations, false },
	};
	static const struct rsum_json_shape shape = { "a subject", members, 3, false };
	struct reading *reading = arg;
	int ret;

	reading->current = (struct rsum_statement_resource){ .path = "" };
	ret = rsum_json_read_object(json, token, &shape, arg);
	if (ret)
		return ret;
	return push(json, token, reading, &reading->subjects, &reading->subject_count,
		    &reading->subject_capacity);
}

static int read_subjects(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	return rsum_json_read_list(json, token, "subject", read_subject, arg);
}

static int read_type(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	const char *text;
	int ret = rsum_json_take_text(json, token, "_type", &text);

	(void)arg;
	if (!ret && strcmp(text, STATEMENT_TYPE) != 0)
		return rsum_json_refuse(json, token->offset, "_type is not \"" STATEMENT_TYPE "\"");
	return ret;
}

static int read_predicate_type(struct rsum_json *json, const struct rsum_json_token *token,
			       void *arg)
{
	struct reading *reading = arg;
	int ret = rsum_json_take_text(json, token, "predicateType", &reading->predicate_type);

	if (ret || strcmp(reading->predicate_type, PREDICATE_TYPE) == 0 ||
	    strcmp(reading->predicate_type, PREDICATE_TYPE_LEGACY) == 0)
		return ret;
	return rsum_json_refuse(json, token->offset,
				"predicateType is not that of a model's signature");
}

static int read_predicate(struct rsum_json *json, const struct rsum_json_token *token, void *arg)
{
	static const struct rsum_json_member members[] = {
		{ "serialization", read_serialization, false },
		{ "resources", read_resources, false },
	};
	static const struct rsum_json_shape shape = { "predicate", members, 2, false };
	struct reading *reading = arg;

	reading->has_predicate = true;
	return rsum_json_read_object(json, token, &shape, arg);
}

static const struct rsum_json_member statement_members[] = {
	{ "_type", read_type, true },
	{ "subject", read_subjects, true },
	{ "predicateType", read_predicate_type, true },
	{ "predicate", read_predicate, false },
};

static const struct rsum_json_shape statement_shape = { "the statement", statement_members, 4,
							false };

/* ---- what it comes to ---------------------------------------------------------------------- */

static int refuse(const char *what, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	snprintf(reason, RSUM_STATEMENT_REASON_BYTES, "%s", what);
	return RINGSUM_E_REFUSED;
}

static int refuse_resource(const char *name, const char *what,
			   char reason[RSUM_STATEMENT_REASON_BYTES])
{
	char shown[SHOWN_BYTES];

	snprintf(reason, RSUM_STATEMENT_REASON_BYTES, "the resource \"%s\" %s",
		 rsum_text_shorten(name, shown, sizeof(shown)), what);
	return RINGSUM_E_REFUSED;
}

/* Decimal digits, without a sign, a blank or a zero in front. */
static bool read_decimal(const char *text, size_t length, uint64_t *value_out)
{
	uint64_t value = 0;

	if (length == 0 || (length > 1 && *text == '0'))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9' || !rsum_mul_u64(value, 10, &value) ||
		    !rsum_add_u64(value, (uint64_t)(text[i] - '0'), &value))
			return false;
	}
	*value_out = value;
	return value <= RSUM_LIMIT_FILE_OFFSET;
}

/* Splits "path:begin:end" at its last two colons, in the text. */
static bool split_piece(struct rsum_statement_resource *resource)
{
	char *name = (char *)(uintptr_t)resource->path;
	char *last = strrchr(name, ':'), *first;

	if (!last || !read_decimal(last + 1, strlen(last + 1), &resource->end))
		return false;
	first = memrchr(name, ':', (size_t)(last - name));
	if (!first || !read_decimal(first + 1, (size_t)(last - first - 1), &resource->begin))
		return false;
	*first = '\0';
	resource->is_piece = true;
	return true;
}

/* The name without what an older spelling adds: "sha256-sharded-1000000000". */
static bool settle_algorithm(struct reading *reading, struct rsum_statement_resource *resource)
{
	static const char infix[] = "-sharded-";
	const char *at = strstr(resource->algorithm, infix);
	size_t length = at ? (size_t)(at - resource->algorithm) : strlen(resource->algorithm);
	const char *named = reading->hash_type;
	uint64_t piece_bytes;

	if (at) {
		const char *digits = at + strlen(infix);

		if (!resource->is_piece || !read_decimal(digits, strlen(digits), &piece_bytes) ||
		    piece_bytes != reading->out->piece_bytes)
			return false;
	}
	/* The reference implementation is configured with "blake2" and writes "blake2b". */
	if (strcmp(named, "blake2") == 0)
		named = "blake2b";
	return strlen(named) == length && memcmp(named, resource->algorithm, length) == 0;
}

static bool digest_fits(const struct rsum_statement_resource *resource)
{
	for (size_t i = 0; i < RSUM_COUNT_OF(algorithms); i++)
		if (strcmp(resource->algorithm, algorithms[i].name) == 0)
			return resource->digest_bytes == algorithms[i].digest_bytes;
	return true;
}

/* In the legacy form what is no SHA-256 of a whole file says so in an annotation. */
static const char *legacy_algorithm(const struct rsum_statement_resource *resource)
{
	if (!resource->algorithm || strcmp(resource->algorithm, "file-sha256") == 0)
		return "sha256";
	return resource->algorithm;
}

static int keep_algorithm(struct reading *reading, struct rsum_statement_resource *resource,
			  const char *algorithm)
{
	if (!reading->last_algorithm || strcmp(reading->last_algorithm, algorithm) != 0)
		reading->last_algorithm =
			rsum_arena_copy(&reading->out->arena, algorithm, strlen(algorithm));
	resource->algorithm = reading->last_algorithm;
	return resource->algorithm ? 0 : RINGSUM_E_NOMEM;
}

static int settle_resource(struct reading *reading, struct rsum_statement_resource *resource,
			   bool is_legacy, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	const char *fault, *algorithm = reading->hash_type;
	char what[128];
	int ret;

	if (reading->out->is_in_pieces && !split_piece(resource))
		return refuse_resource(resource->path, "is not named path:begin:end", reason);
	if (strcmp(resource->path, ".") == 0)
		return refuse_resource(resource->path,
				       "speaks of a lone file, which was signed without its name; "
				       "only signatures of directories can be verified",
				       reason);
	if (!rsum_statement_path_is_plain(resource->path, &fault)) {
		snprintf(what, sizeof(what), "has a path that is %s", fault);
		return refuse_resource(resource->path, what, reason);
	}
	if (is_legacy)
		algorithm = legacy_algorithm(resource);
	else if (!settle_algorithm(reading, resource))
		return refuse_resource(resource->path,
				       "has another algorithm than `serialization` says", reason);
	else if (strcmp(algorithm, "blake2") == 0)
		algorithm = "blake2b";
	ret = keep_algorithm(reading, resource, algorithm);
	if (!ret && !digest_fits(resource))
		return refuse_resource(resource->path, "has a digest of the wrong length", reason);
	return ret;
}

/* The digest of the whole: SHA-256 over all digests, in the order in which they are listed. */
static int hash_digests(const struct rsum_statement *statement, uint8_t out[RSUM_SHA256_BYTES])
{
	const struct rsum_digest_impl *impl = rsum_digest_impl_get(RINGSUM_DIGEST_LIBCRYPTO);
	struct rsum_sha256 stream;
	int ret = rsum_sha256_init(&stream, impl);

	for (size_t i = 0; !ret && i < statement->resource_count; i++) {
		struct rsum_sha256_span span = {
			.stream = &stream,
			.data = statement->resources[i].digest,
			.size_bytes = statement->resources[i].digest_bytes,
		};

		rsum_sha256_update(impl, &span, 1);
	}
	if (!ret)
		ret = rsum_sha256_final(&stream, impl, out);
	rsum_sha256_deinit(&stream);
	return ret;
}

static int check_subject(const struct reading *reading, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	uint8_t digest[RSUM_SHA256_BYTES];
	char expected[65], actual[65];
	int ret;

	if (reading->subject_count != 1)
		return refuse("there is not exactly one subject", reason);
	if (reading->subjects[0].digest_bytes != RSUM_SHA256_BYTES)
		return refuse("the subject's sha256 is not 64 hex digits", reason);
	ret = hash_digests(reading->out, digest);
	if (ret || memcmp(digest, reading->subjects[0].digest, sizeof(digest)) == 0)
		return ret;
	rsum_hex_encode_digest(reading->subjects[0].digest, expected);
	rsum_hex_encode_digest(digest, actual);
	snprintf(reason, RSUM_STATEMENT_REASON_BYTES,
		 "the subject's digest is %s, but the digests listed come to %s: the list was "
		 "changed",
		 expected, actual);
	return RINGSUM_E_REFUSED;
}

/* The legacy form has no serialization, and its resources are its subjects. */
static int settle_form(struct reading *reading, bool *is_legacy_out,
		       char reason[RSUM_STATEMENT_REASON_BYTES])
{
	struct rsum_statement *out = reading->out;

	*is_legacy_out = strcmp(reading->predicate_type, PREDICATE_TYPE_LEGACY) == 0;
	if (*is_legacy_out) {
		if (reading->has_resources || reading->has_serialization)
			return refuse("it has the members of two forms at once", reason);
		out->resources = reading->subjects;
		out->resource_count = reading->subject_count;
		reading->subjects = NULL;
		return out->resource_count ? 0 : refuse("it lists no file", reason);
	}
	if (!reading->has_serialization || !reading->has_resources)
		return refuse("the predicate lacks `serialization` or `resources`", reason);
	if (out->resource_count == 0)
		return refuse("it lists no file", reason);
	if (out->is_in_pieces && !reading->has_piece_bytes)
		return refuse("`serialization` has the method \"shards\" and no shard_size",
			      reason);
	out->subject = reading->subject_count == 1 ? reading->subjects[0].path : "";
	return check_subject(reading, reason);
}

/* Copies what still points into the text. Pieces of a file share its path. */
static int keep_paths(struct rsum_statement *out)
{
	for (size_t i = 0; i < out->resource_count; i++) {
		struct rsum_statement_resource *at = &out->resources[i];

		if (i > 0 && strcmp(at[-1].path, at->path) == 0)
			at->path = at[-1].path;
		else
			at->path = rsum_arena_copy(&out->arena, at->path, strlen(at->path));
		if (!at->path)
			return RINGSUM_E_NOMEM;
	}
	out->subject = rsum_arena_copy(&out->arena, out->subject, strlen(out->subject));
	return out->subject ? 0 : RINGSUM_E_NOMEM;
}

static int settle(struct reading *reading, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	struct rsum_statement *out = reading->out;
	bool is_legacy;
	int ret = settle_form(reading, &is_legacy, reason);

	for (size_t i = 0; !ret && i < out->resource_count; i++)
		ret = settle_resource(reading, &out->resources[i], is_legacy, reason);
	if (!ret &&
	    !rsum_statement_arrange(out->resources, out->resource_count, out->piece_bytes, reason))
		ret = RINGSUM_E_REFUSED;
	return ret ? ret : keep_paths(out);
}

int rsum_statement_read(char *text, size_t size_bytes, struct rsum_statement *out,
			char reason[RSUM_STATEMENT_REASON_BYTES])
{
	struct reading reading = { .out = out };
	struct rsum_json json;
	int ret;

	*out = (struct rsum_statement){ .subject = "" };
	if (size_bytes > RSUM_LIMIT_BUNDLE_BYTES)
		return refuse("it is larger than 256 MiB, which is the limit", reason);
	ret = rsum_json_init(&json, text, size_bytes, RSUM_LIMIT_JSON_DEPTH);
	if (!ret)
		ret = rsum_json_read_document(&json, &statement_shape, &reading);
	if (ret == RINGSUM_E_REFUSED || ret == RINGSUM_E_LIMIT) {
		ret = RINGSUM_E_REFUSED;
		snprintf(reason, RSUM_STATEMENT_REASON_BYTES, "at byte %zu: %s", json.error_offset,
			 json.reason);
	}
	rsum_json_deinit(&json);
	if (!ret)
		ret = settle(&reading, reason);
	free(reading.subjects);
	return ret;
}

bool rsum_statement_is_likely(const char *text, size_t size_bytes)
{
	static const char *const keys[] = { "\"_type\"", "\"predicateType\"", "\"predicate\"",
					    "\"subject\"" };
	size_t looked_at = RSUM_MIN(size_bytes, (size_t)LIKELY_BYTES), at = 0;

	while (at < looked_at && memchr(" \t\r\n", text[at], 4))
		at++;
	if (at == looked_at || text[at] != '{')
		return false;
	for (at++; at < looked_at && memchr(" \t\r\n", text[at], 4);)
		at++;
	for (size_t i = 0; i < RSUM_COUNT_OF(keys); i++)
		if (size_bytes - at >= strlen(keys[i]) &&
		    memcmp(text + at, keys[i], strlen(keys[i])) == 0)
			return true;
	return false;
}
