/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a command over and over, and looks at the file that it writes: it has to be what it was
 * before, or all of what it becomes; never a part.
 *
 * usage: kill_at moments COUNT SEED FILE WANTED COMMAND [ARGUMENT...]
 *        kill_at steps STRIDE SEED FILE WANTED COMMAND [ARGUMENT...]
 *
 * moments: at random moments of its run, until it was killed COUNT times. steps: at each end of
 * each system call that its first thread makes from the creation of the temporary on; only at
 * every STRIDEth until the temporary is synced, but at each from there. WANTED is a
 * file of the bytes that FILE gets, or `report` for a JSON document with a verdict. Exit status 0
 * where all was well, 1 where not, 77 where it cannot be tried.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char old_text[] = "what was there before\n";

static const char *target; /* FILE */
static char *wanted;	   /* its bytes; NULL for a report */
static size_t wanted_bytes;
static char **command;
static uint64_t random_state;

/* What was found after the kills. */
static unsigned struck, finished, found_none, found_old, found_new, temporaries_left;

static void die(const char *what)
{
	fprintf(stderr, "kill_at: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t next_random(void)
{
	uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Returns the file's bytes with a NUL behind them, or NULL where there is no file. */
static char *read_whole(const char *path, size_t *size_bytes_out)
{
	struct stat status;
	char *bytes;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return NULL;
	if (fd < 0 || fstat(fd, &status) != 0)
		die(path);
	bytes = malloc((size_t)status.st_size + 1);
	got = bytes ? read(fd, bytes, (size_t)status.st_size) : -1;
	if (got != status.st_size)
		die(path);
	bytes[got] = '\0';
	*size_bytes_out = (size_t)got;
	close(fd);
	return bytes;
}

/* ---- what the file may be ------------------------------------------------------------------- */

static int is_whole_report(const char *text, size_t size_bytes)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *report, *verdict;
	int is_whole;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	report = json_tokener_parse_ex(tokener, text, (int)size_bytes + 1);
	is_whole = json_tokener_get_error(tokener) == json_tokener_success && report &&
		   json_object_object_get_ex(report, "verdict", &verdict) &&
		   json_object_object_get_ex(report, "notes", &verdict) && size_bytes > 0 &&
		   text[size_bytes - 1] == '\n';
	json_object_put(report);
	json_tokener_free(tokener);
	return is_whole;
}

static int is_new(const char *bytes, size_t size_bytes)
{
	if (!wanted)
		return is_whole_report(bytes, size_bytes);
	return size_bytes == wanted_bytes && memcmp(bytes, wanted, wanted_bytes) == 0;
}

/* Counts what is there; 0 where it is neither what it was nor all of what it becomes. */
static int weigh(int was_there)
{
	size_t size_bytes = 0;
	char *bytes = read_whole(target, &size_bytes);
	int is_good = 1;

	if (!bytes && !was_there)
		found_none++;
	else if (bytes && was_there && strcmp(bytes, old_text) == 0)
		found_old++;
	else if (bytes && is_new(bytes, size_bytes))
		found_new++;
	else
		is_good = 0;
	if (!is_good)
		fprintf(stderr, "kill_at: %s has %s%zu bytes that are neither old nor new\n",
			target, bytes ? "" : "vanished, ", size_bytes);
	free(bytes);
	return is_good;
}

/* A kill may leave a temporary, under a name of its own. */
static void remove_temporaries(void)
{
	char pattern[4096];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof(pattern), "%s.*", target);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (i = 0; i < found.gl_pathc; i++) {
		temporaries_left++;
		unlink(found.gl_pathv[i]);
	}
	globfree(&found);
}

/* ---- running the command -------------------------------------------------------------------- */

static void prepare(int is_there)
{
	int fd;

	unlink(target);
	if (!is_there)
		return;
	fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, old_text, sizeof(old_text) - 1) != (ssize_t)sizeof(old_text) - 1)
		die(target);
	close(fd);
}

static pid_t start(int is_traced)
{
	pid_t pid = fork();
	int null_fd;

	if (pid < 0)
		die("fork");
	if (pid > 0)
		return pid;
	null_fd = open("/dev/null", O_RDWR);
	dup2(null_fd, 0);
	dup2(null_fd, 1);
	dup2(null_fd, 2);
	if (is_traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(77);
	execv(command[0], command);
	_exit(127);
}

static uint64_t run_whole(void)
{
	uint64_t begin = now_ns();
	pid_t pid = start(0);
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) > 3)
		die("the command does not run");
	return now_ns() - begin;
}

/* ---- at random moments ---------------------------------------------------------------------- */

static void kill_at_moment(uint64_t within_ns)
{
	uint64_t wait_ns = next_random() % within_ns;
	struct timespec wait = {
		.tv_sec = (time_t)(wait_ns / 1000000000),
		.tv_nsec = (long)(wait_ns % 1000000000),
	};
	pid_t pid = start(0);
	int status;

	nanosleep(&wait, NULL);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFSIGNALED(status))
		struck++;
	else
		finished++;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static int kill_at_moments(unsigned count)
{
	uint64_t times_ns[5], usual_ns;
	unsigned i;
	int was_there;

	for (i = 0; i < 5; i++) {
		prepare(0);
		times_ns[i] = run_whole();
		if (!weigh(0) || found_new != i + 1) {
			fprintf(stderr, "kill_at: left alone, the command writes something else\n");
			return 0;
		}
	}
	found_new = 0;
	qsort(times_ns, 5, sizeof(times_ns[0]), compare_times);
	usual_ns = times_ns[2];
	while (struck < count && finished < 20 * count + 100) {
		was_there = (int)(next_random() & 1);
		prepare(was_there);
		kill_at_moment(usual_ns + usual_ns / 8);
		if (!weigh(was_there))
			return 0;
		remove_temporaries();
	}
	return struck == count;
}

/* ---- at every step -------------------------------------------------------------------------- */

/* How far a traced command is. */
struct progress {
	int is_writing; /* the temporary is there */
	int is_ending;	/* and synced */
	unsigned stops; /* since it is there */
	unsigned steps; /* of these, that would do for a kill */
};

/* Takes the call that begins, or ends, into account. Returns whether this is such a step. */
static int advance(struct progress *progress, pid_t pid, unsigned stride)
{
	struct __ptrace_syscall_info info = { 0 };

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0)
		die("PTRACE_GET_SYSCALL_INFO");
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		progress->is_writing |=
			info.entry.nr == SYS_openat &&
			(info.entry.args[2] & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
		progress->is_ending |= progress->is_writing && info.entry.nr == SYS_fsync;
	}
	return progress->is_writing && (progress->is_ending || progress->stops++ % stride == 0);
}

/* Kills at the nth step. Returns 0 where it ended before that. */
static int kill_at_step(unsigned nth, unsigned stride)
{
	struct progress progress = { 0 };
	pid_t pid = start(1);
	int status, signal_number = 0;

	for (;;) {
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			exit(77);
		if (!WIFSTOPPED(status))
			return 0;
		signal_number = WSTOPSIG(status);
		if (signal_number == SIGTRAP) { /* it was executed */
			ptrace(PTRACE_SETOPTIONS, pid, NULL,
			       PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
			signal_number = 0;
		} else if (signal_number == (SIGTRAP | 0x80)) {
			if (advance(&progress, pid, stride) && progress.steps++ == nth)
				break;
			signal_number = 0;
		}
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal_number) != 0)
			die("PTRACE_SYSCALL");
	}
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		die("it was not killed");
	struck++;
	return 1;
}

static int kill_at_steps(unsigned stride)
{
	unsigned nth;
	int was_there, is_killed = 1;

	for (nth = 0; is_killed; nth++) {
		for (was_there = 0; was_there < 2; was_there++) {
			prepare(was_there);
			is_killed = kill_at_step(nth, stride);
			if (!weigh(was_there))
				return 0;
			remove_temporaries();
		}
	}
	/* Before the new name, and after it. */
	return found_none > 0 && found_old > 0 && found_new > 4;
}

int main(int argc, char **argv)
{
	int is_good;

	if (argc < 7) {
		fprintf(stderr, "usage: kill_at moments|steps COUNT SEED FILE WANTED COMMAND...\n");
		return 2;
	}
	random_state = strtoull(argv[3], NULL, 10);
	target = argv[4];
	command = argv + 6;
	if (strcmp(argv[5], "report") != 0) {
		wanted = read_whole(argv[5], &wanted_bytes);
		if (!wanted)
			die(argv[5]);
	}
	if (strcmp(argv[1], "moments") == 0)
		is_good = kill_at_moments((unsigned)atoi(argv[2]));
	else
		is_good = kill_at_steps(atoi(argv[2]) > 0 ? (unsigned)atoi(argv[2]) : 1);
	printf("%u kills: the file was absent %u times, old %u times, new %u times; "
	       "%u temporaries were left; %u runs ended first\n",
	       struck, found_none, found_old, found_new, temporaries_left, finished);
	free(wanted);
	return !is_good;
}
