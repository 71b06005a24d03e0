/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sole opener of paths inside a checkpoint. A name from a manifest is opened beneath the
 * checkpoint's root and nowhere else: openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS, or
 * a walk component by component with the same meaning where the kernel has no openat2.
 */
#ifndef RSUM_CONFINE_H
#define RSUM_CONFINE_H

#include "base.h"
#include "refusal.h"
#include "ringsum.h"

/* What tells one state of a file from another. */
struct rsum_file_identity {
	uint64_t device;
	uint64_t inode;
	uint64_t size_bytes;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint32_t direct_memory_alignment; /* STATX_DIOALIGN; 0: no direct I/O or unknown */
	uint32_t direct_offset_alignment;
	bool direct_is_known; /* whether the two above come from the file system */
};

bool rsum_file_identity_equal(const struct rsum_file_identity *a,
			      const struct rsum_file_identity *b);

/* statx of an open descriptor. Returns 0 or a negative errno. */
RSUM_MUST_CHECK int rsum_file_identify(int fd, struct rsum_file_identity *identity_out);

/* The same, and the mode with its type (S_IFREG and so on). */
RSUM_MUST_CHECK int rsum_file_identify_mode(int fd, struct rsum_file_identity *identity_out,
					    unsigned *mode_out);

/* "a directory", "a FIFO" and so on, for the type in a mode. Never NULL. */
const char *rsum_file_type_text(unsigned mode);

struct rsum_root {
	int fd; /* O_PATH directory, or -1 */
	bool has_openat2;
};

/*
 * Identifies what is there under a name below the root itself: no link is followed, neither at
 * its end nor on the way (-ENOTDIR there). Returns 0 or a negative errno.
 */
RSUM_MUST_CHECK int rsum_root_identify(const struct rsum_root *root, const char *name,
				       struct rsum_file_identity *identity_out, unsigned *mode_out);

/* Opens a directory as root. Returns 0 or a negative errno. */
RSUM_MUST_CHECK int rsum_root_open(const char *path, struct rsum_root *root_out);
void rsum_root_close(struct rsum_root *root);

/*
 * Whether a name is a plain relative path: not empty, not absolute, no `..` component, no
 * component over 255 bytes, at most 4,096 bytes. Pure. False with *refusal (path-escape).
 */
RSUM_MUST_CHECK bool rsum_confine_name_is_plain(const char *name, struct rsum_refusal *refusal);

enum rsum_confine_result {
	RSUM_CONFINE_OK = 0,
	RSUM_CONFINE_REFUSED,	 /* *refusal: path-escape, file-missing, file-type */
	RSUM_CONFINE_UNREADABLE, /* *refusal: read-error (permission, EIO, too many open files) or
				    changed-during-read (replaced while it was being opened) */
};

/*
 * Opens a regular file beneath root for reading (O_RDONLY, O_CLOEXEC, never blocking on a FIFO
 * or a device). *refusal is complete for a finding. *os_errno_out is the errno behind
 * RSUM_CONFINE_UNREADABLE (EMFILE lets the caller close something and try again).
 */
RSUM_MUST_CHECK enum rsum_confine_result rsum_confine_open(const struct rsum_root *root,
							   const char *name, int *fd_out,
							   struct rsum_file_identity *identity_out,
							   int *os_errno_out,
							   struct rsum_refusal *refusal);

/*
 * The same for a path that the user gave: it is trusted to lead anywhere, through any links, and
 * only has to end in a regular file. Never path-escape.
 */
RSUM_MUST_CHECK enum rsum_confine_result rsum_confine_open_given(
	const char *path, int *fd_out, struct rsum_file_identity *identity_out, int *os_errno_out,
	struct rsum_refusal *refusal);

/*
 * Calls `visit` with the relative path of every entry below root that is not a directory, links
 * not followed, in no particular order. Stops after RSUM_LIMIT_WALK_FILES entries (directories
 * count) or RSUM_LIMIT_WALK_DEPTH levels, and passes over directories that cannot be read
 * (*is_cut_out). Returns 0, or a negative errno where the root cannot be listed.
 */
typedef void (*rsum_walk_fn)(void *arg, const char *relative_path);
RSUM_MUST_CHECK int rsum_root_walk(const struct rsum_root *root, rsum_walk_fn visit, void *arg,
				   bool *is_cut_out);

/* The same for the names in the root itself, those of directories too; goes no deeper. */
RSUM_MUST_CHECK int rsum_root_list(const struct rsum_root *root, rsum_walk_fn visit, void *arg,
				   bool *is_cut_out);

/*
 * Reads all of an open regular file into memory from malloc with a NUL behind it. Returns 0 or a
 * negative errno; -EFBIG where the file is larger than limit_bytes (nothing is allocated then);
 * -ESTALE where the file changes meanwhile: never a part of it.
 */
RSUM_MUST_CHECK int rsum_file_read_all(int fd, uint64_t limit_bytes, char **text_out,
				       size_t *size_bytes_out);

/* The same with another way to read exactly size_bytes at an offset. */
typedef int (*rsum_file_read_fn)(int fd, uint64_t offset, void *buffer, size_t size_bytes);
RSUM_MUST_CHECK int rsum_file_read_all_by(rsum_file_read_fn read_at, int fd, uint64_t limit_bytes,
					  char **text_out, size_t *size_bytes_out);

/* The same of a pipe, or any other descriptor that is read to its end. */
RSUM_MUST_CHECK int rsum_stream_read_all(int fd, uint64_t limit_bytes, char **text_out,
					 size_t *size_bytes_out);

/* Reads exactly size_bytes at an offset. Returns 0, a negative errno, or -ENODATA at the end. */
RSUM_MUST_CHECK int rsum_file_read_at(int fd, uint64_t offset, void *buffer, size_t size_bytes);

#endif
