/* SPDX-License-Identifier: Apache-2.0 */
/* Levenshtein's distance, within a band: what lies outside it is too far in any case. */
#include "nearest.h"

#include <string.h>

#define BAND (2 * NEAREST_MOST + 1)
#define FAR (NEAREST_MOST + 1)

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * band[k] is the distance between the first i letters of `a` and the first i + k - NEAREST_MOST
 * of `b`. For the next letter of `a`, replacing is what was at k, removing what was at k + 1, and
 * inserting what is now at k - 1. band[BAND] is the edge.
 */
unsigned nearest_distance(const char *a, const char *b)
{
	size_t a_length = strlen(a), b_length = strlen(b), i, k;
	unsigned band[BAND + 1];

	if (a_length > b_length + NEAREST_MOST || b_length > a_length + NEAREST_MOST)
		return FAR;
	for (k = 0; k <= BAND; k++)
		band[k] = k >= NEAREST_MOST && k < BAND ? (unsigned)(k - NEAREST_MOST) : FAR;
	for (i = 1; i <= a_length; i++) {
		for (k = 0; k < BAND; k++) {
			size_t j = i + k - NEAREST_MOST; /* wraps below zero, which is too large */
			unsigned best = FAR;

			if (j <= b_length) {
				best = least(best, band[k + 1] + 1);
				if (j > 0)
					best = least(best, band[k] + (a[i - 1] != b[j - 1]));
				if (j > 0 && k > 0)
					best = least(best, band[k - 1] + 1);
			}
			band[k] = best;
		}
	}
	return band[b_length + NEAREST_MOST - a_length];
}

void nearest_consider(struct nearest *nearest, const char *word)
{
	size_t length = strlen(nearest->given);
	unsigned most = length < 4 ? 1 : length < 9 ? 2 : NEAREST_MOST;
	unsigned distance = nearest_distance(nearest->given, word);

	/* Whoever writes "uring" means io_uring, though more is missing than may be wrong. */
	if (distance > most && length > 2 && strstr(word, nearest->given))
		distance = most = FAR;
	if (nearest->word ? distance >= nearest->distance : distance > most)
		return;
	nearest->word = word;
	nearest->distance = distance;
}
