//! Memory that is allocated and freed, of the host and of devices.
use super::{
    DevAddr, Extended, HostAddr, HostCall, LaneNumber, Protection, Space, SpaceAddr, SpaceDevice, SpoolBuilder,
};
use memscope_format::encode;

impl SpoolBuilder {
    pub fn alloc(&mut self, lane: LaneNumber, ticks: u64, address: u64, size: u64, node: u32) -> &mut Self {
        let stack = self.stack(lane, node);
        self.event(lane, ticks, |out, last| {
            // SAFETY: `event` gives `MAX_EVENT` bytes.
            unsafe { encode::host_alloc(out, last, ticks, HostAddr(address), size, stack) }
        })
    }

    pub fn free(&mut self, lane: LaneNumber, ticks: u64, address: u64, node: u32) -> &mut Self {
        let stack = self.stack(lane, node);
        self.event(lane, ticks, |out, last| {
            // SAFETY: `event` gives `MAX_EVENT` bytes.
            unsafe { encode::host_free(out, last, ticks, HostAddr(address), stack) }
        })
    }

    pub fn map(&mut self, lane: LaneNumber, ticks: u64, address: u64, size: u64, node: u32) -> &mut Self {
        let stack = self.stack(lane, node);
        let protection = Protection::READ_WRITE;
        self.extended(lane, ticks, true, &Extended::HostMap { address: HostAddr(address), size, protection, stack })
    }

    /// A mapping without access.
    pub fn reserve(&mut self, lane: LaneNumber, ticks: u64, address: u64, size: u64, node: u32) -> &mut Self {
        let stack = self.stack(lane, node);
        let protection = Protection::NONE;
        self.extended(lane, ticks, true, &Extended::HostMap { address: HostAddr(address), size, protection, stack })
    }

    pub fn protect(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        (address, size): (u64, u64),
        protection: Protection,
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        self.extended(lane, ticks, true, &Extended::HostProtect { address: HostAddr(address), size, protection, stack })
    }

    pub fn unmap(&mut self, lane: LaneNumber, ticks: u64, address: u64, size: u64, node: u32) -> &mut Self {
        let stack = self.stack(lane, node);
        self.extended(lane, ticks, true, &Extended::HostUnmap { address: HostAddr(address), size, stack })
    }

    pub fn remap(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        (old, old_size): (u64, u64),
        (new, new_size): (u64, u64),
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        self.extended(
            lane,
            ticks,
            true,
            &Extended::HostRemap { old: HostAddr(old), old_size, new: HostAddr(new), new_size, stack },
        )
    }

    pub fn host_refused(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        call: HostCall,
        (size, flag): (u64, u64),
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        self.extended(lane, ticks, true, &Extended::HostRefused { call, size, flag, stack })
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn device_alloc(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        space: Space,
        device: u32,
        address: u64,
        size: u64,
        attributes: u32,
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        let record = Extended::DeviceAlloc {
            space,
            device: SpaceDevice(device),
            address: SpaceAddr(address),
            size,
            attributes,
            stack,
        };
        self.extended(lane, ticks, true, &record)
    }

    /// A region of a framework's pool.
    pub fn region(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        space: Space,
        device: u32,
        address: u64,
        size: u64,
    ) -> &mut Self {
        self.device_alloc(lane, ticks, space, device, address, size, 0, 0)
    }

    pub fn device_free(&mut self, lane: LaneNumber, ticks: u64, space: Space, address: u64, node: u32) -> &mut Self {
        let stack = self.stack(lane, node);
        self.extended(lane, ticks, true, &Extended::DeviceFree { space, address: SpaceAddr(address), stack })
    }

    pub fn pool_total(&mut self, lane: LaneNumber, ticks: u64, space: Space, device: u32, total: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::PoolTotal { space, device: SpaceDevice(device), total })
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    pub fn out_of_memory(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        space: Space,
        device: u32,
        size: u64,
        flag: u64,
        node: u32,
    ) -> &mut Self {
        let stack = self.stack(lane, node);
        self.extended(
            lane,
            ticks,
            true,
            &Extended::OutOfMemory { space, device: SpaceDevice(device), size, flag, stack },
        )
    }

    pub fn heap(
        &mut self,
        lane: LaneNumber,
        ticks: u64,
        space: Space,
        device: u32,
        address: u64,
        size: u64,
    ) -> &mut Self {
        self.extended(
            lane,
            ticks,
            true,
            &Extended::Heap { space, device: SpaceDevice(device), address: DevAddr(address), size },
        )
    }

    pub fn heap_end(&mut self, lane: LaneNumber, ticks: u64, space: Space, address: u64) -> &mut Self {
        self.extended(lane, ticks, true, &Extended::HeapEnd { space, address: DevAddr(address) })
    }
}
