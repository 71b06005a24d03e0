/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an interrupted verification had proven, so that the next one goes on from there. A journal
 * belongs to one manifest; each record to one state of one shard. It holds what is proven alone:
 * where it lacks something, or its tail is torn, so much is read again.
 *
 * The file is a header and records of 128 bytes each, in the byte order of the host, whose files
 * it speaks of. Each has a checksum over itself and the header's nonce, and the number of its
 * place; reading stops at the first that is not right.
 */
#ifndef RSUM_JOURNAL_H
#define RSUM_JOURNAL_H

#include "base.h"
#include "confine.h"
#include "digest.h"

#define RSUM_JOURNAL_RECORD_BYTES 128

/* A range that was proven. */
struct rsum_journal_entry {
	struct rsum_file_identity identity; /* of its shard, when it was read; no alignments */
	uint64_t begin, end;		    /* in the shard */
	uint8_t seal[RSUM_SHA256_BYTES];    /* of what was promised, see rsum_journal_seal */
	uint8_t head[4];		    /* its first bytes, as far as it has them */
	uint32_t promise;		    /* its index, below 2^31 */
	bool is_file;			    /* among the promises of files */
};

struct rsum_journal;

/* What stands for a promised digest of any algorithm. Returns 0 or RINGSUM_E_NOMEM. */
RSUM_MUST_CHECK int rsum_journal_seal(enum rsum_algorithm algorithm, const uint8_t *digest,
				      size_t digest_bytes, uint8_t seal_out[RSUM_SHA256_BYTES]);

typedef void (*rsum_journal_fn)(void *arg, const struct rsum_journal_entry *entry);

/*
 * Opens the journal of a manifest, or begins one where the file is not there or empty, and gives
 * what it holds to `visit`. It has to be a regular file of the caller's own that nobody else can
 * write to, outside of `root`, and in use by no other run.
 * Returns 0; RINGSUM_E_INVALID for a file that must not be used; RINGSUM_E_IO, RINGSUM_E_NOMEM.
 */
RSUM_MUST_CHECK int rsum_journal_open(const char *path, const struct rsum_root *root,
				      const uint8_t manifest_sha256[RSUM_SHA256_BYTES],
				      rsum_journal_fn visit, void *arg,
				      struct rsum_journal **journal_out, struct ringsum_error *err);

/* Adds an entry; it is on the disk within a second or so. Any thread. */
void rsum_journal_append(struct rsum_journal *journal, const struct rsum_journal_entry *entry);

/*
 * The run was carried through: no later one may believe the journal. Removes it, or empties it
 * where it cannot be removed, and closes it. Returns 0 or a negative errno where neither could be
 * done. NULL is fine.
 */
RSUM_MUST_CHECK int rsum_journal_discard(struct rsum_journal *journal);

/* The run was interrupted: brings all of it to the disk and closes it. NULL is fine. */
void rsum_journal_keep(struct rsum_journal *journal);

#endif
