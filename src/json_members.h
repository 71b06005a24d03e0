/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a known shape, read through the pull reader: a table says which members there are
 * and who reads each. For documents that are refused as a whole where anything in them is wrong.
 */
#ifndef RSUM_JSON_MEMBERS_H
#define RSUM_JSON_MEMBERS_H

#include "json.h"

/*
 * Reads a value whose first token is `token`, exactly to its end. Returns 0, or what
 * rsum_json_refuse and the reader return.
 */
typedef int (*rsum_json_read_fn)(struct rsum_json *json, const struct rsum_json_token *token,
				 void *arg);

struct rsum_json_member {
	const char *key;
	rsum_json_read_fn read; /* NULL: read past it */
	bool is_required;
};

struct rsum_json_shape {
	const char *name; /* of the object, for messages: "`subject`" */
	const struct rsum_json_member *members;
	size_t member_count; /* at most 32 */
	bool is_closed;	     /* a member that is not in the table is refused, not passed over */
};

/* Reads the object that begins with `first` and refuses what is not of that shape. */
RSUM_MUST_CHECK int rsum_json_read_object(struct rsum_json *json,
					  const struct rsum_json_token *first,
					  const struct rsum_json_shape *shape, void *arg);

/* Reads each element of the list that begins with `first`; `name` is for messages. */
RSUM_MUST_CHECK int rsum_json_read_list(struct rsum_json *json, const struct rsum_json_token *first,
					const char *name, rsum_json_read_fn read, void *arg);

/* Reads all of a document that is one object of that shape. */
RSUM_MUST_CHECK int rsum_json_read_document(struct rsum_json *json,
					    const struct rsum_json_shape *shape, void *arg);

/* A string without NUL inside; *text_out stays in the text that is read. */
RSUM_MUST_CHECK int rsum_json_take_text(struct rsum_json *json, const struct rsum_json_token *token,
					const char *name, const char **text_out);

#endif
