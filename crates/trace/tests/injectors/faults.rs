//! Page faults on the way back: the buffer of read(2) is missing.

use std::io::{Read as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_linux::memory::{Pages, Supplier};
use punctual_record::Cause;
use punctual_testing::Lack;

use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage, now, pause, spin_until};

const OF_FAULTS: Injector =
    Injector { cause: Cause::PageFault, exact: false, call: "read", least_ns: 0, ..Injector::SLEEP };

/// The buffer was given back to the kernel.
pub(crate) const DROPPED: Injector = Injector { name: "MADV_DONTNEED, 16 pages", play: dropped, ..OF_FAULTS };
/// The buffer's page comes from another thread, 1 ms later.
pub(crate) const SUPPLIED: Injector =
    Injector { name: "userfaultfd, 2 ms", exact: true, least_ns: 1_000_000, play: supplied, ..OF_FAULTS };

fn dropped(stage: &Stage, wanted: usize) -> Option<Seen> {
    let (mut read, mut write) = std::io::pipe().unwrap();
    let mut pages = Pages::new(16).unwrap();
    let bytes = pages.bytes().len();
    let victim = move || {
        place::on(stage.cpu);
        place::fifo(50);
        pages.bytes().fill(1);
        while stage.goes_on() {
            let on = stage.is_on();
            if on {
                pages.take_away().unwrap();
            }
            assert!(read.read(pages.bytes()).unwrap() > 0);
            stage.waited();
            if on {
                stage.hit();
            }
        }
    };
    let partner = move || {
        place::on(stage.cpu);
        place::fifo(60);
        let message = vec![1; bytes];
        while stage.goes_on() {
            pause(2_000_000);
            write.write_all(&message).unwrap();
        }
        // The victim may wait for a last one.
        write.write_all(&message).unwrap();
    };
    Some(stage.play(wanted, victim, partner))
}

fn supplied(stage: &Stage, wanted: usize) -> Option<Seen> {
    let (mut read, mut write) = std::io::pipe().unwrap();
    let mut pages = Pages::new(1).unwrap();
    pages.bytes().fill(1);
    let supplier = match Supplier::new(&mut pages) {
        Ok(supplier) => supplier,
        Err(e) => {
            punctual_testing::lacks(Lack::Call("userfaultfd", e.errno()));
            return None;
        }
    };
    let (pages, supplying) = (Mutex::new(pages), AtomicBool::new(true));
    let victim = || {
        let mut pages = pages.lock().unwrap();
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            let on = stage.is_on();
            if on {
                pages.take_away().unwrap();
            }
            assert!(read.read(pages.bytes()).unwrap() > 0);
            stage.waited();
            if on {
                stage.hit();
            }
        }
        // The supplier waits for a last one.
        pages.take_away().unwrap();
        supplying.store(false, Ordering::Relaxed);
        assert_eq!(pages.bytes()[0], 0);
    };
    let partner = || {
        std::thread::scope(|scope| {
            // On the victim's CPU and below it: it runs as soon as the victim waits, and no other CPU has to be woken.
            scope.spawn(|| {
                place::on(stage.cpu);
                place::fifo(40);
                let mut goes_on = true;
                while goes_on {
                    let address = supplier.wait().unwrap();
                    goes_on = supplying.load(Ordering::Relaxed);
                    let begin = now();
                    spin_until(begin + if goes_on { 2_000_000 } else { 0 });
                    // The victim goes on within supply().
                    stage.delayed(begin, now());
                    supplier.supply(address).unwrap();
                }
            });
            place::fifo(60);
            while stage.goes_on() {
                pause(4_000_000);
                write.write_all(&[1; 8]).unwrap();
            }
            write.write_all(&[1; 8]).unwrap();
        });
    };
    Some(stage.play(wanted, victim, partner))
}
