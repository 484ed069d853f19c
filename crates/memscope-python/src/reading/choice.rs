//! The words of filters.
use memscope_session::opened::words::{EVENTS, POOLS};
use memscope_session::opened::{Choice, ChosenSteps, OpenedProcess, time_after};
use memscope_session::pass::Progress;
use memscope_session::usage_error::quoted;
use memscope_session::views::spelling;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What the user wants to see, before it is known of which process.
#[derive(Clone, Default)]
pub(super) struct Filter {
    choice: Choice,
    steps: Option<Vec<u32>>,
    /// Seconds since the recording began.
    after: Option<f64>,
    before: Option<f64>,
}

/// As the Python half passes it on: devices, pools, events, steps, from and up to when.
pub(super) type FilterWords = (Vec<String>, Vec<String>, Vec<String>, Option<Vec<u32>>, Option<f64>, Option<f64>);

impl Filter {
    pub(super) fn read((devices, pools, events, steps, after, before): FilterWords) -> PyResult<Filter> {
        let mut choice = Choice::default();
        for word in devices {
            let device = spelling::device(&word).or_else(|_| spelling::device(&format!("npu:{word}")));
            let device = device.map_err(|_| wrong("device", &word, "cpu, or an NPU: 0 or npu:0"))?;
            choice.devices.push(device);
        }
        for word in pools {
            let known = POOLS.into_iter().find(|pool| pool.name() == word).or_else(|| spelling::pool(&word).ok());
            let names: Vec<&str> = POOLS.iter().map(|pool| pool.name()).collect();
            choice.pools.push(known.ok_or_else(|| wrong("pool", &word, &names.join(", ")))?);
        }
        for word in events {
            let known = EVENTS.into_iter().find(|event| event.text().eq_ignore_ascii_case(&word));
            let names: Vec<&str> = EVENTS.iter().map(|event| event.text()).collect();
            choice.events.push(known.ok_or_else(|| wrong("event", &word, &names.join(", ")))?);
        }
        Ok(Filter { choice, steps, after, before })
    }

    /// What that means of a process: numbers of steps and times need a look at it.
    pub(super) fn of(
        &self,
        process: &OpenedProcess,
        progress: &mut Progress<'_>,
    ) -> Result<Choice, memscope_session::opened::ReadFailure> {
        let mut choice = self.choice.clone();
        if let Some(numbers) = &self.steps {
            let source = process.overview(progress)?.step_source;
            choice.steps = Some(ChosenSteps { numbers: numbers.clone(), source });
        }
        if self.after.is_some() || self.before.is_some() {
            // Dump files say when they begin once they are read.
            let start = match process.info.start {
                start if start.0 != 0 => start,
                _ => process.overview(progress)?.start,
            };
            let from = self.after.map_or(0, |seconds| time_after(start, seconds));
            let to = self.before.map_or(u64::MAX, |seconds| time_after(start, seconds));
            choice.time = Some(from..to);
        }
        Ok(choice)
    }
}

fn wrong(key: &str, word: &str, allowed: &str) -> PyErr {
    PyValueError::new_err(format!("bad value {} for {key}; allowed: {allowed}", quoted(word)))
}
