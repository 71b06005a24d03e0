/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and makes signatures over the pre-authentication encoding of DSSE:
 * "DSSEv1" SP len(type) SP type SP len(payload) SP payload.
 */
#include "signature.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <string.h>

#include "report.h"
#include "signature_keys.h"

/* A log10 of the largest size, and more. */
#define HEAD_BYTES 128

/* The legacy encoding is four times as long, and nobody writes it any more. */
#define LEGACY_PAYLOAD_BYTES (UINT64_C(64) << 20)

/* ---- what is signed ------------------------------------------------------------------------ */

/* The encoding. Returns memory from malloc, or NULL. */
static uint8_t *encode(const char *payload, size_t payload_bytes, size_t *size_bytes_out)
{
	char head[HEAD_BYTES];
	int length =
		snprintf(head, sizeof(head), "DSSEv1 %zu %s %zu ", strlen(RSUM_BUNDLE_PAYLOAD_TYPE),
			 RSUM_BUNDLE_PAYLOAD_TYPE, payload_bytes);
	uint8_t *text = malloc((size_t)length + payload_bytes);

	if (!text)
		return NULL;
	memcpy(text, head, (size_t)length);
	memcpy(text + length, payload, payload_bytes);
	*size_bytes_out = (size_t)length + payload_bytes;
	return text;
}

/*
 * What releases of model signing before 1.0 signed by mistake: other letters in front, and the
 * payload as Python shows bytes, b'...' with escapes.
 */
static uint8_t *encode_legacy(const char *payload, size_t payload_bytes, size_t *size_bytes_out)
{
	char quote = memchr(payload, '\'', payload_bytes) && !memchr(payload, '"', payload_bytes)
			     ? '"'
			     : '\'';
	struct rsum_text text = { 0 };

	rsum_text_printf(&text, "DSSEV1 %zu %s %zu b%c", strlen(RSUM_BUNDLE_PAYLOAD_TYPE),
			 RSUM_BUNDLE_PAYLOAD_TYPE, payload_bytes, quote);
	for (size_t i = 0; i < payload_bytes; i++) {
		unsigned char byte = (unsigned char)payload[i];
		char escaped[8];
		int length;

		if (byte == '\\' || byte == (unsigned char)quote)
			length = snprintf(escaped, sizeof(escaped), "\\%c", byte);
		else if (byte == '\t' || byte == '\n' || byte == '\r')
			length = snprintf(escaped, sizeof(escaped), "\\%c",
					  byte == '\t'	 ? 't'
					  : byte == '\n' ? 'n'
							 : 'r');
		else if (byte < 0x20 || byte >= 0x7f)
			length = snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
		else
			length = snprintf(escaped, sizeof(escaped), "%c", byte);
		rsum_text_append(&text, escaped, (size_t)length);
	}
	rsum_text_append(&text, &quote, 1);
	if (text.has_failed) {
		free(text.data);
		return NULL;
	}
	*size_bytes_out = text.used_bytes;
	return (uint8_t *)text.data;
}

/* ---- one check ----------------------------------------------------------------------------- */

/* Returns 0, RINGSUM_E_REFUSED for a wrong signature, or what went wrong with the checking. */
static int check_once(EVP_PKEY *key, const char *digest, const struct rsum_bytes *signature,
		      const uint8_t *text, size_t size_bytes,
		      char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	int ret;

	ERR_clear_error();
	if (!context || EVP_DigestVerifyInit_ex(context, NULL, digest, NULL, NULL, key, NULL) != 1)
		ret = rsum_signature_fail(reason, RINGSUM_E_UNDECIDED,
					  "libcrypto cannot check this kind of signature");
	else if (EVP_DigestVerify(context, signature->data, signature->size_bytes, text,
				  size_bytes) == 1)
		ret = 0;
	else
		/* A signature that cannot even be decoded is as wrong as any other. */
		ret = rsum_signature_fail(reason, RINGSUM_E_REFUSED, "the signature is wrong");
	EVP_MD_CTX_free(context);
	if (ret == RINGSUM_E_REFUSED)
		snprintf(reason, RSUM_SIGNATURE_REASON_BYTES,
			 "the signature is not that of this key over what the bundle holds");
	ERR_clear_error();
	return ret;
}

int rsum_signature_check_with(const struct rsum_bundle *bundle, const struct rsum_key *key,
			      const char *legacy_digest, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	size_t size_bytes = 0;
	uint8_t *text = encode(bundle->payload, bundle->payload_bytes, &size_bytes);
	int ret;

	if (!text)
		return RINGSUM_E_NOMEM;
	ret = check_once(key->key, key->kind->digest, &bundle->signature, text, size_bytes, reason);
	free(text);
	if (ret != RINGSUM_E_REFUSED || !key->kind->digest ||
	    bundle->payload_bytes > LEGACY_PAYLOAD_BYTES)
		return ret;
	text = encode_legacy(bundle->payload, bundle->payload_bytes, &size_bytes);
	if (!text)
		return RINGSUM_E_NOMEM;
	ret = check_once(key->key, legacy_digest, &bundle->signature, text, size_bytes, reason);
	free(text);
	return ret;
}

/* ---- with a key ---------------------------------------------------------------------------- */

/* An older form has the key itself, as PEM or as DER. */
static int check_copy(const struct rsum_bundle *bundle, const struct rsum_key *key,
		      char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	const struct rsum_bytes *copy = &bundle->key_raw;
	size_t pem_bytes = 0, der_bytes = 0;
	uint8_t *der = NULL;
	char *pem = NULL;
	int ret = rsum_key_pem(key->key, &pem, &pem_bytes);

	if (!ret)
		ret = rsum_key_der(key->key, &der, &der_bytes);
	if (!ret && (copy->size_bytes != pem_bytes || memcmp(copy->data, pem, pem_bytes) != 0) &&
	    (copy->size_bytes != der_bytes || memcmp(copy->data, der, der_bytes) != 0))
		ret = rsum_signature_refuse(reason, RINGSUM_E_REFUSED,
					    "the bundle was signed with another key: the one in it "
					    "is not the one given");
	free(pem);
	OPENSSL_free(der);
	return ret;
}

static int check_hints(const struct rsum_bundle *bundle, const struct rsum_key *key,
		       char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	char hint[RSUM_SIGNATURE_HINT_BYTES];
	const char *const *details = key->kind->details;
	int ret = rsum_key_hint(key->key, hint);

	if (ret)
		return ret;
	if (bundle->hint && *bundle->hint && strcmp(bundle->hint, hint) != 0)
		return rsum_signature_refuse(reason, RINGSUM_E_REFUSED,
					     "the bundle was signed with another key: its hint is "
					     "%.80s, that of the key given is %s",
					     bundle->hint, hint);
	if (bundle->key_details && strcmp(bundle->key_details, details[0]) != 0 &&
	    (!details[1] || strcmp(bundle->key_details, details[1]) != 0))
		return rsum_signature_refuse(reason, RINGSUM_E_REFUSED,
					     "the bundle was signed with another kind of key than "
					     "the one given, which is %s",
					     key->kind->algorithm);
	return bundle->key_raw.data ? check_copy(bundle, key, reason) : 0;
}

static int check_key(const struct rsum_bundle *bundle, const struct rsum_public_key *key,
		     struct rsum_signer *signer_out, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_signer signer;
	int ret;

	if (bundle->material != RSUM_BUNDLE_KEY)
		return rsum_signature_refuse(
			reason, RINGSUM_E_REFUSED,
			bundle->material == RSUM_BUNDLE_KEYLESS
				? "the bundle was signed without a key (a certificate of minutes "
				  "and a log's entry), which a public key cannot check"
				: "the bundle was signed with a certificate; check it with --ca");
	ret = check_hints(bundle, &key->key, reason);
	if (!ret)
		ret = rsum_signature_check_with(bundle, &key->key, key->key.kind->digest, reason);
	if (!ret)
		ret = rsum_key_describe(key->key.key, key->key.kind, &signer);
	if (!ret)
		*signer_out = signer;
	else if (ret != RINGSUM_E_REFUSED)
		ret = rsum_signature_fail(reason, ret, "libcrypto failed on the key");
	return ret;
}

int rsum_signature_check_key(const struct rsum_bundle *bundle, const struct rsum_public_key *key,
			     struct rsum_signer *signer_out,
			     char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	int ret = check_key(bundle, key, signer_out, reason);

	if (ret == RINGSUM_E_REFUSED)
		ret = rsum_signature_has_memory() ? check_key(bundle, key, signer_out, reason)
						  : RINGSUM_E_NOMEM;
	return ret;
}

/* ---- making one ---------------------------------------------------------------------------- */

int rsum_signature_make(const struct rsum_private_key *key, const struct rsum_bytes *payload,
			uint8_t *signature, size_t *signature_bytes_out,
			char hint_out[RSUM_SIGNATURE_HINT_BYTES], struct rsum_signer *signer_out,
			char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	size_t size_bytes = 0, length = RSUM_LIMIT_SIGNATURE_BYTES;
	uint8_t *text = encode((const char *)payload->data, payload->size_bytes, &size_bytes);
	struct rsum_bytes made = { .data = signature };
	int ret = 0;

	ERR_clear_error();
	if (!context || !text)
		ret = RINGSUM_E_NOMEM;
	else if (EVP_DigestSignInit_ex(context, NULL, key->key.kind->digest, NULL, NULL,
				       key->key.key, NULL) != 1 ||
		 EVP_DigestSign(context, signature, &length, text, size_bytes) != 1)
		ret = RINGSUM_E_UNDECIDED;
	made.size_bytes = length;
	if (ret)
		ret = rsum_signature_fail(reason, ret, "libcrypto could not sign");
	else
		/* A fault while signing can give the key away, so nothing wrong leaves. */
		ret = check_once(key->key.key, key->key.kind->digest, &made, text, size_bytes,
				 reason);
	if (!ret)
		ret = rsum_key_hint(key->key.key, hint_out);
	if (!ret)
		ret = rsum_key_describe(key->key.key, key->key.kind, signer_out);
	if (!ret)
		*signature_bytes_out = length;
	else if (ret != RINGSUM_E_NOMEM)
		ret = RINGSUM_E_UNDECIDED;
	free(text);
	EVP_MD_CTX_free(context);
	return ret;
}
