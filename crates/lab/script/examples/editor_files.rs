//! Writes the syntax files of editors: `cargo run -p script --example editor_files`.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let extras = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../extras");
    std::fs::write(extras.join("vim/syntax/nandlab-ops.vim"), script::vim_syntax())?;
    let grammar = extras.join("vscode/syntaxes/nandlab-ops.tmLanguage.json");
    std::fs::write(grammar, script::textmate_grammar())
}
