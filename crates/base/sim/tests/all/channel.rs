//! Channels.

use crate::support;

use sim::channel::{bounded, unbounded};
use sim::{RunEnd, Simulation};
use support::{Log, race};

#[test]
fn senders_wait_for_room_first_come_first_served() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let (sender, mut receiver) = bounded(&sim, 2);
    for task in 0..5 {
        let (sim, sender, log) = (sim.clone(), sender.clone(), log.clone());
        simulation.handle().spawn(async move {
            let value = 10 * task;
            // The fourth gives up at the very instant at which room is made for the third.
            let patience_ns = if task == 3 { 100 } else { u64::MAX };
            if race(async { sender.send(value).await.unwrap() }, sim.sleep(patience_ns)).await {
                log.add((sim.now(), value));
            }
        });
    }
    drop(sender);
    let receiver_sim = sim.clone();
    let values = sim.spawn(async move {
        let mut values = Vec::new();
        loop {
            receiver_sim.sleep(100).await;
            let Some(value) = receiver.receive().await else { return values };
            values.push((receiver_sim.now(), value));
        }
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(log.take(), [(0, 0), (0, 10), (100, 20), (200, 40)]);
    assert_eq!(values.try_take().unwrap(), [(100, 0), (200, 10), (300, 20), (400, 40)]);
}

#[test]
fn a_receiver_waits_and_sees_the_end() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let (sender, mut receiver) = unbounded(&sim);
    let sender_sim = sim.clone();
    sim.spawn(async move {
        for value in 0..3 {
            sender_sim.sleep(10).await;
            sender.clone().try_send(value).unwrap();
        }
        sender_sim.sleep(10).await;
    });
    let receiver_sim = sim.clone();
    let values = sim.spawn(async move {
        let mut values = Vec::new();
        while let Some(value) = receiver.receive().await {
            values.push((receiver_sim.now(), value));
        }
        (values, receiver_sim.now())
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(values.try_take().unwrap(), (vec![(10, 0), (20, 1), (30, 2)], 40));
}

#[test]
fn a_channel_without_receiver_gives_values_back() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let (sender, receiver) = bounded(&sim, 1);
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!((sender.try_send(2), receiver.len(), receiver.is_empty()), (Err(2), 1, false));
    let waiting = [sender.clone(), sender.clone()]
        .map(|sender| sim.spawn(async move { sender.send(3).await }));
    let closer = sim.clone();
    sim.spawn(async move {
        closer.sleep(1).await;
        drop(receiver);
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(waiting.map(|send| send.try_take()), [Some(Err(3)), Some(Err(3))]);
    assert_eq!(sender.try_send(4), Err(4));
}
