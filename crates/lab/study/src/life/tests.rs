//! Lives with gaps against full runs to the end, on small chips.

use super::curve::reached;
use super::layer::LayerStack;
use super::stack::{Lived, Stack, live};
use super::ubi::{UbiPlan, UbiStack};
use crate::ftl_device::{DeviceOptions, build_device};
use crate::replay::Replay;
use crate::requests::{Request, Requests};
use ftl::{FTLS, Value};
use random::Stream;
use trace::{AddressRule, Operation};

/// Writes of `count` pages: nine of ten in a tenth of the device.
fn skewed(pages: u32, page_bytes: u32, count: u32) -> Requests {
    let mut draw = Stream::new(7, "skewed writes");
    let mut requests = Requests::default();
    for _ in 0..count {
        let hot = pages.div_ceil(10);
        let page = if draw.below(10) < 9 { draw.below(hot) } else { hot + draw.below(pages - hot) };
        requests.requests.push(Request {
            offset_bytes: u64::from(page) * u64::from(page_bytes),
            length_bytes: page_bytes,
            file_operation: 0,
            operation: Operation::Write,
        });
    }
    requests
}

fn ends(lived: &Lived, limit: u32) -> [u64; 2] {
    let first = reached(&lived.curve, limit, |point| point.first);
    let one_percent = reached(&lived.curve, limit, |point| point.one_percent);
    [first.expect("worn out"), one_percent.expect("worn out")]
}

/// A life with gaps and a full run to the end.
pub(super) struct Pair {
    quick: Lived,
    full: Lived,
    limit: u32,
    blocks: u64,
}

pub(super) fn both(mut make: impl FnMut() -> Box<dyn Stack>, limit: u32) -> Pair {
    let blocks = make().cycles().len() as u64;
    let mut run = |has_gaps| live(make().as_mut(), limit, u64::MAX, has_gaps).expect("a life");
    Pair { quick: run(true), full: run(false), limit, blocks }
}

/// True if two numbers differ by less than a tenth.
fn is_near(one: u64, other: u64) -> bool {
    (one as f64 / other as f64 - 1.0).abs() < 0.1
}

impl Pair {
    /// What is wrong with the life with gaps, if anything.
    pub(super) fn check(&self, name: &str) -> Option<String> {
        let (quick, full) = (ends(&self.quick, self.limit), ends(&self.full, self.limit));
        // Else both may have been full runs.
        let share = self.quick.simulated_bytes as f64 / self.full.simulated_bytes as f64;
        let agree = is_near(quick[0], full[0]) && is_near(quick[1], full[1]) && share < 0.6;
        (!agree).then(|| format!("{name}: {quick:?}, not {full:?}; {share:.2} simulated"))
    }

    /// The two ends with gaps and without, and the estimate for even wear.
    pub(super) fn figures(&self) -> String {
        let (quick, full) = (ends(&self.quick, self.limit), ends(&self.full, self.limit));
        let share = self.quick.simulated_bytes as f64 / self.full.simulated_bytes as f64;
        let even = self.even() as f64 / full[0] as f64;
        format!("{quick:?}, in full {full:?}; {share:.2} simulated; even wear says {even:.2} times")
    }

    /// True if the first block ends where even wear says.
    pub(super) fn is_even(&self) -> bool {
        is_near(self.even(), ends(&self.full, self.limit)[0])
    }

    /// Bytes of the first block if all blocks wore evenly: the answer of an estimate.
    fn even(&self) -> u64 {
        let rated = u128::from(self.limit) * u128::from(self.blocks);
        (u128::from(self.full.host_bytes) * rated / u128::from(self.full.erases)) as u64
    }
}

fn options(ftl: &str, leveling: &str, threshold: i64) -> DeviceOptions {
    let settings = [
        ("wear_leveling".to_owned(), Value::Word(leveling.to_owned())),
        ("wear_threshold".to_owned(), Value::Integer(threshold)),
    ];
    DeviceOptions {
        ftl: ftl.to_owned(),
        part: Some("k9f2g08u0c".to_owned()),
        settings: settings.into(),
        blocks: Some(128),
        pages_per_block: Some(16),
        logical_bytes: Some(60 * 16 * 2048),
    }
}

fn layer(options: &DeviceOptions, requests: &'static Requests) -> Box<dyn Stack> {
    let replay = Replay::new(build_device(options).expect("a device"), AddressRule::Error);
    let mut stack = LayerStack { replay, requests };
    stack.replay.fill().expect("filled");
    Box::new(stack)
}

#[test]
fn a_life_with_gaps_ends_where_a_full_run_does_on_every_layer() {
    let requests: &'static Requests = Box::leak(Box::new(skewed(60 * 16, 2048, 400)));
    let (mut wrong, mut uneven) = (Vec::new(), 0);
    for entry in FTLS {
        for leveling in ["none", "dynamic", "static"] {
            let options = options(entry.name, leveling, 100);
            let found = both(|| layer(&options, requests), 1500);
            wrong.extend(found.check(&format!("{} {leveling}", entry.name)));
            uneven += u32::from(!found.is_even());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The check refuses a wrong answer: what even wear says is no answer for most of these lives.
    assert!(uneven > 13, "{uneven}");
}

#[test]
fn a_life_with_gaps_ends_where_a_full_run_does_on_ubi() {
    let mut part = nand::find_part("k9f2g08u0c").expect("in the catalogue");
    (part.geometry.blocks, part.geometry.pages_per_block) = (64, 4);
    let requests: &'static Requests = Box::leak(Box::new(skewed(50, 2048, 60)));
    let mut wrong = Vec::new();
    for threshold in [64, 4096] {
        let make = || -> Box<dyn Stack> {
            let plan = UbiPlan {
                part: &part,
                layout: mtd::find_layout("linux-large").expect("in the table"),
                logical_bytes: Some(30 * 4096),
                threshold: Some(threshold),
                fills_first: true,
                address: AddressRule::Error,
            };
            Box::new(UbiStack::new(&plan, requests).expect("a device"))
        };
        wrong.extend(both(make, 1500).check(&format!("ubi {threshold}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
