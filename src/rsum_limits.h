/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit of ringsum, by name. A limit that is hit is reported with its value. */
#ifndef RSUM_LIMITS_H
#define RSUM_LIMITS_H

#define RSUM_LIMIT_HEADER_BYTES UINT64_C(100000000)	     /* as the reference implementation */
#define RSUM_LIMIT_HEADER_DRAFTER_BYTES (UINT64_C(64) << 20) /* as the drafter's loader */
#define RSUM_LIMIT_MANIFEST_BYTES (UINT64_C(1) << 30)
#define RSUM_LIMIT_BUNDLE_BYTES (UINT64_C(256) << 20) /* of a signed list of files */
#define RSUM_LIMIT_STATEMENT_BYTES (UINT64_C(190) << 20) /* so that its bundle is no larger */
#define RSUM_LIMIT_KEY_BYTES (UINT64_C(1) << 20)      /* of a file with a key or certificates */
#define RSUM_LIMIT_CERTIFICATES 16		      /* in a bundle */
#define RSUM_LIMIT_CERTIFICATE_BYTES 65536
#define RSUM_LIMIT_SIGNATURE_BYTES 1024
#define RSUM_LIMIT_IGNORES 10000 /* paths that a signed list of files leaves out */
#define RSUM_LIMIT_CONFIG_BYTES (UINT64_C(16) << 20)
#define RSUM_LIMIT_HEADER_JSON_DEPTH 127 /* the reference reads a header 127 deep, not 128 */
#define RSUM_LIMIT_JSON_DEPTH 64	 /* of every other document */
#define RSUM_LIMIT_JSON_KEYS 5000000	 /* of the objects open at one time */
#define RSUM_LIMIT_TENSORS 4000000
#define RSUM_LIMIT_SHORT_ENTRIES 10000 /* of a manifest, too short to be promises */
/*
 * Dimensions of all shapes in a header, and pairs of its metadata: beyond some thousands, as many
 * as keep their tables at 0.8 and 0.5 times the size of the header. A dimension takes no fewer
 * than two bytes of it, but those of a tensor stand among 50 bytes more.
 */
#define RSUM_LIMIT_DIMENSIONS(header_bytes) (UINT64_C(16384) + (header_bytes) / 10)
#define RSUM_LIMIT_METADATA(header_bytes) \
	RSUM_MIN(UINT64_C(4096) + (header_bytes) / 16, UINT64_C(1000000))
#define RSUM_LIMIT_STAGES 64
#define RSUM_LIMIT_EXPERTS 65536
#define RSUM_LIMIT_NAME_BYTES 4096
#define RSUM_LIMIT_RANK 64
#define RSUM_LIMIT_SHARDS 100000
#define RSUM_LIMIT_FINDINGS 100000 /* listed; all are counted */
/* Notes may be as many as files on a disk: so many are among the listed; all are counted. */
#define RSUM_LIMIT_NOTES 10000
#define RSUM_LIMIT_NOTES_SHOWN 20     /* in a report as text */
#define RSUM_LIMIT_MAP_CELLS 30000    /* of a report's map; more tensors share cells */
#define RSUM_LIMIT_MAP_SHARDS 1000    /* drawn in it, damaged ones first; all are counted */
#define RSUM_LIMIT_HTML_FINDINGS 1000 /* rows of a page's table, and as many notes */
#define RSUM_LIMIT_WALK_FILES 1000000 /* looked at when searching for unpromised files */
#define RSUM_LIMIT_WALK_DEPTH 32
#define RSUM_LIMIT_INSPECT_BYTES (UINT64_C(1) << 30) /* headers of one inspection together */
#define RSUM_LIMIT_FILE_OFFSET (UINT64_C(1) << 62)   /* no range ends beyond it */
#define RSUM_LIMIT_MEMORY_BYTES (UINT64_C(16) << 30)
#define RSUM_LIMIT_DEPTH 256
#define RSUM_LIMIT_THREADS 256
#define RSUM_LIMIT_RATE_BYTES_MIN (UINT64_C(64) << 10) /* a second: one chunk at the least */
#define RSUM_LIMIT_RATE_BYTES_MAX (UINT64_C(1) << 40)
/* Reads in flight when a run is canceled are waited for so long; see abandoned.h. */
#define RSUM_LIMIT_DRAIN_MS 300
#define RSUM_LIMIT_READERS 32 /* threads that read where io_uring is not used */

/* Of many checkpoints: prepared before they are read, and read before earlier ones are told of. */
#define RSUM_LIMIT_AHEAD 8
#define RSUM_LIMIT_AHEAD_TENSORS 200000 /* together, unless it is one alone */
#define RSUM_LIMIT_UNTOLD 256

/* Three chunks for every two streams that can be hashed at once, within these. */
#define RSUM_DEFAULT_MEMORY_BYTES_MIN (UINT64_C(24) << 20)
#define RSUM_DEFAULT_MEMORY_BYTES_MAX (UINT64_C(256) << 20)
/*
 * Beside 512 KiB, 32 in flight, this came to 1.04 times the rate on a virtio disk, and to less CPU:
 * as many bytes are in flight, while half as many wait to be hashed.
 */
#define RSUM_DEFAULT_CHUNK_BYTES (UINT32_C(256) << 10)
#define RSUM_DEFAULT_DEPTH 64
#define RSUM_DEFAULT_THREADS_MAX 16
#define RSUM_CHUNK_BYTES_MIN (UINT32_C(64) << 10)
#define RSUM_CHUNK_BYTES_MAX (UINT32_C(64) << 20)

#endif
