// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes that make one request after another and time each: timed-load DISK
 * BYTES SEED JOB... starts them all at once and prints what they measured. A
 * job is
 *
 *	DIRECTION,PROCESSES,BLOCK,REQUESTS,MODE,ORDER
 *
 * with DIRECTION read or write, MODE direct, sync or buffered, and ORDER random
 * or sequential. Each process works on a part of the disk of its own, all parts
 * together are BYTES long.
 *
 * The first line is "busy BEGIN END IDLE": clock readings when the first process
 * was let go and when the last was done, and the time between them during which
 * the processor had nothing to do; all nanoseconds. Then comes a line for each
 * process: "DIRECTION BYTES BEGIN END LATENCY...".
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"

#define PROCESSES_MAX 256

struct process {
	int is_write, is_random, flags;
	unsigned long offset, size, block, requests;
	uint64_t seed;
	/* Shared with the parent. */
	uint64_t *times;
};

static struct process processes[PROCESSES_MAX];
static unsigned int count;

static unsigned long draw(struct process *process, unsigned long below)
{
	process->seed = process->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (process->seed >> 33) % below;
}

static void run(struct process *process, const char *path, int ready, int go)
{
	int disk = open(path, (process->is_write ? O_WRONLY : O_RDONLY) | process->flags);
	unsigned long number, blocks = process->size / process->block;
	void *data;
	char byte = 0;

	if (disk < 0 || posix_memalign(&data, 4096, process->block))
		err(1, "%s", path);
	memset(data, 0, process->block);
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0)
		err(1, "pipe");
	process->times[0] = now_ns();
	for (number = 0; number < process->requests; number++) {
		unsigned long place = process->is_random ? draw(process, blocks) : number % blocks;
		off_t offset = process->offset + place * process->block;
		uint64_t begin = now_ns();
		ssize_t done = process->is_write ?
			pwrite(disk, data, process->block, offset) :
			pread(disk, data, process->block, offset);

		if (done != (ssize_t)process->block)
			err(1, "a request of %lu bytes at %lu", process->block, offset);
		process->times[2 + number] = now_ns() - begin;
	}
	process->times[1] = now_ns();
}

static void add_job(const char *text, uint64_t seed)
{
	struct process process = {};
	char direction[8], mode[16], order[16];
	unsigned int members;

	if (sscanf(text, "%7[^,],%u,%lu,%lu,%15[^,],%15s", direction, &members, &process.block,
		   &process.requests, mode, order) != 6)
		errx(1, "no job: %s", text);
	process.is_write = !strcmp(direction, "write");
	process.is_random = !strcmp(order, "random");
	if (!strcmp(mode, "direct"))
		process.flags = O_DIRECT;
	else if (!strcmp(mode, "sync"))
		process.flags = O_SYNC;
	for (; members; members--) {
		if (count == PROCESSES_MAX)
			errx(1, "more than %d processes", PROCESSES_MAX);
		process.seed = (seed ^ count) * 0x9e3779b97f4a7c15ULL;
		process.times = mmap(NULL, (process.requests + 2) * sizeof(*process.times),
				     PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (process.times == MAP_FAILED)
			err(1, "mmap");
		processes[count++] = process;
	}
}

static void print(const struct process *process)
{
	unsigned long number;

	printf("%s %lu %" PRIu64 " %" PRIu64, process->is_write ? "write" : "read",
	       process->block * process->requests, process->times[0], process->times[1]);
	for (number = 0; number < process->requests; number++)
		printf(" %" PRIu64, process->times[2 + number]);
	printf("\n");
}

/* Waits for a byte of each process; one that fails writes none and ends the reading. */
static void wait_for_all(int pipe)
{
	unsigned int place;
	char byte;

	for (place = 0; place < count; place++)
		if (read(pipe, &byte, 1) != 1)
			errx(1, "a process failed");
}

int main(int argument_count, char **arguments)
{
	int ready[2], go[2], done[2], end[2], status, place;
	uint64_t idle, begin, ended;
	unsigned long bytes, seed;
	unsigned int number;

	if (argument_count < 5)
		errx(1, "usage: timed-load DISK BYTES SEED JOB...");
	bytes = strtoul(arguments[2], NULL, 10);
	seed = strtoul(arguments[3], NULL, 10);
	for (place = 4; place < argument_count; place++)
		add_job(arguments[place], seed);
	if (pipe(ready) || pipe(go) || pipe(done) || pipe(end))
		err(1, "pipe");
	for (number = 0; number < count; number++) {
		struct process *process = &processes[number];
		char byte = 0;

		process->size = bytes / count / 4096 * 4096;
		process->offset = number * process->size;
		if (process->size < process->block)
			errx(1, "the part of a process is smaller than a request");
		if (fork())
			continue;
		close(ready[0]);
		close(done[0]);
		close(go[1]);
		close(end[1]);
		run(process, arguments[1], ready[1], go[0]);
		/* The end of a process is not part of what is measured. */
		if (write(done[1], &byte, 1) != 1 || read(end[0], &byte, 1) < 0)
			err(1, "pipe");
		return 0;
	}
	close(ready[1]);
	close(done[1]);
	wait_for_all(ready[0]);
	idle = idle_ns();
	begin = now_ns();
	close(go[1]);
	wait_for_all(done[0]);
	ended = now_ns();
	idle = idle_ns() - idle;
	close(end[1]);
	while (wait(&status) > 0)
		if (status)
			errx(1, "a process failed");
	printf("busy %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", begin, ended, idle);
	for (number = 0; number < count; number++)
		print(&processes[number]);
	return 0;
}
