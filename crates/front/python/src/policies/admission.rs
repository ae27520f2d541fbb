//! Admission to the write cache of a device, by a policy of the user's own.

use super::object::{Own, OwnClass, named};
use device::{Admission, AdmissionEntry, AdmissionView, OWN_ADMISSIONS};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Adds a class to the policies of admission.
#[allow(clippy::unnecessary_wraps, reason = "as every kind of policy is added")]
pub(super) fn register(name: String, class: &Bound<'_, PyType>) -> PyResult<()> {
    let class = OwnClass::new(name, class);
    let own = class.name;
    let build = move |seed: u64| -> Box<dyn Admission> {
        Box::new(OwnAdmission { own: Python::attach(|python| class.make(python, seed, ())) })
    };
    let entry = AdmissionEntry { name: own, build: Box::leak(Box::new(build)) };
    OWN_ADMISSIONS.put(own, Box::leak(Box::new(entry)));
    Ok(())
}

struct OwnAdmission {
    own: Own,
}

fn shown<'py>(python: Python<'py>, view: &AdmissionView) -> PyResult<Bound<'py, PyAny>> {
    let number = |number: u64| -> PyResult<Bound<'py, PyAny>> {
        Ok(number.into_pyobject(python)?.into_any())
    };
    let given = [
        ("now_ns", number(view.now_ns)?),
        ("sector", number(view.sector)?),
        ("sectors", number(view.sectors.into())?),
        ("waiting_sectors", number(view.waiting_sectors.into())?),
        ("used_sectors", number(view.used_sectors.into())?),
        ("capacity_sectors", number(view.capacity_sectors.into())?),
    ];
    let views = python.import("nandlab.policy.views")?;
    views.getattr("WriteView")?.call((), Some(&named(python, &given)?))
}

impl Admission for OwnAdmission {
    fn admits(&mut self, view: &AdmissionView) -> bool {
        let answer = Python::attach(|python| {
            let shown = shown(python, view);
            let answer =
                shown.and_then(|shown| self.own.bind(python).call_method1("admits", (shown,)));
            let answer = self.own.expect(python, answer);
            // No truth of other objects: a method without `return` gives None, which is a slip.
            answer.extract::<bool>().map_err(|_| answer.to_string())
        });
        answer.unwrap_or_else(|other| {
            self.own.broke(format!("admits returned `{other}`; return True or False"))
        })
    }

    fn clone_box(&self) -> Box<dyn Admission> {
        Box::new(Self { own: self.own.clone() })
    }
}
