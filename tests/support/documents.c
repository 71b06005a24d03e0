/* SPDX-License-Identifier: Apache-2.0 */
/* Builds and breaks the documents of a drafter delivery. */
#include "documents.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BEGIN "{\"name\": \"%s\", "

struct builder {
	struct document_tensor *tensors;
	size_t count;
};

static void *checked(void *memory)
{
	if (!memory) {
		fprintf(stderr, "tests: out of memory\n");
		abort();
	}
	return memory;
}

__attribute__((format(printf, 1, 2))) static char *print(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int length;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	return checked(length < 0 ? NULL : text);
}

char *document_config(unsigned stages, unsigned experts)
{
	char ratios[1024] = "2, 1", *text;

	for (unsigned i = 0; i < stages; i++)
		strcat(ratios, ", 0");
	text = print("{\"model_type\": \"any\", \"text_config\": {\n"
		     "\"num_hidden_layers\": %d,\n\"num_nextn_predict_layers\": %u,\n"
		     "\"hidden_size\": 32,\n\"vocab_size\": 64,\n\"num_attention_heads\": 4,\n"
		     "\"head_dim\": 8,\n\"qk_rope_head_dim\": 4,\n\"q_lora_rank\": 16,\n"
		     "\"o_lora_rank\": 16,\n\"o_groups\": 2,\n\"moe_intermediate_size\": 48,\n"
		     "\"dspark_n_routed_experts\": %u,\n\"dspark_num_experts_per_tok\": 1,\n"
		     "\"sliding_window\": 128,\n\"dspark_block_size\": 5,\n"
		     "\"dspark_noise_token_id\": 63,\n\"dspark_markov_rank\": 8,\n"
		     "\"hc_mult\": 4,\n\"hc_sinkhorn_iters\": 20,\n\"hc_eps\": 1e-6,\n"
		     "\"rms_norm_eps\": 1e-20,\n\"swiglu_limit\": 10.0,\n"
		     "\"routed_scaling_factor\": 1.5,\n\"rope_theta\": 10000,\n"
		     "\"dspark_target_layer_ids\": [0, 1],\n\"compress_ratios\": [%s],\n"
		     "\"scoring_func\": \"sqrtsoftplus\",\n\"topk_method\": \"noaux_tc\",\n"
		     "\"norm_topk_prob\": true,\n\"hidden_act\": \"silu\",\n"
		     "\"rope_scaling\": {\"factor\": [1, {\"x\": null}]}\n},\n"
		     "\"quantization_config\": {\"quant_method\": \"deepseek_v41_exl3\",\n"
		     "\"exl3_moe\": {\"exllamav3_version\": \"1.6.0\", \"head\": \"exl3\",\n"
		     "\"head_k\": 6, \"dense\": {\"drafter\": {\"wq_a\": 5, \"wkv\": 4},\n"
		     "\"other\": 1}, \"more\": []}}}\n",
		     DOCUMENT_LAYERS, stages, experts, ratios);
	return text;
}

char *document_plan(void)
{
	return print("{\"layers\": [{\"k\": 3}], \"codebook\": \"mul1\"}\n");
}

static void add(struct builder *builder, const char *name, const char *dtype, const char *shape,
		unsigned bytes)
{
	builder->tensors = checked(
		realloc(builder->tensors, (builder->count + 1) * sizeof(*builder->tensors)));
	builder->tensors[builder->count++] = (struct document_tensor){
		.name = print("%s", name),
		.dtype = dtype,
		.shape = shape,
		.size_bytes = bytes,
	};
}

static void add_plain(struct builder *builder, const char *prefix, const char *name,
		      const char *dtype, const char *shape, unsigned bytes)
{
	char *full = print("%s%s", prefix, name);

	add(builder, full, dtype, shape, bytes);
	free(full);
}

/* in = 32, out = 48, K = 3 */
static void add_linear(struct builder *builder, const char *prefix, const char *linear)
{
	char *name = print("%s%s.", prefix, linear);

	add_plain(builder, name, "trellis", "I16", "[2, 3, 48]", 576);
	add_plain(builder, name, "suh", "F16", "[32]", 64);
	add_plain(builder, name, "svh", "F16", "[48]", 96);
	add_plain(builder, name, "mul1", "I32", "[]", 4);
	free(name);
}

static void add_stage(struct builder *builder, unsigned stage, unsigned experts)
{
	static const char *const hc[] = { "hc_attn_fn", "hc_attn_base", "hc_attn_scale",
					  "hc_ffn_fn",	"hc_ffn_base",	"hc_ffn_scale" };
	char *pre = print("mtp.%u.", stage);

	add_linear(builder, pre, "attn.wq_a");
	add_linear(builder, pre, "attn.wkv");
	add_linear(builder, pre, "attn.wq_b");
	add_linear(builder, pre, "attn.wo_b");
	add_linear(builder, pre, "ffn.shared_experts.w1");
	add_linear(builder, pre, "ffn.shared_experts.w2");
	add_linear(builder, pre, "ffn.shared_experts.w3");
	add_plain(builder, pre, "attn.wo_a.weight", "F8_E4M3", "[32, 2]", 64);
	add_plain(builder, pre, "attn.wo_a.scale", "F8_E8M0", "[1, 1]", 1);
	add_plain(builder, pre, "attn.attn_sink", "F32", "[4]", 16);
	add_plain(builder, pre, "attn.q_norm.weight", "BF16", "[16]", 32);
	add_plain(builder, pre, "attn.kv_norm.weight", "BF16", "[8]", 16);
	add_plain(builder, pre, "attn_norm.weight", "BF16", "[32]", 64);
	add_plain(builder, pre, "ffn_norm.weight", "BF16", "[32]", 64);
	add_plain(builder, pre, "ffn.gate.weight", "BF16", "[2, 32]", 128);
	add_plain(builder, pre, "ffn.gate.bias", "F32", "[2]", 8);
	add_plain(builder, pre, "ffn.gate.bias_vl", "F32", "[2]", 8);
	for (size_t i = 0; i < sizeof(hc) / sizeof(hc[0]); i++)
		add_plain(builder, pre, hc[i], "F32", "[3]", 12);
	for (unsigned expert = 0; expert < experts; expert++) {
		for (unsigned w = 1; w <= 3; w++) {
			char *linear = print("ffn.experts.%u.w%u", expert, w);

			add_linear(builder, pre, linear);
			free(linear);
		}
	}
	free(pre);
}

static struct builder build(unsigned stages, unsigned experts)
{
	struct builder builder = { 0 };
	char *last = print("mtp.%u.", stages - 1);

	add(&builder, "embed.weight", "BF16", "[64, 32]", 4096);
	add_linear(&builder, "", "head");
	for (unsigned stage = 0; stage < stages; stage++)
		add_stage(&builder, stage, experts);
	add_linear(&builder, "", "mtp.0.main_proj");
	add(&builder, "mtp.0.main_norm.weight", "BF16", "[32]", 64);
	add_plain(&builder, last, "norm.weight", "BF16", "[32]", 64);
	add_plain(&builder, last, "markov_head.embed.weight", "BF16", "[64, 8]", 1024);
	add_plain(&builder, last, "markov_head.head.weight", "BF16", "[64, 8]", 1024);
	add_plain(&builder, last, "confidence_head.proj.weight", "BF16", "[1, 32]", 64);
	free(last);
	return builder;
}

struct document_tensor *document_tensors(unsigned stages, unsigned experts, size_t *count_out)
{
	struct builder builder = build(stages, experts);

	*count_out = builder.count;
	return builder.tensors;
}

void document_tensors_free(struct document_tensor *tensors, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(tensors[i].name);
	free(tensors);
}

char *document_entry(const struct document_tensor *tensor, const char *file,
		     unsigned long long begin, const char *sha256)
{
	unsigned long long end = begin + tensor->size_bytes;

	return print(ENTRY_BEGIN "\"dtype\": \"%s\", \"shape\": %s, \"destination_file\": \"%s\", "
				 "\"destination_byte_range\": [%llu, %llu], "
				 "\"source_byte_range\": [%llu, %llu], "
				 "\"source_byte_range_sha256\": \"%s\", "
				 "\"resident_packed_bytes\": %u}",
		     tensor->name, tensor->dtype, tensor->shape, file, begin, end, begin + 7,
		     end + 7, sha256, tensor->size_bytes);
}

static void shuffle(char **entries, size_t count, unsigned seed)
{
	for (size_t i = count; i > 1; i--) {
		size_t other;
		char *entry = entries[i - 1];

		seed = seed * 1664525u + 1013904223u;
		other = (seed >> 8) % i;
		entries[i - 1] = entries[other];
		entries[other] = entry;
	}
}

char *document_manifest_of(char **entries, size_t count, unsigned seed)
{
	size_t size = 64;
	char *text, *end;

	if (seed)
		shuffle(entries, count, seed);
	for (size_t i = 0; i < count; i++)
		size += strlen(entries[i]) + 2;
	text = checked(malloc(size));
	end = stpcpy(text, "{\"made_by\": \"hand\", \"codebook\": \"mul1\", \"tensors\": [\n");
	for (size_t i = 0; i < count; i++) {
		end = stpcpy(end, entries[i]);
		end = stpcpy(end, i + 1 < count ? ",\n" : "\n");
		free(entries[i]);
	}
	stpcpy(end, "]}\n");
	free(entries);
	return text;
}

char *document_manifest(unsigned stages, unsigned experts, unsigned seed)
{
	struct builder builder = build(stages, experts);
	char **entries = checked(calloc(builder.count, sizeof(*entries)));
	unsigned long long offset = 1000;

	for (size_t i = 0; i < builder.count; i++) {
		char *digest = print("%064zx", i + 1);

		entries[i] =
			document_entry(&builder.tensors[i], "model.safetensors", offset, digest);
		offset += builder.tensors[i].size_bytes;
		free(digest);
	}
	document_tensors_free(builder.tensors, builder.count);
	return document_manifest_of(entries, builder.count, seed);
}

size_t document_tensor_count(unsigned stages, unsigned experts)
{
	struct builder builder = build(stages, experts);

	document_tensors_free(builder.tensors, builder.count);
	return builder.count;
}

static char *splice(char *text, char *at, size_t removed, const char *replace)
{
	char *edited = print("%.*s%s%s", (int)(at - text), text, replace, at + removed);

	free(text);
	return edited;
}

static char *find_or_abort(char *text, const char *find)
{
	char *at = strstr(text, find);

	if (!at) {
		fprintf(stderr, "tests: nothing to edit at: %s\n", find);
		abort();
	}
	return at;
}

char *document_edit(char *text, const char *after, const char *find, const char *replace)
{
	char *at = after ? find_or_abort(text, after) : text;

	return splice(text, find_or_abort(at, find), strlen(find), replace);
}

char *document_edit_entry(char *text, const char *tensor, const char *find, const char *replace)
{
	char *begin = print(ENTRY_BEGIN, tensor);
	char *at = find_or_abort(text, begin);

	free(begin);
	if (find)
		return splice(text, find_or_abort(at, find), strlen(find), replace);
	return splice(text, at, (size_t)(find_or_abort(at, "}") - at) + 1, replace);
}
