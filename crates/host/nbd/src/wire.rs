//! Numbers of the protocol: magic numbers, flags, options, replies, commands, errors.
//!
//! Source: `proto.md`, sections "Handshake", "Transmission" and "Values".

/// First bytes of a server: `NBDMAGIC`.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second bytes of a server, and the first of every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First bytes of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First bytes of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First bytes of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Length of the greeting: two magic numbers and the handshake flags.
pub const GREETING_BYTES: usize = 18;
/// Length of the client's flags.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Length of an option before its data.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Length of a reply to an option before its data.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Length of a request without what a write carries.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply without the data of a read.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a chunk before its payload.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Zeros after the answer to `EXPORT_NAME`, unless the client wants none.
pub const EXPORT_NAME_ZEROS: usize = 124;

/// Longest string: a name, a description, a query, a message ("Conventions").
pub const STRING_BYTES_MAX: usize = 4096;
/// Most data in one chunk: its length counts an offset of eight bytes too.
pub const CHUNK_DATA_BYTES_MAX: u32 = u32::MAX - 8;
/// Most extents in one chunk of block status (`NBD_REPLY_TYPE_BLOCK_STATUS`).
pub const EXTENTS_MAX: usize = 1 << 20;

/// Minimum block size where none is advertised ("Size constraints").
pub const MINIMUM_BLOCK_BYTES: u32 = 1;
/// Preferred block size where none is advertised.
pub const PREFERRED_BLOCK_BYTES: u32 = 4096;
/// Payload that every server should take where no maximum is advertised.
pub const MAXIMUM_PAYLOAD_BYTES: u32 = 1 << 25;

/// The metadata context of holes and zeros.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";

/// Flags of the greeting (16 bits), and of the client's answer (32 bits, the same bits).
pub mod handshake_flag {
    /// Options have replies.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No zeros follow the answer to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Transmission flags: what an export can do.
pub mod transmission_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// Commands that write are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// There is FLUSH.
    pub const FLUSH: u16 = 1 << 2;
    /// Every command may have the flag FUA (force unit access).
    pub const FUA: u16 = 1 << 3;
    /// The medium is a rotating disk.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// There is TRIM.
    pub const TRIM: u16 = 1 << 5;
    /// There is `WRITE_ZEROES`, with the flag `NO_HOLE`.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// READ may have the flag DF (do not fragment). Clear without structured replies.
    pub const DF: u16 = 1 << 7;
    /// A flush covers what was written through all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// There is CACHE.
    pub const CACHE: u16 = 1 << 10;
    /// `WRITE_ZEROES` may have the flag `FAST_ZERO`.
    pub const FAST_ZERO: u16 = 1 << 11;
    /// All flags above. Bits 9 and 12 belong to extensions that are not spoken here.
    // Written out, so that a flag that is added above changes what is sent only with this line.
    pub const ALL: u16 = 0b1101_1111_1111;
}

/// Flags of a request.
pub mod command_flag {
    /// Force unit access: what is written is durable before the reply.
    pub const FUA: u16 = 1;
    /// `WRITE_ZEROES` leaves no hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// READ is answered with one chunk of content.
    pub const DF: u16 = 1 << 2;
    /// `BLOCK_STATUS` is answered with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// `WRITE_ZEROES` fails with `ENOTSUP` where it is no faster than a write.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Flags of a chunk.
pub mod chunk_flag {
    /// The last chunk of a reply.
    pub const DONE: u16 = 1;
}

/// Flags of an extent in the context `base:allocation`.
pub mod extent_flag {
    /// Not allocated.
    pub const HOLE: u32 = 1;
    /// Reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// An enumeration of the numbers of one field.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident: $repr:ident {
        $($(#[$about_one:meta])* $variant:ident = $number:expr,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($repr)]
        pub enum $name {
            $($(#[$about_one])* $variant = $number,)*
        }

        impl $name {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The number on the wire.
            pub const fn number(self) -> $repr {
                self as $repr
            }

            // A search is enough: the longest table has thirteen rows.
            /// What a number on the wire stands for.
            pub fn from_number(number: $repr) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.number() == number)
            }
        }
    };
}

numbers! {
    /// What a client asks in the handshake.
    OptionKind: u32 {
        /// Choose an export and begin, without a reply that could refuse.
        ExportName = 1,
        /// End the handshake.
        Abort = 2,
        /// List the exports.
        List = 3,
        /// Encrypt from here on.
        StartTls = 5,
        /// Describe an export.
        Info = 6,
        /// Describe an export and begin.
        Go = 7,
        /// Reply with chunks.
        StructuredReply = 8,
        /// List the metadata contexts of an export.
        ListMetaContext = 9,
        /// Choose metadata contexts.
        SetMetaContext = 10,
    }
}

/// Bit of a reply type that says that an option was refused.
const REFUSED: u32 = 1 << 31;

numbers! {
    /// What a reply to an option holds.
    OptionReplyKind: u32 {
        /// The option was carried out; its last reply.
        Ack = 1,
        /// An export of the list.
        Server = 2,
        /// An [`InfoKind`] of an export.
        Info = 3,
        /// A metadata context.
        MetaContext = 4,
        /// The option is unknown.
        Unsupported = REFUSED + 1,
        /// The server is set not to do this.
        Policy = REFUSED + 2,
        /// The data of the option is malformed, or the option comes at the wrong time.
        Invalid = REFUSED + 3,
        /// The server's platform cannot do this.
        Platform = REFUSED + 4,
        /// The server wants TLS first.
        TlsRequired = REFUSED + 5,
        /// There is no such export.
        Unknown = REFUSED + 6,
        /// The server is ending.
        Shutdown = REFUSED + 7,
        /// The client has to ask for the block sizes.
        BlockSizeRequired = REFUSED + 8,
        /// The request or its answer is too long.
        TooBig = REFUSED + 9,
    }
}

impl OptionReplyKind {
    /// Whether it refuses the option.
    pub const fn is_error(self) -> bool {
        self.number() & REFUSED != 0
    }
}

numbers! {
    /// What a server tells of an export.
    InfoKind: u16 {
        /// Size and transmission flags.
        Export = 0,
        /// The name.
        Name = 1,
        /// A description for people.
        Description = 2,
        /// Minimum and preferred block, maximum payload.
        BlockSize = 3,
    }
}

numbers! {
    /// Commands of the transmission.
    Command: u16 {
        /// Read bytes.
        Read = 0,
        /// Write the bytes that follow the request.
        Write = 1,
        /// End the session; there is no reply.
        Disconnect = 2,
        /// Make durable what was written.
        Flush = 3,
        /// Bytes are no longer needed.
        Trim = 4,
        /// Bytes will be needed.
        Cache = 5,
        /// Write zeros.
        WriteZeroes = 6,
        /// Which bytes are holes or zeros.
        BlockStatus = 7,
    }
}

numbers! {
    /// Chunks of a structured reply.
    ChunkKind: u16 {
        /// Nothing: ends a reply.
        None = 0,
        /// Bytes of the export.
        OffsetData = 1,
        /// Zeros of the export.
        OffsetHole = 2,
        /// Extents of a metadata context.
        BlockStatus = 5,
        /// An error.
        Error = 0x8001,
        /// An error at an offset.
        ErrorOffset = 0x8002,
    }
}

numbers! {
    /// Errors of a reply ("Error values"). No error is the number 0.
    ErrorNumber: u32 {
        /// `EPERM`.
        NotPermitted = 1,
        /// `EIO`.
        InputOutput = 5,
        /// `ENOMEM`.
        NoMemory = 12,
        /// `EINVAL`.
        Invalid = 22,
        /// `ENOSPC`.
        NoSpace = 28,
        /// `EOVERFLOW`.
        Overflow = 75,
        /// `ENOTSUP`.
        NotSupported = 95,
        /// `ESHUTDOWN`.
        Shutdown = 108,
    }
}

impl ErrorNumber {
    /// The error in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotPermitted => "The export is read-only.",
            Self::InputOutput => "The device failed.",
            Self::NoMemory => "The request is longer than the server takes.",
            Self::Invalid => "The request is invalid.",
            Self::NoSpace => "There is no space for the request.",
            Self::Overflow => "The answer would be too long.",
            Self::NotSupported => "The server cannot do this fast.",
            Self::Shutdown => "The server is ending.",
        }
    }
}
