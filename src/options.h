/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's options, checked and with every default filled in. */
#ifndef RSUM_OPTIONS_H
#define RSUM_OPTIONS_H

#include "base.h"
#include "digest.h"
#include "ringsum.h"
#include "signature.h"

struct rsum_options {
	struct ringsum_options given; /* zero members replaced by defaults; strings are copies */
	const struct rsum_digest_impl *digest_impl;
	bool has_pin;
	uint8_t pin_sha256[RSUM_SHA256_BYTES]; /* manifest_sha256 */
	struct rsum_trust trust;	       /* public_key_path or ca_path, read */
};

/*
 * Resolves `options` (NULL: all defaults). Returns 0, RINGSUM_E_INVALID naming the option and
 * its range, or RINGSUM_E_NOMEM. Ownership: deinit *out in every case.
 */
RSUM_MUST_CHECK int rsum_options_resolve(const struct ringsum_options *options,
					 struct rsum_options *out, struct ringsum_error *err);

/* Whether the page cache is to be left alone where a file allows it. */
static inline bool rsum_options_pass_cache(const struct rsum_options *options)
{
	return options->given.direct != RINGSUM_DIRECT_OFF;
}

void rsum_options_deinit(struct rsum_options *options);

#endif
