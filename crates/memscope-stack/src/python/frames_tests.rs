use super::super::image::Image;
use super::super::layout::tests::words_of_3_13;
use super::*;
use crate::{CodeDefinition, ModuleDefinition};

/// Keeps all definitions and turns a node back into what it stands for.
#[derive(Default)]
struct Definitions {
    codes: Vec<(String, u32)>,
    nodes: Vec<(NodeId, u32, u32)>,
}

impl DefinitionSink for Definitions {
    fn module(&mut self, _: &ModuleDefinition<'_>) {
        panic!("Python has no modules in this sense");
    }

    fn code(&mut self, code: &CodeDefinition<'_>) {
        assert_eq!(code.id as usize, self.codes.len());
        assert_eq!(code.file, b"file.py");
        self.codes.push((String::from_utf8(code.function.to_vec()).unwrap(), code.first_line));
    }

    fn node(&mut self, id: NodeId, parent: NodeId, frame: Frame) {
        let Frame::Python { code, instruction } = frame else { panic!("{frame:?}") };
        assert_eq!(id.0 as usize, self.nodes.len() + 1);
        assert!(parent.0 < id.0 && (code as usize) < self.codes.len());
        self.nodes.push((parent, code, instruction));
    }
}

impl Definitions {
    /// "function:instruction" of each frame, innermost first.
    fn frames(&self, mut node: NodeId) -> Vec<String> {
        let mut frames = Vec::new();
        while node != NodeId::NONE {
            let (parent, code, instruction) = self.nodes[node.0 as usize - 1];
            frames.push(format!("{}:{instruction}", self.codes[code as usize].0));
            node = parent;
        }
        frames
    }
}

struct Lane {
    interpreter: Interpreter,
    stack: PythonStack,
    tree: Tree,
    definitions: Definitions,
}

impl Lane {
    fn new(image: &Image) -> Lane {
        Lane {
            interpreter: image.interpreter(),
            stack: PythonStack::new(),
            tree: Tree::new(),
            definitions: Definitions::default(),
        }
    }

    /// One that cannot count deaths of code any more, for something else has put its own destructor into the type.
    fn unwatched(image: &mut Image) -> Lane {
        let lane = Lane::new(image);
        let foreign = image.destructor();
        // SAFETY: the image's type stays where it is.
        unsafe { lane.interpreter.watch_code() };
        image.set_destructor(foreign);
        lane
    }

    fn capture(&mut self, innermost: usize, depth: usize) -> NodeId {
        let Lane { interpreter, stack, tree, definitions } = self;
        // SAFETY: the frames are those of an image that nobody else uses.
        unsafe { stack.capture_from(interpreter, innermost, depth, tree, definitions) }
    }

    fn frames(&mut self, innermost: usize, depth: usize) -> Vec<String> {
        let node = self.capture(innermost, depth);
        self.definitions.frames(node)
    }
}

fn layouts() -> Vec<Layout> {
    let old = [0x0309_12f0, 0x030a_0df0, 0x030b_07f0, 0x030c_01f0];
    let mut layouts: Vec<Layout> = old.iter().map(|hex| Layout::of_version(*hex).unwrap()).collect();
    layouts.push(Layout::published(&words_of_3_13(), 0x030d_00f0).unwrap());
    layouts
}

#[test]
fn an_unchanged_stack_is_the_same_node_and_defines_nothing() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let (main, helper) = (image.code("main", 1), image.code("A.<locals>.helper", 7));
        let outer = image.frame(0, main, 10);
        let inner = image.frame(outer, helper, 4);
        let mut lane = Lane::new(&image);
        let node = lane.capture(inner, 50);
        assert_eq!(lane.definitions.frames(node), ["A.<locals>.helper:4", "main:10"]);
        assert_eq!(lane.capture(inner, 50), node);
        assert_eq!((lane.definitions.codes.len(), lane.definitions.nodes.len()), (2, 2));
        assert_eq!(lane.frames(outer, 50), ["main:10"]);
        assert_eq!(lane.capture(inner, 50), node);
        assert_eq!(lane.definitions.nodes.len(), 2);
    }
}

#[test]
fn a_change_of_an_outer_frame_changes_all_nodes_above_it() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let code = image.code("f", 1);
        let outer = image.frame(0, code, 10);
        let middle = image.frame(outer, code, 20);
        let inner = image.frame(middle, code, 30);
        let mut lane = Lane::new(&image);
        let before = lane.capture(inner, 50);
        image.run(outer, code, 12);
        assert_eq!(lane.frames(inner, 50), ["f:30", "f:20", "f:12"]);
        image.run(outer, code, 10);
        assert_eq!(lane.capture(inner, 50), before);
    }
}

/// Code without numbers is told apart by counting deaths, and by its contents where that is not possible.
const WAYS: [fn(&mut Image) -> Lane; 2] = [|image| Lane::new(image), Lane::unwatched];

#[test]
fn another_code_object_at_the_same_address_is_another_function() {
    for (layout, way) in layouts().into_iter().flat_map(|layout| WAYS.map(|way| (layout, way))) {
        let mut image = Image::new(layout);
        let code = image.code("first", 1);
        let frame = image.frame(0, code, 6);
        let mut lane = way(&mut image);
        assert_eq!(lane.frames(frame, 50), ["first:6"]);
        image.rewrite_code(code, "second", 1);
        assert_eq!(lane.frames(frame, 50), ["second:6"]);
        // The same function again, compiled anew, is not defined again.
        image.rewrite_code(code, "first", 1);
        assert_eq!(lane.frames(frame, 50), ["first:6"]);
        assert_eq!((lane.definitions.codes.len(), lane.definitions.nodes.len()), (2, 2));
    }
}

#[test]
fn code_made_anew_with_all_its_parts_at_their_old_addresses_is_told_apart() {
    for (layout, way) in layouts().into_iter().flat_map(|layout| WAYS.map(|way| (layout, way))) {
        let mut image = Image::new(layout);
        let code = image.code("first", 1);
        let frame = image.frame(0, code, 6);
        let mut lane = way(&mut image);
        assert_eq!(lane.frames(frame, 50), ["first:6"]);
        let word = |offset: u16| {
            // SAFETY: a field of the image's code object.
            unsafe { ((code + usize::from(offset)) as *const usize).read() }
        };
        let mut number = 1000;
        let mut made_anew = |image: &mut Image| {
            number += 1;
            image.destroy(code);
            image.set(code, 0, 1u32);
            if let Some(offset) = layout.code_version {
                image.set(code, offset.into(), number);
            }
        };
        // Another name, which does not know its hash.
        let name = word(layout.code_function);
        image.set(name, layout.compact_size.into(), u32::from('F'));
        made_anew(&mut image);
        assert_eq!(lane.frames(frame, 50), ["First:6"]);
        // Another name, which does.
        image.set(name, usize::from(layout.compact_size) + 16, u32::from('T'));
        image.set(name, 24, 0x1234_5678_9abc_i64);
        made_anew(&mut image);
        assert_eq!(lane.frames(frame, 50), ["FirsT:6"]);
        // Other lines.
        let table = word(layout.code_line_table);
        image.set(table, 32, 7u8);
        made_anew(&mut image);
        lane.capture(frame, 50);
        image.set(code, layout.code_first_line.into(), 77u32);
        made_anew(&mut image);
        lane.capture(frame, 50);
        let lines: Vec<u32> = lane.definitions.codes.iter().map(|(_, line)| *line).collect();
        assert_eq!(lines, [1, 1, 1, 1, 77], "{:#x}", layout.version);
    }
}

#[test]
fn code_that_differs_in_the_middle_of_its_lines_only_is_told_apart_by_the_death_of_the_old() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let code = image.code("f", 1);
        let table = image.bytes(&[0x80; 64]);
        image.set(code, layout.code_line_table.into(), table);
        let outer = image.frame(0, code, 6);
        let inner = image.frame(outer, code, 8);
        let mut lane = Lane::new(&image);
        for number in 1..=5u8 {
            assert_eq!(lane.frames(inner, 50), ["f:8", "f:6"]);
            assert_eq!(lane.definitions.codes.len(), number.into());
            image.destroy(code);
            image.set(code, 0, 1u32);
            image.set(table, 32 + 24, number);
            if let Some(offset) = layout.code_version {
                image.set(code, offset.into(), 1000 + u32::from(number));
            }
        }
    }
}

#[test]
fn deaths_at_other_addresses_define_nothing() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let (f, g) = (image.code("f", 1), image.code("g", 1));
        let outer = image.frame(0, f, 6);
        let inner = image.frame(outer, f, 8);
        let mut lane = Lane::new(&image);
        let before = lane.capture(inner, 50);
        for line in 1..1000 {
            image.rewrite_code(g, "g", line);
            assert_eq!(lane.capture(inner, 50), before);
        }
        assert_eq!((lane.definitions.codes.len(), lane.definitions.nodes.len()), (1, 2));
    }
}

#[test]
fn a_destructor_that_came_and_went_is_not_trusted_to_have_called_ours() {
    for layout in layouts().into_iter().filter(|layout| layout.code_version.is_none()) {
        let mut image = Image::new(layout);
        let code = image.code("first", 1);
        let frame = image.frame(0, code, 6);
        let mut lane = Lane::new(&image);
        let foreign = image.destructor();
        assert_eq!(lane.frames(frame, 50), ["first:6"]);
        let ours = image.destructor();
        assert_ne!(ours, foreign);
        image.set_destructor(foreign);
        assert_eq!(lane.frames(frame, 50), ["first:6"]);
        image.rewrite_code(code, "second", 1);
        image.set_destructor(ours);
        assert_eq!(lane.frames(frame, 50), ["second:6"]);
        image.set_destructor(foreign);
        image.rewrite_code(code, "third", 1);
        image.set_destructor(ours);
        assert_eq!(lane.frames(frame, 50), ["third:6"]);
        // Nor is ours put in again by lanes that begin later.
        image.set_destructor(foreign);
        let mut later = Lane { interpreter: lane.interpreter, ..Lane::new(&image) };
        assert_eq!(later.frames(frame, 50), ["third:6"]);
        assert_eq!(image.destructor(), foreign);
    }
}

#[test]
fn numbered_code_has_the_destructor_it_had() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let own = image.destructor();
        let code = image.code("f", 1);
        let frame = image.frame(0, code, 6);
        Lane::new(&image).capture(frame, 50);
        assert_eq!(image.destructor() == own, layout.code_version.is_some());
    }
}

#[test]
fn a_code_object_that_differs_in_its_lines_only_is_told_apart() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let code = image.code("f", 1);
        let frame = image.frame(0, code, 6);
        let mut lane = Lane::new(&image);
        lane.capture(frame, 50);
        image.rewrite_code(code, "f", 9);
        lane.capture(frame, 50);
        assert_eq!(lane.definitions.codes, [("f".to_owned(), 1), ("f".to_owned(), 9)]);
    }
}

#[test]
fn entry_frames_are_left_out_and_compared_all_the_same() {
    for layout in layouts().into_iter().filter(|layout| layout.frame_owner.is_some()) {
        let mut image = Image::new(layout);
        let (f, g, trampoline) = (image.code("f", 1), image.code("g", 1), image.code("<shim>", 1));
        let outer = image.frame(0, f, 2);
        let entry = image.entry_frame(outer, trampoline);
        let inner = image.frame(entry, g, 4);
        let top = image.entry_frame(inner, trampoline);
        let mut lane = Lane::new(&image);
        for _ in 0..2 {
            assert_eq!(lane.frames(top, 50), ["g:4", "f:2"]);
        }
        // The entry frame's memory, which is on the C stack, is now a function's frame and back.
        let owner = usize::from(layout.frame_owner.unwrap());
        image.set(entry, owner, 0u8);
        image.run(entry, f, 8);
        assert_eq!(lane.frames(inner, 50), ["g:4", "f:8", "f:2"]);
        image.set(entry, owner, 3u8);
        image.run(entry, trampoline, 0);
        assert_eq!(lane.frames(inner, 50), ["g:4", "f:2"]);
        assert!(lane.definitions.codes.iter().all(|(name, _)| name != "<shim>"));
    }
}

#[test]
fn frames_without_sound_code_are_skipped_until_they_have_it() {
    for layout in layouts() {
        let mut image = Image::new(layout);
        let (f, g) = (image.code("f", 1), image.code("g", 1));
        let outer = image.frame(0, f, 2);
        let inner = image.frame(outer, g, 4);
        let mut lane = Lane::new(&image);
        let not_code = image.bytes(b"something else");
        for code in [0, 0xdead_beef_0000_0000, not_code] {
            image.run(inner, code, 0);
            assert_eq!(lane.frames(inner, 50), ["f:2"], "{code:#x}");
        }
        image.run(inner, g, 4);
        assert_eq!(lane.frames(inner, 50), ["g:4", "f:2"]);
        // Its destructor runs: where that is seen, the frame has no code any more; where code is numbered, it need not
        // be seen, for none of its parts is touched.
        image.destroy(g);
        let dying = lane.frames(inner, 50);
        assert_eq!(dying.len(), if layout.code_version.is_some() { 2 } else { 1 });
        lane.stack.forget();
        assert_eq!(lane.frames(inner, 50), ["f:2"]);
        image.rewrite_code(g, "h", 1);
        assert_eq!(lane.frames(inner, 50), ["h:4", "f:2"]);
    }
}

#[test]
fn a_frame_that_has_not_begun_is_at_instruction_0() {
    let mut image = Image::new(Layout::of_version(0x030b_00f0).unwrap());
    let code = image.code("f", 1);
    let frame = image.frame(0, code, 0u32.wrapping_sub(2));
    image.set(frame, image.layout.frame_position.into(), code + 184 - 2);
    assert_eq!(Lane::new(&image).frames(frame, 50), ["f:0"]);
}

#[test]
fn a_chain_without_end_is_given_up() {
    let mut image = Image::new(Layout::of_version(0x030c_00f0).unwrap());
    let code = image.code("f", 1);
    let frame = image.frame(0, code, 2);
    let trampoline = image.code("<shim>", 1);
    let other = image.entry_frame(frame, trampoline);
    image.set(frame, image.layout.frame_previous.into(), other);
    let mut lane = Lane::new(&image);
    let found = lane.frames(other, 1000).len();
    assert!((1000..=CAPACITY).contains(&found), "{found}");
    // Entry frames alone never make a Python frame.
    let owner = usize::from(image.layout.frame_owner.unwrap());
    image.set(frame, owner, 3u8);
    image.run(frame, trampoline, 0);
    assert_eq!(lane.capture(frame, 1000), NodeId::NONE);
    // Back to a sane chain.
    image.set(frame, image.layout.frame_previous.into(), 0usize);
    image.set(frame, owner, 0u8);
    image.run(frame, code, 2);
    assert_eq!(lane.frames(other, 1000), ["f:2"]);
}

#[test]
fn a_broken_link_ends_the_stack() {
    let mut image = Image::new(Layout::of_version(0x030b_00f0).unwrap());
    let code = image.code("f", 1);
    let outer = image.frame(0x0123_4567_89ab_cdef, code, 2);
    let inner = image.frame(outer, code, 4);
    let mut lane = Lane::new(&image);
    for _ in 0..2 {
        assert_eq!(lane.frames(inner, 50), ["f:4", "f:2"]);
    }
    assert_eq!(lane.capture(0, 50), NodeId::NONE);
    assert_eq!(lane.capture(7, 50), NodeId::NONE);
}

#[test]
fn after_forget_everything_is_defined_again_under_new_numbers() {
    let mut image = Image::new(Layout::of_version(0x030c_00f0).unwrap());
    let code = image.code("f", 1);
    let frame = image.frame(0, code, 2);
    let mut lane = Lane::new(&image);
    let before = lane.capture(frame, 50);
    lane.stack.forget();
    lane.tree.forget(0);
    let after = lane.capture(frame, 50);
    assert_ne!(before, after);
    assert_eq!(lane.definitions.codes.len(), 2);
    assert_eq!(lane.definitions.frames(after), ["f:2"]);
}

#[test]
fn after_nodes_are_forgotten_none_of_them_is_referred_to_but_code_is() {
    let mut image = Image::new(Layout::of_version(0x030c_00f0).unwrap());
    let (f, g) = (image.code("f", 1), image.code("g", 1));
    let outer = image.frame(0, f, 2);
    let inner = image.frame(outer, g, 4);
    let mut lane = Lane::new(&image);
    lane.capture(inner, 50);
    let before = lane.definitions.nodes.len() as u32;
    lane.tree.forget(0);
    lane.stack.forget_nodes();
    let after = lane.capture(inner, 50);
    assert_eq!(lane.definitions.frames(after), ["g:4", "f:2"]);
    let parents = lane.definitions.nodes.iter().skip(before as usize).map(|(parent, ..)| parent);
    assert!(parents.chain([&after]).all(|node| *node == NodeId::NONE || node.0 > before));
    assert_eq!(lane.definitions.codes.len(), 2);
}

/// Random calls, returns, jumps and recompilations of a stack that is often far deeper than `depth`; frames are reused
/// at each level, as the interpreter reuses them. After each step the innermost `depth` frames must be right.
#[test]
fn the_innermost_frames_are_right_after_any_sequence_of_changes() {
    for (round, layout) in layouts().into_iter().enumerate() {
        for (depth, way) in [1, 5, 40, 1000].into_iter().flat_map(|depth| WAYS.map(|way| (depth, way))) {
            let mut image = Image::new(layout);
            let mut codes: Vec<(usize, String)> =
                (0..8).map(|n| (image.code(&format!("f{n}"), n), format!("f{n}"))).collect();
            let mut pool: Vec<usize> = Vec::new();
            // (frame, index of code, instruction)
            let mut stack: Vec<(usize, usize, u32)> = Vec::new();
            let mut lane = way(&mut image);
            let mut random = 0x9e37_79b9u64 + round as u64 + depth as u64;
            let mut next = |below: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as usize % below
            };
            for step in 0..1_200 {
                let growing = step / 300 % 2 == 0;
                let calls = next(if growing { 8 } else { 2 });
                let returns = next(if growing { 4 } else { 7 });
                stack.truncate(stack.len().saturating_sub(returns));
                for _ in 0..calls {
                    let previous = stack.last().map_or(0, |top| top.0);
                    // Like a generator, a frame may come from elsewhere.
                    let elsewhere = next(10) == 0;
                    let frame = match pool.get(stack.len()) {
                        Some(frame) if !elsewhere => *frame,
                        _ => image.frame(0, 0, 0),
                    };
                    if stack.len() < pool.len() {
                        let level = stack.len();
                        pool[level] = frame;
                    } else {
                        pool.push(frame);
                    }
                    let (code, instruction) = (next(codes.len()), next(50) as u32 * 2);
                    image.set(frame, layout.frame_previous.into(), previous);
                    image.run(frame, codes[code].0, instruction);
                    stack.push((frame, code, instruction));
                }
                if let Some(top) = stack.last_mut() {
                    top.2 = next(50) as u32 * 2;
                    image.run(top.0, codes[top.1].0, top.2);
                }
                let recompiled = next(codes.len());
                if next(20) == 0 && stack.iter().all(|frame| frame.1 != recompiled) {
                    codes[recompiled].1 = format!("g{step}");
                    image.rewrite_code(codes[recompiled].0, &format!("g{step}"), 1);
                }
                let innermost = stack.last().map_or(0, |top| top.0);
                let expected: Vec<String> = stack
                    .iter()
                    .rev()
                    .take(depth)
                    .map(|(_, code, instruction)| format!("{}:{instruction}", codes[*code].1))
                    .collect();
                let mut frames = lane.frames(innermost, depth);
                if stack.len() <= depth {
                    assert_eq!(frames, expected, "step {step}");
                }
                frames.truncate(depth);
                assert_eq!(frames, expected, "step {step}");
            }
        }
    }
}
