//! Reads of a block between two writes of it, from the addresses of a trace.

use crate::requests::Requests;
use std::collections::BTreeMap;
use trace::{AddressRule, Operation};

/// Page reads that the block read most has between two writes of it, in so many passes of the trace.
///
/// Addresses stand for blocks, past the end as the rule says: data that is never written lies where it
/// lies. Data that is written in a pass has the reads of one pass at most.
pub(super) fn most_reads(
    requests: &Requests,
    page_bytes: u64,
    pages_per_block: u32,
    rule: AddressRule,
    capacity_bytes: u64,
    passes: f64,
) -> u32 {
    if capacity_bytes == 0 {
        // Nothing can be read of it, and a remainder by zero would panic.
        return 0;
    }
    let block_bytes = page_bytes * u64::from(pages_per_block);
    let mut blocks = BTreeMap::<u64, (u64, bool)>::new();
    for one in &requests.requests {
        let is_write = matches!(one.operation, Operation::Write | Operation::WriteZeroes);
        if !is_write && one.operation != Operation::Read {
            continue;
        }
        let (mut at, mut left) = (one.offset_bytes, u64::from(one.length_bytes));
        let is_outside = at.saturating_add(left) > capacity_bytes;
        match rule {
            AddressRule::Modulo if is_outside => at %= capacity_bytes,
            // Nothing is served past the end.
            _ => left = capacity_bytes.saturating_sub(at).min(left),
        }
        while left > 0 {
            let block_end = (at / block_bytes + 1) * block_bytes;
            let piece = left.min(block_end.min(capacity_bytes) - at);
            let of = blocks.entry(at / block_bytes).or_default();
            if is_write {
                of.1 = true;
            } else {
                of.0 += piece.div_ceil(page_bytes);
            }
            left -= piece;
            at = (at + piece) % capacity_bytes;
        }
    }
    let reads = blocks.values().map(|(reads, is_written)| {
        if *is_written { *reads as f64 } else { *reads as f64 * passes.max(1.0) }
    });
    // Beyond the range of the model's count no cycles are left in any case.
    reads.fold(0.0_f64, f64::max).min(f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::most_reads;
    use crate::requests::{Request, Requests};
    use trace::{AddressRule, Operation};

    #[test]
    fn addresses_past_the_end_are_those_that_the_rule_serves() {
        let block_bytes = 64 * 2048;
        let mut requests = Requests::default();
        // Three blocks; the fourth address is the first block again, or nothing.
        for (block, times) in [(0, 2), (1, 3), (3, 2)] {
            for _ in 0..times {
                requests.requests.push(Request {
                    offset_bytes: block * block_bytes,
                    length_bytes: 2048,
                    file_operation: 0,
                    operation: Operation::Read,
                });
            }
        }
        let reads =
            |rule, blocks| most_reads(&requests, 2048, 64, rule, blocks * block_bytes, 10.0);
        assert_eq!(reads(AddressRule::Clip, 3), 30);
        assert_eq!(reads(AddressRule::Modulo, 3), 40);
        assert_eq!(reads(AddressRule::Error, 4), 30);
        // A request over the end goes on at the beginning.
        requests.requests[0].offset_bytes = 2 * block_bytes + 63 * 2048;
        requests.requests[0].length_bytes = 3 * 2048;
        let reads = |rule| most_reads(&requests, 2048, 64, rule, 3 * block_bytes, 1.0);
        assert_eq!([reads(AddressRule::Clip), reads(AddressRule::Modulo)], [3, 5]);
    }
}
