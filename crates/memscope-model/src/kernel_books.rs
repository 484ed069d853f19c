//! Which launch a task is, and which task an execution.
use crate::NameId;
use crate::task_log::TimedLine;
use memscope_format::record::PhysicalDevice;
use rustc_hash::{FxHashMap, FxHashSet};

/// A task as the runtime numbered it. Numbers come round: the newest task of a number is the one that runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TaskId {
    pub(crate) device: PhysicalDevice,
    pub(crate) stream: u32,
    pub(crate) task: u32,
}

impl TaskId {
    /// From the numbers of a report: the task is the low half of its word.
    pub(crate) fn reported(device: PhysicalDevice, stream: u32, word: u32) -> TaskId {
        TaskId { device, stream, task: word & 0xffff }
    }

    /// `None` if the log does not have it.
    pub(crate) fn stream(self) -> Option<u32> {
        (self.stream != ANY_STREAM).then_some(self.stream)
    }

    /// From a line of the log, where stream and task may have changed places and lent each other bits.
    fn of(line: &TimedLine, expanded: bool) -> TaskId {
        let (s, t) = (u32::from(line.stream), line.task & 0xffff);
        let (stream, task) = if !line.streams {
            (ANY_STREAM, t)
        } else if expanded {
            match line.unit {
                3 | 4 => (s & 0x7fff, t),
                _ if s & 0x8000 != 0 => (t & 0x7fff, t & 0x8000 | s & 0x7fff),
                _ => (s & 0x7fff, t),
            }
        } else if s & 1 << 12 != 0 {
            (s % 2048, t & 0x1fff | s & 0xe000)
        } else if s & 1 << 13 != 0 {
            ((t & 0x0fff) % 2048, s & 0x0fff | t & 0xf000)
        } else {
            (s % 2048, t)
        };
        TaskId { device: line.device, stream, task }
    }
}

/// Of a log that has no streams.
const ANY_STREAM: u32 = u32::MAX;

/// What is known of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    /// The hash of the kernel's name; 0 for what is no kernel.
    pub(crate) name: u64,
    pub(crate) thread: u32,
    /// Whether its launch was within what the user chose to see.
    pub(crate) chosen: bool,
    began: bool,
}

/// What a line of the log comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExecutionMatch {
    /// Of a task that was launched.
    Of(Task),
    /// Of a task without a recorded launch; `ended`: its end has come as well.
    Stray { id: TaskId, ended: bool },
    /// There is nothing to emit: everything about it was emitted before, or will be with its launch.
    Settled,
    /// Its launch may be dated a little later: it is to be matched again then.
    RetryLater,
}

/// A beginning without a launch.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Of the line.
    number: u64,
    ended: bool,
}

/// How the numbers of kernels stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounts {
    pub launches: u64,
    /// Launches the runtime reported no task for.
    pub launches_without_task: u64,
    /// Launches whose name is not known although they have a task.
    pub launches_without_name: u64,
    /// Executions that ended.
    pub executions: u64,
    /// Executions whose launch was not seen.
    pub stray_executions: u64,
}

/// Tasks in flight and the names of kernels.
#[derive(Debug, Default)]
pub(crate) struct KernelBooks {
    /// More than one only where the log has no streams.
    tasks: FxHashMap<TaskId, Vec<Task>>,
    waiting: FxHashMap<TaskId, Waiting>,
    /// By hash.
    names: FxHashMap<u64, NameId>,
    /// Names that were looked for further on.
    searched: FxHashSet<u64>,
    /// Devices whose log has no streams.
    without_streams: FxHashSet<PhysicalDevice>,
    expanded: bool,
    pub(crate) counts: KernelCounts,
}

impl KernelBooks {
    pub(crate) fn set_expanded(&mut self, status: u8) {
        self.expanded = status == 1;
    }

    pub(crate) fn define_name(&mut self, hash: u64, name: NameId) {
        self.names.insert(hash, name);
    }

    pub(crate) fn name(&self, hash: u64) -> Option<NameId> {
        self.names.get(&hash).copied()
    }

    /// Whether the name is not known and was not searched for; from now on it was.
    pub(crate) fn begin_search(&mut self, hash: u64) -> bool {
        !self.names.contains_key(&hash) && self.searched.insert(hash)
    }

    /// The log of this device has no streams.
    pub(crate) fn see_without_streams(&mut self, device: PhysicalDevice) {
        self.without_streams.insert(device);
    }

    /// A task is launched. Tells what of it the log has already shown: whether it began, and whether it ended.
    pub(crate) fn launch(&mut self, id: TaskId, name: u64, thread: u32, chosen: bool) -> Option<(Task, bool)> {
        let mut task = Task { id, name, thread, chosen, began: false };
        let key = self.key(id);
        if let Some(waiting) = self.waiting.remove(&key) {
            task.began = true;
            if !waiting.ended {
                self.put(key, task);
            }
            return Some((task, waiting.ended));
        }
        self.put(key, task);
        None
    }

    fn put(&mut self, key: TaskId, task: Task) {
        /// Of one number on different streams, as many as can be.
        const MOST: usize = 4096;
        let tasks = self.tasks.entry(key).or_default();
        if key.stream != ANY_STREAM || tasks.len() >= MOST {
            tasks.clear();
        }
        tasks.push(task);
    }

    fn key(&self, id: TaskId) -> TaskId {
        if self.without_streams.contains(&id.device) { TaskId { stream: ANY_STREAM, ..id } } else { id }
    }

    /// Takes in a line of the log. `patient`: a launch may still come, dated a little later.
    pub(crate) fn execute(&mut self, line: &TimedLine, patient: bool) -> ExecutionMatch {
        let id = TaskId::of(line, self.expanded);
        if line.waited {
            return self.give_up(id, line);
        }
        let Some(tasks) = self.tasks.get_mut(&id) else { return self.stray(id, line, patient) };
        if !line.end {
            return match tasks.iter_mut().find(|task| !task.began) {
                Some(task) => {
                    task.began = true;
                    ExecutionMatch::Of(*task)
                }
                None => self.stray(id, line, patient),
            };
        }
        let ended = tasks.iter().position(|task| task.began).unwrap_or(0);
        let task = tasks.remove(ended);
        if tasks.is_empty() {
            self.tasks.remove(&id);
        }
        ExecutionMatch::Of(task)
    }

    fn stray(&mut self, id: TaskId, line: &TimedLine, patient: bool) -> ExecutionMatch {
        if let Some(waiting) = self.waiting.get_mut(&id)
            && line.end
        {
            waiting.ended = true;
            return ExecutionMatch::Settled;
        }
        if patient && !line.end {
            self.waiting.insert(id, Waiting { number: line.number, ended: false });
            return ExecutionMatch::RetryLater;
        }
        ExecutionMatch::Stray { id, ended: false }
    }

    /// The launch did not come.
    fn give_up(&mut self, id: TaskId, line: &TimedLine) -> ExecutionMatch {
        match self.waiting.get(&id) {
            Some(Waiting { number, ended }) if *number == line.number => {
                let ended = *ended;
                self.waiting.remove(&id);
                ExecutionMatch::Stray { id, ended }
            }
            _ => ExecutionMatch::Settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_log::testing::line;

    #[test]
    fn ids_are_repaired_as_the_runtime_packs_them() {
        let id = |stream: u16, task: u32, unit: u8, expanded: bool| {
            let TaskId { stream, task, .. } = TaskId::of(&line(stream, task, unit), expanded);
            (stream, task)
        };
        // Not expanded: plain, bit 12, bit 13.
        assert_eq!(id(2047, 65535, 0, false), (2047, 65535));
        assert_eq!(id(0x8000 | 1 << 12 | 5, 0x1234, 0, false), (5, 0x1234 & 0x1fff | 0x8000));
        assert_eq!(id(1 << 13 | 0x0abc, 0xf123, 0, false), (0x123, 0x0abc | 0xf000));
        // Expanded.
        assert_eq!(id(0x7abc, 9, 0, true), (0x7abc, 9));
        assert_eq!(id(0x8000 | 0x123, 0x8456, 0, true), (0x0456, 0x8000 | 0x123));
        assert_eq!(id(0x8000 | 0x123, 0x8456, 3, true), (0x123, 0x8456));
        assert_eq!(
            TaskId::reported(PhysicalDevice(1), 2, 0xab_0009),
            TaskId { device: PhysicalDevice(1), stream: 2, task: 9 }
        );
    }

    fn book(books: &mut KernelBooks, stream: u32, task: u32, name: u64) -> Option<(Task, bool)> {
        books.launch(TaskId::reported(PhysicalDevice(0), stream, task), name, 1, true)
    }

    fn name_of(execution: ExecutionMatch) -> u64 {
        match execution {
            ExecutionMatch::Of(task) => task.name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_that_come_round_mean_the_newest_task() {
        let mut books = KernelBooks::default();
        for round in 1..=3 {
            assert_eq!(book(&mut books, 7, 65535, round), None);
            assert_eq!(name_of(books.execute(&line(7, 65535, 0), true)), round);
            assert_eq!(name_of(books.execute(&TimedLine { end: true, ..line(7, 65535, 0) }, true)), round);
        }
        // One that was never seen to run is replaced.
        book(&mut books, 7, 1, 4);
        book(&mut books, 7, 1, 5);
        assert_eq!(name_of(books.execute(&line(7, 1, 0), true)), 5);
        assert_eq!(books.tasks.len(), 1);
    }

    #[test]
    fn a_beginning_dated_before_its_launch_waits_for_it() {
        let mut books = KernelBooks::default();
        assert_eq!(books.execute(&line(7, 1, 0), true), ExecutionMatch::RetryLater);
        assert_eq!(books.execute(&TimedLine { end: true, ..line(7, 1, 0) }, true), ExecutionMatch::Settled);
        let (task, ended) = book(&mut books, 7, 1, 9).unwrap();
        assert_eq!((task.name, ended), (9, true));
        assert_eq!(books.execute(&TimedLine { waited: true, ..line(7, 1, 0) }, true), ExecutionMatch::Settled);
        assert!(books.tasks.is_empty() && books.waiting.is_empty());
    }

    #[test]
    fn a_beginning_whose_launch_does_not_come_is_a_stray() {
        let mut books = KernelBooks::default();
        assert_eq!(books.execute(&line(7, 1, 0), true), ExecutionMatch::RetryLater);
        let id = TaskId { device: PhysicalDevice(0), stream: 7, task: 1 };
        let stray = |id, ended| ExecutionMatch::Stray { id, ended };
        assert_eq!(books.execute(&TimedLine { waited: true, ..line(7, 1, 0) }, true), stray(id, false));
        assert_eq!(books.execute(&TimedLine { end: true, ..line(7, 1, 0) }, true), stray(id, false));
        assert_eq!(books.execute(&line(8, 1, 0), false), stray(TaskId { stream: 8, ..id }, false));
        assert_eq!(books.execute(&line(7, 1, 0), true), ExecutionMatch::RetryLater);
        assert_eq!(books.execute(&TimedLine { end: true, ..line(7, 1, 0) }, true), ExecutionMatch::Settled);
        assert_eq!(books.execute(&TimedLine { waited: true, ..line(7, 1, 0) }, true), stray(id, true));
        assert!(books.waiting.is_empty());
    }

    #[test]
    fn a_log_without_streams_takes_tasks_of_one_number_in_turn() {
        let mut books = KernelBooks::default();
        books.see_without_streams(PhysicalDevice(0));
        book(&mut books, 1, 5, 10);
        book(&mut books, 2, 5, 20);
        let begin = TimedLine { streams: false, ..line(0, 5, 0) };
        let end = TimedLine { end: true, ..begin };
        assert_eq!(name_of(books.execute(&begin, true)), 10);
        assert_eq!(name_of(books.execute(&begin, true)), 20);
        let ExecutionMatch::Of(first) = books.execute(&end, true) else { panic!("no task") };
        assert_eq!((first.name, first.id.stream), (10, 1));
        assert_eq!(name_of(books.execute(&end, true)), 20);
        assert!(books.tasks.is_empty());
    }
}
