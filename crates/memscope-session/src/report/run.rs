//! After a run: exports every process of it and tells the user what was found.
use memscope_model::Device;

use super::{ends, summary};
use crate::invocation::RunRecord;
use crate::keeper::{Unrecorded, left_without_files};
use crate::printer::Printer;
use crate::settings::{Format, NpuSelection, Settings};
use crate::signals::Interruption;
use crate::usage_error::quoted;

use crate::export::{ExportWishes, export_all, recorded_processes};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportOutcome {
    Complete,
    /// The user pressed Ctrl-C; the recording is whole and can be exported later.
    Interrupted,
    /// Not all files could be written; the summary names them.
    Unwritten,
}

/// Exports and sums up. Asks `interruption` now and then.
pub fn report_run(
    settings: &Settings,
    run: &RunRecord,
    mut unrecorded: Vec<Unrecorded>,
    interruption: &Interruption,
    printer: &Printer,
) -> anyhow::Result<ReportOutcome> {
    let recordings = recorded_processes(&run.output_dir, Some(run.run_id), printer)?;
    let mut silent = left_without_files(run);
    silent.retain(|process| unrecorded.iter().all(|known| known.pid != process.pid));
    unrecorded.append(&mut silent);
    if recordings.processes.is_empty() && recordings.unreadable == 0 {
        printer.summary(&if unrecorded.is_empty() { nothing_recorded(settings) } else { "nothing was recorded:" });
        printer.report(&summary::unrecorded_lines(&unrecorded));
        return Ok(ReportOutcome::Complete);
    }
    if let Some(Err(error)) = run.end().map(|end| end.write(&run.output_dir)) {
        printer.note(&format_args!("how the program ended is not kept with the recording: {error}"));
    }
    if let Err(error) = run.oom_kills.write(&run.output_dir, run.run_id) {
        printer
            .note(&format_args!("whom the kernel killed for want of memory is not kept with the recording: {error}"));
    }
    let wishes =
        ExportWishes { format: Some(settings.data_format), stacks: settings.stacks, ..ExportWishes::default() };
    let Some(mut batch) = export_all(&recordings, &wishes, interruption, printer) else {
        return Ok(ReportOutcome::Interrupted);
    };
    batch.unrecorded = unrecorded;
    ends::fill_in(&mut batch.reports, run.end().as_ref());
    printer.report(&summary::of_run(&batch, &run.output_dir, &run.output_dir));
    if settings.data_format == Format::NoFiles {
        printer.summary(&format_args!(
            "no files, as --data-format=none says; write them later with: {} export {}",
            settings.brand.name(),
            quoted(&run.output_dir)
        ));
    }
    let npu_seen = batch.reports.iter().any(|report| {
        report.outcome.kernels.launches > 0 || report.pools.iter().any(|pool| pool.device != Device::Cpu)
    });
    if settings.devices.npu != NpuSelection::None && !npu_seen {
        let host = if settings.devices.cpu { "" } else { "; --device=cpu records host memory" };
        printer.note(&format_args!("NPU memory was asked for and no NPU event came{host}"));
    }
    // Whose those are that could not even be looked into is not known.
    let is_whole = batch.unwritten() == 0 && batch.unreadable == recordings.unreadable;
    Ok(if is_whole { ReportOutcome::Complete } else { ReportOutcome::Unwritten })
}

fn nothing_recorded(settings: &Settings) -> &'static str {
    match (settings.devices.npu != NpuSelection::None, settings.devices.cpu) {
        (true, false) => {
            "nothing was recorded: NPU memory was asked for and no NPU event came; --device=cpu records host memory"
        }
        _ => "nothing was recorded: no process of the run allocated memory through a library we could be loaded into",
    }
}
