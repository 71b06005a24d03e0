/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that the simulation answers itself, and the entrance of the pipeline: by the
 * linker's --wrap each function here takes the place of the one behind it, and the pipeline is built
 * under another name.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define WATCHED_FDS 256
#define CANCEL_STEP_NS 60000000 /* longer than the loop waits between asking the caller */

/* Of the descriptors, by number; each is of a shard or nothing is known of it. */
static bool direct[WATCHED_FDS];
static unsigned generation[WATCHED_FDS];

static atomic_llong time_gone_ns;

bool sim_fd_is_direct(int fd)
{
	return fd >= 0 && fd < WATCHED_FDS && direct[fd];
}

unsigned sim_fd_generation(int fd)
{
	return fd >= 0 && fd < WATCHED_FDS ? generation[fd] : 0;
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

unsigned sim_count_descriptors(void)
{
	unsigned count = 0;
	int fd;

	for (fd = 0; fd < WATCHED_FDS; fd++)
		count += __real_fcntl64(fd, F_GETFD, 0) >= 0;
	return count;
}

/* ---- the pipeline ---------------------------------------------------------------------------------- */

/* The loop under test, by its name in this program; whoever calls it comes by the one below. */
int sim_pipeline_run_job(const struct rsum_pipeline_setup *setup, struct rsum_pipeline_job *job,
			 struct rsum_pipeline_outcome *outcome, struct ringsum_error *err);

int rsum_pipeline_run_job(const struct rsum_pipeline_setup *setup, struct rsum_pipeline_job *job,
			  struct rsum_pipeline_outcome *outcome, struct ringsum_error *err)
{
	struct sim_pass *pass;

	SIM_REQUIRE(sim.pass_count < RSUM_COUNT_OF(sim.passes));
	pass = &sim.passes[sim.pass_count++];
	*pass = (struct sim_pass){
		.number = sim.pass_count,
		.is_running = true,
		.setup = *setup,
		.plan = job->plan,
		.results = job->results,
		.result_count = job->result_count,
	};
	sim.passes_run++;
	pass->result = sim_pipeline_run_job(setup, job, outcome, err);
	pass->is_running = false;
	pass->is_canceled = pass->result == RINGSUM_E_CANCELED;
	SIM_REQUIRE(pass->engines_running == 0);
	sim_check_pass(pass);
	pass->kept = calloc(pass->result_count + 1, sizeof(*pass->kept));
	SIM_REQUIRE(pass->kept);
	memcpy(pass->kept, pass->results, pass->result_count * sizeof(*pass->kept));
	return pass->result;
}

/* ---- opening ------------------------------------------------------------------------------------------ */

static int shard_of_name(const char *name)
{
	const char *at = strstr(name, "shard-");

	return at ? atoi(at + 6) : -1;
}

static int note_open_error(struct sim_pass *pass, int shard, int os_errno)
{
	unsigned count = RSUM_MIN(pass->open_error_count[shard], SIM_OPEN_ERRORS_MAX - 1);

	pass->open_errors[shard][count] = -os_errno;
	pass->open_error_count[shard] = count + 1;
	errno = os_errno;
	return -1;
}

/* 0, or -1 with errno where this opening is refused. */
static int refuse_open(const char *name, int flags)
{
	static const int errnos[] = { EACCES, EIO, EPERM, ENOMEM, ETXTBSY };
	struct sim_pass *pass = sim_pass();
	int shard = shard_of_name(name);
	uint64_t attempt, what;

	/* The second look, without following links, only says what is missing. */
	if (!pass || shard < 0 || flags & O_NOFOLLOW)
		return 0;
	attempt = pass->open_attempts[shard]++;
	what = sim_chance(3005, pass->number, (unsigned)shard, attempt);
	if (sim_happens(SIM_OPEN_INTERRUPTED, pass->number, (unsigned)shard, attempt)) {
		errno = what & 1 ? EINTR : EAGAIN;
		return -1;
	}
	if (sim_happens(SIM_TOO_MANY_FILES, pass->number, (unsigned)shard, attempt))
		return note_open_error(pass, shard, what & 1 ? EMFILE : ENFILE);
	if (sim_happens(SIM_OPEN_FAILS, pass->number, (unsigned)shard, attempt))
		return note_open_error(pass, shard, errnos[what % RSUM_COUNT_OF(errnos)]);
	if (sim_happens(SIM_OPEN_GONE, pass->number, (unsigned)shard, attempt)) {
		pass->saw_change[shard] = true;
		errno = ENOENT;
		return -1;
	}
	return 0;
}

static int note_open(int fd, const char *name)
{
	int shard = shard_of_name(name);

	if (fd >= 0 && fd < WATCHED_FDS) {
		direct[fd] = false;
		generation[fd] = shard >= 0 ? sim.shards[shard].generation : 0;
	}
	return fd;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arguments[6];
	const struct open_how *how;
	const char *name;
	va_list list;
	unsigned i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	name = (const char *)arguments[1];
	how = (const struct open_how *)arguments[2];
	if (number == SYS_openat2 && refuse_open(name, (int)how->flags) != 0)
		return -1;
	number = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
				arguments[4], arguments[5]);
	return how && name ? note_open((int)number, name) : number;
}

/* Where the kernel has no openat2 the walk opens so. */
int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	if (refuse_open(path, flags) != 0)
		return -1;
	return note_open(__real_openat64(fd, path, flags), path);
}

/* ---- what a file says of itself ------------------------------------------------------------------------ */

static void show_shard(int fd, int index, struct statx *status)
{
	const struct sim_shard *shard = &sim.shards[index];
	unsigned shown = sim_fd_generation(fd);
	bool is_old = shown != shard->generation;
	unsigned ticks = is_old ? shard->old_ticks : shard->ticks;
	struct sim_pass *pass = sim_pass();

	if (shown || ticks || shard->current_bytes != shard->size_bytes) {
		status->stx_ino += (uint64_t)shown << 40;
		status->stx_mtime.tv_nsec = (status->stx_mtime.tv_nsec + ticks) % 1000000000;
		status->stx_ctime.tv_sec += ticks;
		if (!is_old)
			status->stx_size = shard->current_bytes;
		/* A look before the opening only tells what kind of file is there. */
		if (pass && !(__real_fcntl64(fd, F_GETFL, 0) & O_PATH) &&
		    (shown || ticks || status->stx_size != shard->size_bytes))
			pass->saw_change[index] = true;
	}
#ifdef STATX_DIOALIGN
	status->stx_mask &= ~(unsigned)STATX_DIOALIGN;
	if (shard->direct_is_known)
		status->stx_mask |= STATX_DIOALIGN;
	status->stx_dio_mem_align = status->stx_dio_offset_align = shard->direct_alignment;
#endif
}

int __real_statx(int fd, const char *path, int flags, unsigned mask, struct statx *status_out);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *status_out);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *status_out)
{
	int result = __real_statx(fd, path, flags, mask, status_out), shard;

	if (result != 0 || !sim.delivery)
		return result;
	shard = sim_shard_of_fd(fd);
	if (shard >= 0) {
		sim_lock();
		show_shard(fd, shard, status_out);
		sim_unlock();
	}
	if (sim.document_changed && status_out->stx_ino == sim.manifest_inode)
		status_out->stx_mtime.tv_nsec = (status_out->stx_mtime.tv_nsec + 1) % 1000000000;
	return result;
}

/* O_DIRECT is the simulation's: not every file system that tests run on takes it. */
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list arguments;
	int argument, shard;

	va_start(arguments, command);
	argument = va_arg(arguments, int);
	va_end(arguments);
	shard = command == F_GETFL || command == F_SETFL ? sim_shard_of_fd(fd) : -1;
	if (shard < 0)
		return __real_fcntl64(fd, command, argument);
	if (command == F_GETFL)
		return __real_fcntl64(fd, command, 0) | (direct[fd] ? O_DIRECT : 0);
	if (argument & O_DIRECT && sim_pass() &&
	    sim_happens(SIM_NO_DIRECT_AT_OPEN, sim.pass_count, (unsigned)shard, 0)) {
		errno = EINVAL;
		return -1;
	}
	SIM_REQUIRE(fd < WATCHED_FDS);
	direct[fd] = argument & O_DIRECT;
	return __real_fcntl64(fd, command, argument & ~O_DIRECT);
}

/* During a run only workers come here, with what the loop left to them. */
static ssize_t read_left(int fd, void *buffer, size_t count, off_t offset)
{
	int shard = sim_shard_of_fd(fd);
	ssize_t result;

	SIM_REQUIRE(shard >= 0 && !sim_fd_is_direct(fd));
	sim_lock();
	result = sim_read_left(shard, buffer, count, (uint64_t)offset);
	sim_unlock();
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

/* Whether the page cache has it: all, nothing, or this and that; or who asks is not told. */
ssize_t __real_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
	const struct sim_pass *pass = sim_pass();
	uint64_t round = sim_chance(3008, 0, 0, 0);
	uint64_t here = sim_chance(3009, (uint64_t)offset / 4096, 0, 0);

	(void)flags;
	SIM_REQUIRE(pass && count == 1 && pieces[0].iov_len == 1 && sim_shard_of_fd(fd) >= 0);
	if (round % 8 == 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (round % 8 < 3 || (round % 8 < 6 && here & 1)) {
		errno = EAGAIN;
		return -1;
	}
	return 1;
}

/* Where the tests' files are must not matter. */
int __real_fstatfs64(int fd, struct statfs *system_out);
int __wrap_fstatfs64(int fd, struct statfs *system_out);
int __wrap_fstatfs64(int fd, struct statfs *system_out)
{
	int result = __real_fstatfs64(fd, system_out);

	system_out->f_type = sim_chance(3010, 0, 0, 0) % 8 ? EXT4_SUPER_MAGIC : TMPFS_MAGIC;
	return result;
}

/* Headers, at opening: the pipeline reads through the engine, or leaves it to its workers. */
ssize_t __real_pread64(int fd, void *buffer, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset)
{
	static const int errnos[] = { EIO, EAGAIN, ENXIO, ETIMEDOUT };
	unsigned nth;

	if (sim_pass())
		return read_left(fd, buffer, count, offset);
	if (!sim.is_opening)
		return __real_pread64(fd, buffer, count, offset);
	nth = sim.header_reads++;
	if (sim_happens(SIM_HEADER_EINTR, nth, 0, 0)) {
		errno = EINTR;
		return -1;
	}
	if (sim_happens(SIM_HEADER_ERROR, nth, 0, 0)) {
		sim.has_header_error = true;
		errno = errnos[sim_chance(3006, nth, 0, 0) % RSUM_COUNT_OF(errnos)];
		return -1;
	}
	if (count > 1 && sim_happens(SIM_HEADER_SHORT, nth, 0, 0))
		count = 1 + sim_chance(3007, nth, 0, 0) % (count - 1);
	return __real_pread64(fd, buffer, count, offset);
}

/* ---- memory, threads, time --------------------------------------------------------------------------- */

void *__real_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	const struct sim_pass *pass = sim_pass();

	/* Huge pages first, then small ones: both or neither. */
	if (pass && flags & MAP_ANONYMOUS && sim_happens(SIM_NO_POOL, pass->number, 0, 0)) {
		sim.passes[sim.pass_count - 1].could_not_begin = true;
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap64(address, size, protection, flags, fd, offset);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *arg)
{
	struct sim_pass *pass = sim_pass();
	int result;

	if (pass && sim_happens(SIM_FEWER_THREADS, pass->number, pass->threads_begun, 0)) {
		pass->could_not_begin |= pass->threads_begun == 0;
		return EAGAIN;
	}
	result = __real_pthread_create(thread, attributes, run, arg);
	if (pass && result == 0)
		pass->threads_begun++;
	return result;
}

void sim_let_time_pass(void)
{
	atomic_fetch_add(&time_gone_ns, CANCEL_STEP_NS);
}

void sim_reset_time(void)
{
	atomic_store(&time_gone_ns, 0);
}

int __real_clock_gettime(clockid_t clock, struct timespec *now_out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now_out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now_out)
{
	int result = __real_clock_gettime(clock, now_out);
	long long now;

	if (result != 0 || clock != CLOCK_MONOTONIC)
		return result;
	now = now_out->tv_nsec + atomic_load(&time_gone_ns);
	now_out->tv_sec += now / 1000000000;
	now_out->tv_nsec = now % 1000000000;
	return 0;
}
