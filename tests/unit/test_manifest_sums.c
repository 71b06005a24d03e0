/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of checksums: every form that is read, and what is refused of those that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "manifest.h"
#include "rsum_limits.h"

#define HEX "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"
#define HEX_1 "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define HEX128 HEX HEX

struct parsed {
	struct rsum_manifest manifest;
	struct ringsum_report *report;
	const struct rsum_manifest_format *format;
	int result;
};

static struct parsed parse_bytes(const char *text, size_t size_bytes, const char *file_name)
{
	struct parsed parsed = { .report = rsum_report_new() };
	char *copy = malloc(size_bytes + 1);

	assert_non_null(parsed.report);
	assert_non_null(copy);
	memcpy(copy, text, size_bytes);
	parsed.result = rsum_manifest_parse(copy, size_bytes, file_name, &parsed.manifest,
					    parsed.report, &parsed.format);
	if (parsed.result == 0)
		assert_int_equal(rsum_manifest_settle(&parsed.manifest, parsed.report), 0);
	return parsed;
}

static struct parsed parse(const char *text)
{
	return parse_bytes(text, strlen(text), "SHA256SUMS");
}

static void release(struct parsed *parsed)
{
	rsum_manifest_deinit(&parsed->manifest);
	ringsum_report_free(parsed->report);
}

static bool has_message(const struct ringsum_report *report, const char *piece)
{
	for (size_t i = 0; i < ringsum_report_finding_count(report); i++)
		if (strstr(ringsum_report_finding_at(report, i)->message, piece))
			return true;
	return false;
}

struct accepted {
	const char *text;
	const char *name;
	enum rsum_algorithm algorithm;
};

static const struct accepted accepted[] = {
	{ HEX "  a b\n", "a b", RSUM_ALGORITHM_SHA256 },
	{ HEX " *a", "a", RSUM_ALGORITHM_SHA256 },
	{ HEX "   a", " a", RSUM_ALGORITHM_SHA256 },
	{ HEX "  a ", "a ", RSUM_ALGORITHM_SHA256 },
	{ " \t" HEX "  a\r\n", "a", RSUM_ALGORITHM_SHA256 },
	{ "# comment\n\n" HEX "  a\n", "a", RSUM_ALGORITHM_SHA256 },
	{ HEX "  #a", "#a", RSUM_ALGORITHM_SHA256 },
	{ "\\" HEX "  a\\nb\\\\c\\rd\n", "a\nb\\c\rd", RSUM_ALGORITHM_SHA256 },
	{ HEX "  a\\nb\n", "a\\nb", RSUM_ALGORITHM_SHA256 },
	{ HEX " abc", "abc", RSUM_ALGORITHM_SHA256 },
	{ HEX " a", "a", RSUM_ALGORITHM_SHA256 },
	{ HEX "  a\xff\xfe", "a\xff\xfe", RSUM_ALGORITHM_SHA256 },
	{ HEX "  ./a//b/./c\n", "a/b/c", RSUM_ALGORITHM_SHA256 },
	{ HEX "  ../a\n", "../a", RSUM_ALGORITHM_SHA256 }, /* confinement is judged elsewhere */
	{ "SHA256 (a) = " HEX, "a", RSUM_ALGORITHM_SHA256 },
	{ "SHA256 (a) b) = " HEX, "a) b", RSUM_ALGORITHM_SHA256 },
	{ "SHA256 ( a = ()) = " HEX, " a = ()", RSUM_ALGORITHM_SHA256 },
	{ "\\SHA256 (a\\\\) = " HEX, "a\\", RSUM_ALGORITHM_SHA256 },
	{ "SHA256(a)= " HEX, "a", RSUM_ALGORITHM_SHA256 },
	{ "SHA2-256(a)= " HEX, "a", RSUM_ALGORITHM_SHA256 },
	{ "SHA1 (a) = " HEX40, "a", RSUM_ALGORITHM_SHA1 },
	{ HEX40 "  a", "a", RSUM_ALGORITHM_SHA1 },
	{ "BLAKE2b (a) = " HEX128, "a", RSUM_ALGORITHM_BLAKE2B_512 },
	{ "BLAKE2B-512(a)= " HEX128, "a", RSUM_ALGORITHM_BLAKE2B_512 },
	{ "SHA2-512(a)= " HEX128, "a", RSUM_ALGORITHM_SHA512 },
	{ "BLAKE3 (a) = " HEX, "a", RSUM_ALGORITHM_UNKNOWN },
	{ "MD5 (a) = " HEX40, "a", RSUM_ALGORITHM_UNKNOWN },
	{ "BLAKE2b-256 (a) = " HEX, "a", RSUM_ALGORITHM_UNKNOWN },
	{ HEX128 "  a", "a", RSUM_ALGORITHM_UNKNOWN },
};

static void test_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(accepted); i++) {
		struct parsed parsed = parse(accepted[i].text);
		const struct rsum_file_promise *promise = parsed.manifest.file_promises;

		if (parsed.result || parsed.manifest.file_promise_count != 1)
			print_error("row %zu: %s\n", i, accepted[i].text);
		assert_int_equal(parsed.result, 0);
		assert_ptr_equal(parsed.format, &rsum_manifest_sums);
		assert_int_equal(parsed.report->refusing_count, 0);
		assert_int_equal(parsed.manifest.file_promise_count, 1);
		assert_string_equal(promise->path, accepted[i].name);
		assert_int_equal(promise->algorithm, accepted[i].algorithm);
		assert_int_equal(promise->begin, 0);
		assert_true(promise->end == UINT64_MAX && promise->size_bytes == UINT64_MAX);
		if (promise->digest_bytes > 0) {
			assert_int_equal(promise->digest[0], 0x01);
			assert_int_equal(promise->digest[14], 0xcd);
		}
		release(&parsed);
	}
}

static const struct {
	const char *text;
	const char *piece;
} malformed[] = {
	{ HEX, "no name" },
	{ HEX "\n", "no name" },
	{ HEX " ", "no name" },
	{ HEX "x  a", "no blank ends" },
	{ "0" HEX "  a", "neither with a digest" },
	{ "g", "neither with a digest" },
	{ "\\" HEX "  a\\", "within an escape" },
	{ "\\" HEX "  a\\t", "an escape other than" },
	{ "SHA256 (a = " HEX, "no parenthesis" },
	{ "SHA256 () = " HEX, "name is empty" },
	{ "SHA256 (a) : " HEX, "no equals sign" },
	{ "SHA256 (a) =", "hex digits" },
	{ "SHA256 (a) = " HEX40, "as many digits" },
	{ "SHA256 (a) = " HEX " ", "hex digits" },
	{ "SHA1 (a) = " HEX, "as many digits" },
	{ HEX "  a\n" HEX " b\n", "one blank is before" },
};

static void test_malformed(void **state)
{
	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(malformed); i++) {
		struct parsed parsed = parse(malformed[i].text);

		assert_int_equal(parsed.result, 0);
		assert_int_equal(parsed.report->refusing_count, 1);
		if (!has_message(parsed.report, malformed[i].piece))
			print_error("row %zu: %s\n", i, malformed[i].piece);
		assert_true(has_message(parsed.report, malformed[i].piece));
		release(&parsed);
	}
}

/* The first line decides how many characters are between digest and name. */
static void test_reversed(void **state)
{
	struct parsed parsed = parse(HEX " a\n" HEX "  b\n" HEX " *c\n");

	(void)state;
	assert_int_equal(parsed.report->refusing_count, 0);
	assert_int_equal(parsed.manifest.file_promise_count, 3);
	assert_int_equal(parsed.manifest.file_count, 3);
	assert_string_equal(parsed.manifest.files[0], "a");
	assert_string_equal(parsed.manifest.files[1], " b");
	assert_string_equal(parsed.manifest.files[2], "*c");
	release(&parsed);
}

static void test_empty(void **state)
{
	static const char *const texts[] = { "", "\n", "# nothing\n", "\r\n \n" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(texts); i++) {
		struct parsed parsed = parse(texts[i]);

		assert_int_equal(parsed.result, 0);
		assert_int_equal(parsed.manifest.file_promise_count, 0);
		rsum_report_set_complete(parsed.report);
		assert_int_equal(ringsum_report_verdict(parsed.report), RINGSUM_VERDICT_UNDECIDED);
		release(&parsed);
	}
}

static void check_unusable(const char *text, size_t size_bytes, const char *piece)
{
	struct parsed parsed = parse_bytes(text, size_bytes, "SHA256SUMS");

	assert_int_equal(parsed.result, RINGSUM_E_REFUSED);
	assert_int_equal(parsed.manifest.file_promise_count, 0);
	assert_int_equal(parsed.report->refusing_count, 1);
	assert_true(has_message(parsed.report, piece));
	release(&parsed);
}

static void test_encodings(void **state)
{
	static const char zero[] = HEX "  a\0" HEX "  b";
	static const char utf16[] = "\xff\xfe"
				    "0\0"
				    "1\0";
	static const char utf16_bare[] = "0\0"
					 "1\0";
	struct parsed parsed = parse("\xef\xbb\xbf" HEX "  a\n");

	(void)state;
	check_unusable(zero, sizeof(zero), "--zero");
	check_unusable(utf16, sizeof(utf16) - 1, "UTF-16");
	check_unusable(utf16_bare, sizeof(utf16_bare) - 1, "UTF-16");
	check_unusable("abc\0", 4, "NUL");
	assert_int_equal(parsed.result, 0);
	assert_int_equal(parsed.report->refusing_count, 0);
	assert_true(has_message(parsed.report, "byte order mark"));
	assert_int_equal(parsed.manifest.file_promise_count, 1);
	release(&parsed);
}

static void test_twice(void **state)
{
	struct parsed parsed = parse(HEX "  a\n" HEX " *./a\nSHA256 (a) = " HEX "\n");

	(void)state;
	assert_int_equal(parsed.manifest.file_promise_count, 1);
	assert_false(parsed.manifest.file_promises[0].is_conflicting);
	assert_int_equal(parsed.report->refusing_count, 0);
	release(&parsed);

	parsed = parse(HEX "  a\n" HEX_1 "  b\n" HEX_1 "  a\n" HEX40 "  a\n");
	assert_int_equal(parsed.manifest.file_promise_count, 3);
	assert_true(parsed.manifest.file_promises[0].is_conflicting);
	assert_false(parsed.manifest.file_promises[1].is_conflicting);
	assert_int_equal(parsed.manifest.file_promises[1].algorithm, RSUM_ALGORITHM_SHA1);
	assert_false(parsed.manifest.file_promises[2].is_conflicting);
	assert_int_equal(parsed.report->refusing_count, 1);
	assert_true(has_message(parsed.report, "promised twice"));
	release(&parsed);
}

static void test_bare_digest(void **state)
{
	struct parsed parsed = parse_bytes(HEX "\r\n", 66, "dir/model.safetensors.sha256");

	(void)state;
	assert_int_equal(parsed.result, 0);
	assert_int_equal(parsed.manifest.file_promise_count, 1);
	assert_string_equal(parsed.manifest.file_promises[0].path, "model.safetensors");
	release(&parsed);
}

static void test_hashdeep(void **state)
{
	struct parsed parsed = parse("%%%% HASHDEEP-1.0\n"
				     "%%%% size,md5,sha256,filename\n"
				     "## Invoked from: /\n## $ hashdeep a\n## \n"
				     "7," HEX40 "," HEX ",a,b\n"
				     "x," HEX40 "," HEX ",c\n"
				     "7," HEX40 "," HEX40 ",d\n"
				     "7," HEX40 "\n"
				     "%%%% size,sha1,filename\n"
				     "8," HEX40 ",./e\n"
				     "%%%% size,tiger,filename\n"
				     "9," HEX40 ",f\n");
	const struct rsum_file_promise *promises = parsed.manifest.file_promises;

	(void)state;
	assert_int_equal(parsed.result, 0);
	assert_ptr_equal(parsed.format, &rsum_manifest_hashdeep);
	assert_int_equal(parsed.report->refusing_count, 3);
	assert_true(has_message(parsed.report, "size is no number"));
	assert_true(has_message(parsed.report, "fewer columns"));
	assert_true(has_message(parsed.report, "as its algorithm gives"));
	assert_true(has_message(parsed.report, "sha256 was compared"));
	assert_int_equal(parsed.manifest.file_promise_count, 3);
	assert_string_equal(promises[0].path, "a,b");
	assert_int_equal(promises[0].size_bytes, 7);
	assert_int_equal(promises[0].algorithm, RSUM_ALGORITHM_SHA256);
	assert_string_equal(promises[1].path, "e");
	assert_int_equal(promises[1].algorithm, RSUM_ALGORITHM_SHA1);
	assert_int_equal(promises[2].algorithm, RSUM_ALGORITHM_UNKNOWN);
	assert_string_equal(promises[2].algorithm_name, "tiger");
	release(&parsed);
}

/* Several documents make one list; one that turns out to be unusable leaves the others' alone. */
static void test_rewind(void **state)
{
	struct parsed parsed = parse(HEX "  a\n");
	const char *tensors = "{\"tensors\": [}";

	(void)state;
	assert_int_equal(rsum_manifest_parse(strdup(tensors), strlen(tensors), "TENSORS.json",
					     &parsed.manifest, parsed.report, &parsed.format),
			 RINGSUM_E_REFUSED);
	assert_ptr_equal(parsed.format, &rsum_manifest_tensors);
	assert_true(parsed.manifest.is_usable);
	assert_int_equal(parsed.manifest.promise_count, 0);
	assert_int_equal(parsed.manifest.file_promise_count, 1);
	assert_int_equal(rsum_name_index_find(&parsed.manifest.by_file, "a"), 0);
	release(&parsed);
}

static void test_names_of_lists(void **state)
{
	static const char *const lists[] = { "SHA256SUMS", "dir/sha256sums.txt", "a.sha256",
					     "SHA256SUM",  "a.SHA256SUM",	 "a.b.sha256sums" };
	static const char *const others[] = { "TENSORS.json", ".sha256",      "xsha256sums",
					      "sha256",	      "a.sha256.gpg", "" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(lists); i++)
		assert_true(rsum_manifest_name_is_list(lists[i]));
	for (size_t i = 0; i < RSUM_COUNT_OF(others); i++)
		assert_false(rsum_manifest_name_is_list(others[i]));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),    cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_reversed),    cmocka_unit_test(test_empty),
		cmocka_unit_test(test_encodings),   cmocka_unit_test(test_twice),
		cmocka_unit_test(test_bare_digest), cmocka_unit_test(test_hashdeep),
		cmocka_unit_test(test_rewind),	    cmocka_unit_test(test_names_of_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
