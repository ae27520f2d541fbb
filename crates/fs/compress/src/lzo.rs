//! LZO1X-1 compression, so that nodes become as long as the kernel's.
//!
//! What is taken from the kernel (`lib/lzo/lzo1x_compress.c` of Linux 6) are its numbers: the hash, how
//! far it steps over what does not match, and where it stops looking. Decompression is `lzokay`'s.

/// Bits of the hash of four bytes.
const HASH_BITS: u32 = 13;
/// Multiplier of the hash.
const HASH_FACTOR: u32 = 0x1824_429d;
/// No match begins or is sought in this many bytes at the end.
const TAIL_BYTES: usize = 20;
/// Longest and farthest match of the two-byte form.
const SHORT_MATCH: (usize, usize) = (8, 0x800);
/// Longest match of the three-byte form without extension; farther ones than 16 KiB do not occur in a
/// page.
const MATCH_BYTES_MAX: usize = 33;
/// End of the stream.
const END: [u8; 3] = [0x11, 0, 0];

/// Writes the part of a length that does not fit its field: 255 for each zero byte, then the rest.
fn put_extension(out: &mut Vec<u8>, mut rest: usize) {
    // Not `>=`: a rest of 255 is one byte, or the stream would differ from the kernel's though it
    // decodes the same.
    while rest > 255 {
        out.push(0);
        rest -= 255;
    }
    out.push(rest as u8);
}

/// Writes bytes as they are. Up to three of them are counted in the second byte from the end of the
/// match before.
fn put_literals(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        0 => {}
        count @ 1..=3 => {
            // In both forms of a match the lowest two bits of the second last byte are free for
            // this (`state_offset` of the kernel). The first literals are five at least, so a match
            // always comes before.
            let flags = out.len() - 2;
            out[flags] |= count as u8;
        }
        count @ 4..=18 => out.push(count as u8 - 3),
        count => {
            out.push(0);
            put_extension(out, count - 18);
        }
    }
    out.extend_from_slice(bytes);
}

fn put_match(out: &mut Vec<u8>, bytes: usize, distance: usize) {
    let back = distance - 1;
    if bytes <= SHORT_MATCH.0 && distance <= SHORT_MATCH.1 {
        out.push(((bytes - 1) << 5 | (back & 7) << 2) as u8);
        out.push((back >> 3) as u8);
        return;
    }
    if bytes <= MATCH_BYTES_MAX {
        out.push(0x20 | (bytes - 2) as u8);
    } else {
        out.push(0x20);
        put_extension(out, bytes - MATCH_BYTES_MAX);
    }
    out.extend_from_slice(&[(back << 2) as u8, (back >> 6) as u8]);
}

/// Bytes that two places have in common; looked at eight by eight until the tail is reached.
fn common_bytes(data: &[u8], at: usize, before: usize, limit: usize) -> usize {
    // Four bytes are known to be equal, for the hash was of four. Eight by eight, as 64-bit kernels
    // compare: the limit is only looked at between steps, so a match may reach a few bytes into the
    // tail.
    let mut count = 4;
    loop {
        let pairs = (0..8).map(|step| (data[at + count + step], data[before + count + step]));
        let same = pairs.take_while(|(left, right)| left == right).count();
        if same < 8 {
            return count + same;
        }
        count += 8;
        if at + count >= limit {
            return count;
        }
    }
}

fn word(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

/// Compresses up to 16 KiB; the result may be longer than what went in.
pub fn compress(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + data.len() / 16 + 64);
    let limit = data.len().saturating_sub(TAIL_BYTES);
    // An unused slot points to the first bytes, which are compared like any other place: no mark is
    // needed.
    let mut places = vec![0_u16; 1 << HASH_BITS];
    let mut literals = 0;
    // The kernel skips four bytes for the state of a stream, then steps as after a miss: one more.
    let mut at = if limit > 0 { 5 } else { 0 };
    while at < limit {
        let wanted = word(data, at);
        let slot = (wanted.wrapping_mul(HASH_FACTOR) >> (32 - HASH_BITS)) as usize;
        let before = usize::from(std::mem::replace(&mut places[slot], at as u16));
        if word(data, before) != wanted {
            // Steps grow by one with every 32 bytes without a match, so data that does not compress
            // costs little.
            at += 1 + ((at - literals) >> 5);
            continue;
        }
        put_literals(&mut out, &data[literals..at]);
        // Places inside a match are not entered in the table. That loses matches, and is the
        // kernel's length.
        let bytes = common_bytes(data, at, before, limit);
        put_match(&mut out, bytes, at - before);
        at += bytes;
        literals = at;
    }
    let tail = &data[literals..];
    // Only at the beginning of a stream: a first byte above 17 counts literals and nothing else.
    if out.is_empty() && tail.len() <= 238 && !tail.is_empty() {
        out.push(17 + tail.len() as u8);
        out.extend_from_slice(tail);
    } else {
        put_literals(&mut out, tail);
    }
    out.extend_from_slice(&END);
    out
}

/// Restores data of a known length; none if the bytes are damaged.
pub fn decompress(stored: &[u8], data_bytes: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; data_bytes];
    let count = lzokay::decompress::decompress(stored, &mut out).ok()?;
    (count == data_bytes).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::{compress, decompress};

    #[test]
    fn everything_comes_back() {
        let mut state = 7_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as usize
        };
        for round in 0..3000 {
            let bytes = if round % 3 == 0 { next() % 64 } else { next() % 4097 };
            let letters = 1 + next() % [2, 5, 30, 256][round % 4];
            let mut data: Vec<u8> = (0..bytes).map(|_| (next() % letters) as u8).collect();
            if round % 5 == 0 && bytes > 100 {
                let (from, to) = (next() % (bytes / 2), bytes / 2);
                let count = next() % (bytes / 2 - from).max(1);
                data.copy_within(from..from + count, to);
            }
            if data.is_empty() {
                continue;
            }
            assert_eq!(decompress(&compress(&data), bytes), Some(data), "round {round}");
        }
    }
}
