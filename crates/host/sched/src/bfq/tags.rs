//! How many tags a bio may have: shares by kind and by weight.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_limit_depth`, `bfq_update_depths`,
//! `bfqq_request_over_limit`.

use super::{Bfq, Version};
use crate::tag_depth::TagPool;
use crate::{Bio, Direction, Queue};

impl Bfq {
    /// Requests of the bio's kind from which it gets no more (`bfq_limit_depth`).
    pub(super) fn tag_limit(&self, bio: &Bio, queue: &Queue) -> u32 {
        let (requests, pool) = (queue.nr_requests, TagPool::new(queue.nr_requests));
        let is_raised = self.raised_busy > 0;
        let share = |all: u32| {
            // Wider than a depth: replays of decisions have no limit of requests.
            let all = u64::from(all);
            let share = match (is_raised, bio.sync) {
                // Shares of `bfq_update_depths`: fewer for writes, and far fewer while a queue is raised, so that
                // a tag is free when its next request comes.
                (false, false) => all >> 1,
                (false, true) => (all * 3) >> 2,
                (true, false) => (all * 3) >> 4,
                (true, true) => (all * 6) >> 4,
            };
            share.max(1) as u32
        };
        let is_read = bio.sync && bio.direction == Direction::Read;
        // 6.1 counts bits of each word of the tag map, 6.12 tags.
        match self.version {
            Version::V6_1 => {
                let in_word = if is_read { pool.word_bits() } else { share(pool.word_bits()) };
                let limit =
                    (u64::from(requests) * u64::from(in_word) / u64::from(pool.word_bits())) as u32;
                pool.within(if self.is_over_limit(bio, limit) { 1 } else { in_word })
            }
            Version::V6_12 => {
                let limit = if is_read { requests } else { share(requests) };
                if self.is_over_limit(bio, limit) { 1 } else { limit }
            }
        }
    }

    /// True if the process has its share of the tags already (`bfqq_request_over_limit`).
    fn is_over_limit(&self, bio: &Bio, limit: u32) -> bool {
        let Some(id) = self.queue_of(bio) else { return false };
        let queue = &self.queues[id];
        if !queue.entity.is_counted {
            return false;
        }
        // Higher classes count eight times a class, so that a lower one gets few tags beside them. Lower
        // classes do not count (`bfqq_request_over_limit`).
        let weights = self.trees[..=queue.class].iter().fold(0, |sum, tree| sum * 8 + tree.weights);
        if weights == 0 {
            return false;
        }
        let weighted = u64::from(limit) * u64::from(queue.entity.weight);
        // Rounded to the nearest (`DIV_ROUND_CLOSEST`).
        u64::from(queue.entity.allocated) >= (weighted + weights / 2) / weights
    }
}
