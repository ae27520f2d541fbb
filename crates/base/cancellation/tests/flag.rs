//! The flag is one for the process: this is a program of its own, with one test.

use cancellation::{Interrupted, catch, check, is_interruption, is_requested, request, withdraw};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Comes by a check while it is dropped, as a guard does that ends a task.
struct Checks<'a>(&'a Cell<u32>);

impl Drop for Checks<'_> {
    fn drop(&mut self) {
        check();
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_request_ends_the_work_at_its_next_check_and_drops_what_it_holds() {
    let dropped = Cell::new(0);
    let work = |rounds: u32| {
        let _guard = Checks(&dropped);
        (0..rounds).for_each(|round| {
            if round == 5 {
                request();
            }
            check();
        });
        rounds
    };
    assert_eq!(catch(|| work(5)), Ok(5));
    assert_eq!(catch(|| work(1_000_000)), Err(Interrupted));
    assert_eq!(dropped.get(), 2, "the guard is dropped on the way out, and checks without harm");
    assert!(is_requested());
    withdraw();
    assert_eq!(catch(|| work(1)), Ok(1));
    let defect = catch_unwind(AssertUnwindSafe(|| catch(|| panic!("a defect"))));
    let defect = defect.expect_err("a defect is no interruption");
    assert!(!is_interruption(defect.as_ref()));
    request();
    let thread = std::thread::spawn(check).join().expect_err("the thread is left");
    assert!(is_interruption(thread.as_ref()));
    withdraw();
}
