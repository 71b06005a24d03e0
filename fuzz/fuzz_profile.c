/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile dspark-exl3. The input is config.json, a line "===", exl3_moe_plan.json, a line
 * "===", then bytes that change a sound manifest for that config: see change_entries().
 *
 *	- The documents are without fault exactly where a second reading of rules C1 to C5, on the
 *	  trees of json-c, finds none; and then the values are the same.
 *	- Stages and experts are within their limits where they are said to be known.
 *	- Promises are without fault exactly where their names are the required set, spelled out
 *	  here once more, and every linear keeps E1 and E2. As many names are reported missing and
 *	  unexpected as there are.
 */
#include "fuzz.h"

#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "profile.h"
#include "rsum_limits.h"

#define SEPARATOR "\n===\n"
#define ENTRIES_MAX 1024
#define NAME_BYTES 96

/* ---- C1 to C5 on json-c's trees ---------------------------------------------------------- */

static const struct {
	const char *name;
	size_t offset;
} integers[] = {
#define INTEGER(name)                                             \
	{                                                         \
#name, offsetof(struct rsum_drafter_config, name) \
	}
	INTEGER(num_hidden_layers),
	INTEGER(num_nextn_predict_layers),
	INTEGER(hidden_size),
	INTEGER(vocab_size),
	INTEGER(num_attention_heads),
	INTEGER(head_dim),
	INTEGER(qk_rope_head_dim),
	INTEGER(q_lora_rank),
	INTEGER(o_lora_rank),
	INTEGER(o_groups),
	INTEGER(moe_intermediate_size),
	INTEGER(dspark_n_routed_experts),
	INTEGER(dspark_num_experts_per_tok),
	INTEGER(sliding_window),
	INTEGER(dspark_block_size),
	INTEGER(dspark_noise_token_id),
	INTEGER(dspark_markov_rank),
	INTEGER(hc_mult),
	INTEGER(hc_sinkhorn_iters),
}, reals[] = {
	INTEGER(hc_eps),		INTEGER(rms_norm_eps), INTEGER(swiglu_limit),
	INTEGER(routed_scaling_factor), INTEGER(rope_theta),
};

static struct json_object *get(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (!json_object_is_type(object, json_type_object))
		return NULL;
	json_object_object_get_ex(object, key, &value);
	return value;
}

static bool is_unsigned(struct json_object *value)
{
	return json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= 0;
}

static bool is_text(struct json_object *value, const char *text)
{
	return json_object_is_type(value, json_type_string) &&
	       (size_t)json_object_get_string_len(value) == strlen(text) &&
	       strcmp(json_object_get_string(value), text) == 0;
}

static bool is_real(struct json_object *value)
{
	return (json_object_is_type(value, json_type_double) ||
		json_object_is_type(value, json_type_int)) &&
	       isfinite(json_object_get_double(value));
}

static bool is_list(struct json_object *value, bool may_be_negative)
{
	if (!json_object_is_type(value, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(value); i++) {
		struct json_object *element = json_object_array_get_idx(value, i);

		if (may_be_negative ? !json_object_is_type(element, json_type_int)
				    : !is_unsigned(element))
			return false;
	}
	return true;
}

static bool is_int_map(struct json_object *value)
{
	if (!json_object_is_type(value, json_type_object))
		return false;
	json_object_object_foreach(value, key, member)
	{
		(void)key;
		if (!json_object_is_type(member, json_type_int) ||
		    json_object_get_uint64(member) > INT64_MAX)
			return false;
	}
	return true;
}

/* C2 */
static bool ratios_are_good(struct json_object *text_config)
{
	struct json_object *ratios = get(text_config, "compress_ratios");
	uint64_t layers = json_object_get_uint64(get(text_config, "num_hidden_layers"));
	uint64_t stages = json_object_get_uint64(get(text_config, "num_nextn_predict_layers"));
	uint64_t count = json_object_array_length(ratios);

	if (layers > count || stages > count - layers)
		return false;
	for (uint64_t i = layers; i < layers + stages; i++) {
		if (json_object_get_int64(json_object_array_get_idx(ratios, i)) != 0)
			return false;
	}
	return true;
}

static bool text_config_is_good(struct json_object *config)
{
	uint64_t stages, experts;

	for (size_t i = 0; i < RSUM_COUNT_OF(integers); i++) {
		if (!is_unsigned(get(config, integers[i].name)))
			return false;
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(reals); i++) {
		if (!is_real(get(config, reals[i].name)))
			return false;
	}
	if (!is_list(get(config, "dspark_target_layer_ids"), false) ||
	    !is_list(get(config, "compress_ratios"), true) || !ratios_are_good(config))
		return false;
	stages = json_object_get_uint64(get(config, "num_nextn_predict_layers"));
	experts = json_object_get_uint64(get(config, "dspark_n_routed_experts"));
	if (stages < 1 || stages > 64 || experts < 1 || experts > 65536 ||
	    14 + stages * (44 + 12 * experts) > 4000000)
		return false;
	return is_text(get(config, "scoring_func"), "sqrtsoftplus") &&
	       is_text(get(config, "topk_method"), "noaux_tc") &&
	       json_object_is_type(get(config, "norm_topk_prob"), json_type_boolean) &&
	       json_object_get_boolean(get(config, "norm_topk_prob")) &&
	       is_text(get(config, "hidden_act"), "silu");
}

/* C4 */
static bool quantization_is_good(struct json_object *quantization)
{
	struct json_object *exl3 = get(quantization, "exl3_moe");

	return is_text(get(quantization, "quant_method"), "deepseek_v41_exl3") &&
	       is_text(get(exl3, "exllamav3_version"), "1.6.0") &&
	       is_text(get(exl3, "head"), "exl3") && is_unsigned(get(exl3, "head_k")) &&
	       is_int_map(get(get(exl3, "dense"), "drafter"));
}

static void compare_values(const struct rsum_drafter_config *ours, struct json_object *root)
{
	struct json_object *config = get(root, "text_config");
	struct json_object *exl3 = get(get(root, "quantization_config"), "exl3_moe");
	struct json_object *map = get(get(exl3, "dense"), "drafter");
	struct json_object *layers = get(config, "dspark_target_layer_ids");

	for (size_t i = 0; i < RSUM_COUNT_OF(integers); i++) {
		uint64_t value;

		memcpy(&value, (const char *)ours + integers[i].offset, sizeof(value));
		FUZZ_CHECK(json_object_get_uint64(get(config, integers[i].name)) == value);
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(reals); i++) {
		double value, theirs = json_object_get_double(get(config, reals[i].name));

		memcpy(&value, (const char *)ours + reals[i].offset, sizeof(value));
		FUZZ_CHECK(theirs == value);
	}
	FUZZ_CHECK(json_object_array_length(layers) == ours->target_layer_count);
	for (size_t i = 0; i < ours->target_layer_count; i++)
		FUZZ_CHECK(json_object_get_uint64(json_object_array_get_idx(layers, i)) ==
			   ours->target_layer_ids[i]);
	FUZZ_CHECK(json_object_get_uint64(get(exl3, "head_k")) == ours->head_k);
	FUZZ_CHECK((size_t)json_object_object_length(map) == ours->dense_k_count);
	for (size_t i = 0; i < ours->dense_k_count; i++)
		FUZZ_CHECK(json_object_get_int64(get(map, ours->dense_k[i].name)) ==
			   ours->dense_k[i].k);
}

/* ---- a document -------------------------------------------------------------------------- */

struct document {
	const char *text;
	size_t size;
};

static struct json_object *read_document(const struct document *document)
{
	struct json_object *root = NULL;

	FUZZ_CHECK(fuzz_json_c_parse(document->text, document->size, 2 * RSUM_LIMIT_JSON_DEPTH,
				     &root));
	return root;
}

/* Runs check_config over copies, which it consumes. */
static uint64_t check_config(struct rsum_profile_state *state, const struct document *config,
			     const struct document *plan, struct ringsum_report *report)
{
	char *config_copy = config ? fuzz_copy(config->text, config->size) : NULL;
	char *plan_copy = plan ? fuzz_copy(plan->text, plan->size) : NULL;

	*state = (struct rsum_profile_state){ 0 };
	FUZZ_CHECK(rsum_profile_dspark_exl3.check_config(state, config_copy,
							 config ? config->size : 0, plan_copy,
							 plan ? plan->size : 0, report) == 0);
	free(config_copy);
	free(plan_copy);
	return report->refusing_count;
}

static void check_config_document(const struct document *config)
{
	struct ringsum_report *report = rsum_report_new();
	struct rsum_profile_state state;
	struct json_object *root;
	bool is_good, theirs;

	/* A malloc of 0 bytes is no NULL here, but would say "no file" if it were. */
	is_good = check_config(&state, config, NULL, report) == 0;
	if (state.config_is_valid)
		FUZZ_CHECK(state.config.num_nextn_predict_layers - 1 < RSUM_LIMIT_STAGES &&
			   state.config.dspark_n_routed_experts - 1 < RSUM_LIMIT_EXPERTS);
	FUZZ_CHECK(state.config_is_valid || !is_good);
	if (!fuzz_json_is_strict(config->text, config->size, RSUM_LIMIT_JSON_DEPTH)) {
		FUZZ_CHECK(!is_good && !state.config_is_valid);
	} else if (fuzz_json_c_is_exact(config->text, config->size)) {
		root = read_document(config);
		theirs = text_config_is_good(get(root, "text_config")) &&
			 quantization_is_good(get(root, "quantization_config"));
		FUZZ_CHECK(theirs == is_good);
		if (is_good)
			compare_values(&state.config, root);
		json_object_put(root);
	}
	fuzz_check_report(report);
	rsum_profile_state_deinit(&state);
	ringsum_report_free(report);
}

static void check_plan_document(const struct document *plan)
{
	struct ringsum_report *report = rsum_report_new();
	struct rsum_profile_state state;
	struct json_object *root;
	bool is_good = check_config(&state, NULL, plan, report) == 0;

	FUZZ_CHECK(!state.config_is_valid);
	if (!fuzz_json_is_strict(plan->text, plan->size, RSUM_LIMIT_JSON_DEPTH)) {
		FUZZ_CHECK(!is_good);
	} else if (fuzz_json_c_is_exact(plan->text, plan->size)) {
		root = read_document(plan);
		FUZZ_CHECK(is_text(get(root, "codebook"), "mul1") == is_good);
		json_object_put(root);
	}
	fuzz_check_report(report);
	rsum_profile_state_deinit(&state);
	ringsum_report_free(report);
}

/* ---- the required set, once more --------------------------------------------------------- */

struct entry {
	char name[NAME_BYTES];
	const char *dtype;
	unsigned rank;
	uint64_t shape[4];
	uint64_t bytes;
	bool is_dropped;
};

struct set {
	struct entry entries[ENTRIES_MAX];
	size_t count;
};

static struct entry *add(struct set *set, const char *stage, const char *name, const char *part)
{
	struct entry *entry = &set->entries[set->count];

	FUZZ_CHECK(set->count++ < ENTRIES_MAX);
	*entry = (struct entry){ .dtype = "BF16", .rank = 1, .shape = { 2 }, .bytes = 4 };
	snprintf(entry->name, sizeof(entry->name), "%s%s%s", stage, name, part);
	return entry;
}

static void set_shape(struct entry *entry, const char *dtype, unsigned rank, uint64_t a, uint64_t b,
		      uint64_t c)
{
	entry->dtype = dtype;
	entry->rank = rank;
	entry->shape[0] = a;
	entry->shape[1] = b;
	entry->shape[2] = c;
	entry->bytes = 2 * a * (rank > 1 ? b : 1) * (rank > 2 ? c : 1);
}

/* in 16, out 32, K 1 */
static void add_linear(struct set *set, const char *stage, const char *name)
{
	set_shape(add(set, stage, name, ".trellis"), "I16", 3, 1, 2, 16);
	set_shape(add(set, stage, name, ".suh"), "F16", 1, 16, 0, 0);
	set_shape(add(set, stage, name, ".svh"), "F16", 1, 32, 0, 0);
	set_shape(add(set, stage, name, ".mul1"), "I32", 1, 1, 0, 0);
	set->entries[set->count - 1].bytes = 4;
}

static void add_stage(struct set *set, const char *stage, unsigned experts)
{
	static const char *const linears[] = { "attn.wq_a",
					       "attn.wkv",
					       "attn.wq_b",
					       "attn.wo_b",
					       "ffn.shared_experts.w1",
					       "ffn.shared_experts.w2",
					       "ffn.shared_experts.w3" };
	static const char *const plain[] = {
		"attn.wo_a.weight", "attn.wo_a.scale",	   "attn.attn_sink",  "attn.q_norm.weight",
		"attn_norm.weight", "attn.kv_norm.weight", "ffn_norm.weight", "ffn.gate.weight",
		"ffn.gate.bias",    "ffn.gate.bias_vl",
	};
	static const char *const halves[] = { "hc_attn_", "hc_ffn_" };
	char name[NAME_BYTES];

	for (size_t i = 0; i < RSUM_COUNT_OF(linears); i++)
		add_linear(set, stage, linears[i]);
	for (size_t i = 0; i < RSUM_COUNT_OF(plain); i++)
		add(set, stage, plain[i], "");
	for (size_t i = 0; i < RSUM_COUNT_OF(halves); i++) {
		add(set, stage, halves[i], "fn");
		add(set, stage, halves[i], "base");
		add(set, stage, halves[i], "scale");
	}
	for (unsigned i = 0; i < 3 * experts; i++) {
		snprintf(name, sizeof(name), "ffn.experts.%u.w%u", i / 3, i % 3 + 1);
		add_linear(set, stage, name);
	}
}

static void require_all(struct set *set, unsigned stages, unsigned experts)
{
	static const char *const last[] = { "norm.weight", "markov_head.embed.weight",
					    "markov_head.head.weight",
					    "confidence_head.proj.weight" };
	char stage[24] = "";

	set->count = 0;
	add(set, "", "embed.weight", "");
	add_linear(set, "", "head");
	for (unsigned i = 0; i < stages; i++) {
		snprintf(stage, sizeof(stage), "mtp.%u.", i);
		add_stage(set, stage, experts);
	}
	for (size_t i = 0; i < RSUM_COUNT_OF(last); i++)
		add(set, stage, last[i], "");
	add_linear(set, "mtp.0.", "main_proj");
	add(set, "mtp.0.", "main_norm.weight", "");
}

/* ---- a manifest that is changed ---------------------------------------------------------- */

static void change_entry(struct set *set, struct entry *entry, uint64_t kind, uint64_t value)
{
	static const char *const dtypes[] = { "I16", "F16", "I32", "BF16", "F32", "U8", "I64" };
	static const char *const names[] = { "norm.weight", "x", "mtp.0.x.trellis", "head.mul1" };

	switch (kind % 8) {
	case 0:
		entry->is_dropped = true;
		return;
	case 1: /* the same name once more */
		if (set->count < ENTRIES_MAX) {
			set->entries[set->count] = *entry;
			set->count++;
		}
		return;
	case 2:
		if (set->count < ENTRIES_MAX)
			add(set, "", names[value % RSUM_COUNT_OF(names)], "");
		return;
	case 3:
		entry->dtype = dtypes[value % RSUM_COUNT_OF(dtypes)];
		return;
	case 4:
		entry->shape[value % 3] = value >> 2;
		return;
	case 5:
		entry->rank = (unsigned)(value % 5);
		return;
	case 6:
		entry->bytes = value;
		return;
	default:
		memmove(entry->name, set->entries[value % set->count].name, sizeof(entry->name));
	}
}

static void change_entries(struct fuzz_input *input, struct set *set)
{
	while (input->left) {
		uint64_t kind = fuzz_take(input, 1);
		uint64_t which = fuzz_take(input, 2);
		uint64_t value = fuzz_take(input, kind & 0x80 ? 8 : 1);

		change_entry(set, &set->entries[which % set->count], kind, value);
	}
}

static void write_manifest(struct fuzz_text *text, const struct set *set, bool has_codebook)
{
	bool is_first = true;

	fuzz_text_printf(text, "{%s\"tensors\":[", has_codebook ? "\"codebook\":\"mul1\"," : "");
	for (size_t i = 0; i < set->count; i++) {
		const struct entry *entry = &set->entries[i];

		if (entry->is_dropped)
			continue;
		fuzz_text_printf(
			text,
			"%s{\"name\":\"%s\",\"dtype\":\"%s\",\"destination_file\":\"m\","
			"\"destination_byte_range\":[0,%llu],\"source_byte_range\":[0,%llu],"
			"\"source_byte_range_sha256\":\"%064d\",\"resident_packed_bytes\":0,"
			"\"shape\":[",
			is_first ? "" : ",", entry->name, entry->dtype,
			(unsigned long long)(entry->bytes & ~(UINT64_C(3) << 62)),
			(unsigned long long)(entry->bytes & ~(UINT64_C(3) << 62)), 0);
		for (unsigned k = 0; k < entry->rank; k++)
			fuzz_text_printf(text, "%s%llu", k ? "," : "",
					 (unsigned long long)entry->shape[k]);
		fuzz_text_printf(text, "]}");
		is_first = false;
	}
	fuzz_text_printf(text, "]}");
}

/* ---- what is to be found in it ----------------------------------------------------------- */

static const struct entry *find(const struct set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++) {
		if (!set->entries[i].is_dropped && strcmp(set->entries[i].name, name) == 0)
			return &set->entries[i];
	}
	return NULL;
}

static bool is_twice(const struct set *set, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < set->count; i++)
		count += !set->entries[i].is_dropped && strcmp(set->entries[i].name, name) == 0;
	return count > 1;
}

static size_t count_missing(const struct set *required, const struct set *promised)
{
	size_t count = 0;

	for (size_t i = 0; i < required->count; i++)
		count += !find(promised, required->entries[i].name);
	return count;
}

static size_t count_unexpected(const struct set *required, const struct set *promised)
{
	size_t count = 0;

	for (size_t i = 0; i < promised->count; i++) {
		const struct entry *entry = &promised->entries[i];

		/* The first of a name stands for all of them. */
		count += !entry->is_dropped && find(promised, entry->name) == entry &&
			 !find(required, entry->name) && strcmp(entry->name, "norm.weight") != 0;
	}
	return count;
}

/* E1 and E2, of the linear whose trellis is required under this name. */
static bool linear_is_good(const struct set *promised, const char *trellis_name)
{
	static const char *const parts[] = { "trellis", "suh", "svh", "mul1" };
	static const char *const dtypes[] = { "I16", "F16", "F16", "I32" };
	const struct entry *found[4];
	char name[NAME_BYTES];

	for (size_t i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%.*s%s", (int)(strlen(trellis_name) - 7),
			 trellis_name, parts[i]);
		found[i] = find(promised, name);
		if (!found[i] || is_twice(promised, name))
			return false;
		if (strcmp(found[i]->dtype, dtypes[i]) != 0)
			return false;
	}
	if (found[0]->rank != 3 || found[0]->shape[2] == 0 || found[0]->shape[2] % 16 != 0)
		return false;
	for (size_t i = 1; i < 3; i++) {
		if (found[i]->rank != 1 || found[0]->shape[i - 1] > UINT64_MAX / 16 ||
		    found[i]->shape[0] != 16 * found[0]->shape[i - 1])
			return false;
	}
	return true;
}

/* At least one element and four bytes, without overflow: more than E3 asks of the shape alone. */
static bool marker_is_there(const struct entry *mul1)
{
	uint64_t bytes;

	return fuzz_shape_bytes(RINGSUM_DTYPE_I32, mul1->shape, mul1->rank, &bytes) && bytes >= 4 &&
	       (mul1->bytes & ~(UINT64_C(3) << 62)) >= 4;
}

static bool linears_are_good(const struct set *required, const struct set *promised)
{
	for (size_t i = 0; i < required->count; i++) {
		const char *name = required->entries[i].name;
		size_t length = strlen(name);

		if (length > 8 && strcmp(name + length - 8, ".trellis") == 0 &&
		    !linear_is_good(promised, name))
			return false;
		if (length > 5 && strcmp(name + length - 5, ".mul1") == 0 &&
		    !marker_is_there(find(promised, name)))
			return false;
	}
	return true;
}

static size_t count_findings(const struct ringsum_report *report, enum ringsum_finding_code code)
{
	size_t count = 0;

	for (size_t i = 0; i < report->finding_count; i++)
		count += report->findings[i].code == code;
	return count;
}

static void check_promises(const struct rsum_profile_state *state, struct fuzz_input *input)
{
	static struct set required, promised;
	const struct rsum_drafter_config *config = &state->config;
	struct ringsum_report *report = rsum_report_new();
	bool has_codebook = fuzz_take(input, 1) % 4 != 3, is_expected_good;
	size_t missing, unexpected;
	struct rsum_manifest manifest = { 0 };
	struct fuzz_text text = { 0 };
	bool *refused;

	require_all(&required, (unsigned)config->num_nextn_predict_layers,
		    (unsigned)config->dspark_n_routed_experts);
	promised = required;
	change_entries(input, &promised);
	write_manifest(&text, &promised, has_codebook);
	FUZZ_CHECK(rsum_manifest_tensors.parse(fuzz_copy(text.data, text.used_bytes),
					       text.used_bytes, "TENSORS.json", &manifest,
					       report) == 0);
	FUZZ_CHECK(manifest.has_codebook == has_codebook);
	refused = fuzz_alloc((manifest.promise_count + 1) * sizeof(*refused));
	memset(refused, 0, (manifest.promise_count + 1) * sizeof(*refused));
	FUZZ_CHECK(rsum_profile_dspark_exl3.check_promises(state, &manifest, refused, report) == 0);
	missing = count_missing(&required, &promised);
	unexpected = count_unexpected(&required, &promised);
	FUZZ_CHECK(count_findings(report, RINGSUM_FINDING_TENSOR_MISSING) == missing);
	FUZZ_CHECK(count_findings(report, RINGSUM_FINDING_TENSOR_UNEXPECTED) == unexpected);
	is_expected_good = has_codebook && !missing && !unexpected &&
			   count_findings(report, RINGSUM_FINDING_TENSOR_DUPLICATE) == 0 &&
			   linears_are_good(&required, &promised);
	FUZZ_CHECK(is_expected_good == (report->refusing_count == 0));
	for (size_t i = 0; i < manifest.promise_count && is_expected_good; i++)
		FUZZ_CHECK(!refused[i]);
	fuzz_check_report(report);
	free(refused);
	rsum_manifest_deinit(&manifest);
	ringsum_report_free(report);
	fuzz_text_deinit(&text);
}

/* ---- the input --------------------------------------------------------------------------- */

/* Takes what stands before the next separator, or all of it. */
static struct document take_document(struct fuzz_input *input)
{
	const uint8_t *found = memmem(input->data, input->left, SEPARATOR, strlen(SEPARATOR));
	struct document document = { (const char *)input->data, input->left };

	if (found)
		document.size = (size_t)(found - input->data);
	input->data += document.size;
	input->left -= document.size;
	if (found) {
		input->data += strlen(SEPARATOR);
		input->left -= strlen(SEPARATOR);
	}
	return document;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	struct document config = take_document(&input);
	struct document plan = take_document(&input);
	struct ringsum_report *report = rsum_report_new();
	struct rsum_profile_state state;
	bool is_small;

	if (config.size)
		check_config_document(&config);
	if (plan.size)
		check_plan_document(&plan);
	check_config(&state, config.size ? &config : NULL, plan.size ? &plan : NULL, report);
	/* A larger set takes too long for what it could show. */
	is_small = state.config_is_valid &&
		   rsum_profile_dspark_required_count(state.config.num_nextn_predict_layers,
						      state.config.dspark_n_routed_experts) <
			   ENTRIES_MAX / 4;
	if (is_small)
		check_promises(&state, &input);
	rsum_profile_state_deinit(&state);
	ringsum_report_free(report);
	return 0;
}
