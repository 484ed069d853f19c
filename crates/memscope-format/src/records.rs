//! The table of extended records: whatever is rarer than an allocation. A row is all there is to a record's type.
//!
//! ```text
//! CODE NAME Variant { field: Type as Encoding, … } with Tail(field: Type, …);
//! ```
//! From it are made: the encoder's `Extended` with its room and its bytes (`encode/extended.rs`), the decoder and what it hands
//! out, `Definition` and `EventKind` (`decode/records.rs`), the text form (`decode/text.rs`), a round trip of every type
//! (`decode/round_trips.rs`), and what `docs/format.md` must say. Fields stand in the order of their bytes. A *tail* is what an
//! event's kind does not hold: its stack, and what the reader hands out as a definition just before the event.
//!
//! A code is never used again for something else. In each group codes are in order of number.

/// Calls the macro `$make` with all rows.
macro_rules! records {
    ($make:ident) => {
        $make! {
            // What a reader of the lane needs itself.
            lane {
                /// From here on the lane belongs to this thread.
                1 THREAD Thread { thread: u32 as Varint };
                /// Lines of a device's task log, at most [`MOST_EXECUTIONS`](crate::record::MOST_EXECUTIONS); `streams` says
                /// whether the device tells the stream.
                45 EXECUTIONS Executions { device: PhysicalDevice as Varint } with Lines(streams: bool, lines: &'a [TaskLogLine]);
            }
            // What later records of the same lane refer to.
            definitions {
                2 MODULE Module {
                    id: u32 as Varint,
                    start: u64 as Word,
                    end: u64 as Word,
                    bias: u64 as Word,
                    build_id: &'a [u8] as BuildId,
                    path: &'a [u8] as Name,
                };
                3 CODE Code {
                    id: u32 as Varint,
                    python_version: u16 as Varint,
                    first_line: u32 as Varint,
                    file: &'a [u8] as Name,
                    function: &'a [u8] as Name,
                    line_table: &'a [u8] as LineTable,
                };
                /// No later record of the lane refers to a node that was defined before; numbers go on.
                10 FORGET Forget {};
                /// `ASCEND_RT_VISIBLE_DEVICES` as it stood at the first event of a device.
                24 VISIBLE_DEVICES VisibleDevices { text: &'a [u8] as Name };
                /// What a kernel's hash stands for, in all lanes.
                42 KERNEL_NAME KernelName { hash: u64 as Word, text: &'a [u8] as Name };
                /// What an operator of Aten is called that goes by this number in this lane.
                70 ATEN_NAME AtenName { id: u32 as Varint, text: &'a [u8] as Name };
                /// Operators of ATB and Aten that begin in this lane from here on give their kernels to this stream, by the handle
                /// the program has of it (`aclrtStream`); 0 if nobody knows.
                74 STREAM Stream { handle: u64 as Word };
                /// What the program calls a label or a function that goes by this number in this lane.
                81 LABEL_NAME LabelName { id: u32 as Varint, text: &'a [u8] as Name };
                /// What a function written in C, or a class of modules, is called that goes by this number in this lane; `owner` is
                /// the type whose method the function is, empty if it is none.
                95 CALL_NAME CallName { id: u32 as Varint, text: &'a [u8] as Name, owner: &'a [u8] as Name };
            }
            // What happened in the process.
            events {
                6 HOST_UNMAP HostUnmap { address: HostAddr as Word, size: u64 as Varint } with Stack(stack: StackRef);
                /// A mapping was moved or resized: whatever was mapped at `old` is at `new`; whether it was anonymous memory, only its
                /// history tells.
                7 HOST_REMAP HostRemap {
                    old: HostAddr as Word,
                    old_size: u64 as Varint,
                    new: HostAddr as Word,
                    new_size: u64 as Varint,
                } with Stack(stack: StackRef);
                /// Anonymous memory was mapped.
                8 HOST_MAP HostMap {
                    address: HostAddr as Word,
                    size: u64 as Varint,
                    protection: Protection as Byte,
                } with Stack(stack: StackRef);
                /// `mprotect`: another protection for whatever is mapped there; whether that is anonymous memory, only its history
                /// tells.
                9 HOST_PROTECT HostProtect {
                    address: HostAddr as Word,
                    size: u64 as Varint,
                    protection: Protection as Byte,
                } with Stack(stack: StackRef);
                /// The C library or the kernel refused host memory; `flag` is a mapping's protection as in [`Protection`], else 0.
                11 HOST_REFUSED HostRefused {
                    call: HostCall as Byte,
                    size: u64 as Varint,
                    flag: u64 as Varint,
                } with Stack(stack: StackRef);
                /// `attributes`: for driver memory the low 8 bits are the module, the next 2 the page type (normal, huge, giant).
                16 DEVICE_ALLOC DeviceAlloc {
                    space: Space as Byte,
                    device: SpaceDevice as Varint,
                    address: SpaceAddr as DeviceAddress,
                    size: u64 as Varint,
                    attributes: u32 as Varint,
                } with Stack(stack: StackRef);
                17 DEVICE_FREE DeviceFree {
                    space: Space as Byte,
                    address: SpaceAddr as DeviceAddress,
                } with Stack(stack: StackRef);
                /// What a pool has reserved from now on.
                18 POOL_TOTAL PoolTotal { space: Space as Byte, device: SpaceDevice as Varint, total: u64 as Varint };
                /// The driver, or torch for a storage of the host, refused an allocation for want of memory.
                19 OUT_OF_MEMORY OutOfMemory {
                    space: Space as Byte,
                    device: SpaceDevice as Varint,
                    size: u64 as Varint,
                    flag: u64 as Varint,
                } with Stack(stack: StackRef);
                32 SYSTEM System { kind: SystemKind as Byte, value: u64 as Varint };
                33 MARK Mark {} with Label(text: &'a [u8]);
                34 RANGE_START RangeStart { id: u64 as Varint } with Label(text: &'a [u8]);
                35 RANGE_END RangeEnd { id: u64 as Varint };
                /// A kernel is about to be launched by the lane's thread.
                40 LAUNCH KernelLaunch;
                /// The runtime gave a task its number. `task` is the word it reports, `name` the hash of the kernel's, 0 for none.
                41 TASK Task { device: PhysicalDevice as Varint, stream: u32 as Varint, task: u32 as Varint, name: u64 as Word };
                /// Which way stream and task numbers are packed in the task log.
                43 STREAM_EXPANSION StreamExpansion { status: u8 as Byte };
                /// The device's counter at the record's time, give or take half of `width` ticks; the frequency is 0 if the device
                /// does not say.
                44 DEVICE_CLOCK DeviceClock {
                    device: PhysicalDevice as Varint,
                    frequency_khz: u64 as Varint,
                    counter: u64 as Word,
                    width: u64 as Varint,
                };
                /// `launch`, which the end repeats, is the process's own count of operators. A name that is empty is
                /// not known.
                64 ATB_OPERATOR_START AtbOperatorStart {
                    launch: u64 as Varint,
                    device: LogicalDevice as Varint,
                    workspace: DevAddr as DeviceAddress,
                    workspace_size: u64 as Varint,
                } with Operator(stack: StackRef, path: Path<'a>, name: &'a [u8]);
                65 ATB_OPERATOR_END AtbOperatorEnd { launch: u64 as Varint };
                66 ATB_KERNEL AtbKernel { phase: Phase as Byte, device: LogicalDevice as Varint } with Kernel(path: Path<'a>);
                /// Of a tensor of the operator or kernel that began last in this lane. Dimensions beyond the eighth are left out.
                67 ACCESS Access {
                    mode: AccessMode as Byte,
                    owner: TensorOwner as Byte,
                    device: LogicalDevice as Varint,
                    address: DevAddr as DeviceAddress,
                    size: u64 as Varint,
                } with Tensor(dtype: i32, format: i32, dimensions: &'a [i64]);
                /// A pool took a range of memory to hand out.
                68 HEAP Heap {
                    space: Space as Byte,
                    device: SpaceDevice as Varint,
                    address: DevAddr as DeviceAddress,
                    size: u64 as Varint,
                };
                /// A pool gave up the heap that begins there.
                69 HEAP_END HeapEnd { space: Space as Byte, address: DevAddr as DeviceAddress };
                /// `sequence`, which the end repeats, is of no other operator of the process: one may end in another
                /// thread than it began in. `name` is that of an `ATEN_NAME`.
                71 ATEN_OPERATOR_START AtenOperatorStart {
                    sequence: u64 as Varint,
                    device: LogicalDevice as Varint,
                    name: u32 as Varint,
                } with Stack(stack: StackRef);
                72 ATEN_OPERATOR_END AtenOperatorEnd { sequence: u64 as Varint };
                /// A tensor is given to an operator of Aten, or comes out of it: others may have begun and ended in between, so
                /// it says the operator's name itself. The tensor's first element is at `address`, its storage, of which it may be a
                /// view, begins at `storage`, 0 if nobody knows. The type is in the codes of torch. Dimensions beyond the eighth
                /// are left out.
                73 ATEN_ACCESS AtenAccess {
                    mode: AccessMode as Byte,
                    name: u32 as Varint,
                    device: LogicalDevice as Varint,
                    address: DevAddr as DeviceAddress,
                    size: u64 as Varint,
                    storage: DevAddr as DeviceAddress,
                } with Tensor(dtype: i32, format: i32, dimensions: &'a [i64]);
                /// The program asks what the memory of a device is at this moment.
                80 SNAPSHOT Snapshot { device: LogicalDevice as Varint } with Label(name: &'a [u8]);
                /// What the lane's thread allocates from here on has this label, that of a `LABEL_NAME`; until its `LABEL_END`.
                82 LABEL_START LabelStart { level: LabelLevel as Byte, label: u32 as Varint };
                83 LABEL_END LabelEnd { level: LabelLevel as Byte, label: u32 as Varint };
                /// The block around this address, of whichever device or of the host, has this label.
                84 LABEL_BLOCK LabelBlock { level: LabelLevel as Byte, label: u32 as Varint, address: DevAddr as DeviceAddress };
                /// A piece of code that the program wants to see in the trace of functions, by the number of a `LABEL_NAME`.
                85 FUNCTION_START FunctionStart { name: u32 as Varint };
                86 FUNCTION_END FunctionEnd { name: u32 as Varint };
                /// As `SNAPSHOT`, with what the framework of the program says its memory is.
                87 TOLD_SNAPSHOT ToldSnapshot {
                    device: LogicalDevice as Varint,
                    reserved: u64 as Varint,
                    max_reserved: u64 as Varint,
                    allocated: u64 as Varint,
                    max_allocated: u64 as Varint,
                    free: u64 as Varint,
                    total: u64 as Varint,
                } with Label(name: &'a [u8]);
                /// Python calls of the lane's thread are traced from here on; of calls that began before, no end follows but of
                /// those that [`Extended::CallFound`] names next.
                90 CALLS_BEGIN CallsBegin {};
                /// A call that the thread is in when its trace begins, the outermost first.
                91 CALL_FOUND CallFound { code: u32 as Varint };
                /// A Python function begins, or a generator goes on. `code` is that of a `CODE`.
                92 CALL Call { code: u32 as Varint };
                /// The same for a module of torch, whose class is a `CALL_NAME`.
                93 MODULE_CALL ModuleCall { code: u32 as Varint, class: u32 as Varint };
                /// A function written in C is called; its name is a `CALL_NAME`.
                94 NATIVE_CALL NativeCall { function: u32 as Varint };
                /// The innermost call ends: it returns, yields, or an exception leaves it.
                96 CALL_END CallEnd {};
                /// From here on a block is watched, under a number of its own; `name` is the start operator's or the one the program
                /// gave. `flags` are those of [`watch_flags`](crate::watch::watch_flags). `output` is which one it is of its operator's outputs.
                /// `checksum` is that of its bytes now, `content` their number in `watch.spool`, 0 if they are not kept.
                100 WATCH_BEGIN WatchBegin {
                    watch: u32 as Varint,
                    origin: WatchOrigin as Byte,
                    flags: u8 as Byte,
                    device: LogicalDevice as Varint,
                    address: DevAddr as DeviceAddress,
                    size: u64 as Varint,
                    output: u32 as Varint,
                    checksum: u64 as Word,
                    content: u64 as Varint,
                } with Called(stack: StackRef, name: &'a [u8]);
                /// While something is watched: an operator or kernel is about to begin, or has ended. `operator` is its number, the same at
                /// both, `kernel` the hash of a kernel's name, 0 if the name is here.
                101 WATCH_MOMENT WatchMoment {
                    source: WatchSource as Byte,
                    phase: Phase as Byte,
                    operator: u64 as Varint,
                    kernel: u64 as Varint,
                } with Called(stack: StackRef, name: &'a [u8]);
                /// What a watched block held at the moment that was recorded last in this lane. `given` is what the operator may do with it.
                102 WATCH_LOOK WatchLook {
                    watch: u32 as Varint,
                    given: GivenFor as Byte,
                    checksum: u64 as Word,
                    content: u64 as Varint,
                };
                /// The block is no longer watched.
                103 WATCH_END WatchEnd { watch: u32 as Varint, reason: WatchEnding as Byte };
                /// Something that was asked for is not done; what `value` is depends on it.
                104 WATCH_PROBLEM WatchProblem { problem: WatchTrouble as Byte, value: u64 as Varint };
            }
            // Events that are no longer written, and what they lack.
            superseded {
                /// Before protections were recorded, all mapped memory counted.
                5 OLD_HOST_MAP HostMap { address: HostAddr as Word, size: u64 as Varint } with Stack(stack: StackRef),
                    without { protection: Protection::READ_WRITE };
            }
        }
    };
}
pub(crate) use records;
