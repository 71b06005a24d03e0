/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a statement, one resource to a line. */
#include "statement.h"

#include <inttypes.h>
#include <string.h>

#include "digest.h"
#include "json.h"
#include "json_write.h"
#include "report.h"

static int refuse(const char *path, const char *what, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	char shown[96];

	snprintf(reason, RSUM_STATEMENT_REASON_BYTES, "\"%s\" %s",
		 rsum_text_shorten(path, shown, sizeof(shown)), what);
	return RINGSUM_E_INVALID;
}

static int check_resource(const struct rsum_statement_resource *resource, uint64_t piece_bytes,
			  char reason[RSUM_STATEMENT_REASON_BYTES])
{
	const char *fault;
	char what[96];

	if (!rsum_utf8_is_valid(resource->path, strlen(resource->path)))
		return refuse(resource->path, "is no name in UTF-8, which JSON needs", reason);
	if (!rsum_statement_path_is_plain(resource->path, &fault)) {
		snprintf(what, sizeof(what), "is %s", fault);
		return refuse(resource->path, what, reason);
	}
	if (resource->is_piece != (piece_bytes != 0))
		return refuse(resource->path,
			      piece_bytes ? "is a whole file in a list of pieces"
					  : "is a piece in a list of whole files",
			      reason);
	return 0;
}

static void append_hex(struct rsum_text *text, const uint8_t *bytes, size_t size_bytes)
{
	for (size_t i = 0; i < size_bytes; i++)
		rsum_text_printf(text, "%02x", bytes[i]);
}

static void append_resource(struct rsum_text *text, const struct rsum_statement_resource *resource,
			    uint64_t piece_bytes)
{
	struct rsum_text name = { 0 };
	char *full = NULL;

	rsum_text_append(&name, resource->path, strlen(resource->path));
	if (piece_bytes)
		rsum_text_printf(&name, ":%" PRIu64 ":%" PRIu64, resource->begin, resource->end);
	if (rsum_text_finish(&name, &full)) {
		text->has_failed = true;
		return;
	}
	rsum_text_printf(text, "{\"name\":");
	rsum_json_append_string(text, full);
	free(full);
	rsum_text_printf(text, ",\"algorithm\":\"%s", resource->algorithm);
	if (piece_bytes)
		rsum_text_printf(text, "-sharded-%" PRIu64, piece_bytes);
	rsum_text_printf(text, "\",\"digest\":\"");
	append_hex(text, resource->digest, resource->digest_bytes);
	rsum_text_printf(text, "\"}");
}

static void append_serialization(struct rsum_text *text, const struct rsum_statement_setup *setup,
				 const char *algorithm)
{
	rsum_text_printf(text, "{\"method\":\"%s\",\"hash_type\":\"%s\"",
			 setup->piece_bytes ? "shards" : "files", algorithm);
	if (setup->piece_bytes)
		rsum_text_printf(text, ",\"shard_size\":%" PRIu64, setup->piece_bytes);
	rsum_text_printf(text, ",\"allow_symlinks\":%s", setup->allows_links ? "true" : "false");
	for (size_t i = 0; i < setup->ignored_count; i++) {
		rsum_text_printf(text, "%s", i ? "," : ",\"ignore_paths\":[");
		rsum_json_append_string(text, setup->ignored[i]);
	}
	rsum_text_printf(text, "%s}", setup->ignored_count ? "]" : "");
}

/* SHA-256 over all digests, in the order of the list. */
static int hash_digests(const struct rsum_statement_resource *resources, size_t resource_count,
			uint8_t digest_out[RSUM_SHA256_BYTES])
{
	struct rsum_text all = { 0 };
	int ret;

	for (size_t i = 0; i < resource_count; i++)
		rsum_text_append(&all, (const char *)resources[i].digest,
				 resources[i].digest_bytes);
	ret = all.has_failed ? RINGSUM_E_NOMEM
			     : rsum_sha256_of(all.data, all.used_bytes, digest_out);
	free(all.data);
	return ret;
}

int rsum_statement_write(const struct rsum_statement_setup *setup,
			 struct rsum_statement_resource *resources, size_t resource_count,
			 char **text_out, char reason[RSUM_STATEMENT_REASON_BYTES])
{
	uint8_t digest[RSUM_SHA256_BYTES];
	struct rsum_text text = { 0 };
	char hex[65];
	int ret = 0;

	if (resource_count == 0) {
		snprintf(reason, RSUM_STATEMENT_REASON_BYTES, "there is no file to list");
		return RINGSUM_E_INVALID;
	}
	for (size_t i = 0; !ret && i < resource_count; i++)
		ret = check_resource(&resources[i], setup->piece_bytes, reason);
	if (ret)
		return ret;
	if (!rsum_statement_arrange(resources, resource_count, setup->piece_bytes, reason))
		return RINGSUM_E_INVALID;
	ret = hash_digests(resources, resource_count, digest);
	if (ret)
		return ret;
	rsum_hex_encode_digest(digest, hex);
	rsum_text_printf(&text, "{\"_type\":\"https://in-toto.io/Statement/v1\",\n"
				"\"subject\":[{\"name\":");
	rsum_json_append_string(&text, setup->subject);
	rsum_text_printf(&text,
			 ",\"digest\":{\"sha256\":\"%s\"}}],\n"
			 "\"predicateType\":\"https://model_signing/signature/v1.0\",\n"
			 "\"predicate\":{\"serialization\":",
			 hex);
	append_serialization(&text, setup, resources[0].algorithm);
	rsum_text_printf(&text, ",\n\"resources\":[\n");
	for (size_t i = 0; i < resource_count; i++) {
		rsum_text_printf(&text, "%s", i ? ",\n" : "");
		append_resource(&text, &resources[i], setup->piece_bytes);
	}
	rsum_text_printf(&text, "\n]}}\n");
	return rsum_text_finish(&text, text_out);
}
