//! Records as columns, for simulations that need neither times nor devices.

use crate::record::{Operation, Record};

/// The columns a simulation without arrival times needs; all of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// What is asked of the device.
    pub operation: Vec<Operation>,
    /// First byte that is addressed.
    pub offset_bytes: Vec<u64>,
    /// Bytes that are addressed.
    pub length_bytes: Vec<u32>,
    /// File-system operation that caused the request.
    pub file_operation: Vec<Option<u32>>,
}

impl Columns {
    /// Records that the columns hold.
    pub fn len(&self) -> usize {
        self.operation.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.operation.is_empty()
    }

    /// Checks that every record has a cell in each column, in debug builds.
    #[inline]
    pub(crate) fn check(&self) {
        debug_assert_eq!(self.offset_bytes.len(), self.len(), "as many offsets as operations");
        debug_assert_eq!(self.length_bytes.len(), self.len(), "as many lengths as operations");
        debug_assert_eq!(self.file_operation.len(), self.len(), "as many causes as operations");
    }

    pub(crate) fn clear(&mut self) {
        self.operation.clear();
        self.offset_bytes.clear();
        self.length_bytes.clear();
        self.file_operation.clear();
    }

    /// Appends records, column by column: the room for all of them is looked at once.
    pub(crate) fn append(&mut self, records: &[Record]) {
        self.operation.extend(records.iter().map(|record| record.operation));
        self.offset_bytes.extend(records.iter().map(|record| record.offset_bytes));
        self.length_bytes.extend(records.iter().map(|record| record.length_bytes));
        self.file_operation.extend(records.iter().map(|record| record.file_operation));
    }

    /// Drops requests of zero length other than flushes; returns how many.
    pub(crate) fn drop_zero_length(&mut self) -> u64 {
        // The usual batch stays as it is.
        if !self.length_bytes.contains(&0) {
            return 0;
        }
        let keep: Vec<bool> = self
            .length_bytes
            .iter()
            .zip(&self.operation)
            .map(|(length, operation)| *length > 0 || *operation == Operation::Flush)
            .collect();
        retain(&mut self.operation, &keep);
        retain(&mut self.offset_bytes, &keep);
        retain(&mut self.length_bytes, &keep);
        retain(&mut self.file_operation, &keep);
        keep.iter().map(|kept| u64::from(!kept)).sum()
    }
}

fn retain<T>(column: &mut Vec<T>, keep: &[bool]) {
    let mut flags = keep.iter();
    column.retain(|_| flags.next().is_none_or(|kept| *kept));
}

#[cfg(test)]
mod tests {
    use super::Columns;
    use crate::record::{Operation, Record};

    #[test]
    #[should_panic(expected = "as many lengths as operations")]
    fn a_record_without_a_cell_is_seen() {
        let mut columns = Columns::default();
        columns.append(&[Record::new(0, Operation::Read, 0, 512)]);
        columns.check();
        columns.length_bytes.clear();
        columns.check();
    }
}
