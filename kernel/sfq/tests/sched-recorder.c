// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records what the kernel's own mq-deadline or kyber is asked and chooses, in
 * the words of sfq-trace.h, so that the simulator's can be compared with it.
 *
 * Probes run outside the schedulers' locks: the order is right on one processor
 * without kernel preemption. Time is that of the tick, which is all that
 * mq-deadline looks at, but it looks at another moment than a probe does:
 *
 * - dd_insert_request() (block/mq-deadline.c) fires the tracepoint
 *   block_rq_insert before it sets the request's expiry from jiffies. A tick
 *   between the two makes the expiry a tick later than the recorded insertion
 *   says. So the expiry itself is recorded, when the request is dispatched.
 * - dd_dispatch_request() compares jiffies with expiries somewhere between its
 *   entry and its return. Both are recorded: an expiry is passed once and for
 *   all, so that what was decided was decided as of either.
 *
 * kyber reads the clock only for the latencies of completed requests.
 */
#include <linux/bitmap.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/tracepoint.h>
#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "sched-recorder-trace.h"

#define TAGS	2048

static char *scheduler = "mq-deadline";
module_param(scheduler, charp, 0444);
MODULE_PARM_DESC(scheduler, "mq-deadline or kyber");

static bool is_deadline;
static u64 start;
/* Tags of requests that are with the driver. */
static DECLARE_BITMAP(sent, TAGS);

static u64 now_ns(void)
{
	return (get_jiffies_64() - start) * (NSEC_PER_SEC / HZ);
}

static bool is_sent(struct request *rq)
{
	return rq->internal_tag >= 0 && rq->internal_tag < TAGS &&
	       test_bit(rq->internal_tag, sent);
}

static void record(const char *event, struct request *survivor, int write,
		   bool sync, sector_t sector, unsigned int sectors)
{
	trace_sched_recorder(event, survivor->q, now_ns(),
			     survivor->internal_tag, write, sync, sector,
			     sectors);
}

static void on_insert(void *unused, struct request *rq)
{
	record("insert", rq, rq_data_dir(rq), op_is_sync(rq->cmd_flags),
	       blk_rq_pos(rq), blk_rq_sectors(rq));
}

/* What a merge is about, kept from the call to the return. */
struct merge {
	struct request_queue *q;
	struct list_head *list;
	struct request *rq;
	struct bio *bio;
	int write;
	bool sync;
	sector_t sector;
	unsigned int sectors;
};

static void describe_bio(struct merge *merge, struct bio *bio)
{
	merge->bio = bio;
	merge->write = bio_data_dir(bio);
	merge->sync = op_is_sync(bio->bi_opf);
	merge->sector = bio->bi_iter.bi_sector;
	merge->sectors = bio_sectors(bio);
}

static int enter_try_merge(struct kretprobe_instance *instance,
			   struct pt_regs *regs)
{
	struct merge *merge = (struct merge *)instance->data;

	merge->q = (struct request_queue *)regs_get_kernel_argument(regs, 0);
	describe_bio(merge, (struct bio *)regs_get_kernel_argument(regs, 1));
	return 0;
}

static int leave_try_merge(struct kretprobe_instance *instance,
			   struct pt_regs *regs)
{
	struct merge *merge = (struct merge *)instance->data;

	if ((bool)regs_return_value(regs) && merge->q->last_merge)
		record("merge", merge->q->last_merge, merge->write,
		       merge->sync, merge->sector, merge->sectors);
	return 0;
}

static int enter_insert_merge(struct kretprobe_instance *instance,
			      struct pt_regs *regs)
{
	struct merge *merge = (struct merge *)instance->data;
	struct request *rq;

	merge->q = (struct request_queue *)regs_get_kernel_argument(regs, 0);
	rq = (struct request *)regs_get_kernel_argument(regs, 1);
	merge->write = rq_data_dir(rq);
	merge->sync = op_is_sync(rq->cmd_flags);
	merge->sector = blk_rq_pos(rq);
	merge->sectors = blk_rq_sectors(rq);
	return 0;
}

static int enter_list_merge(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	struct merge *merge = (struct merge *)instance->data;

	merge->list = (struct list_head *)regs_get_kernel_argument(regs, 1);
	describe_bio(merge, (struct bio *)regs_get_kernel_argument(regs, 2));
	return 0;
}

static int leave_list_merge(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	struct merge *merge = (struct merge *)instance->data;
	struct request *rq;

	if (!(bool)regs_return_value(regs))
		return 0;
	list_for_each_entry(rq, merge->list, queuelist) {
		if (rq->bio != merge->bio && rq->biotail != merge->bio)
			continue;
		record("merge", rq, merge->write, merge->sync, merge->sector,
		       merge->sectors);
		break;
	}
	return 0;
}

struct call {
	struct request_queue *q;
	u64 now;
};

static int enter_dispatch(struct kretprobe_instance *instance,
			  struct pt_regs *regs)
{
	struct call *call = (struct call *)instance->data;
	struct blk_mq_hw_ctx *hctx =
		(struct blk_mq_hw_ctx *)regs_get_kernel_argument(regs, 0);

	call->q = hctx->queue;
	call->now = now_ns();
	return 0;
}

/*
 * When mq-deadline takes the request for expired; it leaves fifo_time alone
 * once the request has left its queue. kyber does not set it.
 */
static u64 expires_ns(struct request *rq)
{
	s64 ticks = (s64)(rq->fifo_time - (unsigned long)start);

	return is_deadline && ticks > 0 ? ticks * (NSEC_PER_SEC / HZ) : 0;
}

static int leave_dispatch(struct kretprobe_instance *instance,
			  struct pt_regs *regs)
{
	struct call *call = (struct call *)instance->data;
	struct request *rq = (struct request *)regs_return_value(regs);

	trace_sched_recorder_dispatch(call->q, call->now,
				      rq ? rq->internal_tag : -1, now_ns(),
				      rq ? expires_ns(rq) : 0);
	if (rq && rq->internal_tag >= 0 && rq->internal_tag < TAGS)
		set_bit(rq->internal_tag, sent);
	return 0;
}

/* A tracepoint: a probe of a function is not hit inside that of another. */
static void on_complete(void *unused, struct request *rq, blk_status_t error,
			unsigned int bytes)
{
	if (!is_sent(rq) || bytes < blk_rq_bytes(rq))
		return;
	clear_bit(rq->internal_tag, sent);
	record("complete", rq, 0, 0, 0, 0);
}

static struct tracepoint *complete_point;

/* Not exported, but listed. */
static void find_complete(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "block_rq_complete"))
		complete_point = tracepoint;
}

static struct kretprobe dispatch = {
	.entry_handler = enter_dispatch,
	.handler = leave_dispatch,
	.data_size = sizeof(struct call),
	.maxactive = 16,
};

static struct kretprobe try_merge = {
	.kp.symbol_name = "blk_mq_sched_try_merge",
	.entry_handler = enter_try_merge,
	.handler = leave_try_merge,
	.data_size = sizeof(struct merge),
	.maxactive = 16,
};

static struct kretprobe insert_merge = {
	.kp.symbol_name = "blk_mq_sched_try_insert_merge",
	.entry_handler = enter_insert_merge,
	.handler = leave_try_merge,
	.data_size = sizeof(struct merge),
	.maxactive = 16,
};

static struct kretprobe list_merge = {
	.kp.symbol_name = "blk_bio_list_merge",
	.entry_handler = enter_list_merge,
	.handler = leave_list_merge,
	.data_size = sizeof(struct merge),
	.maxactive = 16,
};

static struct kretprobe *kretprobes[] = {
	&dispatch, &try_merge, &insert_merge, &list_merge,
};

static int __init recorder_init(void)
{
	int error;

	is_deadline = !strcmp(scheduler, "mq-deadline");
	if (!is_deadline && strcmp(scheduler, "kyber"))
		return -EINVAL;
	start = get_jiffies_64();
	dispatch.kp.symbol_name = is_deadline ? "dd_dispatch_request" :
						"kyber_dispatch_request";
	for_each_kernel_tracepoint(find_complete, NULL);
	if (!complete_point)
		return -ENOENT;
	error = register_kretprobes(kretprobes, ARRAY_SIZE(kretprobes));
	if (error)
		return error;
	error = tracepoint_probe_register(complete_point, on_complete, NULL);
	if (error)
		goto unregister_kretprobes;
	error = register_trace_block_rq_insert(on_insert, NULL);
	if (error)
		goto unregister_complete;
	return 0;

unregister_complete:
	tracepoint_probe_unregister(complete_point, on_complete, NULL);
	tracepoint_synchronize_unregister();
unregister_kretprobes:
	unregister_kretprobes(kretprobes, ARRAY_SIZE(kretprobes));
	return error;
}

static void __exit recorder_exit(void)
{
	unsigned long missed = 0;
	unsigned int place;

	unregister_trace_block_rq_insert(on_insert, NULL);
	tracepoint_probe_unregister(complete_point, on_complete, NULL);
	tracepoint_synchronize_unregister();
	for (place = 0; place < ARRAY_SIZE(kretprobes); place++)
		missed += kretprobes[place]->nmissed +
			  kretprobes[place]->kp.nmissed;
	unregister_kretprobes(kretprobes, ARRAY_SIZE(kretprobes));
	if (missed)
		pr_warn("sched_recorder: BUG: %lu calls were missed\n", missed);
}

module_init(recorder_init);
module_exit(recorder_exit);

MODULE_AUTHOR("The nandlab authors");
MODULE_DESCRIPTION("Records decisions of mq-deadline and kyber");
MODULE_LICENSE("GPL");
