/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system that misbehaves as it is told: it shows the files of another directory, and a
 * control file says which reads of them go wrong. It owns what becomes of a read and of a file's
 * size; it knows nothing of checkpoints.
 *
 * usage: faultfs SOURCE CONTROL MOUNTPOINT
 *
 * CONTROL is looked at before every read. It has one fault a line; a line with # is none:
 *
 *   FAULT NAME BEGIN END COUNT [ARGUMENT]
 *
 * NAME is below SOURCE, or * for every file. The fault strikes reads that touch [BEGIN,END), COUNT
 * times (0: always). Each time it strikes, its line is added to CONTROL.log. Of several lines the
 * first that has not struck as often as it may is used. FAULT is
 *
 *   error    the read fails with errno ARGUMENT
 *   cut      only ARGUMENT bytes are given
 *   flip     bit ARGUMENT of the byte at BEGIN is changed
 *   garble   the byte at BEGIN is another each time
 *   hold     the read waits until the control file has no such line any more
 *   run      the shell runs ARGUMENT first, then the read goes on as if nothing had been
 *   die      the file system kills itself
 *   size     the file says that it has ARGUMENT bytes (no read is needed; BEGIN, END unused)
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FAULTS_MAX 64
#define LINE_BYTES 1024
#define CONTROL_BYTES 16384

struct fault {
	char line[LINE_BYTES]; /* as it stands in the control file */
	char kind[16];
	char name[512];
	uint64_t begin, end;
	unsigned count; /* 0: always */
	unsigned struck;
	char argument[LINE_BYTES];
};

static int source_fd;
static const char *control_path;
static char log_path[4096];

/* Guarded by the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[FAULTS_MAX];
static unsigned fault_count;
static char control_text[CONTROL_BYTES];

/* ---- the control file --------------------------------------------------------------------- */

static int parse_fault(const char *line, struct fault *out)
{
	int argument_at = 0;

	*out = (struct fault){ 0 };
	snprintf(out->line, sizeof(out->line), "%s", line);
	if (sscanf(line, "%15s %511s %" SCNu64 " %" SCNu64 " %u %n", out->kind, out->name,
		   &out->begin, &out->end, &out->count, &argument_at) < 5)
		return -1;
	snprintf(out->argument, sizeof(out->argument), "%s", line + argument_at);
	return 0;
}

/* How often faults struck is counted as long as the text is the same. */
static void read_control(void)
{
	static char text[CONTROL_BYTES];
	ssize_t got = -1;
	char *line, *rest = text;
	int fd = open(control_path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		got = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = '\0';
	if (strcmp(text, control_text) == 0)
		return;
	memcpy(control_text, text, sizeof(text));
	fault_count = 0;
	while (fault_count < FAULTS_MAX && (line = strsep(&rest, "\n")) != NULL) {
		if (*line == '\0' || *line == '#')
			continue;
		if (parse_fault(line, &faults[fault_count]) == 0)
			fault_count++;
		else
			fprintf(stderr, "faultfs: this is no fault: %s\n", line);
	}
}

static void note_strike(const struct fault *fault)
{
	FILE *log = fopen(log_path, "ae");

	if (!log)
		return;
	fprintf(log, "%s\n", fault->line);
	fclose(log);
}

static int touches(const struct fault *fault, const char *name, uint64_t begin, uint64_t end)
{
	if (strcmp(fault->name, "*") != 0 && strcmp(fault->name, name) != 0)
		return 0;
	return begin < fault->end && end > fault->begin;
}

/* The fault that strikes this read, which is counted; 0 where it goes well. */
static int strike(const char *name, uint64_t begin, uint64_t end, struct fault *out)
{
	unsigned i;
	int is_found = 0;

	pthread_mutex_lock(&lock);
	read_control();
	for (i = 0; i < fault_count && !is_found; i++) {
		if (strcmp(faults[i].kind, "size") == 0 || !touches(&faults[i], name, begin, end) ||
		    (faults[i].count > 0 && faults[i].struck >= faults[i].count))
			continue;
		faults[i].struck++;
		*out = faults[i];
		is_found = 1;
		note_strike(&faults[i]);
	}
	pthread_mutex_unlock(&lock);
	return is_found;
}

static int is_held(const struct fault *fault)
{
	unsigned i;
	int is_there = 0;

	pthread_mutex_lock(&lock);
	read_control();
	for (i = 0; i < fault_count; i++)
		is_there |= strcmp(faults[i].line, fault->line) == 0;
	pthread_mutex_unlock(&lock);
	return is_there;
}

/* ---- what becomes of a read ----------------------------------------------------------------- */

static void change_byte(const struct fault *fault, char *data, size_t got, uint64_t offset)
{
	uint64_t at = fault->begin - offset;

	if (fault->begin < offset || at >= got)
		return;
	if (strcmp(fault->kind, "flip") == 0)
		data[at] = (char)(data[at] ^ (1 << (atoi(fault->argument) & 7)));
	else
		data[at] = (char)(data[at] ^ (int)(1 + (fault->struck - 1) % 255));
}

/* Returns what the read is answered with, or 1 where it shall be done. */
static int answer_early(const struct fault *fault)
{
	static const struct timespec moment = { .tv_nsec = 5000000 };

	if (strcmp(fault->kind, "error") == 0)
		return -atoi(fault->argument);
	if (strcmp(fault->kind, "die") == 0)
		(void)raise(SIGKILL);
	if (strcmp(fault->kind, "run") == 0 && system(fault->argument) != 0)
		fprintf(stderr, "faultfs: this failed: %s\n", fault->argument);
	if (strcmp(fault->kind, "hold") == 0)
		while (is_held(fault))
			nanosleep(&moment, NULL);
	return 1;
}

static int fault_read(const char *path, char *data, size_t size, off_t offset,
		      struct fuse_file_info *info)
{
	struct fault fault = { 0 };
	ssize_t got;
	int answer;

	if (strike(path + 1, (uint64_t)offset, (uint64_t)offset + size, &fault)) {
		answer = answer_early(&fault);
		if (answer <= 0)
			return answer;
		if (strcmp(fault.kind, "cut") == 0 && (size_t)atol(fault.argument) < size)
			size = (size_t)atol(fault.argument);
	}
	got = pread((int)info->fh, data, size, offset);
	if (got < 0)
		return -errno;
	if (strcmp(fault.kind, "flip") == 0 || strcmp(fault.kind, "garble") == 0)
		change_byte(&fault, data, (size_t)got, (uint64_t)offset);
	return (int)got;
}

/* ---- the rest of a file system -------------------------------------------------------------- */

static void mend_size(const char *name, struct stat *status)
{
	unsigned i;

	pthread_mutex_lock(&lock);
	read_control();
	for (i = 0; i < fault_count; i++)
		if (strcmp(faults[i].kind, "size") == 0 && strcmp(faults[i].name, name) == 0)
			status->st_size = atol(faults[i].argument);
	pthread_mutex_unlock(&lock);
}

static const char *below(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int fault_getattr(const char *path, struct stat *status, struct fuse_file_info *info)
{
	int result = info ? fstat((int)info->fh, status)
			  : fstatat(source_fd, below(path), status, AT_SYMLINK_NOFOLLOW);

	if (result != 0)
		return -errno;
	mend_size(path + 1, status);
	return 0;
}

static int fault_readlink(const char *path, char *target, size_t size)
{
	ssize_t length = readlinkat(source_fd, below(path), target, size - 1);

	if (length < 0)
		return -errno;
	target[length] = '\0';
	return 0;
}

static int fault_open(const char *path, struct fuse_file_info *info)
{
	int fd = openat(source_fd, below(path), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	info->fh = (uint64_t)fd;
	/* No page cache in between: what the kernel asks for is what the reader asked for. */
	info->direct_io = 1;
	return 0;
}

static int fault_release(const char *path, struct fuse_file_info *info)
{
	(void)path;
	close((int)info->fh);
	return 0;
}

static int fault_readdir(const char *path, void *list, fuse_fill_dir_t fill, off_t offset,
			 struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
	int fd = openat(source_fd, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	(void)offset;
	(void)info;
	(void)flags;
	if (!directory) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		return -error;
	}
	while ((entry = readdir(directory)) != NULL)
		fill(list, entry->d_name, NULL, 0, (enum fuse_fill_dir_flags)0);
	closedir(directory);
	return 0;
}

/* Names and sizes may change behind the kernel's back, so it shall believe none of them. */
static void *fault_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	config->kernel_cache = 0;
	config->attr_timeout = 0;
	config->entry_timeout = 0;
	config->negative_timeout = 0;
	config->use_ino = 1;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = fault_init,
	.getattr = fault_getattr,
	.readlink = fault_readlink,
	.open = fault_open,
	.read = fault_read,
	.release = fault_release,
	.readdir = fault_readdir,
};

int main(int argc, char **argv)
{
	/* In the foreground, ended with whoever started it. */
	char option[] = "-f", values[] = "-oallow_other,max_threads=16,fsname=faultfs";
	char *fuse_argv[] = { argv[0], option, values, argc == 4 ? argv[3] : NULL, NULL };

	if (argc != 4) {
		fprintf(stderr, "usage: faultfs SOURCE CONTROL MOUNTPOINT\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	source_fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (source_fd < 0) {
		perror(argv[1]);
		return 1;
	}
	/* The foreground, too, is in the root directory. */
	control_path = realpath(argv[2], NULL);
	if (!control_path) {
		perror(argv[2]);
		return 1;
	}
	snprintf(log_path, sizeof(log_path), "%s.log", control_path);
	return fuse_main(4, fuse_argv, &operations, NULL);
}
