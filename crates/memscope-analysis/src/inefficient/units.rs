//! Which operator an event belongs to.
//!
//! Operators are nested within a thread: what one does inside another is the outermost one's doing, because that is what
//! the program called and could call earlier or later. An event outside of all operators is a unit of its own. On which stream
//! something is done, the innermost operator says that knows it.
use memscope_model::{Device, NameId, Phase, StreamHandle};
use rustc_hash::FxHashMap;

/// Numbers units in the order in which they begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct UnitId(pub(super) u64);

/// What events are grouped by: an outermost operator, or an event outside of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    pub(super) id: UnitId,
    /// `None` if it is no operator.
    pub(super) operator: Option<Operator>,
    /// Of the event that was asked about.
    pub(super) stream: Option<StreamHandle>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operator {
    pub(super) device: Device,
    pub(super) name: Option<NameId>,
    pub(super) stream: Option<StreamHandle>,
}

/// Whose operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framework {
    Aten,
    Atb,
}

/// The operators that are at work, by thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Units {
    threads: FxHashMap<u32, OpenOperators>,
    begun: u64,
}

#[derive(Clone, Debug)]
struct OpenOperators {
    unit: Unit,
    /// Outermost first.
    nested: Vec<OpenOperator>,
}

#[derive(Clone, Debug)]
struct OpenOperator {
    framework: Framework,
    name: Option<NameId>,
    /// Where it does not know its own, that of the one it is inside of.
    stream: Option<StreamHandle>,
    /// Of ATB: the path of an operator inside another begins with that of the other.
    path: Option<Box<str>>,
}

impl OpenOperator {
    fn may_contain(&self, inner: Option<&str>) -> bool {
        match (&self.path, inner) {
            (Some(outer), Some(inner)) => inner.strip_prefix(&**outer).is_some_and(|rest| rest.starts_with('/')),
            _ => true,
        }
    }
}

impl Units {
    /// Deeper than calls go: beyond it, ends are missing.
    const DEEPEST: usize = 256;
    /// An operator may end in another thread than it began in; so many threads are looked at.
    const OTHER_THREADS: usize = 16;

    /// The number the next unit will have.
    pub(super) fn next(&self) -> UnitId {
        UnitId(self.begun)
    }

    fn begin(&mut self, operator: Option<Operator>) -> Unit {
        self.begun += 1;
        Unit { id: UnitId(self.begun - 1), operator, stream: operator.and_then(|operator| operator.stream) }
    }

    /// The unit of an event of a thread.
    pub(super) fn of(&mut self, thread: u32) -> Unit {
        match self.threads.get(&thread) {
            Some(open) => Unit { stream: open.nested.last().and_then(|innermost| innermost.stream), ..open.unit },
            None => self.begin(None),
        }
    }

    /// An operator begins or ends; tells whether a new unit began with it.
    pub(super) fn operator(
        &mut self,
        thread: u32,
        phase: Phase,
        framework: Framework,
        operator: Operator,
        path: Option<&str>,
    ) -> bool {
        match phase {
            Phase::Start => self.start(thread, framework, operator, path),
            Phase::End => {
                self.end(thread, framework, operator.name);
                false
            }
        }
    }

    fn start(&mut self, thread: u32, framework: Framework, operator: Operator, path: Option<&str>) -> bool {
        let is_atb = framework == Framework::Atb;
        let inner = path.filter(|_| is_atb);
        let Operator { name, stream, .. } = operator;
        let mut opened = OpenOperator { framework, name, stream, path: inner.map(Box::from) };
        if let Some(open) = self.threads.get_mut(&thread) {
            // An operator that was left by an exception never ends.
            while open.nested.last().is_some_and(|outer| !outer.may_contain(inner)) {
                open.nested.pop();
            }
            if let Some(outer) = open.nested.last()
                && open.nested.len() < Self::DEEPEST
            {
                opened.stream = opened.stream.or(outer.stream);
                open.nested.push(opened);
                return false;
            }
        }
        let unit = self.begin(Some(operator));
        self.threads.insert(thread, OpenOperators { unit, nested: vec![opened] });
        true
    }

    /// Ends the innermost operator of that name, and whatever was left open inside it.
    fn end(&mut self, thread: u32, framework: Framework, name: Option<NameId>) {
        let is_it = |open: &OpenOperator| (open.framework, open.name) == (framework, name);
        let has_it = |open: &OpenOperators| open.nested.iter().rposition(is_it);
        let found = match self.threads.get(&thread).and_then(has_it) {
            Some(place) => Some((thread, place)),
            None if framework == Framework::Aten => {
                let others = self.threads.iter().take(Self::OTHER_THREADS);
                others.filter_map(|(thread, open)| Some((*thread, has_it(open)?))).max()
            }
            None => None,
        };
        let Some((thread, place)) = found else { return };
        if place == 0 {
            self.threads.remove(&thread);
        } else if let Some(open) = self.threads.get_mut(&thread) {
            open.nested.truncate(place);
        }
    }
}

/// The newest events of a kind, of three units: whichever two are not asked about, the third says whether there was
/// another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent([Option<(UnitId, u64)>; 3]);

impl Recent {
    /// Events come in their order.
    pub(super) fn see(&mut self, unit: UnitId, event: u64) {
        let places = &mut self.0;
        let known = places.iter().position(|place| place.is_some_and(|(known, _)| known == unit));
        let last = known.unwrap_or(places.len() - 1);
        places[..=last].rotate_right(1);
        places[0] = Some((unit, event));
    }

    /// Whether there was one after an event, in another unit than these two.
    pub(super) fn after(&self, event: u64, neither: [UnitId; 2]) -> bool {
        let others = self.0.iter().flatten().filter(|(unit, _)| !neither.contains(unit));
        others.map(|(_, newest)| *newest).any(|newest| newest > event)
    }
}

/// The newest events of a kind, by the streams they belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentByStream {
    all: Recent,
    of_unknown: Recent,
    of_streams: FxHashMap<StreamHandle, Recent>,
}

impl RecentByStream {
    pub(super) fn see(&mut self, unit: UnitId, event: u64, stream: Option<StreamHandle>) {
        self.all.see(unit, event);
        match stream {
            Some(stream) => self.of_streams.entry(stream).or_default(),
            None => &mut self.of_unknown,
        }
        .see(unit, event);
    }

    /// Whether there was one after an event, in another unit than these two, that may belong to the stream.
    pub(super) fn after(&self, event: u64, neither: [UnitId; 2], stream: Option<StreamHandle>) -> bool {
        let Some(stream) = stream else { return self.all.after(event, neither) };
        let of_stream = self.of_streams.get(&stream);
        self.of_unknown.after(event, neither) || of_stream.is_some_and(|recent| recent.after(event, neither))
    }
}

/// Outermost operators of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct OperatorCounts {
    pub(super) all: u64,
    of_unknown: u64,
    of_streams: FxHashMap<StreamHandle, u64>,
}

impl OperatorCounts {
    pub(super) fn add(&mut self, stream: Option<StreamHandle>) {
        self.all += 1;
        *stream.map_or(&mut self.of_unknown, |stream| self.of_streams.entry(stream).or_default()) += 1;
    }

    /// Those that may be on a stream.
    pub(super) fn on(&self, stream: StreamHandle) -> u64 {
        self.of_unknown + self.of_streams.get(&stream).copied().unwrap_or(0)
    }
}
