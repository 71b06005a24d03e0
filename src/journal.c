/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's file: who may use it, what is in it, and how it gets there. */
#include "journal.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "ringsum-journal\n"
#define MAGIC_BYTES 16
#define VERSION 1
#define CHECK_BYTES 24
#define NONCE_BYTES 16

/* What is proven is on the disk so soon; more often would only disturb the reading. */
#define FLUSH_NS 500000000

#define FILE_PROMISE UINT32_C(0x80000000)

#define DEPTH_MAX 4096 /* directories from a journal up to the root of all */
#define READ_RECORDS 512

struct header {
	char magic[MAGIC_BYTES];
	uint32_t version;
	uint32_t record_bytes;
	uint8_t manifest_sha256[RSUM_SHA256_BYTES];
	uint8_t nonce[NONCE_BYTES];
	uint8_t unused[32]; /* zero */
	uint8_t check[CHECK_BYTES];
};

struct record {
	uint64_t number; /* from 1 */
	uint64_t device;
	uint64_t inode;
	uint64_t size_bytes;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint64_t begin;
	uint64_t end;
	uint8_t seal[RSUM_SHA256_BYTES];
	uint32_t promise; /* and FILE_PROMISE */
	uint8_t head[4];
	uint8_t check[CHECK_BYTES];
};

_Static_assert(sizeof(struct header) == RSUM_JOURNAL_RECORD_BYTES, "no padding");
_Static_assert(sizeof(struct record) == RSUM_JOURNAL_RECORD_BYTES, "no padding");
_Static_assert(offsetof(struct record, check) == RSUM_JOURNAL_RECORD_BYTES - CHECK_BYTES, "last");
_Static_assert(offsetof(struct header, check) == RSUM_JOURNAL_RECORD_BYTES - CHECK_BYTES, "last");

struct rsum_journal {
	/* Fixed once it is open. */
	int fd;
	int directory_fd;
	char *name; /* in the directory */
	uint8_t nonce[NONCE_BYTES];
	pthread_t writer;
	bool has_writer;
	/* Guarded by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t ending;
	struct record *waiting;
	size_t waiting_count, waiting_capacity;
	bool is_ending;
	bool is_broken; /* a record could not be written: none may follow */
	/* The writer's, and the opener's before. */
	uint64_t end; /* in the file: what is good ends there */
	uint64_t record_count;
};

/* ---- records ---------------------------------------------------------------------------------- */

/* The checksum of a header or record, over the nonce and all that comes before it. */
static int checksum(const uint8_t nonce[NONCE_BYTES], const void *record, uint8_t out[CHECK_BYTES])
{
	uint8_t text[NONCE_BYTES + RSUM_JOURNAL_RECORD_BYTES - CHECK_BYTES];
	uint8_t digest[RSUM_SHA256_BYTES];
	int result;

	memcpy(text, nonce, NONCE_BYTES);
	memcpy(text + NONCE_BYTES, record, RSUM_JOURNAL_RECORD_BYTES - CHECK_BYTES);
	result = rsum_sha256_of(text, sizeof(text), digest);
	if (result == RINGSUM_OK)
		memcpy(out, digest, CHECK_BYTES);
	return result;
}

int rsum_journal_seal(enum rsum_algorithm algorithm, const uint8_t *digest, size_t digest_bytes,
		      uint8_t seal_out[RSUM_SHA256_BYTES])
{
	uint8_t text[1 + RSUM_DIGEST_BYTES_MAX];

	RSUM_ASSERT(digest_bytes <= RSUM_DIGEST_BYTES_MAX);
	text[0] = (uint8_t)algorithm;
	memcpy(text + 1, digest, digest_bytes);
	return rsum_sha256_of(text, 1 + digest_bytes, seal_out);
}

static bool is_right(const uint8_t nonce[NONCE_BYTES], const void *record,
		     const uint8_t check[CHECK_BYTES])
{
	uint8_t wanted[CHECK_BYTES];

	return checksum(nonce, record, wanted) == RINGSUM_OK &&
	       memcmp(check, wanted, CHECK_BYTES) == 0;
}

static void unpack(const struct record *record, struct rsum_journal_entry *entry)
{
	*entry = (struct rsum_journal_entry){
		.identity = {
			.device = record->device,
			.inode = record->inode,
			.size_bytes = record->size_bytes,
			.mtime_ns = record->mtime_ns,
			.ctime_ns = record->ctime_ns,
		},
		.begin = record->begin,
		.end = record->end,
		.promise = record->promise & ~FILE_PROMISE,
		.is_file = (record->promise & FILE_PROMISE) != 0,
	};
	memcpy(entry->seal, record->seal, sizeof(entry->seal));
	memcpy(entry->head, record->head, sizeof(entry->head));
}

static int write_at(int fd, uint64_t offset, const void *data, size_t size_bytes)
{
	const uint8_t *at = data;

	while (size_bytes > 0) {
		ssize_t written = pwrite(fd, at, size_bytes, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		at += written;
		offset += (uint64_t)written;
		size_bytes -= (size_t)written;
	}
	return 0;
}

/* ---- who may use it --------------------------------------------------------------------------- */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a directory is the root of the checkpoint or lies below it. A negative errno: unknown. */
static int is_inside(int directory_fd, const struct rsum_root *root)
{
	struct stat top, here, above;
	int fd = dup(directory_fd), result = 0;
	unsigned depth;

	if (fd < 0 || fstat(root->fd, &top) != 0 || fstat(fd, &here) != 0) {
		result = -errno;
		goto out;
	}
	for (depth = 0; depth < DEPTH_MAX; depth++) {
		int up;

		if (same_file(&here, &top)) {
			result = 1;
			goto out;
		}
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (up < 0 || fstat(up, &above) != 0) {
			result = -errno;
			if (up >= 0)
				close(up);
			goto out;
		}
		close(fd);
		fd = up;
		if (same_file(&here, &above))
			goto out;
		here = above;
	}
	result = -ELOOP;
out:
	if (fd >= 0)
		close(fd);
	return result;
}

static int refuse(const char *path, const char *why, struct ringsum_error *err)
{
	return rsum_error_set(err, RINGSUM_E_INVALID, "%.200s cannot be the journal: %s", path,
			      why);
}

static int check_file(const struct rsum_journal *journal, const char *path, struct stat *status,
		      struct ringsum_error *err)
{
	if (fstat(journal->fd, status) != 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, errno,
					    "the journal %.200s cannot be looked at", path);
	if (!S_ISREG(status->st_mode))
		return refuse(path, "it is no regular file", err);
	if (status->st_uid != geteuid())
		return refuse(path, "it belongs to someone else; name a file of your own", err);
	if (status->st_mode & (S_IWGRP | S_IWOTH))
		return refuse(path,
			      "others may write to it; remove it, or take that right from them",
			      err);
	if (status->st_nlink != 1)
		return refuse(path, "it has another name, or was removed", err);
	if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0)
		return refuse(path, "another run uses it", err);
	return RINGSUM_OK;
}

/* Opens the file, made where it is not there, in a directory outside of the root. */
static int open_file(struct rsum_journal *journal, const char *path, const struct rsum_root *root,
		     struct stat *status, struct ringsum_error *err)
{
	const char *slash = strrchr(path, '/');
	char *directory = slash == path ? strdup("/")
			  : slash	? strndup(path, (size_t)(slash - path))
					: strdup(".");
	int inside;

	journal->name = strdup(slash ? slash + 1 : path);
	if (!directory || !journal->name) {
		free(directory);
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the journal");
	}
	journal->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(directory);
	if (journal->directory_fd < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, errno,
					    "the directory of the journal %.200s cannot be opened",
					    path);
	inside = is_inside(journal->directory_fd, root);
	if (inside < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -inside,
					    "where the journal %.200s lies cannot be found out",
					    path);
	if (inside)
		return refuse(path,
			      "it lies in the checkpoint's directory, where nothing is trusted",
			      err);
	journal->fd =
		openat(journal->directory_fd, journal->name,
		       O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (journal->fd < 0 && errno == ELOOP)
		return refuse(path, "it is a symbolic link", err);
	if (journal->fd < 0 && errno == EISDIR)
		return refuse(path, "it is a directory", err);
	if (journal->fd < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, errno,
					    "the journal %.200s cannot be opened", path);
	return check_file(journal, path, status, err);
}

/* ---- opening ------------------------------------------------------------------------------------ */

static int begin_anew(struct rsum_journal *journal, const char *path,
		      const uint8_t manifest_sha256[RSUM_SHA256_BYTES], struct ringsum_error *err)
{
	struct header header = { .version = VERSION, .record_bytes = RSUM_JOURNAL_RECORD_BYTES };
	int result;

	memcpy(header.magic, MAGIC, MAGIC_BYTES);
	memcpy(header.manifest_sha256, manifest_sha256, RSUM_SHA256_BYTES);
	if (getrandom(header.nonce, sizeof(header.nonce), 0) != (ssize_t)sizeof(header.nonce))
		return rsum_error_set_errno(err, RINGSUM_E_IO, errno,
					    "no random number for the journal %.200s", path);
	if (checksum(header.nonce, &header, header.check) != RINGSUM_OK)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the journal");
	result = ftruncate(journal->fd, 0) != 0 ? -errno
						: write_at(journal->fd, 0, &header, sizeof(header));
	if (result == 0 && (fsync(journal->fd) != 0 || fsync(journal->directory_fd) != 0))
		result = -errno;
	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result,
					    "the journal %.200s cannot be written", path);
	memcpy(journal->nonce, header.nonce, NONCE_BYTES);
	journal->end = sizeof(header);
	return RINGSUM_OK;
}

/* Gives out records up to the first that is not right, and cuts off what is behind. */
static int read_records(struct rsum_journal *journal, const char *path, uint64_t size_bytes,
			rsum_journal_fn visit, void *arg, struct ringsum_error *err)
{
	struct record *records = calloc(READ_RECORDS, sizeof(*records));
	bool goes_on = records != NULL;
	int result = 0;

	while (goes_on && journal->end + sizeof(*records) <= size_bytes && result == 0) {
		size_t count = (size_t)RSUM_MIN((size_bytes - journal->end) / sizeof(*records),
						READ_RECORDS),
		       i;

		result = rsum_file_read_at(journal->fd, journal->end, records,
					   count * sizeof(*records));
		for (i = 0; result == 0 && i < count && goes_on; i++) {
			struct rsum_journal_entry entry;

			goes_on = records[i].number == journal->record_count + 1 &&
				  is_right(journal->nonce, &records[i], records[i].check);
			if (!goes_on)
				break;
			unpack(&records[i], &entry);
			visit(arg, &entry);
			journal->record_count++;
			journal->end += sizeof(*records);
		}
	}
	if (!records)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the journal");
	free(records);
	if (result == 0 && size_bytes > journal->end &&
	    ftruncate(journal->fd, (off_t)journal->end) != 0)
		result = -errno;
	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result,
					    "the journal %.200s cannot be read", path);
	return RINGSUM_OK;
}

static int read_header(struct rsum_journal *journal, const char *path, uint64_t size_bytes,
		       const uint8_t manifest_sha256[RSUM_SHA256_BYTES], bool *is_new_out,
		       struct ringsum_error *err)
{
	struct header header = { 0 };
	size_t there = (size_t)RSUM_MIN(size_bytes, sizeof(header));
	char found[65];
	int result = rsum_file_read_at(journal->fd, 0, &header, there);

	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_IO, -result,
					    "the journal %.200s cannot be read", path);
	/* A run that ended while it began its journal. */
	*is_new_out = size_bytes < sizeof(header) &&
		      memcmp(header.magic, MAGIC, RSUM_MIN(there, MAGIC_BYTES)) == 0;
	if (*is_new_out)
		return RINGSUM_OK;
	if (memcmp(header.magic, MAGIC, MAGIC_BYTES) != 0)
		return refuse(path, "it is a file of another kind; name another, or remove it",
			      err);
	if (header.version != VERSION || header.record_bytes != RSUM_JOURNAL_RECORD_BYTES ||
	    !is_right(header.nonce, &header, header.check))
		return refuse(path, "its beginning is damaged, or of another version; remove it",
			      err);
	if (memcmp(header.manifest_sha256, manifest_sha256, RSUM_SHA256_BYTES) != 0) {
		rsum_hex_encode_digest(header.manifest_sha256, found);
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "%.200s is the journal of a run over another manifest "
				      "(sha256 %s); name another file, or remove it where that run "
				      "is not to go on",
				      path, found);
	}
	memcpy(journal->nonce, header.nonce, NONCE_BYTES);
	journal->end = sizeof(header);
	return RINGSUM_OK;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Brings records to the disk. Returns 0 or a negative errno. */
static int write_records(struct rsum_journal *journal, struct record *records, size_t count)
{
	size_t i;
	int result = 0;

	for (i = 0; i < count; i++) {
		records[i].number = journal->record_count + i + 1;
		if (checksum(journal->nonce, &records[i], records[i].check) != RINGSUM_OK)
			return -ENOMEM;
	}
	result = write_at(journal->fd, journal->end, records, count * sizeof(*records));
	if (result == 0 && fdatasync(journal->fd) != 0)
		result = -errno;
	if (result < 0)
		return result;
	journal->record_count += count;
	journal->end += count * sizeof(*records);
	return 0;
}

static void *write_waiting(void *journal_ptr)
{
	struct rsum_journal *journal = journal_ptr;
	bool is_ending = false;

	pthread_mutex_lock(&journal->lock);
	while (!is_ending) {
		struct record *records;
		struct timespec until;
		size_t count;
		int result = 0;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += (until.tv_nsec + FLUSH_NS) / 1000000000;
		until.tv_nsec = (until.tv_nsec + FLUSH_NS) % 1000000000;
		while (!journal->is_ending && result == 0)
			result = pthread_cond_timedwait(&journal->ending, &journal->lock, &until);
		is_ending = journal->is_ending;
		records = journal->waiting;
		count = journal->waiting_count;
		journal->waiting = NULL;
		journal->waiting_count = journal->waiting_capacity = 0;
		if (count > 0 && !journal->is_broken) {
			pthread_mutex_unlock(&journal->lock);
			result = write_records(journal, records, count);
			pthread_mutex_lock(&journal->lock);
			/* What came to the disk of it is a torn tail; nothing may follow it. */
			if (result < 0)
				journal->is_broken = true;
		}
		free(records);
	}
	pthread_mutex_unlock(&journal->lock);
	return NULL;
}

void rsum_journal_append(struct rsum_journal *journal, const struct rsum_journal_entry *entry)
{
	struct record *record;

	pthread_mutex_lock(&journal->lock);
	if (journal->waiting_count == journal->waiting_capacity) {
		size_t capacity = journal->waiting_capacity * 2 + 64;
		struct record *grown = realloc(journal->waiting, capacity * sizeof(*grown));

		/* What is not in the journal is read again. */
		if (!grown)
			goto out;
		journal->waiting = grown;
		journal->waiting_capacity = capacity;
	}
	record = &journal->waiting[journal->waiting_count++];
	*record = (struct record){
		.device = entry->identity.device,
		.inode = entry->identity.inode,
		.size_bytes = entry->identity.size_bytes,
		.mtime_ns = entry->identity.mtime_ns,
		.ctime_ns = entry->identity.ctime_ns,
		.begin = entry->begin,
		.end = entry->end,
		.promise = entry->promise | (entry->is_file ? FILE_PROMISE : 0),
	};
	memcpy(record->seal, entry->seal, sizeof(record->seal));
	memcpy(record->head, entry->head, sizeof(record->head));
out:
	pthread_mutex_unlock(&journal->lock);
}

/* ---- beginning and end ------------------------------------------------------------------------- */

static void stop_writer(struct rsum_journal *journal)
{
	if (!journal->has_writer)
		return;
	pthread_mutex_lock(&journal->lock);
	journal->is_ending = true;
	pthread_cond_broadcast(&journal->ending);
	pthread_mutex_unlock(&journal->lock);
	pthread_join(journal->writer, NULL);
	journal->has_writer = false;
}

void rsum_journal_keep(struct rsum_journal *journal)
{
	if (!journal)
		return;
	stop_writer(journal);
	if (journal->fd >= 0)
		close(journal->fd);
	if (journal->directory_fd >= 0)
		close(journal->directory_fd);
	pthread_cond_destroy(&journal->ending);
	pthread_mutex_destroy(&journal->lock);
	free(journal->waiting);
	free(journal->name);
	free(journal);
}

int rsum_journal_discard(struct rsum_journal *journal)
{
	struct stat ours, there;
	bool is_empty, is_gone;
	int result = 0;

	if (!journal)
		return 0;
	stop_writer(journal);
	/* Emptied first, so that a crash cannot bring it back. */
	is_empty = ftruncate(journal->fd, 0) == 0 && fsync(journal->fd) == 0;
	if (!is_empty)
		result = -errno;
	is_gone = fstat(journal->fd, &ours) == 0 &&
		  fstatat(journal->directory_fd, journal->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		  same_file(&ours, &there) &&
		  unlinkat(journal->directory_fd, journal->name, 0) == 0 &&
		  fsync(journal->directory_fd) == 0;
	if (is_gone)
		result = 0;
	rsum_journal_keep(journal);
	return result;
}

int rsum_journal_open(const char *path, const struct rsum_root *root,
		      const uint8_t manifest_sha256[RSUM_SHA256_BYTES], rsum_journal_fn visit,
		      void *arg, struct rsum_journal **journal_out, struct ringsum_error *err)
{
	struct rsum_journal *journal = calloc(1, sizeof(*journal));
	pthread_condattr_t monotonic;
	struct stat status;
	bool is_new = true;
	int result;

	if (!journal)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the journal");
	journal->fd = journal->directory_fd = -1;
	pthread_mutex_init(&journal->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&journal->ending, &monotonic);
	pthread_condattr_destroy(&monotonic);
	result = open_file(journal, path, root, &status, err);
	if (result == RINGSUM_OK && status.st_size > 0)
		result = read_header(journal, path, (uint64_t)status.st_size, manifest_sha256,
				     &is_new, err);
	if (result == RINGSUM_OK)
		result = is_new ? begin_anew(journal, path, manifest_sha256, err)
				: read_records(journal, path, (uint64_t)status.st_size, visit, arg,
					       err);
	if (result == RINGSUM_OK) {
		int failed = pthread_create(&journal->writer, NULL, write_waiting, journal);

		journal->has_writer = failed == 0;
		if (failed)
			result = rsum_error_set_errno(err, RINGSUM_E_IO, failed,
						      "no thread for the journal could be started");
	}
	if (result != RINGSUM_OK) {
		rsum_journal_keep(journal);
		return result;
	}
	*journal_out = journal;
	return RINGSUM_OK;
}
