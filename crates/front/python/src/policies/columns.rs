//! Columns of numbers, as views in Python show them.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A column of numbers of 32 bits.
pub(super) fn narrow(
    python: Python<'_>,
    numbers: impl Iterator<Item = u32>,
) -> PyResult<Bound<'_, PyAny>> {
    // In the byte order of the machine, which NumPy takes as it is: one call instead of a Python
    // number for each block.
    column(python, "narrow", &numbers.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>())
}

/// A column of numbers of 64 bits.
pub(super) fn wide(
    python: Python<'_>,
    numbers: impl Iterator<Item = u64>,
) -> PyResult<Bound<'_, PyAny>> {
    column(python, "wide", &numbers.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>())
}

fn column<'py>(python: Python<'py>, maker: &str, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let views = python.import("nandlab.policy.views")?;
    views.getattr(maker)?.call1((PyBytes::new(python, bytes),))
}
