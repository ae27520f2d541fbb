/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler was asked and what it chose, in the order in which it
 * happened under its lock. Times are nanoseconds since it was selected; a
 * request is named by its scheduler tag, which is its own while it exists.
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
#endif

TRACE_EVENT(sfq2_insert,
	TP_PROTO(struct request *rq, u64 now, pid_t pid, bool sync),
	TP_ARGS(rq, now, pid, sync),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(pid_t, pid)
		__field(bool, write)
		__field(bool, sync)
		__field(sector_t, sector)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = rq->internal_tag;
		__entry->pid = pid;
		__entry->write = rq_data_dir(rq) == WRITE;
		__entry->sync = sync;
		__entry->sector = blk_rq_pos(rq);
		__entry->sectors = blk_rq_sectors(rq);
	),
	TP_printk("%d,%d now=%llu id=%d pid=%d op=%c sync=%d sector=%llu sectors=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->now,
		  __entry->id, __entry->pid, __entry->write ? 'W' : 'R',
		  __entry->sync, (unsigned long long)__entry->sector,
		  __entry->sectors)
);

/* A bio, or a request not yet inserted, became a part of request @rq. */
TRACE_EVENT(sfq2_merge,
	TP_PROTO(struct request *rq, u64 now, pid_t pid, sector_t sector,
		 unsigned int sectors, bool sync),
	TP_ARGS(rq, now, pid, sector, sectors, sync),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(pid_t, pid)
		__field(bool, write)
		__field(bool, sync)
		__field(sector_t, sector)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = sfq2_trace_dev(rq->q);
		__entry->now = now;
		__entry->id = rq->internal_tag;
		__entry->pid = pid;
		__entry->write = rq_data_dir(rq) == WRITE;
		__entry->sync = sync;
		__entry->sector = sector;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d now=%llu id=%d pid=%d op=%c sync=%d sector=%llu sectors=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->now,
		  __entry->id, __entry->pid, __entry->write ? 'W' : 'R',
		  __entry->sync, (unsigned long long)__entry->sector,
		  __entry->sectors)
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
		__entry->id = rq->internal_tag;
		__entry->absorbed = absorbed->internal_tag;
	),
	TP_printk("%d,%d now=%llu id=%d absorbed=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->now, __entry->id,
		  __entry->absorbed)
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
		__entry->id = rq ? rq->internal_tag : -1;
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
		__entry->id = rq->internal_tag;
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
