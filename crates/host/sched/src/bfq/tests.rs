//! Hand-worked cases of the service trees, and every check of the counts.

use super::entity::{Tree, virtual_time};
use super::{Bfq, ENTRY_6_12, Version};
use crate::queue_id::QueueId;
use crate::tests::{CLOCK, defaults, filled, panics_with};
use crate::{Bio, Class, Direction, Queue};

/// What breaks a count.
type Break = fn(&mut Bfq);

fn bfq() -> Bfq {
    Bfq::new(&defaults(&ENTRY_6_12), CLOCK, Version::V6_12)
}

/// A queue of a new process, of best effort.
fn queue(bfq: &mut Bfq, pid: u32) -> QueueId {
    let (direction, class) = (Direction::Read, Class::BestEffort);
    let (sync, noidle, level, sector, sectors) = (true, false, 4, 0, 8);
    let bio = Bio { pid, direction, sync, noidle, class, level, sector, sectors };
    let process = bfq.process_of(&bio);
    bfq.get_queue(process, true, true)
}

/// Puts queues with these starts and finishes in the tree of best effort, in this order.
fn tree_of(bfq: &mut Bfq, stamps: &[(u64, u64)]) -> Vec<QueueId> {
    let mut ids = Vec::new();
    for ((start, finish), pid) in stamps.iter().zip(1..) {
        let id = queue(bfq, pid);
        (bfq.queues[id].entity.start, bfq.queues[id].entity.finish) = (*start, *finish);
        bfq.trees[1].insert_active(&mut bfq.nodes, &mut bfq.queues, id);
        ids.push(id);
    }
    ids
}

fn first(bfq: &Bfq, vtime: u64) -> Option<QueueId> {
    bfq.trees[1].first(&bfq.nodes, &bfq.queues, vtime)
}

#[test]
fn virtual_time_is_service_by_weight_with_22_bits_of_fraction() {
    // 8192 * 2^22 / 40 = 858 993 459.2
    assert_eq!(virtual_time(8192, 40), 858_993_459);
    assert_eq!(virtual_time(1, 1), 1 << 22);
    assert_eq!(virtual_time(0, 7), 0);
}

#[test]
fn the_eligible_entity_with_the_smallest_finish_is_first_and_of_equals_the_older() {
    let mut bfq = bfq();
    let ids = tree_of(&mut bfq, &[(0, 40), (60, 50), (10, 40), (0, 90)]);
    assert_eq!(first(&bfq, 50), Some(ids[0]));
    bfq.trees[1].extract_active(&mut bfq.nodes, &mut bfq.queues, ids[0]);
    assert_eq!(first(&bfq, 5), Some(ids[3]), "the others start later");
    assert_eq!(first(&bfq, 10), Some(ids[2]));
    bfq.trees[1].extract_active(&mut bfq.nodes, &mut bfq.queues, ids[3]);
    assert_eq!(first(&bfq, 5), None);
    assert_eq!(bfq.trees[1].jump(&bfq.queues), 10, "the virtual time goes to the smallest start");
}

#[test]
fn an_eligible_entity_to_the_right_of_one_that_is_not_is_overlooked() {
    let mut bfq = bfq();
    // The tree: 40, below it 20 and 60, and 30 to the right of 20. At 50 the entity that finishes at 20
    // is not eligible, and hides the one at 30.
    let ids = tree_of(&mut bfq, &[(0, 40), (100, 20), (0, 60), (0, 30)]);
    assert_eq!(first(&bfq, 50), Some(ids[0]));
    assert_eq!(first(&bfq, 100), Some(ids[1]));
    bfq.trees[1].extract_active(&mut bfq.nodes, &mut bfq.queues, ids[1]);
    assert_eq!(first(&bfq, 50), Some(ids[3]));
}

#[test]
fn smallest_starts_are_right_in_every_shape() {
    let mut bfq = bfq();
    let stamps: Vec<(u64, u64)> =
        (0..40_u64).map(|number| (number * 7919 % 101, number * 104_729 % 211)).collect();
    let ids = tree_of(&mut bfq, &stamps);
    for (gone, id) in ids.iter().enumerate() {
        let starts = ids[gone..].iter().map(|id| bfq.queues[*id].entity.start);
        let smallest = starts.min().expect("one is left");
        assert_eq!(bfq.trees[1].jump(&bfq.queues), smallest, "after {gone} are gone");
        bfq.trees[1].extract_active(&mut bfq.nodes, &mut bfq.queues, *id);
    }
}

#[test]
fn shares_follow_the_weights() {
    let mut bfq = bfq();
    let ids = [queue(&mut bfq, 1), queue(&mut bfq, 2)];
    for (id, weight) in ids.into_iter().zip([20, 60]) {
        bfq.queues[id].entity.new_weight = weight;
        bfq.queues[id].entity.budget = 100;
        bfq.become_busy(id);
    }
    let mut served = [0, 0];
    for _ in 0..400 {
        let id = bfq.take_next_queue().expect("both are busy");
        bfq.in_service = Some(id);
        bfq.serve(id, 100);
        served[usize::from(id == ids[1])] += 100;
        bfq.requeue(id, true);
        (bfq.in_service, bfq.in_service_entity) = (None, None);
        bfq.queues[id].entity.service = 0;
    }
    assert_eq!(served, [10_000, 30_000]);
}

#[test]
fn an_idle_entity_keeps_its_finish_until_the_virtual_time_reaches_it() {
    let mut bfq = bfq();
    let ids = [queue(&mut bfq, 1), queue(&mut bfq, 2)];
    for id in ids {
        bfq.queues[id].entity.budget = 100;
        bfq.become_busy(id);
    }
    let id = bfq.take_next_queue().expect("both are busy");
    assert_eq!(id, ids[0], "of equals the older");
    bfq.serve(id, 100);
    assert_eq!(bfq.trees[1].vtime, virtual_time(100, 80));
    bfq.leave_busy(id, true);
    // Its finish is twice as far as the virtual time, which counts both weights.
    assert_eq!(bfq.queues[id].entity.finish, virtual_time(100, 40));
    assert_eq!(bfq.queues[id].entity.tree, Some(Tree::Idle));
    let other = bfq.take_next_queue().expect("the other is busy");
    bfq.serve(other, 100);
    assert_eq!(bfq.queues[id].entity.tree, None, "forgotten");
    assert_eq!(bfq.trees[1].weights, 40);
}

#[test]
fn every_broken_count_is_seen() {
    let broken: [(&str, Break); 6] = [
        ("a queue counts its requests", |bfq| bfq.queues[QueueId(0)].queued[1] += 1),
        ("queues have the requests queued", |bfq| bfq.queued += 1),
        ("queues have the requests with the driver", |bfq| bfq.in_driver += 1),
        ("busy queues are counted", |bfq| bfq.busy[2] += 1),
        ("raised busy queues are counted", |bfq| bfq.raised_busy += 1),
        ("a tree counts the weights of its entities", |bfq| bfq.trees[0].weights += 1),
    ];
    for (message, break_it) in broken {
        let (mut bfq, queue): (Bfq, Queue) = filled(bfq());
        break_it(&mut bfq);
        panics_with(message, || crate::Scheduler::audit(&bfq, &queue));
    }
}
