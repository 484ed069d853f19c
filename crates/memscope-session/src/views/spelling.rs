//! How users spell what they ask about.
use super::reading::At;
use super::rows::Order;
use crate::settings::values::Refused;
use memscope_model::{Device, Pool};

/// What `flamegraph` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Chart {
    #[default]
    Svg,
    Collapsed,
    Speedscope,
}

impl Chart {
    /// How a file of it is called, after the process.
    pub fn file_name(self, pid: u32) -> String {
        match self {
            Chart::Svg => format!("flamegraph_{pid}.svg"),
            Chart::Collapsed => format!("flamegraph_{pid}.collapsed.txt"),
            Chart::Speedscope => format!("flamegraph_{pid}.speedscope.json"),
        }
    }
}

fn refused(item: &str) -> Refused {
    Refused { item: item.to_owned(), reason: "" }
}

/// `peak`, `end`, `main`, `total`, `step:3`, `12.5` or `12.5s`, `800ms`.
pub fn at(text: &str) -> Result<At, Refused> {
    match text {
        "peak" => return Ok(At::Peak),
        "end" => return Ok(At::End),
        "main" => return Ok(At::Main),
        "total" => return Ok(At::Total),
        _ => {}
    }
    if let Some(number) = text.strip_prefix("step:") {
        let number = number.parse().ok().filter(|number| *number > 0);
        return number.map(At::Step).ok_or_else(|| refused(text));
    }
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e6),
        (None, Some(number)) => (number, 1e9),
        (None, None) => (text, 1e9),
    };
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(|| refused(text))?;
    Ok(At::After((value * unit) as u64))
}

/// One of `parse`, or two with a comma between them.
pub fn one_or_two<T: Copy>(text: &str, parse: fn(&str) -> Result<T, Refused>) -> Result<(T, Option<T>), Refused> {
    let text = text.replace('，', ",");
    match text.split_once(',') {
        Some((first, second)) => Ok((parse(first)?, Some(parse(second)?))),
        None => Ok((parse(&text)?, None)),
    }
}

pub fn pid(text: &str) -> Result<u32, Refused> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| refused(text))
}

/// `cpu`, `npu:3`.
pub fn device(text: &str) -> Result<Device, Refused> {
    match (text, text.strip_prefix("npu:")) {
        ("cpu", _) => Ok(Device::Cpu),
        (_, Some(number)) => number.parse().map(Device::Npu).map_err(|_| refused(text)),
        _ => Err(refused(text)),
    }
}

pub fn pool(text: &str) -> Result<Pool, Refused> {
    Ok(match text.to_ascii_uppercase().as_str() {
        "HOST" => Pool::Host,
        "PINNED" => Pool::Pinned,
        "HAL" => Pool::Hal,
        "PTA" => Pool::PtaCaching,
        "PTA_WORKSPACE" => Pool::PtaWorkspace,
        "ATB" => Pool::Atb,
        "MINDSPORE" => Pool::MindSpore,
        _ => return Err(refused(text)),
    })
}

pub fn order(text: &str) -> Result<Order, Refused> {
    match text {
        "own" => Ok(Order::Own),
        "inclusive" => Ok(Order::Inclusive),
        _ => Err(refused(text)),
    }
}

pub fn chart(text: &str) -> Result<Chart, Refused> {
    match text {
        "svg" => Ok(Chart::Svg),
        "collapsed" => Ok(Chart::Collapsed),
        "speedscope" => Ok(Chart::Speedscope),
        _ => Err(refused(text)),
    }
}

pub fn rows(text: &str) -> Result<usize, Refused> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| refused(text))
}

/// A percentage as a part of 1.
pub fn percent(text: &str) -> Result<f64, Refused> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let value: f64 = number.parse().map_err(|_| refused(text))?;
    if (0.0..=100.0).contains(&value) { Ok(value / 100.0) } else { Err(refused(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_names_steps_and_times() {
        for (text, moment) in [
            ("peak", At::Peak),
            ("end", At::End),
            ("main", At::Main),
            ("total", At::Total),
            ("step:12", At::Step(12)),
            ("1.5", At::After(1_500_000_000)),
            ("2s", At::After(2_000_000_000)),
            ("250ms", At::After(250_000_000)),
        ] {
            assert_eq!(at(text).ok(), Some(moment), "{text}");
        }
        for text in ["", "peek", "step:0", "step:", "-1", "1e3", "nan", "inf", "s", "ms", "1.2.3"] {
            assert!(at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn two_moments_are_separated_by_a_comma_of_either_width() {
        assert_eq!(one_or_two("step:2,step:9", at).ok(), Some((At::Step(2), Some(At::Step(9)))));
        assert_eq!(one_or_two("peak，end", at).ok(), Some((At::Peak, Some(At::End))));
        assert_eq!(one_or_two("peak", at).ok(), Some((At::Peak, None)));
        assert!(one_or_two("peak,end,end", at).is_err());
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("0.5").ok(), Some(0.005));
        assert_eq!(percent("12%").ok(), Some(0.12));
        for text in ["", "-1", "101", "nan", "x"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
