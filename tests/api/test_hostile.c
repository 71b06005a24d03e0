/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values and files that were made to hurt: whatever they are, the answer comes, within bounds of
 * memory. Each is verified in a process of its own, whose peak memory and time are measured.
 */
#include "drafter.h"
#include "hostile_apart.h"
#include "hostile_texts.h"
#include "json.h"
#include "ringsum.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MANY (IS_SANITIZED ? 50000u : 1000000u)

/* ---- small deliveries of one empty tensor ----------------------------------------------------- */

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* Names as JSON spells them. With an offset the manifest's range is moved. */
static void write_tensor(const char *name, const char *file, uint64_t moved_by, const char *sha256)
{
	size_t header_bytes =
		strlen("{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
	unsigned long long begin;
	FILE *stream;
	size_t i;

	header_bytes += strlen(name);
	begin = 8 + header_bytes + moved_by;
	drafter_remove(drafter.root);
	assert_int_equal(mkdir(drafter.root, 0755), 0);
	stream = fopen(drafter_path(&drafter, "x.safetensors"), "wb");
	assert_non_null(stream);
	for (i = 0; i < 8; i++)
		putc((int)(header_bytes >> (8 * i)) & 0xff, stream);
	fprintf(stream, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", name);
	assert_int_equal(fclose(stream), 0);
	stream = fopen(drafter_path(&drafter, "TENSORS.json"), "wb");
	assert_non_null(stream);
	fprintf(stream,
		"{\"tensors\":[{\"name\":\"%s\",\"dtype\":\"U8\",\"shape\":[0],"
		"\"destination_file\":\"%s\",\"destination_byte_range\":[%llu,%llu],"
		"\"source_byte_range\":[0,0],\"source_byte_range_sha256\":\"%s\","
		"\"resident_packed_bytes\":0}]}",
		name, file, begin, begin, sha256);
	assert_int_equal(fclose(stream), 0);
}

static void write_sound(void)
{
	write_tensor("t", "x.safetensors", 0, EMPTY_SHA256);
}

/* ---- large documents ------------------------------------------------------------------------- */

static void test_large_headers(void **state)
{
	char name[64];
	size_t i, size;

	(void)state;
	write_sound();
	for (i = 0; i < COUNT_OF(headers); i++) {
		struct expectation expected = {
			.result = RINGSUM_E_REFUSED,
			.code = headers[i].code ? headers[i].code : RINGSUM_FINDING_HEADER_INVALID,
			.says = headers[i].says,
		};

		snprintf(name, sizeof(name), "header: %s", headers[i].name);
		size = write_text(drafter_path(&drafter, "x.safetensors"), &headers[i], LARGE_BYTES,
				  true);
		verify_large(name, &expected, size);
	}
	assert_no_complaint();
}

static bool fills_tables(const struct text *header)
{
	static const char *const names[] = { "empty tensors", "tensors of rank 64", "metadata",
					     "keys" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (strcmp(names[i], header->name) == 0)
			return true;
	return false;
}

/* Tables grow in steps, so that other sizes may take more for their size than the largest does. */
static void test_headers_of_other_sizes(void **state)
{
	static const size_t mebibytes[] = { 5, 12, 31 };
	const struct expectation expected = { .result = RINGSUM_E_REFUSED };
	char name[64];

	(void)state;
	write_sound();
	for (size_t i = 0; i < COUNT_OF(headers); i++) {
		snprintf(name, sizeof(name), "header: %s", headers[i].name);
		for (size_t k = 0; fills_tables(&headers[i]) && k < COUNT_OF(mebibytes); k++) {
			size_t size = mebibytes[k] << (IS_SANITIZED ? 16 : 20);

			size = write_text(drafter_path(&drafter, "x.safetensors"), &headers[i],
					  size, true);
			verify_large(name, &expected, size);
		}
	}
	assert_no_complaint();
}

static void test_large_manifests(void **state)
{
	char name[64];
	size_t i, size;

	(void)state;
	for (i = 0; i < COUNT_OF(manifests); i++) {
		struct expectation expected = {
			.result = RINGSUM_E_REFUSED,
			.code = manifests[i].code,
			.says = manifests[i].says,
		};

		snprintf(name, sizeof(name), "manifest: %s", manifests[i].name);
		size = write_text(drafter_path(&drafter, "TENSORS.json"), &manifests[i],
				  LARGE_BYTES, false);
		verify_large(name, &expected, size);
	}
	assert_no_complaint();
}

/* One finding is enough for a million promises that one missing file breaks. */
static void test_a_million_promises_of_one_missing_file(void **state)
{
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = sound_entries.code,
		.says = sound_entries.says,
	};
	size_t size;

	(void)state;
	write_sound();
	size = write_text(drafter_path(&drafter, "TENSORS.json"), &sound_entries,
			  MANY * unit_size(&sound_entries), false);
	verify_large("manifest: a million promises", &expected, size);
	assert_no_complaint();
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void test_numbers_of_a_config(void **state)
{
	static const struct {
		const char *key, *number, *says;
	} cases[] = {
		{ "num_nextn_predict_layers", "1000000000000", "1 to 64" },
		{ "num_nextn_predict_layers", "18446744073709551615", "1 to 64" },
		{ "num_nextn_predict_layers", "18446744073709551616", "a whole number" },
		{ "dspark_n_routed_experts", "1000000000000", "1 to 65536" },
		{ "dspark_n_routed_experts", "18446744073709551615", "1 to 65536" },
		{ "dspark_n_routed_experts", "1e12", "a whole number" },
		{ "num_hidden_layers", "1000000000000", "3 elements in all" },
		{ "num_hidden_layers", "18446744073709551615", "3 elements in all" },
		{ "num_hidden_layers", "-18446744073709551615", "a whole number" },
		{ "rope_theta", "1e99999999999999999999", "a finite number" },
	};
	char find[64], replace[96];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(cases); i++) {
		struct expectation expected = {
			.result = RINGSUM_E_REFUSED,
			.code = RINGSUM_FINDING_CONFIG_INVALID,
			.says = cases[i].says,
			.identical = drafter.tensor_count,
		};

		drafter_build(&drafter, 0);
		snprintf(find, sizeof(find), "\"%s\": ", cases[i].key);
		snprintf(replace, sizeof(replace), "\"%s\": %s, \"none\": ", cases[i].key,
			 cases[i].number);
		drafter.config = document_edit(drafter.config, NULL, find, replace);
		drafter_write(&drafter);
		verify_small(replace, &expected);
	}
	assert_no_complaint();
}

/* As many tensors as a config may ask for, and nearly none of them promised. */
static void test_config_that_asks_for_millions(void **state)
{
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_TENSOR_MISSING,
		.says = "config.json requires this tensor",
	};
	char *experts = NULL;

	(void)state;
	drafter_build(&drafter, 0);
	assert_true(asprintf(&experts, "\"dspark_n_routed_experts\": %u",
			     IS_SANITIZED ? 999 : 5200) > 0);
	free(drafter.config);
	drafter.config = document_config(64, 2);
	drafter.config =
		document_edit(drafter.config, NULL, "\"dspark_n_routed_experts\": 2", experts);
	free(experts);
	drafter_write(&drafter);
	/* All but the confidence head and its three neighbours, which the last stage has. */
	expected.identical = drafter.tensor_count - 4;
	/* 100,000 findings of some 300 bytes, in the checkpoint's report and in the caller's. */
	verify_within("config: 4 million tensors", &expected, strlen(drafter.config), 80 << 10);
	assert_no_complaint();
}

static void test_lengths_of_a_header(void **state)
{
	static const struct {
		uint64_t length;
		enum ringsum_finding_code code;
		const char *says;
	} cases[] = {
		{ UINT64_MAX, RINGSUM_FINDING_HEADER_INVALID, "18446744073709551615" },
		{ UINT64_MAX - 7, RINGSUM_FINDING_HEADER_INVALID, "18446744073709551608" },
		{ UINT64_C(1) << 63, RINGSUM_FINDING_HEADER_INVALID, "9223372036854775808" },
		{ (UINT64_C(1) << 63) - 9, RINGSUM_FINDING_HEADER_INVALID, "9223372036854775799" },
		{ UINT64_C(1) << 32, RINGSUM_FINDING_HEADER_INVALID, "4294967296" },
		{ 100000001, RINGSUM_FINDING_HEADER_INVALID, "100000001" },
		{ 100000000, RINGSUM_FINDING_FILE_TRUNCATED, "100000008" },
	};
	char name[64];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(cases); i++) {
		struct expectation expected = {
			.result = RINGSUM_E_REFUSED,
			.code = cases[i].code,
			.says = cases[i].says,
		};

		write_sound();
		drafter_poke(&drafter, "x.safetensors", 0, &cases[i].length, 8);
		snprintf(name, sizeof(name), "header of %llu bytes",
			 (unsigned long long)cases[i].length);
		verify_small(name, &expected);
	}
	assert_no_complaint();
}

static void test_ranges_near_the_end_of_numbers(void **state)
{
	static const char *const ranges[] = {
		"[9223372036854775800,9223372036854775807]",
		"[9223372036854775807,9223372036854775808]",
		"[9223372036854775808,9223372036854775808]",
		"[18446744073709551614,18446744073709551615]",
		"[18446744073709551615,18446744073709551615]",
		"[0,18446744073709551615]",
		"[18446744073709551615,0]",
		"[0,4611686018427387904]",
		"[4611686018427387904,4611686018427387904]",
	};
	struct expectation expected = { .result = RINGSUM_E_REFUSED };
	char begin[64], replace[128];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(ranges); i++) {
		drafter_build(&drafter, 0);
		drafter_write(&drafter);
		expected.identical = drafter.tensor_count - 1;
		snprintf(begin, sizeof(begin), "\"destination_byte_range\": [");
		snprintf(replace, sizeof(replace), "\"destination_byte_range\": %s, \"none\": [",
			 ranges[i]);
		drafter.manifest =
			document_edit_entry(drafter.manifest, "norm.weight", begin, replace);
		drafter_write(&drafter);
		verify_small(replace, &expected);
	}
	assert_no_complaint();
}

/* ---- files ----------------------------------------------------------------------------------- */

static void test_fifos(void **state)
{
	static const char *const files[] = { DRAFTER_SHARD_0, "config.json", "exl3_moe_plan.json",
					     "TENSORS.json" };
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_FILE_TYPE,
		.says = "a FIFO",
	};
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_inspection *inspection = NULL;
	size_t i;

	(void)state;
	drafter_build(&drafter, 0);
	for (i = 0; i < COUNT_OF(files); i++) {
		drafter_write(&drafter);
		drafter_remove(drafter_path(&drafter, files[i]));
		assert_int_equal(mkfifo(drafter_path(&drafter, files[i]), 0600), 0);
		expected.identical = drafter.tensor_count;
		if (i == 0)
			expected.identical = drafter.shards[1].tensor_count;
		else if (i + 1 == COUNT_OF(files))
			expected.identical = 0;
		verify_small(files[i], &expected);
	}
	/* What the caller names is no exception. */
	alarm(HANG_SECONDS);
	options.manifest_path = drafter_path(&drafter, "TENSORS.json");
	assert_int_equal(ringsum_verify_path(drafter.root, &options, NULL, NULL),
			 RINGSUM_E_REFUSED);
	assert_int_equal(ringsum_verify_path(options.manifest_path, NULL, NULL, NULL),
			 RINGSUM_E_NOPROMISE);
	assert_int_not_equal(ringsum_inspect(options.manifest_path, NULL, &inspection, NULL),
			     RINGSUM_E_NOMEM);
	assert_true(!inspection ||
		    ringsum_inspection_verdict(inspection) != RINGSUM_VERDICT_IDENTICAL);
	ringsum_inspection_free(inspection);
	alarm(0);
	assert_no_complaint();
}

static void test_deep_directory(void **state)
{
	struct expectation sound = { .result = RINGSUM_OK, .identical = 1 };
	struct expectation strict = {
		.result = RINGSUM_E_UNDECIDED,
		.code = RINGSUM_FINDING_READ_ERROR,
		.says = "not all of the directory could be listed",
		.strict = 1,
		.identical = 1,
	};
	char path[1024];
	size_t length, i;

	(void)state;
	write_sound();
	length = (size_t)snprintf(path, sizeof(path), "%s", drafter.root);
	for (i = 0; i < 300; i++) {
		memcpy(path + length, "/d", 3);
		length += 2;
		assert_int_equal(mkdir(path, 0700), 0);
	}
	verify_small("300 directories deep", &sound);
	verify_small("300 directories deep, strict", &strict);
	assert_no_complaint();
}

/* A header that claims a terabyte costs nothing, nor does a terabyte that no header claims. */
static void test_sparse_terabyte(void **state)
{
	static const char header[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[1099511627776],"
				     "\"data_offsets\":[0,1099511627776]}}";
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_FILE_TRAILING,
		.says = "trailing bytes",
		.identical = 1,
	};
	uint64_t length = strlen(header);
	const char *path;

	(void)state;
	write_sound();
	path = drafter_path(&drafter, "x.safetensors");
	if (truncate(path, INT64_C(1) << 40) != 0) {
		print_message("# no file of a terabyte can be made here: %s\n", strerror(errno));
		skip();
	}
	verify_small("a terabyte that trails", &expected);
	drafter_poke(&drafter, "x.safetensors", 8, header, length);
	drafter_poke(&drafter, "x.safetensors", 0, &length, 8);
	assert_int_equal(truncate(drafter_path(&drafter, "x.safetensors"),
				  (off_t)(8 + length + (UINT64_C(1) << 40))),
			 0);
	expected.code = RINGSUM_FINDING_HEADER_MISMATCH;
	expected.says = "1099511627776";
	expected.identical = 0;
	verify_small("a terabyte that nobody promised", &expected);
	assert_no_complaint();
}

/* ---- rights ---------------------------------------------------------------------------------- */

#define NOBODY 65534
#define EXIT_NO_WAY 77

static void verify_as_nobody(const struct expectation *expected)
{
	alarm(HANG_SECONDS);
	if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		_exit(EXIT_NO_WAY);
	if (access(drafter_path(&drafter, "TENSORS.json"), R_OK) != 0)
		_exit(EXIT_NO_WAY);
	verify_and_exit("as nobody", expected);
}

static void test_unreadable_shard(void **state)
{
	struct expectation expected = {
		.result = RINGSUM_E_UNDECIDED,
		.code = RINGSUM_FINDING_READ_ERROR,
		.says = "Permission denied",
	};
	int status;
	pid_t pid;

	(void)state;
	write_sound();
	assert_int_equal(chmod(drafter.base, 0755), 0);
	assert_int_equal(chmod(drafter_path(&drafter, "TENSORS.json"), 0644), 0);
	assert_int_equal(chmod(drafter_path(&drafter, "x.safetensors"), 0), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		verify_as_nobody(&expected);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == EXIT_NO_WAY) {
		print_message("# no other user can be become who sees the directory\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void test_lengths_of_names(void **state)
{
	struct expectation sound = { .result = RINGSUM_OK, .identical = 1 };
	struct expectation over = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_MANIFEST_INVALID,
		.says = "4096",
	};
	char name[4098];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[4096] = '\0';
	write_tensor(name, "x.safetensors", 0, EMPTY_SHA256);
	verify_small("a name of 4,096 bytes", &sound);
	name[4096] = 'n';
	name[4097] = '\0';
	write_tensor(name, "x.safetensors", 0, EMPTY_SHA256);
	verify_small("a name of 4,097 bytes", &over);
	assert_no_complaint();
}

/* Neither a control character nor a forged line, and UTF-8 throughout. */
static void check_text(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	for (; *at; at++) {
		if ((*at < 0x20 && *at != '\n') || *at == 0x7f ||
		    (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0))
			fail_msg("byte 0x%02x in the text: %s", (unsigned)*at, text);
		if (*at == '\n' && strncmp((const char *)at + 1, "identical", 9) == 0)
			fail_msg("a forged line: %s", text);
	}
	assert_true(rsum_utf8_is_valid(text, strlen(text)));
}

static void check_json(const char *text)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *json;

	assert_non_null(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json = json_tokener_parse_ex(tokener, text, (int)strlen(text) + 1);
	if (!json)
		fail_msg("%s in the JSON: %s",
			 json_tokener_error_desc(json_tokener_get_error(tokener)), text);
	json_object_put(json);
	json_tokener_free(tokener);
}

static void check_report(const struct expectation *expected, const char *shown)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	char *text, *json;

	assert_int_equal(verify(expected, &report, &err), expected->result);
	assert_true(is_found(report, expected));
	assert_int_equal(ringsum_report_to_text(report, &text, NULL), RINGSUM_OK);
	assert_int_equal(ringsum_report_to_json(report, &json, NULL), RINGSUM_OK);
	check_text(text);
	check_text(err.message);
	check_json(json);
	if (!strstr(text, shown))
		fail_msg("%s is not shown in: %s", shown, text);
	ringsum_free(text);
	ringsum_free(json);
	ringsum_report_free(report);
}

#define UGLY "\\u001b[31m\\n\\nidentical: 1 tensor\\r\\u007f\\u0085\\b\\t\\\"\\\\"

static void test_names_with_control_characters(void **state)
{
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_DIGEST_MISMATCH,
		.says = "the tensor is empty",
	};

	(void)state;
	write_tensor(UGLY, "x.safetensors", 0,
		     "0000000000000000000000000000000000000000000000000000000000000000");
	check_report(&expected, "[31m");
	write_tensor(UGLY, "x.safetensors", 1, EMPTY_SHA256);
	expected.code = RINGSUM_FINDING_HEADER_MISMATCH;
	expected.says = "elsewhere";
	check_report(&expected, "[31m");
	write_tensor("t", UGLY, 0, EMPTY_SHA256);
	expected.code = RINGSUM_FINDING_FILE_MISSING;
	expected.says = "not there";
	check_report(&expected, "[31m");
	/* A header that is refused says why, and a name may be in it. */
	write_tensor(UGLY, "x.safetensors", 0, EMPTY_SHA256);
	drafter_poke(&drafter, "x.safetensors", 8 + strlen("{\"" UGLY "\":{\"dt"), "T", 1);
	expected.code = RINGSUM_FINDING_HEADER_INVALID;
	expected.says = "no dtype";
	check_report(&expected, "[31m");
}

static void test_names_on_disk(void **state)
{
	static const char *const names[] = { "\x1b]0;title\x07", "a\nidentical: 1 tensor",
					     "\xff\xfe\x80", "(\xc2\x9b)", "\xed\xa0\x80" };
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_UNPROMISED,
		.says = "promises nothing about this file",
		.strict = 1,
		.identical = 1,
	};
	size_t i;

	(void)state;
	write_sound();
	for (i = 0; i < COUNT_OF(names); i++)
		drafter_put(&drafter, names[i], "", 0);
	check_report(&expected, "]0;title");
}

static void test_names_that_are_no_utf_8(void **state)
{
	static const char *const names[] = { "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
					     "a\xe2\x82" };
	struct expectation expected = {
		.result = RINGSUM_E_REFUSED,
		.code = RINGSUM_FINDING_MANIFEST_INVALID,
		.says = "UTF-8",
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(names); i++) {
		write_tensor(names[i], "x.safetensors", 0, EMPTY_SHA256);
		check_report(&expected, "UTF-8");
		/* and in the header alone */
		write_tensor("t", "x.safetensors", 0, EMPTY_SHA256);
		drafter_poke(&drafter, "x.safetensors", 10, names[i], 1);
		if ((unsigned char)names[i][0] < 0x80)
			continue;
		expected.code = RINGSUM_FINDING_HEADER_INVALID;
		check_report(&expected, "UTF-8");
		expected.code = RINGSUM_FINDING_MANIFEST_INVALID;
	}
}

/* ---- all ------------------------------------------------------------------------------------- */

static int make_root(void **state)
{
	static const struct expectation expected = { .result = RINGSUM_OK, .identical = 1 };

	(void)state;
	drafter_init(&drafter, 1, 2);
	write_sound();
	baseline_kib = verify_apart("baseline", &expected, 0);
	assert_no_complaint();
	return 0;
}

static int remove_root(void **state)
{
	(void)state;
	drafter_deinit(&drafter);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_headers),
		cmocka_unit_test(test_headers_of_other_sizes),
		cmocka_unit_test(test_large_manifests),
		cmocka_unit_test(test_a_million_promises_of_one_missing_file),
		cmocka_unit_test(test_numbers_of_a_config),
		cmocka_unit_test(test_config_that_asks_for_millions),
		cmocka_unit_test(test_lengths_of_a_header),
		cmocka_unit_test(test_ranges_near_the_end_of_numbers),
		cmocka_unit_test(test_fifos),
		cmocka_unit_test(test_deep_directory),
		cmocka_unit_test(test_sparse_terabyte),
		cmocka_unit_test(test_unreadable_shard),
		cmocka_unit_test(test_lengths_of_names),
		cmocka_unit_test(test_names_with_control_characters),
		cmocka_unit_test(test_names_on_disk),
		cmocka_unit_test(test_names_that_are_no_utf_8),
	};

	return cmocka_run_group_tests(tests, make_root, remove_root);
}
