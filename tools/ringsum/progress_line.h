/* SPDX-License-Identifier: Apache-2.0 */
/* One line on how far a command is. Knows nothing of terminals, signals and clocks. */
#ifndef RINGSUM_TOOL_PROGRESS_LINE_H
#define RINGSUM_TOOL_PROGRESS_LINE_H

#include <stddef.h>
#include <stdint.h>

#define PROGRESS_LINE_BYTES 256

struct progress_facts {
	const char *stage;     /* what is being done, where it is not the usual; or NULL */
	unsigned index, count; /* of the PATH, from 1; shown where there are several */
	int is_begun;	       /* the totals are known */
	int is_sample;	       /* it ends when its time is up, not when all is read */
	uint64_t bytes_total;
	uint64_t bytes_done;
	uint64_t bytes_per_second; /* 0: not known */
	uint64_t idle_seconds;	   /* since the last byte */
	uint64_t findings_count;
};

/*
 * Writes the line, without an end, as much of it as fits `columns`: what matters least goes
 * first. is_colored: findings stand out, which takes bytes and no columns. Returns its columns.
 */
unsigned progress_line(const struct progress_facts *facts, unsigned columns, int is_colored,
		       char line[PROGRESS_LINE_BYTES]);

/* ---- a rate that neither jumps nor remembers too long ------------------------------------------ */

#define RATE_SAMPLES 21
#define RATE_SPACING_MS 500

/* Of the last ten seconds. All zero is the empty state. */
struct progress_rate {
	struct {
		uint64_t at_ms, bytes;
	} samples[RATE_SAMPLES]; /* a ring */
	unsigned first, count;
};

/* Notes how many bytes are done at a time. Fewer than before begin anew. */
void progress_rate_note(struct progress_rate *rate, uint64_t at_ms, uint64_t bytes);

/* Bytes a second until a time; 0 where too little is known. */
uint64_t progress_rate_at(const struct progress_rate *rate, uint64_t at_ms, uint64_t bytes);

#endif
