//! Wear levelling of the user's own.

use super::columns::narrow;
use super::object::{Own, OwnClass, named};
use crate::failed;
use ftl::Settings;
use ftl::wear::{OWN_WEAR_LEVELING, WearEntry, WearLeveling, WearView};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Adds a class to the ways of wear levelling.
pub(super) fn register(name: String, class: &Bound<'_, PyType>) -> PyResult<()> {
    let python = class.py();
    let class = OwnClass::new(name, class);
    let own = class.name;
    let interval = class.attribute(python, "interval_erases")?;
    let interval =
        interval.extract::<u64>().ok().filter(|erases| *erases > 0).ok_or_else(|| {
            failed(format!("{own}: interval_erases is `{interval}`; give a whole number from 1 on"))
        })?;
    // A class that inherits `level` moves nothing, so it is never asked.
    let interval_erases = class.overrides(python, "WearLeveling", "level")?.then_some(interval);
    let build = move |settings: &Settings| -> Box<dyn WearLeveling> {
        let own = Python::attach(|python| class.make(python, settings.seed(), ()));
        Box::new(OwnWearLeveling { own, interval_erases })
    };
    let entry = WearEntry { name: own, build: Box::leak(Box::new(build)) };
    OWN_WEAR_LEVELING.put(own, Box::leak(Box::new(entry)));
    Ok(())
}

struct OwnWearLeveling {
    own: Own,
    interval_erases: Option<u64>,
}

impl OwnWearLeveling {
    /// The answer of a method, and the same as text for a message.
    fn ask<T: for<'a, 'py> FromPyObject<'a, 'py>>(
        &self,
        method: &str,
        view: &WearView<'_>,
    ) -> Result<T, String> {
        Python::attach(|python| {
            let shown = shown(python, view);
            let answer =
                shown.and_then(|shown| self.own.bind(python).call_method1(method, (shown,)));
            let answer = self.own.expect(python, answer);
            answer.extract::<T>().map_err(|_| answer.to_string())
        })
    }
}

/// The view as Python sees it: arrays that are filled anew at every call.
fn shown<'py>(python: Python<'py>, view: &WearView<'_>) -> PyResult<Bound<'py, PyAny>> {
    let counts =
        |blocks: &[u32]| narrow(python, blocks.iter().map(|block| view.erase_count(*block)));
    let given = [
        ("free", narrow(python, view.free.iter().copied())?),
        ("free_erase_counts", counts(view.free)?),
        ("used", narrow(python, view.used.iter().copied())?),
        ("used_erase_counts", counts(view.used)?),
        ("threshold", view.threshold.into_pyobject(python)?.into_any()),
    ];
    let views = python.import("nandlab.policy.views")?;
    views.getattr("WearView")?.call((), Some(&named(python, &given)?))
}

impl WearLeveling for OwnWearLeveling {
    fn allocate(&mut self, view: &WearView) -> u32 {
        match self.ask::<u32>("allocate", view) {
            // Checked here and not in the engine: only here the message can name the class and the method.
            Ok(block) if view.free.contains(&block) => block,
            Ok(block) => self.own.broke(format!(
                "allocate returned block {block}, which is not free (view.free has {} blocks)",
                view.free.len()
            )),
            Err(other) => self.own.broke(format!(
                "allocate returned `{other}`, which is no number of a block; return one of view.free"
            )),
        }
    }

    fn level(&mut self, view: &WearView) -> Option<(u32, u32)> {
        let answer = self.ask::<Option<(u32, u32)>>("level", view).unwrap_or_else(|other| {
            self.own.broke(format!(
                "level returned `{other}`; return None, or a block of view.used and one of view.free"
            ))
        });
        let (from, to) = answer?;
        // An ascending list, as the flash collects it.
        if view.used.binary_search(&from).is_err() {
            self.own.broke(format!(
                "level returned ({from}, {to}), but block {from} is none of view.used: it has no data \
                 to move"
            ));
        }
        if !view.free.contains(&to) {
            self.own.broke(format!(
                "level returned ({from}, {to}), but block {to} is none of view.free: it can take no data"
            ));
        }
        Some((from, to))
    }

    fn interval_erases(&self) -> Option<u64> {
        self.interval_erases
    }

    fn clone_box(&self) -> Box<dyn WearLeveling> {
        Box::new(Self { own: self.own.clone(), interval_erases: self.interval_erases })
    }
}
