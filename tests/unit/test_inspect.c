/* SPDX-License-Identifier: Apache-2.0 */
/* Inspection through the public calls, on small files that the test writes itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ringsum.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static char base_path[512];

static const char *at_base(const char *name)
{
	static _Thread_local char path[1024];

	snprintf(path, sizeof(path), "%s/%s", base_path, name);
	return path;
}

static void make_bytes(const char *name, const void *bytes, size_t size_bytes)
{
	int fd = open(at_base(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size_bytes), size_bytes);
	close(fd);
}

/* A shard of this header and `data_bytes` of data. */
static void make_shard(const char *name, const char *header, size_t data_bytes)
{
	size_t header_bytes = strlen(header), i;
	uint8_t *file = calloc(1, 8 + header_bytes + data_bytes);

	assert_non_null(file);
	for (i = 0; i < 8; i++)
		file[i] = (uint8_t)(header_bytes >> 8 * i);
	memcpy(file + 8, header, header_bytes);
	for (i = 0; i < data_bytes; i++)
		file[8 + header_bytes + i] = (uint8_t)i;
	make_bytes(name, file, 8 + header_bytes + data_bytes);
	free(file);
}

#define MIXED                                                                             \
	"{\"__metadata__\":{\"format\":\"pt\",\"note\":\"a\\nb\"},"                       \
	"\"w\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"             \
	"\"scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"            \
	"\"b\\u00e9\\u001b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}," \
	"\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[24,24]}}"
#define MIXED_BYTES 24

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

static int setup(void **state)
{
	const char *parent = getenv("TMPDIR");

	(void)state;
	snprintf(base_path, sizeof(base_path), "%s/inspect.XXXXXX", parent ? parent : "/tmp");
	return mkdtemp(base_path) && !chmod(base_path, 0755) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return nftw(base_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct ringsum_inspection *inspect(const char *name)
{
	struct ringsum_inspection *inspection = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_inspect(at_base(name), NULL, &inspection, &err);

	if (result)
		fail_msg("%s: %d %s", name, result, err.message);
	return inspection;
}

/* ---- JSON ------------------------------------------------------------------------------- */

static struct json_object *to_json(const struct ringsum_inspection *inspection)
{
	struct json_object *json;
	char *text = NULL;

	assert_int_equal(ringsum_inspection_to_json(inspection, &text, NULL), RINGSUM_OK);
	assert_true(text[strlen(text) - 1] == '\n');
	json = json_tokener_parse(text);
	if (!json)
		fail_msg("not JSON: %s", text);
	ringsum_free(text);
	return json;
}

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (!json_object_object_get_ex(object, key, &value))
		fail_msg("no member %s", key);
	return value;
}

static void expect_text(struct json_object *object, const char *key, const char *text)
{
	if (text)
		assert_string_equal(json_object_get_string(member(object, key)), text);
	else
		assert_null(member(object, key));
}

static void expect_count(struct json_object *object, const char *key, uint64_t count)
{
	assert_true(json_object_is_type(member(object, key), json_type_int));
	assert_int_equal(json_object_get_uint64(member(object, key)), count);
}

static void expect_json_text(struct json_object *object, const char *key, const char *json)
{
	assert_string_equal(json_object_to_json_string_ext(member(object, key), 0), json);
}

static void expect_in_text(const struct ringsum_inspection *inspection, const char *part)
{
	char *text = NULL;

	assert_int_equal(ringsum_inspection_to_text(inspection, &text, NULL), RINGSUM_OK);
	if (!strstr(text, part))
		fail_msg("`%s` is not in: %s", part, text);
	ringsum_free(text);
}

/* ---- valid shards ------------------------------------------------------------------------ */

static void test_valid_calls(void **state)
{
	struct ringsum_inspection *inspection;
	const struct ringsum_shard *shard;
	struct ringsum_tensor tensor = { 0 };
	const char *key = NULL, *value = NULL;

	(void)state;
	make_shard("mixed", MIXED, MIXED_BYTES);
	inspection = inspect("mixed");
	assert_int_equal(ringsum_inspection_verdict(inspection), RINGSUM_VERDICT_IDENTICAL);
	assert_int_equal(ringsum_inspection_shard_count(inspection), 1);
	shard = ringsum_inspection_shard_at(inspection, 0);
	assert_string_equal(shard->name, at_base("mixed"));
	assert_int_equal(shard->header_bytes, strlen(MIXED));
	assert_int_equal(shard->size_bytes, 8 + strlen(MIXED) + MIXED_BYTES);
	assert_int_equal(shard->tensor_count, 4);
	assert_int_equal(shard->metadata_count, 2);
	assert_null(shard->message);

	assert_int_equal(ringsum_inspection_tensor_at(inspection, 0, 0, &tensor), RINGSUM_OK);
	assert_string_equal(tensor.name, "w");
	assert_int_equal(tensor.dtype, RINGSUM_DTYPE_BF16);
	assert_int_equal(tensor.rank, 2);
	assert_int_equal(tensor.shape[1], 3);
	assert_int_equal(tensor.size_bytes, 12);
	assert_int_equal(tensor.begin, 8 + strlen(MIXED));
	assert_int_equal(tensor.end, tensor.begin + 12);
	assert_int_equal(ringsum_inspection_tensor_at(inspection, 0, 1, &tensor), RINGSUM_OK);
	assert_string_equal(tensor.name, "scale");
	assert_int_equal(tensor.rank, 0);
	assert_int_equal(ringsum_inspection_tensor_at(inspection, 0, 4, &tensor),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(ringsum_inspection_tensor_at(inspection, 1, 0, &tensor),
			 RINGSUM_E_NOTFOUND);
	assert_string_equal(tensor.name, "scale");

	assert_int_equal(ringsum_inspection_metadata_at(inspection, 0, 1, &key, &value),
			 RINGSUM_OK);
	assert_string_equal(key, "note");
	assert_string_equal(value, "a\nb");
	assert_int_equal(ringsum_inspection_metadata_at(inspection, 0, 2, &key, &value),
			 RINGSUM_E_NOTFOUND);
	assert_int_equal(ringsum_inspection_metadata_at(inspection, 1, 0, &key, &value),
			 RINGSUM_E_NOTFOUND);
	assert_null(ringsum_inspection_shard_at(inspection, 1));
	ringsum_inspection_free(inspection);
}

static void test_valid_json(void **state)
{
	struct json_object *json, *shard, *tensor, *totals, *by_dtype;
	struct ringsum_inspection *inspection;
	char range[64];

	(void)state;
	make_shard("mixed", MIXED, MIXED_BYTES);
	inspection = inspect("mixed");
	json = to_json(inspection);
	expect_text(json, "schema", "ringsum-inspect/1");
	expect_text(json, "verdict", "valid");
	expect_text(json, "path", at_base("mixed"));
	shard = json_object_array_get_idx(member(json, "shards"), 0);
	expect_text(shard, "verdict", "valid");
	expect_text(shard, "code", NULL);
	expect_text(shard, "message", NULL);
	expect_count(shard, "header_bytes", strlen(MIXED));
	expect_text(member(shard, "metadata"), "note", "a\nb");
	assert_int_equal(json_object_array_length(member(shard, "tensors")), 4);
	tensor = json_object_array_get_idx(member(shard, "tensors"), 2);
	expect_text(tensor, "name", "b\xc3\xa9\x1b");
	expect_text(tensor, "dtype", "F32");
	expect_json_text(tensor, "shape", "[2]");
	expect_count(tensor, "size_bytes", 8);
	expect_json_text(tensor, "data_offsets", "[16,24]");
	snprintf(range, sizeof(range), "[%zu,%zu]", 24 + strlen(MIXED), 32 + strlen(MIXED));
	expect_json_text(tensor, "range", range);
	tensor = json_object_array_get_idx(member(shard, "tensors"), 1);
	expect_json_text(tensor, "shape", "[]");
	totals = member(json, "totals");
	expect_count(totals, "tensors", 4);
	expect_count(totals, "bytes", MIXED_BYTES);
	by_dtype = member(totals, "by_dtype");
	assert_int_equal(json_object_object_length(by_dtype), 3);
	expect_count(member(by_dtype, "F32"), "tensors", 2);
	expect_count(member(by_dtype, "F32"), "bytes", 12);
	expect_count(member(by_dtype, "I64"), "bytes", 0);
	json_object_put(json);
	ringsum_inspection_free(inspection);
}

static void test_valid_text(void **state)
{
	struct ringsum_inspection *inspection;
	char heading[1200];

	(void)state;
	make_shard("mixed", MIXED, MIXED_BYTES);
	inspection = inspect("mixed");
	snprintf(heading, sizeof(heading), "%s  %zu bytes, header %zu bytes, 4 tensors\n",
		 at_base("mixed"), 32 + strlen(MIXED), strlen(MIXED));
	expect_in_text(inspection, heading);
	expect_in_text(inspection, "  metadata  format = pt\n  metadata  note = a\\nb\n");
	expect_in_text(inspection, "  name    dtype  shape   bytes  offset\n"
				   "  w       BF16   [2, 3]     12     ");
	expect_in_text(inspection, "\n  b\xc3\xa9\\x1b  F32    [2]         8     ");
	expect_in_text(inspection, "\n  none    I64    [0, 7]      0     ");
	expect_in_text(inspection, "total\n  BF16         1 tensor   12 bytes\n"
				   "  F32          2 tensors  12 bytes\n");
	expect_in_text(inspection, "  all          4 tensors  24 bytes\nvalid: 1 shard;");
	ringsum_inspection_free(inspection);
}

/* Every dtype by name comes back as itself, with its size. */
static void test_dtypes(void **state)
{
	unsigned dtype;

	(void)state;
	for (dtype = 0; dtype < RINGSUM_DTYPE_COUNT; dtype++) {
		struct ringsum_inspection *inspection;
		struct ringsum_tensor tensor;
		const char *name = ringsum_dtype_name((enum ringsum_dtype)dtype);
		unsigned bytes = ringsum_dtype_bits((enum ringsum_dtype)dtype);
		char header[256];

		snprintf(header, sizeof(header),
			 "{\"t\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%u]}}", name,
			 bytes);
		make_shard("dtype", header, bytes);
		inspection = inspect("dtype");
		assert_int_equal(ringsum_inspection_verdict(inspection), RINGSUM_VERDICT_IDENTICAL);
		assert_int_equal(ringsum_inspection_tensor_at(inspection, 0, 0, &tensor),
				 RINGSUM_OK);
		assert_int_equal(tensor.dtype, dtype);
		assert_int_equal(tensor.size_bytes, bytes);
		ringsum_inspection_free(inspection);
	}
}

/* ---- refused shards ---------------------------------------------------------------------- */

/* Inspects one file and expects one fault, in the calls, the text and the JSON alike. */
static void expect_fault(const char *name, enum ringsum_verdict verdict,
			 enum ringsum_finding_code code, const char *says, size_t tensor_count)
{
	struct ringsum_inspection *inspection = inspect(name);
	const struct ringsum_shard *shard = ringsum_inspection_shard_at(inspection, 0);
	const char *word = verdict == RINGSUM_VERDICT_REFUSED ? "refused" : "undecided";
	struct json_object *json, *json_shard;
	char line[200];

	if (shard->verdict != verdict || !shard->message || shard->code != code ||
	    !strstr(shard->message, says) || shard->tensor_count != tensor_count)
		fail_msg("%s: verdict %d, code %d, %zu tensors, %s", name, (int)shard->verdict,
			 (int)shard->code, shard->tensor_count,
			 shard->message ? shard->message : "no message");
	assert_int_equal(ringsum_inspection_verdict(inspection), verdict);
	snprintf(line, sizeof(line), "%s  %s  ", word, ringsum_finding_code_name(code));
	expect_in_text(inspection, line);
	snprintf(line, sizeof(line), "\n%s: 1 shard, of which 0 valid, ", word);
	expect_in_text(inspection, line);
	json = to_json(inspection);
	expect_text(json, "verdict", word);
	json_shard = json_object_array_get_idx(member(json, "shards"), 0);
	expect_text(json_shard, "verdict", word);
	expect_text(json_shard, "code", ringsum_finding_code_name(code));
	expect_text(json_shard, "message", shard->message);
	assert_int_equal(json_object_array_length(member(json_shard, "tensors")), tensor_count);
	json_object_put(json);
	ringsum_inspection_free(inspection);
}

static void expect_refused(const char *name, enum ringsum_finding_code code, const char *says)
{
	expect_fault(name, RINGSUM_VERDICT_REFUSED, code, says, 0);
}

static void test_not_safetensors(void **state)
{
	static const char lfs[] =
		"version https://git-lfs.github.com/spec/v1\n"
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca2"
		"4d17e2393\nsize 12345\n";
	static const char html[] =
		"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>";
	static const char zip[] =
		"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00 archive/data.pkl";
	static const char gguf[] = "GGUF\x03\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00 and so on";
	static const char zeros[4096];

	(void)state;
	make_bytes("lfs", lfs, sizeof(lfs) - 1);
	expect_refused("lfs", RINGSUM_FINDING_HEADER_INVALID, "LFS");
	expect_refused("lfs", RINGSUM_FINDING_HEADER_INVALID, "12345");
	make_bytes("html", html, sizeof(html) - 1);
	expect_refused("html", RINGSUM_FINDING_HEADER_INVALID, "HTML");
	make_bytes("zip", zip, sizeof(zip) - 1);
	expect_refused("zip", RINGSUM_FINDING_HEADER_INVALID, "zip");
	make_bytes("gguf", gguf, sizeof(gguf) - 1);
	expect_refused("gguf", RINGSUM_FINDING_HEADER_INVALID, "GGUF");
	make_bytes("zeros", zeros, sizeof(zeros));
	expect_refused("zeros", RINGSUM_FINDING_HEADER_INVALID, "zeros");
	make_bytes("empty", "", 0);
	expect_refused("empty", RINGSUM_FINDING_FILE_TRUNCATED, "0 of at least 8 bytes");
}

/* Only the length is wrong: refused, and the table is there all the same. */
static void test_wrong_length(void **state)
{
	struct ringsum_inspection *inspection;
	struct ringsum_tensor tensor;

	(void)state;
	make_shard("truncated", MIXED, MIXED_BYTES - 5);
	expect_fault("truncated", RINGSUM_VERDICT_REFUSED, RINGSUM_FINDING_FILE_TRUNCATED,
		     "5 bytes", 4);
	make_shard("trailing", MIXED, MIXED_BYTES + 3);
	expect_fault("trailing", RINGSUM_VERDICT_REFUSED, RINGSUM_FINDING_FILE_TRAILING, "3 ", 4);
	inspection = inspect("trailing");
	assert_int_equal(ringsum_inspection_tensor_at(inspection, 0, 2, &tensor), RINGSUM_OK);
	assert_int_equal(tensor.dtype, RINGSUM_DTYPE_F32);
	expect_in_text(inspection, "  all          4 tensors  24 bytes\n");
	ringsum_inspection_free(inspection);
}

static void test_bad_headers(void **state)
{
	(void)state;
	make_shard("duplicate",
		   "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
		   "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
		   1);
	expect_refused("duplicate", RINGSUM_FINDING_HEADER_INVALID, "duplicate key");
	make_shard("hole", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2);
	expect_refused("hole", RINGSUM_FINDING_HEADER_INVALID, "hole");
	make_shard("array", "[]", 0);
	expect_refused("array", RINGSUM_FINDING_HEADER_INVALID, "array");
}

static void test_special_files(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(at_base("fifo"), 0644), 0);
	expect_refused("fifo", RINGSUM_FINDING_FILE_TYPE, "a FIFO");
	assert_int_equal(symlink("fifo", at_base("to_fifo")), 0);
	expect_refused("to_fifo", RINGSUM_FINDING_FILE_TYPE, "a FIFO");
	assert_int_equal(symlink("circle", at_base("circle")), 0);
	expect_refused("circle", RINGSUM_FINDING_FILE_TYPE, "circle");
}

static int inspect_null(void)
{
	struct ringsum_inspection *inspection = NULL;
	int result = ringsum_inspect("/dev/null", NULL, &inspection, NULL);

	if (!result && ringsum_inspection_verdict(inspection) != RINGSUM_VERDICT_REFUSED)
		result = 1;
	ringsum_inspection_free(inspection);
	return result;
}

static void test_device(void **state)
{
	(void)state;
	assert_int_equal(inspect_null(), 0);
}

/* In a child that is not root: exits 0 where the shard is undecided for want of permission. */
static void unreadable_child(void)
{
	struct ringsum_inspection *inspection = NULL;
	const struct ringsum_shard *shard;

	if (getuid() == 0 && (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
			      setresuid(65534, 65534, 65534)))
		_exit(10);
	if (ringsum_inspect(at_base("forbidden"), NULL, &inspection, NULL))
		_exit(11);
	shard = ringsum_inspection_shard_at(inspection, 0);
	if (shard->verdict != RINGSUM_VERDICT_UNDECIDED ||
	    shard->code != RINGSUM_FINDING_READ_ERROR ||
	    ringsum_inspection_verdict(inspection) != RINGSUM_VERDICT_UNDECIDED)
		_exit(12);
	ringsum_inspection_free(inspection);
	if (ringsum_inspect(at_base("closed"), NULL, &inspection, NULL) != RINGSUM_E_IO)
		_exit(13);
	_exit(0);
}

static void test_unreadable(void **state)
{
	int status;
	pid_t child;

	(void)state;
	make_shard("forbidden", MIXED, MIXED_BYTES);
	assert_int_equal(chmod(at_base("forbidden"), 0), 0);
	assert_int_equal(mkdir(at_base("closed"), 0), 0);
	child = fork();
	if (child == 0)
		unreadable_child();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 10) {
		print_message("skipped: cannot give up root here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- directories ------------------------------------------------------------------------- */

static void expect_nothing(const char *name)
{
	struct ringsum_inspection *inspection = NULL;
	struct ringsum_error err = { 0 };

	assert_int_equal(ringsum_inspect(at_base(name), NULL, &inspection, &err),
			 RINGSUM_E_NOPROMISE);
	assert_null(inspection);
	assert_int_equal(err.code, RINGSUM_E_NOPROMISE);
	assert_non_null(strstr(err.message, "looked for"));
	assert_null(strchr(err.message, '\n'));
}

static void test_nothing(void **state)
{
	(void)state;
	assert_int_equal(mkdir(at_base("bare"), 0755), 0);
	expect_nothing("bare");
	make_bytes("bare/config.json", "{}", 2);
	assert_int_equal(mkdir(at_base("bare/below"), 0755), 0);
	make_shard("bare/below/model.safetensors", MIXED, MIXED_BYTES);
	expect_nothing("bare");
	expect_nothing("not there\n");
	expect_nothing("bare/config.json/x");
	assert_int_equal(symlink("gone", at_base("bare_link")), 0);
	expect_nothing("bare_link");
}

static void make_directory_of_shards(void)
{
	assert_int_equal(mkdir(at_base("many"), 0755), 0);
	make_shard("many/b.safetensors", MIXED, MIXED_BYTES);
	make_shard("many/a.safetensors", MIXED, MIXED_BYTES);
	make_shard("many/B.safetensors", "{}", 0);
	make_shard("many/ignored.bin", MIXED, MIXED_BYTES);
	make_shard("many/z \xff\n.safetensors", "{}", 0);
}

static void test_directory(void **state)
{
	struct ringsum_inspection *inspection;
	struct json_object *json, *shard;

	(void)state;
	make_directory_of_shards();
	assert_int_equal(symlink("many", at_base("to_many")), 0);
	inspection = inspect("to_many");
	assert_int_equal(ringsum_inspection_shard_count(inspection), 4);
	assert_string_equal(ringsum_inspection_shard_at(inspection, 0)->name, "B.safetensors");
	assert_string_equal(ringsum_inspection_shard_at(inspection, 1)->name, "a.safetensors");
	assert_string_equal(ringsum_inspection_shard_at(inspection, 2)->name, "b.safetensors");
	assert_int_equal(ringsum_inspection_verdict(inspection), RINGSUM_VERDICT_IDENTICAL);
	expect_in_text(inspection,
		       "\nz \\xff\\n.safetensors  10 bytes, header 2 bytes, 0 tensors\n");
	expect_in_text(inspection, "\n  all          8 tensors  48 bytes\nvalid: 4 shards;");
	json = to_json(inspection);
	shard = json_object_array_get_idx(member(json, "shards"), 3);
	expect_text(shard, "name", "z \xef\xbf\xbd\n.safetensors");
	expect_text(shard, "name_hex", "7a20ff0a2e7361666574656e736f7273");
	expect_count(member(json, "totals"), "tensors", 8);
	json_object_put(json);
	ringsum_inspection_free(inspection);
}

/* One bad shard refuses the directory; what else is there is shown all the same. */
static void test_directory_mixed(void **state)
{
	struct ringsum_inspection *inspection;
	const struct ringsum_shard *shard;

	(void)state;
	assert_int_equal(mkdir(at_base("some"), 0755), 0);
	make_shard("some/1.safetensors", MIXED, MIXED_BYTES);
	make_shard("some/2.safetensors", MIXED, MIXED_BYTES - 1);
	assert_int_equal(mkdir(at_base("some/3.safetensors"), 0755), 0);
	assert_int_equal(mkfifo(at_base("some/4.safetensors"), 0644), 0);
	make_shard("outside.safetensors", MIXED, MIXED_BYTES);
	assert_int_equal(symlink("../outside.safetensors", at_base("some/5.safetensors")), 0);
	assert_int_equal(symlink("1.safetensors", at_base("some/6.safetensors")), 0);
	inspection = inspect("some");
	assert_int_equal(ringsum_inspection_verdict(inspection), RINGSUM_VERDICT_REFUSED);
	assert_int_equal(ringsum_inspection_shard_count(inspection), 6);
	shard = ringsum_inspection_shard_at(inspection, 2);
	assert_int_equal(shard->code, RINGSUM_FINDING_FILE_TYPE);
	shard = ringsum_inspection_shard_at(inspection, 3);
	assert_int_equal(shard->code, RINGSUM_FINDING_FILE_TYPE);
	shard = ringsum_inspection_shard_at(inspection, 4);
	assert_int_equal(shard->code, RINGSUM_FINDING_PATH_ESCAPE);
	shard = ringsum_inspection_shard_at(inspection, 5);
	assert_int_equal(shard->verdict, RINGSUM_VERDICT_IDENTICAL);
	assert_int_equal(shard->tensor_count, 4);
	expect_in_text(inspection, "refused  path-escape  5.safetensors: ");
	expect_in_text(inspection, "refused: 6 shards, of which 2 valid, 4 refused, 0 undecided\n");
	ringsum_inspection_free(inspection);
}

/* ---- the caller's side ------------------------------------------------------------------- */

static void test_misuse(void **state)
{
	struct {
		struct ringsum_options known;
		char unknown[8];
	} longer = { .known = RINGSUM_OPTIONS_INIT };
	struct ringsum_inspection *inspection = NULL;
	struct ringsum_error err = { 0 };

	(void)state;
	make_shard("mixed", MIXED, MIXED_BYTES);
	assert_int_equal(ringsum_inspect(NULL, NULL, &inspection, &err), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_inspect("x", NULL, NULL, NULL), RINGSUM_E_INVALID);
	longer.known.size_bytes = 0;
	assert_int_equal(ringsum_inspect(at_base("mixed"), &longer.known, &inspection, &err),
			 RINGSUM_E_INVALID);
	longer.known.size_bytes = sizeof(longer);
	assert_int_equal(ringsum_inspect(at_base("mixed"), &longer.known, &inspection, &err),
			 RINGSUM_OK);
	ringsum_inspection_free(inspection);
	longer.unknown[7] = 1;
	assert_int_equal(ringsum_inspect(at_base("mixed"), &longer.known, &inspection, &err),
			 RINGSUM_E_INVALID);
	assert_int_equal(ringsum_inspection_to_json(NULL, NULL, NULL), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_inspection_to_text(NULL, NULL, NULL), RINGSUM_E_INVALID);
	ringsum_inspection_free(NULL);
}

static void *inspect_often(void *arg)
{
	unsigned i, *failures = arg;

	for (i = 0; i < 50; i++) {
		struct ringsum_inspection *inspection = NULL;
		char *text = NULL;

		if (ringsum_inspect(at_base("mixed"), NULL, &inspection, NULL) ||
		    ringsum_inspection_verdict(inspection) != RINGSUM_VERDICT_IDENTICAL ||
		    ringsum_inspection_to_json(inspection, &text, NULL))
			(*failures)++;
		ringsum_free(text);
		ringsum_inspection_free(inspection);
	}
	return NULL;
}

static void test_threads(void **state)
{
	unsigned failures[4] = { 0 };
	pthread_t threads[4];
	size_t i;

	(void)state;
	make_shard("mixed", MIXED, MIXED_BYTES);
	for (i = 0; i < COUNT_OF(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, inspect_often, &failures[i]), 0);
	for (i = 0; i < COUNT_OF(threads); i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(failures[i], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid_calls),	cmocka_unit_test(test_valid_json),
		cmocka_unit_test(test_valid_text),	cmocka_unit_test(test_dtypes),
		cmocka_unit_test(test_not_safetensors), cmocka_unit_test(test_wrong_length),
		cmocka_unit_test(test_bad_headers),	cmocka_unit_test(test_special_files),
		cmocka_unit_test(test_device),		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_nothing),		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_directory_mixed), cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
