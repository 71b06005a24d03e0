/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, checked arithmetic and assertions. Knows nothing of the project. */
#ifndef RSUM_BASE_H
#define RSUM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RSUM_MUST_CHECK __attribute__((warn_unused_result))
#define RSUM_PRINTF(format_index, first_arg) \
	__attribute__((format(printf, format_index, first_arg)))
#define RSUM_PUBLIC __attribute__((visibility("default")))
#define RSUM_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define RSUM_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RSUM_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Only for our own bugs; stays on in release, since going on could mean a wrong verdict. */
#define RSUM_ASSERT(condition)                                                              \
	do {                                                                                \
		if (__builtin_expect(!(condition), 0)) {                                    \
			fprintf(stderr, "ringsum: internal error at %s:%d: %s\n", __FILE__, \
				__LINE__, #condition);                                      \
			abort();                                                            \
		}                                                                           \
	} while (0)

/* False where the result does not fit 64 bits; *sum_out is then untouched. */
RSUM_MUST_CHECK static inline bool rsum_add_u64(uint64_t a, uint64_t b, uint64_t *sum_out)
{
	uint64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*sum_out = sum;
	return true;
}

RSUM_MUST_CHECK static inline bool rsum_mul_u64(uint64_t a, uint64_t b, uint64_t *product_out)
{
	uint64_t product;

	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*product_out = product;
	return true;
}

/* `alignment` is a power of two. 4,097 down to 4,096 is 4,096; up it is 8,192. */
static inline uint64_t rsum_align_down(uint64_t value, uint64_t alignment)
{
	return value & ~(alignment - 1);
}

/* The caller has bounded `value` well below 2^64. */
static inline uint64_t rsum_align_up(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

#endif
