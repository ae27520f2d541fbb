//! The server's side of the handshake: from the greeting to a session.
//!
//! The state machine keeps what was negotiated, and no bytes. What is not understood yet stays with the caller.

mod answers;
mod option_data;

use crate::bytes::{Reader, put_u16, put_u64, string};
use crate::export::{Export, find};
use crate::session::Session;
use crate::wire::{
    ALLOCATION_CONTEXT, CLIENT_FLAGS_BYTES, EXPORT_NAME_ZEROS, GREETING_BYTES, GREETING_MAGIC,
    InfoKind, OPTION_HEADER_BYTES, OPTION_MAGIC, OptionKind, OptionReplyKind, handshake_flag,
};
use answers::Answers;
use option_data::{ExportQuestion, MetaQuestion};
use std::sync::Arc;
use thiserror::Error;

/// Longest data of an option. It holds more than a hundred queries of common length.
pub const OPTION_BYTES_MAX: u32 = 1 << 16;

/// Most bytes that [`Handshake::feed`] leaves when it needs more: an option but for its last byte.
pub const INPUT_BYTES_MAX: usize = OPTION_HEADER_BYTES + OPTION_BYTES_MAX as usize - 1;

/// Bytes of replies that one handshake may take, on top of what lists take.
const REPLY_BYTES_MAX: u64 = 256 << 10;

/// How often a client may list and describe all exports.
const LISTS_MAX: u64 = 16;

/// Number of the context `base:allocation`. In lists it is zero, for a client can do nothing with it there.
const ALLOCATION_ID: u32 = 1;

/// How the handshake goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the output, and call again with more input.
    NeedMore,
    /// Send the output; what is left of the input are requests.
    Begin(Session),
    /// Send the output and close the connection.
    Close(Reason),
}

/// Why a server closes in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The client ended the handshake, as it may.
    #[error("the client ended the handshake")]
    Aborted,
    /// The client sent flags that mean nothing.
    #[error("the client's flags are {0:#x}: only bits 0 and 1 are known")]
    ClientFlags(u32),
    /// Something else than an option.
    #[error("an option begins with {0:#018x} instead of {OPTION_MAGIC:#018x}")]
    OptionMagic(u64),
    /// An option with more data than is taken.
    #[error("option {option} has {length} bytes of data: at most {OPTION_BYTES_MAX} are taken")]
    OptionTooLong {
        /// Its number.
        option: u32,
        /// Bytes of data that it announces.
        length: u32,
    },
    /// `EXPORT_NAME` named no export; it has no reply that could say so.
    #[error("the client asked for an export that does not exist")]
    UnknownExport,
    /// The client goes on and on without choosing an export.
    #[error("the client sent more options than a handshake takes")]
    TooManyOptions,
    /// The handshake was over before this call.
    #[error("the handshake is over")]
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    ClientFlags,
    Options,
    Over,
}

/// The server's side of one handshake.
#[derive(Clone, Debug)]
pub struct Handshake {
    exports: Arc<[Export]>,
    phase: Phase,
    is_fixed: bool,
    has_zeros: bool,
    is_structured: bool,
    /// The name of the export that `base:allocation` was chosen for. The last choice counts.
    context_of: Option<String>,
    replied_bytes: u64,
    reply_bytes_max: u64,
}

/// What a handshake took from the input, and whether it is over.
type Advance = (usize, Option<Step>);

impl Handshake {
    /// A handshake that offers `exports`; [`check_exports`](crate::check_exports) says whether they may be.
    pub fn new(exports: impl Into<Arc<[Export]>>) -> Self {
        let exports = exports.into();
        // Without a limit, a client that sends small options and reads nothing would fill the memory.
        let list_bytes: usize =
            exports.iter().map(|one| 64 + one.name.len() + one.description.len()).sum();
        Self {
            exports,
            phase: Phase::ClientFlags,
            is_fixed: false,
            has_zeros: true,
            is_structured: false,
            context_of: None,
            replied_bytes: 0,
            reply_bytes_max: REPLY_BYTES_MAX + LISTS_MAX * list_bytes as u64,
        }
    }

    /// What the server sends first.
    pub fn greeting() -> [u8; GREETING_BYTES] {
        let mut greeting = [0; GREETING_BYTES];
        greeting[..8].copy_from_slice(&GREETING_MAGIC.to_be_bytes());
        greeting[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        greeting[16..].copy_from_slice(&flags.to_be_bytes());
        greeting
    }

    /// Takes what the client sent from the front of `input`, and appends answers to `output`.
    ///
    /// However the stream is cut into calls, the answers are the same. When more is needed, at most
    /// [`INPUT_BYTES_MAX`] bytes are left in `input`. A handshake never answers more than 256 KiB and 16 lists
    /// of all exports.
    pub fn feed(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> Step {
        if self.phase == Phase::Over {
            return Step::Close(Reason::Over);
        }
        let mut taken = 0;
        let end = loop {
            match self.advance(&input[taken..], output) {
                (0, None) => break Step::NeedMore,
                (bytes, None) => taken += bytes,
                (bytes, Some(end)) => {
                    taken += bytes;
                    self.phase = Phase::Over;
                    break end;
                }
            }
        };
        // Once a call: to move the rest after each option would take time that grows with its square.
        input.drain(..taken);
        debug_assert!(
            end != Step::NeedMore || input.len() <= INPUT_BYTES_MAX,
            "what is left is one unfinished option"
        );
        end
    }

    /// Takes the client's flags or one option, if they are complete.
    fn advance(&mut self, input: &[u8], output: &mut Vec<u8>) -> Advance {
        let mut reader = Reader::new(input);
        if self.phase == Phase::ClientFlags {
            return match reader.u32() {
                Some(flags) => (CLIENT_FLAGS_BYTES, self.take_flags(flags)),
                None => (0, None),
            };
        }
        // A wrong beginning is refused before the rest of the header came: there may be none.
        let Some(magic) = reader.u64() else { return (0, None) };
        if magic != OPTION_MAGIC {
            return (0, Some(Step::Close(Reason::OptionMagic(magic))));
        }
        let (Some(option), Some(length)) = (reader.u32(), reader.u32()) else { return (0, None) };
        // Refused at the header, before its data is waited for and kept.
        if length > OPTION_BYTES_MAX {
            return (0, Some(Step::Close(Reason::OptionTooLong { option, length })));
        }
        let Some(data) = reader.take(length as usize) else { return (0, None) };
        // Judged before an option, by what was answered so far: so no cut of the stream changes it.
        if self.replied_bytes > self.reply_bytes_max {
            return (0, Some(Step::Close(Reason::TooManyOptions)));
        }
        let before = output.len();
        let end = self.take_option(option, data, output);
        self.replied_bytes += (output.len() - before) as u64;
        (OPTION_HEADER_BYTES + length as usize, end)
    }

    fn take_flags(&mut self, flags: u32) -> Option<Step> {
        // A bit that is not known could mean that the client sends something else from here on.
        let fixed = u32::from(handshake_flag::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake_flag::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return Some(Step::Close(Reason::ClientFlags(flags)));
        }
        self.is_fixed = flags & fixed != 0;
        self.has_zeros = flags & no_zeroes == 0;
        self.phase = Phase::Options;
        None
    }

    /// Carries out one option.
    fn take_option(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Option<Step> {
        let kind = OptionKind::from_number(option);
        if kind == Some(OptionKind::ExportName) {
            return Some(self.export_name(data, output));
        }
        let mut answers = Answers::new(option, output);
        if kind == Some(OptionKind::Abort) {
            // Data is ignored, for the client goes away anyhow.
            answers.ack();
            return Some(Step::Close(Reason::Aborted));
        }
        if !self.is_fixed {
            answers.error(
                OptionReplyKind::Invalid,
                "Only EXPORT_NAME is allowed: the client did not set the flag of fixed newstyle.",
            );
            return None;
        }
        match kind {
            Some(OptionKind::List) => self.list(data, &mut answers),
            Some(OptionKind::StartTls) => {
                // What was negotiated is forgotten only if TLS begins, which it never does here.
                if is_empty(data, &mut answers) {
                    answers.error(OptionReplyKind::Policy, "The server has no TLS: go on without.");
                }
            }
            Some(OptionKind::Info) => {
                self.describe(data, &mut answers);
            }
            Some(OptionKind::Go) => {
                return self.describe(data, &mut answers).map(Step::Begin);
            }
            Some(OptionKind::StructuredReply) => {
                if is_empty(data, &mut answers) {
                    self.is_structured = true;
                    answers.ack();
                }
            }
            Some(OptionKind::ListMetaContext) => self.list_contexts(data, &mut answers),
            Some(OptionKind::SetMetaContext) => self.set_context(data, &mut answers),
            Some(OptionKind::ExportName | OptionKind::Abort) | None => {
                answers.error(OptionReplyKind::Unsupported, "The server does not know the option.");
            }
        }
        None
    }

    fn session(&self, export: usize, name: &str) -> Session {
        // Compared as it was asked for: the default name and the real one are two names to the protocol.
        let is_chosen = self.is_structured && self.context_of.as_deref() == Some(name);
        Session {
            export,
            structured: self.is_structured,
            allocation_context: is_chosen.then_some(ALLOCATION_ID),
        }
    }

    fn export_name(&self, data: &[u8], output: &mut Vec<u8>) -> Step {
        // There is no length in front of the name here: all of the data is the name.
        let found = string(data).and_then(|name| Some((name, find(&self.exports, name)?)));
        let Some((name, index)) = found else { return Step::Close(Reason::UnknownExport) };
        let export = &self.exports[index];
        put_u64(output, export.size_bytes);
        put_u16(output, export.transmission_flags(self.is_structured));
        if self.has_zeros {
            output.extend_from_slice(&[0; EXPORT_NAME_ZEROS]);
        }
        Step::Begin(self.session(index, name))
    }

    fn list(&self, data: &[u8], answers: &mut Answers<'_>) {
        if is_empty(data, answers) {
            for export in self.exports.iter() {
                answers.server(export);
            }
            answers.ack();
        }
    }

    /// INFO and GO, which differ in what follows.
    fn describe(&self, data: &[u8], answers: &mut Answers<'_>) -> Option<Session> {
        let Some(question) = ExportQuestion::parse(data) else {
            answers.malformed();
            return None;
        };
        let index = self.find(question.name, answers)?;
        let export = &self.exports[index];
        // Always, and first: it is what the session cannot do without.
        answers.size_and_flags(export, self.is_structured);
        // Each once, and in this order, however often and in which order they are asked for.
        if question.asks(InfoKind::Name) {
            answers.text(InfoKind::Name, &export.name);
        }
        if question.asks(InfoKind::Description) && !export.description.is_empty() {
            answers.text(InfoKind::Description, &export.description);
        }
        if question.asks(InfoKind::BlockSize) {
            answers.block_sizes(export);
        }
        answers.ack();
        Some(self.session(index, question.name))
    }

    fn list_contexts(&self, data: &[u8], answers: &mut Answers<'_>) {
        let Some(question) = MetaQuestion::parse(data) else {
            return answers.malformed();
        };
        if self.find(question.name, answers).is_none() {
            return;
        }
        if question.is_without_query || question.has_wildcard || question.has_allocation {
            answers.context(0, ALLOCATION_CONTEXT);
        }
        answers.ack();
    }

    fn set_context(&mut self, data: &[u8], answers: &mut Answers<'_>) {
        // Every choice replaces the one before, even one that fails.
        self.context_of = None;
        if !self.is_structured {
            return answers.error(
                OptionReplyKind::Invalid,
                "Metadata contexts need structured replies: ask for those first.",
            );
        }
        let Some(question) = MetaQuestion::parse(data) else {
            return answers.malformed();
        };
        if self.find(question.name, answers).is_none() {
            return;
        }
        // `base:` alone selects nothing here, though it lists all contexts elsewhere.
        if question.has_allocation {
            self.context_of = Some(question.name.to_owned());
            answers.context(ALLOCATION_ID, ALLOCATION_CONTEXT);
        }
        answers.ack();
    }

    /// The export of a name; if there is none, the answer says so.
    fn find(&self, name: &str, answers: &mut Answers<'_>) -> Option<usize> {
        let found = find(&self.exports, name);
        if found.is_none() {
            answers.error(
                OptionReplyKind::Unknown,
                "There is no export of this name: LIST names those that there are.",
            );
        }
        found
    }
}

/// Whether an option that has no data has none; if it has, the answer says so.
fn is_empty(data: &[u8], answers: &mut Answers<'_>) -> bool {
    if !data.is_empty() {
        answers.error(OptionReplyKind::Invalid, "The option has data: send it without.");
    }
    data.is_empty()
}
