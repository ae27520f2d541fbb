//! A script as text that can be taken apart and put together again: lines, and blocks of them.

use std::fmt::Write as _;

/// A line, or a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// The words of a line.
    Line(Vec<String>),
    /// A block: the words before its first brace, and what stands between each pair of braces.
    Block { head: Vec<String>, bodies: Vec<Vec<Self>> },
}

impl Item {
    /// A line, of its text.
    pub(crate) fn line(text: &str) -> Self {
        Self::Line(text.split_whitespace().map(str::to_owned).collect())
    }

    /// The first word behind `try`, or that of a block.
    pub(crate) fn name(&self) -> &str {
        let (Self::Line(words) | Self::Block { head: words, .. }) = self;
        let is_name = |word: &&String| *word != "try";
        words.iter().find(is_name).map_or("", String::as_str)
    }
}

/// The items of a script that the parser takes. Comments are left out.
pub(crate) fn items_of(text: &str) -> Vec<Item> {
    let lines = text.lines().map(|line| line.split([' ', '\t']).filter(|word| !word.is_empty()));
    let lines = lines.map(|words| words.map(str::to_owned).collect::<Vec<_>>());
    let lines = lines.filter(|words| words.first().is_some_and(|word| !word.starts_with('#')));
    let mut reader = Reader { lines: lines.collect(), line: 0, word: 0 };
    reader.body(false)
}

/// The text of items, a line each.
pub(crate) fn text_of(items: &[Item]) -> String {
    let mut text = String::new();
    write_items(&mut text, items);
    text
}

fn write_items(text: &mut String, items: &[Item]) {
    for item in items {
        match item {
            Item::Line(words) => {
                let _ = writeln!(text, "{}", words.join(" "));
            }
            Item::Block { head, bodies } => {
                let _ = writeln!(text, "{} {{", head.join(" "));
                for (number, body) in bodies.iter().enumerate() {
                    if number > 0 {
                        text.push_str("} {\n");
                    }
                    write_items(text, body);
                }
                text.push_str("}\n");
            }
        }
    }
}

struct Reader {
    lines: Vec<Vec<String>>,
    line: usize,
    word: usize,
}

impl Reader {
    fn peek(&self) -> Option<&str> {
        self.lines.get(self.line)?.get(self.word).map(String::as_str)
    }

    fn skip_line_ends(&mut self) {
        while self.line < self.lines.len() && self.peek().is_none() {
            self.line += 1;
            self.word = 0;
        }
    }

    /// Words up to one of these, or to the end of the line.
    fn words_up_to(&mut self, is_end: impl Fn(&str) -> bool) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(word) = self.peek().filter(|word| !is_end(word)).map(str::to_owned) {
            words.push(word);
            self.word += 1;
        }
        words
    }

    fn body(&mut self, is_within: bool) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            self.skip_line_ends();
            match self.peek() {
                None => return items,
                Some("}") if is_within => {
                    self.word += 1;
                    return items;
                }
                Some("repeat" | "for" | "every" | "concurrent") => items.push(self.block()),
                Some(_) => {
                    items.push(Item::Line(self.words_up_to(|word| is_within && word == "}")));
                }
            }
        }
    }

    fn block(&mut self) -> Item {
        let head = self.words_up_to(|word| word == "{");
        let mut bodies = Vec::new();
        // The brace of the next process may begin a line of its own.
        while self.peek() == Some("{") {
            self.word += 1;
            bodies.push(self.body(true));
            if head[0] == "concurrent" {
                self.skip_line_ends();
            } else {
                break;
            }
        }
        Item::Block { head, bodies }
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, items_of, text_of};

    const SCRIPT: &str = "# a comment\nmkdir d 755\n\nfor i in 1..3 { repeat 2 { put d/f$i 644 1 1 x 1 } }\n\
                          concurrent { sync } {\n  unlink a\n  sleep 1s }\n{ sync\n}\nput } 644 1 1 x 1\n";

    #[test]
    fn a_script_that_is_written_again_is_the_same_one() {
        let again = text_of(&items_of(SCRIPT));
        let expected = "mkdir d 755\nfor i in 1..3 {\nrepeat 2 {\nput d/f$i 644 1 1 x 1\n}\n}\n\
                        concurrent {\nsync\n} {\nunlink a\nsleep 1s\n} {\nsync\n}\nput } 644 1 1 x 1\n";
        assert_eq!(again, expected);
        assert_eq!(text_of(&items_of(&again)), again);
        let steps = |text: &str| {
            let script = script::parse(text).expect("a script");
            script.commands().map(|command| format!("{:?}", command.step)).collect::<Vec<_>>()
        };
        assert_eq!(steps(SCRIPT), steps(&again));
    }

    #[test]
    fn an_item_is_named_by_its_command() {
        let names = ["try unlink a", "sync", ""].map(|line| Item::line(line).name().to_owned());
        assert_eq!(names, ["unlink", "sync", ""]);
        assert_eq!(items_of("repeat 2 { sync }")[0].name(), "repeat");
    }
}
