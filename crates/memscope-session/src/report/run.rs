//! After a run: exports every process of it and tells the user what was found.
use memscope_model::Device;

use super::summary;
use crate::keeper;
use crate::launch::RunRecord;
use crate::printer::Printer;
use crate::settings::{NpuSelection, Settings};
use crate::signals::Interruption;

use crate::export::{ExportWishes, export_all, recorded_processes};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportOutcome {
    Complete,
    /// The user pressed Ctrl-C; the recording is whole and can be exported later.
    Interrupted,
}

/// Exports and sums up. Asks `interruption` now and then.
pub fn report_run(
    settings: &Settings,
    run: &RunRecord,
    interruption: &Interruption,
    printer: &Printer,
) -> anyhow::Result<ReportOutcome> {
    let directories = recorded_processes(&run.output_dir, Some(run.run_id), printer)?;
    let unrecorded = keeper::read_run(&run.output_dir, run.run_id);
    if directories.is_empty() {
        printer.summary(&nothing_recorded(settings));
        for line in summary::unrecorded_lines(&unrecorded) {
            printer.summary(&line);
        }
        return Ok(ReportOutcome::Complete);
    }
    let wishes = ExportWishes { format: Some(settings.data_format), stacks: settings.stacks, output_dir: None };
    let Some(mut batch) = export_all(&directories, &wishes, interruption, printer)? else {
        return Ok(ReportOutcome::Interrupted);
    };
    batch.unrecorded = unrecorded;
    for line in summary::of_run(&batch, &run.output_dir) {
        printer.summary(&line);
    }
    let npu_seen = batch.reports.iter().any(|report| {
        report.outcome.kernels.launches > 0 || report.pools.iter().any(|pool| pool.device != Device::Cpu)
    });
    if settings.devices.npu != NpuSelection::None && !npu_seen {
        printer.note(&"NPU memory was asked for and no NPU event came");
    }
    Ok(ReportOutcome::Complete)
}

fn nothing_recorded(settings: &Settings) -> &'static str {
    match (settings.devices.npu != NpuSelection::None, settings.devices.cpu) {
        (true, false) => {
            "nothing was recorded: NPU memory was asked for and no NPU event came; --device=cpu records host memory"
        }
        _ => "nothing was recorded: no process of the run allocated memory through a library we could be loaded into",
    }
}
