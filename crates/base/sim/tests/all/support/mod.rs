//! What the tests of `sim` share.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// A boxed part of a task.
pub(crate) type Local = Pin<Box<dyn Future<Output = ()>>>;

/// What happened, in order; clones share it.
pub(crate) struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Rc::default())
    }

    pub(crate) fn add(&self, entry: T) {
        self.0.borrow_mut().push(entry);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        self.0.take()
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Runs both until one ends, then drops both; `first` is polled first. Returns whether it ended.
pub(crate) async fn race(
    first: impl Future<Output = ()>,
    second: impl Future<Output = ()>,
) -> bool {
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    poll_fn(|context| {
        if first.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        second.as_mut().poll(context).map(|()| false)
    })
    .await
}
