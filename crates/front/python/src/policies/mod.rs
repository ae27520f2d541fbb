//! Policies that a user writes in Python: cleaning policies, translation layers, I/O
//! schedulers, wear levelling, admission to the write cache of a device.
//!
//! Each contract of the engine has one adaptor here. It holds an object of the user's class, calls it with
//! the interpreter's lock, and checks what it answers: a policy may be wrong, and then the user wants to
//! read what it did. `nandlab.policy` has the base classes, which say the same in Python's words.
//!
//! **Determinism.** An object is made anew for every run, and copied (`copy.deepcopy`) where the engine
//! copies a device. What it draws comes from the stream that it is handed.

mod admission;
mod check;
mod cleaning;
mod columns;
mod layer;
mod object;
mod scheduler;
mod stream;
mod wear;

use crate::failed;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::wrap_pyfunction;

/// Adds a class to the table of its kind, under the name by which studies call it.
///
/// `sources` are its files, that of the class first.
///
/// # Errors
/// A kind that there is not; a class that lacks what every policy has.
#[pyfunction]
#[pyo3(signature = (kind, name, class, sources))]
fn register_policy(
    kind: &str,
    name: String,
    class: Bound<'_, PyType>,
    sources: Vec<String>,
) -> PyResult<()> {
    match kind {
        "cleaning" => cleaning::register(name.clone(), &class)?,
        "layer" => layer::register(name.clone(), &class)?,
        "scheduler" => scheduler::register(name.clone(), &class)?,
        "wear-leveling" => wear::register(name.clone(), &class)?,
        "cache-admission" => admission::register(name.clone(), &class)?,
        _ => {
            let kinds = "cleaning, layer, scheduler, wear-leveling or cache-admission";
            return Err(failed(format!("`{kind}` is no kind of policy: {kinds}")));
        }
    }
    // Of classes that were taken alone: the files of a refused one are no part of any result.
    ftl::own::note_sources(&name, sources);
    Ok(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<stream::RandomStream>()?;
    module.add_class::<scheduler::IoRequest>()?;
    module.add_class::<layer::FlashBlocks>()?;
    module.add("PowerLost", module.py().get_type::<layer::PowerLost>())?;
    module.add("DataLost", module.py().get_type::<layer::DataLost>())?;
    module.add("NoFreeBlock", module.py().get_type::<layer::NoFreeBlock>())?;
    module.add_function(wrap_pyfunction!(check::check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(register_policy, module)?)
}
