//! `at::RecordFunction`: a call of the dispatcher, as torch tells of it.
use crate::check::Trust;
use crate::layout::{Layout, fixed};
use crate::memory::{at, can_read, elements};
use crate::operator::Facts;
use crate::schema::{Schema, characters};
use crate::tensor::{Seen, Use, see};
use crate::text::Text;
use core::ffi::c_char;
use core::marker::PhantomData;

/// Functions of torch that are called. All are `const` and none throws.
#[derive(Clone, Copy)]
pub struct Functions {
    /// `const char *at::RecordFunction::name() const`.
    pub name: unsafe extern "C" fn(usize) -> *const c_char,
    /// `size_t at::RecordFunction::num_inputs() const` and `num_outputs`: of a schema, its arguments and results.
    pub number_of_inputs: unsafe extern "C" fn(usize) -> usize,
    pub number_of_outputs: unsafe extern "C" fn(usize) -> usize,
    /// `bool c10::impl::OperatorEntry::hasKernelForDispatchKey(c10::DispatchKey) const`, if there is one.
    pub has_kernel: Option<unsafe extern "C" fn(usize, u16) -> bool>,
    /// `const char *c10::toString(c10::DispatchKey)`.
    pub key_name: Option<unsafe extern "C" fn(u16) -> *const c_char>,
    /// The one tensor that is not defined; 0 if it is not found.
    pub undefined_tensor: usize,
}

/// A torch in the process.
pub struct Torch {
    pub functions: Functions,
    /// `None`: nobody has looked at this version, and names are all that is asked for.
    pub layout: Option<&'static Layout>,
    pub(crate) keys: crate::operator::Keys,
}

impl Torch {
    pub fn new(functions: Functions, layout: Option<&'static Layout>) -> Torch {
        // SAFETY: torch's own function.
        let keys = unsafe { crate::operator::Keys::find(&functions) };
        Torch { functions, layout, keys }
    }

    /// # Safety
    /// `address` is what torch passed to a callback, which has not returned.
    #[inline(always)]
    pub unsafe fn call(&self, address: usize) -> RecordFunction<'_> {
        RecordFunction { address, torch: self, call: PhantomData }
    }
}

/// A call that is beginning or ending.
#[derive(Clone, Copy)]
pub struct RecordFunction<'a> {
    address: usize,
    pub(crate) torch: &'a Torch,
    call: PhantomData<&'a ()>,
}

const MOST_ELEMENTS: usize = 1 << 20;

impl<'a> RecordFunction<'a> {
    pub fn address(&self) -> usize {
        self.address
    }

    /// What torch itself says it is called: without the overload, or the text of what is no operator.
    pub fn name(&self) -> &'a [u8] {
        // SAFETY: torch's own function, asked of its own object.
        unsafe {
            match (self.torch.functions.name)(self.address) as usize {
                0 => b"",
                first => characters(first),
            }
        }
    }

    /// Its name where nothing but the name is known; `None` of what is no operator.
    pub fn operator_name(&self) -> Option<Text> {
        let name = self.name();
        let mut parts = name.split(|byte| *byte == b':');
        // `aten::add`, not `autograd::engine::evaluate_function: AddBackward0` and not `empty_tensor`.
        let is_word = |part: Option<&[u8]>| {
            part.is_some_and(|part| {
                !part.is_empty() && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            })
        };
        let is_operator =
            is_word(parts.next()) && parts.next() == Some(b"") && is_word(parts.next()) && parts.next().is_none();
        is_operator.then(|| *Text::new().push(name))
    }

    /// The operator's schema; `None` of what is no operator.
    #[inline(always)]
    pub fn schema(&self) -> Option<Schema<'a>> {
        let layout = self.torch.layout?;
        // SAFETY: torch's own object, which is longer than that in every layout; the schema outlives the call.
        unsafe {
            let address = at::<usize>(self.address, fixed::SUBJECT);
            let is_schema = at::<u8>(self.address, layout.subject_kind) == fixed::SUBJECT_IS_SCHEMA;
            (is_schema && address != 0).then(|| Schema::at(address, layout))
        }
    }

    /// Hands each tensor the operator is given to `visit`, with what it does with it: `None` if it is not its memory that
    /// counts. Only while the call begins, and only if torch was asked for inputs.
    #[inline(always)]
    pub fn each_input(&self, facts: &Facts, trust: &Trust, mut visit: impl FnMut(Option<Use>, Seen<'_>)) {
        let Some(layout) = self.torch.layout else { return };
        // SAFETY: torch's own object; the values of a call that begins are there.
        unsafe {
            let [first, number] = at::<[usize; 2]>(self.address, layout.inputs);
            self.each_of_last((first, number), facts.arguments(), trust, |place, seen| {
                visit(facts.argument(place), seen)
            });
        }
    }

    /// The same for what comes out. `told` says whether the arguments it writes to had their memory when it began: then it is not
    /// told again. Only while the call ends, and only if torch was asked for outputs; none if it ends with an exception.
    #[inline(always)]
    pub fn each_output(&self, facts: &Facts, told: bool, trust: &Trust, mut visit: impl FnMut(Option<Use>, Seen<'_>)) {
        let Some(layout) = self.torch.layout else { return };
        // SAFETY: as above.
        unsafe {
            let [begin, end] = at::<[usize; 2]>(self.address, layout.outputs);
            let Some(values) = elements(begin, end, fixed::VALUE_SIZE, MOST_ELEMENTS) else { return };
            self.each_of_last(values, facts.results(), trust, |place, seen| visit(facts.result(place, told), seen));
        }
    }

    /// Boxed calls pass the interpreter's whole stack, of which the operator's own values are the last.
    ///
    /// # Safety
    /// So many values are at `first`.
    #[inline(always)]
    unsafe fn each_of_last(
        &self,
        (first, number): (usize, usize),
        own: usize,
        trust: &Trust,
        mut visit: impl FnMut(usize, Seen<'_>),
    ) {
        let Some(before) = number.checked_sub(own).filter(|_| first != 0 && number <= MOST_ELEMENTS) else { return };
        for place in 0..own {
            // SAFETY: within what the caller vouches for.
            unsafe {
                self.each_tensor(first + (before + place) * fixed::VALUE_SIZE, trust, &mut |seen| visit(place, seen))
            };
        }
    }

    /// The tensor that a value is, or those that are in it.
    ///
    /// # Safety
    /// A value is there.
    #[inline(always)]
    unsafe fn each_tensor(&self, value: usize, trust: &Trust, visit: &mut impl FnMut(Seen<'_>)) {
        // SAFETY: the caller's.
        unsafe {
            if let Some(list) = self.tensor(value, trust, visit) {
                self.each_in_list(list, trust, visit);
            }
        }
    }

    /// Values in a list, and in the lists in it; nothing is deeper.
    ///
    /// # Safety
    /// A list is there.
    #[inline(never)]
    unsafe fn each_in_list(&self, list: usize, trust: &Trust, visit: &mut impl FnMut(Seen<'_>)) {
        // SAFETY: the caller's, and what is in a list is a value.
        unsafe {
            for value in values_of(list, trust) {
                let Some(inner) = self.tensor(value, trust, visit) else { continue };
                for value in values_of(inner, trust) {
                    self.tensor(value, trust, visit);
                }
            }
        }
    }

    /// Hands a value that is a tensor to `visit`; of one that is a list, gives the list.
    ///
    /// # Safety
    /// A value is there.
    #[inline(always)]
    unsafe fn tensor(&self, value: usize, trust: &Trust, visit: &mut impl FnMut(Seen<'_>)) -> Option<usize> {
        let layout = self.torch.layout?;
        // SAFETY: the caller's; a tensor's payload is its implementation.
        unsafe {
            let (payload, tag) = (at::<usize>(value, 0), at::<u32>(value, fixed::VALUE_TAG));
            if tag == fixed::TENSOR_TAG {
                let seen = see(payload, layout, self.torch.functions.undefined_tensor, trust.is_proven());
                trust.note(&seen);
                visit(seen);
                return None;
            }
            if tag > fixed::MOST_TAG {
                trust.note(&Seen::Odd);
            }
            (tag == layout.list_tag && payload != 0).then_some(payload)
        }
    }
}

/// Addresses of the values in a list.
///
/// # Safety
/// A list is there, if layouts are to be trusted.
unsafe fn values_of(list: usize, trust: &Trust) -> impl Iterator<Item = usize> {
    let readable = |place, bytes| trust.is_proven() || can_read(place, bytes);
    let values = readable(list, fixed::LIST_ELEMENTS + 16).then(|| {
        // SAFETY: the caller's, or it was asked whether it can be read.
        let [begin, end] = unsafe { at::<[usize; 2]>(list, fixed::LIST_ELEMENTS) };
        elements(begin, end, fixed::VALUE_SIZE, MOST_ELEMENTS)
    });
    let values =
        values.flatten().filter(|(begin, number)| *number == 0 || readable(*begin, number * fixed::VALUE_SIZE));
    if values.is_none() {
        trust.note(&Seen::Odd);
    }
    let (begin, number) = values.unwrap_or_default();
    (0..number).map(move |place| begin + place * fixed::VALUE_SIZE)
}
