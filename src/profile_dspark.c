/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile dspark-exl3: what a DSpark drafter delivery requires of its tensors. The set of
 * names that follows from the config (M2, M3), the manifest's codebook (C5), and that every EXL3
 * linear in it is one. The set comes from the config, never from the manifest, so that a manifest
 * that lost or gained tensors is caught too.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "exl3.h"
#include "profile.h"
#include "rsum_limits.h"

#define MANIFEST_FILE "TENSORS.json"
#define EXTRA_NAME "norm.weight" /* the target's own: allowed, not required */
#define NAME_BYTES 96		 /* of a required name, or of a linear's prefix */

struct check {
	const struct rsum_manifest *manifest;
	struct ringsum_report *report;
	bool *required; /* one for each promise: the config asks for it */
	bool *refused;	/* one for each promise: it is at fault */
};

static bool dtype_is_allowed(enum ringsum_dtype dtype)
{
	switch (dtype) {
	case RINGSUM_DTYPE_BF16:
	case RINGSUM_DTYPE_F16:
	case RINGSUM_DTYPE_F32:
	case RINGSUM_DTYPE_I16:
	case RINGSUM_DTYPE_I32:
	case RINGSUM_DTYPE_F8_E4M3:
	case RINGSUM_DTYPE_F8_E8M0:
		return true;
	default:
		return false;
	}
}

/* Any `mul1` of any linear, required or not: who promises one promises its marker. */
static bool marker_of(const char *name, uint32_t *word_out)
{
	const char *dot = strrchr(name, '.');

	if (strcmp(dot ? dot + 1 : name, "mul1") != 0)
		return false;
	*word_out = RSUM_EXL3_MUL1_WORD;
	return true;
}

/* C5 */
static void check_codebook(const struct check *check)
{
	const struct rsum_manifest *manifest = check->manifest;
	char actual[64] = "none";

	if (manifest->codebook && strcmp(manifest->codebook, RSUM_DSPARK_CODEBOOK) == 0)
		return;
	if (manifest->codebook)
		rsum_text_shorten(manifest->codebook, actual, sizeof(actual));
	else if (manifest->codebook_found)
		rsum_text_shorten(manifest->codebook_found, actual, sizeof(actual));
	rsum_report_add(
		check->report,
		&(struct ringsum_finding){
			.code = RINGSUM_FINDING_MANIFEST_INVALID,
			.file = MANIFEST_FILE,
			.expected = RSUM_DSPARK_CODEBOOK,
			.actual = actual,
			.message = "codebook is not mul1, which profile dspark-exl3 requires",
		});
}

/* ---- the required set --------------------------------------------------------------------- */

/* Looks a required name up: the promise's index, or NONE with a finding. */
static uint32_t require(const struct check *check, const char *name)
{
	uint32_t index = rsum_name_index_find(&check->manifest->by_name, name);

	if (index != RSUM_NAME_INDEX_NONE) {
		check->required[index] = true;
		return index;
	}
	rsum_report_add(check->report, &(struct ringsum_finding){
					       .code = RINGSUM_FINDING_TENSOR_MISSING,
					       .tensor = name,
					       .file = MANIFEST_FILE,
					       .expected = "a promise",
					       .actual = "none",
					       .message = "config.json requires this tensor, and "
							  "the manifest does not promise it",
				       });
	return index;
}

RSUM_PRINTF(2, 3)
static void require_tensor(const struct check *check, const char *format, ...)
{
	char name[NAME_BYTES];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	RSUM_ASSERT(length > 0 && (size_t)length < sizeof(name));
	require(check, name);
}

RSUM_PRINTF(2, 3)
static void require_linear(const struct check *check, const char *format, ...)
{
	char name[NAME_BYTES];
	uint32_t found[RSUM_EXL3_PART_COUNT];
	va_list args;
	int length, added;

	va_start(args, format);
	length = vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	RSUM_ASSERT(length > 0 && (size_t)length < sizeof(name));
	for (unsigned part = 0; part < RSUM_EXL3_PART_COUNT; part++) {
		size_t left = sizeof(name) - (size_t)length;

		added = snprintf(name + length, left, ".%s", rsum_exl3_part_names[part]);
		RSUM_ASSERT(added > 0 && (size_t)added < left);
		found[part] = require(check, name);
	}
	rsum_exl3_check(check->manifest, found, check->refused, check->report);
}

static void require_stage(const struct check *check, uint64_t stage, uint64_t experts)
{
	static const char *const linears[] = {
		"attn.wq_a",
		"attn.wkv",
		"attn.wq_b",
		"attn.wo_b",
		"ffn.shared_experts.w1",
		"ffn.shared_experts.w2",
		"ffn.shared_experts.w3",
	};
	static const char *const tensors[] = {
		"attn.wo_a.weight",    "attn.wo_a.scale",  "attn.attn_sink",  "attn.q_norm.weight",
		"attn.kv_norm.weight", "attn_norm.weight", "ffn_norm.weight", "ffn.gate.weight",
		"ffn.gate.bias",       "ffn.gate.bias_vl", "hc_attn_fn",      "hc_attn_base",
		"hc_attn_scale",       "hc_ffn_fn",	   "hc_ffn_base",     "hc_ffn_scale",
	};

	for (size_t i = 0; i < RSUM_COUNT_OF(linears); i++)
		require_linear(check, "mtp.%" PRIu64 ".%s", stage, linears[i]);
	for (size_t i = 0; i < RSUM_COUNT_OF(tensors); i++)
		require_tensor(check, "mtp.%" PRIu64 ".%s", stage, tensors[i]);
	for (uint64_t expert = 0; expert < experts; expert++)
		for (unsigned w = 1; w <= 3; w++)
			require_linear(check, "mtp.%" PRIu64 ".ffn.experts.%" PRIu64 ".w%u", stage,
				       expert, w);
}

/* embed 1, head 4, main_proj 4, main_norm 1, last stage 4; a stage has 7 linears and 16 more. */
uint64_t rsum_profile_dspark_required_count(uint64_t stages, uint64_t experts)
{
	return 14 + stages * (7 * RSUM_EXL3_PART_COUNT + 16 + experts * 3 * RSUM_EXL3_PART_COUNT);
}

static void require_all(const struct check *check, const struct rsum_drafter_config *config)
{
	uint64_t stages = config->num_nextn_predict_layers;
	uint64_t last = stages - 1;

	RSUM_ASSERT(stages >= 1 && stages <= RSUM_LIMIT_STAGES);
	require_tensor(check, "embed.weight");
	require_linear(check, "head");
	for (uint64_t stage = 0; stage < stages; stage++)
		require_stage(check, stage, config->dspark_n_routed_experts);
	require_linear(check, "mtp.0.main_proj");
	require_tensor(check, "mtp.0.main_norm.weight");
	require_tensor(check, "mtp.%" PRIu64 ".norm.weight", last);
	require_tensor(check, "mtp.%" PRIu64 ".markov_head.embed.weight", last);
	require_tensor(check, "mtp.%" PRIu64 ".markov_head.head.weight", last);
	require_tensor(check, "mtp.%" PRIu64 ".confidence_head.proj.weight", last);
}

/* M3 */
static void refuse_unexpected(const struct check *check)
{
	const struct rsum_manifest *manifest = check->manifest;

	for (size_t i = 0; i < manifest->promise_count; i++) {
		const struct ringsum_tensor *tensor = &manifest->promises[i].tensor;

		/* An entry without a usable name is refused already, and so is a second one. */
		if (check->required[i] || !*tensor->name || strcmp(tensor->name, EXTRA_NAME) == 0 ||
		    rsum_name_index_find(&manifest->by_name, tensor->name) != i)
			continue;
		check->refused[i] = true;
		rsum_report_add(check->report,
				&(struct ringsum_finding){
					.code = RINGSUM_FINDING_TENSOR_UNEXPECTED,
					.tensor = tensor->name,
					.file = MANIFEST_FILE,
					.expected = "only what config.json requires",
					.message = "the manifest promises a tensor that the "
						   "drafter has no place for",
				});
	}
}

static int check_promises(const struct rsum_profile_state *state,
			  const struct rsum_manifest *manifest, bool *refused,
			  struct ringsum_report *report)
{
	struct check check = { .manifest = manifest, .report = report, .refused = refused };

	check_codebook(&check);
	/* Without a set to compare with there is no telling; the config's findings refuse. */
	if (!state->config_is_valid)
		return 0;
	check.required = calloc(manifest->promise_count + 1, sizeof(*check.required));
	if (!check.required)
		return RINGSUM_E_NOMEM;
	require_all(&check, &state->config);
	refuse_unexpected(&check);
	free(check.required);
	return 0;
}

const struct rsum_profile rsum_profile_dspark_exl3 = {
	.name = "dspark-exl3",
	.header_limit_bytes = RSUM_LIMIT_HEADER_DRAFTER_BYTES,
	.needs_config = true,
	.dtype_is_allowed = dtype_is_allowed,
	.check_config = rsum_profile_dspark_check_config,
	.check_promises = check_promises,
	.marker_of = marker_of,
};
