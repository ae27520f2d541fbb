//! Reading a script: lines and blocks.

use crate::place::{Pass, Place, ScriptError};
use crate::step::Step;
use crate::times::duration_of;
use crate::tree::{Block, Bound, Expectation, Line, Node, Process, Script, fill, fill_words};
use crate::words::{Word, step_of};
use fs_api::Errno;
use std::sync::Arc;

/// Blocks within blocks: each is a call of the parser on the stack.
const DEPTH_MAX: usize = 32;

/// Reads a script. Empty lines and those that begin with `#` are left out.
///
/// A line with variables is read with the first and with the last value of each. Values between them that make
/// no line end the script in their pass.
///
/// # Errors
/// The first line that is none, with its number and column. Nothing is ever passed to a shell: a `cmd` that is
/// not one of those of the language is refused.
pub fn parse(text: &str) -> Result<Script, ScriptError> {
    let mut reader = Reader::new(text);
    let nodes = reader.body(None, &Scope::default())?;
    Ok(Script { nodes: nodes.into() })
}

/// Variables that a line sees: the values of their first and of their last passes.
#[derive(Clone, Debug)]
struct Scope {
    samples: Vec<Vec<Pass>>,
    depth: usize,
    /// Lines belong to a process of `concurrent`.
    is_process: bool,
}

impl Default for Scope {
    fn default() -> Self {
        Self { samples: vec![Vec::new()], depth: 0, is_process: false }
    }
}

impl Scope {
    fn has_variables(&self) -> bool {
        self.samples[0].iter().any(|pass| pass.variable.is_some())
    }

    fn knows(&self, name: &str) -> bool {
        self.samples[0].iter().any(|pass| pass.variable.as_deref() == Some(name))
    }

    fn names(&self) -> Vec<&str> {
        self.samples[0].iter().filter_map(|pass| pass.variable.as_deref()).collect()
    }

    /// The scope within a block.
    fn within(&self) -> Self {
        Self { depth: self.depth + 1, ..self.clone() }
    }

    /// The scope within a `for` over these numbers.
    fn counting(&self, variable: &Arc<str>, first: &Bound, last: &Bound) -> Self {
        let mut samples: Vec<Vec<Pass>> = Vec::new();
        let outer = [(&self.samples[0], false), (&self.samples[self.samples.len() - 1], true)];
        for (passes, is_last) in outer {
            let first = first.value(passes).unwrap_or(1);
            // A range without a number is read with its first one: nothing is carried out.
            let last = last.value(passes).map_or(first, |last| last.max(first));
            let number = if is_last { last } else { first };
            let pass = Pass { variable: Some(variable.clone()), number };
            samples.push(passes.iter().cloned().chain([pass]).collect());
        }
        // One value has one sample: its line is read once.
        samples.dedup();
        Self { samples, depth: self.depth + 1, is_process: self.is_process }
    }

    fn value(&self, sample: usize, name: &str) -> Option<u64> {
        let is_meant = |pass: &&Pass| pass.variable.as_deref() == Some(name);
        self.samples[sample].iter().find(is_meant).map(|pass| pass.number)
    }
}

/// An opening brace.
#[derive(Clone, Copy, Debug)]
struct Brace {
    line: usize,
    column: usize,
}

/// The words of a source and how far they were read.
struct Reader {
    lines: Vec<(usize, Vec<Word>)>,
    line: usize,
    word: usize,
}

impl Reader {
    fn new(text: &str) -> Self {
        let lines = text.lines().enumerate().filter_map(|(number, line)| {
            let words = words_of(line);
            let is_comment = words.first().is_none_or(|first| first.text.starts_with('#'));
            (!is_comment).then_some((number + 1, words))
        });
        Self { lines: lines.collect(), line: 0, word: 0 }
    }

    /// The next word of the line that is being read.
    fn peek(&self) -> Option<&Word> {
        self.lines.get(self.line)?.1.get(self.word)
    }

    fn next(&mut self) -> Option<Word> {
        let word = self.peek().cloned();
        self.word += usize::from(word.is_some());
        word
    }

    /// Goes on to the next line if this one is read.
    fn next_line(&mut self) {
        if self.line < self.lines.len() && self.peek().is_none() {
            self.line += 1;
            self.word = 0;
        }
    }

    fn number(&self) -> usize {
        self.lines.get(self.line).map_or(0, |(number, _)| *number)
    }

    fn wrong(&self, column: usize, reason: impl Into<String>) -> ScriptError {
        ScriptError { line: self.number(), column, reason: reason.into() }
    }

    /// The word that must follow in this line.
    fn expect(&mut self, what: &str) -> Result<Word, ScriptError> {
        let end = self.lines[self.line].1.last().map_or(1, Word::end);
        self.next().ok_or_else(|| self.wrong(end, format!("{what} is missing")))
    }

    /// Lines up to the brace that closes `open`, or to the end of the script.
    fn body(&mut self, open: Option<Brace>, scope: &Scope) -> Result<Vec<Node>, ScriptError> {
        let mut nodes = Vec::new();
        loop {
            self.next_line();
            let Some(word) = self.peek().cloned() else { break };
            match (word.text.as_str(), open) {
                ("}", Some(_)) => {
                    self.next();
                    return Ok(nodes);
                }
                ("}", None) => return Err(self.wrong(word.column, "`}` closes no block")),
                ("{", _) => {
                    let reason =
                        "`{` opens no block: repeat, for, every or concurrent comes before it";
                    return Err(self.wrong(word.column, reason));
                }
                ("repeat" | "for" | "every" | "concurrent", _) => {
                    nodes.push(self.block(scope)?);
                    self.line_must_end(open.is_some())?;
                }
                _ => nodes.push(self.line(open.is_some(), scope)?),
            }
        }
        match open {
            None => Ok(nodes),
            Some(Brace { line, column }) => {
                let reason = "the block that is opened here has no `}`".to_owned();
                Err(ScriptError { line, column, reason })
            }
        }
    }

    /// Behind a block nothing stands in its line but the brace that closes the block around it.
    fn line_must_end(&self, is_within: bool) -> Result<(), ScriptError> {
        match self.peek() {
            Some(word) if !(is_within && word.text == "}") => {
                let reason = format!("`{}` must begin a line of its own", word.text);
                Err(self.wrong(word.column, reason))
            }
            _ => Ok(()),
        }
    }

    fn open_brace(&mut self) -> Result<Brace, ScriptError> {
        let word = self.expect("`{`")?;
        if word.text != "{" {
            return Err(self.wrong(word.column, format!("`{}` stands where `{{` must", word.text)));
        }
        Ok(Brace { line: self.number(), column: word.column })
    }

    fn block(&mut self, scope: &Scope) -> Result<Node, ScriptError> {
        let is_first = self.word == 0;
        let head = self.expect("a block")?;
        if scope.depth == DEPTH_MAX {
            let reason = format!("blocks stand in at most {DEPTH_MAX} others");
            return Err(self.wrong(head.column, reason));
        }
        let place =
            Place { line: self.number(), column: head.column, is_first, passes: Vec::new() };
        let block = match head.text.as_str() {
            "repeat" => {
                let count = self.bound("the count", scope)?;
                let open = self.open_brace()?;
                Block::Repeat { count, body: self.body(Some(open), &scope.within())?.into() }
            }
            "for" => self.counted(scope)?,
            "every" => self.timed(place, scope)?,
            _ => self.concurrent(place, scope)?,
        };
        Ok(Node::Block(Arc::new(block)))
    }

    /// `for NAME in FIRST..LAST { ... }`.
    fn counted(&mut self, scope: &Scope) -> Result<Block, ScriptError> {
        let name = self.expect("the name of the variable")?;
        let is_name =
            name.text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
                && name.text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !is_name {
            let reason = format!("`{}` is no name: letters, digits and `_` are", name.text);
            return Err(self.wrong(name.column, reason));
        }
        if scope.knows(&name.text) {
            let reason = format!("`{}` is the variable of a block around this one", name.text);
            return Err(self.wrong(name.column, reason));
        }
        let word = self.expect("`in`")?;
        if word.text != "in" {
            let reason = format!("`{}` stands where `in` must", word.text);
            return Err(self.wrong(word.column, reason));
        }
        let range = self.expect("the range")?;
        let Some((first, last)) = range.text.split_once("..") else {
            let reason = format!("the range is `{}`, but must be FIRST..LAST", range.text);
            return Err(self.wrong(range.column, reason));
        };
        let bound = |text: &str| {
            let word = Word { text: text.to_owned(), column: range.column };
            self.bound_of(word, "a number of the range", scope)
        };
        let (first, last) = (bound(first)?, bound(last)?);
        let variable: Arc<str> = name.text.into();
        // Before the body is read, whose lines see the variable.
        let within = scope.counting(&variable, &first, &last);
        let open = self.open_brace()?;
        Ok(Block::For { variable, first, last, body: self.body(Some(open), &within)?.into() })
    }

    /// `every PERIOD for DURATION { ... }`.
    fn timed(&mut self, place: Place, scope: &Scope) -> Result<Block, ScriptError> {
        let period_ms = self.duration("the period")?;
        let word = self.expect("`for`")?;
        if word.text != "for" {
            let reason = format!("`{}` stands where `for` must", word.text);
            return Err(self.wrong(word.column, reason));
        }
        let duration_ms = self.duration("the duration")?;
        let open = self.open_brace()?;
        let body = self.body(Some(open), &scope.within())?.into();
        Ok(Block::Every { place, period_ms, duration_ms, body })
    }

    /// A time of a block, which must be more than nothing.
    fn duration(&mut self, what: &str) -> Result<u64, ScriptError> {
        let word = self.expect(what)?;
        match duration_of(&word.text) {
            Some(0) => Err(self.wrong(word.column, format!("{what} must not be 0"))),
            Some(milliseconds) => Ok(milliseconds),
            None => {
                let text = &word.text;
                let reason =
                    format!("{what} is `{text}`, but must be a number with ms, s, m, h or d");
                Err(self.wrong(word.column, reason))
            }
        }
    }

    /// `concurrent { ... } { ... }`.
    fn concurrent(&mut self, place: Place, scope: &Scope) -> Result<Block, ScriptError> {
        let within = Scope { is_process: true, ..scope.within() };
        let mut processes = Vec::new();
        loop {
            let Brace { line, column } = self.open_brace()?;
            let body = self.body(Some(Brace { line, column }), &within)?.into();
            let brace = Place { line, column, is_first: false, passes: Vec::new() };
            processes.push(Process { place: brace, body });
            // The next brace may stand in a line of its own.
            let is_line_over = self.peek().is_none();
            let behind = self.lines.get(self.line + 1).and_then(|(_, words)| words.first());
            let next = if is_line_over { behind } else { self.peek() };
            if next.is_none_or(|word| word.text != "{") {
                return Ok(Block::Concurrent { place, processes });
            }
            self.next_line();
        }
    }

    fn bound(&mut self, what: &str, scope: &Scope) -> Result<Bound, ScriptError> {
        let word = self.expect(what)?;
        self.bound_of(word, what, scope)
    }

    fn bound_of(&self, word: Word, what: &str, scope: &Scope) -> Result<Bound, ScriptError> {
        let text = if word.text.contains('$') {
            let values = |name: &str| scope.value(0, name);
            fill(&word.text, &values).map_err(|reason| self.wrong(word.column, reason))?
        } else {
            word.text.clone()
        };
        let Ok(number) = text.parse() else {
            let reason = format!("{what} is `{}`, but must be a whole number", word.text);
            return Err(self.wrong(word.column, reason));
        };
        Ok(if text == word.text { Bound::Number(number) } else { Bound::Variable(word) })
    }

    /// A command: the words up to the end of the line, or to the brace that closes the block.
    fn line(&mut self, is_within: bool, scope: &Scope) -> Result<Node, ScriptError> {
        let is_first = self.word == 0;
        // A brace that closes ends the line, too; outside of blocks it is a path, as it always was.
        let mut words = Vec::new();
        while let Some(word) = self.peek() {
            if is_within && word.text == "}" {
                break;
            }
            words.push(word.clone());
            self.word += 1;
        }
        let place =
            Place { line: self.number(), column: words[0].column, is_first, passes: Vec::new() };
        let at = |(column, reason): (usize, String)| self.wrong(column, reason);
        let (expectation, words) = expectation_of(&words).map_err(at)?;
        // Outside of all `for` a dollar sign is a letter of a path, as it always was.
        let has_variables =
            scope.has_variables() && words.iter().any(|word| word.text.contains('$'));
        if !has_variables {
            let step = step_of(words).map_err(at)?;
            check(&step, expectation, scope).map_err(|reason| at((words[0].column, reason)))?;
            return Ok(Node::Line(Line { place, expectation, step, template: None }));
        }
        let mut first = None;
        for sample in 0..scope.samples.len() {
            let values = |name: &str| scope.value(sample, name);
            let filled = fill_words(words, &values)
                .map_err(|(column, reason)| at((column, hinted(&reason, words, scope))))?;
            let step = step_of(&filled).map_err(at)?;
            check(&step, expectation, scope).map_err(|reason| at((words[0].column, reason)))?;
            first.get_or_insert(step);
        }
        let (step, template) = (first.expect("a scope has a sample"), Some(words.into()));
        Ok(Node::Line(Line { place, expectation, step, template }))
    }
}

/// Adds the variable that may have been meant.
fn hinted(reason: &str, words: &[Word], scope: &Scope) -> String {
    // The first unknown name is the one that the reason is about.
    let names = words.iter().flat_map(|word| word.text.split('$').skip(1)).map(|rest| {
        let rest = rest.trim_start_matches('{');
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        &rest[..rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())]
    });
    let unknown = names.into_iter().find(|name| !scope.knows(name));
    let hint = unknown.map(|name| suggestion::hint(name, scope.names())).unwrap_or_default();
    format!("{reason}{hint}")
}

/// The words of a line and their columns, which count characters.
fn words_of(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut is_within = false;
    for (at, letter) in line.chars().enumerate() {
        if letter.is_ascii_whitespace() {
            is_within = false;
        } else if let (true, Some(word)) = (is_within, words.last_mut()) {
            word.text.push(letter);
        } else {
            words.push(Word { text: letter.into(), column: at + 1 });
            is_within = true;
        }
    }
    words
}

/// `try` and `fails ERRNO` before a call, and the words of the call.
fn expectation_of(words: &[Word]) -> Result<(Expectation, &[Word]), (usize, String)> {
    let (expectation, call) = match words[0].text.as_str() {
        "try" => (Expectation::Either, &words[1..]),
        "fails" => {
            let Some(errno) = words.get(1) else {
                return Err((words[0].end(), "the error is missing, such as ENOSPC".into()));
            };
            let Some(expected) = Errno::from_name(&errno.text) else {
                let names = Errno::ALL.map(Errno::name);
                let hint = suggestion::hint(&errno.text, names.iter().map(String::as_str));
                let reason =
                    format!("`{}` is no error: {} are{hint}", errno.text, names.join(", "));
                return Err((errno.column, reason));
            };
            (Expectation::Failure(expected), &words[2..])
        }
        _ => return Ok((Expectation::Success, words)),
    };
    match call.first() {
        None => Err((words[words.len() - 1].end(), "the call is missing".into())),
        Some(word) if ["try", "fails"].contains(&word.text.as_str()) => {
            Err((word.column, format!("`{}` stands before a call alone", word.text)))
        }
        Some(word)
            if ["repeat", "for", "every", "concurrent", "{"].contains(&word.text.as_str()) =>
        {
            let reason = format!("`{}` stands before a call, not before a block", words[0].text);
            Err((word.column, reason))
        }
        Some(_) => Ok((expectation, call)),
    }
}

/// What a step must be where it stands.
fn check(step: &Step, expectation: Expectation, scope: &Scope) -> Result<(), String> {
    let is_call = !matches!(step, Step::Control(_) | Step::Sleep { .. });
    if expectation != Expectation::Success && !is_call {
        return Err("only a system call may follow `try` and `fails`".into());
    }
    if scope.is_process && matches!(step, Step::Control(_)) {
        return Err(
            "a process of `concurrent` makes system calls and sleeps: put this line before or \
                    behind the block"
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::{Command, ControlLine, DataKind, Step, Sync};

    fn refused(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    fn commands(text: &str) -> Vec<Command> {
        parse(text).expect("a script").commands().collect()
    }

    #[test]
    fn lines_become_steps_with_their_numbers() {
        let script = "# a comment\n\nput a%20b 644 1k 4096 x 7 fsync\nphase -\n";
        let commands = commands(script);
        assert_eq!(commands.iter().map(|command| command.place.line).collect::<Vec<_>>(), [3, 4]);
        let Step::Put { path, permissions, call } = &commands[0].step else { panic!("a put") };
        assert_eq!((path.as_slice(), *permissions), (b"a b".as_slice(), 0o644));
        assert_eq!((call.length, call.sync), (1024, Sync::AtEnd));
        assert_eq!(commands[1].step, Step::Control(ControlLine::Phase(None)));
    }

    #[test]
    fn bytes_stand_in_a_line_and_reads_may_be_of_a_part() {
        let script =
            "write a 1k 3 2 h 00fF7a fsync\nputn b 0 2 600 0 1 h\nread a 4k\nread a 4k 8k 5\n";
        assert_eq!(refused(script), "line 2, column 22: the value is missing");
        let runs = commands("write a 0 9 9 h 0102,00*2,ff*1,0304*2");
        let commands = commands(&script.replace(" 0 1 h", " 1 1 h 61"));
        let Step::Write { call, .. } = &commands[0].step else { panic!("a write") };
        assert_eq!(call.kind, DataKind::Given([0, 0xff, 0x7a].into()));
        assert_eq!((call.length, call.chunk, call.sync), (3, 2, Sync::AtEnd));
        let Step::Write { call, .. } = &runs[0].step else { panic!("a write") };
        assert_eq!(call.kind, DataKind::Given([1, 2, 0, 0, 0xff, 3, 4, 3, 4].into()));
        let parts = commands[2..].iter().map(|command| match command.step {
            Step::Read { offset, length, .. } => (offset, length),
            _ => panic!("a read"),
        });
        assert_eq!(parts.collect::<Vec<_>>(), [(0, None), (8192, Some(5))]);
    }

    #[test]
    fn what_is_no_line_is_refused_with_a_reason() {
        assert_eq!(
            refused("unlnk a"),
            "line 1, column 1: `unlnk` is no call; did you mean `unlink`?"
        );
        assert!(
            refused("sync\nput a 999 1 1 x 1").starts_with("line 2, column 7: the mode is `999`")
        );
        assert!(refused("put a 644 1 0 x 1").contains("must not be 0"));
        assert!(refused("write a 0 4 4 h 0102").contains("the length is 4, but there are 2 bytes"));
        assert!(refused("write a 0 2 2 h 010").contains("hexadecimal"));
        assert!(refused("write a 0 2 2 h +1+2").contains("hexadecimal"));
        assert!(refused("write a 0 2 2 h 0,0").contains("hexadecimal"));
        assert!(refused("write a 0 9 9 h 0102*5").contains("does not fit"));
        assert!(refused("write a 0 9 9 h *5").contains("does not fit"));
        assert!(refused("write a 0 9 9 h 01*x").contains("`x` is no number of times"));
        assert!(refused("write a 0 9 9 h 00*9,01").contains("there are 10 bytes"));
        assert!(refused("write a 0 9 9 h 01,00*9").contains("does not fit"));
        assert!(refused("write a 0 9 9 h 00*18446744073709551615").contains("does not fit"));
        assert!(refused("write a 0 2 2 q 1").contains("x, t, r, z or h"));
        assert!(refused("read a 4k 8k").contains("the length is missing"));
        assert!(refused("read a 4k 8k much").contains("the length is `much`"));
        assert!(refused("unlink a b").contains("one word too many"));
        assert!(refused("unlink a%2").contains("%XX"));
        assert!(refused("setxattr a user.b 123").contains("hexadecimal"));
        assert!(refused("mount ext4 /dev/sda -").contains("`/dev/sda` cannot be mounted"));
        assert!(refused("cmd rm -rf /").contains("is not carried out"));
        assert!(refused("cmd ubiformat /dev/mtd0 -q -y -Q 42; reboot").contains("is not carried"));
    }

    #[test]
    fn blocks_are_carried_out_as_often_as_they_say() {
        let script = "repeat 2 {\n  for i in 8..10 {\n    put f$i 644 1 1 x ${i}\n  }\n  sync\n}\n\
                      repeat 3 { repeat 2 { sync } }\nfor j in 5..4 { sync }\nrepeat 0 { sync }\n";
        let all = commands(script);
        let puts: Vec<String> = all.iter().filter_map(put_of).collect();
        assert_eq!(puts, ["f8 8", "f9 9", "f10 10", "f8 8", "f9 9", "f10 10"]);
        assert_eq!(all.len(), 6 + 2 + 6);
        assert_eq!(all[1].place.to_string(), "3, pass 1, i=9");
        assert_eq!(all[1].place.behind_file(), "3 (pass 1, i=9)");
        assert_eq!(all[13].place.to_string(), "7, column 23, pass 3, pass 2");
        assert_eq!(parse(script).expect("a script").extent().commands, 14);
    }

    fn put_of(command: &Command) -> Option<String> {
        let Step::Put { path, call, .. } = &command.step else { return None };
        Some(format!("{} {}", String::from_utf8_lossy(path), call.seed))
    }

    #[test]
    fn bounds_may_be_variables_and_numbers_are_known_before_the_run() {
        let script =
            parse("for i in 0..3 {\nfor j in 1..$i {\nsleep ${j}s\n}\nrepeat $i { sync }\n}\n");
        let script = script.expect("a script");
        assert_eq!(script.commands().count(), 12);
        let extent = script.extent();
        assert_eq!((extent.commands, extent.wait_milliseconds), (12, 10_000));
        let timed = parse("every 10s for 1m {\nsleep 2s\nsync\n}\n").expect("a script").extent();
        assert_eq!((timed.commands, timed.wait_milliseconds), (12, 60_000));
    }

    #[test]
    fn what_is_no_block_is_refused_with_its_place() {
        let opened = refused("sync\nrepeat 3 {\nsync\n");
        assert_eq!(opened, "line 2, column 10: the block that is opened here has no `}`");
        assert_eq!(refused("sync\n  }\n"), "line 2, column 3: `}` closes no block");
        assert!(refused("{\n}\n").contains("opens no block"));
        assert_eq!(
            refused("repeat many {\n}"),
            "line 1, column 8: the count is `many`, but must be a \
                   whole number"
        );
        assert_eq!(refused("for i on 1..2 {\n}"), "line 1, column 7: `on` stands where `in` must");
        assert!(refused("for 1 in 1..2 {\n}").contains("`1` is no name"));
        assert!(refused("for i in 12 {\n}").contains("must be FIRST..LAST"));
        assert!(
            refused("for i in 1..2 {\nfor i in 1..2 {\n}\n}").contains("a block around this one")
        );
        assert!(refused("every 10 for 1h {\n}").contains("a number with ms, s, m, h or d"));
        assert!(refused("every 0s for 1h {\n}").contains("must not be 0"));
        assert!(refused("repeat 3\n{\n}").contains("line 1, column 10: `{` is missing"));
        assert!(refused("repeat 1 { sync } sync").contains("must begin a line of its own"));
        assert!(refused("concurrent {\nphase a\n}").contains("makes system calls and sleeps"));
        let deep = "repeat 1 { ".repeat(40) + &" }".repeat(40);
        assert!(refused(&deep).contains("at most 32 others"));
    }

    #[test]
    fn variables_are_numbers_of_a_block_around_the_line() {
        assert!(
            refused("for count in 1..2 {\nunlink f$cuont\n}").ends_with("did you mean `count`?")
        );
        assert!(refused("for i in 1..2 {\nunlink f$\n}").contains("line 2, column 8"));
        assert!(refused("for i in 1..9 {\nchmod f 64$i\n}").contains("the mode is `649`"));
        // Outside of all blocks a dollar sign is what it always was.
        let all = commands("unlink $i\nrepeat 1 {\nunlink $j\n}\n");
        assert_eq!(all[0].step, Step::Unlink { path: b"$i".to_vec() });
        assert_eq!(all[1].step, Step::Unlink { path: b"$j".to_vec() });
        // What is wrong between the first and the last value is told in its pass.
        let script = parse("for i in 7..10 {\nchmod f 6$i\n}\n").expect("a script");
        let mut walk = script.walk();
        walk.next(0).expect("67 is a mode");
        let wrong = walk.next(0).expect_err("68 is no mode").to_string();
        assert!(
            wrong.starts_with("line 2, column 9: the mode is `68`") && wrong.ends_with("(i=8)")
        );
    }

    #[test]
    fn braces_and_names_of_blocks_mean_nothing_in_old_scripts() {
        let all = commands("unlink }\nunlink {\nunlink repeat\nput try 644 1 1 x 1\n");
        assert_eq!(all[0].step, Step::Unlink { path: b"}".to_vec() });
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn calls_may_be_expected_to_fail() {
        let all = commands("try unlink a\nfails ENOSPC append a 1 1 x 1\n");
        assert_eq!(all[0].expectation, crate::Expectation::Either);
        assert_eq!(all[1].expectation, crate::Expectation::Failure(fs_api::Errno::Enospc));
        assert!(refused("fails ENOSPCE unlink a").ends_with("did you mean `ENOSPC`?"));
        assert!(refused("fails ENOSPC").contains("line 1, column 14: the call is missing"));
        assert!(refused("try try unlink a").contains("before a call alone"));
        assert!(refused("try repeat 3 { sync }").contains("not before a block"));
        assert!(refused("try phase a").contains("only a system call"));
    }

    #[test]
    fn open_files_have_the_flags_of_open() {
        let flags_of = |text: &str| match commands(text).remove(0).step {
            Step::Open { flags, .. } => flags,
            step => panic!("{step:?}"),
        };
        let made = flags_of("open log a/b rw,creat,excl,trunc,sync 600");
        assert!(made.reads && made.writes && made.is_exclusive && made.truncates);
        assert_eq!((made.create, made.sync), (Some(0o600), crate::OpenSync::All));
        let appends = flags_of("open log a a,dsync");
        assert!(appends.appends && appends.writes && !appends.reads);
        assert_eq!(appends.sync, crate::OpenSync::Data);
        assert!(refused("open log a creat").contains("neither reads nor writes"));
        assert!(refused("open log a r,trunc").contains("add w"));
        assert!(refused("open log a rw,excl").contains("without creat"));
        assert!(refused("open log a rw,craet").ends_with("did you mean `creat`?"));
        assert!(refused("open log a rw 644").contains("one word too many"));
        let write = commands("write log 4 h 01020304\nwrite p 0 4 4 h 01020304\n");
        assert!(matches!(&write[0].step, Step::WriteOpen { name, .. } if name == "log"));
        assert!(matches!(&write[1].step, Step::Write { .. }));
    }

    #[test]
    fn every_command_of_the_table_is_known_to_the_parser() {
        for row in crate::COMMANDS {
            let text = parse(row.name).err().map(|error| error.reason).unwrap_or_default();
            assert!(!text.contains("is no call"), "{}: {text}", row.name);
        }
    }
}
