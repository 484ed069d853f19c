//! `.eh_frame_hdr` and `.eh_frame` of a loaded object: the unwind row that holds at an address.
//!
//! The tables are read in place and trusted in nothing: every read is checked against the segment they lie in,
//! every loop is bounded by bytes consumed, and what is not understood is [`Row::UNKNOWN`].
use super::row::{Cfa, Row, SavedFp};

/// The tables of one object.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    /// Run-time address of `.eh_frame_hdr`, 0 if the object has none.
    pub(super) header: usize,
    /// The readable segment that holds both tables.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What the tables say about an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Row(Row),
    /// The frame was made by the kernel, not by a call.
    SignalFrame,
    /// The address is in no function the tables describe.
    Nothing,
}

/// DWARF register numbers of the architecture.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) frame_pointer: u64,
    pub(super) stack_pointer: u64,
    pub(super) return_address: u64,
    /// Where a call leaves the return address, relative to the CFA.
    pub(super) return_address_at: i64,
}

impl Tables {
    pub(super) fn find(&self, pc: usize, registers: Registers) -> Found {
        match self.function_at(pc) {
            None => Found::Nothing,
            Some(function) if function.common.is_signal_frame => Found::SignalFrame,
            Some(function) => Found::Row(function.row_at(pc, registers).unwrap_or(Row::UNKNOWN)),
        }
    }

    /// Whether the tables describe a function that begins at `pc`.
    pub(super) fn begins_function(&self, pc: usize) -> bool {
        self.function_at(pc).is_some_and(|function| function.begin == pc)
    }

    fn function_at(&self, pc: usize) -> Option<Function> {
        if self.header == 0 {
            return None;
        }
        let mut header = Bytes::new(self, self.header)?;
        if header.u8()? != 1 {
            return None;
        }
        let (frames_encoding, count_encoding, table_encoding) = (header.u8()?, header.u8()?, header.u8()?);
        let frames = header.encoded(frames_encoding, self.header)?;
        if count_encoding == encoding::OMIT || table_encoding != encoding::DATA_RELATIVE_I32 {
            return self.function_by_scan(frames, pc);
        }
        let count = header.encoded(count_encoding, self.header)?;
        let entry = self.sorted_entry(header.at, count, pc)?;
        Function::parse(self, entry).filter(|function| function.contains(pc))
    }

    /// The description of the last function that begins at or below `pc`, by binary search.
    fn sorted_entry(&self, table: usize, count: usize, pc: usize) -> Option<usize> {
        const ENTRY: usize = 8;
        if count == 0 || count > (self.end - table) / ENTRY {
            return None;
        }
        let begin_of = |index: usize| -> Option<usize> {
            let offset = Bytes::new(self, table + index * ENTRY)?.i32()?;
            Some(self.header.wrapping_add_signed(offset as isize))
        };
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if begin_of(middle)? <= pc {
                low = middle;
            } else {
                high = middle;
            }
        }
        if begin_of(low)? > pc {
            return None;
        }
        let offset = Bytes::new(self, table + low * ENTRY + 4)?.i32()?;
        Some(self.header.wrapping_add_signed(offset as isize))
    }

    /// The linker leaves out the sorted table where it could not read some `.eh_frame` itself.
    fn function_by_scan(&self, frames: usize, pc: usize) -> Option<Function> {
        let mut at = frames;
        loop {
            let record = Record::parse(self, at)?;
            if record.back_offset != 0
                && let Some(function) = Function::of_record(self, &record)
                && function.contains(pc)
            {
                return Some(function);
            }
            at = record.body.end;
        }
    }
}

/// A range of table bytes being read from the front.
#[derive(Clone, Copy)]
struct Bytes {
    at: usize,
    end: usize,
}

impl Bytes {
    /// From `at` to the end of the tables' segment.
    fn new(tables: &Tables, at: usize) -> Option<Bytes> {
        (at >= tables.start && at <= tables.end).then_some(Bytes { at, end: tables.end })
    }

    /// Takes the next `length` bytes off.
    fn split(&mut self, length: usize) -> Option<Bytes> {
        if length > self.end.checked_sub(self.at)? {
            return None;
        }
        let front = Bytes { at: self.at, end: self.at + length };
        self.at = front.end;
        Some(front)
    }

    fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    fn take<T: Copy>(&mut self) -> Option<T> {
        let bytes = self.split(size_of::<T>())?;
        // SAFETY: `Bytes::new` and `split` keep the range within a readable segment of a loaded object, and `T` is only
        // instantiated with integers below.
        Some(unsafe { (bytes.at as *const T).read_unaligned() })
    }

    fn u8(&mut self) -> Option<u8> {
        self.take()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take()
    }

    fn u32(&mut self) -> Option<u32> {
        self.take()
    }

    fn i32(&mut self) -> Option<i32> {
        self.take()
    }

    fn u64(&mut self) -> Option<u64> {
        self.take()
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    fn sleb(&mut self) -> Option<i64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                if shift < 64 && byte & 0x40 != 0 {
                    value |= -1 << shift;
                }
                return Some(value);
            }
        }
    }

    /// A pointer in one of the DW_EH_PE encodings; `data` is what data-relative ones are relative to.
    fn encoded(&mut self, encoding: u8, data: usize) -> Option<usize> {
        let base = match encoding & encoding::RELATIVE_TO {
            encoding::ABSOLUTE => 0,
            encoding::PC_RELATIVE => self.at,
            encoding::DATA_RELATIVE => data,
            _ => return None,
        };
        if encoding & encoding::INDIRECT != 0 {
            return None;
        }
        Some(base.wrapping_add(self.encoded_value(encoding)?))
    }

    fn encoded_value(&mut self, encoding: u8) -> Option<usize> {
        Some(match encoding & encoding::FORMAT {
            0x00 | 0x04 | 0x0c => self.u64()? as usize,
            0x01 => self.uleb()? as usize,
            0x02 => usize::from(self.u16()?),
            0x03 => self.u32()? as usize,
            0x09 => self.sleb()? as usize,
            0x0a => self.u16()? as i16 as usize,
            0x0b => self.i32()? as usize,
            _ => return None,
        })
    }
}

/// DW_EH_PE.
mod encoding {
    pub(super) const OMIT: u8 = 0xff;
    pub(super) const FORMAT: u8 = 0x0f;
    pub(super) const RELATIVE_TO: u8 = 0x70;
    pub(super) const INDIRECT: u8 = 0x80;
    pub(super) const ABSOLUTE: u8 = 0x00;
    pub(super) const PC_RELATIVE: u8 = 0x10;
    pub(super) const DATA_RELATIVE: u8 = 0x30;
    pub(super) const DATA_RELATIVE_I32: u8 = 0x3b;
}

/// A record of `.eh_frame` of either kind.
struct Record {
    /// 0 in a common entry (CIE); in a function's entry (FDE) how far before this very field its common entry begins.
    back_offset: usize,
    back_offset_at: usize,
    body: Bytes,
}

impl Record {
    /// `None` at the terminator.
    fn parse(tables: &Tables, at: usize) -> Option<Record> {
        let mut bytes = Bytes::new(tables, at)?;
        let length = match bytes.u32()? {
            0 => return None,
            u32::MAX => bytes.u64()? as usize,
            length => length as usize,
        };
        let mut body = bytes.split(length)?;
        let back_offset_at = body.at;
        Some(Record { back_offset: body.u32()? as usize, back_offset_at, body })
    }
}

/// What the functions of one compilation unit share (CIE).
#[derive(Clone, Copy)]
struct Common {
    code_alignment: u64,
    data_alignment: i64,
    pointer_encoding: u8,
    has_augmentation_data: bool,
    is_signal_frame: bool,
    instructions: Bytes,
}

impl Common {
    fn parse(tables: &Tables, at: usize) -> Option<Common> {
        let record = Record::parse(tables, at)?;
        if record.back_offset != 0 {
            return None;
        }
        let mut bytes = record.body;
        let version = bytes.u8()?;
        let mut augmentation = bytes;
        while bytes.u8()? != 0 {}
        if version == 4 {
            bytes.u16()?;
        } else if version != 1 && version != 3 {
            return None;
        }
        let code_alignment = bytes.uleb()?;
        let data_alignment = bytes.sleb()?;
        if version == 1 {
            bytes.u8()?;
        } else {
            bytes.uleb()?;
        }
        let mut common = Common {
            code_alignment,
            data_alignment,
            pointer_encoding: 0,
            has_augmentation_data: false,
            is_signal_frame: false,
            instructions: bytes,
        };
        match augmentation.u8()? {
            0 => return Some(common),
            b'z' => common.has_augmentation_data = true,
            _ => return None,
        }
        let length = bytes.uleb()? as usize;
        let mut data = bytes.split(length)?;
        common.instructions = bytes;
        loop {
            match augmentation.u8()? {
                0 => return Some(common),
                b'R' => common.pointer_encoding = data.u8()?,
                b'L' => drop(data.u8()?),
                b'P' => {
                    let encoding = data.u8()?;
                    data.encoded_value(encoding)?;
                }
                b'S' => common.is_signal_frame = true,
                _ => return None,
            }
        }
    }
}

/// One function (FDE).
struct Function {
    common: Common,
    begin: usize,
    length: usize,
    instructions: Bytes,
}

impl Function {
    fn parse(tables: &Tables, at: usize) -> Option<Function> {
        Function::of_record(tables, &Record::parse(tables, at)?)
    }

    fn of_record(tables: &Tables, record: &Record) -> Option<Function> {
        if record.back_offset == 0 {
            return None;
        }
        let common = Common::parse(tables, record.back_offset_at.checked_sub(record.back_offset)?)?;
        let mut bytes = record.body;
        let begin = bytes.encoded(common.pointer_encoding, tables.header)?;
        let length = bytes.encoded_value(common.pointer_encoding)?;
        if common.has_augmentation_data {
            let length = bytes.uleb()? as usize;
            bytes.split(length)?;
        }
        Some(Function { common, begin, length, instructions: bytes })
    }

    fn contains(&self, pc: usize) -> bool {
        pc.wrapping_sub(self.begin) < self.length
    }

    fn row_at(&self, pc: usize, registers: Registers) -> Option<Row> {
        let mut machine = Machine {
            common: &self.common,
            registers,
            location: self.begin,
            target: usize::MAX,
            rules: Rules::INITIAL,
            initial: Rules::INITIAL,
            remembered: [Rules::INITIAL; MAX_REMEMBERED],
            remembered_len: 0,
        };
        machine.run(self.common.instructions)?;
        machine.initial = machine.rules;
        machine.location = self.begin;
        machine.target = pc;
        machine.run(self.instructions)?;
        machine.rules.to_row(pc, registers)
    }
}

#[derive(Clone, Copy)]
enum CfaRule {
    Register { register: u64, offset: i64 },
    Expression(Bytes),
}

#[derive(Clone, Copy)]
enum RegisterRule {
    Unspecified,
    SameValue,
    Undefined,
    AtCfa(i64),
    AtExpression(Bytes),
    /// Any rule no compiler makes for the registers we follow.
    Other,
}

#[derive(Clone, Copy)]
struct Rules {
    cfa: CfaRule,
    frame_pointer: RegisterRule,
    return_address: RegisterRule,
}

impl Rules {
    const INITIAL: Rules = Rules {
        cfa: CfaRule::Register { register: u64::MAX, offset: 0 },
        frame_pointer: RegisterRule::Unspecified,
        return_address: RegisterRule::Unspecified,
    };

    fn to_row(self, pc: usize, registers: Registers) -> Option<Row> {
        match self.return_address {
            RegisterRule::Undefined => return Some(Row::END),
            RegisterRule::AtCfa(offset) if offset == registers.return_address_at => {}
            _ => return None,
        }
        let cfa = match self.cfa {
            CfaRule::Register { register, offset } => {
                let offset = i32::try_from(offset).ok()?;
                if register == registers.stack_pointer {
                    Cfa::Sp { offset }
                } else if register == registers.frame_pointer {
                    Cfa::Fp { offset }
                } else {
                    return None;
                }
            }
            CfaRule::Expression(bytes) => match linkage_entry(bytes, registers) {
                Some(entry) => Cfa::Sp { offset: entry.offset_at(pc)? },
                None => cfa_of(simple_expression(bytes)?, registers)?,
            },
        };
        let saved = match self.frame_pointer {
            // A frame pointer nobody may rely on: whoever saved it will say so, as for one that was never touched.
            RegisterRule::Unspecified | RegisterRule::SameValue | RegisterRule::Undefined => SavedFp::Same,
            RegisterRule::AtCfa(offset) => SavedFp::AtCfa(i32::try_from(offset).ok()?),
            RegisterRule::AtExpression(bytes) => {
                let address = simple_expression(bytes)?;
                let offset = i32::try_from(address.offset).ok()?;
                if address.dereferenced.is_some() {
                    return None;
                } else if address.register == registers.frame_pointer {
                    SavedFp::AtFp(offset)
                } else if address.register == registers.stack_pointer {
                    SavedFp::AtSp(offset)
                } else {
                    return None;
                }
            }
            RegisterRule::Other => return None,
        };
        Some(Row::new(cfa, saved))
    }
}

/// An entry of a procedure linkage table: from the instruction behind its `push` on there is a word more on the stack.
/// Nothing calls from there, but signals come there as anywhere.
struct LinkageEntry {
    offset: i64,
    pushed_from: u8,
}

impl LinkageEntry {
    fn offset_at(&self, pc: usize) -> Option<i32> {
        let pushed = if pc & 15 >= usize::from(self.pushed_from) { 8 } else { 0 };
        i32::try_from(self.offset + pushed).ok()
    }
}

/// The expression linkers make for all entries of a table at once: `sp + offset + (((pc & 15) >= pushed_from) << 3)`.
fn linkage_entry(mut bytes: Bytes, registers: Registers) -> Option<LinkageEntry> {
    const BREG0: u64 = 0x70;
    const LIT0: u8 = 0x30;
    const LIT15: u8 = LIT0 + 15;
    const AND: u8 = 0x1a;
    const GE: u8 = 0x2a;
    const LIT3: u8 = LIT0 + 3;
    const SHL: u8 = 0x24;
    const PLUS: u8 = 0x22;
    if u64::from(bytes.u8()?) != BREG0 + registers.stack_pointer {
        return None;
    }
    let offset = bytes.sleb()?;
    if u64::from(bytes.u8()?) != BREG0 + registers.return_address || bytes.sleb()? != 0 {
        return None;
    }
    let is_masked = bytes.u8()? == LIT15 && bytes.u8()? == AND;
    let pushed_from = bytes.u8()?.checked_sub(LIT0).filter(|&place| is_masked && place <= 15)?;
    for operation in [GE, LIT3, SHL, PLUS] {
        if bytes.u8()? != operation {
            return None;
        }
    }
    bytes.is_empty().then_some(LinkageEntry { offset, pushed_from })
}

/// `register + offset`, or with `dereferenced` what lies there plus that.
struct SimpleExpression {
    register: u64,
    offset: i64,
    dereferenced: Option<u64>,
}

/// The only expressions compilers make for frames that call something: `breg`, `breg deref`, `breg deref plus_uconst`.
fn simple_expression(mut bytes: Bytes) -> Option<SimpleExpression> {
    const DEREF: u8 = 0x06;
    const PLUS_UCONST: u8 = 0x23;
    const BREG0: u8 = 0x70;
    const BREG31: u8 = 0x8f;
    let register = match bytes.u8()? {
        operation @ BREG0..=BREG31 => u64::from(operation - BREG0),
        _ => return None,
    };
    let offset = bytes.sleb()?;
    let dereferenced = if bytes.is_empty() {
        None
    } else if bytes.u8()? != DEREF {
        return None;
    } else if bytes.is_empty() {
        Some(0)
    } else if bytes.u8()? == PLUS_UCONST {
        Some(bytes.uleb()?)
    } else {
        return None;
    };
    bytes.is_empty().then_some(SimpleExpression { register, offset, dereferenced })
}

fn cfa_of(expression: SimpleExpression, registers: Registers) -> Option<Cfa> {
    let offset = i32::try_from(expression.offset).ok()?;
    let is_fp = expression.register == registers.frame_pointer;
    if !is_fp && expression.register != registers.stack_pointer {
        return None;
    }
    Some(match expression.dereferenced {
        None if is_fp => Cfa::Fp { offset },
        None => Cfa::Sp { offset },
        Some(add) if is_fp => Cfa::AtFp { offset, add: u8::try_from(add).ok()? },
        Some(add) => Cfa::AtSp { offset, add: u8::try_from(add).ok()? },
    })
}

/// gcc and clang nest `remember_state` once, hand-written assembly perhaps twice.
const MAX_REMEMBERED: usize = 8;

/// Runs call frame instructions up to the row that covers `target`.
struct Machine<'a> {
    common: &'a Common,
    registers: Registers,
    location: usize,
    target: usize,
    rules: Rules,
    initial: Rules,
    remembered: [Rules; MAX_REMEMBERED],
    remembered_len: usize,
}

impl Machine<'_> {
    /// `None` for anything malformed or not understood. Ends because every instruction takes at least one byte.
    fn run(&mut self, mut code: Bytes) -> Option<()> {
        while !code.is_empty() {
            let opcode = code.u8()?;
            let low = u64::from(opcode & 0x3f);
            let is_beyond_target = match opcode >> 6 {
                1 => self.advance(low),
                2 => {
                    let offset = code.uleb()?;
                    self.set(low, self.at_cfa(offset as i64)?)
                }
                3 => self.restore(low),
                _ => self.extended(opcode, &mut code)?,
            };
            if is_beyond_target {
                return Some(());
            }
        }
        Some(())
    }

    fn extended(&mut self, opcode: u8, code: &mut Bytes) -> Option<bool> {
        Some(match opcode {
            // nop
            0x00 => false,
            // set_loc
            0x01 => {
                self.location = code.encoded(self.common.pointer_encoding, 0)?;
                self.location > self.target
            }
            // advance_loc1, 2, 4
            0x02 => self.advance(u64::from(code.u8()?)),
            0x03 => self.advance(u64::from(code.u16()?)),
            0x04 => self.advance(u64::from(code.u32()?)),
            // offset_extended, offset_extended_sf, negative_offset_extended
            0x05 => {
                let (register, offset) = (code.uleb()?, code.uleb()? as i64);
                self.set(register, self.at_cfa(offset)?)
            }
            0x11 => {
                let (register, offset) = (code.uleb()?, code.sleb()?);
                self.set(register, self.at_cfa(offset)?)
            }
            0x2f => {
                let (register, offset) = (code.uleb()?, code.uleb()? as i64);
                self.set(register, self.at_cfa(offset.checked_neg()?)?)
            }
            // restore_extended
            0x06 => {
                let register = code.uleb()?;
                self.restore(register)
            }
            // undefined, same_value
            0x07 => {
                let register = code.uleb()?;
                self.set(register, RegisterRule::Undefined)
            }
            0x08 => {
                let register = code.uleb()?;
                self.set(register, RegisterRule::SameValue)
            }
            // register, val_offset, val_offset_sf
            0x09 | 0x14 | 0x15 => {
                let register = code.uleb()?;
                code.uleb()?;
                self.set(register, RegisterRule::Other)
            }
            // remember_state, restore_state
            0x0a => {
                *self.remembered.get_mut(self.remembered_len)? = self.rules;
                self.remembered_len += 1;
                false
            }
            0x0b => {
                self.remembered_len = self.remembered_len.checked_sub(1)?;
                self.rules = *self.remembered.get(self.remembered_len)?;
                false
            }
            // def_cfa, def_cfa_sf
            0x0c => {
                let (register, offset) = (code.uleb()?, code.uleb()? as i64);
                self.set_cfa(register, offset)
            }
            0x12 => {
                let (register, offset) = (code.uleb()?, code.sleb()?);
                self.set_cfa(register, offset.checked_mul(self.common.data_alignment)?)
            }
            // def_cfa_register
            0x0d => {
                let register = code.uleb()?;
                let CfaRule::Register { offset, .. } = self.rules.cfa else { return None };
                self.set_cfa(register, offset)
            }
            // def_cfa_offset, def_cfa_offset_sf
            0x0e => {
                let offset = code.uleb()? as i64;
                let CfaRule::Register { register, .. } = self.rules.cfa else { return None };
                self.set_cfa(register, offset)
            }
            0x13 => {
                let offset = code.sleb()?.checked_mul(self.common.data_alignment)?;
                let CfaRule::Register { register, .. } = self.rules.cfa else { return None };
                self.set_cfa(register, offset)
            }
            // def_cfa_expression
            0x0f => {
                let length = code.uleb()? as usize;
                self.rules.cfa = CfaRule::Expression(code.split(length)?);
                false
            }
            // expression, val_expression
            0x10 => {
                let (register, length) = (code.uleb()?, code.uleb()? as usize);
                let expression = code.split(length)?;
                self.set(register, RegisterRule::AtExpression(expression))
            }
            0x16 => {
                let (register, length) = (code.uleb()?, code.uleb()? as usize);
                code.split(length)?;
                self.set(register, RegisterRule::Other)
            }
            // GNU_args_size: matters to exception landing pads only.
            0x2e => {
                code.uleb()?;
                false
            }
            _ => return None,
        })
    }

    fn at_cfa(&self, factored: i64) -> Option<RegisterRule> {
        Some(RegisterRule::AtCfa(factored.checked_mul(self.common.data_alignment)?))
    }

    /// Whether the next row begins beyond the target.
    fn advance(&mut self, delta: u64) -> bool {
        self.location = self.location.wrapping_add(delta.wrapping_mul(self.common.code_alignment) as usize);
        self.location > self.target
    }

    fn set_cfa(&mut self, register: u64, offset: i64) -> bool {
        self.rules.cfa = CfaRule::Register { register, offset };
        false
    }

    fn set(&mut self, register: u64, rule: RegisterRule) -> bool {
        if register == self.registers.frame_pointer {
            self.rules.frame_pointer = rule;
        } else if register == self.registers.return_address {
            self.rules.return_address = rule;
        }
        false
    }

    fn restore(&mut self, register: u64) -> bool {
        if register == self.registers.frame_pointer {
            self.rules.frame_pointer = self.initial.frame_pointer;
        } else if register == self.registers.return_address {
            self.rules.return_address = self.initial.return_address;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERS: Registers =
        Registers { frame_pointer: 6, stack_pointer: 7, return_address: 16, return_address_at: -8 };

    /// As binutils writes it.
    const EXPRESSION: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];

    fn offsets(expression: &[u8]) -> Option<[i32; 3]> {
        let range = expression.as_ptr_range();
        let entry = linkage_entry(Bytes { at: range.start as usize, end: range.end as usize }, REGISTERS)?;
        Some([0x4010, 0x401a, 0x401b].map(|pc| entry.offset_at(pc).unwrap()))
    }

    #[test]
    fn in_a_linkage_table_a_word_is_pushed_behind_the_push_only() {
        assert_eq!(offsets(&EXPRESSION), Some([8, 8, 16]));
    }

    #[test]
    fn other_expressions_are_not_taken_for_a_linkage_table() {
        assert_eq!(offsets(&EXPRESSION[..10]), None);
        for at in (0..EXPRESSION.len()).filter(|at| ![1, 6].contains(at)) {
            let mut other = EXPRESSION;
            other[at] += 1;
            assert_eq!(offsets(&other), None, "{at}");
        }
    }
}
