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
 *
 * bfq looks at nanoseconds, too. Its time is that of the clock since an edge
 * of the tick, so that the tick can be told from it. The end of a process is
 * recorded for it, because that may end a turn.
 */
#include <linux/bitmap.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/iocontext.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/tracepoint.h>
#include <trace/events/block.h>

#define CREATE_TRACE_POINTS
#include "sched-recorder-trace.h"

#define TAGS	2048

static char *scheduler = "mq-deadline";
module_param(scheduler, charp, 0444);
MODULE_PARM_DESC(scheduler, "mq-deadline, kyber or bfq");

static bool is_deadline, is_bfq;
/* In ticks, or for bfq in nanoseconds. */
static u64 start;
/* Tags of requests that are with the driver. */
static DECLARE_BITMAP(sent, TAGS);

static u64 now_ns(void)
{
	if (is_bfq)
		return ktime_get_ns() - start;
	return (get_jiffies_64() - start) * (NSEC_PER_SEC / HZ);
}

/*
 * A time at which the tick came. The interrupt takes a while until jiffies are
 * counted; the shortest while of several says best when it was.
 */
static u64 tick_edge_ns(void)
{
	u64 tick_ns = NSEC_PER_SEC / HZ, phase = tick_ns, edge = 0;
	unsigned int round;

	for (round = 0; round < 8; round++) {
		u64 before = get_jiffies_64(), now;
		u32 rest;

		while (!time_after64(get_jiffies_64(), before))
			cpu_relax();
		now = ktime_get_ns();
		div_u64_rem(now, tick_ns, &rest);
		phase = min_t(u64, phase, rest);
		edge = now - rest;
	}
	return edge + phase;
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

/*
 * Inserts that bfq is at. It reads the clock before and after the tracepoint,
 * and takes a queue for one that thinks if much time passes in between, so they
 * are written down when the call returns.
 */
static struct insert {
	struct request_queue *q;
	u64 now;
	sector_t sector;
	unsigned int sectors;
	int id;
	bool write, sync;
} inserts[TAGS];
static unsigned int inserted;

static void on_insert(void *unused, struct request *rq)
{
	if (is_bfq && inserted < TAGS) {
		inserts[inserted++] = (struct insert) {
			.q = rq->q,
			.now = now_ns(),
			.sector = blk_rq_pos(rq),
			.sectors = blk_rq_sectors(rq),
			.id = rq->internal_tag,
			.write = rq_data_dir(rq),
			.sync = op_is_sync(rq->cmd_flags),
		};
		return;
	}
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

static int leave_insert(struct kretprobe_instance *instance,
			struct pt_regs *regs)
{
	unsigned int place;

	for (place = 0; place < inserted; place++) {
		struct insert *insert = &inserts[place];

		trace_sched_recorder("insert", insert->q, insert->now,
				     insert->id, insert->write, insert->sync,
				     insert->sector, insert->sectors);
	}
	inserted = 0;
	return 0;
}

static struct kretprobe insert_return = {
	.kp.symbol_name = "bfq_insert_requests",
	.handler = leave_insert,
	.maxactive = 16,
};

static int on_exit(struct kprobe *probe, struct pt_regs *regs)
{
	struct io_cq *icq = (struct io_cq *)regs_get_kernel_argument(regs, 0);

	trace_sched_recorder("exit", icq->q, now_ns(), -1, 0, 0, 0, 0);
	return 0;
}

static struct kprobe exit_probe = {
	.symbol_name = "bfq_exit_icq",
	.pre_handler = on_exit,
};

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
	is_bfq = !strcmp(scheduler, "bfq");
	if (!is_deadline && !is_bfq && strcmp(scheduler, "kyber"))
		return -EINVAL;
	start = is_bfq ? tick_edge_ns() : get_jiffies_64();
	dispatch.kp.symbol_name = is_deadline ? "dd_dispatch_request" :
				  is_bfq ? "bfq_dispatch_request" :
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
	error = is_bfq ? register_kprobe(&exit_probe) : 0;
	if (error)
		goto unregister_complete;
	error = is_bfq ? register_kretprobe(&insert_return) : 0;
	if (error)
		goto unregister_exit;
	error = register_trace_block_rq_insert(on_insert, NULL);
	if (error)
		goto unregister_insert;
	return 0;

unregister_insert:
	if (is_bfq)
		unregister_kretprobe(&insert_return);
unregister_exit:
	if (is_bfq)
		unregister_kprobe(&exit_probe);
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
	if (is_bfq) {
		unregister_kretprobe(&insert_return);
		unregister_kprobe(&exit_probe);
		missed += exit_probe.nmissed + insert_return.nmissed +
			  insert_return.kp.nmissed;
	}
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
MODULE_DESCRIPTION("Records decisions of mq-deadline, kyber and bfq");
MODULE_LICENSE("GPL");
