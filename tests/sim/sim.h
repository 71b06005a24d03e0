/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulation: a third engine behind the io_engine seam, and a few system calls, that misbehave
 * as a seed says. The real pipeline, workers, pool, reading, verify and load run over it.
 *
 * world.c   what the files are like and which fault comes when; a log of what was injected
 * engine.c  the engine: in memory, reorders, delays, fails
 * system.c  stands between the library and statx, fcntl, openat2, mmap, threads and the clock
 * oracle.c  says from the log what must come out, and compares
 * main.c    seeds, rounds, totals
 *
 * Whether a fault happens is a function of the seed and of what is read (pass, shard, lane, offset,
 * attempt), never of the order in which threads get there, so a seed replays.
 */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include "base.h"
#include "delivery.h"
#include "digest.h"
#include "io_engine.h"
#include "pipeline.h"
#include "ringsum.h"

#include <sys/types.h>

#define SIM_SHARDS_MAX 4
#define SIM_FLIPS_MAX 8
#define SIM_BUFFERS_MAX 64
#define SIM_OPEN_ERRORS_MAX 16

enum sim_fault {
	/* A read that has to be tried again. */
	SIM_SHORT,
	SIM_EINTR,
	SIM_EAGAIN,
	SIM_ECANCELED,
	SIM_NO_PLACE,	       /* the caller's memory takes no direct read */
	SIM_NO_DIRECT_AT_READ, /* O_DIRECT could be set, and the read is refused */
	/* A read that failed. */
	SIM_ERROR,
	SIM_EMPTY, /* 0 bytes */
	SIM_LONG,  /* more than the file had */
	/* Bytes that are not those promised. */
	SIM_FLIP_ONCE,
	SIM_FLIP_ALWAYS,
	/* A file that changes while it is read. */
	SIM_TOUCH,   /* its times */
	SIM_REWRITE, /* its bytes and times */
	SIM_RESIZE,
	SIM_REPLACE,  /* another file has its name */
	SIM_DOCUMENT, /* the manifest was touched */
	/* A file that cannot be opened again. */
	SIM_OPEN_FAILS,
	SIM_OPEN_GONE,
	SIM_TOO_MANY_FILES,
	SIM_OPEN_INTERRUPTED,
	SIM_NO_DIRECT_AT_OPEN,
	/* What is needed to begin. */
	SIM_NO_POOL,
	SIM_NO_RING,
	SIM_NO_READERS,
	SIM_FEWER_THREADS,
	/* An engine that breaks down. */
	SIM_SUBMIT_BREAKS,
	SIM_REAP_BREAKS,
	SIM_READS_LOST,
	/* The caller changes its mind. */
	SIM_CANCEL,
	/* Opening the checkpoint. */
	SIM_HEADER_SHORT,
	SIM_HEADER_EINTR,
	SIM_HEADER_ERROR,
	SIM_FAULT_COUNT
};

extern const char *const sim_fault_names[SIM_FAULT_COUNT];

struct sim_flip {
	unsigned shard;
	uint64_t byte;
	uint8_t mask;
};

/* A shard as the library sees it. */
struct sim_shard {
	/* Fixed for a delivery. */
	dev_t device;
	ino_t inode;
	uint64_t size_bytes;
	uint8_t *promised; /* the file as written */
	/* Of a round. */
	uint8_t *image;		/* what reads give */
	uint64_t current_bytes; /* its size now */
	unsigned generation;	/* of the file under its name */
	unsigned ticks;		/* its times moved so often */
	unsigned old_ticks;	/* those of files that lost their name */
	bool direct_is_known;
	uint32_t direct_alignment;
	bool refuses_direct_at_read;
};

/* One read of a lane, through all its attempts. */
struct sim_read {
	const struct rsum_lane *lane;
	uint64_t offset;
	uint32_t expected;
	unsigned attempts;
	unsigned passing; /* answers after which it has to be tried again */
	bool is_answered; /* the last attempt was reaped */
	bool was_placed;  /* the last attempt went to the caller's memory */
	int result;	  /* of the last attempt reaped */
	bool is_exact;	  /* all that was expected came */
	uint8_t *spoiled; /* the bytes that came where they are not those promised, or NULL */
};

/* What a worker that was left to read a piece itself was answered; `expected` bytes, or an error. */
struct sim_left {
	struct sim_read read;
	bool is_passing; /* it may be tried again, or went on with the rest */
};

/* One run of the pipeline. */
struct sim_pass {
	unsigned number; /* in the round, from 1 */
	bool is_running;
	struct rsum_pipeline_setup setup;
	const struct rsum_plan *plan;
	const struct rsum_range_result *results;
	size_t result_count;
	struct rsum_range_result *kept; /* a copy of them, for later */
	struct sim_read *reads;
	size_t read_count, read_capacity;
	struct sim_left *left; /* under the lock */
	size_t left_count, left_capacity;
	const struct rsum_buffer_pool *pool;
	size_t latest[SIM_BUFFERS_MAX]; /* the read that a buffer was last used for */
	int open_errors[SIM_SHARDS_MAX][SIM_OPEN_ERRORS_MAX];
	unsigned open_error_count[SIM_SHARDS_MAX];
	unsigned open_attempts[SIM_SHARDS_MAX];
	bool saw_change[SIM_SHARDS_MAX];      /* statx showed another file than at first */
	bool must_see_change[SIM_SHARDS_MAX]; /* an open file of it was changed */
	int broken;			      /* the engine's negative errno */
	bool is_canceled;		      /* the caller was asked and said stop */
	bool could_not_begin;		      /* pool, engine or threads were refused */
	unsigned threads_begun;
	unsigned engines_running;
	int result;
};

struct sim_world {
	uint64_t seed;
	unsigned round;
	const struct delivery *delivery;
	uint8_t (*digests)[RSUM_SHA256_BYTES]; /* promised, by tensor */
	dev_t manifest_device;
	ino_t manifest_inode;
	struct sim_shard shards[SIM_SHARDS_MAX];
	unsigned rates[SIM_FAULT_COUNT]; /* of 1,000,000 */
	bool is_raining;		 /* the round's faults are on */
	bool is_opening;		 /* the checkpoint is being opened: headers are read */
	bool has_header_error;
	unsigned header_reads;
	bool wants_cancel;
	bool document_changed;
	struct sim_flip flips[SIM_FLIPS_MAX];
	unsigned flip_count;
	struct sim_pass passes[2];
	unsigned pass_count;
	/* Totals. */
	uint64_t injected[SIM_FAULT_COUNT];
	uint64_t reads, left, delayed, overtaken, passes_run;
};

extern struct sim_world sim;

/* Around what workers read, and what that changes. */
void sim_lock(void);
void sim_unlock(void);

/* ---- world.c ---- */

void sim_world_open(const struct delivery *delivery);
void sim_world_close(void);
/* Sound files and no pass yet; then the weather of the round, where it rains at all. */
void sim_world_begin_round(uint64_t seed, unsigned round, bool is_raining);
void sim_world_end_round(void);

/* A number that depends on nothing but the seed, the round and these. */
uint64_t sim_chance(unsigned what, uint64_t a, uint64_t b, uint64_t c);
/* Whether that fault comes here, and counts it. */
bool sim_happens(enum sim_fault fault, uint64_t a, uint64_t b, uint64_t c);
void sim_count(enum sim_fault fault);
uint64_t sim_injected_total(void);

struct sim_pass *sim_pass(void); /* the one that runs, or NULL */
int sim_shard_of_fd(int fd);
bool sim_is_open(int fd, unsigned *generation_out);
struct sim_read *sim_read_of(const struct rsum_io_request *request);

/* Says what is wrong, and how to see it again; does not return. */
RSUM_PRINTF(1, 2) void sim_fail(const char *format, ...) __attribute__((noreturn));
#define SIM_REQUIRE(condition)                                                 \
	do {                                                                   \
		if (!(condition))                                              \
			sim_fail("%s:%d: %s", __FILE__, __LINE__, #condition); \
	} while (0)

/* ---- engine.c ---- */

/* A worker's own read of a piece of a shard, under the lock. As pread. */
ssize_t sim_read_left(int shard, uint8_t *data, size_t size_bytes, uint64_t offset);

/* ---- system.c ---- */

/* Descriptors that are open now, among the lowest. */
unsigned sim_count_descriptors(void);
bool sim_fd_is_direct(int fd);
unsigned sim_fd_generation(int fd);
void sim_let_time_pass(void);
void sim_reset_time(void);

/* ---- oracle.c ---- */

void sim_check_pass(const struct sim_pass *pass);
void sim_check_verify(const struct ringsum_report *report, int result);
void sim_check_load(const struct ringsum_load *loads, size_t load_count,
		    const struct ringsum_report *report, int result);

#endif
