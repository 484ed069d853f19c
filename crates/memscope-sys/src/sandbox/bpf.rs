//! Classic BPF as far as seccomp has it: 32-bit words, an accumulator, an index, sixteen words of memory.

/// `struct sock_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub k: u32,
}

/// `struct seccomp_data` in words: number, architecture, instruction pointer, six arguments.
pub(super) type CallData = [u32; 16];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

pub(super) fn call_data(number: usize, arguments: &[usize; 6]) -> CallData {
    // Inlined in many places; this one stands for all of them, as code of our library.
    let instruction_pointer = call_data as *const () as usize;
    let mut data = [0; 16];
    let wide = core::iter::once(&instruction_pointer).chain(arguments);
    let halves = wide.flat_map(|word| [*word as u32, (*word as u64 >> 32) as u32]);
    let words = [number as u32, ARCHITECTURE].into_iter().chain(halves);
    for (to, word) in data.iter_mut().zip(words) {
        *to = word;
    }
    data
}

/// Whether the filter's verdict is to make the call; logging it does not hinder it. An answer instead of the call, a
/// signal, a tracer, a supervisor do, and so does what the kernel would not have taken as a filter.
pub(super) fn lets_pass(filter: &[Instruction], data: &CallData) -> bool {
    const ACTION: u32 = 0xffff_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const LOG: u32 = 0x7ffc_0000;
    matches!(verdict(filter, data).map(|verdict| verdict & ACTION), Some(ALLOW | LOG))
}

/// Whether the filter ends who makes the call, or sends a signal that nobody expects. Any other answer the caller gets.
pub(super) fn kills(filter: &[Instruction], data: &CallData) -> bool {
    const ACTION: u32 = 0xffff_0000;
    const KILL_THREAD: u32 = 0;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const TRAP: u32 = 0x0003_0000;
    matches!(verdict(filter, data).map(|verdict| verdict & ACTION), None | Some(KILL_THREAD | KILL_PROCESS | TRAP))
}

fn verdict(filter: &[Instruction], data: &CallData) -> Option<u32> {
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
    let mut next = 0usize;
    // Jumps lead forwards only, so this ends.
    loop {
        let Instruction { code, if_true, if_false, k } = *filter.get(next)?;
        next += 1;
        let operand = if code & 0x08 == 0 { k } else { x };
        let slot = k as usize;
        match code {
            // Loads of a word of the data, of its length, of a constant, of memory.
            0x20 if slot.is_multiple_of(4) => a = *data.get(slot / 4)?,
            0x80 => a = size_of::<CallData>() as u32,
            0x81 => x = size_of::<CallData>() as u32,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = *memory.get(slot)?,
            0x61 => x = *memory.get(slot)?,
            0x02 => *memory.get_mut(slot)? = a,
            0x03 => *memory.get_mut(slot)? = x,
            0x07 => x = a,
            0x87 => a = x,
            // Arithmetic with the constant or the index.
            0x04 | 0x0c => a = a.wrapping_add(operand),
            0x14 | 0x1c => a = a.wrapping_sub(operand),
            0x24 | 0x2c => a = a.wrapping_mul(operand),
            // A division by zero ends the filter with the verdict 0, which is to kill.
            0x34 | 0x3c => a = a.checked_div(operand)?,
            0x44 | 0x4c => a |= operand,
            0x54 | 0x5c => a &= operand,
            0x64 | 0x6c => a = a.checked_shl(operand).unwrap_or(0),
            0x74 | 0x7c => a = a.checked_shr(operand).unwrap_or(0),
            0x84 => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= operand,
            // Jumps: always, equal, greater, greater or equal, any bit.
            0x05 => next = next.checked_add(slot)?,
            0x15 | 0x1d => next += usize::from(if a == operand { if_true } else { if_false }),
            0x25 | 0x2d => next += usize::from(if a > operand { if_true } else { if_false }),
            0x35 | 0x3d => next += usize::from(if a >= operand { if_true } else { if_false }),
            0x45 | 0x4d => next += usize::from(if a & operand != 0 { if_true } else { if_false }),
            0x06 => return Some(k),
            0x16 => return Some(a),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;

    fn op(code: u16, k: u32) -> Instruction {
        Instruction { code, if_true: 0, if_false: 0, k }
    }

    fn jump(code: u16, k: u32, if_true: u8, if_false: u8) -> Instruction {
        Instruction { code, if_true, if_false, k }
    }

    fn run(filter: &[Instruction]) -> Option<u32> {
        verdict(filter, &call_data(5, &[0x1_2345_6789, 7, 0, 0, 0, usize::MAX]))
    }

    #[test]
    fn words_of_a_call_are_where_the_kernel_puts_them() {
        for (offset, word) in [(0, 5), (4, ARCHITECTURE), (16, 0x2345_6789), (20, 1), (24, 7), (60, u32::MAX)] {
            assert_eq!(run(&[op(0x20, offset), op(0x16, 0)]), Some(word), "at {offset}");
        }
        assert_eq!(run(&[op(0x20, 64), op(0x16, 0)]), None);
        assert_eq!(run(&[op(0x20, 2), op(0x16, 0)]), None);
        assert_eq!(run(&[op(0x80, 0), op(0x16, 0)]), Some(64));
    }

    #[test]
    fn who_is_killed_is_told_from_who_gets_an_error() {
        let data = call_data(5, &[0; 6]);
        for (action, lets, ends) in [
            (ALLOW, true, false),
            (0x7ffc_0000, true, false),
            (KILL, false, true),
            (7, false, true),
            (0x0003_0001, false, true),
            (0x0005_0026, false, false),
            (0x7ff0_0000, false, false),
            (0x7fc0_0000, false, false),
        ] {
            let filter = [op(0x06, action)];
            assert_eq!((lets_pass(&filter, &data), kills(&filter, &data)), (lets, ends), "{action:#x}");
        }
        assert!(kills(&[op(0xff, 0)], &data));
    }

    #[test]
    fn arithmetic_wraps_and_shifts_run_out() {
        for (code, k, result) in [
            (0x04, 10, 3),
            (0x14, 10, 0xffff_ffef),
            (0x24, 3, 0xffff_ffeb),
            (0x34, 2, 0x7fff_fffc),
            (0x44, 0xf, 0xffff_ffff),
            (0x54, 0xf, 9),
            (0x64, 4, 0xffff_ff90),
            (0x74, 28, 15),
            (0x74, 32, 0),
            (0xa4, 0xffff_ffff, 6),
        ] {
            let by_constant = run(&[op(0x00, 0xffff_fff9), op(code, k), op(0x16, 0)]);
            let by_index = run(&[op(0x01, k), op(0x00, 0xffff_fff9), op(code | 8, 0), op(0x16, 0)]);
            assert_eq!((by_constant, by_index), (Some(result), Some(result)), "{code:#x}");
        }
        assert_eq!(run(&[op(0x00, 7), op(0x84, 0), op(0x16, 0)]), Some(0xffff_fff9));
        assert_eq!(run(&[op(0x00, 7), op(0x34, 0), op(0x16, 0)]), None);
    }

    #[test]
    fn memory_and_index_keep_what_was_put_there() {
        let filter = [op(0x00, 3), op(0x02, 15), op(0x61, 15), op(0x00, 9), op(0x0c, 0), op(0x07, 0), op(0x00, 0)];
        assert_eq!(run(&[&filter[..], &[op(0x87, 0), op(0x03, 1), op(0x60, 1), op(0x16, 0)]].concat()), Some(12));
        assert_eq!(run(&[op(0x02, 16), op(0x16, 0)]), None);
    }

    #[test]
    fn jumps_choose_and_lead_forwards() {
        for (code, k, taken) in [
            (0x15, 7, true),
            (0x15, 8, false),
            (0x25, 6, true),
            (0x25, 7, false),
            (0x35, 7, true),
            (0x35, 8, false),
            (0x45, 4, true),
            (0x45, 8, false),
        ] {
            let filter = [op(0x00, 7), jump(code, k, 1, 0), op(0x06, 0), op(0x06, 1)];
            assert_eq!(run(&filter), Some(u32::from(taken)), "{code:#x} {k}");
        }
        assert_eq!(run(&[op(0x05, 1), op(0x06, 0), op(0x06, 1)]), Some(1));
        assert_eq!(run(&[op(0x05, u32::MAX)]), None);
        assert_eq!(run(&[]), None);
    }

    #[test]
    fn only_making_the_call_is_letting_it_pass() {
        let data = call_data(0, &[0; 6]);
        for (verdict, passes) in [
            (ALLOW, true),
            (ALLOW | 1, true),
            (0x7ffc_0000, true),
            (KILL, false),
            (0, false),
            (0x0003_0000, false),
            (0x0005_0000, false),
            (0x7fc0_0000, false),
            (0x7ff0_0000, false),
        ] {
            assert_eq!(lets_pass(&[op(0x06, verdict)], &data), passes, "{verdict:#x}");
        }
        assert!(!lets_pass(&[op(0xffff, 0)], &data));
    }
}
