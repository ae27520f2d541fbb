// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk without a medium that takes its time as a flash card does: commands
 * one by one, pages striped over dies, a small write cache, and dies that stop
 * to clean after so much was written to them. Its figures are those of the
 * simulator's emmc-4.5-64gb. It knows no mapping: a cleaning always comes after
 * the same amount of programmed pages and always takes as long.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/version.h>

#define DIES		4
#define PAGE_BYTES	16384U
#define BLOCK_BYTES	4096U
#define CACHE_BYTES	(512U << 10)
#define CACHE_ENTRIES	(CACHE_BYTES / BLOCK_BYTES)
#define COMMAND_BYTES	(512U << 10)
#define QUEUE_DEPTH	2

static unsigned int size_mib = 1024;
module_param(size_mib, uint, 0444);
MODULE_PARM_DESC(size_mib, "mebibytes of the disk");

static unsigned int overhead_us = 60;
module_param(overhead_us, uint, 0444);
MODULE_PARM_DESC(overhead_us, "microseconds before each command");

static unsigned int bytes_per_us = 200;
module_param(bytes_per_us, uint, 0444);
MODULE_PARM_DESC(bytes_per_us, "bytes a microsecond from the host to the cache");

static unsigned int page_transfer_us = 100;
module_param(page_transfer_us, uint, 0444);
MODULE_PARM_DESC(page_transfer_us, "microseconds of a page on the one channel");

static unsigned int read_us = 75;
module_param(read_us, uint, 0444);
MODULE_PARM_DESC(read_us, "microseconds a die reads a page");

static unsigned int lower_program_us = 400;
module_param(lower_program_us, uint, 0444);
MODULE_PARM_DESC(lower_program_us, "microseconds a die programs a lower page");

static unsigned int upper_program_us = 1800;
module_param(upper_program_us, uint, 0444);
MODULE_PARM_DESC(upper_program_us, "microseconds a die programs an upper page");

static unsigned int cleaning_ms = 1200;
module_param(cleaning_ms, uint, 0444);
MODULE_PARM_DESC(cleaning_ms, "milliseconds a die cleans at a time, 0 for never");

static unsigned int cleaning_pages = 256;
module_param(cleaning_pages, uint, 0444);
MODULE_PARM_DESC(cleaning_pages, "pages programmed between cleanings of a die");

static unsigned int programmed = 192;
module_param(programmed, uint, 0444);
MODULE_PARM_DESC(programmed, "pages that each die has programmed since its last cleaning");

static unsigned int cleanings;
module_param(cleanings, uint, 0444);
MODULE_PARM_DESC(cleanings, "cleanings so far");

struct card_command {
	struct hrtimer timer;
};

struct die {
	u64 free_at;
	unsigned int programmed;
};

struct cached {
	u64 until;
	unsigned int bytes;
};

/* Times are nanoseconds of the monotonic clock. */
static struct {
	spinlock_t lock;
	u64 free_at;
	u64 channel_free_at;
	struct die dies[DIES];
	struct cached cache[CACHE_ENTRIES];
	unsigned int entries, cached_bytes;
} card;

static struct blk_mq_tag_set tag_set;
static struct gendisk *disk;

static u64 channel_transfer(u64 from)
{
	card.channel_free_at = max(from, card.channel_free_at) +
			       page_transfer_us * NSEC_PER_USEC;
	return card.channel_free_at;
}

static u64 read_page(struct die *die, u64 from)
{
	die->free_at = max(from, die->free_at) + read_us * NSEC_PER_USEC;
	return channel_transfer(die->free_at);
}

static u64 program_page(struct die *die, u64 from)
{
	unsigned int us = die->programmed % 2 ? upper_program_us :
						lower_program_us;

	die->free_at = channel_transfer(max(from, die->free_at)) +
		       us * NSEC_PER_USEC;
	die->programmed++;
	if (cleaning_ms && die->programmed >= cleaning_pages) {
		die->programmed = 0;
		die->free_at += cleaning_ms * NSEC_PER_MSEC;
		cleanings++;
	}
	return die->free_at;
}

/* When there is room in the cache; what was programmed by then has left it. */
static u64 wait_for_room(unsigned int bytes, u64 now)
{
	while (card.entries) {
		unsigned int place, first = 0;

		for (place = 1; place < card.entries; place++)
			if (card.cache[place].until < card.cache[first].until)
				first = place;
		if (card.cache[first].until > now) {
			if (card.cached_bytes + bytes <= CACHE_BYTES)
				break;
			now = card.cache[first].until;
		}
		card.cached_bytes -= card.cache[first].bytes;
		card.cache[first] = card.cache[--card.entries];
	}
	return now;
}

static u64 write_page(struct die *die, unsigned int bytes, u64 now)
{
	u64 from;

	now = wait_for_room(bytes, now);
	from = now;
	/* The rest of the page is read and programmed again. */
	if (bytes < PAGE_BYTES)
		from = read_page(die, from);
	card.cache[card.entries].until = program_page(die, from);
	card.cache[card.entries].bytes = bytes;
	card.entries++;
	card.cached_bytes += bytes;
	return now;
}

/* When a command is done that comes now. */
static u64 execute(struct request *rq, u64 now)
{
	u64 at = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	unsigned int left = blk_rq_bytes(rq);
	u64 done;

	now = max(now, card.free_at) + overhead_us * NSEC_PER_USEC;
	if (rq_data_dir(rq) == WRITE)
		now += (u64)left * NSEC_PER_USEC / bytes_per_us;
	done = now;
	while (left) {
		unsigned int within = at % PAGE_BYTES;
		unsigned int bytes = min(left, PAGE_BYTES - within);
		struct die *die = &card.dies[at / PAGE_BYTES % DIES];

		if (rq_data_dir(rq) == WRITE)
			done = write_page(die, bytes, done);
		else
			done = max(done, read_page(die, now));
		at += bytes;
		left -= bytes;
	}
	card.free_at = done;
	return done;
}

static enum hrtimer_restart card_done(struct hrtimer *timer)
{
	struct card_command *command =
		container_of(timer, struct card_command, timer);

	blk_mq_complete_request(blk_mq_rq_from_pdu(command));
	return HRTIMER_NORESTART;
}

static blk_status_t card_queue_rq(struct blk_mq_hw_ctx *hctx,
				  const struct blk_mq_queue_data *data)
{
	struct request *rq = data->rq;
	struct card_command *command = blk_mq_rq_to_pdu(rq);
	unsigned long flags;
	u64 done;

	if (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE)
		return BLK_STS_NOTSUPP;
	blk_mq_start_request(rq);
	spin_lock_irqsave(&card.lock, flags);
	done = execute(rq, ktime_get_ns());
	spin_unlock_irqrestore(&card.lock, flags);
	hrtimer_start(&command->timer, ns_to_ktime(done), HRTIMER_MODE_ABS);
	return BLK_STS_OK;
}

static void card_complete(struct request *rq)
{
	blk_mq_end_request(rq, BLK_STS_OK);
}

static int card_init_request(struct blk_mq_tag_set *set, struct request *rq,
			     unsigned int hctx, unsigned int node)
{
	struct card_command *command = blk_mq_rq_to_pdu(rq);

	hrtimer_init(&command->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	command->timer.function = card_done;
	return 0;
}

static const struct blk_mq_ops card_mq_ops = {
	.queue_rq	= card_queue_rq,
	.complete	= card_complete,
	.init_request	= card_init_request,
};

static const struct block_device_operations card_ops = {
	.owner = THIS_MODULE,
};

static struct gendisk *card_alloc(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
	struct gendisk *made = blk_mq_alloc_disk(&tag_set, NULL);

	if (!IS_ERR(made)) {
		blk_queue_logical_block_size(made->queue, BLOCK_BYTES);
		blk_queue_max_hw_sectors(made->queue,
					 COMMAND_BYTES / SECTOR_SIZE);
		blk_queue_flag_set(QUEUE_FLAG_NONROT, made->queue);
	}
	return made;
#else
	struct queue_limits limits = {
		.logical_block_size = BLOCK_BYTES,
		.max_hw_sectors = COMMAND_BYTES / SECTOR_SIZE,
	};

	return blk_mq_alloc_disk(&tag_set, &limits, NULL);
#endif
}

static int __init card_init(void)
{
	unsigned int place;
	int error;

	if (!size_mib || !bytes_per_us || !cleaning_pages)
		return -EINVAL;
	spin_lock_init(&card.lock);
	for (place = 0; place < DIES; place++)
		card.dies[place].programmed = programmed;
	tag_set.ops = &card_mq_ops;
	tag_set.nr_hw_queues = 1;
	tag_set.queue_depth = QUEUE_DEPTH;
	tag_set.numa_node = NUMA_NO_NODE;
	tag_set.cmd_size = sizeof(struct card_command);
	tag_set.flags = BLK_MQ_F_SHOULD_MERGE;
	error = blk_mq_alloc_tag_set(&tag_set);
	if (error)
		return error;
	disk = card_alloc();
	if (IS_ERR(disk)) {
		error = PTR_ERR(disk);
		goto free_tags;
	}
	strscpy(disk->disk_name, "sfqcard", DISK_NAME_LEN);
	disk->fops = &card_ops;
	set_capacity(disk, (sector_t)size_mib << (20 - SECTOR_SHIFT));
	error = add_disk(disk);
	if (error)
		goto put_disk;
	return 0;

put_disk:
	put_disk(disk);
free_tags:
	blk_mq_free_tag_set(&tag_set);
	return error;
}

static void __exit card_exit(void)
{
	del_gendisk(disk);
	put_disk(disk);
	blk_mq_free_tag_set(&tag_set);
}

module_init(card_init);
module_exit(card_exit);

MODULE_AUTHOR("The nandlab authors");
MODULE_DESCRIPTION("A disk with the delays of a flash card, to compare schedulers");
MODULE_LICENSE("GPL");
