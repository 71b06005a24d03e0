/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile dspark-exl3 and its documents: rules C1 to C5 on config.json and exl3_moe_plan.json,
 * as tables of keys. What follows from a config for tensors is in profile_dspark.c.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "profile.h"
#include "rsum_limits.h"

/* ---- rules for a document ------------------------------------------------------------------ */

enum key_kind {
	KEY_UINT,
	KEY_REAL,
	KEY_UINT_LIST,
	KEY_RATIOS,
	KEY_TRUE,
	KEY_TEXT,
	KEY_INT_MAP,
	KEY_OBJECT,
};

/* What later checks need to know to have been read well. */
enum known {
	KNOWN_LAYERS = 1,
	KNOWN_STAGES = 2,
	KNOWN_EXPERTS = 4,
	KNOWN_RATIOS = 8,
};

struct key_rule {
	const char *name; /* NULL ends a table */
	enum key_kind kind;
	size_t offset;			 /* of a KEY_UINT or KEY_REAL in the drafter config */
	const char *text;		 /* of a KEY_TEXT: what it must be */
	const struct key_rule *children; /* of a KEY_OBJECT */
	unsigned known;
};

#define UINT_RULE(member)                                                                \
	{                                                                                \
#member, KEY_UINT, offsetof(struct rsum_drafter_config, member), 0, 0, 0 \
	}
#define KNOWN_RULE(member, known)                                                            \
	{                                                                                    \
#member, KEY_UINT, offsetof(struct rsum_drafter_config, member), 0, 0, known \
	}
#define REAL_RULE(member)                                                                \
	{                                                                                \
#member, KEY_REAL, offsetof(struct rsum_drafter_config, member), 0, 0, 0 \
	}
#define TEXT_RULE(name, text)                 \
	{                                     \
		name, KEY_TEXT, 0, text, 0, 0 \
	}
#define OBJECT_RULE(name, children)                 \
	{                                           \
		name, KEY_OBJECT, 0, 0, children, 0 \
	}

static const struct key_rule text_config_rules[] = {
	/* C1 */
	KNOWN_RULE(num_hidden_layers, KNOWN_LAYERS),
	KNOWN_RULE(num_nextn_predict_layers, KNOWN_STAGES),
	UINT_RULE(hidden_size),
	UINT_RULE(vocab_size),
	UINT_RULE(num_attention_heads),
	UINT_RULE(head_dim),
	UINT_RULE(qk_rope_head_dim),
	UINT_RULE(q_lora_rank),
	UINT_RULE(o_lora_rank),
	UINT_RULE(o_groups),
	UINT_RULE(moe_intermediate_size),
	KNOWN_RULE(dspark_n_routed_experts, KNOWN_EXPERTS),
	UINT_RULE(dspark_num_experts_per_tok),
	UINT_RULE(sliding_window),
	UINT_RULE(dspark_block_size),
	UINT_RULE(dspark_noise_token_id),
	UINT_RULE(dspark_markov_rank),
	UINT_RULE(hc_mult),
	UINT_RULE(hc_sinkhorn_iters),
	REAL_RULE(hc_eps),
	REAL_RULE(rms_norm_eps),
	REAL_RULE(swiglu_limit),
	REAL_RULE(routed_scaling_factor),
	REAL_RULE(rope_theta),
	{ "dspark_target_layer_ids", KEY_UINT_LIST, 0, 0, 0, 0 },
	{ "compress_ratios", KEY_RATIOS, 0, 0, 0, KNOWN_RATIOS },
	/* C3 */
	TEXT_RULE("scoring_func", "sqrtsoftplus"),
	TEXT_RULE("topk_method", "noaux_tc"),
	{ "norm_topk_prob", KEY_TRUE, 0, 0, 0, 0 },
	TEXT_RULE("hidden_act", "silu"),
	{ 0 },
};
static_assert(RSUM_COUNT_OF(text_config_rules) <= 64, "one bit for each rule");

/* C4 */
static const struct key_rule dense_rules[] = {
	{ "drafter", KEY_INT_MAP, 0, 0, 0, 0 },
	{ 0 },
};

static const struct key_rule exl3_moe_rules[] = {
	TEXT_RULE("exllamav3_version", "1.6.0"),
	TEXT_RULE("head", "exl3"),
	UINT_RULE(head_k),
	OBJECT_RULE("dense", dense_rules),
	{ 0 },
};

static const struct key_rule quantization_rules[] = {
	TEXT_RULE("quant_method", "deepseek_v41_exl3"),
	OBJECT_RULE("exl3_moe", exl3_moe_rules),
	{ 0 },
};

static const struct key_rule config_rules[] = {
	OBJECT_RULE("text_config", text_config_rules),
	OBJECT_RULE("quantization_config", quantization_rules),
	{ 0 },
};

/* C5; the manifest's own codebook is looked at with the promises. */
static const struct key_rule plan_rules[] = {
	TEXT_RULE("codebook", RSUM_DSPARK_CODEBOOK),
	{ 0 },
};

/* ---- reading a document by its rules ------------------------------------------------------- */

#define PATH_BYTES 192 /* of a dotted key */

/* Whole numbers in memory from malloc. */
struct number_list {
	uint64_t *numbers;
	size_t count;
	size_t capacity;
};

struct reader {
	struct rsum_json json;
	const char *text;
	size_t text_bytes;
	const char *file_name;
	enum ringsum_finding_code code;
	struct rsum_profile_state *state;
	struct ringsum_report *report;
	struct number_list ratios;
	unsigned known;
};

static void add_key_finding(const struct reader *reader, const char *path, const char *expected,
			    const char *actual, const char *problem)
{
	char message[PATH_BYTES + 384];

	snprintf(message, sizeof(message), "%s %s; get the %s that belongs to this delivery", path,
		 problem, reader->file_name);
	rsum_report_add(reader->report, &(struct ringsum_finding){
						.code = reader->code,
						.file = reader->file_name,
						.expected = expected,
						.actual = actual,
						.message = message,
					});
}

/* Complains of a value and reads past it. */
static int refuse_value(struct reader *reader, const char *path, const char *expected,
			const struct rsum_json_token *token)
{
	char actual[128];

	rsum_manifest_describe_token(reader->text, reader->text_bytes, token, actual,
				     sizeof(actual));
	add_key_finding(reader, path, expected, actual, "is not what profile dspark-exl3 requires");
	return rsum_json_skip(&reader->json, token);
}

static bool push_number(struct number_list *list, uint64_t number)
{
	if (list->count == list->capacity) {
		size_t capacity = RSUM_MAX(list->capacity * 2, (size_t)64);
		uint64_t *numbers = realloc(list->numbers, capacity * sizeof(*numbers));

		if (!numbers)
			return false;
		list->numbers = numbers;
		list->capacity = capacity;
	}
	list->numbers[list->count++] = number;
	return true;
}

/* Reads a list of whole numbers, signs dropped. *is_good_out where all of them were so. */
static int read_list(struct reader *reader, const char *path, const struct rsum_json_token *first,
		     bool may_be_negative, struct number_list *list, bool *is_good_out)
{
	struct rsum_json_token token;
	char element[PATH_BYTES + 32];
	bool is_good = true;
	int ret;

	if (first->type != RSUM_JSON_ARRAY_BEGIN)
		return refuse_value(reader, path, "a list of whole numbers", first);
	for (;;) {
		ret = rsum_json_next(&reader->json, &token);
		if (ret)
			return ret;
		if (token.type == RSUM_JSON_ARRAY_END)
			break;
		if (token.type != RSUM_JSON_NUMBER || !token.is_integer ||
		    (token.is_negative && !may_be_negative)) {
			snprintf(element, sizeof(element), "%s[%zu]", path, list->count);
			ret = refuse_value(reader, element, "a whole number", &token);
			if (ret)
				return ret;
			is_good = false;
		}
		if (!push_number(list, token.magnitude))
			return RINGSUM_E_NOMEM;
	}
	*is_good_out = is_good;
	return 0;
}

static int read_target_layers(struct reader *reader, const char *path,
			      const struct rsum_json_token *first)
{
	struct rsum_drafter_config *config = &reader->state->config;
	struct number_list list = { 0 };
	bool is_good = false;
	int ret = read_list(reader, path, first, false, &list, &is_good);

	if (!ret && is_good && list.count > 0) {
		config->target_layer_ids =
			rsum_arena_alloc(&reader->state->arena, list.count * sizeof(uint64_t));
		if (config->target_layer_ids) {
			memcpy(config->target_layer_ids, list.numbers,
			       list.count * sizeof(uint64_t));
			config->target_layer_count = list.count;
		} else {
			ret = RINGSUM_E_NOMEM;
		}
	}
	free(list.numbers);
	return ret;
}

static bool token_to_int64(const struct rsum_json_token *token, int64_t *number_out)
{
	uint64_t limit = (uint64_t)INT64_MAX + (token->is_negative ? 1 : 0);

	if (token->type != RSUM_JSON_NUMBER || !token->is_integer || token->magnitude > limit)
		return false;
	*number_out = (int64_t)(token->is_negative ? -token->magnitude : token->magnitude);
	return true;
}

/* Reads one pair of a map; 1 at its end. */
static int read_map_pair(struct reader *reader, const char *path, struct rsum_drafter_k *pair,
			 bool *is_good_out)
{
	struct rsum_json_token key, value;
	char name[64], full[PATH_BYTES + 96];
	int ret = rsum_json_next(&reader->json, &key);

	if (ret || key.type == RSUM_JSON_OBJECT_END)
		return ret ? ret : 1;
	ret = rsum_json_next(&reader->json, &value);
	if (ret)
		return ret;
	snprintf(full, sizeof(full), "%s.%s", path,
		 rsum_text_shorten(key.string, name, sizeof(name)));
	*is_good_out = false;
	if (!token_to_int64(&value, &pair->k))
		return refuse_value(reader, full, "a whole number of 64 bits", &value);
	if (strlen(key.string) != key.length) {
		add_key_finding(reader, full, "a key without NUL", "a key with NUL inside",
				"is not what profile dspark-exl3 requires");
		return 0;
	}
	pair->name = rsum_arena_copy(&reader->state->arena, key.string, key.length);
	*is_good_out = true;
	return pair->name ? 0 : RINGSUM_E_NOMEM;
}

static int keep_map(struct reader *reader, const struct rsum_drafter_k *pairs, size_t count)
{
	struct rsum_drafter_config *config = &reader->state->config;

	if (count == 0)
		return 0;
	config->dense_k = rsum_arena_alloc(&reader->state->arena, count * sizeof(*pairs));
	if (!config->dense_k)
		return RINGSUM_E_NOMEM;
	memcpy(config->dense_k, pairs, count * sizeof(*pairs));
	config->dense_k_count = count;
	return 0;
}

static int read_map(struct reader *reader, const char *path, const struct rsum_json_token *first)
{
	struct rsum_drafter_k *pairs = NULL, *grown, pair;
	size_t count = 0, capacity = 0;
	bool is_good;
	int ret;

	if (first->type != RSUM_JSON_OBJECT_BEGIN)
		return refuse_value(reader, path, "an object of whole numbers", first);
	for (;;) {
		ret = read_map_pair(reader, path, &pair, &is_good);
		if (ret)
			break;
		if (!is_good)
			continue;
		if (count == capacity) {
			capacity = RSUM_MAX(capacity * 2, (size_t)16);
			grown = realloc(pairs, capacity * sizeof(*pairs));
			if (!grown) {
				ret = RINGSUM_E_NOMEM;
				break;
			}
			pairs = grown;
		}
		pairs[count++] = pair;
	}
	if (ret == 1)
		ret = keep_map(reader, pairs, count);
	free(pairs);
	return ret;
}

static int read_object(struct reader *reader, const struct key_rule *rules, const char *path,
		       const struct rsum_json_token *first);

/* Reads one value by its rule; whatever it is, exactly that value. */
static int read_by_rule(struct reader *reader, const struct key_rule *rule, const char *path,
			const struct rsum_json_token *token)
{
	char *member = (char *)&reader->state->config + rule->offset;
	bool is_good = false;
	int ret;

	switch (rule->kind) {
	case KEY_UINT:
		if (!rsum_manifest_token_is_unsigned(token))
			return refuse_value(reader, path, "a whole number, not negative", token);
		memcpy(member, &token->magnitude, sizeof(token->magnitude));
		reader->known |= rule->known;
		return 0;
	case KEY_REAL:
		/* Written so that infinity (1e999) is refused as well. */
		if (token->type != RSUM_JSON_NUMBER || !(token->real - token->real == 0))
			return refuse_value(reader, path, "a finite number", token);
		memcpy(member, &token->real, sizeof(token->real));
		return 0;
	case KEY_UINT_LIST:
		return read_target_layers(reader, path, token);
	case KEY_RATIOS:
		ret = read_list(reader, path, token, true, &reader->ratios, &is_good);
		if (!ret && is_good)
			reader->known |= rule->known;
		return ret;
	case KEY_TRUE:
		return token->type == RSUM_JSON_TRUE ? 0
						     : refuse_value(reader, path, "true", token);
	case KEY_TEXT:
		if (token->type == RSUM_JSON_STRING && rsum_json_equals(token, rule->text))
			return 0;
		return refuse_value(reader, path, rule->text, token);
	case KEY_INT_MAP:
		return read_map(reader, path, token);
	default:
		return read_object(reader, rule->children, path, token);
	}
}

static void path_join(char path[PATH_BYTES], const char *parent, const char *name)
{
	snprintf(path, PATH_BYTES, "%s%s%s", parent, *parent ? "." : "", name);
}

/* Every rule is met, or has a finding under its dotted name. Keys without a rule are ignored. */
static int read_object(struct reader *reader, const struct key_rule *rules, const char *parent,
		       const struct rsum_json_token *first)
{
	struct rsum_json_token key, value;
	char path[PATH_BYTES];
	uint64_t seen = 0;
	size_t i;
	int ret;

	if (first->type != RSUM_JSON_OBJECT_BEGIN)
		return refuse_value(reader, *parent ? parent : "the document", "an object", first);
	for (;;) {
		ret = rsum_json_next(&reader->json, &key);
		if (ret)
			return ret;
		if (key.type == RSUM_JSON_OBJECT_END)
			break;
		ret = rsum_json_next(&reader->json, &value);
		if (ret)
			return ret;
		for (i = 0; rules[i].name && !rsum_json_equals(&key, rules[i].name); i++)
			;
		if (rules[i].name) {
			seen |= UINT64_C(1) << i;
			path_join(path, parent, rules[i].name);
			ret = read_by_rule(reader, &rules[i], path, &value);
		} else {
			ret = rsum_json_skip(&reader->json, &value);
		}
		if (ret)
			return ret;
	}
	for (i = 0; rules[i].name; i++) {
		if (seen & UINT64_C(1) << i)
			continue;
		path_join(path, parent, rules[i].name);
		add_key_finding(reader, path, rules[i].text, "no such key", "is missing");
	}
	return 0;
}

/* Returns 0 where the document was read to its end (faults are findings), or NOMEM. */
static int read_document(struct reader *reader, char *text, size_t text_bytes,
			 const struct key_rule *rules)
{
	struct rsum_json_token token;
	char problem[320], reason[256];
	int ret;

	reader->text = text;
	reader->text_bytes = text_bytes;
	if (text_bytes > RSUM_LIMIT_CONFIG_BYTES) {
		add_key_finding(reader, "the document", "at most 16 MiB (limit)", NULL,
				"is too large to be read");
		return 0;
	}
	ret = rsum_json_init(&reader->json, text, text_bytes, RSUM_LIMIT_JSON_DEPTH);
	if (!ret)
		ret = rsum_json_next(&reader->json, &token);
	if (!ret)
		ret = read_object(reader, rules, "", &token);
	if (!ret)
		ret = rsum_json_next(&reader->json, &token); /* nothing but blanks may follow */
	if (ret == RINGSUM_E_REFUSED || ret == RINGSUM_E_LIMIT) {
		snprintf(problem, sizeof(problem), "is unusable at byte %zu: %s",
			 reader->json.error_offset,
			 rsum_manifest_describe_refusal(&reader->json, reader->file_name, reason,
							sizeof(reason)));
		add_key_finding(reader, "the document", NULL, NULL, problem);
		reader->known = 0; /* half a document says nothing */
		ret = 0;
	}
	rsum_json_deinit(&reader->json);
	return ret;
}
static_assert(RSUM_LIMIT_CONFIG_BYTES == UINT64_C(16) << 20, "as the message above says");

/* ---- C1 to C5 ------------------------------------------------------------------------------ */

/* C2: compress_ratios[layers : layers + stages] is exactly `stages` zeros. */
static void check_ratios(const struct reader *reader)
{
	const struct number_list *ratios = &reader->ratios;
	uint64_t layers = reader->state->config.num_hidden_layers;
	uint64_t stages = reader->state->config.num_nextn_predict_layers;
	char expected[96], actual[96];

	/* 40 layers and 3 stages need elements 40, 41 and 42. No sum here can overflow. */
	snprintf(expected, sizeof(expected), "%" PRIu64 " zeros from element %" PRIu64, stages,
		 layers);
	if (layers > ratios->count || stages > ratios->count - layers) {
		snprintf(actual, sizeof(actual), "%zu elements in all", ratios->count);
		add_key_finding(reader, "text_config.compress_ratios", expected, actual,
				"ends before the drafter's stages do");
		return;
	}
	for (uint64_t i = layers; i < layers + stages; i++) {
		if (ratios->numbers[i] == 0)
			continue;
		snprintf(actual, sizeof(actual), "element %" PRIu64 " of magnitude %" PRIu64, i,
			 ratios->numbers[i]);
		add_key_finding(reader, "text_config.compress_ratios", expected, actual,
				"says that a drafter stage is no pure sliding-window layer");
	}
}

static bool check_limit(const struct reader *reader, const char *path, uint64_t number,
			uint64_t limit)
{
	char expected[64], actual[32];

	if (number >= 1 && number <= limit)
		return true;
	snprintf(expected, sizeof(expected), "1 to %" PRIu64 " (limit)", limit);
	snprintf(actual, sizeof(actual), "%" PRIu64, number);
	add_key_finding(reader, path, expected, actual, "is out of range");
	return false;
}

/* Whether the required set can be derived; everything that stands against it has a finding. */
static bool check_counts(const struct reader *reader)
{
	uint64_t stages = reader->state->config.num_nextn_predict_layers;
	uint64_t experts = reader->state->config.dspark_n_routed_experts;
	bool is_good = (reader->known & KNOWN_STAGES) && (reader->known & KNOWN_EXPERTS);
	char actual[64];

	if (reader->known & KNOWN_STAGES)
		is_good &= check_limit(reader, "text_config.num_nextn_predict_layers", stages,
				       RSUM_LIMIT_STAGES);
	if (reader->known & KNOWN_EXPERTS)
		is_good &= check_limit(reader, "text_config.dspark_n_routed_experts", experts,
				       RSUM_LIMIT_EXPERTS);
	if (!is_good || rsum_profile_dspark_required_count(stages, experts) <= RSUM_LIMIT_TENSORS)
		return is_good;
	snprintf(actual, sizeof(actual), "%" PRIu64,
		 rsum_profile_dspark_required_count(stages, experts));
	add_key_finding(reader, "text_config.dspark_n_routed_experts",
			"at most 4000000 tensors in all stages (limit)", actual,
			"requires too many tensors");
	return false;
}
static_assert(RSUM_LIMIT_TENSORS == 4000000, "as the message above says");

int rsum_profile_dspark_check_config(struct rsum_profile_state *state, char *config,
				     size_t config_bytes, char *plan, size_t plan_bytes,
				     struct ringsum_report *report)
{
	struct reader reader = {
		.file_name = RSUM_CONFIG_FILE,
		.code = RINGSUM_FINDING_CONFIG_INVALID,
		.state = state,
		.report = report,
	};
	const unsigned for_ratios = KNOWN_LAYERS | KNOWN_STAGES | KNOWN_RATIOS;
	int ret = 0;

	state->config_is_valid = false;
	if (config) {
		ret = read_document(&reader, config, config_bytes, config_rules);
		if (!ret && (reader.known & for_ratios) == for_ratios)
			check_ratios(&reader);
		state->config_is_valid = !ret && check_counts(&reader);
	}
	free(reader.ratios.numbers);
	if (ret || !plan)
		return ret;
	reader = (struct reader){
		.file_name = RSUM_PLAN_FILE,
		.code = RINGSUM_FINDING_PLAN_INVALID,
		.state = state,
		.report = report,
	};
	return read_document(&reader, plan, plan_bytes, plan_rules);
}
