/* SPDX-License-Identifier: Apache-2.0 */
/* Makes keys, certificates, statements and bundles for tests. */
#include "signing.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_TYPE "application/vnd.in-toto+json"

#define MUST(condition)                                                                 \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

/* ---- texts ------------------------------------------------------------------------------- */

struct text {
	char *data;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
	va_list values;
	char *piece = NULL;
	int length;

	va_start(values, format);
	length = vasprintf(&piece, format, values);
	va_end(values);
	MUST(length >= 0);
	text->data = realloc(text->data, text->used + (size_t)length + 1);
	MUST(text->data);
	memcpy(text->data + text->used, piece, (size_t)length + 1);
	text->used += (size_t)length;
	free(piece);
}

static char *to_base64(const void *data, size_t size_bytes)
{
	char *encoded = malloc(size_bytes * 2 + 8);

	MUST(encoded);
	EVP_EncodeBlock((unsigned char *)encoded, data, (int)size_bytes);
	return encoded;
}

void signing_sha256(const void *data, size_t size_bytes, uint8_t digest_out[32])
{
	MUST(EVP_Digest(data, size_bytes, digest_out, NULL, EVP_sha256(), NULL) == 1);
}

static void to_hex(const uint8_t digest[32], char hex[65])
{
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static char *bio_text(BIO *bio)
{
	const char *data = NULL;
	long length = BIO_get_mem_data(bio, &data);
	char *copy = strndup(data, (size_t)length);

	MUST(copy);
	BIO_free(bio);
	return copy;
}

/* ---- keys -------------------------------------------------------------------------------- */

/* The same curve, but as numbers instead of its name. */
static EVP_PKEY *make_explicit(void)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char[]){ "P-256" },
						 0),
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_EC_ENCODING,
						 (char[]){ "explicit" }, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_PKEY *key = NULL;

	MUST(context && EVP_PKEY_keygen_init(context) == 1);
	MUST(EVP_PKEY_CTX_set_params(context, parameters) == 1);
	MUST(EVP_PKEY_generate(context, &key) == 1);
	EVP_PKEY_CTX_free(context);
	return key;
}

static EVP_PKEY *generate(const char *kind)
{
	if (strcmp(kind, "RSA") == 0)
		return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
	if (strcmp(kind, "RSA-1024") == 0)
		return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)1024);
	if (strcmp(kind, "ED25519") == 0)
		return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	if (strcmp(kind, "explicit") == 0)
		return make_explicit();
	return EVP_PKEY_Q_keygen(NULL, NULL, "EC", kind);
}

struct signing_key signing_key_make(const char *kind)
{
	struct signing_key made = { .key = generate(kind) };
	uint8_t digest[32];
	BIO *bio;

	MUST(made.key);
	made.digest = strcmp(kind, "P-384") == 0     ? "SHA384"
		      : strcmp(kind, "P-521") == 0   ? "SHA512"
		      : strcmp(kind, "ED25519") == 0 ? NULL
						     : "SHA256";
	bio = BIO_new(BIO_s_mem());
	MUST(bio && PEM_write_bio_PrivateKey(bio, made.key, NULL, NULL, 0, NULL, NULL) == 1);
	made.private_pem = bio_text(bio);
	bio = BIO_new(BIO_s_mem());
	MUST(bio && PEM_write_bio_PUBKEY(bio, made.key) == 1);
	made.public_pem = bio_text(bio);
	signing_sha256(made.public_pem, strlen(made.public_pem), digest);
	to_hex(digest, made.hint);
	return made;
}

void signing_key_free(struct signing_key *key)
{
	EVP_PKEY_free(key->key);
	free(key->private_pem);
	free(key->public_pem);
}

/* ---- certificates -------------------------------------------------------------------------- */

static void add_extension(X509 *certificate, const X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	if (!value)
		return;
	X509V3_set_ctx(&context, (X509 *)(uintptr_t)issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	MUST(extension && X509_add_ext(certificate, extension, -1) == 1);
	X509_EXTENSION_free(extension);
}

struct x509_st *signing_certificate_make(const struct signing_certificate_setup *setup)
{
	const struct signing_key *signer = setup->issuer_key ? setup->issuer_key : setup->key;
	X509 *certificate = X509_new();
	static long serial;
	X509_NAME *name;

	MUST(certificate && X509_set_version(certificate, 2) == 1);
	MUST(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial) == 1);
	name = X509_get_subject_name(certificate);
	MUST(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
					(const unsigned char *)setup->name, -1, -1, 0) == 1);
	MUST(X509_set_issuer_name(certificate,
				  setup->issuer ? X509_get_subject_name(setup->issuer) : name));
	MUST(X509_gmtime_adj(X509_getm_notBefore(certificate), setup->begin_days * 86400L));
	MUST(X509_gmtime_adj(X509_getm_notAfter(certificate), setup->end_days * 86400L));
	MUST(X509_set_pubkey(certificate, setup->key->key) == 1);
	add_extension(certificate, setup->issuer ? setup->issuer : certificate,
		      NID_basic_constraints, setup->basic_constraints);
	add_extension(certificate, setup->issuer ? setup->issuer : certificate, NID_key_usage,
		      setup->key_usage);
	add_extension(certificate, setup->issuer ? setup->issuer : certificate, NID_ext_key_usage,
		      setup->extended_key_usage);
	MUST(X509_sign(certificate, signer->key,
		       signer->digest ? EVP_get_digestbyname(signer->digest) : NULL) > 0);
	return certificate;
}

char *signing_certificate_pem(struct x509_st *certificate)
{
	BIO *bio = BIO_new(BIO_s_mem());

	MUST(bio && PEM_write_bio_X509(bio, certificate) == 1);
	return bio_text(bio);
}

/* ---- statements ---------------------------------------------------------------------------- */

static void add_resources(struct text *text, const struct signing_resource *resources,
			  size_t resource_count, uint64_t piece_bytes)
{
	char hex[65];

	add(text, "    \"resources\": [\n");
	for (size_t i = 0; i < resource_count; i++) {
		to_hex(resources[i].sha256, hex);
		add(text, "      {\n        \"digest\": \"%s\",\n        \"name\": \"%s\",\n", hex,
		    resources[i].name);
		add(text, "        \"algorithm\": \"sha256");
		if (piece_bytes)
			add(text, "-sharded-%" PRIu64, piece_bytes);
		add(text, "\"\n      }%s\n", i + 1 < resource_count ? "," : "");
	}
	add(text, "    ],\n");
}

static void add_serialization(struct text *text, uint64_t piece_bytes, const char *const *ignored)
{
	add(text, "    \"serialization\": {\n");
	if (piece_bytes)
		add(text, "      \"shard_size\": %" PRIu64 ".0,\n", piece_bytes);
	add(text, "      \"method\": \"%s\",\n      \"allow_symlinks\": false,\n",
	    piece_bytes ? "shards" : "files");
	add(text, "      \"hash_type\": \"sha256\"");
	if (ignored) {
		add(text, ",\n      \"ignore_paths\": [\n");
		for (size_t i = 0; ignored[i]; i++)
			add(text, "        \"%s\"%s\n", ignored[i], ignored[i + 1] ? "," : "");
		add(text, "      ]");
	}
	add(text, "\n    }\n");
}

char *signing_statement(const char *subject, const struct signing_resource *resources,
			size_t resource_count, uint64_t piece_bytes, const char *const *ignored)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	struct text text = { 0 };
	uint8_t digest[32];
	char hex[65];

	MUST(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
	for (size_t i = 0; i < resource_count; i++)
		MUST(EVP_DigestUpdate(context, resources[i].sha256, 32) == 1);
	MUST(EVP_DigestFinal_ex(context, digest, NULL) == 1);
	EVP_MD_CTX_free(context);
	to_hex(digest, hex);
	add(&text,
	    "{\n  \"_type\": \"https://in-toto.io/Statement/v1\",\n  \"subject\": [\n    {\n"
	    "      \"name\": \"%s\",\n      \"digest\": {\n        \"sha256\": \"%s\"\n"
	    "      }\n    }\n  ],\n"
	    "  \"predicateType\": \"https://model_signing/signature/v1.0\",\n"
	    "  \"predicate\": {\n",
	    subject, hex);
	add_resources(&text, resources, resource_count, piece_bytes);
	add_serialization(&text, piece_bytes, ignored);
	add(&text, "  }\n}");
	return text.data;
}

char *signing_legacy_statement(const struct signing_resource *resources, size_t resource_count)
{
	struct text text = { 0 };
	char hex[65];

	add(&text, "{\n  \"_type\": \"https://in-toto.io/Statement/v1\",\n  \"subject\": [\n");
	for (size_t i = 0; i < resource_count; i++) {
		to_hex(resources[i].sha256, hex);
		add(&text,
		    "    {\n      \"name\": \"%s\",\n      \"digest\": {\n"
		    "        \"sha256\": \"%s\"\n      },\n      \"annotations\": {\n"
		    "        \"actual_hash_algorithm\": \"file-sha256\"\n      }\n    }%s\n",
		    resources[i].name, hex, i + 1 < resource_count ? "," : "");
	}
	add(&text, "  ],\n  \"predicateType\": \"https://model_signing/Digests/v0.1\",\n"
		   "  \"predicate\": {\n    \"unused\": \"Unused, just passed due to API "
		   "requirements\"\n  }\n}");
	return text.data;
}

/* ---- bundles ------------------------------------------------------------------------------- */

static void add_signature(struct text *text, const char *signed_text, const struct signing_key *key,
			  const char *digest)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	uint8_t signature[256];
	size_t length = sizeof(signature);
	char *encoded;

	MUST(context &&
	     EVP_DigestSignInit_ex(context, NULL, digest, NULL, NULL, key->key, NULL) == 1);
	MUST(EVP_DigestSign(context, signature, &length, (const uint8_t *)signed_text,
			    strlen(signed_text)) == 1);
	EVP_MD_CTX_free(context);
	encoded = to_base64(signature, length);
	add(text, "\"payloadType\":\"" PAYLOAD_TYPE "\",\"signatures\":[{\"sig\":\"%s\",", encoded);
	add(text, "\"keyid\":\"\"}]}}");
	free(encoded);
}

static void add_envelope(struct text *text, const char *payload, const char *signed_text,
			 const struct signing_key *key, const char *digest)
{
	char *encoded = to_base64(payload, strlen(payload));

	add(text, "\"dsseEnvelope\":{\"payload\":\"%s\",", encoded);
	add_signature(text, signed_text, key, digest);
	free(encoded);
}

static void add_head(struct text *text)
{
	add(text, "{\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\","
		  "\"verificationMaterial\":{");
}

static char *encode(const char *payload)
{
	struct text text = { 0 };

	add(&text, "DSSEv1 28 " PAYLOAD_TYPE " %zu %s", strlen(payload), payload);
	return text.data;
}

/* As Python shows bytes that have double quotes and no others: b'...', newlines as \n. */
static char *encode_legacy(const char *payload)
{
	struct text text = { 0 };

	add(&text, "DSSEV1 28 " PAYLOAD_TYPE " %zu b'", strlen(payload));
	for (; *payload; payload++) {
		if (*payload == '\n')
			add(&text, "\\n");
		else if (*payload == '\'' || *payload == '\\')
			add(&text, "\\%c", *payload);
		else
			add(&text, "%c", *payload);
	}
	add(&text, "'");
	return text.data;
}

static void add_chain(struct text *text, struct x509_st *const *chain)
{
	add(text, "\"x509CertificateChain\":{\"certificates\":[");
	for (size_t i = 0; chain[i]; i++) {
		unsigned char *der = NULL;
		int length = i2d_X509(chain[i], &der);
		char *encoded;

		MUST(length > 0);
		encoded = to_base64(der, (size_t)length);
		add(text, "%s{\"rawBytes\":\"%s\"}", i ? "," : "", encoded);
		free(encoded);
		OPENSSL_free(der);
	}
	add(text, "]},");
}

char *signing_bundle(const char *payload, const struct signing_key *key)
{
	struct text text = { 0 };
	char *encoded = encode(payload);

	add_head(&text);
	add(&text, "\"publicKey\":{\"hint\":\"%s\"},\"tlogEntries\":[]},", key->hint);
	add_envelope(&text, payload, encoded, key, key->digest);
	free(encoded);
	return text.data;
}

char *signing_chain_bundle(const char *payload, const struct signing_key *key,
			   struct x509_st *const *chain)
{
	struct text text = { 0 };
	char *encoded = encode(payload);

	add_head(&text);
	add_chain(&text, chain);
	add(&text, "\"tlogEntries\":[]},");
	add_envelope(&text, payload, encoded, key, key->digest);
	free(encoded);
	return text.data;
}

char *signing_legacy_bundle(const char *payload, const struct signing_key *key)
{
	struct text text = { 0 };
	char *encoded = encode_legacy(payload);
	char *raw = to_base64(key->public_pem, strlen(key->public_pem));

	add_head(&text);
	add(&text, "\"publicKey\":{\"rawBytes\":\"%s\"},\"tlogEntries\":[]},", raw);
	add_envelope(&text, payload, encoded, key, key->digest);
	free(encoded);
	free(raw);
	return text.data;
}

char *signing_legacy_chain_bundle(const char *payload, const struct signing_key *key,
				  struct x509_st *const *chain)
{
	struct text text = { 0 };
	char *encoded = encode_legacy(payload);

	add_head(&text);
	add_chain(&text, chain);
	add(&text, "\"tlogEntries\":[]},");
	add_envelope(&text, payload, encoded, key, "SHA256");
	free(encoded);
	return text.data;
}

char *signing_keyless_bundle(const char *payload, const struct signing_key *key,
			     struct x509_st *certificate)
{
	unsigned char *der = NULL;
	int length = i2d_X509(certificate, &der);
	struct text text = { 0 };
	char *encoded, *raw;

	MUST(length > 0);
	raw = to_base64(der, (size_t)length);
	encoded = encode(payload);
	add_head(&text);
	add(&text,
	    "\"certificate\":{\"rawBytes\":\"%s\"},\"tlogEntries\":[{\"logIndex\":\"33292044\","
	    "\"logId\":{\"keyId\":\"0y8wo8MtY5wrdiIFohx7sHeI5oKDpK5vQhGHI6G+pJY=\"},"
	    "\"kindVersion\":{\"kind\":\"dsse\",\"version\":\"0.0.1\"},"
	    "\"integratedTime\":\"1726673855\"}]},",
	    raw);
	add_envelope(&text, payload, encoded, key, key->digest);
	OPENSSL_free(der);
	free(encoded);
	free(raw);
	return text.data;
}
