//! What can be worn to its end: blocks with cycles, and work that is done over and over.

use super::accelerator::{Accelerator, Next};
use super::curve::Point;
use crate::StudyError;

/// A layer over a chip, and the work that wears it.
pub(super) trait Stack {
    /// Does the work once.
    ///
    /// # Errors
    /// A request that cannot be served.
    fn work(&mut self) -> Result<(), StudyError>;

    /// Bytes that the host has written so far.
    fn host_bytes(&self) -> u64;

    /// Cycles of each block of the chip.
    fn cycles(&self) -> Vec<u32>;

    /// False for blocks that are bad or kept back.
    fn wears(&self) -> Vec<bool>;

    /// Difference of erase counts at which cold data moves.
    fn threshold(&self) -> Option<u32>;

    /// Blocks that are levelled together; all of them where the stack has one layer.
    fn group_blocks(&self) -> usize {
        self.cycles().len()
    }

    /// True if so much was simulated that no end is looked for.
    fn is_spent(&self) -> bool {
        false
    }

    /// Wears every block by so many erases that are not carried out.
    fn age(&mut self, erases: &[u32]);
}

/// What a life was.
#[derive(Clone, Debug)]
pub(super) struct Lived {
    /// How wear grew.
    pub(super) curve: Vec<Point>,
    /// Bytes of the host at its end, gaps included.
    pub(super) host_bytes: u64,
    /// Bytes of the host that were simulated.
    pub(super) simulated_bytes: u64,
    /// Erases that were simulated.
    pub(super) erases: u64,
    /// Erases of the most worn block that were simulated.
    pub(super) hottest: u32,
}

/// Works until 1 % of the blocks have had `limit` cycles, or `bytes_max` bytes were simulated.
///
/// # Errors
/// A request that cannot be served.
pub(super) fn live(
    stack: &mut dyn Stack,
    limit: u32,
    bytes_max: u64,
    has_gaps: bool,
) -> Result<Lived, StudyError> {
    let start = stack.cycles();
    let (bytes_before, mut aged) = (stack.host_bytes(), vec![0_u64; start.len()]);
    let mut life = Accelerator::new(limit, stack.threshold(), &start, stack.wears(), has_gaps)
        .in_groups_of(stack.group_blocks());
    loop {
        cancellation::check();
        stack.work()?;
        let simulated_bytes = stack.host_bytes() - bytes_before;
        let cycles = stack.cycles();
        // Before `age`: the accelerator adds the gap to its own window, and counts it twice if it
        // is in `cycles` as well.
        let next = life.after_work(&cycles, simulated_bytes);
        if let Next::Age(erases) = &next {
            stack.age(erases);
            aged.iter_mut().zip(erases).for_each(|(sum, more)| *sum += u64::from(*more));
        }
        let is_over = simulated_bytes >= bytes_max || has_gaps && stack.is_spent();
        // Work that writes nothing wears nothing, however often it is done.
        if next == Next::Done || simulated_bytes == 0 || is_over {
            let all = stack.cycles();
            let worn = all.iter().zip(&start).map(|(now, then)| u64::from(now - then));
            let simulated = worn.zip(&aged).map(|(worn, aged)| worn - aged);
            return Ok(Lived {
                curve: life.curve().to_vec(),
                host_bytes: life.host_bytes(simulated_bytes),
                simulated_bytes,
                erases: simulated.clone().sum(),
                hottest: simulated.max().map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX)),
            });
        }
    }
}
