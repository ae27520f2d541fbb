//! Streams in numbers of the protocol document, written without the crate's own writers.

use nbd::{Checked, ErrorNumber, Export, Handshake, Request, Session, Step, transmission_flag};

pub(crate) const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
pub(crate) const UNSUPPORTED: u32 = 0x8000_0001;
pub(crate) const POLICY: u32 = 0x8000_0002;
pub(crate) const INVALID: u32 = 0x8000_0003;
pub(crate) const UNKNOWN: u32 = 0x8000_0006;
pub(crate) const GIB: u64 = 1 << 30;

/// An export like that of `nbdkit memory 1G`: all commands, payloads up to 64 MiB.
pub(crate) fn memory(name: &str) -> Export {
    Export {
        description: "bytes in memory".to_owned(),
        flags: 0x0d6d,
        maximum_payload_bytes: 64 << 20,
        ..Export::new(name, GIB)
    }
}

pub(crate) fn read_only() -> Export {
    let export = memory("");
    Export { flags: export.flags | transmission_flag::READ_ONLY, ..export }
}

/// Joins parts.
pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The client's flags that every known client sends.
pub(crate) fn flags() -> Vec<u8> {
    vec![0, 0, 0, 3]
}

pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    join(&[OPTION_MAGIC, &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data])
}

pub(crate) fn string(text: &[u8]) -> Vec<u8> {
    join(&[&(text.len() as u32).to_be_bytes(), text])
}

/// INFO (6) or GO (7).
pub(crate) fn describe(number: u32, name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = string(name.as_bytes());
    data.extend((infos.len() as u16).to_be_bytes());
    for info in infos {
        data.extend(info.to_be_bytes());
    }
    option(number, &data)
}

pub(crate) fn go() -> Vec<u8> {
    describe(7, "", &[])
}

pub(crate) fn structured() -> Vec<u8> {
    option(8, &[])
}

/// `LIST_META_CONTEXT` (9) or `SET_META_CONTEXT` (10).
pub(crate) fn meta(number: u32, name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend(string(query.as_bytes()));
    }
    option(number, &data)
}

/// What came of a handshake.
pub(crate) struct Outcome {
    pub(crate) step: Step,
    pub(crate) output: Vec<u8>,
    pub(crate) rest: Vec<u8>,
}

/// The handshake with exports over the whole stream of a client.
pub(crate) fn handshake(exports: &[Export], parts: &[Vec<u8>]) -> Outcome {
    let mut rest = parts.concat();
    let mut output = Vec::new();
    let step = Handshake::new(exports).feed(&mut rest, &mut output);
    Outcome { step, output, rest }
}

/// The handshake with the export `memory`, after flags 3.
pub(crate) fn ask(parts: &[Vec<u8>]) -> Outcome {
    handshake(&[memory("")], &[&[flags()], parts].concat())
}

impl Outcome {
    /// All replies to options: option, type, data. Nothing else may be there.
    pub(crate) fn replies(&self) -> Vec<(u32, u32, Vec<u8>)> {
        let mut rest = self.output.as_slice();
        let mut found = Vec::new();
        while !rest.is_empty() {
            assert_eq!(&rest[..8], [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9], "the magic number");
            let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            let end = 20 + number(16) as usize;
            found.push((number(8), number(12), rest[20..end].to_vec()));
            rest = &rest[end..];
        }
        found
    }

    /// Option and type of all replies.
    pub(crate) fn kinds(&self) -> Vec<(u32, u32)> {
        self.replies().into_iter().map(|(option, kind, _)| (option, kind)).collect()
    }

    pub(crate) fn session(&self) -> Session {
        match self.step {
            Step::Begin(session) => session,
            other => panic!("no session but {other:?}"),
        }
    }
}

/// A session with structured replies and the context, as `nbdinfo --map` has.
pub(crate) fn full_session() -> Session {
    Session { export: 0, structured: true, allocation_context: Some(1) }
}

pub(crate) fn simple_session() -> Session {
    Session { export: 0, structured: false, allocation_context: None }
}

/// A request in bytes.
pub(crate) fn request_bytes(command: u16, offset: u64, length: u32, flags: u16) -> [u8; 28] {
    let bytes = join(&[
        &[0x25, 0x60, 0x95, 0x13],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &7_u64.to_be_bytes(),
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ]);
    bytes.try_into().unwrap()
}

pub(crate) fn request(command: u16, offset: u64, length: u32, flags: u16) -> Request {
    Request::parse(&request_bytes(command, offset, length, flags)).expect("the magic number")
}

/// What becomes of a request.
pub(crate) fn judge(
    session: Session,
    export: &Export,
    (command, offset, length, flags): (u16, u64, u32, u16),
) -> Result<Checked, ErrorNumber> {
    session.check(&request(command, offset, length, flags), export)
}

/// Numbers that are the same in every run (splitmix64, Steele, Lea and Flood, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
