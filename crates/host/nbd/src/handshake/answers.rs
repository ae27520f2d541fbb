//! Replies to options.

use crate::bytes::{cut, put_string, put_u16, put_u32, put_u64};
use crate::export::Export;
use crate::wire::{InfoKind, OPTION_REPLY_MAGIC, OptionReplyKind};

/// Appends the replies to one option.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    option: u32,
    output: &'a mut Vec<u8>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(option: u32, output: &'a mut Vec<u8>) -> Self {
        Self { option, output }
    }

    fn header(&mut self, kind: OptionReplyKind, length: usize) {
        put_u64(self.output, OPTION_REPLY_MAGIC);
        put_u32(self.output, self.option);
        put_u32(self.output, kind.number());
        put_u32(self.output, length as u32);
    }

    pub(super) fn ack(&mut self) {
        self.header(OptionReplyKind::Ack, 0);
    }

    /// Refuses the option, with a text for people.
    pub(super) fn error(&mut self, kind: OptionReplyKind, text: &str) {
        debug_assert!(kind.is_error(), "a refusal has a type of its own");
        self.header(kind, text.len());
        self.output.extend_from_slice(text.as_bytes());
    }

    pub(super) fn malformed(&mut self) {
        self.error(
            OptionReplyKind::Invalid,
            "The lengths in the option do not add up to its data, or a string is too long.",
        );
    }

    /// An export of the list.
    pub(super) fn server(&mut self, export: &Export) {
        // Exports should have been checked; a longer text must not break the stream all the same.
        let (name, description) = (cut(&export.name), cut(&export.description));
        self.header(OptionReplyKind::Server, 4 + name.len() + description.len());
        put_string(self.output, name);
        self.output.extend_from_slice(description.as_bytes());
    }

    pub(super) fn size_and_flags(&mut self, export: &Export, is_structured: bool) {
        self.header(OptionReplyKind::Info, 12);
        put_u16(self.output, InfoKind::Export.number());
        put_u64(self.output, export.size_bytes);
        put_u16(self.output, export.transmission_flags(is_structured));
    }

    /// The name or the description of an export.
    pub(super) fn text(&mut self, kind: InfoKind, text: &str) {
        let text = cut(text);
        self.header(OptionReplyKind::Info, 2 + text.len());
        put_u16(self.output, kind.number());
        self.output.extend_from_slice(text.as_bytes());
    }

    pub(super) fn block_sizes(&mut self, export: &Export) {
        self.header(OptionReplyKind::Info, 14);
        put_u16(self.output, InfoKind::BlockSize.number());
        put_u32(self.output, export.minimum_block_bytes);
        put_u32(self.output, export.preferred_block_bytes);
        put_u32(self.output, export.maximum_payload_bytes);
    }

    /// A metadata context.
    pub(super) fn context(&mut self, number: u32, name: &str) {
        self.header(OptionReplyKind::MetaContext, 4 + name.len());
        put_u32(self.output, number);
        self.output.extend_from_slice(name.as_bytes());
    }
}
