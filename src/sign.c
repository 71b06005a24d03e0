/* SPDX-License-Identifier: Apache-2.0 */
/* Signs a list of files: a statement goes in, a bundle around its very bytes comes out. */
#include <string.h>

#include "error.h"
#include "key_files.h"
#include "signature.h"
#include "statement.h"

struct signing {
	struct rsum_private_key *key;
	struct rsum_chain chain; /* empty: the bundle names the key */
	char *payload;
	size_t payload_bytes;
};

/* What is signed has to be what a verifier will read, so it is read the same way beforehand. */
static int check_payload(const struct signing *signing, const char *path, struct ringsum_error *err)
{
	char reason[RSUM_STATEMENT_REASON_BYTES] = "";
	struct rsum_statement statement = { 0 };
	char *copy = malloc(signing->payload_bytes + 1);
	int result = RINGSUM_E_NOMEM;

	if (copy) {
		memcpy(copy, signing->payload, signing->payload_bytes);
		result = rsum_statement_read(copy, signing->payload_bytes, &statement, reason);
	}
	rsum_statement_deinit(&statement);
	free(copy);
	if (result == RINGSUM_E_REFUSED)
		return rsum_error_set(err, RINGSUM_E_REFUSED,
				      "%.300s is not a list of files as OpenSSF model signing has it "
				      "(in-toto JSON): %s",
				      path, reason);
	if (result != RINGSUM_OK)
		return rsum_error_set(err, result, "the statement could not be checked: %s",
				      ringsum_result_text(result));
	return RINGSUM_OK;
}

static int load(struct signing *signing, const char *path,
		const struct ringsum_sign_options *options, struct ringsum_error *err)
{
	int result = rsum_private_key_load(options->key_path, options->passphrase_path,
					   &signing->key, err);

	if (result == RINGSUM_OK && options->certificates_path)
		result = rsum_chain_load(options->certificates_path, signing->key, &signing->chain,
					 err);
	if (result == RINGSUM_OK)
		result = rsum_given_file_read(path, "the statement", RSUM_LIMIT_STATEMENT_BYTES,
					      &signing->payload, &signing->payload_bytes, err);
	return result == RINGSUM_OK ? check_payload(signing, path, err) : result;
}

static int make_bundle(const struct signing *signing, char **bundle_out, struct ringsum_error *err)
{
	const struct rsum_bytes payload = { (const uint8_t *)signing->payload,
					    signing->payload_bytes };
	uint8_t bytes[RSUM_LIMIT_SIGNATURE_BYTES];
	struct rsum_bytes signature = { .data = bytes };
	char hint[RSUM_SIGNATURE_HINT_BYTES] = "", reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct rsum_signer signer;
	int result = rsum_signature_make(signing->key, &payload, bytes, &signature.size_bytes, hint,
					 &signer, reason);

	if (result == RINGSUM_OK)
		result = rsum_bundle_write(&payload, &signature, hint, signing->chain.certificates,
					   signing->chain.count, bundle_out);
	if (result == RINGSUM_OK)
		return RINGSUM_OK;
	return rsum_error_set(err, result, "the statement could not be signed: %s",
			      *reason ? reason : ringsum_result_text(result));
}

RSUM_PUBLIC int ringsum_sign(const char *path, const struct ringsum_sign_options *options,
			     char **bundle_out, struct ringsum_error *err)
{
	struct signing signing = { 0 };
	char *bundle = NULL;
	int result;

	if (!path || !options || !bundle_out || options->size_bytes != sizeof(*options) ||
	    !options->key_path)
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "a statement, a private key and a place for the bundle are "
				      "needed");
	result = load(&signing, path, options, err);
	if (result == RINGSUM_OK)
		result = make_bundle(&signing, &bundle, err);
	rsum_private_key_free(signing.key);
	rsum_chain_deinit(&signing.chain);
	free(signing.payload);
	if (result == RINGSUM_OK)
		*bundle_out = bundle;
	return result;
}
