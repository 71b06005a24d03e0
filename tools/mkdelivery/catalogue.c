/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors a delivery has: names, dtypes and shapes from a few dimensions, and how they fall
 * into shards. Knows no files and no bytes.
 */
#include "mkdelivery.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_SHARDS 48
#define SOURCE_HEADER_BYTES 158472 /* where data starts in the made-up source files */
#define TAPS 3			   /* dspark_target_layer_ids */

struct scale {
	const char *name;
	struct md_dims dims;
};

static const struct scale scales[] = {
	{ "tiny",
	  { .hidden = 128,
	    .inter = 128,
	    .vocab = 512,
	    .heads = 4,
	    .head_dim = 128,
	    .q_lora = 128,
	    .o_lora = 128,
	    .o_groups = 2,
	    .markov_rank = 32,
	    .hc_mult = 4,
	    .stages = 3,
	    .experts = 4 } },
	{ "demo",
	  { .hidden = 1536,
	    .inter = 768,
	    .vocab = 39680,
	    .heads = 32,
	    .head_dim = 256,
	    .q_lora = 384,
	    .o_lora = 384,
	    .o_groups = 8,
	    .markov_rank = 128,
	    .hc_mult = 4,
	    .stages = 3,
	    .experts = 128 } },
	{ "4g",
	  { .hidden = 3840,
	    .inter = 1664,
	    .vocab = 97280,
	    .heads = 48,
	    .head_dim = 512,
	    .q_lora = 1024,
	    .o_lora = 768,
	    .o_groups = 8,
	    .markov_rank = 256,
	    .hc_mult = 4,
	    .stages = 3,
	    .experts = 128 } },
	{ "full",
	  { .hidden = 5120,
	    .inter = 2304,
	    .vocab = 129280,
	    .heads = 64,
	    .head_dim = 512,
	    .q_lora = 1280,
	    .o_lora = 1024,
	    .o_groups = 8,
	    .markov_rank = 256,
	    .hc_mult = 4,
	    .stages = 3,
	    .experts = 128 } },
};

static const struct dense {
	const char *linear;
	int k;
} dense_linears[] = {
	{ "attn.wq_a", 5 },
	{ "attn.wkv", 5 },
	{ "attn.wq_b", 4 },
	{ "attn.wo_b", 4 },
	{ "ffn.shared_experts.w1", 5 },
	{ "ffn.shared_experts.w2", 5 },
	{ "ffn.shared_experts.w3", 5 },
	{ "main_proj", 5 },
};

#define DENSE_COUNT (sizeof(dense_linears) / sizeof(dense_linears[0]))

/* EXL3 pads both sides of a linear to multiples of 128. */
static uint64_t scaled(uint64_t size, double by)
{
	uint64_t blocks = (uint64_t)((double)size * by / 128 + 0.5);

	return 128 * (blocks ? blocks : 1);
}

void md_dims_named(const char *scale, struct md_dims *dims_out)
{
	const struct md_dims *full = &scales[sizeof(scales) / sizeof(scales[0]) - 1].dims;
	double factor;
	double side;
	char *end;

	for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
		if (!strcmp(scale, scales[i].name)) {
			*dims_out = scales[i].dims;
			return;
		}
	}
	factor = strtod(scale, &end);
	if (end == scale || *end || !(factor > 0 && factor <= 100)) {
		fprintf(stderr,
			"mkdelivery: --scale is tiny, demo, 4g, full or a factor up to 100, "
			"not '%s'\n",
			scale);
		exit(2);
	}
	side = sqrt(factor);
	*dims_out = *full;
	dims_out->hidden = scaled(full->hidden, side);
	dims_out->inter = scaled(full->inter, side);
	dims_out->vocab = scaled(full->vocab, side);
	dims_out->heads = 8 * (uint64_t)ceil((double)full->heads * side / 8);
	dims_out->q_lora = scaled(full->q_lora, side);
	dims_out->o_lora = scaled(full->o_lora, side);
}

int md_dense_k(const char *linear)
{
	for (size_t i = 0; i < DENSE_COUNT; i++) {
		if (!strcmp(linear, dense_linears[i].linear))
			return dense_linears[i].k;
	}
	md_die("no K is known for %s", linear);
}

void md_dense_write_json(FILE *out)
{
	for (size_t i = 0; i < DENSE_COUNT; i++)
		fprintf(out, "%s\"%s\": %d", i ? ", " : "", dense_linears[i].linear,
			dense_linears[i].k);
}

static uint64_t dtype_bytes(const char *dtype)
{
	if (!strncmp(dtype, "F8_", 3))
		return 1;
	return strstr(dtype, "32") ? 4 : 2;
}

/* A tensor of up to three dimensions; a dimension of 0 ends the shape. */
__attribute__((format(printf, 6, 7))) static struct md_tensor *add(struct md_delivery *delivery,
								   const char *dtype, uint64_t d0,
								   uint64_t d1, uint64_t d2,
								   const char *fmt, ...)
{
	struct md_tensor *tensor;
	va_list ap;

	if (delivery->tensor_count == delivery->tensor_capacity) {
		delivery->tensor_capacity = delivery->tensor_capacity * 2 + 1024;
		delivery->tensors =
			realloc(delivery->tensors,
				delivery->tensor_capacity * sizeof(delivery->tensors[0]));
		if (!delivery->tensors)
			md_die("out of memory for %zu tensors", delivery->tensor_capacity);
	}
	tensor = &delivery->tensors[delivery->tensor_count++];
	*tensor = (struct md_tensor){ .dtype = dtype, .shape = { d0, d1, d2 } };
	va_start(ap, fmt);
	if (vasprintf(&tensor->name, fmt, ap) < 0)
		md_die("out of memory for a name");
	va_end(ap);
	tensor->size_bytes = dtype_bytes(dtype);
	while (tensor->rank < 3 && tensor->shape[tensor->rank])
		tensor->size_bytes *= tensor->shape[tensor->rank++];
	return tensor;
}

static void add_linear(struct md_delivery *delivery, uint64_t in, uint64_t out, int k,
		       const char *prefix)
{
	add(delivery, "I16", in / 16, out / 16, 16 * (uint64_t)k, "%s.trellis", prefix);
	add(delivery, "F16", in, 0, 0, "%s.suh", prefix);
	add(delivery, "F16", out, 0, 0, "%s.svh", prefix);
	add(delivery, "I32", 0, 0, 0, "%s.mul1", prefix)->marker = true;
}

static void add_dense(struct md_delivery *delivery, uint64_t in, uint64_t out, uint64_t stage,
		      const char *linear)
{
	char prefix[128];

	snprintf(prefix, sizeof(prefix), "mtp.%ju.%s", (uintmax_t)stage, linear);
	add_linear(delivery, in, out, md_dense_k(linear), prefix);
}

/* About 3 bits a weight: 2, 3 or 4 by expert, the same for every seed so that sizes are too. */
static int expert_k(uint64_t stage, uint64_t expert)
{
	uint64_t draw = md_mix(stage * 1000003 + expert + 1) % 8;

	return draw == 0 ? 2 : draw == 1 ? 4 : 3;
}

static void add_experts(struct md_delivery *delivery, uint64_t stage)
{
	const struct md_dims *d = &delivery->dims;
	char prefix[128];

	for (uint64_t e = 0; e < d->experts; e++) {
		for (int w = 1; w <= 3; w++) {
			snprintf(prefix, sizeof(prefix), "mtp.%ju.ffn.experts.%ju.w%d",
				 (uintmax_t)stage, (uintmax_t)e, w);
			add_linear(delivery, w == 2 ? d->inter : d->hidden,
				   w == 2 ? d->hidden : d->inter, expert_k(stage, e), prefix);
		}
	}
}

static void add_hyper_connection(struct md_delivery *delivery, uint64_t stage, const char *part)
{
	const struct md_dims *d = &delivery->dims;
	uint64_t rows = d->hc_mult * (d->hc_mult + 2);
	uintmax_t i = stage;

	add(delivery, "F32", rows, d->hc_mult * d->hidden, 0, "mtp.%ju.hc_%s_fn", i, part);
	add(delivery, "F32", rows, 0, 0, "mtp.%ju.hc_%s_base", i, part);
	add(delivery, "F32", 3, 0, 0, "mtp.%ju.hc_%s_scale", i, part);
}

static void add_stage(struct md_delivery *delivery, uint64_t stage)
{
	const struct md_dims *d = &delivery->dims;
	uint64_t rows = d->o_groups * d->o_lora;
	uint64_t columns = d->heads * d->head_dim / d->o_groups;
	uintmax_t i = stage;

	if (!stage) {
		add_dense(delivery, TAPS * d->hidden, d->hidden, 0, "main_proj");
		add(delivery, "BF16", d->hidden, 0, 0, "mtp.0.main_norm.weight");
	}
	add(delivery, "BF16", d->hidden, 0, 0, "mtp.%ju.attn_norm.weight", i);
	add(delivery, "F32", d->heads, 0, 0, "mtp.%ju.attn.attn_sink", i);
	add_dense(delivery, d->hidden, d->q_lora, stage, "attn.wq_a");
	add(delivery, "BF16", d->q_lora, 0, 0, "mtp.%ju.attn.q_norm.weight", i);
	add_dense(delivery, d->q_lora, d->heads * d->head_dim, stage, "attn.wq_b");
	add_dense(delivery, d->hidden, d->head_dim, stage, "attn.wkv");
	add(delivery, "BF16", d->head_dim, 0, 0, "mtp.%ju.attn.kv_norm.weight", i);
	add(delivery, "F8_E4M3", rows, columns, 0, "mtp.%ju.attn.wo_a.weight", i);
	add(delivery, "F8_E8M0", rows / 32, columns / 32, 0, "mtp.%ju.attn.wo_a.scale", i);
	add_dense(delivery, rows, d->hidden, stage, "attn.wo_b");
	add_hyper_connection(delivery, stage, "attn");
	add(delivery, "BF16", d->hidden, 0, 0, "mtp.%ju.ffn_norm.weight", i);
	add(delivery, "BF16", d->experts, d->hidden, 0, "mtp.%ju.ffn.gate.weight", i);
	add(delivery, "F32", d->experts, 0, 0, "mtp.%ju.ffn.gate.bias", i);
	add(delivery, "F32", d->experts, 0, 0, "mtp.%ju.ffn.gate.bias_vl", i);
	add_experts(delivery, stage);
	add_dense(delivery, d->hidden, d->inter, stage, "ffn.shared_experts.w1");
	add_dense(delivery, d->inter, d->hidden, stage, "ffn.shared_experts.w2");
	add_dense(delivery, d->hidden, d->inter, stage, "ffn.shared_experts.w3");
	add_hyper_connection(delivery, stage, "ffn");
	if (stage + 1 < d->stages)
		return;
	add(delivery, "BF16", d->hidden, 0, 0, "mtp.%ju.norm.weight", i);
	add(delivery, "BF16", d->vocab, d->markov_rank, 0, "mtp.%ju.markov_head.embed.weight", i);
	add(delivery, "BF16", d->vocab, d->markov_rank, 0, "mtp.%ju.markov_head.head.weight", i);
	add(delivery, "BF16", 1, d->hidden, 0, "mtp.%ju.confidence_head.proj.weight", i);
}

/* Places that the bytes were copied from; a tensor stays in one source file. */
static void invent_sources(struct md_delivery *delivery)
{
	uint64_t at = SOURCE_HEADER_BYTES;
	unsigned file = 1;

	for (size_t i = 0; i < delivery->tensor_count; i++) {
		struct md_tensor *tensor = &delivery->tensors[i];
		unsigned want = 1 + (unsigned)(i * SOURCE_SHARDS / delivery->tensor_count);

		if (want != file) {
			file = want;
			at = SOURCE_HEADER_BYTES;
		}
		tensor->source_file = file;
		tensor->source_begin = at;
		at += tensor->size_bytes;
	}
}

void md_catalogue_build(struct md_delivery *delivery)
{
	const struct md_dims *d = &delivery->dims;

	add(delivery, "BF16", d->vocab, d->hidden, 0, "embed.weight");
	for (uint64_t stage = 0; stage < d->stages; stage++)
		add_stage(delivery, stage);
	add(delivery, "BF16", d->hidden, 0, 0, "norm.weight");
	add_linear(delivery, d->hidden, d->vocab, MD_HEAD_K, "head");
	invent_sources(delivery);
}

void md_catalogue_build_sparse(struct md_delivery *delivery, uint64_t tensor_count)
{
	const struct md_dims *d = &delivery->dims;
	char prefix[128];

	for (uint64_t i = 0; delivery->tensor_count < tensor_count; i++) {
		snprintf(prefix, sizeof(prefix), "layers.%ju.ffn.experts.%ju.w%ju",
			 (uintmax_t)(i / 3 / d->experts), (uintmax_t)(i / 3 % d->experts),
			 (uintmax_t)(i % 3 + 1));
		add_linear(delivery, d->hidden, d->inter, 3, prefix);
	}
	while (delivery->tensor_count > tensor_count)
		free(delivery->tensors[--delivery->tensor_count].name);
	invent_sources(delivery);
}

/* Neighbours stay together; shards come out about equal, and none without a tensor. */
void md_catalogue_split(struct md_delivery *delivery)
{
	uint64_t bytes_left = 0;
	size_t next = 0;

	if (delivery->shard_count > delivery->tensor_count)
		md_die("%zu shards, but only %zu tensors to put into them", delivery->shard_count,
		       delivery->tensor_count);
	delivery->shards = md_alloc(delivery->shard_count, sizeof(delivery->shards[0]));
	for (size_t i = 0; i < delivery->tensor_count; i++)
		bytes_left += delivery->tensors[i].size_bytes;
	delivery->bytes_total = bytes_left;
	for (size_t s = 0; s < delivery->shard_count; s++) {
		struct md_shard *shard = &delivery->shards[s];
		size_t shards_left = delivery->shard_count - s;
		uint64_t want = bytes_left / shards_left;

		snprintf(shard->name, sizeof(shard->name), "drafter-%05zu-of-%05zu.safetensors",
			 s + 1, delivery->shard_count);
		shard->first = next;
		while (next < delivery->tensor_count &&
		       (shards_left == 1 || !shard->count ||
			(shard->data_bytes < want &&
			 delivery->tensor_count - next >= shards_left))) {
			struct md_tensor *tensor = &delivery->tensors[next++];

			tensor->shard = s;
			tensor->begin = shard->data_bytes;
			shard->data_bytes += tensor->size_bytes;
			shard->count++;
		}
		bytes_left -= shard->data_bytes;
	}
}
