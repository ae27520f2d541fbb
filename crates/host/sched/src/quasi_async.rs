//! What becomes of asynchronous requests that a task has begun to wait for.
//!
//! Write-back is asynchronous when it is submitted, because nobody waits for it. If a task begins to wait for
//! one of its pages later, the request is still served as one that nobody waits for. Jeong, Lee and Kim call
//! such a request *quasi-asynchronous*, and let the scheduler prefer it from then on.
//!
//! Each row is a way to treat them. It is a tunable of the request queue, so every scheduler has it. A queue
//! that promotes takes the request from the scheduler and inserts it again as the synchronous write that the
//! waiting task would have sent itself ([`crate::Elevator::promote`]).
//!
//! Source: D. Jeong, Y. Lee, J.-S. Kim, "Boosting Quasi-Asynchronous I/O for Better Responsiveness in Mobile
//! Devices", FAST 2015: abstract and slides. They name the waits and say that such requests are boosted over the
//! other asynchronous ones. That they become synchronous is what the first author's draft for Linux 4.7 did
//! (linux-block, 2016). Whose requests they become, and that their age begins anew, are choices of this model.

use settings::{Kind, Parameter};

/// A way to treat requests that became quasi-asynchronous.
#[derive(Debug)]
pub struct QuasiAsync {
    /// Its word in studies and after `--set quasi_async=`.
    pub name: &'static str,
    /// One line: what is promoted.
    pub summary: &'static str,
    /// Paper or choice that it stands for.
    pub source: &'static str,
    /// A request that a task waits for is promoted.
    pub promotes_waits: bool,
    /// A writer that is held for dirty pages waits for as many pages as it dirtied.
    pub promotes_throttling: bool,
}

/// All ways, sorted by name.
pub const QUASI_ASYNC: &[QuasiAsync] = &[
    QuasiAsync {
        name: "asynchronous",
        summary: "they stay what they were submitted as",
        source: "Linux 2.6.29 to 6.12, mm/filemap.c: no wait for write-back tells the block layer",
        promotes_waits: false,
        promotes_throttling: false,
    },
    QuasiAsync {
        name: "waits",
        summary: "what a task waits for becomes synchronous",
        source: "Jeong, Lee, Kim, FAST 2015",
        promotes_waits: true,
        promotes_throttling: false,
    },
    QuasiAsync {
        name: "waits-and-throttling",
        summary: "as waits, and the pages that a throttled writer owes",
        // `balance_dirty_pages` sleeps for a time and waits for no page; the paper does not list it.
        source: "Jeong, Lee, Kim, FAST 2015; dirty throttling is an extension of this model",
        promotes_waits: true,
        promotes_throttling: true,
    },
];

const NAMES: &[&str] = &{
    let mut names = [""; QUASI_ASYNC.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = QUASI_ASYNC[at].name;
        at += 1;
    }
    names
};

/// Tunables of the request queue, which it has with every scheduler.
pub const QUEUE_PARAMETERS: &[Parameter] = &[Parameter {
    name: "quasi_async",
    kind: Kind::Choice(NAMES),
    // What every kernel does.
    default: "asynchronous",
    summary: "what becomes of asynchronous requests that a task has begun to wait for",
}];

/// The way of a name, which the tunable has checked.
pub(crate) fn quasi_async(name: &str) -> &'static QuasiAsync {
    QUASI_ASYNC.iter().find(|way| way.name == name).expect("a choice of the tunable is a row")
}

#[cfg(test)]
mod tests {
    use super::{QUASI_ASYNC, QUEUE_PARAMETERS};

    #[test]
    fn the_table_is_sorted_and_has_the_default() {
        assert!(QUASI_ASYNC.windows(2).all(|pair| pair[0].name < pair[1].name));
        let default = QUEUE_PARAMETERS[0].default;
        assert!(QUASI_ASYNC.iter().any(|way| way.name == default && !way.promotes_waits));
    }
}
