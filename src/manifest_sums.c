/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses lists of checksums into promises of whole files. What GNU sha256sum -c reads is read
 * alike (src/digest.c of coreutils 9 is what the rules are from), and more is named or read:
 *
 *	HEX  NAME  HEX *NAME      sha256sum; a leading \ says that NAME has \\ \n \r escaped
 *	HEX NAME                  BSD reversed, where the first line is so
 *	SHA256 (NAME) = HEX       --tag, and the same of other algorithms
 *	SHA256(NAME)= HEX         openssl 1, and SHA2-256(NAME)= HEX, openssl 3
 *
 * What is no such line is refused, where sha256sum only warns: it could have been a promise.
 */
#include "manifest.h"

#include <assert.h>
#include <string.h>

#include "rsum_limits.h"

#define BOM_UTF8 "\xef\xbb\xbf"

/* Of a tag, which is the name of an algorithm. */
#define TAG_BYTES_MAX 24

enum style {
	STYLE_UNKNOWN,	/* no line without a tag so far */
	STYLE_STANDARD, /* two characters between digest and name */
	STYLE_REVERSED, /* one */
};

struct list {
	const char *file_name;
	struct rsum_manifest *out;
	struct ringsum_report *report;
	enum style style;
	size_t line_number;
	size_t malformed_count;
};

/* One line, taken apart. */
struct entry {
	enum rsum_algorithm algorithm;
	char algorithm_name[TAG_BYTES_MAX + 1];
	const char *hex;
	size_t hex_digits;
	char *name; /* with a NUL behind it, once it is unescaped */
	size_t name_bytes;
};

/* ---- what a line looks like ------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static size_t count_hex(const char *text, size_t length)
{
	size_t count = 0;

	while (count < length && is_hex(text[count]))
		count++;
	return count;
}

/* Letters, digits and what stands between them: "SHA2-256", "BLAKE2b-512", "SHA512/256". */
static size_t count_tag(const char *text, size_t length)
{
	static const char inside[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789-_/.";
	size_t count = 0;

	while (count < length && memchr(inside, text[count], sizeof(inside) - 1))
		count++;
	return count;
}

/* The length of a line's tag, behind which its parenthesis opens; 0 where it has none. */
static size_t tag_length(const char *line, size_t length)
{
	size_t tag = count_tag(line, length), open = tag;

	if (tag == 0 || tag > TAG_BYTES_MAX)
		return 0;
	if (open < length && line[open] == ' ')
		open++;
	return open < length && line[open] == '(' ? tag : 0;
}

/* By the digits alone. UNKNOWN: as many as a usual algorithm gives, but more than one does. */
static bool algorithm_of_digits(size_t digits, enum rsum_algorithm *algorithm_out)
{
	switch (digits) {
	case 64:
		*algorithm_out = RSUM_ALGORITHM_SHA256;
		return true;
	case 40:
		*algorithm_out = RSUM_ALGORITHM_SHA1;
		return true;
	case 32:
	case 56:
	case 96:
	case 128:
		*algorithm_out = RSUM_ALGORITHM_UNKNOWN;
		return true;
	default:
		return false;
	}
}

static bool looks_like_line(const char *line, size_t length)
{
	enum rsum_algorithm algorithm;
	size_t at = 0, digits;

	while (at < length && is_blank(line[at]))
		at++;
	if (at < length && line[at] == '\\')
		at++;
	if (tag_length(line + at, length - at))
		return true;
	digits = count_hex(line + at, length - at);
	at += digits;
	return algorithm_of_digits(digits, &algorithm) && (at == length || is_blank(line[at]));
}

/* ---- taking a line apart: each returns NULL, or why it cannot --------------------------------- */

/* In place, with a NUL behind it: whatever a name is followed by has been looked at before. */
static const char *unescape(char *name, size_t *name_bytes)
{
	size_t from, to = 0;

	for (from = 0; from < *name_bytes; from++) {
		char c = name[from];

		if (c == '\\') {
			if (++from == *name_bytes)
				return "its name ends within an escape";
			c = name[from] == 'n'	 ? '\n'
			    : name[from] == 'r'	 ? '\r'
			    : name[from] == '\\' ? '\\'
						 : '\0';
			if (c == '\0')
				return "its name has an escape other than \\\\, \\n and \\r";
		}
		name[to++] = c;
	}
	*name_bytes = to;
	return NULL;
}

static const char *check_digits(struct entry *entry)
{
	size_t wanted = 2 * rsum_algorithm_bytes(entry->algorithm);

	if (count_hex(entry->hex, entry->hex_digits) != entry->hex_digits || !entry->hex_digits)
		return "where the digest should be is something else than hex digits";
	if (wanted && entry->hex_digits != wanted)
		return "its digest has not as many digits as its algorithm gives";
	return NULL;
}

/* TAG (NAME) = HEX: the last parenthesis ends the name. */
static const char *read_tagged(char *line, size_t length, size_t tag, struct entry *entry)
{
	size_t begin = tag + (line[tag] == ' ') + 1, end = length;

	memcpy(entry->algorithm_name, line, tag);
	entry->algorithm_name[tag] = '\0';
	entry->algorithm = rsum_algorithm_of_name(line, tag);
	while (end > begin && line[end - 1] != ')')
		end--;
	if (end == begin)
		return "no parenthesis ends its name";
	entry->name = line + begin;
	entry->name_bytes = end - 1 - begin;
	while (end < length && is_blank(line[end]))
		end++;
	if (end == length || line[end] != '=')
		return "behind its name is no equals sign";
	end++;
	while (end < length && is_blank(line[end]))
		end++;
	entry->hex = line + end;
	entry->hex_digits = length - end;
	return check_digits(entry);
}

static const char *read_untagged(struct list *list, char *line, size_t length, struct entry *entry)
{
	size_t digits = count_hex(line, length), at = digits;

	if (!algorithm_of_digits(digits, &entry->algorithm))
		return "it begins neither with a digest nor with the name of an algorithm";
	if (entry->algorithm == RSUM_ALGORITHM_UNKNOWN)
		snprintf(entry->algorithm_name, sizeof(entry->algorithm_name), "of %zu digits",
			 digits);
	entry->hex = line;
	entry->hex_digits = digits;
	if (at == length || !is_blank(line[at]))
		return at == length ? "there is no name behind its digest"
				    : "no blank ends its digest";
	at++;
	if (at == length)
		return "there is no name behind its digest";
	/* One blank means that all are so: otherwise names that begin with one could be faked. */
	if (length - at == 1 || (line[at] != ' ' && line[at] != '*')) {
		if (list->style == STYLE_STANDARD)
			return "one blank is before its name, where the lines before have two "
			       "characters";
		list->style = STYLE_REVERSED;
	} else if (list->style != STYLE_REVERSED) {
		list->style = STYLE_STANDARD;
		at++;
	}
	entry->name = line + at;
	entry->name_bytes = length - at;
	return NULL;
}

static const char *read_line(struct list *list, char *line, size_t length, struct entry *entry)
{
	const char *reason;
	bool is_escaped;
	size_t tag;

	while (length > 0 && is_blank(*line)) {
		line++;
		length--;
	}
	is_escaped = length > 0 && *line == '\\';
	line += is_escaped;
	length -= is_escaped;
	tag = tag_length(line, length);
	reason = tag ? read_tagged(line, length, tag, entry)
		     : read_untagged(list, line, length, entry);
	if (!reason && is_escaped)
		reason = unescape(entry->name, &entry->name_bytes);
	if (!reason && entry->name_bytes == 0)
		reason = "its name is empty";
	if (!reason && entry->name_bytes > RSUM_LIMIT_NAME_BYTES)
		reason = "its name is longer than 4096 bytes, which is the limit";
	return reason;
}

/* ---- a list ------------------------------------------------------------------------------------- */

/* Returns 0, RINGSUM_E_REFUSED with a finding of its own, or RINGSUM_E_NOMEM. */
static int refuse_list(const struct list *list, struct rsum_manifest_mark mark, const char *message)
{
	rsum_manifest_complain(list->report, list->file_name, NULL, NULL, message);
	return rsum_manifest_rewind(list->out, mark) ? RINGSUM_E_NOMEM : RINGSUM_E_REFUSED;
}

static void complain_of_line(struct list *list, const char *line, size_t length, const char *reason)
{
	char shown[96], message[256], *copy = strndup(line, length);

	list->malformed_count++;
	snprintf(message, sizeof(message), "line %zu is no checksum of a file: %s",
		 list->line_number, reason);
	rsum_manifest_complain(list->report, list->file_name, NULL,
			       copy ? rsum_text_shorten(copy, shown, sizeof(shown)) : NULL,
			       message);
	free(copy);
}

static int add_entry(struct list *list, const struct entry *entry)
{
	struct rsum_file_promise promise = {
		.end = UINT64_MAX,
		.size_bytes = UINT64_MAX,
		.algorithm = entry->algorithm,
		.algorithm_name =
			entry->algorithm == RSUM_ALGORITHM_UNKNOWN ? entry->algorithm_name : NULL,
		.digest_bytes = rsum_algorithm_bytes(entry->algorithm),
	};
	char *name = strndup(entry->name, entry->name_bytes);
	int result;

	if (!name)
		return RINGSUM_E_NOMEM;
	RSUM_ASSERT(rsum_hex_decode(entry->hex, promise.digest_bytes, promise.digest));
	promise.path = name;
	result = rsum_manifest_add_file(list->out, &promise);
	free(name);
	return result;
}

/* "model.safetensors.sha256" may hold nothing but the digest of model.safetensors. */
static bool is_bare_digest(const struct list *list, char *text, size_t length, struct entry *entry)
{
	const char *slash = strrchr(list->file_name, '/');
	const char *name = slash ? slash + 1 : list->file_name, *dot = strrchr(name, '.');

	while (length > 0 && memchr(" \t\r\n", text[length - 1], 4))
		length--;
	if (length != 64 || count_hex(text, length) != length || !dot || dot == name ||
	    (strcmp(dot, ".sha256") != 0 && strcmp(dot, ".sha256sum") != 0))
		return false;
	*entry = (struct entry){
		.algorithm = RSUM_ALGORITHM_SHA256,
		.hex = text,
		.hex_digits = length,
		.name = (char *)(uintptr_t)name,
		.name_bytes = (size_t)(dot - name),
	};
	return true;
}

/* Without its line feed and one carriage return; nothing where it is a comment or empty. */
static size_t trim(const char *line, size_t length)
{
	size_t blanks = 0;

	if (length > 0 && line[length - 1] == '\r')
		length--;
	while (blanks < length && is_blank(line[blanks]))
		blanks++;
	return blanks == length || *line == '#' ? 0 : length;
}

static int read_lines(struct list *list, char *text, size_t size_bytes)
{
	char *end = text + size_bytes, *next;
	int result = 0;

	for (; text < end && result == 0; text = next) {
		char *feed = memchr(text, '\n', (size_t)(end - text));
		struct entry entry = { 0 };
		const char *reason;
		size_t length;

		next = feed ? feed + 1 : end;
		length = trim(text, (size_t)((feed ? feed : end) - text));
		list->line_number++;
		if (length == 0)
			continue;
		reason = read_line(list, text, length, &entry);
		if (!reason)
			result = add_entry(list, &entry);
		else
			complain_of_line(list, text, length, reason);
		if (list->malformed_count == RSUM_LIMIT_SHORT_ENTRIES)
			return RINGSUM_E_REFUSED;
	}
	return result;
}

/* What the document is encoded as, where that is why it cannot be read; else NULL. */
static const char *encoding_fault(const char *text, size_t size_bytes)
{
	if (size_bytes >= 2 &&
	    (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
		return "the list is encoded as UTF-16, as some shells redirect it; write it again "
		       "as UTF-8 or ASCII";
	if (!memchr(text, '\0', size_bytes))
		return NULL;
	if (size_bytes >= 2 && (text[0] == '\0' || text[1] == '\0'))
		return "the list is encoded as UTF-16 or UTF-32; write it again as UTF-8 or ASCII";
	if (looks_like_line(text, strnlen(text, size_bytes)))
		return "the list was made with --zero: its lines end with NUL, which sha256sum -c "
		       "does not read either; make it again without --zero";
	return "the list holds NUL, so that it is no list of checksums";
}

static int read_list(struct list *list, char *text, size_t size_bytes)
{
	struct rsum_manifest_mark mark = rsum_manifest_mark(list->out);
	const char *fault;
	struct entry bare;
	int result;

	if (size_bytes > RSUM_LIMIT_MANIFEST_BYTES)
		return refuse_list(list, mark, "the list is larger than 1 GiB, which is the limit");
	fault = encoding_fault(text, size_bytes);
	if (fault)
		return refuse_list(list, mark, fault);
	if (size_bytes >= 3 && memcmp(text, BOM_UTF8, 3) == 0) {
		rsum_report_add(list->report,
				&(struct ringsum_finding){
					.code = RINGSUM_FINDING_MANIFEST_INVALID,
					.severity = RINGSUM_SEVERITY_NOTE,
					.file = list->file_name,
					.message = "the list begins with a UTF-8 byte order mark, "
						   "which was passed over; sha256sum -c does not "
						   "read its first line",
				});
		text += 3;
		size_bytes -= 3;
	}
	if (is_bare_digest(list, text, size_bytes, &bare))
		return add_entry(list, &bare);
	result = read_lines(list, text, size_bytes);
	if (result == RINGSUM_E_REFUSED)
		return refuse_list(list, mark,
				   "more than 10000 lines are no checksums; that is the limit");
	if (result == RINGSUM_E_LIMIT)
		return refuse_list(list, mark,
				   "the list names more files than the limit of 100000");
	return result;
}
static_assert(RSUM_LIMIT_NAME_BYTES == 4096 && RSUM_LIMIT_SHORT_ENTRIES == 10000 &&
		      RSUM_LIMIT_SHARDS == 100000 && RSUM_LIMIT_MANIFEST_BYTES == UINT64_C(1) << 30,
	      "as the messages above say");

static int parse(char *text, size_t size_bytes, const char *file_name, struct rsum_manifest *out,
		 struct ringsum_report *report)
{
	struct list list = { .file_name = file_name, .out = out, .report = report };
	int result = read_list(&list, text, size_bytes);

	free(text);
	out->is_usable |= result == 0;
	return result;
}

/* Its first line that is no comment looks like a checksum, or its encoding says that it is text. */
static bool detect(const char *text, size_t size_bytes)
{
	const char *end;

	if (size_bytes >= 2 &&
	    (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
		return true;
	if (size_bytes >= 3 && memcmp(text, BOM_UTF8, 3) == 0) {
		text += 3;
		size_bytes -= 3;
	}
	end = text + size_bytes;
	while (text < end) {
		const char *feed = memchr(text, '\n', (size_t)(end - text));
		size_t length = trim(text, (size_t)((feed ? feed : end) - text));

		if (length > 0)
			return looks_like_line(text, length);
		text = feed ? feed + 1 : end;
	}
	return false;
}

const struct rsum_manifest_format rsum_manifest_sums = {
	.name = "sha256sum",
	.detect = detect,
	.parse = parse,
};
