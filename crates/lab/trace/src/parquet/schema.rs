//! The columns of a trace in the terms of Parquet: their types, and which files have them.

use std::sync::Arc;

use ::parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::error::{Fault, Kind};

/// A column of a trace.
pub(super) struct Column {
    pub(super) name: &'static str,
    values: Values,
    /// Whether a row may have no value.
    is_optional: bool,
}

/// What a column holds.
#[derive(Clone, Copy)]
enum Values {
    /// Numbers of 0 or more, of so many bits.
    Counts(i8),
    Text,
}

pub(super) const ARRIVAL_NS: Column = Column::required("arrival_ns", Values::Counts(64));
pub(super) const OPERATION: Column = Column::required("operation", Values::Text);
pub(super) const DEVICE: Column = Column::required("device", Values::Counts(32));
pub(super) const OFFSET_BYTES: Column = Column::required("offset_bytes", Values::Counts(64));
pub(super) const LENGTH_BYTES: Column = Column::required("length_bytes", Values::Counts(32));
pub(super) const FLAGS: Column = Column::required("flags", Values::Counts(8));
pub(super) const LATENCY_NS: Column = Column::optional("latency_ns", Values::Counts(64));
pub(super) const FILE_OPERATION: Column = Column::optional("file_operation", Values::Counts(32));

/// Every column, in the order of the file.
const COLUMNS: [&Column; 8] = [
    &ARRIVAL_NS,
    &OPERATION,
    &DEVICE,
    &OFFSET_BYTES,
    &LENGTH_BYTES,
    &FLAGS,
    &LATENCY_NS,
    &FILE_OPERATION,
];

/// Name of the schema, as files have had it from the first.
const SCHEMA_NAME: &str = "arrow_schema";

/// Entries of the metadata that Arrow keeps for itself begin so.
pub(super) const ARROW_KEYS: &str = "ARROW:";

/// The entry that tells Arrow's readers, polars among them, to keep operations as categories.
pub(super) const ARROW_SCHEMA_KEY: &str = "ARROW:schema";

/// The columns as Arrow encodes a schema: a message of its stream format in base 64.
///
/// Signed and unsigned numbers follow from the types of Parquet; the category does not.
pub(super) const ARROW_SCHEMA: &str = concat!(
    "/////zwCAAAQAAAAAAAKAAwACgAJAAQACgAAAAgAAAAAAQQAaP7//wQAAAAIAAAA3AEAAHABAAAwAQAA",
    "6AAAALAAAACAAAAATAAAAAQAAADM////EAAAABQAAAAAAAECEAAAAEL+//8gAAAAAAAAAA4AAABmaWxl",
    "X29wZXJhdGlvbgAAEAAUABAADgAPAAQAAAAIABAAAAAQAAAAFAAAAAAAAQIQAAAAhv7//0AAAAAAAAAA",
    "CgAAAGxhdGVuY3lfbnMAAGz///8QAAAAFAAAAAAAAAIQAAAAtv7//wgAAAAAAAAABQAAAGZsYWdzAAAA",
    "mP///xAAAAAUAAAAAAAAAhAAAADi/v//IAAAAAAAAAAMAAAAbGVuZ3RoX2J5dGVzAAAAAMz///8QAAAA",
    "FAAAAAAAAAIQAAAAFv///0AAAAAAAAAADAAAAG9mZnNldF9ieXRlcwAAAAAQABQAEAAAAA8ABAAAAAgA",
    "EAAAABAAAAAUAAAAAAAAAhAAAABa////IAAAAAAAAAAGAAAAZGV2aWNlAAAQABgAFAAAAA8ABAAQAAgA",
    "EAAAAEAAAAA0AAAAAAAABRAAAAA0AAAACAAIAAAABAAIAAAADAAAAAgADAAEAAsACAAAACAAAAAAAAAB",
    "AAAAAAQABAAEAAAACQAAAG9wZXJhdGlvbgAAABAAFgAQAAAADwAEAAAACAAQAAAAGAAAABwAAAAAAAAC",
    "GAAAAAAABgAIAAQABgAAAEAAAAAAAAAACgAAAGFycml2YWxfbnMAAA==",
);

impl Column {
    const fn required(name: &'static str, values: Values) -> Self {
        Self { name, values, is_optional: false }
    }

    const fn optional(name: &'static str, values: Values) -> Self {
        Self { name, values, is_optional: true }
    }

    /// The type of the column as this project writes it.
    fn written(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.values {
            Values::Counts(64) => (Physical::INT64, LogicalType::integer(64, false)),
            Values::Counts(bits) => (Physical::INT32, LogicalType::integer(bits, false)),
            Values::Text => (Physical::BYTE_ARRAY, LogicalType::String),
        };
        let repetition = if self.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(self.name, physical)
            .with_logical_type(Some(logical))
            .with_repetition(repetition)
            .build()
    }

    /// The type in the words of messages.
    fn expected(&self) -> String {
        match self.values {
            Values::Counts(bits) => format!("UInt{bits}"),
            Values::Text => "Dictionary(Int32, Utf8)".to_owned(),
        }
    }

    /// Which of the values of a row is this column.
    pub(super) fn leaf(&self, schema: &SchemaDescriptor) -> Result<usize, Fault> {
        let name = self.name;
        let fault = |reason: String| {
            let reason = format!("this is a Parquet file, but no trace: {reason}");
            Fault::new(Kind::WrongFormat, reason)
                .suggest("a trace has the columns of docs/trace-formats.md")
        };
        let roots = schema.root_schema().get_fields();
        let Some(found) = roots.iter().find(|found| found.name() == name) else {
            return Err(fault(format!("the column {name} is missing")));
        };
        let found_type = type_name(found);
        // How operations are coded is the writer's choice.
        let is_right = match self.values {
            Values::Counts(_) => found_type == self.expected(),
            Values::Text => found_type == TEXT,
        };
        let leaf = schema.columns().iter().position(|leaf| leaf.path().parts() == [name]);
        match leaf {
            Some(leaf) if is_right => Ok(leaf),
            _ => Err(fault(format!(
                "the column {name} is {found_type} and should be {}",
                self.expected()
            ))),
        }
    }
}

/// The schema of the files that this project writes.
pub(super) fn written() -> Result<TypePtr, ParquetError> {
    let fields = COLUMNS.iter().map(|column| column.written().map(Arc::new));
    let fields = fields.collect::<Result<_, _>>()?;
    Type::group_type_builder(SCHEMA_NAME).with_fields(fields).build().map(Arc::new)
}

/// Checks that a file has the columns of a trace.
pub(super) fn check(schema: &SchemaDescriptor) -> Result<(), Fault> {
    COLUMNS.iter().try_for_each(|column| column.leaf(schema).map(|_| ()))
}

const TEXT: &str = "Utf8";

/// What a column holds, in Arrow's names: users meet them in polars, pandas and pyarrow.
fn type_name(found: &Type) -> String {
    let info = found.get_basic_info();
    let name = match found {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            let logical = info.logical_type_ref();
            logical_name(*physical_type, logical)
                .or_else(|| {
                    // A file of an old writer says it in the old way.
                    let converted = logical.is_none().then(|| info.converted_type());
                    converted_name(*physical_type, converted?, *precision, *scale)
                })
                .unwrap_or_else(|| physical_name(*physical_type, *type_length))
        }
        Type::GroupType { .. } => match info.converted_type() {
            ConvertedType::LIST => "List".to_owned(),
            ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => "Map".to_owned(),
            _ => "Struct".to_owned(),
        },
    };
    if info.has_repetition() && info.repetition() == Repetition::REPEATED {
        return format!("List(non-null {name}, field: '{}')", info.name());
    }
    name
}

fn logical_name(physical: Physical, logical: Option<&LogicalType>) -> Option<String> {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => "ms",
        TimeUnit::MICROS => "µs",
        TimeUnit::NANOS => "ns",
    };
    Some(match (physical, logical?) {
        (Physical::INT32 | Physical::INT64, LogicalType::Integer(kind))
            if (physical == Physical::INT64) == (kind.bit_width == 64) =>
        {
            format!("{}{}", if kind.is_signed { "Int" } else { "UInt" }, kind.bit_width)
        }
        (_, LogicalType::Decimal(kind)) => decimal_name(kind.precision, kind.scale),
        (Physical::INT32, LogicalType::Date) => "Date32".to_owned(),
        (Physical::INT32, LogicalType::Time(kind)) => format!("Time32({})", unit(&kind.unit)),
        (Physical::INT64, LogicalType::Time(kind)) => format!("Time64({})", unit(&kind.unit)),
        (Physical::INT64, LogicalType::Timestamp(kind)) => {
            let zone = if kind.is_adjusted_to_u_t_c { ", \"UTC\"" } else { "" };
            format!("Timestamp({}{zone})", unit(&kind.unit))
        }
        (Physical::BYTE_ARRAY, LogicalType::String) => TEXT.to_owned(),
        (Physical::FIXED_LEN_BYTE_ARRAY, LogicalType::Float16) => "Float16".to_owned(),
        (_, LogicalType::Unknown) => "Null".to_owned(),
        // Numbers of a kind that their storage cannot have, and bytes that only their writer can read.
        (Physical::INT32 | Physical::INT64, other) => format!("{physical} of {other:?}"),
        (Physical::BYTE_ARRAY, LogicalType::Json) => "Json".to_owned(),
        _ => return None,
    })
}

fn converted_name(
    physical: Physical,
    converted: ConvertedType,
    precision: i32,
    scale: i32,
) -> Option<String> {
    let name = match (physical, converted) {
        (Physical::INT32, ConvertedType::INT_8) => "Int8",
        (Physical::INT32, ConvertedType::INT_16) => "Int16",
        (Physical::INT32, ConvertedType::INT_32) => "Int32",
        (Physical::INT32, ConvertedType::UINT_8) => "UInt8",
        (Physical::INT32, ConvertedType::UINT_16) => "UInt16",
        (Physical::INT32, ConvertedType::UINT_32) => "UInt32",
        (Physical::INT32, ConvertedType::DATE) => "Date32",
        (Physical::INT32, ConvertedType::TIME_MILLIS) => "Time32(ms)",
        (Physical::INT64, ConvertedType::INT_64) => "Int64",
        (Physical::INT64, ConvertedType::UINT_64) => "UInt64",
        (Physical::INT64, ConvertedType::TIME_MICROS) => "Time64(µs)",
        (Physical::INT64, ConvertedType::TIMESTAMP_MILLIS) => "Timestamp(ms, \"UTC\")",
        (Physical::INT64, ConvertedType::TIMESTAMP_MICROS) => "Timestamp(µs, \"UTC\")",
        (Physical::BYTE_ARRAY, ConvertedType::UTF8) => TEXT,
        (Physical::BYTE_ARRAY, ConvertedType::JSON) => "Json",
        (_, ConvertedType::DECIMAL) => return Some(decimal_name(precision, scale)),
        _ => return None,
    };
    Some(name.to_owned())
}

fn physical_name(physical: Physical, length_bytes: i32) -> String {
    let name = match physical {
        Physical::BOOLEAN => "Boolean",
        Physical::INT32 => "Int32",
        Physical::INT64 => "Int64",
        Physical::INT96 => "Timestamp(ns)",
        Physical::FLOAT => "Float32",
        Physical::DOUBLE => "Float64",
        Physical::BYTE_ARRAY => "Binary",
        Physical::FIXED_LEN_BYTE_ARRAY => return format!("FixedSizeBinary({length_bytes})"),
    };
    name.to_owned()
}

fn decimal_name(precision: i32, scale: i32) -> String {
    format!("Decimal128({precision}, {scale})")
}
