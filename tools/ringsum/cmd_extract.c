/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringsum extract: verified bytes of tensors, to standard output or a file. Nothing leaves before
 * all of it is proven: it waits in memory, or, where it is too much for that and goes to a file,
 * in the temporary that becomes the file.
 */
#include "arguments.h"
#include "nearest.h"
#include "neighbour.h"
#include "npy.h"
#include "output.h"
#include "progress.h"
#include "read_options.h"
#include "ringsum.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_MEMORY_BYTES ((uint64_t)256 << 20)

/* More for buffers gains nothing; the rest of --memory is for what waits. */
#define BUFFER_BYTES_MAX ((uint64_t)48 << 20)

struct extract_arguments {
	struct ringsum_options options; /* first, for read_option_rows */
	const char *output;		/* a file, or "-"; NULL until it is given */
	int is_npy;
	int is_progress_wanted;
	uint64_t memory_bytes; /* for what waits to be written */
	const char *path;
	char **names;
	size_t name_count;
};

_Static_assert(offsetof(struct extract_arguments, options) == 0, "read_option_rows go there");

#define INTO(member) OPTION_INTO(struct extract_arguments, member)

static const struct option_row rows[] = {
	{ "output", 'o', OPTION_FILE, "FILE|-",
	  "write to FILE, which is replaced; default: standard output", INTO(output) },
	{ "npy", 0, OPTION_FLAG, NULL,
	  "write a NumPy file of the one TENSOR: a header before its bytes, which stay as they are",
	  INTO(is_npy) },
	PROGRESS_ROW(struct extract_arguments, is_progress_wanted),
	{ .name = NULL },
};

const struct command command_extract = {
	.name = "extract",
	.operands = "PATH TENSOR...",
	.summary = "verified bytes of tensors, or a NumPy file",
	.about = "Writes the bytes of tensors, one after the other as given, once every one is "
		 "proven to be what the manifest promises; otherwise nothing is written. PATH is "
		 "a checkpoint's directory or its manifest file.",
	.notes = "What goes to standard output or a device waits in memory until it is proven: up "
		 "to --memory, here 256M by default. What goes to a FILE may be of any size.\n\n"
		 "Exit status: 0 all is proven and written; 1 refused: something differs from the "
		 "promise; 2 wrong usage, also where no TENSOR of that name is promised; 3 "
		 "undecided: something could not be read or written.",
	.run = cmd_extract,
	.tables = { rows, read_option_rows, neighbour_option_rows },
};

/* What is drawn goes first. */
#define complain(...) (progress_end(), command_complain(&command_extract, __VA_ARGS__))

static int complain_of(int result, const struct ringsum_error *err)
{
	int status = result == RINGSUM_E_REFUSED   ? COMMAND_REFUSED
		     : result == RINGSUM_E_INVALID ? COMMAND_USAGE
						   : COMMAND_UNDECIDED;

	return complain(status, "%s", err->message[0] ? err->message : ringsum_result_text(result));
}

/* ---- arguments -------------------------------------------------------------------------------- */

/* --memory is what waits and the buffers; of the buffers so many are enough. */
static void divide_memory(struct extract_arguments *arguments)
{
	arguments->memory_bytes = DEFAULT_MEMORY_BYTES;
	if (!arguments->options.memory_bytes)
		return;
	arguments->memory_bytes = arguments->options.memory_bytes;
	if (arguments->options.memory_bytes > BUFFER_BYTES_MAX)
		arguments->options.memory_bytes = 0;
}

static int check_arguments(struct extract_arguments *arguments, const struct operands *operands)
{
	if (!arguments->output)
		arguments->output = "-";
	if (operands->count < 2)
		return complain(COMMAND_USAGE, "%s is missing; see ringsum extract --help",
				operands->count == 0 ? "PATH" : "TENSOR");
	arguments->path = operands->words[0];
	arguments->names = operands->words + 1;
	arguments->name_count = (size_t)operands->count - 1;
	if (arguments->is_npy && arguments->name_count > 1)
		return complain(COMMAND_USAGE,
				"a NumPy file holds one tensor: give one TENSOR with --npy");
	if (strcmp(arguments->output, "-") == 0 && isatty(STDOUT_FILENO))
		return complain(COMMAND_USAGE,
				"standard output is a terminal; give -o FILE or a pipe");
	divide_memory(arguments);
	return ARGUMENTS_GOOD;
}

static int parse_arguments(int argc, char **argv, struct extract_arguments *arguments)
{
	struct operands operands;
	int status = arguments_parse(&command_extract, argc, argv, arguments, &operands);

	return status == ARGUMENTS_GOOD ? check_arguments(arguments, &operands) : status;
}

/* ---- which tensors ---------------------------------------------------------------------------- */

/* Names come from the manifest, and a terminal must not be told to do things by it. */
static int is_harmless(const char *name)
{
	size_t length = strlen(name), i;

	for (i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return 0;
	return length <= 200;
}

/* The tensor that was probably meant, or NULL: one that continues the name, or a near one. */
static const char *suggest(const struct ringsum_checkpoint *checkpoint, const char *given)
{
	size_t count = ringsum_checkpoint_tensor_count(checkpoint), length = strlen(given), i;
	unsigned nearest_so_far = NEAREST_MOST + 1;
	const char *nearest = NULL;

	for (i = 0; i < count; i++) {
		const char *name = ringsum_checkpoint_tensor_at(checkpoint, i)->name;
		unsigned distance;

		if (!is_harmless(name))
			continue;
		if (strncmp(name, given, length) == 0 && name[length] == '.')
			return name;
		distance = nearest_distance(given, name);
		if (distance < nearest_so_far) {
			nearest_so_far = distance;
			nearest = name;
		}
	}
	return nearest;
}

/* Finds all of them before anything is read. */
static int find_tensors(const struct extract_arguments *arguments,
			const struct ringsum_checkpoint *checkpoint, struct ringsum_load *loads)
{
	const char *near;
	size_t i;

	for (i = 0; i < arguments->name_count; i++) {
		loads[i].tensor = ringsum_checkpoint_find(checkpoint, arguments->names[i]);
		if (loads[i].tensor)
			continue;
		near = suggest(checkpoint, arguments->names[i]);
		return complain(COMMAND_USAGE, "no tensor '%.200s' is promised%s%s%s",
				arguments->names[i], near ? "; did you mean " : "",
				near ? near : "", near ? "?" : "");
	}
	return COMMAND_OK;
}

/* ---- the job ---------------------------------------------------------------------------------- */

struct job {
	const struct extract_arguments *arguments;
	struct ringsum_checkpoint *checkpoint;
	struct ringsum_load *loads; /* one for each name */
	char header[NPY_HEADER_BYTES_MAX];
	size_t header_bytes; /* 0 without --npy */
	uint64_t size_bytes; /* of all that is to be written */
	struct output output;
	void *block; /* for what waits in memory */
	size_t block_bytes;
	uint8_t *mapped; /* the temporary, where it waits there */
};

static int open_checkpoint(struct job *job, enum ringsum_direct direct)
{
	struct ringsum_options options = job->arguments->options;
	struct ringsum_error err = { 0 };
	int result;

	options.direct = direct;
	options.progress = progress_note;
	ringsum_checkpoint_close(job->checkpoint);
	job->checkpoint = NULL;
	result = ringsum_checkpoint_open(job->arguments->path, &options, &job->checkpoint, NULL,
					 &err);
	if (result != RINGSUM_OK)
		return complain_of(result, &err);
	return find_tensors(job->arguments, job->checkpoint, job->loads);
}

static int measure(struct job *job)
{
	const struct ringsum_tensor *first = job->loads[0].tensor;
	size_t i;

	if (job->arguments->is_npy) {
		job->header_bytes = npy_header(first, job->header);
		if (job->header_bytes == 0)
			return complain(COMMAND_USAGE,
					"NumPy has no dtype %s; without --npy the bytes are "
					"written as they are",
					ringsum_dtype_name(first->dtype));
	}
	job->size_bytes = job->header_bytes;
	for (i = 0; i < job->arguments->name_count; i++)
		if (__builtin_add_overflow(job->size_bytes, job->loads[i].tensor->size_bytes,
					   &job->size_bytes) ||
		    job->size_bytes > INT64_MAX)
			return complain(COMMAND_USAGE, "no file can hold so many bytes");
	return COMMAND_OK;
}

/* ---- where the bytes wait --------------------------------------------------------------------- */

static int wait_in_memory(struct job *job)
{
	struct ringsum_error err = { 0 };
	int result = ringsum_block_alloc(job->checkpoint, job->loads, job->arguments->name_count,
					 &job->block, &job->block_bytes, &err);

	return result == RINGSUM_OK ? COMMAND_OK : complain_of(result, &err);
}

/*
 * In the temporary itself. Its blocks are there before it is mapped: a full disk met through the
 * mapping would end the process. Direct reads do not go together with a file's pages, which may
 * be on their way to the disk at the same time, so the checkpoint is opened anew without them.
 */
static int wait_in_file(struct job *job)
{
	const struct extract_arguments *arguments = job->arguments;
	uint64_t size_bytes = job->size_bytes;
	uint8_t *at;
	int os_errno, status;
	size_t i;

	if (arguments->options.direct == RINGSUM_DIRECT_REQUIRE)
		return complain(COMMAND_USAGE,
				"--direct require needs all %" PRIu64
				" bytes in memory; give a --memory of that size",
				job->size_bytes);
	status = open_checkpoint(job, RINGSUM_DIRECT_OFF);
	if (status == COMMAND_OK)
		status = measure(job);
	if (status != COMMAND_OK)
		return status;
	if (job->size_bytes != size_bytes)
		return complain(COMMAND_UNDECIDED, "the checkpoint was changed meanwhile");
	os_errno = posix_fallocate(job->output.fd, 0, (off_t)job->size_bytes);
	if (os_errno)
		return complain(COMMAND_UNDECIDED, "cannot write %.300s: %s", arguments->output,
				strerror(os_errno));
	at = mmap(NULL, (size_t)job->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->output.fd,
		  0);
	if (at == MAP_FAILED)
		return complain(COMMAND_UNDECIDED,
				"cannot write %.300s by way of memory: %s; give a --memory of "
				"%" PRIu64 " bytes",
				arguments->output, strerror(errno), job->size_bytes);
	job->mapped = at;
	memcpy(at, job->header, job->header_bytes);
	at += job->header_bytes;
	for (i = 0; i < arguments->name_count; i++) {
		job->loads[i].destination = at;
		job->loads[i].destination_bytes = (size_t)job->loads[i].tensor->size_bytes;
		at += job->loads[i].destination_bytes;
	}
	return COMMAND_OK;
}

static int find_room(struct job *job)
{
	if (job->size_bytes <= job->arguments->memory_bytes)
		return wait_in_memory(job);
	if (job->output.temporary)
		return wait_in_file(job);
	return complain(COMMAND_USAGE,
			"%" PRIu64 " bytes must be proven before any is written here, and "
			"--memory is %" PRIu64 "; give -o FILE or a larger --memory",
			job->size_bytes, job->arguments->memory_bytes);
}

/* ---- proving and writing ---------------------------------------------------------------------- */

/* Findings and notes for a person, where they do not mix with the bytes. */
static void show_report(const struct ringsum_report *report)
{
	char *text = NULL;

	if (ringsum_report_to_text(report, &text, NULL) == RINGSUM_OK)
		fputs(text, stderr);
	ringsum_free(text);
}

static int prove(struct job *job)
{
	struct ringsum_report *report = NULL;
	struct ringsum_error err = { 0 };
	int result = ringsum_checkpoint_load(job->checkpoint, job->loads,
					     job->arguments->name_count, &report, &err);

	progress_end();
	if (report && (ringsum_report_finding_count(report) > 0))
		show_report(report);
	ringsum_report_free(report);
	if (result == RINGSUM_E_CANCELED || signals_stop_wanted())
		return complain(COMMAND_UNDECIDED, "interrupted; nothing was written");
	if (result == RINGSUM_E_REFUSED)
		return complain(COMMAND_REFUSED, "nothing was written");
	return result == RINGSUM_OK ? COMMAND_OK : complain_of(result, &err);
}

/* What waited in memory goes out; what waited in the file is there already. */
static int write_proven(struct job *job, struct ringsum_error *err)
{
	int result;
	size_t i;

	if (job->mapped)
		return RINGSUM_OK;
	result = output_write(&job->output, job->header, job->header_bytes, err);
	for (i = 0; i < job->arguments->name_count && result == RINGSUM_OK; i++)
		result = output_write(&job->output, job->loads[i].destination,
				      (size_t)job->loads[i].tensor->size_bytes, err);
	return result;
}

static int deliver(struct job *job)
{
	struct ringsum_error err = { 0 };
	int result;

	/* Whoever reads slowly can be interrupted; there is no temporary then. */
	if (!job->output.temporary)
		signals_end_at_once();
	result = write_proven(job, &err);
	if (result == RINGSUM_OK && signals_stop_wanted())
		return complain(COMMAND_UNDECIDED, "interrupted; nothing was written");
	if (result == RINGSUM_OK)
		result = output_commit(&job->output, &err);
	return result == RINGSUM_OK ? COMMAND_OK : complain_of(result, &err);
}

static int run_job(struct job *job)
{
	struct ringsum_error err = { 0 };
	int status = open_checkpoint(job, job->arguments->options.direct);

	if (status == COMMAND_OK)
		status = measure(job);
	if (status == COMMAND_OK &&
	    output_open(&job->output, job->arguments->output, &err) != RINGSUM_OK)
		status = complain_of(RINGSUM_E_IO, &err);
	if (status == COMMAND_OK && job->output.temporary)
		signals_remove_at_death(job->output.temporary);
	if (status == COMMAND_OK)
		status = find_room(job);
	if (status == COMMAND_OK)
		status = prove(job);
	if (status == COMMAND_OK)
		status = deliver(job);
	return status;
}

static int extract(const struct extract_arguments *arguments)
{
	const struct progress_setup setup = {
		.command = &command_extract,
		.is_wanted = arguments->is_progress_wanted,
		.is_json_on_stdout = strcmp(arguments->output, "-") == 0,
	};
	struct job job = { .arguments = arguments, .output = OUTPUT_INIT };
	int status;

	job.loads = calloc(arguments->name_count, sizeof(*job.loads));
	if (!job.loads)
		return complain(COMMAND_UNDECIDED, "out of memory");
	progress_start(&setup);
	neighbour_make_idle(&arguments->options, &command_extract);
	progress_begin(1, 1);
	status = run_job(&job);
	progress_stop();
	if (job.mapped)
		munmap(job.mapped, (size_t)job.size_bytes);
	output_abandon(&job.output);
	ringsum_block_free(job.block, job.block_bytes);
	ringsum_checkpoint_close(job.checkpoint);
	free(job.loads);
	return status;
}

int cmd_extract(int argc, char **argv)
{
	struct extract_arguments arguments = { .options = RINGSUM_OPTIONS_INIT };
	int status = parse_arguments(argc, argv, &arguments);

	return status == ARGUMENTS_GOOD ? extract(&arguments) : status;
}
