/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict, bounded JSON pull reader for hostile input: RFC 8259 exactly, real UTF-8, exact
 * 64-bit integers, duplicate keys refused in every object (also when spelled with escapes),
 * depth and key limits. No tree, no allocation per token: strings are decoded in place and
 * terminated with NUL in the caller's own buffer, so the text is consumed by reading it.
 */
#ifndef RSUM_JSON_H
#define RSUM_JSON_H

#include "base.h"
#include "rsum_limits.h"

enum rsum_json_type {
	RSUM_JSON_OBJECT_BEGIN,
	RSUM_JSON_OBJECT_END,
	RSUM_JSON_ARRAY_BEGIN,
	RSUM_JSON_ARRAY_END,
	RSUM_JSON_KEY,	  /* the value follows as the next token */
	RSUM_JSON_STRING,
	RSUM_JSON_NUMBER,
	RSUM_JSON_TRUE,
	RSUM_JSON_FALSE,
	RSUM_JSON_NULL,
	RSUM_JSON_END, /* the document is complete and nothing but whitespace follows it */
};

struct rsum_json_token {
	enum rsum_json_type type;
	size_t offset; /* of its first byte in the text */
	/* Key and string: decoded, NUL-terminated at string[length]; may also hold NUL inside. */
	char *string;
	size_t length;
	/* Number: */
	bool is_integer;    /* no fraction, no exponent, and the magnitude fits 64 bits */
	bool is_negative;   /* has a minus sign ("-0" too) */
	uint64_t magnitude; /* where is_integer */
	double real;	    /* the nearest double of any number; may be infinite */
};

/* Set by rsum_json_init; read only `reason` and `error_offset`. */
struct rsum_json {
	char *text;
	size_t size_bytes;
	size_t position;
	unsigned depth;
	unsigned depth_max;
	unsigned state;
	struct rsum_json_scope *scopes; /* depth_max of them */
	struct rsum_json_keys *keys;	/* of the objects now open */
	char reason[128];		/* after a refusal: what is wrong, for a person */
	size_t error_offset;		/* after a refusal: where in the text */
};

/*
 * Begins to read text[0, size_bytes); size_bytes is below 2^32. The reader writes into the text,
 * and nobody else may while an object is open: its keys are compared there.
 * Returns 0 or RINGSUM_E_NOMEM. Ownership: the text stays the caller's; deinit the reader.
 */
RSUM_MUST_CHECK int rsum_json_init(struct rsum_json *json, char *text, size_t size_bytes,
				   unsigned depth_max);

/*
 * The next token. Returns 0; RINGSUM_E_REFUSED for what is not strict JSON (reason is set);
 * RINGSUM_E_LIMIT where depth or keys exceed their limit (reason is set); RINGSUM_E_NOMEM.
 * After a failure every further call fails alike.
 */
RSUM_MUST_CHECK int rsum_json_next(struct rsum_json *json, struct rsum_json_token *token_out);

/* Reads past the rest of the value whose first token was just read (still checking all of it). */
RSUM_MUST_CHECK int rsum_json_skip(struct rsum_json *json, const struct rsum_json_token *first);

/* Reports a consumer's own complaint as the reader's: fills reason and returns REFUSED. */
RSUM_PRINTF(3, 4)
int rsum_json_refuse(struct rsum_json *json, size_t offset, const char *format, ...);

/* Whether the token's string equals a C string (which a string with NUL inside never does). */
bool rsum_json_equals(const struct rsum_json_token *token, const char *text);

/* "a string", "an object", "the number 3": for messages that say what was found. */
const char *rsum_json_type_text(enum rsum_json_type type);

void rsum_json_deinit(struct rsum_json *json);

/* Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
bool rsum_utf8_is_valid(const char *text, size_t size_bytes);

#endif
