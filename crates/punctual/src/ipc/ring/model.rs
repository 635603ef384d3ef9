//! The algorithm under the model checker loom: every interleaving and every reordering that the memory model allows. A lost wake-up
//! shows as a deadlock.
//!
//! The gate allows three or four preemptions, which takes seconds. The ignored tests allow any number:
//! `RUSTFLAGS="--cfg loom" cargo test -p punctual --release --lib ring::model -- --ignored`.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Condvar, Mutex};

use super::SendError;
use super::ends::Reader;
use super::layout::{AT_HEAD, AT_RECEIVER_SLEEPS, AT_SENDER_SLEEPS, AT_TAIL, DATA, Memory};
use super::writer::Writer;

/// Memory whose accesses the checker orders. Sleeps have no time limit: a lost wake-up is a deadlock.
struct Modelled {
    words: BTreeMap<usize, AtomicU64>,
    flags: BTreeMap<usize, AtomicU32>,
    /// The kernel's side of the futexes: under this lock, comparing the flag and sleeping are one step.
    bucket: (Mutex<()>, Condvar),
}

impl Modelled {
    fn new(capacity: usize) -> Arc<Self> {
        let words = [AT_HEAD, AT_TAIL].into_iter().chain((DATA..DATA + capacity).step_by(8));
        Arc::new(Self {
            words: words.map(|at| (at, AtomicU64::new(0))).collect(),
            flags: [AT_RECEIVER_SLEEPS, AT_SENDER_SLEEPS].map(|at| (at, AtomicU32::new(0))).into(),
            bucket: (Mutex::new(()), Condvar::new()),
        })
    }
}

impl Memory for Arc<Modelled> {
    fn load(&self, at: usize) -> u64 {
        self.words[&at].load(Ordering::Acquire)
    }

    fn publish(&self, at: usize, value: u64) {
        self.words[&at].store(value, Ordering::Release);
        // The checker treats sequentially consistent accesses as acquire and release; it models the fence.
        fence(Ordering::SeqCst);
    }

    fn store(&self, at: usize, value: u64) {
        self.words[&at].store(value, Ordering::Relaxed);
    }

    fn flag(&self, at: usize) -> u32 {
        self.flags[&at].load(Ordering::Relaxed)
    }

    fn set_flag(&self, at: usize, value: u32) {
        self.flags[&at].store(value, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        for (i, chunk) in from.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.store(at + i * 8, u64::from_ne_bytes(word));
        }
    }

    fn copy_out(&self, at: usize, into: &mut [u8]) {
        for (i, chunk) in into.chunks_mut(8).enumerate() {
            let word = self.words[&(at + i * 8)].load(Ordering::Relaxed).to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn sleep(&self, at: usize, _until_ns: i64) -> Result<(), i32> {
        let guard = self.bucket.0.lock().unwrap();
        if self.flag(at) == 1 {
            drop(self.bucket.1.wait(guard).unwrap());
        }
        Ok(())
    }

    fn wake(&self, _at: usize) {
        let _guard = self.bucket.0.lock().unwrap();
        self.bucket.1.notify_all();
    }
}

fn check(preemptions: impl Into<Option<usize>>, work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions.into();
    model.max_branches = 100_000;
    model.check(work);
}

/// Sends `messages` through a ring of `capacity` bytes, both sides sleeping whenever they cannot go on.
fn deliver(capacity: u64, messages: &'static [&'static [u8]]) {
    let memory = Modelled::new(capacity as usize);
    let mut writer = Writer::attach(Arc::clone(&memory), capacity).unwrap();
    let mut reader = Reader::attach(memory, capacity).unwrap();
    let sender = loom::thread::spawn(move || {
        for message in messages {
            while let Err(error) = writer.try_send(message) {
                assert_eq!(error, SendError::Full);
                writer.sleep(message.len(), 0).unwrap();
            }
        }
    });
    let mut buffer = [0; 64];
    for message in messages {
        let len = loop {
            match reader.try_receive(&mut buffer).unwrap() {
                Some(len) => break len,
                None => reader.sleep(0).unwrap(),
            }
        };
        assert_eq!(&buffer[..len], *message);
    }
    sender.join().unwrap();
}

#[test]
fn one_message_at_a_time_through_a_ring_that_holds_one() {
    // 32 bytes hold one frame of 16 and the cleared word. The sender must wait for each, and the second wraps around.
    check(3, || deliver(32, &[b"first", b"second", b"3"]));
}

#[test]
fn messages_that_wrap_around_and_differ_in_length() {
    check(3, || deliver(64, &[b"twelve bytes", b"", b"another twelve by", b"x"]));
}

#[test]
fn a_sleeping_receiver_is_woken() {
    check(4, || deliver(64, &[b"wake up"]));
}

#[test]
#[ignore = "takes long; run by the gate with --release"]
fn every_interleaving_of_one_message() {
    check(None, || deliver(32, &[b"1"]));
}

#[test]
#[ignore = "takes long; run by the gate with --release"]
fn every_interleaving_of_a_full_ring_that_wraps_around() {
    check(None, || deliver(32, &[b"1", b"2"]));
}
