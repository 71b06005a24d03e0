/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringsum: prove that the tensors of a checkpoint on disk are the tensors that were promised.
 *
 * The shortest use:
 *
 *	struct ringsum_checkpoint *checkpoint;
 *	struct ringsum_report *report;
 *	if (ringsum_checkpoint_open("/models/drafter", NULL, &checkpoint, NULL, NULL) == RINGSUM_OK &&
 *	    ringsum_checkpoint_verify(checkpoint, &report, NULL) == RINGSUM_OK)
 *		puts("identical");
 *
 * Conventions. A fallible function returns RINGSUM_OK (0) or a negative RINGSUM_E_* and leaves
 * its outputs untouched on failure, except where a report is said to be given with a refusal.
 * `err` is the caller's storage for one line of text and may be NULL. A difference between disk
 * and promise is a finding in a report; an error means that nothing could be decided. Offsets
 * and lengths are bytes. Strings are UTF-8 and NUL-terminated.
 */
#ifndef RINGSUM_H
#define RINGSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGSUM_VERSION_MAJOR 0
#define RINGSUM_VERSION_MINOR 1
#define RINGSUM_VERSION_PATCH 0

#if defined(__GNUC__)
#define RINGSUM_MUST_CHECK __attribute__((warn_unused_result))
#else
#define RINGSUM_MUST_CHECK
#endif

/* ---- results -------------------------------------------------------------------------- */

enum ringsum_result {
	RINGSUM_OK = 0,
	RINGSUM_E_INVALID = -1,	  /* the caller's arguments are wrong; nothing was done */
	RINGSUM_E_REFUSED = -2,	  /* something differs from the promise; the report says what */
	RINGSUM_E_UNDECIDED = -3, /* not everything could be read; nothing found different */
	RINGSUM_E_NOMEM = -4,	  /* memory ran out */
	RINGSUM_E_IO = -5,	  /* the system refused an operation; see os_errno */
	RINGSUM_E_NOPROMISE = -6, /* the path is not there or holds no promise */
	RINGSUM_E_LIMIT = -7,	  /* the input is larger than a limit that ringsum states */
	RINGSUM_E_CANCELED = -8,  /* the progress callback asked to stop */
	RINGSUM_E_NOTFOUND = -9,  /* no tensor or member of that name */
};

/* Room for one line of explanation, in the caller's storage. */
struct ringsum_error {
	int code;	   /* the enum ringsum_result that the call returned */
	int os_errno;	   /* errno behind it, or 0 */
	char message[512]; /* what was found, what was expected, where; "" if there is none */
};

/* The version as "MAJOR.MINOR.PATCH". Ownership: static. Threads: any. Blocking: none. */
const char *ringsum_version(void);

/*
 * Gives lines of text, each a name and what there is to say of it: the versions of ringsum, liburing,
 * libcrypto and json-c, as built and as running; the engine that this machine would read through,
 * with the reason where that is not io_uring; the digest implementation that it would hash with.
 * Ownership: free *text_out with ringsum_free. Returns: RINGSUM_E_NOMEM. Threads: any. Blocking: one
 * read from memory, through a ring that is set up for it.
 */
RINGSUM_MUST_CHECK int ringsum_system_to_text(char **text_out, struct ringsum_error *err);

/* Short text for an enum ringsum_result. Ownership: static. Never NULL. */
const char *ringsum_result_text(int result);

/* ---- dtypes (the safetensors format) ---------------------------------------------------- */

enum ringsum_dtype {
	RINGSUM_DTYPE_BOOL,
	RINGSUM_DTYPE_F4,
	RINGSUM_DTYPE_F6_E2M3,
	RINGSUM_DTYPE_F6_E3M2,
	RINGSUM_DTYPE_U8,
	RINGSUM_DTYPE_I8,
	RINGSUM_DTYPE_F8_E5M2,
	RINGSUM_DTYPE_F8_E4M3,
	RINGSUM_DTYPE_F8_E8M0,
	RINGSUM_DTYPE_F8_E4M3FNUZ,
	RINGSUM_DTYPE_F8_E5M2FNUZ,
	RINGSUM_DTYPE_I16,
	RINGSUM_DTYPE_U16,
	RINGSUM_DTYPE_F16,
	RINGSUM_DTYPE_BF16,
	RINGSUM_DTYPE_I32,
	RINGSUM_DTYPE_U32,
	RINGSUM_DTYPE_F32,
	RINGSUM_DTYPE_C64,
	RINGSUM_DTYPE_F64,
	RINGSUM_DTYPE_I64,
	RINGSUM_DTYPE_U64,
	RINGSUM_DTYPE_COUNT
};

/* Name as safetensors spells it ("BF16"), or NULL for a value out of range. Ownership: static. */
const char *ringsum_dtype_name(enum ringsum_dtype dtype);

/* Bits of one element (4 to 64), or 0 for a value out of range. */
unsigned ringsum_dtype_bits(enum ringsum_dtype dtype);

/* ---- options ---------------------------------------------------------------------------- */

enum ringsum_profile {
	RINGSUM_PROFILE_AUTO = 0, /* dspark-exl3 where the manifest has `codebook`, else none */
	RINGSUM_PROFILE_NONE,
	RINGSUM_PROFILE_DSPARK_EXL3,
};

enum ringsum_engine {
	RINGSUM_ENGINE_AUTO = 0, /* io_uring where one real read completes, else pread */
	RINGSUM_ENGINE_IO_URING,
	RINGSUM_ENGINE_PREAD,
};

enum ringsum_direct {
	RINGSUM_DIRECT_PREFER = 0, /* O_DIRECT, through the page cache where a file refuses it */
	RINGSUM_DIRECT_REQUIRE,	   /* a file that refuses O_DIRECT is a read-error */
	RINGSUM_DIRECT_OFF,	   /* through the page cache */
};

enum ringsum_digest_impl {
	/*
	 * The fastest that this processor has, or what RINGSUM_DIGEST_IMPL in the environment names
	 * (one that is unknown or cannot be had is RINGSUM_E_INVALID).
	 */
	RINGSUM_DIGEST_AUTO = 0,
	RINGSUM_DIGEST_LIBCRYPTO,  /* one stream at a time through libcrypto's EVP */
	RINGSUM_DIGEST_SHANI_X2,   /* two interleaved streams; needs SHA-NI */
	RINGSUM_DIGEST_SHANI_X3,   /* three interleaved streams; needs SHA-NI */
	RINGSUM_DIGEST_AVX512_X16, /* up to 16 streams in vectors; needs AVX-512 F, BW and VL */
};

struct ringsum_progress {
	uint64_t bytes_total;	 /* bytes of all promised ranges that will be hashed */
	uint64_t bytes_done;	 /* bytes hashed so far */
	uint64_t tensors_total;	 /* promised tensors; of a load, those asked for */
	uint64_t findings_count; /* so far: deciding ones, and tensors whose digest differs */
	uint64_t paths_total;	 /* of ringsum_verify_many; else 0 */
	uint64_t paths_done;	 /* of those, told of so far */
	const char *stage;	 /* "reading", "reading again"; of a benchmark, the pass; static */
};

/*
 * Called from the thread that called verify or load, at most 20 times a second and once at the
 * end. Return 0 to go on, anything else to cancel: no read is started after that and the call
 * returns RINGSUM_E_CANCELED. Reads in flight are waited for, but those that hang not for ever:
 * after 300 ms they are left to the system, with the buffers that they go to, which are kept until
 * the process ends. Where reads land in memory of the caller (a load) all are waited for.
 */
typedef int (*ringsum_progress_fn)(void *arg, const struct ringsum_progress *progress);

/* Set it up with RINGSUM_OPTIONS_INIT; a zero member means its default. */
struct ringsum_options {
	size_t size_bytes;	      /* sizeof(struct ringsum_options) */
	enum ringsum_profile profile; /* default: auto */
	/* "-": standard input; default: what is in the checkpoint's directory, see README */
	const char *manifest_path;
	const char *manifest_sha256; /* 64 hex digits that pin the manifest; default: none */
	unsigned threads;	    /* hashing threads, 1 to 256; default: processors, at most 16 */
	uint64_t memory_bytes;	    /* for buffers, up to 16 GiB; default 24 to 256 MiB */
	uint32_t chunk_bytes;	    /* one read: 64 KiB to 64 MiB, of 4,096; default 256 KiB */
	unsigned depth;		    /* reads in flight, 1 to 256; default 64 */
	enum ringsum_engine engine; /* default: auto */
	enum ringsum_direct direct; /* default: prefer */
	enum ringsum_digest_impl digest; /* default: auto */
	int strict;			 /* non-zero: what nobody promised is a finding */
	ringsum_progress_fn progress;	 /* default: none */
	void *progress_arg;		 /* handed to `progress` */
	/*
	 * Bytes of shards read in a second, 64 KiB to 1 TiB, spread evenly; default: no limit. Reads
	 * become smaller than chunk_bytes where that is much. Headers and documents do not count.
	 */
	uint64_t bytes_per_second_max;
	/*
	 * Non-zero: reads are of the idle class of I/O priority, and ringsum's own threads at nice
	 * 19. The thread that calls stays as it is.
	 */
	int idle;
	/*
	 * Files (PEM) that a signature of the promise has to be checked with, one of the two: the
	 * signer's public key, or the authorities that a certificate has to lead to. What is not
	 * so signed is refused. Default: signatures are not checked, and the report says so.
	 */
	const char *public_key_path;
	const char *ca_path;
	/*
	 * Non-zero: a verification's report keeps where each promise lies and how it stands, for
	 * ringsum_report_to_refetch and the map in ringsum_reports_to_html. Costs 16 bytes for each
	 * promise while it is made; afterwards a few MB, and 24 bytes for each range to be fetched.
	 */
	int keep_map;
	/*
	 * Where a verification notes what it has proven, so that it can be interrupted and gone on
	 * with; for one checkpoint. A file of the caller's own, outside of the checkpoint's
	 * directory, made where it is not there. It holds for one manifest, and each of its records
	 * for the state (device, inode, size, times) that a shard had; a shard that was written to
	 * within two seconds is not noted. A verification that is carried through removes it, whatever
	 * its verdict. Default: none. A load has no use for it.
	 */
	const char *journal_path;
};

#ifdef __cplusplus
/* All zero but size_bytes; C++ before C++20 has no initializer that says so. */
#define RINGSUM_INIT(tag)                         \
	([] {                                     \
		struct tag value = tag();         \
		value.size_bytes = sizeof(value); \
		return value;                     \
	}())
#else
#define RINGSUM_INIT(tag)                        \
	{                                        \
		.size_bytes = sizeof(struct tag) \
	}
#endif

#define RINGSUM_OPTIONS_INIT RINGSUM_INIT(ringsum_options)

/* ---- reports ---------------------------------------------------------------------------- */

/* A report starts undecided; refused wins over undecided. */
enum ringsum_verdict {
	RINGSUM_VERDICT_UNDECIDED = 0,
	RINGSUM_VERDICT_IDENTICAL,
	RINGSUM_VERDICT_REFUSED,
};

/* One word per kind of finding; the names are stable. */
enum ringsum_finding_code {
	RINGSUM_FINDING_MANIFEST_INVALID,
	RINGSUM_FINDING_CONFIG_INVALID,
	RINGSUM_FINDING_PLAN_INVALID,
	RINGSUM_FINDING_TENSOR_MISSING,
	RINGSUM_FINDING_TENSOR_UNEXPECTED,
	RINGSUM_FINDING_TENSOR_DUPLICATE,
	RINGSUM_FINDING_PATH_ESCAPE,
	RINGSUM_FINDING_FILE_MISSING,
	RINGSUM_FINDING_FILE_TYPE,
	RINGSUM_FINDING_FILE_TRUNCATED,
	RINGSUM_FINDING_FILE_TRAILING,
	RINGSUM_FINDING_HEADER_INVALID,
	RINGSUM_FINDING_HEADER_MISMATCH,
	RINGSUM_FINDING_DTYPE_UNSUPPORTED,
	RINGSUM_FINDING_SIZE_MISMATCH,
	RINGSUM_FINDING_DIGEST_MISMATCH,
	RINGSUM_FINDING_EXL3_INVALID,
	RINGSUM_FINDING_CHANGED_DURING_READ, /* undecided */
	RINGSUM_FINDING_READ_ERROR,    /* undecided; a note of a directory that cannot be listed */
	RINGSUM_FINDING_UNSTABLE_READ, /* undecided */
	RINGSUM_FINDING_UNPROMISED,    /* a note, or a finding under `strict` */
	RINGSUM_FINDING_DIGEST_UNSUPPORTED, /* undecided: a digest that cannot be computed here */
	RINGSUM_FINDING_SIGNATURE_INVALID,  /* of the promise; or it lacks one that was asked for */
	RINGSUM_FINDING_CODE_COUNT
};

/* "digest-mismatch" and so on, or NULL for a value out of range. Ownership: static. */
const char *ringsum_finding_code_name(enum ringsum_finding_code code);

enum ringsum_severity {
	RINGSUM_SEVERITY_REFUSE,    /* decides: the checkpoint is not what was promised */
	RINGSUM_SEVERITY_UNDECIDED, /* decides: it could not be established */
	RINGSUM_SEVERITY_NOTE,	    /* does not decide */
};

/* How bytes look that are not those promised, where that is cheap to know. */
enum ringsum_looks {
	RINGSUM_LOOKS_UNKNOWN = 0,
	RINGSUM_LOOKS_ZERO,	    /* all of them are zero */
	RINGSUM_LOOKS_ZERO_TAIL,    /* zero from looks_offset on, for 512 bytes or more */
	RINGSUM_LOOKS_OTHER_TENSOR, /* they are those promised for looks_tensor */
	RINGSUM_LOOKS_TRUNCATED,    /* the shard ends at looks_offset, within the tensor */
	RINGSUM_LOOKS_ABSENT,	    /* the shard ends before the tensor begins */
	RINGSUM_LOOKS_COUNT
};

/* "zero-tail" and so on, or NULL for a value out of range. Ownership: static. */
const char *ringsum_looks_name(enum ringsum_looks looks);

/* Ownership: everything belongs to the report. */
struct ringsum_finding {
	enum ringsum_finding_code code;
	enum ringsum_severity severity;
	const char *tensor;   /* name, or NULL where it is about no single tensor */
	const char *file;     /* relative to the checkpoint, or NULL */
	int has_range;	      /* whether begin and end mean anything */
	uint64_t begin;	      /* in the file, first byte */
	uint64_t end;	      /* in the file, one past the last byte */
	const char *expected; /* or NULL */
	const char *actual;   /* or NULL */
	const char *message;  /* one line for a person; never NULL */

	enum ringsum_looks looks_like; /* how the bytes look that are not as promised */
	uint64_t looks_offset;	       /* in the file; of zero-tail and truncated, else 0 */
	const char *looks_tensor;      /* of other-tensor, else NULL */
};

struct ringsum_totals {
	uint64_t tensors_promised; /* entries of the manifest = identical + refused + undecided */
	uint64_t tensors_identical;
	uint64_t tensors_refused;
	uint64_t tensors_undecided;
	uint64_t tensors_unpromised; /* in the shards' headers, and nobody promised them */
	uint64_t files_unpromised;   /* files below the checkpoint that nobody promised; UINT64_MAX
					where not all of it could be listed, so it is unknown */
	uint64_t
		bytes_promised; /* what is promised twice, as a tensor and of a file, counts twice */
	uint64_t bytes_proven;	/* of what is identical */
	uint64_t bytes_read;	/* from disk for promised ranges, second reads included */
	uint64_t findings_total; /* deciding findings, also those past the limit on the list */
	double elapsed_seconds;	 /* of the reading and hashing */
	/* Files that something is promised of as files: identical + refused + undecided. */
	uint64_t files_promised;
	uint64_t files_identical; /* all that is promised of it holds */
	uint64_t files_refused;
	uint64_t files_undecided;
	/* Of what is identical: proven by an interrupted run, and not read again (journal_path). */
	uint64_t tensors_proven_earlier;
	uint64_t files_proven_earlier; /* promises of files, or of ranges of them */
	uint64_t bytes_proven_earlier;
};

struct ringsum_report;

enum ringsum_verdict ringsum_report_verdict(const struct ringsum_report *report);

/* Fills *totals_out. */
void ringsum_report_totals(const struct ringsum_report *report, struct ringsum_totals *totals_out);

/* Number of listed findings, notes included; at most 100,000 (the rest is in findings_total). */
size_t ringsum_report_finding_count(const struct ringsum_report *report);

/* The finding at `index`, or NULL past the end. Ownership: the report's. */
const struct ringsum_finding *ringsum_report_finding_at(const struct ringsum_report *report,
							size_t index);

/*
 * The report as JSON text (schema ringsum-report/1) with a final newline.
 * Ownership: the caller frees *json_out with ringsum_free. Errors: RINGSUM_E_NOMEM.
 */
RINGSUM_MUST_CHECK int ringsum_report_to_json(const struct ringsum_report *report, char **json_out,
					      struct ringsum_error *err);

/*
 * The report as text for a person: what was checked, a line per finding, then the summary.
 * Control characters and invalid UTF-8 in names are shown escaped.
 * Ownership: the caller frees *text_out with ringsum_free. Errors: RINGSUM_E_NOMEM.
 */
RINGSUM_MUST_CHECK int ringsum_report_to_text(const struct ringsum_report *report, char **text_out,
					      struct ringsum_error *err);

/*
 * The reports as one page of HTML that needs no network and runs no script: verdict and totals, a
 * map of each shard, the rate over time, the findings. Map and rate are there where the option
 * keep_map was set. Names are escaped, first as in text, then for HTML.
 * Ownership: the caller frees *html_out with ringsum_free. Errors: RINGSUM_E_NOMEM;
 * RINGSUM_E_INVALID for report_count 0.
 */
RINGSUM_MUST_CHECK int ringsum_reports_to_html(const struct ringsum_report *const *reports,
					       size_t report_count, char **html_out,
					       struct ringsum_error *err);

/*
 * What to fetch again, as lines of tab-separated values (format ringsum-refetch/1, see ringsum(1)):
 * with these bytes of a good copy in their places the shards are as promised, as far as fetching
 * can help. Ranges neither touch nor overlap.
 * Ownership: the caller frees *text_out with ringsum_free. Errors: RINGSUM_E_INVALID where the
 * option keep_map was not set; RINGSUM_E_NOMEM, also where memory ran out while the map was made.
 */
RINGSUM_MUST_CHECK int ringsum_report_to_refetch(const struct ringsum_report *report,
						 char **text_out, struct ringsum_error *err);

/* Frees a report; NULL is fine. A report stays valid after its checkpoint is closed. */
void ringsum_report_free(struct ringsum_report *report);

/* Frees a string that ringsum gave; NULL is fine. */
void ringsum_free(void *memory);

/* ---- checkpoints ------------------------------------------------------------------------ */

struct ringsum_checkpoint;

/*
 * A tensor as the manifest promised it and the shard's header confirmed it.
 * Ownership: the checkpoint's, until it is closed.
 */
struct ringsum_tensor {
	const char *name;
	enum ringsum_dtype dtype;
	unsigned rank;		   /* 0 to 64; 0 is a scalar */
	const uint64_t *shape;	   /* `rank` numbers */
	uint64_t size_bytes;	   /* end - begin */
	const char *shard;	   /* file name, relative to the checkpoint */
	uint64_t begin;		   /* first byte in the shard */
	uint64_t end;		   /* one past the last byte in the shard */
	uint8_t digest_sha256[32]; /* the promise */
};

/*
 * Opens a checkpoint and checks everything but the digests: manifest, config, required names,
 * paths, headers, shapes.
 * path: the checkpoint's directory, or its manifest file. options: NULL means all defaults.
 * Ownership: close *checkpoint_out with ringsum_checkpoint_close. Where report_out is not NULL a
 * report is given on RINGSUM_OK (so far undecided) and on RINGSUM_E_REFUSED and
 * RINGSUM_E_UNDECIDED, for the caller to free.
 * Returns: RINGSUM_E_REFUSED: findings, no checkpoint is opened. RINGSUM_E_UNDECIDED: a file
 * could not be read. RINGSUM_E_NOPROMISE: nothing at `path` promises anything.
 * RINGSUM_E_INVALID: an option is out of range. RINGSUM_E_NOMEM, RINGSUM_E_IO.
 * Threads: any. Blocking: reads manifest, config and headers from disk.
 */
RINGSUM_MUST_CHECK int ringsum_checkpoint_open(const char *path,
					       const struct ringsum_options *options,
					       struct ringsum_checkpoint **checkpoint_out,
					       struct ringsum_report **report_out,
					       struct ringsum_error *err);

/*
 * Reads and hashes every promised byte of an open checkpoint and compares it with the promise.
 * Where manifest, config or plan are no longer the files that were opened, nothing is proven; the
 * same holds for ringsum_checkpoint_load.
 * Ownership: where report_out is not NULL the caller frees *report_out; it is given on
 * RINGSUM_OK, RINGSUM_E_REFUSED, RINGSUM_E_UNDECIDED and RINGSUM_E_CANCELED.
 * Returns: RINGSUM_OK only for the verdict identical. RINGSUM_E_INVALID, and RINGSUM_E_IO, also for
 * a journal that is that of something else, or cannot be used.
 * Threads: a handle may be used by several threads at once; each call reads for itself.
 * Blocking: until all is read.
 */
RINGSUM_MUST_CHECK int ringsum_checkpoint_verify(struct ringsum_checkpoint *checkpoint,
						 struct ringsum_report **report_out,
						 struct ringsum_error *err);

/*
 * Open, verify and close in one: what fails at opening does not hide what the digests tell, so
 * this is the call for a complete list of findings. Parameters and results as for the two. A
 * report is given with RINGSUM_E_NOPROMISE and RINGSUM_E_IO too: undecided, with the reason.
 */
RINGSUM_MUST_CHECK int ringsum_verify_path(const char *path, const struct ringsum_options *options,
					   struct ringsum_report **report_out,
					   struct ringsum_error *err);

/* ---- many checkpoints as one ----------------------------------------------------------------- */

/*
 * Called for each path, in their order, once its report is there. `result` and *err are what
 * ringsum_verify_path would give; report is NULL where that gives none. Return 0 to go on, anything
 * else to cancel. Ownership: the report is the callback's, to be freed with ringsum_report_free.
 */
typedef int (*ringsum_verified_fn)(void *arg, size_t path_index, int result,
				   struct ringsum_report *report, const struct ringsum_error *err);

/* Over all paths that were reported. Ownership: the caller's. */
struct ringsum_many_totals {
	uint64_t paths_identical;
	uint64_t paths_refused;
	uint64_t paths_undecided;
	uint64_t paths_left_out; /* canceled before anything of them was read */
	uint64_t tensors_promised;
	uint64_t tensors_identical;
	uint64_t bytes_promised;
	uint64_t bytes_proven;
	uint64_t bytes_read;
	double elapsed_seconds; /* of all of it, from the call to its return */
	double idle_seconds;	/* of those: no read was in flight, for want of a checkpoint */
	uint64_t reserved[4];
};

/*
 * Verifies many checkpoints with one engine: the next are opened and checked while one is read,
 * and the last ranges of one are hashed while the first of the next are read, so that the disk
 * does not idle between them. One that is refused, or not to be read, does not stop the others.
 * paths: as for ringsum_verify_path. options: NULL means all defaults; manifest_path,
 * manifest_sha256 and journal_path have to be unset for more than one path. `progress` is told sums, of as much as
 * is known so far.
 * Ownership: *totals_out (may be NULL) is filled unless RINGSUM_E_INVALID is returned.
 * Returns: RINGSUM_E_CANCELED where a callback asked to stop: paths of which nothing was read are
 * left out. Otherwise the worst: RINGSUM_E_REFUSED where any path is refused, else
 * RINGSUM_E_UNDECIDED where any is not identical or none was given, else RINGSUM_OK.
 * RINGSUM_E_INVALID before anything is read.
 * Threads: both callbacks are called from the thread that called. Blocking: until all is read.
 */
RINGSUM_MUST_CHECK int ringsum_verify_many(const char *const *paths, size_t path_count,
					   const struct ringsum_options *options,
					   ringsum_verified_fn verified, void *verified_arg,
					   struct ringsum_many_totals *totals_out,
					   struct ringsum_error *err);

/*
 * Looks below `path`, a directory, for checkpoints: directories that hold a TENSORS.json or a list of
 * checksums of a usual name (SHA256SUMS and so on), path itself among them. Links are not followed.
 * Ownership: free each of *paths_out and the array itself with ringsum_free; they begin with
 * `path` and are sorted by their bytes. *is_cut_out says that not all could be looked through: a
 * directory that cannot be read, more than 32 levels, or more than 1,000,000 entries.
 * Returns: RINGSUM_E_NOPROMISE where the path is not there or no directory; RINGSUM_E_IO,
 * RINGSUM_E_NOMEM.
 * Threads: any. Blocking: lists directories.
 */
RINGSUM_MUST_CHECK int ringsum_find_checkpoints(const char *path, char ***paths_out,
						size_t *path_count_out, int *is_cut_out,
						struct ringsum_error *err);

/* Number of tensors, in the manifest's order for ringsum_checkpoint_tensor_at. */
size_t ringsum_checkpoint_tensor_count(const struct ringsum_checkpoint *checkpoint);

/* The tensor at `index`, or NULL past the end. */
const struct ringsum_tensor *ringsum_checkpoint_tensor_at(
	const struct ringsum_checkpoint *checkpoint, size_t index);

/* The tensor of that name, or NULL. */
const struct ringsum_tensor *ringsum_checkpoint_find(const struct ringsum_checkpoint *checkpoint,
						     const char *name);

/* Closes a checkpoint; NULL is fine. No call may be running on it. */
void ringsum_checkpoint_close(struct ringsum_checkpoint *checkpoint);

/* ---- loads: proven bytes in the caller's memory ------------------------------------------- */

/* One tensor to load. Zero what you do not set. */
struct ringsum_load {
	const struct ringsum_tensor *tensor; /* of this checkpoint */
	void *destination;		     /* any memory; may be NULL where the tensor is empty */
	size_t destination_bytes; /* at least tensor->size_bytes; what is beyond stays untouched */
	int status;		  /* out: RINGSUM_OK, _E_REFUSED, _E_UNDECIDED or _E_CANCELED */
	uint64_t reserved[2];	  /* must be zero */
};

/*
 * Reads tensors into the caller's memory and proves them in the same pass: the bytes hashed are
 * the bytes delivered, in the checkpoint's own dtype, unchanged. Needs no earlier verify.
 * loads: any tensors in any order, the same one twice where you want it twice; many in one call
 * are much faster than many calls. A destination whose tensor is not identical is zeroed
 * (destination[0, size_bytes)) and its status says why; the others are delivered all the same.
 * The direct path: where destination and the tensor's offset in its shard are congruent modulo
 * ringsum_checkpoint_alignment (destination % alignment == tensor->begin % alignment), direct
 * reads land in the destination itself; otherwise bytes are hashed and copied piece by piece
 * while they are in the processor's cache. ringsum_block_alloc gives such destinations. Where the
 * destination maps a file, avoid that or set `direct` off: file systems do not expect direct reads
 * into their pages.
 * Ownership: destinations stay the caller's; nobody else may touch them during the call. Where
 * report_out is not NULL the caller frees *report_out; it speaks of the loaded tensors alone and
 * is given with every result but RINGSUM_E_INVALID and RINGSUM_E_NOMEM.
 * Returns: RINGSUM_OK where all are proven. RINGSUM_E_REFUSED: at least one differs.
 * RINGSUM_E_UNDECIDED: at least one could not be read, none differs. RINGSUM_E_CANCELED: the
 * progress callback asked to stop; what was proven by then is delivered. RINGSUM_E_INVALID,
 * before anything is read: a tensor of another checkpoint, a destination that is too small, that
 * is NULL, or that overlaps another. RINGSUM_E_NOMEM: no destination was touched.
 * With these two every status is RINGSUM_E_UNDECIDED.
 * Threads: several may load from one handle at once. Blocking: until all is read.
 */
RINGSUM_MUST_CHECK int ringsum_checkpoint_load(struct ringsum_checkpoint *checkpoint,
					       struct ringsum_load *loads, size_t load_count,
					       struct ringsum_report **report_out,
					       struct ringsum_error *err);

/*
 * The alignment in bytes (a power of two, at least 4,096) that destinations and offsets should
 * have in common for direct reads. Threads: any. Blocking: none.
 */
size_t ringsum_checkpoint_alignment(const struct ringsum_checkpoint *checkpoint);

/*
 * Allocates one block for all `loads` (whose tensors are set) and sets each destination and
 * destination_bytes in it, so that direct reads are possible: tensors that are neighbours in a
 * shard are neighbours in the block. The block begins at 2 MiB and asks for huge pages.
 * Ownership: free *block_out with ringsum_block_free and the same size; not with free().
 * Returns: RINGSUM_E_INVALID for a tensor of another checkpoint; RINGSUM_E_NOMEM.
 * Threads: any. Blocking: none, pages come on first use.
 */
RINGSUM_MUST_CHECK int ringsum_block_alloc(const struct ringsum_checkpoint *checkpoint,
					   struct ringsum_load *loads, size_t load_count,
					   void **block_out, size_t *block_bytes_out,
					   struct ringsum_error *err);

/* Gives a block back; NULL is fine. */
void ringsum_block_free(void *block, size_t block_bytes);

/* ---- EXL3 linears and the drafter's numbers ------------------------------------------------ */

/* The parts of an EXL3 linear. Ownership: the checkpoint's. */
struct ringsum_exl3 {
	const struct ringsum_tensor *trellis; /* I16 [in/16, out/16, 16 x k] */
	const struct ringsum_tensor *suh;     /* F16 [in] */
	const struct ringsum_tensor *svh;     /* F16 [out] */
	const struct ringsum_tensor *mul1;    /* I32, its bytes read and proven by this call */
	uint64_t in_features;
	uint64_t out_features;
	uint64_t k; /* bits of a weight */
};

/*
 * Gives the parts of the linear `prefix` ("mtp.0.attn.wq_a") after checking that they are one
 * (rules E1 and E2) and that the marker mul1, read and proven now, is that of the codebook (E3).
 * The other parts' bytes are proven when they are loaded.
 * Returns: RINGSUM_E_NOTFOUND: a part is not promised. RINGSUM_E_REFUSED: a rule is broken, or
 * the marker is not what was promised. RINGSUM_E_UNDECIDED: the marker could not be read, or shard,
 * manifest or config were changed since the checkpoint was opened.
 * Threads: any. Blocking: one small read.
 */
RINGSUM_MUST_CHECK int ringsum_checkpoint_exl3(struct ringsum_checkpoint *checkpoint,
					       const char *prefix, struct ringsum_exl3 *out,
					       struct ringsum_error *err);

/* The numbers of config.json that a drafter depends on. Key names of config.json beside them. */
struct ringsum_drafter_shape {
	size_t size_bytes;	  /* set it to sizeof(struct ringsum_drafter_shape) beforehand */
	uint64_t hidden;	  /* hidden_size */
	uint64_t vocab;		  /* vocab_size */
	uint64_t n_heads;	  /* num_attention_heads */
	uint64_t head_dim;	  /* head_dim */
	uint64_t rope_dim;	  /* qk_rope_head_dim */
	uint64_t q_lora;	  /* q_lora_rank */
	uint64_t o_lora;	  /* o_lora_rank */
	uint64_t o_groups;	  /* o_groups */
	uint64_t inter;		  /* moe_intermediate_size */
	uint64_t n_experts;	  /* dspark_n_routed_experts */
	uint64_t top_k;		  /* dspark_num_experts_per_tok */
	uint64_t n_stages;	  /* num_nextn_predict_layers */
	uint64_t n_target_layers; /* num_hidden_layers */
	uint64_t window;	  /* sliding_window */
	uint64_t block;		  /* dspark_block_size */
	uint64_t noise_token;	  /* dspark_noise_token_id */
	uint64_t markov_rank;	  /* dspark_markov_rank */
	uint64_t hc_mult;	  /* hc_mult */
	uint64_t hc_iters;	  /* hc_sinkhorn_iters */
	double hc_eps;		  /* hc_eps */
	double rms_eps;		  /* rms_norm_eps */
	double swiglu_limit;	  /* swiglu_limit */
	double route_scale;	  /* routed_scaling_factor */
	double rope_theta;	  /* rope_theta */
	const uint64_t *taps;	  /* dspark_target_layer_ids; the checkpoint's */
	size_t tap_count;
	uint64_t head_k; /* quantization_config.exl3_moe.head_k */
};

/*
 * Fills *out from the checkpoint's config.json, as far as out->size_bytes reaches.
 * Returns: RINGSUM_E_NOTFOUND where the profile is not dspark-exl3; RINGSUM_E_INVALID for a
 * size_bytes that is none. Ownership: taps is the checkpoint's. Threads: any. Blocking: none.
 */
RINGSUM_MUST_CHECK int ringsum_checkpoint_drafter_shape(const struct ringsum_checkpoint *checkpoint,
							struct ringsum_drafter_shape *out,
							struct ringsum_error *err);

/*
 * One row of the drafter's table of K (quantization_config.exl3_moe.dense.drafter), in the
 * config's order. Returns RINGSUM_E_NOTFOUND past its end and where the profile is not
 * dspark-exl3. Ownership: *name_out is the checkpoint's. Threads: any. Blocking: none.
 */
RINGSUM_MUST_CHECK int ringsum_checkpoint_drafter_k(const struct ringsum_checkpoint *checkpoint,
						    size_t index, const char **name_out,
						    int64_t *k_out);

/* ---- signatures: who vouches for a list of files ----------------------------------------------- */

/* What signs. */
struct ringsum_sign_options {
	size_t size_bytes;	       /* sizeof(struct ringsum_sign_options) */
	const char *key_path;	       /* private key (PEM): ECDSA P-256, P-384, P-521; Ed25519 */
	const char *passphrase_path;   /* a file whose first line decrypts it; default: none */
	const char *certificates_path; /* PEM, the key's first; default: none, a signature by key */
};

#define RINGSUM_SIGN_OPTIONS_INIT RINGSUM_INIT(ringsum_sign_options)

/*
 * Signs a statement (the list of files of OpenSSF model signing, in-toto JSON) and gives a Sigstore
 * bundle around its very bytes. With Ed25519 the same statement gives the same bundle.
 * path: the statement's file; it is read as a verifier would read it, and refused alike.
 * Ownership: free *bundle_out (JSON, ends with a newline) with ringsum_free; untouched on failure.
 * Returns: RINGSUM_E_REFUSED: the file is no such statement. RINGSUM_E_INVALID: the key, its
 * passphrase or the certificates cannot be used, or an argument is missing. RINGSUM_E_IO: a file
 * could not be read. RINGSUM_E_UNDECIDED: libcrypto failed. RINGSUM_E_NOMEM.
 * Threads: any. Blocking: small reads.
 */
RINGSUM_MUST_CHECK int ringsum_sign(const char *path, const struct ringsum_sign_options *options,
				    char **bundle_out, struct ringsum_error *err);

/* ---- benchmark: what limits this host -------------------------------------------------------- */

/* One kind of pass over the sample. */
struct ringsum_bench_rate {
	uint64_t bytes_per_second; /* median of the rounds; 0: not measured */
	uint64_t cpu_us_per_gb;	   /* processor time, user and system, for 10^9 bytes */
};

/* What holds verification back, as far as the measurements tell. */
enum ringsum_bench_limit {
	RINGSUM_BENCH_LIMIT_UNKNOWN = 0, /* too little was measured to say */
	RINGSUM_BENCH_LIMIT_DISK,	 /* hashing keeps up with reading */
	RINGSUM_BENCH_LIMIT_DEPTH,	 /* the disk gives more with more reads in flight */
	RINGSUM_BENCH_LIMIT_HASH,	 /* hashing on all threads is slower than reading */
	RINGSUM_BENCH_LIMIT_TENSOR,	 /* one tensor, hashed serially, outlasts all others */
	RINGSUM_BENCH_LIMIT_PROCESSORS,	 /* reading and hashing compete for the processors */
};

/* "disk" and so on; "unknown" for a value out of range. Ownership: static. */
const char *ringsum_bench_limit_name(enum ringsum_bench_limit limit);

/* Rates are bytes in a second; strings are static. Set it up with RINGSUM_BENCH_RESULT_INIT. */
struct ringsum_bench_result {
	size_t size_bytes;		  /* sizeof(struct ringsum_bench_result) */
	uint64_t bytes_promised;	  /* of the whole checkpoint */
	uint64_t bytes_sampled;		  /* of the tensors that each pass reads */
	uint64_t bytes_loaded;		  /* of the sample, as much as there was memory for */
	uint64_t bytes_largest;		  /* of the largest tensor */
	uint64_t open_us;		  /* manifest, config and headers */
	struct ringsum_bench_rate read;	  /* the same reads with hashing off */
	struct ringsum_bench_rate deeper; /* the same with `deeper_depth` reads in flight */
	struct ringsum_bench_rate verify;
	struct ringsum_bench_rate wider; /* verify with wider_threads; where it could help */
	struct ringsum_bench_rate load;
	uint64_t hash_core[8]; /* one core, from memory, by enum ringsum_digest_impl; [0] unused */
	uint64_t hash_stream;  /* one stream alone, as of a tensor that has no company */
	uint64_t hash_all;     /* all threads at once */
	unsigned processors;
	unsigned threads;
	unsigned wider_threads; /* 0: not tried */
	unsigned depth;
	unsigned deeper_depth; /* 0: not tried */
	uint32_t chunk_bytes;
	uint64_t memory_bytes;
	uint64_t deeper_memory_bytes;
	const char *engine;	    /* "io_uring" or "pread" */
	const char *pages;	    /* of the buffers: "huge", "transparent-huge" or "small" */
	const char *digest;	    /* the implementation in use */
	int is_direct;		    /* every shard was read with O_DIRECT */
	int dropped_caches;	    /* the system's page cache was dropped beforehand */
	uint64_t tensors_differing; /* most that one pass found not as promised */
	enum ringsum_bench_limit limit;
	char conclusion[512]; /* one sentence: what limits this host and what would help */
};

#define RINGSUM_BENCH_RESULT_INIT RINGSUM_INIT(ringsum_bench_result)

/*
 * Measures on the checkpoint at `path` what reading, hashing, verifying and loading come to. Each
 * pass reads at most 4 GiB (a single larger tensor more), for at most two seconds. Cold: with
 * direct I/O; the page cache is dropped beforehand where the process has the right to and there
 * are 64 MiB or more, and the shards' own pages are given up with POSIX_FADV_DONTNEED. Proves
 * nothing about the whole.
 * options: NULL means all defaults; `progress` is called, to cancel.
 * Ownership: result is the caller's; untouched on failure.
 * Returns: what ringsum_checkpoint_open returns; RINGSUM_E_UNDECIDED also where a read failed;
 * RINGSUM_E_CANCELED; RINGSUM_E_INVALID for a result whose size_bytes is not this header's.
 * Threads: any, but others disturb the figures. Blocking: seconds, at most about half a minute.
 */
RINGSUM_MUST_CHECK int ringsum_bench(const char *path, const struct ringsum_options *options,
				     struct ringsum_bench_result *result,
				     struct ringsum_error *err);

/* As for ringsum_report_to_json (schema ringsum-bench/1) and ringsum_report_to_text. */
RINGSUM_MUST_CHECK int ringsum_bench_to_json(const struct ringsum_bench_result *result,
					     char **json_out, struct ringsum_error *err);
RINGSUM_MUST_CHECK int ringsum_bench_to_text(const struct ringsum_bench_result *result,
					     char **text_out, struct ringsum_error *err);

/* ---- inspection: what is in a shard or a directory, with no promise needed ---------------- */

struct ringsum_inspection;

/* One shard. Ownership: the inspection's. */
struct ringsum_shard {
	const char *name;		/* as given, or relative to the directory */
	uint64_t size_bytes;		/* of the file */
	uint64_t header_bytes;		/* N of the format, without the 8 bytes before it */
	size_t tensor_count;		/* 0 where the header is refused */
	size_t metadata_count;		/* pairs in __metadata__ */
	enum ringsum_verdict verdict;	/* identical here means: structurally valid */
	enum ringsum_finding_code code; /* why not, where it is not */
	const char *message;		/* why not, for a person; NULL where valid */
};

/*
 * Reads the header of a shard, or of every *.safetensors in a directory (not below it).
 * options: only size_bytes matters today; NULL is fine.
 * Ownership: free *inspection_out with ringsum_inspection_free.
 * Returns: RINGSUM_OK also where shards are refused, see ringsum_inspection_verdict;
 * RINGSUM_E_NOPROMISE where the path is not there or holds no shard; RINGSUM_E_NOMEM,
 * RINGSUM_E_IO.
 */
RINGSUM_MUST_CHECK int ringsum_inspect(const char *path, const struct ringsum_options *options,
				       struct ringsum_inspection **inspection_out,
				       struct ringsum_error *err);

/* Identical: all shards are structurally valid. */
enum ringsum_verdict ringsum_inspection_verdict(const struct ringsum_inspection *inspection);

size_t ringsum_inspection_shard_count(const struct ringsum_inspection *inspection);

const struct ringsum_shard *ringsum_inspection_shard_at(const struct ringsum_inspection *inspection,
							size_t shard_index);

/* Fills *tensor_out (digest_sha256 is zero) in the order of offsets; RINGSUM_E_NOTFOUND past it. */
RINGSUM_MUST_CHECK int ringsum_inspection_tensor_at(const struct ringsum_inspection *inspection,
						    size_t shard_index, size_t tensor_index,
						    struct ringsum_tensor *tensor_out);

/* Gives one pair of __metadata__; RINGSUM_E_NOTFOUND past the end. Ownership: the inspection's. */
RINGSUM_MUST_CHECK int ringsum_inspection_metadata_at(const struct ringsum_inspection *inspection,
						      size_t shard_index, size_t metadata_index,
						      const char **key_out, const char **value_out);

/* As for ringsum_report_to_json (schema ringsum-inspect/1) and ringsum_report_to_text. */
RINGSUM_MUST_CHECK int ringsum_inspection_to_json(const struct ringsum_inspection *inspection,
						  char **json_out, struct ringsum_error *err);
RINGSUM_MUST_CHECK int ringsum_inspection_to_text(const struct ringsum_inspection *inspection,
						  char **text_out, struct ringsum_error *err);

void ringsum_inspection_free(struct ringsum_inspection *inspection);

#ifdef __cplusplus
}
#endif

#endif
