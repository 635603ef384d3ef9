//! Rings between real processes, by file descriptor and by name.

use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use punctual::backoff::Limits;
use punctual::ipc::{ReceiveError, Ring, RingError, SendError, WaitStrategy};
use punctual_linux::child::{Child, Ended};
use punctual_linux::ipc::memory;
use punctual_testing::{GIVE_UP, eventually};
use rustix::process::{Pid, Signal};

/// A little of everything.
const BACKOFF: WaitStrategy =
    WaitStrategy::Backoff(Limits { spins: 50, yields: 2, longest_yield: Duration::from_micros(50) });
const WAYS: [WaitStrategy; 3] = [WaitStrategy::Sleep, WaitStrategy::Spin, BACKOFF];

fn name(what: &str) -> String {
    format!("/punctual-test-{what}-{}", std::process::id())
}

/// An end that was given back. A program that another test starts meanwhile may hold a copy of its lock until exec.
fn freed<T>(end: impl Fn() -> Result<T, RingError>) -> T {
    eventually("the end is free", || end().ok())
}

#[test]
fn two_processes_by_name_in_every_way_of_waiting() {
    // Few: two sides that spin on one CPU exchange a message a time slice.
    const MESSAGES: u32 = 600;
    let size = |i: u32| (i as usize * 5) % 3000;
    for (i, how) in WAYS.into_iter().enumerate() {
        let name = name(&format!("ways{i}"));
        let ring = Ring::create(&name, 4096).unwrap();
        let opened = Ring::open(&name).unwrap();
        Ring::remove(&name).unwrap();
        let mut child = Child::spawn("ring-sender", move || {
            let mut sender = opened.sender().unwrap();
            for i in 0..MESSAGES {
                let message = vec![i as u8; size(i)];
                sender.send(&message, how).unwrap();
            }
        })
        .unwrap();
        let mut receiver = ring.receiver().unwrap();
        let mut buffer = vec![0; 4096];
        for i in 0..MESSAGES {
            let len = receiver.receive(&mut buffer, how).unwrap();
            assert_eq!(len, size(i));
            assert!(buffer[..len].iter().all(|b| *b == i as u8));
        }
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        assert_eq!(receiver.receive(&mut buffer, how), Err(ReceiveError::Closed));
    }
}

#[test]
fn the_death_of_either_side_is_noticed() {
    for how in WAYS {
        let ring = Ring::anonymous(4096).unwrap();
        let theirs = Ring::from_fd(ring.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let mut child = Child::spawn("ring-sender", move || {
            let mut sender = theirs.sender().unwrap();
            sender.try_send(b"last words").unwrap();
            std::thread::sleep(Duration::from_secs(3600));
        })
        .unwrap();
        let mut receiver = ring.receiver().unwrap();
        let mut buffer = [0; 64];
        assert_eq!(receiver.receive(&mut buffer, how), Ok(10));
        child.kill().unwrap();
        assert_eq!(receiver.recv_timeout(&mut buffer, how, GIVE_UP), Err(ReceiveError::PeerDied));

        let theirs = Ring::from_fd(ring.as_fd().try_clone_to_owned().unwrap()).unwrap();
        drop(receiver);
        let (mut filled, mut tell_filled) = std::io::pipe().unwrap();
        let (mut taken, mut tell_taken) = std::io::pipe().unwrap();
        let mut child = Child::spawn("ring-receiver", move || {
            let mut receiver = theirs.receiver().unwrap();
            std::io::Write::write_all(&mut tell_taken, &[1]).unwrap();
            // What it takes must come out of a full ring.
            std::io::Read::read_exact(&mut filled, &mut [0]).unwrap();
            receiver.receive(&mut [0; 1000], WaitStrategy::Sleep).unwrap();
            std::thread::sleep(Duration::from_secs(3600));
        })
        .unwrap();
        let mut sender = ring.sender().unwrap();
        sender.try_send(&[0; 1000]).unwrap();
        while sender.try_send(&[0; 64]).is_ok() {}
        // Until it has taken its end, the ring is closed: by the receiver dropped above.
        std::io::Read::read_exact(&mut taken, &mut [0]).unwrap();
        std::io::Write::write_all(&mut tell_filled, &[1]).unwrap();
        // There is room again: the child has received.
        sender.send_timeout(&[0; 64], how, GIVE_UP).unwrap();
        child.kill().unwrap();
        while sender.try_send(&[0; 64]).is_ok() {}
        assert_eq!(sender.send_timeout(&[0; 64], how, GIVE_UP), Err(SendError::PeerDied));
    }
}

/// In a child: forks a process that outlives it, for `punctual_linux` would end it, and tells its number.
fn leave_a_survivor(mut tell: std::io::PipeWriter) -> Child {
    Child::spawn("survivor", move || {
        rustix::process::set_parent_process_death_signal(None).unwrap();
        std::io::Write::write_all(&mut tell, &std::process::id().to_ne_bytes()).unwrap();
        std::thread::sleep(Duration::from_secs(3600));
    })
    .unwrap()
}

/// The survivor, ended with the test.
struct Survivor(Pid);

impl Survivor {
    fn told(mut by: std::io::PipeReader) -> Self {
        let mut number = [0; 4];
        std::io::Read::read_exact(&mut by, &mut number).unwrap();
        Self(Pid::from_raw(i32::from_ne_bytes(number)).unwrap())
    }

    fn lives(&self) -> bool {
        rustix::process::test_kill_process(self.0).is_ok()
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn an_end_refuses_the_forked_child_of_its_owner() {
    let ring = Ring::anonymous(4096).unwrap();
    let (sender, receiver) = (ring.sender().unwrap(), ring.receiver().unwrap());
    // The child has copies of both mutexes, as of everything else.
    let ends = Arc::new(Mutex::new((sender, receiver)));
    let copies = Arc::clone(&ends);
    ends.lock().unwrap().0.try_send(b"before the fork").unwrap();
    let mut child = Child::spawn("ring-copies", move || {
        let (sender, receiver) = &mut *copies.lock().unwrap();
        let mut buffer = [0; 64];
        assert_eq!(sender.try_send(b"lost"), Err(SendError::Inherited));
        assert_eq!(receiver.peek(), Err(ReceiveError::Inherited));
        assert_eq!(receiver.try_receive(&mut buffer), Err(ReceiveError::Inherited));
        for how in WAYS {
            assert_eq!(sender.send(b"lost", how), Err(SendError::Inherited));
            assert_eq!(sender.send_timeout(b"lost", how, Duration::ZERO), Err(SendError::Inherited));
            assert_eq!(receiver.receive(&mut buffer, how), Err(ReceiveError::Inherited));
            assert_eq!(receiver.recv_timeout(&mut buffer, how, Duration::ZERO), Err(ReceiveError::Inherited));
        }
    })
    .unwrap();
    assert_eq!(child.wait().unwrap(), Ended::Exited(0));
    let (sender, receiver) = &mut *ends.lock().unwrap();
    let mut buffer = [0; 64];
    assert_eq!(receiver.try_receive(&mut buffer), Ok(Some(15)), "the child took nothing");
    sender.try_send(b"after").unwrap();
    assert_eq!(receiver.try_receive(&mut buffer), Ok(Some(5)));
    assert_eq!(receiver.try_receive(&mut buffer), Ok(None), "the child sent nothing");
}

#[test]
fn a_killed_owner_is_dead_although_a_process_that_it_forked_lives_on() {
    for sends in [true, false] {
        let ring = Ring::anonymous(4096).unwrap();
        let theirs = Ring::from_fd(ring.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let (told, tell) = std::io::pipe().unwrap();
        let mut owner = Child::spawn("ring-owner", move || {
            let _end = if sends { (theirs.sender().ok(), None) } else { (None, theirs.receiver().ok()) };
            let _survivor = leave_a_survivor(tell);
            std::thread::sleep(Duration::from_secs(3600));
        })
        .unwrap();
        let survivor = Survivor::told(told);
        let taken = if sends { ring.sender().map(drop) } else { ring.receiver().map(drop) };
        assert!(matches!(taken, Err(RingError::Taken(_))), "{taken:?}");
        owner.kill().unwrap();
        if sends {
            let mut receiver = ring.receiver().unwrap();
            let received = receiver.recv_timeout(&mut [0; 8], WaitStrategy::Sleep, GIVE_UP);
            assert_eq!(received, Err(ReceiveError::PeerDied));
            freed(|| ring.sender());
        } else {
            let mut sender = ring.sender().unwrap();
            while sender.try_send(&[0; 64]).is_ok() {}
            assert_eq!(sender.send_timeout(&[0; 64], WaitStrategy::Sleep, GIVE_UP), Err(SendError::PeerDied));
            freed(|| ring.receiver());
        }
        assert!(survivor.lives());
    }
}

#[test]
fn an_end_is_dropped_by_its_owner_alone_and_at_once() {
    let ring = Ring::anonymous(4096).unwrap();
    let mut receiver = ring.receiver().unwrap();
    let sender = Arc::new(Mutex::new(Some(ring.sender().unwrap())));
    let (mut dropped, mut tell) = std::io::pipe().unwrap();
    let copy = Arc::clone(&sender);
    let mut child = Child::spawn("drops-its-copy", move || {
        drop(copy.lock().unwrap().take());
        std::io::Write::write_all(&mut tell, &[1]).unwrap();
        std::thread::sleep(Duration::from_secs(3600));
    })
    .unwrap();
    std::io::Read::read_exact(&mut dropped, &mut [0]).unwrap();
    assert!(matches!(ring.sender(), Err(RingError::Taken("sender"))), "the copy gave nothing back");
    // Long enough for a look after the peer.
    let nothing = receiver.recv_timeout(&mut [0; 8], WaitStrategy::Sleep, Duration::from_millis(600));
    assert_eq!(nothing, Ok(None), "and said nothing");
    drop(sender.lock().unwrap().take());
    freed(|| ring.sender());
    assert_eq!(child.ended().unwrap(), None, "it is free although the child lives");
}

#[test]
fn a_planted_ring_is_refused_before_it_costs_anything() {
    let mut header = [0; 24];
    for (at, bytes) in [(0, b"PNCTRING".as_slice()), (8, &1u32.to_ne_bytes()), (12, &4096u32.to_ne_bytes())] {
        header[at..at + bytes.len()].copy_from_slice(bytes);
    }
    header[16..].copy_from_slice(&(1u64 << 32).to_ne_bytes());
    let name = name("planted");
    let path = format!("/dev/shm{name}");
    let file = std::fs::File::create_new(&path).unwrap();
    file.write_all_at(&header, 0).unwrap();
    file.set_len((1 << 32) + 4096).unwrap();
    let refused = Ring::open(&name).map(drop);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::fchown(&file, Some(12_345), None).unwrap();
        let foreign = Ring::open(&name).map(drop);
        assert!(matches!(foreign, Err(RingError::NotYours { owner: 12_345 })), "{foreign:?}");
    } else {
        punctual_testing::skip("a ring of another user: only root can give a file away");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(refused, Err(RingError::Holes { .. })), "{refused:?}");
    assert!(blocks < 64, "{blocks} blocks are allocated now");
}

#[test]
fn one_sender_and_one_receiver_and_successors() {
    let ring = Ring::anonymous(4096).unwrap();
    let sender = ring.sender().unwrap();
    assert!(matches!(ring.sender(), Err(RingError::Taken("sender"))));
    let receiver = ring.receiver().unwrap();
    assert!(matches!(ring.receiver(), Err(RingError::Taken("receiver"))));
    drop(sender);
    freed(|| ring.sender()).try_send(b"by the successor").unwrap();
    drop(receiver);
    let mut buffer = [0; 64];
    assert_eq!(freed(|| ring.receiver()).receive(&mut buffer, WaitStrategy::Spin), Ok(16));
}

#[test]
fn waiting_for_so_long_never_ends_early() {
    let ring = Ring::anonymous(4096).unwrap();
    let (mut sender, mut receiver) = (ring.sender().unwrap(), ring.receiver().unwrap());
    let so_long = Duration::from_millis(20);
    for how in WAYS {
        let begin = Instant::now();
        assert_eq!(receiver.recv_timeout(&mut [0; 8], how, so_long), Ok(None));
        assert!(begin.elapsed() >= so_long);
        while sender.try_send(&[0; 1000]).is_ok() {}
        let begin = Instant::now();
        assert_eq!(sender.send_timeout(&[0; 1000], how, so_long), Err(SendError::Full));
        assert!(begin.elapsed() >= so_long);
        while receiver.try_receive(&mut [0; 1000]).unwrap().is_some() {}
    }
}

#[test]
fn files_that_are_no_rings_are_refused_with_the_reason() {
    let told = |made: Result<Ring, RingError>| {
        let error = made.map(drop).unwrap_err();
        format!("{error}\n  > {:?}", error.needs())
    };
    let said = |file: std::fs::File| told(Ring::from_fd(file.into()));
    let sealed = |len: u64, write: &[(u64, &[u8])]| {
        let file = std::fs::File::from(memory::sealed_memfd(c"not-a-ring", len).unwrap());
        for (at, bytes) in write {
            file.write_all_at(bytes, *at).unwrap();
        }
        file
    };
    let magic = b"PNCTRING";
    let (one, page) = (1u32.to_ne_bytes(), 4096u32.to_ne_bytes());
    let capacity = |c: u64| c.to_ne_bytes();
    let texts = [
        said(sealed(8192, &[])),
        said(sealed(8192, &[(0, b"%PDF-1.7")])),
        said(sealed(100, &[(0, magic)])),
        said(sealed(8192, &[(0, magic), (8, &7u32.to_ne_bytes())])),
        said(sealed(8192, &[(0, magic), (8, &one), (12, &one)])),
        said(sealed(8192, &[(0, magic), (8, &one), (12, &page), (16, &capacity(5000))])),
        said(sealed(8192, &[(0, magic), (8, &one), (12, &page), (16, &capacity(8192))])),
        said(tempfile::tempfile().unwrap()),
        told(Ring::anonymous(0)),
        told(Ring::anonymous(u64::MAX)),
        told(Ring::create("no-slash", 4096)),
        told(Ring::create("/a/b", 4096)),
        told(Ring::open("/punctual-test-that-is-not-there")),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_damaged_header_stops_a_newcomer() {
    let ring = Ring::anonymous(4096).unwrap();
    let file = std::fs::File::from(ring.as_fd().try_clone_to_owned().unwrap());
    file.write_all_at(&3u64.to_ne_bytes(), 128).unwrap();
    assert!(matches!(ring.sender(), Err(RingError::Damaged(_))));
    file.write_all_at(&3u64.to_ne_bytes(), 256).unwrap();
    assert!(matches!(ring.receiver(), Err(RingError::Damaged(_))));
}

/// A sealed file of this length that begins with these bytes.
fn sealed(len: u64, header: &[u8]) -> std::os::fd::OwnedFd {
    let file = std::fs::File::from(memory::sealed_memfd(c"hostile", len).unwrap());
    file.write_all_at(&header[..header.len().min(len as usize)], 0).unwrap();
    file.into()
}

/// A header with one field or another that a hostile peer chose. All else is right, so that each check is reached.
fn hostile_header() -> impl Strategy<Value = (u64, Vec<u8>)> {
    let or = |right: u64| prop_oneof![4 => Just(right), 1 => any::<u64>(), 1 => 0u64..20_000, 1 => Just(u64::MAX)];
    let fields = (or(u64::from_ne_bytes(*b"PNCTRING")), or(1), or(4096), or(8192), or(0), or(0), or(0), or(0));
    let lens = prop_oneof![4 => Just(4096 + 8192), 1 => 1u64..20_000];
    (lens, fields, any::<[u8; 64]>(), 0usize..4).prop_map(|(len, fields, noise, noisy)| {
        let (magic, version, data, capacity, tail, head, frame, flags) = fields;
        let mut header = vec![0; 4096 + 64];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &magic.to_ne_bytes());
        put(8, &(version as u32).to_ne_bytes());
        put(12, &(data as u32).to_ne_bytes());
        put(16, &capacity.to_ne_bytes());
        put(128, &tail.to_ne_bytes());
        put(136, &flags.to_ne_bytes());
        put(256, &head.to_ne_bytes());
        put(264, &flags.rotate_left(32).to_ne_bytes());
        put(4096, &frame.to_ne_bytes());
        // Now and then, bytes that mean nothing anywhere.
        match noisy {
            0 => put(0, &noise),
            1 => put(128, &noise),
            2 => put(256, &noise),
            _ => {}
        }
        (len, header)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: punctual_testing::inputs(4_000), failure_persistence: None, ..Default::default() })]

    /// Whatever a file begins with, it is refused with words, or is a ring. The ring's ends are refused with words, or carry messages or
    /// say what is wrong. Nothing crashes or waits without end.
    #[test]
    fn a_hostile_header_is_refused_or_works((len, header) in hostile_header()) {
        let ring = match Ring::from_fd(sealed(len, &header)) {
            Ok(ring) => ring,
            Err(refused) => {
                prop_assert!(refused.to_string().len() > 20, "{refused}");
                return Ok(());
            }
        };
        prop_assert_eq!(ring.capacity(), 8192);
        let (sender, receiver) = (ring.sender(), ring.receiver());
        for refused in [sender.as_ref().err(), receiver.as_ref().err()].into_iter().flatten() {
            prop_assert!(matches!(refused, RingError::Damaged(_)), "{refused}");
        }
        let (Ok(mut sender), Ok(mut receiver)) = (sender, receiver) else { return Ok(()) };
        let sent = sender.send_timeout(b"hello", WaitStrategy::Sleep, Duration::from_millis(1));
        prop_assert!(matches!(sent, Ok(()) | Err(SendError::Full | SendError::Corrupt { .. } | SendError::Closed)), "{sent:?}");
        let mut buffer = vec![0; 8192];
        // What the file held may come out before it, message by message.
        for _ in 0..2_000 {
            match receiver.recv_timeout(&mut buffer, WaitStrategy::Sleep, Duration::ZERO) {
                Ok(Some(5)) if &buffer[..5] == b"hello" => return Ok(()),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }

    /// Bytes without any plan are no ring.
    #[test]
    fn arbitrary_bytes_are_no_ring(len in 1u64..20_000, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let refused = Ring::from_fd(sealed(len, &bytes)).map(drop);
        prop_assert!(refused.is_err_and(|e| !e.to_string().is_empty()));
    }
}

/// A hundred million messages.
#[test]
#[ignore = "stress: run by the gate with --release"]
fn stress() {
    let count: u64 = std::env::var("PUNCTUAL_STRESS").map_or(100_000_000, |n| n.parse().unwrap());
    let ring = Ring::anonymous(1 << 16).unwrap();
    let theirs = Ring::from_fd(ring.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let message = |i: u64| [i, i.wrapping_mul(0x9E37_79B9_7F4A_7C15), !i];
    let mut child = Child::spawn("ring-stress", move || {
        let mut sender = theirs.sender().unwrap();
        for i in 0..count {
            let mut buffer = [0; 24];
            for (chunk, word) in buffer.chunks_exact_mut(8).zip(message(i)) {
                chunk.copy_from_slice(&word.to_ne_bytes());
            }
            sender.send(&buffer[..8 + (i % 17) as usize], WaitStrategy::Sleep).unwrap();
        }
    })
    .unwrap();
    let mut receiver = ring.receiver().unwrap();
    let mut buffer = [0; 24];
    for i in 0..count {
        let len = receiver.receive(&mut buffer, WaitStrategy::Sleep).unwrap();
        let mut expected = [0; 24];
        for (chunk, word) in expected.chunks_exact_mut(8).zip(message(i)) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        assert_eq!(buffer[..len], expected[..8 + (i % 17) as usize], "message {i}");
    }
    assert_eq!(child.wait().unwrap(), Ended::Exited(0));
}
