// SPDX-License-Identifier: GPL-2.0-only
/*
 * One old process beside a stream of short-lived ones: how long does it wait?
 *
 *	short-lived DISK BYTES SEED KIND REQUESTS AT_ONCE SECONDS
 *
 * The old process has made a request before the stream begins, so that the
 * scheduler has known it for longer than any of the others. It then makes
 * REQUESTS requests of 4 KiB one after the other, KIND read (O_DIRECT) or
 * dsync-write (O_DSYNC), and each is timed. Beside it AT_ONCE processes live at
 * a time, each of which reads 4 KiB once and ends; the next takes its place. All
 * ends when the old process is done, or after SECONDS, so that an old process
 * that starves comes to an end too.
 *
 * Prints "longest_ns N mean_ns N requests N short_lived N", the last of which
 * is the number of short-lived processes that came and went.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

/* What all processes see. */
static struct {
	atomic_int stop;
	atomic_ulong short_lived;
	uint64_t longest_ns, sum_ns, requests;
} *shared;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static off_t draw(uint64_t *seed, unsigned long bytes)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (off_t)((*seed >> 33) % (bytes / BLOCK) * BLOCK);
}

static void request(int disk, int is_write, void *data, off_t offset)
{
	ssize_t done = is_write ? pwrite(disk, data, BLOCK, offset) :
				  pread(disk, data, BLOCK, offset);

	if (done != BLOCK)
		err(1, "a request at %jd", (intmax_t)offset);
}

static int open_disk(const char *path, int flags, void **data)
{
	int disk = open(path, flags);

	if (disk < 0 || posix_memalign(data, BLOCK, BLOCK))
		err(1, "%s", path);
	memset(*data, 0, BLOCK);
	return disk;
}

static void live_long(const char *path, unsigned long bytes, uint64_t seed,
		      int is_write, unsigned long requests, int known)
{
	void *data;
	int disk = open_disk(path, is_write ? O_RDWR | O_DSYNC :
					      O_RDONLY | O_DIRECT, &data);
	char byte = 0;

	request(disk, is_write, data, draw(&seed, bytes));
	if (write(known, &byte, 1) != 1)
		err(1, "pipe");
	for (; requests && !shared->stop; requests--) {
		uint64_t begin = now_ns(), waited;

		request(disk, is_write, data, draw(&seed, bytes));
		waited = now_ns() - begin;
		if (waited > shared->longest_ns)
			shared->longest_ns = waited;
		shared->sum_ns += waited;
		shared->requests++;
	}
}

/* One process after the other, until the old one is done. */
static void live_shortly(const char *path, unsigned long bytes, uint64_t seed)
{
	while (!shared->stop) {
		off_t offset = draw(&seed, bytes);
		int status;

		if (!fork()) {
			void *data;
			int disk = open_disk(path, O_RDONLY | O_DIRECT, &data);

			request(disk, 0, data, offset);
			_exit(0);
		}
		if (wait(&status) < 0 || status)
			errx(1, "a short-lived process failed");
		shared->short_lived++;
	}
}

int main(int count, char **arguments)
{
	unsigned long bytes, requests, at_once, place;
	uint64_t seed, end_ns;
	int known[2], status, is_write, failed = 0;
	char byte;
	pid_t old, ended;

	if (count != 8)
		errx(1, "usage: short-lived DISK BYTES SEED KIND REQUESTS AT_ONCE SECONDS");
	bytes = strtoul(arguments[2], NULL, 10);
	seed = strtoul(arguments[3], NULL, 10);
	is_write = !strcmp(arguments[4], "dsync-write");
	if (!is_write && strcmp(arguments[4], "read"))
		errx(1, "no kind of request: %s", arguments[4]);
	requests = strtoul(arguments[5], NULL, 10);
	at_once = strtoul(arguments[6], NULL, 10);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pipe(known))
		err(1, "memory or a pipe");

	old = fork();
	if (!old) {
		live_long(arguments[1], bytes, seed, is_write, requests, known[1]);
		return 0;
	}
	close(known[1]);
	if (read(known[0], &byte, 1) != 1)
		errx(1, "the old process failed");
	end_ns = now_ns() + strtoul(arguments[7], NULL, 10) * 1000000000ULL;
	for (place = 1; place <= at_once; place++) {
		if (fork())
			continue;
		live_shortly(arguments[1], bytes, seed + place);
		return 0;
	}
	while (!(ended = waitpid(old, &status, WNOHANG)) && now_ns() < end_ns)
		usleep(10000);
	failed = ended && status;
	shared->stop = 1;
	while (wait(&status) > 0)
		failed |= status != 0;
	if (failed || !shared->requests)
		errx(1, "a process failed");
	printf("longest_ns %" PRIu64 " mean_ns %" PRIu64 " requests %" PRIu64
	       " short_lived %lu\n", shared->longest_ns,
	       shared->sum_ns / shared->requests, shared->requests,
	       (unsigned long)shared->short_lived);
	return 0;
}
