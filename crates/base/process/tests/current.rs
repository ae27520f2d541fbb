//! The process that runs is set for a poll, and set back after it.

use process::{Class, FIRST_KERNEL_PID, Process, current, enter, run_as};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Pends once, and notes the process of each of its two polls.
async fn two_polls(seen: &std::cell::RefCell<Vec<u32>>) {
    let mut is_second = false;
    poll_fn(|_| {
        seen.borrow_mut().push(current().pid);
        if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn a_process_runs_while_its_guard_lives() {
    assert_eq!(current(), Process::INIT);
    {
        let _outer = enter(Process::new(7));
        assert_eq!(current().pid, 7);
        {
            let _inner = enter(Process::new(8).with_priority(Class::Idle, 7));
            assert_eq!((current().pid, current().class, current().level), (8, Class::Idle, 7));
        }
        assert_eq!(current(), Process::new(7));
    }
    assert_eq!(current(), Process::INIT);
}

#[test]
fn work_runs_as_its_process_at_every_poll_and_others_between() {
    let seen = std::cell::RefCell::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut one = pin!(run_as(Process::new(20), two_polls(&seen)));
    let mut other = pin!(run_as(Process::new(21), two_polls(&seen)));
    assert!(one.as_mut().poll(&mut context).is_pending());
    assert_eq!(current(), Process::INIT, "between two polls no process of the work runs");
    assert!(other.as_mut().poll(&mut context).is_pending());
    assert!(one.as_mut().poll(&mut context).is_ready());
    assert!(other.as_mut().poll(&mut context).is_ready());
    assert_eq!(*seen.borrow(), [20, 21, 20, 21]);
}

#[test]
fn a_poll_that_unwinds_leaves_the_process_before_it() {
    let left = catch_unwind(AssertUnwindSafe(|| {
        let _running = enter(Process::new(30));
        panic!("a defect");
    }));
    assert!(left.is_err());
    assert_eq!(current(), Process::INIT);
}

#[test]
fn threads_of_the_kernel_have_numbers_of_their_own() {
    assert!(!Process::new(FIRST_KERNEL_PID - 1).is_kernel_thread());
    assert!(Process::new(FIRST_KERNEL_PID).is_kernel_thread());
}
