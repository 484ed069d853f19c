//! Operators and kernels, what they access, and when they ran.
use super::{
    AccessMode, DevAddr, Extended, LaneNumber, LogicalDevice, Phase, PhysicalDevice, SpoolBuilder, TaskLogLine,
    TensorOwner,
};
use memscope_format::encode::Path as CodedPath;
use memscope_format::layout;

impl SpoolBuilder {
    pub fn launch(&mut self, lane: LaneNumber, ticks: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::KernelLaunch)
    }

    /// The runtime's report of a task; `name` 0 for what is no kernel.
    pub fn task(&mut self, lane: LaneNumber, ticks: u64, device: u32, stream: u32, task: u32, name: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::Task { device: PhysicalDevice(device), stream, task, name })
    }

    pub fn kernel_name(&mut self, lane: LaneNumber, hash: u64, name: &str) -> &mut Self {
        self.definition(lane, &Extended::KernelName { hash, text: name.as_bytes() })
    }

    pub fn stream_expansion(&mut self, lane: LaneNumber, ticks: u64, status: u8) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::StreamExpansion { status })
    }

    pub fn device_clock(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        device: u32,
        counter: u64,
        frequency_khz: u64,
    ) -> &mut Self {
        let record = Extended::DeviceClock { device: PhysicalDevice(device), frequency_khz, counter, width: 10 };
        self.extended(lane, ticks, true, &record)
    }

    /// Lines of a task log, read at `ticks`.
    pub fn executions(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        device: u32,
        streams: bool,
        lines: &[TaskLogLine],
    ) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::Executions { device: PhysicalDevice(device), streams, lines })
    }

    /// Another profiler holds the callbacks.
    pub fn profiling_taken(&mut self) -> &mut Self {
        self.note(layout::notes::PROFILING_TAKEN)
    }

    /// An operator of ATB; what is empty is not known.
    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn operator_start(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        number: u64,
        device: u32,
        (workspace, workspace_size): (u64, u64),
        path: &str,
        name: &str,
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        self.with_path(lane, ticks, path, |path| Extended::AtbOperatorStart {
            launch: number,
            device: LogicalDevice(device),
            workspace: DevAddr(workspace),
            workspace_size,
            stack,
            path,
            name: name.as_bytes(),
        })
    }

    pub fn operator_end(&mut self, lane: LaneNumber, ticks: u64, number: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::AtbOperatorEnd { launch: number })
    }

    pub fn kernel(&mut self, lane: LaneNumber, ticks: u64, phase: Phase, device: u32, path: &str) -> &mut Self {
        self.with_path(lane, ticks, path, |path| Extended::AtbKernel { phase, device: LogicalDevice(device), path })
    }

    /// Of float16 in format ND.
    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn access(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        mode: AccessMode,
        owner: TensorOwner,
        device: u32,
        (address, size): (u64, u64),
        dimensions: &[i64],
    ) -> &mut Self {
        let (dtype, format) = (1, 2);
        let record = Extended::Access {
            mode,
            owner,
            device: LogicalDevice(device),
            address: DevAddr(address),
            size,
            dtype,
            format,
            dimensions,
        };
        self.extended(lane, ticks, true, &record)
    }

    pub fn aten_name(&mut self, lane: LaneNumber, id: u32, text: &str) -> &mut Self {
        self.definition(lane, &Extended::AtenName { id, text: text.as_bytes() })
    }

    /// The stream of the operators that begin in the lane from here on.
    pub fn stream(&mut self, lane: LaneNumber, handle: u64) -> &mut Self {
        self.definition(lane, &Extended::Stream { handle })
    }

    /// `name` is the number of a name that was defined before.
    pub fn aten_start(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        sequence: u64,
        device: u32,
        name: u32,
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        let record = Extended::AtenOperatorStart { sequence, device: LogicalDevice(device), name, stack };
        self.extended(lane, ticks, true, &record)
    }

    pub fn aten_end(&mut self, lane: LaneNumber, ticks: u64, sequence: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::AtenOperatorEnd { sequence })
    }

    /// Of float32; `storage` is where the memory begins of which the tensor is a view.
    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn aten_access(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        mode: AccessMode,
        name: u32,
        device: u32,
        (address, size): (u64, u64),
        storage: u64,
        dimensions: &[i64],
    ) -> &mut Self {
        let (dtype, format) = (6, -1);
        let (device, address, storage) = (LogicalDevice(device), DevAddr(address), DevAddr(storage));
        let record = Extended::AtenAccess { mode, name, device, address, size, storage, dtype, format, dimensions };
        self.extended(lane, ticks, true, &record)
    }

    /// As the recorder does: against the last path if that is in the same generation.
    fn with_path<'p>(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        path: &'p str,
        make: impl Fn(CodedPath<'p>) -> Extended<'p>,
    ) -> &mut Self {
        self.make_room(lane, ticks, make(CodedPath::after(b"", path.as_bytes())).room());
        let builder = self.lane_mut(lane);
        let coded = CodedPath::after(&builder.last_path, path.as_bytes());
        builder.last_path = coded.kept().to_vec();
        self.extended(lane, ticks, true, &make(coded))
    }
}
