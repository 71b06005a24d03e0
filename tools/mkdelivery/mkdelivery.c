/* SPDX-License-Identifier: Apache-2.0 */
/* mkdelivery: the command line, and the few helpers that everything else uses. */
#include "mkdelivery.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAMAGES_MAX 64
#define THREADS_MAX 64

void md_die(const char *fmt, ...)
{
	va_list ap;

	fputs("mkdelivery: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void *md_alloc(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		md_die("out of memory for %zu times %zu bytes", count, size);
	return memory;
}

/* The finaliser of splitmix64: a bijection that scatters every bit. */
uint64_t md_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t md_parse_u64(const char *text, const char *what)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '9') {
		fprintf(stderr, "mkdelivery: %s is a whole number, not '%s'; see --help\n", what,
			text);
		exit(2);
	}
	return value;
}

char *md_path(const char *dir, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		md_die("out of memory for a path");
	return path;
}

static const char usage_text[] =
	"Usage: mkdelivery [options] DIR                   make a delivery in DIR\n"
	"       mkdelivery --sparse TENSORS [options] DIR  headers and manifest only\n"
	"       mkdelivery --damage KIND[:ARG...] DIR      damage a finished delivery\n"
	"\n"
	"Makes a drafter delivery (config.json, exl3_moe_plan.json, TENSORS.json and\n"
	"shards) with real names, dtypes and shape relations. The same seed and options\n"
	"give the same bytes. Tensors are random bytes.\n"
	"\n"
	"  --seed N             of all random choices (default 1)\n"
	"  --scale NAME|FACTOR  tiny (1 MB), demo (740 MB), 4g (4 GB), full (7.5 GB), or\n"
	"                       a fraction of the full size, as 0.25 (default tiny)\n"
	"  --stages N           stages of the drafter (default 3)\n"
	"  --experts N          routed experts (default 128; tiny: 4)\n"
	"  --shards N           files to spread the tensors over (default 3; sparse: 48)\n"
	"  --unaligned          data starts at an odd offset (default: headers padded\n"
	"                       with spaces to 8 bytes)\n"
	"  --pad-header-to N    every header has at least N bytes\n"
	"  --shuffle-manifest N order of the manifest's entries, random by seed N\n"
	"  --threads N          writers (default: 3 for each processor, at most 64)\n"
	"  --sparse TENSORS     a manifest for profile `none` of so many tensors, shards\n"
	"                       of valid headers and holes; the digests are invented\n"
	"  --damage KIND[:ARG]  may be repeated; prints a line on what was damaged\n"
	"  --help               this text\n"
	"\n"
	"From 256 MiB on the shards are flushed to disk before mkdelivery ends.\n"
	"\n";

enum option_value {
	OPT_SEED = 256,
	OPT_SCALE,
	OPT_STAGES,
	OPT_EXPERTS,
	OPT_SHARDS,
	OPT_UNALIGNED,
	OPT_PAD_HEADER,
	OPT_SHUFFLE,
	OPT_THREADS,
	OPT_SPARSE,
	OPT_DAMAGE,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "scale", required_argument, NULL, OPT_SCALE },
	{ "stages", required_argument, NULL, OPT_STAGES },
	{ "experts", required_argument, NULL, OPT_EXPERTS },
	{ "shards", required_argument, NULL, OPT_SHARDS },
	{ "unaligned", no_argument, NULL, OPT_UNALIGNED },
	{ "pad-header-to", required_argument, NULL, OPT_PAD_HEADER },
	{ "shuffle-manifest", required_argument, NULL, OPT_SHUFFLE },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "sparse", required_argument, NULL, OPT_SPARSE },
	{ "damage", required_argument, NULL, OPT_DAMAGE },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

struct arguments {
	const char *scale;
	uint64_t stages;  /* 0: the scale's */
	uint64_t experts; /* 0: the scale's */
	uint64_t sparse_tensors;
	char *damages[DAMAGES_MAX];
	size_t damage_count;
};

static uint64_t parse_between(const char *text, const char *what, uint64_t low, uint64_t high)
{
	uint64_t value = md_parse_u64(text, what);

	if (value < low || value > high) {
		fprintf(stderr, "mkdelivery: %s is %s, but must be %ju to %ju\n", what, text,
			(uintmax_t)low, (uintmax_t)high);
		exit(2);
	}
	return value;
}

static void help(void)
{
	fputs(usage_text, stdout);
	md_damage_help(stdout);
	exit(fflush(stdout) ? 1 : 0);
}

static void take_option(int option, struct arguments *args, struct md_delivery *delivery)
{
	switch (option) {
	case OPT_SEED:
		delivery->seed = md_parse_u64(optarg, "--seed");
		break;
	case OPT_SCALE:
		args->scale = optarg;
		break;
	case OPT_STAGES:
		args->stages = parse_between(optarg, "--stages", 1, 1000);
		break;
	case OPT_EXPERTS:
		args->experts = parse_between(optarg, "--experts", 1, 1000000);
		break;
	case OPT_SHARDS:
		delivery->shard_count = parse_between(optarg, "--shards", 1, 100000);
		break;
	case OPT_UNALIGNED:
		delivery->unaligned = true;
		break;
	case OPT_PAD_HEADER:
		delivery->header_bytes_min = parse_between(optarg, "--pad-header-to", 0, 1 << 30);
		break;
	case OPT_SHUFFLE:
		delivery->shuffle = true;
		delivery->shuffle_seed = md_parse_u64(optarg, "--shuffle-manifest");
		break;
	case OPT_THREADS:
		delivery->threads = (unsigned)parse_between(optarg, "--threads", 1, THREADS_MAX);
		break;
	case OPT_SPARSE:
		args->sparse_tensors = parse_between(optarg, "--sparse", 1, 10000000);
		break;
	case OPT_DAMAGE:
		if (args->damage_count == DAMAGES_MAX)
			md_die("more than %d kinds of damage at once", DAMAGES_MAX);
		args->damages[args->damage_count++] = optarg;
		break;
	case OPT_HELP:
		help();
		break;
	default:
		fputs("mkdelivery: see --help\n", stderr);
		exit(2);
	}
}

static void make(struct arguments *args, struct md_delivery *delivery)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (!delivery->threads)
		delivery->threads = processors < 1 ? 1 : (unsigned)processors * 3;
	if (delivery->threads > THREADS_MAX)
		delivery->threads = THREADS_MAX;
	delivery->sparse = args->sparse_tensors != 0;
	if (!delivery->shard_count)
		delivery->shard_count = delivery->sparse ? 48 : 3;
	md_dims_named(args->scale, &delivery->dims);
	if (args->stages)
		delivery->dims.stages = args->stages;
	if (args->experts)
		delivery->dims.experts = args->experts;

	if (delivery->sparse)
		md_catalogue_build_sparse(delivery, args->sparse_tensors);
	else
		md_catalogue_build(delivery);
	md_catalogue_split(delivery);
	if (mkdir(delivery->dir, 0777) && errno != EEXIST)
		md_die("cannot make %s: %s", delivery->dir, strerror(errno));
	md_shards_write(delivery);
	md_documents_write(delivery);
	printf("%s: %zu tensors, %ju bytes, %zu shards, seed %ju\n", delivery->dir,
	       delivery->tensor_count, (uintmax_t)delivery->bytes_total, delivery->shard_count,
	       (uintmax_t)delivery->seed);
}

int main(int argc, char **argv)
{
	struct arguments args = { .scale = "tiny" };
	struct md_delivery delivery = { .seed = 1 };
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		take_option(option, &args, &delivery);
	if (argc - optind != 1) {
		fputs("mkdelivery: give one directory; see --help\n", stderr);
		return 2;
	}
	delivery.dir = argv[optind];
	if (args.damage_count)
		md_damage_apply(delivery.dir, delivery.seed, args.damages, args.damage_count);
	else
		make(&args, &delivery);
	if (fflush(stdout))
		md_die("cannot write to standard output: %s", strerror(errno));
	for (size_t i = 0; i < delivery.tensor_count; i++)
		free(delivery.tensors[i].name);
	free(delivery.tensors);
	free(delivery.shards);
	return 0;
}
