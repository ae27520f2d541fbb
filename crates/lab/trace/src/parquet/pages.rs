//! The pages of a column: read by place from the file, with the names of operations as codes.
//!
//! Rows have few different operations, and a name costs an allocation to decode. So each name is looked up
//! once where it stands in a dictionary, and the decoder of numbers then sees codes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::basic::{Encoding, Type as Physical};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::ByteArrayType;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::serialized_reader::SerializedPageReader;
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, Type};

use super::BATCH_RECORDS;
use crate::record::Operation;

/// More than the header of a page takes without the least and greatest value of a text.
const HEADER_BYTES: usize = 256;

/// Bytes of a code, and of the length in front of a name.
const NUMBER_BYTES: usize = size_of::<u32>();

/// A file that is read by place: its streams share it and do not disturb each other.
pub(super) struct Pieces {
    file: Arc<File>,
    bytes: u64,
}

impl Pieces {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes })
    }
}

impl Length for Pieces {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Pieces {
    type T = BufReader<Rest>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let rest = Rest { file: Arc::clone(&self.file), position: start };
        // A larger buffer would take bytes of the page that `get_bytes` reads once more.
        Ok(BufReader::with_capacity(HEADER_BYTES, rest))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        // By place: the position of the file itself belongs to all streams.
        let mut piece = vec![0; length];
        self.file.read_exact_at(&mut piece, start)?;
        Ok(piece.into())
    }
}

/// A file from a place on.
pub(super) struct Rest {
    file: Arc<File>,
    position: u64,
}

impl Read for Rest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// The pages of a column in a row group.
pub(super) struct Pages {
    pages: SerializedPageReader<Pieces>,
    /// Set for the column of operations.
    names: Option<NamedPages>,
}

impl Pages {
    pub(super) fn of_numbers(pages: SerializedPageReader<Pieces>) -> Self {
        Self { pages, names: None }
    }

    /// Pages of names, to be decoded as numbers.
    pub(super) fn of_names(
        pages: SerializedPageReader<Pieces>,
        column: ColumnDescPtr,
        names: Names,
    ) -> Self {
        Self { pages, names: Some(NamedPages { column, names, has_dictionary: false }) }
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        loop {
            let Some(page) = self.pages.get_next_page()? else { return Ok(None) };
            // The decoder would take a page without rows for the end of the column.
            if page.is_data_page() && page.num_values() == 0 {
                continue;
            }
            return match &mut self.names {
                None => Ok(Some(page)),
                Some(names) => names.coded(page).map(Some),
            };
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// What the codes of a column of names stand for; shared by its pages and who decodes them.
#[derive(Clone, Default)]
pub(super) struct Names(Arc<Mutex<Unknown>>);

/// Names that are no operation. Such a file is refused, once its rows come.
#[derive(Default)]
struct Unknown {
    /// The first of a dictionary: it counts even if no row has it.
    in_dictionary: Option<String>,
    /// Those of rows; the code counts on from that of the last operation.
    in_rows: Vec<String>,
}

impl Names {
    fn with<T>(&self, act: impl FnOnce(&mut Unknown) -> T) -> T {
        // No thread stops halfway through a change.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The name that is no operation, if these codes or their dictionary have one.
    pub(super) fn unknown(&self, codes: &[i32]) -> Option<String> {
        let known = code_of_unknown(0);
        // A plain maximum over all codes is faster than a search.
        let largest = codes.iter().copied().fold(0, i32::max);
        self.with(|unknown| {
            if unknown.in_dictionary.is_some() || largest < known {
                return unknown.in_dictionary.clone();
            }
            let code = codes.iter().find(|code| **code >= known)?;
            unknown.in_rows.get((code - known) as usize).cloned()
        })
    }
}

/// The code of a name that is no operation; those of operations come before.
fn code_of_unknown(index: usize) -> i32 {
    ((Operation::ALL.len() + index) as u32).cast_signed()
}

/// Makes pages of names into pages of codes.
struct NamedPages {
    /// The column as the file has it.
    column: ColumnDescPtr,
    names: Names,
    has_dictionary: bool,
}

impl NamedPages {
    fn coded(&mut self, page: Page) -> Result<Page> {
        let is_by_dictionary =
            matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        match page {
            Page::DictionaryPage { buf, num_values, encoding, is_sorted } => {
                let codes = self.coded_dictionary(&buf, num_values)?;
                self.has_dictionary = true;
                let num_values = (codes.len() / NUMBER_BYTES) as u32;
                Ok(Page::DictionaryPage { buf: codes.into(), num_values, encoding, is_sorted })
            }
            page if !is_by_dictionary => self.coded_rows(page),
            page if self.has_dictionary => Ok(page),
            _ => Err(ParquetError::General("the dictionary of operations is missing".to_owned())),
        }
    }

    /// The codes of the names of a dictionary, which stand there one after another.
    fn coded_dictionary(&self, mut rest: &[u8], count: u32) -> Result<Vec<u8>> {
        let cut_off = || ParquetError::EOF("the dictionary of operations is cut off".to_owned());
        let mut codes = Vec::new();
        for _ in 0..count {
            // A dictionary may have fewer names than it says.
            if rest.is_empty() {
                break;
            }
            let (length, after) = rest.split_first_chunk().ok_or_else(cut_off)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (name, after) = after.split_at_checked(length).ok_or_else(cut_off)?;
            rest = after;
            let name = std::str::from_utf8(name).map_err(|error| not_text(&error))?;
            let operation = Operation::from_name(name).unwrap_or_else(|| {
                self.names.with(|unknown| {
                    unknown.in_dictionary.get_or_insert_with(|| name.to_owned());
                });
                // Any will do: the file is refused.
                Operation::Read
            });
            codes.extend((operation as i32).to_le_bytes());
        }
        Ok(codes)
    }

    /// The page with a code in place of each name.
    fn coded_rows(&self, page: Page) -> Result<Page> {
        let levels_bytes = levels_bytes(&page, self.column.max_def_level());
        let mut coded = page.buffer().get(..levels_bytes).unwrap_or_default().to_vec();
        let mut reader = ColumnReaderImpl::<ByteArrayType>::new(
            Arc::clone(&self.column),
            Box::new(OnePage(Some(page.clone()))),
        );
        let (mut names, mut levels) = (Vec::new(), Vec::new());
        loop {
            names.clear();
            levels.clear();
            let (rows, ..) =
                reader.read_records(BATCH_RECORDS, Some(&mut levels), None, &mut names)?;
            if rows == 0 {
                break;
            }
            for name in &names {
                let name = std::str::from_utf8(name.data()).map_err(|error| not_text(&error))?;
                coded.extend(self.code_in_row(name).to_le_bytes());
            }
        }
        Ok(plain_page(page, coded))
    }

    fn code_in_row(&self, name: &str) -> i32 {
        Operation::from_name(name).map_or_else(
            || {
                self.names.with(|unknown| {
                    unknown.in_rows.push(name.to_owned());
                    code_of_unknown(unknown.in_rows.len() - 1)
                })
            },
            |operation| operation as i32,
        )
    }
}

fn not_text(error: &std::str::Utf8Error) -> ParquetError {
    ParquetError::General(format!("the name of an operation is no text: {error}"))
}

/// The column of names as the decoder of codes sees it.
pub(super) fn coded_column(column: &ColumnDescriptor) -> Result<ColumnDescPtr> {
    let info = column.self_type().get_basic_info();
    let coded = Type::primitive_type_builder(info.name(), Physical::INT32)
        .with_repetition(info.repetition())
        .build()?;
    let (definition, repetition) = (column.max_def_level(), column.max_rep_level());
    let path = column.path().clone();
    Ok(Arc::new(ColumnDescriptor::new(Arc::new(coded), definition, repetition, path)))
}

/// Bytes in front of the values of a page: they say which rows have one.
fn levels_bytes(page: &Page, max_level: i16) -> usize {
    match page {
        Page::DataPage { .. } if max_level == 0 => 0,
        Page::DataPage { buf, def_level_encoding: Encoding::RLE, .. } => {
            let length = buf.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
            NUMBER_BYTES.saturating_add(length as usize)
        }
        // The old coding: a bit for each row.
        Page::DataPage { num_values, .. } => num_values.div_ceil(u8::BITS) as usize,
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            (*def_levels_byte_len as usize).saturating_add(*rep_levels_byte_len as usize)
        }
        Page::DictionaryPage { .. } => 0,
    }
}

/// The page with other bytes, whose values are plain numbers.
fn plain_page(page: Page, bytes: Vec<u8>) -> Page {
    let (buf, encoding, statistics) = (bytes.into(), Encoding::PLAIN, None);
    match page {
        Page::DataPage { num_values, def_level_encoding, rep_level_encoding, .. } => {
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            }
        }
        Page::DataPageV2 {
            num_values,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed: false,
            statistics,
        },
        page @ Page::DictionaryPage { .. } => page,
    }
}

/// A page, to be decoded alone.
struct OnePage(Option<Page>);

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}

impl Iterator for OnePage {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}
