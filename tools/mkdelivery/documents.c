/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three JSON documents of a delivery. config.json carries, beside the keys that matter, many
 * that a reader has to pass over, as real ones do.
 */
#include "mkdelivery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static FILE *document_open(const struct md_delivery *delivery, const char *name)
{
	char *path = md_path(delivery->dir, name);
	FILE *out = fopen(path, "we");

	if (!out)
		md_die("cannot create %s: %s", path, strerror(errno));
	free(path);
	return out;
}

static void document_close(FILE *out, const char *name)
{
	if (ferror(out) | fclose(out))
		md_die("cannot write %s: %s", name, strerror(errno));
}

/* ---- config.json ---- */

static void print_u64(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, "    \"%s\": %ju,\n", key, (uintmax_t)value);
}

/* 40 layers of the model proper, then a 0 for each stage: pure sliding windows. */
static void print_ratios(FILE *out, uint64_t stages)
{
	fputs("    \"compress_ratios\": [0, 0", out);
	for (int i = 2; i < MD_MAIN_LAYERS; i++)
		fputs(i < 20 ? ", 2" : ", 1", out);
	for (uint64_t i = 0; i < stages; i++)
		fputs(", 0", out);
	fputs("],\n", out);
}

static void print_sizes(FILE *out, const struct md_dims *d)
{
	print_u64(out, "vocab_size", d->vocab);
	print_u64(out, "hidden_size", d->hidden);
	print_u64(out, "moe_intermediate_size", d->inter);
	print_u64(out, "num_hidden_layers", MD_MAIN_LAYERS);
	print_u64(out, "num_nextn_predict_layers", d->stages);
	print_u64(out, "num_attention_heads", d->heads);
	print_u64(out, "num_key_value_heads", 1);
	print_u64(out, "head_dim", d->head_dim);
	print_u64(out, "qk_rope_head_dim", 64);
	print_u64(out, "q_lora_rank", d->q_lora);
	print_u64(out, "o_lora_rank", d->o_lora);
	print_u64(out, "o_groups", d->o_groups);
	print_u64(out, "n_routed_experts", 3 * d->experts);
	print_u64(out, "num_experts_per_tok", 6);
	print_u64(out, "n_shared_experts", 1);
	print_u64(out, "dspark_n_routed_experts", d->experts);
	print_u64(out, "dspark_num_experts_per_tok", 3);
	print_u64(out, "dspark_block_size", 5);
	print_u64(out, "dspark_noise_token_id", d->vocab - 481);
	print_u64(out, "dspark_markov_rank", d->markov_rank);
	print_u64(out, "hc_mult", d->hc_mult);
	print_u64(out, "hc_sinkhorn_iters", 20);
	print_u64(out, "sliding_window", 128);
}

static const char config_head[] =
	"{\n"
	"  \"architectures\": [\"DeepseekV41ForConditionalGeneration\"],\n"
	"  \"model_type\": \"deepseek_v41\",\n"
	"  \"torch_dtype\": \"bfloat16\",\n"
	"  \"transformers_version\": \"4.57.1\",\n"
	"  \"bos_token_id\": 0,\n"
	"  \"eos_token_id\": [1, 128803],\n"
	"  \"pad_token_id\": null,\n"
	"  \"tie_word_embeddings\": false,\n"
	"  \"image_token_index\": 128815,\n"
	"  \"vision_config\": {\n"
	"    \"model_type\": \"siglip_so\",\n"
	"    \"image_size\": 384,\n"
	"    \"patch_size\": 14,\n"
	"    \"hidden_size\": 1152,\n"
	"    \"num_hidden_layers\": 27,\n"
	"    \"num_attention_heads\": 16,\n"
	"    \"layer_norm_eps\": 1e-06,\n"
	"    \"image_mean\": [0.5, 0.5, 0.5],\n"
	"    \"projector\": {\"type\": \"downsample_mlp_gelu\", \"ratio\": 2, \"bias\": true}\n"
	"  },\n"
	"  \"text_config\": {\n"
	"    \"model_type\": \"deepseek_v41_text\",\n"
	"    \"max_position_embeddings\": 1048576,\n"
	"    \"rope_scaling\": {\n"
	"      \"type\": \"yarn\", \"factor\": 16, \"beta_fast\": 32, \"beta_slow\": 1,\n"
	"      \"original_max_position_embeddings\": 65536\n"
	"    },\n"
	"    \"engram_layer_ids\": [2, 14],\n"
	"    \"engram_table_sizes\": {\"2\": [4194301, 4194287], \"14\": [4194319]},\n"
	"    \"index_head_dim\": 128,\n"
	"    \"index_n_heads\": 64,\n"
	"    \"index_topk\": 512,\n"
	"    \"attention_bias\": false,\n"
	"    \"attention_dropout\": 0.0,\n"
	"    \"initializer_range\": 0.02,\n"
	"    \"use_cache\": true,\n"
	"    \"compress_rope_theta\": 160000.0,\n";

static const char config_tail[] = "    \"scoring_func\": \"sqrtsoftplus\",\n"
				  "    \"topk_method\": \"noaux_tc\",\n"
				  "    \"norm_topk_prob\": true,\n"
				  "    \"hidden_act\": \"silu\",\n"
				  "    \"hc_eps\": 1e-06,\n"
				  "    \"rms_norm_eps\": 1e-20,\n"
				  "    \"swiglu_limit\": 10.0,\n"
				  "    \"routed_scaling_factor\": 1.5,\n"
				  "    \"rope_theta\": 10000,\n"
				  "    \"dspark_target_layer_ids\": [37, 38, 39]\n"
				  "  },\n"
				  "  \"quantization_config\": {\n"
				  "    \"quant_method\": \"deepseek_v41_exl3\",\n"
				  "    \"modules_to_not_convert\": [\"vision\", \"engram\"],\n"
				  "    \"exl3_moe\": {\n"
				  "      \"exllamav3_version\": \"1.6.0\",\n"
				  "      \"bits\": 3.0,\n"
				  "      \"calibration\": {\"rows\": 128, \"columns\": 2048},\n"
				  "      \"head\": \"exl3\",\n";

static void write_config(const struct md_delivery *delivery)
{
	FILE *out = document_open(delivery, MD_CONFIG);

	fputs(config_head, out);
	print_sizes(out, &delivery->dims);
	print_ratios(out, delivery->dims.stages);
	fputs(config_tail, out);
	fprintf(out,
		"      \"head_k\": %d,\n"
		"      \"dense\": {\n"
		"        \"main\": {\"attn.wq_a\": 6, \"attn.wq_b\": 5},\n"
		"        \"drafter\": {",
		MD_HEAD_K);
	md_dense_write_json(out);
	fputs("}\n      }\n    }\n  }\n}\n", out);
	document_close(out, MD_CONFIG);
}

static void write_plan(const struct md_delivery *delivery)
{
	FILE *out = document_open(delivery, MD_PLAN);

	fprintf(out,
		"{\n"
		"  \"codebook\": \"mul1\",\n"
		"  \"bits_mean\": 3.0,\n"
		"  \"experts\": {\"count\": %ju, \"choices\": [2, 3, 4], \"seed\": 787},\n"
		"  \"drafter\": {\"stages\": %ju, \"experts\": %ju},\n"
		"  \"notes\": [\"K by expert stands in the trellis shapes\"]\n"
		"}\n",
		(uintmax_t)(3 * delivery->dims.experts), (uintmax_t)delivery->dims.stages,
		(uintmax_t)delivery->dims.experts);
	document_close(out, MD_PLAN);
}

/* ---- TENSORS.json ---- */

static void print_entry(FILE *out, const struct md_delivery *delivery, const struct md_tensor *t)
{
	const struct md_shard *shard = &delivery->shards[t->shard];
	uint64_t begin = shard->data_start + t->begin;
	char hex[2 * MD_DIGEST_BYTES + 1];

	md_hex(t->digest, hex);
	fprintf(out, "{\"name\": \"%s\", \"dtype\": \"%s\", \"shape\": [", t->name, t->dtype);
	for (unsigned i = 0; i < t->rank; i++)
		fprintf(out, "%s%ju", i ? ", " : "", (uintmax_t)t->shape[i]);
	fprintf(out,
		"], \"source_file\": \"model-%05u-of-00048.safetensors\", "
		"\"source_byte_range\": [%ju, %ju], \"source_byte_range_sha256\": \"%s\", "
		"\"destination_file\": \"%s\", \"destination_byte_range\": [%ju, %ju], "
		"\"resident_packed_bytes\": %ju}",
		t->source_file, (uintmax_t)t->source_begin,
		(uintmax_t)(t->source_begin + t->size_bytes), hex, shard->name, (uintmax_t)begin,
		(uintmax_t)(begin + t->size_bytes), (uintmax_t)t->size_bytes);
}

static void shuffle(size_t *order, size_t count, uint64_t seed)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = (size_t)(md_mix(seed + i * UINT64_C(0x9e3779b97f4a7c15)) % i);
		size_t kept = order[i - 1];

		order[i - 1] = order[j];
		order[j] = kept;
	}
}

static void write_manifest(const struct md_delivery *delivery)
{
	size_t *order = md_alloc(delivery->tensor_count, sizeof(order[0]));
	FILE *out = document_open(delivery, MD_MANIFEST);

	for (size_t i = 0; i < delivery->tensor_count; i++)
		order[i] = i;
	if (delivery->shuffle)
		shuffle(order, delivery->tensor_count, delivery->shuffle_seed);
	fputs("{\n", out);
	if (!delivery->sparse)
		fputs("  \"codebook\": \"mul1\",\n", out);
	fprintf(out,
		"  \"source\": {\"shards\": 48, \"tensors\": 96085},\n"
		"  \"tensor_count\": %zu,\n"
		"  \"resident_packed_bytes\": %ju,\n"
		"  \"tensors\": [\n    ",
		delivery->tensor_count, (uintmax_t)delivery->bytes_total);
	for (size_t i = 0; i < delivery->tensor_count; i++) {
		if (i)
			fputs(",\n    ", out);
		print_entry(out, delivery, &delivery->tensors[order[i]]);
	}
	fputs("\n  ]\n}\n", out);
	document_close(out, MD_MANIFEST);
	free(order);
}

void md_documents_write(const struct md_delivery *delivery)
{
	if (!delivery->sparse) {
		write_config(delivery);
		write_plan(delivery);
	}
	write_manifest(delivery);
}
