/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a checkpoint against its promises: paths, sizes, headers of shards, tensors nobody
 * promised.
 */
#include "checkpoint.h"
#include "damage.h"
#include "safetensors.h"
#include "uncached.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Promises grouped by file: those of file f are order[begin[f]] to order[begin[f + 1] - 1]. */
struct grouping {
	uint32_t *begin;
	uint32_t *order;
	/* Promises of files are sorted by file: those of f from file_begin[f] to file_begin[f + 1]. */
	uint32_t *file_begin;
};

static int group_promises(const struct rsum_manifest *manifest, struct grouping *out)
{
	size_t files = manifest->file_count, i;

	out->begin = calloc(files + 2, sizeof(*out->begin));
	out->order = calloc(manifest->promise_count + 1, sizeof(*out->order));
	out->file_begin = calloc(files + 1, sizeof(*out->file_begin));
	if (!out->begin || !out->order || !out->file_begin)
		return RINGSUM_E_NOMEM;
	for (i = 0; i < manifest->file_promise_count; i++)
		out->file_begin[manifest->file_promises[i].file_index + 1]++;
	for (i = 0; i < files; i++)
		out->file_begin[i + 1] += out->file_begin[i];
	/* Count into begin[f + 2], sum up, and place through begin[f + 1], which then is right. */
	for (i = 0; i < manifest->promise_count; i++)
		if (manifest->promises[i].file_index < files)
			out->begin[manifest->promises[i].file_index + 2]++;
	for (i = 2; i < files + 2; i++)
		out->begin[i] += out->begin[i - 1];
	for (i = 0; i < manifest->promise_count; i++) {
		uint32_t file = manifest->promises[i].file_index;

		if (file < files)
			out->order[out->begin[file + 1]++] = (uint32_t)i;
	}
	return RINGSUM_OK;
}

/* A file may be promised under several names: those of one file stand side by side, sorted. */
struct named_file {
	uint64_t device;
	uint64_t inode;
	uint32_t file_index;
	bool is_counted; /* of the first of them: what nobody promised in it has been counted */
};

static int compare_files(const void *a_ptr, const void *b_ptr)
{
	const struct named_file *a = a_ptr, *b = b_ptr;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->inode < b->inode ? -1 : a->inode > b->inode;
}

static int compare_named_files(const void *a_ptr, const void *b_ptr)
{
	const struct named_file *a = a_ptr, *b = b_ptr;
	int order = compare_files(a, b);

	return order ? order : a->file_index < b->file_index ? -1 : a->file_index > b->file_index;
}

/* All shards while they are checked. */
struct shards_check {
	struct ringsum_checkpoint *checkpoint;
	struct grouping grouping;
	struct named_file *files; /* those that could be opened */
	size_t file_count;
};

/* One shard while it is checked. */
struct shard_check {
	struct shards_check *all;
	struct ringsum_checkpoint *checkpoint;
	struct rsum_shard *shard;
	const uint32_t *members; /* promises of this shard */
	size_t member_count;
	size_t first_file_promise; /* of this file */
	size_t file_promise_count;
	int fd;
	struct rsum_safetensors header;
};

static struct shard_check begin_check(struct shards_check *all, size_t file_index)
{
	const uint32_t *begin = all->grouping.begin, *file_begin = all->grouping.file_begin;

	return (struct shard_check){
		.all = all,
		.checkpoint = all->checkpoint,
		.shard = &all->checkpoint->shards[file_index],
		.members = all->grouping.order + begin[file_index],
		.member_count = begin[file_index + 1] - begin[file_index],
		.first_file_promise = file_begin[file_index],
		.file_promise_count = file_begin[file_index + 1] - file_begin[file_index],
		.fd = -1,
	};
}

/* What is in the shard from `begin` on is not what another copy may have. */
static void refetch(struct shard_check *check, uint64_t begin)
{
	struct rsum_shard *shard = check->shard;

	if (!shard->is_to_refetch || begin < shard->refetch_begin)
		shard->refetch_begin = begin;
	shard->is_to_refetch = true;
}

/* Reports what is wrong with a shard as a whole, and how much of the promise falls with it. */
static void report_whole(struct shard_check *check, struct rsum_refusal *refusal)
{
	rsum_refusal_add_count(refusal, check->member_count, "promised tensor is in it",
			       "promised tensors are in it");
	rsum_report_add_refusal(check->checkpoint->report, refusal, NULL, check->shard->name);
	/* A name that escapes is none to fetch; what could not be read may be as promised. */
	if (refusal->code == RINGSUM_FINDING_FILE_MISSING ||
	    refusal->code == RINGSUM_FINDING_FILE_TYPE ||
	    refusal->code == RINGSUM_FINDING_FILE_TRUNCATED ||
	    refusal->code == RINGSUM_FINDING_HEADER_INVALID)
		refetch(check, 0);
}

static void refuse_all(struct shard_check *check)
{
	size_t i;

	for (i = 0; i < check->member_count; i++)
		check->checkpoint->standings[check->members[i]].is_refused = true;
}

static void leave_all_undecided(struct shard_check *check)
{
	size_t i;

	for (i = 0; i < check->member_count; i++)
		check->checkpoint->standings[check->members[i]].is_undecided = true;
}

static struct rsum_standing *file_standing(const struct shard_check *check, size_t index)
{
	return &check->checkpoint->file_standings[check->first_file_promise + index];
}

static struct rsum_file_promise *file_promise(const struct shard_check *check, size_t index)
{
	return &check->checkpoint->manifest.file_promises[check->first_file_promise + index];
}

/* What is promised of the file itself, where it is not there or cannot be read. */
static void settle_files(struct shard_check *check, bool is_refused)
{
	for (size_t i = 0; i < check->file_promise_count; i++) {
		file_standing(check, i)->is_refused |= is_refused;
		file_standing(check, i)->is_undecided |= !is_refused;
	}
}

static void report_unreadable(struct shard_check *check, int error, const char *what)
{
	struct rsum_refusal refusal;

	(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_READ_ERROR,
			       "%s could not be read: %s; mend that and verify again", what,
			       strerror(-error));
	report_whole(check, &refusal);
	leave_all_undecided(check);
}

/*
 * Reads and parses the header. Returns 0 where check->header can be compared with the promises
 * (a wrong file size has its finding then), RINGSUM_E_REFUSED where it cannot, or
 * RINGSUM_E_NOMEM.
 */
static int read_header(struct shard_check *check)
{
	const struct rsum_file_identity *identity = &check->shard->identity;
	bool is_uncached = rsum_options_pass_cache(&check->checkpoint->options);
	uint8_t head[RSUM_SAFETENSORS_PROBE_BYTES];
	size_t head_bytes = (size_t)RSUM_MIN(identity->size_bytes, sizeof(head));
	struct rsum_refusal refusal;
	uint64_t header_bytes;
	char *text;
	int result;

	result = rsum_uncached_read_at(check->fd, is_uncached, 0, head, head_bytes);
	if (result == -ENOMEM)
		return RINGSUM_E_NOMEM;
	if (result < 0) {
		report_unreadable(check, result, "the header");
		return RINGSUM_E_REFUSED;
	}
	result = rsum_safetensors_probe(head, head_bytes, identity->size_bytes,
					check->checkpoint->profile->header_limit_bytes,
					&header_bytes, &refusal);
	if (result != RINGSUM_OK)
		goto refused;
	text = malloc((size_t)header_bytes + 1);
	if (!text)
		return RINGSUM_E_NOMEM;
	result = rsum_uncached_read_at(check->fd, is_uncached, 8, text, (size_t)header_bytes);
	if (result < 0) {
		free(text);
		if (result == -ENOMEM)
			return RINGSUM_E_NOMEM;
		report_unreadable(check, result, "the header");
		return RINGSUM_E_REFUSED;
	}
	result = rsum_safetensors_parse(text, header_bytes, identity->size_bytes, &check->header,
					&refusal);
	if (result != RINGSUM_E_REFUSED)
		return result;
	if (refusal.code == RINGSUM_FINDING_FILE_TRUNCATED ||
	    refusal.code == RINGSUM_FINDING_FILE_TRAILING) {
		rsum_report_add_refusal(check->checkpoint->report, &refusal, NULL,
					check->shard->name);
		/* A range to be fetched is never empty: of a file that goes on, the last byte. */
		refetch(check, RSUM_MIN(identity->size_bytes, check->header.data_end - 1));
		return RINGSUM_OK;
	}
refused:
	report_whole(check, &refusal);
	refuse_all(check);
	return RINGSUM_E_REFUSED;
}

/* ---- promises of the file itself ---------------------------------------------------------------- */

static void report_size(struct shard_check *check, enum ringsum_finding_code code,
			uint64_t expected_bytes, const char *how, const char *message)
{
	char expected[64], actual[64];
	struct ringsum_finding finding = {
		.code = code,
		.file = check->shard->name,
		.expected = expected,
		.actual = actual,
		.message = message,
	};

	snprintf(expected, sizeof(expected), "%s%llu bytes", how,
		 (unsigned long long)expected_bytes);
	snprintf(actual, sizeof(actual), "%llu bytes",
		 (unsigned long long)check->shard->identity.size_bytes);
	rsum_report_add(check->checkpoint->report, &finding);
}

static bool size_is_promised(struct shard_check *check, const struct rsum_file_promise *promise)
{
	uint64_t size_bytes = check->shard->identity.size_bytes;

	if (promise->size_bytes != UINT64_MAX && promise->size_bytes != size_bytes) {
		if (size_bytes < promise->size_bytes)
			report_size(check, RINGSUM_FINDING_FILE_TRUNCATED, promise->size_bytes, "",
				    "the file is shorter than promised; fetch the missing end "
				    "again");
		else
			report_size(check, RINGSUM_FINDING_FILE_TRAILING, promise->size_bytes, "",
				    "the file is longer than promised; fetch it again");
		return false;
	}
	if (promise->begin > size_bytes ||
	    (promise->end != UINT64_MAX && promise->end > size_bytes)) {
		report_size(check, RINGSUM_FINDING_FILE_TRUNCATED,
			    promise->end == UINT64_MAX ? promise->begin : promise->end, "at least ",
			    "the file ends before a range that is promised of it; fetch the "
			    "missing end again");
		return false;
	}
	return true;
}

static void report_unsupported(struct shard_check *check, const struct rsum_file_promise *promise)
{
	struct rsum_refusal refusal;

	(void)rsum_refusal_set(
		&refusal, RINGSUM_FINDING_DIGEST_UNSUPPORTED,
		promise->algorithm == RSUM_ALGORITHM_UNKNOWN
			? "ringsum does not have the algorithm of its digest, so that "
			  "nothing of it was proven; get a promise made with sha256"
			: "libcrypto does not offer the algorithm of its digest on "
			  "this host, so that nothing of it was proven");
	snprintf(refusal.actual, sizeof(refusal.actual), "a digest %s%s",
		 strncmp(promise->algorithm_name, "of ", 3) == 0 ? "" : "made with ",
		 promise->algorithm_name);
	rsum_report_add_refusal(check->checkpoint->report, &refusal, NULL, check->shard->name);
}

/* Sizes are compared now; what is of the promised size is there to be hashed. */
static void check_file_promises(struct shard_check *check)
{
	struct ringsum_totals *totals = &check->checkpoint->report->totals;

	for (size_t i = 0; i < check->file_promise_count; i++) {
		struct rsum_file_promise *promise = file_promise(check, i);
		struct rsum_standing *standing = file_standing(check, i);
		bool has_size = size_is_promised(check, promise);

		if (promise->end == UINT64_MAX)
			promise->end = RSUM_MAX(check->shard->identity.size_bytes, promise->begin);
		if (!rsum_add_u64(totals->bytes_promised, promise->end - promise->begin,
				  &totals->bytes_promised))
			totals->bytes_promised = UINT64_MAX;
		if (promise->is_conflicting || !has_size) {
			standing->is_refused = true;
		} else if (!rsum_algorithm_is_available(promise->algorithm)) {
			report_unsupported(check, promise);
			standing->is_undecided = true;
		} else {
			standing->is_readable = true;
		}
	}
}

/* Whether the promises of the file itself leave no byte of it out. */
static bool is_covered(const struct shard_check *check)
{
	uint64_t covered_to = 0;

	for (size_t i = 0; i < check->file_promise_count; i++) {
		const struct rsum_file_promise *promise = file_promise(check, i);

		if (promise->begin <= covered_to)
			covered_to = RSUM_MAX(covered_to, promise->end);
	}
	return check->file_promise_count > 0 && covered_to >= check->shard->identity.size_bytes;
}

/* ---- promises of tensors ------------------------------------------------------------------------ */

/* The header is right about the tensor, but the file ends before it does. */
static void report_cut_off(struct shard_check *check, const struct ringsum_tensor *tensor)
{
	char expected[64], actual[64], message[160];
	struct ringsum_finding finding = {
		.code = RINGSUM_FINDING_FILE_TRUNCATED,
		.tensor = tensor->name,
		.file = check->shard->name,
		.has_range = 1,
		.begin = tensor->begin,
		.end = tensor->end,
		.expected = expected,
		.actual = actual,
		.message = message,
	};
	uint64_t missing = tensor->end - check->shard->identity.size_bytes;

	snprintf(expected, sizeof(expected), "a file of at least %llu bytes",
		 (unsigned long long)tensor->end);
	snprintf(actual, sizeof(actual), "%llu bytes",
		 (unsigned long long)check->shard->identity.size_bytes);
	snprintf(message, sizeof(message),
		 "the last %llu of its %llu bytes are not in the file; fetch the range again",
		 (unsigned long long)RSUM_MIN(missing, tensor->size_bytes),
		 (unsigned long long)tensor->size_bytes);
	rsum_damage_judge_cut(tensor, check->shard->identity.size_bytes, &finding);
	/* What there is of it was not looked at, so it is fetched whole. */
	refetch(check, tensor->begin);
	rsum_report_add(check->checkpoint->report, &finding);
}

/* The first name of this file, by halving: it may have very many. */
static struct named_file *first_name(const struct shard_check *check)
{
	const struct named_file key = {
		.device = check->shard->identity.device,
		.inode = check->shard->identity.inode,
	};
	struct named_file *files = check->all->files;
	size_t low = 0, high = check->all->file_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_files(&files[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	/* It was opened, so it is among them. */
	RSUM_ASSERT(low < check->all->file_count && compare_files(&files[low], &key) == 0);
	return &files[low];
}

/* Marks what is promised in this file under any of its names; whoever promises all of it does. */
static void mark_promised(const struct shard_check *check, const struct named_file *first,
			  bool *is_promised)
{
	const struct named_file *end = check->all->files + check->all->file_count, *file;
	const struct rsum_promise *promises = check->checkpoint->manifest.promises;
	size_t i;

	for (file = first; file < end && compare_files(file, first) == 0; file++) {
		const struct shard_check other = begin_check(check->all, file->file_index);

		if (is_covered(&other))
			for (i = 0; i < check->header.tensor_count; i++)
				is_promised[i] = true;
		for (i = 0; i < other.member_count; i++) {
			const struct rsum_safetensors_tensor *shown = rsum_safetensors_find(
				&check->header, promises[other.members[i]].tensor.name);

			if (shown)
				is_promised[shown - check->header.tensors] = true;
		}
	}
}

/* Of a file with several names all is counted with the one that is compared first. */
static int report_unpromised(struct shard_check *check)
{
	const struct rsum_safetensors *header = &check->header;
	struct named_file *first = first_name(check);
	bool *is_promised;
	size_t i;

	if (first->is_counted)
		return RINGSUM_OK;
	is_promised = calloc(header->tensor_count + 1, sizeof(*is_promised));
	if (!is_promised)
		return RINGSUM_E_NOMEM;
	first->is_counted = true;
	mark_promised(check, first, is_promised);
	for (i = 0; i < header->tensor_count; i++) {
		if (is_promised[i])
			continue;
		check->checkpoint->report->totals.tensors_unpromised++;
		rsum_unpromised_report(check->checkpoint, header->tensors[i].name,
				       check->shard->name);
	}
	free(is_promised);
	return RINGSUM_OK;
}

/* Whether the promise may be of another copy of the shard, rather than wrong in itself. */
static bool header_differs(const struct ringsum_tensor *tensor,
			   const struct rsum_safetensors *header,
			   const struct rsum_safetensors_tensor *shown)
{
	return !shown || tensor->dtype != (enum ringsum_dtype)shown->dtype ||
	       tensor->begin != shown->begin || tensor->end != shown->end ||
	       tensor->rank != shown->rank ||
	       (shown->rank > 0 && memcmp(tensor->shape, rsum_safetensors_shape(header, shown),
					  shown->rank * sizeof(*tensor->shape)) != 0);
}

static int compare_with_promises(struct shard_check *check)
{
	struct ringsum_checkpoint *checkpoint = check->checkpoint;
	const struct rsum_safetensors *header = &check->header;
	size_t i;

	check->shard->data_begin = header->data_begin;
	check->shard->data_end = header->data_end;
	for (i = 0; i < check->member_count; i++) {
		const struct rsum_promise *promise =
			&checkpoint->manifest.promises[check->members[i]];
		struct rsum_standing *standing = &checkpoint->standings[check->members[i]];
		const struct rsum_safetensors_tensor *shown =
			rsum_safetensors_find(header, promise->tensor.name);

		if (!promise->is_wellformed)
			continue;
		if (!rsum_promise_matches_header(promise, header, shown,
						 checkpoint->profile->dtype_is_allowed,
						 checkpoint->report)) {
			standing->is_refused = true;
			if (header_differs(&promise->tensor, header, shown))
				refetch(check, 0);
		} else if (promise->tensor.end > check->shard->identity.size_bytes) {
			report_cut_off(check, &promise->tensor);
			standing->is_refused = true;
		} else {
			standing->is_readable = true;
		}
	}
	return report_unpromised(check);
}

/* Opens a shard for the first time, to learn which file it is. */
static bool identify_shard(struct shard_check *check)
{
	struct rsum_refusal refusal;
	int os_errno;

	switch (rsum_confine_open(&check->checkpoint->root, check->shard->name, &check->fd,
				  &check->shard->identity, &os_errno, &refusal)) {
	case RSUM_CONFINE_OK:
		close(check->fd);
		check->shard->is_opened = true;
		return true;
	case RSUM_CONFINE_REFUSED:
		report_whole(check, &refusal);
		refuse_all(check);
		settle_files(check, true);
		return false;
	case RSUM_CONFINE_UNREADABLE:
	default:
		report_whole(check, &refusal);
		leave_all_undecided(check);
		settle_files(check, false);
		return false;
	}
}

static void identify_shards(struct shards_check *all)
{
	size_t i;

	for (i = 0; i < all->checkpoint->manifest.file_count; i++) {
		struct shard_check check = begin_check(all, i);

		check.shard->name = all->checkpoint->manifest.files[i];
		if (!identify_shard(&check))
			continue;
		check_file_promises(&check);
		all->files[all->file_count++] = (struct named_file){
			.device = check.shard->identity.device,
			.inode = check.shard->identity.inode,
			.file_index = (uint32_t)i,
		};
	}
	qsort(all->files, all->file_count, sizeof(*all->files), compare_named_files);
}

/* Opens it for the second time; it has to be the same file still. */
static bool open_same(struct shard_check *check)
{
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	enum rsum_confine_result result;
	int os_errno;

	result = rsum_confine_open(&check->checkpoint->root, check->shard->name, &check->fd,
				   &identity, &os_errno, &refusal);
	if (result == RSUM_CONFINE_OK) {
		if (rsum_file_identity_equal(&identity, &check->shard->identity))
			return true;
		close(check->fd);
	}
	if (result != RSUM_CONFINE_UNREADABLE)
		(void)rsum_refusal_set(&refusal, RINGSUM_FINDING_CHANGED_DURING_READ,
				       "the shard was changed or replaced while it was checked; "
				       "wait until nothing writes to it and verify again");
	report_whole(check, &refusal);
	leave_all_undecided(check);
	return false;
}

/* What holds tensors, by the manifest or by its name, has to be a sound shard. */
static bool has_header(const struct shard_check *check)
{
	static const char end[] = ".safetensors";
	size_t length = strlen(check->shard->name);

	return check->member_count > 0 ||
	       (length >= sizeof(end) - 1 &&
		strcmp(check->shard->name + length - (sizeof(end) - 1), end) == 0);
}

static int check_shard(struct shard_check *check)
{
	int result;

	if (!has_header(check) || !open_same(check))
		return RINGSUM_OK;
	result = read_header(check);
	if (result == RINGSUM_OK)
		result = compare_with_promises(check);
	else if (result == RINGSUM_E_REFUSED)
		result = RINGSUM_OK;
	rsum_safetensors_deinit(&check->header);
	close(check->fd);
	return result;
}

int rsum_shards_check(struct ringsum_checkpoint *checkpoint)
{
	const struct rsum_manifest *manifest = &checkpoint->manifest;
	struct shards_check all = { .checkpoint = checkpoint };
	size_t i;
	int result = RINGSUM_E_NOMEM;

	checkpoint->shards = calloc(manifest->file_count + 1, sizeof(*checkpoint->shards));
	all.files = calloc(manifest->file_count + 1, sizeof(*all.files));
	if (!checkpoint->shards || !all.files ||
	    group_promises(manifest, &all.grouping) != RINGSUM_OK)
		goto out;
	identify_shards(&all);
	result = RINGSUM_OK;
	for (i = 0; i < manifest->file_count && result == RINGSUM_OK; i++) {
		struct shard_check check = begin_check(&all, i);

		if (check.shard->is_opened)
			result = check_shard(&check);
	}
out:
	free(all.files);
	free(all.grouping.begin);
	free(all.grouping.order);
	free(all.grouping.file_begin);
	return result;
}
