/* SPDX-License-Identifier: Apache-2.0 */
/* Files with keys: opened where the caller says, bounded, and forgotten where they are secret. */
#include "key_files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "confine.h"
#include "error.h"

/* A file on its way to becoming a key. */
struct key_text {
	char *text;
	size_t size_bytes;
};

int rsum_given_file_read(const char *path, const char *what, uint64_t limit_bytes, char **text_out,
			 size_t *size_bytes_out, struct ringsum_error *err)
{
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int fd = -1, os_errno = 0, result;

	/* What a refusal advises is meant for a checkpoint's files. */
	if (rsum_confine_open_given(path, &fd, &identity, &os_errno, &refusal) != RSUM_CONFINE_OK)
		return rsum_error_set(
			err, RINGSUM_E_IO, "%s (%.300s) %s%s", what, path,
			refusal.code == RINGSUM_FINDING_FILE_MISSING ? "" : "cannot be read: ",
			refusal.code == RINGSUM_FINDING_FILE_MISSING ? "is not there"
			: refusal.code == RINGSUM_FINDING_FILE_TYPE  ? refusal.actual
								     : refusal.message);
	result = rsum_file_read_all(fd, limit_bytes, text_out, size_bytes_out);
	close(fd);
	if (result == -ENOMEM)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for %s", what);
	if (result == -EFBIG)
		return rsum_error_set(err, RINGSUM_E_IO,
				      "%s (%.300s) is larger than %llu bytes, which is the limit",
				      what, path, (unsigned long long)limit_bytes);
	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result,
					    "%s (%.300s) cannot be read", what, path);
	return RINGSUM_OK;
}

static int read_text(const char *path, const char *what, struct key_text *out,
		     struct ringsum_error *err)
{
	return rsum_given_file_read(path, what, RSUM_LIMIT_KEY_BYTES, &out->text, &out->size_bytes,
				    err);
}

static void forget(struct key_text *text)
{
	if (text->text)
		explicit_bzero(text->text, text->size_bytes);
	free(text->text);
	*text = (struct key_text){ 0 };
}

/* Puts a reader's line into *err, with the file it is about. */
static int conclude(int result, const char *path, const char *what, const char *reason,
		    struct ringsum_error *err)
{
	if (result == RINGSUM_E_NOMEM)
		return rsum_error_set(err, result, "out of memory for %s", what);
	if (result != RINGSUM_OK)
		return rsum_error_set(err, result, "%s (%.300s) cannot be used: %s", what, path,
				      reason);
	return RINGSUM_OK;
}

int rsum_public_key_load(const char *path, struct rsum_public_key **out, struct ringsum_error *err)
{
	static const char what[] = "the public key";
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct key_text text = { 0 };
	int result = read_text(path, what, &text, err);

	if (result != RINGSUM_OK)
		return result;
	result = rsum_public_key_read(text.text, text.size_bytes, out, reason);
	forget(&text); /* somebody may have named the private key by mistake */
	return conclude(result, path, what, reason, err);
}

int rsum_authorities_load(const char *path, struct rsum_authorities **out,
			  struct ringsum_error *err)
{
	static const char what[] = "the list of authorities";
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct key_text text = { 0 };
	int result = read_text(path, what, &text, err);

	if (result != RINGSUM_OK)
		return result;
	result = rsum_authorities_read(text.text, text.size_bytes, out, reason);
	forget(&text);
	return conclude(result, path, what, reason, err);
}

/* Cuts the text after its first line, which has to be a usable passphrase. */
static int cut_line(struct key_text *text, const char *path, struct ringsum_error *err)
{
	char *end = memchr(text->text, '\n', text->size_bytes);
	size_t length = end ? (size_t)(end - text->text) : text->size_bytes;

	if (length > 0 && text->text[length - 1] == '\r')
		length--;
	if (length == 0 || memchr(text->text, '\0', length))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "the passphrase (%.300s) cannot be used: its first line is "
				      "empty or has a NUL inside",
				      path);
	/* The reader of files leaves room for one NUL behind them. */
	text->text[length] = '\0';
	return RINGSUM_OK;
}

int rsum_private_key_load(const char *path, const char *passphrase_path,
			  struct rsum_private_key **out, struct ringsum_error *err)
{
	static const char what[] = "the private key";
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct key_text text = { 0 }, passphrase = { 0 };
	int result = read_text(path, what, &text, err);

	if (result == RINGSUM_OK && passphrase_path)
		result = read_text(passphrase_path, "the passphrase", &passphrase, err);
	if (result == RINGSUM_OK && passphrase_path)
		result = cut_line(&passphrase, passphrase_path, err);
	if (result == RINGSUM_OK) {
		result = rsum_private_key_read(text.text, text.size_bytes, passphrase.text, out,
					       reason);
		result = conclude(result, path, what, reason, err);
	}
	forget(&passphrase);
	forget(&text);
	return result;
}

int rsum_chain_load(const char *path, const struct rsum_private_key *key, struct rsum_chain *out,
		    struct ringsum_error *err)
{
	static const char what[] = "the certificate chain";
	char reason[RSUM_SIGNATURE_REASON_BYTES] = "";
	struct key_text text = { 0 };
	int result = read_text(path, what, &text, err);

	if (result != RINGSUM_OK)
		return result;
	result = rsum_chain_read(text.text, text.size_bytes, key, out, reason);
	forget(&text);
	return conclude(result, path, what, reason, err);
}
