//! Means and deviations of costs over windows of consecutive requests or file operations.

use crate::metric::Metric;
use nand::{Cost, Counters};

/// Cost in the units of the published study: a program is 7 reads, an erase 63.
pub(crate) const WEIGHTS: Cost = Cost { read: 1, program: 7, erase: 63 };

/// What is measured in a window.
pub(crate) const QUANTITIES: [&str; 4] = ["reads", "writes", "erases", "weighted_time"];

/// Operations a study charges for each host page write beside the honest count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostWriteCharge {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

impl HostWriteCharge {
    /// Operations of a whole run as they are charged: chip operations, and this charge for each host page write.
    ///
    /// Layers that the study charges nothing have their own counts here, so that all can be compared.
    pub(crate) fn totals(&self, counters: Counters, host_write_pages: u64) -> Vec<Metric> {
        let reads = counters.reads() + self.reads * host_write_pages;
        let writes = counters.programs() + self.writes * host_write_pages;
        let time = weighted_time(reads, writes, counters.erases);
        let quantities = QUANTITIES.iter().zip([reads, writes, counters.erases, time]);
        quantities
            .map(|(name, total)| {
                Metric::count(format!("{CHARGED}{name}_total"), total, unit_of(name))
            })
            .collect()
    }
}

/// Before the names of metrics that count as the publication seems to.
const CHARGED: &str = "published_charging_";

/// The unit of a quantity.
fn unit_of(quantity: &str) -> &'static str {
    if quantity == "weighted_time" { "reads" } else { "operations" }
}

fn weighted_time(reads: u64, writes: u64, erases: u64) -> u64 {
    WEIGHTS.read * reads + WEIGHTS.program * writes + WEIGHTS.erase * erases
}

/// Sums over complete windows; the last, incomplete one is never closed.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    length: u64,
    started_at: u64,
    counters_before: Counters,
    write_pages_before: u64,
    charge: HostWriteCharge,
    count: u64,
    honest: [Moments; 4],
    charged: [Moments; 4],
}

/// Sum and sum of squares: integers, so that nothing depends on the order of additions.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    sum: u128,
    squares: u128,
}

impl Windows {
    /// Windows of `length` events.
    pub(crate) fn new(length: u64, charge: HostWriteCharge) -> Self {
        Self {
            length,
            started_at: 0,
            counters_before: Counters::default(),
            write_pages_before: 0,
            charge,
            count: 0,
            honest: [Moments::default(); 4],
            charged: [Moments::default(); 4],
        }
    }

    /// Takes note that `events` events are complete, and closes the window they fill.
    #[inline]
    pub(crate) fn reached(&mut self, events: u64, counters: Counters, host_write_pages: u64) {
        if events.saturating_sub(self.started_at) < self.length {
            return;
        }
        debug_assert!(self.started_at <= events, "events are numbered upwards");
        debug_assert!(self.write_pages_before <= host_write_pages, "pages are counted upwards");
        // Counters run on; a window is what was added since the last one was closed.
        let spent = counters - self.counters_before;
        let written = host_write_pages - self.write_pages_before;
        record(&mut self.honest, spent.reads(), spent.programs(), spent.erases);
        let reads = spent.reads() + self.charge.reads * written;
        let writes = spent.programs() + self.charge.writes * written;
        record(&mut self.charged, reads, writes, spent.erases);
        self.count += 1;
        self.counters_before = counters;
        self.write_pages_before = host_write_pages;
        // Windows begin at multiples of their length, even if events come in a leap.
        self.started_at = events - events % self.length;
    }

    /// Mean and sample standard deviation of every quantity, honest and charged.
    pub(crate) fn metrics(&self, prefix: &str) -> Vec<Metric> {
        let mut metrics = vec![Metric::count(format!("{prefix}windows"), self.count, "windows")];
        for (label, moments) in [("", &self.honest), (CHARGED, &self.charged)] {
            for (quantity, moments) in QUANTITIES.iter().zip(moments) {
                let unit = unit_of(quantity);
                let name = format!("{prefix}{label}{quantity}");
                metrics.push(Metric::number(
                    format!("{name}_mean"),
                    moments.mean(self.count),
                    unit,
                ));
                metrics.push(Metric::number(
                    format!("{name}_stddev"),
                    moments.stddev(self.count),
                    unit,
                ));
            }
        }
        metrics
    }
}

fn record(moments: &mut [Moments; 4], reads: u64, writes: u64, erases: u64) {
    let time = weighted_time(reads, writes, erases);
    for (moments, value) in moments.iter_mut().zip([reads, writes, erases, time]) {
        moments.sum += u128::from(value);
        moments.squares += u128::from(value) * u128::from(value);
    }
}

impl Moments {
    fn mean(&self, count: u64) -> f64 {
        if count == 0 { 0.0 } else { self.sum as f64 / count as f64 }
    }

    /// Sample standard deviation, by the exact integer n Σx² − (Σx)².
    fn stddev(&self, count: u64) -> f64 {
        // One window has no spread: the divisor of the sample deviation would be 0.
        if count < 2 {
            return 0.0;
        }
        // Never below zero, by the inequality of Cauchy and Schwarz.
        debug_assert!(u128::from(count) * self.squares >= self.sum * self.sum);
        let spread = u128::from(count) * self.squares - self.sum * self.sum;
        (spread as f64 / (count as f64 * (count - 1) as f64)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::{HostWriteCharge, Windows};
    use nand::Counters;

    #[test]
    fn totals_are_charged_for_every_page_that_the_host_wrote() {
        let counters = Counters {
            page_reads: 10,
            spare_reads: 5,
            page_programs: 100,
            spare_programs: 20,
            erases: 3,
        };
        let totals = |reads, writes| -> Vec<String> {
            let totals = HostWriteCharge { reads, writes }.totals(counters, 50);
            totals.iter().map(|metric| format!("{} {}", metric.name, metric.value)).collect()
        };
        let expected = [
            "published_charging_reads_total 115",
            "published_charging_writes_total 170",
            "published_charging_erases_total 3",
            "published_charging_weighted_time_total 1494",
        ];
        assert_eq!(totals(2, 1), expected);
        assert_eq!(totals(0, 0)[3], "published_charging_weighted_time_total 1044");
    }

    #[test]
    fn windows_close_on_their_boundary_and_the_last_partial_one_is_dropped() {
        let mut windows = Windows::new(2, HostWriteCharge { reads: 2, writes: 1 });
        for (events, programs) in [(1, 3), (2, 4), (3, 9), (4, 10), (5, 100)] {
            let counters = Counters { page_programs: programs, ..Counters::default() };
            windows.reached(events, counters, events);
        }
        let metrics = windows.metrics("");
        let value = |name: &str| {
            metrics.iter().find(|metric| metric.name == name).expect(name).value.to_string()
        };
        assert_eq!(value("windows"), "2");
        assert_eq!(value("writes_mean"), "5");
        assert_eq!(value("writes_stddev"), "1.4142135623730951");
        assert_eq!(value("published_charging_writes_mean"), "7");
        assert_eq!(value("published_charging_reads_mean"), "4");
        assert_eq!(value("weighted_time_mean"), "35");
    }
}
