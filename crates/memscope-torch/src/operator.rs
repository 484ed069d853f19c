//! What is to be known of an operator, looked up once: what it does with its arguments, and whether it is only made of others.
use crate::record_function::{Functions, RecordFunction};
use crate::schema::{Alias, Arguments, Schema, characters};
use crate::tensor::Use;

/// What an operator is, by its name and its kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It is made of others, for tensors of any device: what they do is what happens.
    Composite,
    Plain,
    /// It makes a tensor like another, whose memory it does not look at.
    Factory,
    /// The same, without writing to it.
    EmptyFactory,
    /// A collective, whose schema does not say that it writes to its first argument, nor that it returns it.
    Collective,
}

/// Arguments and results are told by their place; those beyond the last bit count as read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    pub kind: Kind,
    /// It is torch's own, and never taken away.
    stays: bool,
    arguments: u16,
    results: u16,
    written: u64,
    viewed: u64,
    results_written: u32,
    results_viewed: u32,
}

impl Facts {
    /// Reads the schema of a call. The caller has seen that it can be read.
    pub(crate) fn of(call: &RecordFunction<'_>, schema: &Schema<'_>) -> Option<Facts> {
        let (arguments, returns) = (schema.arguments()?, schema.returns()?);
        let (written, viewed) = by_place(&arguments);
        let (results_written, results_viewed) = by_place(&returns);
        let mut facts = Facts {
            kind: kind_by_name(schema.name()),
            stays: schema.name().starts_with(b"aten::"),
            arguments: arguments.number as u16,
            results: returns.number as u16,
            written,
            viewed,
            results_written: results_written as u32,
            results_viewed: results_viewed as u32,
        };
        if schema.name() == b"aten::_unsafe_view" {
            // A view all the same; its schema hides it from autograd.
            (facts.viewed, facts.results_viewed) = (1, 1);
        }
        if call.torch.keys.are_of_composite(&call.torch.functions, schema) {
            facts.kind = Kind::Composite;
        }
        Some(facts)
    }

    pub fn arguments(&self) -> usize {
        self.arguments as usize
    }

    pub fn results(&self) -> usize {
        self.results as usize
    }

    /// What becomes of the memory of an argument; `None` if it is not touched.
    #[inline(always)]
    pub fn argument(&self, place: usize) -> Option<Use> {
        let has = |bits: u64| place < 64 && bits >> place & 1 != 0;
        match self.kind {
            Kind::Collective => Some(if place == 0 { Use::Write } else { Use::Read }),
            _ if has(self.written) => Some(Use::Write),
            _ if has(self.viewed) => None,
            Kind::Factory | Kind::EmptyFactory => None,
            Kind::Plain | Kind::Composite => Some(Use::Read),
        }
    }

    /// The same of a result. What is an argument too was `told` with it.
    #[inline(always)]
    pub fn result(&self, place: usize, told: bool) -> Option<Use> {
        let has = |bits: u32| place < 32 && bits >> place & 1 != 0;
        match self.kind {
            Kind::Collective => None,
            _ if has(self.results_written) => (!told).then_some(Use::Write),
            _ if has(self.results_viewed) => None,
            Kind::EmptyFactory => None,
            _ => Some(Use::Write),
        }
    }

    /// In the first of [`Facts::to_words`].
    pub(crate) const STAYS: u64 = 1 << 40;

    /// In words, for a table that is read without a lock.
    pub fn to_words(self) -> [u64; 4] {
        let sizes = u64::from(self.arguments) | u64::from(self.results) << 16 | (self.kind as u64) << 32;
        let sizes = if self.stays { sizes | Facts::STAYS } else { sizes };
        let results = u64::from(self.results_written) | u64::from(self.results_viewed) << 32;
        [sizes, self.written, self.viewed, results]
    }

    pub fn from_words([sizes, written, viewed, results]: [u64; 4]) -> Facts {
        const KINDS: [Kind; 5] = [Kind::Composite, Kind::Plain, Kind::Factory, Kind::EmptyFactory, Kind::Collective];
        Facts {
            kind: KINDS.get((sizes >> 32) as usize & 0xff).copied().unwrap_or(Kind::Plain),
            stays: sizes & Facts::STAYS != 0,
            arguments: sizes as u16,
            results: (sizes >> 16) as u16,
            written,
            viewed,
            results_written: results as u32,
            results_viewed: (results >> 32) as u32,
        }
    }
}

/// Which are written, and which are views.
fn by_place(list: &Arguments) -> (u64, u64) {
    (0..list.number.min(64)).fold((0, 0), |(written, viewed), place| match list.alias(place) {
        Alias::Written => (written | 1 << place, viewed),
        Alias::View => (written, viewed | 1 << place),
        Alias::None => (written, viewed),
    })
}

fn kind_by_name(name: &[u8]) -> Kind {
    let colon = name.windows(2).position(|pair| pair == b"::").unwrap_or(0);
    let (space, base) = (name.get(..colon).unwrap_or_default(), name.get(colon..).unwrap_or_default());
    let base = base.strip_prefix(b"::").unwrap_or(base);
    if space == b"c10d" {
        return if base.ends_with(b"_") { Kind::Collective } else { Kind::Plain };
    }
    if base.starts_with(b"empty") || base.starts_with(b"new_empty") {
        Kind::EmptyFactory
    } else if base.starts_with(b"new_") || base.ends_with(b"_like") {
        Kind::Factory
    } else {
        Kind::Plain
    }
}

/// Numbers of torch's dispatch keys, which differ between versions; found by their names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keys {
    composite: Option<u16>,
    /// Of kernels that are preferred to being composite.
    direct: [Option<u16>; 4],
}

impl Keys {
    /// # Safety
    /// The functions are torch's.
    pub(crate) unsafe fn find(functions: &Functions) -> Keys {
        /// Behind the last key.
        const MOST_KEYS: u16 = 256;
        let mut keys = Keys::default();
        let Some(name) = functions.key_name.filter(|_| functions.has_kernel.is_some()) else { return keys };
        for key in 0..MOST_KEYS {
            // SAFETY: answers any number.
            let text = unsafe {
                match name(key) as usize {
                    0 => continue,
                    first => characters(first),
                }
            };
            match text {
                b"CompositeImplicitAutograd" => keys.composite = Some(key),
                b"CPU" => keys.direct[0] = Some(key),
                b"AutogradCPU" => keys.direct[1] = Some(key),
                b"PrivateUse1" => keys.direct[2] = Some(key),
                b"AutogradPrivateUse1" => keys.direct[3] = Some(key),
                _ => {}
            }
        }
        keys
    }

    /// Whether the operator is made of others on every device that is looked at. No, where nobody can tell: then the outermost
    /// call is what is told.
    fn are_of_composite(&self, functions: &Functions, schema: &Schema<'_>) -> bool {
        let (Some(has_kernel), Some(composite)) = (functions.has_kernel, self.composite) else { return false };
        let Some(entry) = schema.entry() else { return false };
        // SAFETY: torch's own function, asked of an entry that was recognised.
        let has = |key: u16| unsafe { has_kernel(entry, key) };
        has(composite) && !self.direct.iter().flatten().any(|key| has(*key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factories_and_collectives_are_known_by_their_names() {
        let kinds = [
            ("aten::add", Kind::Plain),
            ("aten::zeros_like", Kind::Factory),
            ("aten::new_zeros", Kind::Factory),
            ("aten::empty", Kind::EmptyFactory),
            ("aten::empty_like", Kind::EmptyFactory),
            ("aten::new_empty_strided", Kind::EmptyFactory),
            ("c10d::allreduce_", Kind::Collective),
            ("c10d::send", Kind::Plain),
            ("aten::add_", Kind::Plain),
            ("no_namespace", Kind::Plain),
        ];
        for (name, kind) in kinds {
            assert_eq!(kind_by_name(name.as_bytes()), kind, "{name}");
        }
    }

    #[test]
    fn facts_pass_through_words() {
        let facts = Facts {
            kind: Kind::Collective,
            stays: true,
            arguments: 17,
            results: 3,
            written: 1 << 40 | 1,
            viewed: 6,
            results_written: 1 << 31,
            results_viewed: 5,
        };
        assert_eq!(Facts::from_words(facts.to_words()), facts);
    }

    fn plain() -> Facts {
        Facts { arguments: 3, results: 1, kind: Kind::Plain, ..Facts::from_words([0; 4]) }
    }

    #[test]
    fn inputs_are_read_outputs_written_and_views_neither() {
        assert_eq!((plain().argument(0), plain().result(0, true)), (Some(Use::Read), Some(Use::Write)));
        let view = Facts { viewed: 1, results_viewed: 1, ..plain() };
        assert_eq!((view.argument(0), view.argument(1), view.result(0, true)), (None, Some(Use::Read), None));
        let like = Facts { kind: Kind::Factory, ..plain() };
        assert_eq!((like.argument(0), like.result(0, true)), (None, Some(Use::Write)));
        let empty = Facts { kind: Kind::EmptyFactory, ..plain() };
        assert_eq!((empty.argument(0), empty.result(0, true)), (None, None));
        let collective = Facts { kind: Kind::Collective, ..plain() };
        assert_eq!(
            (collective.argument(0), collective.argument(1), collective.result(0, true)),
            (Some(Use::Write), Some(Use::Read), None)
        );
    }

    #[test]
    fn what_is_written_in_place_is_told_once() {
        let in_place = Facts { written: 1, results_written: 1, ..plain() };
        assert_eq!((in_place.argument(0), in_place.argument(1)), (Some(Use::Write), Some(Use::Read)));
        assert_eq!((in_place.result(0, true), in_place.result(0, false)), (None, Some(Use::Write)));
    }
}
