//! Which process and which device of the one is compared with which of the other.
use super::reading::{DeviceSide, ProcessSide};
use super::report::{LeftOver, Process, Subject};
use memscope_model::Device;

/// A device of a process of the base, and what it is compared with.
pub(super) struct Pair {
    pub(super) processes: (Process, Process),
    pub(super) base: DeviceSide,
    pub(super) compared: DeviceSide,
}

pub(super) struct Pairing {
    pub(super) pairs: Vec<Pair>,
    pub(super) left_over: LeftOver,
}

/// Processes by what they have in common: the same recording (two steps of it), command and devices, devices, command, and at
/// last by their order. Their devices by number, then by order, since a run may have got other devices than the one before.
pub(super) fn pair(base: Vec<ProcessSide>, compared: Vec<ProcessSide>) -> Pairing {
    let devices = |side: &ProcessSide| -> Vec<Device> { side.devices.iter().map(|device| device.device).collect() };
    let is_same = |one: &ProcessSide, other: &ProcessSide| {
        (&one.process.path, one.process.info.pid) == (&other.process.path, other.process.info.pid)
    };
    let has_command = |one: &ProcessSide, other: &ProcessSide| one.process.info.command == other.process.info.command;
    let has_devices = |one: &ProcessSide, other: &ProcessSide| devices(one) == devices(other);
    let both = |one: &ProcessSide, other: &ProcessSide| has_command(one, other) && has_devices(one, other);
    let Matched { pairs, base, compared } =
        matched(base, compared, &[&is_same, &both, &has_devices, &has_command, &|_, _| true]);
    let mut pairing = Pairing { pairs: Vec::new(), left_over: LeftOver::default() };
    let LeftOver { base: base_left, compared: compared_left } = &mut pairing.left_over;
    for (side, left) in [(base, &mut *base_left), (compared, &mut *compared_left)] {
        left.extend(
            side.iter().flat_map(|side| side.devices.iter().map(|device| Subject::of(&side.process, device.device))),
        );
    }
    for (base, compared) in pairs {
        let (base_process, compared_process) = (base.process, compared.process);
        let is_same = |one: &DeviceSide, other: &DeviceSide| one.device == other.device;
        let Matched { pairs, base, compared } = matched(base.devices, compared.devices, &[&is_same, &|_, _| true]);
        base_left.extend(base.iter().map(|side| Subject::of(&base_process, side.device)));
        compared_left.extend(compared.iter().map(|side| Subject::of(&compared_process, side.device)));
        pairing.pairs.extend(pairs.into_iter().map(|(base, compared)| Pair {
            processes: (base_process.clone(), compared_process.clone()),
            base,
            compared,
        }));
    }
    pairing
}

/// Whether two things may be a pair.
type Fits<'f, T> = &'f dyn Fn(&T, &T) -> bool;

/// Pairs, and what is left over of both.
struct Matched<T> {
    pairs: Vec<(T, T)>,
    base: Vec<T>,
    compared: Vec<T>,
}

/// Pairs by the first of the rules, what is left over by the next, and so on; in the order of the base.
fn matched<T>(base: Vec<T>, compared: Vec<T>, rules: &[Fits<'_, T>]) -> Matched<T> {
    let mut partners: Vec<Option<usize>> = vec![None; base.len()];
    let mut taken = vec![false; compared.len()];
    for rule in rules {
        for (one, partner) in base.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            *partner = (0..compared.len()).find(|at| !taken[*at] && rule(one, &compared[*at]));
            if let Some(at) = *partner {
                taken[at] = true;
            }
        }
    }
    let mut compared: Vec<Option<T>> = compared.into_iter().map(Some).collect();
    let (mut pairs, mut left) = (Vec::new(), Vec::new());
    for (one, partner) in base.into_iter().zip(partners) {
        match partner.and_then(|at| compared[at].take()) {
            Some(other) => pairs.push((one, other)),
            None => left.push(one),
        }
    }
    Matched { pairs, base: left, compared: compared.into_iter().flatten().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_best_is_paired_first_and_the_rest_by_order() {
        let same = |one: &&str, other: &&str| one == other;
        let alike = |one: &&str, other: &&str| one[..1] == other[..1];
        let rules: [Fits<'_, &str>; 3] = [&same, &alike, &|_, _| true];
        let found = matched(vec!["a1", "b1", "c1", "d1"], vec!["x1", "b2", "c1", "b1", "a9"], &rules);
        assert_eq!(found.pairs, [("a1", "a9"), ("b1", "b1"), ("c1", "c1"), ("d1", "x1")]);
        assert!(found.base.is_empty());
        assert_eq!(found.compared, ["b2"]);
        let found = matched(vec!["a", "b"], vec!["a"], &rules);
        assert_eq!((found.pairs, found.base, found.compared), (vec![("a", "a")], vec!["b"], vec![]));
    }
}
