/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the JSON reader share, and nobody else sees. */
#ifndef RSUM_JSON_PARTS_H
#define RSUM_JSON_PARTS_H

#include "json.h"

enum rsum_json_state {
	RSUM_JSON_STATE_VALUE,	      /* at the beginning, after a colon or a comma */
	RSUM_JSON_STATE_ARRAY_BEGUN,  /* a value or the end of the array */
	RSUM_JSON_STATE_OBJECT_BEGUN, /* a key or the end of the object */
	RSUM_JSON_STATE_AFTER_VALUE,  /* a comma or the end of the container; the end of the text */
	RSUM_JSON_STATE_COMPLETE,
	RSUM_JSON_STATE_FAILED, /* plus the negated RINGSUM_E_* that every further call returns */
};

struct rsum_json_scope {
	uint32_t first_key; /* index in the stack of keys */
	bool is_object;
	bool is_hashed; /* its keys are in the table too */
};

/* Ends the reading: sets the state and the reason, and returns `code`. */
RSUM_PRINTF(4, 5)
int rsum_json_stop(struct rsum_json *json, int code, size_t offset, const char *format, ...);

/* Refuses, by name, what stands at the position in place of what was expected. */
int rsum_json_refuse_found(struct rsum_json *json, const char *expected);

/* json_keys.c: NULL where memory ran out; NULL may be freed. */
struct rsum_json_keys *rsum_json_keys_new(void);
void rsum_json_keys_free(struct rsum_json_keys *keys);

/* Begins the scope of a container. */
void rsum_json_keys_enter(const struct rsum_json *json, struct rsum_json_scope *scope);

/* Adds a key to the innermost object. Stops the reading where that has it already. */
RSUM_MUST_CHECK int rsum_json_keys_add(struct rsum_json *json, const struct rsum_json_token *key);

/* Forgets the keys of the innermost scope. */
void rsum_json_keys_leave(struct rsum_json *json);

/* json_scalar.c: decodes the string whose opening quote is at the position, and passes it. */
RSUM_MUST_CHECK int rsum_json_read_string(struct rsum_json *json, struct rsum_json_token *token);

/* Passes the number at the position. Without `want_real` a token may lack its real. */
RSUM_MUST_CHECK int rsum_json_read_number(struct rsum_json *json, struct rsum_json_token *token,
					  bool want_real);

#endif
