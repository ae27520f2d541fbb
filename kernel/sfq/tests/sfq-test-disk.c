// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk in memory that gives requests back, refuses them and lets them time
 * out, as often as it is told. null_blk can do that only in kernels built with
 * fault injection, which Debian's are not.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/bvec.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#define DISK_BYTES	(32UL << 20)

static unsigned int requeue_every;
module_param(requeue_every, uint, 0644);
MODULE_PARM_DESC(requeue_every, "give back each n-th request");

static unsigned int busy_every;
module_param(busy_every, uint, 0644);
MODULE_PARM_DESC(busy_every, "refuse each n-th request for want of resources");

static unsigned int timeout_every;
module_param(timeout_every, uint, 0644);
MODULE_PARM_DESC(timeout_every, "let each n-th request time out, and try again");

static unsigned int service_us = 200;
module_param(service_us, uint, 0644);
MODULE_PARM_DESC(service_us, "microseconds a request takes");

static atomic_t requeues, refusals, timeouts;

static int counters_get(char *buffer, const struct kernel_param *parameter)
{
	return sysfs_emit(buffer, "requeues %d refusals %d timeouts %d\n",
			  atomic_read(&requeues), atomic_read(&refusals),
			  atomic_read(&timeouts));
}

static const struct kernel_param_ops counters_ops = { .get = counters_get };
module_param_cb(counters, &counters_ops, NULL, 0444);

struct test_command {
	struct hrtimer timer;
};

static struct blk_mq_tag_set tag_set;
static struct gendisk *disk;
static void *medium;
static atomic_t count;

static bool is_due(unsigned int every, unsigned int number)
{
	return every && number % every == 0;
}

static enum hrtimer_restart test_disk_done(struct hrtimer *timer)
{
	struct test_command *command =
		container_of(timer, struct test_command, timer);

	blk_mq_complete_request(blk_mq_rq_from_pdu(command));
	return HRTIMER_NORESTART;
}

static void test_disk_transfer(struct request *rq)
{
	char *place = medium + blk_rq_pos(rq) * SECTOR_SIZE;
	struct req_iterator iterator;
	struct bio_vec part;

	rq_for_each_segment(part, rq, iterator) {
		if (rq_data_dir(rq) == WRITE)
			memcpy_from_bvec(place, &part);
		else
			memcpy_to_bvec(&part, place);
		place += part.bv_len;
	}
}

static blk_status_t test_disk_queue_rq(struct blk_mq_hw_ctx *hctx,
				       const struct blk_mq_queue_data *data)
{
	struct request *rq = data->rq;
	struct test_command *command = blk_mq_rq_to_pdu(rq);
	unsigned int number = atomic_inc_return(&count);

	if (is_due(busy_every, number)) {
		atomic_inc(&refusals);
		return BLK_STS_RESOURCE;
	}
	blk_mq_start_request(rq);
	if (is_due(requeue_every, number)) {
		atomic_inc(&requeues);
		blk_mq_requeue_request(rq, true);
		return BLK_STS_OK;
	}
	if (is_due(timeout_every, number))
		return BLK_STS_OK;
	if (req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE)
		test_disk_transfer(rq);
	hrtimer_start(&command->timer, ns_to_ktime(service_us * NSEC_PER_USEC),
		      HRTIMER_MODE_REL);
	return BLK_STS_OK;
}

static void test_disk_complete(struct request *rq)
{
	blk_mq_end_request(rq, BLK_STS_OK);
}

static enum blk_eh_timer_return test_disk_timeout(struct request *rq)
{
	atomic_inc(&timeouts);
	blk_mq_requeue_request(rq, true);
	return BLK_EH_DONE;
}

static int test_disk_init_request(struct blk_mq_tag_set *set,
				  struct request *rq, unsigned int hctx,
				  unsigned int node)
{
	struct test_command *command = blk_mq_rq_to_pdu(rq);

	hrtimer_init(&command->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	command->timer.function = test_disk_done;
	return 0;
}

static const struct blk_mq_ops test_disk_mq_ops = {
	.queue_rq	= test_disk_queue_rq,
	.complete	= test_disk_complete,
	.timeout	= test_disk_timeout,
	.init_request	= test_disk_init_request,
};

static const struct block_device_operations test_disk_ops = {
	.owner = THIS_MODULE,
};

static struct gendisk *test_disk_alloc(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	return blk_mq_alloc_disk(&tag_set, NULL);
#else
	return blk_mq_alloc_disk(&tag_set, NULL, NULL);
#endif
}

static int __init test_disk_init(void)
{
	int error;

	medium = vzalloc(DISK_BYTES);
	if (!medium)
		return -ENOMEM;
	tag_set.ops = &test_disk_mq_ops;
	tag_set.nr_hw_queues = 2;
	tag_set.queue_depth = 4;
	tag_set.numa_node = NUMA_NO_NODE;
	tag_set.cmd_size = sizeof(struct test_command);
	tag_set.timeout = HZ / 4;
	tag_set.flags = BLK_MQ_F_SHOULD_MERGE;
	error = blk_mq_alloc_tag_set(&tag_set);
	if (error)
		goto free_medium;
	disk = test_disk_alloc();
	if (IS_ERR(disk)) {
		error = PTR_ERR(disk);
		goto free_tags;
	}
	strscpy(disk->disk_name, "sfqtest", DISK_NAME_LEN);
	disk->fops = &test_disk_ops;
	set_capacity(disk, DISK_BYTES / SECTOR_SIZE);
	error = add_disk(disk);
	if (error)
		goto put_disk;
	return 0;

put_disk:
	put_disk(disk);
free_tags:
	blk_mq_free_tag_set(&tag_set);
free_medium:
	vfree(medium);
	return error;
}

static void __exit test_disk_exit(void)
{
	del_gendisk(disk);
	put_disk(disk);
	blk_mq_free_tag_set(&tag_set);
	vfree(medium);
}

module_init(test_disk_init);
module_exit(test_disk_exit);

MODULE_AUTHOR("The nandlab authors");
MODULE_DESCRIPTION("A disk that gives requests back, for the tests of SFQ");
MODULE_LICENSE("GPL");
