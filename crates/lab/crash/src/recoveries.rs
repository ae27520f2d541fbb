//! Cuts within recoveries: which of them are made.

use crate::guarantee::{TornModel, find_torn_model};
use random::Stream;
use std::fmt;
use std::str::FromStr;

/// A cut while the mount after a cut changes the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Then {
    /// Operations by which the mount had changed the medium before the one that is torn.
    pub cut_point: u64,
    /// What is left of that operation.
    pub torn: &'static TornModel,
}

impl fmt::Display for Then {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.cut_point, self.torn.name)
    }
}

impl FromStr for Then {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let found = parts.and_then(|(cut, torn)| Some((cut.parse().ok()?, find_torn_model(torn)?)));
        let (cut_point, torn) = found.ok_or_else(|| {
            format!(
                "`{text}` is no cut of a recovery: write it as 3:prefix, a number and a torn model"
            )
        })?;
        Ok(Self { cut_point, torn })
    }
}

/// Cuts within recoveries in one word each, in their order.
pub fn spelled(then: &[Then]) -> String {
    let words: Vec<String> = then.iter().map(Then::to_string).collect();
    words.join(" ")
}

/// Which cuts are made while the mount after a cut changes the medium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Recoveries {
    /// None.
    #[default]
    None,
    /// One at operations of the mount in each torn model, and so on in the recovery from it, to this depth.
    Each {
        /// 1 for the mount after a cut, 2 also for the mount after a cut of that mount.
        depth: usize,
        /// Operations of a mount, spread over all of them.
        most: usize,
    },
    /// One at a drawn operation in a drawn torn model, and so on to this depth.
    Drawn {
        /// As of `Each`; with 0 mounts are watched and not cut.
        depth: usize,
        /// Seed of the draws.
        seed: u64,
    },
    /// The first in the mount after the cut, each other one in the mount after the one before.
    Only(Vec<Then>),
}

impl Recoveries {
    /// True if the mounts after cuts are watched.
    pub(crate) fn is_some(&self) -> bool {
        *self != Self::None
    }

    /// The cuts of a mount that changes the medium so often. `before` are the cuts that led to it, the first of
    /// them that of the script.
    pub(crate) fn chosen(
        &self,
        before: &[Then],
        operations: usize,
        models: &[&'static TornModel],
    ) -> Vec<Then> {
        let depth = before.len();
        if operations == 0 {
            return Vec::new();
        }
        let all = |cut_point| models.iter().map(move |torn| Then { cut_point, torn });
        match self {
            Self::Each { depth: deepest, most } if depth <= *deepest => {
                (0..operations as u64).step_by(operations.div_ceil(*most)).flat_map(all).collect()
            }
            Self::Drawn { depth: deepest, seed } if depth <= *deepest => {
                // A draw of its own for each recovery: how many there are changes none of the others.
                let mut draw = Stream::new(*seed, &spelled(before));
                let cut_point = u64::from(draw.below(operations as u32));
                let torn = models[draw.below(models.len() as u32) as usize];
                vec![Then { cut_point, torn }]
            }
            Self::Only(then) => {
                let meant = then.get(depth - 1);
                meant
                    .filter(|then| then.cut_point < operations as u64)
                    .copied()
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Recoveries, Then, spelled};
    use crate::guarantee::{TORN_MODELS, TornModel};

    fn then(text: &str) -> Then {
        text.parse().expect("a cut")
    }

    #[test]
    fn cuts_of_a_recovery_are_chosen_by_their_depth() {
        let models: Vec<&'static TornModel> = TORN_MODELS.iter().collect();
        let chosen = |recoveries: &Recoveries, before: &[Then], operations| {
            spelled(&recoveries.chosen(before, operations, &models))
        };
        let (one, two) = ([then("5:nothing")], [then("5:nothing"), then("1:prefix")]);
        let all = Recoveries::Each { depth: 1, most: usize::MAX };
        let some = Recoveries::Each { depth: 1, most: 1 };
        let six = "0:nothing 0:prefix 0:data-only 1:nothing 1:prefix 1:data-only";
        assert_eq!(chosen(&all, &one, 2), six);
        assert_eq!(chosen(&some, &one, 2), "0:nothing 0:prefix 0:data-only");
        assert_eq!(chosen(&all, &two, 2), "", "the second mount is not cut");
        assert_eq!(chosen(&Recoveries::None, &one, 2), "");
        let only = Recoveries::Only(vec![then("1:prefix"), then("0:nothing")]);
        assert_eq!(chosen(&only, &one, 2), "1:prefix");
        assert_eq!(chosen(&only, &one, 1), "", "the mount does less");
        assert_eq!(chosen(&only, &two, 1), "0:nothing");
        let drawn = |seed| Recoveries::Drawn { depth: 2, seed };
        assert_eq!(chosen(&drawn(1), &one, 0), "");
        let of_seeds: std::collections::BTreeSet<String> =
            (0..100).map(|seed| chosen(&drawn(seed), &two, 2)).collect();
        assert_eq!(of_seeds.len(), 6, "{of_seeds:?}");
        assert_eq!(chosen(&drawn(7), &two, 9), chosen(&drawn(7), &two, 9));
    }

    #[test]
    fn a_cut_of_a_recovery_is_a_number_and_a_torn_model() {
        assert_eq!(then("12:data-only").to_string(), "12:data-only");
        for wrong in ["12", "12:", ":prefix", "12:torn", "x:prefix"] {
            let error = wrong.parse::<Then>().expect_err(wrong);
            assert!(error.starts_with(&format!("`{wrong}` is no cut")), "{error}");
        }
    }
}
