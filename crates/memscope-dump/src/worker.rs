//! Pieces of output are written in a thread of their own while the next ones are made.
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Pieces that wait while one is being written. Each is memory.
const WAITING: usize = 2;

/// Writes pieces to where they belong.
pub(crate) trait Consumer: Send + 'static {
    type Piece: Default + Send + 'static;
    type Error: Send + 'static;

    /// Leaves the piece empty, to be filled again.
    fn consume(&mut self, piece: &mut Self::Piece) -> Result<(), Self::Error>;
}

/// A consumer in a thread of its own, from the first full piece on: what is small needs none. Dropped, it writes what was
/// submitted and ends.
pub(crate) struct Worker<C: Consumer> {
    state: WorkerState<C>,
}

enum WorkerState<C: Consumer> {
    /// Pieces are consumed by whoever submits them.
    Inline(C),
    Threaded {
        full: SyncSender<C::Piece>,
        emptied: Receiver<C::Piece>,
        thread: JoinHandle<Result<Option<C>, C::Error>>,
    },
    /// Its error was returned.
    Failed,
}

impl<C: Consumer> Worker<C> {
    pub(crate) fn new(consumer: C) -> Worker<C> {
        Worker { state: WorkerState::Inline(consumer) }
    }

    /// Takes a full piece and gives an empty one. An error may be that of an earlier piece.
    pub(crate) fn submit(&mut self, mut piece: C::Piece) -> Result<C::Piece, C::Error> {
        self.start_thread();
        match &mut self.state {
            WorkerState::Threaded { full, emptied, .. } => match full.send(piece) {
                Ok(()) => Ok(emptied.try_recv().unwrap_or_default()),
                Err(_) => self.end().map(|_| C::Piece::default()),
            },
            WorkerState::Inline(consumer) => consumer.consume(&mut piece).map(|()| piece),
            WorkerState::Failed => Ok(C::Piece::default()),
        }
    }

    /// Takes the last piece, waits until all are written and gives the consumer; `None` if an error was returned before.
    pub(crate) fn finish(mut self, mut last: C::Piece) -> Result<Option<C>, C::Error> {
        match &mut self.state {
            WorkerState::Inline(consumer) => consumer.consume(&mut last)?,
            _ => drop(self.submit(last)?),
        }
        self.end()
    }

    /// The consumer while it has no thread.
    #[cfg(test)]
    pub(crate) fn consumer(&self) -> Option<&C> {
        if let WorkerState::Inline(consumer) = &self.state { Some(consumer) } else { None }
    }

    /// Where no thread is to be had the consumer stays.
    fn start_thread(&mut self) {
        if !matches!(self.state, WorkerState::Inline(_)) {
            return;
        }
        let (full, waiting) = sync_channel(WAITING);
        let (empty, emptied) = channel();
        // The consumer is sent once its thread has started: if none can be started, it is still ours.
        let (consumer_sender, consumer_receiver) = sync_channel(1);
        let work = move || {
            let Ok(mut consumer) = consumer_receiver.recv() else { return Ok(None) };
            consume_all(&mut consumer, &waiting, &empty)?;
            Ok(Some(consumer))
        };
        let Ok(thread) = thread::Builder::new().name(String::from("export")).spawn(work) else { return };
        if let WorkerState::Inline(consumer) =
            mem::replace(&mut self.state, WorkerState::Threaded { full, emptied, thread })
        {
            let _ = consumer_sender.send(consumer);
        }
    }

    fn end(&mut self) -> Result<Option<C>, C::Error> {
        match mem::replace(&mut self.state, WorkerState::Failed) {
            WorkerState::Inline(consumer) => Ok(Some(consumer)),
            WorkerState::Threaded { full, thread, .. } => {
                drop(full);
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            }
            WorkerState::Failed => Ok(None),
        }
    }
}

/// Until the other side has no more.
fn consume_all<C: Consumer>(
    consumer: &mut C,
    waiting: &Receiver<C::Piece>,
    empty: &Sender<C::Piece>,
) -> Result<(), C::Error> {
    for mut piece in waiting {
        consumer.consume(&mut piece)?;
        let _ = empty.send(piece);
    }
    Ok(())
}

impl<C: Consumer> Drop for Worker<C> {
    fn drop(&mut self) {
        if let WorkerState::Threaded { full, thread, .. } = mem::replace(&mut self.state, WorkerState::Failed) {
            drop(full);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Adds numbers up, and fails at one of them.
    struct Sum {
        total: u32,
        fails_at: u32,
        seen: Arc<AtomicU32>,
    }

    impl Consumer for Sum {
        type Piece = Vec<u32>;
        type Error = u32;

        fn consume(&mut self, piece: &mut Vec<u32>) -> Result<(), u32> {
            for number in piece.drain(..) {
                self.seen.fetch_add(1, Ordering::Relaxed);
                if number == self.fails_at {
                    return Err(number);
                }
                self.total += number;
            }
            Ok(())
        }
    }

    fn sum(fails_at: u32) -> (Worker<Sum>, Arc<AtomicU32>) {
        let seen = Arc::new(AtomicU32::new(0));
        (Worker::new(Sum { total: 0, fails_at, seen: seen.clone() }), seen)
    }

    #[test]
    fn all_pieces_are_consumed_in_the_end() {
        for pieces in [0, 1, 2, 50] {
            let (mut worker, _) = sum(u32::MAX);
            for number in 0..pieces {
                assert!(worker.submit(vec![number, number]).unwrap().is_empty());
            }
            assert_eq!(worker.consumer().is_some(), pieces == 0, "a single piece needs no thread");
            assert_eq!(worker.finish(vec![1]).unwrap().unwrap().total, pieces * (pieces.max(1) - 1) + 1);
        }
    }

    #[test]
    fn an_error_is_returned_once() {
        let (mut worker, _) = sum(3);
        let mut error = (0..).find_map(|number| worker.submit(vec![number]).err());
        assert_eq!(error.take(), Some(3));
        assert!(worker.submit(vec![4]).is_ok());
        assert!(worker.finish(vec![5]).unwrap().is_none());

        let (worker, _) = sum(3);
        assert_eq!(worker.finish(vec![3]).map(|_| ()), Err(3));
        let (mut worker, _) = sum(3);
        worker.submit(vec![1]).unwrap();
        assert_eq!(worker.finish(vec![3]).map(|_| ()), Err(3));
    }

    #[test]
    fn dropped_it_has_ended() {
        let (mut worker, seen) = sum(u32::MAX);
        worker.submit(vec![1, 2]).unwrap();
        worker.submit(vec![3]).unwrap();
        drop(worker);
        assert_eq!((seen.load(Ordering::Relaxed), Arc::strong_count(&seen)), (3, 1));
    }
}
