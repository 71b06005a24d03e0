/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a page of HTML, and what they have in common. */
#ifndef RSUM_REPORT_HTML_H
#define RSUM_REPORT_HTML_H

#include "base.h"
#include "name_index.h"
#include "report.h"
#include "report_map.h"

/* One report on its way into a page. */
struct rsum_html {
	struct rsum_text *text;
	const struct ringsum_report *report;
	size_t number;			  /* of the report in the page, for anchors */
	struct rsum_name_index by_tensor; /* tensor -> its first finding in the table */
	struct rsum_name_index by_file;	  /* file -> its first finding without a tensor */
};

/* Markup of ours, as it is. */
void rsum_html_put(struct rsum_text *text, const char *markup);

/* A name or value of unknown origin, escaped as in text and then for HTML, quotes included. */
void rsum_html_put_text(struct rsum_text *text, const char *unsafe);

/* A message: as rsum_text_append_message, then for HTML. */
void rsum_html_put_message(struct rsum_text *text, const char *message);

/* "7.5 GB" where that is short for more, with the exact number of bytes to be pointed at. */
void rsum_html_put_bytes(struct rsum_text *text, uint64_t bytes);

/* "✓" and so on, for what is not to be told by its colour alone. */
const char *rsum_html_sign(enum rsum_map_state state);

/* Legend and shards; nothing where the report has no map. */
void rsum_html_put_map(struct rsum_html *html);

/* The rate over time; nothing where there is too little to be drawn. */
void rsum_html_put_curve(struct rsum_html *html);

/* Style sheet, in pieces; NULL ends them. */
extern const char *const rsum_html_style[];

#endif
