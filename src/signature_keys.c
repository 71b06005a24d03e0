/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys for signatures: which kinds there are, how they are read, and what names one. PEM is read
 * without ever asking anybody for a passphrase.
 */
#include "signature_keys.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <string.h>

#include "digest.h"

#define PROBE_BYTES 65536 /* more than a check takes */

/* Fingerprints and hints are digests, so they are compared and shown as those are. */
static_assert(RSUM_SIGNATURE_HINT_BYTES == 2 * RSUM_SHA256_BYTES + 1, "a digest as hex");

static const struct rsum_key_kind kinds[] = {
	{ "EC",
	  "prime256v1",
	  "SHA256",
	  "ecdsa-p256-sha256",
	  { "PKIX_ECDSA_P256_SHA_256", "PKIX_ECDSA_P256_HMAC_SHA_256" } },
	{ "EC",
	  "secp384r1",
	  "SHA384",
	  "ecdsa-p384-sha384",
	  { "PKIX_ECDSA_P384_SHA_384", "PKIX_ECDSA_P384_SHA_256" } },
	{ "EC",
	  "secp521r1",
	  "SHA512",
	  "ecdsa-p521-sha512",
	  { "PKIX_ECDSA_P521_SHA_512", "PKIX_ECDSA_P521_SHA_256" } },
	{ "ED25519", NULL, NULL, "ed25519", { "PKIX_ED25519", NULL } },
};

int rsum_signature_refuse(char reason[RSUM_SIGNATURE_REASON_BYTES], int result, const char *format,
			  ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(reason, RSUM_SIGNATURE_REASON_BYTES, format, values);
	va_end(values);
	ERR_clear_error();
	return result;
}

/* Want of memory is told from everything else that libcrypto may complain of. */
int rsum_signature_fail(char reason[RSUM_SIGNATURE_REASON_BYTES], int result, const char *what)
{
	unsigned long error, last = ERR_peek_last_error();
	const char *text = last ? ERR_reason_error_string(last) : NULL;

	/* The first of them knows; those that come after it know only that something failed. */
	while ((error = ERR_get_error()))
		if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE)
			return rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	return rsum_signature_refuse(reason, result, "%s%s%s", what, text ? ": " : "",
				     text ? text : "");
}

bool rsum_signature_has_memory(void)
{
	void *probe = OPENSSL_malloc(PROBE_BYTES);

	OPENSSL_free(probe);
	return probe != NULL;
}

/* A curve that a key spells out instead of naming it could be any curve that looks like one. */
static bool is_named_curve(const EVP_PKEY *key, const char *curve)
{
	char name[64] = "";
	size_t length = 0;
	int is_explicit = 1;

	return EVP_PKEY_get_group_name(key, name, sizeof(name), &length) == 1 &&
	       strcmp(name, curve) == 0 &&
	       EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS,
				      &is_explicit) == 1 &&
	       !is_explicit;
}

const struct rsum_key_kind *rsum_key_kind_of(const EVP_PKEY *key)
{
	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++) {
		if (!EVP_PKEY_is_a(key, kinds[i].type))
			continue;
		if (!kinds[i].curve || is_named_curve(key, kinds[i].curve))
			return &kinds[i];
	}
	return NULL;
}

int rsum_key_refuse_kind(const EVP_PKEY *key, const char *whose,
			 char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	const char *type = EVP_PKEY_get0_type_name(key);
	char curve[64] = "";
	size_t length = 0;

	if (EVP_PKEY_is_a(key, "EC"))
		(void)EVP_PKEY_get_group_name(key, curve, sizeof(curve), &length);
	return rsum_signature_refuse(
		reason, RINGSUM_E_INVALID,
		"%s is of the kind %.32s%s%.40s; expected ECDSA on P-256, P-384 or P-521 (a curve "
		"that is named, not spelled out), or Ed25519",
		whose, type ? type : "unknown", *curve ? " on " : "", curve);
}

/* ---- what names a key ---------------------------------------------------------------------- */

static int hash_hex(const void *data, size_t size_bytes, char hex_out[65])
{
	uint8_t digest[RSUM_SHA256_BYTES];
	int ret = rsum_sha256_of(data, size_bytes, digest);

	if (!ret)
		rsum_hex_encode_digest(digest, hex_out);
	return ret;
}

int rsum_key_der(const EVP_PKEY *key, uint8_t **der_out, size_t *size_bytes_out)
{
	unsigned char *der = NULL;
	int length = i2d_PUBKEY(key, &der);

	if (length <= 0)
		return ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE
			       ? RINGSUM_E_NOMEM
			       : RINGSUM_E_UNDECIDED;
	*der_out = der;
	*size_bytes_out = (size_t)length;
	return 0;
}

int rsum_key_pem(const EVP_PKEY *key, char **pem_out, size_t *size_bytes_out)
{
	BIO *bio = BIO_new(BIO_s_mem());
	const char *data = NULL;
	long length;
	int ret = RINGSUM_E_NOMEM;

	if (!bio)
		return ret;
	if (PEM_write_bio_PUBKEY(bio, key) == 1) {
		length = BIO_get_mem_data(bio, &data);
		*pem_out = length > 0 ? malloc((size_t)length) : NULL;
		if (*pem_out) {
			memcpy(*pem_out, data, (size_t)length);
			*size_bytes_out = (size_t)length;
			ret = 0;
		}
	}
	BIO_free(bio);
	return ret;
}

/* The reference implementation's: SHA-256 over the PEM text. */
int rsum_key_hint(const EVP_PKEY *key, char hint_out[RSUM_SIGNATURE_HINT_BYTES])
{
	char *pem = NULL;
	size_t size_bytes = 0;
	int ret = rsum_key_pem(key, &pem, &size_bytes);

	if (!ret)
		ret = hash_hex(pem, size_bytes, hint_out);
	free(pem);
	return ret;
}

int rsum_key_describe(const EVP_PKEY *key, const struct rsum_key_kind *kind,
		      struct rsum_signer *signer_out)
{
	uint8_t *der = NULL;
	size_t size_bytes = 0;
	int ret = rsum_key_der(key, &der, &size_bytes);

	*signer_out = (struct rsum_signer){ .algorithm = kind->algorithm };
	if (!ret)
		ret = hash_hex(der, size_bytes, signer_out->fingerprint);
	OPENSSL_free(der);
	return ret;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Gives the passphrase that is there; without one, none: libcrypto would ask at the terminal. */
static int give_passphrase(char *buffer, int size_bytes, int is_writing, void *arg)
{
	const char *passphrase = arg;
	size_t length = passphrase ? strlen(passphrase) : 0;

	(void)is_writing;
	if (!passphrase || length > (size_t)size_bytes)
		return -1;
	memcpy(buffer, passphrase, length);
	return (int)length;
}

int rsum_key_no_passphrase(char *buffer, int size_bytes, int is_writing, void *arg)
{
	(void)arg;
	return give_passphrase(buffer, size_bytes, is_writing, NULL);
}

BIO *rsum_key_open_pem(const char *pem, size_t size_bytes)
{
	ERR_clear_error();
	return size_bytes <= RSUM_LIMIT_KEY_BYTES ? BIO_new_mem_buf(pem, (int)size_bytes) : NULL;
}
static_assert(RSUM_LIMIT_KEY_BYTES <= INT32_MAX, "as BIO_new_mem_buf wants it");

static bool says(const char *pem, size_t size_bytes, const char *words)
{
	return memmem(pem, size_bytes, words, strlen(words)) != NULL;
}

/* One form for each key, so that what names it is always the same. */
static bool is_uncompressed(EVP_PKEY *key)
{
	return !EVP_PKEY_is_a(key, "EC") ||
	       EVP_PKEY_set_utf8_string_param(key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
					      "uncompressed") == 1;
}

/* Reads the one key that is there and settles its kind. passphrase: for a private key, or NULL. */
static int decode_key(const char *pem, size_t size_bytes,
		      EVP_PKEY *(*read)(BIO *, EVP_PKEY **, pem_password_cb *, void *),
		      const char *passphrase, const char *whose, struct rsum_key *out,
		      char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	BIO *bio = rsum_key_open_pem(pem, size_bytes);
	EVP_PKEY *key;
	char what[96];
	int ret = 0;

	if (!bio)
		return rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	key = read(bio, NULL, give_passphrase, (char *)(uintptr_t)passphrase);
	BIO_free(bio);
	snprintf(what, sizeof(what), "%s in it cannot be read%s", whose,
		 passphrase ? " with this passphrase" : "");
	if (!key)
		return rsum_signature_fail(reason, RINGSUM_E_INVALID, what);
	out->kind = rsum_key_kind_of(key);
	if (!out->kind)
		ret = rsum_key_refuse_kind(key, whose, reason);
	else if (!is_uncompressed(key))
		ret = rsum_signature_fail(reason, RINGSUM_E_INVALID, "the key cannot be used");
	if (ret)
		EVP_PKEY_free(key);
	else
		out->key = key;
	ERR_clear_error();
	return ret;
}

int rsum_public_key_read(const char *pem, size_t size_bytes, struct rsum_public_key **out,
			 char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_public_key *read;
	int ret;

	if (says(pem, size_bytes, "PRIVATE KEY-----"))
		return rsum_signature_refuse(
			reason, RINGSUM_E_INVALID,
			"it is a private key, which belongs to the signer "
			"alone; expected the public key (openssl pkey -pubout)");
	if (!says(pem, size_bytes, "-----BEGIN PUBLIC KEY-----"))
		return rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					     "%s; expected -----BEGIN PUBLIC KEY-----",
					     says(pem, size_bytes, "-----BEGIN CERTIFICATE-----")
						     ? "it is a certificate, which --ca takes"
						     : "there is no public key in PEM form in it");
	read = calloc(1, sizeof(*read));
	if (!read)
		return rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	ret = decode_key(pem, size_bytes, PEM_read_bio_PUBKEY, NULL, "the public key", &read->key,
			 reason);
	if (ret)
		free(read);
	else
		*out = read;
	return ret;
}

int rsum_private_key_read(const char *pem, size_t size_bytes, const char *passphrase,
			  struct rsum_private_key **out, char reason[RSUM_SIGNATURE_REASON_BYTES])
{
	struct rsum_private_key *read;
	int ret;

	if (!says(pem, size_bytes, "PRIVATE KEY-----"))
		return rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					     "there is no private key in PEM form in it");
	if (!passphrase && says(pem, size_bytes, "ENCRYPTED"))
		return rsum_signature_refuse(reason, RINGSUM_E_INVALID,
					     "the key is encrypted; give its passphrase with "
					     "--passphrase-file");
	read = calloc(1, sizeof(*read));
	if (!read)
		return rsum_signature_refuse(reason, RINGSUM_E_NOMEM, "out of memory");
	ret = decode_key(pem, size_bytes, PEM_read_bio_PrivateKey, passphrase, "the private key",
			 &read->key, reason);
	if (ret)
		free(read);
	else
		*out = read;
	return ret;
}

void rsum_public_key_free(struct rsum_public_key *key)
{
	if (key)
		EVP_PKEY_free(key->key.key);
	free(key);
}

void rsum_private_key_free(struct rsum_private_key *key)
{
	if (key)
		EVP_PKEY_free(key->key.key);
	free(key);
}
