//! Line tables of CPython code objects, in the three encodings there have been since 3.6.
//!
//! A table comes verbatim from the traced process and is not trusted: every byte string decodes to something, and no
//! arithmetic on it can overflow.

/// Line of a Python instruction.
///
/// `version` is `PY_VERSION_HEX >> 16`, `instruction` the byte offset in `co_code` of the running instruction. `None`
/// if the instruction has no line, lies outside the table, or the version is not one whose table is known.
pub fn python_line(version: u16, first_line: u32, line_table: &[u8], instruction: u32) -> Option<u32> {
    let (first_line, instruction) = (i64::from(first_line), u64::from(instruction));
    let line = match version {
        0x0306..=0x0309 => Some(lnotab_line(first_line, line_table, instruction)),
        0x030a => range_table_line(first_line, line_table, instruction),
        0x030b..=0x030e => location_table_line(first_line, line_table, instruction),
        _ => None,
    }?;
    u32::try_from(line).ok()
}

/// Up to 3.9, `co_lnotab`: pairs of (bytes until the line changes, signed line change).
///
/// The table does not say where the code ends, so the last line holds for ever.
fn lnotab_line(first_line: i64, table: &[u8], instruction: u64) -> i64 {
    let (mut address, mut line) = (0u64, first_line);
    for &[bytes, lines] in table.as_chunks().0 {
        address += u64::from(bytes);
        if address > instruction {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    line
}

/// 3.10, `co_linetable` of PEP 626: pairs of (length in bytes, signed line change that takes effect at its start).
fn range_table_line(first_line: i64, table: &[u8], instruction: u64) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let (mut end, mut line) = (0u64, first_line);
    for &[bytes, lines] in table.as_chunks().0 {
        end += u64::from(bytes);
        let lines = lines.cast_signed();
        if lines != NO_LINE {
            line += i64::from(lines);
        }
        if instruction < end {
            return (lines != NO_LINE).then_some(line);
        }
    }
    None
}

/// From 3.11, `co_linetable` as a list of locations, each an entry of
///
/// ```text
///   1 cccc lll   0 ....... *     c: form, l: code units (of 2 bytes) minus 1; further bytes have the top bit clear
/// ```
///
/// Forms 0–9 stay on the line, 10–12 move 0–2 lines on, 13 and 14 carry a signed variable-length change, 15 has no
/// line. Columns follow and are not needed: the next entry is found by its top bit.
fn location_table_line(first_line: i64, table: &[u8], instruction: u64) -> Option<i64> {
    const BYTES_PER_UNIT: u64 = 2;
    let (mut end, mut line) = (0u64, first_line);
    let mut rest = table;
    while let Some((&head, after)) = rest.split_first() {
        let operands_end = after.iter().position(|byte| byte & 0x80 != 0).unwrap_or(after.len());
        let (operands, next) = after.split_at(operands_end);
        let form = head >> 3 & 0x0f;
        let change = match form {
            10..=12 => i64::from(form - 10),
            13 | 14 => signed_varint(operands),
            _ => 0,
        };
        line = line.saturating_add(change);
        end += (u64::from(head & 7) + 1) * BYTES_PER_UNIT;
        if instruction < end {
            return (form != 15).then_some(line);
        }
        rest = next;
    }
    None
}

/// Six bits a byte, lowest first, bit 6 set on all but the last; the lowest bit of the value is the sign.
fn signed_varint(bytes: &[u8]) -> i64 {
    // CPython reads into 32 bits; six bytes hold 36, so longer runs are not a table it wrote.
    const LONGEST: usize = 6;
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(LONGEST).enumerate() {
        value |= u64::from(byte & 0x3f) << (6 * index);
        if byte & 0x40 == 0 {
            break;
        }
    }
    let magnitude = (value >> 1).cast_signed();
    if value & 1 == 1 { -magnitude } else { magnitude }
}
