/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole checkpoint. The input is records that make a directory, see delivery.h. Letters of the
 * record %%options: s strict, n profile none, d profile dspark-exl3, p the right pin, w a wrong
 * pin, u both engines, t several threads, o no direct I/O, r direct I/O or nothing, f the path of
 * the manifest in place of the directory's.
 *
 *	- Where the verdict is identical, the manifest as json-c reads it promises something, and
 *	  each of its ranges is in a file below the directory, with the digest promised; the
 *	  shard's header is sound, and shows that tensor there; a marker is the codebook's.
 *	- A manifest made from sound shards, with nothing changed since, is found identical.
 *	- The result follows from the verdict; every promise is counted once; the report is in
 *	  order. Both engines report the same.
 *	- The page of a report is whole and has no markup but its own; the ranges to be fetched
 *	  again neither touch nor overlap, and there are none where all is identical.
 *	- What is loaded has the digest promised, and what was not is zero. Where all is identical
 *	  all is loaded.
 */
#include "fuzz.h"

#include <endian.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "delivery.h"
#include "digest.h"
#include "report.h"
#include "report_map.h"
#include "rsum_limits.h"
#include "second_header.h"
#include "tree.h"

#define MANIFEST "TENSORS.json"
#define LOADS_MAX 64
#define LOAD_BYTES_MAX ((size_t)4 << 20)

/* What the target looks at itself, without ringsum: all of a file, or NULL. */
static char *read_file(const char *name, size_t *size_out)
{
	char path[PATH_MAX + 300], root[PATH_MAX], resolved[PATH_MAX];
	struct stat status;
	char *data = NULL;
	int fd;

	snprintf(path, sizeof(path), "%s/%.255s", fuzz_tree_path(), name);
	if (!realpath(path, resolved) || !realpath(fuzz_tree_path(), root) ||
	    strncmp(resolved, root, strlen(root)) != 0 || resolved[strlen(root)] != '/')
		return NULL;
	if (stat(resolved, &status) != 0 || !S_ISREG(status.st_mode))
		return NULL;
	fd = open(resolved, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	*size_out = (size_t)status.st_size;
	data = fuzz_alloc(*size_out + 1);
	FUZZ_CHECK(read(fd, data, *size_out) == (ssize_t)*size_out);
	close(fd);
	return data;
}

static void hex_digest(const void *data, size_t size, char hex[65])
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	FUZZ_CHECK(EVP_Digest(data, size, digest, NULL, EVP_sha256(), NULL));
	for (size_t i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned)digest[i]);
}

/* ---- options ----------------------------------------------------------------------------- */

struct setup {
	struct ringsum_options options;
	char path[PATH_MAX + 32];
	char pin[65];
	bool is_for_both_engines;
};

static void read_letters(struct setup *setup, const char *letters)
{
	struct ringsum_options *options = &setup->options;

	for (; *letters; letters++) {
		switch (*letters) {
		case 's':
			options->strict = 1;
			break;
		case 'n':
			options->profile = RINGSUM_PROFILE_NONE;
			break;
		case 'd':
			options->profile = RINGSUM_PROFILE_DSPARK_EXL3;
			break;
		case 'p':
		case 'w':
			options->manifest_sha256 = setup->pin;
			if (*letters == 'w')
				setup->pin[7] = setup->pin[7] == 'a' ? 'b' : 'a';
			break;
		case 'u':
			setup->is_for_both_engines = true;
			break;
		case 't':
			options->threads = 3;
			break;
		case 'o':
			options->direct = RINGSUM_DIRECT_OFF;
			break;
		case 'r':
			options->direct = RINGSUM_DIRECT_REQUIRE;
			break;
		case 'f':
			snprintf(setup->path, sizeof(setup->path), "%s/" MANIFEST,
				 fuzz_tree_path());
			break;
		default:
			break;
		}
	}
}

static void make_setup(struct setup *setup, const char *letters)
{
	size_t size = 0;
	char *manifest = read_file(MANIFEST, &size);

	*setup = (struct setup){ .options = RINGSUM_OPTIONS_INIT };
	setup->options.threads = 1;
	setup->options.chunk_bytes = 64 << 10;
	setup->options.memory_bytes = 256 << 10;
	setup->options.depth = 4;
	setup->options.keep_map = 1;
	setup->options.engine = RINGSUM_ENGINE_PREAD;
	snprintf(setup->path, sizeof(setup->path), "%s", fuzz_tree_path());
	hex_digest(manifest ? manifest : "", size, setup->pin);
	read_letters(setup, letters);
	free(manifest);
}

/* ---- is it really identical? ------------------------------------------------------------- */

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	FUZZ_CHECK(json_object_object_get_ex(object, key, &value));
	return value;
}

/* What the header of a shard says of the tensor is what was promised. */
static void check_header_agrees(struct json_object *promise, const char *shard, size_t size)
{
	const char *name = json_object_get_string(member(promise, "name"));
	struct json_object *range = member(promise, "destination_byte_range");
	struct json_object *root = NULL, *tensor, *offsets;
	uint64_t header_bytes, data_bytes, begin;

	FUZZ_CHECK(size >= sizeof(header_bytes));
	memcpy(&header_bytes, shard, sizeof(header_bytes));
	header_bytes = le64toh(header_bytes);
	begin = sizeof(header_bytes) + header_bytes;
	FUZZ_CHECK(header_bytes <= size - sizeof(header_bytes));
	FUZZ_CHECK(fuzz_json_c_parse(shard + sizeof(header_bytes), (size_t)header_bytes,
				     RSUM_LIMIT_HEADER_JSON_DEPTH + 8, &root));
	FUZZ_CHECK_TEXT(fuzz_header_is_sound(root, header_bytes, &data_bytes) &&
				begin + data_bytes == size,
			"a shard that is not sound was proven");
	tensor = member(root, name);
	offsets = member(tensor, "data_offsets");
	FUZZ_CHECK_TEXT(
		json_object_equal(member(tensor, "shape"), member(promise, "shape")) &&
			json_object_equal(member(tensor, "dtype"), member(promise, "dtype")),
		"another dtype or shape was proven");
	for (size_t i = 0; i < 2; i++)
		FUZZ_CHECK_TEXT(json_object_get_uint64(json_object_array_get_idx(offsets, i)) +
						begin ==
					json_object_get_uint64(json_object_array_get_idx(range, i)),
				"another range was proven");
	json_object_put(root);
}

static void check_marker(struct json_object *promise, const char *bytes, size_t size)
{
	const char *name = json_object_get_string(member(promise, "name"));
	const char *dot = strrchr(name, '.');

	if (strcmp(dot ? dot + 1 : name, "mul1") == 0)
		FUZZ_CHECK_TEXT(size >= 4 && memcmp(bytes, "\x2d\xd1\xdc\x83", 4) == 0,
				"another marker was proven");
}

static void check_promise_is_kept(struct json_object *promise, bool has_markers)
{
	struct json_object *range = member(promise, "destination_byte_range");
	const char *file = json_object_get_string(member(promise, "destination_file"));
	const char *expected = json_object_get_string(member(promise, "source_byte_range_sha256"));
	uint64_t begin = json_object_get_uint64(json_object_array_get_idx(range, 0));
	uint64_t end = json_object_get_uint64(json_object_array_get_idx(range, 1));
	size_t size = 0;
	char *data = read_file(file, &size);
	char actual[65];

	FUZZ_CHECK_TEXT(data, "a shard that is not there was proven");
	FUZZ_CHECK_TEXT(begin <= end && end <= size, "a range outside its file was proven");
	hex_digest(data + begin, (size_t)(end - begin), actual);
	FUZZ_CHECK_TEXT(strcasecmp(expected, actual) == 0, "a wrong digest was proven");
	check_header_agrees(promise, data, size);
	if (has_markers)
		check_marker(promise, data + begin, (size_t)(end - begin));
	free(data);
}

static void check_really_identical(const struct ringsum_report *report)
{
	struct json_object *root = NULL, *tensors;
	bool has_markers = strcmp(report->facts.profile, "dspark-exl3") == 0;
	struct ringsum_totals totals;
	size_t size = 0;
	char *text = read_file(MANIFEST, &size);

	FUZZ_CHECK(text && fuzz_json_c_parse(text, size, 2 * RSUM_LIMIT_JSON_DEPTH, &root));
	tensors = member(root, "tensors");
	ringsum_report_totals(report, &totals);
	FUZZ_CHECK(json_object_array_length(tensors) > 0);
	FUZZ_CHECK(json_object_array_length(tensors) == totals.tensors_identical);
	for (size_t i = 0; i < json_object_array_length(tensors); i++)
		check_promise_is_kept(json_object_array_get_idx(tensors, i), has_markers);
	json_object_put(root);
	free(text);
}

/* ---- what is made of a report -------------------------------------------------------------- */

/* Elements of the page; a name that got through as markup would be another one, or be a script. */
static void check_page(const struct ringsum_report *report)
{
	static const char *const elements[] = {
		"!DOCTYPE", "html",    "head",	  "meta", "title", "style",  "body",
		"article",  "section", "div",	  "span", "h1",	   "h3",     "h4",
		"p",	    "b",       "i",	  "a",	  "bdi",   "code",   "table",
		"thead",    "tbody",   "tr",	  "th",	  "td",	   "dl",     "dt",
		"dd",	    "details", "summary", "svg",  "path",  "footer",
	};
	struct ringsum_error err = { 0 };
	char *html = NULL;

	FUZZ_CHECK(ringsum_reports_to_html(&report, 1, &html, &err) == RINGSUM_OK);
	for (const char *at = strchr(html, '<'); at; at = strchr(at, '<')) {
		size_t length, i;

		at += at[1] == '/' ? 2 : 1;
		length = strcspn(at, " >/");
		for (i = 0; i < RSUM_COUNT_OF(elements); i++)
			if (strlen(elements[i]) == length && !memcmp(elements[i], at, length))
				break;
		FUZZ_CHECK_TEXT(i < RSUM_COUNT_OF(elements), at);
	}
	FUZZ_CHECK(strcmp(html + strlen(html) - 8, "</html>\n") == 0);
	ringsum_free(html);
}

static void check_ranges(const struct ringsum_report *report)
{
	const struct rsum_map *map = report->map;
	struct ringsum_error err = { 0 };
	char *text = NULL;

	FUZZ_CHECK(ringsum_report_to_refetch(report, &text, &err) == RINGSUM_OK);
	for (size_t i = 0; map && i < map->range_count; i++) {
		const struct rsum_map_range *range = &map->ranges[i];

		FUZZ_CHECK(range->begin < range->end && range->shard < map->shard_count);
		FUZZ_CHECK(i == 0 || range[-1].shard < range->shard ||
			   (range[-1].shard == range->shard && range[-1].end < range->begin));
	}
	FUZZ_CHECK(!map || map->range_count == 0 ||
		   ringsum_report_verdict(report) == RINGSUM_VERDICT_REFUSED);
	ringsum_free(text);
}

/* ---- verify ------------------------------------------------------------------------------ */

static void check_result(int result, const struct ringsum_report *report,
			 const struct ringsum_error *err)
{
	static const enum ringsum_result by_verdict[] = {
		[RINGSUM_VERDICT_UNDECIDED] = RINGSUM_E_UNDECIDED,
		[RINGSUM_VERDICT_IDENTICAL] = RINGSUM_OK,
		[RINGSUM_VERDICT_REFUSED] = RINGSUM_E_REFUSED,
	};
	struct ringsum_totals totals;

	if (result != RINGSUM_OK)
		FUZZ_CHECK(err->code == result && *err->message);
	FUZZ_CHECK(report || result == RINGSUM_E_NOPROMISE);
	if (!report)
		return;
	if (result == RINGSUM_E_NOPROMISE)
		FUZZ_CHECK(ringsum_report_verdict(report) == RINGSUM_VERDICT_UNDECIDED);
	else
		FUZZ_CHECK(result == (int)by_verdict[ringsum_report_verdict(report)]);
	ringsum_report_totals(report, &totals);
	FUZZ_CHECK(totals.tensors_identical + totals.tensors_refused + totals.tensors_undecided ==
		   totals.tensors_promised);
	FUZZ_CHECK(totals.bytes_proven <= totals.bytes_promised);
	fuzz_check_report(report);
	check_page(report);
	check_ranges(report);
	if (result == RINGSUM_OK)
		check_really_identical(report);
}

static int verify(const struct setup *setup, enum ringsum_engine engine,
		  struct ringsum_report **report_out)
{
	struct ringsum_options options = setup->options;
	struct ringsum_error err = { 0 };
	int result;

	options.engine = engine;
	*report_out = NULL;
	result = ringsum_verify_path(setup->path, &options, report_out, &err);
	check_result(result, *report_out, &err);
	return result;
}

static bool texts_are_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check_same_reports(const struct ringsum_report *a, const struct ringsum_report *b)
{
	size_t count = ringsum_report_finding_count(a);
	struct ringsum_totals of_a, of_b;

	ringsum_report_totals(a, &of_a);
	ringsum_report_totals(b, &of_b);
	of_a.elapsed_seconds = of_b.elapsed_seconds = 0;
	of_a.bytes_read = of_b.bytes_read = 0;
	FUZZ_CHECK(memcmp(&of_a, &of_b, sizeof(of_a)) == 0);
	FUZZ_CHECK(count == ringsum_report_finding_count(b));
	for (size_t i = 0; i < count; i++) {
		const struct ringsum_finding *left = ringsum_report_finding_at(a, i);
		const struct ringsum_finding *right = ringsum_report_finding_at(b, i);

		FUZZ_CHECK(left->code == right->code && left->severity == right->severity);
		FUZZ_CHECK(texts_are_equal(left->tensor, right->tensor));
		FUZZ_CHECK(texts_are_equal(left->file, right->file));
		FUZZ_CHECK(texts_are_equal(left->expected, right->expected));
		FUZZ_CHECK(texts_are_equal(left->actual, right->actual));
		FUZZ_CHECK(texts_are_equal(left->message, right->message));
		FUZZ_CHECK(left->begin == right->begin && left->end == right->end);
	}
}

static void compare_engines(const struct setup *setup, int expected,
			    const struct ringsum_report *report)
{
	struct ringsum_report *other;

	FUZZ_CHECK(verify(setup, RINGSUM_ENGINE_AUTO, &other) == expected);
	if (report)
		check_same_reports(report, other);
	ringsum_report_free(other);
}

/* ---- load -------------------------------------------------------------------------------- */

static void check_load(const struct ringsum_load *load)
{
	const uint8_t *bytes = load->destination;
	size_t size = (size_t)load->tensor->size_bytes;
	char expected[65], actual[65];

	if (load->status == RINGSUM_OK) {
		rsum_hex_encode_digest(load->tensor->digest_sha256, expected);
		hex_digest(bytes, size, actual);
		FUZZ_CHECK(strcmp(expected, actual) == 0);
		return;
	}
	FUZZ_CHECK(load->status == RINGSUM_E_REFUSED || load->status == RINGSUM_E_UNDECIDED);
	for (size_t i = 0; i < size; i++)
		FUZZ_CHECK(bytes[i] == 0);
}

static size_t choose_loads(const struct ringsum_checkpoint *checkpoint, struct ringsum_load *loads)
{
	size_t count = 0, bytes = 0;

	for (size_t i = 0; i < ringsum_checkpoint_tensor_count(checkpoint) && count < LOADS_MAX;
	     i++) {
		const struct ringsum_tensor *tensor = ringsum_checkpoint_tensor_at(checkpoint, i);

		FUZZ_CHECK(ringsum_checkpoint_find(checkpoint, tensor->name) == tensor);
		if (tensor->size_bytes > LOAD_BYTES_MAX - bytes)
			continue;
		bytes += (size_t)tensor->size_bytes;
		loads[count++] = (struct ringsum_load){ .tensor = tensor };
	}
	return count;
}

static void load_all(struct ringsum_checkpoint *checkpoint, bool is_identical)
{
	struct ringsum_load loads[LOADS_MAX];
	size_t count = choose_loads(checkpoint, loads), block_bytes = 0;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	void *block = NULL;
	int result;

	FUZZ_CHECK(ringsum_block_alloc(checkpoint, loads, count, &block, &block_bytes, &err) ==
		   RINGSUM_OK);
	for (size_t i = 0; i < count; i++) {
		if (loads[i].tensor->size_bytes)
			memset(loads[i].destination, 0xa5, (size_t)loads[i].tensor->size_bytes);
	}
	result = ringsum_checkpoint_load(checkpoint, loads, count, &report, &err);
	FUZZ_CHECK(report);
	fuzz_check_report(report);
	for (size_t i = 0; i < count; i++) {
		check_load(&loads[i]);
		FUZZ_CHECK(result != RINGSUM_OK || loads[i].status == RINGSUM_OK);
		FUZZ_CHECK(!is_identical || loads[i].status == RINGSUM_OK);
	}
	ringsum_report_free(report);
	ringsum_block_free(block, block_bytes);
}

static void open_and_load(const struct setup *setup, int verified)
{
	struct ringsum_checkpoint *checkpoint = NULL;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result =
		ringsum_checkpoint_open(setup->path, &setup->options, &checkpoint, &report, &err);

	FUZZ_CHECK((result == RINGSUM_OK) == (checkpoint != NULL));
	/* What was opened can still differ in its bytes; what was not cannot be identical. */
	FUZZ_CHECK(verified != RINGSUM_OK || result == RINGSUM_OK);
	FUZZ_CHECK(verified != RINGSUM_E_NOPROMISE || result == RINGSUM_E_NOPROMISE);
	if (report) {
		FUZZ_CHECK(ringsum_report_verdict(report) != RINGSUM_VERDICT_IDENTICAL);
		fuzz_check_report(report);
	}
	ringsum_report_free(report);
	if (checkpoint)
		load_all(checkpoint, verified == RINGSUM_OK);
	ringsum_checkpoint_close(checkpoint);
}

/* ---- inspect ----------------------------------------------------------------------------- */

/* Returns whether there are shards, and all of them are valid. */
static bool inspect(void)
{
	struct ringsum_inspection *inspection = NULL;
	struct ringsum_error err = { 0 };
	struct json_object *root = NULL;
	bool is_valid;
	char *text;

	if (ringsum_inspect(fuzz_tree_path(), NULL, &inspection, &err) != RINGSUM_OK) {
		FUZZ_CHECK(err.code == RINGSUM_E_NOPROMISE || err.code == RINGSUM_E_IO);
		return false;
	}
	is_valid = ringsum_inspection_verdict(inspection) == RINGSUM_VERDICT_IDENTICAL;
	FUZZ_CHECK(ringsum_inspection_to_json(inspection, &text, &err) == RINGSUM_OK);
	FUZZ_CHECK_TEXT(fuzz_json_c_parse(text, strlen(text), 64, &root), text);
	json_object_put(root);
	ringsum_free(text);
	FUZZ_CHECK(ringsum_inspection_to_text(inspection, &text, &err) == RINGSUM_OK);
	FUZZ_CHECK(fuzz_utf8_is_valid(text, strlen(text)));
	for (const char *at = text; *at; at++)
		FUZZ_CHECK_TEXT(((unsigned char)*at >= 0x20 && *at != 0x7f) || *at == '\n', text);
	ringsum_free(text);
	ringsum_inspection_free(inspection);
	return is_valid;
}

/* Nothing was changed since the promise was made, and no rule but the shards' own applies. */
static bool must_be_identical(const struct fuzz_delivery *delivery, const struct setup *setup)
{
	bool is_plain = delivery->is_sound && !setup->options.strict &&
			setup->options.profile == RINGSUM_PROFILE_NONE &&
			setup->options.direct != RINGSUM_DIRECT_REQUIRE;

	if (!is_plain || strchr(delivery->options, 'w') || !delivery->shard_count)
		return false;
	/* Only what inspect looks at counts, and names of several shards could be the same. */
	return delivery->shard_count == 1 && !strchr(delivery->shards[0].name, '/') &&
	       !strstr(delivery->shards[0].header, "\"\"") &&
	       strlen(delivery->shards[0].name) > 12 &&
	       strcmp(strrchr(delivery->shards[0].name, '.'), ".safetensors") == 0 &&
	       fuzz_utf8_is_valid(delivery->shards[0].name, strlen(delivery->shards[0].name)) &&
	       strstr(delivery->shards[0].header, "data_offsets");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_delivery delivery;
	struct ringsum_report *report;
	struct setup setup;
	int result;

	fuzz_delivery_init(&delivery, data, size);
	make_setup(&setup, delivery.options);
	result = verify(&setup, RINGSUM_ENGINE_PREAD, &report);
	if (inspect() && must_be_identical(&delivery, &setup))
		FUZZ_CHECK_TEXT(result == RINGSUM_OK, "a sound delivery was not found identical");
	if (setup.is_for_both_engines)
		compare_engines(&setup, result, report);
	open_and_load(&setup, result);
	ringsum_report_free(report);
	fuzz_delivery_deinit(&delivery);
	return 0;
}
