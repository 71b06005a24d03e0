/* SPDX-License-Identifier: Apache-2.0 */
/* Reads keys, certificates and passphrases from files that the caller names. */
#ifndef RSUM_KEY_FILES_H
#define RSUM_KEY_FILES_H

#include "base.h"
#include "ringsum.h"
#include "signature.h"

/*
 * Reads a regular file of at most limit_bytes into memory from malloc. `what` is for messages:
 * "the public key". Returns 0, RINGSUM_E_IO or RINGSUM_E_NOMEM with a line in *err.
 */
RSUM_MUST_CHECK int rsum_given_file_read(const char *path, const char *what, uint64_t limit_bytes,
					 char **text_out, size_t *size_bytes_out,
					 struct ringsum_error *err);

/*
 * Read a key or certificates from a file. Return as above, and RINGSUM_E_INVALID for what is none.
 * Secrets do not stay in memory that is given back.
 */
RSUM_MUST_CHECK int rsum_public_key_load(const char *path, struct rsum_public_key **out,
					 struct ringsum_error *err);
RSUM_MUST_CHECK int rsum_authorities_load(const char *path, struct rsum_authorities **out,
					  struct ringsum_error *err);
/* passphrase_path: a file whose first line is the passphrase, or NULL. */
RSUM_MUST_CHECK int rsum_private_key_load(const char *path, const char *passphrase_path,
					  struct rsum_private_key **out, struct ringsum_error *err);
RSUM_MUST_CHECK int rsum_chain_load(const char *path, const struct rsum_private_key *key,
				    struct rsum_chain *out, struct ringsum_error *err);

#endif
