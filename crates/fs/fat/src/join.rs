//! Waiting for several requests at once.
//!
//! May use no other file of the crate.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Waits for all; the results are in the order of the futures.
pub(crate) async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut waits = false;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => waits = true,
                }
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().map(|result| result.expect("all are ready")).collect()
}
