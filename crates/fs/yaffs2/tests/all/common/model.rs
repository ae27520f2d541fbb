//! A file system in memory, and random operations on it and on the real one.

use super::ops::stream;
use script::Xorshift;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use vfs::{escape_path, hexadecimal};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    File(Vec<u8>),
    Directory,
    Symlink(String),
    Pipe,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    kind: Kind,
    mode: u32,
    xattrs: BTreeMap<String, Vec<u8>>,
}

/// The tree: paths to nodes; several paths may name one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    names: BTreeMap<String, usize>,
    nodes: Vec<Node>,
}

const DIRECTORIES: &[&str] = &["", "d0/", "d1/", "d0/e/"];

impl Model {
    fn add(&mut self, path: &str, kind: Kind, mode: u32) {
        self.nodes.push(Node { kind, mode, xattrs: BTreeMap::new() });
        self.names.insert(path.to_owned(), self.nodes.len() - 1);
    }

    fn node(&mut self, path: &str) -> &mut Node {
        &mut self.nodes[self.names[path]]
    }

    fn data(&mut self, path: &str) -> &mut Vec<u8> {
        match &mut self.node(path).kind {
            Kind::File(data) => data,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Rows of a manifest, by path, without owner and time.
    pub(crate) fn rows(&self) -> BTreeMap<String, String> {
        let mut rows = BTreeMap::new();
        for (path, index) in &self.names {
            let node = &self.nodes[*index];
            let links = self.names.values().filter(|other| *other == index).count();
            let (letter, size, sum, target) = match &node.kind {
                Kind::File(data) => {
                    ('f', data.len(), hexadecimal(&Sha256::digest(data)), "-".to_owned())
                }
                Kind::Directory => ('d', 0, "-".to_owned(), "-".to_owned()),
                Kind::Symlink(target) => ('l', target.len(), "-".to_owned(), target.clone()),
                Kind::Pipe => ('p', 0, "-".to_owned(), "-".to_owned()),
            };
            let xattrs: Vec<String> = node
                .xattrs
                .iter()
                .map(|(name, value)| format!("{name}={}", hexadecimal(value)))
                .collect();
            let xattrs = if xattrs.is_empty() { "-".to_owned() } else { xattrs.join(",") };
            let name = escape_path(path.as_bytes());
            let row = format!(
                "{letter} {:04o} {links} 0 0 {size} * - {sum} {target} {xattrs} {name}",
                node.mode
            );
            rows.insert(path.clone(), row);
        }
        rows
    }

    /// Bytes of all files.
    pub(crate) fn total_bytes(&self) -> usize {
        let sizes = self.nodes.iter().enumerate().filter_map(|(index, node)| match &node.kind {
            Kind::File(data) if self.names.values().any(|other| *other == index) => {
                Some(data.len())
            }
            _ => None,
        });
        sizes.sum()
    }
}

/// Makes random operations: a line of the script language each, which the model has followed.
pub(crate) struct Random {
    pub(crate) model: Model,
    numbers: Xorshift,
    has_xattrs: bool,
    bytes_max: usize,
    /// Paths that were changed since the set was last cleared.
    pub(crate) touched: BTreeSet<String>,
}

impl Random {
    pub(crate) fn new(seed: u64, has_xattrs: bool, bytes_max: usize) -> Self {
        let mut numbers = Xorshift::new(seed + 1);
        numbers.next_number();
        let model = Model::default();
        Self { model, numbers, has_xattrs, bytes_max, touched: BTreeSet::new() }
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.numbers.next_number() >> 33) as usize % limit
    }

    fn pick(&mut self, wanted: impl Fn(&Node) -> bool) -> Option<String> {
        let all: Vec<String> = self
            .model
            .names
            .iter()
            .filter(|(_, index)| wanted(&self.model.nodes[**index]))
            .map(|(path, _)| path.clone())
            .collect();
        if all.is_empty() { None } else { Some(all[self.below(all.len())].clone()) }
    }

    fn new_path(&mut self) -> String {
        loop {
            let directory = DIRECTORIES[self.below(DIRECTORIES.len())];
            let exists = directory.is_empty()
                || self.model.names.contains_key(directory.trim_end_matches('/'));
            if exists {
                let index = self.below(12);
                let stem =
                    if index.is_multiple_of(4) { "a-name-of-more-than-fifteen-bytes" } else { "n" };
                return format!("{directory}{stem}{index}");
            }
        }
    }

    /// Notes a change of a path, and of all other names of its node.
    fn touch(&mut self, path: &str) {
        self.touched.insert(path.to_owned());
        if let Some(index) = self.model.names.get(path) {
            let names = self.model.names.iter().filter(|(_, other)| *other == index);
            self.touched.extend(names.map(|(path, _)| path.clone()));
        }
    }

    fn length(&mut self) -> usize {
        let limit = [1, 100, 2048, 5000, 20_000, 60_000][self.below(6)];
        self.below(limit) + 1
    }

    /// Draws the next operation, and plays it on the model.
    pub(crate) fn next(&mut self) -> String {
        loop {
            if let Some(line) = self.attempt() {
                return line;
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm an operation")]
    fn attempt(&mut self) -> Option<String> {
        let is_file = |node: &Node| matches!(node.kind, Kind::File(_));
        let is_full = self.model.total_bytes() > self.bytes_max;
        let seed = self.below(100_000) as u64;
        let choice = self.below(100);
        Some(match choice {
            0..=24 if !is_full => {
                let path = self.new_path();
                let exists = self.model.names.get(&path).copied();
                if exists.is_some_and(|index| !is_file(&self.model.nodes[index])) {
                    return None;
                }
                let length = self.length();
                self.touch(&path);
                let data = stream("x", seed).take(length);
                if exists.is_some() {
                    *self.model.data(&path) = data;
                } else {
                    self.model.add(&path, Kind::File(data), 0o644);
                }
                let call = [512, 3000, 4096, 65536][self.below(4)];
                format!("put {path} 644 {length} {call} x {seed}")
            }
            25..=44 if !is_full => {
                let path = self.pick(is_file)?;
                let size = self.model.data(&path).len();
                let offset = self.below(size + 1 + if choice < 28 { 30_000 } else { 0 });
                let length = self.length();
                self.touch(&path);
                let bytes = stream("x", seed).take(length);
                let data = self.model.data(&path);
                data.resize(size.max(offset + length), 0);
                data[offset..offset + length].copy_from_slice(&bytes);
                let call = [700, 4096, 65536][self.below(3)];
                let sync = ["", "fsync", "fsynceach"][self.below(3)];
                format!("write {path} {offset} {length} {call} x {seed} {sync}")
            }
            45..=51 => {
                let path = self.pick(is_file)?;
                let size = self.model.data(&path).len();
                let size = self.below(size + 1);
                self.touch(&path);
                self.model.data(&path).truncate(size);
                format!("truncate {path} {size}")
            }
            52..=66 => {
                let path = self.pick(|node| node.kind != Kind::Directory)?;
                self.touch(&path);
                self.model.names.remove(&path);
                format!("unlink {path}")
            }
            67..=74 => {
                let from = self.pick(|node| node.kind != Kind::Directory)?;
                let to = self.new_path();
                let target = self.model.names.get(&to).copied();
                let is_bad = target.is_some_and(|index| {
                    self.model.nodes[index].kind == Kind::Directory
                        || self.model.names[&from] == index
                });
                if is_bad {
                    return None;
                }
                self.touch(&from);
                self.touch(&to);
                let index = self.model.names.remove(&from).expect("there");
                self.model.names.insert(to.clone(), index);
                format!("rename {from} {to}")
            }
            75..=79 => {
                let from = self.pick(|node| node.kind != Kind::Directory)?;
                let to = self.new_path();
                if self.model.names.contains_key(&to) {
                    return None;
                }
                self.touch(&from);
                self.touch(&to);
                let index = self.model.names[&from];
                self.model.names.insert(to.clone(), index);
                format!("link {from} {to}")
            }
            80..=82 => {
                let path = self.new_path();
                if self.model.names.contains_key(&path) {
                    return None;
                }
                self.touch(&path);
                let target = format!("../some/where/{seed}");
                self.model.add(&path, Kind::Symlink(target.clone()), 0o777);
                format!("symlink {target} {path}")
            }
            83..=86 => {
                let path = ["d0", "d1", "d0/e"][self.below(3)];
                let has_parent = path != "d0/e" || self.model.names.contains_key("d0");
                if self.model.names.contains_key(path) || !has_parent {
                    return None;
                }
                self.touch(path);
                self.model.add(path, Kind::Directory, 0o750);
                format!("mkdir {path} 750")
            }
            87 => {
                let path = self.pick(|node| node.kind == Kind::Directory)?;
                let inside = format!("{path}/");
                if self.model.names.keys().any(|other| other.starts_with(&inside)) {
                    return None;
                }
                self.touch(&path);
                self.model.names.remove(&path);
                format!("rmdir {path}")
            }
            88 => {
                let path = self.new_path();
                if self.model.names.contains_key(&path) {
                    return None;
                }
                self.touch(&path);
                self.model.add(&path, Kind::Pipe, 0o600);
                format!("mknod {path} 600 p")
            }
            89..=91 => {
                let path = self.pick(|node| !matches!(node.kind, Kind::Symlink(_)))?;
                self.touch(&path);
                let mode = [0o600, 0o4755, 0o444][self.below(3)];
                self.model.node(&path).mode = mode;
                format!("chmod {path} {mode:o}")
            }
            92..=94 if self.has_xattrs => {
                let path = self.pick(|node| matches!(node.kind, Kind::File(_)))?;
                self.touch(&path);
                let name = format!("user.{}", self.below(3));
                let value = stream("x", seed).take(1 + seed as usize % 80);
                self.model.node(&path).xattrs.insert(name.clone(), value.clone());
                format!("setxattr {path} {name} {}", hexadecimal(&value))
            }
            95..=97 => {
                let path = self.pick(is_file)?;
                format!("fsync {path}")
            }
            98..=99 => "sync".to_owned(),
            _ => return None,
        })
    }
}
