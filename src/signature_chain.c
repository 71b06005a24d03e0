/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures by certificate: the authorities that are trusted, the way from a signer's certificate
 * to one of them, and what a signer sends along.
 */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "digest.h"
#include "signature_keys.h"

/* SHA-1 and RSA keys below 2,048 bits vouch for nothing (libcrypto's security level 2). */
#define SECURITY_LEVEL 2

struct rsum_authorities {
	X509_STORE *store;
};

/* ---- certificates in PEM form -------------------------------------------------------------- */

/* Calls `take`, which takes none over, for each. Returns 0, RINGSUM_E_INVALID or what it did. */
static int read_certificates(const char *pem, size_t size_bytes,
			     int (*take)(X509 *certificate, void *arg,
					 char reason[RSUM_SIGNATURE_REASON_BYTES]),
			     void *arg, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	BIO *bio = rsum_key_open_pem(pem, size_bytes);
	unsigned count = 0;
	unsigned long error;
	X509 *certificate;
	int ret = 0;

	if (!bio)
		return rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	while (!ret && (certificate = PEM_read_bio_X509(bio, NULL, rsum_key_no_passphrase, NULL))) {
		ret = take(certificate, arg, reason);
		X509_free(certificate);
		count++;
	}
	error = ERR_peek_last_error();
	if (!ret &&
	    (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE))
		ret = rsum_signature_fail(reason, RINGSUM_E_INVALID,
					  "a certificate in it cannot be read");
	else if (!ret && count == 0)
		ret = rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					    "there is no certificate in PEM form in it; expected "
					    "-----BEGIN CERTIFICATE-----");
	ERR_clear_error();
	BIO_free(bio);
	return ret;
}

static int take_authority(X509 *certificate, void *arg, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_authorities *read = arg;

	/*
	 * libcrypto looks at the extensions when it needs them first and keeps what it made of them;
	 * now it is told apart whether they are at fault or memory was short.
	 */
	if (X509_get_extension_flags(certificate) & EXFLAG_INVALID)
		return rsum_signature_has_memory()
			       ? rsum_signature_fail(reason, RINGSUM_E_INVALID,
						     "a certificate in it has extensions that "
						     "cannot be used")
			       : rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	if (X509_STORE_add_cert(read->store, certificate) == 1)
		return 0;
	return rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
}

int rsum_authorities_read(const char *pem, size_t size_bytes, struct rsum_authorities **out,
			  char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_authorities *read = calloc(1, sizeof(*read));
	int ret;

	if (read)
		read->store = X509_STORE_new();
	if (!read || !read->store)
		ret = rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	else
		ret = read_certificates(pem, size_bytes, take_authority, read, reason);
	if (ret)
		rsum_authorities_free(read);
	else
		*out = read;
	return ret;
}

void rsum_authorities_free(struct rsum_authorities *authorities)
{
	if (authorities)
		X509_STORE_free(authorities->store);
	free(authorities);
}

/* ---- what a signer sends along ------------------------------------------------------------- */

struct chain_reading {
	const struct rsum_private_key *key;
	struct rsum_chain *out;
};

static int take_certificate(X509 *certificate, void *arg, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct chain_reading *reading = arg;
	struct rsum_chain *out = reading->out;
	unsigned char *der = NULL;
	int length;

	if (out->count == RSUM_LIMIT_CERTIFICATES)
		return rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					     "there are more than %d certificates in it; that is "
					     "the limit",
					     RSUM_LIMIT_CERTIFICATES);
	if (out->count == 0 &&
	    EVP_PKEY_eq(X509_get0_pubkey(certificate), reading->key->key.key) != 1)
		return rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					     "the first certificate in it is not that of the "
					     "private key");
	length = i2d_X509(certificate, &der);
	if (length <= 0 || length > RSUM_LIMIT_CERTIFICATE_BYTES) {
		OPENSSL_free(der);
		return rsum_signature_fail(reason, RINGSUM_E_INVALID,
					   "a certificate in it cannot be encoded");
	}
	out->certificates[out->count++] = (struct rsum_bytes){ der, (size_t)length };
	return 0;
}

int rsum_chain_read(const char *pem, size_t size_bytes, const struct rsum_private_key *key,
		    struct rsum_chain *out, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct chain_reading reading = { .key = key, .out = out };
	int ret;

	*out = (struct rsum_chain){ 0 };
	ret = read_certificates(pem, size_bytes, take_certificate, &reading, reason);
	if (ret)
		rsum_chain_deinit(out);
	return ret;
}

void rsum_chain_deinit(struct rsum_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++)
		OPENSSL_free((uint8_t *)(uintptr_t)chain->certificates[i].data);
	*chain = (struct rsum_chain){ 0 };
}

/* ---- the way to an authority --------------------------------------------------------------- */

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
	ret = rsum_signature_check_with(bundle, &key, "SHA256", reason);
	return ret ? ret
		   : describe_certificate(certificate, &bundle->certificates[0], key.kind,
					  signer_out);
}

static int check_chain(const struct rsum_bundle *bundle, const struct rsum_authorities *authorities,
		       struct rsum_signer *signer_out, char reason[RSUM_SIGNATURE_REASON_BYTES])
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

int rsum_signature_check_chain(const struct rsum_bundle *bundle,
			       const struct rsum_authorities *authorities,
			       struct rsum_signer *signer_out,
			       char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	int ret = check_chain(bundle, authorities, signer_out, reason);

	if (ret == RINGSUM_E_REFUSED)
		ret = rsum_signature_has_memory()
			      ? check_chain(bundle, authorities, signer_out, reason)
			      : RINGSUM_E_NOMEM;
	return ret;
}
