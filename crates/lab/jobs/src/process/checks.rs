//! Reads of what a process wrote before (`verify` of fio).

use super::{Request, Runner};
use crate::Place;
use sim::Semaphore;
use std::rc::Rc;

impl Runner {
    /// What was written and is to be read before more is written.
    ///
    /// Source: `check_get_verify` of fio's `io_u.c`.
    pub(super) fn next_of_backlog(&self) -> Option<Place> {
        let verify = self.job.verify.filter(|verify| verify.backlog > 0)?;
        let mut written = self.written.borrow_mut();
        let pieces = written.len() as u64;
        if self.batch_left.get() == 0 {
            if pieces == 0 || !pieces.is_multiple_of(verify.backlog) || self.was_read.get() {
                return None;
            }
            self.batch_left.set(if verify.batch > 0 { verify.batch } else { verify.backlog });
        }
        let (offset_bytes, bytes) = written.take()?;
        self.batch_left.set(self.batch_left.get() - 1);
        Some(Place { offset_bytes, bytes })
    }

    /// Reads all that was written and not read again, after it is durable and out of the page cache.
    ///
    /// Source: `do_verify` of fio's backend.c. The contents are not compared: the device keeps none.
    pub(super) async fn read_again(self: &Rc<Self>) {
        if self.written.borrow().len() == 0 {
            return;
        }
        // `fio_io_sync`: what is read must have reached the device, not only the cache that the writes went to.
        if let Err(error) = self.run.file.fsync(self.process).await {
            self.report.borrow_mut().error.get_or_insert(error);
            return;
        }
        let pages = self.run.file.size_bytes().div_ceil(units::PAGE_BYTES_U64);
        // `file_invalidate_cache`: a page that stays would be read from memory.
        self.run.file.mapping().invalidate(&(0..pages));
        let slots = Rc::new(Semaphore::new(&self.run.sim, self.job.iodepth));
        while self.may_go_on() {
            let Some((offset_bytes, bytes)) = self.written.borrow_mut().take() else { break };
            let place = Place { offset_bytes, bytes };
            slots.acquire().await.forget();
            let request = Request { process: self.process, is_read: true, place, is_verify: true };
            self.spawn(request, &slots);
        }
        slots.acquire_many(self.job.iodepth).await.forget();
    }
}
