//! Failing scripts that are made smaller, and the search for such scripts.

use crate::boundary::{carry_out, tell};
use crate::crash::{Arguments, told};
use crate::{NandlabError, failed};
use crash::{Bench, CrashError, Minimised, Minimising, SearchPlan, SearchState, minimise, search};
use file_systems::find_kind;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// What `minimise_script` answers.
#[derive(Serialize)]
struct Smaller {
    /// The lines, behind those of the head.
    text: String,
    failure: crash::Failure,
    /// What failed, in a word or two.
    name: String,
    tried: u64,
    /// Lines that the head must have.
    head_lines: usize,
    interrupted: bool,
}

/// Makes a script smaller that fails at the cuts of `arguments_json`; the answer is JSON, `null` if it does not fail.
///
/// `progress(tried, lines, label)` may raise to stop it, and so may a signal handler.
#[pyfunction]
pub(crate) fn minimise_script(
    python: Python<'_>,
    shown: String,
    text: String,
    arguments_json: &str,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let arguments: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let work = move || {
        let bench = bench(&arguments).map_err(NandlabError::new_err)?;
        let cuts = arguments.cuts().map_err(NandlabError::new_err)?;
        let mut told_of = |state: Minimising| tell(&progress, state.tried, state.lines, "");
        let found = minimise(&bench, &text, &cuts, None, &mut told_of);
        let found = found.map_err(|error| NandlabError::new_err(told(&shown, error)))?;
        let smaller = found.map(|Minimised { text, failure, tried, interrupted }| Smaller {
            name: failure.kind.name(),
            text,
            failure,
            tried,
            head_lines: crash::HEAD_LINES,
            interrupted,
        });
        serde_json::to_string(&smaller).map_err(failed)
    };
    // After a signal the smallest script so far is the answer.
    carry_out(python, work)?.part()
}

/// Options of `search_scripts`, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Scripts to run; none to go on until the callable answers false.
    runs: Option<u64>,
    /// How deep recoveries are cut.
    depth: usize,
    /// Scripts of earlier searches.
    corpus: Vec<String>,
}

/// Searches for scripts that break a guarantee; the outcome as JSON.
///
/// `progress(state)` gets the state as JSON and answers whether the search goes on. It may raise to stop it, and so
/// may a signal handler.
#[pyfunction]
pub(crate) fn search_scripts(
    python: Python<'_>,
    arguments_json: &str,
    asked_json: &str,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let arguments: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let Asked { runs, depth, corpus } = serde_json::from_str(asked_json).map_err(failed)?;
    let work = move || {
        let bench = bench(&arguments).map_err(NandlabError::new_err)?;
        let kind =
            find_kind(&arguments.fs).map_err(|error| NandlabError::new_err(error.to_string()))?;
        let has_owners_and_links = kind.has_owners_and_links;
        let plan = SearchPlan { seed: arguments.seed, runs, depth, has_owners_and_links };
        let mut told_of = |state: &SearchState<'_>| goes_on(&progress, state);
        let outcome = search(&bench, &plan, &corpus, &mut told_of);
        let of_corpus = |error: CrashError| NandlabError::new_err(told("the corpus", error));
        serde_json::to_string(&outcome.map_err(of_corpus)?).map_err(failed)
    };
    carry_out(python, work)?.part()
}

/// Tells of a state; an exception asks the work to stop.
fn goes_on(progress: &Py<PyAny>, state: &SearchState<'_>) -> bool {
    let answer = serde_json::to_string(state).map_err(failed).and_then(|text| {
        Python::attach(|python| progress.call1(python, (text,))?.extract::<bool>(python))
    });
    answer.unwrap_or_else(|_| {
        cancellation::request();
        false
    })
}

fn bench(arguments: &Arguments) -> Result<Bench, String> {
    let found = arguments.bench()?;
    if found.has_image {
        return Err("--image: scripts are made smaller on a blank medium; omit the option".into());
    }
    Ok(Bench { chip: found.chip, setup: found.setup, workers: arguments.workers })
}
