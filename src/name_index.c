/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open-addressing table of names, and SipHash-1-3 (Aumasson and Bernstein) under a key that
 * is drawn once per process. Knows nothing of what the names stand for.
 */
#include "name_index.h"

#include "ringsum.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#define SLOT_COUNT_MIN 64

struct rsum_name_slot {
	const char *name; /* NULL: the slot is empty */
	uint32_t number;
	uint32_t tag; /* of the name's hash: says where it belongs, and spares most comparisons */
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint64_t key[2];

/* Without getrandom, the 16 random bytes that the kernel gave this process at exec will do. */
static void draw_key(void)
{
	unsigned long address = getauxval(AT_RANDOM);

	if (getrandom(key, sizeof(key), GRND_NONBLOCK) != (ssize_t)sizeof(key) && address)
		memcpy(key, (const void *)address, sizeof(key));
}

static uint64_t load_le64(const unsigned char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return le64toh(word);
}

/* The last `left` (0 to 7) bytes, low byte first; where it can, with one load that ends there. */
static uint64_t load_tail(const unsigned char *bytes, size_t size_bytes, size_t left)
{
	uint64_t tail = 0;

	if (!left)
		return 0;
	if (size_bytes >= 8)
		return load_le64(bytes + size_bytes - 8) >> (64 - 8 * left);
	for (size_t i = 0; i < left; i++)
		tail |= (uint64_t)bytes[i] << (8 * i);
	return tail;
}

static uint64_t rotate(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

uint64_t rsum_hash_bytes(const void *data, size_t size_bytes)
{
	const unsigned char *bytes = data;
	uint64_t last = (uint64_t)size_bytes << 56;
	uint64_t v[4];
	size_t i;

	pthread_once(&key_once, draw_key);
	v[0] = key[0] ^ UINT64_C(0x736f6d6570736575);
	v[1] = key[1] ^ UINT64_C(0x646f72616e646f6d);
	v[2] = key[0] ^ UINT64_C(0x6c7967656e657261);
	v[3] = key[1] ^ UINT64_C(0x7465646279746573);
	for (i = 0; size_bytes - i >= 8; i += 8) {
		uint64_t word = load_le64(bytes + i);

		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	last |= load_tail(bytes, size_bytes, size_bytes - i);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot that holds `name`, or the empty one where it belongs. There is always an empty one. */
static struct rsum_name_slot *find_slot(const struct rsum_name_index *index, const char *name,
					uint32_t tag)
{
	size_t i = tag & (index->slot_count - 1);

	while (index->slots[i].name &&
	       (index->slots[i].tag != tag || strcmp(index->slots[i].name, name) != 0))
		i = (i + 1) & (index->slot_count - 1);
	return &index->slots[i];
}

static int grow(struct rsum_name_index *index, size_t slot_count)
{
	struct rsum_name_slot *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return RINGSUM_E_NOMEM;
	for (size_t i = 0; i < index->slot_count; i++) {
		size_t to = index->slots[i].tag & (slot_count - 1);

		if (!index->slots[i].name)
			continue;
		while (slots[to].name)
			to = (to + 1) & (slot_count - 1);
		slots[to] = index->slots[i];
	}
	free(index->slots);
	index->slots = slots;
	index->slot_count = slot_count;
	return 0;
}

int rsum_name_index_reserve(struct rsum_name_index *index, size_t count)
{
	size_t slot_count = RSUM_MAX(index->slot_count, SLOT_COUNT_MIN);

	if (count >= UINT32_MAX)
		return RINGSUM_E_NOMEM;
	while (slot_count / 4 * 3 < count)
		slot_count *= 2;
	return slot_count == index->slot_count ? 0 : grow(index, slot_count);
}

uint32_t rsum_name_index_tag(const char *name)
{
	return (uint32_t)rsum_hash_bytes(name, strlen(name));
}

void rsum_name_index_expect(const struct rsum_name_index *index, uint32_t tag)
{
	if (index->slot_count)
		__builtin_prefetch(&index->slots[tag & (index->slot_count - 1)], 1);
}

int rsum_name_index_add(struct rsum_name_index *index, const char *name, uint32_t number,
			uint32_t *existing_out)
{
	return rsum_name_index_add_tagged(index, name, rsum_name_index_tag(name), number,
					  existing_out);
}

int rsum_name_index_add_tagged(struct rsum_name_index *index, const char *name, uint32_t tag,
			       uint32_t number, uint32_t *existing_out)
{
	struct rsum_name_slot *slot;
	int ret;

	if (index->used_count >= index->slot_count / 4 * 3) {
		ret = grow(index, RSUM_MAX(index->slot_count * 2, SLOT_COUNT_MIN));
		if (ret)
			return ret;
	}
	slot = find_slot(index, name, tag);
	if (slot->name) {
		*existing_out = slot->number;
		return 0;
	}
	*slot = (struct rsum_name_slot){ .name = name, .number = number, .tag = tag };
	index->used_count++;
	*existing_out = RSUM_NAME_INDEX_NONE;
	return 0;
}

uint32_t rsum_name_index_find(const struct rsum_name_index *index, const char *name)
{
	const struct rsum_name_slot *slot;

	if (!index->slot_count)
		return RSUM_NAME_INDEX_NONE;
	slot = find_slot(index, name, rsum_name_index_tag(name));
	return slot->name ? slot->number : RSUM_NAME_INDEX_NONE;
}

void rsum_name_index_deinit(struct rsum_name_index *index)
{
	free(index->slots);
	*index = (struct rsum_name_index){ 0 };
}
