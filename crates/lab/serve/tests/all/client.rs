//! A client over a socket file, as plain as can be: one call sends, another waits for replies.

use nbd::client::{Body, ClientHandshake, ClientStep, Reply, Wanted};
use nbd::{Command, Request, command_flag};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    input: Vec<u8>,
    last_cookie: u64,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done; a read has its bytes.
    Done(Vec<u8>),
    /// The number of the error.
    Error(u32),
}

impl Client {
    /// Connects; none if the server lets nobody in.
    pub(crate) fn connect(path: &Path) -> Option<Self> {
        let stream = UnixStream::connect(path).ok()?;
        let mut client = Self { stream, input: Vec::new(), last_cookie: 0 };
        let mut handshake = ClientHandshake::new(Wanted {
            export: String::new(),
            is_structured: true,
            has_allocation: true,
            by_export_name: false,
        });
        let mut output = Vec::new();
        loop {
            match handshake.feed(&mut client.input, &mut output) {
                ClientStep::Begin(_) => return Some(client),
                ClientStep::Close(_) => return None,
                ClientStep::NeedMore => {}
            }
            client.stream.write_all(&output).ok()?;
            output.clear();
            client.fill()?;
        }
    }

    /// Takes more bytes; none at the end.
    fn fill(&mut self) -> Option<()> {
        let mut bytes = vec![0; 65_536];
        let count = self.stream.read(&mut bytes).ok()?;
        self.input.extend_from_slice(&bytes[..count]);
        (count > 0).then_some(())
    }

    /// Sends a request with its payload; returns its cookie, or none if the connection is dead.
    pub(crate) fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> Option<u64> {
        self.last_cookie += 1;
        let cookie = self.last_cookie;
        let mut bytes = Vec::new();
        Request { flags, ..nbd::client::request(command, cookie, offset, length) }
            .write(&mut bytes);
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes).ok()?;
        Some(cookie)
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], fua: bool) -> Option<u64> {
        let flags = if fua { command_flag::FUA } else { 0 };
        self.send(Command::Write, flags, offset, bytes.len() as u32, bytes)
    }

    /// The next reply and the request that it answers; none if the connection is dead.
    pub(crate) fn reply(&mut self) -> Option<(u64, Answer)> {
        let mut data = Vec::new();
        loop {
            match Reply::parse(&self.input, u32::MAX, |_| 0).expect("a reply") {
                None => self.fill()?,
                Some((reply, taken)) => {
                    self.input.drain(..taken);
                    match reply.body {
                        Body::Data { data: bytes, .. } => data.extend(bytes),
                        Body::Hole { length, .. } => data.resize(data.len() + length as usize, 0),
                        Body::Error { error, .. } | Body::SimpleError { error } => {
                            return Some((reply.cookie, Answer::Error(error)));
                        }
                        Body::Simple { .. } | Body::None | Body::Status { .. } => {}
                    }
                    if reply.is_last {
                        return Some((reply.cookie, Answer::Done(data)));
                    }
                }
            }
        }
    }

    /// Sends a request and waits for its reply alone.
    pub(crate) fn ask(&mut self, command: Command, offset: u64, length: u32) -> Option<Answer> {
        let cookie = self.send(command, 0, offset, length, &[])?;
        let (answered, answer) = self.reply()?;
        assert_eq!(answered, cookie, "nothing else is under way");
        Some(answer)
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Option<Vec<u8>> {
        match self.ask(Command::Read, offset, length)? {
            Answer::Done(bytes) => Some(bytes),
            Answer::Error(error) => panic!("a read failed with {error}"),
        }
    }

    /// Writes and waits.
    pub(crate) fn put(&mut self, offset: u64, bytes: &[u8], fua: bool) -> Option<()> {
        let cookie = self.write(offset, bytes, fua)?;
        assert_eq!(self.reply()?, (cookie, Answer::Done(Vec::new())));
        Some(())
    }

    pub(crate) fn flush(&mut self) -> Option<()> {
        assert_eq!(self.ask(Command::Flush, 0, 0)?, Answer::Done(Vec::new()));
        Some(())
    }
}
