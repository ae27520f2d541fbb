//! The stream of random numbers that a policy is handed.

use crate::failed;
use nand::random::Stream;
use pyo3::prelude::*;

/// A stream of random numbers, the same for the same seed on every machine.
///
/// It is the engine's own generator (xoshiro256++), which no version of Python changes.
#[pyclass(module = "nandlab.policy", name = "RandomStream")]
#[derive(Clone)]
pub(crate) struct RandomStream(Stream);

impl RandomStream {
    pub(super) fn new(seed: u64, name: &str) -> Self {
        Self(Stream::new(seed, name))
    }
}

#[pymethods]
impl RandomStream {
    /// A whole number from 0 up to, not including, `bound`.
    fn below(&mut self, bound: u32) -> PyResult<u32> {
        if bound == 0 {
            return Err(failed("below(0): there is no number below 0"));
        }
        Ok(self.0.below(bound))
    }

    /// A number from 0 up to, not including, 1.
    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A copy goes on with the same numbers.
    fn __deepcopy__(&self, _memo: Bound<'_, PyAny>) -> Self {
        self.clone()
    }

    fn __copy__(&self) -> Self {
        self.clone()
    }
}
