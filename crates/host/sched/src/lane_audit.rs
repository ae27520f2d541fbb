//! What holds of requests that a scheduler sorts both by sector and by age, checked in debug builds.

use crate::{Links, List, Queue, SectorTree};

/// Checks that the same requests stand in both orders, that all of them wait, and that the oldest expires first.
///
/// # Panics
/// A rule is broken.
pub(crate) fn audit_lane(by_sector: &SectorTree, by_age: List, links: &Links, queue: &Queue) {
    assert_eq!(by_sector.len(), by_age.len(), "the same requests are sorted by sector and by age");
    by_age.audit(links);
    by_sector.audit(&queue.requests);
    for id in by_age.iter(links) {
        assert!(by_sector.contains(id), "a request by age is one by sector");
        assert!(queue.requests[id].may_wait(), "a request that waits is with the scheduler");
    }
    // Requests of a lane have one time of expiry, and a merged one takes the place of the older.
    let deadlines = by_age.iter(links).map(|id| queue.requests[id].deadline);
    assert!(deadlines.is_sorted(), "the oldest request expires first");
}

#[cfg(test)]
mod tests {
    use super::audit_lane;
    use crate::tests::{CLOCK, panics_with};
    use crate::{Bio, Class, Direction, Links, List, Queue, Request, RequestId, SectorTree};

    /// Three requests in both orders.
    struct Lane {
        queue: Queue,
        by_sector: SectorTree,
        by_age: List,
        links: Links,
    }

    /// What breaks a rule.
    type Break = fn(&mut Lane);

    fn lane() -> Lane {
        let mut queue = Queue::new(CLOCK, true, 128);
        let (mut by_sector, mut by_age, mut links) =
            (SectorTree::default(), List::default(), Links::default());
        for sector in [200, 0, 100] {
            let (direction, class) = (Direction::Read, Class::BestEffort);
            let (pid, sync, noidle, level, sectors) = (1, true, false, 4, 8);
            let bio = Bio { pid, direction, sync, noidle, class, level, sector, sectors };
            let request = Request { deadline: 5, sorted: true, ..Request::new(bio) };
            let id = queue.requests.add(request);
            by_sector.insert(&queue.requests, id);
            by_age.push_back(&mut links, id);
        }
        Lane { queue, by_sector, by_age, links }
    }

    #[test]
    fn every_broken_rule_of_a_lane_is_seen() {
        let broken: [(&str, Break); 5] = [
            ("the same requests are sorted by sector and by age", |lane| {
                lane.by_sector.remove(RequestId(1));
            }),
            ("a request by age is one by sector", |lane| {
                lane.by_sector.remove(RequestId(1));
                let other = lane.queue.requests[RequestId(1)];
                let id = lane.queue.requests.add(other);
                lane.by_sector.insert(&lane.queue.requests, id);
            }),
            ("a request that waits is with the scheduler", |lane| {
                lane.queue.requests[RequestId(2)].sorted = false;
            }),
            ("the oldest request expires first", |lane| {
                lane.queue.requests[RequestId(2)].deadline = 4;
            }),
            ("a request stands under its first sector", |lane| {
                lane.queue.requests[RequestId(0)].bio.sector += 1;
            }),
        ];
        for (message, break_it) in broken {
            let mut lane = lane();
            audit_lane(&lane.by_sector, lane.by_age, &lane.links, &lane.queue);
            break_it(&mut lane);
            panics_with(message, || {
                audit_lane(&lane.by_sector, lane.by_age, &lane.links, &lane.queue);
            });
        }
    }
}
