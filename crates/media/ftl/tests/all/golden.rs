//! Golden scenarios: what every single operation of a list costs, from the data files in `golden/`.
//!
//! `W4` writes page 4, `W4-7` four pages as one request, `R4` reads, `T4` trims.
//!
//! The scenarios run on a chip that stores data; every read and a last pass over all pages check
//! the bytes.

use crate::support;

use ftl::{Ftl, Value, find_ftl};
use libtest_mimic::{Failed, Trial};
use nand::Counters;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use support::{PAGE_BYTES, build, page_bytes, small_part};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: Vec<Scenario>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    label: Label,
    #[serde(default)]
    note: String,
    ftl: String,
    pages_per_block: u32,
    blocks: u32,
    logical_pages: u32,
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
    steps: Vec<String>,
    total: Option<String>,
}

/// How sure the expected costs are; an unsure scenario that was changed says why in its note.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Label {
    Sim,
    Hand,
    Unsure,
}

pub(crate) fn trials() -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of scenarios")
        .map(|entry| entry.expect("a readable entry").path())
        .collect();
    files.sort();
    let mut trials = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let file: File =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for scenario in file.scenario {
            let name = format!("{}/{} ({:?})", scenario.ftl, scenario.name, scenario.label);
            trials.push(Trial::test(name, move || run(&scenario).map_err(Failed::from)));
        }
    }
    trials
}

fn run(scenario: &Scenario) -> Result<(), String> {
    if scenario.label == Label::Unsure && scenario.note.is_empty() {
        return Err("an unsure scenario states the reason in its note".into());
    }
    let entry = find_ftl(&scenario.ftl).ok_or_else(|| format!("no layer `{}`", scenario.ftl))?;
    let part = small_part(scenario.pages_per_block, scenario.blocks);
    let given: BTreeMap<String, Value> =
        scenario.settings.iter().map(|(name, value)| (name.clone(), setting(value))).collect();
    let mut ftl = build(entry, &part, scenario.logical_pages, &given)?;
    let mut versions = vec![0_u32; scenario.logical_pages as usize];
    for step in &scenario.steps {
        let (operations, cost) =
            step.split_once(':').ok_or_else(|| format!("no colon in `{step}`"))?;
        for operation in operations.split_whitespace() {
            let before = ftl.flash().chip().counters();
            perform(ftl.as_mut(), operation, &mut versions)?;
            let spent = ftl.flash().chip().counters() - before;
            let expected = parse_counters(cost)?;
            if spent != expected {
                return Err(format!("`{operation}` of step `{step}` cost {spent:?}"));
            }
        }
    }
    let total = ftl.flash().chip().counters();
    if let Some(expected) = &scenario.total
        && total != parse_counters(expected)?
    {
        return Err(format!("in all {total:?}, expected {expected}"));
    }
    (0..scenario.logical_pages).try_for_each(|lpn| check(ftl.as_mut(), lpn, versions[lpn as usize]))
}

fn perform(ftl: &mut dyn Ftl, operation: &str, versions: &mut [u32]) -> Result<(), String> {
    let (kind, lpn) = operation.split_at(1);
    if let Some((first, last)) = lpn.split_once('-') {
        return write_range(ftl, kind, (first, last), versions)
            .ok_or_else(|| format!("`{operation}` is no operation"))?;
    }
    let lpn: u32 = lpn.parse().map_err(|_| format!("`{operation}` is no operation"))?;
    let version = &mut versions[lpn as usize];
    match kind {
        "R" => check(ftl, lpn, *version),
        "W" => {
            *version += 1;
            ftl.write(lpn, Some(&page_bytes(lpn, *version)))
                .map_err(|error| format!("{operation}: {error}"))
        }
        "T" => {
            *version = 0;
            ftl.trim(lpn).map_err(|error| format!("{operation}: {error}"))
        }
        _ => Err(format!("`{operation}` is no operation")),
    }
}

/// What stands for the version of a page that was programmed without data: all its bits stay ones. The next version
/// is one more.
const NO_DATA: u32 = 1 << 31;

/// `W4-7`: pages 4 to 7 as one request, which has no data.
fn write_range(
    ftl: &mut dyn Ftl,
    kind: &str,
    (first, last): (&str, &str),
    versions: &mut [u32],
) -> Option<Result<(), String>> {
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let pages = versions.get_mut(first as usize..=last as usize).filter(|_| kind == "W")?;
    pages.fill(NO_DATA);
    let outcome = ftl.write_pages(first..last + 1);
    Some(outcome.map_err(|error| format!("{kind}{first}-{last}: {error}")))
}

fn check(ftl: &mut dyn Ftl, lpn: u32, version: u32) -> Result<(), String> {
    let mut bytes = [0xaa; PAGE_BYTES];
    ftl.read(lpn, Some(&mut bytes)).map_err(|error| format!("R{lpn}: {error}"))?;
    let expected = if version == NO_DATA { [0xff; PAGE_BYTES] } else { page_bytes(lpn, version) };
    if bytes == expected {
        Ok(())
    } else {
        Err(format!("page {lpn} does not hold version {version}"))
    }
}

fn parse_counters(text: &str) -> Result<Counters, String> {
    let mut counters = Counters::default();
    for word in text.split_whitespace() {
        let digits = word
            .find(|letter: char| letter.is_ascii_digit())
            .ok_or_else(|| format!("`{word}` has no count"))?;
        let count = word[digits..].parse().map_err(|_| format!("`{word}` has no count"))?;
        *match &word[..digits] {
            "RD" => &mut counters.page_reads,
            "RS" => &mut counters.spare_reads,
            "PD" => &mut counters.page_programs,
            "PS" => &mut counters.spare_programs,
            "E" => &mut counters.erases,
            other => return Err(format!("`{other}` is no counter")),
        } = count;
    }
    Ok(counters)
}

fn setting(value: &toml::Value) -> Value {
    match value {
        toml::Value::Integer(number) => Value::Integer(*number),
        toml::Value::Boolean(switch) => Value::Switch(*switch),
        toml::Value::String(word) => Value::Word(word.clone()),
        other => panic!("{other} is no setting"),
    }
}
