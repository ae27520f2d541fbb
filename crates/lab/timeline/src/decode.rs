//! Reads a trace, so that tests see what was written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A field: its number, and its value or its bytes.
pub(crate) type Field = (u32, u64, Vec<u8>);

fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

pub(crate) fn fields(mut bytes: &[u8]) -> Vec<Field> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        let field = (tag >> 3) as u32;
        match tag & 7 {
            0 => found.push((field, number(&mut bytes), Vec::new())),
            2 => {
                let length = number(&mut bytes) as usize;
                found.push((field, 0, bytes[..length].to_vec()));
                bytes = &bytes[length..];
            }
            other => panic!("no field of kind {other} is written"),
        }
    }
    found
}

pub(crate) fn of(fields: &[Field], wanted: u32) -> Option<&Field> {
    fields.iter().find(|(field, ..)| *field == wanted)
}

pub(crate) fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("nandlab-timeline-{}-{name}", std::process::id()))
}

/// An event: when, the name of its track, and what happens there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Begin(String),
    End,
    Instant(String),
    Count(u64),
}

/// Events of a trace in the order of the file: time, name of the track, event.
pub(crate) fn events(path: &Path) -> Vec<(u64, String, Event)> {
    let mut tracks = BTreeMap::new();
    let mut events = Vec::new();
    let text = |field: &Field| String::from_utf8(field.2.clone()).expect("text");
    for (_, _, packet) in fields(&std::fs::read(path).expect("a file")) {
        let packet = fields(&packet);
        if let Some((.., track)) = of(&packet, 60) {
            let track = fields(track);
            tracks.insert(of(&track, 1).expect("a number").1, text(of(&track, 2).expect("a name")));
        }
        if let Some((.., event)) = of(&packet, 11) {
            let event = fields(event);
            let name = of(&event, 23).map(text).unwrap_or_default();
            let what = match of(&event, 9).expect("a type").1 {
                1 => Event::Begin(name),
                2 => Event::End,
                3 => Event::Instant(name),
                4 => Event::Count(of(&event, 30).expect("a value").1),
                other => panic!("no event of type {other} is written"),
            };
            let track = of(&event, 11).expect("a track").1;
            events.push((of(&packet, 8).expect("a time").1, tracks[&track].clone(), what));
        }
    }
    events
}
