/* SPDX-License-Identifier: Apache-2.0 */
/* Sigstore bundles: what is read, what is refused and why, and what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bundle.h"
#include "ringsum.h"

static char reason[RSUM_BUNDLE_REASON_BYTES];

/* "payload" and "signature" in base64. */
#define PAYLOAD "cGF5bG9hZA=="
#define SIGNATURE "c2lnbmF0dXJl"
#define TYPE "application/vnd.dev.sigstore.bundle.v0.3+json"
#define KEY "\"publicKey\":{\"hint\":\"abc\"}"
#define CHAIN                                                                                      \
	"\"x509CertificateChain\":{\"certificates\":[{\"rawBytes\":\"AQ==\"},{\"rawBytes\":\"Ag==" \
	"\"}]}"
#define LONE "\"certificate\":{\"rawBytes\":\"AQ==\"}"
#define ENVELOPE                                                                       \
	"\"dsseEnvelope\":{\"payload\":\"" PAYLOAD "\",\"payloadType\":"               \
	"\"application/vnd.in-toto+json\",\"signatures\":[{\"sig\":\"" SIGNATURE "\"," \
	"\"keyid\":\"\"}]}"
#define BUNDLE(type, material) \
	"{\"mediaType\":\"" type "\",\"verificationMaterial\":{" material "}," ENVELOPE "}"

static char *copy_of(const char *text)
{
	size_t size_bytes = strlen(text);
	char *copy = malloc(size_bytes + !size_bytes);

	assert_non_null(copy);
	memcpy(copy, text, size_bytes);
	return copy;
}

static char *read_text(const char *text, struct rsum_bundle *out)
{
	char *copy = copy_of(text);

	if (rsum_bundle_read(copy, strlen(text), out, reason))
		fail_msg("%s", reason);
	return copy;
}

static void expect_refused(const char *text, const char *why)
{
	struct rsum_bundle bundle;
	char *copy = copy_of(text);

	reason[0] = '\0';
	assert_int_equal(rsum_bundle_read(copy, strlen(text), &bundle, reason), RINGSUM_E_REFUSED);
	free(copy);
	if (!strstr(reason, why))
		fail_msg("expected \"%s\" in \"%s\"", why, reason);
}

static void check_common(const struct rsum_bundle *bundle)
{
	assert_int_equal(bundle->payload_bytes, 7);
	assert_memory_equal(bundle->payload, "payload", 7);
	assert_int_equal(bundle->signature.size_bytes, 9);
	assert_memory_equal(bundle->signature.data, "signature", 9);
}

static void test_key(void **state)
{
	struct rsum_bundle bundle;
	char *text = read_text(BUNDLE(TYPE, KEY ",\"tlogEntries\":[]"), &bundle);

	(void)state;
	check_common(&bundle);
	assert_int_equal(bundle.material, RSUM_BUNDLE_KEY);
	assert_string_equal(bundle.hint, "abc");
	assert_null(bundle.key_raw.data);
	free(text);
	text = read_text(BUNDLE(TYPE, "\"publicKey\":{\"rawBytes\":\"AQ==\",\"keyDetails\":\"X\"}"),
			 &bundle);
	assert_int_equal(bundle.material, RSUM_BUNDLE_KEY);
	assert_null(bundle.hint);
	assert_string_equal(bundle.key_details, "X");
	assert_int_equal(bundle.key_raw.size_bytes, 1);
	free(text);
}

static void test_certificates(void **state)
{
	struct rsum_bundle bundle;
	char *text = read_text(BUNDLE(TYPE, CHAIN ",\"tlogEntries\":[]"), &bundle);

	(void)state;
	check_common(&bundle);
	assert_int_equal(bundle.material, RSUM_BUNDLE_CERTIFICATES);
	assert_int_equal(bundle.certificate_count, 2);
	assert_int_equal(bundle.certificates[0].data[0], 1);
	assert_int_equal(bundle.certificates[1].data[0], 2);
	free(text);
}

static void test_keyless(void **state)
{
	static const char *const texts[] = {
		BUNDLE(TYPE, LONE ",\"tlogEntries\":[{\"logIndex\":\"1\"}]"),
		BUNDLE("application/vnd.dev.sigstore.bundle+json;version=0.3", LONE),
		BUNDLE("application/vnd.dev.sigstore.bundle+json;version=0.1", CHAIN),
		BUNDLE("application/vnd.dev.sigstore.bundle+json;version=0.2",
		       CHAIN ",\"timestampVerificationData\":{\"x\":1}"),
	};
	struct rsum_bundle bundle;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(texts); i++) {
		char *text = read_text(texts[i], &bundle);

		check_common(&bundle);
		assert_int_equal(bundle.material, RSUM_BUNDLE_KEYLESS);
		free(text);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "at byte 0" },
		{ "[]", "an object is expected" },
		{ "{}", "no member `mediaType`" },
		{ BUNDLE("application/json", KEY), "mediaType is not" },
		{ BUNDLE("application/vnd.dev.sigstore.bundle+json;version=0.4", KEY),
		  "mediaType" },
		{ BUNDLE("application/vnd.dev.sigstore.bundle+json;version=0.", KEY), "mediaType" },
		{ BUNDLE("application/vnd.dev.sigstore.bundle+json;version=0.3", KEY),
		  "an older form" },
		{ BUNDLE(TYPE, ""), "exactly one of" },
		{ BUNDLE(TYPE, KEY "," LONE), "exactly one of" },
		{ BUNDLE(TYPE, CHAIN "," LONE), "exactly one of" },
		{ BUNDLE(TYPE, KEY "," KEY), "duplicate key" },
		{ BUNDLE(TYPE, KEY ",\"tlogEntries\":{}"), "a list is expected" },
		{ BUNDLE(TYPE, KEY ",\"tlogEntriez\":[]"), "unknown member `tlogEntriez`" },
		{ BUNDLE(TYPE, "\"publicKey\":null"), "an object is expected" },
		{ BUNDLE(TYPE, "\"publicKey\":{\"hint\":null}"), "a string is expected" },
		{ BUNDLE(TYPE, "\"publicKey\":{\"hint\":\"a\\u0000\"}"), "NUL inside" },
		{ BUNDLE(TYPE, "\"publicKey\":{\"hin\":\"a\"}"), "unknown member `hin`" },
		{ BUNDLE(TYPE, "\"publicKey\":{\"rawBytes\":\"\"}"), "0 bytes" },
		{ BUNDLE(TYPE, "\"x509CertificateChain\":{\"certificates\":[]}"), "empty" },
		{ BUNDLE(TYPE, "\"x509CertificateChain\":{}"), "no member `certificates`" },
		{ BUNDLE(TYPE, "\"certificate\":{\"rawBytes\":\"AQ=\"}"), "not base64" },
		{ BUNDLE(TYPE, "\"certificate\":{}"), "no member `rawBytes`" },
		{ "{\"mediaType\":\"" TYPE "\",\"verificationMaterial\":{" KEY "}}",
		  "no member `dsseEnvelope`" },
		{ "{\"mediaType\":\"" TYPE "\",\"messageSignature\":{}}", "messageSignature" },
		{ "{\"mediaType\":\"" TYPE "\"," ENVELOPE "}", "no member `verificationMaterial`" },
		{ BUNDLE(TYPE, KEY) "x", "the end of the text" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++)
		expect_refused(cases[i].text, cases[i].why);
}

static void test_refused_envelopes(void **state)
{
	static const struct {
		const char *from, *to, *why;
	} cases[] = {
		{ "vnd.in-toto+json", "vnd.in-toto+yaml", "payloadType" },
		{ PAYLOAD, "", "0 bytes" },
		{ PAYLOAD, "cGF5bG9hZA", "not base64" },
		{ PAYLOAD, "cGF5bG9hZB==", "not base64" },
		{ SIGNATURE, "c2lnbmF0dX-_", "not base64" },
		{ "{\"sig\":\"" SIGNATURE "\",\"keyid\":\"\"}", "", "no signature" },
		{ "{\"sig\"", "{\"sig\":\"AQ==\"},{\"sig\"", "more than one signature" },
		{ "\"sig\":\"" SIGNATURE "\",", "", "no member `sig`" },
		{ "\"keyid\":\"\"", "\"keyid\":1", "a string is expected" },
		{ "\"keyid\":\"\"", "\"key_id\":\"\"", "unknown member `key_id`" },
		{ "\"payload\":", "\"payloaD\":", "unknown member `payloaD`" },
	};
	static const char sound[] = BUNDLE(TYPE, KEY);

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		const char *at = strstr(sound, cases[i].from);
		char *text = NULL;

		assert_non_null(at);
		assert_true(asprintf(&text, "%.*s%s%s", (int)(at - sound), sound, cases[i].to,
				     at + strlen(cases[i].from)) > 0);
		expect_refused(text, cases[i].why);
		free(text);
	}
}

static void test_limits(void **state)
{
	char *text = NULL, *long_text;
	size_t length = (RSUM_LIMIT_SIGNATURE_BYTES + 3) / 3 * 4;
	struct rsum_bundle bundle;
	FILE *to;

	(void)state;
	long_text = malloc(length + 1);
	assert_non_null(long_text);
	memset(long_text, 'A', length);
	long_text[length] = '\0';
	assert_true(asprintf(&text,
			     "{\"mediaType\":\"" TYPE "\",\"verificationMaterial\":{" KEY "},"
			     "\"dsseEnvelope\":{\"payload\":\"AQ==\",\"payloadType\":"
			     "\"application/vnd.in-toto+json\",\"signatures\":[{\"sig\":\"%s\"}]}}",
			     long_text) > 0);
	expect_refused(text, "expected 1 to 1024");
	free(text);
	free(long_text);
	to = open_memstream(&text, &length);
	assert_non_null(to);
	fprintf(to, "{\"mediaType\":\"" TYPE
		    "\",\"verificationMaterial\":{\"x509CertificateChain\":{\"certificates\":[");
	for (unsigned i = 0; i <= RSUM_LIMIT_CERTIFICATES; i++)
		fprintf(to, "%s{\"rawBytes\":\"AQ==\"}", i ? "," : "");
	fprintf(to, "]}}," ENVELOPE "}");
	fclose(to);
	expect_refused(text, "more than 16 certificates");
	/* Not looked at, so there need not be so much of it. */
	assert_int_equal(rsum_bundle_read(text, RSUM_LIMIT_BUNDLE_BYTES + 1, &bundle, reason),
			 RINGSUM_E_REFUSED);
	assert_non_null(strstr(reason, "which is the limit"));
	free(text);
}

static void test_written(void **state)
{
	static const struct rsum_bytes payload = { (const uint8_t *)"payload", 7 };
	static const struct rsum_bytes signature = { (const uint8_t *)"signature", 9 };
	static const struct rsum_bytes certificates[] = { { (const uint8_t *)"one", 3 },
							  { (const uint8_t *)"two", 3 } };
	struct rsum_bundle bundle;
	char *written = NULL, *text;

	(void)state;
	assert_int_equal(rsum_bundle_write(&payload, &signature, "abc", NULL, 0, &written), 0);
	assert_string_equal(written, BUNDLE(TYPE, KEY ",\"tlogEntries\":[]") "\n");
	assert_true(rsum_bundle_is_likely(written, strlen(written)));
	text = read_text(written, &bundle);
	check_common(&bundle);
	free(text);
	free(written);
	assert_int_equal(rsum_bundle_write(&payload, &signature, NULL, certificates, 2, &written),
			 0);
	text = read_text(written, &bundle);
	check_common(&bundle);
	assert_int_equal(bundle.material, RSUM_BUNDLE_CERTIFICATES);
	assert_int_equal(bundle.certificate_count, 2);
	assert_memory_equal(bundle.certificates[1].data, "two", 3);
	free(text);
	free(written);
}

static void test_likely(void **state)
{
	static const char *const yes[] = { "{\"mediaType\":", " {\n \"dsseEnvelope\": [",
					   "{\"verificationMaterial\"" };
	static const char *const no[] = {
		"", "{", "{}", "{\"tensors\":", "[\"mediaType\"", "{\"mediaTyp"
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(yes); i++)
		assert_true(rsum_bundle_is_likely(yes[i], strlen(yes[i])));
	for (size_t i = 0; i < RSUM_COUNT_OF(no); i++)
		assert_false(rsum_bundle_is_likely(no[i], strlen(no[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_keyless),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_envelopes),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_likely),
	};

	return cmocka_run_group_tests_name("bundle", tests, NULL, NULL);
}
