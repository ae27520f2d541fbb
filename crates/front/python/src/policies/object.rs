//! An object of a user's class, and what its failures come to.

use super::stream::RandomStream;
use ftl::OwnPolicyError;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// Name of a policy and its class: what a row keeps to make objects of.
pub(super) struct OwnClass {
    pub(super) name: &'static str,
    class: Py<PyType>,
}

impl OwnClass {
    /// The name lives as long as the process: rows of tables do.
    pub(super) fn new(name: String, class: &Bound<'_, PyType>) -> Self {
        Self { name: Box::leak(name.into_boxed_str()), class: class.clone().unbind() }
    }

    /// First line of the description of the class, for listings.
    pub(super) fn summary(&self, python: Python<'_>) -> &'static str {
        let text =
            self.class.bind(python).getattr("__doc__").and_then(|doc| doc.extract::<String>());
        let text = text.unwrap_or_default();
        Box::leak(text.lines().next().unwrap_or("a policy of your own").into())
    }

    /// True if the class has a method of its own where the base class `base` has one.
    pub(super) fn overrides(&self, python: Python<'_>, base: &str, method: &str) -> PyResult<bool> {
        let base = python.import("nandlab.policy")?.getattr(base)?.getattr(method)?;
        Ok(!self.class.bind(python).getattr(method)?.is(&base))
    }

    /// An attribute of the class.
    pub(super) fn attribute<'py>(
        &self,
        python: Python<'py>,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.class.bind(python).getattr(name)
    }

    /// Makes an object; its stream of random numbers is there before its `__init__` is called.
    pub(super) fn make<'py>(
        &self,
        python: Python<'py>,
        seed: u64,
        arguments: impl PyCallArgs<'py>,
    ) -> Own {
        let made = || -> PyResult<Py<PyAny>> {
            let class = self.class.bind(python);
            let object = class.call_method1("__new__", (class,))?;
            // Before `__init__`, which may draw; a class that forgets `super().__init__()` has its
            // stream all the same.
            object.setattr("random", RandomStream::new(seed, self.name))?;
            object.getattr("__init__")?.call1(arguments)?;
            Ok(object.unbind())
        };
        let object = made().unwrap_or_else(|error| leave(python, self.name, &error));
        Own { name: self.name, object }
    }
}

/// An object of a user's class.
pub(super) struct Own {
    pub(super) name: &'static str,
    object: Py<PyAny>,
}

impl Own {
    pub(super) fn bind<'py>(&self, python: Python<'py>) -> &Bound<'py, PyAny> {
        self.object.bind(python)
    }

    /// Unwraps what a method gave; an exception ends the run.
    pub(super) fn expect<T>(&self, python: Python<'_>, outcome: PyResult<T>) -> T {
        outcome.unwrap_or_else(|error| leave(python, self.name, &error))
    }

    /// Ends the run: the policy did what its contract forbids.
    pub(super) fn broke(&self, reason: impl Into<String>) -> ! {
        OwnPolicyError { policy: self.name.to_owned(), reason: reason.into() }.leave()
    }
}

impl Clone for Own {
    fn clone(&self) -> Self {
        let object = Python::attach(|python| {
            let copied = python
                .import("copy")
                .and_then(|copy| copy.call_method1("deepcopy", (self.bind(python),)));
            self.expect(python, copied).unbind()
        });
        Self { name: self.name, object }
    }
}

/// Leaves the run with what an exception says, and where it was raised.
pub(super) fn leave(python: Python<'_>, policy: &str, error: &PyErr) -> ! {
    let reason = described(python, error).unwrap_or_else(|_| error.to_string());
    OwnPolicyError { policy: policy.to_owned(), reason }.leave()
}

/// `KeyError: 5 (line 12 of my.py, in write)`.
fn described(python: Python<'_>, error: &PyErr) -> PyResult<String> {
    let Some(trace) = error.traceback(python) else { return Ok(error.to_string()) };
    let frames = python.import("traceback")?.call_method1("extract_tb", (trace,))?;
    // The innermost frame is the line that raised; those before it are calls within the policy.
    let Ok(last) = frames.get_item(-1_isize) else { return Ok(error.to_string()) };
    let part = |name: &str| -> PyResult<String> { Ok(last.getattr(name)?.str()?.to_string()) };
    Ok(format!("{error} (line {} of {}, in {})", part("lineno")?, part("filename")?, part("name")?))
}

/// Attributes given by name, for objects that are made in Python.
pub(super) fn named<'py>(
    python: Python<'py>,
    pairs: &[(&str, Bound<'py, PyAny>)],
) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(python);
    for (name, value) in pairs {
        given.set_item(name, value)?;
    }
    Ok(given)
}
