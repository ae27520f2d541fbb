//! Which request of a queue is better served next: the rule of CFQ, which BFQ took over.
//!
//! Source: `cfq_choose_req`, `cfq_find_next_rq` of Linux 2.6.29 to 3.4, `block/cfq-iosched.c`;
//! `bfq_choose_req`, `bfq_find_next_rq` of 6.1 and 6.12, `block/bfq-iosched.c`.

use crate::{Bio, RequestId, Requests, SectorTree};
use settings::Settings;

/// What a way back to a lower sector costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackSeek {
    max_sectors: u64,
    penalty: u64,
}

impl BackSeek {
    /// From the tunables `back_seek_max` and `back_seek_penalty`.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            // Stored in KiB and doubled where it is used (`back_max = cfqd->cfq_back_max * 2`).
            max_sectors: u64::from(settings.integer("back_seek_max")) * 2,
            // Sysfs raises a penalty of 0 to 1 (`cfq_back_seek_penalty_store`).
            penalty: u64::from(settings.integer("back_seek_penalty").max(1)),
        }
    }

    /// The request that is better served first if the head is at `head`.
    ///
    /// Synchronous before asynchronous; then the nearer, where a way back counts `back_seek_penalty` times
    /// and one longer than `back_seek_max` begins a new sweep; of equally near ones the later.
    pub(crate) fn choose(
        self,
        [first, second]: [Option<RequestId>; 2],
        head: u64,
        requests: &Requests,
        is_sync: impl Fn(&Bio) -> bool,
    ) -> Option<RequestId> {
        // The kernels take the other of two requests if one is missing, so a queue with one request has
        // it as its next whatever the head.
        let (Some(one), Some(two)) = (first, second) else { return first.or(second) };
        if one == two {
            return first;
        }
        let (a, b) = (&requests[one].bio, &requests[two].bio);
        // Requests of one queue are of one kind here, but the kernels test this first.
        if is_sync(a) != is_sync(b) {
            return if is_sync(a) { first } else { second };
        }
        let (a, b) = (a.sector, b.sector);
        let first_is_better = match (self.distance(head, a), self.distance(head, b)) {
            // Equal costs happen with a penalty: 100 back and 200 forward. The kernels prefer the
            // higher sector, which goes with the sweep.
            (Some(near), Some(other)) if near == other => a >= b,
            (Some(near), Some(other)) => near < other,
            // Both lie behind by more than `back_seek_max`: the lower one begins the new sweep, and the
            // rest follows without another seek back.
            (None, None) => a <= b,
            (near, _) => near.is_some(),
        };
        if first_is_better { first } else { second }
    }

    /// Cost of the way from the head to a sector, or nothing if it would be a new sweep.
    fn distance(self, head: u64, sector: u64) -> Option<u64> {
        if sector >= head {
            Some(sector - head)
        } else if sector + self.max_sectors >= head {
            // `back_max` is compared with the start of the request, not with its end.
            Some((head - sector).saturating_mul(self.penalty))
        } else {
            None
        }
    }
}

/// The neighbours of a waiting request: after it, where the first of the queue follows the last, and before.
pub(crate) fn neighbours(waiting: &SectorTree, request: RequestId) -> [Option<RequestId>; 2] {
    // The kernels wrap to the first request only if that is not the request itself.
    let wrapped = || waiting.first().filter(|first| *first != request);
    [waiting.next(request).or_else(wrapped), waiting.previous(request)]
}
