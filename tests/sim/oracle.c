/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must come out, told from the log of what was injected: first of every range that the
 * pipeline was given, then of every tensor, finding and byte of memory that a caller sees.
 */
#include "sim.h"

#include <errno.h>
#include <string.h>

/* The loop tries a read so often; see the rule on short reads in pipeline.c. */
#define ATTEMPTS 8

/* ---- one run of the pipeline ------------------------------------------------------------------- */

static const struct rsum_lane *lane_of(const struct sim_pass *pass, size_t range)
{
	size_t i;

	for (i = 0; i < pass->plan->lane_count; i++) {
		const struct rsum_lane *lane = &pass->plan->lanes[i];

		if (range >= lane->first_range && range < lane->first_range + lane->range_count)
			return lane;
	}
	sim_fail("range %zu is in no lane", range);
}

static size_t tensor_at(uint32_t shard, uint64_t begin, uint64_t end)
{
	const struct delivery *delivery = sim.delivery;
	size_t i;

	for (i = 0; i < delivery->count; i++)
		if (delivery->tensors[i].shard == shard && delivery->tensors[i].begin == begin &&
		    delivery->tensors[i].begin + delivery->tensors[i].size_bytes == end)
			return i;
	sim_fail("no tensor has the range [%llu, %llu)", (unsigned long long)begin,
		 (unsigned long long)end);
}

/* What the pipeline has to make of a read's last answer; 0 where the bytes are good to use. */
static int error_of(const struct sim_read *read)
{
	if (read->is_exact)
		return 0;
	if (read->result < 0)
		return read->result;
	return (uint32_t)read->result > read->expected ? -ESTALE : -ENODATA;
}

/* A read may be given up for good reasons only. */
static void check_read(const struct sim_pass *pass, const struct sim_read *read)
{
	bool is_over = pass->broken || pass->is_canceled;
	int result = read->result;

	if (!read->is_answered && !pass->broken)
		sim_fail("a read at %llu was never reaped", (unsigned long long)read->offset);
	/* A short one in the caller's memory is tried in the buffer besides. */
	SIM_REQUIRE(read->passing <= ATTEMPTS + 1);
	if (!read->is_answered || read->is_exact || is_over)
		return;
	if (result > 0 && (uint32_t)result > read->expected)
		return;
	if (result > 0 || result == -EINTR || result == -EAGAIN || result == -ECANCELED) {
		if (!read->was_placed && read->passing >= ATTEMPTS - 1)
			return;
		if (read->passing < ATTEMPTS)
			sim_fail(
				"a read at %llu that could be tried again was given up after %u of "
				"%u attempts",
				(unsigned long long)read->offset, read->passing, ATTEMPTS);
	}
	if (read->was_placed && (result == -EFAULT || result == -EOPNOTSUPP || result == -EINVAL))
		sim_fail("a read at %llu was given up though only its place refused it",
			 (unsigned long long)read->offset);
}

struct piece {
	bool is_whole; /* every byte of the range was read */
	bool is_spoiled;
	bool has_error;
	int errors[64];
	unsigned error_count;
	bool has_gap;	  /* something of it nobody tried to read */
	uint64_t reached; /* up to here reads were made */
};

static void add_error(struct piece *piece, int error)
{
	piece->has_error = true;
	if (piece->error_count < RSUM_COUNT_OF(piece->errors))
		piece->errors[piece->error_count++] = error;
}

static bool is_of(const struct sim_read *read, const struct rsum_lane *lane,
		  const struct rsum_range *range)
{
	return read->lane == lane && read->offset < range->end &&
	       read->offset + RSUM_MAX(read->expected, 1) > range->begin;
}

/* What the engine and the workers read of it, in the order of the file. */
static struct piece look_at_range(const struct sim_pass *pass, const struct rsum_lane *lane,
				  const struct rsum_range *range)
{
	struct piece piece = { .is_whole = true, .reached = range->begin };
	size_t next = 0, next_left = 0, i;
	unsigned passing = 0;

	while (next < pass->read_count || next_left < pass->left_count) {
		const struct sim_read *read = NULL, *left = NULL;

		while (next < pass->read_count && !is_of(&pass->reads[next], lane, range))
			next++;
		while (next_left < pass->left_count &&
		       !(is_of(&pass->left[next_left].read, lane, range) &&
			 pass->left[next_left].read.is_exact))
			next_left++;
		if (next < pass->read_count)
			read = &pass->reads[next];
		if (next_left < pass->left_count)
			left = &pass->left[next_left].read;
		if (!read && !left)
			break;
		if (!read || (left && left->offset < read->offset)) {
			read = left;
			next_left++;
		} else {
			next++;
		}
		/* Of a lane every byte is read once, but for what a reader gave up. */
		SIM_REQUIRE(read->offset + read->expected > piece.reached);
		if (read->offset > piece.reached) {
			piece.has_gap = true;
			piece.is_whole = false;
		}
		piece.reached = read->offset + read->expected;
		piece.is_spoiled |= read->spoiled != NULL;
		if (read->is_exact && read->is_answered)
			continue;
		piece.is_whole = false;
		add_error(&piece, read->is_answered ? error_of(read) : pass->broken);
	}
	if (piece.reached < range->end)
		piece.is_whole = false;
	for (i = 0; i < pass->left_count; i++) {
		const struct sim_left *attempt = &pass->left[i];

		if (!is_of(&attempt->read, lane, range))
			continue;
		passing += attempt->is_passing;
		if (attempt->read.result <= 0 && (!attempt->is_passing || passing >= ATTEMPTS))
			add_error(&piece, attempt->read.result ? attempt->read.result : -ENODATA);
		else if (attempt->is_passing && passing >= ATTEMPTS)
			add_error(&piece, -ENODATA);
	}
	return piece;
}

/* The digest of what the reads gave. */
static void digest_of_reads(const struct sim_pass *pass, const struct rsum_lane *lane,
			    const struct rsum_range *range, uint8_t digest_out[RSUM_SHA256_BYTES])
{
	size_t size_bytes = (size_t)(range->end - range->begin), i;
	uint8_t *bytes = malloc(size_bytes);

	SIM_REQUIRE(bytes);
	memcpy(bytes, sim.shards[range->shard].promised + range->begin, size_bytes);
	for (i = 0; i < pass->read_count + pass->left_count; i++) {
		const struct sim_read *read = i < pass->read_count
						      ? &pass->reads[i]
						      : &pass->left[i - pass->read_count].read;
		uint64_t begin = RSUM_MAX(read->offset, range->begin);
		uint64_t end = RSUM_MIN(read->offset + read->expected, range->end);

		if (read->lane == lane && read->spoiled && begin < end)
			memcpy(bytes + (begin - range->begin),
			       read->spoiled + (begin - read->offset), (size_t)(end - begin));
	}
	SIM_REQUIRE(rsum_sha256_of(bytes, size_bytes, digest_out) == 0);
	free(bytes);
}

static bool is_open_error(const struct sim_pass *pass, uint32_t shard, int error)
{
	unsigned i;

	for (i = 0; i < pass->open_error_count[shard]; i++)
		if (pass->open_errors[shard][i] == error)
			return true;
	if (error == -ESTALE && pass->saw_change[shard])
		return true;
	return error == -EOPNOTSUPP && pass->setup.direct == RINGSUM_DIRECT_REQUIRE;
}

static bool is_explained(const struct sim_pass *pass, const struct rsum_range *range,
			 const struct piece *piece, int error)
{
	unsigned i;

	for (i = 0; i < piece->error_count; i++) {
		if (piece->errors[i] == error)
			return true;
		/* An engine that broke tells nothing good of short answers; and what no one
		 * canceled is not called so. */
		if (error == -EIO && (pass->broken || piece->errors[i] == -ECANCELED))
			return true;
	}
	if (piece->reached >= range->end && !piece->has_gap)
		return false;
	if (is_open_error(pass, range->shard, error) || (pass->broken && error == pass->broken))
		return true;
	return error == -ECANCELED && (pass->is_canceled || pass->could_not_begin);
}

static void check_range(const struct sim_pass *pass, size_t index)
{
	const struct rsum_range *range = &pass->plan->ranges[index];
	const struct rsum_lane *lane = lane_of(pass, index);
	const struct rsum_range_result *result = &pass->results[range->id];
	struct piece piece = look_at_range(pass, lane, range);
	size_t tensor = tensor_at(range->shard, range->begin, range->end);
	uint8_t digest[RSUM_SHA256_BYTES];

	if (result->is_hashed != piece.is_whole)
		sim_fail("%s, pass %u: it was %s, and is said to be %s",
			 sim.delivery->tensors[tensor].name, pass->number,
			 piece.is_whole ? "read whole" : "not read whole",
			 result->is_hashed ? "hashed" : "not hashed");
	if (!piece.is_whole) {
		if (result->error == 0 || !is_explained(pass, range, &piece, result->error))
			sim_fail("%s, pass %u: error %d has no reason",
				 sim.delivery->tensors[tensor].name, pass->number, result->error);
		return;
	}
	memcpy(digest, sim.digests[tensor], sizeof(digest));
	if (piece.is_spoiled)
		digest_of_reads(pass, lane, range, digest);
	if (memcmp(digest, result->digest, sizeof(digest)) != 0)
		sim_fail("%s, pass %u: the digest is not that of the bytes read",
			 sim.delivery->tensors[tensor].name, pass->number);
}

void sim_check_pass(const struct sim_pass *pass)
{
	size_t i;

	if (pass->result != RINGSUM_OK && pass->result != RINGSUM_E_CANCELED)
		SIM_REQUIRE(pass->could_not_begin);
	if (pass->could_not_begin)
		SIM_REQUIRE(pass->result == RINGSUM_E_NOMEM || pass->result == RINGSUM_E_IO);
	if (pass->is_canceled)
		SIM_REQUIRE(sim.wants_cancel);
	for (i = 0; i < sim.delivery->shard_count; i++)
		if (pass->must_see_change[i] && !pass->saw_change[i])
			sim_fail("shard %zu changed while it was open and nobody looked", i);
	for (i = 0; i < pass->read_count; i++)
		check_read(pass, &pass->reads[i]);
	for (i = 0; i < pass->plan->range_count; i++)
		check_range(pass, i);
}

/* ---- what the caller is told ------------------------------------------------------------------------ */

enum standing { IDENTICAL, REFUSED, UNDECIDED };

/* A want, and what must be said of it. */
struct expectation {
	size_t tensor;
	enum standing standing;
	bool has_finding;      /* one that names the tensor */
	bool has_note;	       /* though identical */
	bool may_have_finding; /* of its own, or the shard's */
	enum ringsum_finding_code code;
	int error; /* of its first reading */
};

static bool shard_changed(unsigned shard)
{
	unsigned i;

	for (i = 0; i < sim.pass_count; i++)
		if (sim.passes[i].saw_change[shard])
			return true;
	return false;
}

static bool was_canceled(void)
{
	return sim.pass_count > 0 && sim.passes[sim.pass_count - 1].is_canceled;
}

static bool is_as_promised(const struct rsum_range_result *result, size_t tensor)
{
	return memcmp(result->digest, sim.digests[tensor], RSUM_SHA256_BYTES) == 0;
}

static struct expectation expect_unread(const struct rsum_range_result *first, size_t tensor)
{
	struct expectation expected = {
		.tensor = tensor,
		.standing = UNDECIDED,
		.error = first->error,
	};
	const struct sim_pass *pass = &sim.passes[0];
	unsigned shard = sim.delivery->tensors[tensor].shard;

	/* Not reached: what kept everything from going on is told once, for all. */
	if (first->error == -ECANCELED && (pass->is_canceled || pass->could_not_begin))
		return expected;
	expected.code = RINGSUM_FINDING_READ_ERROR;
	/* One finding for a shard whose opening failed stands for all its tensors. */
	if (is_open_error(pass, shard, first->error) ||
	    (pass->setup.direct == RINGSUM_DIRECT_REQUIRE && first->error == -EINVAL))
		expected.may_have_finding = true;
	else
		expected.has_finding = true;
	return expected;
}

static struct expectation expect_difference(size_t want, size_t tensor, bool accepts_second)
{
	struct expectation expected = { .tensor = tensor, .has_finding = true };
	const struct rsum_range_result *first = &sim.passes[0].kept[want];
	const struct rsum_range_result *second =
		sim.pass_count > 1 ? &sim.passes[1].kept[want] : NULL;

	SIM_REQUIRE(second); /* whatever differs is read again */
	if (!second->is_hashed && was_canceled() && second->error == -ECANCELED) {
		expected.standing = REFUSED;
		expected.code = RINGSUM_FINDING_DIGEST_MISMATCH;
	} else if (!second->is_hashed) {
		expected.standing = UNDECIDED;
		expected.code = RINGSUM_FINDING_READ_ERROR;
	} else if (memcmp(first->digest, second->digest, RSUM_SHA256_BYTES) == 0) {
		expected.standing = REFUSED;
		expected.code = RINGSUM_FINDING_DIGEST_MISMATCH;
	} else {
		expected.code = RINGSUM_FINDING_UNSTABLE_READ;
		expected.has_note = is_as_promised(second, tensor) && accepts_second;
		expected.standing = expected.has_note ? IDENTICAL : UNDECIDED;
	}
	return expected;
}

static struct expectation expect(size_t want, size_t tensor, bool accepts_second)
{
	const struct sim_pass *pass = &sim.passes[0];
	const struct delivery_tensor *what = &sim.delivery->tensors[tensor];
	/* Where all wants are empty there is no pass. */
	const struct rsum_range_result *first = pass->kept ? &pass->kept[want] : NULL;
	struct expectation expected = { .tensor = tensor, .standing = IDENTICAL };

	if (shard_changed(what->shard)) {
		expected.standing = UNDECIDED;
		expected.code = RINGSUM_FINDING_CHANGED_DURING_READ;
		expected.has_finding =
			what->size_bytes > 0 && first->is_hashed && !is_as_promised(first, tensor);
	} else if (what->size_bytes == 0) {
		expected.standing = IDENTICAL; /* there is nothing to read */
	} else if (!first->is_hashed) {
		expected = expect_unread(first, tensor);
	} else if (!is_as_promised(first, tensor)) {
		if (pass->is_canceled) {
			expected.standing = REFUSED;
			expected.has_finding = true;
			expected.code = RINGSUM_FINDING_DIGEST_MISMATCH;
		} else {
			expected = expect_difference(want, tensor, accepts_second);
		}
	}
	if (sim.document_changed && expected.standing != REFUSED)
		expected.standing = UNDECIDED;
	return expected;
}

static bool finding_is(const struct ringsum_finding *finding, enum ringsum_finding_code code,
		       const char *tensor, const char *file)
{
	return finding->code == code && (!finding->tensor) == (!tensor) &&
	       (!tensor || strcmp(finding->tensor, tensor) == 0) &&
	       (!file || (finding->file && strcmp(finding->file, file) == 0));
}

static unsigned count_findings(const struct ringsum_report *report, enum ringsum_finding_code code,
			       const char *tensor, const char *file)
{
	size_t count = ringsum_report_finding_count(report), i;
	unsigned found = 0;

	for (i = 0; i < count; i++)
		found += finding_is(ringsum_report_finding_at(report, i), code, tensor, file);
	return found;
}

/* Before it is said what is wrong with it. */
static void print_findings(const struct ringsum_report *report)
{
	size_t count = ringsum_report_finding_count(report), i;

	for (i = 0; i < count; i++) {
		const struct ringsum_finding *finding = ringsum_report_finding_at(report, i);

		printf("# %s %s %s: %s\n", ringsum_finding_code_name(finding->code),
		       finding->file ? finding->file : "-", finding->tensor ? finding->tensor : "-",
		       finding->message);
	}
}

static void check_finding_of(const struct expectation *expected,
			     const struct ringsum_report *report, unsigned times)
{
	const char *name = sim.delivery->tensors[expected->tensor].name;
	char file[64];
	unsigned found = 0, code, right;

	snprintf(file, sizeof(file), "shard-%u.safetensors",
		 sim.delivery->tensors[expected->tensor].shard);
	for (code = 0; code < RINGSUM_FINDING_CODE_COUNT; code++)
		found += count_findings(report, (enum ringsum_finding_code)code, name, file);
	right = expected->has_finding || expected->may_have_finding
			? count_findings(report, expected->code, name, file)
			: 0;
	if (found != right || right > times) {
		print_findings(report);
		sim_fail("%s has %u findings, %u of them of the right kind; expected standing %d, "
			 "error %d",
			 name, found, right, (int)expected->standing, expected->error);
	}
	if (expected->has_finding && right != times) {
		print_findings(report);
		sim_fail("%s: expected %s %u times, found it %u times; its error is %d", name,
			 ringsum_finding_code_name(expected->code), times, right, expected->error);
	}
	if (expected->may_have_finding && right == 0 &&
	    count_findings(report, RINGSUM_FINDING_READ_ERROR, NULL, file) == 0)
		sim_fail("%s is undecided and nothing says why", name);
}

static void check_shard_findings(const struct ringsum_report *report)
{
	char file[64];
	unsigned shard, changes, errors;

	for (shard = 0; shard < sim.delivery->shard_count; shard++) {
		snprintf(file, sizeof(file), "shard-%u.safetensors", shard);
		changes = count_findings(report, RINGSUM_FINDING_CHANGED_DURING_READ, NULL, file);
		errors = count_findings(report, RINGSUM_FINDING_READ_ERROR, NULL, file);
		if (changes != shard_changed(shard))
			sim_fail("%s changed: %d, said so: %u", file, shard_changed(shard),
				 changes);
		if (errors > 1)
			sim_fail("%s has %u findings of its own", file, errors);
		if (errors && sim.passes[0].open_error_count[shard] == 0 &&
		    sim.passes[0].setup.direct != RINGSUM_DIRECT_REQUIRE)
			sim_fail("%s could be opened, and it is said that it could not", file);
	}
	changes = count_findings(report, RINGSUM_FINDING_CHANGED_DURING_READ, NULL, "TENSORS.json");
	if (changes != sim.document_changed)
		sim_fail("manifest changed: %d, said so: %u", sim.document_changed, changes);
}

struct expected_totals {
	uint64_t identical, refused, undecided, bytes_proven;
};

static bool was_carried_through(void)
{
	unsigned i;

	for (i = 0; i < sim.pass_count; i++)
		if (sim.passes[i].result != RINGSUM_OK)
			return false;
	return true;
}

static void check_verdict(const struct ringsum_report *report, int result,
			  const struct expected_totals *expected)
{
	enum ringsum_verdict verdict = ringsum_report_verdict(report), right;
	struct ringsum_totals totals;
	int right_result;

	ringsum_report_totals(report, &totals);
	if (totals.tensors_identical != expected->identical ||
	    totals.tensors_refused != expected->refused ||
	    totals.tensors_undecided != expected->undecided ||
	    totals.bytes_proven != expected->bytes_proven)
		sim_fail("totals: %llu identical, %llu refused, %llu undecided; expected %llu, "
			 "%llu, "
			 "%llu",
			 (unsigned long long)totals.tensors_identical,
			 (unsigned long long)totals.tensors_refused,
			 (unsigned long long)totals.tensors_undecided,
			 (unsigned long long)expected->identical,
			 (unsigned long long)expected->refused,
			 (unsigned long long)expected->undecided);
	right = expected->refused > 0 ? RINGSUM_VERDICT_REFUSED
		: expected->undecided == 0 && was_carried_through() && !sim.document_changed
			? RINGSUM_VERDICT_IDENTICAL
			: RINGSUM_VERDICT_UNDECIDED;
	if (verdict != right)
		sim_fail("the verdict is %d, expected %d", (int)verdict, (int)right);
	right_result = was_canceled()			    ? RINGSUM_E_CANCELED
		       : right == RINGSUM_VERDICT_IDENTICAL ? RINGSUM_OK
		       : right == RINGSUM_VERDICT_REFUSED   ? RINGSUM_E_REFUSED
							    : RINGSUM_E_UNDECIDED;
	if (result != right_result)
		sim_fail("the result is %d, expected %d", result, right_result);
}

/*
 * The rule that needs no log of reads: where a bit is flipped for good, the tensor is never
 * identical; and nothing but a fault leaves one undecided.
 */
static void check_damage(size_t tensor, enum standing standing)
{
	const struct delivery_tensor *what = &sim.delivery->tensors[tensor];
	const uint8_t *image = sim.shards[what->shard].image + what->begin;
	unsigned i;

	for (i = 0; i < sim.flip_count; i++)
		if (sim.flips[i].shard == what->shard && sim.flips[i].byte >= what->begin &&
		    sim.flips[i].byte < what->begin + what->size_bytes &&
		    memcmp(image, what->bytes, what->size_bytes) != 0 && standing == IDENTICAL)
			sim_fail("%s is damaged and called identical", what->name);
}

static void add_to_totals(struct expected_totals *totals, const struct expectation *expected)
{
	switch (expected->standing) {
	case IDENTICAL:
		totals->identical++;
		totals->bytes_proven += sim.delivery->tensors[expected->tensor].size_bytes;
		break;
	case REFUSED:
		totals->refused++;
		break;
	case UNDECIDED:
		totals->undecided++;
		break;
	}
}

void sim_check_verify(const struct ringsum_report *report, int result)
{
	struct expected_totals totals = { 0 };
	size_t i;

	SIM_REQUIRE(report);
	for (i = 0; i < sim.delivery->count; i++) {
		struct expectation expected = expect(i, i, false);

		check_damage(i, expected.standing);
		check_finding_of(&expected, report, 1);
		add_to_totals(&totals, &expected);
	}
	check_shard_findings(report);
	check_verdict(report, result, &totals);
}

/* ---- loads ------------------------------------------------------------------------------------------- */

static int status_of(enum standing standing)
{
	switch (standing) {
	case IDENTICAL:
		return RINGSUM_OK;
	case REFUSED:
		return RINGSUM_E_REFUSED;
	case UNDECIDED:
		break;
	}
	return was_canceled() ? RINGSUM_E_CANCELED : RINGSUM_E_UNDECIDED;
}

static size_t tensor_named(const char *name)
{
	size_t i;

	for (i = 0; i < sim.delivery->count; i++)
		if (strcmp(sim.delivery->tensors[i].name, name) == 0)
			return i;
	sim_fail("no tensor is called %s", name);
}

static void check_destination(const struct ringsum_load *load, size_t tensor)
{
	const struct delivery_tensor *what = &sim.delivery->tensors[tensor];
	const uint8_t *bytes = load->destination;
	uint64_t i;

	if (load->status == RINGSUM_OK) {
		if (what->size_bytes && memcmp(bytes, what->bytes, what->size_bytes) != 0)
			sim_fail("%s is called proven and other bytes were delivered", what->name);
		return;
	}
	for (i = 0; i < what->size_bytes; i++)
		if (bytes[i] != 0)
			sim_fail("%s is not proven and byte %llu of it was left behind", what->name,
				 (unsigned long long)i);
}

/* The same tensor may be loaded several times, with findings for each that has one. */
static void check_findings_of_loads(const struct expectation *all, size_t count,
				    const struct ringsum_report *report)
{
	size_t i, k;

	for (i = 0; i < count; i++) {
		struct expectation sum = all[i];
		unsigned times = 0;
		bool is_mixed = false;

		for (k = 0; k < count; k++) {
			if (all[k].tensor != all[i].tensor)
				continue;
			is_mixed |= all[k].code != all[i].code ||
				    all[k].has_finding != all[i].has_finding ||
				    all[k].may_have_finding != all[i].may_have_finding;
			times++;
		}
		if (!is_mixed)
			check_finding_of(&sum, report, times);
	}
}

void sim_check_load(const struct ringsum_load *loads, size_t load_count,
		    const struct ringsum_report *report, int result)
{
	struct expectation *all = calloc(load_count, sizeof(*all));
	struct expected_totals totals = { 0 };
	size_t i;

	SIM_REQUIRE(all && report);
	for (i = 0; i < load_count; i++) {
		size_t tensor = tensor_named(loads[i].tensor->name);

		all[i] = expect(i, tensor, true);
		if (loads[i].status != status_of(all[i].standing))
			sim_fail("load %zu, %s: its status is %d, expected %d", i,
				 loads[i].tensor->name, loads[i].status,
				 status_of(all[i].standing));
		check_destination(&loads[i], tensor);
		add_to_totals(&totals, &all[i]);
	}
	check_findings_of_loads(all, load_count, report);
	check_shard_findings(report);
	check_verdict(report, result, &totals);
	free(all);
}
