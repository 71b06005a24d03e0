/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of bundles in the reference's own forms, with keys of our own: the right ones are
 * right, and nothing else is. No byte of a bundle can change without it being noticed.
 */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ringsum.h"
#include "signature.h"
#include "signing.h"
#include "statement.h"

static char reason[RSUM_SIGNATURE_REASON_BYTES];

static const char *const kinds[] = { "P-256", "P-384", "P-521", "ED25519" };

static char *statement(void)
{
	static const struct signing_resource resources[] = { { .name = "model.safetensors" } };

	return signing_statement("m", resources, 1, 0, NULL);
}

static void expect_reason(const char *why)
{
	if (!strstr(reason, why))
		fail_msg("expected \"%s\" in \"%s\"", why, reason);
}

/* ---- readers that fail where the test fails ------------------------------------------------ */

static struct rsum_public_key *public_key(const char *pem)
{
	struct rsum_public_key *key = NULL;

	if (rsum_public_key_read(pem, strlen(pem), &key, reason))
		fail_msg("%s", reason);
	return key;
}

static struct rsum_authorities *authorities(const char *pem)
{
	struct rsum_authorities *read = NULL;

	if (rsum_authorities_read(pem, strlen(pem), &read, reason))
		fail_msg("%s", reason);
	return read;
}

/* Reads the bundle, checks it with a key or authorities, and reads what it signs. */
static int check_bytes(const char *bytes, size_t size_bytes, const struct rsum_public_key *key,
		       const struct rsum_authorities *trusted, struct rsum_signer *signer)
{
	char bundle_reason[RSUM_BUNDLE_REASON_BYTES], payload_reason[RSUM_STATEMENT_REASON_BYTES];
	struct rsum_statement read = { 0 };
	struct rsum_bundle bundle;
	char *copy = malloc(size_bytes + !size_bytes);
	int ret;

	assert_non_null(copy);
	memcpy(copy, bytes, size_bytes);
	reason[0] = '\0';
	ret = rsum_bundle_read(copy, size_bytes, &bundle, bundle_reason);
	if (ret) {
		snprintf(reason, sizeof(reason), "%s", bundle_reason);
	} else {
		ret = key ? rsum_signature_check_key(&bundle, key, signer, reason)
			  : rsum_signature_check_chain(&bundle, trusted, signer, reason);
		if (!ret)
			ret = rsum_statement_read(bundle.payload, bundle.payload_bytes, &read,
						  payload_reason);
		rsum_statement_deinit(&read);
	}
	free(copy);
	return ret;
}

static int check(const char *bundle, const struct rsum_public_key *key,
		 const struct rsum_authorities *trusted)
{
	struct rsum_signer signer = { 0 };
	int ret = check_bytes(bundle, strlen(bundle), key, trusted, &signer);

	/* Nothing is said of who signed before it is known. */
	assert_int_equal(ret == 0, strlen(signer.fingerprint) == 64);
	return ret;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void test_every_kind(void **state)
{
	static const char *const algorithms[] = { "ecdsa-p256-sha256", "ecdsa-p384-sha384",
						  "ecdsa-p521-sha512", "ed25519" };
	char *payload = statement();

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++) {
		struct signing_key mine = signing_key_make(kinds[i]);
		struct signing_key other = signing_key_make(kinds[i]);
		struct rsum_public_key *key = public_key(mine.public_pem);
		struct rsum_public_key *wrong = public_key(other.public_pem);
		struct rsum_signer signer = { 0 };
		char *bundle = signing_bundle(payload, &mine);

		assert_int_equal(check_bytes(bundle, strlen(bundle), key, NULL, &signer), 0);
		assert_string_equal(signer.algorithm, algorithms[i]);
		assert_string_equal(signer.subject, "");
		assert_int_equal(check(bundle, wrong, NULL), RINGSUM_E_REFUSED);
		expect_reason("another key: its hint is");
		free(bundle);
		/* With the hint of the key that is asked for, but signed with another. */
		memcpy(other.hint, mine.hint, sizeof(mine.hint));
		bundle = signing_bundle(payload, &other);
		assert_int_equal(check(bundle, key, NULL), RINGSUM_E_REFUSED);
		expect_reason("not that of this key");
		free(bundle);
		rsum_public_key_free(key);
		rsum_public_key_free(wrong);
		signing_key_free(&mine);
		signing_key_free(&other);
	}
	free(payload);
}

/* One key, spelled with its point compressed, has one fingerprint and one hint. */
static void test_compressed(void **state)
{
	struct signing_key mine = signing_key_make("P-256");
	char *payload = statement(), *bundle = signing_bundle(payload, &mine);
	struct rsum_signer plain = { 0 }, compressed = { 0 };
	struct rsum_public_key *key = public_key(mine.public_pem);
	uint8_t *der = NULL;
	char pem[512], encoded[256];
	int length;

	(void)state;
	assert_int_equal(check_bytes(bundle, strlen(bundle), key, NULL, &plain), 0);
	rsum_public_key_free(key);
	assert_int_equal(EVP_PKEY_set_utf8_string_param(mine.key, "point-format", "compressed"), 1);
	length = i2d_PUBKEY(mine.key, &der);
	assert_int_equal(length, 59);
	EVP_EncodeBlock((unsigned char *)encoded, der, length);
	OPENSSL_free(der);
	snprintf(pem, sizeof(pem),
		 "-----BEGIN PUBLIC KEY-----\n%.64s\n%s\n-----END PUBLIC KEY-----\n", encoded,
		 encoded + 64);
	key = public_key(pem);
	assert_int_equal(check_bytes(bundle, strlen(bundle), key, NULL, &compressed), 0);
	assert_string_equal(plain.fingerprint, compressed.fingerprint);
	rsum_public_key_free(key);
	signing_key_free(&mine);
	free(bundle);
	free(payload);
}

static void test_bad_keys(void **state)
{
	static const struct {
		const char *kind, *why;
	} others[] = { { "RSA", "of the kind RSA" },
		       { "P-224", "secp224r1" },
		       { "explicit", "named, not spelled out" } };
	static const struct {
		const char *pem, *why;
	} texts[] = {
		{ "", "no public key in PEM" },
		{ "ssh-ed25519 AAAA", "no public key in PEM" },
		{ "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
		  "cannot be read" },
		{ "-----BEGIN PUBLIC KEY-----\nAAAA\n", "cannot be read" },
		{ "-----BEGIN PUBLIC KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
		  "AES-128-CBC,00000000000000000000000000000000\n\nAAAA\n-----END PUBLIC "
		  "KEY-----\n",
		  "cannot be read" },
		{ "-----BEGIN CERTIFICATE-----\n", "a certificate, which --ca takes" },
	};
	struct rsum_private_key *private_key = NULL;
	struct rsum_public_key *key = NULL;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(others); i++) {
		struct signing_key made = signing_key_make(others[i].kind);

		assert_int_equal(rsum_public_key_read(made.public_pem, strlen(made.public_pem),
						      &key, reason),
				 RINGSUM_E_INVALID);
		expect_reason(others[i].why);
		assert_int_equal(rsum_private_key_read(made.private_pem, strlen(made.private_pem),
						       NULL, &private_key, reason),
				 RINGSUM_E_INVALID);
		expect_reason(others[i].why);
		assert_int_equal(rsum_public_key_read(made.private_pem, strlen(made.private_pem),
						      &key, reason),
				 RINGSUM_E_INVALID);
		expect_reason("it is a private key");
		assert_int_equal(rsum_private_key_read(made.public_pem, strlen(made.public_pem),
						       NULL, &private_key, reason),
				 RINGSUM_E_INVALID);
		signing_key_free(&made);
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(texts); i++) {
		assert_int_equal(
			rsum_public_key_read(texts[i].pem, strlen(texts[i].pem), &key, reason),
			RINGSUM_E_INVALID);
		expect_reason(texts[i].why);
	}
	assert_null(key);
	assert_null(private_key);
}

/* Releases before 1.0 signed another encoding; it is right with the right key only. */
static void test_legacy(void **state)
{
	struct signing_key mine = signing_key_make("P-256"), other = signing_key_make("P-256");
	struct signing_resource resource = { .name = "it's a\\\\b" };
	char *payload = signing_legacy_statement(&resource, 1);
	char *bundle = signing_legacy_bundle(payload, &mine), *at;
	struct rsum_public_key *key = public_key(mine.public_pem);
	struct rsum_public_key *wrong = public_key(other.public_pem);

	(void)state;
	if (check(bundle, key, NULL))
		fail_msg("%s", reason);
	assert_int_equal(check(bundle, wrong, NULL), RINGSUM_E_REFUSED);
	expect_reason("the one in it is not the one given");
	at = strstr(bundle, "\"payload\":\"") + 40;
	*at = *at == 'A' ? 'B' : 'A';
	assert_int_equal(check(bundle, key, NULL), RINGSUM_E_REFUSED);
	rsum_public_key_free(key);
	rsum_public_key_free(wrong);
	signing_key_free(&mine);
	signing_key_free(&other);
	free(bundle);
	free(payload);
}

/* ---- certificates -------------------------------------------------------------------------- */

/* A root, an intermediate and a signer's certificate; one thing about them may be wrong. */
struct chain {
	struct signing_key root_key, middle_key, signer_key;
	X509 *root, *middle, *signer;
	char *root_pem;
	struct rsum_authorities *trusted;
};

static struct chain make_chain(const char *signer_kind,
			       const struct signing_certificate_setup *middle,
			       const struct signing_certificate_setup *signer)
{
	struct chain chain = {
		.root_key = signing_key_make("P-384"),
		.middle_key = signing_key_make("P-256"),
		.signer_key = signing_key_make(signer_kind),
	};
	struct signing_certificate_setup setup = {
		.name = "Root",
		.key = &chain.root_key,
		.begin_days = -1000,
		.end_days = 1000,
		.basic_constraints = "critical,CA:TRUE",
		.key_usage = "critical,keyCertSign",
	};

	chain.root = signing_certificate_make(&setup);
	chain.root_pem = signing_certificate_pem(chain.root);
	chain.trusted = authorities(chain.root_pem);
	setup = *middle;
	setup.name = "Middle";
	setup.key = &chain.middle_key;
	setup.issuer = chain.root;
	setup.issuer_key = &chain.root_key;
	chain.middle = signing_certificate_make(&setup);
	setup = *signer;
	setup.name = "A Signer, Inc.";
	setup.key = &chain.signer_key;
	setup.issuer = chain.middle;
	setup.issuer_key = &chain.middle_key;
	chain.signer = signing_certificate_make(&setup);
	return chain;
}

static const struct signing_certificate_setup good_middle = {
	.begin_days = -500,
	.end_days = 500,
	.basic_constraints = "critical,CA:TRUE",
	.key_usage = "critical,keyCertSign",
};

static const struct signing_certificate_setup good_signer = {
	.begin_days = -10,
	.end_days = 10,
	.key_usage = "critical,digitalSignature",
};

static void free_chain(struct chain *chain)
{
	rsum_authorities_free(chain->trusted);
	X509_free(chain->root);
	X509_free(chain->middle);
	X509_free(chain->signer);
	signing_key_free(&chain->root_key);
	signing_key_free(&chain->middle_key);
	signing_key_free(&chain->signer_key);
	free(chain->root_pem);
}

static void expect_chain(const char *signer_kind, const struct signing_certificate_setup *middle,
			 const struct signing_certificate_setup *signer, const char *why)
{
	struct chain chain = make_chain(signer_kind, middle, signer);
	X509 *const sent[] = { chain.signer, chain.middle, NULL };
	char *payload = statement();
	char *bundle = signing_chain_bundle(payload, &chain.signer_key, sent);
	int ret = check(bundle, NULL, chain.trusted);

	if (why) {
		assert_int_equal(ret, RINGSUM_E_REFUSED);
		expect_reason(why);
	} else if (ret) {
		fail_msg("%s", reason);
	}
	free(bundle);
	free(payload);
	free_chain(&chain);
}

static void test_chains(void **state)
{
	struct signing_certificate_setup middle, signer;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++)
		expect_chain(kinds[i], &good_middle, &good_signer, NULL);
	expect_chain("RSA", &good_middle, &good_signer, "of the kind RSA");
	expect_chain("explicit", &good_middle, &good_signer, "does not lead to");
	/* Expired today, valid when the signer's certificate began: as the reference has it. */
	signer = good_signer;
	signer.end_days = -5;
	expect_chain("P-256", &good_middle, &signer, NULL);
	middle = good_middle;
	middle.end_days = -5;
	expect_chain("P-256", &middle, &good_signer, NULL);
	middle.end_days = -20;
	expect_chain("P-256", &middle, &good_signer, "does not lead to");
	middle = good_middle;
	middle.begin_days = -9;
	expect_chain("P-256", &middle, &good_signer, "does not lead to");
	middle = good_middle;
	middle.basic_constraints = "critical,CA:FALSE";
	expect_chain("P-256", &middle, &good_signer, "does not lead to");
	middle = good_middle;
	middle.key_usage = "critical,digitalSignature";
	expect_chain("P-256", &middle, &good_signer, "does not lead to");
	signer = good_signer;
	signer.key_usage = "critical,keyAgreement";
	expect_chain("P-256", &good_middle, &signer, "not for signing");
	signer.extended_key_usage = "codeSigning";
	expect_chain("P-256", &good_middle, &signer, NULL);
	signer.key_usage = NULL;
	expect_chain("P-256", &good_middle, &signer, NULL);
	signer.extended_key_usage = "serverAuth";
	expect_chain("P-256", &good_middle, &signer, "not for signing");
	signer.extended_key_usage = NULL;
	expect_chain("P-256", &good_middle, &signer, "not for signing");
}

static void test_whose_chain(void **state)
{
	struct chain mine = make_chain("P-256", &good_middle, &good_signer);
	struct chain other = make_chain("P-256", &good_middle, &good_signer);
	X509 *const whole[] = { mine.signer, mine.middle, mine.root, NULL };
	X509 *const lacking[] = { mine.signer, NULL };
	X509 *const swapped[] = { mine.middle, mine.signer, NULL };
	struct rsum_signer signer = { 0 };
	char *payload = statement(), *bundle;

	(void)state;
	bundle = signing_chain_bundle(payload, &mine.signer_key, whole);
	assert_int_equal(check_bytes(bundle, strlen(bundle), NULL, mine.trusted, &signer), 0);
	assert_string_equal(signer.subject, "CN=A Signer\\, Inc.");
	assert_int_equal(check(bundle, NULL, other.trusted), RINGSUM_E_REFUSED);
	expect_reason("does not lead to");
	free(bundle);
	bundle = signing_chain_bundle(payload, &mine.signer_key, lacking);
	assert_int_equal(check(bundle, NULL, mine.trusted), RINGSUM_E_REFUSED);
	expect_reason("does not lead to");
	free(bundle);
	bundle = signing_chain_bundle(payload, &mine.signer_key, swapped);
	assert_int_equal(check(bundle, NULL, mine.trusted), RINGSUM_E_REFUSED);
	free(bundle);
	/* Somebody else's signature under a certificate that is public. */
	bundle = signing_chain_bundle(payload, &other.signer_key, whole);
	assert_int_equal(check(bundle, NULL, mine.trusted), RINGSUM_E_REFUSED);
	expect_reason("not that of this key");
	free(bundle);
	free(payload);
	free_chain(&mine);
	free_chain(&other);
}

/* A lone certificate under a root whose key is of a kind and signs with a digest. */
static int check_under(const char *root_kind, const char *digest)
{
	struct signing_key root_key = signing_key_make(root_kind), mine = signing_key_make("P-256");
	struct signing_certificate_setup setup = {
		.name = "Root",
		.key = &root_key,
		.begin_days = -100,
		.end_days = 100,
		.basic_constraints = "critical,CA:TRUE",
	};
	X509 *root = signing_certificate_make(&setup), *signer;
	char *payload = statement(), *bundle, *pem = signing_certificate_pem(root);
	struct rsum_authorities *trusted = authorities(pem);
	int ret;

	if (digest)
		root_key.digest = digest;
	setup = good_signer;
	setup.name = "Signer";
	setup.key = &mine;
	setup.issuer = root;
	setup.issuer_key = &root_key;
	signer = signing_certificate_make(&setup);
	bundle = signing_chain_bundle(payload, &mine, (X509 *const[]){ signer, NULL });
	ret = check(bundle, NULL, trusted);
	free(bundle);
	free(payload);
	free(pem);
	rsum_authorities_free(trusted);
	X509_free(root);
	X509_free(signer);
	signing_key_free(&root_key);
	signing_key_free(&mine);
	return ret;
}

static void test_weak_chains(void **state)
{
	(void)state;
	assert_int_equal(check_under("RSA", NULL), 0);
	assert_int_equal(check_under("RSA-1024", NULL), RINGSUM_E_REFUSED);
	expect_reason("too weak");
	assert_int_equal(check_under("RSA", "SHA1"), RINGSUM_E_REFUSED);
	expect_reason("too weak");
}

static void test_legacy_chain(void **state)
{
	struct chain mine = make_chain("P-384", &good_middle, &good_signer);
	X509 *const sent[] = { mine.signer, mine.middle, NULL };
	struct signing_resource resource = { .name = "a" };
	char *payload = signing_legacy_statement(&resource, 1);
	char *bundle = signing_legacy_chain_bundle(payload, &mine.signer_key, sent);

	(void)state;
	if (check(bundle, NULL, mine.trusted))
		fail_msg("%s", reason);
	free(bundle);
	free(payload);
	free_chain(&mine);
}

static void test_bad_authorities(void **state)
{
	static const char *const texts[] = {
		"",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nAAAA\n",
		"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
	};
	struct chain chain = make_chain("P-256", &good_middle, &good_signer);
	struct rsum_authorities *read = NULL;
	char *both = NULL;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(texts); i++)
		assert_int_equal(rsum_authorities_read(texts[i], strlen(texts[i]), &read, reason),
				 RINGSUM_E_INVALID);
	/* One that can be read does not excuse another that cannot. */
	assert_true(asprintf(&both, "%s%s", chain.root_pem, texts[1]) > 0);
	assert_int_equal(rsum_authorities_read(both, strlen(both), &read, reason),
			 RINGSUM_E_INVALID);
	free(both);
	assert_null(read);
	assert_true(asprintf(&both, "text before\n%s%s", chain.root_pem, chain.root_pem) > 0);
	read = authorities(both);
	free(both);
	rsum_authorities_free(read);
	free_chain(&chain);
}

/* Each kind of bundle is checked with what it was signed with, and with nothing else. */
static void test_mismatched_material(void **state)
{
	struct chain chain = make_chain("P-256", &good_middle, &good_signer);
	X509 *const sent[] = { chain.signer, chain.middle, NULL };
	struct rsum_public_key *key = public_key(chain.signer_key.public_pem);
	char *payload = statement(), *bundle;

	(void)state;
	bundle = signing_bundle(payload, &chain.signer_key);
	assert_int_equal(check(bundle, NULL, chain.trusted), RINGSUM_E_REFUSED);
	expect_reason("check it with --public-key");
	free(bundle);
	bundle = signing_chain_bundle(payload, &chain.signer_key, sent);
	assert_int_equal(check(bundle, key, NULL), RINGSUM_E_REFUSED);
	expect_reason("check it with --ca");
	free(bundle);
	bundle = signing_keyless_bundle(payload, &chain.signer_key, chain.signer);
	assert_int_equal(check(bundle, key, NULL), RINGSUM_E_REFUSED);
	expect_reason("without a key");
	assert_int_equal(check(bundle, NULL, chain.trusted), RINGSUM_E_REFUSED);
	expect_reason("without a key");
	free(bundle);
	free(payload);
	rsum_public_key_free(key);
	free_chain(&chain);
}

/* ---- every byte counts --------------------------------------------------------------------- */

/* Each byte with `bits_each` of its bits changed, one at a time, and every shorter bundle. */
static void expect_every_change_noticed(char *bundle, unsigned bits_each,
					const struct rsum_public_key *key,
					const struct rsum_authorities *trusted)
{
	size_t size_bytes = strlen(bundle);
	struct rsum_signer signer;

	assert_int_equal(check_bytes(bundle, size_bytes, key, trusted, &signer), 0);
	for (size_t at = 0; at < size_bytes; at++) {
		for (unsigned i = 0; i < bits_each; i++) {
			unsigned bit = (unsigned)(at + i) % 8;

			bundle[at] = (char)(bundle[at] ^ 1 << bit);
			if (check_bytes(bundle, size_bytes, key, trusted, &signer) !=
			    RINGSUM_E_REFUSED)
				fail_msg("bit %u of byte %zu made no difference: %s", bit, at,
					 bundle);
			bundle[at] = (char)(bundle[at] ^ 1 << bit);
		}
		if (check_bytes(bundle, at, key, trusted, &signer) != RINGSUM_E_REFUSED)
			fail_msg("the first %zu bytes were enough: %s", at, bundle);
	}
	assert_int_equal(check_bytes(bundle, size_bytes, key, trusted, &signer), 0);
}

static void test_changes_with_key(void **state)
{
	static const char *const some[] = { "P-256", "ED25519" };
	char *payload = statement();

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(some); i++) {
		struct signing_key mine = signing_key_make(some[i]);
		struct rsum_public_key *key = public_key(mine.public_pem);
		char *bundle = signing_bundle(payload, &mine);

		/* Checking one is cheap for the first kind. */
		expect_every_change_noticed(bundle, i == 0 ? 8 : 1, key, NULL);
		free(bundle);
		rsum_public_key_free(key);
		signing_key_free(&mine);
	}
	free(payload);
}

static void test_changes_with_chain(void **state)
{
	struct chain chain = make_chain("P-256", &good_middle, &good_signer);
	X509 *const sent[] = { chain.signer, chain.middle, NULL };
	char *payload = statement();
	char *bundle = signing_chain_bundle(payload, &chain.signer_key, sent);

	(void)state;
	expect_every_change_noticed(bundle, 1, NULL, chain.trusted);
	free(bundle);
	free(payload);
	free_chain(&chain);
}

/* ---- making -------------------------------------------------------------------------------- */

static char *make_bundle(const struct rsum_private_key *key, const char *payload,
			 struct rsum_signer *signer)
{
	uint8_t signature[RSUM_LIMIT_SIGNATURE_BYTES];
	const struct rsum_bytes bytes = { (const uint8_t *)payload, strlen(payload) };
	struct rsum_bytes made = { signature, 0 };
	char hint[RSUM_SIGNATURE_HINT_BYTES], *text = NULL;

	assert_int_equal(
		rsum_signature_make(key, &bytes, signature, &made.size_bytes, hint, signer, reason),
		0);
	assert_int_equal(rsum_bundle_write(&bytes, &made, hint, NULL, 0, &text), 0);
	return text;
}

static void test_made(void **state)
{
	char *payload = statement();

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(kinds); i++) {
		struct signing_key mine = signing_key_make(kinds[i]);
		struct rsum_public_key *key = public_key(mine.public_pem);
		struct rsum_private_key *private_key = NULL;
		struct rsum_signer made = { 0 }, checked = { 0 };
		char *bundle, *again;

		if (rsum_private_key_read(mine.private_pem, strlen(mine.private_pem), NULL,
					  &private_key, reason))
			fail_msg("%s", reason);
		bundle = make_bundle(private_key, payload, &made);
		assert_int_equal(check_bytes(bundle, strlen(bundle), key, NULL, &checked), 0);
		assert_string_equal(made.fingerprint, checked.fingerprint);
		assert_non_null(strstr(bundle, mine.hint));
		again = make_bundle(private_key, payload, &made);
		/* ECDSA draws a number for each signature, Ed25519 does not. */
		assert_int_equal(strcmp(bundle, again) == 0, !mine.digest);
		free(again);
		free(bundle);
		rsum_private_key_free(private_key);
		rsum_public_key_free(key);
		signing_key_free(&mine);
	}
	free(payload);
}

static void test_passphrase(void **state)
{
	struct signing_key mine = signing_key_make("P-256");
	struct rsum_private_key *key = NULL;
	BIO *bio = BIO_new(BIO_s_mem());
	const char *pem = NULL;
	size_t size_bytes;

	(void)state;
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, mine.key, EVP_aes_128_cbc(), "open", 4,
						       NULL, NULL),
			 1);
	size_bytes = (size_t)BIO_get_mem_data(bio, &pem);
	assert_int_equal(rsum_private_key_read(pem, size_bytes, NULL, &key, reason),
			 RINGSUM_E_INVALID);
	expect_reason("--passphrase-file");
	assert_int_equal(rsum_private_key_read(pem, size_bytes, "opem", &key, reason),
			 RINGSUM_E_INVALID);
	expect_reason("with this passphrase");
	assert_int_equal(rsum_private_key_read(pem, size_bytes, "", &key, reason),
			 RINGSUM_E_INVALID);
	assert_null(key);
	assert_int_equal(rsum_private_key_read(pem, size_bytes, "open", &key, reason), 0);
	rsum_private_key_free(key);
	BIO_free(bio);
	signing_key_free(&mine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_kind),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_bad_keys),
		cmocka_unit_test(test_legacy),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_whose_chain),
		cmocka_unit_test(test_legacy_chain),
		cmocka_unit_test(test_weak_chains),
		cmocka_unit_test(test_bad_authorities),
		cmocka_unit_test(test_mismatched_material),
		cmocka_unit_test(test_changes_with_key),
		cmocka_unit_test(test_changes_with_chain),
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_passphrase),
	};

	return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
