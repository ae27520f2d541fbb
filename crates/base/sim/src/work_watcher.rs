//! What is told of the work of tasks.

/// Is told of the work of all tasks of a simulation.
///
/// Pieces of work of one task nest: what begins last ends first.
pub trait WorkWatcher {
    /// A task begins a piece of work at `now_ns`. `task` is its number, which no live task shares, `name` its name.
    fn begins(&self, task: u64, name: &str, what: &'static str, now_ns: u64);

    /// A task ends at `now_ns` what it began last.
    fn ends(&self, task: u64, now_ns: u64);
}

/// The number and the name of a task, if it is one.
pub(crate) type Running = Option<(u64, String)>;
