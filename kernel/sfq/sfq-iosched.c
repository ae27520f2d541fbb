// SPDX-License-Identifier: GPL-2.0-only
/*
 * SFQ, Simple Fairness Queuing: a queue for each process, visited in turn.
 *
 * Not Start-time Fair Queueing and not Stochastic Fairness Queueing.
 *
 * Rules, which are those of the scheduler `sfq` of the nandlab simulator:
 *
 * - A synchronous request goes to the queue of the process that issued it, an
 *   asynchronous one to the one asynchronous queue. A queue has a FIFO of reads
 *   and one of writes. Each request is also in the order of its expiry.
 * - The selected queue is visited for up to visit_requests requests: reads up
 *   to visit_reads, then writes up to visit_writes, then whatever fill admits.
 *   The next process queue in the round is selected then, but the asynchronous
 *   queue after every sync_visits process queues.
 * - The round holds the process queues that have requests; the one at its front
 *   is selected. A queue that becomes busy is put at its end, however old its
 *   process is, and so is one that has requests left when its visit is over.
 *   Hence a queue waits for at most one visit to each of those that were in the
 *   round when it got its place. In the order of creation new processes would
 *   always lie ahead of the place that is reached, and an old one would starve.
 * - At each multiple of starvation_check milliseconds, counted from when the
 *   scheduler was selected, requests that have expired go to the dispatch list,
 *   which is served before any visit. The check is made by the first operation
 *   that sees its time passed, as of that time; the timer only makes sure that
 *   there is such an operation.
 * - Merging is the block layer's: the request merged last, and the hash of ends.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/hashtable.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "elevator.h"
#include "blk.h"
#include "blk-mq.h"
#include "blk-mq-debugfs.h"
#include "blk-mq-sched.h"
#include "sfq-compat.h"

#define CREATE_TRACE_POINTS
#include "sfq-trace.h"

#define SFQ_HASH_BITS		6

/* How soon an empty queue is freed after its process has gone. */
#define SFQ_SWEEP_INTERVAL	(2 * HZ)

enum { SFQ_READ = READ, SFQ_WRITE = WRITE, SFQ_DIRECTIONS = 2 };

enum sfq_fill { SFQ_FILL_BOTH, SFQ_FILL_WRITES, SFQ_FILL_NONE };

static const char * const sfq_fill_names[] = {
	[SFQ_FILL_BOTH]		= "both",
	[SFQ_FILL_WRITES]	= "writes",
	[SFQ_FILL_NONE]		= "none",
};

/* Requests of one process, or all asynchronous ones. */
struct sfq_queue {
	struct list_head fifo[SFQ_DIRECTIONS];
	/*
	 * Its place in the round; empty while it has no requests, and always
	 * for the asynchronous queue.
	 */
	struct list_head turn;
	struct list_head all;
	struct hlist_node hash;
	/* The thread group; NULL for the asynchronous queue. */
	struct pid *pid;
	pid_t pid_nr;
};

struct sfq_counters {
	u64 inserted;
	u64 merged;
	u64 absorbed;
	u64 visits;
	u64 async_visits;
	u64 visit_requests;
	u64 expired;
	u64 requeued;
	u64 dispatched;
	u64 queues_made;
	u64 queues_freed;
	u64 no_memory;
};

struct sfq_data {
	/* Protects all that follows, and the merge caches of the queue. */
	spinlock_t lock;
	struct request_queue *queue;
	u64 start_ns;
	/* As of which the operation under way acts, whatever it calls back. */
	u64 call_ns;

	/* Requests that have had their turn, or expired. */
	struct list_head dispatch;
	struct sfq_queue async;
	struct list_head all_queues;
	DECLARE_HASHTABLE(by_pid, SFQ_HASH_BITS);
	/*
	 * Process queues that have requests, in the order of their visits: all
	 * of them and no others, so that sync_len tells whether there is one.
	 */
	struct list_head round;
	/* Also read without the lock, by sfq_has_work(): hence WRITE_ONCE(). */
	unsigned int sync_len;
	unsigned int async_len;

	/* The queue that is visited, unless it is gone; it may be empty. */
	struct sfq_queue *visited;
	unsigned int taken[SFQ_DIRECTIONS];
	/* Visits to process queues since the last one to the async queue. */
	unsigned int since_async;

	struct rb_root_cached by_expiry[SFQ_DIRECTIONS];
	/* Not after the next check that finds anything; 0 if none is due. */
	u64 check_ns;
	struct delayed_work check;
	struct delayed_work sweep;

	/* Survivor of the merge under way. */
	struct request *merged;

	unsigned int sync_visits;
	unsigned int visit_requests;
	unsigned int visit_limit[SFQ_DIRECTIONS];
	unsigned int expire_ms[SFQ_DIRECTIONS];
	unsigned int check_ms;
	enum sfq_fill fill;

	struct sfq_counters counters;
	atomic64_t completed;

#ifdef SFQ_LOCKS_ZONES
	/*
	 * No zone is unlocked from the choice of a request until that is
	 * written down. Taken inside of the lock, and in interrupts.
	 */
	spinlock_t zone_lock;
#endif
};

static struct kmem_cache *sfq_queue_cache;

/*
 * What a request remembers. From its allocation to its insertion priv[0] holds
 * a reference to the thread group that allocated it: insertion may be done by
 * another one, as for the data of a flush. priv[1] is the queue it is in, and
 * SFQ_SENT once it has left the scheduler.
 */
#define SFQ_SENT		((void *)1UL)

static inline struct pid *sfq_take_pid(struct request *rq)
{
	struct pid *pid = rq->elv.priv[0];

	rq->elv.priv[0] = NULL;
	return pid;
}

static inline struct sfq_queue *sfq_queue_of(struct request *rq)
{
	return rq->elv.priv[1] == SFQ_SENT ? NULL : rq->elv.priv[1];
}

static inline u64 sfq_now(struct sfq_data *sfqd)
{
	return ktime_get_ns() - sfqd->start_ns;
}

/* The lock has just been taken. */
static inline u64 sfq_begin_call(struct sfq_data *sfqd)
{
	sfqd->call_ns = sfq_now(sfqd);
	return sfqd->call_ns;
}

static inline bool sfq_is_async(struct sfq_data *sfqd, struct sfq_queue *sq)
{
	return sq == &sfqd->async;
}

static inline bool sfq_queue_empty(struct sfq_queue *sq)
{
	return list_empty(&sq->fifo[SFQ_READ]) &&
	       list_empty(&sq->fifo[SFQ_WRITE]);
}

static void sfq_queue_init(struct sfq_queue *sq)
{
	INIT_LIST_HEAD(&sq->fifo[SFQ_READ]);
	INIT_LIST_HEAD(&sq->fifo[SFQ_WRITE]);
	INIT_LIST_HEAD(&sq->turn);
}

static bool sfq_expires_earlier(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry_rq(a)->fifo_time < rb_entry_rq(b)->fifo_time;
}

/* Process queues. */

static struct sfq_queue *sfq_queue_find(struct sfq_data *sfqd, struct pid *pid)
{
	struct sfq_queue *sq;

	hash_for_each_possible(sfqd->by_pid, sq, hash, (unsigned long)pid) {
		if (sq->pid == pid)
			return sq;
	}
	return NULL;
}

/*
 * The queue of a process, made if there is none. Without memory the request is
 * served from the asynchronous queue: later, perhaps, but in any case.
 */
static struct sfq_queue *sfq_queue_get(struct sfq_data *sfqd, struct pid *pid)
{
	struct sfq_queue *sq = sfq_queue_find(sfqd, pid);

	if (sq)
		return sq;
	/* Under the lock, and memory may be waiting for this very write. */
	sq = kmem_cache_alloc(sfq_queue_cache, GFP_NOWAIT | __GFP_NOWARN);
	if (!sq) {
		sfqd->counters.no_memory++;
		return &sfqd->async;
	}
	sfq_queue_init(sq);
	sq->pid = get_pid(pid);
	sq->pid_nr = pid_nr(pid);
	hash_add(sfqd->by_pid, &sq->hash, (unsigned long)pid);
	list_add_tail(&sq->all, &sfqd->all_queues);
	sfqd->counters.queues_made++;
	return sq;
}

static void sfq_queue_free(struct sfq_data *sfqd, struct sfq_queue *sq)
{
	trace_sfq_exit(sfqd->queue, sfqd->call_ns, sq->pid_nr);
	if (sfqd->visited == sq)
		sfqd->visited = NULL;
	hash_del(&sq->hash);
	list_del(&sq->all);
	put_pid(sq->pid);
	kmem_cache_free(sfq_queue_cache, sq);
	sfqd->counters.queues_freed++;
}

/* True when nobody is left who could issue requests to the queue. */
static bool sfq_queue_orphaned(struct sfq_queue *sq)
{
	return !pid_has_task(sq->pid, PIDTYPE_TGID);
}

static void sfq_queue_idle(struct sfq_data *sfqd, struct sfq_queue *sq)
{
	/* With its next request it is as new to the round as any other. */
	list_del_init(&sq->turn);
	if (sfq_queue_orphaned(sq))
		sfq_queue_free(sfqd, sq);
	else
		schedule_delayed_work(&sfqd->sweep, SFQ_SWEEP_INTERVAL);
}

/*
 * A queue that runs empty while its process lives is not freed: the process
 * will most likely be back. Nothing tells a scheduler that a process has gone,
 * so this looks from time to time while there is an empty queue.
 */
static void sfq_sweep(struct work_struct *work)
{
	struct sfq_data *sfqd =
		container_of(to_delayed_work(work), struct sfq_data, sweep);
	struct sfq_queue *sq, *next;
	bool idle = false;

	spin_lock(&sfqd->lock);
	sfq_begin_call(sfqd);
	list_for_each_entry_safe(sq, next, &sfqd->all_queues, all) {
		if (!sfq_queue_empty(sq))
			continue;
		if (sfq_queue_orphaned(sq))
			sfq_queue_free(sfqd, sq);
		else
			idle = true;
	}
	spin_unlock(&sfqd->lock);
	if (idle)
		schedule_delayed_work(&sfqd->sweep, SFQ_SWEEP_INTERVAL);
}

/* Requests into and out of the queues. */

static void sfq_unlink(struct sfq_data *sfqd, struct request *rq)
{
	struct request_queue *q = rq->q;
	struct sfq_queue *sq = sfq_queue_of(rq);

	list_del_init(&rq->queuelist);
	if (!RB_EMPTY_NODE(&rq->rb_node)) {
		rb_erase_cached(&rq->rb_node,
				&sfqd->by_expiry[rq_data_dir(rq)]);
		RB_CLEAR_NODE(&rq->rb_node);
	}
	elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
	rq->elv.priv[1] = NULL;
	if (sfq_is_async(sfqd, sq)) {
		WRITE_ONCE(sfqd->async_len, sfqd->async_len - 1);
		return;
	}
	WRITE_ONCE(sfqd->sync_len, sfqd->sync_len - 1);
	if (sfq_queue_empty(sq))
		sfq_queue_idle(sfqd, sq);
}

/* The first multiple of the period after the earliest expiry; 0 if none. */
static u64 sfq_next_check(struct sfq_data *sfqd)
{
	u64 period = (u64)sfqd->check_ms * NSEC_PER_MSEC;
	u64 earliest = U64_MAX;
	int direction;

	for (direction = 0; direction < SFQ_DIRECTIONS; direction++) {
		struct rb_node *node =
			rb_first_cached(&sfqd->by_expiry[direction]);

		if (node)
			earliest = min(earliest, rb_entry_rq(node)->fifo_time);
	}
	if (earliest == U64_MAX)
		return 0;
	return (div64_u64(earliest, period) + 1) * period;
}

static void sfq_arm(struct sfq_data *sfqd, u64 now)
{
	u64 due = sfq_next_check(sfqd);
	unsigned long delay;

	sfqd->check_ns = due;
	if (!due)
		return;
	delay = nsecs_to_jiffies(due > now ? due - now : 0) + 1;
	kblockd_mod_delayed_work_on(WORK_CPU_UNBOUND, &sfqd->check, delay);
}

#ifdef SFQ_LOCKS_ZONES
static bool sfq_needs_zone(struct request *rq)
{
	return blk_queue_is_zoned(rq->q) && blk_req_needs_zone_write_lock(rq);
}

/* Under zone_lock if the disk has zones. */
static bool sfq_may_send(struct request *rq)
{
	return !blk_queue_is_zoned(rq->q) || blk_req_can_dispatch_to_zone(rq);
}

static int sfq_zone_of(struct request *rq)
{
	return sfq_needs_zone(rq) ? (int)blk_rq_zone_no(rq) : -1;
}
#else
static inline bool sfq_needs_zone(struct request *rq)
{
	return false;
}

static inline bool sfq_may_send(struct request *rq)
{
	return true;
}

static inline int sfq_zone_of(struct request *rq)
{
	return -1;
}
#endif

static void sfq_send_expired(struct sfq_data *sfqd, u64 now)
{
	int direction;

	for (direction = 0; direction < SFQ_DIRECTIONS; direction++) {
		struct rb_root_cached *root = &sfqd->by_expiry[direction];
		struct rb_node *node = rb_first_cached(root);

		while (node && rb_entry_rq(node)->fifo_time < now) {
			struct request *rq = rb_entry_rq(node);

			node = rb_next(node);
			sfq_unlink(sfqd, rq);
			list_add_tail(&rq->queuelist, &sfqd->dispatch);
			sfqd->counters.expired++;
		}
	}
}

/* Makes all starvation checks whose time has come, each as of its time. */
static void sfq_check_expired(struct sfq_data *sfqd, u64 now)
{
	u64 due;

	if (!sfqd->check_ns || now < sfqd->check_ns)
		return;
	for (;;) {
		due = sfq_next_check(sfqd);
		if (!due || due > now)
			break;
		sfq_send_expired(sfqd, due);
	}
	sfq_arm(sfqd, now);
}

static void sfq_check_work(struct work_struct *work)
{
	struct sfq_data *sfqd =
		container_of(to_delayed_work(work), struct sfq_data, check);
	bool run;

	spin_lock(&sfqd->lock);
	sfq_check_expired(sfqd, sfq_begin_call(sfqd));
	run = !list_empty(&sfqd->dispatch);
	spin_unlock(&sfqd->lock);
	if (run)
		blk_mq_run_hw_queues(sfqd->queue, true);
}

/* The visits. */

static struct request *sfq_first(struct sfq_queue *sq, int direction)
{
	struct request *rq;

	/* Only the asynchronous queue holds writes that wait for a zone. */
	list_for_each_entry(rq, &sq->fifo[direction], queuelist) {
		if (sfq_may_send(rq))
			return rq;
	}
	return NULL;
}

/* The next request of the visit to a queue; NULL if the visit is over. */
static struct request *sfq_visit_next(struct sfq_data *sfqd,
				      struct sfq_queue *sq)
{
	unsigned int reads = sfqd->taken[SFQ_READ];
	unsigned int writes = sfqd->taken[SFQ_WRITE];
	struct request *read, *write;

	if (reads + writes >= sfqd->visit_requests)
		return NULL;
	read = sfq_first(sq, SFQ_READ);
	if (read && reads < sfqd->visit_limit[SFQ_READ])
		return read;
	write = sfq_first(sq, SFQ_WRITE);
	if (write && writes < sfqd->visit_limit[SFQ_WRITE])
		return write;
	switch (sfqd->fill) {
	case SFQ_FILL_BOTH:
		return write ?: read;
	case SFQ_FILL_WRITES:
		return write;
	default:
		return NULL;
	}
}

static struct sfq_queue *sfq_select(struct sfq_data *sfqd)
{
	bool async_turn = sfqd->since_async >= sfqd->sync_visits;
	struct sfq_queue *sq = sfqd->visited;

	/*
	 * The visit is over only now: whatever became busy during it has not
	 * been served yet and comes before what this queue has left.
	 */
	if (sq && !list_empty(&sq->turn))
		list_move_tail(&sq->turn, &sfqd->round);
	if (async_turn || !sfqd->sync_len)
		sfqd->since_async = 0;
	if (!sfqd->sync_len || (async_turn && sfqd->async_len)) {
		sfqd->counters.async_visits++;
		return &sfqd->async;
	}
	sfqd->since_async++;
	sfqd->counters.visits++;
	return list_first_entry(&sfqd->round, struct sfq_queue, turn);
}

static struct request *sfq_choose(struct sfq_data *sfqd)
{
	struct request *rq = NULL;

	if (!sfqd->sync_len && !sfqd->async_len)
		return NULL;
	if (sfqd->visited)
		rq = sfq_visit_next(sfqd, sfqd->visited);
	if (!rq) {
		sfqd->visited = sfq_select(sfqd);
		sfqd->taken[SFQ_READ] = 0;
		sfqd->taken[SFQ_WRITE] = 0;
		rq = sfq_visit_next(sfqd, sfqd->visited);
	}
	if (!rq && sfqd->sync_len && sfq_is_async(sfqd, sfqd->visited)) {
		/* All asynchronous writes wait for their zones. */
		sfqd->visited = sfq_select(sfqd);
		rq = sfq_visit_next(sfqd, sfqd->visited);
	}
	if (!rq)
		return NULL;
	sfqd->taken[rq_data_dir(rq)]++;
	sfqd->counters.visit_requests++;
	sfq_unlink(sfqd, rq);
	return rq;
}

/*
 * Operations of the elevator (struct elevator_mq_ops, block/elevator.h). The
 * block layer calls them with no lock of its own held; where one says that it
 * runs under the lock of the scheduler, it is called back from another one.
 */

/*
 * Called by blk_mq_rq_ctx_init() (block/blk-mq.c) when a request is allocated,
 * in the task that issues it: the only place where current is that task for
 * certain. A plug may hold on to requests that were allocated at once, but they
 * serve the same task.
 */
static void sfq_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
	if (!blk_rq_is_passthrough(rq))
		rq->elv.priv[0] = get_pid(task_tgid(current));
}

/*
 * Called by blk_mq_finish_request() (block/blk-mq.c) when a request is freed: in
 * an interrupt, after a merge, or without ever having been inserted. Hence it
 * does not take the lock, which is not safe in interrupts. elv_register() of
 * 6.12 (block/elevator.c) refuses a scheduler that has no such operation.
 */
static void sfq_finish_request(struct request *rq)
{
	struct sfq_data *sfqd = rq->q->elevator->elevator_data;

	/* It may be freed without ever having been inserted. */
	put_pid(sfq_take_pid(rq));
	if (rq->elv.priv[1] != SFQ_SENT)
		return;
	rq->elv.priv[1] = NULL;
	atomic64_inc(&sfqd->completed);
#ifdef SFQ_LOCKS_ZONES
	if (blk_queue_is_zoned(rq->q)) {
		unsigned long flags;

		spin_lock_irqsave(&sfqd->zone_lock, flags);
		trace_sfq_complete(rq, sfq_now(sfqd));
		blk_req_zone_write_unlock(rq);
		spin_unlock_irqrestore(&sfqd->zone_lock, flags);
		if (READ_ONCE(sfqd->async_len))
			blk_mq_sched_mark_restart_hctx(rq->mq_hctx);
		return;
	}
#endif
	trace_sfq_complete(rq, sfq_now(sfqd));
}

static void sfq_insert_request(struct sfq_data *sfqd, struct request *rq,
			       bool at_head, u64 now, struct list_head *free)
{
	int direction = rq_data_dir(rq);
	struct request_queue *q = rq->q;
	struct sfq_queue *sq;
	struct pid *pid;

#ifdef SFQ_LOCKS_ZONES
	/* A write that the driver gave back still holds its zone. */
	if (blk_queue_is_zoned(q))
		blk_req_zone_write_unlock(rq);
#endif
	if (blk_mq_sched_try_insert_merge(q, rq, free))
		return;
	pid = sfq_take_pid(rq);
	/* A request that the driver gave back has had its turn. */
	if (at_head || !pid) {
		if (!pid) {
			sfqd->counters.requeued++;
			trace_sfq_requeue(rq, now, at_head);
		} else {
			sfqd->counters.inserted++;
			trace_sfq_insert(rq, now, pid_nr(pid),
					 op_is_sync(rq->cmd_flags), true, -1);
		}
		put_pid(pid);
		rq->elv.priv[1] = SFQ_SENT;
		if (at_head)
			list_add(&rq->queuelist, &sfqd->dispatch);
		else
			list_add_tail(&rq->queuelist, &sfqd->dispatch);
		return;
	}
	sfqd->counters.inserted++;
	if (op_is_sync(rq->cmd_flags) && !sfq_needs_zone(rq))
		sq = sfq_queue_get(sfqd, pid);
	else
		sq = &sfqd->async;
	trace_sfq_insert(rq, now, pid_nr(pid), !sfq_is_async(sfqd, sq), false,
			 sfq_zone_of(rq));
	put_pid(pid);

	rq->elv.priv[1] = sq;
	if (sfq_is_async(sfqd, sq)) {
		WRITE_ONCE(sfqd->async_len, sfqd->async_len + 1);
	} else {
		WRITE_ONCE(sfqd->sync_len, sfqd->sync_len + 1);
		if (list_empty(&sq->turn))
			list_add_tail(&sq->turn, &sfqd->round);
	}
	list_add_tail(&rq->queuelist, &sq->fifo[direction]);
	rq->fifo_time = now + (u64)sfqd->expire_ms[direction] * NSEC_PER_MSEC;
	/* Writes to zones never leave the order of their queue. */
	if (!sfq_needs_zone(rq))
		rb_add_cached(&rq->rb_node, &sfqd->by_expiry[direction],
			      sfq_expires_earlier);
	if (rq_mergeable(rq)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
	if (!sfqd->check_ns || rq->fifo_time < sfqd->check_ns)
		sfq_arm(sfqd, now);
}

/*
 * Called with one request or the list of a plug (blk_mq_insert_request() and
 * blk_mq_flush_plug_list(), block/blk-mq.c; in 6.1 by block/blk-mq-sched.c), and
 * from blk_mq_requeue_work() with what the driver gave back: in a task, which
 * need not be the one that issued. A request that was joined with a queued one
 * is freed after the lock is released, since that may end in finish_request.
 */
static void sfq_insert_requests(struct blk_mq_hw_ctx *hctx,
				struct list_head *list, sfq_insert_flags flags)
{
	struct sfq_data *sfqd = hctx->queue->elevator->elevator_data;
	struct request *rq, *next;
	LIST_HEAD(free);
	u64 now;

	spin_lock(&sfqd->lock);
	now = sfq_begin_call(sfqd);
	sfq_check_expired(sfqd, now);
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		sfq_insert_request(sfqd, rq, flags & SFQ_AT_HEAD, now, &free);
	}
	spin_unlock(&sfqd->lock);

	list_for_each_entry_safe(rq, next, &free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/* The next request, written down; under zone_lock if the disk has zones. */
static struct request *sfq_take(struct sfq_data *sfqd, u64 now)
{
	struct request *rq = list_first_entry_or_null(&sfqd->dispatch,
						      struct request, queuelist);

	if (rq)
		list_del_init(&rq->queuelist);
	else
		rq = sfq_choose(sfqd);
	trace_sfq_dispatch(sfqd->queue, now, rq);
	if (rq) {
		rq->elv.priv[1] = SFQ_SENT;
		rq->rq_flags |= RQF_STARTED;
		sfqd->counters.dispatched++;
	}
	return rq;
}

/*
 * Called by __blk_mq_do_dispatch_sched() (block/blk-mq-sched.c) until it returns
 * NULL, the driver has no tag left, or nr_requests were taken; for several
 * hardware queues at once. After NULL with work left, the block layer asks
 * again only some milliseconds later (BLK_MQ_BUDGET_DELAY), so NULL is returned
 * with work left only where all of it waits for zones.
 */
static struct request *sfq_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct sfq_data *sfqd = hctx->queue->elevator->elevator_data;
	struct request *rq;
	u64 now;

	spin_lock(&sfqd->lock);
	now = sfq_begin_call(sfqd);
	sfq_check_expired(sfqd, now);
#ifdef SFQ_LOCKS_ZONES
	if (blk_queue_is_zoned(sfqd->queue)) {
		unsigned long flags;

		spin_lock_irqsave(&sfqd->zone_lock, flags);
		rq = sfq_take(sfqd, now);
		if (rq)
			blk_req_zone_write_lock(rq);
		spin_unlock_irqrestore(&sfqd->zone_lock, flags);
		spin_unlock(&sfqd->lock);
		return rq;
	}
#endif
	rq = sfq_take(sfqd, now);
	spin_unlock(&sfqd->lock);
	return rq;
}

/*
 * Asked without a lock by blk_mq_hctx_has_pending() (block/blk-mq.c). "No" while
 * requests are queued would leave them there: nobody runs the queue then.
 */
static bool sfq_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct sfq_data *sfqd = hctx->queue->elevator->elevator_data;

	/*
	 * list_add_tail() writes the link to the tail plainly. Whoever adds runs
	 * the queue afterwards, so an answer may be old.
	 */
	return !data_race(list_empty_careful(&sfqd->dispatch)) ||
	       READ_ONCE(sfqd->sync_len) || READ_ONCE(sfqd->async_len);
}

/*
 * Called by blk_mq_sched_bio_merge() (block/blk-mq-sched.c) in the submitting
 * task, before a request is allocated. blk_mq_sched_try_merge() looks through
 * q->last_merge and the hash of ends, which only the scheduler's lock protects,
 * and calls sfq_request_merged() and sfq_requests_merged() back under it.
 */
static bool sfq_bio_merge(struct request_queue *q, struct bio *bio,
			  unsigned int nr_segs)
{
	struct sfq_data *sfqd = q->elevator->elevator_data;
	struct request *free = NULL;
	bool merged;
	u64 now;

	spin_lock(&sfqd->lock);
	now = sfq_begin_call(sfqd);
	sfq_check_expired(sfqd, now);
	sfqd->merged = NULL;
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	if (merged)
		sfqd->counters.merged++;
	if (sfqd->merged)
		trace_sfq_merge(sfqd->merged, now, task_tgid_nr(current),
				bio->bi_iter.bi_sector, bio_sectors(bio),
				op_is_sync(bio->bi_opf));
	spin_unlock(&sfqd->lock);

	if (free)
		blk_mq_free_request(free);
	return merged;
}

/*
 * A bio has become a part of @rq (elv_merged_request(), block/elevator.c). The
 * request keeps its queue, its place there and its expiry.
 */
static void sfq_request_merged(struct request_queue *q, struct request *rq,
			       enum elv_merge type)
{
	struct sfq_data *sfqd = q->elevator->elevator_data;

	sfqd->merged = rq;
}

/*
 * @next has become a part of @rq (elv_merge_requests(), block/elevator.c). It is
 * queued, or was about to be. The caller frees it, so it must leave its queue,
 * the order of expiry and the merge caches here.
 */
static void sfq_requests_merged(struct request_queue *q, struct request *rq,
				struct request *next)
{
	struct sfq_data *sfqd = q->elevator->elevator_data;
	u64 now = sfqd->call_ns;

	if (!sfq_queue_of(next)) {
		sfqd->counters.merged++;
		trace_sfq_join(rq, now, task_tgid_nr(current),
			       blk_rq_pos(next), blk_rq_sectors(next),
			       op_is_sync(next->cmd_flags));
		return;
	}
	sfqd->counters.absorbed++;
	trace_sfq_absorb(rq, now, next);
	sfq_unlink(sfqd, next);
}

/*
 * Called by elevator_switch() (block/elevator.c) with the queue frozen and
 * quiesced: no request exists, and none is being dispatched. Only the two works
 * may still run.
 */
static void sfq_exit_sched(struct elevator_queue *e)
{
	struct sfq_data *sfqd = e->elevator_data;
	struct sfq_queue *sq, *next;

	cancel_delayed_work_sync(&sfqd->check);
	cancel_delayed_work_sync(&sfqd->sweep);
	WARN_ON_ONCE(!list_empty(&sfqd->dispatch));
	WARN_ON_ONCE(sfqd->sync_len || sfqd->async_len);

	spin_lock(&sfqd->lock);
	sfq_begin_call(sfqd);
	list_for_each_entry_safe(sq, next, &sfqd->all_queues, all)
		sfq_queue_free(sfqd, sq);
	spin_unlock(&sfqd->lock);
	kfree(sfqd);
}

static int sfq_init_sched(struct request_queue *q, struct elevator_type *e)
{
	struct elevator_queue *eq = elevator_alloc(q, e);
	struct sfq_data *sfqd;

	if (!eq)
		return -ENOMEM;
	sfqd = kzalloc_node(sizeof(*sfqd), GFP_KERNEL, q->node);
	if (!sfqd) {
		kobject_put(&eq->kobj);
		return -ENOMEM;
	}
	eq->elevator_data = sfqd;

	spin_lock_init(&sfqd->lock);
#ifdef SFQ_LOCKS_ZONES
	spin_lock_init(&sfqd->zone_lock);
#endif
	sfqd->queue = q;
	sfqd->start_ns = ktime_get_ns();
	INIT_LIST_HEAD(&sfqd->dispatch);
	INIT_LIST_HEAD(&sfqd->all_queues);
	sfq_queue_init(&sfqd->async);
	hash_init(sfqd->by_pid);
	INIT_LIST_HEAD(&sfqd->round);
	sfqd->by_expiry[SFQ_READ] = RB_ROOT_CACHED;
	sfqd->by_expiry[SFQ_WRITE] = RB_ROOT_CACHED;
	INIT_DELAYED_WORK(&sfqd->check, sfq_check_work);
	INIT_DEFERRABLE_WORK(&sfqd->sweep, sfq_sweep);

	sfqd->sync_visits = 3;
	sfqd->visit_requests = 3;
	sfqd->visit_limit[SFQ_READ] = 2;
	sfqd->visit_limit[SFQ_WRITE] = 1;
	sfqd->check_ms = 100;
	sfqd->expire_ms[SFQ_READ] = 500;
	sfqd->expire_ms[SFQ_WRITE] = 5000;
	sfqd->fill = SFQ_FILL_BOTH;

	/*
	 * One set of queues serves all hardware queues, so that
	 * blk_mq_run_hw_queues() need run only one of them.
	 */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);

	q->elevator = eq;
	return 0;
}

/* Tunables in sysfs. */

static ssize_t sfq_store_number(struct sfq_data *sfqd, unsigned int *target,
				const char *page, size_t count,
				unsigned int least, unsigned int most)
{
	unsigned int value;
	int error = kstrtouint(page, 10, &value);

	if (error)
		return error;
	if (value < least || value > most)
		return -EINVAL;
	spin_lock(&sfqd->lock);
	*target = value;
	spin_unlock(&sfqd->lock);
	return count;
}

#define SFQ_NUMBER(name, field, least, most)				\
static ssize_t sfq_##name##_show(struct elevator_queue *e, char *page)	\
{									\
	struct sfq_data *sfqd = e->elevator_data;			\
									\
	return sysfs_emit(page, "%u\n", sfqd->field);			\
}									\
									\
static ssize_t sfq_##name##_store(struct elevator_queue *e,		\
				  const char *page, size_t count)	\
{									\
	struct sfq_data *sfqd = e->elevator_data;			\
									\
	return sfq_store_number(sfqd, &sfqd->field, page, count,	\
				least, most);				\
}

SFQ_NUMBER(sync_visits, sync_visits, 1, INT_MAX)
SFQ_NUMBER(visit_requests, visit_requests, 1, INT_MAX)
SFQ_NUMBER(visit_reads, visit_limit[SFQ_READ], 1, INT_MAX)
SFQ_NUMBER(visit_writes, visit_limit[SFQ_WRITE], 1, INT_MAX)
SFQ_NUMBER(starvation_check, check_ms, 1, UINT_MAX)
SFQ_NUMBER(read_expire, expire_ms[SFQ_READ], 0, UINT_MAX)
SFQ_NUMBER(write_expire, expire_ms[SFQ_WRITE], 0, UINT_MAX)
#undef SFQ_NUMBER

static ssize_t sfq_fill_show(struct elevator_queue *e, char *page)
{
	struct sfq_data *sfqd = e->elevator_data;

	return sysfs_emit(page, "%s\n", sfq_fill_names[sfqd->fill]);
}

static ssize_t sfq_fill_store(struct elevator_queue *e, const char *page,
			      size_t count)
{
	struct sfq_data *sfqd = e->elevator_data;
	int fill = sysfs_match_string(sfq_fill_names, page);

	if (fill < 0)
		return fill;
	spin_lock(&sfqd->lock);
	sfqd->fill = fill;
	spin_unlock(&sfqd->lock);
	return count;
}

#define SFQ_ATTRIBUTE(name) \
	__ATTR(name, 0644, sfq_##name##_show, sfq_##name##_store)

static struct elv_fs_entry sfq_attributes[] = {
	SFQ_ATTRIBUTE(sync_visits),
	SFQ_ATTRIBUTE(visit_requests),
	SFQ_ATTRIBUTE(visit_reads),
	SFQ_ATTRIBUTE(visit_writes),
	SFQ_ATTRIBUTE(starvation_check),
	SFQ_ATTRIBUTE(read_expire),
	SFQ_ATTRIBUTE(write_expire),
	SFQ_ATTRIBUTE(fill),
	__ATTR_NULL
};

/* Counters and state in debugfs. */

#ifdef CONFIG_BLK_DEBUG_FS
static int sfq_counters_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct sfq_data *sfqd = q->elevator->elevator_data;
	struct sfq_counters counters;

	spin_lock(&sfqd->lock);
	counters = sfqd->counters;
	spin_unlock(&sfqd->lock);
	seq_printf(m, "inserted %llu\n", counters.inserted);
	seq_printf(m, "merged %llu\n", counters.merged);
	seq_printf(m, "absorbed %llu\n", counters.absorbed);
	seq_printf(m, "visits %llu\n", counters.visits);
	seq_printf(m, "async_visits %llu\n", counters.async_visits);
	seq_printf(m, "visit_requests %llu\n", counters.visit_requests);
	seq_printf(m, "expired %llu\n", counters.expired);
	seq_printf(m, "requeued %llu\n", counters.requeued);
	seq_printf(m, "dispatched %llu\n", counters.dispatched);
	seq_printf(m, "completed %llu\n", atomic64_read(&sfqd->completed));
	seq_printf(m, "queues_made %llu\n", counters.queues_made);
	seq_printf(m, "queues_freed %llu\n", counters.queues_freed);
	seq_printf(m, "no_memory %llu\n", counters.no_memory);
	return 0;
}

static int sfq_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct sfq_data *sfqd = q->elevator->elevator_data;

	spin_lock(&sfqd->lock);
	seq_printf(m, "sync %u\nasync %u\ndispatch %zu\n", sfqd->sync_len,
		   sfqd->async_len, list_count_nodes(&sfqd->dispatch));
	if (!sfqd->visited)
		seq_puts(m, "visited none\n");
	else if (sfq_is_async(sfqd, sfqd->visited))
		seq_puts(m, "visited async\n");
	else
		seq_printf(m, "visited %d\n", sfqd->visited->pid_nr);
	seq_printf(m, "taken %u reads %u writes\nsince_async %u\n",
		   sfqd->taken[SFQ_READ], sfqd->taken[SFQ_WRITE],
		   sfqd->since_async);
	seq_printf(m, "now_ns %llu\ncheck_ns %llu\n", sfq_now(sfqd),
		   sfqd->check_ns);
	spin_unlock(&sfqd->lock);
	return 0;
}

static int sfq_queues_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct sfq_data *sfqd = q->elevator->elevator_data;
	struct sfq_queue *sq;

	spin_lock(&sfqd->lock);
	list_for_each_entry(sq, &sfqd->all_queues, all)
		seq_printf(m, "%d reads %zu writes %zu%s\n", sq->pid_nr,
			   list_count_nodes(&sq->fifo[SFQ_READ]),
			   list_count_nodes(&sq->fifo[SFQ_WRITE]),
			   sfq_queue_orphaned(sq) ? " orphan" : "");
	spin_unlock(&sfqd->lock);
	return 0;
}

static const struct blk_mq_debugfs_attr sfq_debugfs_attributes[] = {
	{ "counters", 0400, sfq_counters_show },
	{ "state", 0400, sfq_state_show },
	{ "queues", 0400, sfq_queues_show },
	{},
};
#endif

static struct elevator_type sfq_elevator = {
	.ops = {
		.insert_requests	= sfq_insert_requests,
		.dispatch_request	= sfq_dispatch_request,
		.prepare_request	= sfq_prepare_request,
		.finish_request		= sfq_finish_request,
		.bio_merge		= sfq_bio_merge,
		.request_merged		= sfq_request_merged,
		.requests_merged	= sfq_requests_merged,
		.has_work		= sfq_has_work,
		.init_sched		= sfq_init_sched,
		.exit_sched		= sfq_exit_sched,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = sfq_debugfs_attributes,
#endif
	.elevator_attrs = sfq_attributes,
	.elevator_name = "sfq",
#ifdef SFQ_LOCKS_ZONES
	.elevator_features = ELEVATOR_F_ZBD_SEQ_WRITE,
#endif
	.elevator_owner = THIS_MODULE,
};

static int __init sfq_init(void)
{
	int error;

	sfq_queue_cache = KMEM_CACHE(sfq_queue, 0);
	if (!sfq_queue_cache)
		return -ENOMEM;
	error = elv_register(&sfq_elevator);
	if (error)
		kmem_cache_destroy(sfq_queue_cache);
	return error;
}

static void __exit sfq_exit(void)
{
	elv_unregister(&sfq_elevator);
	kmem_cache_destroy(sfq_queue_cache);
}

module_init(sfq_init);
module_exit(sfq_exit);

MODULE_AUTHOR("The nandlab authors");
MODULE_DESCRIPTION("SFQ (Simple Fairness Queuing) I/O scheduler");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0");
MODULE_ALIAS("sfq-iosched");
