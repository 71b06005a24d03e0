/* SPDX-License-Identifier: Apache-2.0 */
/* What this library was built with, and what it would use on this machine. */
#include "base.h"
#include "buffer_pool.h"
#include "digest.h"
#include "error.h"
#include "io_engine.h"
#include "json_write.h"
#include "options.h"
#include "ringsum.h"

#include <stdio.h>
#include <string.h>

#define PROBE_CHUNK_BYTES 65536

/* A version as built, and as running where that is known and another. */
static void tell_library(FILE *to, const char *name, const char *built, const char *running)
{
	if (running && strcmp(built, running) != 0)
		fprintf(to, "%s %s, built with %s\n", name, running, built);
	else
		fprintf(to, "%s %s%s\n", name, built,
			running ? "" : " (as built; it does not tell what runs)");
}

/* The engine that a run with default options would get: the same start, the same probe. */
static void tell_engine(FILE *to)
{
	struct rsum_buffer_pool pool = { 0 };
	const struct rsum_io_setup setup = { .pool = &pool, .depth = 1, .file_slot_count = 1 };
	struct rsum_io_engine *engine = NULL;
	char why[192] = "";

	if (rsum_buffer_pool_init(&pool, 1, PROBE_CHUNK_BYTES) != RINGSUM_OK) {
		fprintf(to, "engine unknown: out of memory for the probe\n");
		return;
	}
	if (rsum_io_engine_uring.start(&setup, &engine, why, sizeof(why)) == 0) {
		rsum_io_engine_uring.stop(engine);
		fprintf(to, "engine %s\n", rsum_io_engine_uring.name);
	} else {
		fprintf(to, "engine %s, since %s\n", rsum_io_engine_pread.name, why);
	}
	rsum_buffer_pool_deinit(&pool);
}

static void tell_digest(FILE *to)
{
	struct ringsum_error reason = { 0 };
	struct rsum_options options;

	/* RINGSUM_DIGEST_IMPL may name what cannot be had. */
	if (rsum_options_resolve(NULL, &options, &reason) == RINGSUM_OK)
		fprintf(to, "digest %s%s\n", rsum_digest_impl_name(options.digest_impl),
			rsum_digest_environment() ? ", as RINGSUM_DIGEST_IMPL says" : "");
	else
		fprintf(to, "digest none: %s\n", reason.message);
	rsum_options_deinit(&options);
}

RSUM_PUBLIC int ringsum_system_to_text(char **text_out, struct ringsum_error *err)
{
	const char *built, *running;
	char *text = NULL;
	size_t text_bytes;
	FILE *to;

	if (!text_out)
		return rsum_error_set(err, RINGSUM_E_INVALID, "there is no place for the text");
	to = open_memstream(&text, &text_bytes);
	if (!to)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory");
	fprintf(to, "ringsum %s\n", ringsum_version());
	rsum_io_engine_uring.versions(&built, &running);
	tell_library(to, "liburing", built, running);
	rsum_digest_versions(&built, &running);
	tell_library(to, "libcrypto", built, running);
	rsum_json_write_versions(&built, &running);
	tell_library(to, "json-c", built, running);
	tell_engine(to);
	tell_digest(to);
	if (fclose(to) != 0) {
		free(text);
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory");
	}
	*text_out = text;
	return RINGSUM_OK;
}
