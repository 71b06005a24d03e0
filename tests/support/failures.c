/* SPDX-License-Identifier: Apache-2.0 */
/* Stands between the library and the system. */
#include "failures.h"

#include <dirent.h>
#include <liburing.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct json_object;

/* Fixed while armed. */
static enum failure_kind armed_kind;
static unsigned armed_nth;
static int armed_errno;
static bool armed_lasts;

static atomic_bool is_counting;
static atomic_uint counted;
static atomic_bool has_no_openat2;
static void (*acts)(void);	   /* in place of a failure; NULL: it fails */
static const char *_Atomic failed; /* the function that failed */

static bool fails(enum failure_kind kind, const char *function)
{
	unsigned number;

	if (!atomic_load(&is_counting) || kind != armed_kind || armed_nth == 0)
		return false;
	number = atomic_fetch_add(&counted, 1) + 1;
	if (armed_lasts ? number < armed_nth : number != armed_nth)
		return false;
	if (number == armed_nth)
		atomic_store(&failed, function);
	if (acts) {
		if (number == armed_nth)
			acts();
		return false;
	}
	errno = armed_errno;
	return true;
}

static void arm(enum failure_kind kind, unsigned nth, int os_errno, bool is_lasting,
		void (*act)(void))
{
	acts = act;
	armed_kind = kind;
	armed_nth = nth;
	armed_errno = os_errno;
	armed_lasts = is_lasting;
	atomic_store(&counted, 0);
	atomic_store(&failed, NULL);
	atomic_store(&is_counting, true);
}

void failures_arm(enum failure_kind kind, unsigned nth, int os_errno, bool is_lasting)
{
	arm(kind, nth, os_errno, is_lasting, NULL);
}

void failures_arm_act(unsigned nth, void (*act)(void))
{
	arm(FAILURE_CALL, nth, 0, false, act);
}

bool failures_disarm(void)
{
	atomic_store(&is_counting, false);
	return atomic_load(&failed) != NULL;
}

void failures_deny_openat2(bool is_denied)
{
	atomic_store(&has_no_openat2, is_denied);
}

void failures_pause(bool is_paused)
{
	atomic_store(&is_counting, !is_paused);
}

const char *failures_describe(void)
{
	static char text[128];
	const char *function = atomic_load(&failed);
	char reason[64];

	snprintf(text, sizeof(text), "number %u (%s)%s failed with %s", armed_nth,
		 function ? function : "none", armed_lasts ? " and all after it" : "",
		 strerror_r(armed_errno, reason, sizeof(reason)));
	return text;
}

/*
 * WRAP(kind, type, name, parameters, arguments, failure): counts the call, and either fails it
 * or passes it on.
 */
#define WRAP(kind, type, name, parameters, arguments, failure) \
	type __real_##name parameters;                         \
	type __wrap_##name parameters;                         \
	type __wrap_##name parameters                          \
	{                                                      \
		if (fails(kind, #name))                        \
			return failure;                        \
		return __real_##name arguments;                \
	}

#define WRAP_MEMORY(type, name, parameters, arguments) \
	WRAP(FAILURE_MEMORY, type, name, parameters, arguments, NULL)
#define WRAP_CALL(type, name, parameters, arguments, failure) \
	WRAP(FAILURE_CALL, type, name, parameters, arguments, failure)
/* Functions that return the error rather than setting errno. */
#define WRAP_RING(name, parameters, arguments) \
	WRAP(FAILURE_CALL, int, name, parameters, arguments, -armed_errno)

/* ---- memory ----------------------------------------------------------------------------------- */

WRAP_MEMORY(void *, malloc, (size_t size), (size))
WRAP_MEMORY(void *, calloc, (size_t count, size_t size), (count, size))
WRAP_MEMORY(void *, realloc, (void *old, size_t size), (old, size))
WRAP_MEMORY(char *, strdup, (const char *text), (text))
WRAP_MEMORY(char *, strndup, (const char *text, size_t size), (text, size))
WRAP_MEMORY(struct json_object *, json_object_new_object, (void), ())
WRAP_MEMORY(struct json_object *, json_object_new_array, (void), ())
WRAP_MEMORY(struct json_object *, json_object_new_uint64, (uint64_t number), (number))
WRAP_MEMORY(struct json_object *, json_object_new_double, (double number), (number))
WRAP_MEMORY(struct json_object *, json_object_new_boolean, (int truth), (truth))
WRAP_MEMORY(struct json_object *, json_object_new_string_len, (const char *text, int size),
	    (text, size))
WRAP_MEMORY(const char *, json_object_to_json_string_length,
	    (struct json_object * object, int flags, size_t *size_out), (object, flags, size_out))
WRAP(FAILURE_MEMORY, int, json_object_object_add,
     (struct json_object * object, const char *key, struct json_object *value),
     (object, key, value), -1)
WRAP(FAILURE_MEMORY, int, json_object_array_add,
     (struct json_object * object, struct json_object *value), (object, value), -1)
WRAP(FAILURE_MEMORY, void *, mmap64,
     (void *address, size_t size, int protection, int flags, int fd, off_t offset),
     (address, size, protection, flags, fd, offset), MAP_FAILED)

static void *crypto_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return fails(FAILURE_MEMORY, "libcrypto") ? NULL : malloc(size);
}

static void *crypto_realloc(void *old, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return fails(FAILURE_MEMORY, "libcrypto") ? NULL : realloc(old, size);
}

static void crypto_free(void *memory, const char *file, int line)
{
	(void)file;
	(void)line;
	free(memory);
}

void failures_install(void)
{
	if (CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) != 1) {
		fprintf(stderr, "libcrypto takes no other allocator\n");
		abort();
	}
}

/* ---- files and threads -------------------------------------------------------------------------- */

WRAP_CALL(ssize_t, pread64, (int fd, void *buffer, size_t count, off_t offset),
	  (fd, buffer, count, offset), -1)
WRAP_CALL(int, statx,
	  (int fd, const char *path, int flags, unsigned mask, struct statx *status_out),
	  (fd, path, flags, mask, status_out), -1)
WRAP_CALL(int, fstat64, (int fd, struct stat *status_out), (fd, status_out), -1)
WRAP_CALL(int, fstatat64, (int fd, const char *path, struct stat *status_out, int flags),
	  (fd, path, status_out, flags), -1)
WRAP_CALL(int, stat64, (const char *path, struct stat *status_out), (path, status_out), -1)
WRAP_CALL(ssize_t, readlinkat, (int fd, const char *path, char *buffer, size_t size),
	  (fd, path, buffer, size), -1)
WRAP_CALL(DIR *, fdopendir, (int fd), (fd), NULL)
WRAP_CALL(struct dirent *, readdir64, (DIR * stream), (stream), NULL)
WRAP_CALL(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP_CALL(int, madvise, (void *address, size_t size, int advice), (address, size, advice), -1)
WRAP_CALL(int, posix_fadvise64, (int fd, off_t offset, off_t size, int advice),
	  (fd, offset, size, advice), armed_errno)
WRAP_CALL(int, pthread_create,
	  (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),
	  (thread, attributes, run, arg), EAGAIN)

/* Those with a variable tail: no caller gives more than these. */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	return fails(FAILURE_CALL, "open") ? -1 : __real_open64(path, flags);
}

int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	return fails(FAILURE_CALL, "openat") ? -1 : __real_openat64(fd, path, flags);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list arguments;
	int argument;

	va_start(arguments, command);
	argument = va_arg(arguments, int);
	va_end(arguments);
	return fails(FAILURE_CALL, "fcntl") ? -1 : __real_fcntl64(fd, command, argument);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arguments[6];
	va_list list;
	unsigned i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_openat2 && atomic_load(&has_no_openat2)) {
		errno = ENOSYS;
		return -1;
	}
	if (fails(FAILURE_CALL, number == SYS_openat2 ? "openat2" : "syscall"))
		return -1;
	return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
			      arguments[4], arguments[5]);
}

/* ---- io_uring ----------------------------------------------------------------------------------- */

WRAP_RING(io_uring_queue_init_params,
	  (unsigned entries, struct io_uring *ring, struct io_uring_params *params),
	  (entries, ring, params))
WRAP_RING(io_uring_register_buffers,
	  (struct io_uring * ring, const struct iovec *pieces, unsigned count),
	  (ring, pieces, count))
WRAP_RING(io_uring_register_files_sparse, (struct io_uring * ring, unsigned count), (ring, count))
WRAP_RING(io_uring_register_files_update,
	  (struct io_uring * ring, unsigned offset, const int *files, unsigned count),
	  (ring, offset, files, count))
WRAP_RING(io_uring_submit, (struct io_uring * ring), (ring))
WRAP_RING(io_uring_wait_cqe_timeout,
	  (struct io_uring * ring, struct io_uring_cqe **cqe_out,
	   struct __kernel_timespec *timeout),
	  (ring, cqe_out, timeout))
