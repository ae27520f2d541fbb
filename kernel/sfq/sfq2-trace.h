/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler was asked and what it chose, in the order in which it
 * happened under its lock. Times are nanoseconds since it was selected; a
 * request is named by its scheduler tag and its hardware queue, which are its
 * own while it exists.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sfq2

#if !defined(_SFQ2_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SFQ2_TRACE_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/tracepoint.h>

#ifndef _SFQ2_TRACE_HELPERS
#define _SFQ2_TRACE_HELPERS
static inline dev_t sfq2_trace_dev(struct request_queue *q)
{
	return q->disk ? disk_devt(q->disk) : 0;
}

/* Each hardware queue has scheduler tags of its own, at most BLK_MQ_MAX_DEPTH. */
static inline int sfq2_trace_id(struct request *rq)
{
	return (int)(rq->mq_hctx->queue_num * BLK_MQ_MAX_DEPTH) +
	       rq->internal_tag;
}

static inline char sfq2_trace_op(struct request *rq)
{
	if (req_op(rq) == REQ_OP_DISCARD)
		return 'D';
	return rq_data_dir(rq) == WRITE ? 'W' : 'R';
}
#endif

/*
 * A request that is new. With at_head it goes to the head of the dispatch list
 * and into no queue, as the data of a flush does. One that is not mergeable is
 * joined with nothing: it writes through caches, or is a part of a flush.
 */
TRACE_EVENT(sfq2_insert,
	TP_PROTO(struct request *rq, u64 now, pid_t pid, bool sync, bool at_head),
	TP_ARGS(rq, now, pid, sync, at_head),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(pid_t, pid)
		__field(char, op)
		__field(bool, sync)
		__field(sector_t, sector)
		__field(unsigned int, sectors)
		__field(bool, mergeable)
		__field(bool, at_head)
		__field(unsigned short, ioprio)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = sfq2_trace_id(rq);
		__entry->pid = pid;
		__entry->op = sfq2_trace_op(rq);
		__entry->sync = sync;
		__entry->sector = blk_rq_pos(rq);
		__entry->sectors = blk_rq_sectors(rq);
		__entry->mergeable = rq_mergeable(rq);
		__entry->at_head = at_head;
		__entry->ioprio = req_get_ioprio(rq);
	),
	TP_printk("%d,%d now=%llu id=%d pid=%d op=%c sync=%d sector=%llu sectors=%u mergeable=%d at_head=%d ioprio=%#x",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->now,
		  __entry->id, __entry->pid, __entry->op, __entry->sync,
		  (unsigned long long)__entry->sector, __entry->sectors,
		  __entry->mergeable, __entry->at_head, __entry->ioprio)
);

DECLARE_EVENT_CLASS(sfq2_part,
	TP_PROTO(struct request *rq, u64 now, pid_t pid, sector_t sector,
		 unsigned int sectors, bool sync),
	TP_ARGS(rq, now, pid, sector, sectors, sync),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(pid_t, pid)
		__field(char, op)
		__field(bool, sync)
		__field(sector_t, sector)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = sfq2_trace_id(rq);
		__entry->pid = pid;
		__entry->op = sfq2_trace_op(rq);
		__entry->sync = sync;
		__entry->sector = sector;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d now=%llu id=%d pid=%d op=%c sync=%d sector=%llu sectors=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->now,
		  __entry->id, __entry->pid, __entry->op, __entry->sync,
		  (unsigned long long)__entry->sector, __entry->sectors)
);

/* A bio became a part of request @rq. */
DEFINE_EVENT(sfq2_part, sfq2_merge,
	TP_PROTO(struct request *rq, u64 now, pid_t pid, sector_t sector,
		 unsigned int sectors, bool sync),
	TP_ARGS(rq, now, pid, sector, sectors, sync)
);

/* A request not yet inserted, of a plug, became the end of request @rq. */
DEFINE_EVENT(sfq2_part, sfq2_join,
	TP_PROTO(struct request *rq, u64 now, pid_t pid, sector_t sector,
		 unsigned int sectors, bool sync),
	TP_ARGS(rq, now, pid, sector, sectors, sync)
);

/* The queued request @absorbed became a part of request @rq. */
TRACE_EVENT(sfq2_absorb,
	TP_PROTO(struct request *rq, u64 now, struct request *absorbed),
	TP_ARGS(rq, now, absorbed),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(int, absorbed)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = sfq2_trace_id(rq);
		__entry->absorbed = sfq2_trace_id(absorbed);
	),
	TP_printk("%d,%d now=%llu id=%d absorbed=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->now, __entry->id,
		  __entry->absorbed)
);

/* The driver gave request @rq back: to the head or the tail of the dispatch list. */
TRACE_EVENT(sfq2_requeue,
	TP_PROTO(struct request *rq, u64 now, bool at_head),
	TP_ARGS(rq, now, at_head),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(bool, at_head)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = sfq2_trace_id(rq);
		__entry->at_head = at_head;
	),
	TP_printk("%d,%d now=%llu id=%d at_head=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->now, __entry->id,
		  __entry->at_head)
);

/* A call for work; id is -1 if there was none. */
TRACE_EVENT(sfq2_dispatch,
	TP_PROTO(struct request_queue *q, u64 now, struct request *rq),
	TP_ARGS(q, now, rq),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(q);
		__entry->now = now;
		__entry->id = rq ? sfq2_trace_id(rq) : -1;
	),
	TP_printk("%d,%d now=%llu id=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->now, __entry->id)
);

TRACE_EVENT(sfq2_complete,
	TP_PROTO(struct request *rq, u64 now),
	TP_ARGS(rq, now),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = sfq2_trace_id(rq);
	),
	TP_printk("%d,%d now=%llu id=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->now, __entry->id)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE sfq2-trace
#include <trace/define_trace.h>
