//! The device behind the queue: requests are carried out by the same core as those of `nandlab serve`.

use crate::layout::{self, EIO, Request, SECTOR_BYTES};
use crate::queue::Queue;
use serve::{Clock, Core, Failure, Pace, Power, Work};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A result that waits for its moment.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due_ns: u64,
    /// Results of one moment leave in the order of their requests.
    number: u64,
    tag: u16,
    result: i32,
}

/// A device in simulated time.
pub struct Target {
    core: Core,
    clock: Clock,
    waiting: BinaryHeap<Reverse<Waiting>>,
    number: u64,
    bytes: Vec<u8>,
}

impl Target {
    /// The device, whose time begins now.
    pub fn new(core: Core, pace: Pace) -> Self {
        let clock = Clock::new(pace, core.now_ns());
        Self { core, clock, waiting: BinaryHeap::new(), number: 0, bytes: Vec::new() }
    }

    fn now_ns(&self) -> u64 {
        if self.clock.is_real() { self.clock.now_ns() } else { self.core.now_ns() }
    }

    /// Carries a request out; its result leaves when it is due.
    ///
    /// # Errors
    /// Those of copying bytes.
    pub fn take(&mut self, queue: &Queue, tag: u16, request: &Request) -> std::io::Result<()> {
        let at_ns = self.now_ns();
        let length = request.sectors as usize * SECTOR_BYTES;
        let Request { sector, sectors, fua, .. } = *request;
        let done = match request.operation {
            layout::READ => self.read(queue, tag, at_ns, request)?,
            layout::WRITE => {
                self.bytes.resize(length, 0);
                queue.read_from(tag, &mut self.bytes)?;
                self.core.submit(at_ns, &Work::Write { sector, bytes: &self.bytes, fua })
            }
            layout::FLUSH => self.core.submit(at_ns, &Work::Flush),
            layout::DISCARD => self.core.submit(at_ns, &Work::Discard { sector, sectors }),
            layout::WRITE_ZEROES => self.core.submit(at_ns, &Work::Zero { sector, sectors, fua }),
            // EOPNOTSUPP: the driver sends nothing else to a device without zones.
            _ => {
                self.queue(at_ns, tag, -95);
                return Ok(());
            }
        };
        match done {
            Ok(due_ns) => {
                // Bytes count for requests that move some: a discard may be longer than a result can say.
                let moves = matches!(request.operation, layout::READ | layout::WRITE);
                self.queue(due_ns, tag, if moves { length as i32 } else { 0 });
            }
            // Like a disk whose cable was pulled: it answers with errors until the power is back.
            Err(_) => self.queue(at_ns, tag, -EIO),
        }
        Ok(())
    }

    fn read(
        &mut self,
        queue: &Queue,
        tag: u16,
        at_ns: u64,
        request: &Request,
    ) -> std::io::Result<Result<u64, Failure>> {
        let Request { sector, sectors, .. } = *request;
        self.bytes.resize(sectors as usize * SECTOR_BYTES, 0);
        let done = self.core.submit(at_ns, &Work::Read { sector, sectors });
        let done = done.and_then(|due_ns| {
            self.core.read_bytes(sector, &mut self.bytes)?;
            Ok(due_ns)
        });
        if done.is_ok() {
            // The block layer looks at them once the request has ended, and not before.
            queue.write_to(tag, &self.bytes)?;
        }
        Ok(done)
    }

    fn queue(&mut self, due_ns: u64, tag: u16, result: i32) {
        self.number += 1;
        self.waiting.push(Reverse(Waiting { due_ns, number: self.number, tag, result }));
    }

    /// Ends requests whose moment has come; without a clock all of them, and time passes to the last.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn send(&mut self, queue: &mut Queue) -> std::io::Result<()> {
        let is_real = self.clock.is_real();
        let now_ns = self.clock.now_ns();
        while let Some(Reverse(next)) = self.waiting.peek() {
            if is_real && next.due_ns > now_ns {
                break;
            }
            let due_ns = next.due_ns;
            let Some(Reverse(next)) = self.waiting.pop() else { break };
            if !is_real {
                let _ = self.core.pass_time(due_ns);
            }
            queue.commit(next.tag, next.result)?;
        }
        Ok(())
    }

    /// How long nothing is due.
    pub fn idle(&self, at_most: Duration) -> Duration {
        self.waiting
            .peek()
            .map_or(at_most, |Reverse(next)| self.clock.until(next.due_ns).min(at_most))
    }

    /// The supply fails: nothing that is not due by now is answered but with an error.
    ///
    /// # Errors
    /// A sentence.
    pub fn cut(&mut self) -> Result<String, String> {
        let now_ns = self.now_ns();
        self.core.cut(now_ns).map_err(|failure| failure.to_string())?;
        let dead: Vec<_> = self.waiting.drain().collect();
        for Reverse(waiting) in dead {
            let is_answered = waiting.due_ns <= now_ns;
            let result = if is_answered { waiting.result } else { -EIO };
            self.waiting.push(Reverse(Waiting {
                due_ns: waiting.due_ns.min(now_ns),
                result,
                ..waiting
            }));
        }
        let Power::Off(outage) = self.core.power() else { return Err("the power is on".into()) };
        Ok(serde_json::json!({
            "cuts": self.core.cuts(),
            "torn_operations": outage.torn.len(),
            "lost_cached_sectors": outage.lost_cached_sectors,
        })
        .to_string())
    }

    /// The supply is back: the layers rebuild their tables.
    ///
    /// # Errors
    /// A sentence.
    pub fn restore(&mut self) -> Result<String, String> {
        let now_ns = self.now_ns();
        let recovery = self.core.restore(now_ns).map_err(|failure| failure.to_string())?;
        Ok(serde_json::json!({ "reads": recovery.reads, "changes": recovery.changes }).to_string())
    }

    /// What was asked for so far, and the digest of the chips.
    pub fn statistics(&mut self) -> String {
        let statistics = self.core.device().statistics();
        let digest = self.core.digest();
        serde_json::json!({
            "totals": self.core.account.totals(),
            "chip_operations":
                [statistics.chip.page_reads, statistics.chip.page_programs, statistics.chip.erases],
            "digest": digest,
        })
        .to_string()
    }
}
