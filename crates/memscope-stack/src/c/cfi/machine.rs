//! Call frame instructions.
use super::Registers;
use super::bytes::Bytes;
use super::entries::Common;
use super::rules::{CfaRule, RegisterRule, Rules};

/// gcc and clang nest `remember_state` once, hand-written assembly perhaps twice.
const MAX_REMEMBERED: usize = 8;

/// Runs call frame instructions up to the row that covers `target`.
pub(super) struct Machine<'a> {
    common: &'a Common,
    registers: Registers,
    location: usize,
    target: usize,
    rules: Rules,
    initial: Rules,
    remembered: [Rules; MAX_REMEMBERED],
    remembered_len: usize,
}

impl<'a> Machine<'a> {
    /// For a function that begins at `location`.
    pub(super) fn new(common: &'a Common, registers: Registers, location: usize) -> Machine<'a> {
        Machine {
            common,
            registers,
            location,
            target: usize::MAX,
            rules: Rules::INITIAL,
            initial: Rules::INITIAL,
            remembered: [Rules::INITIAL; MAX_REMEMBERED],
            remembered_len: 0,
        }
    }

    /// The instructions that all functions begin with: what they set is what others restore.
    pub(super) fn begin_with(&mut self, code: Bytes) -> Option<()> {
        let begin = self.location;
        self.execute(code)?;
        (self.initial, self.location) = (self.rules, begin);
        Some(())
    }

    /// The rules that hold at `target`.
    pub(super) fn run(&mut self, code: Bytes, target: usize) -> Option<Rules> {
        self.target = target;
        self.execute(code)?;
        Some(self.rules)
    }

    /// `None` for anything malformed or not understood. Ends because every instruction takes at least one byte.
    fn execute(&mut self, mut code: Bytes) -> Option<()> {
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
