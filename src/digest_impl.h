/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an implementation of SHA-256 is, for the files digest*.c and their test only: a set of
 * compression functions that keep their state in plain words, or libcrypto's EVP.
 */
#ifndef RSUM_DIGEST_IMPL_H
#define RSUM_DIGEST_IMPL_H

#include "base.h"
#include "digest.h"

/* Whole blocks of one stream: the eight words of its state, and input of any alignment. */
struct rsum_sha256_run {
	uint32_t *state;
	const uint8_t *data;
};

/* Compresses block_count blocks of each run; one or more, as many in every run. */
typedef void (*rsum_sha256_blocks_fn)(const struct rsum_sha256_run *runs, size_t block_count);

struct rsum_sha256_kernels {
	rsum_sha256_blocks_fn blocks[RSUM_SHA256_WIDTH_MAX]; /* [n - 1] takes n runs */
	void (*clean_registers)(void);			     /* before them, or NULL */
};

struct rsum_digest_impl {
	const char *name;
	enum ringsum_digest_impl option;
	unsigned width;
	const struct rsum_sha256_kernels *kernels; /* NULL: EVP */
};

extern const struct rsum_digest_impl rsum_digest_libcrypto;

/* A lone run of so many blocks or more goes to libcrypto; the call costs less than a hundredth. */
#define RSUM_SHA256_LONE_BLOCKS 64

/* NULL where this processor, or this build, has no SHA-NI. */
const struct rsum_sha256_kernels *rsum_shani_kernels(void);

/*
 * Whether kernels give, with up to `width` streams side by side, what the standard and libcrypto
 * give. False also where libcrypto cannot say. Takes well below a millisecond.
 */
RSUM_MUST_CHECK bool rsum_sha256_kernels_agree(const struct rsum_sha256_kernels *kernels,
					       unsigned width);

#endif
