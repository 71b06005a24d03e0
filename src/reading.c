/* SPDX-License-Identifier: Apache-2.0 */
/* Wants become a plan, the pipeline reads it, and every result is weighed. */
#include "reading.h"

#include "damage.h"
#include "error.h"
#include "journal.h"
#include "pipeline.h"
#include "report_map.h"
#include "rsum_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* Where the file system does not say: no common device asks for more. */
#define USUAL_ALIGNMENT 4096

/*
 * A shard that was changed so shortly before it was opened may be changed again without a new time:
 * that of some file systems goes in steps. What is proven of it is not noted in a journal.
 */
#define SETTLED_NS INT64_C(2000000000)

/* What one pass knows of a shard. */
struct shard_pass {
	bool is_changed; /* it was not the same file throughout */
	bool was_direct; /* some of it was read with O_DIRECT */
	bool was_buffered;
	bool is_settled;     /* it was not changed just before */
	int open_error;	     /* negative errno of the last opening that failed, or 0 */
	bool is_unopened;    /* wants failed with it: they share one finding */
	bool refuses_direct; /* and it was required */
	size_t failed_count; /* tensors that are undecided for one of these */
};

/* What is to be read next. */
enum stage { STAGE_FIRST, STAGE_SECOND, STAGE_OVER };

struct rsum_pass {
	struct rsum_reading *reading;
	struct ringsum_checkpoint *checkpoint;
	struct shard_pass *shards;
	struct rsum_range_result *results; /* by want */
	struct rsum_range_result *second;  /* by want; NULL where nothing was read twice */
	struct rsum_damage_view *views;	   /* by want, of the second reading; or NULL */
	enum stage stage;
	bool is_second; /* what is read is read for the second time */
	bool is_canceled;
	/* What is being read. */
	struct rsum_range *ranges;
	struct rsum_plan plan;
	struct rsum_pipeline_job job;
	uint64_t begin_ns;		/* of the first reading */
	uint64_t first_differing_count; /* in the first reading, so far */
};

/* What a want is about, whichever kind of promise it is. */
struct subject {
	const char *tensor; /* NULL: a file, or a range of it */
	const char *file;
	uint32_t file_index;
	bool is_whole; /* the file from its first to its last byte */
	uint64_t begin;
	uint64_t end;
	enum rsum_algorithm algorithm;
	const uint8_t *digest;
	size_t digest_bytes;
};

static struct subject subject_of_tensor(const struct ringsum_tensor *tensor)
{
	return (struct subject){
		.tensor = tensor->name,
		.file = tensor->shard,
		.begin = tensor->begin,
		.end = tensor->end,
		.algorithm = RSUM_ALGORITHM_SHA256,
		.digest = tensor->digest_sha256,
		.digest_bytes = RSUM_SHA256_BYTES,
	};
}

static struct subject subject_of(const struct rsum_pass *pass, size_t want_index)
{
	const struct rsum_manifest *manifest = &pass->checkpoint->manifest;
	const struct rsum_want *want = &pass->reading->wants[want_index];
	const struct rsum_file_promise *promise;
	struct subject subject;

	if (!want->is_file) {
		subject = subject_of_tensor(&manifest->promises[want->promise].tensor);
		subject.file_index = manifest->promises[want->promise].file_index;
		return subject;
	}
	promise = &manifest->file_promises[want->promise];
	return (struct subject){
		.file = promise->path,
		.file_index = promise->file_index,
		.is_whole =
			promise->begin == 0 &&
			promise->end ==
				pass->checkpoint->shards[promise->file_index].identity.size_bytes,
		.begin = promise->begin,
		.end = promise->end,
		.algorithm = promise->algorithm,
		.digest = promise->digest,
		.digest_bytes = promise->digest_bytes,
	};
}

static bool is_empty(const struct subject *subject)
{
	return subject->begin == subject->end;
}

static uint32_t shard_of(const struct rsum_pass *pass, size_t want_index)
{
	const struct rsum_manifest *manifest = &pass->checkpoint->manifest;
	const struct rsum_want *want = &pass->reading->wants[want_index];

	return want->is_file ? manifest->file_promises[want->promise].file_index
			     : manifest->promises[want->promise].file_index;
}

/* ---- shards for the pipeline ------------------------------------------------------------- */

/* The alignment that a direct read of this file needs, or 0 where there is no direct I/O. */
static uint32_t direct_alignment(const struct rsum_file_identity *identity, uint32_t chunk_bytes)
{
	uint32_t alignment = USUAL_ALIGNMENT;

	if (identity->direct_is_known) {
		if (identity->direct_offset_alignment == 0)
			return 0;
		alignment = RSUM_MAX(alignment, identity->direct_offset_alignment);
		alignment = RSUM_MAX(alignment, identity->direct_memory_alignment);
	}
	if ((alignment & (alignment - 1)) != 0 || chunk_bytes % alignment != 0)
		return 0;
	return alignment;
}

static bool is_in_memory(int fd)
{
	struct statfs system;

	return fstatfs(fd, &system) == 0 &&
	       (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

static int set_direct(const struct ringsum_options *options, struct rsum_pipeline_file *file,
		      const struct rsum_file_identity *identity)
{
	uint32_t alignment = direct_alignment(identity, options->chunk_bytes);
	int flags;

	file->alignment = USUAL_ALIGNMENT;
	file->is_in_memory = is_in_memory(file->fd);
	/* Some kernels accept direct reads there; they copy all the same. */
	if (options->direct == RINGSUM_DIRECT_OFF ||
	    (file->is_in_memory && options->direct == RINGSUM_DIRECT_PREFER))
		return 0;
	flags = fcntl(file->fd, F_GETFL);
	if (alignment != 0 && flags >= 0 && fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0) {
		file->alignment = alignment;
		file->is_direct = true;
		return 0;
	}
	return options->direct == RINGSUM_DIRECT_REQUIRE ? -EOPNOTSUPP : 0;
}

static int try_to_open(struct rsum_pass *pass, uint32_t shard_index,
		       struct rsum_pipeline_file *file_out)
{
	struct rsum_shard *shard = &pass->checkpoint->shards[shard_index];
	struct rsum_pipeline_file file = { 0 };
	struct rsum_file_identity identity;
	struct rsum_refusal refusal;
	int os_errno = 0, result;

	switch (rsum_confine_open(&pass->checkpoint->root, shard->name, &file.fd, &identity,
				  &os_errno, &refusal)) {
	case RSUM_CONFINE_OK:
		break;
	case RSUM_CONFINE_REFUSED:
		/* It was there when its header was read. */
		pass->shards[shard_index].is_changed = true;
		return -ESTALE;
	case RSUM_CONFINE_UNREADABLE:
	default:
		return os_errno ? -os_errno : -EIO;
	}
	if (!rsum_file_identity_equal(&identity, &shard->identity)) {
		pass->shards[shard_index].is_changed = true;
		close(file.fd);
		return -ESTALE;
	}
	file.size_bytes = identity.size_bytes;
	result = set_direct(&pass->checkpoint->options.given, &file, &identity);
	if (result < 0) {
		close(file.fd);
		return result;
	}
	/* A second reading from the page cache would only repeat the first. */
	if (!file.is_direct && pass->is_second)
		(void)posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
	*file_out = file;
	return 0;
}

static int open_shard(void *arg, uint32_t shard_index, struct rsum_pipeline_file *file_out)
{
	struct rsum_pass *pass = arg;
	int result = try_to_open(pass, shard_index, file_out);

	if (result < 0 && !pass->is_second)
		pass->shards[shard_index].open_error = result;
	return result;
}

static void close_shard(void *arg, uint32_t shard_index, const struct rsum_pipeline_file *file)
{
	struct rsum_pass *pass = arg;
	struct shard_pass *shard = &pass->shards[shard_index];
	struct rsum_file_identity identity;

	if (rsum_file_identify(file->fd, &identity) < 0 ||
	    !rsum_file_identity_equal(&identity, &pass->checkpoint->shards[shard_index].identity))
		shard->is_changed = true;
	if (file->is_direct)
		shard->was_direct = true;
	else
		shard->was_buffered = true;
	close(file->fd);
}

/* ---- reading ------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int on_progress(void *arg, const struct rsum_hash_tally *tally)
{
	struct rsum_pass *pass = arg;
	const struct ringsum_options *options = &pass->checkpoint->options.given;
	const struct ringsum_report *report = pass->reading->report;
	struct ringsum_progress progress = {
		.bytes_total = pass->plan.bytes_total,
		.bytes_done = tally->hashed_bytes,
		.tensors_total = report->totals.tensors_promised,
		.stage = pass->is_second ? "reading again" : "reading",
	};

	if (!pass->is_second)
		pass->first_differing_count = tally->differing_count;
	progress.findings_count =
		report->refusing_count + report->undecided_count + pass->first_differing_count;
	if (report->map && !pass->is_second)
		rsum_curve_add(&report->map->curve, now_ns() - pass->begin_ns, tally->hashed_bytes);
	return options->progress ? options->progress(options->progress_arg, &progress) : 0;
}

void rsum_reading_set_up(const struct rsum_options *options, struct rsum_pipeline_setup *setup_out)
{
	*setup_out = (struct rsum_pipeline_setup){
		.engine = options->given.engine,
		.direct = options->given.direct,
		.chunk_bytes = options->given.chunk_bytes,
		.memory_bytes = options->given.memory_bytes,
		.depth = options->given.depth,
		.threads = options->given.threads,
		.impl = options->digest_impl,
		.bytes_per_second_max = options->given.bytes_per_second_max,
		.is_idle = options->given.idle != 0,
		.drain_ms = RSUM_LIMIT_DRAIN_MS,
	};
}

static bool digest_is(const struct rsum_range_result *result, const uint8_t *digest,
		      size_t digest_bytes)
{
	/* An algorithm without a digest is never wanted; nothing is equal to nothing. */
	return result->is_hashed && digest_bytes > 0 &&
	       memcmp(result->digest, digest, digest_bytes) == 0;
}

static bool digest_is_promised(const struct rsum_range_result *result,
			       const struct subject *subject)
{
	return digest_is(result, subject->digest, subject->digest_bytes);
}

static bool digest_differs(const struct rsum_pass *pass, size_t want)
{
	const struct subject subject = subject_of(pass, want);

	return pass->results[want].is_hashed && !digest_is_promised(&pass->results[want], &subject);
}

/* Whether a want is to be read by the job that is made. */
static bool is_wanted(const struct rsum_pass *pass, size_t want)
{
	const struct subject subject = subject_of(pass, want);

	if (is_empty(&subject))
		return false;
	return pass->is_second ? digest_differs(pass, want) : !pass->reading->wants[want].is_known;
}

/* Notes what is proven of a lane that was read; loop only. */
static void note_lane(void *arg, const struct rsum_lane *lane)
{
	struct rsum_pass *pass = arg;
	uint32_t i;

	if (!pass->shards[lane->shard].is_settled || pass->shards[lane->shard].is_changed)
		return;
	for (i = 0; i < lane->range_count; i++) {
		uint32_t want = pass->ranges[lane->first_range + i].id;
		const struct subject subject = subject_of(pass, want);
		struct rsum_journal_entry entry = {
			.identity = pass->checkpoint->shards[lane->shard].identity,
			.begin = subject.begin,
			.end = subject.end,
			.promise = pass->reading->wants[want].promise,
			.is_file = pass->reading->wants[want].is_file,
		};

		if (!digest_is_promised(&pass->results[want], &subject) ||
		    rsum_journal_seal(subject.algorithm, subject.digest, subject.digest_bytes,
				      entry.seal) != RINGSUM_OK)
			continue;
		memcpy(entry.head, pass->results[want].head, sizeof(entry.head));
		rsum_journal_append(pass->reading->journal, &entry);
	}
}

/* Makes a job of all wants, or of those that differ, whose results go to `results`, by want. */
static int make_job(struct rsum_pass *pass, struct rsum_range_result *results,
		    struct ringsum_error *err)
{
	const struct rsum_options *options = &pass->checkpoint->options;
	const struct rsum_plan_shape shape = {
		.chunk_bytes = options->given.chunk_bytes,
		.stream_count =
			options->given.threads * rsum_digest_impl_width(options->digest_impl),
	};
	size_t range_count = 0, i;
	int result;

	rsum_plan_deinit(&pass->plan);
	free(pass->ranges);
	pass->ranges = calloc(pass->reading->want_count + 1, sizeof(*pass->ranges));
	if (!pass->ranges)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the plan");
	for (i = 0; i < pass->reading->want_count; i++) {
		const struct subject subject = subject_of(pass, i);

		if (!is_wanted(pass, i))
			continue;
		pass->ranges[range_count++] = (struct rsum_range){
			.begin = subject.begin,
			.end = subject.end,
			.shard = subject.file_index,
			.id = (uint32_t)i,
			.algorithm = subject.algorithm,
			.destination = pass->reading->wants[i].destination,
			/* What differs again is no further finding. */
			.promised_digest = pass->is_second ? NULL : subject.digest,
		};
	}
	result = rsum_plan_build(pass->ranges, range_count, &shape, &pass->plan);
	if (result != RINGSUM_OK)
		return rsum_error_set(err, result, "no plan for reading could be made");
	pass->job = (struct rsum_pipeline_job){
		.plan = &pass->plan,
		.results = results,
		.result_count = pass->reading->want_count,
		.views = pass->views,
		.files = { .arg = pass, .open = open_shard, .close = close_shard },
		/* A second reading proves nothing. */
		.lane_closed = pass->reading->journal && !pass->is_second ? note_lane : NULL,
	};
	return RINGSUM_OK;
}

/* What is empty has nothing to read, and a digest all the same, whatever becomes of the rest. */
static int hash_empty(struct rsum_pass *pass)
{
	size_t i;

	for (i = 0; i < pass->reading->want_count; i++) {
		struct rsum_range_result *result = &pass->results[i];
		const struct subject subject = subject_of(pass, i);

		if (!is_empty(&subject))
			continue;
		if (rsum_digest_of(subject.algorithm, "", 0, result->digest) != RINGSUM_OK)
			return RINGSUM_E_NOMEM;
		result->is_hashed = true;
		result->error = 0;
	}
	return RINGSUM_OK;
}

/* Whose bytes those are that were read twice. Where memory is short nobody knows. */
static void find_owners(struct rsum_pass *pass)
{
	struct rsum_damage_digest *digests;
	size_t count = pass->reading->want_count, digest_count = 0, i;

	digests = calloc(count, sizeof(*digests));
	if (!digests || !pass->views) {
		free(digests);
		return;
	}
	for (i = 0; i < count; i++)
		if (pass->second[i].is_hashed && !pass->reading->wants[i].is_file)
			digests[digest_count++] = (struct rsum_damage_digest){
				.digest = pass->second[i].digest,
				.view = &pass->views[i],
			};
	rsum_damage_find_owners(&pass->checkpoint->manifest, digests, digest_count);
	free(digests);
}

/* Takes over what is known already. */
static void take_known(struct rsum_pass *pass)
{
	struct timespec now;
	int64_t now_ns;
	size_t i;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	for (i = 0; i < pass->checkpoint->manifest.file_count; i++) {
		const struct rsum_file_identity *identity = &pass->checkpoint->shards[i].identity;

		pass->shards[i].is_settled = identity->ctime_ns <= now_ns - SETTLED_NS &&
					     identity->mtime_ns <= now_ns - SETTLED_NS;
	}
	for (i = 0; i < pass->reading->want_count; i++) {
		const struct rsum_want *want = &pass->reading->wants[i];
		const struct subject subject = subject_of(pass, i);

		if (!want->is_known)
			continue;
		memcpy(pass->results[i].digest, subject.digest, subject.digest_bytes);
		memcpy(pass->results[i].head, want->known_head, sizeof(want->known_head));
		pass->results[i].is_hashed = true;
	}
}

static int begin_first(struct rsum_pass *pass, struct ringsum_error *err)
{
	pass->reading->report->facts.chunk_bytes = pass->checkpoint->options.given.chunk_bytes;
	pass->results = calloc(pass->reading->want_count + 1, sizeof(*pass->results));
	pass->shards = calloc(pass->checkpoint->manifest.file_count + 1, sizeof(*pass->shards));
	if (!pass->results || !pass->shards)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the results");
	if (hash_empty(pass) != RINGSUM_OK)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for a digest");
	take_known(pass);
	return make_job(pass, pass->results, err);
}

/* Every difference is read once more through fresh requests. */
static int begin_second(struct rsum_pass *pass, struct ringsum_error *err)
{
	size_t count = pass->reading->want_count, differences = 0, i;

	/* A promise of no bytes cannot be misread. */
	for (i = 0; i < count; i++) {
		const struct subject subject = subject_of(pass, i);

		differences += !is_empty(&subject) && digest_differs(pass, i);
	}
	pass->job.plan = NULL;
	if (differences == 0)
		return RINGSUM_OK;
	pass->second = calloc(count, sizeof(*pass->second));
	if (!pass->second)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for a second reading");
	pass->views = calloc(count, sizeof(*pass->views)); /* without them it only says less */
	pass->is_second = true;
	return make_job(pass, pass->second, err);
}

int rsum_reading_next(struct rsum_pass *pass, struct rsum_pipeline_job **job_out,
		      struct ringsum_error *err)
{
	int result = RINGSUM_OK;

	*job_out = NULL;
	while (result == RINGSUM_OK && !*job_out && pass->stage != STAGE_OVER) {
		enum stage stage = pass->stage++;

		result = stage == STAGE_FIRST ? begin_first(pass, err) : begin_second(pass, err);
		if (result == RINGSUM_OK && pass->job.plan && pass->plan.lane_count > 0)
			*job_out = &pass->job;
	}
	return result;
}

/* ---- weighing -------------------------------------------------------------------------------- */

static struct ringsum_finding draft_finding(enum ringsum_finding_code code,
					    enum ringsum_severity severity,
					    const struct subject *subject)
{
	return (struct ringsum_finding){
		.code = code,
		.severity = severity,
		.tensor = subject->tensor,
		.file = subject->file,
		.has_range = !subject->is_whole,
		.begin = subject->is_whole ? 0 : subject->begin,
		.end = subject->is_whole ? 0 : subject->end,
	};
}

static void add_finding(struct ringsum_report *report, enum ringsum_finding_code code,
			enum ringsum_severity severity, const struct subject *subject,
			const char *expected, const char *actual, const char *message)
{
	struct ringsum_finding finding = draft_finding(code, severity, subject);

	finding.expected = expected;
	finding.actual = actual;
	finding.message = message;
	rsum_report_add(report, &finding);
}

/* Room for any digest, and the name of an algorithm that is not SHA-256 before it. */
#define DIGEST_TEXT_BYTES (2 * RSUM_DIGEST_BYTES_MAX + 32)

static void print_digest(const struct subject *subject, const uint8_t *digest,
			 char text[DIGEST_TEXT_BYTES])
{
	size_t used = 0;

	if (subject->algorithm != RSUM_ALGORITHM_SHA256) {
		snprintf(text, DIGEST_TEXT_BYTES, "%s ", rsum_algorithm_name(subject->algorithm));
		used = strlen(text);
	}
	rsum_hex_encode(digest, subject->digest_bytes, text + used);
}

/* Whether direct I/O was required and this is how a file refuses it. */
static bool is_direct_refusal(const struct rsum_pass *pass, int error)
{
	return pass->checkpoint->options.given.direct == RINGSUM_DIRECT_REQUIRE &&
	       (error == -EOPNOTSUPP || error == -EINVAL);
}

/* Whether a want is unread for a reason that is its shard's. */
static bool fails_with_shard(const struct rsum_pass *pass, size_t want)
{
	const struct rsum_range_result *result = &pass->results[want];
	const struct shard_pass *shard = &pass->shards[shard_of(pass, want)];

	return !result->is_hashed && result->error != 0 &&
	       (result->error == shard->open_error || is_direct_refusal(pass, result->error));
}

static enum rsum_promise_status weigh_unread(struct rsum_pass *pass, size_t want)
{
	const struct rsum_range_result *result = &pass->results[want];
	const struct subject subject = subject_of(pass, want);
	char message[224], offset[64];

	if (result->error == -ECANCELED || result->error == 0)
		return RSUM_PROMISE_UNDECIDED; /* not reached; the report is not complete */
	if (fails_with_shard(pass, want))
		return RSUM_PROMISE_UNDECIDED; /* the shard has its finding */
	snprintf(offset, sizeof(offset), "at byte %llu of the file",
		 (unsigned long long)result->error_offset);
	if (result->error == -ENODATA)
		snprintf(message, sizeof(message),
			 "the file ended early when read %s, though its size says otherwise",
			 offset);
	else
		snprintf(message, sizeof(message), "could not be read %s: %s", offset,
			 strerror(-result->error));
	add_finding(pass->reading->report, RINGSUM_FINDING_READ_ERROR, RINGSUM_SEVERITY_UNDECIDED,
		    &subject, NULL, NULL, message);
	return RSUM_PROMISE_UNDECIDED;
}

/* Whether a second reading was not done, rather than failed. */
static bool is_unreached(const struct rsum_range_result *second)
{
	return !second ||
	       (!second->is_hashed && (second->error == 0 || second->error == -ECANCELED));
}

/* What was read of a shard that changed meanwhile proves nothing, but may be what to look at. */
static enum rsum_promise_status weigh_changed(struct rsum_pass *pass, size_t want)
{
	const struct subject subject = subject_of(pass, want);
	char expected[DIGEST_TEXT_BYTES], actual[DIGEST_TEXT_BYTES];

	if (!digest_differs(pass, want))
		return RSUM_PROMISE_UNDECIDED; /* the shard has its finding */
	print_digest(&subject, subject.digest, expected);
	print_digest(&subject, pass->results[want].digest, actual);
	add_finding(pass->reading->report, RINGSUM_FINDING_CHANGED_DURING_READ,
		    RINGSUM_SEVERITY_UNDECIDED, &subject, expected, actual,
		    "the bytes differ from the promise, but the shard was changed while it was "
		    "read; verify again");
	return RSUM_PROMISE_UNDECIDED;
}

static const char *empty_message(const struct subject *subject)
{
	return subject->tensor ? "the tensor is empty, and the promise is not the digest of no "
				 "bytes; get the manifest that belongs to this delivery"
			       : "the file is empty, and the promise is not the digest of no "
				 "bytes; fetch the file again";
}

/* Two readings alike, and not what was promised. */
static void add_corruption(struct rsum_pass *pass, size_t want, const char *expected,
			   const char *actual)
{
	const struct subject subject = subject_of(pass, want);
	const struct ringsum_tensor bytes = {
		.begin = subject.begin,
		.end = subject.end,
		.size_bytes = subject.end - subject.begin,
	};
	char looks[RSUM_DAMAGE_TEXT_BYTES], message[RSUM_DAMAGE_TEXT_BYTES + 128];
	struct ringsum_finding finding =
		draft_finding(RINGSUM_FINDING_DIGEST_MISMATCH, RINGSUM_SEVERITY_REFUSE, &subject);

	finding.expected = expected;
	finding.actual = actual;
	finding.message = message;
	rsum_damage_judge(pass->views ? &pass->views[want] : NULL, &bytes, &finding);
	snprintf(message, sizeof(message),
		 "the bytes on disk are not the bytes promised, in two readings alike%s; fetch "
		 "%s again",
		 rsum_damage_describe(&finding, looks, sizeof(looks)),
		 subject.is_whole ? "the file" : "this range");
	if (is_empty(&subject))
		finding.message = empty_message(&subject);
	rsum_report_add(pass->reading->report, &finding);
}

/* The first reading differed from the promise: what does the second say? */
static enum rsum_promise_status weigh_difference(struct rsum_pass *pass, size_t want)
{
	const struct subject subject = subject_of(pass, want);
	const struct rsum_range_result *second = pass->second ? &pass->second[want] : NULL;
	struct ringsum_report *report = pass->reading->report;
	char expected[DIGEST_TEXT_BYTES], actual[DIGEST_TEXT_BYTES];

	/* Of no bytes the first digest is as good as a second. */
	if (is_empty(&subject))
		second = &pass->results[want];
	print_digest(&subject, subject.digest, expected);
	print_digest(&subject, pass->results[want].digest, actual);
	/* An interruption must not hide what was already seen. */
	if (pass->is_canceled && is_unreached(second)) {
		add_finding(report, RINGSUM_FINDING_DIGEST_MISMATCH, RINGSUM_SEVERITY_REFUSE,
			    &subject, expected, actual,
			    subject.is_whole
				    ? "the bytes on disk are not the bytes promised, in one "
				      "reading: the run was interrupted before the second; verify "
				      "again or fetch the file again"
				    : "the bytes on disk are not the bytes promised, in one "
				      "reading: the run was interrupted before the second; verify "
				      "again or fetch this range again");
		return RSUM_PROMISE_REFUSED;
	}
	if (!second || !second->is_hashed) {
		add_finding(report, RINGSUM_FINDING_READ_ERROR, RINGSUM_SEVERITY_UNDECIDED,
			    &subject, expected, actual,
			    "the bytes differ from the promise, and a second reading to be sure of "
			    "it failed; verify again");
		return RSUM_PROMISE_UNDECIDED;
	}
	if (digest_is(second, pass->results[want].digest, subject.digest_bytes)) {
		add_corruption(pass, want, expected, actual);
		return RSUM_PROMISE_REFUSED;
	}
	if (!digest_is_promised(second, &subject)) {
		add_finding(report, RINGSUM_FINDING_UNSTABLE_READ, RINGSUM_SEVERITY_UNDECIDED,
			    &subject, expected, actual,
			    "two readings differed from the promise and from each other; check the "
			    "disk, its cable and the memory");
		return RSUM_PROMISE_UNDECIDED;
	}
	add_finding(report, RINGSUM_FINDING_UNSTABLE_READ,
		    pass->reading->accepts_second_reading ? RINGSUM_SEVERITY_NOTE
							  : RINGSUM_SEVERITY_UNDECIDED,
		    &subject, expected, actual,
		    "the first reading differed, the second was as promised: the storage answers "
		    "differently twice; check the disk, its cable and the memory");
	return pass->reading->accepts_second_reading ? RSUM_PROMISE_IDENTICAL
						     : RSUM_PROMISE_UNDECIDED;
}

bool rsum_marker_is_right(const struct rsum_profile *profile, const struct ringsum_tensor *tensor,
			  const uint8_t head[4], struct ringsum_report *report)
{
	const struct subject subject = subject_of_tensor(tensor);
	uint32_t wanted, found;
	char expected[16], actual[32];

	if (!profile->marker_of || !profile->marker_of(tensor->name, &wanted))
		return true;
	found = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 |
		(uint32_t)head[3] << 24;
	if (tensor->size_bytes >= sizeof(found) && found == wanted)
		return true;
	snprintf(expected, sizeof(expected), "0x%08X", wanted);
	if (tensor->size_bytes >= sizeof(found))
		snprintf(actual, sizeof(actual), "0x%08X", found);
	else
		snprintf(actual, sizeof(actual), "%u bytes in all", (unsigned)tensor->size_bytes);
	add_finding(
		report, RINGSUM_FINDING_EXL3_INVALID, RINGSUM_SEVERITY_REFUSE, &subject, expected,
		actual,
		"the marker is not that of the mul1 codebook, though the bytes are as promised: "
		"the delivery was packed with another codebook");
	return false;
}

static enum rsum_promise_status weigh(struct rsum_pass *pass, size_t want)
{
	const struct rsum_want *wanted = &pass->reading->wants[want];
	const struct subject subject = subject_of(pass, want);
	const struct rsum_range_result *proven = &pass->results[want];
	enum rsum_promise_status status = RSUM_PROMISE_IDENTICAL;

	if (pass->shards[shard_of(pass, want)].is_changed)
		return weigh_changed(pass, want);
	if (!proven->is_hashed)
		return weigh_unread(pass, want);
	if (digest_differs(pass, want)) {
		status = weigh_difference(pass, want);
		if (status != RSUM_PROMISE_IDENTICAL)
			return status;
		proven = &pass->second[want];
	}
	/* Rule E3, on bytes that are as promised: the promise may be of another codebook. */
	RSUM_ASSERT(digest_is_promised(proven, &subject));
	if (!wanted->is_file &&
	    !rsum_marker_is_right(pass->checkpoint->profile,
				  &pass->checkpoint->manifest.promises[wanted->promise].tensor,
				  proven->head, pass->reading->report))
		return RSUM_PROMISE_REFUSED;
	return status;
}

/* What is wrong with a shard as a whole; false where nothing is. */
static bool refuse_shard(const struct shard_pass *shard, struct rsum_refusal *refusal)
{
	if (shard->is_changed)
		(void)rsum_refusal_set(refusal, RINGSUM_FINDING_CHANGED_DURING_READ,
				       "the shard was changed or replaced while it was verified; "
				       "wait until nothing writes to it and verify again");
	else if (shard->refuses_direct)
		(void)rsum_refusal_set(refusal, RINGSUM_FINDING_READ_ERROR,
				       "direct I/O was required and this file refuses it; use "
				       "--direct prefer");
	else if (shard->is_unopened)
		(void)rsum_refusal_set(refusal, RINGSUM_FINDING_READ_ERROR,
				       "the shard cannot be opened again for reading: %s; mend "
				       "that and verify again",
				       strerror(-shard->open_error));
	return shard->is_changed || shard->refuses_direct || shard->is_unopened;
}

/* One finding for a shard, however many of its tensors fail with it. */
static void report_shards(struct rsum_pass *pass)
{
	const struct ringsum_checkpoint *checkpoint = pass->checkpoint;
	struct rsum_refusal refusal;
	size_t i;

	for (i = 0; i < pass->reading->want_count; i++) {
		struct shard_pass *shard = &pass->shards[shard_of(pass, i)];

		if ((shard->is_changed || fails_with_shard(pass, i)) &&
		    !pass->reading->wants[i].is_file)
			shard->failed_count++;
		if (!fails_with_shard(pass, i))
			continue;
		if (is_direct_refusal(pass, pass->results[i].error))
			shard->refuses_direct = true;
		else
			shard->is_unopened = true;
	}
	for (i = 0; i < checkpoint->manifest.file_count; i++)
		if (refuse_shard(&pass->shards[i], &refusal)) {
			rsum_refusal_add_count(&refusal, pass->shards[i].failed_count,
					       "tensor in it is undecided",
					       "tensors in it are undecided");
			rsum_report_add_refusal(pass->reading->report, &refusal, NULL,
						checkpoint->shards[i].name);
		}
}

static const char *limited_by(const struct rsum_pipeline_job *job)
{
	if (job->throttled_ns * 2 > job->elapsed_ns)
		return "rate";
	return job->starved_ns * 2 > job->elapsed_ns ? "hash" : "disk";
}

static void record_facts(struct rsum_pass *pass, const struct rsum_pipeline_outcome *outcome)
{
	struct ringsum_report *report = pass->reading->report;
	struct rsum_report_facts *facts = &report->facts;
	size_t i;

	if (!outcome->engine)
		return;
	facts->engine = outcome->engine;
	facts->buffer_pages = outcome->page_kind;
	facts->depth = outcome->depth;
	facts->threads = outcome->threads;
	if (outcome->engine_reason[0])
		rsum_report_set_text(report, &facts->engine_reason, outcome->engine_reason);
	facts->limited_by = limited_by(&pass->job);
	facts->files_direct = facts->files_buffered = 0;
	for (i = 0; i < pass->checkpoint->manifest.file_count; i++) {
		facts->files_direct += pass->shards[i].was_direct && !pass->shards[i].was_buffered;
		facts->files_buffered += pass->shards[i].was_buffered;
	}
}

void rsum_reading_take(struct rsum_pass *pass, const struct rsum_pipeline_outcome *outcome,
		       uint64_t elapsed_ns)
{
	struct ringsum_totals *totals = &pass->reading->report->totals;

	totals->bytes_read += pass->job.bytes_read;
	totals->elapsed_seconds += (double)elapsed_ns / 1e9;
	if (pass->is_second)
		find_owners(pass);
	else
		record_facts(pass, outcome);
}

struct rsum_pass *rsum_reading_begin(struct rsum_reading *reading)
{
	struct rsum_pass *pass = calloc(1, sizeof(*pass));
	size_t i;

	for (i = 0; i < reading->want_count; i++)
		reading->wants[i].status = RSUM_PROMISE_UNDECIDED;
	if (!pass)
		return NULL;
	pass->reading = reading;
	pass->checkpoint = reading->checkpoint;
	return pass;
}

/* What was not read in this run counts only where its shard is still what it was. */
static void look_at_known_shards(struct rsum_pass *pass)
{
	const struct ringsum_checkpoint *checkpoint = pass->checkpoint;
	bool *is_looked_at = calloc(checkpoint->manifest.file_count + 1, sizeof(*is_looked_at));
	size_t i;

	for (i = 0; i < pass->reading->want_count; i++) {
		uint32_t index = shard_of(pass, i);
		struct rsum_file_identity identity;
		struct rsum_refusal refusal;
		int fd, os_errno;

		if (!pass->reading->wants[i].is_known || (is_looked_at && is_looked_at[index]))
			continue;
		if (is_looked_at)
			is_looked_at[index] = true;
		if (rsum_confine_open(&checkpoint->root, checkpoint->shards[index].name, &fd,
				      &identity, &os_errno, &refusal) != RSUM_CONFINE_OK) {
			pass->shards[index].is_changed = true;
			continue;
		}
		close(fd);
		if (!rsum_file_identity_equal(&identity, &checkpoint->shards[index].identity))
			pass->shards[index].is_changed = true;
	}
	free(is_looked_at);
}

static void weigh_all(struct rsum_pass *pass)
{
	struct rsum_reading *reading = pass->reading;
	size_t i;

	/* A promise of no bytes cannot be misread: its first digest is as good as a second. */
	for (i = 0; pass->second && i < reading->want_count; i++) {
		const struct subject subject = subject_of(pass, i);

		if (is_empty(&subject))
			pass->second[i] = pass->results[i];
	}
	look_at_known_shards(pass);
	report_shards(pass);
	for (i = 0; i < reading->want_count; i++) {
		struct rsum_want *want = &reading->wants[i];

		want->status = weigh(pass, i);
		want->is_damaged = want->status == RSUM_PROMISE_REFUSED && digest_differs(pass, i);
	}
}

void rsum_reading_end(struct rsum_pass *pass, bool is_canceled)
{
	struct rsum_reading *reading = pass->reading;
	size_t i;

	pass->is_canceled = is_canceled;
	reading->report->facts.is_interrupted = is_canceled;
	if (pass->results && pass->shards)
		weigh_all(pass);
	/* What tells which bytes to expect must still be what it was. */
	if (!rsum_documents_are_unchanged(reading->checkpoint, reading->report))
		for (i = 0; i < reading->want_count; i++)
			if (reading->wants[i].status != RSUM_PROMISE_REFUSED)
				reading->wants[i].status = RSUM_PROMISE_UNDECIDED;
	rsum_plan_deinit(&pass->plan);
	free(pass->ranges);
	free(pass->shards);
	free(pass->results);
	free(pass->second);
	free(pass->views);
	free(pass);
}

int rsum_reading_drive(struct rsum_pass *pass, struct ringsum_error *err)
{
	const struct rsum_reading *reading = pass->reading;
	struct rsum_pipeline_outcome outcome;
	struct rsum_pipeline_setup setup;
	struct rsum_pipeline_job *job;
	int result;

	rsum_reading_set_up(&reading->checkpoint->options, &setup);
	setup.is_hashing_off = reading->is_hashing_off;
	if (reading->checkpoint->options.given.progress || reading->report->map)
		setup.progress = on_progress;
	if (reading->is_patient)
		setup.drain_ms = 0;
	setup.progress_arg = pass;
	pass->begin_ns = now_ns();
	while ((result = rsum_reading_next(pass, &job, err)) == RINGSUM_OK && job) {
		result = rsum_pipeline_run_job(&setup, job, &outcome, err);
		rsum_reading_take(pass, &outcome, outcome.elapsed_ns);
		if (result != RINGSUM_OK)
			break;
	}
	return result;
}

int rsum_reading_run(struct rsum_reading *reading, struct ringsum_error *err)
{
	struct rsum_pass *pass = rsum_reading_begin(reading);
	int result;

	if (!pass)
		return rsum_error_set(err, RINGSUM_E_NOMEM, "out of memory for the reading");
	result = rsum_reading_drive(pass, err);
	rsum_reading_end(pass, result == RINGSUM_E_CANCELED);
	return result;
}
