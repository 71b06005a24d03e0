/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and makes signatures over the pre-authentication encoding of DSSE:
 * "DSSEv1" SP len(type) SP type SP len(payload) SP payload.
 */
#include "signature.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "digest.h"
#include "report.h"
#include "signature_keys.h"

/* A log10 of the largest size, and more. */
#define HEAD_BYTES 128

/* The legacy encoding is four times as long, and nobody writes it any more. */
#define LEGACY_PAYLOAD_BYTES (UINT64_C(64) << 20)

/* SHA-1 and RSA keys below 2,048 bits vouch for nothing (libcrypto's security level 2). */
#define SECURITY_LEVEL 2

struct rsum_authorities {
	X509_STORE *store;
};

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

/* Tries the encoding, then the legacy one, which had its own digest for certificates. */
static int check_signature(const struct rsum_bundle *bundle, const struct rsum_key *key,
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

int rsum_signature_check_key(const struct rsum_bundle *bundle, const struct rsum_public_key *key,
			     struct rsum_signer *signer_out,
			     char reason[RSUM_SIGNATURE_REASON_BYTES])
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
		ret = check_signature(bundle, &key->key, key->key.kind->digest, reason);
	if (!ret)
		ret = rsum_key_describe(key->key.key, key->key.kind, &signer);
	if (!ret)
		*signer_out = signer;
	else if (ret != RINGSUM_E_REFUSED)
		ret = rsum_signature_fail(reason, ret, "libcrypto failed on the key");
	return ret;
}

/* ---- with certificates --------------------------------------------------------------------- */

int rsum_authorities_read(const char *pem, size_t size_bytes, struct rsum_authorities **out,
			  char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_authorities *read = calloc(1, sizeof(*read));
	BIO *bio = rsum_key_open_pem(pem, size_bytes);
	unsigned count = 0;
	unsigned long error;
	X509 *certificate;
	int ret = RINGSUM_E_NOMEM;

	if (read)
		read->store = X509_STORE_new();
	if (!bio || !read || !read->store) {
		(void)rsum_signature_refuse(reason, ret, "out of memory");
		goto out;
	}
	while ((certificate = PEM_read_bio_X509(bio, NULL, rsum_key_no_passphrase, NULL))) {
		ret = X509_STORE_add_cert(read->store, certificate) == 1 ? 0 : RINGSUM_E_NOMEM;
		X509_free(certificate);
		if (ret)
			goto out;
		count++;
	}
	error = ERR_peek_last_error();
	if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
		ret = rsum_signature_fail(reason, RINGSUM_E_INVALID,
					  "a certificate in it cannot be read");
	else if (count == 0)
		ret = rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					    "there is no certificate in PEM form in it; expected "
					    "-----BEGIN CERTIFICATE-----");
	else
		ret = 0;
	if (ret)
		goto out;
	*out = read;
	read = NULL;
out:
	ERR_clear_error();
	rsum_authorities_free(read);
	BIO_free(bio);
	return ret;
}

void rsum_authorities_free(struct rsum_authorities *authorities)
{
	if (authorities)
		X509_STORE_free(authorities->store);
	free(authorities);
}

/* Exactly one certificate, to its last byte. */
static X509 *decode_certificate(const struct rsum_bytes *bytes)
{
	const unsigned char *at = bytes->data;
	X509 *certificate = d2i_X509(NULL, &at, (long)bytes->size_bytes);

	if (certificate && at == bytes->data + bytes->size_bytes)
		return certificate;
	X509_free(certificate);
	return NULL;
}

/* The signer's certificate, and the others in a stack. */
static int decode_chain(const struct rsum_bundle *bundle, X509 **signer_out,
			STACK_OF(X509) * *others_out, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	STACK_OF(X509) *others = sk_X509_new_null();
	X509 *signer = NULL;
	int ret = others ? 0 : RINGSUM_E_NOMEM;

	for (size_t i = 0; !ret && i < bundle->certificate_count; i++) {
		X509 *certificate = decode_certificate(&bundle->certificates[i]);

		if (!certificate) {
			ret = rsum_signature_fail(reason, RINGSUM_E_REFUSED,
						  "a certificate in the bundle cannot be read");
		} else if (i == 0) {
			signer = certificate;
		} else if (sk_X509_push(others, certificate) == 0) {
			X509_free(certificate);
			ret = RINGSUM_E_NOMEM;
		}
	}
	if (!ret) {
		*signer_out = signer;
		*others_out = others;
		return 0;
	}
	X509_free(signer);
	sk_X509_pop_free(others, X509_free);
	return ret;
}

/* The moment from which the signer's certificate was valid. */
static bool begin_of(const X509 *certificate, time_t *begin_out)
{
	struct tm begin = { 0 };

	if (ASN1_TIME_to_tm(X509_get0_notBefore(certificate), &begin) != 1)
		return false;
	*begin_out = timegm(&begin);
	return true;
}

static bool may_sign(X509 *certificate)
{
	uint32_t flags = X509_get_extension_flags(certificate);

	if (flags & EXFLAG_INVALID)
		return false;
	if (flags & EXFLAG_KUSAGE && X509_get_key_usage(certificate) & KU_DIGITAL_SIGNATURE)
		return true;
	return flags & EXFLAG_XKUSAGE && X509_get_extended_key_usage(certificate) & XKU_CODE_SIGN;
}

static int check_path(const struct rsum_authorities *authorities, X509 *signer,
		      STACK_OF(X509) * others, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	time_t begin;
	int error, ret = 0;

	if (!context || X509_STORE_CTX_init(context, authorities->store, signer, others) != 1) {
		X509_STORE_CTX_free(context);
		return RINGSUM_E_NOMEM;
	}
	if (!begin_of(signer, &begin)) {
		ret = rsum_signature_refuse(reason, RINGSUM_E_REFUSED,
					    "the signer's certificate has no time from which it is "
					    "valid");
	} else {
		X509_STORE_CTX_set_time(context, 0, begin);
		X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context),
						 SECURITY_LEVEL);
		if (X509_verify_cert(context) != 1) {
			error = X509_STORE_CTX_get_error(context);
			ret = error == X509_V_ERR_OUT_OF_MEM
				      ? RINGSUM_E_NOMEM
				      : rsum_signature_refuse(
						reason, RINGSUM_E_REFUSED,
						"the signer's certificate does not lead to one of "
						"the authorities given: %.120s",
						error == X509_V_OK
							? "no reason was given"
							: X509_verify_cert_error_string(error));
		}
	}
	if (!ret && !may_sign(signer))
		ret = rsum_signature_refuse(reason, RINGSUM_E_REFUSED,
					    "the signer's certificate is not for signing: neither "
					    "key usage digitalSignature nor extended key usage "
					    "codeSigning");
	X509_STORE_CTX_free(context);
	return ret;
}

static int describe_certificate(const X509 *certificate, const struct rsum_bytes *der,
				const struct rsum_key_kind *kind, struct rsum_signer *signer_out)
{
	uint8_t digest[RSUM_SHA256_BYTES];
	BIO *bio = BIO_new(BIO_s_mem());
	const char *text = NULL;
	long length;
	int ret = rsum_sha256_of(der->data, der->size_bytes, digest);

	*signer_out = (struct rsum_signer){ .algorithm = kind->algorithm };
	if (!bio && !ret)
		ret = RINGSUM_E_NOMEM;
	if (!ret &&
	    X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) < 0)
		ret = RINGSUM_E_NOMEM;
	if (!ret) {
		length = BIO_get_mem_data(bio, &text);
		snprintf(signer_out->subject, sizeof(signer_out->subject), "%.*s",
			 (int)RSUM_MIN(length, (long)sizeof(signer_out->subject)),
			 text ? text : "");
		rsum_hex_encode_digest(digest, signer_out->fingerprint);
	}
	BIO_free(bio);
	return ret;
}

/* The certificate's own key made the signature. */
static int check_holder(const struct rsum_bundle *bundle, const X509 *certificate,
			struct rsum_signer *signer_out, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_key key = { .key = X509_get0_pubkey(certificate) };
	int ret;

	if (!key.key)
		return rsum_signature_fail(reason, RINGSUM_E_REFUSED,
					   "the key in the signer's certificate cannot be used");
	key.kind = rsum_key_kind_of(key.key);
	if (!key.kind) {
		(void)rsum_key_refuse_kind(key.key, "the key in the signer's certificate", reason);
		return RINGSUM_E_REFUSED;
	}
	ret = check_signature(bundle, &key, "SHA256", reason);
	return ret ? ret
		   : describe_certificate(certificate, &bundle->certificates[0], key.kind,
					  signer_out);
}

int rsum_signature_check_chain(const struct rsum_bundle *bundle,
			       const struct rsum_authorities *authorities,
			       struct rsum_signer *signer_out,
			       char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	STACK_OF(X509) *others = NULL;
	struct rsum_signer described;
	X509 *signer = NULL;
	int ret;

	if (bundle->material != RSUM_BUNDLE_CERTIFICATES)
		return rsum_signature_refuse(
			reason, RINGSUM_E_REFUSED,
			bundle->material == RSUM_BUNDLE_KEYLESS
				? "the bundle was signed without a key (a certificate of minutes "
				  "and a log's entry), which needs that log to be checked"
				: "the bundle was signed with a key; check it with --public-key");
	ERR_clear_error();
	ret = decode_chain(bundle, &signer, &others, reason);
	if (!ret)
		ret = check_path(authorities, signer, others, reason);
	if (!ret)
		ret = check_holder(bundle, signer, &described, reason);
	if (!ret)
		*signer_out = described;
	else if (ret != RINGSUM_E_REFUSED)
		ret = rsum_signature_fail(reason, ret, "libcrypto failed on the certificates");
	X509_free(signer);
	sk_X509_pop_free(others, X509_free);
	ERR_clear_error();
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
