/* SPDX-License-Identifier: Apache-2.0 */
/* Objects, lists and strings of a known shape. */
#include "json_members.h"

#include <string.h>

#include "ringsum.h"

#define SHOWN_BYTES 40 /* of a key that nobody knows */

static int refuse_kind(struct rsum_json *json, const struct rsum_json_token *token,
		       const char *name, const char *expected)
{
	return rsum_json_refuse(json, token->offset, "%s is %s where %s is expected", name,
				rsum_json_type_text(token->type), expected);
}

static int refuse_key(struct rsum_json *json, const struct rsum_json_token *key,
		      const struct rsum_json_shape *shape)
{
	char shown[SHOWN_BYTES + 1];
	size_t length = RSUM_MIN(key->length, (size_t)SHOWN_BYTES);

	/* Not a name to be shown in full: it only has to be found in the text. */
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)key->string[i];

		shown[i] = byte > 0x20 && byte < 0x7f ? (char)byte : '?';
	}
	shown[length] = '\0';
	return rsum_json_refuse(json, key->offset, "%s has the unknown member `%s`", shape->name,
				shown);
}

static size_t find_member(const struct rsum_json_shape *shape, const struct rsum_json_token *key)
{
	size_t i;

	for (i = 0; i < shape->member_count; i++)
		if (rsum_json_equals(key, shape->members[i].key))
			break;
	return i;
}

static int check_complete(struct rsum_json *json, const struct rsum_json_token *first,
			  const struct rsum_json_shape *shape, uint32_t seen)
{
	for (size_t i = 0; i < shape->member_count; i++)
		if (shape->members[i].is_required && !(seen & UINT32_C(1) << i))
			return rsum_json_refuse(json, first->offset, "%s has no member `%s`",
						shape->name, shape->members[i].key);
	return 0;
}

int rsum_json_read_object(struct rsum_json *json, const struct rsum_json_token *first,
			  const struct rsum_json_shape *shape, void *arg)
{
	struct rsum_json_token key, value;
	rsum_json_read_fn read;
	uint32_t seen = 0;
	size_t member;
	int ret;

	RSUM_ASSERT(shape->member_count <= 32);
	if (first->type != RSUM_JSON_OBJECT_BEGIN)
		return refuse_kind(json, first, shape->name, "an object");
	for (;;) {
		ret = rsum_json_next(json, &key);
		if (ret)
			return ret;
		if (key.type == RSUM_JSON_OBJECT_END)
			return check_complete(json, first, shape, seen);
		member = find_member(shape, &key);
		if (member == shape->member_count && shape->is_closed)
			return refuse_key(json, &key, shape);
		ret = rsum_json_next(json, &value);
		if (ret)
			return ret;
		read = NULL;
		if (member < shape->member_count) {
			seen |= UINT32_C(1) << member;
			read = shape->members[member].read;
		}
		ret = read ? read(json, &value, arg) : rsum_json_skip(json, &value);
		if (ret)
			return ret;
	}
}

int rsum_json_read_list(struct rsum_json *json, const struct rsum_json_token *first,
			const char *name, rsum_json_read_fn read, void *arg)
{
	struct rsum_json_token token;
	int ret;

	if (first->type != RSUM_JSON_ARRAY_BEGIN)
		return refuse_kind(json, first, name, "a list");
	for (;;) {
		ret = rsum_json_next(json, &token);
		if (ret || token.type == RSUM_JSON_ARRAY_END)
			return ret;
		ret = read(json, &token, arg);
		if (ret)
			return ret;
	}
}

int rsum_json_read_document(struct rsum_json *json, const struct rsum_json_shape *shape, void *arg)
{
	struct rsum_json_token token;
	int ret = rsum_json_next(json, &token);

	if (!ret)
		ret = rsum_json_read_object(json, &token, shape, arg);
	if (!ret)
		ret = rsum_json_next(json, &token); /* nothing but blanks may follow */
	return ret;
}

int rsum_json_take_text(struct rsum_json *json, const struct rsum_json_token *token,
			const char *name, const char **text_out)
{
	if (token->type != RSUM_JSON_STRING)
		return refuse_kind(json, token, name, "a string");
	if (strlen(token->string) != token->length)
		return rsum_json_refuse(json, token->offset, "%s has a NUL inside", name);
	*text_out = token->string;
	return 0;
}
