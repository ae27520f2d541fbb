//! The shape of the LEB properties tree: how high and wide it is, and how long its nodes are.
//!
//! Source: `fs/ubifs/lpt.c` (`do_calc_lpt_geom`). A format: uses nothing of the crate.

/// Children of a node of the LEB properties tree.
pub(crate) const LPT_FANOUT: u32 = 4;

/// Shape of the LEB properties tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LptShape {
    pub(crate) is_big: bool,
    pub(crate) height: u32,
    pub(crate) pnode_count: u32,
    pub(crate) nnode_count: u32,
    pub(crate) space_bits: u32,
    pub(crate) leb_bits: u32,
    pub(crate) offset_bits: u32,
    pub(crate) table_bits: u32,
    pub(crate) number_bits: u32,
    pub(crate) main_leb_bits: u32,
    pub(crate) pnode_bytes: u32,
    pub(crate) nnode_bytes: u32,
    pub(crate) table_bytes: u32,
    pub(crate) saved_bytes: u32,
    pub(crate) saved_count: u32,
    /// Bytes of all, with what writing wastes.
    pub(crate) total_bytes: u64,
}

/// Position of the highest bit that is set, from 1 (`fls`).
const fn bits_of(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// What the shape of the tree depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LptInput {
    pub(crate) leb_bytes: u32,
    pub(crate) min_io: u32,
    pub(crate) leb_count: u32,
    pub(crate) max_leb_count: u32,
    pub(crate) main_lebs: u32,
    pub(crate) lpt_lebs: u32,
    pub(crate) saved_count: u32,
    pub(crate) is_big: bool,
}

impl LptShape {
    pub(crate) fn new(input: LptInput) -> Self {
        const HEAD_BITS: u32 = 16 + 4;
        let LptInput { leb_bytes, lpt_lebs, is_big, .. } = input;
        let most_lebs = input.main_lebs + (input.max_leb_count - input.leb_count);
        let most_pnodes = most_lebs.div_ceil(LPT_FANOUT);
        let mut height = 1;
        while 1_u64 << (2 * height) < u64::from(most_pnodes) {
            height += 1;
        }
        let pnode_count = input.main_lebs.div_ceil(LPT_FANOUT);
        let (mut nnode_count, mut level) = (0, pnode_count);
        for _ in 0..height {
            level = level.div_ceil(LPT_FANOUT);
            nnode_count += level;
        }
        let mut shape = Self {
            is_big,
            height,
            pnode_count,
            nnode_count,
            space_bits: bits_of(leb_bytes) - 3,
            leb_bits: bits_of(lpt_lebs),
            offset_bits: bits_of(leb_bytes - 1),
            table_bits: bits_of(leb_bytes),
            number_bits: bits_of(input.max_leb_count.div_ceil(LPT_FANOUT) - 1),
            main_leb_bits: bits_of(input.max_leb_count - 1),
            saved_count: input.saved_count,
            ..Self::default()
        };
        let numbered = HEAD_BITS + if is_big { shape.number_bits } else { 0 };
        let bytes = |bits: u32| bits.div_ceil(8);
        shape.pnode_bytes = bytes(numbered + (shape.space_bits * 2 + 1) * LPT_FANOUT);
        shape.nnode_bytes = bytes(numbered + (shape.leb_bits + shape.offset_bits) * LPT_FANOUT);
        shape.table_bytes = bytes(HEAD_BITS + lpt_lebs * shape.table_bits * 2);
        shape.saved_bytes = bytes(HEAD_BITS + shape.main_leb_bits * input.saved_count);
        let saved = if is_big { shape.saved_bytes } else { 0 };
        let net = u64::from(pnode_count) * u64::from(shape.pnode_bytes)
            + u64::from(nnode_count) * u64::from(shape.nnode_bytes)
            + u64::from(shape.table_bytes + saved);
        // At the end of each eraseblock a node may not fit.
        let waste_per_leb = u64::from(shape.pnode_bytes.max(shape.nnode_bytes));
        let (mut rest, mut waste) = (net + waste_per_leb, waste_per_leb);
        while rest > u64::from(leb_bytes) {
            rest = rest + waste_per_leb - u64::from(leb_bytes);
            waste += waste_per_leb;
        }
        waste += rest.next_multiple_of(u64::from(input.min_io)) - rest;
        shape.total_bytes = net + waste;
        shape
    }

    /// Number of a node as the big model writes it into the node: the way down from the root, the
    /// first step lowest, behind a one.
    pub(crate) fn nnode_number(&self, level: usize, number: u32) -> u32 {
        let depth = self.height - 1 - level as u32;
        (0..depth).fold(1 << (2 * depth), |sum, step| {
            sum | (number >> (2 * (depth - 1 - step)) & 3) << (2 * step)
        })
    }

    /// Model, eraseblocks of the tree and of the main area for an area that both share
    /// (`calc_dflt_lpt_geom`).
    pub(crate) fn fit(mut input: LptInput, both_lebs: u32) -> Option<(Self, u32, u32)> {
        input.lpt_lebs = 2;
        input.main_lebs = both_lebs.checked_sub(2)?;
        input.is_big = false;
        let mut shape = Self::new(input);
        if shape.total_bytes > u64::from(input.leb_bytes) {
            input.is_big = true;
            shape = Self::new(input);
        }
        for _ in 0..64 {
            let needed = (shape.total_bytes * 4).div_ceil(u64::from(input.leb_bytes)) as u32;
            if needed <= input.lpt_lebs {
                return (shape.table_bytes <= input.leb_bytes).then_some((
                    shape,
                    input.lpt_lebs,
                    input.main_lebs,
                ));
            }
            input.lpt_lebs = needed;
            input.main_lebs = both_lebs.checked_sub(needed)?;
            shape = Self::new(input);
        }
        None
    }
}
