// SPDX-License-Identifier: GPL-2.0-only
/*
 * One process that is watched beside others: fair-load DISK STAT BYTES SEED
 * MILLISECONDS JOB... starts them all at once, lets them go on for that long and
 * prints what they did. The processes of the first job are watched. A job is
 *
 *	DIRECTION,PROCESSES,THREADS,DEPTH,BLOCK,MODE,CLASS,LIFE[,LEVEL]
 *
 * with DIRECTION read or write, THREADS of each process, DEPTH requests of each
 * thread at a time, MODE direct, sync or buffered, CLASS as in ioprio_set(2)
 * (0 for none), LIFE lasting or short: a short-lived process makes one request
 * and ends, and the next one takes its place. LEVEL of the class is 4 if left
 * out. All requests go to random places; each process has a part of the disk of
 * its own, all parts together are BYTES.
 *
 * The first lines are "busy BEGIN END IDLE" and "disk_requests N": clock readings
 * at the begin and after MILLISECONDS, the time between them during which the
 * processor had nothing to do, and the bios that the disk completed between them
 * (STAT is its file in sysfs). Then comes a line for each process, or for all
 * that took each other's place: "DIRECTION BYTES BEGIN END LATENCY...". BYTES are
 * those that were done by END. A request that was under way then is waited for,
 * and its latency is told as well.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"

#define PROCESSES_MAX	64
#define DEPTH_MAX	1024
/* Latencies that are kept of a process; a buffered writer makes more. */
#define KEPT_MAX	(1UL << 16)
#define IOPRIO_CLASS_SHIFT 13
#define IOPRIO_LEVEL	4

struct record {
	atomic_ulong made, done_in_time;
	uint32_t kept[KEPT_MAX];
};

struct process {
	int is_write, flags, class, level, is_short, is_watched;
	unsigned int threads, depth;
	unsigned long offset, size, block;
	uint64_t seed;
	/* Shared with the parent. */
	struct record *record;
};

static struct process processes[PROCESSES_MAX];
static unsigned int count;
static const char *path;

/* What all processes see. */
static struct {
	uint64_t end_ns;
} *shared;

/* Bios that the disk has completed: requests, and what was merged into them (Documentation/block/stat.rst). */
static unsigned long disk_requests(const char *stat)
{
	FILE *file = fopen(stat, "r");
	unsigned long reads, read_merges, writes, write_merges;

	if (!file || fscanf(file, "%lu %lu %*u %*u %lu %lu", &reads, &read_merges, &writes,
			    &write_merges) != 4)
		err(1, "%s", stat);
	fclose(file);
	return reads + read_merges + writes + write_merges;
}

static off_t draw(const struct process *process, uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return process->offset + (*seed >> 33) % (process->size / process->block) * process->block;
}

static int open_disk(const struct process *process)
{
	int disk = open(path, (process->is_write ? O_WRONLY : O_RDONLY) | process->flags);

	if (disk < 0)
		err(1, "%s", path);
	return disk;
}

static void *memory(unsigned long bytes)
{
	void *data;

	if (posix_memalign(&data, 4096, bytes))
		err(1, "memory");
	memset(data, 0, bytes);
	return data;
}

static void request(const struct process *process, int disk, void *data, off_t offset)
{
	ssize_t done = process->is_write ? pwrite(disk, data, process->block, offset) :
					   pread(disk, data, process->block, offset);

	if (done != (ssize_t)process->block)
		err(1, "a request of %lu bytes at %jd", process->block, (intmax_t)offset);
}

static void note(struct record *record, uint64_t begin_ns)
{
	uint64_t end_ns = now_ns(), waited_ns = end_ns - begin_ns;
	unsigned long number = atomic_fetch_add(&record->made, 1);

	/* Nanoseconds up to two seconds; beyond that microseconds, marked by the top bit. */
	if (number < KEPT_MAX)
		record->kept[number] = waited_ns < 1U << 31 ? waited_ns :
							     1U << 31 | waited_ns / 1000;
	if (end_ns <= shared->end_ns)
		atomic_fetch_add(&record->done_in_time, 1);
}

static void one_by_one(const struct process *process, uint64_t seed)
{
	void *data = memory(process->block);
	int disk = open_disk(process);

	while (now_ns() < shared->end_ns) {
		off_t offset = draw(process, &seed);
		uint64_t begin_ns = now_ns();

		request(process, disk, data, offset);
		note(process->record, begin_ns);
	}
}

/* What a thread with many requests under way needs of each. */
struct deep {
	const struct process *process;
	int disk;
	aio_context_t context;
	char *data;
	uint64_t seed, begin_ns[DEPTH_MAX];
	struct iocb commands[DEPTH_MAX];
};

static void submit(struct deep *deep, unsigned int place)
{
	struct iocb *command = &deep->commands[place];

	memset(command, 0, sizeof(*command));
	command->aio_fildes = deep->disk;
	command->aio_lio_opcode = deep->process->is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	command->aio_buf = (uintptr_t)(deep->data + place * deep->process->block);
	command->aio_nbytes = deep->process->block;
	command->aio_offset = draw(deep->process, &deep->seed);
	command->aio_data = place;
	deep->begin_ns[place] = now_ns();
	if (syscall(SYS_io_submit, deep->context, 1L, &command) != 1)
		err(1, "io_submit");
}

static void many_at_a_time(const struct process *process, uint64_t seed)
{
	struct deep *deep = memory(sizeof(*deep));
	struct io_event events[32];
	unsigned int place;
	long found, under_way;

	deep->process = process;
	deep->disk = open_disk(process);
	deep->data = memory(process->block * process->depth);
	deep->seed = seed;
	if (syscall(SYS_io_setup, process->depth, &deep->context))
		err(1, "io_setup");
	for (place = 0; place < process->depth; place++)
		submit(deep, place);
	for (under_way = process->depth; under_way;) {
		found = syscall(SYS_io_getevents, deep->context, 1L, 32L, events, NULL);
		if (found < 1)
			err(1, "io_getevents");
		while (found--) {
			if (events[found].res != (int64_t)process->block)
				errx(1, "a request failed");
			note(process->record, deep->begin_ns[events[found].data]);
			if (now_ns() < shared->end_ns)
				submit(deep, events[found].data);
			else
				under_way--;
		}
	}
}

/* One process after the other. */
static void take_turns(const struct process *process, uint64_t seed)
{
	while (now_ns() < shared->end_ns) {
		off_t offset = draw(process, &seed);
		uint64_t begin_ns = now_ns();
		int status;

		if (!fork()) {
			request(process, open_disk(process), memory(process->block), offset);
			_exit(0);
		}
		if (wait(&status) < 0 || status)
			errx(1, "a short-lived process failed");
		note(process->record, begin_ns);
	}
}

struct thread {
	pthread_t handle;
	const struct process *process;
	uint64_t seed;
};

static void *run_thread(void *data)
{
	struct thread *thread = data;

	if (thread->process->is_short)
		take_turns(thread->process, thread->seed);
	else if (thread->process->depth > 1)
		many_at_a_time(thread->process, thread->seed);
	else
		one_by_one(thread->process, thread->seed);
	return NULL;
}

static void run(const struct process *process, int ready, int go)
{
	struct thread *threads = memory(process->threads * sizeof(*threads));
	unsigned int number;
	char byte = 0;

	if (process->class &&
	    syscall(SYS_ioprio_set, 1, 0, process->class << IOPRIO_CLASS_SHIFT | process->level))
		err(1, "ioprio_set");
	/* The scheduler has known who is watched for longer than any of the others. */
	if (process->is_watched)
		request(process, open_disk(process), memory(process->block), process->offset);
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0)
		err(1, "pipe");
	for (number = 0; number < process->threads; number++) {
		threads[number].process = process;
		threads[number].seed = process->seed + number * 0x632be59bd9b4e019ULL;
		/* The first thread is the process itself: a thread of one alone would cost a change of context. */
		if (number && pthread_create(&threads[number].handle, NULL, run_thread,
					     &threads[number]))
			errx(1, "a thread cannot be made");
	}
	run_thread(&threads[0]);
	for (number = 1; number < process->threads; number++)
		pthread_join(threads[number].handle, NULL);
}

static void *shared_memory(size_t bytes)
{
	void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (found == MAP_FAILED)
		err(1, "mmap");
	return found;
}

static void add_job(const char *text, uint64_t seed)
{
	struct process process = { .level = IOPRIO_LEVEL };
	char direction[8], mode[16], life[16];
	unsigned int members, is_watched = count == 0;

	if (sscanf(text, "%7[^,],%u,%u,%u,%lu,%15[^,],%d,%15[^,],%d", direction, &members,
		   &process.threads, &process.depth, &process.block, mode, &process.class,
		   life, &process.level) < 8 || process.depth > DEPTH_MAX)
		errx(1, "no job: %s", text);
	process.is_write = !strcmp(direction, "write");
	process.is_short = !strcmp(life, "short");
	process.is_watched = is_watched;
	if (!strcmp(mode, "direct"))
		process.flags = O_DIRECT;
	else if (!strcmp(mode, "sync"))
		process.flags = O_DSYNC;
	for (; members; members--) {
		if (count == PROCESSES_MAX)
			errx(1, "more than %d processes", PROCESSES_MAX);
		process.seed = (seed ^ count) * 0x9e3779b97f4a7c15ULL;
		process.record = shared_memory(sizeof(*process.record));
		processes[count++] = process;
	}
}

static void print(const struct process *process, uint64_t begin, uint64_t end)
{
	const struct record *record = process->record;
	unsigned long number, kept = record->made < KEPT_MAX ? record->made : KEPT_MAX;

	/* Of who is watched, each latency counts. */
	if (process->is_watched && record->made > KEPT_MAX)
		errx(1, "%lu requests of a watched process, and %lu are kept", record->made, KEPT_MAX);
	printf("%s %lu %" PRIu64 " %" PRIu64, process->is_write ? "write" : "read",
	       process->block * record->done_in_time, begin, end);
	for (number = 0; number < kept; number++) {
		uint32_t waited = record->kept[number];

		printf(" %llu", waited >> 31 ? (waited & ~(1U << 31)) * 1000ULL : waited);
	}
	printf("\n");
}

int main(int argument_count, char **arguments)
{
	int ready[2], go[2], status, place;
	unsigned long bytes, requests;
	struct timespec until;
	uint64_t idle, begin, end, seed;
	unsigned int number;
	char byte;

	if (argument_count < 7)
		errx(1, "usage: fair-load DISK STAT BYTES SEED MILLISECONDS JOB...");
	path = arguments[1];
	bytes = strtoul(arguments[3], NULL, 10);
	seed = strtoull(arguments[4], NULL, 10);
	shared = shared_memory(sizeof(*shared));
	for (place = 6; place < argument_count; place++)
		add_job(arguments[place], seed);
	if (pipe(ready) || pipe(go))
		err(1, "pipe");
	for (number = 0; number < count; number++) {
		struct process *process = &processes[number];

		process->size = bytes / count / 4096 * 4096;
		process->offset = number * process->size;
		if (process->size < process->block)
			errx(1, "the part of a process is smaller than a request");
		if (fork())
			continue;
		close(ready[0]);
		close(go[1]);
		run(process, ready[1], go[0]);
		exit(0);
	}
	close(ready[1]);
	for (number = 0; number < count; number++)
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "a process failed");
	requests = disk_requests(arguments[2]);
	idle = idle_ns();
	begin = now_ns();
	shared->end_ns = begin + strtoul(arguments[5], NULL, 10) * 1000000ULL;
	close(go[1]);
	until.tv_sec = shared->end_ns / 1000000000ULL;
	until.tv_nsec = shared->end_ns % 1000000000ULL;
	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		errx(1, "clock_nanosleep");
	idle = idle_ns() - idle;
	end = now_ns();
	requests = disk_requests(arguments[2]) - requests;
	while (wait(&status) > 0)
		if (status)
			errx(1, "a process failed");
	printf("busy %" PRIu64 " %" PRIu64 " %" PRIu64 "\ndisk_requests %lu\n", begin, end, idle,
	       requests);
	for (number = 0; number < count; number++)
		print(&processes[number], begin, end);
	return 0;
}
