/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of model signing: what is read, what is refused and why, and what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ringsum.h"
#include "signing.h"
#include "statement.h"

static char reason[RSUM_STATEMENT_REASON_BYTES];

/* Reads a copy without a NUL behind it. */
static int read_text(const char *text, struct rsum_statement *out)
{
	size_t size_bytes = strlen(text);
	char *copy = malloc(size_bytes + !size_bytes);
	int ret;

	assert_non_null(copy);
	memcpy(copy, text, size_bytes);
	reason[0] = '\0';
	ret = rsum_statement_read(copy, size_bytes, out, reason);
	free(copy);
	return ret;
}

static void expect_refused(const char *text, const char *why)
{
	struct rsum_statement statement;

	assert_int_equal(read_text(text, &statement), RINGSUM_E_REFUSED);
	if (!strstr(reason, why))
		fail_msg("expected \"%s\" in \"%s\"", why, reason);
	rsum_statement_deinit(&statement);
}

static void make_resources(struct signing_resource *resources, size_t count,
			   const char *const *names)
{
	for (size_t i = 0; i < count; i++) {
		resources[i].name = names[i];
		memset(resources[i].sha256, (int)i + 1, sizeof(resources[i].sha256));
	}
}

/* A statement over `names`, which end with NULL. */
static char *statement_of(const char *const *names, uint64_t piece_bytes,
			  const char *const *ignored)
{
	struct signing_resource resources[16];
	size_t count = 0;

	while (names[count])
		count++;
	make_resources(resources, count, names);
	return signing_statement("model", resources, count, piece_bytes, ignored);
}

/* Replaces the first `from` in a text from malloc, which is freed. */
static char *replace(char *text, const char *from, const char *to)
{
	char *at = strstr(text, from), *result = NULL;

	if (!at)
		fail_msg("\"%s\" is not in the text", from);
	assert_true(asprintf(&result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) >
		    0);
	free(text);
	return result;
}

/* ---- what is read -------------------------------------------------------------------------- */

static void test_files(void **state)
{
	static const char *const names[] = { "a/b", "a.txt", "z", "caf\xc3\xa9:1", NULL };
	static const char *const ignored[] = { ".git", "model.sig", "x//./y/", NULL };
	struct rsum_statement statement;
	char *text = statement_of(names, 0, ignored);

	(void)state;
	assert_int_equal(read_text(text, &statement), 0);
	free(text);
	assert_string_equal(statement.subject, "model");
	assert_false(statement.is_in_pieces);
	assert_int_equal(statement.resource_count, 4);
	/* Part by part: "a/b" is before "a.txt". */
	assert_string_equal(statement.resources[0].path, "a/b");
	assert_string_equal(statement.resources[1].path, "a.txt");
	assert_string_equal(statement.resources[2].path, "caf\xc3\xa9:1");
	assert_string_equal(statement.resources[3].path, "z");
	assert_false(statement.resources[3].is_piece);
	assert_string_equal(statement.resources[3].algorithm, "sha256");
	assert_int_equal(statement.resources[3].digest_bytes, 32);
	assert_int_equal(statement.resources[3].digest[31], 3);
	assert_int_equal(statement.ignored_count, 3);
	rsum_statement_deinit(&statement);
}

static void test_pieces(void **state)
{
	static const char *const names[] = { "big:1000:2000", "big:0:1000", "big:2000:2001",
					     "a:b:0:7",	      "c:0:1000",   NULL };
	struct rsum_statement statement;
	char *text = statement_of(names, 1000, NULL);

	(void)state;
	assert_int_equal(read_text(text, &statement), 0);
	free(text);
	assert_true(statement.is_in_pieces);
	assert_int_equal(statement.piece_bytes, 1000);
	assert_int_equal(statement.resource_count, 5);
	assert_string_equal(statement.resources[0].path, "a:b");
	assert_int_equal(statement.resources[0].end, 7);
	assert_string_equal(statement.resources[4].path, "c");
	for (unsigned i = 1; i < 4; i++) {
		assert_string_equal(statement.resources[i].path, "big");
		assert_true(statement.resources[i].is_piece);
		assert_int_equal(statement.resources[i].begin, (i - 1) * 1000);
	}
	assert_int_equal(statement.resources[3].end, 2001);
	assert_int_equal(statement.resources[1].digest[0], 2);
	rsum_statement_deinit(&statement);
}

/* Other writers order members otherwise, add some, and write numbers as numbers. */
static void test_any_order(void **state)
{
	static const char text[] =
		"{\"predicateType\":\"https://model_signing/signature/v1.0\",\"extra\":[1,{}],"
		"\"predicate\":{\"future\":null,\"serialization\":{\"hash_type\":\"sha256\","
		"\"shard_size\":10,\"allow_symlinks\":true,\"method\":\"shards\",\"x\":1},"
		"\"resources\":[{\"x\":{},\"name\":\"f:0:3\",\"algorithm\":\"sha256\",\"digest\":"
		"\"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855\"}]},"
		"\"subject\":[{\"digest\":{\"sha1\":\"x\",\"sha256\":"
		"\"5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456\"}}],"
		"\"_type\":\"https://in-toto.io/Statement/v1\"}";
	struct rsum_statement statement;

	(void)state;
	if (read_text(text, &statement))
		fail_msg("%s", reason);
	assert_true(statement.allows_links);
	assert_int_equal(statement.resources[0].end, 3);
	assert_string_equal(statement.subject, "");
	rsum_statement_deinit(&statement);
}

static void test_legacy(void **state)
{
	static const char *const names[] = { "b", "a", "dir/c" };
	struct signing_resource resources[3];
	struct rsum_statement statement;
	char *text;

	(void)state;
	make_resources(resources, 3, names);
	text = signing_legacy_statement(resources, 3);
	assert_int_equal(read_text(text, &statement), 0);
	assert_int_equal(statement.resource_count, 3);
	assert_string_equal(statement.resources[0].path, "a");
	assert_int_equal(statement.resources[0].digest[0], 2);
	rsum_statement_deinit(&statement);
	/* What is no SHA-256 of the file must not be taken for one. */
	text = replace(text, "file-sha256", "file-sha256-1000");
	assert_int_equal(read_text(text, &statement), 0);
	assert_string_equal(statement.resources[1].algorithm, "file-sha256-1000");
	rsum_statement_deinit(&statement);
	text = replace(text, "\"unused\"", "\"resources\":[],\"unused\"");
	expect_refused(text, "two forms");
	free(text);
	text = signing_legacy_statement(resources, 0);
	expect_refused(text, "lists no file");
	free(text);
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void test_bad_names(void **state)
{
	static const struct {
		const char *name, *why;
	} cases[] = {
		{ "../x", "climbs" },	  { "a/../b", "climbs" },
		{ "/etc/x", "absolute" }, { "", "empty" },
		{ "a//b", "empty part" }, { "a/", "empty part" },
		{ "./a", "part `.`" },	  { "a/.", "part `.`" },
		{ ".", "lone file" },	  { "a\\u0000b", "NUL inside" },
		{ "..", "climbs" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		const char *const names[] = { "ok", cases[i].name, NULL };
		char *text = statement_of(names, 0, NULL);

		expect_refused(text, cases[i].why);
		free(text);
	}
}

static void test_bad_pieces(void **state)
{
	static const struct {
		const char *first, *second, *why;
	} cases[] = {
		{ "a:0:10", "a:0:10", "listed twice" },
		{ "a:0:10", "a:11:12", "does not begin" },
		{ "a:0:10", "a:9:12", "overlaps" },
		{ "a:0:10", "a:0:9", "not a piece of the size" },
		{ "a:0:9", "a:9:12", "not a piece of the size" },
		{ "a:0:11", "b:0:1", "not a piece of the size" },
		{ "a:10:20", "b:0:1", "does not begin" },
		{ "a:0:0", "b:0:1", "without bytes" },
		{ "a:0:10", "a:10:10", "without bytes" },
		{ "a:5:1", "b:0:1", "without bytes" },
		{ "a:0", "b:0:1", "path:begin:end" },
		{ "a", "b:0:1", "path:begin:end" },
		{ "a:0:+1", "b:0:1", "path:begin:end" },
		{ "a:0:01", "b:0:1", "path:begin:end" },
		{ "a:-1:1", "b:0:1", "path:begin:end" },
		{ "a:0: 1", "b:0:1", "path:begin:end" },
		{ "a::1", "b:0:1", "path:begin:end" },
		{ "a:0:18446744073709551616", "b:0:1", "path:begin:end" },
		{ "a:0:4611686018427387905", "b:0:1", "path:begin:end" },
		{ ":0:1", "b:0:1", "empty" },
		{ ".:0:1", "b:0:1", "lone file" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		const char *const names[] = { cases[i].first, cases[i].second, NULL };
		char *text = statement_of(names, 10, NULL);

		expect_refused(text, cases[i].why);
		free(text);
	}
}

/* One change to a sound statement of two files each. */
static void test_bad_members(void **state)
{
	static const struct {
		const char *from, *to, *why;
	} cases[] = {
		{ "Statement/v1", "Statement/v0.1", "_type is not" },
		{ "signature/v1.0", "signature/v2.0", "predicateType" },
		{ "\"_type\"", "\"_typo\"", "no member `_type`" },
		{ "\"predicateType\"", "\"predicateTypo\"", "no member `predicateType`" },
		{ "\"subject\"", "\"subjects\"", "no member `subject`" },
		{ "\"resources\"", "\"resource\"", "lacks `serialization` or `resources`" },
		{ "\"serialization\"", "\"serialisation\"", "lacks `serialization`" },
		{ "\"method\": \"files\"", "\"method\": \"file\"", "neither" },
		{ "\"method\": \"files\",", "", "no member `method`" },
		{ "\"method\": \"files\"", "\"method\": \"shards\"", "no shard_size" },
		{ "\"hash_type\": \"sha256\"", "\"hash_type\": \"sha512\"", "another algorithm" },
		{ "\"hash_type\": \"sha256\"", "\"x\": 1", "no member `hash_type`" },
		{ "\"allow_symlinks\": false", "\"allow_symlinks\": \"false\"", "neither true" },
		{ "\"algorithm\": \"sha256\"", "\"algorithm\": \"blake3\"", "another algorithm" },
		{ "\"algorithm\": \"sha256\"", "\"algorithm\": \"sha256-sharded-10\"",
		  "another algorithm" },
		{ "\"algorithm\": \"sha256\"", "\"algorithm\": 256", "a string is expected" },
		{ "\"digest\": \"0101", "\"digest\": \"01", "was changed" },
		{ "\"digest\": \"0101", "\"digest\": \"010", "hex digits" },
		{ "\"digest\": \"0101", "\"digest\": \"010g", "not hex" },
		{ "\"digest\": \"0101", "\"digest\": \"0201", "was changed" },
		{ "\"name\": \"a\",", "\"name\": \"b\",", "listed twice" },
		{ "\"name\": \"a\",", "", "no member `name`" },
		{ "\"name\": \"a\",", "\"name\": \"a\", \"name\": \"a\",", "duplicate key" },
		{ "\"sha256\": \"", "\"sha256\": \"00", "sha256 is not 64" },
		{ "\"sha256\": \"", "\"sha512\": \"", "no member `sha256`" },
		{ "\"subject\": [",
		  "\"subject\": [{\"name\":\"y\",\"digest\":{\"sha256\":\"00\"}},",
		  "exactly one subject" },
		{ "\"hash_type\"", "\"ignore_paths\": [\".\"], \"hash_type\"", "whole directory" },
		{ "\"hash_type\"", "\"ignore_paths\": [\"\"], \"hash_type\"", "whole directory" },
		{ "\"hash_type\"", "\"ignore_paths\": [7], \"hash_type\"", "a string is expected" },
		{ "\"hash_type\"", "\"ignore_paths\": {}, \"hash_type\"", "a list is expected" },
		{ "\"hash_type\"", "\"shard_size\": 0, \"hash_type\"", "shard_size" },
		{ "\"hash_type\"", "\"shard_size\": 1.5, \"hash_type\"", "shard_size" },
		{ "\"hash_type\"", "\"shard_size\": -1, \"hash_type\"", "shard_size" },
		{ "\"hash_type\"", "\"shard_size\": 1e300, \"hash_type\"", "shard_size" },
		{ "\"predicate\": {", "\"predicate\": 1, \"x\": {", "an object is expected" },
	};
	static const char *const names[] = { "a", "b", NULL };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		char *text = replace(statement_of(names, 0, NULL), cases[i].from, cases[i].to);

		expect_refused(text, cases[i].why);
		free(text);
	}
}

static void test_bad_documents(void **state)
{
	static const char *const names[] = { "a:0:1", NULL };
	char *text = replace(statement_of(names, 10, NULL), "\"shard_size\": 10.0,", "");

	(void)state;
	expect_refused(text, "no shard_size");
	free(text);
	text = replace(statement_of(names + 1, 0, NULL), "{\n", "{\n");
	expect_refused(text, "lists no file");
	free(text);
	expect_refused("", "at byte 0");
	expect_refused("[]", "an object is expected");
	expect_refused("{}", "no member `_type`");
	text = statement_of(names, 10, NULL);
	for (size_t length = strlen(text); length-- > 0;) {
		text[length] = '\0';
		expect_refused(text, "at byte");
	}
	free(text);
	text = replace(statement_of(names, 10, NULL), "\"name\": \"a:0:1\"",
		       "\"name\":\"a:0:1\"} x");
	expect_refused(text, "at byte");
	free(text);
}

/* ---- what is left out ---------------------------------------------------------------------- */

static void test_ignores(void **state)
{
	static const char *const names[] = { "a", NULL };
	static const char *const ignored[] = { "model.sig", "x/y",	   "/abs",
					       "../out",    "./tidy//me/", NULL };
	static const char *const yes[] = { ".git",	     ".git/config", ".gitignore",
					   ".gitattributes", ".github/w",   "model.sig",
					   "model.sig/x",    "x/y",	    "x/y/z",
					   "tidy/me" };
	static const char *const no[] = { "git",      ".gitx", "x",   "x/yy",	  "x/.git", "a",
					  "model.si", "abs",   "out", "tidy/mex", ".git.x", "" };
	struct rsum_statement statement;
	char *text = statement_of(names, 0, ignored);

	(void)state;
	assert_int_equal(read_text(text, &statement), 0);
	free(text);
	for (size_t i = 0; i < RSUM_COUNT_OF(yes); i++)
		if (!rsum_statement_ignores(&statement, yes[i]))
			fail_msg("%s is not ignored", yes[i]);
	for (size_t i = 0; i < RSUM_COUNT_OF(no); i++)
		if (rsum_statement_ignores(&statement, no[i]))
			fail_msg("%s is ignored", no[i]);
	rsum_statement_deinit(&statement);
}

/* ---- what is written ----------------------------------------------------------------------- */

static const uint8_t some_digest[32] = { 1, 2, 3 };

static struct rsum_statement_resource resource(const char *path, bool is_piece, uint64_t begin,
					       uint64_t end)
{
	return (struct rsum_statement_resource){
		.path = path,
		.is_piece = is_piece,
		.begin = begin,
		.end = end,
		.algorithm = "sha256",
		.digest = some_digest,
		.digest_bytes = sizeof(some_digest),
	};
}

static void write_and_read(const struct rsum_statement_setup *setup,
			   struct rsum_statement_resource *resources, size_t count)
{
	struct rsum_statement statement;
	char *text = NULL, *again = NULL;

	assert_int_equal(rsum_statement_write(setup, resources, count, &text, reason), 0);
	if (read_text(text, &statement))
		fail_msg("%s", reason);
	assert_string_equal(statement.subject, setup->subject);
	assert_int_equal(statement.is_in_pieces, setup->piece_bytes != 0);
	assert_int_equal(statement.allows_links, setup->allows_links);
	assert_int_equal(statement.resource_count, count);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(statement.resources[i].path, resources[i].path);
		assert_int_equal(statement.resources[i].begin, resources[i].begin);
		assert_int_equal(statement.resources[i].end, resources[i].end);
		assert_memory_equal(statement.resources[i].digest, some_digest, 32);
	}
	for (size_t i = 0; i < setup->ignored_count; i++)
		assert_true(rsum_statement_ignores(&statement, setup->ignored[i]));
	/* The same for the same input, in whatever order it comes. */
	if (count > 1) {
		struct rsum_statement_resource first = resources[0];

		memmove(resources, resources + 1, (count - 1) * sizeof(*resources));
		resources[count - 1] = first;
	}
	assert_int_equal(rsum_statement_write(setup, resources, count, &again, reason), 0);
	assert_string_equal(text, again);
	rsum_statement_deinit(&statement);
	free(again);
	free(text);
}

static void test_written(void **state)
{
	static const char *const ignored[] = { "model.sig", ".git" };
	struct rsum_statement_resource files[] = {
		resource("z\"\\\n\t\x01", false, 0, 0),
		resource("a b/\xc3\xa9", false, 0, 0),
		resource("a", false, 0, 0),
	};
	struct rsum_statement_resource pieces[] = {
		resource("b:1:2", true, 100, 150),
		resource("b:1:2", true, 0, 100),
		resource("a", true, 0, 100),
	};

	(void)state;
	write_and_read(&(struct rsum_statement_setup){ .subject = "m\"x" }, files, 3);
	write_and_read(&(struct rsum_statement_setup){ .subject = "",
						       .allows_links = true,
						       .ignored = ignored,
						       .ignored_count = 2 },
		       files, 1);
	write_and_read(&(struct rsum_statement_setup){ .subject = "m", .piece_bytes = 100 }, pieces,
		       3);
}

static void test_not_written(void **state)
{
	static const struct rsum_statement_setup whole = { .subject = "m" };
	static const struct rsum_statement_setup cut = { .subject = "m", .piece_bytes = 10 };
	struct rsum_statement_resource bad[][2] = {
		{ resource("a\xff", false, 0, 0), resource("b", false, 0, 0) },
		{ resource("../a", false, 0, 0), resource("b", false, 0, 0) },
		{ resource("b", false, 0, 0), resource("b", false, 0, 0) },
		{ resource("a", true, 0, 10), resource("b", false, 0, 0) },
	};
	struct rsum_statement_resource gap[] = { resource("a", true, 0, 10),
						 resource("a", true, 11, 12) };
	char *text = NULL;

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(bad); i++)
		assert_int_equal(rsum_statement_write(&whole, bad[i], 2, &text, reason),
				 RINGSUM_E_INVALID);
	assert_int_equal(rsum_statement_write(&cut, gap, 2, &text, reason), RINGSUM_E_INVALID);
	assert_int_equal(rsum_statement_write(&whole, bad[0], 0, &text, reason), RINGSUM_E_INVALID);
	assert_null(text);
}

static void test_likely(void **state)
{
	static const char *const yes[] = { "{\"_type\":", " {\n \"subject\": [", "{\"predicate\"" };
	static const char *const no[] = { "",		"{",	       "{}",	 "{\"tensors\":",
					  "[\"_type\"", "x{\"_type\"", "{\"_typ" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(yes); i++)
		assert_true(rsum_statement_is_likely(yes[i], strlen(yes[i])));
	for (size_t i = 0; i < RSUM_COUNT_OF(no); i++)
		assert_false(rsum_statement_is_likely(no[i], strlen(no[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),	    cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_any_order),   cmocka_unit_test(test_legacy),
		cmocka_unit_test(test_bad_names),   cmocka_unit_test(test_bad_pieces),
		cmocka_unit_test(test_bad_members), cmocka_unit_test(test_bad_documents),
		cmocka_unit_test(test_ignores),	    cmocka_unit_test(test_written),
		cmocka_unit_test(test_not_written), cmocka_unit_test(test_likely),
	};

	return cmocka_run_group_tests_name("statement", tests, NULL, NULL);
}
