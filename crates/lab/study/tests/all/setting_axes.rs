//! Axes that are settings, and rows as typed columns.

use crate::support;

use study::{Cells, NamedCells, StudyResults};
use support::{Folder, HEAD, value};
use trace::{Operation, Record};

const UNIFORM: &str = "part = \"k9f2g08u0c\"\nblocks = 256\n[workload]\nkind = \"uniform\"\n\
    warm_up_writes = 2\nmeasured_writes = 1\n[axes]\n";

fn run(axes: &str) -> StudyResults {
    let folder = Folder::new("setting-axes");
    folder.run(&format!("{HEAD}{UNIFORM}{axes}")).unwrap()
}

/// The only value of a metric in rows with these axis values.
fn cell(results: &StudyResults, axes: &[&str], metric: &str) -> String {
    let rows = results.rows.iter().filter(|row| row.axes == axes && row.metric.name == metric);
    let values: Vec<String> = rows.map(|row| row.metric.value.to_string()).collect();
    assert_eq!(values.len(), 1, "{axes:?} {metric}: {values:?}");
    values[0].clone()
}

#[test]
fn a_setting_of_a_layer_is_an_axis() {
    let results =
        run("ftl = [\"page\"]\ncleaning = [\"greedy\", \"random\"]\nspare_percent = [20]\n");
    assert_eq!(results.columns, ["cleaning", "ftl", "spare_percent", "initial"]);
    let waf = |cleaning: &str| -> f64 {
        cell(&results, &[cleaning, "page", "20", "warmed-up"], "waf").parse().unwrap()
    };
    assert!(waf("random") > 1.5 * waf("greedy"), "{} {}", waf("random"), waf("greedy"));
    // The same as under a name of settings.
    let folder = Folder::new("named-settings");
    let named = "[settings.default.page]\ncleaning = \"random\"\n[axes]\nftl = [\"page\"]\nspare_percent = [20]\n";
    let named = folder.run(&format!("{HEAD}{}", UNIFORM.replace("[axes]\n", named))).unwrap();
    assert_eq!(value(&named, "page", "waf"), waf("random").to_string());
}

#[test]
fn an_axis_of_a_setting_changes_only_layers_that_have_it() {
    let results = run("ftl = [\"bast\", \"page\"]\nlog_blocks = [2, 8]\n");
    let erases =
        |layer: &str, log_blocks: &str| cell(&results, &[layer, log_blocks, "warmed-up"], "erases");
    assert_eq!(erases("page", "2"), erases("page", "8"));
    assert_ne!(erases("bast", "2"), erases("bast", "8"));
    // With the name of a layer in front, only that layer changes.
    let results = run("ftl = [\"bast\", \"fast\"]\nbast.log_blocks = [2, 8]\n");
    assert_eq!(results.columns, ["bast.log_blocks", "ftl", "initial"]);
    let erases =
        |layer: &str, log_blocks: &str| cell(&results, &[log_blocks, layer, "warmed-up"], "erases");
    assert_eq!(erases("fast", "2"), erases("fast", "8"));
    assert_ne!(erases("bast", "2"), erases("bast", "8"));
}

#[test]
fn the_shape_of_the_chip_is_an_axis() {
    let results = run(
        "ftl = [\"page\"]\npages_per_block = [16, 64]\nblocks = [100, 200]\nspare_percent = [50]\n",
    );
    assert_eq!(results.columns, ["blocks", "ftl", "pages_per_block", "spare_percent", "initial"]);
    for (blocks, pages_per_block) in [(100_u32, 16_u32), (100, 64), (200, 16), (200, 64)] {
        let at = [&blocks.to_string(), "page", &pages_per_block.to_string(), "50", "warmed-up"];
        // All logical pages are written once while counting.
        assert_eq!(
            cell(&results, &at, "host_write_pages"),
            (blocks * pages_per_block / 2).to_string()
        );
    }
}

/// One short run of each: random cleaning scatters by two percent.
#[test]
fn the_predicted_write_amplification_stands_beside_the_simulated_one() {
    let folder = Folder::new("predicted");
    let text = "[axes]\nftl = [\"page\"]\nspare_percent = [12.5, 28]\npages_per_block = [32, 64]\n\
                cleaning = [\"greedy\", \"fifo\", \"random\", \"d-choices\", \"cost-benefit\"]\n";
    let text = format!("{HEAD}{}", UNIFORM.replace("[axes]\n", text))
        .replace("blocks = 256", "blocks = 1000")
        .replace("warm_up_writes = 2", "warm_up_writes = 5")
        .replace("measured_writes = 1", "measured_writes = 3");
    let results = folder.run(&text).unwrap();
    let metrics = |name: &str| -> Vec<(Vec<String>, f64)> {
        let rows = results.rows.iter().filter(|row| row.metric.name == name);
        rows.map(|row| (row.axes.to_vec(), row.metric.value.to_string().parse().unwrap())).collect()
    };
    let (predicted, measured) = (metrics("predicted_waf"), metrics("waf"));
    assert_eq!((predicted.len(), measured.len()), (16, 20), "none for cost-benefit");
    for (axes, predicted) in &predicted {
        assert_ne!(axes[0], "cost-benefit");
        let (_, waf) = measured.iter().find(|(other, _)| other == axes).unwrap();
        let error = waf / predicted - 1.0;
        assert!(error.abs() < 0.03, "{axes:?}: predicted {predicted:.3}, measured {waf:.3}");
    }
    assert_eq!(
        results.rows.iter().find(|row| row.metric.name == "predicted_waf").unwrap().metric.unit,
        "ratio"
    );
}

#[test]
fn other_workloads_and_layers_have_no_prediction() {
    let folder = Folder::new("no-prediction");
    for (kind, layer) in
        [("hot-cold", "page"), ("sequential", "page"), ("uniform", "bast"), ("uniform", "dftl")]
    {
        let text = format!("{HEAD}{UNIFORM}ftl = [\"{layer}\"]\n").replace("uniform", kind);
        let results = folder.run(&text).unwrap();
        assert!(results.rows.iter().any(|row| row.metric.name == "waf"));
        let has = results.rows.iter().any(|row| row.metric.name == "predicted_waf");
        assert!(!has, "{kind} {layer}");
    }
}

#[test]
fn a_tunable_of_a_scheduler_and_a_key_of_a_device_are_axes() {
    let folder = Folder::new("tunables");
    let text = format!(
        "{HEAD}repeats = 1\n[workload]\nkind = \"jobs\"\n[host]\nboard = \"odroid-xu\"\n\
         device = \"emmc-4.5-64gb\"\nfree_bytes = 16777216\n\
         [[job]]\nname = \"readers\"\nprocesses = 2\nrw = \"randread\"\nbs = \"4k\"\nrequests = 60\nmode = \"direct\"\n\
         [[job]]\nname = \"writers\"\nprocesses = 2\nrw = \"randwrite\"\nbs = \"64k\"\nrequests = 60\nmode = \"direct\"\n\
         [axes]\n"
    );
    let axes = "scheduler = [\"noop\", \"cfq-2.6.32\"]\nslice_idle = [0, 20]\n";
    let results = folder.run(&(text.clone() + axes)).unwrap();
    let simulated = |scheduler: &str, slice_idle: &str| {
        cell(&results, &[scheduler, slice_idle], "read_latency_mean_ns")
    };
    assert_eq!(simulated("noop", "0"), simulated("noop", "20"));
    assert_ne!(simulated("cfq-2.6.32", "0"), simulated("cfq-2.6.32", "20"));
    let error =
        |axes: &str| folder.load(&format!("{text}{axes}")).err().map(|error| error.to_string());
    let message = error("scheduler = [\"noop\"]\nslice_idle = [0]\n").unwrap();
    assert!(message.contains("unknown axis `slice_idle`"), "{message}");
    let message = error("scheduler = [\"cfq-2.6.32\"]\nslice_idl = [0]\n").unwrap();
    assert!(message.contains("did you mean `slice_idle`?"), "{message}");
    let message = error("scheduler = [\"cfq-2.6.32\"]\nslice_idle = [\"long\"]\n").unwrap();
    assert!(message.contains("setting `slice_idle` is `long`"), "{message}");
    let message = error("scheduler = [\"noop\"]\n\"device.host.queue_deph\" = [1]\n").unwrap();
    assert!(message.contains("unknown key `host.queue_deph`"), "{message}");
}

fn column<'a>(columns: &'a [NamedCells<'a>], name: &str) -> &'a Cells<'a> {
    let found = columns.iter().find(|(other, _)| *other == name);
    &found.unwrap_or_else(|| panic!("no column {name}")).1
}

#[test]
fn axes_of_numbers_are_columns_of_numbers() {
    let results = run(
        "ftl = [\"page\"]\nspare_percent = [20, 7.5]\nlow_water = [2, 10]\nhot_window = [\"0\"]\n",
    );
    let columns = results.row_columns();
    let rows = results.rows.len();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "ftl",
            "hot_window",
            "low_water",
            "spare_percent",
            "initial",
            "repeat",
            "metric",
            "value",
            "count",
            "unit"
        ]
    );
    let Cells::Decimals(spare) = column(&columns, "spare_percent") else { panic!("no decimals") };
    let Cells::Integers(low_water) = column(&columns, "low_water") else { panic!("no integers") };
    // A number that the study writes as a word is a word.
    assert_eq!(*column(&columns, "hot_window"), Cells::Words(vec!["0"; rows]));
    assert_eq!(*column(&columns, "repeat"), Cells::Integers(vec![0; rows]));
    let Cells::Decimals(values) = column(&columns, "value") else { panic!("no values") };
    let Cells::Counts(counts) = column(&columns, "count") else { panic!("no counts") };
    let Cells::Words(metrics) = column(&columns, "metric") else { panic!("no metrics") };
    for (place, row) in results.rows.iter().enumerate() {
        assert_eq!(spare[place].to_string(), row.axes[3]);
        assert_eq!(low_water[place].to_string(), row.axes[2]);
        assert_eq!(metrics[place], row.metric.name);
        let shown = counts[place].map_or(values[place].to_string(), |count| count.to_string());
        assert_eq!(shown, row.metric.value.to_string());
    }
    assert!(counts.iter().any(Option::is_none) && counts.iter().any(Option::is_some));
}

#[test]
fn totals_with_the_published_charging_are_derived_and_not_in_the_rows() {
    let folder = Folder::new("derived");
    let records: Vec<Record> = (0..50)
        .map(|number| Record::new(number, Operation::Write, number % 7 * 512, 512))
        .collect();
    folder.trace("small.parquet", &records);
    let text = format!(
        "{HEAD}part = \"published-small-block\"\nblocks = 64\n[workload]\nkind = \"trace\"\n\
         file = \"small.parquet\"\npreconditioning = \"none\"\nwindow = 10\n[axes]\nftl = [\"page\", \"dftl\"]\n"
    );
    let plain = folder.run(&text).unwrap();
    assert!(plain.derived.is_empty());
    let charged = folder
        .run(&format!("{text}[published_charging]\npage = {{ reads = 2, writes = 1 }}\n"))
        .unwrap();
    let derived: Vec<String> = charged
        .derived
        .iter()
        .filter(|row| row.axes[0] == "page")
        .map(|row| format!("{} {}", row.metric.name, row.metric.value))
        .collect();
    // 50 pages are written: 50 programs and as many charged, and two reads charged for each.
    assert_eq!(
        derived,
        [
            "published_charging_reads_total 100",
            "published_charging_writes_total 100",
            "published_charging_erases_total 0",
            "published_charging_weighted_time_total 800",
        ]
    );
    let own = charged.derived.iter().filter(|row| row.axes[0] == "dftl").count();
    assert_eq!(own, 4, "layers that are charged nothing stand beside it");
    assert!(!charged.to_csv().contains("_total"));
    assert_eq!(charged.derived_columns().len(), 2 + study::ROW_COLUMNS.len());
}
