/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sched_recorder

#if !defined(_SCHED_RECORDER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SCHED_RECORDER_TRACE_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/tracepoint.h>

/*
 * An insert or a merge: what it is about. @now is the tick at which the probe
 * was hit.
 */
TRACE_EVENT(sched_recorder,
	TP_PROTO(const char *event, struct request_queue *q, u64 now, int id,
		 int write, int sync, sector_t sector, unsigned int sectors),
	TP_ARGS(event, q, now, id, write, sync, sector, sectors),
	TP_STRUCT__entry(
		__field(const char *, event)
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
		__entry->event = event;
		__entry->dev = q->disk ? disk_devt(q->disk) : 0;
		__entry->now = now;
		__entry->id = id;
		__entry->pid = task_tgid_nr(current);
		__entry->write = write;
		__entry->sync = sync;
		__entry->sector = sector;
		__entry->sectors = sectors;
	),
	TP_printk("%s: %d,%d now=%llu id=%d pid=%d op=%c sync=%d sector=%llu sectors=%u",
		  __entry->event, MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->now, __entry->id, __entry->pid,
		  __entry->write ? 'W' : 'R', __entry->sync,
		  (unsigned long long)__entry->sector, __entry->sectors)
);

/*
 * A dispatch call: the request it returned, or -1. @now is the tick at the
 * entry, @end that at the return. @expires is when mq-deadline counted the
 * request as expired, 0 if no such time is known.
 */
TRACE_EVENT(sched_recorder_dispatch,
	TP_PROTO(struct request_queue *q, u64 now, int id, u64 end,
		 u64 expires),
	TP_ARGS(q, now, id, end, expires),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, now)
		__field(int, id)
		__field(u64, end)
		__field(u64, expires)
	),
	TP_fast_assign(
		__entry->dev = q->disk ? disk_devt(q->disk) : 0;
		__entry->now = now;
		__entry->id = id;
		__entry->end = end;
		__entry->expires = expires;
	),
	TP_printk("dispatch: %d,%d now=%llu id=%d end=%llu expires=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->now,
		  __entry->id, __entry->end, __entry->expires)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE sched-recorder-trace
#include <trace/define_trace.h>
