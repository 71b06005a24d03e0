/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of bundles, through libcrypto: checks one with a key or a chain of certificates, and
 * makes one. Whatever libcrypto does not affirm is not affirmed here.
 */
#ifndef RSUM_SIGNATURE_H
#define RSUM_SIGNATURE_H

#include "base.h"
#include "bundle.h"

#define RSUM_SIGNATURE_REASON_BYTES 320

/* What was found out about who signed. */
struct rsum_signer {
	/*
	 * SHA-256, as hex, of the public key (DER, SubjectPublicKeyInfo) or, of a chain, of the
	 * signer's certificate (DER).
	 */
	char fingerprint[65];
	char subject[256];     /* of the certificate, RFC 2253; "" for a key */
	const char *algorithm; /* "ecdsa-p256-sha256" and so on; static */
};

/* Public keys and certificates that were read; NULL is fine where one is freed. */
struct rsum_public_key;
struct rsum_authorities;
struct rsum_private_key;

/* What a signature has to be checked with: one of them, or nothing is asked for. */
struct rsum_trust {
	struct rsum_public_key *public_key;
	struct rsum_authorities *authorities;
};

/*
 * Reads a public key (PEM): ECDSA on P-256, P-384 or P-521, or Ed25519. Returns 0;
 * RINGSUM_E_INVALID with a line in `reason` for anything else; RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_public_key_read(const char *pem, size_t size_bytes,
					 struct rsum_public_key **out,
					 char reason[RSUM_SIGNATURE_REASON_BYTES]);
void rsum_public_key_free(struct rsum_public_key *key);

/* Reads the certificates (PEM, one or more) that a chain may end at. Returns as above. */
RSUM_MUST_CHECK int rsum_authorities_read(const char *pem, size_t size_bytes,
					  struct rsum_authorities **out,
					  char reason[RSUM_SIGNATURE_REASON_BYTES]);
void rsum_authorities_free(struct rsum_authorities *authorities);

/*
 * Reads a private key (PEM) of the same kinds. passphrase: NULL where there is none; nobody is
 * ever asked for one. Returns as above.
 */
RSUM_MUST_CHECK int rsum_private_key_read(const char *pem, size_t size_bytes,
					  const char *passphrase, struct rsum_private_key **out,
					  char reason[RSUM_SIGNATURE_REASON_BYTES]);
void rsum_private_key_free(struct rsum_private_key *key);

/*
 * Whether the bundle was signed with this key. Where the bundle has a hint, or a copy of the key,
 * it has to be of this key. Returns 0 with *signer_out; RINGSUM_E_REFUSED with a line in `reason`
 * where it was not; RINGSUM_E_UNDECIDED (with a line too) where libcrypto failed; RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_signature_check_key(const struct rsum_bundle *bundle,
					     const struct rsum_public_key *key,
					     struct rsum_signer *signer_out,
					     char reason[RSUM_SIGNATURE_REASON_BYTES]);

/*
 * Whether the bundle was signed by the holder of its first certificate, and that one leads to one
 * of the authorities: every signature on the way is right, every issuer may issue, all were valid
 * when the signer's became so, and that one is for signing (key usage digitalSignature, or
 * extended key usage codeSigning). As in the reference implementation it is not asked whether a
 * certificate has expired since, was revoked, or whose name is in it. Returns as above.
 */
RSUM_MUST_CHECK int rsum_signature_check_chain(const struct rsum_bundle *bundle,
					       const struct rsum_authorities *authorities,
					       struct rsum_signer *signer_out,
					       char reason[RSUM_SIGNATURE_REASON_BYTES]);

/* What a signer sends along with a signature: certificates (DER), its own first. */
struct rsum_chain {
	struct rsum_bytes certificates[RSUM_LIMIT_CERTIFICATES];
	size_t count;
};

/*
 * Reads certificates (PEM), of which the first has to be that of the key. Returns 0;
 * RINGSUM_E_INVALID with a line in `reason`; RINGSUM_E_NOMEM. Ownership: deinit *out; it is empty
 * after a failure.
 */
RSUM_MUST_CHECK int rsum_chain_read(const char *pem, size_t size_bytes,
				    const struct rsum_private_key *key, struct rsum_chain *out,
				    char reason[RSUM_SIGNATURE_REASON_BYTES]);
void rsum_chain_deinit(struct rsum_chain *chain);

/* The length of a hint: SHA-256 as hex. */
#define RSUM_SIGNATURE_HINT_BYTES 65

/*
 * Signs a payload and checks what it made. signature: at least RSUM_LIMIT_SIGNATURE_BYTES.
 * hint_out: that of the public key, for the bundle. With Ed25519 the same payload gives the same
 * signature. Returns 0; RINGSUM_E_UNDECIDED with a line in `reason`; RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_signature_make(const struct rsum_private_key *key,
					const struct rsum_bytes *payload, uint8_t *signature,
					size_t *signature_bytes_out,
					char hint_out[RSUM_SIGNATURE_HINT_BYTES],
					struct rsum_signer *signer_out,
					char reason[RSUM_SIGNATURE_REASON_BYTES]);

#endif
