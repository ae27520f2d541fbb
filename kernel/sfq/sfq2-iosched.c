// SPDX-License-Identifier: GPL-2.0-only
/*
 * SFQ2: turns of processes, as in SFQ, for storage of today.
 *
 * The rules are those of the scheduler `sfq2` of the nandlab simulator, which
 * has them in crates/host/sched/src/sfq2/mod.rs, and docs/sfq2.md derives how
 * long a request waits. In short:
 *
 * - A queue for each process in each class, and one for the asynchronous
 *   requests of a class. A request costs its sectors and a fixed part; a visit
 *   to a queue goes on while it has credit.
 * - Queues that were idle stand in a new list, the others in an old one, and
 *   visits to both alternate.
 * - A class is passed over a bounded number of times. The idle class waits for
 *   a quiet time, but no longer than that.
 * - One request in expired_interval + 1 may go first because it has expired.
 * - While processes wait, asynchronous requests are sent at their turn only, and
 *   are few in flight. None are sent while the device cleans, for at most
 *   cleaning_hold.
 * - A process that holds its share of the tags gets no more, unless nothing is
 *   queued and more than a share is free.
 *
 * The lock is taken in interrupts too, at the end of each request: what is
 * chosen depends on what is in flight.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/hashtable.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "elevator.h"
#include "blk.h"
#include "blk-mq.h"
#include "blk-mq-debugfs.h"
#include "blk-mq-sched.h"
#include "blk-wbt.h"
#include "sfq-compat.h"

#define CREATE_TRACE_POINTS
#include "sfq2-trace.h"

#define SFQ2_HASH_BITS		6

/* Cost of any request, besides its sectors up to a limit. */
#define SFQ2_FIXED_COST		64
#define SFQ2_SECTORS_MAX	1024U
#define SFQ2_ASYNC_LEVEL	4
#define SFQ2_LEVELS		8

/* How the usual time of a write is learned: see sfq2_learn(). */
#define SFQ2_LEARNED_AFTER	16
#define SFQ2_SLOW_IN_A_ROW	2
#define SFQ2_STEP_PART		16

enum { SFQ2_REAL_TIME, SFQ2_BEST_EFFORT, SFQ2_IDLE, SFQ2_CLASSES };

/* Requests of one process in one class, or all asynchronous ones of a class. */
struct sfq2_queue {
	struct list_head fifo;
	/* Its place in the new or the old list of its class. */
	struct list_head turn;
	struct hlist_node hash;
	pid_t tgid;
	u8 class;
	u8 level;
	bool is_async;
	bool in_ring;
	s64 credit;
	/* Requests that are queued or in flight. */
	unsigned int held;
};

struct sfq2_class {
	struct list_head new;
	struct list_head old;
	/* The visit before was to a queue of the new list. */
	bool served_new;
	unsigned int sync_len;
	unsigned int async_len;
	struct sfq2_queue async;
	unsigned int since_async;
	/* Visits to higher classes while this one had requests. */
	unsigned int passed_over;
};

struct sfq2_cleaning {
	unsigned int writes;
	unsigned int slow;
	u64 median_ns;
	/* Writes are held until the first time, and no hold begins before the second. */
	u64 until_ns;
	u64 rest_ns;
};

struct sfq2_counters {
	u64 inserted;
	u64 merged;
	u64 absorbed;
	u64 visits;
	u64 async_visits;
	u64 expired;
	u64 held;
	u64 requeued;
	u64 dispatched;
	u64 completed;
	u64 queues_made;
	u64 queues_freed;
	u64 no_memory;
};

struct sfq2_data {
	/* Protects all that follows, and the merge caches of the queue. */
	spinlock_t lock;
	struct request_queue *queue;
	u64 start_ns;

	/* Requests that have had their turn. */
	struct list_head dispatch;
	struct sfq2_class classes[SFQ2_CLASSES];
	DECLARE_HASHTABLE(by_tgid, SFQ2_HASH_BITS);
	struct rb_root_cached by_expiry[2];
	/* Requests queued; read without the lock by has_work. */
	unsigned int len;
	/* Writes of them that a process waits for. */
	unsigned int sync_writes;
	struct sfq2_queue *visited;

	unsigned int since_expired;
	/* In flight: those that processes of the two higher classes wait for. */
	unsigned int waited_for;
	unsigned int async_in_flight;
	u64 quiet_ns;
	struct sfq2_cleaning cleaning;
	/* Processes that hold a request; requests of processes, and others. */
	unsigned int holders;
	unsigned int sync_held;
	unsigned int async_held;
	/* The last call for work found nothing that may be sent. */
	bool is_held;

	/* Survivor of the merge under way, and as of when it is made. */
	struct request *merged;
	u64 merge_ns;

	unsigned int visit_cost;
	unsigned int sync_visits;
	unsigned int class_visits;
	unsigned int expired_interval;
	unsigned int expire_ms[2];
	unsigned int async_depth;
	unsigned int grace_ms;
	unsigned int cleaning_factor;
	unsigned int cleaning_hold_ms;

	struct sfq2_counters counters;
};

static struct kmem_cache *sfq2_queue_cache;

/*
 * What a request remembers. priv[1] is the thread group that allocated it, and
 * from its insertion to its end the queue that it was put into. priv[0] is
 * SFQ2_OUTSIDE before its insertion and for what never was in a queue,
 * SFQ2_QUEUED while it is, and then the time at which it was sent, shifted, with
 * the lowest bit set: no other field is the scheduler's while it is in flight.
 */
#define SFQ2_OUTSIDE		((void *)0UL)
#define SFQ2_QUEUED		((void *)2UL)

#if BITS_PER_LONG != 64
#error "a time in nanoseconds must fit into a pointer"
#endif

static inline bool sfq2_is_sent(struct request *rq)
{
	return (unsigned long)rq->elv.priv[0] & 1;
}

static inline bool sfq2_is_queued(struct request *rq)
{
	return rq->elv.priv[0] == SFQ2_QUEUED;
}

static inline u64 sfq2_sent_ns(struct request *rq)
{
	return (unsigned long)rq->elv.priv[0] >> 1;
}

static inline struct sfq2_queue *sfq2_queue_of(struct request *rq)
{
	return rq->elv.priv[1];
}

static inline u64 sfq2_now(struct sfq2_data *sd)
{
	return ktime_get_ns() - sd->start_ns;
}

static inline s64 sfq2_cost(struct request *rq)
{
	return SFQ2_FIXED_COST + min(blk_rq_sectors(rq), SFQ2_SECTORS_MAX);
}

static inline s64 sfq2_credit(struct sfq2_data *sd, u8 level)
{
	return (s64)sd->visit_cost * (SFQ2_LEVELS - level);
}

/* A bio has the class that its process had, which is never none by now. */
static u8 sfq2_class_of(unsigned short ioprio)
{
	switch (IOPRIO_PRIO_CLASS(ioprio)) {
	case IOPRIO_CLASS_RT:
		return SFQ2_REAL_TIME;
	case IOPRIO_CLASS_IDLE:
		return SFQ2_IDLE;
	default:
		return SFQ2_BEST_EFFORT;
	}
}

static u8 sfq2_level_of(unsigned short ioprio)
{
	if (IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_NONE)
		return SFQ2_ASYNC_LEVEL;
	return ioprio & (SFQ2_LEVELS - 1);
}

static inline bool sfq2_is_waited_for(struct sfq2_queue *sq)
{
	return !sq->is_async && sq->class != SFQ2_IDLE;
}

static bool sfq2_expires_earlier(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry_rq(a)->fifo_time < rb_entry_rq(b)->fifo_time;
}

/* Process queues. */

static struct sfq2_queue *sfq2_queue_find(struct sfq2_data *sd, u8 class,
					  pid_t tgid)
{
	struct sfq2_queue *sq;

	hash_for_each_possible(sd->by_tgid, sq, hash, tgid) {
		if (sq->tgid == tgid && sq->class == class)
			return sq;
	}
	return NULL;
}

/* Made if there is none; without memory the asynchronous queue serves. */
static struct sfq2_queue *sfq2_queue_get(struct sfq2_data *sd, u8 class,
					 pid_t tgid)
{
	struct sfq2_queue *sq = sfq2_queue_find(sd, class, tgid);

	if (sq)
		return sq;
	sq = kmem_cache_zalloc(sfq2_queue_cache, GFP_NOWAIT | __GFP_NOWARN);
	if (!sq) {
		sd->counters.no_memory++;
		return &sd->classes[class].async;
	}
	INIT_LIST_HEAD(&sq->fifo);
	INIT_LIST_HEAD(&sq->turn);
	sq->tgid = tgid;
	sq->class = class;
	hash_add(sd->by_tgid, &sq->hash, tgid);
	sd->counters.queues_made++;
	return sq;
}

/*
 * A queue is gone when it neither stands in a list nor holds a request: no timer
 * looks for those of processes that have ended.
 */
static void sfq2_queue_put(struct sfq2_data *sd, struct sfq2_queue *sq)
{
	if (sq->in_ring || sq->held)
		return;
	hash_del(&sq->hash);
	kmem_cache_free(sfq2_queue_cache, sq);
	sd->counters.queues_freed++;
}

static void sfq2_leave_ring(struct sfq2_data *sd, struct sfq2_queue *sq)
{
	list_del_init(&sq->turn);
	sq->in_ring = false;
	if (sd->visited == sq)
		sd->visited = NULL;
	sfq2_queue_put(sd, sq);
}

/* Nobody of the class waits, so nobody is new or old. */
static void sfq2_empty_ring(struct sfq2_data *sd, struct sfq2_class *sc)
{
	struct sfq2_queue *sq, *next;

	sc->served_new = false;
	list_for_each_entry_safe(sq, next, &sc->new, turn)
		sfq2_leave_ring(sd, sq);
	list_for_each_entry_safe(sq, next, &sc->old, turn)
		sfq2_leave_ring(sd, sq);
}

/* A request that was held is complete, or part of another one. */
static void sfq2_release(struct sfq2_data *sd, struct sfq2_queue *sq)
{
	if (sq->is_async) {
		sd->async_held--;
		return;
	}
	sd->sync_held--;
	if (!--sq->held) {
		sd->holders--;
		sfq2_queue_put(sd, sq);
	}
}

/* Requests into and out of the queues. */

static void sfq2_link(struct sfq2_data *sd, struct request *rq,
		      struct sfq2_queue *sq, u64 now)
{
	struct sfq2_class *sc = &sd->classes[sq->class];
	int direction = rq_data_dir(rq);

	rq->elv.priv[0] = SFQ2_QUEUED;
	rq->elv.priv[1] = sq;
	list_add_tail(&rq->queuelist, &sq->fifo);
	rq->fifo_time = now + (u64)sd->expire_ms[direction] * NSEC_PER_MSEC;
	rb_add_cached(&rq->rb_node, &sd->by_expiry[direction],
		      sfq2_expires_earlier);
	WRITE_ONCE(sd->len, sd->len + 1);
	if (sq->is_async) {
		sc->async_len++;
		sd->async_held++;
		return;
	}
	sc->sync_len++;
	sd->sync_held++;
	if (direction == WRITE)
		sd->sync_writes++;
	if (!sq->held++)
		sd->holders++;
	sq->level = sfq2_level_of(req_get_ioprio(rq));
	if (!sq->in_ring) {
		sq->in_ring = true;
		sq->credit = sfq2_credit(sd, sq->level);
		list_add_tail(&sq->turn, &sc->new);
	}
}

static void sfq2_unlink(struct sfq2_data *sd, struct request *rq)
{
	struct request_queue *q = rq->q;
	struct sfq2_queue *sq = sfq2_queue_of(rq);
	struct sfq2_class *sc = &sd->classes[sq->class];

	list_del_init(&rq->queuelist);
	rb_erase_cached(&rq->rb_node, &sd->by_expiry[rq_data_dir(rq)]);
	RB_CLEAR_NODE(&rq->rb_node);
	elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
	WRITE_ONCE(sd->len, sd->len - 1);
	if (sq->is_async) {
		sc->async_len--;
		return;
	}
	if (rq_data_dir(rq) == WRITE)
		sd->sync_writes--;
	if (!--sc->sync_len)
		sfq2_empty_ring(sd, sc);
}

/* Whether the device cleans. */

/*
 * A write was complete after so long. The usual time is the median, followed by
 * steps of a sixteenth. Two writes in a row that take cleaning_factor times the
 * median begin a hold, and one of the usual time ends it; between two holds lies
 * at least the time of one.
 */
static void sfq2_learn(struct sfq2_data *sd, u64 now, u64 took)
{
	struct sfq2_cleaning *cl = &sd->cleaning;
	u64 hold = (u64)sd->cleaning_hold_ms * NSEC_PER_MSEC;
	u64 step = cl->median_ns / SFQ2_STEP_PART;
	bool slow;

	if (!sd->cleaning_factor)
		return;
	slow = took >= cl->median_ns * sd->cleaning_factor;
	if (!cl->writes)
		cl->median_ns = took;
	else if (took > cl->median_ns)
		cl->median_ns += max_t(u64, step, 1);
	else if (took < cl->median_ns)
		cl->median_ns -= step;
	if (cl->writes < UINT_MAX)
		cl->writes++;
	if (cl->writes <= SFQ2_LEARNED_AFTER)
		return;
	if (!slow) {
		cl->slow = 0;
		cl->until_ns = min(cl->until_ns, now);
		return;
	}
	if (cl->slow < UINT_MAX)
		cl->slow++;
	if (cl->slow >= SFQ2_SLOW_IN_A_ROW && now >= cl->rest_ns) {
		cl->until_ns = now + hold;
		cl->rest_ns = cl->until_ns + hold;
	}
}

/* The choice of the next request. */

static bool sfq2_processes_wait(struct sfq2_data *sd, u64 now)
{
	return sd->waited_for || sd->classes[SFQ2_REAL_TIME].sync_len ||
	       sd->classes[SFQ2_BEST_EFFORT].sync_len || now < sd->quiet_ns;
}

static bool sfq2_is_due(struct sfq2_data *sd, int class)
{
	return sd->classes[class].passed_over >= sd->class_visits;
}

/* Whether the asynchronous requests of a class have waited for their turn. */
static bool sfq2_is_async_turn(struct sfq2_data *sd, int class)
{
	return sfq2_is_due(sd, class) ||
	       sd->classes[class].since_async >= sd->sync_visits;
}

/*
 * The block layer takes one request more than the device has tags. What is sent
 * while a process waits would stand before the next request of that process, so
 * it is sent at its turn only.
 */
static bool sfq2_sends_async(struct sfq2_data *sd, int class, u64 now)
{
	return !sfq2_processes_wait(sd, now) ||
	       (sd->async_in_flight < sd->async_depth &&
		now >= sd->cleaning.until_ns && sfq2_is_async_turn(sd, class));
}

static bool sfq2_may_serve(struct sfq2_data *sd, int class, u64 now)
{
	struct sfq2_class *sc = &sd->classes[class];

	if (class == SFQ2_IDLE && !sfq2_is_due(sd, class) &&
	    sfq2_processes_wait(sd, now))
		return false;
	return sc->sync_len || (sc->async_len && sfq2_sends_async(sd, class, now));
}

/*
 * The class to visit, and whether its asynchronous requests may be sent; -1 if
 * all that is queued is held.
 */
static int sfq2_select_class(struct sfq2_data *sd, u64 now, bool *sends_async)
{
	int class, other;

	for (class = SFQ2_BEST_EFFORT; class < SFQ2_CLASSES; class++) {
		if (sfq2_is_due(sd, class) && sfq2_may_serve(sd, class, now))
			goto found;
	}
	for (class = SFQ2_REAL_TIME; class < SFQ2_CLASSES; class++) {
		if (sfq2_may_serve(sd, class, now))
			goto found;
	}
	return -1;
found:
	*sends_async = sfq2_sends_async(sd, class, now);
	sd->classes[class].passed_over = 0;
	for (other = 0; other < SFQ2_CLASSES; other++) {
		struct sfq2_class *sc = &sd->classes[other];

		/* Those of a higher class are held while processes of a lower one wait. */
		if (other < class && !sc->sync_len && sc->async_len &&
		    sc->since_async < UINT_MAX)
			sc->since_async++;
		if (other > class && (sc->sync_len || sc->async_len))
			sc->passed_over++;
	}
	return class;
}

/* The queue to visit of a class that has requests of processes. */
static struct sfq2_queue *sfq2_select_queue(struct sfq2_data *sd,
					    struct sfq2_class *sc)
{
	for (;;) {
		bool takes_new = !list_empty(&sc->new) &&
				 (list_empty(&sc->old) || !sc->served_new);
		struct sfq2_queue *sq =
			list_first_entry(takes_new ? &sc->new : &sc->old,
					 struct sfq2_queue, turn);

		if (list_empty(&sq->fifo) && !takes_new) {
			sfq2_leave_ring(sd, sq);
			continue;
		}
		list_move_tail(&sq->turn, &sc->old);
		if (list_empty(&sq->fifo))
			continue;
		sc->served_new = takes_new;
		if (sq->credit > 0)
			return sq;
		sq->credit += sfq2_credit(sd, sq->level);
	}
}

static struct request *sfq2_first(struct sfq2_queue *sq)
{
	return list_first_entry_or_null(&sq->fifo, struct request, queuelist);
}

/* Begins a visit to a class that has requests that may be sent. */
static struct request *sfq2_visit(struct sfq2_data *sd, int class,
				  bool sends_async)
{
	struct sfq2_class *sc = &sd->classes[class];
	s64 credit = sfq2_credit(sd, SFQ2_ASYNC_LEVEL);

	if (sc->async_len && sends_async) {
		if (!sc->sync_len) {
			sc->since_async = 0;
			sc->async.credit = credit;
			sd->counters.async_visits++;
			return sfq2_first(&sc->async);
		}
		if (sc->since_async >= sd->sync_visits) {
			sc->since_async = 0;
			if (sc->async.credit > 0) {
				sd->counters.async_visits++;
				return sfq2_first(&sc->async);
			}
			sc->async.credit += credit;
		}
	}
	if (sc->since_async < UINT_MAX)
		sc->since_async++;
	sd->counters.visits++;
	sd->visited = sfq2_select_queue(sd, sc);
	return sfq2_first(sd->visited);
}

static void sfq2_end_visit(struct sfq2_data *sd)
{
	struct sfq2_queue *sq = sd->visited;

	sd->visited = NULL;
	if (sq && sq->credit <= 0)
		sq->credit += sfq2_credit(sd, sq->level);
}

/* The request that goes first because of its expiry. */
static struct request *sfq2_expired(struct sfq2_data *sd, u64 now)
{
	struct request *first = NULL;
	int direction;

	if (sd->since_expired < sd->expired_interval)
		return NULL;
	for (direction = READ; direction <= WRITE; direction++) {
		struct rb_node *node =
			rb_first_cached(&sd->by_expiry[direction]);

		if (node && (!first || rb_entry_rq(node)->fifo_time <
				       first->fifo_time))
			first = rb_entry_rq(node);
	}
	return first && first->fifo_time < now ? first : NULL;
}

static struct request *sfq2_next(struct sfq2_data *sd, u64 now)
{
	struct request *rq = sfq2_expired(sd, now);
	bool sends_async;
	int class;

	if (rq) {
		sd->since_expired = 0;
		sd->counters.expired++;
		return rq;
	}
	if (sd->visited && sd->visited->credit > 0)
		rq = sfq2_first(sd->visited);
	if (!rq) {
		sfq2_end_visit(sd);
		class = sfq2_select_class(sd, now, &sends_async);
		if (class < 0)
			return NULL;
		rq = sfq2_visit(sd, class, sends_async);
	}
	if (sd->since_expired < UINT_MAX)
		sd->since_expired++;
	/* What goes for its expiry is not charged: see the rules. */
	sfq2_queue_of(rq)->credit -= sfq2_cost(rq);
	return rq;
}

static struct request *sfq2_choose(struct sfq2_data *sd, u64 now)
{
	struct sfq2_queue *sq;
	struct request *rq;

	if (!sd->len)
		return NULL;
	rq = sfq2_next(sd, now);
	sd->is_held = !rq;
	if (!rq) {
		sd->counters.held++;
		return NULL;
	}
	sfq2_unlink(sd, rq);
	rq->elv.priv[0] = (void *)((unsigned long)now << 1 | 1);
	sq = sfq2_queue_of(rq);
	if (sfq2_is_waited_for(sq))
		sd->waited_for++;
	if (sq->is_async)
		sd->async_in_flight++;
	return rq;
}

/*
 * Operations of the elevator (struct elevator_mq_ops, block/elevator.h). The
 * block layer calls them with no lock of its own held; where one says that it
 * runs under the lock of the scheduler, it is called back from another one.
 */

/*
 * Whether a process that holds so many has its share. A device that takes every
 * request at once leaves nothing queued: there a process may exceed its share,
 * as long as a share stays free for whoever comes next.
 */
static bool sfq2_has_share(struct sfq2_data *sd, unsigned int held,
			   unsigned int tags)
{
	unsigned int share = max(tags / (sd->holders + 1), 1U);

	if (held < share)
		return false;
	return sd->len || sd->sync_held + sd->async_held + share >= tags;
}

/*
 * Called by __blk_mq_alloc_requests() (block/blk-mq.c) in the task that issues.
 * A depth of 1 leaves the task one tag of all, or of each word of the map up to
 * 6.1: it waits until one of its own requests is complete. Requests in a plug
 * are not counted yet.
 */
static void sfq2_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct sfq2_data *sd = data->q->elevator->elevator_data;
	unsigned int tags = data->q->nr_requests;
	unsigned long flags;
	bool limited;

	spin_lock_irqsave(&sd->lock, flags);
	if (op_is_sync(opf)) {
		u8 class = sfq2_class_of(get_current_ioprio());
		struct sfq2_queue *sq =
			sfq2_queue_find(sd, class, current->tgid);

		limited = sq && sfq2_has_share(sd, sq->held, tags);
	} else {
		unsigned int share = sd->holders ? tags / 4 : tags - tags / 4;

		limited = sd->async_held >= max(share, 1U);
	}
	spin_unlock_irqrestore(&sd->lock, flags);
	if (limited)
		data->shallow_depth = 1;
}

/* The smallest depth that limit_depth sets: waiters are woken in its batches. */
static void sfq2_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

static int sfq2_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	sfq2_depth_updated(hctx);
	return 0;
}

/* Called when a request is allocated, in the task that issues it. */
static void sfq2_prepare_request(struct request *rq)
{
	rq->elv.priv[0] = SFQ2_OUTSIDE;
	rq->elv.priv[1] = NULL;
	if (!blk_rq_is_passthrough(rq))
		rq->elv.priv[1] = (void *)(unsigned long)current->tgid;
}

/* Called when a request is freed, in an interrupt or anywhere else. */
static void sfq2_finish_request(struct request *rq)
{
	struct sfq2_data *sd = rq->q->elevator->elevator_data;
	struct sfq2_queue *sq;
	unsigned long flags;
	bool run;
	u64 now;

	if (!sfq2_is_sent(rq))
		return;
	spin_lock_irqsave(&sd->lock, flags);
	now = sfq2_now(sd);
	trace_sfq2_complete(rq, now);
	sd->counters.completed++;
	sq = sfq2_queue_of(rq);
	if (sq) {
		if (rq_data_dir(rq) == WRITE)
			sfq2_learn(sd, now, now - sfq2_sent_ns(rq));
		if (sq->is_async)
			sd->async_in_flight--;
		if (sfq2_is_waited_for(sq)) {
			sd->waited_for--;
			sd->quiet_ns = now + (u64)sd->grace_ms * NSEC_PER_MSEC;
		}
		sfq2_release(sd, sq);
	}
	rq->elv.priv[0] = SFQ2_OUTSIDE;
	rq->elv.priv[1] = NULL;
	run = sd->is_held && sd->len;
	spin_unlock_irqrestore(&sd->lock, flags);
	/* What was held may go now. What waits for a time is asked for by the block layer. */
	if (run)
		blk_mq_run_hw_queues(sd->queue, true);
}

/*
 * The block layer joins requests at their insertion without allow_merge. What a
 * process waits for must not join what nobody waits for, and only writes can. A
 * write that nobody waits for may close the gap between one of each kind, which
 * elv_attempt_insert_merge() (block/elevator.c) then joins too.
 */
static bool sfq2_may_join(struct sfq2_data *sd, struct request *rq)
{
	int class;

	if (rq_data_dir(rq) == READ)
		return true;
	if (!op_is_sync(rq->cmd_flags))
		return !sd->sync_writes;
	for (class = 0; class < SFQ2_CLASSES; class++) {
		if (sd->classes[class].async_len)
			return false;
	}
	return true;
}

static void sfq2_insert_request(struct sfq2_data *sd, struct request *rq,
				bool at_head, u64 now, struct list_head *free)
{
	struct request_queue *q = rq->q;
	struct sfq2_queue *sq;
	pid_t tgid;
	u8 class;

	if (sfq2_is_sent(rq)) {
		/* The driver gave it back: it has had its turn, and counts as in flight. */
		sd->counters.requeued++;
		trace_sfq2_requeue(rq, now, at_head);
		goto dispatch;
	}
	if (sfq2_may_join(sd, rq) && blk_mq_sched_try_insert_merge(q, rq, free))
		return;
	sd->counters.inserted++;
	tgid = (pid_t)(unsigned long)rq->elv.priv[1];
	if (at_head || !tgid) {
		/* In no queue, and not counted in flight. */
		trace_sfq2_insert(rq, now, tgid, op_is_sync(rq->cmd_flags), true);
		rq->elv.priv[0] = (void *)1UL;
		rq->elv.priv[1] = NULL;
		goto dispatch;
	}
	class = sfq2_class_of(req_get_ioprio(rq));
	if (op_is_sync(rq->cmd_flags))
		sq = sfq2_queue_get(sd, class, tgid);
	else
		sq = &sd->classes[class].async;
	trace_sfq2_insert(rq, now, tgid, !sq->is_async, false);
	sfq2_link(sd, rq, sq, now);
	if (rq_mergeable(rq)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
	return;
dispatch:
	if (at_head)
		list_add(&rq->queuelist, &sd->dispatch);
	else
		list_add_tail(&rq->queuelist, &sd->dispatch);
}

/* Called with one request, the list of a plug, or what the driver gave back. */
static void sfq2_insert_requests(struct blk_mq_hw_ctx *hctx,
				 struct list_head *list,
				 sfq_insert_flags flags)
{
	struct sfq2_data *sd = hctx->queue->elevator->elevator_data;
	struct request *rq, *next;
	unsigned long irq;
	LIST_HEAD(free);
	u64 now;

	spin_lock_irqsave(&sd->lock, irq);
	now = sfq2_now(sd);
	sd->merge_ns = now;
	while (!list_empty(list)) {
		rq = list_first_entry(list, struct request, queuelist);
		list_del_init(&rq->queuelist);
		sfq2_insert_request(sd, rq, flags & SFQ_AT_HEAD, now, &free);
	}
	spin_unlock_irqrestore(&sd->lock, irq);

	/* Freeing ends in finish_request, which takes the lock. */
	list_for_each_entry_safe(rq, next, &free, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/*
 * After NULL with work left the block layer asks again some milliseconds later
 * (BLK_MQ_BUDGET_DELAY, block/blk-mq-sched.c), which ends the quiet time and a
 * hold for cleaning: no timer is needed.
 */
static struct request *sfq2_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct sfq2_data *sd = hctx->queue->elevator->elevator_data;
	struct request *rq;
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&sd->lock, flags);
	now = sfq2_now(sd);
	rq = list_first_entry_or_null(&sd->dispatch, struct request, queuelist);
	if (rq)
		list_del_init(&rq->queuelist);
	else
		rq = sfq2_choose(sd, now);
	trace_sfq2_dispatch(sd->queue, now, rq);
	if (rq) {
		rq->rq_flags |= RQF_STARTED;
		sd->counters.dispatched++;
	}
	spin_unlock_irqrestore(&sd->lock, flags);
	return rq;
}

static bool sfq2_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct sfq2_data *sd = hctx->queue->elevator->elevator_data;

	/*
	 * list_add_tail() writes the link to the tail plainly. Whoever adds runs
	 * the queue afterwards, so an answer may be old.
	 */
	return !data_race(list_empty_careful(&sd->dispatch)) || READ_ONCE(sd->len);
}

static bool sfq2_bio_merge(struct request_queue *q, struct bio *bio,
			   unsigned int nr_segs)
{
	struct sfq2_data *sd = q->elevator->elevator_data;
	struct request *free = NULL;
	unsigned long flags;
	bool merged;
	u64 now;

	spin_lock_irqsave(&sd->lock, flags);
	now = sfq2_now(sd);
	sd->merged = NULL;
	sd->merge_ns = now;
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	if (merged)
		sd->counters.merged++;
	if (sd->merged)
		trace_sfq2_merge(sd->merged, now, current->tgid,
				 bio->bi_iter.bi_sector, bio_sectors(bio),
				 op_is_sync(bio->bi_opf));
	spin_unlock_irqrestore(&sd->lock, flags);

	if (free)
		blk_mq_free_request(free);
	return merged;
}

/* Under the lock: asked for the candidates of a bio. */
static bool sfq2_allow_merge(struct request_queue *q, struct request *rq,
			     struct bio *bio)
{
	return !op_is_sync(bio->bi_opf) || op_is_sync(rq->cmd_flags);
}

/* Under the lock: a bio has become a part of @rq. */
static void sfq2_request_merged(struct request_queue *q, struct request *rq,
				enum elv_merge type)
{
	struct sfq2_data *sd = q->elevator->elevator_data;

	sd->merged = rq;
}

/*
 * Under the lock: @next has become a part of @rq. It is queued, or was about to
 * be; the caller frees it. The survivor inherits what is earlier.
 */
static void sfq2_requests_merged(struct request_queue *q, struct request *rq,
				 struct request *next)
{
	struct sfq2_data *sd = q->elevator->elevator_data;
	struct rb_root_cached *root = &sd->by_expiry[rq_data_dir(rq)];
	u64 now = sd->merge_ns;
	struct sfq2_queue *sq;

	if (!sfq2_is_queued(next)) {
		sd->counters.merged++;
		trace_sfq2_join(rq, now, current->tgid, blk_rq_pos(next),
				blk_rq_sectors(next),
				op_is_sync(next->cmd_flags));
		return;
	}
	sd->counters.absorbed++;
	trace_sfq2_absorb(rq, now, next);
	sq = sfq2_queue_of(next);
	WARN_ON_ONCE(!sq->is_async && sfq2_is_queued(rq) &&
		     sfq2_queue_of(rq)->is_async);
	if (sfq2_is_queued(rq) && next->fifo_time < rq->fifo_time) {
		rb_erase_cached(&rq->rb_node, root);
		rq->fifo_time = next->fifo_time;
		rb_add_cached(&rq->rb_node, root, sfq2_expires_earlier);
		if (sfq2_queue_of(rq) == sq)
			list_move_tail(&rq->queuelist, &next->queuelist);
	}
	sfq2_unlink(sd, next);
	next->elv.priv[0] = SFQ2_OUTSIDE;
	next->elv.priv[1] = NULL;
	sfq2_release(sd, sq);
}

static void sfq2_disable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
	/* As bfq does: what it would throttle is what the scheduler shares out. */
#ifdef ELEVATOR_FLAG_DISABLE_WBT
	set_bit(ELEVATOR_FLAG_DISABLE_WBT, &eq->flags);
	wbt_disable_default(q->disk);
#else
	wbt_disable_default(q);
#endif
}

static void sfq2_enable_wbt(struct request_queue *q, struct elevator_queue *eq)
{
#ifdef ELEVATOR_FLAG_DISABLE_WBT
	clear_bit(ELEVATOR_FLAG_DISABLE_WBT, &eq->flags);
	wbt_enable_default(q->disk);
#else
	wbt_enable_default(q);
#endif
}

/* Called with the queue frozen and quiesced: no request exists. */
static void sfq2_exit_sched(struct elevator_queue *e)
{
	struct sfq2_data *sd = e->elevator_data;
	unsigned long flags;
	int class;

	WARN_ON_ONCE(!list_empty(&sd->dispatch));
	WARN_ON_ONCE(sd->len || sd->sync_writes);
	WARN_ON_ONCE(sd->waited_for || sd->async_in_flight);
	WARN_ON_ONCE(sd->holders || sd->sync_held || sd->async_held);
	sfq2_enable_wbt(sd->queue, e);

	spin_lock_irqsave(&sd->lock, flags);
	for (class = 0; class < SFQ2_CLASSES; class++)
		sfq2_empty_ring(sd, &sd->classes[class]);
	WARN_ON_ONCE(!hash_empty(sd->by_tgid));
	spin_unlock_irqrestore(&sd->lock, flags);
	kfree(sd);
}

static int sfq2_init_sched(struct request_queue *q, struct elevator_type *e)
{
	struct elevator_queue *eq = elevator_alloc(q, e);
	struct sfq2_data *sd;
	int class;

	if (!eq)
		return -ENOMEM;
	sd = kzalloc_node(sizeof(*sd), GFP_KERNEL, q->node);
	if (!sd) {
		kobject_put(&eq->kobj);
		return -ENOMEM;
	}
	eq->elevator_data = sd;

	spin_lock_init(&sd->lock);
	sd->queue = q;
	sd->start_ns = ktime_get_ns();
	INIT_LIST_HEAD(&sd->dispatch);
	hash_init(sd->by_tgid);
	sd->by_expiry[READ] = RB_ROOT_CACHED;
	sd->by_expiry[WRITE] = RB_ROOT_CACHED;

	sd->visit_cost = 36;
	sd->sync_visits = 3;
	sd->class_visits = 8;
	sd->expired_interval = 8;
	sd->expire_ms[READ] = 500;
	sd->expire_ms[WRITE] = 5000;
	sd->async_depth = 4;
	sd->grace_ms = 2;
	sd->cleaning_factor = 4;
	sd->cleaning_hold_ms = 100;
	for (class = 0; class < SFQ2_CLASSES; class++) {
		struct sfq2_class *sc = &sd->classes[class];

		INIT_LIST_HEAD(&sc->new);
		INIT_LIST_HEAD(&sc->old);
		INIT_LIST_HEAD(&sc->async.fifo);
		INIT_LIST_HEAD(&sc->async.turn);
		sc->async.class = class;
		sc->async.level = SFQ2_ASYNC_LEVEL;
		sc->async.is_async = true;
		/* The first turn is not lost, whatever is set later. */
		sc->async.credit = 1;
	}

	q->elevator = eq;
	sfq2_disable_wbt(q, eq);
	return 0;
}

/* Tunables in sysfs, with the names, units and defaults of the simulator. */

#define SFQ2_NUMBER(name, member, least)				\
static ssize_t sfq2_##name##_show(struct elevator_queue *e, char *page)	\
{									\
	struct sfq2_data *sd = e->elevator_data;			\
									\
	return sysfs_emit(page, "%u\n", sd->member);			\
}									\
									\
static ssize_t sfq2_##name##_store(struct elevator_queue *e,		\
				   const char *page, size_t count)	\
{									\
	struct sfq2_data *sd = e->elevator_data;			\
	unsigned int number;						\
	unsigned long flags;						\
	int error = kstrtouint(page, 10, &number);			\
									\
	if (error)							\
		return error;						\
	if (number < (least) || number > 1000000)			\
		return -EINVAL;						\
	spin_lock_irqsave(&sd->lock, flags);				\
	sd->member = number;						\
	spin_unlock_irqrestore(&sd->lock, flags);			\
	return count;							\
}

SFQ2_NUMBER(visit_cost, visit_cost, 1U)
SFQ2_NUMBER(sync_visits, sync_visits, 1U)
SFQ2_NUMBER(class_visits, class_visits, 1U)
SFQ2_NUMBER(expired_interval, expired_interval, 1U)
SFQ2_NUMBER(read_expire, expire_ms[READ], 0U)
SFQ2_NUMBER(write_expire, expire_ms[WRITE], 0U)
SFQ2_NUMBER(async_depth, async_depth, 1U)
SFQ2_NUMBER(grace, grace_ms, 0U)
SFQ2_NUMBER(cleaning_factor, cleaning_factor, 0U)
SFQ2_NUMBER(cleaning_hold, cleaning_hold_ms, 0U)
#undef SFQ2_NUMBER

#define SFQ2_ATTRIBUTE(name) \
	__ATTR(name, 0644, sfq2_##name##_show, sfq2_##name##_store)

static struct elv_fs_entry sfq2_attributes[] = {
	SFQ2_ATTRIBUTE(visit_cost),
	SFQ2_ATTRIBUTE(sync_visits),
	SFQ2_ATTRIBUTE(class_visits),
	SFQ2_ATTRIBUTE(expired_interval),
	SFQ2_ATTRIBUTE(read_expire),
	SFQ2_ATTRIBUTE(write_expire),
	SFQ2_ATTRIBUTE(async_depth),
	SFQ2_ATTRIBUTE(grace),
	SFQ2_ATTRIBUTE(cleaning_factor),
	SFQ2_ATTRIBUTE(cleaning_hold),
	__ATTR_NULL
};

/* Counters and state in debugfs. */

#ifdef CONFIG_BLK_DEBUG_FS
static int sfq2_counters_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct sfq2_data *sd = q->elevator->elevator_data;
	struct sfq2_counters counters;
	unsigned long flags;

	spin_lock_irqsave(&sd->lock, flags);
	counters = sd->counters;
	spin_unlock_irqrestore(&sd->lock, flags);
	seq_printf(m, "inserted %llu\n", counters.inserted);
	seq_printf(m, "merged %llu\n", counters.merged);
	seq_printf(m, "absorbed %llu\n", counters.absorbed);
	seq_printf(m, "visits %llu\n", counters.visits);
	seq_printf(m, "async_visits %llu\n", counters.async_visits);
	seq_printf(m, "expired %llu\n", counters.expired);
	seq_printf(m, "held %llu\n", counters.held);
	seq_printf(m, "requeued %llu\n", counters.requeued);
	seq_printf(m, "dispatched %llu\n", counters.dispatched);
	seq_printf(m, "completed %llu\n", counters.completed);
	seq_printf(m, "queues_made %llu\n", counters.queues_made);
	seq_printf(m, "queues_freed %llu\n", counters.queues_freed);
	seq_printf(m, "no_memory %llu\n", counters.no_memory);
	return 0;
}

static int sfq2_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct sfq2_data *sd = q->elevator->elevator_data;
	unsigned int sync = 0, async = 0;
	unsigned long flags;
	int class;

	spin_lock_irqsave(&sd->lock, flags);
	for (class = 0; class < SFQ2_CLASSES; class++) {
		sync += sd->classes[class].sync_len;
		async += sd->classes[class].async_len;
	}
	seq_printf(m, "sync %u\nasync %u\ndispatch %zu\n", sync, async,
		   list_count_nodes(&sd->dispatch));
	seq_printf(m, "visited %d\n", sd->visited ? sd->visited->tgid : 0);
	seq_printf(m, "waited_for %u\nasync_in_flight %u\n", sd->waited_for,
		   sd->async_in_flight);
	seq_printf(m, "holders %u\nsync_held %u\nasync_held %u\n", sd->holders,
		   sd->sync_held, sd->async_held);
	seq_printf(m, "now_ns %llu\nquiet_ns %llu\n", sfq2_now(sd),
		   sd->quiet_ns);
	seq_printf(m, "write_median_ns %llu\nhold_end_ns %llu\n",
		   sd->cleaning.median_ns, sd->cleaning.until_ns);
	spin_unlock_irqrestore(&sd->lock, flags);
	return 0;
}

static const struct blk_mq_debugfs_attr sfq2_debugfs_attributes[] = {
	{ "counters", 0400, sfq2_counters_show },
	{ "state", 0400, sfq2_state_show },
	{},
};
#endif

/*
 * No ELEVATOR_F_ZBD_SEQ_WRITE: Linux 6.1 does not select it for zoned disks,
 * whose writes a scheduler would have to keep in order there.
 */
static struct elevator_type sfq2_elevator = {
	.ops = {
		.limit_depth		= sfq2_limit_depth,
		.depth_updated		= sfq2_depth_updated,
		.init_hctx		= sfq2_init_hctx,
		.insert_requests	= sfq2_insert_requests,
		.dispatch_request	= sfq2_dispatch_request,
		.prepare_request	= sfq2_prepare_request,
		.finish_request		= sfq2_finish_request,
		.bio_merge		= sfq2_bio_merge,
		.allow_merge		= sfq2_allow_merge,
		.request_merged		= sfq2_request_merged,
		.requests_merged	= sfq2_requests_merged,
		.has_work		= sfq2_has_work,
		.init_sched		= sfq2_init_sched,
		.exit_sched		= sfq2_exit_sched,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs = sfq2_debugfs_attributes,
#endif
	.elevator_attrs = sfq2_attributes,
	.elevator_name = "sfq2",
	.elevator_owner = THIS_MODULE,
};

static int __init sfq2_init(void)
{
	int error;

	sfq2_queue_cache = KMEM_CACHE(sfq2_queue, 0);
	if (!sfq2_queue_cache)
		return -ENOMEM;
	error = elv_register(&sfq2_elevator);
	if (error)
		kmem_cache_destroy(sfq2_queue_cache);
	return error;
}

static void __exit sfq2_exit(void)
{
	elv_unregister(&sfq2_elevator);
	kmem_cache_destroy(sfq2_queue_cache);
}

module_init(sfq2_init);
module_exit(sfq2_exit);

MODULE_AUTHOR("The nandlab authors");
MODULE_DESCRIPTION("SFQ2 I/O scheduler");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0");
MODULE_ALIAS("sfq2-iosched");
