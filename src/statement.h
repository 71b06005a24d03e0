/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-toto statement of OpenSSF model signing: a list of files, or of equal pieces of files,
 * with a digest for each. Reads it and writes it. Anything wrong anywhere refuses it as a whole:
 * it is signed as a whole.
 */
#ifndef RSUM_STATEMENT_H
#define RSUM_STATEMENT_H

#include "arena.h"
#include "base.h"
#include "name_index.h"
#include "rsum_limits.h"

#define RSUM_STATEMENT_DIGEST_BYTES_MAX 64

/* The size of a piece where nobody says another, as the reference implementation has it. */
#define RSUM_STATEMENT_PIECE_BYTES UINT64_C(1000000000)

/* A file, or a piece of one. Strings are the statement's. */
struct rsum_statement_resource {
	const char *path; /* plain and canonical: "a/b" */
	bool is_piece;	  /* [begin, end) of the file; otherwise all of it, of unknown size */
	uint64_t begin;
	uint64_t end;
	const char *algorithm; /* "sha256", "blake2b", "blake3", or a name that nobody knows */
	const uint8_t *digest;
	size_t digest_bytes; /* 1 to RSUM_STATEMENT_DIGEST_BYTES_MAX */
};

/* All zero is the empty state. */
struct rsum_statement {
	struct rsum_arena arena;
	const char *subject;  /* the model's name; only informative, "" where there is none */
	bool is_in_pieces;    /* a file of no bytes has no piece, so it is not in the list */
	bool allows_links;    /* links were followed when the list was made */
	uint64_t piece_bytes; /* where is_in_pieces */
	/* Sorted by path, then begin. The pieces of a file cover it from 0 on without a gap. */
	struct rsum_statement_resource *resources;
	size_t resource_count;
	struct rsum_name_index ignored; /* paths that are left out, with all below them */
	size_t ignored_count;
};

#define RSUM_STATEMENT_REASON_BYTES 320

/* Whether a document is likely meant to be a statement: an object whose first key is one's. */
bool rsum_statement_is_likely(const char *text, size_t size_bytes);

/*
 * Reads text[0, size_bytes), which is decoded in place; nothing of *out points into it.
 * Returns 0; RINGSUM_E_REFUSED with a line in `reason`; RINGSUM_E_NOMEM; RINGSUM_E_UNDECIDED
 * where libcrypto refused to hash. Ownership: deinit *out in every case.
 */
RSUM_MUST_CHECK int rsum_statement_read(char *text, size_t size_bytes, struct rsum_statement *out,
					char reason[RSUM_STATEMENT_REASON_BYTES]);

/*
 * Whether the statement leaves a path out: one of its ignored paths, one of the four that the
 * format always leaves out (.git, .gitattributes, .github, .gitignore), or anything below them.
 */
bool rsum_statement_ignores(const struct rsum_statement *statement, const char *path);

void rsum_statement_deinit(struct rsum_statement *statement);

/* What a new statement says besides its resources. */
struct rsum_statement_setup {
	const char *subject;  /* the model's name */
	uint64_t piece_bytes; /* 0: whole files */
	bool allows_links;
	const char *const *ignored; /* paths that were left out */
	size_t ignored_count;
};

/*
 * Writes a statement, as JSON that ends with a newline; the same bytes for the same input. The
 * resources are sorted as the reference implementation sorts them, so that the digest of the
 * whole is the same. Returns 0; RINGSUM_E_INVALID where a path is not UTF-8, not plain, or twice
 * in the list, where there is no resource, or where pieces do not cover a file; RINGSUM_E_NOMEM.
 * Ownership: free *text_out.
 */
RSUM_MUST_CHECK int rsum_statement_write(const struct rsum_statement_setup *setup,
					 struct rsum_statement_resource *resources,
					 size_t resource_count, char **text_out,
					 char reason[RSUM_STATEMENT_REASON_BYTES]);

/* Shared by reader and writer: sorts, and checks that each file is there once and covered. */
RSUM_MUST_CHECK bool rsum_statement_arrange(struct rsum_statement_resource *resources,
					    size_t resource_count, uint64_t piece_bytes,
					    char reason[RSUM_STATEMENT_REASON_BYTES]);

/* Whether a path is relative, and the only spelling of itself; if not, what it is instead. */
RSUM_MUST_CHECK bool rsum_statement_path_is_plain(const char *path, const char **fault_out);

#endif
