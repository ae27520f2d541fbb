//! A task's plug: requests gathered before the scheduler sees any of them.
//!
//! Source: `blk_start_plug`, `attempt_plug_merge` and `blk_flush_plug_list` of `block/blk-core.c`,
//! Linux 3.4.

use crate::queue::Member;
use sched::Bio;
use sim::Sim;
use std::cell::RefCell;

/// Requests that a new one finds on the list when it makes the list go (`BLK_MAX_REQUEST_COUNT`).
// A new request finds sixteen and makes them go, so a plug holds sixteen at most (`blk_queue_bio`
// tests the count before it adds).
pub(crate) const PLUG_REQUESTS_MAX: usize = 16;

/// A request that the scheduler has not seen.
pub(crate) struct Plugged {
    pub(crate) bio: Bio,
    pub(crate) members: Vec<Member>,
    pub(crate) sim: Sim,
}

impl Plugged {
    /// True if the bios follow each other and make up the request.
    pub(crate) fn is_whole(&self) -> bool {
        let mut end = self.bio.sector;
        let mut follows = |member: &Member| {
            let bio = member.bio();
            let is_next = bio.sector == end;
            end = bio.end();
            is_next
        };
        self.members.iter().all(&mut follows) && end == self.bio.end()
    }
}

/// The list of one task, between its `blk_start_plug` and `blk_finish_plug`.
///
/// Hand it to [`crate::RequestQueue::submit`], and to [`crate::RequestQueue::unplug`] at the end and
/// before the task sleeps. Dropping it with requests in it would lose them, and panics.
#[derive(Default)]
pub struct Plug {
    pub(crate) list: RefCell<Vec<Plugged>>,
}

impl Plug {
    /// A plug whose list is empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests on the list.
    pub fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Merges the bio into a request of the list, the latest first; gives it back if none fits.
    pub(crate) fn try_merge(&self, bio: &Bio, member: Member, max_sectors: u32) -> Option<Member> {
        let mut list = self.list.borrow_mut();
        debug_assert!(list.len() <= PLUG_REQUESTS_MAX, "a plug goes before it holds more");
        debug_assert!(
            list.iter().all(Plugged::is_whole),
            "a plugged request is as long as its bios, which follow each other"
        );
        // The latest first, as `attempt_plug_merge` walks the list in reverse: streams touch at
        // their ends.
        for plugged in list.iter_mut().rev() {
            // `attempt_plug_merge` asks no scheduler. The test of the flag is this model's own: it
            // keeps a request from holding both kinds.
            let is_alike = plugged.bio.direction == bio.direction && plugged.bio.sync == bio.sync;
            if !is_alike || plugged.bio.sectors + bio.sectors > max_sectors {
                continue;
            }
            if plugged.bio.end() == bio.sector {
                plugged.bio.sectors += bio.sectors;
                plugged.members.push(member);
                return None;
            }
            if plugged.bio.sector == bio.end() {
                plugged.bio.sector = bio.sector;
                plugged.bio.sectors += bio.sectors;
                plugged.members.insert(0, member);
                return None;
            }
        }
        Some(member)
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        // A cut of the power drops tasks where they are; what they had plugged is lost with them.
        debug_assert!(
            self.list.borrow().iter().all(|plugged| plugged.sim.is_stopped()),
            "a plug was dropped with requests in it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{PLUG_REQUESTS_MAX, Plug, Plugged};
    use crate::queue::Member;
    use crate::tests::panics_with;
    use sched::{Bio, Class, Direction};
    use sim::Simulation;

    fn bio(sector: u64) -> Bio {
        let (direction, class) = (Direction::Read, Class::BestEffort);
        let (pid, sync, noidle, level, sectors) = (1, true, false, 4, 8);
        Bio { pid, direction, sync, noidle, class, level, sector, sectors }
    }

    /// A plug with requests of a bio each, with a fault, that takes a bio more. It is not dropped: the
    /// bios would be missed.
    fn broken(requests: usize, fault: fn(&mut Vec<Plugged>)) {
        let sim = Simulation::new(1).handle();
        let plug = std::mem::ManuallyDrop::new(Plug::new());
        for number in 0..requests as u64 {
            let bio = bio(100 * number);
            let members = vec![Member::of(&sim, bio)];
            plug.list.borrow_mut().push(Plugged { bio, members, sim: sim.clone() });
        }
        fault(&mut plug.list.borrow_mut());
        let other = bio(5);
        assert!(plug.try_merge(&other, Member::of(&sim, other), 1024).is_some());
    }

    #[test]
    fn every_broken_request_of_a_plug_is_seen() {
        broken(PLUG_REQUESTS_MAX, |_| {});
        panics_with("a plug goes before it holds more", || broken(PLUG_REQUESTS_MAX + 1, |_| {}));
        let message = "a plugged request is as long as its bios";
        panics_with(message, || broken(2, |list| list[1].bio.sectors += 8));
        panics_with(message, || broken(2, |list| list[1].bio.sector += 8));
        panics_with(message, || broken(2, |list| list[1].members.clear()));
    }
}
