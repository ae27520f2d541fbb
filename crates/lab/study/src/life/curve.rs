//! How wear grew: points of a life, and what is read between them.

/// How worn the most worn blocks are after so many bytes of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// Bytes that the host has written, gaps included.
    pub(crate) host_bytes: u64,
    /// Cycles of the most worn block.
    pub(crate) first: u32,
    /// Cycles that 1 % of the blocks have.
    pub(crate) one_percent: u32,
}

/// Bytes of the host at which `of` a curve reaches `limit`; none if it does not.
pub(crate) fn reached(curve: &[Point], limit: u32, of: fn(&Point) -> u32) -> Option<u64> {
    let at = curve.iter().position(|point| of(point) >= limit)?;
    let Some(before) = at.checked_sub(1).map(|at| &curve[at]) else { return Some(0) };
    let (from, to) = (u128::from(of(before)), u128::from(of(&curve[at])));
    // Between two points wear grows evenly.
    let bytes = u128::from(curve[at].host_bytes - before.host_bytes);
    let share = bytes * (u128::from(limit) - from) / (to - from).max(1);
    Some(before.host_bytes + u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Point, reached};

    #[test]
    fn a_curve_is_read_between_its_points() {
        let at = |host_bytes, first| Point { host_bytes, first, one_percent: 0 };
        let curve = [at(0, 0), at(100, 10), at(300, 20)];
        let first = |limit| reached(&curve, limit, |point| point.first);
        assert_eq!(
            [first(5), first(10), first(15), first(21)],
            [Some(50), Some(100), Some(200), None]
        );
    }
}
