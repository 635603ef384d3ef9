//! The algorithm on ordinary memory: what is delivered, what is refused, and what a hostile peer can do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use punctual_linux::ipc::Region;

use super::ends::Reader;
use super::layout::{AT_HEAD, AT_TAIL, DATA, frame, largest_message, mark, word};
use super::writer::Writer;
use super::{ReceiveError, SendError};

type Ends = (Writer<Arc<Region>>, Reader<Arc<Region>>, Arc<Region>);

fn ring(capacity: u64) -> Ends {
    let region = Arc::new(Region::private(DATA + capacity as usize).unwrap());
    let writer = Writer::attach(Arc::clone(&region), capacity).unwrap();
    let reader = Reader::attach(Arc::clone(&region), capacity).unwrap();
    (writer, reader, region)
}

#[test]
fn in_order_and_whole_across_threads() {
    let (mut writer, mut reader, _) = ring(64);
    // Beside busy threads each handover takes milliseconds.
    let count: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let message = |i: u64| -> Vec<u8> { (0..i % 33).map(|b| (b * 31 + i) as u8).collect() };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..count {
                while let Err(error) = writer.try_send(&message(i)) {
                    assert_eq!(error, SendError::Full);
                    std::thread::yield_now();
                }
            }
        });
        let mut buffer = [0; 64];
        for i in 0..count {
            let len = loop {
                match reader.try_receive(&mut buffer).unwrap() {
                    Some(len) => break len,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(buffer[..len], message(i), "message {i}");
        }
        assert_eq!(reader.try_receive(&mut buffer), Ok(None));
    });
}

#[test]
fn sleeping_sides_wake_each_other() {
    if cfg!(miri) {
        return;
    }
    let (mut writer, mut reader, _) = ring(64);
    const FAR: i64 = i64::MAX;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for i in 0..20_000u32 {
                while let Err(error) = writer.try_send(&i.to_ne_bytes()) {
                    assert_eq!(error, SendError::Full);
                    writer.sleep(4, FAR).unwrap();
                }
            }
        });
        let mut buffer = [0; 4];
        for i in 0..20_000u32 {
            while reader.try_receive(&mut buffer).unwrap().is_none() {
                reader.sleep(FAR).unwrap();
            }
            assert_eq!(u32::from_ne_bytes(buffer), i);
        }
    });
}

#[test]
fn sizes_up_to_the_largest_and_no_further() {
    let (mut writer, mut reader, _) = ring(4096);
    let mut buffer = vec![0; 5000];
    for len in [0, 1, 8, 4079, 4080] {
        let message = vec![len as u8; len];
        writer.try_send(&message).unwrap();
        assert_eq!(reader.peek(), Ok(Some(len)));
        assert_eq!(reader.try_receive(&mut buffer), Ok(Some(len)));
        assert_eq!(buffer[..len], message);
    }
    assert_eq!(writer.try_send(&[0; 4081]), Err(SendError::TooLarge { len: 4081, largest: 4080 }));
    assert_eq!(reader.try_receive(&mut buffer), Ok(None));
}

#[test]
fn a_short_buffer_leaves_the_message() {
    let (mut writer, mut reader, _) = ring(4096);
    writer.try_send(b"ten bytes!").unwrap();
    assert_eq!(reader.try_receive(&mut [0; 9]), Err(ReceiveError::TooShort { len: 10, room: 9 }));
    let mut buffer = [0; 10];
    assert_eq!(reader.try_receive(&mut buffer), Ok(Some(10)));
    assert_eq!(&buffer, b"ten bytes!");
}

#[test]
fn full_says_so_and_takes_more_once_there_is_room() {
    let (mut writer, mut reader, _) = ring(4096);
    let mut sent = 0;
    while writer.try_send(&[7; 8]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, (4096 - 8) / 16);
    assert_eq!(writer.try_send(&[]), Ok(()), "8 bytes were left");
    assert_eq!(writer.try_send(&[]), Err(SendError::Full));
    assert_eq!(reader.try_receive(&mut [0; 8]), Ok(Some(8)));
    assert_eq!(writer.try_send(&[7; 8]), Ok(()));
    assert_eq!(writer.try_send(&[]), Err(SendError::Full));
}

#[test]
fn old_messages_are_never_taken_for_frames() {
    // The message is made of words that would be valid frames at the position where they lie a lap later.
    let (mut writer, mut reader, _) = ring(64);
    let mut buffer = [0; 64];
    for lap in 0..64u64 {
        let forged: Vec<u8> = (0..4).flat_map(|i| word(lap * 40 + 64 + i * 8, 8).to_ne_bytes()).collect();
        writer.try_send(&forged).unwrap();
        assert_eq!(reader.try_receive(&mut buffer), Ok(Some(32)));
        assert_eq!(reader.try_receive(&mut buffer), Ok(None), "lap {lap}");
    }
}

#[test]
fn a_writer_that_was_killed_is_succeeded() {
    let (mut writer, mut reader, region) = ring(4096);
    let mut buffer = [0; 64];
    writer.try_send(b"one").unwrap();
    let tail = region.u64(AT_TAIL).load(Ordering::Relaxed);
    writer.try_send(b"two").unwrap();
    // Killed after the frame was published and before the tail was noted.
    region.u64(AT_TAIL).store(tail, Ordering::Relaxed);
    drop(writer);
    let mut next = Writer::attach(Arc::clone(&region), 4096).unwrap();
    next.try_send(b"three").unwrap();
    for expected in ["one", "two", "three"] {
        let len = reader.try_receive(&mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[..len], expected.as_bytes());
    }
    let mut successor = Reader::attach(region, 4096).unwrap();
    next.try_send(b"four").unwrap();
    assert_eq!(successor.try_receive(&mut buffer), Ok(Some(4)));
}

#[test]
fn marks_are_never_zero_and_differ_from_their_neighbours() {
    for position in (0..1 << 16).step_by(8) {
        assert_ne!(mark(position), 0);
        assert_ne!(mark(position), mark(position + 8));
        assert_ne!(word(position, 0), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..Default::default() })]

    /// Any sequence of sends and receives does what a queue of the same capacity does.
    #[test]
    fn behaves_as_a_queue(steps in prop::collection::vec(prop::option::of(0usize..300), 1..200)) {
        let (mut writer, mut reader, _) = ring(256);
        let (mut queue, mut used, mut buffer) = (VecDeque::new(), 0, [0; 256]);
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Some(len) => {
                    let message = vec![i as u8; len];
                    let expected = if len as u64 > largest_message(256) {
                        Err(SendError::TooLarge { len, largest: 240 })
                    } else if used + frame(len as u64) > 256 - 8 {
                        Err(SendError::Full)
                    } else {
                        used += frame(len as u64);
                        queue.push_back(message.clone());
                        Ok(())
                    };
                    prop_assert_eq!(writer.try_send(&message), expected);
                }
                None => {
                    let expected: Option<Vec<u8>> = queue.pop_front();
                    used -= expected.as_ref().map_or(0, |m| frame(m.len() as u64));
                    let len = reader.try_receive(&mut buffer).unwrap();
                    prop_assert_eq!(len.map(|len| buffer[..len].to_vec()), expected);
                }
            }
        }
    }

    /// Whatever a peer scribbles anywhere, no side panics, hangs or touches anything outside. It goes on or says what is wrong.
    #[test]
    fn a_hostile_peer_is_survived(
        scribbles in prop::collection::vec((0usize..(DATA + 256) / 8, prop_oneof![any::<u64>(), 0u64..512, Just(u64::MAX)]), 1..40),
        lens in prop::collection::vec(0usize..240, 1..40),
    ) {
        let (mut writer, mut reader, region) = ring(256);
        let mut buffer = [0; 256];
        for ((at, value), len) in scribbles.iter().zip(lens.iter().cycle()) {
            let sent = writer.try_send(&buffer[..*len]);
            let is_expected = matches!(sent, Ok(()) | Err(SendError::Full | SendError::Corrupt { .. }));
            prop_assert!(is_expected, "{sent:?}");
            region.u64(at * 8).store(*value, Ordering::Relaxed);
            let received = reader.try_receive(&mut buffer);
            prop_assert!(matches!(received, Ok(_) | Err(ReceiveError::Corrupt { .. })), "{received:?}");
            // A newcomer either sees sense or refuses.
            let _ = Writer::attach(Arc::clone(&region), 256).map(|mut w| w.try_send(b"x"));
            let _ = Reader::attach(Arc::clone(&region), 256).map(|mut r| r.try_receive(&mut [0; 256]));
        }
    }

    /// A word that is no frame's is said to be none, with its place.
    #[test]
    fn a_torn_word_is_recognised(garbage in 1u64..) {
        let (_, mut reader, region) = ring(4096);
        region.u64(DATA).store(garbage, Ordering::Relaxed);
        let valid = garbage >> 32 == u64::from(mark(0)) && garbage & 0xFFFF_FFFF <= largest_message(4096);
        prop_assume!(!valid);
        prop_assert_eq!(reader.try_receive(&mut [0; 64]), Err(ReceiveError::Corrupt { found: garbage, position: 0 }));
    }

    /// A head that goes back, overtakes the tail or is out of line is noticed when the sender needs it.
    #[test]
    fn a_wild_head_is_noticed(head in any::<u64>()) {
        let (mut writer, _, region) = ring(256);
        while writer.try_send(&[1; 24]).is_ok() {}
        region.u64(AT_HEAD).store(head, Ordering::Relaxed);
        let sent = writer.try_send(&[1; 24]);
        let tail = 7 * 32;
        if head % 8 != 0 || head > tail {
            prop_assert_eq!(sent, Err(SendError::Corrupt { head, tail }));
        } else {
            prop_assert!(matches!(sent, Ok(()) | Err(SendError::Full)));
        }
    }
}
