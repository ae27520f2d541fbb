//! What the server does, in Prometheus' text format, for whoever asks over HTTP.
//!
//! Source of the form: "Exposition formats", text format 0.0.4, of the documentation of Prometheus. Every request gets
//! the same answer: there is one page.

use crate::questions::Questions;
use crate::shared::{Statistics, Status};
use std::fmt::Write as _;

/// The head of a request ends with an empty line. What it asks for is not looked at.
pub(crate) const PAGES: Questions = Questions {
    bytes_max: 8 << 10,
    is_whole: |head| head.windows(4).any(|four| four == b"\r\n\r\n"),
    answer: |shared, _| {
        let page = page(&shared.status(), &shared.statistics());
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            page.len()
        );
        (head + &page).into_bytes()
    },
};

const KINDS: [&str; 4] = ["read", "write", "flush", "trim"];
const QUANTILES: [&str; 3] = ["0.5", "0.99", "1"];

/// A metric with its samples.
fn metric(page: &mut String, name: &str, kind: &str, help: &str, samples: &[(String, f64)]) {
    // Writing to text in memory does not fail.
    let _ = writeln!(page, "# HELP nandlab_{name} {help}\n# TYPE nandlab_{name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(page, "nandlab_{name}{labels} {value}");
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The whole page.
pub(crate) fn page(status: &Status, statistics: &Statistics) -> String {
    let mut page = String::new();
    let totals = &statistics.totals;
    let alone = |value: f64| vec![(String::new(), value)];
    let label = |name: &str, value: &str| format!("{{{name}=\"{value}\"}}");
    let by = |name: &str, labels: &[&str], values: &[u64]| -> Vec<(String, f64)> {
        labels.iter().zip(values).map(|(one, value)| (label(name, one), *value as f64)).collect()
    };
    let mut latencies = Vec::new();
    for (kind, points) in KINDS.iter().zip(&totals.latency_ns) {
        for (quantile, ns) in QUANTILES.iter().zip(points) {
            let labels = format!("{{operation=\"{kind}\",quantile=\"{quantile}\"}}");
            latencies.push((labels, seconds(*ns)));
        }
    }
    let lateness: Vec<_> = QUANTILES
        .iter()
        .zip(&totals.lateness_ns)
        .map(|(quantile, ns)| (label("quantile", quantile), seconds(*ns)))
        .collect();
    let mut add = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
        metric(&mut page, name, kind, help, &samples);
    };
    let operations = by("operation", &KINDS, &totals.requests);
    add("requests_total", "counter", "Requests answered.", operations);
    add("failed_total", "counter", "Requests refused or failed.", alone(totals.failed as f64));
    let moved = by("operation", &KINDS[..2], &totals.bytes);
    add("bytes_total", "counter", "Bytes read and written by clients.", moved);
    add("latency_seconds", "gauge", "Latency in simulated time since the start.", latencies);
    add("lateness_seconds", "gauge", "How late replies left, in the host's time.", lateness);
    let late = "Replies that left more than 100 us late.";
    add("late_total", "counter", late, alone(totals.late as f64));
    let names = ["page_read", "page_program", "erase"];
    let chip = by("operation", &names, &statistics.chip_operations);
    add("chip_operations_total", "counter", "Operations of all chips.", chip);
    let cleaned = alone(statistics.cleaned_blocks as f64);
    add("cleaned_blocks_total", "counter", "Blocks cleaned or merged.", cleaned);
    if let Some(amplification) = statistics.write_amplification {
        let help = "Bytes programmed for each byte written by clients.";
        add("write_amplification", "gauge", help, alone(amplification));
    }
    if let Some(free) = statistics.free_blocks {
        add("free_blocks", "gauge", "Free blocks of all dies.", alone(free as f64));
    }
    if let Some((least, mean, most)) = statistics.erases {
        let samples = [("least", f64::from(least)), ("mean", mean), ("most", f64::from(most))];
        let samples = samples.map(|(one, value)| (label("of", one), value)).to_vec();
        add("block_erases", "gauge", "Erases of a block.", samples);
    }
    add(
        "power",
        "gauge",
        "1 while the device has power.",
        alone(f64::from(u8::from(status.is_on))),
    );
    add("power_cuts_total", "counter", "Power cuts.", alone(status.cuts as f64));
    add("connections", "gauge", "Clients that are connected.", alone(status.connections as f64));
    let accepted = alone(status.accepted as f64);
    add("accepted_total", "counter", "Clients that connected since the start.", accepted);
    add("simulated_seconds", "counter", "Simulated time.", alone(seconds(status.now_ns)));
    page
}
