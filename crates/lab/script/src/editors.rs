//! The table of commands as text for others: the tables of the manual, and syntax files of editors.

use crate::commands::{COMMANDS, Group};
use std::fmt::Write as _;

/// Headings of the tables of the manual, and the groups that each of them holds.
const TABLES: [(&str, &[Group]); 4] = [
    ("call", &[Group::Call]),
    ("call on an open file", &[Group::Descriptor]),
    ("block or prefix", &[Group::Block, Group::Prefix]),
    ("line for the harness", &[Group::Harness]),
];

/// The table of the manual that holds a group of commands; `docs/scripts.md` has each as it is.
pub fn commands_in_markdown(group: Group) -> String {
    let found = TABLES.iter().find(|(_, groups)| groups.contains(&group));
    let Some((heading, groups)) = found else { return String::new() };
    let mut text = format!("| {heading} | does |\n|---|---|\n");
    // In the order of the table: a reader looks a name up.
    for row in COMMANDS.iter().filter(|row| groups.contains(&row.group)) {
        let forms: Vec<String> = row.forms.iter().map(|form| format!("`{form}`")).collect();
        let _ = writeln!(text, "| {} | {} |", forms.join(", "), row.does);
    }
    text
}

fn names(group: Group) -> Vec<&'static str> {
    COMMANDS.iter().filter(|row| row.group == group).map(|row| row.name).collect()
}

/// What is highlighted as one kind: the name of a Vim group, the scope of `TextMate`, and the words.
fn kinds() -> [(&'static str, &'static str, Vec<&'static str>); 4] {
    [
        ("Statement", "keyword.control", [names(Group::Block), names(Group::Prefix)].concat()),
        ("Function", "support.function", names(Group::Call)),
        ("Identifier", "entity.name.function", names(Group::Descriptor)),
        ("PreProc", "keyword.other", names(Group::Harness)),
    ]
}

/// Words within a line that have a meaning of their own.
const INNER: [&str; 13] = [
    "fsync",
    "fsynceach",
    "noreplace",
    "exchange",
    "whiteout",
    "keep-size",
    "punch-hole",
    "in",
    "old-or-new",
    "prefix",
    "whole",
    "absent-or-whole",
    "one-of",
];

/// The syntax file of Vim.
pub fn vim_syntax() -> String {
    let mut text = "\
\" Vim syntax file
\" Language: scripts of system calls of nandlab (docs/scripts.md)
\" Made from the table of commands by `cargo run -p script --example editor_files`.

if exists(\"b:current_syntax\")
  finish
endif

syntax iskeyword @,48-57,_,-
syntax match nandlabComment /^\\s*#.*$/
syntax match nandlabVariable /\\$\\w\\+\\|\\${\\w\\+}/
syntax match nandlabEscape /%\\x\\x/
syntax match nandlabNumber /\\<\\d\\+\\(k\\|m\\|ms\\|s\\|h\\|d\\)\\?\\>/
syntax match nandlabBrace /\\(^\\|\\s\\)\\zs[{}]\\ze\\(\\s\\|$\\)/
syntax match nandlabErrno /\\<E[A-Z0-9]\\+\\>/
"
    .to_owned();
    let _ = writeln!(text, "syntax keyword nandlabInner {}", INNER.join(" "));
    for (group, _, words) in kinds() {
        // Only where a line, or a line within braces, may begin: paths may have any name.
        let words = words.join("\\|");
        let _ = writeln!(
            text,
            "syntax match nandlab{group} \
             /\\(^\\s*\\|\\([{{}}]\\|\\<try\\|\\<E\\u\\+\\)\\s\\+\\)\\@<=\\({words}\\)\\ze\\(\\s\\|$\\)/"
        );
    }
    text.push('\n');
    for (name, linked) in [
        ("Comment", "Comment"),
        ("Variable", "Special"),
        ("Escape", "SpecialChar"),
        ("Number", "Number"),
        ("Brace", "Delimiter"),
        ("Errno", "Constant"),
        ("Inner", "Type"),
    ] {
        let _ = writeln!(text, "highlight default link nandlab{name} {linked}");
    }
    for (group, _, _) in kinds() {
        let _ = writeln!(text, "highlight default link nandlab{group} {group}");
    }
    text.push_str("\nlet b:current_syntax = \"nandlab-ops\"\n");
    text
}

/// The grammar of `TextMate`, which Visual Studio Code reads, as JSON.
pub fn textmate_grammar() -> String {
    // The first rule that matches a place wins, so comments come before all else.
    let mut rules = vec![
        ("comment.line.number-sign".to_owned(), "^\\\\s*#.*$".to_owned()),
        ("variable.other".to_owned(), "\\\\$(\\\\w+|\\\\{\\\\w+\\\\})".to_owned()),
        ("constant.character.escape".to_owned(), "%[0-9A-Fa-f]{2}".to_owned()),
        ("constant.other".to_owned(), "(?<=\\\\bfails )E[A-Z0-9]+\\\\b".to_owned()),
        ("punctuation.section.block".to_owned(), "(?<=^|\\\\s)[{}](?=\\\\s|$)".to_owned()),
    ];
    for (_, scope, words) in kinds() {
        let words = words.join("|");
        // The last of them is the end of the error behind `fails`: what is looked back at has one length.
        let begin = "(?:^\\\\s*|(?<=[{}] )|(?<=\\\\btry )|(?<=[A-Z] ))";
        rules.push((scope.to_owned(), format!("{begin}({words})(?=\\\\s|$)")));
    }
    rules.push((
        "storage.modifier".to_owned(),
        format!("(?<=\\\\s)({})(?=\\\\s|$)", INNER.join("|")),
    ));
    rules.push((
        "constant.numeric".to_owned(),
        "(?<=\\\\s)[0-9]+(ms|k|m|s|h|d)?(?=\\\\s|$)".to_owned(),
    ));
    let rules: Vec<String> = rules
        .into_iter()
        .map(|(scope, expression)| {
            format!(
                "    {{\n      \"name\": \"{scope}.nandlab-ops\",\n      \"match\": \"{expression}\"\n    }}"
            )
        })
        .collect();
    format!(
        "{{\n  \"name\": \"nandlab script\",\n  \"scopeName\": \"source.nandlab-ops\",\n  \
         \"fileTypes\": [\"ops\"],\n  \"patterns\": [\n{}\n  ]\n}}\n",
        rules.join(",\n")
    )
}
