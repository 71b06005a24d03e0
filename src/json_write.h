/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON for the writers, one small object at a time through json-c: no tree of a whole document
 * is ever in memory, and every failure of memory is noticed.
 */
#ifndef RSUM_JSON_WRITE_H
#define RSUM_JSON_WRITE_H

#include "base.h"
#include "report.h"

struct json_object;

/* An object in the making. Once has_failed is set the rest does nothing. */
struct rsum_json_object {
	struct json_object *json; /* NULL after it was appended */
	bool has_failed;
};

struct rsum_json_object rsum_json_object_new(void);

/* Adds a member. NULL text becomes null; text that is not UTF-8 is shown with U+FFFD for each
 * byte at fault and given in full, as hex, in a second member `<key>_hex`. */
void rsum_json_put_text(struct rsum_json_object *object, const char *key, const char *text);
void rsum_json_put_count(struct rsum_json_object *object, const char *key, uint64_t count);
void rsum_json_put_bool(struct rsum_json_object *object, const char *key, bool value);
void rsum_json_put_null(struct rsum_json_object *object, const char *key);
void rsum_json_put_counts(struct rsum_json_object *object, const char *key, const uint64_t *counts,
			  size_t count);

/* Appends an object to a text and releases it; without_end leaves its last brace out, so that
 * more members can be written behind it. */
void rsum_json_append(struct rsum_text *text, struct rsum_json_object *object);
void rsum_json_append_without_end(struct rsum_text *text, struct rsum_json_object *object);

/* Appends one string, quoted. */
void rsum_json_append_string(struct rsum_text *text, const char *string);

/* Of json-c: as built, as running. */
void rsum_json_write_versions(const char **built_out, const char **running_out);

#endif
