/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkcheckpoint: a checkpoint of so many tensors of such sizes, with a true manifest for profile
 * `none`, for measurements that the sizes of a drafter delivery do not serve. Shares no code with
 * the library. The same options give the same bytes; they are random, as far as a disk can tell.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGEST_BYTES 32
#define PIECE_BYTES ((size_t)1 << 20)
#define TENSORS_MAX 4000000
#define HEADER_LINE \
	"\"t%07zu\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64

struct tensor {
	uint64_t size_bytes;
	uint64_t begin; /* in its shard's data */
	uint8_t digest[DIGEST_BYTES];
};

struct checkpoint {
	const char *dir;
	size_t tensor_count, shard_count;
	uint64_t min_bytes, max_bytes;
	uint64_t random;
	int is_sparse; /* holes for data, and digests of nothing */
	struct tensor *tensors;
	uint64_t *data_starts; /* by shard, in the file */
	uint64_t bytes_total;
};

static const char usage[] =
	"usage: mkcheckpoint [--tensors N] [--min-bytes A] [--max-bytes B] [--shards S]\n"
	"                    [--sparse] DIR\n"
	"\n"
	"Makes DIR with TENSORS.json and S shards (default 1) of N tensors (default 1) of A to B\n"
	"bytes each (default 1048576 both), and prints the number of all their bytes. With\n"
	"--sparse the shards are holes and the digests are not theirs.\n";

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	fputs("mkcheckpoint: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* xorshift64: fast, and nothing that a disk could compress. */
static uint64_t draw(struct checkpoint *checkpoint)
{
	uint64_t x = checkpoint->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return checkpoint->random = x;
}

static FILE *create(const struct checkpoint *checkpoint, const char *name)
{
	char path[4096];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", checkpoint->dir, name) >= (int)sizeof(path))
		die("the name of %s is too long", checkpoint->dir);
	file = fopen(path, "we");
	if (!file)
		die("cannot make %s: %s", path, strerror(errno));
	return file;
}

static void finish(FILE *file, const char *name)
{
	/* On disk before anything is measured: dirty pages would be written during a reading. */
	if (fflush(file) || fdatasync(fileno(file)) || fclose(file))
		die("cannot write %s: %s", name, strerror(errno));
}

static size_t first_of(const struct checkpoint *checkpoint, size_t shard)
{
	return checkpoint->tensor_count * shard / checkpoint->shard_count;
}

static void choose_sizes(struct checkpoint *checkpoint)
{
	uint64_t span = checkpoint->max_bytes - checkpoint->min_bytes + 1, at = 0;
	size_t shard = 0, i;

	for (i = 0; i < checkpoint->tensor_count; i++) {
		struct tensor *tensor = &checkpoint->tensors[i];

		if (i == first_of(checkpoint, shard)) {
			shard++;
			at = 0;
		}
		tensor->size_bytes = checkpoint->min_bytes + draw(checkpoint) % span;
		tensor->begin = at;
		at += tensor->size_bytes;
		checkpoint->bytes_total += tensor->size_bytes;
	}
}

static void write_header(struct checkpoint *checkpoint, size_t shard, FILE *file)
{
	char *header;
	size_t header_bytes, i;
	FILE *text = open_memstream(&header, &header_bytes);
	uint8_t prefix[8];

	if (!text)
		die("out of memory for a header");
	for (i = first_of(checkpoint, shard); i < first_of(checkpoint, shard + 1); i++) {
		const struct tensor *tensor = &checkpoint->tensors[i];

		fputc(i == first_of(checkpoint, shard) ? '{' : ',', text);
		fprintf(text, HEADER_LINE ",%" PRIu64 "]}", i, tensor->size_bytes, tensor->begin,
			tensor->begin + tensor->size_bytes);
	}
	fputc('}', text);
	while (ftello(text) % 8)
		fputc(' ', text);
	if (fclose(text))
		die("out of memory for a header");
	for (i = 0; i < sizeof(prefix); i++)
		prefix[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
	if (fwrite(prefix, sizeof(prefix), 1, file) != 1 ||
	    fwrite(header, header_bytes, 1, file) != 1)
		die("cannot write a header: %s", strerror(errno));
	checkpoint->data_starts[shard] = sizeof(prefix) + header_bytes;
	free(header);
}

static void write_tensor(struct checkpoint *checkpoint, struct tensor *tensor, FILE *file,
			 EVP_MD_CTX *context)
{
	static uint64_t piece[PIECE_BYTES / sizeof(uint64_t)];
	uint64_t left = tensor->size_bytes;

	if (EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1)
		die("libcrypto has no SHA-256");
	while (left > 0) {
		size_t bytes = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, i;

		for (i = 0; i < (bytes + 7) / 8; i++)
			piece[i] = draw(checkpoint);
		if (EVP_DigestUpdate(context, piece, bytes) != 1)
			die("libcrypto failed");
		if (fwrite(piece, bytes, 1, file) != 1)
			die("cannot write a shard: %s", strerror(errno));
		left -= bytes;
	}
	if (EVP_DigestFinal_ex(context, tensor->digest, NULL) != 1)
		die("libcrypto failed");
}

static void shard_name(size_t shard, char name[48])
{
	snprintf(name, 48, "part-%05zu.safetensors", shard);
}

/* The length of a shard's file. */
static uint64_t end_of(const struct checkpoint *checkpoint, size_t shard)
{
	const struct tensor *last = &checkpoint->tensors[first_of(checkpoint, shard + 1) - 1];

	return checkpoint->data_starts[shard] + last->begin + last->size_bytes;
}

static void write_shard(struct checkpoint *checkpoint, size_t shard)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	char name[48];
	FILE *file;
	size_t i;

	if (!context)
		die("out of memory");
	shard_name(shard, name);
	file = create(checkpoint, name);
	write_header(checkpoint, shard, file);
	for (i = first_of(checkpoint, shard); i < first_of(checkpoint, shard + 1); i++)
		if (!checkpoint->is_sparse)
			write_tensor(checkpoint, &checkpoint->tensors[i], file, context);
	if (checkpoint->is_sparse &&
	    (fflush(file) || ftruncate(fileno(file), (off_t)end_of(checkpoint, shard))))
		die("cannot make %s as long as that: %s", name, strerror(errno));
	finish(file, name);
	EVP_MD_CTX_free(context);
}

static void write_manifest(const struct checkpoint *checkpoint)
{
	FILE *file = create(checkpoint, "TENSORS.json");
	size_t shard = 0, i, k;
	char name[48] = "";

	fputs("{\"tensors\":[", file);
	for (i = 0; i < checkpoint->tensor_count; i++) {
		const struct tensor *tensor = &checkpoint->tensors[i];
		uint64_t begin;

		if (i == first_of(checkpoint, shard))
			shard_name(shard++, name);
		begin = checkpoint->data_starts[shard - 1] + tensor->begin;
		fprintf(file,
			"%s\n{\"name\":\"t%07zu\",\"dtype\":\"U8\",\"shape\":[%" PRIu64
			"],\"destination_file\":\"%s\",\"destination_byte_range\":[%" PRIu64
			",%" PRIu64 "],\"source_byte_range\":[0,%" PRIu64
			"],\"resident_packed_bytes\":%" PRIu64 ",\"source_byte_range_sha256\":\"",
			i ? "," : "", i, tensor->size_bytes, name, begin,
			begin + tensor->size_bytes, tensor->size_bytes, tensor->size_bytes);
		for (k = 0; k < DIGEST_BYTES; k++)
			fprintf(file, "%02x", tensor->digest[k]);
		fputs("\"}", file);
	}
	fputs("\n]}\n", file);
	finish(file, "TENSORS.json");
}

static uint64_t parse(const char *text, const char *what, uint64_t low, uint64_t high)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || *end || value < low || value > high) {
		fprintf(stderr, "mkcheckpoint: %s is a number from %" PRIu64 " to %" PRIu64 "\n",
			what, low, high);
		exit(2);
	}
	return value;
}

static void parse_arguments(int argc, char **argv, struct checkpoint *checkpoint)
{
	static const struct option options[] = {
		{ "tensors", required_argument, NULL, 't' },
		{ "min-bytes", required_argument, NULL, 'a' },
		{ "max-bytes", required_argument, NULL, 'b' },
		{ "shards", required_argument, NULL, 's' },
		{ "sparse", no_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 't')
			checkpoint->tensor_count = parse(optarg, "--tensors", 1, TENSORS_MAX);
		else if (option == 'a')
			checkpoint->min_bytes = parse(optarg, "--min-bytes", 0, UINT64_C(1) << 44);
		else if (option == 'b')
			checkpoint->max_bytes = parse(optarg, "--max-bytes", 0, UINT64_C(1) << 44);
		else if (option == 's')
			checkpoint->shard_count = parse(optarg, "--shards", 1, 100000);
		else if (option == 'e')
			checkpoint->is_sparse = 1;
		else if (option == 'h')
			exit(fputs(usage, stdout) < 0);
		else
			exit(2);
	}
	if (argc - optind != 1 || checkpoint->max_bytes < checkpoint->min_bytes ||
	    checkpoint->shard_count > checkpoint->tensor_count) {
		fputs(usage, stderr);
		exit(2);
	}
	checkpoint->dir = argv[optind];
}

int main(int argc, char **argv)
{
	struct checkpoint checkpoint = {
		.tensor_count = 1,
		.shard_count = 1,
		.min_bytes = 1 << 20,
		.max_bytes = 1 << 20,
		.random = UINT64_C(0x9e3779b97f4a7c15),
	};
	size_t shard;

	parse_arguments(argc, argv, &checkpoint);
	checkpoint.tensors = calloc(checkpoint.tensor_count, sizeof(*checkpoint.tensors));
	checkpoint.data_starts = calloc(checkpoint.shard_count, sizeof(*checkpoint.data_starts));
	if (!checkpoint.tensors || !checkpoint.data_starts)
		die("out of memory for %zu tensors", checkpoint.tensor_count);
	if (mkdir(checkpoint.dir, 0777) && errno != EEXIST)
		die("cannot make %s: %s", checkpoint.dir, strerror(errno));
	choose_sizes(&checkpoint);
	for (shard = 0; shard < checkpoint.shard_count; shard++)
		write_shard(&checkpoint, shard);
	write_manifest(&checkpoint);
	printf("%" PRIu64 "\n", checkpoint.bytes_total);
	free(checkpoint.tensors);
	free(checkpoint.data_starts);
	return 0;
}
