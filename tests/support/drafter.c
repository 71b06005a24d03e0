/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small drafter deliveries for tests. */
#include "drafter.h"

#include "delivery.h"
#include "digest.h"

#include <endian.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARE_BYTES 512 /* blanks at a header's end */
#define MUL1_WORD UINT32_C(0x83DCD12D)

#define REQUIRE(condition)                                                                     \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: test set-up failed: %s\n", __FILE__, __LINE__, \
				#condition);                                                   \
			abort();                                                               \
		}                                                                              \
	} while (0)

static const char *const shard_names[DRAFTER_SHARDS] = { DRAFTER_SHARD_0, DRAFTER_SHARD_1 };

/* ---- in memory ------------------------------------------------------------------------------ */

static void add_norm(struct drafter *drafter)
{
	size_t count = drafter->tensor_count++;

	drafter->tensors =
		realloc(drafter->tensors, drafter->tensor_count * sizeof(*drafter->tensors));
	REQUIRE(drafter->tensors);
	drafter->tensors[count] = (struct document_tensor){
		.name = strdup("norm.weight"),
		.dtype = "BF16",
		.shape = "[32]",
		.size_bytes = 64,
	};
	REQUIRE(drafter->tensors[count].name);
}

static void place_tensors(struct drafter *drafter)
{
	size_t i;

	drafter->shard_of = calloc(drafter->tensor_count, sizeof(*drafter->shard_of));
	drafter->data_begin = calloc(drafter->tensor_count, sizeof(*drafter->data_begin));
	REQUIRE(drafter->shard_of && drafter->data_begin);
	for (i = 0; i < drafter->tensor_count; i++) {
		unsigned shard = strstr(drafter->tensors[i].name, ".experts.") ? 1 : 0;

		drafter->shard_of[i] = shard;
		drafter->data_begin[i] = drafter->shards[shard].data_bytes;
		drafter->shards[shard].data_bytes += drafter->tensors[i].size_bytes;
		drafter->shards[shard].tensor_count++;
	}
}

void drafter_init(struct drafter *drafter, unsigned stages, unsigned experts)
{
	const char *temporary = getenv("TMPDIR");

	*drafter = (struct drafter){ 0 };
	REQUIRE(snprintf(drafter->base, sizeof(drafter->base), "%s/ringsum-XXXXXX",
			 temporary ? temporary : "/tmp") < (int)sizeof(drafter->base));
	REQUIRE(mkdtemp(drafter->base));
	snprintf(drafter->root, sizeof(drafter->root), "%s/delivery", drafter->base);
	drafter->tensors = document_tensors(stages, experts, &drafter->tensor_count);
	add_norm(drafter);
	place_tensors(drafter);
	drafter->stages = stages;
	drafter->experts = experts;
}

static void fill_data(struct drafter *drafter)
{
	uint32_t marker = htole32(MUL1_WORD);
	uint64_t random = 1;
	size_t i, k;

	for (i = 0; i < DRAFTER_SHARDS; i++) {
		struct drafter_shard *shard = &drafter->shards[i];

		free(shard->data);
		shard->data = malloc(shard->data_bytes);
		REQUIRE(shard->data);
		for (k = 0; k < shard->data_bytes; k++)
			shard->data[k] = (uint8_t)delivery_random(&random);
	}
	for (i = 0; i < drafter->tensor_count; i++) {
		const char *dot = strrchr(drafter->tensors[i].name, '.');

		if (strcmp(dot, ".mul1") == 0)
			memcpy(drafter->shards[drafter->shard_of[i]].data + drafter->data_begin[i],
			       &marker, sizeof(marker));
	}
}

static void build_header(struct drafter *drafter, unsigned shard_index)
{
	struct drafter_shard *shard = &drafter->shards[shard_index];
	FILE *memory;
	size_t i;

	free(shard->header);
	shard->header = NULL;
	memory = open_memstream(&shard->header, &shard->header_bytes);
	REQUIRE(memory);
	fputs("{\"__metadata__\": {\"format\": \"pt\"}", memory);
	for (i = 0; i < drafter->tensor_count; i++) {
		const struct document_tensor *tensor = &drafter->tensors[i];

		if (drafter->shard_of[i] != shard_index)
			continue;
		fprintf(memory,
			",\n\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [%zu, "
			"%zu]}",
			tensor->name, tensor->dtype, tensor->shape, drafter->data_begin[i],
			drafter->data_begin[i] + tensor->size_bytes);
	}
	fputc('}', memory);
	for (i = 0; i < SPARE_BYTES; i++)
		fputc(' ', memory);
	REQUIRE(fclose(memory) == 0);
}

static void digest_of(const struct drafter *drafter, size_t tensor, char hex[65])
{
	uint8_t digest[RSUM_SHA256_BYTES];

	REQUIRE(rsum_sha256_of(drafter->shards[drafter->shard_of[tensor]].data +
				       drafter->data_begin[tensor],
			       drafter->tensors[tensor].size_bytes, digest) == 0);
	rsum_hex_encode_digest(digest, hex);
}

static void build_manifest(struct drafter *drafter, unsigned seed)
{
	char **entries = calloc(drafter->tensor_count, sizeof(*entries));
	char hex[65];
	size_t i;

	REQUIRE(entries);
	for (i = 0; i < drafter->tensor_count; i++) {
		digest_of(drafter, i, hex);
		entries[i] = document_entry(&drafter->tensors[i], shard_names[drafter->shard_of[i]],
					    drafter_begin(drafter, i), hex);
	}
	free(drafter->manifest);
	drafter->manifest = document_manifest_of(entries, drafter->tensor_count, seed);
}

void drafter_build(struct drafter *drafter, unsigned seed)
{
	unsigned shard;

	for (shard = 0; shard < DRAFTER_SHARDS; shard++)
		build_header(drafter, shard);
	fill_data(drafter);
	build_manifest(drafter, seed);
	free(drafter->config);
	free(drafter->plan);
	drafter->config = document_config(drafter->stages, drafter->experts);
	drafter->plan = document_plan();
}

/* ---- on disk -------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

void drafter_remove(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *drafter_path(const struct drafter *drafter, const char *file)
{
	static char paths[4][256];
	static unsigned next;
	char *path = paths[next++ % 4];

	REQUIRE(snprintf(path, sizeof(paths[0]), "%s/%s", drafter->root, file) <
		(int)sizeof(paths[0]));
	return path;
}

void drafter_put(const struct drafter *drafter, const char *file, const void *bytes, size_t count)
{
	FILE *stream = fopen(drafter_path(drafter, file), "wb");

	REQUIRE(stream);
	REQUIRE(fwrite(bytes, 1, count, stream) == count);
	REQUIRE(fclose(stream) == 0);
}

void drafter_poke(const struct drafter *drafter, const char *file, uint64_t offset,
		  const void *bytes, size_t count)
{
	int fd = open(drafter_path(drafter, file), O_WRONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(pwrite(fd, bytes, count, (off_t)offset) == (ssize_t)count);
	REQUIRE(close(fd) == 0);
}

static void write_shard(const struct drafter *drafter, unsigned shard_index)
{
	const struct drafter_shard *shard = &drafter->shards[shard_index];
	uint64_t length = htole64(shard->header_bytes);
	FILE *stream = fopen(drafter_path(drafter, shard_names[shard_index]), "wb");

	REQUIRE(stream);
	REQUIRE(fwrite(&length, sizeof(length), 1, stream) == 1);
	REQUIRE(fwrite(shard->header, 1, shard->header_bytes, stream) == shard->header_bytes);
	REQUIRE(fwrite(shard->data, 1, shard->data_bytes, stream) == shard->data_bytes);
	REQUIRE(fclose(stream) == 0);
}

void drafter_write(const struct drafter *drafter)
{
	unsigned shard;

	drafter_remove(drafter->base);
	REQUIRE(mkdir(drafter->base, 0700) == 0);
	REQUIRE(mkdir(drafter->root, 0700) == 0);
	REQUIRE(mkdir(drafter_path(drafter, "more"), 0700) == 0);
	drafter_put(drafter, "config.json", drafter->config, strlen(drafter->config));
	drafter_put(drafter, "exl3_moe_plan.json", drafter->plan, strlen(drafter->plan));
	drafter_put(drafter, "TENSORS.json", drafter->manifest, strlen(drafter->manifest));
	for (shard = 0; shard < DRAFTER_SHARDS; shard++)
		write_shard(drafter, shard);
}

void drafter_deinit(struct drafter *drafter)
{
	unsigned shard;

	drafter_remove(drafter->base);
	document_tensors_free(drafter->tensors, drafter->tensor_count);
	free(drafter->shard_of);
	free(drafter->data_begin);
	free(drafter->config);
	free(drafter->plan);
	free(drafter->manifest);
	for (shard = 0; shard < DRAFTER_SHARDS; shard++) {
		free(drafter->shards[shard].header);
		free(drafter->shards[shard].data);
	}
	*drafter = (struct drafter){ 0 };
}

/* ---- edits ---------------------------------------------------------------------------------- */

size_t drafter_find(const struct drafter *drafter, const char *tensor)
{
	size_t i = 0;

	while (i < drafter->tensor_count && strcmp(drafter->tensors[i].name, tensor) != 0)
		i++;
	REQUIRE(i < drafter->tensor_count);
	return i;
}

uint64_t drafter_begin(const struct drafter *drafter, size_t tensor)
{
	return 8 + drafter->shards[drafter->shard_of[tensor]].header_bytes +
	       drafter->data_begin[tensor];
}

void drafter_edit_header(struct drafter *drafter, unsigned shard_index, const char *after,
			 const char *find, const char *replace)
{
	struct drafter_shard *shard = &drafter->shards[shard_index];
	size_t length;

	shard->header = document_edit(shard->header, after, find, replace);
	length = strlen(shard->header);
	while (length > shard->header_bytes) {
		REQUIRE(shard->header[length - 1] == ' ');
		shard->header[--length] = '\0';
	}
	if (length == shard->header_bytes)
		return;
	shard->header = realloc(shard->header, shard->header_bytes + 1);
	REQUIRE(shard->header);
	memset(shard->header + length, ' ', shard->header_bytes - length);
	shard->header[shard->header_bytes] = '\0';
}

void drafter_drop_entry(struct drafter *drafter, const char *tensor)
{
	char *at;

	drafter->manifest = document_edit_entry(drafter->manifest, tensor, NULL, "\x01");
	at = strchr(drafter->manifest, '\x01');
	REQUIRE(at);
	/* The comma behind it goes with it, or the one before where it was the last. */
	if (at[1] == ',') {
		memmove(at, at + 2, strlen(at + 2) + 1);
	} else {
		REQUIRE(at[-1] == '\n' && at[-2] == ',');
		memmove(at - 2, at + 1, strlen(at + 1) + 1);
	}
}

void drafter_promise_again(struct drafter *drafter, const char *tensor)
{
	static const char key[] = "\"source_byte_range_sha256\": \"";
	char begin[128], hex[65];
	char *at;

	snprintf(begin, sizeof(begin), "{\"name\": \"%s\"", tensor);
	at = strstr(drafter->manifest, begin);
	at = at ? strstr(at, key) : NULL;
	REQUIRE(at);
	digest_of(drafter, drafter_find(drafter, tensor), hex);
	memcpy(at + strlen(key), hex, 64);
}
