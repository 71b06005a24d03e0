/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of checkpoint requires beyond its manifest: one table row per profile. */
#ifndef RSUM_PROFILE_H
#define RSUM_PROFILE_H

#include "arena.h"
#include "base.h"
#include "manifest.h"
#include "report.h"
#include "ringsum.h"

/* The files beside the manifest that a profile reads; NULL where the profile needs none. */
#define RSUM_CONFIG_FILE "config.json"
#define RSUM_PLAN_FILE "exl3_moe_plan.json"

/* The C1 numbers. Names as in config.json. */
struct rsum_drafter_config {
	uint64_t num_hidden_layers, num_nextn_predict_layers, hidden_size, vocab_size;
	uint64_t num_attention_heads, head_dim, qk_rope_head_dim, q_lora_rank, o_lora_rank,
		o_groups;
	uint64_t moe_intermediate_size, dspark_n_routed_experts, dspark_num_experts_per_tok;
	uint64_t sliding_window, dspark_block_size, dspark_noise_token_id, dspark_markov_rank;
	uint64_t hc_mult, hc_sinkhorn_iters;
	double hc_eps, rms_norm_eps, swiglu_limit, routed_scaling_factor, rope_theta;
	uint64_t *target_layer_ids; /* dspark_target_layer_ids */
	size_t target_layer_count;
	uint64_t head_k;		/* quantization_config.exl3_moe.head_k */
	struct rsum_drafter_k *dense_k; /* quantization_config.exl3_moe.dense.drafter */
	size_t dense_k_count;
};

struct rsum_drafter_k {
	const char *name;
	int64_t k;
};

/* All zero is the empty state. */
struct rsum_profile_state {
	struct rsum_arena arena;
	struct rsum_drafter_config config;
	bool config_is_valid; /* stages and experts are known and within limits */
};

struct rsum_profile {
	const char *name; /* as in options and reports */
	uint64_t header_limit_bytes;
	bool needs_config; /* reads RSUM_CONFIG_FILE and RSUM_PLAN_FILE */
	bool (*dtype_is_allowed)(enum ringsum_dtype dtype);
	/*
	 * Checks config and plan documents (malloc'ed texts that stay the caller's and are
	 * consumed; NULL where the file could not be read, which has its finding already).
	 * All faults go to the report. Returns 0 or RINGSUM_E_NOMEM.
	 */
	int (*check_config)(struct rsum_profile_state *state, char *config, size_t config_bytes,
			    char *plan, size_t plan_bytes, struct ringsum_report *report);
	/*
	 * Checks the promises against what the config requires (names, shapes of linears). A
	 * promise that is at fault has its bit set in `refused` (one bool per promise).
	 */
	int (*check_promises)(const struct rsum_profile_state *state,
			      const struct rsum_manifest *manifest, bool *refused,
			      struct ringsum_report *report);
	/*
	 * Whether the first 4 bytes of a tensor must be a given little-endian word (rule E3).
	 * True and *word_out for such a tensor.
	 */
	bool (*marker_of)(const char *name, uint32_t *word_out);
};

extern const struct rsum_profile rsum_profile_none;
extern const struct rsum_profile rsum_profile_dspark_exl3;

/* The profile that applies to a manifest under an option. */
const struct rsum_profile *rsum_profile_choose(enum ringsum_profile option,
					       const struct rsum_manifest *manifest);

/* ---- between the files of the profile dspark-exl3 ---- */

#define RSUM_DSPARK_CODEBOOK "mul1"

/* check_config of the profile. */
RSUM_MUST_CHECK int rsum_profile_dspark_check_config(struct rsum_profile_state *state, char *config,
						     size_t config_bytes, char *plan,
						     size_t plan_bytes,
						     struct ringsum_report *report);

/* Names that a config requires; stages and experts are below 2^20. */
uint64_t rsum_profile_dspark_required_count(uint64_t stages, uint64_t experts);

/* ---- */

void rsum_profile_state_deinit(struct rsum_profile_state *state);

#endif
