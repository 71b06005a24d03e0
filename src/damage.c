/* SPDX-License-Identifier: Apache-2.0 */
/* Zeros, bytes of another tensor, and where a shard was cut off. Knows nothing of reading. */
#include "damage.h"

#include <string.h>

#include "report.h"

#define BLOCK_BYTES ((size_t)4096)
#define NAME_SHOWN_BYTES 160

static const char *const looks_names[RINGSUM_LOOKS_COUNT] = {
	[RINGSUM_LOOKS_UNKNOWN] = "unknown",	 [RINGSUM_LOOKS_ZERO] = "zero",
	[RINGSUM_LOOKS_ZERO_TAIL] = "zero-tail", [RINGSUM_LOOKS_OTHER_TENSOR] = "other-tensor",
	[RINGSUM_LOOKS_TRUNCATED] = "truncated", [RINGSUM_LOOKS_ABSENT] = "absent",
};

RSUM_PUBLIC const char *ringsum_looks_name(enum ringsum_looks looks)
{
	return (unsigned)looks < RINGSUM_LOOKS_COUNT ? looks_names[looks] : NULL;
}

/* ---- zeros --------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *data, size_t size_bytes)
{
	/* Each byte equals the one before it, and the first is zero. */
	return size_bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, size_bytes - 1) == 0);
}

void rsum_damage_see(struct rsum_damage_view *view, uint64_t at, const uint8_t *data,
		     size_t size_bytes)
{
	/* From the end: the first byte looked at is not zero where there is nothing to see. */
	while (size_bytes > 0) {
		size_t block = RSUM_MIN(size_bytes, BLOCK_BYTES);

		if (!is_zero(data + size_bytes - block, block))
			break;
		size_bytes -= block;
	}
	while (size_bytes > 0 && data[size_bytes - 1] == 0)
		size_bytes--;
	if (size_bytes > 0)
		view->nonzero_end = at + size_bytes;
}

/* ---- bytes of another tensor ---------------------------------------------------------------- */

static int compare_digests(const void *a_ptr, const void *b_ptr)
{
	const struct rsum_damage_digest *a = a_ptr, *b = b_ptr;

	return memcmp(a->digest, b->digest, RSUM_SHA256_BYTES);
}

/* The first of those with that digest, or `count`. */
static size_t find_digest(const struct rsum_damage_digest *digests, size_t count,
			  const uint8_t *digest)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(digests[middle].digest, digest, RSUM_SHA256_BYTES) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void rsum_damage_find_owners(const struct rsum_manifest *manifest,
			     struct rsum_damage_digest *digests, size_t count)
{
	size_t i, at;

	qsort(digests, count, sizeof(*digests), compare_digests);
	for (i = 0; i < manifest->promise_count; i++) {
		const struct rsum_promise *promise = &manifest->promises[i];
		const struct ringsum_tensor *tensor = &promise->tensor;

		if (!promise->is_wellformed || tensor->size_bytes == 0)
			continue;
		at = find_digest(digests, count, tensor->digest_sha256);
		for (; at < count && !digests[at].view->owner &&
		       memcmp(digests[at].digest, tensor->digest_sha256, RSUM_SHA256_BYTES) == 0;
		     at++)
			digests[at].view->owner = tensor;
	}
}

/* ---- judging ---------------------------------------------------------------------------------- */

void rsum_damage_judge(const struct rsum_damage_view *view, const struct ringsum_tensor *tensor,
		       struct ringsum_finding *finding)
{
	if (!view || tensor->size_bytes == 0)
		return;
	if (view->nonzero_end == 0) {
		finding->looks_like = RINGSUM_LOOKS_ZERO;
	} else if (view->owner) {
		finding->looks_like = RINGSUM_LOOKS_OTHER_TENSOR;
		finding->looks_tensor = view->owner->name;
	} else if (tensor->size_bytes - view->nonzero_end >= RSUM_DAMAGE_ZERO_TAIL_BYTES) {
		finding->looks_like = RINGSUM_LOOKS_ZERO_TAIL;
		finding->looks_offset = tensor->begin + view->nonzero_end;
	}
}

void rsum_damage_judge_cut(const struct ringsum_tensor *tensor, uint64_t shard_bytes,
			   struct ringsum_finding *finding)
{
	if (shard_bytes <= tensor->begin) {
		finding->looks_like = RINGSUM_LOOKS_ABSENT;
	} else if (shard_bytes < tensor->end) {
		finding->looks_like = RINGSUM_LOOKS_TRUNCATED;
		finding->looks_offset = shard_bytes;
	}
}

const char *rsum_damage_describe(const struct ringsum_finding *finding, char *buffer,
				 size_t size_bytes)
{
	char shown[NAME_SHOWN_BYTES], *safe = NULL;

	switch (finding->looks_like) {
	case RINGSUM_LOOKS_ZERO:
		snprintf(buffer, size_bytes, ": all of them are zero");
		break;
	case RINGSUM_LOOKS_ZERO_TAIL:
		snprintf(buffer, size_bytes,
			 ": from byte %llu of the shard to the end of the range they are zero",
			 (unsigned long long)finding->looks_offset);
		break;
	case RINGSUM_LOOKS_OTHER_TENSOR:
		safe = rsum_text_escape(
			rsum_text_shorten(finding->looks_tensor, shown, sizeof(shown)));
		snprintf(buffer, size_bytes, ": they are those promised for %s",
			 safe ? safe : "another tensor");
		break;
	case RINGSUM_LOOKS_TRUNCATED:
	case RINGSUM_LOOKS_ABSENT: /* the message says so itself */
	case RINGSUM_LOOKS_UNKNOWN:
	case RINGSUM_LOOKS_COUNT:
	default:
		buffer[0] = '\0';
		break;
	}
	free(safe);
	return buffer;
}
