//! What is done when torch says that a call begins or ends.
//!
//! Of nested calls one is recorded: the outermost whose operator is not merely made of others, and whose tensors have the memory
//! themselves. A composite operator is passed over, and so is one that is given tensors which stand for others (fake, functional,
//! distributed, batched): what they call is what happens. So an operator is recorded once, however many dispatch modes it passes
//! through.
use super::{listening, observed, streams};
use crate::hooks::atb::KeptErrno;
use crate::recording::hidden;
use crate::watched_memory::Runtime;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use memscope_recorder::aten::{self, Access, AccessMode, Begun, DevAddr, HOST_DEVICE, Operator, Tensors};
use memscope_recorder::device::LogicalDevice;
use memscope_recorder::slot::Guard;
use memscope_recorder::watch::{self, GivenFor, WatchSource};
use memscope_torch::callback::Callback;
use memscope_torch::check::Trust;
use memscope_torch::operator::{Facts, Kind};
use memscope_torch::table::{Found, Table, key_of_name};
use memscope_torch::{Place, RecordFunction, Seen, Tensor, Text, Torch, Use};

static OPERATORS: Table = Table::new();
static TRUST: Trust = Trust::new();
static ACCESSES: AtomicBool = AtomicBool::new(false);
static LAUNCHES: AtomicBool = AtomicBool::new(false);
static HOST: AtomicBool = AtomicBool::new(false);
/// torch shows the tensors of each call.
static TENSORS: AtomicBool = AtomicBool::new(false);
/// Raised when kernels may have been added to torch's operators.
static EPOCH: AtomicU32 = AtomicU32::new(1);

const _: () = assert!(Table::SIZE == aten::MOST_NAMES);

/// In a call's object: what it is about, which is another for each operator.
const SUBJECT: usize = memscope_torch::layout::fixed::SUBJECT;

/// Of an operator that is at work: arguments it writes to had no memory when it began.
const WRITES_LATER: u32 = 1;

pub(super) fn configure(accesses: bool, launches: bool, host: bool) {
    ACCESSES.store(accesses, Relaxed);
    LAUNCHES.store(launches, Relaxed);
    HOST.store(host, Relaxed);
}

/// Whether torch shows the tensors of each call.
pub(super) fn has_tensors() -> bool {
    TENSORS.load(Relaxed)
}

/// Kernels for a device may have been added to operators that were seen before.
pub(crate) fn kernels_added() {
    EPOCH.fetch_add(1, Relaxed);
}

memscope_torch::start_callback!(started => began);

/// What torch is to call, with the tensors of each call or without.
pub(super) fn callback(tensors: bool) -> Callback {
    TENSORS.store(tensors, Relaxed);
    wanted_callback()
}

/// The same, as it was wanted last.
#[inline(always)]
pub(super) fn wanted_callback() -> Callback {
    Callback::new(started, ended, TENSORS.load(Relaxed))
}

unsafe extern "C" fn began(address: usize) {
    if aten::is_inside(address + SUBJECT) || !aten::is_traced() {
        return;
    }
    let Some(torch) = observed() else { return };
    // SAFETY: torch's own call, which is beginning.
    let call = unsafe { torch.call(address) };
    if torch.layout.is_none() || TRUST.is_refuted() {
        return began_by_name(&call);
    }
    let Some(schema) = call.schema() else { return };
    listening::told(address);
    match OPERATORS.find(schema.address(), || schema.identity(), EPOCH.load(Relaxed), || call.facts()) {
        Found::Known(_, facts) if facts.kind == Kind::Composite => {}
        Found::Known(name, facts) => begin(&call, name, &facts, || schema.text()),
        // torch's objects are not laid out as its version says.
        Found::Refused => TRUST.refute(),
        Found::Full => {}
    }
}

/// Begins an operator whose facts are known.
#[inline(always)]
fn begin(call: &RecordFunction<'_>, name: u32, facts: &Facts, text: impl Fn() -> Text) {
    let accesses = ACCESSES.load(Relaxed);
    let is_watched = watch::is_on() && TENSORS.load(Relaxed);
    let mut given = Given::default();
    if accesses || is_watched {
        call.each_input(facts, &TRUST, |what, seen| given.add(what, &seen));
        if TRUST.is_refuted() {
            return;
        }
        if given.stands_for_others() {
            return;
        }
    }
    let is_wanted = LAUNCHES.load(Relaxed);
    let operator = Operator {
        place: call.address() + SUBJECT,
        name,
        device: given.device(),
        stream: if is_wanted { given.stream() } else { streams::UNKNOWN },
        flags: if given.writes_later { WRITES_LATER } else { 0 },
        is_wanted,
    };
    hidden(|guard| {
        let sequence = aten::begin(guard, &operator, &text, |tensors| {
            if accesses && given.has_memory {
                call.each_input(facts, &TRUST, |what, seen| tell(tensors, what, &seen));
            }
        });
        if is_watched && watch::at_operators_of_torch() {
            let _errno = KeptErrno::keep();
            let text = text();
            let operator = watched_operator(sequence, text.bytes());
            let inputs = |visit: &mut dyn FnMut(watch::Tensor)| {
                call.each_input(facts, &TRUST, |what, seen| show(what, &seen, visit));
            };
            watch::begins(guard, &operator, &inputs, &Runtime::of_device());
        }
    });
}

fn watched_operator(sequence: u64, name: &[u8]) -> watch::Operator<'_> {
    watch::Operator { source: WatchSource::Aten, number: sequence, kernel: 0, name, short_name: b"" }
}

/// What a watched block that is part of a tensor may be used for.
fn show(what: Option<Use>, seen: &Seen<'_>, visit: &mut dyn FnMut(watch::Tensor)) {
    if let (Some(what), Seen::Memory(tensor)) = (what, seen) {
        let given = match what {
            Use::Read => GivenFor::Reading,
            Use::Write => GivenFor::Writing,
        };
        let (device, address) = (device_of(tensor), DevAddr(tensor.address as u64));
        visit(watch::Tensor { given, device, address, size: tensor.bytes });
    }
}

/// Of a torch that is not as we know it.
#[cold]
fn began_by_name(call: &RecordFunction<'_>) {
    static IS_NOTED: AtomicBool = AtomicBool::new(false);
    if !IS_NOTED.swap(true, Relaxed) {
        hidden(|_| aten::note_unknown_torch());
    }
    let Some(text) = call.operator_name() else { return };
    let key = key_of_name(text.bytes());
    // Whatever these say, no tensor is looked at.
    let nothing = || Some(Facts::from_words([0; 4]));
    let Found::Known(name, _) = OPERATORS.find(key, || [0; 2], 0, nothing) else { return };
    let (place, device, is_wanted) = (call.address() + SUBJECT, LogicalDevice::UNKNOWN, LAUNCHES.load(Relaxed));
    let operator = Operator { place, name, device, stream: streams::UNKNOWN, flags: 0, is_wanted };
    hidden(|guard| aten::begin(guard, &operator, || text, |_| {}));
}

unsafe extern "C" fn ended(address: usize, _context: usize) {
    let Some(begun) = aten::ending(address + SUBJECT) else { return };
    let Some(torch) = observed() else { return };
    hidden(|guard| {
        if watch::is_on() && TENSORS.load(Relaxed) && !TRUST.is_refuted() && watch::at_operators_of_torch() {
            // SAFETY: torch's own call, which is ending.
            unsafe { watch_end(guard, torch, address, begun) };
        }
        aten::end(guard, begun, LAUNCHES.load(Relaxed), |tensors| {
            if ACCESSES.load(Relaxed) && !TRUST.is_refuted() {
                // SAFETY: torch's own call, which is ending.
                unsafe { tell_results(torch, address, begun, tensors) };
            }
        });
    });
}

/// # Safety
/// `address` is that of a call of torch's that is ending.
#[cold]
unsafe fn watch_end(guard: &Guard<'_>, torch: &Torch, address: usize, begun: Begun) {
    let _errno = KeptErrno::keep();
    // SAFETY: the caller's.
    let call = unsafe { torch.call(address) };
    let Some(schema) = call.schema() else { return };
    let known = OPERATORS.find(schema.address(), || schema.identity(), EPOCH.load(Relaxed), || call.facts());
    let text = schema.text();
    let operator = watched_operator(begun.sequence, text.bytes());
    let outputs = |visit: &mut dyn FnMut(watch::Tensor)| {
        if let Found::Known(_, facts) = &known
            && !TRUST.is_refuted()
        {
            call.each_output(facts, false, &TRUST, |what, seen| show(what, &seen, visit));
        }
    };
    watch::ends(guard, &operator, &outputs, &Runtime::of_device());
}

/// # Safety
/// `address` is that of a call of torch's that is ending.
#[inline(always)]
unsafe fn tell_results(torch: &Torch, address: usize, begun: Begun, tensors: &mut Tensors<'_>) {
    // SAFETY: the caller's.
    let call = unsafe { torch.call(address) };
    let Some(facts) = OPERATORS.of_number(begun.name) else { return };
    let told = begun.flags & WRITES_LATER == 0;
    call.each_output(&facts, told, &TRUST, |what, seen| tell(tensors, what, &seen));
}

/// What an operator is given, as far as it decides whether and how it is recorded.
#[derive(Default)]
struct Given {
    has_memory: bool,
    has_wrappers: bool,
    on_host: bool,
    /// The first that is not on the host.
    npu: Option<LogicalDevice>,
    writes_later: bool,
}

impl Given {
    #[inline(always)]
    fn add(&mut self, what: Option<Use>, seen: &Seen<'_>) {
        match seen {
            Seen::Memory(tensor) => {
                self.has_memory = true;
                match tensor.place {
                    Place::Host => self.on_host = true,
                    Place::Npu(_) => self.npu = self.npu.or(Some(device_of(tensor))),
                }
            }
            Seen::Wrapper => self.has_wrappers = true,
            Seen::Nothing if what == Some(Use::Write) => self.writes_later = true,
            Seen::Nothing | Seen::Odd => {}
        }
    }

    fn stands_for_others(&self) -> bool {
        self.has_wrappers && !self.has_memory
    }

    /// An operator on the host that nobody asks about may be what brings memory to a device: it counts as on its thread's.
    fn device(&self) -> LogicalDevice {
        let host =
            || if self.on_host && HOST.load(Relaxed) { LogicalDevice(HOST_DEVICE) } else { LogicalDevice::UNKNOWN };
        self.npu.unwrap_or_else(host)
    }

    /// Nothing that runs on the host has one.
    #[inline(always)]
    fn stream(&self) -> u64 {
        match self.npu {
            None if self.on_host && HOST.load(Relaxed) => streams::UNKNOWN,
            npu => streams::current(npu),
        }
    }
}

fn device_of(tensor: &Tensor<'_>) -> LogicalDevice {
    match tensor.place {
        Place::Host => LogicalDevice(HOST_DEVICE),
        Place::Npu(number) => number.map_or(LogicalDevice::UNKNOWN, |number| LogicalDevice(u32::from(number))),
    }
}

#[inline(always)]
fn tell(tensors: &mut Tensors<'_>, what: Option<Use>, seen: &Seen<'_>) {
    let (Some(what), Seen::Memory(tensor)) = (what, seen) else { return };
    if tensor.place == Place::Host && !HOST.load(Relaxed) {
        return;
    }
    tensors.access(&Access {
        mode: match what {
            Use::Read => AccessMode::Read,
            Use::Write => AccessMode::Write,
        },
        device: device_of(tensor),
        address: DevAddr(tensor.address as u64),
        size: tensor.bytes,
        storage: DevAddr(tensor.storage as u64),
        dtype: i32::from(tensor.dtype),
        dimensions: tensor.dimensions,
    });
}
