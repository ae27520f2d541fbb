//! Packed writes: which requests the driver of a card puts into one command, worked out by hand.

use crate::support::{CompletedBios, bio, elevator_of, options};
use block::{Plugging, QueueOptions, RequestQueue};
use device::{
    BlockDevice, Command, Completion, ConstantDevice, DeviceActivity, DeviceError, DeviceStatistics,
};
use sched::Direction::{self, Read, Write};
use sim::Simulation;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Time of every command, packed or not.
const SERVICE_NS: u64 = 10_000;

/// A card that takes up to four writes in one command. It keeps the sectors of each command.
#[derive(Clone)]
struct Card {
    inner: ConstantDevice,
    seen: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Card {
    fn note(&self, commands: &[Command]) {
        let sectors = commands.iter().map(|command| command.sector).collect();
        self.seen.lock().expect("one thread").push(sectors);
    }
}

impl BlockDevice for Card {
    fn sectors(&self) -> u64 {
        self.inner.sectors()
    }

    fn queue_depth(&self) -> u32 {
        1
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError> {
        self.note(&[*command]);
        self.inner.submit(now_ns, command)
    }

    fn packed_writes(&self) -> u32 {
        4
    }

    fn submit_packed(
        &mut self,
        now_ns: u64,
        commands: &[Command],
    ) -> Result<Completion, DeviceError> {
        self.note(commands);
        self.inner.submit(now_ns, &commands[0])
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    fn statistics(&self) -> DeviceStatistics {
        self.inner.statistics()
    }

    fn record_activity(&mut self, _: bool) {}

    fn take_activity(&mut self) -> DeviceActivity {
        DeviceActivity::default()
    }
}

/// Sends the bios at once, then runs: the commands of the card, and when each bio was done in services.
fn run(bios: &[(Direction, u64)], max_sectors: u32) -> (Vec<Vec<u64>>, Vec<u64>) {
    let mut simulation = Simulation::new(1);
    let seen: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
    let card = Card { inner: ConstantDevice::new(1 << 20, SERVICE_NS, 1), seen: seen.clone() };
    let options = QueueOptions { max_sectors, ..options(Plugging::None) };
    let elevator = elevator_of("noop", false, 64);
    let queue = RequestQueue::new(&simulation.handle(), elevator, Box::new(card), options);
    let completed = Rc::new(RefCell::new(CompletedBios::default()));
    queue.observe(completed.clone());
    let bios = bios.to_vec();
    simulation.handle().spawn(async move {
        for (direction, sector) in bios {
            drop(queue.submit(bio(1, direction, sector), None).await);
        }
    });
    simulation.run();
    let mut times: Vec<_> = completed.borrow().0.clone();
    times.sort_by_key(|times| times.bio.sector);
    let services = times.iter().map(|times| times.complete_ns / SERVICE_NS).collect();
    let seen = seen.lock().expect("one thread").clone();
    (seen, services)
}

/// Bios apart from each other, so that nothing is merged.
const MIX: [(Direction, u64); 10] = [
    (Read, 0),
    (Write, 100),
    (Write, 200),
    (Write, 300),
    (Read, 400),
    (Write, 500),
    (Write, 600),
    (Write, 700),
    (Write, 800),
    (Write, 900),
];

#[test]
fn writes_are_packed_until_a_read_comes_or_the_card_takes_no_more() {
    let (commands, services) = run(&MIX, 1024);
    let expected: [&[u64]; 5] = [&[0], &[100, 200, 300], &[400], &[500, 600, 700, 800], &[900]];
    assert_eq!(commands, expected);
    // All writes of a command end with it.
    assert_eq!(services, [1, 2, 2, 2, 3, 4, 4, 4, 4, 5]);
}

#[test]
fn a_packed_command_is_no_longer_than_a_request_may_be_and_has_a_header() {
    // Three writes of eight sectors and the header make 25 sectors.
    for (max_sectors, expected) in [(25, 3), (24, 2), (16, 1)] {
        let (commands, _) = run(&MIX[..4], max_sectors);
        let longest = commands.iter().map(Vec::len).max();
        assert_eq!(longest, Some(expected), "{max_sectors}: {commands:?}");
    }
}
