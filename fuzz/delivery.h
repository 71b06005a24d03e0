/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint from an input, in the tree of this process. The input is a text of records; each
 * begins with "%%" at the beginning of a line, and ends where the next one begins:
 *
 *	%%file NAME		what follows, as it is
 *	%%shard NAME		a shard: what follows is its header's JSON. Its length is put
 *				before it, and data behind it: as much as the largest offset says
 *	%%promise		TENSORS.json, made from the shards so far. Lines OLD=>NEW that
 *				follow change it: the first OLD in it becomes NEW
 *	%%link NAME		a symbolic link to the first line that follows
 *	%%dir NAME, %%fifo NAME
 *	%%flip NAME		one bit of a file, by its number, is another
 *	%%size NAME		a file is cut, or grows, to that size
 *	%%options LETTERS	see fuzz_checkpoint.c
 */
#ifndef FUZZ_DELIVERY_H
#define FUZZ_DELIVERY_H

#include "base.h"
#include "fuzz.h"

#define FUZZ_DELIVERY_SHARDS_MAX 16

struct fuzz_shard {
	char *name;
	char *header;
	size_t header_bytes;
};

struct fuzz_delivery {
	char options[32];
	struct fuzz_shard shards[FUZZ_DELIVERY_SHARDS_MAX];
	size_t shard_count;
	/* TENSORS.json is as it was made from shards, and everything else is as it then was. */
	bool is_sound;
};

/* Writes it into the empty tree. */
void fuzz_delivery_init(struct fuzz_delivery *delivery, const uint8_t *data, size_t size);
void fuzz_delivery_deinit(struct fuzz_delivery *delivery);

#endif
