//! Results as typed columns, handed over through Arrow's C stream interface.
//!
//! An object with `__arrow_c_stream__` is read by polars, pandas and pyarrow without parsing text. The interface is the
//! `PyCapsule` interface of Arrow: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use crate::failed;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;
use study::{Cells, NamedCells, StudyResults};

/// Name that consumers expect of the capsule of a stream.
const STREAM_NAME: &std::ffi::CStr = c"arrow_array_stream";

/// A table of typed columns.
#[pyclass(frozen, module = "nandlab._native")]
pub(crate) struct Columns {
    batch: RecordBatch,
}

impl Columns {
    fn of(columns: Vec<NamedCells<'_>>) -> PyResult<Self> {
        let array = |(name, cells)| {
            let array: ArrayRef = match cells {
                Cells::Integers(values) => Arc::new(Int64Array::from(values)),
                Cells::Counts(values) => Arc::new(UInt64Array::from(values)),
                // What is no number, such as a share of nothing, is missing.
                Cells::Decimals(values) => {
                    let finite = values.into_iter().map(|value| value.is_finite().then_some(value));
                    Arc::new(finite.collect::<Float64Array>())
                }
                Cells::Words(values) => Arc::new(StringArray::from(values)),
            };
            (name, array)
        };
        let batch = RecordBatch::try_from_iter(columns.into_iter().map(array)).map_err(failed)?;
        Ok(Self { batch })
    }
}

#[pymethods]
impl Columns {
    /// The columns as a stream of one batch. `requested_schema` may be ignored, and is.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        python: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        // A batch shares its buffers with its copies.
        let batches = std::iter::once(Ok(self.batch.clone()));
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(python, stream, STREAM_NAME)
    }

    /// Rows of the table.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

/// The tables of a run of a study, by name.
#[pyclass(frozen, module = "nandlab._native")]
pub(crate) struct StudyTables {
    results: StudyResults,
}

/// Tables that every run has, before those of its workload.
const OWN_TABLES: [&str; 3] = ["rows", "derived", "curves"];

impl StudyTables {
    pub(crate) const fn of(results: StudyResults) -> Self {
        Self { results }
    }
}

#[pymethods]
impl StudyTables {
    /// Names of the tables.
    fn names(&self) -> Vec<&str> {
        let own = self.results.tables.iter().filter(|table| !table.is_empty());
        OWN_TABLES.into_iter().chain(own.map(|table| table.name)).collect()
    }

    /// The table called `name`.
    fn columns(&self, name: &str) -> PyResult<Columns> {
        let results = &self.results;
        match name {
            "rows" => Columns::of(results.row_columns()),
            "derived" => Columns::of(results.derived_columns()),
            "curves" => Columns::of(results.curve_columns()),
            _ => match results.tables.iter().find(|table| table.name == name) {
                Some(table) => Columns::of(results.table_columns(table)),
                None => Err(PyKeyError::new_err(format!(
                    "unknown table `{name}`; known: {}",
                    self.names().join(", ")
                ))),
            },
        }
    }
}
