/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the shared options. */
#include "read_options.h"

static const struct option_choice profiles[] = {
	{ "auto", RINGSUM_PROFILE_AUTO },
	{ "dspark-exl3", RINGSUM_PROFILE_DSPARK_EXL3 },
	{ "none", RINGSUM_PROFILE_NONE },
	{ NULL, 0 },
};

static const struct option_choice engines[] = {
	{ "auto", RINGSUM_ENGINE_AUTO },
	{ "io_uring", RINGSUM_ENGINE_IO_URING },
	{ "pread", RINGSUM_ENGINE_PREAD },
	{ NULL, 0 },
};

static const struct option_choice directs[] = {
	{ "prefer", RINGSUM_DIRECT_PREFER },
	{ "require", RINGSUM_DIRECT_REQUIRE },
	{ "off", RINGSUM_DIRECT_OFF },
	{ NULL, 0 },
};

static const struct option_choice digests[] = {
	{ "auto", RINGSUM_DIGEST_AUTO },
	{ "libcrypto", RINGSUM_DIGEST_LIBCRYPTO },
	{ "sha-ni-x2", RINGSUM_DIGEST_SHANI_X2 },
	{ "sha-ni-x3", RINGSUM_DIGEST_SHANI_X3 },
	{ "avx512-x16", RINGSUM_DIGEST_AVX512_X16 },
	{ NULL, 0 },
};

#define INTO(member) OPTION_INTO(struct ringsum_options, member)

const struct option_row read_option_rows[] = {
	{ "manifest", 0, OPTION_FILE, "FILE",
	  "the promise, for a single PATH; default: TENSORS.json in the directory",
	  INTO(manifest_path) },
	{ "manifest-sha256", 0, OPTION_TEXT, "HEX",
	  "refuse any other manifest than the one with this digest; for a single PATH",
	  INTO(manifest_sha256) },
	{ "profile", 0, OPTION_CHOICE, "NAME",
	  "default auto: dspark-exl3 where the manifest names a codebook", INTO(profile),
	  .choices = profiles },
	{ "strict", 0, OPTION_FLAG, NULL, "refuse what nobody promised (tensors and files)",
	  INTO(strict) },
	{ "threads", 0, OPTION_NUMBER, "N",
	  "hashing threads, 1 to 256; default: one per processor, at most 16", INTO(threads),
	  .least = 1, .most = 256, .range = "1 to 256" },
	{ "engine", 0, OPTION_CHOICE, "NAME", "default auto: io_uring where it works", INTO(engine),
	  .choices = engines },
	{ "direct", 0, OPTION_CHOICE, "HOW", "default prefer: direct I/O where it can be had",
	  INTO(direct), .choices = directs },
	{ "chunk", 0, OPTION_SIZE, "SIZE",
	  "bytes of one read, 64K to 64M, a multiple of 4K; default 256K; in a SIZE K, M and G "
	  "are binary",
	  INTO(chunk_bytes), .least = 64 << 10, .most = 64 << 20, .range = "64K to 64M" },
	{ "depth", 0, OPTION_NUMBER, "N", "reads in flight, 1 to 256; default 64", INTO(depth),
	  .least = 1, .most = 256, .range = "1 to 256" },
	{ "memory", 0, OPTION_SIZE, "SIZE",
	  "for buffers, at least one chunk, up to 16G; default 24M to 256M, by threads and "
	  "implementation",
	  INTO(memory_bytes), .least = 1, .most = 16ull << 30, .range = "one chunk to 16G" },
	{ "digest-impl", 0, OPTION_CHOICE, "NAME",
	  "default auto: the fastest here, avx512-x16 where it is measured to be; "
	  "RINGSUM_DIGEST_IMPL in the environment can name another in place of auto",
	  INTO(digest), .choices = digests },
	{ .name = NULL },
};
