/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Sigstore bundle around a DSSE envelope, as OpenSSF model signing writes it: what was signed,
 * the signature, and what the bundle says of its signer. Reads it and writes it; whether the
 * signature is right is the business of signature.c.
 */
#ifndef RSUM_BUNDLE_H
#define RSUM_BUNDLE_H

#include "base.h"
#include "rsum_limits.h"

#define RSUM_BUNDLE_MEDIA_TYPE "application/vnd.dev.sigstore.bundle.v0.3+json"
#define RSUM_BUNDLE_PAYLOAD_TYPE "application/vnd.in-toto+json"

struct rsum_bytes {
	const uint8_t *data;
	size_t size_bytes;
};

/* What the bundle says how to check its signature. */
enum rsum_bundle_material {
	RSUM_BUNDLE_KEY,	  /* with a key that is known otherwise */
	RSUM_BUNDLE_CERTIFICATES, /* with the first certificate of a chain */
	RSUM_BUNDLE_KEYLESS,	  /* with a certificate of minutes and a log's entry from then */
};

/* Everything points into the text that was read. */
struct rsum_bundle {
	enum rsum_bundle_material material;
	const char *hint;	   /* on the key; NULL where there is none */
	const char *key_details;   /* of the key; NULL where there are none */
	struct rsum_bytes key_raw; /* an older form's copy of the key; data NULL: none */
	struct rsum_bytes certificates[RSUM_LIMIT_CERTIFICATES]; /* DER, the signer's first */
	size_t certificate_count;
	char *payload; /* decoded, not NUL-terminated; the caller may write into it */
	size_t payload_bytes;
	struct rsum_bytes signature;
};

#define RSUM_BUNDLE_REASON_BYTES 256

/*
 * Reads text[0, size_bytes), which is decoded in place and has to live as long as the bundle.
 * Returns 0; RINGSUM_E_REFUSED with a line in `reason`; RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_bundle_read(char *text, size_t size_bytes, struct rsum_bundle *out,
				     char reason[RSUM_BUNDLE_REASON_BYTES]);

/*
 * Whether a document is likely meant to be a bundle: an object whose beginning names a Sigstore
 * bundle's members. To choose a reader; the reader decides.
 */
bool rsum_bundle_is_likely(const char *text, size_t size_bytes);

/*
 * The bundle with a payload and its signature, as one line of JSON: of a key with `hint`, or,
 * where certificate_count is not 0, of a chain. The same bytes for the same input.
 * Returns 0 or RINGSUM_E_NOMEM. Ownership: free *text_out.
 */
RSUM_MUST_CHECK int rsum_bundle_write(const struct rsum_bytes *payload,
				      const struct rsum_bytes *signature, const char *hint,
				      const struct rsum_bytes *certificates,
				      size_t certificate_count, char **text_out);

#endif
