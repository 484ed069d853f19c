//! What holds at an instruction, and the row that is made of it.
use super::Registers;
use super::bytes::Bytes;
use crate::c::row::{Cfa, Row, SavedFp};

#[derive(Clone, Copy)]
pub(super) enum CfaRule {
    Register { register: u64, offset: i64 },
    Expression(Bytes),
}

#[derive(Clone, Copy)]
pub(super) enum RegisterRule {
    Unspecified,
    SameValue,
    Undefined,
    AtCfa(i64),
    AtExpression(Bytes),
    /// Any rule no compiler makes for the registers we follow.
    Other,
}

#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) cfa: CfaRule,
    pub(super) frame_pointer: RegisterRule,
    pub(super) return_address: RegisterRule,
}

impl Rules {
    pub(super) const INITIAL: Rules = Rules {
        cfa: CfaRule::Register { register: u64::MAX, offset: 0 },
        frame_pointer: RegisterRule::Unspecified,
        return_address: RegisterRule::Unspecified,
    };

    pub(super) fn to_row(self, pc: usize, registers: Registers) -> Option<Row> {
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

#[cfg(test)]
mod tests {
    use super::super::Tables;
    use super::*;

    const REGISTERS: Registers =
        Registers { frame_pointer: 6, stack_pointer: 7, return_address: 16, return_address_at: -8 };

    /// As binutils writes it.
    const EXPRESSION: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];

    fn offsets(expression: &[u8]) -> Option<[i32; 3]> {
        let range = expression.as_ptr_range();
        let tables = Tables { header: 0, start: range.start as usize, end: range.end as usize };
        let entry = linkage_entry(Bytes::new(&tables, tables.start)?, REGISTERS)?;
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
