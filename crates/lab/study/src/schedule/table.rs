//! Reading tables of requests.

use super::{MICROSECOND_NS, wrong};
use crate::StudyError;
use sched::{Bio, Class, Direction};

/// The columns every table has, in any order.
const COLUMNS: [&str; 6] = ["time_us", "pid", "op", "sync", "sector", "sectors"];

/// A column a table may have: `rt/0` to `rt/7`, `be/0` to `be/7`, `idle`.
const PRIORITY_COLUMN: &str = "ioprio";

/// Longest table; more is a slip.
const ROWS_MAX: usize = 50_000_000;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) time_ns: u64,
    pub(super) event: RowEvent,
}

/// What happens in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowEvent {
    /// A process submits a bio.
    Submit(Bio),
    /// A process of this number exits.
    Exit(u32),
}

/// Reads a table; the row number, from 0, is the request's `id`.
pub(super) fn read_rows(
    shown: &str,
    text: &str,
    sync_write_noidle: bool,
    device_sectors: u64,
) -> Result<Vec<Row>, StudyError> {
    let mut rows: Vec<Row> = Vec::new();
    let table = Table::open(shown, text, &COLUMNS, &[PRIORITY_COLUMN])?;
    for line in table.lines() {
        let line = line?;
        let time_ns = line.time_ns()?;
        if rows.last().is_some_and(|row| row.time_ns > time_ns) {
            return line
                .wrong("time_us", "is before that of the row above: sort the table by time");
        }
        let pid = line.pid()?;
        let event = match line.cell("op") {
            "X" => RowEvent::Exit(pid),
            _ => RowEvent::Submit(line.bio(pid, sync_write_noidle, device_sectors)?),
        };
        rows.push(Row { time_ns, event });
        if rows.len() > ROWS_MAX {
            return line
                .wrong("time_us", &format!("is row {ROWS_MAX}; that is as long as tables may be"));
        }
    }
    Ok(rows)
}

/// A table with a head line.
pub(super) struct Table<'a> {
    shown: &'a str,
    text: &'a str,
    columns: Vec<&'a str>,
}

impl<'a> Table<'a> {
    /// Takes the head line apart.
    pub(super) fn open(
        shown: &'a str,
        text: &'a str,
        needed: &[&str],
        allowed: &[&str],
    ) -> Result<Self, StudyError> {
        // Tables of spreadsheets may begin with a byte order mark.
        let head = text.lines().next().unwrap_or_default().trim_start_matches('\u{feff}');
        let columns: Vec<&str> = head.split(',').map(str::trim).collect();
        let expected = needed.join(",");
        if let Some(missing) = needed.iter().find(|name| !columns.contains(name)) {
            return wrong(
                shown,
                format!("line 1: column `{missing}` is missing; the head line reads {expected}"),
            );
        }
        if let Some(other) =
            columns.iter().find(|name| !needed.contains(name) && !allowed.contains(name))
        {
            let known = needed.iter().chain(allowed).copied();
            let error = StudyError::unknown("column", other, known);
            return wrong(shown, format!("line 1: {error}"));
        }
        Ok(Self { shown, text, columns })
    }

    /// All lines with something in them.
    pub(super) fn lines(&'a self) -> impl Iterator<Item = Result<Line<'a>, StudyError>> {
        // The head is line 1.
        let lines = self.text.lines().zip(1..).skip(1);
        lines.filter(|(line, _)| !line.trim().is_empty()).map(|(line, number)| {
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            // A cell too few would shift all that follow it into another column.
            if cells.len() != self.columns.len() {
                let (found, columns) = (cells.len(), self.columns.len());
                let reason = format!("line {number}: {found} cells instead of {columns}");
                return wrong(self.shown, reason);
            }
            Ok(Line { table: self, number, cells })
        })
    }
}

/// One line of a table.
pub(super) struct Line<'a> {
    table: &'a Table<'a>,
    pub(super) number: usize,
    cells: Vec<&'a str>,
}

impl Line<'_> {
    /// The cell of a column; empty if there is no such column.
    pub(super) fn cell(&self, column: &str) -> &str {
        let place = self.table.columns.iter().position(|name| *name == column);
        place.map_or("", |place| self.cells[place])
    }

    /// An error about a cell.
    pub(super) fn wrong<T>(&self, column: &str, reason: &str) -> Result<T, StudyError> {
        let place = format!("{} line {}", self.table.shown, self.number);
        wrong(&place, format!("{column} `{}` {reason}", self.cell(column)))
    }

    pub(super) fn number<T: std::str::FromStr>(
        &self,
        column: &str,
        takes: &str,
    ) -> Result<T, StudyError> {
        match self.cell(column).parse() {
            Ok(number) => Ok(number),
            Err(_) => self.wrong(column, &format!("must be {takes}")),
        }
    }

    /// The time: microseconds, with up to three decimals.
    pub(super) fn time_ns(&self) -> Result<u64, StudyError> {
        let text = self.cell("time_us");
        if text.starts_with('-') {
            return self.wrong("time_us", "is negative; time begins at 0");
        }
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = decimals.len() <= 3 && decimals.bytes().all(|byte| byte.is_ascii_digit());
        let whole_us: Option<u64> = whole.parse().ok();
        let decimals_ns: Option<u64> = format!("{decimals:0<3}").parse().ok();
        let time_ns = whole_us.and_then(|us| us.checked_mul(MICROSECOND_NS)).zip(decimals_ns);
        match time_ns {
            // A tenth of the range is three years, and leaves room for what is added to a time.
            Some((ns, rest)) if is_plain && ns < u64::MAX / 10 => Ok(ns + rest),
            _ => self.wrong("time_us", "must be a number of microseconds"),
        }
    }

    pub(super) fn pid(&self) -> Result<u32, StudyError> {
        self.number("pid", "a process number, 0 to 4294967295")
    }

    pub(super) fn bio(
        &self,
        pid: u32,
        sync_write_noidle: bool,
        device_sectors: u64,
    ) -> Result<Bio, StudyError> {
        let direction = match self.cell("op") {
            "R" => Direction::Read,
            "W" => Direction::Write,
            _ => return self.wrong("op", "must be R (read), W (write) or X (the process exits)"),
        };
        self.bio_of(direction, pid, sync_write_noidle, device_sectors)
    }

    /// As [`Line::bio`], of a recording: also a discard, which schedulers take for a write.
    pub(super) fn bio_or_discard(
        &self,
        pid: u32,
        sync_write_noidle: bool,
        device_sectors: u64,
    ) -> Result<Bio, StudyError> {
        let direction = match self.cell("op") {
            "R" => Direction::Read,
            "W" | "D" => Direction::Write,
            _ => return self.wrong("op", "must be R (read), W (write) or D (discard)"),
        };
        self.bio_of(direction, pid, sync_write_noidle, device_sectors)
    }

    fn bio_of(
        &self,
        direction: Direction,
        pid: u32,
        sync_write_noidle: bool,
        device_sectors: u64,
    ) -> Result<Bio, StudyError> {
        let sync = match self.cell("sync") {
            "0" => false,
            "1" => true,
            _ => return self.wrong("sync", "must be 0 or 1"),
        };
        let sector: u64 = self.number("sector", "a sector number")?;
        let sectors: u32 = self.number("sectors", "a number of sectors")?;
        if sectors == 0 {
            return self.wrong("sectors", "is no length: a request has at least one sector");
        }
        if sector.checked_add(u64::from(sectors)).is_none_or(|end| end > device_sectors) {
            let reason =
                format!("and {sectors} more end past the device of {device_sectors} sectors");
            return self.wrong("sector", &reason);
        }
        let (class, level) = self.priority()?;
        let noidle = sync_write_noidle && sync && direction == Direction::Write;
        Ok(Bio { pid, direction, sync, noidle, class, level, sector, sectors })
    }

    fn priority(&self) -> Result<(Class, u8), StudyError> {
        let text = self.cell(PRIORITY_COLUMN);
        // Level 4 is that of processes that set none (`IOPRIO_NORM`).
        let (class, level) = text.split_once('/').unwrap_or((text, "4"));
        let class = match class {
            "" | "be" => Class::BestEffort,
            "rt" => Class::RealTime,
            "idle" => Class::Idle,
            _ => return self.wrong(PRIORITY_COLUMN, "must be rt/0 to rt/7, be/0 to be/7 or idle"),
        };
        match level.parse() {
            Ok(level) if level < 8 => Ok((class, level)),
            _ => self.wrong(PRIORITY_COLUMN, "must have a level from 0 to 7"),
        }
    }
}

/// Microseconds with as many decimals as there are.
pub(super) fn shown_us(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / MICROSECOND_NS, time_ns % MICROSECOND_NS);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}") }
}
