/* SPDX-License-Identifier: Apache-2.0 */
/* How far one word is from another, for suggestions. */
#ifndef RINGSUM_TOOL_NEAREST_H
#define RINGSUM_TOOL_NEAREST_H

/* Further than this nobody meant it. */
#define NEAREST_MOST 3

/* The least number of letters to insert, remove or replace; NEAREST_MOST + 1 where it is more. */
unsigned nearest_distance(const char *a, const char *b);

/* A search among words: NEAREST_TO, nearest_consider for each, then `word`, NULL where none is. */
struct nearest {
	const char *given;
	const char *word;
	unsigned distance;
};

#define NEAREST_TO(text)         \
	{                        \
		.given = (text), \
	}

/* One to three letters may be wrong, by the word's length. The word stays the caller's. */
void nearest_consider(struct nearest *nearest, const char *word);

#endif
