//! Reads of a die, placed in time: array, channel, retries, and what they suspend.

use super::{Dies, Moment, Moved};
use crate::ActivityKind;
use ftl::{PageWork, Work};

impl Dies {
    /// The die reads a page that the host asked for; `work` is what its layer said of it.
    ///
    /// The array begins when it is `ready`; the page crosses the channel from `turn` on, when it is its command's
    /// turn, and lies in the register until then. Returns when the page is in the controller. A page never written
    /// is no work at all.
    #[inline]
    pub(crate) fn read(
        &mut self,
        die: usize,
        local: u32,
        ready: Moment,
        turn: Moment,
        work: &PageWork,
    ) -> Moment {
        let mut rest = work.total;
        if rest.counters.page_reads == 0 {
            // Without a page read the layer answered from its map, for which it may have read
            // translation pages.
            let answered =
                if rest == Work::default() { ready } else { self.manage(die, ready, rest) };
            return answered.or_later(turn);
        }
        rest.counters.page_reads -= 1;
        rest.extra_read_ns -= work.own_extra_read_ns;
        let array_ns = self.times.read_ns + work.own_extra_read_ns;
        let transfer_ns = self.times.transfer_ns;
        // A layer that reads tables first does more than a read, which is not worth a suspension.
        if rest == Work::default() {
            return self.read_now(die, local, ready, turn, array_ns, transfer_ns);
        }
        let start = self.manage(die, ready, rest);
        self.read_and_retry(die, local, start, turn, array_ns, transfer_ns)
    }

    /// The die reads `parts` of one array page; as [`Dies::read`], where nothing but the read is to be done. It takes
    /// `extra_read_ns` longer than that of a lower page.
    #[inline]
    pub(crate) fn read_parts(
        &mut self,
        die: usize,
        local: u32,
        ready: Moment,
        turn: Moment,
        parts: u64,
        extra_read_ns: u64,
    ) -> Moment {
        let array_ns = self.times.read_ns + extra_read_ns;
        // Only the parts that are asked for cross the channel: each has an ECC of its own.
        self.read_now(die, local, ready, turn, array_ns, parts * self.times.transfer_ns)
    }

    /// A read for which nothing else is to be done: it may suspend what the die does.
    #[inline]
    fn read_now(
        &mut self,
        die: usize,
        local: u32,
        ready: Moment,
        turn: Moment,
        array_ns: u64,
        transfer_ns: u64,
    ) -> Moment {
        // Asked first: most devices suspend nothing.
        if self.suspend.per_operation > 0
            && let Some((suspended, start)) = self.suspend(die, ready, turn)
        {
            let end = self.read_and_retry(die, local, start, turn, array_ns, transfer_ns);
            self.resume(die, suspended);
            return end;
        }
        let start = self.wait(die, ready);
        self.read_and_retry(die, local, start, turn, array_ns, transfer_ns)
    }

    /// A read that needs no retry: it may suspend what the die does.
    pub(super) fn read_first(
        &mut self,
        die: usize,
        ready: Moment,
        turn: Moment,
        array_ns: u64,
        transfer_ns: u64,
    ) -> Moment {
        if let Some((suspended, start)) = self.suspend(die, ready, turn) {
            let end = self.read_out(die, start, turn, array_ns, transfer_ns);
            self.resume(die, suspended);
            return end;
        }
        let start = self.wait(die, ready);
        self.read_out(die, start, turn, array_ns, transfer_ns)
    }

    /// Reads a page of the host, again if the first decode does not correct it.
    #[inline]
    fn read_and_retry(
        &mut self,
        die: usize,
        local: u32,
        start: Moment,
        turn: Moment,
        array_ns: u64,
        transfer_ns: u64,
    ) -> Moment {
        let end = self.read_out(die, start, turn, array_ns, transfer_ns);
        if self.all[die].retry.is_none() {
            return end;
        }
        self.retry(die, local, end, array_ns, transfer_ns)
    }

    /// Each retry is an array read, a transfer and a decode.
    #[cold]
    fn retry(
        &mut self,
        die: usize,
        local: u32,
        first: Moment,
        array_ns: u64,
        transfer_ns: u64,
    ) -> Moment {
        let state = &mut self.all[die];
        let layer = state.layer.0.as_ref();
        let (Some(retry), Some(at)) = (&mut state.retry, layer.locate(local)) else { return first };
        let flash = layer.flash();
        // Each part that crosses the channel has codewords of its own.
        let parts = transfer_ns.checked_div(self.times.transfer_ns).unwrap_or(1).max(1) as u32;
        let erase_cycles = flash.chip().erase_cycles(flash.physical_block(at.block));
        let retries = retry.retries(erase_cycles, parts);
        let decode_ns = retry.decode_ns();
        state.retried_reads += u64::from(retries > 0);
        state.read_retries += u64::from(retries);
        let mut end = first;
        for _ in 0..retries {
            // The decode of the first read is part of the command's overhead; that of a retry takes its own time.
            end = self.read_out(die, end, end, array_ns, transfer_ns).after(decode_ns);
        }
        end
    }

    /// The array works from `start` on, and the transfer follows, from `turn` on at the earliest.
    #[inline]
    pub(super) fn read_out(
        &mut self,
        die: usize,
        start: Moment,
        turn: Moment,
        array_ns: u64,
        transfer_ns: u64,
    ) -> Moment {
        let array_end_ns = start.ns + array_ns;
        // Booked for the time at which the array is done; the channel stays free for others before
        // that.
        let (kind, from_ns) = (ActivityKind::Read, array_end_ns.max(turn.ns));
        let begun_ns = self.book_channel(die, from_ns, transfer_ns);
        let end_ns = begun_ns + transfer_ns;
        let moved = Moved::from(begun_ns, transfer_ns);
        self.occupy(die, start.ns, end_ns, array_ns + transfer_ns, kind, moved);
        Moment { ns: end_ns, cleaning_ns: start.cleaning_ns.max(turn.cleaning_ns) }
    }
}
