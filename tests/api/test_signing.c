/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification against signed lists of files in the reference's own forms: whole files and pieces,
 * keys and certificates. What is not as signed is refused, and what was not checked is never told
 * as checked.
 */
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base.h"
#include "ringsum.h"
#include "signing.h"

#define FILE_COUNT 4
#define PIECE_BYTES 1000

/* A directory of files, a key, and a place for what is beside the directory. */
struct scene {
	char base[64];
	char root[80];
	char public_key[96];
	char bundle[96]; /* beside the directory */
	struct signing_key key;
};

static const struct {
	const char *name;
	size_t size_bytes;
} files[FILE_COUNT] = {
	{ "config.json", 20 },
	{ "empty", 0 },
	{ "sub/data.bin", 2500 },
	{ "weights.bin", 2000 },
};

static char *join(const char *directory, const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
	return path;
}

static void write_bytes(const char *path, const void *data, size_t size_bytes)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
	assert_int_equal(fclose(file), 0);
}

static void write_in(const char *directory, const char *name, const void *data, size_t size_bytes)
{
	char *path = join(directory, name);

	write_bytes(path, data, size_bytes);
	free(path);
}

static void make_content(size_t index, uint8_t *content)
{
	for (size_t i = 0; i < files[index].size_bytes; i++)
		content[i] = (uint8_t)(i * 7 + i / 256 + index);
}

static void write_files(const struct scene *scene)
{
	uint8_t content[4096];

	for (size_t i = 0; i < FILE_COUNT; i++) {
		make_content(i, content);
		write_in(scene->root, files[i].name, content, files[i].size_bytes);
	}
}

static struct scene make_scene(const char *kind)
{
	struct scene scene = { .key = signing_key_make(kind) };
	char *sub;

	snprintf(scene.base, sizeof(scene.base), "%s/ringsum-signing.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(scene.base));
	snprintf(scene.root, sizeof(scene.root), "%s/model", scene.base);
	snprintf(scene.public_key, sizeof(scene.public_key), "%s/key.pub", scene.base);
	snprintf(scene.bundle, sizeof(scene.bundle), "%s/bundle", scene.base);
	assert_int_equal(mkdir(scene.root, 0700), 0);
	sub = join(scene.root, "sub");
	assert_int_equal(mkdir(sub, 0700), 0);
	free(sub);
	write_files(&scene);
	write_bytes(scene.public_key, scene.key.public_pem, strlen(scene.key.public_pem));
	return scene;
}

static void end_scene(struct scene *scene)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", scene->base);
	assert_int_equal(system(command), 0);
	signing_key_free(&scene->key);
}

/* ---- statements over the files ------------------------------------------------------------- */

static const char *const usual_ignored[] = { ".git", "model.sig", "cache", NULL };

static char *statement_of_files(void)
{
	struct signing_resource resources[FILE_COUNT];
	uint8_t content[4096];

	for (size_t i = 0; i < FILE_COUNT; i++) {
		make_content(i, content);
		resources[i].name = files[i].name;
		signing_sha256(content, files[i].size_bytes, resources[i].sha256);
	}
	return signing_statement("model", resources, FILE_COUNT, 0, usual_ignored);
}

static char *statement_of_pieces(void)
{
	struct signing_resource resources[16];
	char names[16][64];
	uint8_t content[4096];
	size_t count = 0;

	for (size_t i = 0; i < FILE_COUNT; i++) {
		make_content(i, content);
		for (size_t at = 0; at < files[i].size_bytes; at += PIECE_BYTES) {
			size_t end = RSUM_MIN(at + PIECE_BYTES, files[i].size_bytes);

			snprintf(names[count], sizeof(names[count]), "%s:%zu:%zu", files[i].name,
				 at, end);
			resources[count].name = names[count];
			signing_sha256(content + at, end - at, resources[count].sha256);
			count++;
		}
	}
	return signing_statement("model", resources, count, PIECE_BYTES, usual_ignored);
}

static void write_text(const char *path, const char *text)
{
	write_bytes(path, text, strlen(text));
}

/* Writes a bundle over a statement, which is freed, where the scene has it. */
static void sign(const struct scene *scene, char *statement)
{
	char *bundle = signing_bundle(statement, &scene->key);

	write_text(scene->bundle, bundle);
	free(bundle);
	free(statement);
}

/* ---- verification -------------------------------------------------------------------------- */

static char *last_json, *last_text;

static int verify_with(const char *path, const char *manifest, const char *public_key,
		       const char *authorities)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result;

	options.engine = RINGSUM_ENGINE_PREAD;
	options.direct = RINGSUM_DIRECT_OFF;
	options.threads = 1;
	options.memory_bytes = 4 << 20;
	options.manifest_path = manifest;
	options.public_key_path = public_key;
	options.ca_path = authorities;
	result = ringsum_verify_path(path, &options, &report, &err);
	ringsum_free(last_json);
	ringsum_free(last_text);
	last_json = last_text = NULL;
	if (report) {
		assert_int_equal(ringsum_report_to_json(report, &last_json, NULL), 0);
		assert_int_equal(ringsum_report_to_text(report, &last_text, NULL), 0);
	}
	ringsum_report_free(report);
	return result;
}

static int verify(const struct scene *scene, const char *public_key)
{
	return verify_with(scene->root, scene->bundle, public_key, NULL);
}

static void expect(int result, int wanted, const char *what)
{
	if (result != wanted)
		fail_msg("%d, expected %d: %s", result, wanted,
			 last_text ? last_text : "no report");
	assert_non_null(last_json);
	if (!strstr(last_json, what) && !strstr(last_text, what))
		fail_msg("\"%s\" is not in the report: %s\n%s", what, last_text, last_json);
	/* Checked is said only of what was, and then by both forms of the report. */
	assert_int_equal(!!strstr(last_json, "\"checked\":true"),
			 !!strstr(last_text, "signature checked: "));
}

#define CHECKED "\"checked\":true"
#define UNCHECKED "\"checked\":false"

static void expect_refused(int result, const char *what)
{
	expect(result, RINGSUM_E_REFUSED, what);
}

/* A signature that is refused leaves nothing that counts as proven. */
static void expect_nothing_proven(int result, const char *what)
{
	expect_refused(result, what);
	expect_refused(result, "\"code\":\"signature-invalid\"");
	expect_refused(result, UNCHECKED);
	expect_refused(result, "\"proven\":0");
	expect_refused(result, "\"files\":{\"promised\":0,\"identical\":0");
}

/* ---- what is as it was signed -------------------------------------------------------------- */

static void check_form(const char *kind, char *(*statement)(void), const char *algorithm)
{
	struct scene scene = make_scene(kind);

	sign(&scene, statement());
	expect(verify(&scene, NULL), RINGSUM_OK, UNCHECKED);
	expect(verify(&scene, NULL), RINGSUM_OK, "signature not checked: ");
	expect(verify(&scene, scene.public_key), RINGSUM_OK, CHECKED);
	expect(verify(&scene, scene.public_key), RINGSUM_OK, algorithm);
	end_scene(&scene);
}

static void test_forms(void **state)
{
	(void)state;
	check_form("P-256", statement_of_files, "ecdsa-p256-sha256");
	check_form("P-384", statement_of_pieces, "ecdsa-p384-sha384");
	check_form("P-521", statement_of_files, "ecdsa-p521-sha512");
	check_form("ED25519", statement_of_pieces, "ed25519");
}

/* model.sig in the directory is found by itself, and by its name. */
static void test_found(void **state)
{
	struct scene scene = make_scene("P-256");
	char *inside = join(scene.root, "model.sig");

	(void)state;
	sign(&scene, statement_of_files());
	assert_int_equal(rename(scene.bundle, inside), 0);
	expect(verify_with(scene.root, NULL, scene.public_key, NULL), RINGSUM_OK, CHECKED);
	expect(verify_with(inside, NULL, scene.public_key, NULL), RINGSUM_OK, CHECKED);
	/* Another kind that comes first does not take a signature's place. */
	write_in(scene.root, "TENSORS.json", "{\"tensors\":[]}", 14);
	expect_refused(verify_with(scene.root, NULL, scene.public_key, NULL), "TENSORS.json");
	expect_refused(verify_with(scene.root, NULL, scene.public_key, NULL), CHECKED);
	free(inside);
	end_scene(&scene);
}

static void test_bare_statement(void **state)
{
	struct scene scene = make_scene("P-256");
	char *statement = statement_of_files();

	(void)state;
	write_text(scene.bundle, statement);
	free(statement);
	expect(verify(&scene, NULL), RINGSUM_OK, "signature not checked: the list is not signed");
	expect_nothing_proven(verify(&scene, scene.public_key), "there is none");
	end_scene(&scene);
}

static void test_legacy(void **state)
{
	struct scene scene = make_scene("P-256");
	struct signing_resource resources[FILE_COUNT];
	uint8_t content[4096];
	char *statement, *bundle;

	(void)state;
	for (size_t i = 0; i < FILE_COUNT; i++) {
		make_content(i, content);
		resources[i].name = files[i].name;
		signing_sha256(content, files[i].size_bytes, resources[i].sha256);
	}
	statement = signing_legacy_statement(resources, FILE_COUNT);
	bundle = signing_legacy_bundle(statement, &scene.key);
	write_text(scene.bundle, bundle);
	expect(verify(&scene, scene.public_key), RINGSUM_OK, CHECKED);
	free(bundle);
	free(statement);
	end_scene(&scene);
}

/* ---- what is not --------------------------------------------------------------------------- */

/* One thing done to the directory, and what is said of it, by lists of files and of pieces. */
static const struct {
	const char *name;
	size_t size_bytes; /* of the file from now on; SIZE_MAX: it is removed */
	size_t changed_at; /* this byte, if it is within the size */
	const char *files; /* finding */
	const char *pieces;
} acts[] = {
	{ "weights.bin", 2000, 1999, "digest-mismatch", "digest-mismatch" },
	{ "weights.bin", 2000, 0, "digest-mismatch", "digest-mismatch" },
	{ "weights.bin", 1999, SIZE_MAX, "digest-mismatch", "file-truncated" },
	{ "weights.bin", 1000, SIZE_MAX, "digest-mismatch", "file-truncated" },
	{ "weights.bin", 0, SIZE_MAX, "digest-mismatch", "file-truncated" },
	{ "weights.bin", 2001, SIZE_MAX, "digest-mismatch", "file-trailing" },
	{ "weights.bin", 3000, SIZE_MAX, "digest-mismatch", "file-trailing" },
	{ "sub/data.bin", SIZE_MAX, SIZE_MAX, "file-missing", "file-missing" },
	{ "empty", 1, SIZE_MAX, "digest-mismatch", "unpromised" },
	{ "more", 1, SIZE_MAX, "unpromised", "unpromised" },
	{ "sub/more", 1, SIZE_MAX, "unpromised", "unpromised" },
	{ "model.sig.more", 1, SIZE_MAX, "unpromised", "unpromised" },
	{ "sub/.git", 1, SIZE_MAX, "unpromised", "unpromised" },
};

static void act(const struct scene *scene, size_t index)
{
	uint8_t content[4096] = { 0 };
	char *path = join(scene->root, acts[index].name);

	for (size_t i = 0; i < FILE_COUNT; i++)
		if (strcmp(files[i].name, acts[index].name) == 0)
			make_content(i, content);
	if (acts[index].changed_at < sizeof(content))
		content[acts[index].changed_at] ^= 0x10;
	if (acts[index].size_bytes == SIZE_MAX)
		assert_int_equal(unlink(path), 0);
	else
		write_bytes(path, content, acts[index].size_bytes);
	free(path);
}

static void undo(const struct scene *scene, size_t index)
{
	char *path = join(scene->root, acts[index].name);

	(void)unlink(path);
	free(path);
	write_files(scene);
}

static void test_differences(void **state)
{
	struct scene scene = make_scene("ED25519");

	(void)state;
	for (unsigned in_pieces = 0; in_pieces < 2; in_pieces++) {
		sign(&scene, in_pieces ? statement_of_pieces() : statement_of_files());
		for (size_t i = 0; i < RSUM_COUNT_OF(acts); i++) {
			char code[64];

			snprintf(code, sizeof(code), "\"code\":\"%s\",\"severity\":\"refused\"",
				 in_pieces ? acts[i].pieces : acts[i].files);
			act(&scene, i);
			expect_refused(verify(&scene, scene.public_key), code);
			expect_refused(verify(&scene, NULL), code);
			undo(&scene, i);
			expect(verify(&scene, scene.public_key), RINGSUM_OK, CHECKED);
		}
	}
	end_scene(&scene);
}

/* What the list leaves out is counted, not refused; with pieces, files without bytes as well. */
static void test_left_out(void **state)
{
	struct scene scene = make_scene("P-256");
	char *cache = join(scene.root, "cache");

	(void)state;
	assert_int_equal(mkdir(cache, 0700), 0);
	write_in(cache, "x", "x", 1);
	write_in(scene.root, ".gitattributes", "x", 1);
	sign(&scene, statement_of_files());
	expect(verify(&scene, scene.public_key), RINGSUM_OK, "2 files are left out");
	write_in(scene.root, "another-empty", "", 0);
	expect_refused(verify(&scene, scene.public_key), "another-empty");
	sign(&scene, statement_of_pieces());
	expect(verify(&scene, scene.public_key), RINGSUM_OK, "4 files are left out");
	free(cache);
	end_scene(&scene);
}

/* A digest that nobody here can compute is undecided, whoever signed it. */
static void test_unknown_algorithm(void **state)
{
	struct scene scene = make_scene("P-256");
	char *statement = statement_of_files(), *at;

	(void)state;
	while ((at = strstr(statement, "\"sha256\"\n")) ||
	       (at = strstr(statement, "\"sha256\",\n")))
		memcpy(at, "\"blake3\"", 8);
	sign(&scene, statement);
	expect(verify(&scene, scene.public_key), RINGSUM_E_UNDECIDED, "digest-unsupported");
	expect(verify(&scene, scene.public_key), RINGSUM_E_UNDECIDED, "\"proven\":0");
	end_scene(&scene);
}

/* ---- wrong signatures ---------------------------------------------------------------------- */

static void test_wrong_key(void **state)
{
	struct scene scene = make_scene("P-256");
	struct signing_key other = signing_key_make("P-256");

	(void)state;
	sign(&scene, statement_of_files());
	write_text(scene.public_key, other.public_pem);
	expect_nothing_proven(verify(&scene, scene.public_key), "another key");
	signing_key_free(&other);
	end_scene(&scene);
}

static void test_unusable_keys(void **state)
{
	struct scene scene = make_scene("P-256");

	(void)state;
	sign(&scene, statement_of_files());
	assert_int_equal(verify(&scene, "/nonexistent/key"), RINGSUM_E_IO);
	assert_int_equal(verify(&scene, scene.bundle), RINGSUM_E_INVALID);
	assert_int_equal(verify_with(scene.root, scene.bundle, NULL, scene.public_key),
			 RINGSUM_E_INVALID);
	assert_int_equal(verify_with(scene.root, scene.bundle, scene.public_key, scene.public_key),
			 RINGSUM_E_INVALID);
	write_text(scene.public_key, scene.key.private_pem);
	assert_int_equal(verify(&scene, scene.public_key), RINGSUM_E_INVALID);
	end_scene(&scene);
}

/* A list that has no signature does not pass where one is asked for. */
static void test_unsigned(void **state)
{
	struct scene scene = make_scene("P-256");
	char line[128] = "", hex[65];
	uint8_t content[4096], digest[32];

	(void)state;
	make_content(0, content);
	signing_sha256(content, files[0].size_bytes, digest);
	for (unsigned i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	snprintf(line, sizeof(line), "%s  config.json\n", hex);
	write_text(scene.bundle, line);
	expect(verify(&scene, NULL), RINGSUM_OK, UNCHECKED);
	expect_nothing_proven(verify(&scene, scene.public_key), "there is none");
	write_in(scene.root, "SHA256SUMS", line, strlen(line));
	assert_int_equal(verify_with(scene.root, NULL, scene.public_key, NULL),
			 RINGSUM_E_NOPROMISE);
	end_scene(&scene);
}

static void test_certificates(void **state)
{
	struct scene scene = make_scene("P-256");
	struct signing_key root_key = signing_key_make("P-256");
	struct signing_certificate_setup setup = {
		.name = "Root",
		.key = &root_key,
		.begin_days = -100,
		.end_days = 100,
		.basic_constraints = "critical,CA:TRUE",
	};
	X509 *root = signing_certificate_make(&setup), *mine;
	char *statement = statement_of_files(), *bundle, *pem = signing_certificate_pem(root);
	char authorities[96];

	(void)state;
	snprintf(authorities, sizeof(authorities), "%s/root.pem", scene.base);
	write_text(authorities, pem);
	free(pem);
	setup = (struct signing_certificate_setup){
		.name = "Signer",
		.key = &scene.key,
		.issuer = root,
		.issuer_key = &root_key,
		.begin_days = -10,
		.end_days = 10,
		.key_usage = "critical,digitalSignature",
	};
	mine = signing_certificate_make(&setup);
	bundle = signing_chain_bundle(statement, &scene.key, (X509 *const[]){ mine, NULL });
	write_text(scene.bundle, bundle);
	free(bundle);
	expect(verify(&scene, NULL), RINGSUM_OK, "it was made with a certificate");
	expect(verify_with(scene.root, scene.bundle, NULL, authorities), RINGSUM_OK, CHECKED);
	expect(verify_with(scene.root, scene.bundle, NULL, authorities), RINGSUM_OK, "CN=Signer");
	expect_nothing_proven(verify(&scene, scene.public_key), "check it with --ca");
	pem = signing_certificate_pem(mine);
	write_text(authorities, pem);
	free(pem);
	expect_nothing_proven(verify_with(scene.root, scene.bundle, NULL, authorities),
			      "does not lead to");
	bundle = signing_keyless_bundle(statement, &scene.key, mine);
	write_text(scene.bundle, bundle);
	free(bundle);
	expect(verify(&scene, NULL), RINGSUM_OK, "\"method\":\"keyless\"");
	expect_nothing_proven(verify_with(scene.root, scene.bundle, NULL, authorities),
			      "without a key");
	free(statement);
	X509_free(root);
	X509_free(mine);
	signing_key_free(&root_key);
	end_scene(&scene);
}

/* Through the whole of it: some bits of every byte, and every 16th shorter bundle. */
static void test_changed_bundles(void **state)
{
	struct scene scene = make_scene("ED25519");
	char *statement = statement_of_files(), *bundle = signing_bundle(statement, &scene.key);
	size_t size_bytes = strlen(bundle);

	(void)state;
	for (size_t at = 0; at < size_bytes; at++) {
		bundle[at] = (char)(bundle[at] ^ 1 << at % 8);
		write_bytes(scene.bundle, bundle, size_bytes);
		if (verify(&scene, scene.public_key) == RINGSUM_OK || strstr(last_json, CHECKED))
			fail_msg("a change of byte %zu made no difference: %s", at, last_text);
		bundle[at] = (char)(bundle[at] ^ 1 << at % 8);
		if (at % 16)
			continue;
		write_bytes(scene.bundle, bundle, at);
		if (verify(&scene, scene.public_key) == RINGSUM_OK || strstr(last_json, CHECKED))
			fail_msg("the first %zu bytes were enough", at);
	}
	write_bytes(scene.bundle, bundle, size_bytes);
	expect(verify(&scene, scene.public_key), RINGSUM_OK, CHECKED);
	free(bundle);
	free(statement);
	end_scene(&scene);
}

/* ---- what we sign ourselves ---------------------------------------------------------------- */

static void test_own_bundle(void **state)
{
	struct ringsum_sign_options options = RINGSUM_SIGN_OPTIONS_INIT;
	struct scene scene = make_scene("ED25519");
	char *statement = statement_of_pieces(), *bundle = NULL, *again = NULL;
	char statement_path[96], key_path[96];
	struct ringsum_error err = { 0 };

	(void)state;
	snprintf(statement_path, sizeof(statement_path), "%s/statement", scene.base);
	snprintf(key_path, sizeof(key_path), "%s/key.pem", scene.base);
	write_text(statement_path, statement);
	write_text(key_path, scene.key.private_pem);
	options.key_path = key_path;
	assert_int_equal(ringsum_sign(statement_path, &options, &bundle, &err), 0);
	assert_int_equal(ringsum_sign(statement_path, &options, &again, &err), 0);
	assert_string_equal(bundle, again);
	write_text(scene.bundle, bundle);
	ringsum_free(bundle);
	ringsum_free(again);
	expect(verify(&scene, scene.public_key), RINGSUM_OK, CHECKED);
	assert_int_equal(ringsum_sign(NULL, &options, &bundle, &err), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_sign(statement_path, NULL, &bundle, &err), RINGSUM_E_INVALID);
	assert_int_equal(ringsum_sign(statement_path, &options, NULL, &err), RINGSUM_E_INVALID);
	options.size_bytes--;
	assert_int_equal(ringsum_sign(statement_path, &options, &bundle, NULL), RINGSUM_E_INVALID);
	free(statement);
	end_scene(&scene);
}

static int free_last(void **state)
{
	(void)state;
	ringsum_free(last_json);
	ringsum_free(last_text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_bare_statement),
		cmocka_unit_test(test_legacy),
		cmocka_unit_test(test_differences),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_unknown_algorithm),
		cmocka_unit_test(test_wrong_key),
		cmocka_unit_test(test_unusable_keys),
		cmocka_unit_test(test_unsigned),
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_changed_bundles),
		cmocka_unit_test(test_own_bundle),
	};

	return cmocka_run_group_tests_name("signing", tests, NULL, free_last);
}
