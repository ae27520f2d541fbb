//! Protocol buffers, as far as a trace needs them: variable-length numbers and fields with a length.
//!
//! Source: the encoding of protocol buffers, and the numbers of fields in `trace_packet.proto`,
//! `track_descriptor.proto`, `counter_descriptor.proto` and `track_event.proto` of Perfetto.

/// Fields of `Trace` and `TracePacket`.
pub(crate) const TRACE_PACKET: u32 = 1;
pub(crate) const PACKET_TIMESTAMP: u32 = 8;
pub(crate) const PACKET_SEQUENCE: u32 = 10;
pub(crate) const PACKET_EVENT: u32 = 11;
pub(crate) const PACKET_TRACK: u32 = 60;

/// Fields of `TrackDescriptor`.
pub(crate) const TRACK_UUID: u32 = 1;
pub(crate) const TRACK_NAME: u32 = 2;
pub(crate) const TRACK_PARENT: u32 = 5;
pub(crate) const TRACK_COUNTER: u32 = 8;

/// Fields of `TrackEvent`.
pub(crate) const EVENT_TYPE: u32 = 9;
pub(crate) const EVENT_TRACK: u32 = 11;
pub(crate) const EVENT_NAME: u32 = 23;
pub(crate) const EVENT_COUNTER_VALUE: u32 = 30;

/// Values of `TrackEvent.Type`.
pub(crate) const SLICE_BEGIN: u64 = 1;
pub(crate) const SLICE_END: u64 = 2;
pub(crate) const INSTANT: u64 = 3;
pub(crate) const COUNTER: u64 = 4;

/// Kinds of fields on the wire.
const VARINT: u32 = 0;
const BYTES: u32 = 2;

/// A number in groups of seven bits, the lowest first.
pub(crate) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field that is a number.
pub(crate) fn field(out: &mut Vec<u8>, number_of_field: u32, value: u64) {
    number(out, u64::from(number_of_field << 3 | VARINT));
    number(out, value);
}

/// A field of bytes: a text or a message.
pub(crate) fn bytes(out: &mut Vec<u8>, number_of_field: u32, content: &[u8]) {
    number(out, u64::from(number_of_field << 3 | BYTES));
    number(out, content.len() as u64);
    out.extend_from_slice(content);
}
