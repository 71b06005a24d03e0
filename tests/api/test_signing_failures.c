/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures while memory runs out, one allocation after the other, libcrypto's included: a wrong
 * signature never passes, a right one is never called wrong, and nothing is left behind. Keys are
 * read undisturbed: libcrypto takes thousands of pieces of memory for that, and few to use them.
 */
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base.h"
#include "failures.h"
#include "ringsum.h"
#include "signature.h"
#include "signing.h"
#include "statement.h"

#define KINDS 2

/* Of each kind a key, a certificate of it, and bundles by both. */
static struct {
	struct signing_key key;
	X509 *certificate;
	char *pem; /* of the certificate, which is its own authority */
	char *by_key, *by_chain;
} signers[KINDS];

static char *payload;

/* What is tried, and with whose key. */
static const char *bundle_text, *trusted_pem, *private_pem;

static int read_bundle(char **text_out, struct rsum_bundle *bundle)
{
	char reason[RSUM_BUNDLE_REASON_BYTES];

	*text_out = strdup(bundle_text);
	if (!*text_out)
		return RINGSUM_E_NOMEM;
	return rsum_bundle_read(*text_out, strlen(bundle_text), bundle, reason);
}

static int read_payload(struct rsum_bundle *bundle)
{
	char reason[RSUM_STATEMENT_REASON_BYTES];
	struct rsum_statement statement;
	int ret = rsum_statement_read(bundle->payload, bundle->payload_bytes, &statement, reason);

	if (ret == 0)
		assert_int_equal(statement.resource_count, 2);
	rsum_statement_deinit(&statement);
	return ret;
}

static int check_by_key(void)
{
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "", *text = NULL;
	struct rsum_public_key *key = NULL;
	struct rsum_signer signer = { 0 };
	struct rsum_bundle bundle;
	int ret;

	failures_pause(true);
	ret = rsum_public_key_read(trusted_pem, strlen(trusted_pem), &key, reason);
	failures_pause(false);
	if (ret == 0)
		ret = read_bundle(&text, &bundle);
	if (ret == 0)
		ret = rsum_signature_check_key(&bundle, key, &signer, reason);
	if (ret == 0)
		ret = read_payload(&bundle);
	rsum_public_key_free(key);
	free(text);
	return ret;
}

static int check_by_chain(void)
{
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "", *text = NULL;
	struct rsum_authorities *authorities = NULL;
	struct rsum_signer signer = { 0 };
	struct rsum_bundle bundle;
	int ret;

	failures_pause(true);
	ret = rsum_authorities_read(trusted_pem, strlen(trusted_pem), &authorities, reason);
	failures_pause(false);
	if (ret == 0)
		ret = read_bundle(&text, &bundle);
	if (ret == 0)
		ret = rsum_signature_check_chain(&bundle, authorities, &signer, reason);
	if (ret == 0)
		ret = read_payload(&bundle);
	rsum_authorities_free(authorities);
	free(text);
	return ret;
}

static int make(void)
{
	const struct rsum_bytes bytes = { (const uint8_t *)payload, strlen(payload) };
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "", hint[RSUM_SIGNATURE_HINT_BYTES] = "";
	uint8_t signature[RSUM_LIMIT_SIGNATURE_BYTES];
	struct rsum_bytes made = { signature, 0 };
	struct rsum_private_key *key = NULL;
	struct rsum_chain chain = { 0 };
	struct rsum_signer signer;
	char *text = NULL;
	int ret;

	failures_pause(true);
	ret = rsum_private_key_read(private_pem, strlen(private_pem), NULL, &key, reason);
	failures_pause(false);
	if (ret == 0)
		ret = rsum_chain_read(trusted_pem, strlen(trusted_pem), key, &chain, reason);
	if (ret == 0)
		ret = rsum_signature_make(key, &bytes, signature, &made.size_bytes, hint, &signer,
					  reason);
	if (ret == 0)
		ret = rsum_bundle_write(&bytes, &made, hint, chain.certificates, chain.count,
					&text);
	assert_int_equal(ret == 0, text != NULL);
	free(text);
	rsum_chain_deinit(&chain);
	rsum_private_key_free(key);
	return ret;
}

/*
 * Every step-th allocation, since chains take thousands. RINGSUM_E_INVALID is what a reader of keys may say of one that it had no memory for.
 */
static void fail_one_by_one(const char *name, int (*operation)(void), int wanted, unsigned step)
{
	for (unsigned is_lasting = 0; is_lasting < 2; is_lasting++) {
		unsigned nth;
		int ret;

		failures_arm(FAILURE_MEMORY, 0, 0, false);
		ret = operation(); /* warm */
		failures_disarm();
		assert_int_equal(ret, wanted);
		for (nth = 1 + is_lasting;; nth += step) {
			failures_arm(FAILURE_MEMORY, nth, 0, is_lasting);
			ret = operation();
			if (!failures_disarm())
				break;
			if (ret == (wanted == 0 ? RINGSUM_E_REFUSED : 0))
				fail_msg("%s: %d after %s failed (%u)", name, ret,
					 failures_describe(), nth);
		}
		assert_int_equal(ret, wanted);
		print_message("# %s: %u of %u allocations failed\n", name, (nth - 1) / step,
			      nth - 1);
		assert_true(nth > 10);
	}
}

static void test_right(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		bundle_text = signers[i].by_key;
		trusted_pem = signers[i].key.public_pem;
		fail_one_by_one("right by key", check_by_key, 0, 3);
		bundle_text = signers[i].by_chain;
		trusted_pem = signers[i].pem;
		fail_one_by_one("right by chain", check_by_chain, 0, 13);
		private_pem = signers[i].key.private_pem;
		fail_one_by_one("make", make, 0, 13);
	}
}

static void test_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		char *at;

		bundle_text = signers[i].by_key;
		trusted_pem = signers[1 - i].key.public_pem;
		fail_one_by_one("wrong key", check_by_key, RINGSUM_E_REFUSED, 7);
		bundle_text = signers[i].by_chain;
		trusted_pem = signers[1 - i].pem;
		fail_one_by_one("wrong authority", check_by_chain, RINGSUM_E_REFUSED, 97);
		/* Within the signature, past what every signature of its kind begins with. */
		at = strstr(signers[i].by_key, "\"sig\":\"") + 30;
		*at = *at == 'A' ? 'B' : 'A';
		bundle_text = signers[i].by_key;
		trusted_pem = signers[i].key.public_pem;
		fail_one_by_one("wrong signature", check_by_key, RINGSUM_E_REFUSED, 3);
	}
}

static int make_signers(void **state)
{
	static const char *const kinds[KINDS] = { "P-256", "ED25519" };
	static const struct signing_resource resources[] = { { .name = "a" }, { .name = "b" } };

	(void)state;
	payload = signing_statement("m", resources, 2, 0, NULL);
	for (size_t i = 0; i < KINDS; i++) {
		struct signing_certificate_setup setup = {
			.name = "Signer",
			.key = &signers[i].key,
			.begin_days = -10,
			.end_days = 10,
			.key_usage = "critical,digitalSignature",
		};

		signers[i].key = signing_key_make(kinds[i]);
		signers[i].certificate = signing_certificate_make(&setup);
		signers[i].pem = signing_certificate_pem(signers[i].certificate);
		signers[i].by_key = signing_bundle(payload, &signers[i].key);
		signers[i].by_chain = signing_chain_bundle(
			payload, &signers[i].key, (X509 *const[]){ signers[i].certificate, NULL });
	}
	return 0;
}

static int free_signers(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++) {
		signing_key_free(&signers[i].key);
		X509_free(signers[i].certificate);
		free(signers[i].pem);
		free(signers[i].by_key);
		free(signers[i].by_chain);
	}
	free(payload);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_right),
		cmocka_unit_test(test_wrong),
	};

	failures_install();
	return cmocka_run_group_tests_name("signing_failures", tests, make_signers, free_signers);
}
