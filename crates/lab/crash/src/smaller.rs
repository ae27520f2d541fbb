//! Scripts that are a little smaller than a given one.

use crate::script_text::Item;
use std::collections::BTreeSet;

/// The script with one of its blocks replaced by what is in it, or by one of its processes.
pub(crate) fn opened(items: &[Item]) -> Vec<Vec<Item>> {
    each(items, &|item| {
        let Item::Block { head, bodies } = item else { return Vec::new() };
        let mut all = vec![bodies.concat()];
        if bodies.len() > 1 {
            all.extend(bodies.iter().cloned());
        }
        if let [word, variable, _, range] = &head[..]
            && word == "for"
            && let Some((first, _)) = range.split_once("..")
        {
            all[0] = all[0].iter().map(|item| filled(item, variable, first)).collect();
        }
        all
    })
}

/// An item with a number in place of a variable.
fn filled(item: &Item, variable: &str, value: &str) -> Item {
    let fill = |words: &[String]| -> Vec<String> {
        let braced = format!("${{{variable}}}");
        let filled = words.iter().map(|word| word.replace(&braced, value));
        filled.map(|word| word.replace(&format!("${variable}"), value)).collect()
    };
    match item {
        Item::Line(words) => Item::Line(fill(words)),
        Item::Block { head, bodies } => {
            let inner = bodies.iter();
            let inner =
                inner.map(|items| items.iter().map(|one| filled(one, variable, value)).collect());
            Item::Block { head: fill(head), bodies: inner.collect() }
        }
    }
}

/// The script with a word less in one of its lines: `try`, or the last one.
pub(crate) fn smaller_words(items: &[Item]) -> Vec<Vec<Item>> {
    each(items, &|item| {
        let Item::Line(words) = item else { return Vec::new() };
        let mut all = Vec::new();
        if words[0] == "try" {
            all.push(vec![Item::Line(words[1..].to_vec())]);
        }
        if words.len() > 2 {
            all.push(vec![Item::Line(words[..words.len() - 1].to_vec())]);
        }
        all
    })
}

/// The script with one of its numbers made smaller.
pub(crate) fn smaller_numbers(items: &[Item]) -> Vec<Vec<Item>> {
    each(items, &|item| {
        let (Item::Line(words) | Item::Block { head: words, .. }) = item;
        let mut all = Vec::new();
        for (at, word) in words.iter().enumerate().skip(1) {
            if is_mode(words, at) {
                continue;
            }
            for smaller in smaller_than(word) {
                let mut words = words.clone();
                words[at] = smaller;
                all.push(vec![match item {
                    Item::Line(_) => Item::Line(words),
                    Item::Block { bodies, .. } => {
                        Item::Block { head: words, bodies: bodies.clone() }
                    }
                }]);
            }
        }
        all
    })
}

/// Numbers below this one, the smallest first; of a range, ranges that end sooner.
fn smaller_than(word: &str) -> Vec<String> {
    if let Some((first, last)) = word.split_once("..") {
        let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else {
            return Vec::new();
        };
        let passes = last.saturating_sub(first);
        let ends = [first, first.midpoint(last), last - passes / 4].into_iter();
        let ends = ends.filter(|end| (first..last).contains(end));
        return ends.map(|end| format!("{first}..{end}")).collect();
    }
    let unit = word.strip_suffix('k').map(|number| (number, 1 << 10));
    let unit = unit.or_else(|| word.strip_suffix('m').map(|number| (number, 1 << 20)));
    let (number, unit) = unit.unwrap_or((word, 1));
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let Some(number) = number else { return Vec::new() };
    // Nothing, one, a page of memory, the next power of two, half, three quarters.
    let power = number.next_power_of_two() / 2;
    let mut all = vec![0, 1, 4096, power, number / 2, number - number / 4];
    all.retain(|smaller| *smaller < number);
    all.sort_unstable();
    all.dedup();
    all.iter().map(u64::to_string).collect()
}

/// True of the permission bits of a call, which a smaller number makes no simpler.
fn is_mode(words: &[String], at: usize) -> bool {
    let call = usize::from(words[0] == "try");
    let place = match words[call].as_str() {
        "put" | "mkdir" | "chmod" | "mknod" => 2,
        "putn" | "open" => 4,
        _ => return false,
    };
    at == call + place
}

/// Names in the lines that a call may be about: words that are no numbers, behind the first.
pub(crate) fn paths_named(items: &[Item]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in items {
        match item {
            Item::Line(words) => {
                let is_path = |word: &&String| word.parse::<u64>().is_err();
                names.extend(words.iter().skip(1).filter(is_path).cloned());
            }
            Item::Block { bodies, .. } => {
                names.extend(bodies.iter().flat_map(|items| paths_named(items)));
            }
        }
    }
    names
}

/// The script without the lines about a path and what is below it.
pub(crate) fn without_name(items: &[Item], name: &str) -> Vec<Item> {
    let is_named = |word: &String| {
        word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let kept = items.iter().filter_map(|item| match item {
        Item::Line(words) if words.iter().skip(1).any(is_named) => None,
        Item::Line(_) => Some(item.clone()),
        Item::Block { head, bodies } => {
            let bodies = bodies.iter().map(|items| without_name(items, name)).collect();
            Some(Item::Block { head: head.clone(), bodies })
        }
    });
    kept.collect()
}

/// The script with one item, at any depth, replaced by each of what a function makes of it.
fn each(items: &[Item], smaller: &dyn Fn(&Item) -> Vec<Vec<Item>>) -> Vec<Vec<Item>> {
    let mut all = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let with = |these: Vec<Item>| [&items[..at], &these, &items[at + 1..]].concat();
        all.extend(smaller(item).into_iter().map(with));
        let Item::Block { head, bodies } = item else { continue };
        for (brace, body) in bodies.iter().enumerate() {
            all.extend(each(body, smaller).into_iter().map(|inner| {
                let mut bodies = bodies.clone();
                bodies[brace] = inner;
                with(vec![Item::Block { head: head.clone(), bodies }])
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{opened, paths_named, smaller_numbers, smaller_than, smaller_words, without_name};
    use crate::script_text::{Item, items_of, text_of};

    fn texts(of: &str, smaller: fn(&[Item]) -> Vec<Vec<Item>>) -> Vec<String> {
        smaller(&items_of(of)).iter().map(|items| text_of(items).replace('\n', ";")).collect()
    }

    #[test]
    fn blocks_are_opened_with_the_first_value_of_their_variable() {
        let of = "for i in 3..9 { repeat $i { put f${i}a 644 $i 1 x 1 } }";
        let expected =
            ["repeat 3 {;put f3a 644 3 1 x 1;};", "for i in 3..9 {;put f${i}a 644 $i 1 x 1;};"];
        assert_eq!(texts(of, opened), expected);
        let processes = "concurrent { sync } { unlink a }";
        assert_eq!(texts(processes, opened), ["sync;unlink a;", "sync;", "unlink a;"]);
    }

    #[test]
    fn words_and_numbers_become_fewer_and_smaller() {
        assert_eq!(texts("try sync", smaller_words), ["sync;"]);
        assert_eq!(texts("put a 644 9 1 x 1 fsync", smaller_words), ["put a 644 9 1 x 1;"]);
        let numbers = ["put a 644 0 1 x 1;", "put a 644 1 0 x 1;", "put a 644 1 1 x 0;"];
        let found = texts("put a 644 1 1 x 1", smaller_numbers);
        assert_eq!(found, numbers, "the mode stays");
        assert_eq!(smaller_than("2k"), ["0", "1", "1024", "1536"]);
        assert_eq!(smaller_than("9000"), ["0", "1", "4096", "4500", "6750", "8192"]);
        assert_eq!(smaller_than("1..300"), ["1..1", "1..150", "1..226"]);
        assert_eq!(smaller_than("10s"), [""; 0]);
    }

    #[test]
    fn lines_about_a_path_go_together() {
        let items = items_of("mkdir d 755\nput d/f 644 1 1 x 1\nrepeat 2 { unlink d/f }\nsync");
        assert!(paths_named(&items).contains("d"));
        assert_eq!(text_of(&without_name(&items, "d")), "repeat 2 {\n}\nsync\n");
    }
}
