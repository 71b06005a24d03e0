/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the signatures share, and nobody else sees. */
#ifndef RSUM_SIGNATURE_KEYS_H
#define RSUM_SIGNATURE_KEYS_H

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <stdarg.h>

#include "ringsum.h"
#include "signature.h"

struct rsum_key_kind {
	const char *type;	/* libcrypto's name */
	const char *curve;	/* NULL: it has none */
	const char *digest;	/* of the signature; NULL: the scheme has its own */
	const char *algorithm;	/* for reports */
	const char *details[2]; /* what bundles may call it; NULL: no second name */
};

struct rsum_key {
	EVP_PKEY *key;
	const struct rsum_key_kind *kind;
};

struct rsum_public_key {
	struct rsum_key key;
};

struct rsum_private_key {
	struct rsum_key key;
};

/* Writes the line, forgets libcrypto's errors, and returns `result`. */
RSUM_PRINTF(3, 4)
int rsum_signature_refuse(char reason[RSUM_SIGNATURE_REASON_BYTES], int result, const char *format,
			  ...);

/* The same with libcrypto's last complaint; RINGSUM_E_NOMEM where that was want of memory. */
int rsum_signature_fail(char reason[RSUM_SIGNATURE_REASON_BYTES], int result, const char *what);

/*
 * libcrypto does not always tell want of memory from a signature that is wrong. What it affirms is
 * so, but what it refuses is asked once more; and where there is no memory now, that is why.
 */
RSUM_MUST_CHECK bool rsum_signature_has_memory(void);

/* NULL for a kind of key that is none of ours. */
const struct rsum_key_kind *rsum_key_kind_of(const EVP_PKEY *key);

/* Says which kind it is instead. Returns RINGSUM_E_INVALID. */
int rsum_key_refuse_kind(const EVP_PKEY *key, const char *whose,
			 char reason[RSUM_SIGNATURE_REASON_BYTES]);

/* The public key as DER (OPENSSL_free) and as PEM (free). Return 0, NOMEM or UNDECIDED. */
RSUM_MUST_CHECK int rsum_key_der(const EVP_PKEY *key, uint8_t **der_out, size_t *size_bytes_out);
RSUM_MUST_CHECK int rsum_key_pem(const EVP_PKEY *key, char **pem_out, size_t *size_bytes_out);
RSUM_MUST_CHECK int rsum_key_hint(const EVP_PKEY *key, char hint_out[RSUM_SIGNATURE_HINT_BYTES]);

/* Fills a signer with a key's fingerprint. Returns 0, NOMEM or UNDECIDED. */
RSUM_MUST_CHECK int rsum_key_describe(const EVP_PKEY *key, const struct rsum_key_kind *kind,
				      struct rsum_signer *signer_out);

/*
 * Whether this key made the bundle's signature, over the encoding or over the legacy one, which
 * went with `legacy_digest`. Returns 0, RINGSUM_E_REFUSED (reason is set), or what went wrong.
 */
RSUM_MUST_CHECK int rsum_signature_check_with(const struct rsum_bundle *bundle,
					      const struct rsum_key *key, const char *legacy_digest,
					      char reason[RSUM_SIGNATURE_REASON_BYTES]);

/* For libcrypto's readers of PEM: there is no passphrase, and nobody is asked. */
int rsum_key_no_passphrase(char *buffer, int size_bytes, int is_writing, void *arg);

/* Memory to read PEM from, or NULL. */
BIO *rsum_key_open_pem(const char *pem, size_t size_bytes);

#endif
