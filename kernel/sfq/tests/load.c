// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes that make requests: load DISK JOB... starts one for each job and
 * ends when all have. A job is
 *
 *	KIND,OFFSET,SIZE,BLOCK,DEPTH,COUNT,PATTERN,SEED
 *
 * with KIND direct (DEPTH asynchronous requests at once) or buffered (written
 * back unwaited for after each DEPTH blocks), sizes in bytes, and PATTERN of the
 * letters r and w, then s for sequential. It is small and linked statically:
 * for so many short runs, starting fio costs more than the runs.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
	char kind[16];
	unsigned long offset, size, block;
	unsigned int depth, count;
	char pattern[8];
	unsigned long seed;
	unsigned long place;
};

static unsigned long draw(struct job *job, unsigned long below)
{
	job->seed = job->seed * 6364136223846793005UL + 1442695040888963407UL;
	return (job->seed >> 33) % below;
}

static unsigned long next_offset(struct job *job)
{
	unsigned long blocks = job->size / job->block;
	unsigned long place = strchr(job->pattern, 's') ?
		job->place++ % blocks : draw(job, blocks);

	return job->offset + place * job->block;
}

static int next_is_write(struct job *job)
{
	int reads = strchr(job->pattern, 'r') != NULL;
	int writes = strchr(job->pattern, 'w') != NULL;

	return writes && (!reads || draw(job, 2));
}

static void submit(aio_context_t context, struct job *job, int disk, char *data,
		   struct iocb *iocb)
{
	memset(iocb, 0, sizeof(*iocb));
	iocb->aio_fildes = disk;
	iocb->aio_lio_opcode =
		next_is_write(job) ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	iocb->aio_buf = (uintptr_t)data;
	iocb->aio_nbytes = job->block;
	iocb->aio_offset = next_offset(job);
	iocb->aio_data = (uintptr_t)iocb;
	if (syscall(SYS_io_submit, context, 1, &iocb) != 1)
		err(1, "io_submit");
}

static void run_direct(struct job *job, const char *path)
{
	struct iocb *iocbs = calloc(job->depth, sizeof(*iocbs));
	unsigned int submitted = 0, done = 0;
	int disk = open(path, O_RDWR | O_DIRECT);
	aio_context_t context = 0;
	void *data;

	if (disk < 0 || !iocbs || posix_memalign(&data, 4096, job->block))
		err(1, "%s", path);
	memset(data, 0, job->block);
	if (syscall(SYS_io_setup, job->depth, &context))
		err(1, "io_setup");
	while (submitted < job->depth && submitted < job->count)
		submit(context, job, disk, data, &iocbs[submitted++]);
	while (done < submitted) {
		struct io_event event;

		if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
			err(1, "io_getevents");
		if (event.res != (long long)job->block)
			errx(1, "a request failed with %lld", event.res);
		done++;
		if (submitted++ < job->count)
			submit(context, job, disk, data,
			       (struct iocb *)(uintptr_t)event.data);
		else
			submitted--;
	}
}

static void run_buffered(struct job *job, const char *path)
{
	int disk = open(path, O_RDWR);
	char *data = calloc(1, job->block);
	unsigned int number;

	if (disk < 0 || !data)
		err(1, "%s", path);
	for (number = 1; number <= job->count; number++) {
		if (pwrite(disk, data, job->block, next_offset(job)) < 0)
			err(1, "pwrite");
		if (number % job->depth == 0 &&
		    sync_file_range(disk, job->offset, job->size,
				    SYNC_FILE_RANGE_WRITE))
			err(1, "sync_file_range");
	}
}

int main(int count, char **arguments)
{
	int place, status, failed = 0;

	for (place = 2; place < count; place++) {
		struct job job = {};

		if (sscanf(arguments[place],
			   "%15[^,],%lu,%lu,%lu,%u,%u,%7[^,],%lu", job.kind,
			   &job.offset, &job.size, &job.block, &job.depth,
			   &job.count, job.pattern, &job.seed) != 8)
			errx(1, "no job: %s", arguments[place]);
		if (fork())
			continue;
		if (!strcmp(job.kind, "direct"))
			run_direct(&job, arguments[1]);
		else
			run_buffered(&job, arguments[1]);
		return 0;
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
