/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSF model signing: a list of files, or of equal pieces of files, in a bundle with a
 * signature, or bare. What the caller trusts decides whether the signature is checked; one that
 * is wrong refuses the document before anything in it is believed.
 */
#include <assert.h>
#include <string.h>

#include "bundle.h"
#include "manifest.h"
#include "rsum_limits.h"
#include "safetensors.h"
#include "signature.h"
#include "statement.h"

struct document {
	const char *file_name;
	struct rsum_manifest *out;
	struct ringsum_report *report;
};

static void complain(const struct document *document, enum ringsum_finding_code code,
		     const char *what, const char *reason)
{
	char message[RSUM_SIGNATURE_REASON_BYTES + 128];

	snprintf(message, sizeof(message), "%s: %s", what, reason);
	rsum_report_add(document->report, &(struct ringsum_finding){
						  .code = code,
						  .file = document->file_name,
						  .message = message,
					  });
}

static int refuse(const struct document *document, const char *what, const char *reason)
{
	complain(document, RINGSUM_FINDING_MANIFEST_INVALID, what, reason);
	return RINGSUM_E_REFUSED;
}

/* ---- authenticity ------------------------------------------------------------------------ */

static void set_unchecked(const struct document *document, const char *method, const char *reason)
{
	struct rsum_authenticity *authenticity = &document->report->facts.authenticity;

	authenticity->method = method;
	rsum_report_set_text(document->report, &authenticity->reason, reason);
}

static const char *method_of(const struct rsum_bundle *bundle)
{
	switch (bundle->material) {
	case RSUM_BUNDLE_KEY:
		return "key";
	case RSUM_BUNDLE_CERTIFICATES:
		return "certificate";
	case RSUM_BUNDLE_KEYLESS:
	default:
		return "keyless";
	}
}

static const char *unchecked_reason(const struct rsum_bundle *bundle)
{
	switch (bundle->material) {
	case RSUM_BUNDLE_KEY:
		return "it was made with a key; give the public key with --public-key";
	case RSUM_BUNDLE_CERTIFICATES:
		return "it was made with a certificate; give the authorities you trust with --ca";
	case RSUM_BUNDLE_KEYLESS:
	default:
		return "it was made without a key (with a certificate of minutes and a log's "
		       "entry), which ringsum cannot check";
	}
}

/* Returns 0 where the bundle may be believed as far as was asked. */
static int authenticate(const struct document *document, const struct rsum_bundle *bundle)
{
	const struct rsum_trust *trust = document->out->trust;
	struct rsum_authenticity *authenticity = &document->report->facts.authenticity;
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct rsum_signer signer = { 0 };
	int ret;

	set_unchecked(document, method_of(bundle), unchecked_reason(bundle));
	if (!trust || (!trust->public_key && !trust->authorities))
		return 0;
	ret = trust->public_key
		      ? rsum_signature_check_key(bundle, trust->public_key, &signer, reason)
		      : rsum_signature_check_chain(bundle, trust->authorities, &signer, reason);
	if (ret == RINGSUM_E_NOMEM)
		return ret;
	if (ret) {
		authenticity->is_refused = true;
		rsum_report_set_text(document->report, &authenticity->reason, reason);
		complain(document,
			 ret == RINGSUM_E_REFUSED ? RINGSUM_FINDING_SIGNATURE_INVALID
						  : RINGSUM_FINDING_READ_ERROR,
			 ret == RINGSUM_E_REFUSED
				 ? "the signature is refused, so nothing in it was used"
				 : "the signature could not be checked",
			 reason);
		return RINGSUM_E_REFUSED;
	}
	authenticity->is_checked = true;
	authenticity->reason = NULL;
	authenticity->algorithm = signer.algorithm;
	memcpy(authenticity->fingerprint, signer.fingerprint, sizeof(signer.fingerprint));
	if (*signer.subject)
		rsum_report_set_text(document->report, &authenticity->signer, signer.subject);
	return 0;
}

/* ---- what is listed ---------------------------------------------------------------------- */

static enum rsum_algorithm algorithm_of(const char *name)
{
	if (strcmp(name, "sha256") == 0)
		return RSUM_ALGORITHM_SHA256;
	return strcmp(name, "blake2b") == 0 ? RSUM_ALGORITHM_BLAKE2B_512 : RSUM_ALGORITHM_UNKNOWN;
}

static int add_resource(struct rsum_manifest *out, const struct rsum_statement_resource *resource,
			bool is_last)
{
	struct rsum_file_promise promise = {
		.path = resource->path,
		.begin = resource->begin,
		.end = resource->is_piece ? resource->end : UINT64_MAX,
		/* Pieces cover the file: where the last of them ends, so does the file. */
		.size_bytes = resource->is_piece && is_last ? resource->end : UINT64_MAX,
		.algorithm = algorithm_of(resource->algorithm),
		.algorithm_name = resource->algorithm,
	};

	promise.digest_bytes = rsum_algorithm_bytes(promise.algorithm);
	RSUM_ASSERT(promise.digest_bytes <= resource->digest_bytes);
	memcpy(promise.digest, resource->digest, promise.digest_bytes);
	return rsum_manifest_add_file(out, &promise);
}

static int add_resources(const struct document *document, const struct rsum_statement *statement)
{
	struct rsum_manifest_mark mark = rsum_manifest_mark(document->out);
	int ret = 0;

	for (size_t i = 0; !ret && i < statement->resource_count; i++) {
		const struct rsum_statement_resource *at = &statement->resources[i];
		bool is_last =
			i + 1 == statement->resource_count || strcmp(at->path, at[1].path) != 0;

		ret = add_resource(document->out, at, is_last);
	}
	if (ret != RINGSUM_E_LIMIT)
		return ret;
	if (rsum_manifest_rewind(document->out, mark))
		return RINGSUM_E_NOMEM;
	return refuse(document, "the list of files is unusable",
		      "it exceeds the limit of 100000 files or 4000000 pieces");
}
static_assert(RSUM_LIMIT_SHARDS == 100000 && RSUM_LIMIT_TENSORS == 4000000,
	      "as the message above says");

/* Reads the statement in `text` and keeps what it says of files that it does not list. */
static int take_statement(const struct document *document, char *text, size_t size_bytes)
{
	char reason[RSUM_STATEMENT_REASON_BYTES] = "";
	struct rsum_statement *statement = malloc(sizeof(*statement));
	int ret;

	if (!statement)
		return RINGSUM_E_NOMEM;
	ret = rsum_statement_read(text, size_bytes, statement, reason);
	if (ret == RINGSUM_E_REFUSED)
		(void)refuse(document, "the list of files is unusable", reason);
	if (!ret && document->out->statement)
		ret = refuse(document, "the list of files is unusable",
			     "another one was used already");
	if (!ret)
		ret = add_resources(document, statement);
	if (ret) {
		rsum_statement_deinit(statement);
		free(statement);
		return ret;
	}
	free(statement->resources);
	statement->resources = NULL;
	document->out->statement = statement;
	document->out->is_usable = true;
	return 0;
}

/* ---- documents --------------------------------------------------------------------------- */

/* What is no JSON at all is named for what it is, as far as its beginning tells. */
static bool is_something_else(const struct document *document, const char *text, size_t size_bytes)
{
	char described[256];
	size_t blanks = 0;

	while (blanks < size_bytes && memchr(" \t\r\n", text[blanks], 4))
		blanks++;
	if (blanks < size_bytes && text[blanks] == '{')
		return false;
	if (!rsum_safetensors_describe_other((const uint8_t *)text, size_bytes, document->file_name,
					     described, sizeof(described)))
		return false;
	(void)refuse(document, "the bundle is unusable", described);
	return true;
}

static int parse_bundle(char *text, size_t size_bytes, const char *file_name,
			struct rsum_manifest *out, struct ringsum_report *report)
{
	const struct document document = { file_name, out, report };
	char reason[RSUM_BUNDLE_REASON_BYTES] = "";
	struct rsum_bundle bundle;
	int ret = RINGSUM_E_REFUSED;

	if (!is_something_else(&document, text, size_bytes)) {
		ret = rsum_bundle_read(text, size_bytes, &bundle, reason);
		if (ret == RINGSUM_E_REFUSED)
			(void)refuse(&document, "the bundle is unusable", reason);
		if (!ret)
			ret = authenticate(&document, &bundle);
		if (!ret)
			ret = take_statement(&document, bundle.payload, bundle.payload_bytes);
	}
	free(text);
	return ret;
}

static int parse_statement(char *text, size_t size_bytes, const char *file_name,
			   struct rsum_manifest *out, struct ringsum_report *report)
{
	const struct document document = { file_name, out, report };
	int ret;

	set_unchecked(&document, "none", "the list is not signed");
	ret = take_statement(&document, text, size_bytes);
	free(text);
	return ret;
}

const struct rsum_manifest_format rsum_manifest_oms = {
	.name = "model-signing",
	.detect = rsum_bundle_is_likely,
	.parse = parse_bundle,
};

const struct rsum_manifest_format rsum_manifest_oms_statement = {
	.name = "model-signing-statement",
	.detect = rsum_statement_is_likely,
	.parse = parse_statement,
};
