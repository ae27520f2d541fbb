//! What a device with a write cache may hold after a power cut.

use block_medium::{BlockMedium, MemoryMedium, WriteFlags};
use random::Stream;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const BLOCK_BYTES: usize = 512;

/// The answer of a call that never waits; none if the power failed within it.
fn answer<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn write(medium: &MemoryMedium, block: u64, byte: u8, flags: WriteFlags) {
    let bytes = vec![byte; BLOCK_BYTES];
    let done = answer(medium.write(block, bytes, flags));
    assert_eq!(done.is_none(), medium.is_cut());
}

/// A device with a block of 9 that is durable.
fn device() -> MemoryMedium {
    let medium = MemoryMedium::new(BLOCK_BYTES, 4 * BLOCK_BYTES as u64);
    write(&medium, 0, 9, WriteFlags::default());
    answer(medium.flush()).expect("at once").expect("no error");
    medium
}

/// The first byte of each half of a block after the cut, for each seed, with the draws of the writes,
/// newest first.
fn outcomes(medium: &MemoryMedium, writes: usize, block: u64) -> Vec<(Vec<bool>, [u8; 2])> {
    (0..64)
        .map(|seed| {
            let mut stream = Stream::new(seed, "lost writes");
            let is_kept = (0..writes).map(|_| stream.below(2) == 1).collect();
            let left = medium.after_cut(Some(&mut Stream::new(seed, "lost writes"))).block(block);
            assert!(left.chunks(BLOCK_BYTES / 2).all(|half| half.iter().all(|it| *it == half[0])));
            (is_kept, [left[0], left[BLOCK_BYTES / 2]])
        })
        .collect()
}

#[test]
fn a_kept_write_hides_the_loss_of_an_older_one() {
    let medium = device();
    for byte in [1, 2, 3] {
        write(&medium, 0, byte, WriteFlags::default());
    }
    for (is_kept, [first, second]) in outcomes(&medium, 3, 0) {
        let newest = is_kept.iter().position(|kept| *kept).map_or(9, |age| 3 - age as u8);
        assert_eq!([first, second], [newest; 2], "kept, newest first: {is_kept:?}");
    }
    assert_eq!(medium.after_cut(None).block(0)[0], 3, "nothing is lost without a stream");
}

#[test]
fn a_torn_write_lies_over_what_older_ones_left() {
    let medium = device();
    write(&medium, 0, 1, WriteFlags::default());
    medium.cut_power_after(0);
    write(&medium, 0, 2, WriteFlags::default());
    for (is_kept, halves) in outcomes(&medium, 2, 0) {
        let older = if is_kept[1] { 1 } else { 9 };
        let expected = if is_kept[0] { [2, older] } else { [older; 2] };
        assert_eq!(halves, expected, "kept, newest first: {is_kept:?}");
    }
}

#[test]
fn no_durable_write_is_lost() {
    let durable = WriteFlags { is_durable: true, ..WriteFlags::default() };
    let flushes = WriteFlags { flushes_before: true, ..WriteFlags::default() };
    let medium = device();
    write(&medium, 0, 1, WriteFlags::default());
    write(&medium, 0, 2, durable);
    write(&medium, 1, 3, WriteFlags::default());
    let lost = outcomes(&medium, 1, 1);
    for (is_kept, halves) in &lost {
        assert_eq!(*halves, if is_kept[0] { [3; 2] } else { [0; 2] }, "one write is open");
    }
    assert!(outcomes(&medium, 1, 0).iter().all(|(_, halves)| *halves == [2; 2]));
    write(&medium, 2, 4, flushes);
    assert!(outcomes(&medium, 1, 1).iter().all(|(_, halves)| *halves == [3; 2]));
}
