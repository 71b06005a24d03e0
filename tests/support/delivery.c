/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small checkpoints for tests. */
#include "delivery.h"

#include "digest.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(condition)                                                                     \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: test set-up failed: %s\n", __FILE__, __LINE__, \
				#condition);                                                   \
			abort();                                                               \
		}                                                                              \
	} while (0)

uint64_t delivery_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

void delivery_init(struct delivery *delivery, const char *parent)
{
	const char *temporary = parent ? parent : getenv("TMPDIR");

	*delivery = (struct delivery){ 0 };
	REQUIRE(snprintf(delivery->root, sizeof(delivery->root), "%s/ringsum-XXXXXX",
			 temporary ? temporary : "/tmp") < (int)sizeof(delivery->root));
	REQUIRE(mkdtemp(delivery->root));
}

void delivery_add(struct delivery *delivery, unsigned shard, const char *name, uint64_t size_bytes,
		  bool is_scalar)
{
	struct delivery_tensor *tensor;

	delivery->tensors =
		realloc(delivery->tensors, (delivery->count + 1) * sizeof(*delivery->tensors));
	REQUIRE(delivery->tensors);
	tensor = &delivery->tensors[delivery->count++];
	*tensor = (struct delivery_tensor){
		.dtype = "U8",
		.rank = is_scalar ? 0 : 1,
		.shape = { size_bytes },
		.shard = shard,
		.size_bytes = size_bytes,
	};
	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	if (shard >= delivery->shard_count)
		delivery->shard_count = shard + 1;
}

void delivery_add_mixture(struct delivery *delivery, unsigned shard_count, uint64_t seed)
{
	static const uint64_t sizes[] = {
		0,   1,	  2,	4,    55,   56,	   63,	  64,	 65,	 127,
		128, 129, 4095, 4096, 4097, 65535, 65536, 65537, 131072, 200001,
	};
	size_t size_count = sizeof(sizes) / sizeof(sizes[0]), i;
	unsigned shard;
	char name[64];

	for (shard = 0; shard < shard_count; shard++) {
		for (i = 0; i < size_count; i++) {
			snprintf(name, sizeof(name), "s%u.size%llu", shard,
				 (unsigned long long)sizes[i]);
			delivery_add(delivery, shard, name, sizes[i], false);
		}
		snprintf(name, sizeof(name), "s%u.scalar", shard);
		delivery_add(delivery, shard, name, 1, true);
		/* More tensors in a chunk than there are workers, streams or lanes. */
		for (i = 0; i < 40; i++) {
			snprintf(name, sizeof(name), "s%u.tiny%zu", shard, i);
			delivery_add(delivery, shard, name, delivery_random(&seed) % 300, false);
		}
	}
}

static void fill(uint8_t *bytes, uint64_t size_bytes, uint64_t *state)
{
	uint64_t i;

	for (i = 0; i < size_bytes; i++)
		bytes[i] = (uint8_t)delivery_random(state);
}

const char *delivery_shard_path(const struct delivery *delivery, unsigned shard)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/shard-%u.safetensors", delivery->root, shard);
	return path;
}

static void print_shape(FILE *file, const struct delivery_tensor *tensor)
{
	unsigned i;

	fputc('[', file);
	for (i = 0; i < tensor->rank; i++)
		fprintf(file, "%s%llu", i ? "," : "", (unsigned long long)tensor->shape[i]);
	fputc(']', file);
}

static void write_shard(struct delivery *delivery, unsigned shard, bool is_unaligned)
{
	char *header = NULL;
	size_t header_bytes, i;
	uint64_t offset = 0, length;
	FILE *memory = open_memstream(&header, &header_bytes), *file;
	const char *separator = "";

	REQUIRE(memory);
	fputc('{', memory);
	for (i = 0; i < delivery->count; i++) {
		struct delivery_tensor *tensor = &delivery->tensors[i];

		if (tensor->shard != shard)
			continue;
		fprintf(memory, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":", separator, tensor->name,
			tensor->dtype);
		print_shape(memory, tensor);
		fprintf(memory, ",\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset,
			(unsigned long long)(offset + tensor->size_bytes));
		tensor->begin = offset;
		offset += tensor->size_bytes;
		separator = ",";
	}
	fputc('}', memory);
	REQUIRE(fflush(memory) == 0);
	while (header_bytes % 8 != (is_unaligned ? 3 : 0)) {
		fputc(' ', memory);
		REQUIRE(fflush(memory) == 0);
	}
	REQUIRE(fclose(memory) == 0);
	length = header_bytes;
	file = fopen(delivery_shard_path(delivery, shard), "wb");
	REQUIRE(file);
	REQUIRE(fwrite(&length, 8, 1, file) == 1); /* little-endian hosts only, as the tests */
	REQUIRE(fwrite(header, 1, header_bytes, file) == header_bytes);
	for (i = 0; i < delivery->count; i++) {
		struct delivery_tensor *tensor = &delivery->tensors[i];

		if (tensor->shard != shard)
			continue;
		tensor->begin += 8 + length;
		REQUIRE(fwrite(tensor->bytes, 1, tensor->size_bytes, file) == tensor->size_bytes);
	}
	REQUIRE(fclose(file) == 0);
	free(header);
}

static void write_manifest(const struct delivery *delivery)
{
	char path[128], hex[65];
	uint8_t digest[RSUM_SHA256_BYTES];
	FILE *file;
	size_t i;

	snprintf(path, sizeof(path), "%s/TENSORS.json", delivery->root);
	file = fopen(path, "w");
	REQUIRE(file);
	fputs("{\"tensors\":[", file);
	for (i = 0; i < delivery->count; i++) {
		const struct delivery_tensor *tensor = &delivery->tensors[i];
		unsigned long long begin = tensor->begin, end = tensor->begin + tensor->size_bytes;

		REQUIRE(rsum_sha256_of(tensor->bytes, tensor->size_bytes, digest) == 0);
		rsum_hex_encode_digest(digest, hex);
		fprintf(file, "%s\n{\"name\":\"%s\",\"dtype\":\"%s\",\"shape\":", i ? "," : "",
			tensor->name, tensor->dtype);
		print_shape(file, tensor);
		fprintf(file,
			",\"destination_file\":\"shard-%u.safetensors\","
			"\"destination_byte_range\":[%llu,%llu],\"source_byte_range\":[7,%llu],"
			"\"source_byte_range_sha256\":\"%s\",\"resident_packed_bytes\":%llu}",
			tensor->shard, begin, end, 7 + end - begin, hex, end - begin);
	}
	fputs("]}\n", file);
	REQUIRE(fclose(file) == 0);
}

void delivery_write(struct delivery *delivery, uint64_t seed, bool is_unaligned)
{
	unsigned shard;
	size_t i;

	for (i = 0; i < delivery->count; i++) {
		struct delivery_tensor *tensor = &delivery->tensors[i];

		free(tensor->bytes);
		tensor->bytes = malloc(tensor->size_bytes + 1);
		REQUIRE(tensor->bytes);
		fill(tensor->bytes, tensor->size_bytes, &seed);
	}
	for (shard = 0; shard < delivery->shard_count; shard++)
		write_shard(delivery, shard, is_unaligned);
	write_manifest(delivery);
}

void delivery_flip(const struct delivery *delivery, size_t tensor_index, uint64_t byte,
		   unsigned bit)
{
	const struct delivery_tensor *tensor = &delivery->tensors[tensor_index];
	int fd = open(delivery_shard_path(delivery, tensor->shard), O_RDWR | O_CLOEXEC);
	off_t at = (off_t)(tensor->begin + byte);
	uint8_t value;

	REQUIRE(fd >= 0 && byte < tensor->size_bytes);
	REQUIRE(pread(fd, &value, 1, at) == 1);
	value ^= (uint8_t)(1u << bit);
	REQUIRE(pwrite(fd, &value, 1, at) == 1);
	REQUIRE(close(fd) == 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

void delivery_deinit(struct delivery *delivery)
{
	size_t i;

	nftw(delivery->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	for (i = 0; i < delivery->count; i++)
		free(delivery->tensors[i].bytes);
	free(delivery->tensors);
	*delivery = (struct delivery){ 0 };
}
