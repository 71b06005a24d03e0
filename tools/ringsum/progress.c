/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that attends to the terminal and to signals. */
#include "progress.h"

#include "progress_line.h"
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Redrawn at most ten times a second; what is over sooner than the first is not shown at all. */
#define DRAW_MS 100
#define FIRST_DRAW_MS 300

/* So long a call may go on after an interruption, where the command does not say otherwise. */
#define PATIENCE_MS 900

#define LINE_SECONDS 30
#define LINE_SECONDS_MAX 86400

#define USUAL_COLUMNS 80
#define MOST_COLUMNS 200 /* more than is ever said; the line's bytes are enough for it */

static struct {
	struct progress_setup setup; /* fixed after the start */
	int event_fd;
	int is_running;
	pthread_t thread;
	int is_live; /* a terminal that may be drawn on */
	int is_barred;
	int is_colored;
	int is_dumb; /* a terminal that knows no more than a carriage return */
	uint64_t line_ms;
	/* Guarded by lock. */
	pthread_mutex_t lock;
	struct progress_facts facts;
	struct progress_rate rate;
	uint64_t begin_ms, last_byte_ms, interrupted_ms;
	int is_reading; /* between begin and end */
	int is_ending;
	/* Guarded by terminal_lock, which is taken first. */
	pthread_mutex_t terminal_lock;
	unsigned shown_columns;
	uint64_t shown_ms;
	char shown[PROGRESS_LINE_BYTES];
} self = {
	.event_fd = -1,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.terminal_lock = PTHREAD_MUTEX_INITIALIZER,
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- where it is shown --------------------------------------------------------------------------- */

/* All at once, so that lines of several processes do not mix. A lost line is no failure. */
static void put(const char *text, size_t length)
{
	while (length > 0) {
		ssize_t written = write(STDERR_FILENO, text, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		text += written;
		length -= (size_t)written;
	}
}

static unsigned long number_in_environment(const char *name, unsigned long most)
{
	const char *text = getenv(name);
	unsigned long number;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return 0;
	number = strtoul(text, &end, 10);
	return *end == '\0' && number <= most ? number : 0;
}

/* The narrower one of what the terminal says and what COLUMNS says. */
static unsigned terminal_columns(void)
{
	unsigned wanted = (unsigned)number_in_environment("COLUMNS", 100000);
	struct winsize size = { 0 };

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return wanted ? wanted : USUAL_COLUMNS;
	return wanted && wanted < size.ws_col ? wanted : size.ws_col;
}

/* Whoever works in the shell meanwhile does not want lines drawn over theirs. */
static int is_in_foreground(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group < 0 || group == getpgrp();
}

static int are_same_file(int a, int b)
{
	struct stat a_status, b_status;

	return fstat(a, &a_status) == 0 && fstat(b, &b_status) == 0 &&
	       a_status.st_dev == b_status.st_dev && a_status.st_ino == b_status.st_ino;
}

/* Takes the drawn line away. Under terminal_lock. */
static void erase(void)
{
	char blanks[PROGRESS_LINE_BYTES + 2];
	size_t count = self.shown_columns;

	if (count == 0)
		return;
	if (self.is_dumb) {
		blanks[0] = '\r';
		memset(blanks + 1, ' ', count);
		blanks[count + 1] = '\r';
		put(blanks, count + 2);
	} else {
		put("\r\033[K", 4);
	}
	self.shown_columns = 0;
	self.shown[0] = '\0';
}

/* Draws the line where it would change. Under terminal_lock. */
static void draw(const struct progress_facts *facts)
{
	char line[PROGRESS_LINE_BYTES], text[2 * PROGRESS_LINE_BYTES + 8];
	/* The last column stays free: some terminals break the line behind it. */
	unsigned columns = terminal_columns() - 1, width;
	int length;

	if (columns > MOST_COLUMNS)
		columns = MOST_COLUMNS;
	width = progress_line(facts, columns, self.is_colored, line);
	if (strcmp(line, self.shown) == 0)
		return;
	if (self.is_dumb) {
		length = (int)self.shown_columns - (int)width;
		length = snprintf(text, sizeof(text), "\r%s%*s", line, length > 0 ? length : 0, "");
	} else {
		length = snprintf(text, sizeof(text), "\r%s\033[K", line);
	}
	put(text, (size_t)length);
	memcpy(self.shown, line, sizeof(line));
	self.shown_columns = width;
}

static void print_line(const struct progress_facts *facts)
{
	char line[PROGRESS_LINE_BYTES], text[2 * PROGRESS_LINE_BYTES];
	int length;

	(void)progress_line(facts, MOST_COLUMNS, 0, line);
	length = snprintf(text, sizeof(text), "ringsum %s: %s\n", self.setup.command->name, line);
	put(text, (size_t)length);
}

/* ---- the thread ---------------------------------------------------------------------------------- */

/* The library did not come back in time after an interruption: what is known is told, and ends it. */
static void give_up(const struct progress_facts *facts)
{
	char line[PROGRESS_LINE_BYTES], text[2 * PROGRESS_LINE_BYTES];
	int length;

	(void)progress_line(facts, MOST_COLUMNS, 0, line);
	length = snprintf(text, sizeof(text),
			  "ringsum %s: interrupted, and something that was begun does not end (a "
			  "read?); undecided: %s\n",
			  self.setup.command->name, line);
	put(text, (size_t)length);
	signals_remove_now();
	_exit(COMMAND_UNDECIDED);
}

/* How things stand. Under lock. */
static struct progress_facts look(uint64_t at_ms)
{
	struct progress_facts facts = self.facts;

	facts.bytes_per_second = progress_rate_at(&self.rate, at_ms, facts.bytes_done);
	facts.idle_seconds = (at_ms - self.last_byte_ms) / 1000;
	return facts;
}

/* What is due at a time; returns in how many milliseconds something is again, -1: never. */
static int attend_once(uint64_t *next_line_ms)
{
	int is_line_wanted = signals_take_line(), is_reading, is_over, wait_ms = -1;
	uint64_t at_ms = now_ms(), begin_ms, patience_ms;
	struct progress_facts facts;

	pthread_mutex_lock(&self.terminal_lock);
	pthread_mutex_lock(&self.lock);
	if (signals_take_resumed()) {
		self.rate = (struct progress_rate){ 0 };
		self.last_byte_ms = at_ms;
		self.shown[0] = '\0';
	}
	if (signals_stop_wanted() && !self.interrupted_ms)
		self.interrupted_ms = at_ms;
	facts = look(at_ms);
	is_reading = self.is_reading;
	begin_ms = self.begin_ms;
	patience_ms =
		facts.is_begun && self.setup.patience_ms ? self.setup.patience_ms : PATIENCE_MS;
	is_over = is_reading && self.interrupted_ms && at_ms - self.interrupted_ms >= patience_ms;
	if (is_reading && self.interrupted_ms)
		wait_ms = DRAW_MS;
	pthread_mutex_unlock(&self.lock);
	if (is_over || (is_line_wanted && !self.is_barred))
		erase();
	if (is_over)
		give_up(&facts);
	if (is_line_wanted && !self.is_barred)
		print_line(&facts);
	if (is_reading && self.is_live) {
		if (at_ms - begin_ms >= FIRST_DRAW_MS && at_ms - self.shown_ms >= DRAW_MS &&
		    is_in_foreground()) {
			draw(&facts);
			self.shown_ms = at_ms;
		}
		wait_ms = DRAW_MS;
	} else if (is_reading && self.line_ms) {
		if (at_ms >= *next_line_ms) {
			print_line(&facts);
			*next_line_ms = at_ms + self.line_ms;
		}
		if (wait_ms < 0)
			wait_ms = (int)(*next_line_ms - at_ms);
	}
	pthread_mutex_unlock(&self.terminal_lock);
	return wait_ms;
}

static int is_ending(void)
{
	int result;

	pthread_mutex_lock(&self.lock);
	result = self.is_ending;
	pthread_mutex_unlock(&self.lock);
	return result;
}

static void *attend(void *arg)
{
	struct pollfd event = { .fd = self.event_fd, .events = POLLIN };
	uint64_t next_line_ms = now_ms() + self.line_ms;

	while (!is_ending()) {
		(void)poll(&event, 1, attend_once(&next_line_ms));
		signals_drain();
	}
	return arg;
}

/* ---- the command's side --------------------------------------------------------------------------- */

void progress_start(const struct progress_setup *setup)
{
	int is_terminal = isatty(STDERR_FILENO);
	const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
	unsigned long seconds = number_in_environment("RINGSUM_PROGRESS_SECONDS", LINE_SECONDS_MAX);

	self.setup = *setup;
	self.is_barred = setup->is_json_on_stdout && are_same_file(STDOUT_FILENO, STDERR_FILENO);
	self.is_live = is_terminal && !self.is_barred && (!setup->is_quiet || setup->is_wanted);
	self.is_dumb = !terminal || !*terminal || strcmp(terminal, "dumb") == 0;
	self.is_colored = !self.is_dumb && !(no_color && *no_color);
	if (setup->is_wanted && !is_terminal && !self.is_barred)
		self.line_ms = (seconds ? seconds : LINE_SECONDS) * 1000;
	self.event_fd = signals_catch();
	self.facts.stage = "starting";
	self.last_byte_ms = now_ms();
	if (self.event_fd >= 0 && pthread_create(&self.thread, NULL, attend, NULL) == 0)
		self.is_running = 1;
}

void progress_begin(unsigned index, unsigned count)
{
	pthread_mutex_lock(&self.lock);
	self.facts = (struct progress_facts){
		.stage = "checking manifest and headers",
		.index = index,
		.count = count,
	};
	self.rate = (struct progress_rate){ 0 };
	self.begin_ms = self.last_byte_ms = now_ms();
	self.is_reading = 1;
	pthread_mutex_unlock(&self.lock);
	signals_wake();
}

void progress_end(void)
{
	pthread_mutex_lock(&self.terminal_lock);
	pthread_mutex_lock(&self.lock);
	self.is_reading = 0;
	pthread_mutex_unlock(&self.lock);
	erase();
	pthread_mutex_unlock(&self.terminal_lock);
}

int progress_note(void *arg, const struct ringsum_progress *progress)
{
	int is_usual = !progress->stage || strcmp(progress->stage, "reading") == 0;
	const char *stage = is_usual ? NULL : progress->stage;
	uint64_t at_ms = now_ms();

	(void)arg;
	pthread_mutex_lock(&self.lock);
	if (!self.facts.is_begun || progress->bytes_done != self.facts.bytes_done)
		self.last_byte_ms = at_ms;
	/* Another pass is another pace. */
	if (stage != self.facts.stage)
		self.rate = (struct progress_rate){ 0 };
	self.facts.is_begun = 1;
	self.facts.is_sample = self.setup.is_sample;
	self.facts.stage =
		progress->stage && strcmp(progress->stage, "reading") != 0 ? progress->stage : NULL;
	self.facts.bytes_total = progress->bytes_total;
	self.facts.bytes_done = progress->bytes_done;
	self.facts.findings_count = progress->findings_count;
	progress_rate_note(&self.rate, at_ms, progress->bytes_done);
	pthread_mutex_unlock(&self.lock);
	return signals_stop_wanted() != 0;
}

void progress_stop(void)
{
	progress_end();
	if (!self.is_running)
		return;
	pthread_mutex_lock(&self.lock);
	self.is_ending = 1;
	pthread_mutex_unlock(&self.lock);
	signals_wake();
	pthread_join(self.thread, NULL);
	self.is_running = 0;
}
