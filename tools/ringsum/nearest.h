/* SPDX-License-Identifier: Apache-2.0 */
/* How far one word is from another, for suggestions. */
#ifndef RINGSUM_TOOL_NEAREST_H
#define RINGSUM_TOOL_NEAREST_H

/* Further than this nobody meant it. */
#define NEAREST_MOST 3

/* The least number of letters to insert, remove or replace; NEAREST_MOST + 1 where it is more. */
unsigned nearest_distance(const char *a, const char *b);

#endif
