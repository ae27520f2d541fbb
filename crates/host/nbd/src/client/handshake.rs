//! The client's side of the handshake: one option at a time, each after the last reply to the one before.

use crate::bytes::Reader;
use crate::client::options::{
    BlockSizes, OptionReply, export_question, meta_question, option, parse_greeting,
};
use crate::wire::{
    ALLOCATION_CONTEXT, EXPORT_NAME_ZEROS, GREETING_BYTES, InfoKind, OptionKind, OptionReplyKind,
    handshake_flag,
};
use thiserror::Error;

/// What a client wants of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the export; empty for the default one.
    pub export: String,
    /// Whether to ask for structured replies.
    pub is_structured: bool,
    /// Whether to choose the context `base:allocation`. It needs structured replies.
    pub has_allocation: bool,
    /// Whether to begin with `EXPORT_NAME`, as old clients do, instead of GO.
    pub by_export_name: bool,
}

/// What a client has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Size of the export.
    pub size_bytes: u64,
    /// Its [`transmission_flag`](crate::transmission_flag)s.
    pub flags: u16,
    /// Whether reads and errors are replied to with chunks.
    pub is_structured: bool,
    /// Number of the context `base:allocation` in replies.
    pub allocation_context: Option<u32>,
    /// Sizes of blocks, if the server told them.
    pub block_sizes: Option<BlockSizes>,
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The server does not speak the newstyle handshake.
    #[error("the server's greeting is none of a fixed newstyle NBD server")]
    Greeting,
    /// Bytes that are no reply to the option that was sent.
    #[error("the server sent something else than a reply to the option")]
    Reply,
    /// The server refuses the export.
    #[error("the server refuses the option {option} with type {kind:#x}: {text}")]
    Refused {
        /// Number of the option.
        option: u32,
        /// Type of the reply.
        kind: u32,
        /// What the server says.
        text: String,
    },
}

/// How the handshake goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Send the output, and call again with more input.
    NeedMore,
    /// Send the output; requests may follow.
    Begin(Negotiated),
    /// Close the connection.
    Close(Failure),
}

/// What the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Greeting,
    Structured,
    Context,
    Go,
    ExportName,
}

/// The client's side of one handshake.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    wanted: Wanted,
    awaited: Awaited,
    negotiated: Negotiated,
    has_size: bool,
    has_zeros: bool,
}

/// What was taken from the input, and whether the handshake is over.
type Advance = Result<(usize, Option<Negotiated>), Failure>;

impl ClientHandshake {
    /// A handshake that tries to get what is wanted.
    pub fn new(wanted: Wanted) -> Self {
        let negotiated = Negotiated::default();
        Self { wanted, awaited: Awaited::Greeting, negotiated, has_size: false, has_zeros: false }
    }

    /// Takes what the server sent from the front of `input`, and appends what to send to `output`.
    ///
    /// Structured replies and the context are left out where the server refuses them.
    pub fn feed(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> ClientStep {
        let mut taken = 0;
        let end = loop {
            match self.advance(&input[taken..], output) {
                Ok((0, None)) => break ClientStep::NeedMore,
                Ok((bytes, None)) => taken += bytes,
                Ok((bytes, Some(negotiated))) => {
                    taken += bytes;
                    break ClientStep::Begin(negotiated);
                }
                Err(failure) => break ClientStep::Close(failure),
            }
        };
        input.drain(..taken);
        end
    }

    fn advance(&mut self, input: &[u8], output: &mut Vec<u8>) -> Advance {
        match self.awaited {
            Awaited::Greeting => {
                let Some(greeting) = input.first_chunk() else { return Ok((0, None)) };
                let flags = parse_greeting(greeting)?;
                // Without it a server may close at the first option that it does not know.
                if flags & handshake_flag::FIXED_NEWSTYLE == 0 {
                    return Err(Failure::Greeting);
                }
                // Only bits that the server has: it closes at others.
                let own = flags & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
                self.has_zeros = own & handshake_flag::NO_ZEROES == 0;
                output.extend_from_slice(&u32::from(own).to_be_bytes());
                self.ask(
                    if self.wanted.is_structured { Awaited::Structured } else { self.last() },
                    output,
                );
                Ok((GREETING_BYTES, None))
            }
            Awaited::ExportName => Ok(self.take_export_name(input)),
            Awaited::Structured | Awaited::Context | Awaited::Go => {
                let Some((reply, taken)) = OptionReply::parse(input)? else {
                    return Ok((0, None));
                };
                Ok((taken, self.take_reply(&reply, output)?))
            }
        }
    }

    /// The option that begins the transmission.
    fn last(&self) -> Awaited {
        if self.wanted.by_export_name { Awaited::ExportName } else { Awaited::Go }
    }

    fn option_of(awaited: Awaited) -> OptionKind {
        match awaited {
            Awaited::Structured => OptionKind::StructuredReply,
            Awaited::Context => OptionKind::SetMetaContext,
            Awaited::Go => OptionKind::Go,
            Awaited::Greeting | Awaited::ExportName => OptionKind::ExportName,
        }
    }

    fn ask(&mut self, next: Awaited, output: &mut Vec<u8>) {
        self.awaited = next;
        let name = &self.wanted.export;
        let data = match next {
            Awaited::Greeting | Awaited::Structured => Vec::new(),
            Awaited::Context => meta_question(name, &[ALLOCATION_CONTEXT]),
            Awaited::Go => export_question(name, &[InfoKind::BlockSize]),
            Awaited::ExportName => name.as_bytes().to_vec(),
        };
        option(output, Self::option_of(next), &data);
    }

    fn take_export_name(&mut self, input: &[u8]) -> (usize, Option<Negotiated>) {
        let mut reader = Reader::new(input);
        let (Some(size_bytes), Some(flags)) = (reader.u64(), reader.u16()) else {
            return (0, None);
        };
        let zeros = if self.has_zeros { EXPORT_NAME_ZEROS } else { 0 };
        if reader.take(zeros).is_none() {
            return (0, None);
        }
        let taken = input.len() - reader.rest_bytes();
        (taken, Some(Negotiated { size_bytes, flags, ..self.negotiated }))
    }

    fn take_reply(
        &mut self,
        reply: &OptionReply,
        output: &mut Vec<u8>,
    ) -> Result<Option<Negotiated>, Failure> {
        // Only one option is under way, so another number means that the place in the stream is lost.
        if reply.option != Self::option_of(self.awaited).number() {
            return Err(Failure::Reply);
        }
        let kind = reply.known_kind();
        let is_refused = reply.kind >> 31 == 1;
        match self.awaited {
            Awaited::Structured if kind == Some(OptionReplyKind::Ack) => {
                self.negotiated.is_structured = true;
                let next = if self.wanted.has_allocation { Awaited::Context } else { self.last() };
                self.ask(next, output);
            }
            Awaited::Context if kind == Some(OptionReplyKind::MetaContext) => {
                let mut reader = Reader::new(&reply.data);
                let number = reader.u32().ok_or(Failure::Reply)?;
                if reader.take(reader.rest_bytes()) == Some(ALLOCATION_CONTEXT.as_bytes()) {
                    self.negotiated.allocation_context = Some(number);
                }
            }
            Awaited::Context if kind == Some(OptionReplyKind::Ack) => self.ask(self.last(), output),
            Awaited::Structured | Awaited::Context if is_refused => {
                // A refusal makes the contexts before it void.
                self.negotiated.allocation_context = None;
                self.ask(self.last(), output);
            }
            Awaited::Go if kind == Some(OptionReplyKind::Info) => self.take_info(&reply.data)?,
            // An export without a size would be a session that cannot read anything.
            Awaited::Go if kind == Some(OptionReplyKind::Ack) && self.has_size => {
                return Ok(Some(self.negotiated));
            }
            Awaited::Go if is_refused => {
                let text = String::from_utf8_lossy(&reply.data).into_owned();
                return Err(Failure::Refused { option: reply.option, kind: reply.kind, text });
            }
            _ => return Err(Failure::Reply),
        }
        Ok(None)
    }

    fn take_info(&mut self, data: &[u8]) -> Result<(), Failure> {
        let mut reader = Reader::new(data);
        let kind = reader.u16().ok_or(Failure::Reply)?;
        match InfoKind::from_number(kind) {
            Some(InfoKind::Export) => {
                self.negotiated.size_bytes = reader.u64().ok_or(Failure::Reply)?;
                self.negotiated.flags = reader.u16().ok_or(Failure::Reply)?;
                self.has_size = true;
            }
            Some(InfoKind::BlockSize) => {
                let sizes = BlockSizes::parse(&mut reader).ok_or(Failure::Reply)?;
                self.negotiated.block_sizes = Some(sizes);
            }
            Some(InfoKind::Name | InfoKind::Description) | None => {}
        }
        Ok(())
    }
}
