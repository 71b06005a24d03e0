/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards on disk. A tensor's bytes follow from seed, name and offset alone, so they do not depend
 * on who writes them or when. Digests come from libcrypto and from the bytes that are written.
 *
 * Large tensors come first: several threads make, hash and write their whole pages with direct
 * I/O, past the page cache. Then one thread writes what is left through the page cache: headers,
 * small tensors, and the ends of the large ones, which share pages with their neighbours. In this
 * order no direct write meets a dirty page.
 */
#include "mkdelivery.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_BYTES ((size_t)4 << 20)
#define PAGE_BYTES ((uint64_t)4096)
#define LARGE_BYTES ((uint64_t)1 << 20) /* from here on a tensor goes past the page cache */
#define SYNC_FROM_BYTES ((uint64_t)256 << 20)

static const uint8_t marker_bytes[4] = { 0x2d, 0xd1, 0xdc, 0x83 };

struct writers {
	struct md_delivery *delivery;
	size_t *order; /* of tensors, the largest first */
	atomic_size_t next;
};

void md_sha256(const void *bytes, size_t size, uint8_t digest_out[MD_DIGEST_BYTES])
{
	if (!EVP_Digest(bytes, size, digest_out, NULL, EVP_sha256(), NULL))
		md_die("libcrypto cannot compute sha256");
}

void md_hex(const uint8_t digest[MD_DIGEST_BYTES], char hex_out[2 * MD_DIGEST_BYTES + 1])
{
	for (size_t i = 0; i < MD_DIGEST_BYTES; i++)
		snprintf(hex_out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- headers ---- */

static void print_header(FILE *out, const struct md_delivery *delivery,
			 const struct md_shard *shard)
{
	fputs("{\"__metadata__\":{\"format\":\"pt\"}", out);
	for (size_t i = shard->first; i < shard->first + shard->count; i++) {
		const struct md_tensor *t = &delivery->tensors[i];

		fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->dtype);
		for (unsigned j = 0; j < t->rank; j++)
			fprintf(out, "%s%ju", j ? "," : "", (uintmax_t)t->shape[j]);
		fprintf(out, "],\"data_offsets\":[%ju,%ju]}", (uintmax_t)t->begin,
			(uintmax_t)(t->begin + t->size_bytes));
	}
	fputc('}', out);
}

static uint64_t padded(const struct md_delivery *delivery, uint64_t bytes)
{
	if (bytes < delivery->header_bytes_min)
		bytes = delivery->header_bytes_min;
	if (delivery->unaligned)
		return bytes | 1;
	return (bytes + 7) & ~UINT64_C(7);
}

static char *header_text(const struct md_delivery *delivery, const struct md_shard *shard,
			 size_t *size_out)
{
	char *text = NULL;
	FILE *stream = open_memstream(&text, size_out);

	if (!stream)
		md_die("out of memory for a header");
	print_header(stream, delivery, shard);
	if (fclose(stream))
		md_die("out of memory for a header");
	return text;
}

/* The file at its full length, empty. */
static void create(const struct md_delivery *delivery, struct md_shard *shard)
{
	char *path = md_path(delivery->dir, shard->name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	size_t header_bytes;
	off_t size;

	if (fd < 0)
		md_die("cannot create %s: %s", path, strerror(errno));
	free(header_text(delivery, shard, &header_bytes));
	shard->data_start = 8 + padded(delivery, header_bytes);
	size = (off_t)(shard->data_start + shard->data_bytes);
	/* Blocks in a row where the file system can; else a hole does as well. */
	if ((delivery->sparse || fallocate(fd, 0, 0, size)) && ftruncate(fd, size))
		md_die("cannot extend %s: %s", path, strerror(errno));
	if (close(fd))
		md_die("cannot write %s: %s", path, strerror(errno));
	free(path);
}

/* 8 bytes of length, JSON, spaces. */
static void write_header(const struct md_delivery *delivery, const struct md_shard *shard, int fd)
{
	uint64_t header_bytes = shard->data_start - 8;
	char *spaces = md_alloc(1, header_bytes);
	size_t size;
	char *text = header_text(delivery, shard, &size);
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(header_bytes >> (8 * i));
	memset(spaces, ' ', header_bytes);
	memcpy(spaces, text, size);
	md_write_at(fd, length, sizeof(length), 0);
	md_write_at(fd, spaces, header_bytes, sizeof(length));
	free(text);
	free(spaces);
}

/* ---- data ---- */

static uint64_t tensor_key(uint64_t seed, const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return md_mix(hash ^ md_mix(seed));
}

/*
 * Word number i is a function of key and i. `bytes` is aligned, with 8 bytes of room at its end;
 * an offset within a word moves the bytes down.
 */
static void fill(const struct md_tensor *tensor, uint64_t key, uint64_t offset, size_t size,
		 uint8_t *bytes)
{
	uint64_t *words = (void *)bytes;
	size_t skip = (size_t)(offset % 8);
	uint64_t counter = key + offset / 8 * UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < (skip + size + 7) / 8; i++)
		words[i] = md_mix(counter + i * UINT64_C(0x9e3779b97f4a7c15));
	if (skip)
		memmove(bytes, bytes + skip, size);
	if (tensor->marker)
		memcpy(bytes, marker_bytes + offset, size);
}

/* The whole pages of a large tensor, as offsets in it; for a small one there are none. */
static void inner(const struct md_delivery *delivery, const struct md_tensor *tensor,
		  uint64_t *begin_out, uint64_t *end_out)
{
	uint64_t start = delivery->shards[tensor->shard].data_start + tensor->begin;
	uint64_t end = start + tensor->size_bytes;

	if (tensor->size_bytes < LARGE_BYTES) {
		*begin_out = *end_out = tensor->size_bytes;
		return;
	}
	*begin_out = (PAGE_BYTES - start % PAGE_BYTES) % PAGE_BYTES;
	*end_out = tensor->size_bytes - end % PAGE_BYTES;
}

static int open_shard(const struct md_delivery *delivery, size_t shard, bool direct)
{
	char *path = md_path(delivery->dir, delivery->shards[shard].name);
	int fd = open(path, O_WRONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));

	if (fd < 0 && direct && errno == EINVAL)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		md_die("cannot open %s: %s", path, strerror(errno));
	free(path);
	return fd;
}

static void update(EVP_MD_CTX *context, const void *bytes, size_t size)
{
	if (!EVP_DigestUpdate(context, bytes, size))
		md_die("libcrypto cannot compute sha256");
}

/* Makes and hashes all of a tensor, and writes its whole pages. */
static void write_inner(const struct md_delivery *delivery, struct md_tensor *tensor,
			uint8_t *buffer, EVP_MD_CTX *context)
{
	uint64_t start = delivery->shards[tensor->shard].data_start + tensor->begin;
	uint64_t key = tensor_key(delivery->seed, tensor->name);
	uint64_t begin;
	uint64_t end;
	uint64_t next;
	int fd = -1;

	inner(delivery, tensor, &begin, &end);
	if (begin < end)
		fd = open_shard(delivery, tensor->shard, true);
	if (!EVP_DigestInit_ex(context, EVP_sha256(), NULL))
		md_die("libcrypto cannot start sha256");
	for (uint64_t at = 0; at < tensor->size_bytes; at = next) {
		/* Steps end where the whole pages begin and end. */
		next = at < begin ? begin : at < end ? end : tensor->size_bytes;
		if (next - at > STEP_BYTES)
			next = at + STEP_BYTES;
		fill(tensor, key, at, next - at, buffer);
		update(context, buffer, next - at);
		if (at >= begin && next <= end)
			md_write_at(fd, buffer, next - at, start + at);
	}
	if (!EVP_DigestFinal_ex(context, tensor->digest, NULL))
		md_die("libcrypto cannot finish sha256");
	if (fd >= 0 && close(fd))
		md_die("cannot write %s: %s", tensor->name, strerror(errno));
}

/* Writes what write_inner left; both parts together are at most a few steps. */
static void write_rest(const struct md_delivery *delivery, const struct md_tensor *tensor, int fd,
		       uint8_t *buffer)
{
	uint64_t start = delivery->shards[tensor->shard].data_start + tensor->begin;
	uint64_t key = tensor_key(delivery->seed, tensor->name);
	uint64_t begin;
	uint64_t end;

	inner(delivery, tensor, &begin, &end);
	if (begin) {
		fill(tensor, key, 0, begin, buffer);
		md_write_at(fd, buffer, begin, start);
	}
	if (end < tensor->size_bytes) {
		fill(tensor, key, end, tensor->size_bytes - end, buffer);
		md_write_at(fd, buffer, tensor->size_bytes - end, start + end);
	}
}

static uint8_t *buffer_new(void)
{
	void *buffer = NULL;

	if (posix_memalign(&buffer, PAGE_BYTES, STEP_BYTES + 8))
		md_die("out of memory for a buffer");
	return buffer;
}

static void *writer(void *arg)
{
	struct writers *writers = arg;
	struct md_delivery *delivery = writers->delivery;
	uint8_t *buffer = buffer_new();
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	size_t i;

	if (!context)
		md_die("out of memory for a digest");
	while ((i = atomic_fetch_add(&writers->next, 1)) < delivery->tensor_count)
		write_inner(delivery, &delivery->tensors[writers->order[i]], buffer, context);
	EVP_MD_CTX_free(context);
	free(buffer);
	return NULL;
}

static int by_size_down(const void *a, const void *b, void *arg)
{
	const struct md_tensor *tensors = arg;
	size_t i = *(const size_t *)a;
	size_t j = *(const size_t *)b;

	if (tensors[i].size_bytes != tensors[j].size_bytes)
		return tensors[i].size_bytes < tensors[j].size_bytes ? 1 : -1;
	return i < j ? -1 : i > j;
}

static void write_large(struct md_delivery *delivery)
{
	struct writers writers = { .delivery = delivery };
	pthread_t *threads = md_alloc(delivery->threads, sizeof(threads[0]));

	writers.order = md_alloc(delivery->tensor_count, sizeof(writers.order[0]));
	for (size_t i = 0; i < delivery->tensor_count; i++)
		writers.order[i] = i;
	qsort_r(writers.order, delivery->tensor_count, sizeof(writers.order[0]), by_size_down,
		delivery->tensors);
	for (unsigned i = 0; i < delivery->threads; i++) {
		if (pthread_create(&threads[i], NULL, writer, &writers))
			md_die("cannot start a thread");
	}
	for (unsigned i = 0; i < delivery->threads; i++)
		pthread_join(threads[i], NULL);
	free(writers.order);
	free(threads);
}

/* The header, and of each tensor what is not there yet; large deliveries are flushed as well. */
static void finish_shard(const struct md_delivery *delivery, size_t index, uint8_t *buffer)
{
	const struct md_shard *shard = &delivery->shards[index];
	int fd = open_shard(delivery, index, false);

	write_header(delivery, shard, fd);
	for (size_t i = shard->first; i < shard->first + shard->count && !delivery->sparse; i++)
		write_rest(delivery, &delivery->tensors[i], fd, buffer);
	if (delivery->bytes_total >= SYNC_FROM_BYTES && !delivery->sparse && fdatasync(fd))
		md_die("cannot flush %s: %s", shard->name, strerror(errno));
	if (close(fd))
		md_die("cannot write %s: %s", shard->name, strerror(errno));
}

static void invent_digests(struct md_delivery *delivery)
{
	for (size_t i = 0; i < delivery->tensor_count; i++)
		md_sha256(delivery->tensors[i].name, strlen(delivery->tensors[i].name),
			  delivery->tensors[i].digest);
}

void md_shards_write(struct md_delivery *delivery)
{
	uint8_t *buffer = buffer_new();

	for (size_t s = 0; s < delivery->shard_count; s++)
		create(delivery, &delivery->shards[s]);
	if (delivery->sparse)
		invent_digests(delivery);
	else
		write_large(delivery);
	for (size_t s = 0; s < delivery->shard_count; s++)
		finish_shard(delivery, s, buffer);
	free(buffer);
}
