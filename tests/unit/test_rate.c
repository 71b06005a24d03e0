/* SPDX-License-Identifier: Apache-2.0 */
/* A limit on bytes a second, on a clock of the test's own. */
#include "rate.h"

#include "delivery.h"
#include "rsum_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)
#define SEED UINT64_C(906)

static void test_no_limit_never_waits(void **state)
{
	struct rsum_rate rate = { 0 };

	(void)state;
	rsum_rate_take(&rate, 5, UINT32_MAX);
	assert_int_equal(rsum_rate_wait_ns(&rate, 0), 0);
	assert_int_equal(rsum_rate_chunk_bytes(0, 65536, 524288), 524288);
}

/* A reader that always has something to read gets its rate, whatever the sizes of its reads. */
static void test_rate_is_kept(void **state)
{
	static const uint64_t rates[] = { RSUM_LIMIT_RATE_BYTES_MIN, 1 << 20, UINT64_C(100) << 20,
					  UINT64_C(7777777777), RSUM_LIMIT_RATE_BYTES_MAX };
	uint64_t random = SEED;
	size_t i;

	(void)state;
	for (i = 0; i < RSUM_COUNT_OF(rates); i++) {
		struct rsum_rate rate = { .bytes_per_second = rates[i], .next_ns = 17 };
		uint64_t now = 17, bytes = 0;

		while (now < 17 + 50 * SECOND && bytes < UINT64_C(1) << 44) {
			uint32_t size = (uint32_t)(1 + delivery_random(&random) % (64 << 20));

			rsum_rate_take(&rate, now, size);
			bytes += size;
			now += rsum_rate_wait_ns(&rate, now);
			if (bytes / (64 << 20) > 100000)
				break;
		}
		/* One division rounds down for each read. */
		double ratio = (double)bytes / ((double)(now - 17) / 1e9) / (double)rates[i];

		if (ratio < 0.999 || ratio > 1.001)
			fail_msg("%llu bytes a second became %f times that",
				 (unsigned long long)rates[i], ratio);
	}
}

/* Who was held up may make good for a tenth of a second and no more. */
static void test_lost_time_stays_lost(void **state)
{
	struct rsum_rate rate = { .bytes_per_second = 1000000 };
	uint64_t now = 100 * SECOND, burst = 0;

	(void)state;
	while (rsum_rate_wait_ns(&rate, now) == 0) {
		rsum_rate_take(&rate, now, 1000);
		burst += 1000;
	}
	assert_true(burst >= 100000 && burst <= 102000);
	assert_true(rsum_rate_wait_ns(&rate, now) <= SECOND / 1000);
	assert_int_equal(rsum_rate_wait_ns(&rate, now + SECOND), 0);
}

static void test_a_clock_near_zero(void **state)
{
	struct rsum_rate rate = { .bytes_per_second = 1000 };

	(void)state;
	rsum_rate_take(&rate, 3, 1000);
	assert_int_equal(rsum_rate_wait_ns(&rate, 3), SECOND - 3);
}

static void test_chunk_follows_the_rate(void **state)
{
	(void)state;
	assert_int_equal(rsum_rate_chunk_bytes(UINT64_C(100) << 20, 65536, 524288), 524288);
	assert_int_equal(rsum_rate_chunk_bytes(UINT64_C(4) << 20, 65536, 524288), 262144);
	assert_int_equal(rsum_rate_chunk_bytes(65536, 65536, 64 << 20), 65536);
	assert_int_equal(rsum_rate_chunk_bytes(65536, 65536, 65536), 65536);
	/* What is small enough as it is need not be a power of two. */
	assert_int_equal(rsum_rate_chunk_bytes(UINT64_C(1) << 30, 65536, 69632), 69632);
	assert_int_equal(rsum_rate_chunk_bytes(65537, 65536, 69632), 65536);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_limit_never_waits),
		cmocka_unit_test(test_rate_is_kept),
		cmocka_unit_test(test_lost_time_stays_lost),
		cmocka_unit_test(test_a_clock_near_zero),
		cmocka_unit_test(test_chunk_follows_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
