/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of the objects that are open, so that one given twice is refused.
 *
 * A new key is compared with those of the innermost object only. While that has few, it is a
 * walk over them; from then on its keys are also in a hash table with linear probing. Keys leave
 * the table strictly in the reverse of the order in which they came, so a slot can simply be
 * emptied: no key that is still there was ever pushed past it.
 */
#include <assert.h>
#include <string.h>

#include "json_parts.h"
#include "name_index.h"
#include "ringsum.h"

struct key {
	uint32_t offset; /* in the text, decoded */
	uint32_t length;
};

/*
 * The stack grows by blocks that stay where they are: it is never copied, and never larger than
 * its keys by more than a block. A table of keys may well be larger than the text that they are
 * from, so that every slack would show in the peak of memory.
 */
#define BLOCK_BITS 12
#define BLOCK_KEYS (UINT32_C(1) << BLOCK_BITS)
#define BLOCK_COUNT_MAX (RSUM_LIMIT_JSON_KEYS / BLOCK_KEYS + 1)

struct rsum_json_keys {
	struct key *blocks[BLOCK_COUNT_MAX]; /* of BLOCK_KEYS each; NULL from block_count on */
	uint32_t block_count;
	uint32_t count;
	uint32_t *slots; /* 0 is empty; else index + 1, below a few bits of the hash */
	uint32_t slot_count;
	uint32_t slots_used;
};

#define KEY_INDEX_BITS 23
#define KEY_INDEX_MASK ((UINT32_C(1) << KEY_INDEX_BITS) - 1)
#define WALKED_KEYS_MAX 8
#define SLOT_COUNT_MIN 256

/* Begins with a table that will do for most headers, at a twelfth of the size of the text. */
#define TEXT_BYTES_PER_SLOT 48
#define KEY_BYTES_MIN 5 /* of text: "": and a digit, and what follows it */
static_assert(RSUM_LIMIT_JSON_KEYS < KEY_INDEX_MASK, "a slot has room for every index");

#define SHOWN_BYTES_MAX 64

/* Shows at most 64 bytes of the key, cut between characters; control characters as \x1b. */
static int refuse_duplicate(struct rsum_json *json, const struct rsum_json_token *token)
{
	char shown[SHOWN_BYTES_MAX + 8];
	size_t used = 0, taken = 0;

	while (taken < token->length) {
		unsigned char byte = (unsigned char)token->string[taken];
		bool is_control = byte < 0x20 || byte == 0x7f;

		if (used + (is_control ? 4 : 1) > SHOWN_BYTES_MAX)
			break;
		if (is_control)
			used += (size_t)snprintf(shown + used, 5, "\\x%02x", (unsigned)byte);
		else
			shown[used++] = (char)byte;
		taken++;
	}
	/* What is taken back here are bytes of one character, each shown as it is. */
	while (taken < token->length && taken &&
	       ((unsigned char)token->string[taken] & 0xc0) == 0x80) {
		taken--;
		used--;
	}
	snprintf(shown + used, sizeof(shown) - used, "%s", taken < token->length ? "..." : "");
	return rsum_json_refuse(json, token->offset, "duplicate key \"%s\"", shown);
}

static struct key *key_at(const struct rsum_json_keys *keys, uint32_t index)
{
	return &keys->blocks[index >> BLOCK_BITS][index & (BLOCK_KEYS - 1)];
}

/* The scope's part keeps the same key, used at many depths, from crowding one place. */
static uint64_t hash_key(const struct rsum_json *json, uint32_t index, uint32_t first_key)
{
	const struct key *key = key_at(json->keys, index);

	return rsum_hash_bytes(json->text + key->offset, key->length) +
	       first_key * UINT64_C(0x9e3779b97f4a7c15);
}

static uint32_t slot_home(const struct rsum_json_keys *keys, uint64_t hash)
{
	return (uint32_t)((hash >> 32) * keys->slot_count >> 32);
}

static uint32_t slot_next(const struct rsum_json_keys *keys, uint32_t slot)
{
	return slot + 1 == keys->slot_count ? 0 : slot + 1;
}

static uint32_t slot_value(uint64_t hash, uint32_t index)
{
	return (uint32_t)hash << KEY_INDEX_BITS | (index + 1);
}

static bool keys_equal(const struct rsum_json *json, uint32_t a_index, uint32_t b_index)
{
	const struct key *a = key_at(json->keys, a_index);
	const struct key *b = key_at(json->keys, b_index);

	return a->length == b->length &&
	       memcmp(json->text + a->offset, json->text + b->offset, a->length) == 0;
}

/* Puts a key into the table, which has room. False where its scope has an equal one. */
static bool hash_in(struct rsum_json *json, uint32_t index, uint32_t first_key)
{
	struct rsum_json_keys *keys = json->keys;
	uint64_t hash = hash_key(json, index, first_key);
	uint32_t value = slot_value(hash, index);
	uint32_t slot = slot_home(keys, hash);

	for (; keys->slots[slot]; slot = slot_next(keys, slot)) {
		uint32_t other = (keys->slots[slot] & KEY_INDEX_MASK) - 1;

		if ((keys->slots[slot] ^ value) >> KEY_INDEX_BITS == 0 && other >= first_key &&
		    keys_equal(json, other, index))
			return false;
	}
	keys->slots[slot] = value;
	keys->slots_used++;
	return true;
}

static void hash_out(struct rsum_json *json, uint32_t index, uint32_t first_key)
{
	struct rsum_json_keys *keys = json->keys;
	uint64_t hash = hash_key(json, index, first_key);
	uint32_t value = slot_value(hash, index);
	uint32_t slot = slot_home(keys, hash);

	while (keys->slots[slot] != value) {
		RSUM_ASSERT(keys->slots[slot]);
		slot = slot_next(keys, slot);
	}
	keys->slots[slot] = 0;
	keys->slots_used--;
}

/* Takes the keys from `first_key` on out of the table, the newest first. */
static void empty_table_of(struct rsum_json *json, uint32_t first_key)
{
	struct rsum_json_keys *keys = json->keys;
	uint32_t count = keys->count - first_key;

	/* Nobody else is in it, and it is full enough for this to be the shorter way. */
	if (keys->slots_used == count && count >= keys->slot_count / 8) {
		memset(keys->slots, 0, keys->slot_count * sizeof(*keys->slots));
		keys->slots_used = 0;
		return;
	}
	for (uint32_t i = keys->count; i > first_key; i--)
		hash_out(json, i - 1, first_key);
}

/* Fills an empty table in the order of the stack, which is the order in which keys came. */
static void hash_again(struct rsum_json *json)
{
	for (unsigned i = 0; i < json->depth; i++) {
		uint32_t first = json->scopes[i].first_key;
		uint32_t end =
			i + 1 < json->depth ? json->scopes[i + 1].first_key : json->keys->count;

		for (uint32_t k = first; json->scopes[i].is_hashed && k < end; k++)
			RSUM_ASSERT(hash_in(json, k, first));
	}
}

/*
 * Half as many again, but no more than for all keys that can still come: those that the rest of
 * the text has room for, and those of the open objects that are not in the table yet.
 */
static uint32_t grown_slot_count(const struct rsum_json *json, uint32_t extra)
{
	const struct rsum_json_keys *keys = json->keys;
	uint64_t left = json->size_bytes - json->position;
	uint64_t walked = (uint64_t)json->depth * WALKED_KEYS_MAX;
	uint64_t needed = (keys->slots_used + extra + walked + left / KEY_BYTES_MIN) / 3 * 4 + 8;
	uint64_t grown = RSUM_MAX(keys->slot_count / 2 * 3,
				  (uint32_t)json->size_bytes / TEXT_BYTES_PER_SLOT);

	return (uint32_t)RSUM_MAX(RSUM_MIN(grown, needed), SLOT_COUNT_MIN);
}

/* Room for `extra` more keys with a quarter of the slots empty; one table at a time. */
static int reserve_slots(struct rsum_json *json, uint32_t extra)
{
	struct rsum_json_keys *keys = json->keys;

	if (keys->slots_used + extra <= keys->slot_count / 4 * 3)
		return 0;
	keys->slot_count = grown_slot_count(json, extra);
	RSUM_ASSERT(keys->slots_used + extra <= keys->slot_count / 4 * 3);
	keys->slots_used = 0;
	free(keys->slots);
	keys->slots = calloc(keys->slot_count, sizeof(*keys->slots));
	if (!keys->slots)
		return rsum_json_stop(json, RINGSUM_E_NOMEM, json->position, "out of memory");
	hash_again(json);
	return 0;
}

/* Makes the table ready for one more key of the scope, whose other keys are in it from now on. */
static int prepare_table(struct rsum_json *json, struct rsum_json_scope *scope)
{
	int ret;

	if (scope->is_hashed)
		return reserve_slots(json, 1);
	ret = reserve_slots(json, WALKED_KEYS_MAX + 1);
	if (ret)
		return ret;
	for (uint32_t i = scope->first_key; i < json->keys->count; i++)
		RSUM_ASSERT(hash_in(json, i, scope->first_key));
	scope->is_hashed = true;
	return 0;
}

static int push_key(struct rsum_json *json, const struct rsum_json_token *token)
{
	struct rsum_json_keys *keys = json->keys;
	uint32_t block = keys->count >> BLOCK_BITS;

	if (keys->count == RSUM_LIMIT_JSON_KEYS)
		return rsum_json_stop(json, RINGSUM_E_LIMIT, token->offset,
				      "more than %d keys, which is the limit",
				      RSUM_LIMIT_JSON_KEYS);
	if (block == keys->block_count) {
		keys->blocks[block] = malloc(BLOCK_KEYS * sizeof(struct key));
		if (!keys->blocks[block])
			return rsum_json_stop(json, RINGSUM_E_NOMEM, token->offset,
					      "out of memory");
		keys->block_count++;
	}
	*key_at(keys, keys->count++) = (struct key){
		.offset = (uint32_t)(token->string - json->text),
		.length = (uint32_t)token->length,
	};
	return 0;
}

/* Whether a key that stands in no table yet is in its scope already. */
static bool is_among_walked(const struct rsum_json *json, uint32_t index, uint32_t first_key)
{
	for (uint32_t i = first_key; i < index; i++) {
		if (keys_equal(json, i, index))
			return true;
	}
	return false;
}

int rsum_json_keys_add(struct rsum_json *json, const struct rsum_json_token *key)
{
	struct rsum_json_scope *scope = &json->scopes[json->depth - 1];
	uint32_t first = scope->first_key;
	uint32_t index = json->keys->count;
	bool is_new;
	int ret;

	if (index - first >= WALKED_KEYS_MAX) {
		ret = prepare_table(json, scope);
		if (ret)
			return ret;
	}
	ret = push_key(json, key);
	if (ret)
		return ret;
	is_new = scope->is_hashed ? hash_in(json, index, first)
				  : !is_among_walked(json, index, first);
	return is_new ? 0 : refuse_duplicate(json, key);
}

void rsum_json_keys_enter(const struct rsum_json *json, struct rsum_json_scope *scope)
{
	scope->first_key = json->keys->count;
	scope->is_hashed = false;
}

void rsum_json_keys_leave(struct rsum_json *json)
{
	const struct rsum_json_scope *scope = &json->scopes[json->depth - 1];
	struct rsum_json_keys *keys = json->keys;

	if (scope->is_hashed)
		empty_table_of(json, scope->first_key);
	keys->count = scope->first_key;
}

struct rsum_json_keys *rsum_json_keys_new(void)
{
	return calloc(1, sizeof(struct rsum_json_keys));
}

void rsum_json_keys_free(struct rsum_json_keys *keys)
{
	if (!keys)
		return;
	for (uint32_t i = 0; i < keys->block_count; i++)
		free(keys->blocks[i]);
	free(keys->slots);
	free(keys);
}
