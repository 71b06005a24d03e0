/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads while reads misbehave, and into memory of every kind. The linker puts the pread below in
 * the place of the system's (--wrap), so the pread engine can be made to meet anything.
 */
#include "delivery.h"
#include "ringsum.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define SEED UINT64_C(20261203)
#define PAGE 4096
#define CHUNK 65536
#define CANARY 0xA5

static struct delivery delivery;
static char context[160];
static _Alignas(PAGE) uint8_t elsewhere[1 << 20];

enum { SMALL, TARGET, LARGE, TENSOR_COUNT }; /* by place in the manifest */

/* ---- the system's pread, and what becomes of it ------------------------------------------------ */

ssize_t __real_pread64(int fd, void *buffer, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset);

typedef ssize_t (*misread_fn)(int fd, void *buffer, size_t count, off_t offset, unsigned nth);

/* Fixed while a load runs. */
static misread_fn misread; /* NULL: nothing misbehaves */
static const uint8_t *watched_begin, *watched_end;

static atomic_uint reads_of_target; /* that lie within the tensor TARGET */
static atomic_uint reads_in_place;  /* into the watched memory */

ssize_t __wrap_pread64(int fd, void *buffer, size_t count, off_t offset)
{
	const struct delivery_tensor *target = &delivery.tensors[TARGET];
	const uint8_t *to = buffer;

	if (!misread || (uint64_t)offset < target->begin ||
	    (uint64_t)offset + count > target->begin + target->size_bytes)
		return __real_pread64(fd, buffer, count, offset);
	if (to >= watched_begin && to < watched_end)
		atomic_fetch_add(&reads_in_place, 1);
	return misread(fd, buffer, count, offset, atomic_fetch_add(&reads_of_target, 1));
}

static ssize_t read_well(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)nth;
	return __real_pread64(fd, buffer, count, offset);
}

static ssize_t fail_with(int os_errno)
{
	errno = os_errno;
	return -1;
}

static bool is_watched(const void *buffer)
{
	return (const uint8_t *)buffer >= watched_begin && (const uint8_t *)buffer < watched_end;
}

static int in_place_errno;

/* The destination takes no direct read. */
static ssize_t refuse_in_place(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)nth;
	if (is_watched(buffer))
		return fail_with(in_place_errno);
	return __real_pread64(fd, buffer, count, offset);
}

static ssize_t cut_in_place(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)nth;
	return __real_pread64(fd, buffer, is_watched(buffer) ? count / 2 : count, offset);
}

static ssize_t cut_some(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	return __real_pread64(fd, buffer, nth % 3 ? count : count / 4, offset);
}

static ssize_t cut_always(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)nth;
	return __real_pread64(fd, buffer, count / 2, offset);
}

static ssize_t interrupt_some(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	if (nth % 2 == 0)
		return fail_with(nth % 4 ? EINTR : EAGAIN);
	return __real_pread64(fd, buffer, count, offset);
}

static ssize_t fail_one(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	if (nth == 2)
		return fail_with(EIO);
	return __real_pread64(fd, buffer, count, offset);
}

static ssize_t fail_always(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)fd;
	(void)buffer;
	(void)count;
	(void)offset;
	(void)nth;
	return fail_with(EIO);
}

/* A word that the library itself uses of what it did not reach: this was reached, and failed. */
static ssize_t cancel_always(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)fd;
	(void)buffer;
	(void)count;
	(void)offset;
	(void)nth;
	return fail_with(ECANCELED);
}

static ssize_t end_early(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	(void)fd;
	(void)buffer;
	(void)count;
	(void)offset;
	(void)nth;
	return 0;
}

/* A different bit for every read. */
static ssize_t spoil(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	ssize_t got = __real_pread64(fd, buffer, count, offset);

	if (got > 0)
		((uint8_t *)buffer)[(nth / 8) % 100] ^= (uint8_t)(1u << nth % 8);
	return got;
}

static ssize_t spoil_first(int fd, void *buffer, size_t count, off_t offset, unsigned nth)
{
	return nth == 0 ? spoil(fd, buffer, count, offset, nth)
			: __real_pread64(fd, buffer, count, offset);
}

/* ---- one load of all three --------------------------------------------------------------------- */

static int make_delivery(void **state)
{
	(void)state;
	delivery_init(&delivery, NULL);
	delivery_add(&delivery, 0, "small", 1000, false);
	delivery_add(&delivery, 0, "target", 600001, false);
	delivery_add(&delivery, 0, "large", 400000, false);
	delivery_write(&delivery, SEED, true);
	return 0;
}

static int remove_delivery(void **state)
{
	(void)state;
	delivery_deinit(&delivery);
	return 0;
}

static struct ringsum_checkpoint *open_with(const struct ringsum_options *options)
{
	struct ringsum_checkpoint *checkpoint = NULL;

	assert_int_equal(ringsum_checkpoint_open(delivery.root, options, &checkpoint, NULL, NULL),
			 RINGSUM_OK);
	return checkpoint;
}

struct outcome {
	int result;
	int status; /* of the target; the others are always delivered */
	unsigned reads_in_place;
	unsigned reads;
	enum ringsum_finding_code code; /* of the only finding */
	enum ringsum_severity severity;
	size_t finding_count;
};

static void check_delivered(const struct ringsum_load *load, size_t tensor)
{
	size_t size_bytes = delivery.tensors[tensor].size_bytes, i;
	const uint8_t *bytes = load->destination;

	if (load->status == RINGSUM_OK) {
		assert_memory_equal(bytes, delivery.tensors[tensor].bytes, size_bytes);
		return;
	}
	for (i = 0; i < size_bytes; i++)
		if (bytes[i] != 0)
			fail_msg("%s: byte %zu of %s is not zeroed", context, i,
				 load->tensor->name);
}

static void take_findings(struct ringsum_report *report, struct outcome *outcome)
{
	const struct ringsum_finding *finding = ringsum_report_finding_at(report, 0);

	outcome->finding_count = ringsum_report_finding_count(report);
	if (!finding)
		return;
	outcome->code = finding->code;
	outcome->severity = finding->severity;
	assert_string_equal(finding->tensor, "target");
}

static struct outcome load_misreading(const struct ringsum_options *options, misread_fn how,
				      bool is_congruent)
{
	struct ringsum_checkpoint *checkpoint = open_with(options);
	struct ringsum_load loads[TENSOR_COUNT] = { 0 };
	struct ringsum_report *report = NULL;
	struct outcome outcome = { 0 };
	void *block = NULL;
	size_t block_bytes = 0, i;

	for (i = 0; i < TENSOR_COUNT; i++)
		loads[i].tensor = ringsum_checkpoint_tensor_at(checkpoint, i);
	assert_int_equal(
		ringsum_block_alloc(checkpoint, loads, TENSOR_COUNT, &block, &block_bytes, NULL),
		RINGSUM_OK);
	if (!is_congruent) {
		loads[TARGET].destination = elsewhere + (loads[TARGET].tensor->begin + 8) % PAGE;
		memset(elsewhere, CANARY, sizeof(elsewhere));
	}
	watched_begin = loads[TARGET].destination;
	watched_end = watched_begin + loads[TARGET].tensor->size_bytes;
	atomic_store(&reads_of_target, 0);
	atomic_store(&reads_in_place, 0);
	misread = how;
	outcome.result = ringsum_checkpoint_load(checkpoint, loads, TENSOR_COUNT, &report, NULL);
	misread = NULL;
	outcome.status = loads[TARGET].status;
	outcome.reads = atomic_load(&reads_of_target);
	outcome.reads_in_place = atomic_load(&reads_in_place);
	assert_int_equal(loads[SMALL].status, RINGSUM_OK);
	assert_int_equal(loads[LARGE].status, RINGSUM_OK);
	for (i = 0; i < TENSOR_COUNT; i++)
		check_delivered(&loads[i], i);
	take_findings(report, &outcome);
	ringsum_report_free(report);
	ringsum_block_free(block, block_bytes);
	ringsum_checkpoint_close(checkpoint);
	return outcome;
}

static struct ringsum_options pread_options(enum ringsum_direct direct)
{
	struct ringsum_options options = RINGSUM_OPTIONS_INIT;

	options.engine = RINGSUM_ENGINE_PREAD;
	options.chunk_bytes = CHUNK;
	options.threads = 2;
	options.depth = 4;
	options.direct = direct;
	return options;
}

/* ---- reads that misbehave --------------------------------------------------------------------- */

static void test_direct_path(void **state)
{
	struct ringsum_options options = pread_options(RINGSUM_DIRECT_PREFER);
	struct outcome outcome;

	(void)state;
	snprintf(context, sizeof(context), "in place");
	outcome = load_misreading(&options, read_well, true);
	assert_int_equal(outcome.result, RINGSUM_OK);
	assert_true(outcome.reads >= 600001 / CHUNK - 1);
	assert_int_equal(outcome.reads_in_place, outcome.reads);
	snprintf(context, sizeof(context), "copied");
	outcome = load_misreading(&options, read_well, false);
	assert_int_equal(outcome.result, RINGSUM_OK);
	assert_true(outcome.reads >= 600001 / CHUNK - 1);
	assert_int_equal(outcome.reads_in_place, 0);
}

struct misreading {
	const char *name;
	misread_fn how;
	int result;
	enum ringsum_finding_code code; /* where there is a finding */
	bool has_finding;
};

static const struct misreading misreadings[] = {
	{ "no direct read into the destination", refuse_in_place, RINGSUM_OK, 0, false },
	{ "half of a direct read into the destination", cut_in_place, RINGSUM_OK, 0, false },
	{ "some reads are short", cut_some, RINGSUM_OK, 0, false },
	{ "every other read is interrupted", interrupt_some, RINGSUM_OK, 0, false },
	{ "all reads are short", cut_always, RINGSUM_E_UNDECIDED, RINGSUM_FINDING_READ_ERROR,
	  true },
	{ "one read fails", fail_one, RINGSUM_E_UNDECIDED, RINGSUM_FINDING_READ_ERROR, true },
	{ "all reads fail", fail_always, RINGSUM_E_UNDECIDED, RINGSUM_FINDING_READ_ERROR, true },
	{ "all reads are canceled by the system", cancel_always, RINGSUM_E_UNDECIDED,
	  RINGSUM_FINDING_READ_ERROR, true },
	{ "the file ends", end_early, RINGSUM_E_UNDECIDED, RINGSUM_FINDING_READ_ERROR, true },
	{ "every read answers something else", spoil, RINGSUM_E_UNDECIDED,
	  RINGSUM_FINDING_UNSTABLE_READ, true },
	{ "the first reading is wrong", spoil_first, RINGSUM_OK, RINGSUM_FINDING_UNSTABLE_READ,
	  true },
};

static void check_misreading(const struct misreading *misreading, enum ringsum_direct direct,
			     bool is_congruent)
{
	struct ringsum_options options = pread_options(direct);
	struct outcome outcome;

	snprintf(context, sizeof(context), "%s, direct %d, congruent %d, errno %d",
		 misreading->name, (int)direct, is_congruent, in_place_errno);
	outcome = load_misreading(&options, misreading->how, is_congruent);
	if (outcome.result != misreading->result || outcome.status != misreading->result ||
	    outcome.finding_count != misreading->has_finding)
		fail_msg("%s: result %d, status %d, %zu findings", context, outcome.result,
			 outcome.status, outcome.finding_count);
	if (!misreading->has_finding)
		return;
	assert_int_equal(outcome.code, misreading->code);
	assert_int_equal(outcome.severity, misreading->result == RINGSUM_OK
						   ? RINGSUM_SEVERITY_NOTE
						   : RINGSUM_SEVERITY_UNDECIDED);
}

static bool has_direct_io(void)
{
	struct ringsum_options options = pread_options(RINGSUM_DIRECT_REQUIRE);

	return ringsum_verify_path(delivery.root, &options, NULL, NULL) == RINGSUM_OK;
}

static void test_misreadings(void **state)
{
	static const int refusals[] = { EFAULT, EINVAL, EOPNOTSUPP };
	bool has_direct = has_direct_io();
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(misreadings) / sizeof(misreadings[0]); i++) {
		for (k = 0; k < sizeof(refusals) / sizeof(refusals[0]); k++) {
			in_place_errno = refusals[k];
			if (k > 0 && misreadings[i].how != refuse_in_place)
				continue;
			check_misreading(&misreadings[i], RINGSUM_DIRECT_PREFER, true);
			check_misreading(&misreadings[i], RINGSUM_DIRECT_OFF, true);
			if (has_direct)
				check_misreading(&misreadings[i], RINGSUM_DIRECT_REQUIRE, true);
		}
		check_misreading(&misreadings[i], RINGSUM_DIRECT_PREFER, false);
	}
}

/* What load may deliver after a second reading, verify does not call proven. */
static void test_verify_after_a_wrong_first_reading(void **state)
{
	struct ringsum_options options = pread_options(RINGSUM_DIRECT_PREFER);
	struct ringsum_checkpoint *checkpoint = open_with(&options);
	struct ringsum_report *report = NULL;

	(void)state;
	atomic_store(&reads_of_target, 0);
	misread = spoil_first;
	assert_int_equal(ringsum_checkpoint_verify(checkpoint, &report, NULL), RINGSUM_E_UNDECIDED);
	misread = NULL;
	assert_int_equal(ringsum_report_finding_at(report, 0)->code, RINGSUM_FINDING_UNSTABLE_READ);
	ringsum_report_free(report);
	ringsum_checkpoint_close(checkpoint);
}

/* ---- memory of every kind --------------------------------------------------------------------- */

enum memory_kind {
	MEMORY_MALLOC,
	MEMORY_PRIVATE,
	MEMORY_SHARED,
	MEMORY_LOCKED,
	MEMORY_SHARED_FILE,
	MEMORY_PRIVATE_FILE,
	MEMORY_HUGE_TLB,
	MEMORY_KIND_COUNT
};

static const char *const memory_names[MEMORY_KIND_COUNT] = {
	"malloc",
	"private mapping",
	"shared mapping",
	"locked memory",
	"shared mapped file",
	"privately mapped file",
	"huge pages of hugetlbfs",
};

#define MEMORY_BYTES ((size_t)2 << 20)

static void *map(int flags, int fd)
{
	void *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void *map_file(int flags)
{
	char path[96];
	void *memory = NULL;
	int fd;

	snprintf(path, sizeof(path), "%s/mapped-XXXXXX", delivery.root);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	if (posix_fallocate(fd, 0, (off_t)MEMORY_BYTES) == 0)
		memory = map(flags, fd);
	close(fd);
	return memory;
}

static void *get_memory(enum memory_kind kind)
{
	void *memory;

	switch (kind) {
	case MEMORY_MALLOC:
		return malloc(MEMORY_BYTES);
	case MEMORY_SHARED:
		return map(MAP_SHARED | MAP_ANONYMOUS, -1);
	case MEMORY_SHARED_FILE:
		return map_file(MAP_SHARED);
	case MEMORY_PRIVATE_FILE:
		return map_file(MAP_PRIVATE);
	case MEMORY_HUGE_TLB:
		return map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	case MEMORY_LOCKED:
		memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (memory && mlock(memory, MEMORY_BYTES) == 0)
			return memory;
		if (memory)
			munmap(memory, MEMORY_BYTES);
		return NULL;
	case MEMORY_PRIVATE:
	default:
		return map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	}
}

static void check_memory(uint8_t *memory, const struct ringsum_options *options, size_t shift)
{
	struct ringsum_checkpoint *checkpoint = open_with(options);
	struct ringsum_load load = { .tensor = ringsum_checkpoint_tensor_at(checkpoint, TARGET) };
	size_t size_bytes = load.tensor->size_bytes, at, i;

	at = PAGE + (load.tensor->begin + shift - (uintptr_t)memory) % PAGE;
	memset(memory, CANARY, MEMORY_BYTES);
	load.destination = memory + at;
	load.destination_bytes = size_bytes;
	assert_int_equal(ringsum_checkpoint_load(checkpoint, &load, 1, NULL, NULL), RINGSUM_OK);
	assert_memory_equal(load.destination, delivery.tensors[TARGET].bytes, size_bytes);
	for (i = 0; i < MEMORY_BYTES; i++)
		if ((i < at || i >= at + size_bytes) && memory[i] != CANARY)
			fail_msg("%s: byte %zu was touched", context, i);
	ringsum_checkpoint_close(checkpoint);
}

static void test_memory_of_every_kind(void **state)
{
	unsigned kind, way;

	(void)state;
	for (kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
		uint8_t *memory = get_memory((enum memory_kind)kind);

		/* A limit on locked memory, or no huge pages set aside. */
		if (!memory) {
			print_message("# no %s to be had here\n", memory_names[kind]);
			continue;
		}
		for (way = 0; way < 4; way++) {
			struct ringsum_options options =
				pread_options(way & 1 ? RINGSUM_DIRECT_PREFER : RINGSUM_DIRECT_OFF);

			if (way & 2)
				options.engine = RINGSUM_ENGINE_AUTO;
			snprintf(context, sizeof(context), "%s, way %u", memory_names[kind], way);
			check_memory(memory, &options, 0);
			check_memory(memory, &options, 8);
		}
		if (kind == MEMORY_MALLOC)
			free(memory);
		else
			munmap(memory, MEMORY_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_direct_path),
		cmocka_unit_test(test_misreadings),
		cmocka_unit_test(test_verify_after_a_wrong_first_reading),
		cmocka_unit_test(test_memory_of_every_kind),
	};

	return cmocka_run_group_tests(tests, make_delivery, remove_delivery);
}
