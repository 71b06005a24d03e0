/* SPDX-License-Identifier: Apache-2.0 */
/* What a drafter's loader asks beyond tensors: EXL3 linears and the numbers of the config. */
#include "checkpoint.h"
#include "error.h"
#include "exl3.h"
#include "reading.h"
#include "uncached.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* mul1 is one word; whoever promises more than this is not describing a marker. */
#define MARKER_BYTES_MAX 4096

#define PREFIX_BYTES_MAX 4096

/* ---- EXL3 ------------------------------------------------------------------------------------ */

static int find_parts(const struct ringsum_checkpoint *checkpoint, const char *prefix,
		      uint32_t found[RSUM_EXL3_PART_COUNT], struct ringsum_error *err)
{
	char name[PREFIX_BYTES_MAX + 16];
	unsigned part;

	if (strlen(prefix) > PREFIX_BYTES_MAX)
		return rsum_error_set(err, RINGSUM_E_NOTFOUND, "no linear has so long a name");
	for (part = 0; part < RSUM_EXL3_PART_COUNT; part++) {
		snprintf(name, sizeof(name), "%s.%s", prefix, rsum_exl3_part_names[part]);
		found[part] = rsum_name_index_find(&checkpoint->manifest.by_name, name);
		if (found[part] == RSUM_NAME_INDEX_NONE)
			return rsum_error_set(err, RINGSUM_E_NOTFOUND,
					      "the manifest promises no tensor %.300s", name);
	}
	return RINGSUM_OK;
}

/* Opens the shard, which must be the file whose header was checked. */
static int open_same_shard(const struct ringsum_checkpoint *checkpoint, uint32_t shard_index,
			   int *fd_out, struct ringsum_error *err)
{
	const struct rsum_shard *shard = &checkpoint->shards[shard_index];
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int os_errno = 0;

	if (rsum_confine_open(&checkpoint->root, shard->name, fd_out, &identity, &os_errno,
			      &refusal) != RSUM_CONFINE_OK)
		return rsum_error_set(err, RINGSUM_E_UNDECIDED, "%.100s: %s", shard->name,
				      refusal.message);
	if (rsum_file_identity_equal(&identity, &shard->identity))
		return RINGSUM_OK;
	close(*fd_out);
	return rsum_error_set(err, RINGSUM_E_UNDECIDED,
			      "%.300s was changed since the checkpoint was opened", shard->name);
}

struct marker {
	uint8_t bytes[MARKER_BYTES_MAX];
	uint8_t digest[RSUM_SHA256_BYTES];
};

static int read_marker(int fd, bool is_uncached, const struct ringsum_tensor *tensor,
		       struct marker *out, struct ringsum_error *err)
{
	size_t size_bytes = (size_t)tensor->size_bytes;
	int result = rsum_uncached_read_at(fd, is_uncached, tensor->begin, out->bytes, size_bytes);

	if (result < 0)
		return rsum_error_set_errno(err, RINGSUM_E_UNDECIDED, -result,
					    "%.300s could not be read", tensor->name);
	result = rsum_sha256_of(out->bytes, size_bytes, out->digest);
	if (result != RINGSUM_OK)
		return rsum_error_set(err, result, "%.300s could not be hashed", tensor->name);
	return RINGSUM_OK;
}

static bool is_as_promised(const struct marker *marker, const struct ringsum_tensor *tensor)
{
	return memcmp(marker->digest, tensor->digest_sha256, sizeof(marker->digest)) == 0;
}

/* Reads what differs from the promise a second time, as every range is: storage may err. */
static int prove_marker(int fd, bool is_uncached, const struct ringsum_tensor *tensor,
			struct marker *out, struct ringsum_error *err)
{
	struct marker first;
	int result = read_marker(fd, is_uncached, tensor, out, err);

	if (result != RINGSUM_OK || is_as_promised(out, tensor))
		return result;
	first = *out;
	if (!is_uncached)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	result = read_marker(fd, is_uncached, tensor, out, err);
	if (result != RINGSUM_OK || is_as_promised(out, tensor))
		return result;
	if (memcmp(first.digest, out->digest, sizeof(first.digest)) != 0)
		return rsum_error_set(err, RINGSUM_E_UNDECIDED,
				      "%.300s: two readings differed from the promise and from "
				      "each other",
				      tensor->name);
	return rsum_error_set(err, RINGSUM_E_REFUSED,
			      "%.300s: the bytes on disk are not the bytes promised", tensor->name);
}

/* Reads the marker, proves it, and compares it with the codebook's. */
static int verify_marker(const struct ringsum_checkpoint *checkpoint, uint32_t promise_index,
			 struct ringsum_report *report, struct ringsum_error *err)
{
	const struct rsum_promise *promise = &checkpoint->manifest.promises[promise_index];
	const struct rsum_shard *shard = &checkpoint->shards[promise->file_index];
	const struct ringsum_tensor *tensor = &promise->tensor;
	struct rsum_file_identity identity;
	struct marker marker;
	int fd = -1, result;

	if (tensor->size_bytes > sizeof(marker.bytes))
		return rsum_error_set(err, RINGSUM_E_REFUSED, "%.300s is too large for a marker",
				      tensor->name);
	result = open_same_shard(checkpoint, promise->file_index, &fd, err);
	if (result != RINGSUM_OK)
		return result;
	result = prove_marker(fd, rsum_options_pass_cache(&checkpoint->options), tensor, &marker,
			      err);
	if (rsum_file_identify(fd, &identity) < 0 ||
	    !rsum_file_identity_equal(&identity, &shard->identity))
		result = rsum_error_set(err, RINGSUM_E_UNDECIDED,
					"%.300s was changed while it was read", shard->name);
	close(fd);
	if (result != RINGSUM_OK)
		return result;
	/* With profile none the rule holds all the same for who asks for a linear. */
	if (!rsum_marker_is_right(&rsum_profile_dspark_exl3, tensor, marker.bytes, report))
		return rsum_error_set(err, RINGSUM_E_REFUSED,
				      "%.300s: the marker is not that of the mul1 codebook",
				      tensor->name);
	return RINGSUM_OK;
}

/* What told which bytes to expect must still be what it was. */
static int check_documents(const struct ringsum_checkpoint *checkpoint,
			   struct ringsum_report *report, struct ringsum_error *err)
{
	const struct ringsum_finding *last;

	if (rsum_documents_are_unchanged(checkpoint, report))
		return RINGSUM_OK;
	if (report->finding_count == 0)
		return rsum_error_set(err, RINGSUM_E_UNDECIDED,
				      "the manifest or the config was changed meanwhile");
	last = &report->findings[report->finding_count - 1];
	return rsum_error_set(err, RINGSUM_E_UNDECIDED, "%.100s: %s", last->file, last->message);
}

RSUM_PUBLIC int ringsum_checkpoint_exl3(struct ringsum_checkpoint *checkpoint, const char *prefix,
					struct ringsum_exl3 *out, struct ringsum_error *err)
{
	const struct rsum_promise *promises;
	uint32_t found[RSUM_EXL3_PART_COUNT];
	struct ringsum_report *report = NULL;
	bool *refused = NULL;
	int result;

	if (!checkpoint || !prefix || !out)
		return rsum_error_set(err, RINGSUM_E_INVALID, "no checkpoint, prefix or place");
	result = find_parts(checkpoint, prefix, found, err);
	if (result != RINGSUM_OK)
		return result;
	report = rsum_report_new();
	refused = calloc(checkpoint->manifest.promise_count + 1, sizeof(*refused));
	if (!report || !refused) {
		result = rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for %.300s", prefix);
		goto out;
	}
	rsum_exl3_check(&checkpoint->manifest, found, refused, report);
	if (report->refusing_count > 0 || report->is_incomplete_for_memory) {
		result = rsum_error_set(err, RINGSUM_E_REFUSED, "%.200s: %s", prefix,
					report->finding_count ? report->findings[0].message
							      : "out of memory");
		goto out;
	}
	result = verify_marker(checkpoint, found[RSUM_EXL3_MUL1], report, err);
	if (result == RINGSUM_OK)
		result = check_documents(checkpoint, report, err);
	if (result != RINGSUM_OK)
		goto out;
	promises = checkpoint->manifest.promises;
	*out = (struct ringsum_exl3){
		.trellis = &promises[found[RSUM_EXL3_TRELLIS]].tensor,
		.suh = &promises[found[RSUM_EXL3_SUH]].tensor,
		.svh = &promises[found[RSUM_EXL3_SVH]].tensor,
		.mul1 = &promises[found[RSUM_EXL3_MUL1]].tensor,
	};
	out->in_features = out->suh->shape[0];
	out->out_features = out->svh->shape[0];
	out->k = out->trellis->shape[2] / 16;
out:
	ringsum_report_free(report);
	free(refused);
	return result;
}

/* ---- the config's numbers ---------------------------------------------------------------------- */

static const struct rsum_drafter_config *config_of(const struct ringsum_checkpoint *checkpoint)
{
	if (!checkpoint || !checkpoint->profile || !checkpoint->profile->needs_config ||
	    !checkpoint->profile_state.config_is_valid)
		return NULL;
	return &checkpoint->profile_state.config;
}

RSUM_PUBLIC int ringsum_checkpoint_drafter_shape(const struct ringsum_checkpoint *checkpoint,
						 struct ringsum_drafter_shape *out,
						 struct ringsum_error *err)
{
	const struct rsum_drafter_config *config = config_of(checkpoint);
	struct ringsum_drafter_shape shape;

	if (!out || out->size_bytes < sizeof(out->size_bytes))
		return rsum_error_set(err, RINGSUM_E_INVALID,
				      "size_bytes of the drafter shape is not set");
	if (!config)
		return rsum_error_set(err, RINGSUM_E_NOTFOUND,
				      "the profile is not dspark-exl3, so no config was read");
	shape = (struct ringsum_drafter_shape){
		.size_bytes = out->size_bytes,
		.hidden = config->hidden_size,
		.vocab = config->vocab_size,
		.n_heads = config->num_attention_heads,
		.head_dim = config->head_dim,
		.rope_dim = config->qk_rope_head_dim,
		.q_lora = config->q_lora_rank,
		.o_lora = config->o_lora_rank,
		.o_groups = config->o_groups,
		.inter = config->moe_intermediate_size,
		.n_experts = config->dspark_n_routed_experts,
		.top_k = config->dspark_num_experts_per_tok,
		.n_stages = config->num_nextn_predict_layers,
		.n_target_layers = config->num_hidden_layers,
		.window = config->sliding_window,
		.block = config->dspark_block_size,
		.noise_token = config->dspark_noise_token_id,
		.markov_rank = config->dspark_markov_rank,
		.hc_mult = config->hc_mult,
		.hc_iters = config->hc_sinkhorn_iters,
		.hc_eps = config->hc_eps,
		.rms_eps = config->rms_norm_eps,
		.swiglu_limit = config->swiglu_limit,
		.route_scale = config->routed_scaling_factor,
		.rope_theta = config->rope_theta,
		.taps = config->target_layer_ids,
		.tap_count = config->target_layer_count,
		.head_k = config->head_k,
	};
	memcpy(out, &shape, RSUM_MIN(out->size_bytes, sizeof(shape)));
	return RINGSUM_OK;
}

RSUM_PUBLIC int ringsum_checkpoint_drafter_k(const struct ringsum_checkpoint *checkpoint,
					     size_t index, const char **name_out, int64_t *k_out)
{
	const struct rsum_drafter_config *config = config_of(checkpoint);

	if (!config || index >= config->dense_k_count)
		return RINGSUM_E_NOTFOUND;
	*name_out = config->dense_k[index].name;
	*k_out = config->dense_k[index].k;
	return RINGSUM_OK;
}
