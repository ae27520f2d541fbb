//! The grammar of the manual: scripts that are drawn from it are read, those that are shipped are read, and
//! what is mutated is read or refused with a place.

use script::{COMMANDS, Group, Xorshift, commands_in_markdown, parse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MANUAL: &str = include_str!("../../../../docs/scripts.md");
/// Nesting of rules of a drawn script: behind it, what is optional is left out.
const DEPTH_MAX: u32 = 40;

/// What a rule of the grammar may be.
#[derive(Clone, Debug)]
enum Part {
    Word(String),
    Rule(String),
    All(Vec<Part>),
    One(Vec<Part>),
    Optional(Box<Part>),
    Repeated(Box<Part>),
}

type Grammar = BTreeMap<String, Part>;

fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                let word: String = letters.by_ref().take_while(|letter| *letter != '"').collect();
                tokens.push(format!("\"{}", word.replace("\\n", "\n")));
            }
            letter if letter.is_alphanumeric() => {
                let mut name = letter.to_string();
                while letters.peek().is_some_and(|letter| letter.is_alphanumeric()) {
                    name.extend(letters.next());
                }
                tokens.push(name);
            }
            letter if letter.is_whitespace() => {}
            letter => tokens.push(letter.into()),
        }
    }
    tokens
}

/// Alternatives up to a closing token, which is left.
fn alternatives(tokens: &mut std::iter::Peekable<std::vec::IntoIter<String>>) -> Part {
    let (mut all, mut one) = (Vec::new(), Vec::new());
    while let Some(token) = tokens.next_if(|token| !["]", "}", ")", ";"].contains(&token.as_str()))
    {
        let part = match token.as_str() {
            "," => continue,
            "|" => {
                one.push(Part::All(std::mem::take(&mut all)));
                continue;
            }
            "[" => Part::Optional(Box::new(alternatives(tokens))),
            "{" => Part::Repeated(Box::new(alternatives(tokens))),
            "(" => alternatives(tokens),
            word if word.starts_with('"') => Part::Word(word[1..].to_owned()),
            rule => Part::Rule(rule.to_owned()),
        };
        if ["[", "{", "("].contains(&token.as_str()) {
            tokens.next().expect("what is opened is closed");
        }
        all.push(part);
    }
    one.push(Part::All(all));
    if one.len() == 1 { one.remove(0) } else { Part::One(one) }
}

fn grammar() -> Grammar {
    let (_, behind) = MANUAL.split_once("```ebnf\n").expect("the manual has a grammar");
    let (text, _) = behind.split_once("```").expect("its end");
    let mut tokens = tokens(text).into_iter().peekable();
    let mut grammar = Grammar::new();
    while let Some(name) = tokens.next() {
        assert_eq!(tokens.next().as_deref(), Some("="), "{name}");
        grammar.insert(name.clone(), alternatives(&mut tokens));
        assert_eq!(tokens.next().as_deref(), Some(";"), "{name}");
    }
    grammar
}

/// Rules whose parts make one word.
const WORDS: [&str; 10] = [
    "range", "size", "bytes", "duration", "mode", "comment", "access", "creating", "time", "number",
];

struct Drawing<'a> {
    grammar: &'a Grammar,
    numbers: Xorshift,
    text: String,
    /// Variables that the blocks around have.
    depth: u32,
}

impl Drawing<'_> {
    fn below(&mut self, end: u64) -> u64 {
        (self.numbers.next_number() >> 33) % end
    }

    fn draw(&mut self, part: &Part, is_word: bool) {
        match part {
            Part::Word(word) => {
                self.text.push_str(word);
                if !is_word && word != "\n" {
                    self.text.push(' ');
                }
            }
            Part::Rule(name) => {
                let inner = &self.grammar[name];
                self.depth += 1;
                let begins_word = !is_word && WORDS.contains(&name.as_str());
                self.draw(inner, is_word || begins_word);
                if begins_word {
                    self.text.push(' ');
                }
                self.depth -= 1;
            }
            Part::All(parts) => parts.iter().for_each(|part| self.draw(part, is_word)),
            Part::One(parts) => {
                // The first one leads to an end soonest, as the grammar is written.
                let chosen =
                    if self.depth > DEPTH_MAX { 0 } else { self.below(parts.len() as u64) };
                self.draw(&parts[chosen as usize], is_word);
            }
            Part::Optional(part) => {
                if self.depth < DEPTH_MAX && self.below(2) == 0 {
                    self.draw(part, is_word);
                }
            }
            Part::Repeated(part) => {
                let most = if self.depth < DEPTH_MAX { 4 } else { 1 };
                for _ in 0..self.below(most) {
                    self.draw(part, is_word);
                }
            }
        }
    }
}

fn drawn(grammar: &Grammar, seed: u64) -> String {
    let mut drawing =
        Drawing { grammar, numbers: Xorshift::new(seed), text: String::new(), depth: 0 };
    // Three of them, so that few are empty.
    for _ in 0..3 {
        drawing.draw(&Part::Rule("script".into()), false);
        drawing.text.push('\n');
    }
    unequal_variables(&drawing.text)
}

/// Gives inner variables names of their own, and puts some of them in the place of numbers.
fn unequal_variables(text: &str) -> String {
    let (mut lines, mut names): (Vec<String>, Vec<Option<String>>) = (Vec::new(), Vec::new());
    let mut count = 0;
    for line in text.lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        if line.trim_start().starts_with('#') {
            lines.push(line.to_owned());
            continue;
        }
        let mut pending = None;
        for at in 0..words.len() {
            let word = words[at].clone();
            match word.as_str() {
                "for" if words.get(at + 2).is_some_and(|word| word == "in") => {
                    count += 1;
                    // A call of no byte is refused, so 0 stands for no size.
                    let range = words.get(at + 3).map_or("0", String::as_str);
                    let is_positive = range.split("..").all(|bound| bound != "0");
                    pending = is_positive.then(|| format!("v{count}"));
                    words[at + 1] = format!("v{count}");
                }
                "{" => names.push(pending.take()),
                "}" => drop(names.pop()),
                "17" => {
                    if let Some(name) = names.iter().rev().flatten().next() {
                        words[at] = format!("${name}");
                    }
                }
                _ => {}
            }
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

#[test]
fn scripts_drawn_from_the_grammar_are_read() {
    let grammar = grammar();
    let mut seen: BTreeMap<&str, u64> = COMMANDS.iter().map(|row| (row.name, 0)).collect();
    let (mut variables, mut commands) = (0, 0);
    for seed in 1..=4000 {
        let text = drawn(&grammar, seed);
        let script = parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        variables += text.matches('$').count();
        commands += script.samples().count();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            for word in line.split(' ') {
                if let Some(count) = seen.get_mut(word) {
                    *count += 1;
                }
            }
        }
    }
    assert!(variables > 30 && commands > 10_000, "{variables} variables, {commands} commands");
    let missing: Vec<&&str> =
        seen.iter().filter(|(_, count)| **count == 0).map(|one| one.0).collect();
    assert!(missing.is_empty(), "the grammar has no {missing:?}");
}

fn shipped() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut waiting =
        ["workloads", "studies", "docs", "crates", "python"].map(|name| root.join(name)).to_vec();
    let mut found = Vec::new();
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = entry.path();
            if entry.file_type().expect("a kind").is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ops") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Examples of the manual.
fn examples() -> Vec<String> {
    let blocks = MANUAL.split("```text\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_shipped_script_is_read() {
    let scripts = shipped();
    assert!(scripts.len() > 30, "{}", scripts.len());
    for path in scripts {
        let text = std::fs::read_to_string(&path).expect("a script");
        if let Err(error) = parse(&text) {
            panic!("{}: {error}", path.display());
        }
    }
    let examples = examples();
    assert_eq!(examples.len(), 5);
    for text in examples {
        if let Err(error) = parse(&text) {
            panic!("{error}\n{text}");
        }
    }
}

#[test]
fn a_mutated_script_is_read_or_refused_with_its_place() {
    let grammar = grammar();
    let (mut numbers, mut refused) = (Xorshift::new(3), 0);
    for seed in 1..=4000 {
        let text = drawn(&grammar, seed);
        let mut letters: Vec<char> = text.chars().collect();
        for _ in 0..=(numbers.next_number() >> 33) % 3 {
            let at = (numbers.next_number() >> 33) as usize % letters.len().max(1);
            match (numbers.next_number() >> 33) % 4 {
                0 if !letters.is_empty() => drop(letters.remove(at)),
                1 => letters.insert(at.min(letters.len()), ['{', '}', '$', '\u{e9}'][at % 4]),
                2 => letters.insert(at.min(letters.len()), ' '),
                _ if !letters.is_empty() => letters[at] = '9',
                _ => {}
            }
        }
        let mutated: String = letters.into_iter().collect();
        let Err(error) = parse(&mutated) else { continue };
        refused += 1;
        let line = mutated.lines().nth(error.line - 1).expect("the line is there");
        // Behind the last word, where one is missing.
        assert!((1..=line.chars().count() + 2).contains(&error.column), "{error}\n{mutated}");
        assert!(!error.reason.is_empty());
    }
    assert!((1000..4000).contains(&refused), "{refused} of 4000 were refused");
}

#[test]
fn the_manual_has_the_tables_of_commands() {
    for group in [Group::Call, Group::Descriptor, Group::Block, Group::Harness] {
        let table = commands_in_markdown(group);
        assert!(MANUAL.contains(&table), "docs/scripts.md should hold:\n{table}");
    }
}

#[test]
fn the_syntax_files_are_those_of_the_table() {
    let extras = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../extras");
    let vim = std::fs::read_to_string(extras.join("vim/syntax/nandlab-ops.vim")).expect("a file");
    assert!(vim == script::vim_syntax(), "cargo run -p script --example editor_files");
    let grammar = extras.join("vscode/syntaxes/nandlab-ops.tmLanguage.json");
    let grammar = std::fs::read_to_string(grammar).expect("a file");
    assert!(grammar == script::textmate_grammar(), "cargo run -p script --example editor_files");
    for row in COMMANDS.iter().filter(|row| row.group != Group::Closing) {
        let has =
            |text: &str| text.split(['(', ')', '|', '\\', ' ', '\n']).any(|word| word == row.name);
        assert!(has(&vim) && has(&grammar), "{}", row.name);
    }
}
