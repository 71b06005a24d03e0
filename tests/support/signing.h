/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed lists of files as the reference implementation of OpenSSF model signing spells them, made
 * with keys and certificates of our own and with none of the library's code. Aborts on failure.
 */
#ifndef TEST_SIGNING_H
#define TEST_SIGNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evp_pkey_st;
struct x509_st;

struct signing_key {
	struct evp_pkey_st *key;
	const char *digest; /* NULL: the scheme has its own */
	char *private_pem;
	char *public_pem;
	char hint[65]; /* the reference's: SHA-256 over public_pem */
};

/* kind: "P-256", "P-384", "P-521", "P-224", "ED25519", "RSA", "RSA-1024", "explicit" (P-256 spelled out). */
struct signing_key signing_key_make(const char *kind);
void signing_key_free(struct signing_key *key);

/* A certificate over a key. What is NULL or 0 is left out. */
struct signing_certificate_setup {
	const char *name;		      /* its subject */
	const struct signing_key *key;	      /* the subject's */
	const struct x509_st *issuer;	      /* NULL: it signs itself */
	const struct signing_key *issuer_key; /* NULL: it signs itself */
	int begin_days;			      /* from today */
	int end_days;
	const char *basic_constraints;	/* "critical,CA:TRUE" */
	const char *key_usage;		/* "critical,digitalSignature" */
	const char *extended_key_usage; /* "codeSigning" */
};
struct x509_st *signing_certificate_make(const struct signing_certificate_setup *setup);
char *signing_certificate_pem(struct x509_st *certificate);

/* A file, or a piece of one, in a statement. */
struct signing_resource {
	const char *name; /* "a/b", or "a/b:0:1000" */
	uint8_t sha256[32];
};

/*
 * A statement as the reference writes it: indented by two blanks, shard_size as a double. Without
 * piece_bytes it lists files. ignored ends with NULL; NULL: nothing is ignored.
 */
char *signing_statement(const char *subject, const struct signing_resource *resources,
			size_t resource_count, uint64_t piece_bytes, const char *const *ignored);

/* The legacy form, in which every file is a subject. */
char *signing_legacy_statement(const struct signing_resource *resources, size_t resource_count);

/* Bundles as the reference writes them, of a key, and of a chain that ends with NULL. */
char *signing_bundle(const char *payload, const struct signing_key *key);
char *signing_chain_bundle(const char *payload, const struct signing_key *key,
			   struct x509_st *const *chain);

/* As releases before 1.0 wrote and signed them: a copy of the key, another encoding. */
char *signing_legacy_bundle(const char *payload, const struct signing_key *key);
char *signing_legacy_chain_bundle(const char *payload, const struct signing_key *key,
				  struct x509_st *const *chain);

/* What signing with an identity gives: a lone certificate and a log's entry. */
char *signing_keyless_bundle(const char *payload, const struct signing_key *key,
			     struct x509_st *certificate);

void signing_sha256(const void *data, size_t size_bytes, uint8_t digest_out[32]);

#endif
