//! Bad studies: each gets one message that names place, reason and, where there is one, the remedy.

use crate::support;

use std::path::Path;
use study::{DeviceOptions, ExplainOptions, build_device, explain};
use support::{Folder, HEAD};
use trace::{Operation, Record};

const GOOD: &str = "part = \"published-small-block\"\nblocks = 64\nrepeats = 1\n\
    [workload]\nkind = \"uniform\"\n[axes]\nftl = [\"page\"]\n";

const TRACED: &str = "part = \"published-small-block\"\nblocks = 64\n\
    [workload]\nkind = \"trace\"\nfile = \"small.parquet\"\n[axes]\nftl = [\"page\"]\n";

const OF_KERNEL: &str = "needs_vm = true\n[workload]\nkind = \"kernel\"\n\
    [[job]]\nname = \"readers\"\nprocesses = 2\nrw = \"randread\"\nbs = \"{request_kib}k\"\n\
    requests = 10\nmode = \"direct\"\n\
    [axes]\nkernel = [\"6.12\"]\ndevice = [\"null-blk\"]\nrequest_kib = [4, 64]\n\
    scheduler = [\"none\", \"sfq\"]\n";

/// Text of a good study, what replaces what in it, and what the message says.
const STUDIES: &[(&str, &str, &str, &[&str])] = &[
    (GOOD, "repeats", "repaets", &["line 7", "unknown field `repaets`", "did you mean `repeats`?"]),
    (
        GOOD,
        "\"page\"",
        "\"pagee\"",
        &["unknown translation layer `pagee` (did you mean `page`?)", "known: bast, dftl"],
    ),
    (
        GOOD,
        "\"published-small-block\"",
        "\"k9f2g08u0x\"",
        &["unknown part `k9f2g08u0x` (did you mean `k9f2g08u0b`?)"],
    ),
    (GOOD, "\"uniform\"", "\"unifrom\"", &["unknown workload `unifrom` (did you mean `uniform`?)"]),
    (GOOD, "[axes]", "[axes]\nsettings = [\"fast\"]", &["unknown settings `fast`"]),
    (
        GOOD,
        "[axes]",
        "[axes]\ncolour = [1]",
        &[
            "axes: unknown axis `colour`; known: ftl, part, settings, spare_percent, blocks, pages_per_block",
        ],
    ),
    (
        TRACED,
        "[axes]",
        "[axes]\ncolour = [1]",
        &["unknown axis `colour`", "an axis of traces is named in workload.file as {colour}"],
    ),
    (
        GOOD,
        "[axes]",
        "[axes]\ncleanin = [1]",
        &["unknown axis `cleanin` (did you mean `cleaning`?)"],
    ),
    (GOOD, "[axes]", "[axes]\nlog_blocks = [1]", &["unknown axis `log_blocks`"]),
    (GOOD, "[axes]", "[axes]\nbast.log_blocks = [1]", &["unknown axis `bast.log_blocks`"]),
    (
        GOOD,
        "[axes]",
        "[axes]\npage.cleanin = [\"fifo\"]",
        &["unknown axis `page.cleanin` (did you mean `page.cleaning`?)"],
    ),
    (
        GOOD,
        "[axes]",
        "[axes]\ncleaning = [\"fifo\", \"gredy\"]",
        &["axes.cleaning: setting `cleaning` is `gredy`, but takes cat, cost-benefit"],
    ),
    (
        GOOD,
        "[axes]",
        "[axes]\npages_per_block = [\"some\"]",
        &["axes.pages_per_block: `some` is no whole number"],
    ),
    (GOOD, "[axes]", "[axes]\npages_per_block = [1]", &["geometry.pages_per_block must be 2 to"]),
    (
        GOOD,
        "[axes]",
        "[axes]\nchoices = { from = 2, to = 60, scale = \"log2\" }",
        &["line 11", "the range has 32 and 64, but not `to` = 60"],
    ),
    (
        GOOD,
        "[axes]",
        "[axes]\nchoices = { fro = 2, to = 60 }",
        &["line 11", "`fro` is no key of a range", "did you mean `from`?"],
    ),
    (
        GOOD,
        "[axes]",
        "[axes]\nchoices = { from = 1, to = 6000 }\nlow_water = [1, 2]",
        &["axes and repeats make 12000 runs; at most 10000 are possible"],
    ),
    (GOOD, "[axes]", "[axes]\nspare_percent = []", &["axis `spare_percent` has no values"]),
    (
        GOOD,
        "[axes]",
        "[axes]\nspare_percent = [100]",
        &["axes.spare_percent", "`100` is no percentage above 0 and below 100"],
    ),
    (GOOD, "[axes]", "[axes]\nspare_percent = [0]", &["no percentage"]),
    (GOOD, "[axes]", "[axes]\nspare_percent = [nan]", &["no percentage"]),
    (GOOD, "[axes]", "[axes]\nspare_percent = [99.99]", &["0 bytes are 0 pages"]),
    (
        GOOD,
        "[axes]",
        "[axes]\nspare_percent = [true]",
        &["a value on an axis is a number or a word"],
    ),
    (GOOD, "[\"page\"]", "[]", &["axis `ftl` has no values"]),
    (GOOD, "[\"page\"]", "[\"page\", \"page\"]", &["axes.ftl", "`page` is there twice"]),
    (GOOD, "[\"page\"]", "[\"page,bast\"]", &["\"page,bast\": no commas"]),
    (
        GOOD,
        "ftl = [\"page\"]",
        "",
        &["an axis `ftl` with at least one translation layer is missing"],
    ),
    (
        GOOD,
        "blocks = 64",
        "blocks = \"many\"",
        &["line 6", "invalid type: string \"many\", expected u32"],
    ),
    (GOOD, "blocks = 64", "blocks = 1", &["geometry.blocks must be at least 2"]),
    (
        GOOD,
        "blocks = 64",
        "blocks = 4294967295",
        &["geometry.blocks", "must stay below 2^31 pages"],
    ),
    (GOOD, "blocks = 64", "blocks = 60000000", &["too large to simulate: at most 268435456"]),
    (GOOD, "repeats = 1", "repeats = 0", &["repeats: must be at least 1"]),
    (
        GOOD,
        "repeats = 1",
        "repeats = 4000000000",
        &["make 4000000000 runs; at most 10000 are possible"],
    ),
    (GOOD, "[axes]", "window = 0\n[axes]", &["window and requests_quick must be at least 1"]),
    (
        GOOD,
        "[axes]",
        "file = \"x\"\n[axes]",
        &["kind `uniform` takes capacity_bytes, warm_up_writes, measured_writes, but not file"],
    ),
    (GOOD, "[axes]", "measured_writes = 0\n[axes]", &["measured_writes: must be at least 1"]),
    (GOOD, "[axes]", "warm_up_writes = 4000000000\n[axes]", &["at most 10000"]),
    (GOOD, "[axes]", "capacity_bytes = 0\n[axes]", &["0 bytes are 0 pages"]),
    (
        GOOD,
        "[axes]",
        "capacity_bytes = 9000000000000000000\n[axes]",
        &["9000000000000000000 bytes are", "the chip has 2048"],
    ),
    (
        GOOD,
        "[axes]",
        "capacity_bytes = 1048576\n[axes]",
        &["page needs 66 good blocks for 2048 logical pages, but the chip has 64"],
    ),
    (
        GOOD,
        "[axes]",
        "capacity_bytes = 4096\n[axes]\nspare_percent = [10]",
        &["spare_percent and workload.capacity_bytes both say"],
    ),
    (
        GOOD,
        "\"uniform\"",
        "\"hot-cold\"\nhot_pages_percent = 100",
        &["hot_pages_percent: must be 1 to 99"],
    ),
    (
        GOOD,
        "\"uniform\"",
        "\"hot-cold\"\nhot_pages_percent = 4000000000",
        &["hot_pages_percent: must be 1 to 99"],
    ),
    (
        GOOD,
        "\"uniform\"",
        "\"hot-cold\"\nhot_writes_percent = 101",
        &["hot_writes_percent: must be 0 to 100"],
    ),
    (
        GOOD,
        "[axes]",
        "[settings.default.page]\nlow_watre = 2\n[axes]",
        &["settings.default.page: unknown setting `low_watre`; known:"],
    ),
    (
        GOOD,
        "[axes]",
        "[settings.default.page]\nlow_water = 0\n[axes]",
        &["setting `low_water` is `0`, but takes 1 to 1000000"],
    ),
    (
        GOOD,
        "[axes]",
        "[settings.default.page]\nblocks = -1\n[axes]",
        &["settings.default.page: `blocks` is no number of blocks"],
    ),
    (
        GOOD,
        "[axes]",
        "[settings.default.page]\nblocks = 5000000000\n[axes]",
        &["`blocks` is no number of blocks"],
    ),
    (
        GOOD,
        "[axes]",
        "[settings.default.page]\nlow_water = 1.5\n[axes]",
        &["a setting is true, false, a whole number or a word"],
    ),
    (
        GOOD,
        "[axes]",
        "[settings.default.pagee]\n[axes]",
        &["unknown translation layer `pagee` (did you mean `page`?)"],
    ),
    (
        GOOD,
        "[axes]",
        "[published_charging]\npage = { reads = 9000000000000000000, writes = 0 }\n[axes]",
        &["published_charging", "at most 1000"],
    ),
    (GOOD, "seed = 1", "seed = -1", &["invalid value: integer `-1`, expected u64"]),
    (
        GOOD,
        "seed = 1",
        "axis_order = [\"ftll\"]\nseed = 1",
        &["unknown axis in axis_order `ftll` (did you mean `ftl`?)"],
    ),
    (
        TRACED,
        "small.parquet",
        "smal.parquet",
        &["workload.file: there is no trace", "smal.parquet"],
    ),
    (TRACED, "file = \"small.parquet\"", "", &["workload: kind `trace` needs `file`"]),
    (
        TRACED,
        "[axes]",
        "preconditioning = \"imagee\"\n[axes]",
        &["unknown variant `imagee`", "did you mean `image`?"],
    ),
    (
        TRACED,
        "small.parquet\"\n[axes]",
        "{value}.parquet\"\n[axes]\nvalue = [\"small\"]",
        &["`value` cannot be the name of a column"],
    ),
    (
        GOOD,
        "[axes]",
        "[[also]]\naxes = {}\n[axes]",
        &["line 10", "key `also` is now called `extra_runs`: rename it"],
    ),
    (
        GOOD,
        "[axes]",
        "[rooms.small]\nram_mib = 8\n[axes]",
        &["line 10", "key `rooms` is now called `limits`: rename it"],
    ),
    (
        GOOD,
        "[axes]",
        "[limits.small]\nram_mib = 8\n[axes]",
        &["limits: means nothing to workload kind `uniform`"],
    ),
    (
        GOOD,
        "[axes]",
        "[[extra_runs]]\naxes = { ftll = [\"bast\"] }\n[axes]",
        &["extra_runs.axes: the study has no axis `ftll` (did you mean `ftl`?); its axes are ftl"],
    ),
    (
        GOOD,
        "[axes]",
        "[[extra_runs]]\naxes = { blocks = [64] }\n[axes]",
        &["extra_runs.axes: the study has no axis `blocks`", "add `blocks` to [axes]"],
    ),
    (
        GOOD,
        "[axes]",
        "[[extra_runs]]\naxes = { ftl = [] }\n[axes]",
        &["extra_runs.axes.ftl: has no values"],
    ),
    (
        GOOD,
        "[axes]",
        "[[extra_runs]]\naxes = { ftl = [\"a,b\"] }\n[axes]",
        &["extra_runs.axes.ftl: \"a,b\": no commas"],
    ),
    (
        GOOD,
        "[axes]",
        "[quick_form]\naxes = { ftll = [\"bast\"] }\n[axes]",
        &["quick_form.axes: the study has no axis `ftll` (did you mean `ftl`?)"],
    ),
    (OF_KERNEL, "needs_vm = true", "", &["needs_vm: workload kind `kernel` needs"]),
    (OF_KERNEL, "\"sfq\"", "\"kybr\"", &["unknown scheduler `kybr` (did you mean `kyber`?)"]),
    (OF_KERNEL, "6.12", "6.13", &["unknown kernel `6.13`", "known: 6.1, 6.12"]),
    (OF_KERNEL, "null-blk", "nullblk", &["unknown device `nullblk` (did you mean `null-blk`?)"]),
    (OF_KERNEL, "kernel = [\"6.12\"]\n", "", &["an axis `kernel` is missing", "6.1, 6.12"]),
    (OF_KERNEL, "scheduler = [\"none\", \"sfq\"]", "", &["an axis `scheduler`"]),
    (OF_KERNEL, "request_kib = [", "request_kb = [", &["unknown axis `request_kb`"]),
    (OF_KERNEL, "[4, 64]", "[2]", &["job readers: bs is 2048, but must be a multiple of 4096"]),
    (OF_KERNEL, "randread", "randrw", &["job readers: in a study of kind `kernel` a job only"]),
    (OF_KERNEL, "direct\"", "direct\"\niodepth = 4", &["job readers: in a study of kind"]),
    (OF_KERNEL, "direct\"", "drect\"", &["unknown mode `drect` (did you mean `direct`?)"]),
    (OF_KERNEL, "processes = 2", "processes = 300", &["300 processes; at most 256"]),
    (OF_KERNEL, "requests = 10", "requests = 1000000", &["2000000 requests in a run"]),
    (
        OF_KERNEL,
        "[axes]",
        "[host]\nboard = \"odroid-xu\"\nfree_bytes = 1048576\n[axes]",
        &["host: workload kind `kernel` does not take it"],
    ),
    (OF_KERNEL, "[workload]", "[workload]\ncapacity_bytes = 4096", &["but not capacity_bytes"]),
];

#[test]
fn every_bad_study_is_refused_with_its_message() {
    let folder = Folder::new("bad-studies");
    folder.trace("small.parquet", &[Record::new(0, Operation::Write, 0, 512)]);
    let mut wrong = Vec::new();
    for (base, from, to, parts) in STUDIES {
        let good = format!("{HEAD}{base}");
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        match folder.load(&text) {
            Ok(_) => wrong.push(format!("accepted: {to}")),
            Err(error) => {
                let message = error.to_string();
                let missing: Vec<&&str> =
                    parts.iter().filter(|part| !message.contains(**part)).collect();
                if !missing.is_empty() || !message.contains("study.toml") {
                    wrong.push(format!("{to}\n  missing {missing:?} in: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_good_studies_are_good() {
    let folder = Folder::new("good-studies");
    folder.trace("small.parquet", &[Record::new(0, Operation::Write, 0, 512)]);
    for base in [GOOD, TRACED] {
        folder.run(&format!("{HEAD}{base}")).unwrap();
    }
}

#[test]
fn the_shipped_studies_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path().join("study.toml");
        for quick in [false, true] {
            let study = study::load(&file, &[], None, quick)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(!study.runs().unwrap().is_empty(), "{}", study.name);
            names.push(study.name);
        }
    }
    assert!(names.len() >= 12, "{names:?}");
}

#[test]
fn a_study_of_a_real_kernel_is_planned_but_not_run_here() {
    let folder = Folder::new("of-kernel");
    let study = folder.load(&format!("{HEAD}{OF_KERNEL}")).unwrap();
    assert_eq!(study.columns(), ["device", "kernel", "request_kib", "scheduler"]);
    assert_eq!(study.runs().unwrap().len(), 4);
    let error = folder.run(&format!("{HEAD}{OF_KERNEL}")).unwrap_err().to_string();
    assert!(error.contains("runs in a virtual machine, which `nandlab run` starts"), "{error}");
}

#[test]
fn overrides_are_checked_as_the_file_is() {
    let folder = Folder::new("overrides");
    let path = folder.write("study.toml", &format!("{HEAD}{GOOD}"));
    let load = |given: &str| study::load(&path, &[given.to_owned()], None, false);
    let cases = [
        ("blocks", "--set blocks: write it as key=value, with dots between the levels of the key"),
        ("=5", "--set =5: the key, or a level of it, is empty"),
        ("workload..kind=uniform", "the key, or a level of it, is empty"),
        ("blocks.more=1", "part of the key names a value, not a table"),
        ("repaets=2", "did you mean `repeats`?"),
        ("repeats=two", "invalid type: string \"two\", expected u32"),
        ("axes.ftl=pagee", "did you mean `page`?"),
        ("axes.ftl=page,pagee", "did you mean `page`?"),
        ("axes.ftl=", "unknown translation layer"),
        ("workload.kind=5", "expected a string"),
        ("rooms.small.ram_mib=8", "key `rooms` is now called `limits`: rename it"),
        ("axes.ftl=[\"bast\"", "begins as TOML and is none"),
        ("axes.ftl=[\"bast\"]\nrepeats = 2", "begins as TOML and is none"),
    ];
    for (given, message) in cases {
        let error = load(given).err().unwrap_or_else(|| panic!("accepted: {given}")).to_string();
        // An empty word is refused as a cell before it is looked up as a layer.
        assert!(error.contains(message) || given == "axes.ftl=", "{given}: {error}");
    }
    assert_eq!(load("axes.ftl=bast, dftl").unwrap().runs().unwrap().len(), 2);
    assert_eq!(load("axes.ftl=['bast', 'dftl', 'page']").unwrap().runs().unwrap().len(), 3);
    let extra = "extra_runs=[{axes = {ftl = ['dftl', 'bast']}}]";
    assert_eq!(
        load(extra).unwrap().runs().unwrap().len(),
        load("extra_runs=[]").unwrap().runs().unwrap().len() + 2
    );
    let axis = |given: &str, axis: &str| {
        let study = load(given).unwrap_or_else(|error| panic!("{given}: {error}"));
        let found = study.axes.get(axis).unwrap_or_else(|| panic!("{given}: no axis {axis}"));
        format!("{found:?}")
    };
    assert_eq!(axis("axes.spare_percent=7,12.5", "spare_percent"), "[Number(7), Decimal(12.5)]");
    assert_eq!(axis("axes.spare_percent=20", "spare_percent"), "[Number(20)]");
    let range = "axes.choices={from = 2, to = 8, scale = \"log2\"}";
    assert_eq!(axis(range, "choices"), "[Number(2), Number(4), Number(8)]");
    assert_eq!(axis("axes.page.choices=2,4", "page.choices"), "[Number(2), Number(4)]");
    assert_eq!(axis("axes.settings.page.choices=2", "page.choices"), "[Number(2)]");
    let kernel = folder.write("kernel.toml", &format!("{HEAD}{OF_KERNEL}"));
    let study = study::load(&kernel, &["axes.kernel=6.1,6.12".to_owned()], None, false).unwrap();
    assert_eq!(format!("{:?}", study.axes["kernel"]), "[Word(\"6.1\"), Word(\"6.12\")]");
    assert_eq!(load("settings.default.page.low_water=2").unwrap().runs().unwrap().len(), 1);
}

#[test]
fn a_million_values_are_refused_not_tried() {
    let folder = Folder::new("million");
    let values: Vec<String> = (0..1_000_000).map(|value| value.to_string()).collect();
    let text = format!("{HEAD}{GOOD}spare_percent = [{}]\n", values.join(","));
    let error = folder.load(&text).unwrap_err().to_string();
    assert!(error.contains("make 1000000 runs; at most 10000 are possible"), "{error}");
    let names: Vec<String> = (0..40).map(|axis| format!("a{axis}")).collect();
    let file = format!("file = \"{{{}}}.parquet\"", names.join("}{"));
    let axes = names.join(" = [1, 2, 3, 4]\n") + " = [1, 2, 3, 4]\n";
    let text = format!("{HEAD}{}{axes}", TRACED.replace("file = \"small.parquet\"", &file));
    let error = folder.load(&text).unwrap_err().to_string();
    assert!(error.contains("at most 10000 are possible"), "{error}");
}

#[test]
fn an_address_past_the_end_names_run_and_request() {
    let folder = Folder::new("past-the-end");
    let records =
        [Record::new(0, Operation::Write, 0, 512), Record::new(1, Operation::Write, 1 << 40, 512)];
    folder.trace("small.parquet", &records);
    let error = folder.run(&format!("{HEAD}{TRACED}")).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "run `page image-and-pass` failed after 0 of 1 runs were done: \
             request 2 (write of 512 bytes at byte 1099511627776): past the end of the device of"
        ),
        "{error}"
    );
}

#[test]
fn devices_and_explanations_are_checked() {
    let device = |change: fn(&mut DeviceOptions)| {
        let mut options =
            DeviceOptions { ftl: "page".into(), blocks: Some(64), ..DeviceOptions::default() };
        change(&mut options);
        build_device(&options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(device(|_| ()), "");
    assert!(
        device(|options| options.blocks = Some(0)).contains("geometry.blocks must be at least 2")
    );
    assert!(
        device(|options| options.blocks = Some(2))
            .contains("page needs 3 good blocks for 1 logical pages")
    );
    assert!(
        device(|options| options.logical_bytes = Some(u64::MAX)).contains("and the chip has 4096")
    );
    assert!(device(|options| options.part = Some(".".into())).contains("directory"));
    let cases = [
        ("W", 4, None, None, "write W5 (write page 5)"),
        ("X1", 4, None, None, "operation `X1`"),
        ("W99999999999", 4, None, None, "operation `W99999999999`"),
        ("W0", 0, None, None, "--pages-per-block: geometry.pages_per_block must be 2 to 16384"),
        ("W0", 4, Some(0), None, "0 logical pages are impossible"),
        ("W0", 4, Some(u32::MAX), None, "4294967295 are too many to show"),
        ("W0", 4, None, Some(0), "--blocks: geometry.blocks must be at least 2"),
        ("W0", 4, None, Some(400_000_000), "--blocks: 400000000 are too many to show"),
    ];
    for (operations, pages_per_block, logical_pages, blocks, message) in cases {
        let settings = std::collections::BTreeMap::new();
        let options = ExplainOptions { pages_per_block, logical_pages, blocks, settings };
        let error = explain("page", operations, &options).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(study::listing("part").unwrap_err().to_string().contains("did you mean `parts`?"));
}
