/* SPDX-License-Identifier: Apache-2.0 */
/* The profile dspark-exl3: config and plan (C), required names (M2, M3), EXL3 linears (E). */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "documents.h"
#include "profile.h"
#include "rsum_limits.h"

#define STAGES 2
#define EXPERTS 2

/* A delivery and all that is found wrong with its documents. */
struct checked {
	struct rsum_manifest manifest;
	struct rsum_profile_state state;
	struct ringsum_report *report;
	bool *refused;
};

/* Takes the texts; config and plan may be NULL. */
static struct checked check(char *config, char *plan, char *manifest)
{
	const struct rsum_profile *profile = &rsum_profile_dspark_exl3;
	struct checked checked = { .report = rsum_report_new() };

	assert_non_null(checked.report);
	assert_int_equal(rsum_manifest_tensors.parse(manifest, strlen(manifest), "TENSORS.json",
						     &checked.manifest, checked.report),
			 0);
	checked.refused = calloc(checked.manifest.promise_count + 1, sizeof(bool));
	assert_non_null(checked.refused);
	assert_int_equal(profile->check_config(&checked.state, config, config ? strlen(config) : 0,
					       plan, plan ? strlen(plan) : 0, checked.report),
			 0);
	free(config);
	free(plan);
	assert_int_equal(profile->check_promises(&checked.state, &checked.manifest, checked.refused,
						 checked.report),
			 0);
	return checked;
}

static void release(struct checked *checked)
{
	free(checked->refused);
	rsum_profile_state_deinit(&checked->state);
	rsum_manifest_deinit(&checked->manifest);
	ringsum_report_free(checked->report);
}

static const struct ringsum_finding *find(const struct checked *checked,
					  enum ringsum_finding_code code, const char *tensor,
					  const char *piece)
{
	for (size_t i = 0; i < ringsum_report_finding_count(checked->report); i++) {
		const struct ringsum_finding *finding =
			ringsum_report_finding_at(checked->report, i);

		if (finding->code == code && (!piece || strstr(finding->message, piece)) &&
		    (tensor ? finding->tensor && strcmp(finding->tensor, tensor) == 0
			    : !finding->tensor))
			return finding;
	}
	return NULL;
}

static bool is_refused(const struct checked *checked, const char *tensor)
{
	uint32_t index = rsum_name_index_find(&checked->manifest.by_name, tensor);

	return index != RSUM_NAME_INDEX_NONE && checked->refused[index];
}

static void assert_only(const struct checked *checked, size_t count, const char *what)
{
	size_t found = ringsum_report_finding_count(checked->report);

	if (found == count)
		return;
	for (size_t i = 0; i < found; i++)
		print_message("%s\n", ringsum_report_finding_at(checked->report, i)->message);
	fail_msg("%s: %zu findings in place of %zu", what, found, count);
}

static void test_good_delivery(void **state)
{
	struct checked checked = check(document_config(STAGES, EXPERTS), document_plan(),
				       document_manifest(STAGES, EXPERTS, 0));
	const struct rsum_drafter_config *config = &checked.state.config;

	(void)state;
	assert_only(&checked, 0, "good");
	assert_true(checked.state.config_is_valid);
	assert_int_equal(config->num_hidden_layers, DOCUMENT_LAYERS);
	assert_int_equal(config->num_nextn_predict_layers, STAGES);
	assert_int_equal(config->dspark_n_routed_experts, EXPERTS);
	assert_int_equal(config->hc_sinkhorn_iters, 20);
	assert_true(config->rope_theta > 9999.5 && config->rope_theta < 10000.5);
	assert_true(config->rms_norm_eps > 0 && config->rms_norm_eps < 1e-19);
	assert_int_equal(config->target_layer_count, 2);
	assert_int_equal(config->target_layer_ids[1], 1);
	assert_int_equal(config->head_k, 6);
	assert_int_equal(config->dense_k_count, 2);
	assert_string_equal(config->dense_k[1].name, "wkv");
	assert_int_equal(config->dense_k[1].k, 4);
	release(&checked);
}

static void test_order_does_not_matter(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 10; seed++) {
		struct checked checked = check(document_config(STAGES, EXPERTS), document_plan(),
					       document_manifest(STAGES, EXPERTS, seed));

		assert_only(&checked, 0, "shuffled");
		release(&checked);
	}
}

static void test_required_counts(void **state)
{
	(void)state;
	assert_int_equal(rsum_profile_dspark_required_count(3, 128), 4754);
	for (unsigned stages = 1; stages <= 3; stages++)
		for (unsigned experts = 1; experts <= 3; experts++)
			assert_int_equal(rsum_profile_dspark_required_count(stages, experts),
					 document_tensor_count(stages, experts));
}

/* ---- C1, C3, C4: keys --------------------------------------------------------------------- */

#define TEXT "text_config."
#define QUANT "quantization_config."
#define MOE "quantization_config.exl3_moe."

static const char *const uint_keys[] = {
	"num_hidden_layers",
	"num_nextn_predict_layers",
	"hidden_size",
	"vocab_size",
	"num_attention_heads",
	"head_dim",
	"qk_rope_head_dim",
	"q_lora_rank",
	"o_lora_rank",
	"o_groups",
	"moe_intermediate_size",
	"dspark_n_routed_experts",
	"dspark_num_experts_per_tok",
	"sliding_window",
	"dspark_block_size",
	"dspark_noise_token_id",
	"dspark_markov_rank",
	"hc_mult",
	"hc_sinkhorn_iters",
};

static const char *const real_keys[] = {
	"hc_eps", "rms_norm_eps", "swiglu_limit", "routed_scaling_factor", "rope_theta",
};

static const char *const other_keys[] = {
	"dspark_target_layer_ids", "compress_ratios", "scoring_func", "topk_method",
	"norm_topk_prob",	   "hidden_act",
};

/* The config with another value for a key (found by its quoted name), or with another key. */
static char *config_with(const char *key, const char *value)
{
	char *text = document_config(STAGES, EXPERTS);
	char quoted[64], replacement[128];

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	if (value)
		snprintf(replacement, sizeof(replacement), "\"%s\": %s, \"not_%s\":", key, value,
			 key);
	else
		snprintf(replacement, sizeof(replacement), "\"not_%s\":", key);
	return document_edit(text, NULL, quoted, replacement);
}

/* One config finding, named; others may only follow from it for the promises' names. */
static void assert_config_refused(const char *key, const char *value, const char *path)
{
	struct checked checked = check(config_with(key, value), document_plan(),
				       document_manifest(STAGES, EXPERTS, 0));
	const struct ringsum_finding *finding =
		find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL, path);

	if (!finding)
		fail_msg("%s: %s was accepted", key, value ? value : "(missing)");
	assert_string_equal(finding->file, "config.json");
	assert_int_equal(ringsum_report_verdict(checked.report), RINGSUM_VERDICT_REFUSED);
	assert_only(&checked, 1, key);
	release(&checked);
}

static void assert_each_refused(const char *const *keys, size_t count, const char *prefix,
				const char *const *values, size_t value_count)
{
	char path[128];

	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s%s ", prefix, keys[i]);
		assert_config_refused(keys[i], NULL, path);
		for (size_t j = 0; j < value_count; j++)
			assert_config_refused(keys[i], values[j], path);
	}
}

static void test_integers(void **state)
{
	static const char *const bad[] = { "true", "null", "\"5\"",
					   "5.0",  "5e0",  "-5",
					   "[5]",  "{}",   "18446744073709551616",
					   "-0" };

	(void)state;
	assert_each_refused(uint_keys, RSUM_COUNT_OF(uint_keys), TEXT, bad, RSUM_COUNT_OF(bad));
}

static void test_numbers(void **state)
{
	static const char *const bad[] = { "true", "null", "\"1.5\"", "[1.5]", "{}", "1e999" };

	(void)state;
	assert_each_refused(real_keys, RSUM_COUNT_OF(real_keys), TEXT, bad, RSUM_COUNT_OF(bad));
}

static void test_other_keys(void **state)
{
	static const char *const bad[] = { "false", "null", "\"other\"", "1", "{}" };

	(void)state;
	assert_each_refused(other_keys, RSUM_COUNT_OF(other_keys), TEXT, bad, RSUM_COUNT_OF(bad));
}

static void test_key_cases(void **state)
{
	static const struct {
		const char *key, *value, *path;
	} cases[] = {
		{ "dspark_target_layer_ids", "[0, -1]", TEXT "dspark_target_layer_ids[1] " },
		{ "dspark_target_layer_ids", "[0.0]", TEXT "dspark_target_layer_ids[0] " },
		{ "dspark_target_layer_ids", "[[0]]", TEXT "dspark_target_layer_ids[0] " },
		{ "dspark_target_layer_ids", "[true]", TEXT "dspark_target_layer_ids[0] " },
		{ "compress_ratios", "[2, 1, false, 0]", TEXT "compress_ratios[2] " },
		{ "compress_ratios", "[2, 1, 0, 0.0]", TEXT "compress_ratios[3] " },
		{ "compress_ratios", "[2, \"1\", 0, 0]", TEXT "compress_ratios[1] " },
		{ "compress_ratios", "[2, 1, null, 0]", TEXT "compress_ratios[2] " },
		/* C2: the slice [2:4] */
		{ "compress_ratios", "[2, 1, 0]", TEXT "compress_ratios ends" },
		{ "compress_ratios", "[2, 1]", TEXT "compress_ratios ends" },
		{ "compress_ratios", "[]", TEXT "compress_ratios ends" },
		{ "compress_ratios", "[2, 1, 1, 0]", TEXT "compress_ratios says" },
		{ "compress_ratios", "[2, 1, 0, -1]", TEXT "compress_ratios says" },
		{ "num_hidden_layers", "3", TEXT "compress_ratios ends" },
		{ "num_hidden_layers", "1", TEXT "compress_ratios says" },
		{ "num_hidden_layers", "18446744073709551615", TEXT "compress_ratios ends" },
		{ "num_hidden_layers", "18446744073709551614", TEXT "compress_ratios ends" },
		/* C3 */
		{ "norm_topk_prob", "\"true\"", TEXT "norm_topk_prob " },
		{ "norm_topk_prob", "1", TEXT "norm_topk_prob " },
		{ "scoring_func", "\"sqrtsoftplus \"", TEXT "scoring_func " },
		{ "scoring_func", "\"sqrtsoftplus\\u0000\"", TEXT "scoring_func " },
		{ "topk_method", "\"NOAUX_TC\"", TEXT "topk_method " },
		{ "hidden_act", "[\"silu\"]", TEXT "hidden_act " },
		/* C4 */
		{ "quant_method", NULL, QUANT "quant_method is missing" },
		{ "quant_method", "\"exl3\"", QUANT "quant_method " },
		{ "quant_method", "null", QUANT "quant_method " },
		{ "exl3_moe", NULL, QUANT "exl3_moe is missing" },
		{ "exl3_moe", "[]", QUANT "exl3_moe " },
		{ "exllamav3_version", NULL, MOE "exllamav3_version is missing" },
		{ "exllamav3_version", "\"1.6.1\"", MOE "exllamav3_version " },
		{ "exllamav3_version", "1.6", MOE "exllamav3_version " },
		{ "head", NULL, MOE "head is missing" },
		{ "head", "\"bf16\"", MOE "head " },
		{ "head_k", NULL, MOE "head_k is missing" },
		{ "head_k", "6.0", MOE "head_k " },
		{ "head_k", "\"6\"", MOE "head_k " },
		{ "head_k", "-6", MOE "head_k " },
		{ "dense", NULL, MOE "dense is missing" },
		{ "dense", "4", MOE "dense " },
		{ "drafter", NULL, MOE "dense.drafter is missing" },
		{ "drafter", "[4, 5]", MOE "dense.drafter " },
		{ "drafter", "null", MOE "dense.drafter " },
		{ "wkv", "4.0", MOE "dense.drafter.wkv " },
		{ "wkv", "\"4\"", MOE "dense.drafter.wkv " },
		{ "wkv", "true", MOE "dense.drafter.wkv " },
		{ "wkv", "9223372036854775808", MOE "dense.drafter.wkv " },
		{ "wkv", "{\"k\": 4}", MOE "dense.drafter.wkv " },
		{ "w\\u0000", "4", MOE "dense.drafter.w " },
		{ "text_config", NULL, "text_config is missing" },
		{ "text_config", "[]", "text_config " },
		{ "quantization_config", NULL, "quantization_config is missing" },
		{ "quantization_config", "\"x\"", "quantization_config " },
		/* limits */
		{ "dspark_n_routed_experts", "0", TEXT "dspark_n_routed_experts is out of range" },
		{ "dspark_n_routed_experts", "65537", TEXT "dspark_n_routed_experts is out of" },
		{ "dspark_n_routed_experts", "18446744073709551615", TEXT "dspark_n_routed_expe" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		char *config;
		struct checked checked;

		if (strcmp(cases[i].key, "w\\u0000") == 0)
			config = document_edit(document_config(STAGES, EXPERTS), NULL, "\"wkv\"",
					       "\"w\\u0000\"");
		else
			config = config_with(cases[i].key, cases[i].value);
		/* The edit leaves a key "not_KEY" behind, which a map of integers would check. */
		checked = check(config, document_plan(), document_manifest(STAGES, EXPERTS, 0));
		if (!find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL, cases[i].path))
			fail_msg("case %zu: %s: %s", i, cases[i].key, cases[i].value);
		assert_only(&checked, 1, cases[i].path);
		release(&checked);
	}
}

static void test_accepted_configs(void **state)
{
	static const char *const cases[][2] = {
		{ "compress_ratios", "[-2, 1, 0, 0, 7]" },
		{ "compress_ratios", "[2, 1, -0, 0]" },
		{ "dspark_target_layer_ids", "[]" },
		{ "rope_theta", "1e4" },
		{ "hc_eps", "0" },
		{ "swiglu_limit", "-10.5" },
		{ "drafter", "{}" },
		{ "drafter", "{\"a\": -9223372036854775808, \"b\": 9223372036854775807}" },
		{ "vocab_size", "18446744073709551615" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		struct checked checked =
			check(config_with(cases[i][0], cases[i][1]), document_plan(),
			      document_manifest(STAGES, EXPERTS, 0));

		assert_only(&checked, 0, cases[i][1]);
		release(&checked);
	}
}

static void test_stage_limits(void **state)
{
	static const struct {
		const char *stages, *experts, *path;
	} cases[] = {
		{ "0", "2", TEXT "num_nextn_predict_layers is out of range" },
		{ "65", "2", TEXT "num_nextn_predict_layers is out of range" },
		{ "18446744073709551615", "2", TEXT "num_nextn_predict_layers is out of range" },
		{ "64", "65536", TEXT "dspark_n_routed_experts requires too many" },
		{ "6", "65536", TEXT "dspark_n_routed_experts requires too many" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		char *config = config_with("num_nextn_predict_layers", cases[i].stages);
		struct checked checked;
		char experts[64];

		snprintf(experts, sizeof(experts), "\"dspark_n_routed_experts\": %s,",
			 cases[i].experts);
		config = document_edit(config, NULL, "\"dspark_n_routed_experts\": 2,", experts);
		checked = check(config, document_plan(), document_manifest(1, 1, 0));
		assert_non_null(
			find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL, cases[i].path));
		assert_false(checked.state.config_is_valid);
		/* Nothing was generated from it. */
		assert_null(find(&checked, RINGSUM_FINDING_TENSOR_UNEXPECTED, "head.suh", NULL));
		release(&checked);
	}
}

/* ---- documents as a whole ----------------------------------------------------------------- */

static void test_broken_documents(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"null",
		"7",
		"{",
		"{}x",
		"{\"a\":1,\"a\":1}",
		"{\"a\":\"\xc0\x80\"}",
		"{'a':1}",
		"{\"text_config\":{}",
		"{\"a\":[1,]}",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(bad); i++) {
		struct checked checked =
			check(strdup(bad[i]), strdup(bad[i]), document_manifest(1, 1, 0));

		if (!find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL, "the document") ||
		    !find(&checked, RINGSUM_FINDING_PLAN_INVALID, NULL, "the document"))
			fail_msg("accepted: %s", bad[i]);
		assert_false(checked.state.config_is_valid);
		release(&checked);
	}
}

/* What was good before the text broke off must not count. */
static void test_config_cut_off(void **state)
{
	char *config = document_config(STAGES, EXPERTS);
	size_t length = strlen(config);
	struct checked checked;

	(void)state;
	config[length - 2] = ' '; /* the last brace */
	checked = check(config, document_plan(), document_manifest(STAGES, EXPERTS, 0));
	assert_non_null(find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL, "at byte"));
	assert_false(checked.state.config_is_valid);
	release(&checked);
}

static void test_unreadable_documents(void **state)
{
	struct checked checked = check(NULL, NULL, document_manifest(STAGES, EXPERTS, 0));

	(void)state;
	/* Whoever could not read them has said so. */
	assert_only(&checked, 0, "unreadable");
	assert_false(checked.state.config_is_valid);
	release(&checked);
}

static void test_codebooks(void **state)
{
	/* The key, and what manifest and plan are said to have there. */
	static const char *const bad[][3] = {
		{ "\"codebook\": \"3inst\"", "3inst", "the string 3inst" },
		{ "\"codebook\": null", "null", "null" },
		{ "\"codebook\": false", "false", "false" },
		{ "\"codebook\": 1", "the number 1", "1" },
		{ "\"codebook\": \"mul1\\u0000\"", "a string with a NUL after mul1",
		  "a string with a NUL after mul1" },
		{ "\"codebook\": \"\\u0000mul1\"", "a string that begins with a NUL",
		  "a string that begins with a NUL" },
		{ "\"codebook\": [\"mul1\"]", "an array", "an array" },
		{ "\"codeblock\": \"mul1\"", "none", "no such key" },
		{ "\"codebook\": \"MUL1\"", "MUL1", "the string MUL1" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(bad); i++) {
		char *plan =
			document_edit(document_plan(), NULL, "\"codebook\": \"mul1\"", bad[i][0]);
		char *manifest = document_edit(document_manifest(STAGES, EXPERTS, 0), NULL,
					       "\"codebook\": \"mul1\"", bad[i][0]);
		struct checked checked = check(document_config(STAGES, EXPERTS), plan, manifest);
		const struct ringsum_finding *finding;

		assert_only(&checked, 2, bad[i][0]);
		finding = find(&checked, RINGSUM_FINDING_PLAN_INVALID, NULL, "codebook");
		assert_non_null(finding);
		assert_string_equal(finding->actual, bad[i][2]);
		finding = find(&checked, RINGSUM_FINDING_MANIFEST_INVALID, NULL, "codebook");
		assert_non_null(finding);
		assert_string_equal(finding->file, "TENSORS.json");
		assert_string_equal(finding->actual, bad[i][1]);
		release(&checked);
	}
}

/* What is found is told apart from what was expected, also where the two look alike. */
static void test_what_is_found(void **state)
{
	static const char *const cases[][3] = {
		{ "\"hidden_act\": \"silu\"", "\"hidden_act\": \"silu\\u0000\"",
		  "a string with a NUL after silu" },
		{ "\"hidden_size\": 32", "\"hidden_size\": 18446744073709551616",
		  "18446744073709551616 (exceeds 64 bits)" },
		{ "\"hidden_size\": 32", "\"hidden_size\": -18446744073709551616",
		  "-18446744073709551616 (exceeds 64 bits)" },
		{ "\"hidden_size\": 32", "\"hidden_size\": 3.2e1", "3.2e1" },
		{ "\"hidden_size\": 32", "\"hidden_size\": -32", "-32" },
	};

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		char *config = document_edit(document_config(STAGES, EXPERTS), NULL, cases[i][0],
					     cases[i][1]);
		struct checked checked =
			check(config, document_plan(), document_manifest(STAGES, EXPERTS, 0));
		const struct ringsum_finding *finding =
			find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL, NULL);

		assert_only(&checked, 1, cases[i][1]);
		assert_non_null(finding);
		assert_string_equal(finding->actual, cases[i][2]);
		release(&checked);
	}
}

static void test_config_is_another_file(void **state)
{
	struct checked checked =
		check(strdup("<html>"), document_plan(), document_manifest(1, 1, 0));

	(void)state;
	assert_non_null(find(&checked, RINGSUM_FINDING_CONFIG_INVALID, NULL,
			     "an HTML page in place of config.json"));
	release(&checked);
}

/* ---- M2, M3 ------------------------------------------------------------------------------ */

static void test_each_name_is_required(void **state)
{
	struct checked whole =
		check(document_config(1, 1), document_plan(), document_manifest(1, 1, 0));

	(void)state;
	for (size_t i = 0; i < whole.manifest.promise_count; i++) {
		const char *name = whole.manifest.promises[i].tensor.name;
		char *manifest = document_edit_entry(document_manifest(1, 1, 0), name,
						     "{\"name\": \"", "{\"name\": \"x");
		struct checked checked = check(document_config(1, 1), document_plan(), manifest);
		char renamed[128];

		snprintf(renamed, sizeof(renamed), "x%s", name);
		assert_only(&checked, 2, name);
		assert_non_null(find(&checked, RINGSUM_FINDING_TENSOR_MISSING, name, NULL));
		assert_non_null(find(&checked, RINGSUM_FINDING_TENSOR_UNEXPECTED, renamed, NULL));
		assert_true(is_refused(&checked, renamed));
		release(&checked);
	}
	release(&whole);
}

static void test_norm_weight_is_allowed(void **state)
{
	char *manifest =
		document_edit(document_manifest(1, 1, 0), NULL, "{\"name\": \"embed.weight\"",
			      "{\"name\": \"norm.weight\", \"dtype\": \"BF16\", \"shape\": [1], "
			      "\"destination_file\": \"n\", \"destination_byte_range\": [8, 10], "
			      "\"source_byte_range\": [0, 2], \"source_byte_range_sha256\": "
			      "\"00000000000000000000000000000000"
			      "00000000000000000000000000000000\", "
			      "\"resident_packed_bytes\": 2}, {\"name\": \"embed.weight\"");
	struct checked checked = check(document_config(1, 1), document_plan(), manifest);

	(void)state;
	assert_only(&checked, 0, "norm.weight");
	assert_false(is_refused(&checked, "norm.weight"));
	release(&checked);
}

static void test_another_config_requires_another_set(void **state)
{
	struct checked checked =
		check(document_config(2, 1), document_plan(), document_manifest(1, 2, 0));

	(void)state;
	assert_non_null(
		find(&checked, RINGSUM_FINDING_TENSOR_MISSING, "mtp.1.attn.wq_a.suh", NULL));
	assert_non_null(find(&checked, RINGSUM_FINDING_TENSOR_MISSING, "mtp.1.norm.weight", NULL));
	assert_non_null(
		find(&checked, RINGSUM_FINDING_TENSOR_UNEXPECTED, "mtp.0.norm.weight", NULL));
	assert_non_null(find(&checked, RINGSUM_FINDING_TENSOR_UNEXPECTED,
			     "mtp.0.ffn.experts.1.w3.mul1", NULL));
	/* 44 + 12 + 4 are missing, 12 + 4 unexpected */
	assert_only(&checked, 60 + 16, "2 x 1 against 1 x 2");
	release(&checked);
}

/* A name given twice is told as such, not as unexpected or missing too. */
static void test_duplicates_are_told_once(void **state)
{
	char *manifest = document_edit_entry(document_manifest(1, 1, 0), "mtp.0.attn.attn_sink",
					     "\"mtp.0.attn.attn_sink\"", "\"embed.weight\"");
	struct checked checked = check(document_config(1, 1), document_plan(), manifest);

	(void)state;
	assert_only(&checked, 2, "duplicate");
	assert_non_null(find(&checked, RINGSUM_FINDING_TENSOR_DUPLICATE, "embed.weight", NULL));
	assert_non_null(
		find(&checked, RINGSUM_FINDING_TENSOR_MISSING, "mtp.0.attn.attn_sink", NULL));
	release(&checked);
}

/* An entry that is ill-formed in another member is promised all the same. */
static void test_ill_formed_is_not_missing(void **state)
{
	char *manifest = document_edit_entry(document_manifest(1, 1, 0), "head.trellis",
					     "[2, 3, 48]", "null");
	struct checked checked = check(document_config(1, 1), document_plan(), manifest);

	(void)state;
	assert_only(&checked, 1, "ill-formed");
	assert_non_null(find(&checked, RINGSUM_FINDING_MANIFEST_INVALID, "head.trellis", "shape"));
	release(&checked);
}

/* ---- E1, E2, and E3's structure ------------------------------------------------------------ */

static void test_linears(void **state)
{
	static const struct {
		const char *part, *find, *replace;
		const char *also; /* another part that no longer fits */
	} cases[] = {
		{ "trellis", "\"I16\"", "\"U16\"", NULL },
		{ "trellis", "\"I16\"", "\"I32\"", NULL },
		{ "trellis", "[2, 3, 48]", "[6, 48]", NULL },
		{ "trellis", "[2, 3, 48]", "[2, 3, 48, 1]", NULL },
		{ "trellis", "[2, 3, 48]", "[]", NULL },
		{ "trellis", "[2, 3, 48]", "[2, 3, 40]", NULL },
		{ "trellis", "[2, 3, 48]", "[2, 3, 0]", NULL },
		{ "trellis", "[2, 3, 48]", "[2, 3, 8]", NULL },
		{ "suh", "\"F16\"", "\"BF16\"", NULL },
		{ "suh", "[32]", "[31]", NULL },
		{ "suh", "[32]", "[48]", NULL },
		{ "suh", "[32]", "[32, 1]", NULL },
		{ "suh", "[32]", "[]", NULL },
		{ "svh", "\"F16\"", "\"F32\"", NULL },
		{ "svh", "[48]", "[32]", NULL },
		{ "svh", "[48]", "[1, 48]", NULL },
		{ "mul1", "\"I32\"", "\"U32\"", NULL },
		{ "mul1", "\"I32\"", "\"F32\"", NULL },
		{ "mul1", "\"shape\": []", "\"shape\": [0]", NULL },
		{ "mul1", "\"shape\": []", "\"shape\": [9223372036854775808, 4]", NULL },
		{ "suh", "[2, 3, 48]", "[1152921504606846978, 3, 48]", "trellis" },
		{ "svh", "[2, 3, 48]", "[2, 1152921504606846979, 48]", "trellis" },
		{ "suh", "[2, 3, 48]", "[3, 3, 48]", "trellis" },
		{ "svh", "[2, 3, 48]", "[2, 2, 48]", "trellis" },
	};
	static const char *const linears[] = { "head", "mtp.0.main_proj", "mtp.0.attn.wq_a",
					       "mtp.1.ffn.shared_experts.w3",
					       "mtp.1.ffn.experts.1.w2" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(cases); i++) {
		const char *linear = linears[i % RSUM_COUNT_OF(linears)];
		char part[96], edited[96];
		struct checked checked;

		/* `also` says which part is edited where it is not the one at fault. */
		snprintf(part, sizeof(part), "%s.%s", linear, cases[i].part);
		snprintf(edited, sizeof(edited), "%s.%s", linear,
			 cases[i].also ? cases[i].also : cases[i].part);
		checked = check(document_config(STAGES, EXPERTS), document_plan(),
				document_edit_entry(document_manifest(STAGES, EXPERTS, 0), edited,
						    cases[i].find, cases[i].replace));
		assert_only(&checked, 1, cases[i].replace);
		if (!find(&checked, RINGSUM_FINDING_EXL3_INVALID, part, NULL))
			fail_msg("%s: %s", part, cases[i].replace);
		assert_true(is_refused(&checked, part));
		release(&checked);
	}
}

static void test_mul1_shapes_that_will_do(void **state)
{
	static const char *const good[] = { "\"shape\": [1]", "\"shape\": [1, 1]" };

	(void)state;
	for (size_t i = 0; i < RSUM_COUNT_OF(good); i++) {
		struct checked checked =
			check(document_config(1, 1), document_plan(),
			      document_edit_entry(document_manifest(1, 1, 0), "head.mul1",
						  "\"shape\": []", good[i]));

		assert_only(&checked, 0, good[i]);
		release(&checked);
	}
}

static void test_markers(void **state)
{
	const struct rsum_profile *profile = &rsum_profile_dspark_exl3;
	uint32_t word = 0;

	(void)state;
	assert_true(profile->marker_of("head.mul1", &word));
	assert_int_equal(word, 0x83DCD12D);
	assert_true(profile->marker_of("mtp.0.ffn.experts.7.w2.mul1", &word));
	assert_true(profile->marker_of("anything.mul1", &word));
	assert_true(profile->marker_of("mul1", &word));
	assert_false(profile->marker_of("head.mul10", &word));
	assert_false(profile->marker_of("head.mul1.x", &word));
	assert_false(profile->marker_of("headmul1", &word));
	assert_false(profile->marker_of("", &word));
	assert_false(rsum_profile_none.marker_of("head.mul1", &word));
}

/* ---- all together ------------------------------------------------------------------------- */

static void test_several_faults_are_all_told(void **state)
{
	char *config = config_with("hidden_size", NULL);
	char *plan = document_edit(document_plan(), NULL, "mul1", "mul2");
	char *manifest = document_manifest(STAGES, EXPERTS, 0);
	struct checked checked;

	(void)state;
	config = document_edit(config, NULL, "\"silu\"", "\"relu\"");
	config = document_edit(config, NULL, "\"head_k\": 6", "\"head_k\": 6.5");
	manifest = document_edit(manifest, NULL, "\"codebook\": \"mul1\"", "\"codebook\": \"\"");
	manifest = document_edit_entry(manifest, "head.suh", "[32]", "[16]");
	manifest = document_edit_entry(manifest, "head.suh", "\"F16\"", "\"F32\"");
	manifest = document_edit_entry(manifest, "embed.weight", "\"embed.", "\"embod.");
	checked = check(config, plan, manifest);
	assert_only(&checked, 3 + 1 + 1 + 2 + 2, "nine faults");
	release(&checked);
}

static void test_profile_rows(void **state)
{
	struct rsum_manifest manifest = { 0 };
	unsigned allowed = 0;

	(void)state;
	assert_ptr_equal(rsum_profile_choose(RINGSUM_PROFILE_AUTO, &manifest), &rsum_profile_none);
	assert_ptr_equal(rsum_profile_choose(RINGSUM_PROFILE_DSPARK_EXL3, &manifest),
			 &rsum_profile_dspark_exl3);
	manifest.has_codebook = true;
	assert_ptr_equal(rsum_profile_choose(RINGSUM_PROFILE_AUTO, &manifest),
			 &rsum_profile_dspark_exl3);
	assert_ptr_equal(rsum_profile_choose(RINGSUM_PROFILE_NONE, &manifest), &rsum_profile_none);
	for (unsigned dtype = 0; dtype < RINGSUM_DTYPE_COUNT; dtype++) {
		assert_true(rsum_profile_none.dtype_is_allowed((enum ringsum_dtype)dtype));
		allowed += rsum_profile_dspark_exl3.dtype_is_allowed((enum ringsum_dtype)dtype);
	}
	assert_int_equal(allowed, 7);
	assert_false(rsum_profile_dspark_exl3.dtype_is_allowed(RINGSUM_DTYPE_U16));
	assert_int_equal(rsum_profile_none.header_limit_bytes, 100000000);
	assert_int_equal(rsum_profile_dspark_exl3.header_limit_bytes, 67108864);
	assert_string_equal(rsum_profile_dspark_exl3.name, "dspark-exl3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_delivery),
		cmocka_unit_test(test_order_does_not_matter),
		cmocka_unit_test(test_required_counts),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_other_keys),
		cmocka_unit_test(test_key_cases),
		cmocka_unit_test(test_accepted_configs),
		cmocka_unit_test(test_stage_limits),
		cmocka_unit_test(test_broken_documents),
		cmocka_unit_test(test_config_cut_off),
		cmocka_unit_test(test_unreadable_documents),
		cmocka_unit_test(test_codebooks),
		cmocka_unit_test(test_what_is_found),
		cmocka_unit_test(test_config_is_another_file),
		cmocka_unit_test(test_each_name_is_required),
		cmocka_unit_test(test_norm_weight_is_allowed),
		cmocka_unit_test(test_another_config_requires_another_set),
		cmocka_unit_test(test_duplicates_are_told_once),
		cmocka_unit_test(test_ill_formed_is_not_missing),
		cmocka_unit_test(test_linears),
		cmocka_unit_test(test_mul1_shapes_that_will_do),
		cmocka_unit_test(test_markers),
		cmocka_unit_test(test_several_faults_are_all_told),
		cmocka_unit_test(test_profile_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
