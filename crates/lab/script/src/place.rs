//! Where in a script something is, and in which pass of its blocks.

use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A script that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct ScriptError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the character in the line, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// The pass of a block that a command belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pass {
    /// The variable of a `for`; none for `repeat` and `every`.
    pub variable: Option<Arc<str>>,
    /// The value of the variable, or the number of the pass, from 1.
    pub number: u64,
}

impl fmt::Display for Pass {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variable {
            Some(variable) => write!(to, "{variable}={}", self.number),
            None => write!(to, "pass {}", self.number),
        }
    }
}

/// A command of a script: its place in the source, and the passes of the blocks around it.
///
/// As text it is what stands behind "line" in a message: `4`, or `4, i=17`. The column is shown of a command
/// that is not the first of its line.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the line, from 1; 0 for what no line says.
    pub line: usize,
    /// Number of the first character in the line, from 1.
    pub column: usize,
    /// Nothing stands before it in its line.
    pub is_first: bool,
    /// Passes of the blocks around it, the outermost first.
    pub passes: Vec<Pass>,
}

impl Place {
    /// The first command of a line outside of all blocks.
    pub fn of_line(line: usize) -> Self {
        Self { line, column: 1, is_first: true, passes: Vec::new() }
    }

    /// The place as it stands behind the name of a file: `4`, or `4:12 (i=17)`.
    pub fn behind_file(&self) -> String {
        let column = if self.is_first { String::new() } else { format!(":{}", self.column) };
        let passes = self.passes_text();
        let passes = if passes.is_empty() { passes } else { format!(" ({passes})") };
        format!("{}{column}{passes}", self.line)
    }

    /// The passes in words, such as `pass 3, i=17`; nothing outside of blocks.
    pub fn passes_text(&self) -> String {
        self.passes.iter().map(Pass::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.line)?;
        if !self.is_first && self.line > 0 {
            write!(to, ", column {}", self.column)?;
        }
        self.passes.iter().try_for_each(|pass| write!(to, ", {pass}"))
    }
}
