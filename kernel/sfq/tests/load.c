// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes that make requests: load DISK JOB... starts one for each job and
 * ends when all have. A job is
 *
 *	KIND,OFFSET,SIZE,BLOCK,DEPTH,COUNT,PATTERN,SEED
 *
 * with sizes in bytes, PATTERN of the letters r and w, then s for sequential, and
 * KIND one of
 *
 *	direct		DEPTH asynchronous requests at once
 *	durable		the same, each through the cache of the disk (O_DSYNC)
 *	batch		DEPTH requests in a call, which the kernel keeps in a plug
 *			until all are there; the next call when all are complete
 *	buffered	written back unwaited for after each DEPTH blocks
 *	fsync		written, and waited for after each DEPTH blocks
 *	discard		blocks are discarded, one after the other
 *
 * It is small and linked statically: for so many short runs, starting fio costs
 * more than the runs.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

static void prepare(struct job *job, int disk, char *data, struct iocb *iocb)
{
	memset(iocb, 0, sizeof(*iocb));
	iocb->aio_fildes = disk;
	iocb->aio_lio_opcode =
		next_is_write(job) ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	iocb->aio_buf = (uintptr_t)data;
	iocb->aio_nbytes = job->block;
	iocb->aio_offset = next_offset(job);
	iocb->aio_data = (uintptr_t)iocb;
}

static void submit_all(aio_context_t context, struct iocb **iocbs, long count)
{
	while (count) {
		long taken = syscall(SYS_io_submit, context, count, iocbs);

		if (taken < 1)
			err(1, "io_submit");
		iocbs += taken;
		count -= taken;
	}
}

static void submit(aio_context_t context, struct job *job, int disk, char *data,
		   struct iocb *iocb)
{
	prepare(job, disk, data, iocb);
	submit_all(context, &iocb, 1);
}

static struct iocb *wait_for_one(aio_context_t context, struct job *job)
{
	struct io_event event;

	if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
		err(1, "io_getevents");
	if (event.res != (long long)job->block)
		errx(1, "a request failed with %lld", event.res);
	return (struct iocb *)(uintptr_t)event.data;
}

static void run_batches(struct job *job, aio_context_t context, int disk,
			char *data, struct iocb *iocbs)
{
	struct iocb **batch = calloc(job->depth, sizeof(*batch));
	unsigned int left = job->count, count, place;

	if (!batch)
		err(1, "calloc");
	for (; left; left -= count) {
		count = left < job->depth ? left : job->depth;
		for (place = 0; place < count; place++) {
			batch[place] = &iocbs[place];
			prepare(job, disk, data, batch[place]);
		}
		submit_all(context, batch, count);
		for (place = 0; place < count; place++)
			wait_for_one(context, job);
	}
}

static void run_direct(struct job *job, const char *path, int flags)
{
	struct iocb *iocbs = calloc(job->depth, sizeof(*iocbs));
	unsigned int submitted = 0, done = 0;
	int disk = open(path, O_RDWR | O_DIRECT | flags);
	aio_context_t context = 0;
	void *data;

	if (disk < 0 || !iocbs || posix_memalign(&data, 4096, job->block))
		err(1, "%s", path);
	memset(data, 0, job->block);
	if (syscall(SYS_io_setup, job->depth, &context))
		err(1, "io_setup");
	if (!strcmp(job->kind, "batch")) {
		run_batches(job, context, disk, data, iocbs);
		return;
	}
	while (submitted < job->depth && submitted < job->count)
		submit(context, job, disk, data, &iocbs[submitted++]);
	while (done < submitted) {
		struct iocb *iocb = wait_for_one(context, job);

		done++;
		if (submitted < job->count) {
			submitted++;
			submit(context, job, disk, data, iocb);
		}
	}
}

static void run_buffered(struct job *job, const char *path, int is_waited_for)
{
	int disk = open(path, O_RDWR);
	char *data = calloc(1, job->block);
	unsigned int number;

	if (disk < 0 || !data)
		err(1, "%s", path);
	for (number = 1; number <= job->count; number++) {
		if (pwrite(disk, data, job->block, next_offset(job)) < 0)
			err(1, "pwrite");
		if (number % job->depth)
			continue;
		if (is_waited_for ? fsync(disk) :
		    sync_file_range(disk, job->offset, job->size,
				    SYNC_FILE_RANGE_WRITE))
			err(1, "write-back");
	}
}

static void run_discards(struct job *job, const char *path)
{
	int disk = open(path, O_RDWR | O_DIRECT);
	unsigned int number;

	if (disk < 0)
		err(1, "%s", path);
	for (number = 0; number < job->count; number++) {
		uint64_t range[2] = { next_offset(job), job->block };

		if (ioctl(disk, BLKDISCARD, range))
			err(1, "BLKDISCARD");
	}
}

static void run(struct job *job, const char *path)
{
	if (!strcmp(job->kind, "direct") || !strcmp(job->kind, "batch"))
		run_direct(job, path, 0);
	else if (!strcmp(job->kind, "durable"))
		run_direct(job, path, O_DSYNC);
	else if (!strcmp(job->kind, "discard"))
		run_discards(job, path);
	else if (!strcmp(job->kind, "buffered") || !strcmp(job->kind, "fsync"))
		run_buffered(job, path, !strcmp(job->kind, "fsync"));
	else
		errx(1, "no kind of job: %s", job->kind);
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
		run(&job, arguments[1]);
		return 0;
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
