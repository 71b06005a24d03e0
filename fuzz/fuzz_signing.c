/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed lists of files. The first byte of the input says what the rest is: `6` base64, `b` a
 * bundle, `s` a statement, `k` a file with keys or certificates.
 *
 *	- Base64 is accepted only in the one spelling that encoding gives.
 *	- A bundle that is read has exactly one kind of material, and what it signs is the one
 *	  statement that the key has signed or the signature is refused; json-c reads it.
 *	- A statement that is read lists plain paths, sorted, each once or covered by its pieces
 *	  without a gap; json-c reads it; written anew and read again it is the same.
 *	- As a manifest, with the key that is trusted, such a document promises at least one file
 *	  or has a finding; what is promised was signed, and then only is it told as checked.
 *	- No text is taken for a key and read without an end.
 */
#include "fuzz.h"
#include "signed.h"

#include <json-c/json.h>
#include <string.h>

#include "base64.h"
#include "manifest.h"
#include "report.h"
#include "rsum_limits.h"
#include "signature.h"
#include "statement.h"

static void check_json(const void *data, size_t size)
{
	struct json_object *root = NULL;

	if (memmem(data, size, "\\u0000", 6))
		return; /* a key of json-c's ends there */
	FUZZ_CHECK(fuzz_json_c_parse(data, size, 2 * RSUM_LIMIT_JSON_DEPTH, &root));
	FUZZ_CHECK(json_object_is_type(root, json_type_object));
	json_object_put(root);
}

/* Read once: libcrypto takes its time over it. */
static struct rsum_public_key *the_key(void)
{
	static const char pem[] = FUZZ_SIGNED_PUBLIC_KEY;
	static struct rsum_public_key *key;
	char reason[RSUM_SIGNATURE_REASON_BYTES];

	if (!key)
		FUZZ_CHECK(rsum_public_key_read(pem, strlen(pem), &key, reason) == 0);
	return key;
}

/* ---- base64 ------------------------------------------------------------------------------ */

static void run_base64(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size), *again;
	size_t size_bytes = 0;

	if (rsum_base64_decode(text, size, (uint8_t *)text, &size_bytes)) {
		again = rsum_base64_encode(text, size_bytes);
		FUZZ_CHECK(again && strlen(again) == size && memcmp(again, data, size) == 0);
		free(again);
	}
	free(text);
}

/* ---- manifests --------------------------------------------------------------------------- */

static void run_manifest(const struct rsum_manifest_format *format, const uint8_t *data,
			 size_t size, bool is_trusting)
{
	struct rsum_trust trust = { .public_key = is_trusting ? the_key() : NULL };
	struct ringsum_report *report = rsum_report_new();
	struct rsum_manifest manifest = { .trust = &trust };
	bool is_checked;
	int ret;

	FUZZ_CHECK(report);
	ret = format->parse(fuzz_copy(data, size), size, "model.sig", &manifest, report);
	is_checked = report->facts.authenticity.is_checked;
	FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
	FUZZ_CHECK((ret == 0) == (report->refusing_count == 0));
	FUZZ_CHECK((ret == 0) == (manifest.file_promise_count > 0));
	FUZZ_CHECK((ret == 0) == (manifest.is_usable && manifest.statement));
	FUZZ_CHECK(!is_checked || is_trusting);
	if (format == &rsum_manifest_oms && is_trusting)
		FUZZ_CHECK(ret != 0 || is_checked);
	if (ret == 0)
		FUZZ_CHECK(rsum_manifest_settle(&manifest, report) == 0 &&
			   report->refusing_count == 0);
	rsum_manifest_deinit(&manifest);
	ringsum_report_free(report);
}

/* ---- bundles ----------------------------------------------------------------------------- */

static void check_signature(const struct rsum_bundle *bundle)
{
	static const char statement[] = FUZZ_SIGNED_STATEMENT;
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct rsum_signer signer = { 0 };
	int ret = rsum_signature_check_key(bundle, the_key(), &signer, reason);

	FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
	if (ret == 0)
		FUZZ_CHECK(bundle->payload_bytes == strlen(statement) &&
			   memcmp(bundle->payload, statement, strlen(statement)) == 0 &&
			   strlen(signer.fingerprint) == 64);
	else
		FUZZ_CHECK(*reason && !*signer.fingerprint);
}

static void check_material(const struct rsum_bundle *bundle)
{
	FUZZ_CHECK(bundle->payload_bytes > 0 && bundle->signature.size_bytes > 0);
	FUZZ_CHECK(bundle->signature.size_bytes <= RSUM_LIMIT_SIGNATURE_BYTES);
	FUZZ_CHECK(bundle->certificate_count <= RSUM_LIMIT_CERTIFICATES);
	FUZZ_CHECK((bundle->material == RSUM_BUNDLE_KEY) == (bundle->certificate_count == 0));
	for (size_t i = 0; i < bundle->certificate_count; i++)
		FUZZ_CHECK(bundle->certificates[i].size_bytes > 0 &&
			   bundle->certificates[i].size_bytes <= RSUM_LIMIT_CERTIFICATE_BYTES);
}

/* Nobody has the authority's key, so no chain is ever right. */
static void check_chain(const struct rsum_bundle *bundle, const struct rsum_authorities *none)
{
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct rsum_signer signer = { 0 };

	if (bundle->material == RSUM_BUNDLE_CERTIFICATES && none)
		FUZZ_CHECK(rsum_signature_check_chain(bundle, none, &signer, reason) ==
				   RINGSUM_E_REFUSED &&
			   *reason);
}

static const struct rsum_authorities *some_authorities(void)
{
	static const char pem[] = FUZZ_SIGNED_AUTHORITY;
	static struct rsum_authorities *read;
	char reason[RSUM_SIGNATURE_REASON_BYTES];

	if (!read)
		FUZZ_CHECK(rsum_authorities_read(pem, strlen(pem), &read, reason) == 0);
	return read;
}

static void run_bundle(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size), reason[RSUM_BUNDLE_REASON_BYTES] = "";
	struct rsum_bundle bundle;
	int ret = rsum_bundle_read(text, size, &bundle, reason);

	FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
	if (ret) {
		fuzz_check_line(reason);
	} else {
		check_json(data, size);
		check_material(&bundle);
		check_signature(&bundle);
		check_chain(&bundle, some_authorities());
	}
	free(text);
	run_manifest(&rsum_manifest_oms, data, size, false);
	run_manifest(&rsum_manifest_oms, data, size, true);
}

/* ---- statements -------------------------------------------------------------------------- */

static void check_resources(const struct rsum_statement *statement)
{
	uint64_t end = 0;

	FUZZ_CHECK(statement->resource_count > 0);
	for (size_t i = 0; i < statement->resource_count; i++) {
		const struct rsum_statement_resource *at = &statement->resources[i];
		bool follows = i > 0 && strcmp(at[-1].path, at->path) == 0;
		const char *fault;

		FUZZ_CHECK(rsum_statement_path_is_plain(at->path, &fault));
		FUZZ_CHECK(fuzz_utf8_is_valid(at->path, strlen(at->path)));
		FUZZ_CHECK(at->digest_bytes > 0 &&
			   at->digest_bytes <= RSUM_STATEMENT_DIGEST_BYTES_MAX);
		FUZZ_CHECK(*at->algorithm || at->digest_bytes);
		FUZZ_CHECK(at->is_piece == statement->is_in_pieces);
		/* No path comes back after another one. */
		for (size_t j = 0; !follows && j < i; j++)
			FUZZ_CHECK(strcmp(statement->resources[j].path, at->path) != 0);
		FUZZ_CHECK(at->is_piece || !follows);
		if (!at->is_piece)
			continue;
		FUZZ_CHECK(at->begin == (follows ? end : 0) && at->end > at->begin);
		FUZZ_CHECK(at->end - at->begin <= statement->piece_bytes);
		FUZZ_CHECK(!follows || at[-1].end - at[-1].begin == statement->piece_bytes);
		end = at->end;
	}
}

static void check_written(const struct rsum_statement *statement)
{
	const struct rsum_statement_setup setup = {
		.subject = statement->subject,
		.piece_bytes = statement->is_in_pieces ? statement->piece_bytes : 0,
		.allows_links = statement->allows_links,
	};
	char *text = NULL, reason[RSUM_STATEMENT_REASON_BYTES];
	struct rsum_statement again;

	/* The legacy form may name an algorithm for each file, and an odd one that needs escapes. */
	for (size_t i = 0; i < statement->resource_count; i++)
		if (strcmp(statement->resources[i].algorithm, "sha256") != 0)
			return;
	FUZZ_CHECK(rsum_statement_write(&setup, statement->resources, statement->resource_count,
					&text, reason) == 0);
	FUZZ_CHECK(rsum_statement_is_likely(text, strlen(text)));
	FUZZ_CHECK(rsum_statement_read(text, strlen(text), &again, reason) == 0);
	FUZZ_CHECK(again.resource_count == statement->resource_count);
	FUZZ_CHECK(strcmp(again.subject, statement->subject) == 0);
	for (size_t i = 0; i < again.resource_count; i++) {
		const struct rsum_statement_resource *a = &statement->resources[i];
		const struct rsum_statement_resource *b = &again.resources[i];

		FUZZ_CHECK(strcmp(a->path, b->path) == 0 && a->begin == b->begin &&
			   a->end == b->end && a->digest_bytes == b->digest_bytes &&
			   memcmp(a->digest, b->digest, a->digest_bytes) == 0);
	}
	rsum_statement_deinit(&again);
	free(text);
}

static void run_statement(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size), reason[RSUM_STATEMENT_REASON_BYTES] = "";
	struct rsum_statement statement;
	int ret = rsum_statement_read(text, size, &statement, reason);

	free(text); /* nothing of it is needed any more */
	FUZZ_CHECK(ret == 0 || ret == RINGSUM_E_REFUSED);
	if (ret) {
		FUZZ_CHECK(*reason);
	} else {
		check_json(data, size);
		check_resources(&statement);
		check_written(&statement);
		for (size_t i = 0; i < statement.resource_count; i++)
			(void)rsum_statement_ignores(&statement, statement.resources[i].path);
		FUZZ_CHECK(rsum_statement_ignores(&statement, ".git/x"));
		FUZZ_CHECK(!rsum_statement_ignores(&statement, ""));
	}
	rsum_statement_deinit(&statement);
	run_manifest(&rsum_manifest_oms_statement, data, size, true);
}

/* ---- keys -------------------------------------------------------------------------------- */

static void run_key(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size), reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct rsum_private_key *private_key = NULL;
	struct rsum_authorities *authorities = NULL;
	struct rsum_public_key *key = NULL;
	int ret = rsum_public_key_read(text, size, &key, reason);

	FUZZ_CHECK(ret == 0 ? key != NULL : ret == RINGSUM_E_INVALID && !key && *reason);
	ret = rsum_private_key_read(text, size, NULL, &private_key, reason);
	FUZZ_CHECK(ret == 0 ? private_key != NULL : ret == RINGSUM_E_INVALID && !private_key);
	ret = rsum_authorities_read(text, size, &authorities, reason);
	FUZZ_CHECK(ret == 0 ? authorities != NULL : ret == RINGSUM_E_INVALID && !authorities);
	rsum_public_key_free(key);
	rsum_private_key_free(private_key);
	rsum_authorities_free(authorities);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == '6')
		run_base64(data + 1, size - 1);
	else if (data[0] == 's')
		run_statement(data + 1, size - 1);
	else if (data[0] == 'k')
		run_key(data + 1, size - 1);
	else
		run_bundle(data + 1, size - 1);
	return 0;
}
