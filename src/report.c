/* SPDX-License-Identifier: Apache-2.0 */
/* Findings, totals and the verdict. Knows nothing of files, JSON or terminals. */
#include "report.h"

#include <assert.h>
#include <string.h>

#include "report_map.h"
#include "rsum_limits.h"

static_assert(RSUM_LIMIT_NOTES < RSUM_LIMIT_FINDINGS, "notes never fill the list");

static const char *const code_names[RINGSUM_FINDING_CODE_COUNT] = {
	[RINGSUM_FINDING_MANIFEST_INVALID] = "manifest-invalid",
	[RINGSUM_FINDING_CONFIG_INVALID] = "config-invalid",
	[RINGSUM_FINDING_PLAN_INVALID] = "plan-invalid",
	[RINGSUM_FINDING_TENSOR_MISSING] = "tensor-missing",
	[RINGSUM_FINDING_TENSOR_UNEXPECTED] = "tensor-unexpected",
	[RINGSUM_FINDING_TENSOR_DUPLICATE] = "tensor-duplicate",
	[RINGSUM_FINDING_PATH_ESCAPE] = "path-escape",
	[RINGSUM_FINDING_FILE_MISSING] = "file-missing",
	[RINGSUM_FINDING_FILE_TYPE] = "file-type",
	[RINGSUM_FINDING_FILE_TRUNCATED] = "file-truncated",
	[RINGSUM_FINDING_FILE_TRAILING] = "file-trailing",
	[RINGSUM_FINDING_HEADER_INVALID] = "header-invalid",
	[RINGSUM_FINDING_HEADER_MISMATCH] = "header-mismatch",
	[RINGSUM_FINDING_DTYPE_UNSUPPORTED] = "dtype-unsupported",
	[RINGSUM_FINDING_SIZE_MISMATCH] = "size-mismatch",
	[RINGSUM_FINDING_DIGEST_MISMATCH] = "digest-mismatch",
	[RINGSUM_FINDING_EXL3_INVALID] = "exl3-invalid",
	[RINGSUM_FINDING_CHANGED_DURING_READ] = "changed-during-read",
	[RINGSUM_FINDING_READ_ERROR] = "read-error",
	[RINGSUM_FINDING_UNSTABLE_READ] = "unstable-read",
	[RINGSUM_FINDING_UNPROMISED] = "unpromised",
	[RINGSUM_FINDING_DIGEST_UNSUPPORTED] = "digest-unsupported",
	[RINGSUM_FINDING_SIGNATURE_INVALID] = "signature-invalid",
};

RSUM_PUBLIC const char *ringsum_finding_code_name(enum ringsum_finding_code code)
{
	return (unsigned)code < RINGSUM_FINDING_CODE_COUNT ? code_names[code] : NULL;
}

RSUM_PUBLIC void ringsum_free(void *memory)
{
	free(memory);
}

struct ringsum_report *rsum_report_new(void)
{
	return calloc(1, sizeof(struct ringsum_report));
}

RSUM_PUBLIC void ringsum_report_free(struct ringsum_report *report)
{
	if (!report)
		return;
	rsum_arena_deinit(&report->strings);
	rsum_map_free(report->map);
	free(report->findings);
	free(report->manifests);
	free(report);
}

static enum ringsum_severity severity_of(const struct ringsum_finding *draft)
{
	if (draft->severity == RINGSUM_SEVERITY_NOTE)
		return RINGSUM_SEVERITY_NOTE;
	switch (draft->code) {
	case RINGSUM_FINDING_CHANGED_DURING_READ:
	case RINGSUM_FINDING_READ_ERROR:
	case RINGSUM_FINDING_UNSTABLE_READ:
	case RINGSUM_FINDING_DIGEST_UNSUPPORTED:
		return RINGSUM_SEVERITY_UNDECIDED;
	default:
		return RINGSUM_SEVERITY_REFUSE;
	}
}

/* All at once: one by one would cost the square of the list. */
static void drop_notes(struct ringsum_report *report)
{
	size_t kept = 0;

	for (size_t i = 0; i < report->finding_count; i++)
		if (report->findings[i].severity != RINGSUM_SEVERITY_NOTE)
			report->findings[kept++] = report->findings[i];
	RSUM_ASSERT(report->finding_count - kept == report->note_count);
	report->finding_count = kept;
	report->note_count = 0;
}

/* What decides takes precedence: notes make room for it where the list is full. */
static bool is_to_be_listed(struct ringsum_report *report, enum ringsum_severity severity)
{
	if (severity == RINGSUM_SEVERITY_NOTE)
		return report->note_count < RSUM_LIMIT_NOTES &&
		       report->finding_count < RSUM_LIMIT_FINDINGS;
	if (report->finding_count == RSUM_LIMIT_FINDINGS && report->note_count > 0)
		drop_notes(report);
	return report->finding_count < RSUM_LIMIT_FINDINGS;
}

static bool keep_text(struct ringsum_report *report, const char **slot, const char *text)
{
	char *copy;

	if (!text) {
		*slot = NULL;
		return true;
	}
	copy = rsum_arena_copy(&report->strings, text, strlen(text));
	if (!copy)
		return false;
	*slot = copy;
	return true;
}

static bool grow(struct ringsum_report *report)
{
	size_t capacity = report->finding_capacity;
	struct ringsum_finding *findings;

	if (report->finding_count < capacity)
		return true;
	capacity = capacity ? capacity * 2 : 16;
	findings = realloc(report->findings, capacity * sizeof(*findings));
	if (!findings)
		return false;
	report->findings = findings;
	report->finding_capacity = capacity;
	return true;
}

/* Keeps a deep copy. False where memory ran out; the report is then as before. */
static bool keep_finding(struct ringsum_report *report, const struct ringsum_finding *draft,
			 enum ringsum_severity severity)
{
	const char *message = draft->message ? draft->message : code_names[draft->code];
	struct ringsum_finding copy = *draft;

	copy.severity = severity;
	if (!grow(report) || !keep_text(report, &copy.tensor, draft->tensor) ||
	    !keep_text(report, &copy.file, draft->file) ||
	    !keep_text(report, &copy.expected, draft->expected) ||
	    !keep_text(report, &copy.actual, draft->actual) ||
	    !keep_text(report, &copy.looks_tensor, draft->looks_tensor) ||
	    !keep_text(report, &copy.message, message))
		return false;
	report->findings[report->finding_count++] = copy;
	if (severity == RINGSUM_SEVERITY_NOTE)
		report->note_count++;
	return true;
}

void rsum_report_add(struct ringsum_report *report, const struct ringsum_finding *draft)
{
	enum ringsum_severity severity = severity_of(draft);

	RSUM_ASSERT((unsigned)draft->code < RINGSUM_FINDING_CODE_COUNT);
	/* Counted before it is kept, so that want of memory cannot hide that it was there. */
	if (severity == RINGSUM_SEVERITY_REFUSE)
		report->refusing_count++;
	else if (severity == RINGSUM_SEVERITY_UNDECIDED)
		report->undecided_count++;
	if (is_to_be_listed(report, severity) && !keep_finding(report, draft, severity))
		report->is_incomplete_for_memory = true;
}

void rsum_report_add_refusal(struct ringsum_report *report, const struct rsum_refusal *refusal,
			     const char *tensor, const char *file)
{
	rsum_report_add(report, &(struct ringsum_finding){
					.code = refusal->code,
					.tensor = tensor,
					.file = file,
					.expected = refusal->expected[0] ? refusal->expected : NULL,
					.actual = refusal->actual[0] ? refusal->actual : NULL,
					.message = refusal->message,
				});
}

void rsum_report_advise(struct ringsum_report *report, const char *advice)
{
	struct rsum_text text = { 0 };
	struct ringsum_finding *last;
	char *message = NULL;

	if (report->finding_count == 0)
		return;
	last = &report->findings[report->finding_count - 1];
	rsum_text_printf(&text, "%s; %s", last->message, advice);
	if (rsum_text_finish(&text, &message) != RINGSUM_OK ||
	    !keep_text(report, &last->message, message))
		report->is_incomplete_for_memory = true;
	free(message);
}

void rsum_report_set_text(struct ringsum_report *report, const char **slot, const char *text)
{
	if (!keep_text(report, slot, text))
		report->is_incomplete_for_memory = true;
}

void rsum_report_set_complete(struct ringsum_report *report)
{
	report->is_complete = true;
}

static bool copy_facts(struct ringsum_report *copy, const struct rsum_report_facts *facts)
{
	copy->facts = *facts;
	return keep_text(copy, &copy->facts.root, facts->root) &&
	       keep_text(copy, &copy->facts.engine_reason, facts->engine_reason) &&
	       keep_text(copy, &copy->facts.error, facts->error) &&
	       keep_text(copy, &copy->facts.authenticity.signer, facts->authenticity.signer) &&
	       keep_text(copy, &copy->facts.authenticity.reason, facts->authenticity.reason);
}

int rsum_report_add_manifest(struct ringsum_report *report, const char *kind, const char *path,
			     const char *sha256)
{
	size_t count = report->manifest_count;
	struct rsum_report_manifest *manifests =
		realloc(report->manifests, (count + 1) * sizeof(*manifests));

	if (!manifests)
		return RINGSUM_E_NOMEM;
	report->manifests = manifests;
	manifests[count] = (struct rsum_report_manifest){ .kind = kind };
	if (!keep_text(report, &manifests[count].path, path))
		return RINGSUM_E_NOMEM;
	snprintf(manifests[count].sha256, sizeof(manifests[count].sha256), "%s", sha256);
	report->manifest_count++;
	return RINGSUM_OK;
}

static bool copy_manifests(struct ringsum_report *copy, const struct ringsum_report *report)
{
	for (size_t i = 0; i < report->manifest_count; i++)
		if (rsum_report_add_manifest(copy, report->manifests[i].kind,
					     report->manifests[i].path,
					     report->manifests[i].sha256) != RINGSUM_OK)
			return false;
	return true;
}

struct ringsum_report *rsum_report_clone(const struct ringsum_report *report)
{
	struct ringsum_report *copy = rsum_report_new();

	if (!copy)
		return NULL;
	if (!copy_facts(copy, &report->facts) || !copy_manifests(copy, report))
		goto out_free;
	for (size_t i = 0; i < report->finding_count; i++)
		if (!keep_finding(copy, &report->findings[i], report->findings[i].severity))
			goto out_free;
	copy->refusing_count = report->refusing_count;
	copy->undecided_count = report->undecided_count;
	copy->totals = report->totals;
	copy->is_incomplete_for_memory = report->is_incomplete_for_memory;
	return copy;

out_free:
	ringsum_report_free(copy);
	return NULL;
}

static bool is_proven(const struct ringsum_report *report)
{
	const struct ringsum_totals *totals = &report->totals;

	return report->is_complete && !report->is_incomplete_for_memory &&
	       report->undecided_count == 0 && totals->tensors_undecided == 0 &&
	       totals->files_undecided == 0 &&
	       (totals->tensors_promised > 0 || totals->files_promised > 0) &&
	       totals->tensors_identical == totals->tensors_promised &&
	       totals->files_identical == totals->files_promised &&
	       totals->bytes_proven == totals->bytes_promised;
}

/* The only place where a verdict is made. */
RSUM_PUBLIC enum ringsum_verdict ringsum_report_verdict(const struct ringsum_report *report)
{
	if (!report)
		return RINGSUM_VERDICT_UNDECIDED;
	if (report->refusing_count > 0 || report->totals.tensors_refused > 0 ||
	    report->totals.files_refused > 0)
		return RINGSUM_VERDICT_REFUSED;
	return is_proven(report) ? RINGSUM_VERDICT_IDENTICAL : RINGSUM_VERDICT_UNDECIDED;
}

RSUM_PUBLIC void ringsum_report_totals(const struct ringsum_report *report,
				       struct ringsum_totals *totals_out)
{
	if (!totals_out)
		return;
	*totals_out = report ? report->totals : (struct ringsum_totals){ 0 };
	if (report)
		totals_out->findings_total = report->refusing_count + report->undecided_count;
}

RSUM_PUBLIC size_t ringsum_report_finding_count(const struct ringsum_report *report)
{
	return report ? report->finding_count : 0;
}

RSUM_PUBLIC const struct ringsum_finding *ringsum_report_finding_at(
	const struct ringsum_report *report, size_t index)
{
	return report && index < report->finding_count ? &report->findings[index] : NULL;
}

uint64_t rsum_report_bytes_per_second(const struct ringsum_report *report)
{
	double seconds = report->totals.elapsed_seconds, rate;

	if (!(seconds > 0)) /* also where it is NaN */
		return 0;
	rate = (double)report->totals.bytes_read / seconds;
	return rate < 1e18 ? (uint64_t)rate : 0;
}
