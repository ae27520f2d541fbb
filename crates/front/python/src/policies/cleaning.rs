//! Cleaning policies of the user's own.

use super::columns::{narrow, wide};
use super::object::{Own, OwnClass, named};
use crate::failed;
use ftl::Settings;
use ftl::cleaning::{OWN_POLICIES, Policy, PolicyEntry, View};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A column of the view: a number for each block that may be cleaned.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    ValidPages,
    Ages,
    EraseCounts,
}

/// Names of the columns, as `looks_at` gives them.
const COLUMNS: [(&str, Column); 3] = [
    ("valid_pages", Column::ValidPages),
    ("ages", Column::Ages),
    ("erase_counts", Column::EraseCounts),
];

/// Adds a class to the cleaning policies.
pub(super) fn register(name: String, class: &Bound<'_, PyType>) -> PyResult<()> {
    let python = class.py();
    let class = OwnClass::new(name, class);
    let asked: Vec<String> = class
        .attribute(python, "looks_at")?
        .extract()
        .map_err(|_| failed(format!("{}: looks_at is a tuple of names of columns", class.name)))?;
    let mut columns = Vec::new();
    for name in &asked {
        let found = COLUMNS.iter().find(|(known, _)| known == name).ok_or_else(|| {
            let known: Vec<&str> = COLUMNS.iter().map(|(known, _)| *known).collect();
            failed(format!(
                "{}: looks_at has no column `{name}`; known: {}",
                class.name,
                known.join(", ")
            ))
        })?;
        columns.push(*found);
    }
    let (own, summary) = (class.name, class.summary(python));
    let build = move |settings: &Settings| -> Box<dyn Policy> {
        // A seed that somebody set counts; else the policy draws by that of the study.
        let given = settings.given_integer("cleaning_seed");
        let seed = given.map_or(settings.seed(), u64::from);
        let own = Python::attach(|python| class.make(python, seed, ()));
        Box::new(OwnCleaning { own, columns: columns.clone(), numbers: Vec::new() })
    };
    let entry = PolicyEntry {
        name: own,
        summary,
        source: "a policy of your own",
        needs_valid_index: false,
        predicted_waf: None,
        build: Box::leak(Box::new(build)),
    };
    OWN_POLICIES.put(own, Box::leak(Box::new(entry)));
    Ok(())
}

struct OwnCleaning {
    own: Own,
    columns: Vec<(&'static str, Column)>,
    /// Closed blocks, in ascending order.
    numbers: Vec<u32>,
}

impl OwnCleaning {
    /// The view as Python sees it: arrays that are filled anew at every call.
    fn view<'py>(&self, python: Python<'py>, view: &View<'_>) -> PyResult<Bound<'py, PyAny>> {
        let of_each =
            |of: &dyn Fn(u32) -> u32| narrow(python, self.numbers.iter().map(|block| of(*block)));
        let mut given = vec![
            ("blocks", of_each(&|block| block)?),
            ("pages_per_block", view.pages_per_block().into_pyobject(python)?.into_any()),
        ];
        for (name, column) in &self.columns {
            let values = match column {
                Column::ValidPages => of_each(&|block| view.valid_pages(block))?,
                Column::EraseCounts => of_each(&|block| view.erase_count(block))?,
                Column::Ages => wide(python, self.numbers.iter().map(|block| view.age(*block)))?,
            };
            given.push((*name, values));
        }
        let maker = python.import("nandlab.policy.views")?;
        maker.getattr("CleaningView")?.call((), Some(&named(python, &given)?))
    }
}

impl Policy for OwnCleaning {
    fn choose(&mut self, view: &View) -> Option<u32> {
        self.numbers.clear();
        self.numbers.extend((0..view.blocks()).filter(|block| view.is_closed(*block)));
        if self.numbers.is_empty() {
            return None;
        }
        let chosen = Python::attach(|python| {
            let shown = self.view(python, view);
            let answer =
                shown.and_then(|shown| self.own.bind(python).call_method1("choose", (shown,)));
            let answer = self.own.expect(python, answer);
            // Numbers of NumPy are numbers as well: they have `__index__`.
            answer.extract::<u32>().map_err(|_| answer.to_string())
        });
        match chosen {
            // The numbers are ascending, as `choose` collected them; an open or free block would
            // break the layer much later.
            Ok(block) if self.numbers.binary_search(&block).is_ok() => Some(block),
            Ok(block) => self.own.broke(format!(
                "choose returned block {block}, which is none of those that may be cleaned \
                 (view.blocks has {})",
                self.numbers.len()
            )),
            Err(other) => self.own.broke(format!(
                "choose returned `{other}`, which is no number of a block; return one of view.blocks"
            )),
        }
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(Self { own: self.own.clone(), columns: self.columns.clone(), numbers: Vec::new() })
    }
}
