/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the line, and which of them are left out where there is no room. */
#include "progress_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Storage that gave nothing for so long is worth saying. */
#define IDLE_SECONDS_MIN 5

#define PART_BYTES 48

/* In the order in which they are shown. */
enum part {
	PART_INDEX,
	PART_STAGE,
	PART_SHARE,
	PART_BYTES_DONE,
	PART_RATE,
	PART_LEFT,
	PART_FINDINGS,
	PART_COUNT
};

/* Left out first; what is not here stays longest. */
static const enum part expendable[] = {
	PART_BYTES_DONE, PART_RATE, PART_STAGE, PART_INDEX, PART_LEFT, PART_FINDINGS, PART_SHARE,
};

struct parts {
	char text[PART_COUNT][PART_BYTES]; /* "" where there is nothing to say */
};

__attribute__((format(printf, 3, 4))) static void set(struct parts *parts, enum part part,
						      const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(parts->text[part], PART_BYTES, format, values);
	va_end(values);
}

/* "742 MB", as reports have it: three digits, decimal units. */
static void bytes_text(uint64_t bytes, char *text, size_t room)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 999.5 && unit < sizeof(units) / sizeof(units[0]) - 1) {
		value /= 1000;
		unit++;
	}
	snprintf(text, room, unit > 0 && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void seconds_text(uint64_t seconds, char *text, size_t room)
{
	unsigned long long minutes = seconds / 60, hours = minutes / 60;

	if (hours >= 48)
		snprintf(text, room, "%llu d %llu h", hours / 24, hours % 24);
	else if (hours > 0)
		snprintf(text, room, "%llu:%02llu:%02llu", hours, minutes % 60,
			 (unsigned long long)seconds % 60);
	else
		snprintf(text, room, "%llu:%02llu", minutes, (unsigned long long)seconds % 60);
}

static void set_reading(struct parts *parts, const struct progress_facts *facts)
{
	char done[24], total[24], other[24];
	uint64_t left =
		facts->bytes_total > facts->bytes_done ? facts->bytes_total - facts->bytes_done : 0;
	double share = facts->bytes_total ? (double)(facts->bytes_total - left) /
						    (double)facts->bytes_total * 100
					  : 100;

	bytes_text(facts->bytes_done, done, sizeof(done));
	if (facts->bytes_per_second) {
		bytes_text(facts->bytes_per_second, other, sizeof(other));
		set(parts, PART_RATE, "%s/s", other);
	}
	if (facts->is_sample) {
		/* Where reading is measured alone, none is hashed. */
		if (facts->bytes_done)
			set(parts, PART_BYTES_DONE, "%s", done);
		return;
	}
	/* Not before all is done: nobody believes a 100% that goes on. */
	set(parts, PART_SHARE, "%d%%", left && share > 99 ? 99 : (int)share);
	bytes_text(facts->bytes_total, total, sizeof(total));
	set(parts, PART_BYTES_DONE, "%s of %s", done, total);
	if (left && facts->idle_seconds >= IDLE_SECONDS_MIN) {
		seconds_text(facts->idle_seconds, other, sizeof(other));
		set(parts, PART_LEFT, "nothing read for %s", other);
		parts->text[PART_RATE][0] = '\0';
	} else if (facts->bytes_per_second) {
		seconds_text(left / facts->bytes_per_second + (left > 0), other, sizeof(other));
		set(parts, PART_LEFT, "ETA %s", other);
	}
}

static unsigned width_of(const struct parts *parts)
{
	unsigned width = 0;
	int i;

	for (i = 0; i < PART_COUNT; i++)
		if (parts->text[i][0])
			width += (width ? 2 : 0) + (unsigned)strlen(parts->text[i]);
	return width;
}

unsigned progress_line(const struct progress_facts *facts, unsigned columns, int is_colored,
		       char line[PROGRESS_LINE_BYTES])
{
	struct parts parts = { 0 };
	size_t i, used = 0;
	unsigned width;

	if (facts->count > 1)
		set(&parts, PART_INDEX, "PATH %u of %u", facts->index, facts->count);
	if (facts->stage)
		set(&parts, PART_STAGE, "%s", facts->stage);
	if (facts->is_begun)
		set_reading(&parts, facts);
	if (facts->findings_count > 0)
		set(&parts, PART_FINDINGS, "%llu finding%s",
		    (unsigned long long)facts->findings_count,
		    facts->findings_count == 1 ? "" : "s");
	for (i = 0; i < sizeof(expendable) / sizeof(expendable[0]); i++)
		if (width_of(&parts) > columns)
			parts.text[expendable[i]][0] = '\0';
	width = width_of(&parts);
	line[0] = '\0';
	for (i = 0; i < PART_COUNT; i++) {
		int stands_out = is_colored && i == PART_FINDINGS;

		if (!parts.text[i][0])
			continue;
		used += (size_t)snprintf(line + used, PROGRESS_LINE_BYTES - used, "%s%s%s%s",
					 used ? ", " : "", stands_out ? "\033[1;31m" : "",
					 parts.text[i], stands_out ? "\033[0m" : "");
	}
	return width;
}

/* ---- the rate ----------------------------------------------------------------------------------- */

void progress_rate_note(struct progress_rate *rate, uint64_t at_ms, uint64_t bytes)
{
	unsigned last = (rate->first + rate->count + RATE_SAMPLES - 1) % RATE_SAMPLES, next;

	if (rate->count > 0 && bytes < rate->samples[last].bytes)
		rate->first = rate->count = 0;
	if (rate->count > 0 && at_ms < rate->samples[last].at_ms + RATE_SPACING_MS)
		return;
	next = (rate->first + rate->count) % RATE_SAMPLES;
	rate->samples[next].at_ms = at_ms;
	rate->samples[next].bytes = bytes;
	if (rate->count < RATE_SAMPLES)
		rate->count++;
	else
		rate->first = (rate->first + 1) % RATE_SAMPLES;
}

uint64_t progress_rate_at(const struct progress_rate *rate, uint64_t at_ms, uint64_t bytes)
{
	uint64_t from_ms = rate->samples[rate->first].at_ms;
	uint64_t from_bytes = rate->samples[rate->first].bytes;

	/* A quarter of a second says nothing yet. */
	if (rate->count == 0 || at_ms < from_ms + 250 || bytes < from_bytes)
		return 0;
	return (uint64_t)((double)(bytes - from_bytes) * 1000 / (double)(at_ms - from_ms));
}
