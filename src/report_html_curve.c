/* SPDX-License-Identifier: Apache-2.0 */
/* The rate over time in a page, as an inline drawing with its numbers beside it. */
#include <inttypes.h>

#include "report_html.h"

#define WIDTH 1000
#define HEIGHT 160
#define STEPS 120    /* the curve shows the mean of each */
#define POINTS_MIN 4 /* below, it would be an ornament */

/* Bytes done by then, between the points that are known. */
static double bytes_at(const struct rsum_curve *curve, double elapsed_ns)
{
	struct rsum_curve_point before = { 0, 0 }, after = curve->last;
	unsigned i;

	for (i = 0; i < curve->count; i++) {
		if ((double)curve->points[i].elapsed_ns >= elapsed_ns) {
			after = curve->points[i];
			break;
		}
		before = curve->points[i];
	}
	if (after.elapsed_ns <= before.elapsed_ns)
		return (double)after.bytes;
	return (double)before.bytes + (double)(after.bytes - before.bytes) *
					      (elapsed_ns - (double)before.elapsed_ns) /
					      (double)(after.elapsed_ns - before.elapsed_ns);
}

struct rates {
	double steps[STEPS]; /* bytes in a second */
	unsigned count;
	double most, least;
};

static struct rates measure(const struct rsum_curve *curve)
{
	struct rates rates = { .count = RSUM_MIN(curve->count, (unsigned)STEPS) };
	double total_ns = (double)curve->last.elapsed_ns, before = 0;

	for (unsigned i = 0; i < rates.count; i++) {
		double bytes = bytes_at(curve, total_ns * (i + 1) / rates.count);
		double rate = (bytes - before) * 1e9 * rates.count / total_ns;

		rates.steps[i] = rate;
		rates.most = i == 0 ? rate : RSUM_MAX(rates.most, rate);
		rates.least = i == 0 ? rate : RSUM_MIN(rates.least, rate);
		before = bytes;
	}
	return rates;
}

static void put_rate(struct rsum_text *text, double rate)
{
	rsum_text_append_bytes(text, rate > 0 && rate < 1e18 ? (uint64_t)rate : 0);
	rsum_html_put(text, "/s");
}

/* Steps of equal length from left to right, then back along the ground. */
static void put_area(struct rsum_text *text, const struct rates *rates)
{
	rsum_text_printf(text, "<path class=area d=\"M0 %d", HEIGHT);
	for (unsigned i = 0; i < rates->count; i++) {
		unsigned y = HEIGHT - (unsigned)(rates->steps[i] / rates->most * (HEIGHT - 8));

		rsum_text_printf(text, "L%u %uL%u %u", i * WIDTH / rates->count, y,
				 (i + 1) * WIDTH / rates->count, y);
	}
	rsum_text_printf(text, "L%d %dZ\"/>", WIDTH, HEIGHT);
}

static void put_drawing(struct rsum_text *text, const struct rates *rates, double mean)
{
	unsigned y = HEIGHT - (unsigned)(mean / rates->most * (HEIGHT - 8));

	rsum_text_printf(text,
			 "<svg class=curve viewBox=\"0 0 %d %d\" preserveAspectRatio=none "
			 "role=img aria-label=\"rate over time\">",
			 WIDTH, HEIGHT);
	put_area(text, rates);
	rsum_text_printf(text, "<path class=mean d=\"M0 %uH%d\"/></svg>\n", y, WIDTH);
}

void rsum_html_put_curve(struct rsum_html *html)
{
	const struct rsum_curve *curve = html->report->map ? &html->report->map->curve : NULL;
	struct rsum_text *text = html->text;
	struct rates rates;
	double mean;

	if (!curve || curve->count < POINTS_MIN || curve->last.bytes == 0)
		return;
	rates = measure(curve);
	mean = (double)curve->last.bytes * 1e9 / (double)curve->last.elapsed_ns;
	rsum_html_put(text, "<section>\n<h3>Rate over time</h3>\n<p class=axis><span>");
	put_rate(text, rates.most);
	rsum_html_put(text, " at most</span><span>");
	put_rate(text, rates.least);
	rsum_html_put(text, " at least</span><span>");
	put_rate(text, mean);
	rsum_html_put(text, " on average (dashed)</span></p>\n");
	put_drawing(text, &rates, mean);
	rsum_html_put(text, "<p class=axis><span>0 s</span><span>");
	rsum_text_append_seconds(text, (double)curve->last.elapsed_ns / 1e9);
	rsum_html_put(text, "</span></p>\n<p class=dim>Promised bytes hashed, of the first "
			    "reading.</p>\n</section>\n");
}
