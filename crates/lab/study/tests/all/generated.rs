//! Workloads without a trace, against what is known about them.

use crate::support;

use support::{Folder, HEAD, value};

fn study(kind: &str, layers: &str, more: &str) -> String {
    format!(
        "{HEAD}part = \"k9f2g08u0c\"\nblocks = 256\n[workload]\nkind = \"{kind}\"\n{more}\n[axes]\nftl = [{layers}]\n"
    )
}

#[test]
fn sequential_overwrites_copy_nothing() {
    let folder = Folder::new("sequential");
    let text = study("sequential", "\"page\", \"fast\", \"bast\"", "");
    let results = folder.run(&text).unwrap();
    for layer in ["page", "fast", "bast"] {
        assert_eq!(value(&results, layer, "waf"), "1", "{layer}");
        assert_eq!(value(&results, layer, "pages_copied"), "0", "{layer}");
    }
}

/// Greedy cleaning, N = 64, Sf = 0.125: 3.949 in closed form.
#[test]
fn uniform_writes_come_near_the_closed_form() {
    let folder = Folder::new("uniform");
    let text = study("uniform", "\"page\"", "") + "spare_percent = [12.5]\n";
    let text = text.replace("blocks = 256", "blocks = 2000");
    let results = folder.run(&text).unwrap();
    let waf: f64 = value(&results, "page", "waf").parse().unwrap();
    assert!((waf / 3.949 - 1.0).abs() < 0.02, "write amplification {waf}");
}

#[test]
fn hot_and_cold_pages_stay_on_the_device_whatever_their_shares() {
    let folder = Folder::new("hot-cold");
    for (pages_percent, writes_percent) in [(1, 100), (99, 0), (50, 50), (1, 0)] {
        let more = format!(
            "hot_pages_percent = {pages_percent}\nhot_writes_percent = {writes_percent}\nwarm_up_writes = 0\nmeasured_writes = 1"
        );
        let results = folder.run(&study("hot-cold", "\"page\"", &more)).unwrap();
        let waf: f64 = value(&results, "page", "waf").parse().unwrap();
        assert!(waf >= 1.0, "{pages_percent} {writes_percent}");
    }
    // One logical page is hot and cold at once.
    let text = study("hot-cold", "\"page\"", "capacity_bytes = 2048\nmeasured_writes = 3");
    let results = folder.run(&text).unwrap();
    assert_eq!(value(&results, "page", "host_write_pages"), "3");
    assert_eq!(results.rows.iter().next().unwrap().axes, ["page", "warmed-up"]);
}
