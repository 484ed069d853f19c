//! Operators that have begun and not ended, and the names of kernels.
use crate::{AtbOperator, DevAddr, Device, NameId, Names, StreamHandle};
use rustc_hash::FxHashMap;

/// Operators that are at work, by their numbers. An operator that is left by an exception never ends.
#[derive(Debug)]
pub(crate) struct OpenOperators<T>(FxHashMap<u64, T>);

impl<T> Default for OpenOperators<T> {
    fn default() -> OpenOperators<T> {
        OpenOperators(FxHashMap::default())
    }
}

impl<T> OpenOperators<T> {
    /// More than threads can be in at once, even with graphs in graphs.
    const MOST: usize = 1 << 16;

    pub(crate) fn start(&mut self, number: u64, operator: T) {
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(number, operator);
    }

    pub(crate) fn end(&mut self, number: u64) -> Option<T> {
        self.0.remove(&number)
    }
}

/// What the end of an operator of Aten repeats.
#[derive(Debug)]
pub(crate) struct OpenAtenOperator {
    pub(crate) device: Device,
    pub(crate) name: Option<NameId>,
    pub(crate) stream: Option<StreamHandle>,
}

/// What the end of an operator of ATB repeats.
#[derive(Debug)]
pub(crate) struct OpenAtbOperator {
    pub(crate) device: Device,
    name: Option<NameId>,
    path: Option<String>,
    workspace: DevAddr,
    workspace_size: u64,
    stream: Option<StreamHandle>,
}

impl OpenAtbOperator {
    pub(crate) fn of(device: Device, operator: &AtbOperator<'_>) -> OpenAtbOperator {
        let AtbOperator { name, path, workspace, workspace_size, stream } = *operator;
        let (name, path) = (name.map(|name| name.id), path.map(str::to_owned));
        OpenAtbOperator { device, name, path, workspace, workspace_size, stream }
    }

    pub(crate) fn lend<'a>(&'a self, names: &'a Names) -> AtbOperator<'a> {
        AtbOperator {
            name: self.name.and_then(|name| names.get(name)),
            path: self.path.as_deref(),
            workspace: self.workspace,
            workspace_size: self.workspace_size,
            stream: self.stream,
        }
    }
}

/// ATB saves what a kernel is given below `<operator>/<number>_<kernel>/before`, and what it left below `…/after`.
pub(crate) fn kernel_name(path: &str) -> Option<&str> {
    let (kernel, _) = path.rsplit_once('/')?;
    let name = kernel.rsplit_once('/').map_or(kernel, |(_, name)| name);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_called_by_the_component_before_the_last() {
        assert_eq!(kernel_name("0_77/3/5_Linear/0_MatMulKernel/before"), Some("0_MatMulKernel"));
        assert_eq!(kernel_name("Kernel/after"), Some("Kernel"));
        assert_eq!((kernel_name("/before"), kernel_name("before"), kernel_name("")), (None, None, None));
    }

    #[test]
    fn operators_that_never_end_do_not_pile_up() {
        let mut open = OpenOperators::default();
        for number in 0..3 * OpenOperators::<()>::MOST as u64 {
            open.start(number, ());
        }
        assert!(open.0.len() <= OpenOperators::<()>::MOST);
    }
}
