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
typedef void (*rsum_sha256_blocks_fn)(const struct rsum_sha256_run *runs, unsigned run_count,
				      size_t block_count);

struct rsum_sha256_kernels {
	rsum_sha256_blocks_fn blocks[RSUM_SHA256_WIDTH_MAX]; /* [n - 1] takes n runs */
	uint8_t take[RSUM_SHA256_WIDTH_MAX]; /* [n - 1]: of n runs, so many go together first */
	unsigned narrow_width;		     /* see rsum_digest_impl_narrow_width() */
	size_t lone_blocks;	       /* a lone run of so many or more goes to libcrypto instead */
	void (*clean_registers)(void); /* before them, or NULL */
};

struct rsum_digest_impl {
	const char *name;
	enum ringsum_digest_impl option;
	unsigned width;
	const struct rsum_sha256_kernels *kernels; /* NULL: EVP */
	bool is_passed_over;			   /* by AUTO: another one is faster here */
};

extern const struct rsum_digest_impl rsum_digest_libcrypto;

/* NULL where this processor, or this build, has no SHA-NI. */
const struct rsum_sha256_kernels *rsum_shani_kernels(void);

/* Only of x86-64, and where AVX-512 is: 1 to 8 runs, 1 to 16 runs. */
void rsum_sha256_blocks_avx512_x8(const struct rsum_sha256_run *runs, unsigned run_count,
				  size_t block_count);
void rsum_sha256_blocks_avx512_x16(const struct rsum_sha256_run *runs, unsigned run_count,
				   size_t block_count);

/*
 * Fills *kernels_out with the kernels of AVX-512 and, for few streams, those of SHA-NI. False
 * where this processor, or this build, has no AVX-512, or the system does not save its registers.
 */
RSUM_MUST_CHECK bool rsum_avx512_kernels(struct rsum_sha256_kernels *kernels_out);

/*
 * Whether kernels give, with up to `width` streams side by side, what the standard and libcrypto
 * give. False also where libcrypto cannot say. Takes well below a millisecond.
 */
RSUM_MUST_CHECK bool rsum_sha256_kernels_agree(const struct rsum_sha256_kernels *kernels,
					       unsigned width);

/*
 * Whether so many streams side by side are clearly faster with the one than with the other, by
 * the clock: by 15 % or more in the best of several turns. Takes a tenth of a millisecond.
 */
RSUM_MUST_CHECK bool rsum_sha256_kernels_are_faster(const struct rsum_sha256_kernels *kernels,
						    unsigned width,
						    const struct rsum_sha256_kernels *others,
						    unsigned others_width);

#endif
