//! The cells of one row, whichever form of file it stands in.
use crate::rows::{COLUMNS, NOT_APPLICABLE};
use memscope_model::TimestampNs;
use std::borrow::Cow;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Cell<'a> {
    #[default]
    Nothing,
    Integer(i64),
    Text(&'a [u8]),
}

impl<'a> Cell<'a> {
    /// Not negative, decimal or with `0x`.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Cell::Nothing => None,
            Cell::Integer(number) => u64::try_from(number).ok(),
            Cell::Text(text) => number(text),
        }
    }

    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        match self {
            Cell::Nothing => Cow::Borrowed(b""),
            Cell::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            Cell::Text(text) => Cow::Borrowed(text),
        }
    }

    pub(crate) fn text(self) -> Cow<'a, str> {
        match self {
            Cell::Text(text) => String::from_utf8_lossy(text),
            Cell::Integer(number) => Cow::Owned(number.to_string()),
            Cell::Nothing => Cow::Borrowed(""),
        }
    }

    /// Nothing, nothing in it, or a text that says as much.
    pub(crate) fn is_empty(self) -> bool {
        match self {
            Cell::Nothing => true,
            Cell::Integer(_) => false,
            Cell::Text(text) => text.is_empty() || text == NOT_APPLICABLE.as_bytes(),
        }
    }
}

/// Decimal, or hexadecimal behind `0x`.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        digits => (digits, 10),
    };
    if digits.is_empty() {
        return None;
    }
    // So many digits cannot overflow.
    let most = if radix == 16 { 16 } else { 19 };
    let mut value = 0u64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(radix)?;
        value = if digits.len() <= most {
            value * u64::from(radix) + u64::from(digit)
        } else {
            value.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))?
        };
    }
    Some(value)
}

/// What a cell is about. The first are [`COLUMNS`], in that order; then those that only the first generation has, and
/// those of the table of stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    Id,
    Event,
    EventType,
    Name,
    Time,
    Process,
    Thread,
    Device,
    Pointer,
    Attributes,
    PythonStack,
    CStack,
    Size,
    Reserved,
    /// Of a frame, in the table of stacks.
    Caller,
    Frame,
}

impl Column {
    const COUNT: usize = 16;
    const OF_COLUMNS: [Column; 12] = [
        Column::Id,
        Column::Event,
        Column::EventType,
        Column::Name,
        Column::Time,
        Column::Process,
        Column::Thread,
        Column::Device,
        Column::Pointer,
        Column::Attributes,
        Column::PythonStack,
        Column::CStack,
    ];

    fn of(name: &str) -> Option<Column> {
        let today = COLUMNS.iter().position(|column| *column == name).map(|at| Column::OF_COLUMNS[at]);
        today.or(match name {
            "Record Index" => Some(Column::Id),
            MICROSECONDS => Some(Column::Time),
            "Addr" => Some(Column::Pointer),
            "Size(byte)" => Some(Column::Size),
            "Total Reserved(byte)" => Some(Column::Reserved),
            "Caller" => Some(Column::Caller),
            "Frame" => Some(Column::Frame),
            _ => None,
        })
    }
}

const MICROSECONDS: &str = "Timestamp(us)";

/// The row of a file, by what its cells are about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowCells<'a> {
    cells: [Cell<'a>; Column::COUNT],
    /// Nanoseconds in a unit of the time's cell.
    time_unit: u64,
}

impl<'a> RowCells<'a> {
    pub(crate) fn new(header: &Header) -> RowCells<'a> {
        RowCells { cells: [Cell::Nothing; Column::COUNT], time_unit: header.time_unit }
    }

    #[inline]
    pub(crate) fn set(&mut self, column: Column, cell: Cell<'a>) {
        self.cells[column as usize] = cell;
    }

    #[inline]
    pub(crate) fn get(&self, column: Column) -> Cell<'a> {
        self.cells[column as usize]
    }

    pub(crate) fn time(&self) -> Option<TimestampNs> {
        self.get(Column::Time).number()?.checked_mul(self.time_unit).map(TimestampNs)
    }
}

/// Which columns a file has, by their place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// `None` is a column nobody asks for.
    pub(crate) columns: Vec<Option<Column>>,
    time_unit: u64,
}

impl Header {
    pub(crate) fn of<'n>(names: impl Iterator<Item = Cow<'n, str>>) -> Header {
        let mut header = Header { columns: Vec::new(), time_unit: 1 };
        for name in names {
            let name = name.trim();
            if name == MICROSECONDS {
                header.time_unit = 1000;
            }
            // Of two columns of a name the first counts.
            let column = Column::of(name).filter(|column| !header.columns.contains(&Some(*column)));
            header.columns.push(column);
        }
        header
    }

    pub(crate) fn has(&self, column: Column) -> bool {
        self.columns.contains(&Some(column))
    }

    /// What a dump cannot do without and this lacks.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        let needed = [(Column::Event, 1), (Column::EventType, 2), (Column::Time, 4)];
        needed.into_iter().find(|(column, _)| !self.has(*column)).map(|(_, at)| COLUMNS[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_never_too_large() {
        let numbers = ["0", "42", "0x2a", "0x000012c041400000", "18446744073709551615", "0xffffffffffffffff"];
        assert_eq!(
            numbers.map(|text| number(text.as_bytes())),
            [0, 42, 42, 0x12c0_4140_0000, u64::MAX, u64::MAX].map(Some)
        );
        for wrong in ["", "0x", "-1", "1.5", "12a", "18446744073709551616", "0x10000000000000000", " 1"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_column_is_known_by_its_name_of_any_generation_wherever_it_stands() {
        let names = "Record Index,Timestamp(us),Event,Event Type,Kernel Index,Addr,Size(byte)";
        let header = Header::of(names.split(',').map(Cow::Borrowed));
        let known = [Column::Id, Column::Time, Column::Event, Column::EventType].map(Some);
        assert_eq!(header.columns[..4], known);
        assert_eq!(header.columns[4..], [None, Some(Column::Pointer), Some(Column::Size)]);
        assert_eq!(header.lacks(), None);
        let mut row = RowCells::new(&header);
        row.set(Column::Time, Cell::Integer(7));
        assert_eq!(row.time(), Some(TimestampNs(7000)));
        assert_eq!(Header::of(["Event", "x"].into_iter().map(Cow::Borrowed)).lacks(), Some("Event Type"));
    }
}
