//! What a device records of its write cache, and how the record is taken.
//!
//! The cache changes when the device looks, and the record says when the change takes place: a page that a program
//! brings to the medium leaves at the end of that program, although the device may have given its room to others
//! before. Where several commands are executed at once the counter may so pass the cache's size for a time: a write
//! gets room at once that a flush, or a write which waited for it, has made to come free.

use super::{FlashDevice, Moment};
use crate::{CacheEvent, DeviceActivity};
use ftl::FtlError;

impl FlashDevice {
    /// Time in which each channel moved data, by its number, nanoseconds.
    pub fn channel_busy_ns(&self) -> Vec<u64> {
        self.dies.channel_busy_ns().collect()
    }

    pub(super) fn set_recording(&mut self, on: bool) {
        let begins = on && self.dies.activity.is_none();
        self.dies.record_activity(on);
        let sectors = self.cache.used_sectors();
        if begins && sectors > 0 {
            self.add_event(CacheEvent::Enter { at_ns: self.caught_up_ns, sectors });
        }
    }

    pub(super) fn take_record(&mut self) -> DeviceActivity {
        // Whatever comes from now on comes later: everything that happens by itself has happened until then.
        DeviceActivity { settled_ns: self.caught_up_ns, ..self.dies.take_activity() }
    }

    /// Sectors have come into the cache, of which `before` were taken, at `at_ns`.
    #[inline]
    pub(super) fn record_entry(&mut self, before: u32, at_ns: u64) {
        if self.dies.activity.is_some() && self.cache.used_sectors() > before {
            let sectors = self.cache.used_sectors() - before;
            self.add_event(CacheEvent::Enter { at_ns, sectors });
        }
    }

    /// A program that ends at `at_ns` has made room in the cache, of which `before` sectors were taken.
    #[inline]
    pub(super) fn record_program(&mut self, before: u32, at_ns: u64) {
        if self.dies.activity.is_some() {
            let sectors = before - self.cache.used_sectors();
            self.add_event(CacheEvent::Programmed { at_ns, sectors });
        }
    }

    /// A page that waits leaves the cache for a command that is ready at `at_ns`.
    #[inline]
    pub(super) fn record_withdrawal(&mut self, page: u64, at_ns: u64) {
        if self.dies.activity.is_some()
            && let Some(cached) = self.cache.waiting_page(page as u32)
        {
            // Not before it has come: the write that brings it may still be on the interface.
            let at_ns = at_ns.max(cached.ready_ns);
            self.add_event(CacheEvent::Withdrawn { at_ns, sectors: cached.written.count_ones() });
        }
    }

    /// Empties the cache for a flush.
    pub(super) fn flush(&mut self, ready: Moment) -> Result<Moment, FtlError> {
        let (done, sectors) = self.drain_all(ready)?;
        if self.cache.exists() && self.dies.activity.is_some() {
            let (start_ns, end_ns) = (ready.ns, done.ns);
            self.add_event(CacheEvent::Flush { start_ns, end_ns, sectors });
        }
        Ok(done)
    }

    #[cold]
    fn add_event(&mut self, event: CacheEvent) {
        if let Some(activity) = &mut self.dies.activity {
            activity.cache.push(event);
        }
    }
}
