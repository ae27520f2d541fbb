//! Cells of a study: one by one for a worker, and the place where finished ones are kept.

use crate::boundary::interruptible;
use crate::failed;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A Python object with `take(key)`, `refuse(key)`, `keep(key, result)`, `engine` and `is_all`.
pub(crate) struct PythonStore {
    store: Py<PyAny>,
    engine: String,
    is_all: bool,
}

impl PythonStore {
    /// # Errors
    /// An object that lacks `engine` or `is_all`.
    pub(crate) fn of(python: Python<'_>, store: Py<PyAny>) -> PyResult<Self> {
        let engine = store.getattr(python, "engine")?.extract(python)?;
        let is_all = store.getattr(python, "is_all")?.extract(python)?;
        Ok(Self { store, engine, is_all })
    }
}

impl study::CellStore for PythonStore {
    fn engine(&self) -> &str {
        &self.engine
    }

    fn take(&mut self, key: &str) -> Option<Vec<u8>> {
        // A store that fails holds nothing: the cell is run.
        Python::attach(|python| {
            let found = self.store.call_method1(python, "take", (key,)).ok()?;
            found.extract::<Option<Vec<u8>>>(python).ok()?
        })
    }

    fn refuse(&mut self, key: &str) {
        Python::attach(|python| {
            let _ = self.store.call_method1(python, "refuse", (key,));
        });
    }

    fn keep(&mut self, key: &str, result: &[u8]) {
        // The results are in this process as well: a store that fails takes nothing from the run.
        Python::attach(|python| {
            let result = PyBytes::new(python, result);
            let _ = self.store.call_method1(python, "keep", (key, result));
        });
    }

    fn is_all(&self) -> bool {
        self.is_all
    }
}

/// A study whose cells are carried out one by one, in any order and any process.
#[pyclass(frozen)]
pub(crate) struct CellWorker {
    worker: Arc<study::CellWorker>,
}

#[pymethods]
impl CellWorker {
    /// `moved` has places of files by the names that the study has for them; `engine` is part of each key.
    #[new]
    fn new(
        python: Python<'_>,
        path: PathBuf,
        sets: Vec<String>,
        seed: Option<u64>,
        quick: bool,
        moved: Vec<(String, PathBuf)>,
        engine: String,
    ) -> PyResult<Self> {
        let moved: BTreeMap<_, _> = moved.into_iter().collect();
        let load = move || {
            let study = study::load_moved(&path, &sets, seed, quick, moved).map_err(failed)?;
            study::CellWorker::new(&study, &engine).map_err(failed)
        };
        Ok(Self { worker: Arc::new(interruptible(python, load)?) })
    }

    /// Key, number of runs and label of each cell, in the order of the plan, as JSON.
    fn cells(&self) -> String {
        json!(self.worker.cells()).to_string()
    }

    /// Name in the study and path of each file that the cells read, as JSON.
    fn files(&self) -> String {
        json!(self.worker.files()).to_string()
    }

    /// Mounts every stack once.
    fn check_mounts(&self, python: Python<'_>) -> PyResult<()> {
        let worker = Arc::clone(&self.worker);
        interruptible(python, move || worker.check_mounts().map_err(failed))
    }

    /// Carries out cells one after the other; the results of those before an error, and that error.
    ///
    /// One call for many: a call has a thread of its own, which costs more than the smallest cells.
    fn run_cells<'p>(
        &self,
        python: Python<'p>,
        numbers: Vec<usize>,
    ) -> PyResult<(Vec<Bound<'p, PyBytes>>, Option<String>)> {
        let worker = Arc::clone(&self.worker);
        let (results, error) = interruptible(python, move || {
            let mut results = Vec::new();
            for number in numbers {
                match worker.run_cell(number) {
                    Ok(Some(result)) => results.push(result),
                    Ok(None) => return Err(PyKeyboardInterrupt::new_err(())),
                    Err(error) => return Ok((results, Some(error.to_string()))),
                }
            }
            Ok((results, None))
        })?;
        Ok((results.iter().map(|result| PyBytes::new(python, result)).collect(), error))
    }
}
