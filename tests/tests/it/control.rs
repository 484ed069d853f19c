//! What a program asks of the recorder through its C table.
use memscope_model::{Action, Process, Selection, State, TraceEvent};
use memscope_tests::Workshop;
use std::ops::ControlFlow;
use std::process::Command;

#[test]
fn a_deferred_recording_shows_what_lies_between_start_and_stop_and_knows_the_rest() {
    let workshop = Workshop::new();
    let program = workshop.compile("control.c");
    let recorder = workshop.recorder().c_stacks(20).setting("mode", "1");
    let recording = workshop.run_both(&recorder, || Command::new(&program));
    let mut process = Process::open(&recording.only().directory).unwrap();
    let mut told = Vec::new();
    let mut notes = Vec::new();
    process
        .trace(
            &mut |event: &TraceEvent<'_>, _: &State<'_>| {
                match event {
                    TraceEvent::Memory(event)
                        if event.block.size > 100_000 && event.selection != Selection::NotChosen =>
                    {
                        told.push((event.action, event.block.size, event.selection, event.at.stack.0 != 0));
                    }
                    TraceEvent::Alive(event) if event.block.size > 100_000 => {
                        told.push((event.action, event.block.size, Selection::Chosen, event.at.stack.0 != 0));
                    }
                    TraceEvent::Note(note) => notes.push(format!("{:?}", note.kind)),
                    _ => {}
                }
                ControlFlow::Continue(())
            },
            &mut |_| {},
        )
        .unwrap();
    let expected = [
        // Alive when tracing began, without a stack because nobody asked for one then.
        (Action::Malloc, 100_001, Selection::Chosen, false),
        (Action::Malloc, 100_003, Selection::Chosen, true),
        (Action::Malloc, 100_004, Selection::Chosen, true),
        (Action::Free, 100_003, Selection::Closing, false),
    ];
    assert_eq!(told, expected);
    assert_eq!(notes.len(), 4, "start, two steps and stop: {notes:?}");
}
