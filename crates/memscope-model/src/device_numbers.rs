//! From the numbers programs use for devices to those of the machine.
use crate::Device;
use crate::facts::Problem;
use memscope_format::record::{
    DeviceNumber, HOST_DEVICE, LogicalDevice, PhysicalDevice, Space, SpaceDevice, UNKNOWN_DEVICE,
};

/// The driver's flags have ten bits for it.
const DEVICES: u32 = 1024;

/// Physical numbers by the index a program uses; empty if they are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceNumbers {
    visible: Option<Vec<u16>>,
}

impl DeviceNumbers {
    /// Takes the list in; the first one seen counts. The error says why it is not used.
    pub(crate) fn see(&mut self, list: &str) -> Result<(), Problem> {
        if self.visible.is_some() {
            return Ok(());
        }
        let number = |token: &str| token.trim().parse().ok().filter(|number| u32::from(*number) < DEVICES);
        let numbers: Option<Vec<u16>> = match list.trim() {
            "" => Some(Vec::new()),
            list => list.split(',').map(number).collect(),
        };
        let bad = numbers.is_none();
        self.visible = Some(numbers.unwrap_or_default());
        if bad {
            return Err(Problem::VisibleDevices { value: list.to_owned() });
        }
        Ok(())
    }

    /// The device of a block of `space`.
    pub(crate) fn device(&self, space: Space, device: SpaceDevice) -> Device {
        match device.of(space) {
            DeviceNumber::Physical(device) => self.of_machine(device),
            DeviceNumber::Logical(device) => self.seen_by_program(device),
        }
    }

    /// The device a program calls by this number.
    pub(crate) fn seen_by_program(&self, device: LogicalDevice) -> Device {
        let mapped = self.visible.as_ref().and_then(|visible| visible.get(device.0 as usize));
        mapped.map_or_else(|| self.of_machine(PhysicalDevice(device.0)), |number| Device::Npu(*number))
    }

    /// The device the machine calls by this number.
    pub(crate) fn of_machine(&self, device: PhysicalDevice) -> Device {
        match device.0 {
            HOST_DEVICE => Device::Cpu,
            UNKNOWN_DEVICE => Device::Unknown,
            number if number < DEVICES => Device::Npu(number as u16),
            // No such device exists; what happened on it is still worth telling.
            _ => Device::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_a_pool_is_a_place_in_the_list_and_the_drivers_number_is_not() {
        let mut numbers = DeviceNumbers::default();
        assert_eq!(numbers.device(Space::PtaCaching, SpaceDevice(1)), Device::Npu(1));
        numbers.see(" 2, 5 ").unwrap();
        assert_eq!(numbers.device(Space::PtaCaching, SpaceDevice(1)), Device::Npu(5));
        assert_eq!(numbers.device(Space::MindSpore, SpaceDevice(0)), Device::Npu(2));
        assert_eq!(numbers.device(Space::Driver, SpaceDevice(1)), Device::Npu(1));
        assert_eq!(numbers.of_machine(PhysicalDevice(1)), Device::Npu(1));
        assert_eq!(numbers.seen_by_program(LogicalDevice(7)), Device::Npu(7));
        assert_eq!(numbers.device(Space::Driver, SpaceDevice(HOST_DEVICE)), Device::Cpu);
        assert_eq!(numbers.device(Space::Atb, SpaceDevice(u32::MAX)), Device::Unknown);
    }

    #[test]
    fn one_bad_token_discards_the_whole_list() {
        for list in ["2,x", "2,,3", "-1", "2;3", "1024", "99999999999"] {
            let mut numbers = DeviceNumbers::default();
            let problem = numbers.see(list).unwrap_err();
            assert_eq!(problem, Problem::VisibleDevices { value: list.to_owned() });
            assert_eq!(numbers.device(Space::PtaCaching, SpaceDevice(0)), Device::Npu(0));
        }
        DeviceNumbers::default().see("").unwrap();
    }
}
