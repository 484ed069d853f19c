//! Every row of the table: what is encoded comes back, `docs/format.md` says how it is written, and a golden spool holds it. All of it
//! is made from the table, so that a type without does not exist; an encoding or tail without a sample does not build.
use super::fields::{FromByte, Tail, execution_line, names, tensor};
use super::records::{Definition, EventKind, LaneRecord, Record, read};
use crate::encode::fields::{
    BuildId, Byte, Called, DeviceAddress, Kernel, Label, LineTable, Lines, Name, Number, Operator, Stack, Tensor, Text,
    Varint, Word,
};
use crate::encode::{self, Deltas, Extended, NodeDeltas, Path};
use crate::layout::VERSION;
use crate::record::{
    AccessMode, DevAddr, HostAddr, HostCall, LabelLevel, LogicalDevice, MOST_DIMENSIONS, MOST_EXECUTIONS, Phase,
    PhysicalDevice, Protection, Space, SpaceAddr, SpaceDevice, StackRef, SystemKind, TaskLogLine, TensorOwner,
};
use crate::records::records;
use crate::watch::{GivenFor, WatchEnding, WatchOrigin, WatchSource, WatchTrouble};
use proptest::prelude::*;
use std::fmt::Write;
use std::fs;

/// Values for fields, and both ends of a lane.
struct Samples<'a> {
    random: u64,
    bytes: &'a [u8],
    numbers: &'a [i64],
    lines: &'a [TaskLogLine],
    ticks: u64,
    written: Deltas,
    read: Deltas,
    written_path: Vec<u8>,
    read_path: Vec<u8>,
}

impl<'a> Samples<'a> {
    fn new(random: u64, bytes: &'a [u8], numbers: &'a [i64], lines: &'a [TaskLogLine]) -> Samples<'a> {
        let (written, read) = (Deltas::at(7), Deltas::at(7));
        let (written_path, read_path) = (Vec::new(), Vec::new());
        Samples { random, bytes, numbers, lines, ticks: 7, written, read, written_path, read_path }
    }

    /// Any number of bits, all lengths alike.
    fn number(&mut self) -> u64 {
        let mut next = || {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.random >> 32
        };
        (next() << 32 | next()) >> (next() % 64)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.number() as usize % (limit + 1)
    }

    /// Mostly short.
    fn text(&mut self) -> &'a [u8] {
        let longest = if self.number().is_multiple_of(4) { self.bytes.len() } else { self.bytes.len().min(20) };
        &self.bytes[..self.below(longest)]
    }

    fn stack(&mut self) -> StackRef {
        let mut part = || (self.number() as u32).checked_shr(self.number() as u32 % 40).unwrap_or(0);
        StackRef { c: part(), python: part() }
    }

    fn path(&mut self) -> Path<'a> {
        let text = self.text();
        let path = Path::after(&self.written_path, text);
        self.written_path = path.kept().to_vec();
        path
    }

    /// The record's bytes, which keep to the room it asked for.
    fn write(&mut self, record: &Extended<'_>) -> Vec<u8> {
        self.ticks += self.number() >> 8;
        let mut bytes = vec![0u8; record.room()];
        let start = bytes.as_mut_ptr();
        // SAFETY: the buffer has the room the record asks for.
        let end = unsafe { encode::extended(start, &mut self.written, self.ticks, record) };
        let length = end as usize - start as usize;
        assert!(length <= bytes.len(), "{record:?}");
        bytes.truncate(length);
        bytes
    }

    fn read<'b>(&mut self, bytes: &'b [u8]) -> Record<'b> {
        let (ticks, record, length) = read(bytes, &mut self.read, &mut NodeDeltas::new()).unwrap();
        assert_eq!((ticks, length), (self.ticks, bytes.len()));
        record
    }
}

/// An encoding's values.
trait Sampled<'a, T> {
    /// In `docs/format.md`.
    const NAME: &'static str;

    fn sample(samples: &mut Samples<'a>) -> T;

    /// What comes back.
    fn kept(value: T) -> T {
        value
    }
}

impl<'a, T: Number + TryFrom<u64>> Sampled<'a, T> for Varint {
    const NAME: &'static str = "varint";

    fn sample(samples: &mut Samples<'a>) -> T {
        let number = samples.number();
        let shorter = [number, number & 0xffff_ffff, number & 0xffff];
        shorter.into_iter().find_map(|number| T::try_from(number).ok()).unwrap()
    }
}

impl<'a, T: From<u64>> Sampled<'a, T> for Word {
    const NAME: &'static str = "u64";

    fn sample(samples: &mut Samples<'a>) -> T {
        T::from(samples.number())
    }
}

impl<'a, T: FromByte> Sampled<'a, T> for Byte {
    const NAME: &'static str = "u8";

    fn sample(samples: &mut Samples<'a>) -> T {
        let byte = samples.number() as u8;
        [byte, byte % 8, byte % 4, byte % 2].into_iter().find_map(T::from_byte).unwrap()
    }
}

impl<'a, T: From<u64>> Sampled<'a, T> for DeviceAddress {
    const NAME: &'static str = "device address";

    fn sample(samples: &mut Samples<'a>) -> T {
        T::from(samples.number())
    }
}

impl<'a, const LIMIT: usize> Sampled<'a, &'a [u8]> for Text<LIMIT> {
    const NAME: &'static str = "text";

    fn sample(samples: &mut Samples<'a>) -> &'a [u8] {
        samples.text()
    }

    fn kept(value: &'a [u8]) -> &'a [u8] {
        Self::kept(value)
    }
}

/// A tail's values.
trait SampledTail<'a> {
    /// In `docs/format.md`, behind the fields.
    const NAMES: &'static [&'static str];
    type Parts: Copy;

    fn sample(samples: &mut Samples<'a>) -> Self::Parts;

    fn check(samples: &mut Samples<'a>, parts: Self::Parts, stack: StackRef, tail: Tail<'_>);
}

impl<'a> SampledTail<'a> for Stack {
    const NAMES: &'static [&'static str] = &["stack"];
    type Parts = (StackRef,);

    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        (samples.stack(),)
    }

    fn check(_: &mut Samples<'a>, parts: Self::Parts, stack: StackRef, tail: Tail<'_>) {
        assert_eq!((stack, tail), (parts.0, Tail::Nothing));
    }
}

impl<'a> SampledTail<'a> for Label {
    const NAMES: &'static [&'static str] = &["text"];
    type Parts = (&'a [u8],);

    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        (samples.text(),)
    }

    fn check(_: &mut Samples<'a>, parts: Self::Parts, stack: StackRef, tail: Tail<'_>) {
        assert_eq!((stack, tail), (StackRef::NONE, Tail::Label(Name::kept(parts.0))));
    }
}

impl<'a> SampledTail<'a> for Called {
    const NAMES: &'static [&'static str] = &["stack", "text"];
    type Parts = (StackRef, &'a [u8]);

    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        (samples.stack(), samples.text())
    }

    fn check(_: &mut Samples<'a>, parts: Self::Parts, stack: StackRef, tail: Tail<'_>) {
        assert_eq!((stack, tail), (parts.0, Tail::Label(Name::kept(parts.1))));
    }
}

impl<'a> SampledTail<'a> for Kernel {
    const NAMES: &'static [&'static str] = &["path"];
    type Parts = (Path<'a>,);

    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        (samples.path(),)
    }

    fn check(samples: &mut Samples<'a>, (path,): Self::Parts, stack: StackRef, tail: Tail<'_>) {
        let Tail::Kernel(bytes) = tail else { panic!("{tail:?}") };
        let expected = Definition::AtbNames { path: path.kept(), name: b"" };
        assert_eq!((stack, names(bytes, false, &mut samples.read_path)), (StackRef::NONE, Ok(expected)));
    }
}

impl<'a> SampledTail<'a> for Operator {
    const NAMES: &'static [&'static str] = &["stack", "path", "name"];
    type Parts = (StackRef, Path<'a>, &'a [u8]);

    /// The name may be how the path ends.
    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        let (stack, path) = (samples.stack(), samples.path());
        let in_path = &path.kept()[samples.below(path.kept().len())..];
        (stack, path, if samples.number().is_multiple_of(2) { in_path } else { samples.text() })
    }

    fn check(samples: &mut Samples<'a>, parts: Self::Parts, stack: StackRef, tail: Tail<'_>) {
        let Tail::Operator(bytes) = tail else { panic!("{tail:?}") };
        let expected = Definition::AtbNames { path: parts.1.kept(), name: Name::kept(parts.2) };
        assert_eq!((stack, names(bytes, true, &mut samples.read_path)), (parts.0, Ok(expected)));
    }
}

impl<'a> SampledTail<'a> for Tensor {
    const NAMES: &'static [&'static str] = &["tensor"];
    type Parts = (i32, i32, &'a [i64]);

    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        let (dtype, format) = (samples.number() as i32, samples.number() as i32);
        (dtype, format, &samples.numbers[..samples.below(samples.numbers.len())])
    }

    fn check(_: &mut Samples<'a>, (dtype, format, dimensions): Self::Parts, stack: StackRef, tail: Tail<'_>) {
        let Tail::Tensor(bytes) = tail else { panic!("{tail:?}") };
        let shape = tensor(bytes).unwrap();
        assert_eq!((stack, shape.dtype, shape.format), (StackRef::NONE, dtype, format));
        assert_eq!(shape.dimensions(), &dimensions[..dimensions.len().min(MOST_DIMENSIONS)]);
    }
}

impl<'a> SampledTail<'a> for Lines {
    const NAMES: &'static [&'static str] = &["flags: u8", "lines"];
    type Parts = (bool, &'a [TaskLogLine]);

    fn sample(samples: &mut Samples<'a>) -> Self::Parts {
        (samples.number().is_multiple_of(2), &samples.lines[..samples.below(samples.lines.len())])
    }

    fn check(_: &mut Samples<'a>, (streams, expected): Self::Parts, _: StackRef, tail: Tail<'_>) {
        let Tail::Lines { streams: told, lines: mut rest } = tail else { panic!("{tail:?}") };
        assert_eq!(told, streams);
        let mut last = TaskLogLine::default();
        for expected in expected.iter().take(MOST_EXECUTIONS) {
            let (read, length) = execution_line(rest, streams, last).unwrap();
            assert_eq!(read, TaskLogLine { stream: if streams { expected.stream } else { 0 }, ..*expected });
            (last, rest) = (read, &rest[length..]);
        }
        assert!(rest.is_empty());
    }
}

/// A row, as the documents have it.
struct Row {
    code: u8,
    /// In capitals.
    name: &'static str,
    /// Its fields and their encodings.
    payload: Vec<String>,
    /// What a reader hands out for it, a line of the text form, has its name.
    is_handed_out: bool,
}

type RoundTrip<'a> = fn(&mut Samples<'a>);

macro_rules! make_round_trips {
    (
        lane { $($lane:tt)* } definitions { $($definition:tt)* } events { $($event:tt)* } superseded { $($old:tt)* }
    ) => {
        fn round_trips<'a>() -> Vec<RoundTrip<'a>> {
            let mut all: Vec<RoundTrip<'a>> = Vec::new();
            make_round_trips! { lane all $($lane)* }
            make_round_trips! { definitions all $($definition)* }
            make_round_trips! { events all $($event)* }
            all
        }

        #[allow(clippy::extra_unused_lifetimes, reason = "the rows name it")]
        fn rows<'a>() -> Vec<Vec<Row>> {
            vec![
                make_round_trips! { rows false $($lane)* },
                make_round_trips! { rows true $($definition)* },
                make_round_trips! { rows true $($event)* },
                make_round_trips! { rows false $($old)* },
            ]
        }
    };
    (lane $all:ident $(
        $(#[$meta:meta])*
        $code:literal $name:ident $variant:ident { $($field:ident: $type:ty as $encoding:ident),* $(,)? }
        $(with $tail:ident($($part:ident: $part_type:ty),*))?;
    )*) => {
        $($all.push({
            fn row<'a>(samples: &mut Samples<'a>) {
                $(let $field = <$encoding as Sampled<'a, $type>>::sample(samples);)*
                $(let ($($part,)*) = <$tail as SampledTail<'a>>::sample(samples);)?
                let bytes = samples.write(&Extended::$variant { $($field,)* $($($part,)*)? });
                let Record::Lane { record, tail } = samples.read(&bytes) else { panic!(stringify!($variant)) };
                assert_eq!(record, LaneRecord::$variant { $($field),* });
                make_round_trips! { tail samples StackRef::NONE, tail $(, $tail ($($part),*))? }
            }
            row
        });)*
    };
    (definitions $all:ident $(
        $(#[$meta:meta])*
        $code:literal $name:ident $variant:ident { $($field:ident: $type:ty as $encoding:ident),* $(,)? };
    )*) => {
        $($all.push({
            fn row<'a>(samples: &mut Samples<'a>) {
                $(let $field = <$encoding as Sampled<'a, $type>>::sample(samples);)*
                let bytes = samples.write(&Extended::$variant { $($field),* });
                let expected = Definition::$variant { $($field: <$encoding as Sampled<'a, $type>>::kept($field)),* };
                assert_eq!(samples.read(&bytes), Record::Definition(expected));
            }
            row
        });)*
    };
    (events $all:ident $(
        $(#[$meta:meta])*
        $code:literal $name:ident $variant:ident
        $({ $($field:ident: $type:ty as $encoding:ident),* $(,)? } $(with $tail:ident($($part:ident: $part_type:ty),*))?)?;
    )*) => {
        $($all.push({
            fn row<'a>(samples: &mut Samples<'a>) {
                $($(let $field = <$encoding as Sampled<'a, $type>>::sample(samples);)*
                $(let ($($part,)*) = <$tail as SampledTail<'a>>::sample(samples);)?)?
                let bytes = samples.write(&Extended::$variant $({ $($field,)* $($($part,)*)? })?);
                let Record::Event { stack, kind, tail } = samples.read(&bytes) else { panic!(stringify!($variant)) };
                assert_eq!(kind, EventKind::$variant $({ $($field),* })?);
                make_round_trips! { tail samples stack, tail $($(, $tail ($($part),*))?)? }
            }
            row
        });)*
    };
    (tail $samples:ident $stack:expr, $read:ident) => {
        assert_eq!(($stack, $read), (StackRef::NONE, Tail::Nothing));
    };
    (tail $samples:ident $stack:expr, $read:ident, $tail:ident ($($part:ident),*)) => {
        <$tail as SampledTail<'a>>::check($samples, ($($part,)*), $stack, $read);
    };
    (rows $is_handed_out:literal $(
        $(#[$meta:meta])*
        $code:literal $name:ident $variant:ident
        $({ $($field:ident: $type:ty as $encoding:ident),* $(,)? } $(with $tail:ident($($part:tt)*))? $(, without $missing:tt)?)?;
    )*) => {
        vec![$(Row {
            code: $code,
            name: stringify!($name),
            payload: {
                let fields: &[(&str, &str)] =
                    &[$($((stringify!($field), <$encoding as Sampled<'a, $type>>::NAME)),*)?];
                let tail: &[&[&str]] = &[$($(<$tail as SampledTail<'a>>::NAMES)?)?];
                let fields = fields.iter().map(|(name, encoding)| format!("{}: {encoding}", name.replace('_', " ")));
                fields.chain(tail.concat().iter().map(ToString::to_string)).collect()
            },
            is_handed_out: $is_handed_out,
        }),*]
    };
}

records!(make_round_trips);

fn line() -> impl Strategy<Value = TaskLogLine> {
    let task = prop_oneof![0u32..70_000, any::<u32>()];
    let counter = prop_oneof![0u64..1 << 40, any::<u64>()];
    (any::<u16>(), task, 0u8..64, any::<bool>(), counter).prop_map(|(stream, task, unit, end, counter)| TaskLogLine {
        stream,
        task,
        unit,
        end,
        counter,
    })
}

proptest! {
    #[test]
    fn records_of_every_type_come_back(
        random in any::<u64>(),
        bytes in prop_oneof![
            9 => proptest::collection::vec(any::<u8>(), 0..2000),
            1 => proptest::collection::vec(any::<u8>(), 0..60_000),
        ],
        numbers in proptest::collection::vec(any::<i64>(), 0..12),
        lines in prop_oneof![
            9 => proptest::collection::vec(line(), 0..20),
            1 => proptest::collection::vec(line(), 0..MOST_EXECUTIONS + 9),
        ],
    ) {
        let all = round_trips();
        let mut samples = Samples::new(random, &bytes, &numbers, &lines);
        // Each in turn, then in any order: each is written relative to the records before it.
        for round_trip in &all {
            round_trip(&mut samples);
        }
        for _ in 0..2 * all.len() {
            all[samples.below(all.len() - 1)](&mut samples);
        }
    }
}

#[test]
fn codes_are_in_order_and_no_two_types_share_one() {
    let groups = rows();
    for group in &groups {
        assert!(group.is_sorted_by(|one, next| one.code < next.code));
    }
    let mut codes: Vec<u8> = groups.iter().flatten().map(|row| row.code).collect();
    codes.sort_unstable();
    assert!(codes.windows(2).all(|pair| pair[0] != pair[1]), "{codes:?}");
}

#[test]
fn the_documented_records_are_those_of_the_table() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
    let document = fs::read_to_string(document).unwrap();
    let table = document.lines().skip_while(|line| !line.starts_with("| type | payload |")).skip(2);
    let documented: Vec<String> = table.take_while(|line| line.starts_with('|')).map(first_cells).collect();
    let mut rows: Vec<Row> = rows().into_iter().flatten().collect();
    rows.sort_by_key(|row| row.code);
    let expected: Vec<String> = rows
        .iter()
        .map(|row| {
            let name = row.name.replace('_', " ");
            let cells = [format!("{} {name}", row.code), row.payload.join(", ")].map(|cell| cell.to_lowercase());
            cells.join(" | ")
        })
        .collect();
    let mut differences = String::new();
    for (expected, documented) in expected.iter().zip(&documented).filter(|(one, other)| one != other) {
        writeln!(differences, "{documented}\nshould be\n{expected}").unwrap();
    }
    assert_eq!((differences.as_str(), documented.len()), ("", expected.len()));
}

/// Of a row of a table, without capitals: the first two cells.
fn first_cells(line: &str) -> String {
    let cells: Vec<&str> = line.split('|').skip(1).take(2).map(str::trim).collect();
    cells.join(" | ").to_lowercase()
}

#[test]
fn golden_spools_hold_every_type() {
    let golden = format!("{}/tests/golden/v{VERSION}", env!("CARGO_MANIFEST_DIR"));
    let texts = fs::read_dir(golden).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path().join("dump.txt")));
    let text: String = texts.map(Result::unwrap).collect();
    let held: Vec<&str> = text.lines().flat_map(|line| line.split(' ').take(2)).collect();
    for row in rows().into_iter().flatten().filter(|row| row.is_handed_out) {
        assert!(held.contains(&row.name.to_lowercase().as_str()), "{}", row.name);
    }
}
