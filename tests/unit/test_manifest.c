/* SPDX-License-Identifier: Apache-2.0 */
/* The promise list: rule M1 (TENSORS.json) and rule M6 (a promise and its header). */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "documents.h"
#include "dtype.h"
#include "manifest.h"
#include "rsum_limits.h"
#include "safetensors.h"

#define FILE_NAME "TENSORS.json"

struct parsed {
	struct rsum_manifest manifest;
	struct ringsum_report *report;
	int result;
};

static struct parsed parse_bytes(char *text, size_t size_bytes)
{
	struct parsed parsed = { .report = rsum_report_new() };

	assert_non_null(parsed.report);
	parsed.result = rsum_manifest_tensors.parse(text, size_bytes, FILE_NAME, &parsed.manifest,
						    parsed.report);
	return parsed;
}

static struct parsed parse(char *text)
{
	return parse_bytes(text, strlen(text));
}

static void release(struct parsed *parsed)
{
	rsum_manifest_deinit(&parsed->manifest);
	ringsum_report_free(parsed->report);
}

/* The finding of that code, tensor (NULL: none) and a piece of its message, or NULL. */
static const struct ringsum_finding *find(const struct ringsum_report *report,
					  enum ringsum_finding_code code, const char *tensor,
					  const char *piece)
{
	for (size_t i = 0; i < ringsum_report_finding_count(report); i++) {
		const struct ringsum_finding *finding = ringsum_report_finding_at(report, i);

		if (finding->code == code && strstr(finding->message, piece) &&
		    (tensor ? finding->tensor && strcmp(finding->tensor, tensor) == 0
			    : !finding->tensor))
			return finding;
	}
	return NULL;
}

static void test_good_manifest(void **state)
{
	struct parsed parsed = parse(document_manifest(2, 2, 0));
	const struct rsum_promise *promise;
	uint32_t index;

	(void)state;
	assert_int_equal(parsed.result, 0);
	assert_int_equal(ringsum_report_finding_count(parsed.report), 0);
	assert_int_equal(parsed.manifest.promise_count, document_tensor_count(2, 2));
	assert_true(parsed.manifest.has_codebook);
	assert_string_equal(parsed.manifest.codebook, "mul1");
	assert_int_equal(parsed.manifest.file_count, 1);
	assert_string_equal(parsed.manifest.files[0], "model.safetensors");
	index = rsum_name_index_find(&parsed.manifest.by_name, "head.trellis");
	assert_int_equal(index, 1);
	promise = &parsed.manifest.promises[index];
	assert_true(promise->is_wellformed);
	assert_string_equal(promise->tensor.name, "head.trellis");
	assert_int_equal(promise->tensor.dtype, RINGSUM_DTYPE_I16);
	assert_int_equal(promise->tensor.rank, 3);
	assert_int_equal(promise->tensor.shape[0], 2);
	assert_int_equal(promise->tensor.shape[2], 48);
	assert_int_equal(promise->tensor.begin, 5096);
	assert_int_equal(promise->tensor.end, 5672);
	assert_int_equal(promise->tensor.size_bytes, 576);
	assert_int_equal(promise->source_bytes, 576);
	assert_int_equal(promise->tensor.digest_sha256[31], 2);
	assert_int_equal(promise->file_index, 0);
	assert_string_equal(promise->tensor.shard, "model.safetensors");
	release(&parsed);
}

/* Variants of a sound entry that must stay sound. */
static void test_accepted_variants(void **state)
{
	static const char *const edits[][2] = {
		{ "\"shape\": [64, 32], ", "\"more\": {\"a\": [1, {}]}, \"shape\": [64, 32], " },
		{ "\"shape\": [64, 32], ", "\"sh\\u0061pe\": [64, 32], " },
		{ "\"shape\": [64, 32], ", "\"shape\": [], " },
		{ "\"shape\": [64, 32], ", "\"shape\": [0, 18446744073709551615], " },
		{ "\"resident_packed_bytes\": 4096",
		  "\"resident_packed_bytes\": 18446744073709551615" },
		{ "\"source_byte_range\": [1007, 5103]",
		  "\"source_byte_range\": [0, 4611686018427387904]" },
		{ "0000001\"", "00abCDEF\"" },	       /* digits come out as 64 below */
		{ "model.safetensors", "../outside" }, /* confinement is judged elsewhere */
		{ "\"name\": \"embed.weight\"", "\"name\": \"\\u00e9 \\\" name\"" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(edits); i++) {
		char *text = document_manifest(1, 1, 0);
		const char *replace = edits[i][1];
		struct parsed parsed;

		if (strcmp(edits[i][0], "0000001\"") == 0)
			replace = "aBcDeF1\"";
		text = document_edit_entry(text, "embed.weight", edits[i][0], replace);
		parsed = parse(text);
		assert_int_equal(parsed.result, 0);
		if (ringsum_report_finding_count(parsed.report) > 0)
			fail_msg("%s: %s", edits[i][1],
				 ringsum_report_finding_at(parsed.report, 0)->message);
		release(&parsed);
	}
}

/* One entry is refused, by member, and the others are read. */
static void test_refused_members(void **state)
{
	static const struct {
		const char *find, *replace, *member;
		enum ringsum_finding_code code;
		bool is_unnamed;
	} cases[] = {
		{ "\"name\": \"embed.weight\"", "\"name\": 7", ": name", 0, true },
		{ "\"name\": \"embed.weight\"", "\"name\": null", ": name", 0, true },
		{ "\"name\": \"embed.weight\"", "\"name\": [\"x\"]", ": name", 0, true },
		{ "\"name\": \"embed.weight\"", "\"name\": \"\"", ": name", 0, true },
		{ "\"name\": \"embed.weight\"", "\"name\": \"a\\u0000b\"", ": name", 0, true },
		{ "\"name\": \"embed.weight\"", "\"nome\": \"x\"", ": name is missing", 0, true },
		{ "\"dtype\": \"BF16\", ", "", ": dtype is missing", 0, false },
		{ "\"dtype\": \"BF16\"", "\"dtype\": 16", ": dtype", 0, false },
		{ "\"dtype\": \"BF16\"", "\"dtype\": \"\"", ": dtype", 0, false },
		{ "\"dtype\": \"BF16\"", "\"dtype\": {\"a\": 1}", ": dtype", 0, false },
		{ "\"dtype\": \"BF16\"", "\"dtype\": \"bf16\"", ": dtype",
		  RINGSUM_FINDING_DTYPE_UNSUPPORTED, false },
		{ "\"dtype\": \"BF16\"", "\"dtype\": \"BF16 \"", ": dtype",
		  RINGSUM_FINDING_DTYPE_UNSUPPORTED, false },
		{ "\"dtype\": \"BF16\"", "\"dtype\": \"BF16\\u0000\"", ": dtype", 0, false },
		{ "\"shape\": [64, 32], ", "", ": shape is missing", 0, false },
		{ "[64, 32]", "\"64, 32\"", ": shape", 0, false },
		{ "[64, 32]", "{}", ": shape", 0, false },
		{ "[64, 32]", "null", ": shape", 0, false },
		{ "[64, 32]", "2048", ": shape", 0, false },
		{ "[64, 32]", "[64.0, 32]", ": shape", 0, false },
		{ "[64, 32]", "[64, 3.2e1]", ": shape", 0, false },
		{ "[64, 32]", "[-64, -32]", ": shape", 0, false },
		{ "[64, 32]", "[-0]", ": shape", 0, false },
		{ "[64, 32]", "[true, 32]", ": shape", 0, false },
		{ "[64, 32]", "[\"64\", 32]", ": shape", 0, false },
		{ "[64, 32]", "[[64], 32]", ": shape", 0, false },
		{ "[64, 32]", "[18446744073709551616]", ": shape", 0, false },
		{ "\"destination_file\": \"model.safetensors\", ", "",
		  ": destination_file is missing", 0, false },
		{ "\"model.safetensors\"", "1", ": destination_file", 0, false },
		{ "\"model.safetensors\"", "\"\"", ": destination_file", 0, false },
		{ "\"model.safetensors\"", "\"m\\u0000/x\"", ": destination_file", 0, false },
		{ "\"destination_byte_range\": [1000, 5096], ", "",
		  ": destination_byte_range is missing", 0, false },
		{ "[1000, 5096]", "[1000]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[1000, 5096, 5096]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[5096, 1000]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[1000, \"5096\"]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[1000, 5096.0]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[-1, 5096]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[false, true]", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "{\"0\": 1000}", ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[1000, 4611686018427387905]", ": destination_byte_range", 0,
		  false },
		{ "[1000, 5096]", "[18446744073709551615, 18446744073709551615]",
		  ": destination_byte_range", 0, false },
		{ "[1000, 5096]", "[1000, 18446744073709556712]", ": destination_byte_range", 0,
		  false },
		{ "\"source_byte_range\": [1007, 5103], ", "", ": source_byte_range is missing", 0,
		  false },
		{ "[1007, 5103]", "[5103, 1007]", ": source_byte_range", 0, false },
		{ "[1007, 5103]", "[1007, 18446744073709551615]", ": source_byte_range", 0, false },
		{ "[1007, 5103]", "4096", ": source_byte_range", 0, false },
		{ "source_byte_range_sha256", "sha256", ": source_byte_range_sha256 is missing", 0,
		  false },
		{ "0001\"", "001\"", ": source_byte_range_sha256", 0, false },
		{ "0001\"", "00001\"", ": source_byte_range_sha256", 0, false },
		{ "0001\"", "000g\"", ": source_byte_range_sha256", 0, false },
		{ "0001\"", "000\\u0000\"", ": source_byte_range_sha256", 0, false },
		{ "\"source_byte_range_sha256\": \"", "\"source_byte_range_sha256\": 5, \"x\": \"",
		  ": source_byte_range_sha256", 0, false },
		{ "\"resident_packed_bytes\": 4096", "\"x\": 1",
		  ": resident_packed_bytes is missing", 0, false },
		{ "\"resident_packed_bytes\": 4096", "\"resident_packed_bytes\": -1",
		  ": resident_packed_bytes", 0, false },
		{ "\"resident_packed_bytes\": 4096", "\"resident_packed_bytes\": 4096.0",
		  ": resident_packed_bytes", 0, false },
		{ "\"resident_packed_bytes\": 4096", "\"resident_packed_bytes\": \"4096\"",
		  ": resident_packed_bytes", 0, false },
		{ "\"resident_packed_bytes\": 4096", "\"resident_packed_bytes\": null",
		  ": resident_packed_bytes", 0, false },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		char *text = document_edit_entry(document_manifest(1, 1, 0), "embed.weight",
						 cases[i].find, cases[i].replace);
		struct parsed parsed = parse(text);
		const char *tensor = cases[i].is_unnamed ? NULL : "embed.weight";
		const struct ringsum_finding *finding =
			find(parsed.report, cases[i].code, tensor, cases[i].member);

		assert_int_equal(parsed.result, 0);
		if (!finding || ringsum_report_finding_count(parsed.report) != 1)
			fail_msg("case %zu: %s", i, cases[i].replace);
		assert_non_null(strstr(finding->message, "entry 0"));
		assert_string_equal(finding->file, FILE_NAME);
		assert_int_equal(parsed.manifest.promise_count, document_tensor_count(1, 1));
		assert_false(parsed.manifest.promises[0].is_wellformed);
		assert_true(parsed.manifest.promises[1].is_wellformed);
		assert_int_equal(ringsum_report_verdict(parsed.report), RINGSUM_VERDICT_REFUSED);
		release(&parsed);
	}
}

static void test_entries_that_are_no_objects(void **state)
{
	struct parsed parsed = parse(strdup("{\"tensors\": [7, null, [1], \"x\", {}, true]}"));

	(void)state;
	assert_int_equal(parsed.result, 0);
	assert_int_equal(parsed.manifest.promise_count, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_false(parsed.manifest.promises[i].is_wellformed);
		assert_string_equal(parsed.manifest.promises[i].tensor.name, "");
		assert_int_equal(parsed.manifest.promises[i].file_index, RSUM_NAME_INDEX_NONE);
	}
	/* Five of them as such, and {} for each of its eight members. */
	assert_int_equal(ringsum_report_finding_count(parsed.report), 5 + 8);
	assert_non_null(find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, "entry 2"));
	release(&parsed);
}

static void test_refused_documents(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{ "", "" },
		{ "   ", "" },
		{ "[]", "an object" },
		{ "null", "an object" },
		{ "\"tensors\"", "an object" },
		{ "{}", "no list `tensors`" },
		{ "{\"codebook\": \"mul1\"}", "no list `tensors`" },
		{ "{\"tensors\": {}}", "a list is expected" },
		{ "{\"tensors\": null}", "a list is expected" },
		{ "{\"tensors\": 0}", "a list is expected" },
		{ "{\"tensors\": \"[]\"}", "a list is expected" },
		{ "{\"tensors\": [], \"tensors\": []}", "" },
		{ "{\"tensors\": [], \"\\u0074ensors\": []}", "" },
		{ "{\"tensors\": [{\"name\": \"a\", \"name\": \"a\"}]}", "" },
		{ "{\"tensors\": []} x", "" },
		{ "{\"tensors\": []}{}", "" },
		{ "{\"tensors\": [,]}", "" },
		{ "{\"tensors\": [1,]}", "" },
		{ "{\"tensors\": []", "" },
		{ "{\"tensors\": [", "" },
		{ "{tensors: []}", "" },
		{ "{'tensors': []}", "" },
		{ "{\"tensors\": [], \"x\": NaN}", "" },
		{ "{\"tensors\": [], \"x\": 01}", "" },
		{ "{\"tensors\": [], \"x\": \"\xff\"}", "" },
		{ "{\"tensors\": [], \"x\": \"\\ud800\"}", "" },
		{ "\xef\xbb\xbf{\"tensors\": []}", "" },
		{ "{\"tensors\": []} // x", "" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		struct parsed parsed = parse(strdup(cases[i].text));

		if (parsed.result != RINGSUM_E_REFUSED ||
		    !find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, "at byte") ||
		    !find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, cases[i].reason))
			fail_msg("accepted: %s", cases[i].text);
		assert_int_equal(parsed.manifest.promise_count, 0);
		release(&parsed);
	}
}

/* `count` copies of `piece` between two ends. */
static char *repeat(const char *head, const char *piece, size_t count, const char *tail)
{
	char *text = malloc(strlen(head) + strlen(piece) * count + strlen(tail) + 1);
	char *end;

	assert_non_null(text);
	end = stpcpy(text, head);
	for (size_t i = 0; i < count; i++)
		end = stpcpy(end, piece);
	stpcpy(end, tail);
	return text;
}

/* One entry is at fault, by its name; the others stand. */
static void test_rank_over_the_limit(void)
{
	static const size_t ranks[] = { 65, 66, 100000 };

	for (size_t i = 0; i < RSUM_COUNT_OF(ranks); i++) {
		char *shape = repeat("[1", ", 1", ranks[i] - 1, "]"), rank[32];
		char *text = document_edit_entry(document_manifest(1, 1, 0), "embed.weight",
						 "[64, 32]", shape);
		struct parsed parsed = parse(text);
		const struct ringsum_finding *finding =
			find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, "embed.weight",
			     "entry 0 ");

		free(shape);
		assert_int_equal(parsed.result, 0);
		assert_int_equal(parsed.manifest.promise_count, document_tensor_count(1, 1));
		assert_int_equal(ringsum_report_finding_count(parsed.report), 1);
		assert_non_null(finding);
		assert_non_null(strstr(finding->message, ": shape"));
		assert_non_null(strstr(finding->expected, "64"));
		snprintf(rank, sizeof(rank), "rank %zu", ranks[i]);
		assert_string_equal(finding->actual, rank);
		assert_false(parsed.manifest.promises[0].is_wellformed);
		assert_true(parsed.manifest.promises[1].is_wellformed);
		release(&parsed);
	}
}

/* Another file in the manifest's place is called by its name. */
static void test_other_files(void **state)
{
	static const char *const cases[][2] = {
		{ "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n",
		  "byte 0: a Git LFS pointer in place of the file itself, which has oid sha256:abc "
		  "and size 12345: fetch it with \"git lfs pull\"" },
		{ "<!DOCTYPE html><html>", "an HTML page in place of TENSORS.json" },
		{ "\n <html>", "an HTML page in place of TENSORS.json" },
		{ "GGUF\3", "a GGUF file in place of TENSORS.json" },
		{ "\x1f\x8b\x08", "a gzip file in place of TENSORS.json" },
		{ "{\"tensors\": <html>", "'<' where a value is expected" },
		{ "hello", "'h' where a value is expected" },
		{ "[]", "where an object with `tensors` is expected" },
		{ "\"{\"", "where an object with `tensors` is expected" },
		{ "", "the text ends" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		struct parsed parsed = parse(strdup(cases[i][0]));

		assert_int_equal(parsed.result, RINGSUM_E_REFUSED);
		assert_non_null(
			find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, cases[i][1]));
		release(&parsed);
	}
}

static void test_limits(void **state)
{
	char *name = repeat("{\"name\": \"", "n", RSUM_LIMIT_NAME_BYTES + 1, "\", ");
	char *shape = repeat("[1", ", 1", 63, "]");
	struct parsed parsed;
	char *text;

	(void)state;
	/* Depth: the list in the top-level object has 62 levels left. */
	parsed = parse(repeat("{\"tensors\": [], \"x\": ", "[", 64, ""));
	assert_int_equal(parsed.result, RINGSUM_E_REFUSED);
	assert_non_null(find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, "64"));
	release(&parsed);

	test_rank_over_the_limit();

	text = document_edit_entry(document_manifest(1, 1, 0), "embed.weight", "[64, 32]", shape);
	free(shape);
	parsed = parse(text);
	assert_int_equal(parsed.result, 0);
	assert_int_equal(parsed.manifest.promises[0].tensor.rank, 64);
	release(&parsed);

	text = document_edit_entry(document_manifest(1, 1, 0), "embed.weight",
				   "{\"name\": \"embed.weight\", ", name);
	free(name);
	parsed = parse(text);
	assert_non_null(find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, ": name"));
	release(&parsed);

	/* Entries too short to be promises, as many as may be, and one more. */
	parsed = parse(repeat("{\"tensors\": [", "0,", RSUM_LIMIT_SHORT_ENTRIES - 1, "0]}"));
	assert_int_equal(parsed.result, 0);
	assert_int_equal(parsed.manifest.promise_count, RSUM_LIMIT_SHORT_ENTRIES);
	release(&parsed);
	parsed = parse(repeat("{\"tensors\": [", "0,", RSUM_LIMIT_SHORT_ENTRIES, "0]}"));
	assert_int_equal(parsed.result, RINGSUM_E_REFUSED);
	assert_int_equal(parsed.report->refusing_count, RSUM_LIMIT_SHORT_ENTRIES + 1 + 1);
	assert_non_null(find(parsed.report, RINGSUM_FINDING_MANIFEST_INVALID, NULL, "too short"));
	assert_int_equal(parsed.manifest.promise_count, 0);
	release(&parsed);
}

static void test_shard_limit(void **state)
{
	char *text = malloc((size_t)RSUM_LIMIT_SHARDS * 192 + 256);
	struct parsed parsed;
	char *end;

	(void)state;
	assert_non_null(text);
	end = stpcpy(text, "{\"tensors\": [");
	for (unsigned i = 0; i <= RSUM_LIMIT_SHARDS; i++)
		/* as long as an entry has to be */
		end += sprintf(end, "%s{\"destination_file\": \"f%u\", \"any\": \"%0128u\"}",
			       i ? "," : "", i, i);
	stpcpy(end, "]}");
	parsed = parse(text);
	assert_int_equal(parsed.result, RINGSUM_E_REFUSED);
	/* The list is full by then: what says so is in the count. */
	assert_true(parsed.report->refusing_count > RSUM_LIMIT_SHARDS);
	release(&parsed);
}

static void test_duplicates(void **state)
{
	char *text = document_edit_entry(document_manifest(1, 1, 0), "head.suh", "\"head.suh\"",
					 "\"embed.weight\"");
	struct parsed parsed;

	(void)state;
	text = document_edit_entry(text, "head.svh", "\"head.svh\"", "\"embed\\u002eweight\"");
	parsed = parse(text);
	assert_int_equal(parsed.result, 0);
	assert_int_equal(ringsum_report_finding_count(parsed.report), 2);
	assert_non_null(find(parsed.report, RINGSUM_FINDING_TENSOR_DUPLICATE, "embed.weight",
			     "entry 2 promises the tensor that entry 0"));
	assert_non_null(find(parsed.report, RINGSUM_FINDING_TENSOR_DUPLICATE, "embed.weight",
			     "entry 3 promises the tensor that entry 0"));
	assert_false(parsed.manifest.promises[0].is_wellformed);
	assert_true(parsed.manifest.promises[1].is_wellformed);
	assert_false(parsed.manifest.promises[2].is_wellformed);
	assert_false(parsed.manifest.promises[3].is_wellformed);
	release(&parsed);
}

static void test_several_faults_are_all_told(void **state)
{
	char *text = document_edit_entry(document_manifest(1, 1, 0), "embed.weight",
					 "\"dtype\": \"BF16\", \"shape\": [64, 32]",
					 "\"dtype\": 1, \"shape\": 2");
	struct parsed parsed;

	(void)state;
	text = document_edit_entry(text, "embed.weight", "[1000, 5096]", "[5096, 1000]");
	text = document_edit_entry(text, "head.mul1", "\"I32\"", "\"I33\"");
	text = document_edit_entry(text, "head.suh", "\"head.suh\"", "\"head.svh\"");
	parsed = parse(text);
	assert_int_equal(parsed.result, 0);
	assert_int_equal(ringsum_report_finding_count(parsed.report), 5);
	release(&parsed);
}

static void test_codebook_and_empty_list(void **state)
{
	static const struct {
		const char *text, *codebook;
		bool has_codebook;
	} cases[] = {
		{ "{\"tensors\": []}", NULL, false },
		{ "{\"tensors\": [], \"codebook\": \"x\"}", "x", true },
		{ "{\"codebook\": \"\", \"tensors\": []}", "", true },
		{ "{\"codebook\": null, \"tensors\": []}", NULL, true },
		{ "{\"codebook\": [{}], \"tensors\": []}", NULL, true },
		{ "{\"codebook\": \"mul1\\u0000\", \"tensors\": []}", NULL, true },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		struct parsed parsed = parse(strdup(cases[i].text));

		assert_int_equal(parsed.result, 0);
		assert_int_equal(parsed.manifest.has_codebook, cases[i].has_codebook);
		if (cases[i].codebook)
			assert_string_equal(parsed.manifest.codebook, cases[i].codebook);
		else
			assert_null(parsed.manifest.codebook);
		assert_int_equal(ringsum_report_verdict(parsed.report), RINGSUM_VERDICT_UNDECIDED);
		rsum_report_set_complete(parsed.report);
		assert_int_equal(ringsum_report_verdict(parsed.report), RINGSUM_VERDICT_UNDECIDED);
		release(&parsed);
	}
}

/* A manifest that was cut off is never accepted, wherever the cut is. */
static void test_truncations(void **state)
{
	char *whole = document_manifest(1, 1, 0);
	size_t size_bytes = strlen(whole), step = 1;

	(void)state;
	for (size_t cut = 0; cut < size_bytes - 2; cut += step) {
		char *text = malloc(cut + 1);
		struct parsed parsed;

		assert_non_null(text);
		memcpy(text, whole, cut);
		parsed = parse_bytes(text, cut);
		if (parsed.result != RINGSUM_E_REFUSED)
			fail_msg("accepted when cut at %zu", cut);
		release(&parsed);
		if (cut > 2000)
			step = 997; /* the same again and again */
	}
	free(whole);
}

/* Whatever bytes are changed: a promise that counts as well-formed is well-formed. */
static void test_random_damage(void **state)
{
	char *whole = document_manifest(1, 1, 0);
	char *end = strstr(whole, ",\n{\"name\": \"mtp.0.attn.wkv.trellis");
	unsigned seed = 20240607, accepted = 0;
	size_t size_bytes;

	(void)state;
	assert_non_null(end);
	memcpy(end, "]}", 2);
	size_bytes = (size_t)(end + 2 - whole);
	for (unsigned round = 0; round < 3000; round++) {
		char *text = malloc(size_bytes);
		struct parsed parsed;

		assert_non_null(text);
		memcpy(text, whole, size_bytes);
		for (unsigned i = 0; i < 1 + round % 3; i++) {
			seed = seed * 1664525u + 1013904223u;
			text[(seed >> 8) % size_bytes] = "{}[]\",:0-9e.\\un\0tA"[seed % 18];
		}
		parsed = parse_bytes(text, size_bytes);
		accepted += parsed.result == 0;
		for (size_t i = 0; i < parsed.manifest.promise_count; i++) {
			const struct rsum_promise *promise = &parsed.manifest.promises[i];

			if (promise->is_wellformed &&
			    (!*promise->tensor.name || !*promise->tensor.shard ||
			     promise->file_index >= parsed.manifest.file_count ||
			     promise->tensor.begin > promise->tensor.end ||
			     promise->tensor.end > RSUM_LIMIT_FILE_OFFSET))
				fail_msg("round %u of seed 20240607", round);
		}
		release(&parsed);
	}
	assert_true(accepted > 100); /* else nothing was looked at */
	free(whole);
}

/* ---- M6 ---------------------------------------------------------------------------------- */

static bool is_not_f64(enum ringsum_dtype dtype)
{
	return dtype != RINGSUM_DTYPE_F64;
}

struct header_case {
	const char *what;
	enum ringsum_dtype dtype, shown_dtype;
	unsigned rank, shown_rank;
	uint64_t shape[3], shown_shape[3];
	uint64_t range[2], shown_range[2], source_bytes;
	size_t expected_count;
	enum ringsum_finding_code expected[6];
	bool is_unknown;
};

static void run_header_case(const struct header_case *item)
{
	struct rsum_promise promise = {
		.tensor = { .name = "t",
			    .dtype = item->dtype,
			    .rank = item->rank,
			    .shape = item->shape,
			    .shard = "s",
			    .begin = item->range[0],
			    .end = item->range[1],
			    .size_bytes = item->range[1] - item->range[0] },
		.source_bytes = item->source_bytes,
		.is_wellformed = true,
	};
	uint64_t dimensions[4] = { 99 };
	uint64_t *blocks[] = { dimensions };
	struct rsum_safetensors header = {
		.shape_blocks = blocks,
		.shape_block_count = 1,
		.dimension_count = 4,
	};
	struct rsum_safetensors_tensor shown = {
		.name = "t",
		.begin = item->shown_range[0],
		.end = item->shown_range[1],
		.shape_index = 1,
		.rank = (uint8_t)item->shown_rank,
		.dtype = (uint8_t)item->shown_dtype,
	};
	struct ringsum_report *report = rsum_report_new();
	bool matches;

	assert_non_null(report);
	memcpy(dimensions + 1, item->shown_shape, sizeof(item->shown_shape));
	matches = rsum_promise_matches_header(&promise, &header, item->is_unknown ? NULL : &shown,
					      is_not_f64, report);
	if (matches != (item->expected_count == 0) ||
	    ringsum_report_finding_count(report) != item->expected_count)
		fail_msg("%s: %zu findings", item->what, ringsum_report_finding_count(report));
	for (size_t i = 0; i < item->expected_count; i++) {
		const struct ringsum_finding *finding = ringsum_report_finding_at(report, i);

		if (finding->code != item->expected[i])
			fail_msg("%s: %s", item->what, finding->message);
		assert_string_equal(finding->tensor, "t");
		assert_string_equal(finding->file, "s");
		assert_true(finding->has_range);
		assert_int_equal(finding->end, item->range[1]);
		assert_non_null(finding->expected);
		assert_non_null(finding->actual);
	}
	ringsum_report_free(report);
}

#define F32 RINGSUM_DTYPE_F32
#define F64 RINGSUM_DTYPE_F64
#define F4 RINGSUM_DTYPE_F4
#define HEADER RINGSUM_FINDING_HEADER_MISMATCH
#define SIZE RINGSUM_FINDING_SIZE_MISMATCH
#define DTYPE RINGSUM_FINDING_DTYPE_UNSUPPORTED
#define BIG (UINT64_C(1) << 62)

static void test_headers(void **state)
{
	static const struct header_case cases[] = {
		{ "good",
		  F32,
		  F32,
		  2,
		  2,
		  { 2, 3 },
		  { 2, 3 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  0,
		  { 0 },
		  0 },
		{ "scalar", F32, F32, 0, 0, { 0 }, { 0 }, { 8, 12 }, { 8, 12 }, 4, 0, { 0 }, 0 },
		{ "empty", F32, F32, 1, 1, { 0 }, { 0 }, { 8, 8 }, { 8, 8 }, 0, 0, { 0 }, 0 },
		{ "unknown",
		  F32,
		  F32,
		  1,
		  1,
		  { 6 },
		  { 6 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { HEADER },
		  true },
		{ "dtype",
		  F32,
		  RINGSUM_DTYPE_I32,
		  1,
		  1,
		  { 6 },
		  { 6 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { HEADER },
		  0 },
		{ "dimension",
		  F32,
		  F32,
		  2,
		  2,
		  { 2, 3 },
		  { 3, 2 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { HEADER },
		  0 },
		{ "rank",
		  F32,
		  F32,
		  1,
		  2,
		  { 6 },
		  { 6, 1 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { HEADER },
		  0 },
		{ "begin",
		  F32,
		  F32,
		  1,
		  1,
		  { 6 },
		  { 6 },
		  { 8, 32 },
		  { 4, 32 },
		  24,
		  1,
		  { HEADER },
		  0 },
		{ "end", F32, F32, 1, 1, { 6 }, { 6 }, { 8, 32 }, { 8, 36 }, 24, 1, { HEADER }, 0 },
		{ "shifted",
		  F32,
		  F32,
		  1,
		  1,
		  { 6 },
		  { 6 },
		  { 8, 32 },
		  { 32, 56 },
		  24,
		  1,
		  { HEADER },
		  0 },
		{ "not allowed",
		  F64,
		  F64,
		  1,
		  1,
		  { 3 },
		  { 3 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { DTYPE },
		  0 },
		{ "too few bytes",
		  F32,
		  F32,
		  1,
		  1,
		  { 7 },
		  { 7 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { SIZE },
		  0 },
		{ "overflow",
		  F32,
		  F32,
		  2,
		  2,
		  { BIG, 8 },
		  { BIG, 8 },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { SIZE },
		  0 },
		{ "overflow of bits",
		  F32,
		  F32,
		  1,
		  1,
		  { BIG },
		  { BIG },
		  { 8, 32 },
		  { 8, 32 },
		  24,
		  1,
		  { SIZE },
		  0 },
		{ "half a byte",
		  F4,
		  F4,
		  1,
		  1,
		  { 3 },
		  { 3 },
		  { 8, 10 },
		  { 8, 10 },
		  2,
		  1,
		  { SIZE },
		  0 },
		{ "source shorter",
		  F32,
		  F32,
		  1,
		  1,
		  { 6 },
		  { 6 },
		  { 8, 32 },
		  { 8, 32 },
		  20,
		  1,
		  { SIZE },
		  0 },
		{ "source longer",
		  F32,
		  F32,
		  1,
		  1,
		  { 6 },
		  { 6 },
		  { 8, 32 },
		  { 8, 32 },
		  28,
		  1,
		  { SIZE },
		  0 },
		{ "all of it",
		  F64,
		  F32,
		  1,
		  2,
		  { 7 },
		  { 6, 1 },
		  { 8, 32 },
		  { 4, 32 },
		  20,
		  6,
		  { HEADER, HEADER, HEADER, DTYPE, SIZE, SIZE },
		  0 },
		{ "unknown and more",
		  F64,
		  F32,
		  1,
		  1,
		  { 7 },
		  { 7 },
		  { 8, 32 },
		  { 4, 32 },
		  20,
		  4,
		  { HEADER, DTYPE, SIZE, SIZE },
		  true },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++)
		run_header_case(&cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_manifest),
		cmocka_unit_test(test_accepted_variants),
		cmocka_unit_test(test_refused_members),
		cmocka_unit_test(test_entries_that_are_no_objects),
		cmocka_unit_test(test_refused_documents),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_shard_limit),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_several_faults_are_all_told),
		cmocka_unit_test(test_codebook_and_empty_list),
		cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
