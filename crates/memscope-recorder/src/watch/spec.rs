//! What the settings say of watching.
use super::Operator;
use memscope_format::settings::{Escaped, RecordSettings, WATCH_MAX_BYTES, level};

/// Longest name of an operator, and of a watched block.
const LONGEST_NAME: usize = 254;

/// From the option's notation: `start[:output],end[,full-content]`. What is not asked for is empty.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    start: Name,
    end: Name,
    pub(super) output: Option<u32>,
    pub(super) full_content: bool,
    pub(super) operators: bool,
    pub(super) kernels: bool,
    pub(super) max_bytes: u64,
}

#[derive(Clone, Copy)]
struct Name {
    text: [u8; LONGEST_NAME],
    length: usize,
}

impl Name {
    const EMPTY: Name = Name { text: [0; LONGEST_NAME], length: 0 };

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn text(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }
}

/// As much of a name as is recorded.
pub(super) fn cut(name: &[u8]) -> &[u8] {
    name.get(..LONGEST_NAME).unwrap_or(name)
}

impl Spec {
    pub(crate) const NOTHING: Spec = Spec {
        start: Name::EMPTY,
        end: Name::EMPTY,
        output: None,
        full_content: false,
        operators: true,
        kernels: false,
        max_bytes: WATCH_MAX_BYTES,
    };

    pub(crate) fn of(settings: &RecordSettings<'_>) -> Spec {
        let levels = settings.level.unwrap_or(level::OPERATOR);
        let mut spec = Spec {
            operators: levels & level::OPERATOR != 0,
            kernels: levels & level::KERNEL != 0,
            max_bytes: settings.watch_max_bytes.unwrap_or(WATCH_MAX_BYTES),
            ..Spec::NOTHING
        };
        if let Some(text) = settings.watch {
            spec.parse(text);
        }
        spec
    }

    /// The text was checked by whoever wrote it: what cannot be is left out.
    fn parse(&mut self, text: Escaped<'_>) {
        let mut parts = [Name::EMPTY; 3];
        let mut part = 0;
        text.for_each_byte(|byte| match byte {
            b',' => part += 1,
            byte => {
                if let Some(name) = parts.get_mut(part) {
                    name.push(byte);
                }
            }
        });
        let [start, end, content] = parts;
        self.end = end;
        self.full_content = content.text() == b"full-content";
        // A colon behind another belongs to the name, as in `aten::add`.
        let colon = start.text().iter().rposition(|byte| *byte == b':').filter(|at| *at > 0);
        let is_double = colon.is_some_and(|at| start.text().get(at - 1) == Some(&b':'));
        match colon.filter(|_| !is_double) {
            Some(at) => {
                self.output = decimal(start.text().get(at + 1..).unwrap_or_default());
                self.start = Name { length: at, ..start };
            }
            None => self.start = start,
        }
    }

    pub(crate) fn has_start(&self) -> bool {
        self.start.length > 0
    }

    pub(super) fn start(&self) -> &[u8] {
        self.start.text()
    }

    pub(super) fn start_is(&self, operator: &Operator<'_>) -> bool {
        self.has_start() && is_called(self.start.text(), operator)
    }

    pub(super) fn end_is(&self, operator: &Operator<'_>) -> bool {
        self.end.length > 0 && is_called(self.end.text(), operator)
    }
}

/// Whether the user means this operator: by its name or its short one, with or without torch's prefix and the overload, `::` being as good as
/// a point; a kernel also by the hash of its name.
fn is_called(wanted: &[u8], operator: &Operator<'_>) -> bool {
    let of_kernel = operator.kernel != 0 && crate::kernel::name_hash(wanted) == operator.kernel;
    let mut names = [operator.name, operator.short_name].into_iter().filter(|name| !name.is_empty());
    of_kernel || names.any(|name| is_same(wanted, name))
}

fn is_same(wanted: &[u8], name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"torch._ops.";
    let (wanted, name) = (strip(wanted, PREFIX), strip(name, PREFIX));
    let mut rest = Points(name);
    // All of the wanted name, and then nothing more than an overload.
    let begins = Points(wanted).all(|byte| rest.next() == Some(byte));
    let is_torch = name.starts_with(b"aten.") || name.windows(2).any(|two| two == b"::");
    begins && (rest.0.is_empty() || (is_torch && rest.next() == Some(b'.') && !rest.0.contains(&b'.')))
}

fn strip<'a>(name: &'a [u8], prefix: &[u8]) -> &'a [u8] {
    name.strip_prefix(prefix).unwrap_or(name)
}

/// The bytes of a name, a double colon as a point.
struct Points<'a>(&'a [u8]);

impl Iterator for Points<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        match self.0 {
            [b':', b':', rest @ ..] => {
                self.0 = rest;
                Some(b'.')
            }
            [byte, rest @ ..] => {
                self.0 = rest;
                Some(*byte)
            }
            [] => None,
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u32, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use memscope_format::watch::WatchSource;

    fn spec(text: &str) -> Spec {
        let escaped = text.replace('%', "%25").replace(';', "%3B");
        Spec::of(&RecordSettings { watch: Some(Escaped::of(&escaped)), ..RecordSettings::default() })
    }

    fn operator<'a>(name: &'a str, short_name: &'a str) -> Operator<'a> {
        let (name, short_name) = (name.as_bytes(), short_name.as_bytes());
        Operator { source: WatchSource::Aten, number: 1, kernel: 0, name, short_name }
    }

    #[test]
    fn the_options_notation_is_read() {
        let read = |text| {
            let spec = spec(text);
            let name = |name: Name| String::from_utf8(name.text().to_vec()).unwrap();
            (name(spec.start), spec.output, name(spec.end), spec.full_content)
        };
        let told = |start: &str, output, end: &str, full| (start.to_owned(), output, end.to_owned(), full);
        assert_eq!(read("op0:1,op1,full-content"), told("op0", Some(1), "op1", true));
        assert_eq!(read("token0/l;a%yer0/op0,op1"), told("token0/l;a%yer0/op0", None, "op1", false));
        assert_eq!(read("aten::add:12,aten::mul"), told("aten::add", Some(12), "aten::mul", false));
        assert_eq!(read("aten::add,b"), told("aten::add", None, "b", false));
        assert_eq!(read(",b"), told("", None, "b", false));
        assert!(!spec(",b").has_start() && spec("a,b").has_start());
    }

    #[test]
    fn operators_go_by_several_names() {
        let is = |wanted: &str, name, short| spec(&format!("{wanted},x")).start_is(&operator(name, short));
        for wanted in ["aten::add.Tensor", "aten.add.Tensor", "torch._ops.aten.add.Tensor", "aten::add", "aten.add"] {
            assert!(is(wanted, "aten.add.Tensor", ""), "{wanted}");
            assert!(is(wanted, "aten::add.Tensor", ""), "{wanted}");
        }
        assert!(!is("aten::add", "aten.add_.Tensor", "") && !is("aten.ad", "aten.add.Tensor", ""));
        assert!(is("0/7_AddOperation", "0/7_AddOperation", "AddOperation"));
        assert!(is("AddOperation", "0/7_AddOperation", "AddOperation"));
        assert!(!is("Add", "0/7_AddOperation", "AddOperation") && !is("0/7_Add", "0/7_Add.x", ""));
        let kernel = Operator { kernel: crate::kernel::name_hash(b"MatMulV2"), ..operator("", "") };
        assert!(spec("x,MatMulV2").end_is(&kernel) && !spec("x,MatMul").end_is(&kernel));
    }
}
