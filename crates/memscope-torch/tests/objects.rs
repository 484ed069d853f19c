//! Objects laid out as torch has them, in memory of our own: what is read of them, and what is not believed.
use memscope_torch::check::Trust;
use memscope_torch::layout::{Layout, fixed};
use memscope_torch::operator::{Facts, Kind};
use memscope_torch::version::{StringForm, Version};
use memscope_torch::{Functions, Place, Seen, Tensor, Torch, Use};
use std::cell::Cell;
use std::ffi::{CStr, c_char};

/// Memory for an object, which stays where it is.
struct Object(Box<[u64]>);

impl Object {
    fn new(bytes: usize) -> Object {
        Object(vec![0; bytes.div_ceil(8)].into_boxed_slice())
    }

    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn put<T>(&mut self, offset: usize, value: T) -> &mut Object {
        assert!(offset + size_of::<T>() <= size_of_val(&*self.0));
        // SAFETY: within the object.
        unsafe { self.0.as_mut_ptr().cast::<u8>().add(offset).cast::<T>().write_unaligned(value) };
        self
    }
}

const NAME: &CStr = c"aten::add";
const OVERLOAD: &CStr = c"Tensor";

thread_local! {
    /// What torch's functions answer.
    static ANSWERS: Cell<(&'static CStr, usize, usize)> = const { Cell::new((NAME, 2, 1)) };
}

unsafe extern "C" fn name(_: usize) -> *const c_char {
    ANSWERS.get().0.as_ptr()
}

unsafe extern "C" fn number_of_inputs(_: usize) -> usize {
    ANSWERS.get().1
}

unsafe extern "C" fn number_of_outputs(_: usize) -> usize {
    ANSWERS.get().2
}

unsafe extern "C" fn key_name(key: u16) -> *const c_char {
    let names = [c"Undefined", c"CPU", c"CompositeImplicitAutograd", c"AutogradPrivateUse1"];
    names.get(key as usize).unwrap_or(&c"Other").as_ptr()
}

/// An entry's kernels are in the word before it.
unsafe extern "C" fn has_kernel(entry: usize, key: u16) -> bool {
    // SAFETY: the entries here have such a word.
    unsafe { *((entry - 8) as *const u64) >> key & 1 != 0 }
}

fn torch(minor: u8, strings: StringForm) -> Torch {
    let layout = Layout::of(Version { major: 2, minor }, strings);
    assert!(layout.is_some());
    let (has_kernel, key_name, undefined_tensor) = (Some(has_kernel as _), Some(key_name as _), 0);
    Torch::new(Functions { name, number_of_inputs, number_of_outputs, has_kernel, key_name, undefined_tensor }, layout)
}

/// All layouts.
fn torches() -> Vec<Torch> {
    use StringForm::{Cxx11, Old};
    [(3, Old), (3, Cxx11), (5, Old), (7, Cxx11), (9, Cxx11), (15, Cxx11)].map(|(minor, form)| torch(minor, form)).into()
}

/// A call of an operator with its schema and values.
struct Call {
    function: Object,
    entry: Object,
    kept: Vec<Object>,
    layout: &'static Layout,
}

#[derive(Clone, Copy)]
enum Alias {
    None,
    View,
    Write,
}

impl Call {
    fn new(torch: &Torch, arguments: &[Alias], returns: &[Alias]) -> Call {
        let layout = torch.layout.unwrap();
        let string = layout.string_size;
        // The kernels, then the name, which the schema repeats.
        let mut entry = Object::new(8 + 2 * string + 256);
        let schema = 8 + 2 * string;
        for (place, text) in [(8, NAME), (8 + string, OVERLOAD), (schema, NAME), (schema + layout.overload, OVERLOAD)] {
            entry.put(place, text.as_ptr());
        }
        let mut kept = Vec::new();
        for (place, aliases) in [(layout.arguments, arguments), (layout.returns, returns)] {
            let mut list = Object::new(aliases.len() * layout.argument_size);
            for (number, alias) in aliases.iter().enumerate() {
                let write = match alias {
                    Alias::None => continue,
                    Alias::View => 0u8,
                    Alias::Write => 1,
                };
                let mut info = Object::new(fixed::ALIAS_IS_WRITE + 8);
                info.put(fixed::ALIAS_IS_WRITE, write);
                list.put(number * layout.argument_size + layout.alias, info.address());
                kept.push(info);
            }
            let end = list.address() + aliases.len() * layout.argument_size;
            entry.put(schema + place, [list.address(), end]);
            kept.push(list);
        }
        let mut function = Object::new(400);
        function.put(fixed::SUBJECT, entry.address() + schema).put(layout.subject_kind, 1u8);
        Call { function, entry, kept, layout }
    }

    fn keep(&mut self, object: Object) -> usize {
        let address = object.address();
        self.kept.push(object);
        address
    }

    fn values(values: &[(usize, u32)]) -> Object {
        let mut memory = Object::new(values.len() * fixed::VALUE_SIZE);
        for (place, (payload, tag)) in values.iter().enumerate() {
            memory.put(place * fixed::VALUE_SIZE, *payload).put(place * fixed::VALUE_SIZE + 8, *tag);
        }
        memory
    }

    fn inputs(&mut self, values: &[(usize, u32)]) {
        let memory = self.keep(Call::values(values));
        self.function.put(self.layout.inputs, [memory, values.len()]);
    }

    fn outputs(&mut self, values: &[(usize, u32)]) {
        let memory = self.keep(Call::values(values));
        self.function.put(self.layout.outputs, [memory, memory + values.len() * fixed::VALUE_SIZE]);
    }

    fn list(&mut self, values: &[(usize, u32)]) -> (usize, u32) {
        let elements = self.keep(Call::values(values));
        let mut list = Object::new(40);
        list.put(fixed::LIST_ELEMENTS, [elements, elements + values.len() * fixed::VALUE_SIZE]);
        (self.keep(list), self.layout.list_tag)
    }

    fn tensor(&mut self, data: usize, sizes: &[i64], device: [u8; 2]) -> (usize, u32) {
        let layout = self.layout;
        let mut storage = Object::new(64);
        storage.put(fixed::STORAGE_DATA, data).put(fixed::STORAGE_BYTES, 4096u64);
        let storage = self.keep(storage);
        let mut tensor = Object::new(208);
        tensor.put(fixed::TENSOR_STORAGE, storage).put(layout.sizes, sizes.len());
        if sizes.len() > fixed::MOST_SIZES_IN_PLACE {
            let mut elsewhere = Object::new(sizes.len() * 8);
            for (place, size) in sizes.iter().enumerate() {
                elsewhere.put(place * 8, *size);
            }
            let elsewhere = self.keep(elsewhere);
            tensor.put(layout.sizes + 8, elsewhere);
        } else {
            for (place, size) in sizes.iter().enumerate() {
                tensor.put(layout.sizes + 8 + place * 8, *size);
            }
        }
        tensor.put(layout.storage_offset, 2i64).put(layout.elements, sizes.iter().product::<i64>());
        // float32
        tensor.put(layout.dtype, 6u16).put(layout.device, device);
        (self.keep(tensor), fixed::TENSOR_TAG)
    }

    fn facts(&self, torch: &Torch) -> Option<Facts> {
        // SAFETY: laid out as torch has it.
        unsafe { torch.call(self.function.address()) }.facts()
    }

    /// What is seen of the inputs, in few words.
    fn seen(&self, torch: &Torch, facts: &Facts, trust: &Trust) -> Vec<(Option<Use>, String)> {
        let mut seen = Vec::new();
        // SAFETY: as above.
        let call = unsafe { torch.call(self.function.address()) };
        call.each_input(facts, trust, |what, tensor| seen.push((what, words(&tensor))));
        seen
    }
}

fn words(seen: &Seen<'_>) -> String {
    match seen {
        Seen::Memory(Tensor { place, dtype, address, storage, bytes, dimensions }) => {
            format!("{place:?} {dtype} {address:#x} {storage:#x} {bytes} {dimensions:?}")
        }
        other => format!("{other:?}"),
    }
}

const HOST: [u8; 2] = [0, 0xff];
const NPU: [u8; 2] = [20, 3];
const META: [u8; 2] = [14, 0xff];

#[test]
fn an_operator_is_read_in_every_layout() {
    for torch in torches() {
        let mut call = Call::new(&torch, &[Alias::Write, Alias::None], &[Alias::Write]);
        let (x, y) = (call.tensor(0x1000, &[2, 3], HOST), call.tensor(0x2000, &[1, 1, 1, 2, 2, 3], NPU));
        call.inputs(&[x, y]);
        let facts = call.facts(&torch).unwrap();
        assert_eq!((facts.kind, facts.arguments(), facts.results()), (Kind::Plain, 2, 1));
        assert_eq!(
            call.seen(&torch, &facts, &Trust::new()),
            [
                (Some(Use::Write), format!("{:?} 6 0x1008 0x1000 24 [2, 3]", Place::Host)),
                (Some(Use::Read), format!("{:?} 6 0x2008 0x2000 48 [1, 1, 1, 2, 2, 3]", Place::Npu(Some(3)))),
            ]
        );
        // SAFETY: laid out as torch has it.
        let schema = unsafe { torch.call(call.function.address()) }.schema().unwrap();
        assert_eq!(schema.text().bytes(), b"aten::add.Tensor");
    }
}

#[test]
fn the_values_of_a_boxed_call_are_the_last_ones() {
    let torch = torch(7, StringForm::Cxx11);
    let mut call = Call::new(&torch, &[Alias::None, Alias::None], &[Alias::None]);
    let (other, x, y) =
        (call.tensor(0x9000, &[2], HOST), call.tensor(0x1000, &[2], HOST), call.tensor(0x2000, &[2], HOST));
    call.inputs(&[other, other, x, y]);
    call.outputs(&[other, y]);
    let facts = call.facts(&torch).unwrap();
    let inputs = call.seen(&torch, &facts, &Trust::new());
    assert_eq!(inputs.iter().map(|(_, words)| &words[..13]).collect::<Vec<_>>(), ["Host 6 0x1008", "Host 6 0x2008"]);
    let mut results = Vec::new();
    // SAFETY: laid out as torch has it.
    let ending = unsafe { torch.call(call.function.address()) };
    ending.each_output(&facts, true, &Trust::new(), |what, seen| results.push((what, words(&seen)[..13].to_owned())));
    assert_eq!(results, [(Some(Use::Write), "Host 6 0x2008".to_owned())]);
}

#[test]
fn lists_and_lists_of_lists_are_looked_into_and_what_is_no_tensor_is_not() {
    let torch = torch(9, StringForm::Cxx11);
    let mut call = Call::new(&torch, &[Alias::None, Alias::View], &[Alias::None]);
    let (x, y) = (call.tensor(0x1000, &[2], HOST), call.tensor(0x2000, &[2], HOST));
    let inner = call.list(&[y, (0, 0)]);
    let outer = call.list(&[x, inner, (77, 5)]);
    call.inputs(&[outer, x]);
    let facts = call.facts(&torch).unwrap();
    let seen = call.seen(&torch, &facts, &Trust::new());
    let uses: Vec<Option<Use>> = seen.iter().map(|(what, _)| *what).collect();
    assert_eq!(uses, [Some(Use::Read), Some(Use::Read), None]);
}

#[test]
fn tensors_that_stand_for_others_are_told_from_those_without_elements() {
    let torch = torch(15, StringForm::Cxx11);
    let mut call = Call::new(&torch, &[Alias::None, Alias::None], &[]);
    ANSWERS.set((NAME, 2, 0));
    let (fake, bare) = (call.tensor(0x1000, &[2], META), call.tensor(0, &[2], HOST));
    call.inputs(&[fake, bare]);
    let facts = call.facts(&torch).unwrap();
    let seen = call.seen(&torch, &facts, &Trust::new());
    assert!(seen.iter().all(|(_, words)| words == "Wrapper"), "{seen:?}");
}

#[test]
fn what_torch_itself_says_otherwise_is_not_believed() {
    for torch in torches() {
        let call = Call::new(&torch, &[Alias::None, Alias::View], &[Alias::View]);
        assert!(call.facts(&torch).is_some());
        for answers in [(c"aten::sub", 2, 1), (NAME, 3, 1), (NAME, 2, 2)] {
            ANSWERS.set(answers);
            assert_eq!(call.facts(&torch), None, "{answers:?}");
        }
        ANSWERS.set((NAME, 2, 1));
    }
}

#[test]
fn a_schema_at_no_address_is_refused_and_not_followed() {
    let torch = torch(7, StringForm::Cxx11);
    let mut call = Call::new(&torch, &[Alias::None, Alias::None], &[Alias::None]);
    for address in [8usize, 0x7fff_ffff_f000, usize::MAX - 100] {
        call.function.put(fixed::SUBJECT, address);
        assert_eq!(call.facts(&torch), None);
    }
    call.function.put(call.layout.subject_kind, 0u8);
    // SAFETY: laid out as torch has it.
    assert!(unsafe { torch.call(call.function.address()) }.schema().is_none(), "a text and no schema");
}

#[test]
fn tensors_whose_parts_do_not_fit_together_refute_the_layout_and_others_prove_it() {
    let torch = torch(7, StringForm::Cxx11);
    for (product, is_proven) in [(6i64, true), (7, false)] {
        let mut call = Call::new(&torch, &[Alias::None, Alias::None], &[Alias::None]);
        let (x, y) = (call.tensor(0x1000, &[2, 3], HOST), call.tensor(0x1000, &[2, 3], HOST));
        for tensor in [x, y] {
            // SAFETY: the tensor is one of ours.
            unsafe { *((tensor.0 + call.layout.elements) as *mut i64) = product };
        }
        // An address that cannot be read is no tensor, and no fault.
        call.inputs(&[x, y]);
        let (facts, trust) = (call.facts(&torch).unwrap(), Trust::new());
        for _ in 0..40 {
            call.seen(&torch, &facts, &trust);
        }
        assert_eq!((trust.is_proven(), trust.is_refuted()), (is_proven, !is_proven));
    }
}

#[test]
fn as_long_as_nothing_is_proven_no_wild_address_is_followed() {
    let torch = torch(7, StringForm::Cxx11);
    let mut call = Call::new(&torch, &[Alias::None, Alias::None], &[Alias::None]);
    call.inputs(&[(0x10, fixed::TENSOR_TAG), (0x7fff_ffff_f000, call.layout.list_tag)]);
    let facts = call.facts(&torch).unwrap();
    assert_eq!(call.seen(&torch, &facts, &Trust::new()), [(Some(Use::Read), "Odd".to_owned())]);
}

#[test]
fn an_operator_is_composite_unless_a_device_has_a_kernel_of_its_own() {
    for torch in torches() {
        let mut call = Call::new(&torch, &[Alias::None, Alias::None], &[Alias::None]);
        for (kernels, kind) in
            [(0u64, Kind::Plain), (0b100, Kind::Composite), (0b1100, Kind::Plain), (0b110, Kind::Plain)]
        {
            call.entry.put(0, kernels);
            assert_eq!(call.facts(&torch).unwrap().kind, kind, "{kernels:#b}");
        }
        // What stands before the schema is no entry.
        call.entry.put(0, 0b100u64).put(8, c"aten::other".as_ptr());
        assert_eq!(call.facts(&torch).unwrap().kind, Kind::Plain);
    }
}

#[test]
fn without_a_layout_operators_are_known_by_their_names() {
    let functions = torch(7, StringForm::Cxx11).functions;
    let torch = Torch::new(functions, None);
    let function = Object::new(400);
    // SAFETY: nothing of it is read.
    let call = unsafe { torch.call(function.address()) };
    assert!(call.schema().is_none());
    for (name, is_operator) in [
        (c"aten::add", true),
        (c"c10d::allreduce_", true),
        (c"autograd::engine::evaluate_function: AddBackward0", false),
        (c"empty_tensor", false),
        (c"a name of the user's", false),
        (c"", false),
    ] {
        ANSWERS.set((name, 0, 0));
        assert_eq!(
            call.operator_name().map(|text| text.bytes().to_vec()),
            is_operator.then(|| name.to_bytes().to_vec())
        );
    }
}
