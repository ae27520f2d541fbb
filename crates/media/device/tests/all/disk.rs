//! The rotating disk against arithmetic, and the fixed-time device against queueing theory.

#![allow(clippy::print_stdout, reason = "the figures are of interest beyond their ranges")]

use crate::support;

use device::{BlockDevice, Command, ConstantDevice, DeviceSpec, build, find_device};
use random::Stream;
use support::keep_busy;

fn preset() -> (DeviceSpec, Box<dyn BlockDevice>) {
    let spec = find_device("disk-7200").expect("a preset");
    let device = build(&spec, 1).expect("it fits together");
    (spec, device)
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value}, expected {expected}");
}

#[test]
fn a_random_access_takes_12_4_ms_in_the_mean() {
    let (spec, mut device) = preset();
    let disk = spec.disk.expect("a disk");
    near(disk.mean_seek_ns() * 1e-6, 8.2, 0.001);
    near(disk.revolution_ns() as f64 * 1e-6 / 2.0, 4.1667, 0.001);
    near(disk.mean_seek_ns() * 1e-6 + disk.revolution_ns() as f64 * 1e-6 / 2.0, 12.37, 0.001);
    let mut stream = Stream::new(1, "test");
    let sectors = device.sectors();
    let accesses = 20_000;
    let reads = (0..accesses).map(|_| Command::read(stream.next_u64() % sectors, 1));
    let (_, end_ns) = keep_busy(device.as_mut(), 0, 1, reads);
    let mean_ms = end_ns as f64 * 1e-6 / f64::from(accesses);
    println!("mean random access of disk-7200: {mean_ms:.3} ms");
    near(mean_ms, 12.4, 0.01);
}

#[test]
fn the_seek_curve_rises_and_has_no_step_at_its_knee() {
    let seek = preset().0.disk.expect("a disk").seek;
    assert_eq!(seek.seek_ns(0), 0);
    assert_eq!(seek.seek_ns(1), seek.settle_ns + seek.root_ns);
    assert!((1..244_140).all(|distance| seek.seek_ns(distance) <= seek.seek_ns(distance + 1)));
    let (before, at, after) = (
        seek.seek_ns(seek.knee_cylinders - 1),
        seek.seek_ns(seek.knee_cylinders),
        seek.seek_ns(seek.knee_cylinders + 1),
    );
    assert!((at - before).abs_diff(after - at) <= 2, "{before} {at} {after}");
}

#[test]
fn long_transfers_run_at_the_speed_of_tracks_and_switches() {
    let (spec, mut device) = preset();
    let disk = spec.disk.expect("a disk");
    let (per_track, revolution_ns) = (u64::from(disk.sectors_per_track), disk.revolution_ns());
    // 400 tracks: 300 head switches and 99 or 100 cylinder changes on the way.
    let tracks = 400;
    let read = Command::read(0, (tracks * per_track) as u32);
    let done = device.submit(0, &read).expect("in range");
    let changes_ns = 300 * disk.head_switch_ns + 99 * disk.seek.seek_ns(1).max(disk.head_switch_ns);
    let moved_ns = done.done_ns - done.start_ns;
    let expected_ns = tracks * revolution_ns + changes_ns;
    assert!(moved_ns >= expected_ns - tracks, "{moved_ns} {expected_ns}");
    assert!(moved_ns <= expected_ns + revolution_ns + 1_000_000, "{moved_ns} {expected_ns}");
}

#[test]
fn reading_on_is_served_by_the_buffer_and_writing_on_loses_a_revolution() {
    let (spec, mut device) = preset();
    let revolution_ns = spec.disk.expect("a disk").revolution_ns();
    let first = device.submit(0, &Command::read(0, 256)).expect("in range");
    let second = device.submit(first.done_ns, &Command::read(256, 256)).expect("in range");
    assert!(second.done_ns - second.start_ns < revolution_ns / 4, "streaming");
    // Later, all of it lies in the buffer: the time of the interface is left.
    let now_ns = second.done_ns + 50_000_000;
    let third = device.submit(now_ns, &Command::read(512, 256)).expect("in range");
    assert_eq!(third.cached_sectors, 256);
    assert!(third.done_ns - third.start_ns < 500_000);
    let write = device.submit(third.done_ns, &Command::write(0, 256)).expect("in range");
    let next = device.submit(write.done_ns, &Command::write(256, 256)).expect("in range");
    let taken_ns = next.done_ns - next.start_ns;
    assert!((revolution_ns..revolution_ns * 5 / 4).contains(&taken_ns), "{taken_ns}");
}

#[test]
fn one_command_at_a_time_and_the_seed_turns_the_platter() {
    let (spec, mut device) = preset();
    let commands: Vec<Command> =
        (0..50).map(|number| Command::read(number * 7_654_321 % 1_000_000_000, 64)).collect();
    let mut other = build(&spec, 2).expect("it fits together");
    let mut differs = false;
    let mut last_ns = 0;
    for command in &commands {
        let mut clone = device.clone_box();
        let done = device.submit(0, command).expect("in range");
        assert_eq!(Ok(done), clone.submit(0, command));
        assert!(done.start_ns >= last_ns);
        last_ns = done.done_ns;
        differs |= other.submit(0, command) != Ok(done);
    }
    assert!(differs, "the seed is the angle at the start");
    assert_eq!(device.statistics().completed, 50);
}

/// M/D/1: the mean wait in the queue is rho / (2 (1 - rho)) services (Pollaczek and Khinchine).
#[test]
fn the_fixed_time_device_is_a_server_of_m_d_1() {
    let (service_ns, load) = (1_000_000, 0.7);
    let mut device = ConstantDevice::new(1 << 20, service_ns, 1_000);
    let mut stream = Stream::new(1, "test");
    let (mut now, mut waited_ns) = (0.0, 0);
    let commands = 1_000_000;
    for _ in 0..commands {
        now += exponential(&mut stream) * service_ns as f64 / load;
        let completion = device.submit(now as u64, &Command::read(0, 8)).expect("in range");
        waited_ns += completion.start_ns - now as u64;
        assert_eq!(completion.done_ns - completion.start_ns, service_ns);
    }
    let mean = waited_ns as f64 / f64::from(commands) / service_ns as f64;
    near(mean, load / (2.0 * (1.0 - load)), 0.02);
}

/// A draw from the exponential distribution of mean 1: von Neumann's comparison of uniform draws.
fn exponential(stream: &mut Stream) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = stream.unit();
        let (mut last, mut run) = (first, 1);
        loop {
            let next = stream.unit();
            if next > last {
                break;
            }
            last = next;
            run += 1;
        }
        if run % 2 == 1 {
            return whole + first;
        }
        whole += 1.0;
    }
}
