/* SPDX-License-Identifier: Apache-2.0 */
/* Which profile applies, and the profile that requires nothing beyond the manifest. */
#include "profile.h"

#include "rsum_limits.h"

static bool any_dtype_is_allowed(enum ringsum_dtype dtype)
{
	return (unsigned)dtype < RINGSUM_DTYPE_COUNT;
}

static int check_no_config(struct rsum_profile_state *state, char *config, size_t config_bytes,
			   char *plan, size_t plan_bytes, struct ringsum_report *report)
{
	(void)state, (void)config, (void)config_bytes, (void)plan, (void)plan_bytes, (void)report;
	return 0;
}

static int check_no_promises(const struct rsum_profile_state *state,
			     const struct rsum_manifest *manifest, bool *refused,
			     struct ringsum_report *report)
{
	(void)state, (void)manifest, (void)refused, (void)report;
	return 0;
}

static bool no_marker(const char *name, uint32_t *word_out)
{
	(void)name, (void)word_out;
	return false;
}

const struct rsum_profile rsum_profile_none = {
	.name = "none",
	.header_limit_bytes = RSUM_LIMIT_HEADER_BYTES,
	.needs_config = false,
	.dtype_is_allowed = any_dtype_is_allowed,
	.check_config = check_no_config,
	.check_promises = check_no_promises,
	.marker_of = no_marker,
};

const struct rsum_profile *rsum_profile_choose(enum ringsum_profile option,
					       const struct rsum_manifest *manifest)
{
	switch (option) {
	case RINGSUM_PROFILE_NONE:
		return &rsum_profile_none;
	case RINGSUM_PROFILE_DSPARK_EXL3:
		return &rsum_profile_dspark_exl3;
	default:
		/* The manifest decides, never config.json, which no promise covers. */
		return manifest->has_codebook ? &rsum_profile_dspark_exl3 : &rsum_profile_none;
	}
}

void rsum_profile_state_deinit(struct rsum_profile_state *state)
{
	rsum_arena_deinit(&state->arena);
	*state = (struct rsum_profile_state){ 0 };
}
