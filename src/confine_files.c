/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of confine.h: what is done with descriptors once they are open. Identity of a file,
 * whole reads, and the list of everything below a root.
 */
#include "confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "rsum_limits.h"

#define READ_BYTES_MAX \
	((size_t)1 << 30) /* of one call; the kernel's own bound is just below 2 GiB */
#define STATX_WANTED (STATX_TYPE | STATX_SIZE | STATX_INO | STATX_MTIME | STATX_CTIME)

/* ---- identity ----------------------------------------------------------------------------- */

bool rsum_file_identity_equal(const struct rsum_file_identity *a,
			      const struct rsum_file_identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* Wraps for years outside 1678 to 2262, which serves to tell two times apart. */
static int64_t time_ns(int64_t seconds, int64_t nanoseconds)
{
	return (int64_t)((uint64_t)seconds * 1000000000u + (uint64_t)nanoseconds);
}

#ifdef STATX_DIOALIGN
static void take_direct(const struct statx *status, struct rsum_file_identity *identity)
{
	identity->direct_is_known = (status->stx_mask & STATX_DIOALIGN) != 0;
	if (!identity->direct_is_known)
		return;
	identity->direct_memory_alignment = status->stx_dio_mem_align;
	identity->direct_offset_alignment = status->stx_dio_offset_align;
}
#else /* kernel headers before 6.1 */
#define STATX_DIOALIGN 0
static void take_direct(const struct statx *status, struct rsum_file_identity *identity)
{
	(void)status;
	identity->direct_is_known = false;
}
#endif

static int identify_fstat(int fd, struct rsum_file_identity *identity, unsigned *mode_out)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	*identity = (struct rsum_file_identity){
		.device = status.st_dev,
		.inode = status.st_ino,
		.size_bytes = (uint64_t)status.st_size,
		.mtime_ns = time_ns(status.st_mtim.tv_sec, status.st_mtim.tv_nsec),
		.ctime_ns = time_ns(status.st_ctim.tv_sec, status.st_ctim.tv_nsec),
	};
	*mode_out = status.st_mode;
	return 0;
}

int rsum_file_identify_mode(int fd, struct rsum_file_identity *identity_out, unsigned *mode_out)
{
	struct rsum_file_identity identity = { 0 };
	struct statx status;

	memset(&status, 0, sizeof(status));
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_DIOALIGN, &status)) {
		/* seccomp profiles that are older than statx answer EPERM */
		if (errno != ENOSYS && errno != EPERM)
			return -errno;
		return identify_fstat(fd, identity_out, mode_out);
	}
	if ((status.stx_mask & STATX_WANTED) != STATX_WANTED)
		return identify_fstat(fd, identity_out, mode_out);
	identity.device = makedev(status.stx_dev_major, status.stx_dev_minor);
	identity.inode = status.stx_ino;
	identity.size_bytes = status.stx_size;
	identity.mtime_ns = time_ns(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec);
	identity.ctime_ns = time_ns(status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec);
	take_direct(&status, &identity);
	*identity_out = identity;
	*mode_out = status.stx_mode;
	return 0;
}

int rsum_file_identify(int fd, struct rsum_file_identity *identity_out)
{
	unsigned mode;

	return rsum_file_identify_mode(fd, identity_out, &mode);
}

int rsum_root_identify(const struct rsum_root *root, const char *name,
		       struct rsum_file_identity *identity_out, unsigned *mode_out)
{
	int fd = root->fd, next_fd, result = -ENOENT;
	char component[NAME_MAX + 1];

	do {
		size_t length = strcspn(name, "/");

		if (length == 0 || length > NAME_MAX) {
			result = -ENAMETOOLONG;
			break;
		}
		memcpy(component, name, length);
		component[length] = '\0';
		name += length;
		name += strspn(name, "/");
		do
			next_fd = openat(fd, component, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		while (next_fd < 0 && errno == EINTR);
		result = next_fd < 0 ? -errno : 0;
		if (fd != root->fd)
			close(fd);
		fd = next_fd;
	} while (result == 0 && *name);
	if (result == 0)
		result = rsum_file_identify_mode(fd, identity_out, mode_out);
	if (fd >= 0 && fd != root->fd)
		close(fd);
	return result;
}

/* ---- reading ------------------------------------------------------------------------------ */

int rsum_file_read_at(int fd, uint64_t offset, void *buffer, size_t size_bytes)
{
	uint64_t end;
	char *at = buffer;

	if (!rsum_add_u64(offset, size_bytes, &end) || end > RSUM_LIMIT_FILE_OFFSET)
		return -EINVAL;
	while (size_bytes > 0) {
		ssize_t got = pread(fd, at, RSUM_MIN(size_bytes, READ_BYTES_MAX), (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA;
		at += got;
		offset += (uint64_t)got;
		size_bytes -= (size_t)got;
	}
	return 0;
}

int rsum_file_read_all_by(rsum_file_read_fn read_at, int fd, uint64_t limit_bytes, char **text_out,
			  size_t *size_bytes_out)
{
	struct rsum_file_identity before, after;
	char *text = NULL;
	unsigned mode;
	size_t size_bytes;
	char beyond;
	int result;

	result = rsum_file_identify_mode(fd, &before, &mode);
	if (result)
		return result;
	if (!S_ISREG(mode))
		return -EINVAL;
	if (before.size_bytes > limit_bytes || before.size_bytes >= SIZE_MAX)
		return -EFBIG;
	size_bytes = (size_t)before.size_bytes;
	text = malloc(size_bytes + 1);
	if (!text)
		return -ENOMEM;
	result = read_at(fd, 0, text, size_bytes);
	if (!result) {
		/* A file that grew would be taken for its beginning. */
		result = rsum_file_read_at(fd, size_bytes, &beyond, 1);
		result = result == -ENODATA ? rsum_file_identify(fd, &after)
			 : result == 0	    ? -ESTALE
					    : result;
	} else if (result == -ENODATA) {
		result = -ESTALE;
	}
	if (!result && !rsum_file_identity_equal(&before, &after))
		result = -ESTALE;
	if (result) {
		free(text);
		return result;
	}
	text[size_bytes] = '\0';
	*text_out = text;
	*size_bytes_out = size_bytes;
	return 0;
}

int rsum_file_read_all(int fd, uint64_t limit_bytes, char **text_out, size_t *size_bytes_out)
{
	return rsum_file_read_all_by(rsum_file_read_at, fd, limit_bytes, text_out, size_bytes_out);
}

/* As much as is there and fits. Returns how much, or a negative errno. */
static ssize_t read_some(int fd, char *at, size_t size_bytes)
{
	ssize_t got;

	do
		got = read(fd, at, RSUM_MIN(size_bytes, READ_BYTES_MAX));
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

int rsum_stream_read_all(int fd, uint64_t limit_bytes, char **text_out, size_t *size_bytes_out)
{
	size_t capacity = 0, used = 0;
	char *text = NULL, *grown;
	ssize_t got = 1;

	while (got > 0) {
		/* One byte beyond the limit tells that there is more; another is for the NUL. */
		if (used + 1 >= capacity) {
			capacity = capacity ? capacity * 2 : 65536;
			grown = realloc(text, capacity);
			if (!grown) {
				got = -ENOMEM;
				break;
			}
			text = grown;
		}
		got = read_some(fd, text + used, capacity - used - 1);
		if (got > 0)
			used += (size_t)got;
		if (used > limit_bytes)
			got = -EFBIG;
	}
	if (got < 0) {
		free(text);
		return (int)got;
	}
	text[used] = '\0';
	*text_out = text;
	*size_bytes_out = used;
	return 0;
}

/* ---- listing ------------------------------------------------------------------------------ */

struct listing {
	rsum_walk_fn visit;
	void *arg;
	uint32_t entry_count;
	bool is_cut_out;
	char path[(RSUM_LIMIT_WALK_DEPTH + 1) * (NAME_MAX + 1)];
};

static DIR *open_directory(int at_fd, const char *name)
{
	DIR *directory;
	int fd;

	do {
		fd = openat(at_fd, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return NULL;
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		errno = ENOMEM; /* nothing else is left to fail for a directory's descriptor */
	}
	return directory;
}

static bool entry_is_directory(int directory_fd, const struct dirent *entry)
{
	struct stat status;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return !fstatat(directory_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) &&
	       S_ISDIR(status.st_mode);
}

/* The next entry but `.` and `..`, or NULL at the end. Returns 0 or a negative errno. */
static int next_entry(DIR *directory, const struct dirent **entry_out)
{
	do {
		errno = 0;
		*entry_out = readdir(directory);
		if (!*entry_out)
			return -errno;
	} while (!strcmp((*entry_out)->d_name, ".") || !strcmp((*entry_out)->d_name, ".."));
	return 0;
}

/* Returns 0, or a negative errno where reading the directory failed part of the way. */
static int list_directory(struct listing *listing, DIR *directory, size_t prefix_bytes,
			  unsigned depth);

static void list_entry(struct listing *listing, DIR *parent, const struct dirent *entry,
		       size_t prefix_bytes, unsigned depth)
{
	size_t length = strlen(entry->d_name);
	DIR *directory;

	if (prefix_bytes + length + 2 > sizeof(listing->path)) {
		listing->is_cut_out = true;
		return;
	}
	memcpy(listing->path + prefix_bytes, entry->d_name, length + 1);
	if (!entry_is_directory(dirfd(parent), entry)) {
		listing->visit(listing->arg, listing->path);
		return;
	}
	directory =
		depth < RSUM_LIMIT_WALK_DEPTH ? open_directory(dirfd(parent), entry->d_name) : NULL;
	if (!directory) {
		listing->is_cut_out = true;
		return;
	}
	listing->path[prefix_bytes + length] = '/';
	if (list_directory(listing, directory, prefix_bytes + length + 1, depth + 1))
		listing->is_cut_out = true;
}

static int list_directory(struct listing *listing, DIR *directory, size_t prefix_bytes,
			  unsigned depth)
{
	const struct dirent *entry;
	int result;

	for (;;) {
		result = next_entry(directory, &entry);
		if (result || !entry)
			break;
		if (listing->entry_count >= RSUM_LIMIT_WALK_FILES) {
			listing->is_cut_out = true;
			break;
		}
		listing->entry_count++;
		list_entry(listing, directory, entry, prefix_bytes, depth);
	}
	closedir(directory);
	return result;
}

int rsum_root_list(const struct rsum_root *root, rsum_walk_fn visit, void *arg, bool *is_cut_out)
{
	DIR *directory = open_directory(root->fd, ".");
	uint32_t entry_count = 0;
	int result;

	if (!directory)
		return -errno;
	for (;;) {
		const struct dirent *entry;

		result = next_entry(directory, &entry);
		if (result || !entry)
			break;
		if (++entry_count > RSUM_LIMIT_WALK_FILES)
			break;
		visit(arg, entry->d_name);
	}
	closedir(directory);
	if (!result)
		*is_cut_out = entry_count > RSUM_LIMIT_WALK_FILES;
	return result;
}

int rsum_root_walk(const struct rsum_root *root, rsum_walk_fn visit, void *arg, bool *is_cut_out)
{
	struct listing listing = { .visit = visit, .arg = arg };
	DIR *directory = open_directory(root->fd, ".");
	int result;

	if (!directory)
		return -errno;
	result = list_directory(&listing, directory, 0, 1);
	if (result)
		return result;
	*is_cut_out = listing.is_cut_out;
	return 0;
}
