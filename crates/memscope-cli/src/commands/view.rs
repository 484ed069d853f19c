//! `top`, `tree`, `flamegraph` and `diff`: who holds the memory of a recording.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use memscope_session::line::Line;
use memscope_session::printer::Printer;
use memscope_session::usage_error::quoted;
use memscope_session::views::diff::{self, Difference, signed_bytes};
use memscope_session::views::flamegraph::{self, Flame};
use memscope_session::views::json;
use memscope_session::views::layout::{Emphasis, Layout};
use memscope_session::views::reading::{Question, ReadingError, Symbolizer, View, read};
use memscope_session::views::rows::{self, Order};
use memscope_session::views::spelling::Chart;
use memscope_session::views::tree::CallTree;
use memscope_session::{EXIT_USAGE, windows_home};

use crate::view_settings::{Show, ViewSettings};

pub(super) fn run(settings: &ViewSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    match shown(settings, printer) {
        // What was asked about is not there, or cannot be read: nothing was written.
        Err(error) if error.is::<ReadingError>() => {
            printer.error(&format_args!("{error:#}"));
            Ok(ExitCode::from(EXIT_USAGE))
        }
        result => result,
    }
}

fn shown(settings: &ViewSettings, printer: &Printer) -> anyhow::Result<ExitCode> {
    let mut symbolizer = Symbolizer::new();
    let (directory, question) = &settings.subject;
    let mut view = looked_at(directory, question, &mut symbolizer, printer)?;
    let layout = Layout::stdout();
    let ended = match &settings.show {
        Show::Top { order, rows, json: true } => printer.json(&json::top(&view, &ranked(&view, *order, *rows), *rows)),
        Show::Top { order, rows, json: false } => printer.document(&top(&view, *order, *rows, &layout)),
        Show::Tree { least, json } => {
            let tree = CallTree::new(&view.profile, &mut view.names);
            if *json {
                printer.json(&json::tree(&view, &tree, *least))
            } else {
                let mut text = vec![heading(&view.title(), &layout)];
                text.extend(rows::tree_rows(&tree, &view.names, *least, &layout));
                printer.document(&text)
            }
        }
        Show::Flamegraph { chart, file } => {
            let text = match chart {
                Chart::Svg => flamegraph::svg(&Flame::of(&mut view)),
                Chart::Collapsed => flamegraph::collapsed(&view),
                Chart::Speedscope => flamegraph::speedscope(&view),
            };
            let file = file.clone().unwrap_or_else(|| PathBuf::from(chart.file_name(view.info.pid)));
            write(&file, &text, printer)?
        }
        Show::Diff { compared: (directory, question), rows, json, svg, file } => {
            let mut other = looked_at(directory, question, &mut symbolizer, printer)?;
            if *svg {
                let text = flamegraph::svg(&diff::flame(&mut view, &mut other));
                let name = format!("diff_{}_{}.svg", view.info.pid, other.info.pid);
                return write(&file.clone().unwrap_or_else(|| PathBuf::from(name)), &text, printer);
            }
            let difference = Difference::of(&view, &other);
            let json = json.then(|| json::diff(&view, &other, &difference, *rows));
            let told = || differences(&view, &other, &difference, *rows, &layout);
            match (file, json) {
                (Some(file), Some(json)) => write(file, &json, printer)?,
                (Some(file), None) => write(file, &Line::text(&told()), printer)?,
                (None, Some(json)) => printer.json(&json),
                (None, None) => printer.document(&told()),
            }
        }
    };
    if view.stackless {
        printer.note(&"no call stacks of this memory were recorded; --call-stack=c,python shows where it comes from");
    }
    for problem in symbolizer.problems() {
        printer.info(problem);
    }
    Ok(ended)
}

fn looked_at(
    directory: &Path,
    question: &Question,
    symbolizer: &mut Symbolizer,
    printer: &Printer,
) -> anyhow::Result<View> {
    const STEPS: f64 = 1000.0;
    windows_home::bring(directory, printer);
    let bar = printer.progress("reading", STEPS as u64);
    let view = read(directory, question, symbolizer, &mut |fraction| bar.set_position((fraction * STEPS) as u64));
    bar.finish_and_clear();
    Ok(view?)
}

fn ranked(view: &View, order: Order, count: usize) -> Vec<memscope_session::views::profile::FunctionShare> {
    rows::ranked(&view.profile, &view.names, order, count)
}

fn top(view: &View, order: Order, count: usize, layout: &Layout) -> Vec<Line> {
    let mut text = vec![heading(&view.title(), layout)];
    let functions = ranked(view, order, count);
    // Without stacks there are none, and a heading over nothing says nothing.
    if !functions.is_empty() {
        text.extend(rows::function_rows(&functions, view.profile.total, &view.names, layout));
        text.push(Line::default());
    }
    text.push(heading("by call site:", layout));
    let sites = rows::users_first(view.profile.sites(&view.names), view.profile.total, count);
    text.extend(rows::site_rows(&sites, view.profile.total, &view.names, layout));
    text
}

fn differences(base: &View, compared: &View, difference: &Difference, count: usize, layout: &Layout) -> Vec<Line> {
    let bytes = i128::from(difference.compared.bytes) - i128::from(difference.base.bytes);
    let mut text = vec![
        layout.fit(&format!("base:     {}", base.title())),
        layout.fit(&format!("compared: {}", compared.title())),
        heading(&format!("difference: {}", signed_bytes(bytes)), layout),
    ];
    text.extend(difference.rows(count, layout));
    text
}

fn heading(text: &str, layout: &Layout) -> Line {
    layout.emphasised(layout.fit(text), Emphasis::Heading)
}

/// A file is whole or not there: a browser may be looking at an older one.
fn write(file: &Path, text: &str, printer: &Printer) -> anyhow::Result<ExitCode> {
    if file == Path::new("-") {
        return Ok(printer.verbatim(text));
    }
    let mut name = file.file_name().with_context(|| format!("{} is no name of a file", quoted(file)))?.to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    let written = std::fs::File::create(&part)
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&part, file))
        .inspect_err(|_| drop(std::fs::remove_file(&part)));
    written.with_context(|| format!("{} cannot be written", quoted(file)))?;
    printer.summary(&format_args!("written: {}", file.display()));
    Ok(ExitCode::SUCCESS)
}
