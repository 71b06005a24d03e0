/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of tensors: sorted by offset, tiling the data from its first byte to its last, each
 * as large as its shape. Rules and their order are those of the reference implementation.
 */
#include "safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "dtype.h"
#include "rsum_limits.h"
#include "safetensors_parts.h"

#define SHOWN_SHAPE_BYTES 96

const char *rsum_safetensors_show(const char *name, char buffer[RSUM_SHOWN_NAME_BYTES])
{
	size_t used = 1;

	buffer[0] = '"';
	/* Room stays for an escape, the mark that it was cut, the quote and NUL. */
	for (; *name && used + 10 < RSUM_SHOWN_NAME_BYTES; name++) {
		unsigned char byte = (unsigned char)*name;

		if (byte < 0x20 || byte == 0x7f)
			used += (size_t)snprintf(buffer + used, 5, "\\x%02x", (unsigned)byte);
		else
			buffer[used++] = *name;
	}
	while (*name && used > 1 && ((unsigned char)*name & 0xc0) == 0x80) {
		name--;
		used--;
	}
	memcpy(buffer + used, *name ? "...\"" : "\"", *name ? 5 : 2);
	return buffer;
}

static bool comes_after(const struct rsum_safetensors_tensor *a,
			const struct rsum_safetensors_tensor *b)
{
	return a->begin != b->begin ? a->begin > b->begin : a->end > b->end;
}

/* Merges from[first, middle) and from[middle, end), each sorted, into to[first, end). */
static void merge(const struct rsum_safetensors_tensor *from, struct rsum_safetensors_tensor *to,
		  size_t first, size_t middle, size_t end)
{
	size_t a = first, b = middle;

	for (size_t i = first; i < end; i++) {
		if (a < middle && (b == end || !comes_after(&from[a], &from[b])))
			to[i] = from[a++];
		else
			to[i] = from[b++];
	}
}

/* Merges all neighbours of `width` in from[first, end) into to[first, end). */
static void merge_neighbours(const struct rsum_safetensors_tensor *from,
			     struct rsum_safetensors_tensor *to, size_t first, size_t end,
			     size_t width)
{
	for (size_t i = first; i < end; i += 2 * width)
		merge(from, to, i, RSUM_MIN(i + width, end), RSUM_MIN(i + 2 * width, end));
}

/* Two blocks of 512 KiB, which stay in the cache; an even number of passes brings them back. */
#define SORT_BLOCK_BITS 14
#define SORT_BLOCK ((size_t)1 << SORT_BLOCK_BITS)
static_assert(SORT_BLOCK_BITS % 2 == 0, "a sorted block stands where it stood");

static void sort_block(struct rsum_safetensors_tensor *tensors,
		       struct rsum_safetensors_tensor *room, size_t first, size_t end)
{
	for (size_t width = 1; width < SORT_BLOCK; width *= 4) {
		merge_neighbours(tensors, room, first, end, width);
		merge_neighbours(room, tensors, first, end, 2 * width);
	}
}

/*
 * A merge sort: as fast on the worst order as on any. Nearly all headers are sorted already. It
 * sorts blocks before it merges them, since a million tensors are more than any cache holds.
 */
static int sort_tensors(struct rsum_safetensors *out)
{
	struct rsum_safetensors_tensor *from = out->tensors, *to, *swap;
	size_t count = out->tensor_count;
	size_t i = 1;

	while (i < count && !comes_after(&from[i - 1], &from[i]))
		i++;
	if (i >= count)
		return 0;
	to = malloc(count * sizeof(*to));
	if (!to)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < count; i += SORT_BLOCK)
		sort_block(from, to, i, RSUM_MIN(i + SORT_BLOCK, count));
	for (size_t width = SORT_BLOCK; width < count; width *= 2) {
		merge_neighbours(from, to, 0, count, width);
		swap = from;
		from = to;
		to = swap;
	}
	out->tensors = from;
	free(to);
	return 0;
}

/* Completes a refusal with the two numbers that it is about, and returns `ret`. */
static int with_bytes(int ret, struct rsum_refusal *refusal, uint64_t expected, uint64_t actual)
{
	snprintf(refusal->expected, sizeof(refusal->expected), "%" PRIu64 " bytes", expected);
	snprintf(refusal->actual, sizeof(refusal->actual), "%" PRIu64 " bytes", actual);
	return ret;
}

/* A tensor that ends before it begins, or begins elsewhere than where `previous` ended. */
static int refuse_place(const struct rsum_safetensors_tensor *tensor,
			const struct rsum_safetensors_tensor *previous, uint64_t expected_begin,
			struct rsum_refusal *refusal)
{
	char shown[RSUM_SHOWN_NAME_BYTES], shown_previous[RSUM_SHOWN_NAME_BYTES];
	int ret;

	rsum_safetensors_show(tensor->name, shown);
	if (tensor->end < tensor->begin)
		return rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
					"tensor %s: data_offsets [%" PRIu64 ", %" PRIu64
					"] end before they begin",
					shown, tensor->begin, tensor->end);
	if (tensor->begin > expected_begin)
		ret = rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
				       "hole of %" PRIu64 " bytes before tensor %s",
				       tensor->begin - expected_begin, shown);
	else
		ret = rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
				       "tensors %s and %s overlap: %s has data_offsets [%" PRIu64
				       ", %" PRIu64 "]",
				       rsum_safetensors_show(previous->name, shown_previous), shown,
				       shown, tensor->begin, tensor->end);
	snprintf(refusal->expected, sizeof(refusal->expected), "data_offsets from %" PRIu64,
		 expected_begin);
	snprintf(refusal->actual, sizeof(refusal->actual), "data_offsets from %" PRIu64,
		 tensor->begin);
	return ret;
}

static int check_size(const struct rsum_safetensors *out,
		      const struct rsum_safetensors_tensor *tensor, struct rsum_refusal *refusal)
{
	const uint64_t *shape = rsum_safetensors_shape(out, tensor);
	enum ringsum_dtype dtype = (enum ringsum_dtype)tensor->dtype;
	char shown[RSUM_SHOWN_NAME_BYTES], shown_shape[SHOWN_SHAPE_BYTES];
	enum rsum_shape_result result;
	uint64_t size_bytes;
	int ret;

	result = rsum_shape_bytes(dtype, shape, tensor->rank, &size_bytes);
	if (result == RSUM_SHAPE_OK && size_bytes == tensor->end - tensor->begin)
		return 0;
	rsum_safetensors_show(tensor->name, shown);
	rsum_shape_format(shape, tensor->rank, shown_shape, sizeof(shown_shape));
	if (result == RSUM_SHAPE_OVERFLOW)
		return rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
					"tensor %s: the size of shape %s of %s overflows 64 bits",
					shown, shown_shape, ringsum_dtype_name(dtype));
	if (result == RSUM_SHAPE_PART_OF_BYTE)
		return rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
					"tensor %s: shape %s of %s does not come to whole bytes",
					shown, shown_shape, ringsum_dtype_name(dtype));
	ret = rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
			       "tensor %s: shape %s of %s comes to %" PRIu64
			       " bytes, its data_offsets to %" PRIu64,
			       shown, shown_shape, ringsum_dtype_name(dtype), size_bytes,
			       tensor->end - tensor->begin);
	return with_bytes(ret, refusal, size_bytes, tensor->end - tensor->begin);
}

/* Checks each tensor in the order of offsets, and moves its range into the file. */
static int place_tensors(struct rsum_safetensors *out, struct rsum_refusal *refusal)
{
	uint64_t expected_begin = 0;
	char shown[RSUM_SHOWN_NAME_BYTES];
	int ret;

	for (size_t i = 0; i < out->tensor_count; i++) {
		const struct rsum_safetensors_tensor *tensor = &out->tensors[i];

		if (tensor->begin != expected_begin || tensor->end < tensor->begin)
			return refuse_place(tensor, i ? tensor - 1 : tensor, expected_begin,
					    refusal);
		ret = check_size(out, tensor, refusal);
		if (ret)
			return ret;
		if (tensor->end > RSUM_LIMIT_FILE_OFFSET - out->data_begin)
			return rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
						"tensor %s ends beyond byte %" PRIu64
						" of the file, which is the limit",
						rsum_safetensors_show(tensor->name, shown),
						RSUM_LIMIT_FILE_OFFSET);
		expected_begin = tensor->end;
	}
	for (size_t i = 0; i < out->tensor_count; i++) {
		out->tensors[i].begin += out->data_begin;
		out->tensors[i].end += out->data_begin;
	}
	out->data_end = out->data_begin + expected_begin;
	return 0;
}

/* The table is larger than any cache and names are met in no order of it: fetch places ahead. */
#define NAMES_AHEAD 16

static int index_names(struct rsum_safetensors *out)
{
	uint32_t existing, tags[NAMES_AHEAD];
	int ret;

	ret = rsum_name_index_reserve(&out->by_name, out->tensor_count);
	if (ret)
		return ret;
	for (size_t ahead = 0; ahead < out->tensor_count + NAMES_AHEAD; ahead++) {
		size_t i = ahead - NAMES_AHEAD;

		if (ahead >= NAMES_AHEAD) {
			ret = rsum_name_index_add_tagged(&out->by_name, out->tensors[i].name,
							 tags[i % NAMES_AHEAD], (uint32_t)i,
							 &existing);
			if (ret)
				return ret;
			/* The reader refuses duplicate keys, and names with NUL were refused. */
			RSUM_ASSERT(existing == RSUM_NAME_INDEX_NONE);
		}
		if (ahead + NAMES_AHEAD < out->tensor_count)
			__builtin_prefetch(out->tensors[ahead + NAMES_AHEAD].name);
		if (ahead < out->tensor_count) {
			tags[ahead % NAMES_AHEAD] = rsum_name_index_tag(out->tensors[ahead].name);
			rsum_name_index_expect(&out->by_name, tags[ahead % NAMES_AHEAD]);
		}
	}
	return 0;
}

static int check_file_size(const struct rsum_safetensors *out, uint64_t file_bytes,
			   struct rsum_refusal *refusal)
{
	int ret;

	if (file_bytes == out->data_end)
		return 0;
	if (file_bytes < out->data_end)
		ret = rsum_refusal_set(
			refusal, RINGSUM_FINDING_FILE_TRUNCATED,
			"truncated by %" PRIu64 " byte%s: the header promises a file "
			"of %" PRIu64 " bytes, it has %" PRIu64 "; fetch the end again",
			out->data_end - file_bytes, out->data_end - file_bytes == 1 ? "" : "s",
			out->data_end, file_bytes);
	else
		ret = rsum_refusal_set(
			refusal, RINGSUM_FINDING_FILE_TRAILING,
			"%" PRIu64 " trailing byte%s: the header promises a file of "
			"%" PRIu64 " bytes, it has %" PRIu64 "; fetch the file again",
			file_bytes - out->data_end, file_bytes - out->data_end == 1 ? "" : "s",
			out->data_end, file_bytes);
	return with_bytes(ret, refusal, out->data_end, file_bytes);
}

int rsum_safetensors_parse(char *text, uint64_t header_bytes, uint64_t file_bytes,
			   struct rsum_safetensors *out, struct rsum_refusal *refusal)
{
	int ret;

	*out = (struct rsum_safetensors){ .text = text, .header_bytes = header_bytes };
	if (header_bytes > RSUM_LIMIT_HEADER_BYTES)
		return rsum_refusal_set(refusal, RINGSUM_FINDING_HEADER_INVALID,
					"a header of %" PRIu64 " bytes; the limit is %" PRIu64,
					header_bytes, RSUM_LIMIT_HEADER_BYTES);
	out->data_begin = RSUM_SAFETENSORS_LENGTH_BYTES + header_bytes;
	ret = rsum_safetensors_read(out, refusal);
	if (!ret)
		ret = sort_tensors(out);
	if (!ret)
		ret = place_tensors(out, refusal);
	if (!ret)
		ret = index_names(out);
	if (!ret)
		return check_file_size(out, file_bytes, refusal);
	/* What was not checked to the end is not for use. */
	out->tensor_count = 0;
	out->metadata_count = 0;
	return ret;
}

const uint64_t *rsum_safetensors_shape(const struct rsum_safetensors *header,
				       const struct rsum_safetensors_tensor *tensor)
{
	uint32_t block = tensor->shape_index >> RSUM_SHAPE_BLOCK_BITS;
	uint32_t place = tensor->shape_index & ((UINT32_C(1) << RSUM_SHAPE_BLOCK_BITS) - 1);

	/* A header of scalars alone has no block at all. */
	return tensor->rank ? header->shape_blocks[block] + place : NULL;
}

const char *rsum_safetensors_key(const struct rsum_safetensors *header, size_t metadata_index)
{
	return header->text + header->metadata[metadata_index].key;
}

const char *rsum_safetensors_value(const struct rsum_safetensors *header, size_t metadata_index)
{
	return header->text + header->metadata[metadata_index].value;
}

const struct rsum_safetensors_tensor *rsum_safetensors_find(const struct rsum_safetensors *header,
							    const char *name)
{
	uint32_t index = rsum_name_index_find(&header->by_name, name);

	return index < header->tensor_count ? &header->tensors[index] : NULL;
}

void rsum_safetensors_deinit(struct rsum_safetensors *header)
{
	free(header->text);
	free(header->tensors);
	for (size_t i = 0; i < header->shape_block_count; i++)
		free(header->shape_blocks[i]);
	free(header->shape_blocks);
	free(header->metadata);
	rsum_name_index_deinit(&header->by_name);
	*header = (struct rsum_safetensors){ 0 };
}
