//! A program in the kernel that keeps it busy at a tracepoint.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::OnceLock;

use punctual_linux::bpf::{Place, Spin};
use punctual_record::{Cause, LatePart};
use punctual_testing::Lack;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::judge::Injector;
use crate::lab;
use crate::place;
use crate::play::{Seen, Stage, now, pause, spin_until};

/// The kernel is busy for so long; longer in an emulated machine.
const SPIN_NS: u64 = 300_000;
/// It begins about this long before the victim's deadline.
const BEFORE_NS: u64 = 150_000;
/// Another CPU calls so long before it.
const CALLED_NS: u64 = 75_000;
/// The program is armed a little earlier than that, and before what it must hit.
const EARLY_NS: i64 = -(BEFORE_NS as i64 + 10_000);
/// `NET_RX_SOFTIRQ` (include/linux/interrupt.h).
const NET_RX: i32 = 3;
/// The kernel's own ways, and timers of other programs, take a few microseconds without an injector.
const PATH_NS: u64 = 20_000;

/// At the function of another thread's timer, before the deadline.
pub(crate) const OTHER_TIMER: Injector = Injector {
    name: "300 us at hrtimer_expire_entry, other timer",
    part: Some(LatePart::TimerInterrupt),
    cause: Cause::OtherTimers,
    culprit: Some("hrtimer_wakeup"),
    named_ns: PATH_NS,
    play: |stage, wanted| play(stage, wanted, &Aim { armed: Some(EARLY_NS), ..AT_TIMERS }),
    ..Injector::SLEEP
};

/// At the function of the thread's own timer, which wakes it only afterwards.
pub(crate) const OWN_TIMER: Injector = Injector {
    name: "300 us at hrtimer_expire_entry, own timer",
    part: Some(LatePart::WakeUp),
    cause: Cause::TimerPath,
    named_ns: PATH_NS,
    play: |stage, wanted| play(stage, wanted, &Aim { other: |_, _| (), ..AT_TIMERS }),
    ..Injector::SLEEP
};

/// Between the wake-up by the timer's function and the run queue.
pub(crate) const WAKING: Injector = Injector {
    name: "300 us at sched_waking",
    part: Some(LatePart::RunQueue),
    play: |stage, wanted| play(stage, wanted, &Aim { tracepoint: "sched_waking", other: |_, _| (), ..AT_TIMERS }),
    ..OWN_TIMER
};

/// At a softirq, before the deadline.
pub(crate) const SOFTIRQ: Injector = Injector {
    name: "300 us at softirq_entry, NET_RX",
    part: Some(LatePart::RunQueue),
    cause: Cause::Softirq,
    culprit: Some("NET_RX"),
    // Packets of other programs take a few microseconds.
    named_ns: PATH_NS,
    interrupted: true,
    play: |stage, wanted| {
        let aim = Aim { tracepoint: "softirq_entry", first: Some(NET_RX), armed: Some(EARLY_NS), other: sends };
        play(stage, wanted, &aim)
    },
    ..Injector::SLEEP
};

/// At the switch to another thread, before the deadline: interrupts are off.
pub(crate) const SWITCH: Injector = Injector {
    name: "300 us at sched_switch, before the deadline",
    part: Some(LatePart::TimerInterrupt),
    cause: Cause::InterruptsOff,
    culprit: Some("injector"),
    play: |stage, wanted| play(stage, wanted, &Aim { armed: Some(EARLY_NS), ..AT_SWITCHES }),
    ..Injector::SLEEP
};

/// The same at the switch to the idle thread.
pub(crate) const SWITCH_TO_IDLE: Injector = Injector {
    name: "300 us at sched_switch to idle, before the deadline",
    culprit: None,
    play: |stage, wanted| play(stage, wanted, &Aim { armed: None, other: arms, ..AT_SWITCHES }),
    ..SWITCH
};

/// In what another CPU has this one do, by an interrupt (IPI), before the deadline: other interrupts are off.
pub(crate) const CALL: Injector = Injector {
    name: "300 us at call_function_single_entry, before the deadline",
    play: |stage, wanted| {
        let aim = Aim { tracepoint: "call_function_single_entry", armed: None, other: called, ..AT_TIMERS };
        // Calls that come after the deadline do not count.
        play(stage, wanted * 4 / 3, &aim)
    },
    ..SWITCH
};

/// At the switch to the late thread, which has the CPU from there on.
pub(crate) const SWITCH_TO_IT: Injector = Injector {
    name: "300 us at sched_switch, to the thread",
    part: Some(LatePart::Return),
    cause: Cause::ReturnPath,
    culprit: None,
    named_ns: PATH_NS,
    play: |stage, wanted| play(stage, wanted, &Aim { other: |_, _| (), ..AT_SWITCHES }),
    ..Injector::SLEEP
};

/// What the program hits.
struct Aim {
    tracepoint: &'static str,
    first: Option<i32>,
    /// From the deadline; none where the other thread arms it.
    armed: Option<i64>,
    /// What another thread of the CPU does.
    other: fn(&Stage, &OnceLock<Spin>),
}

const AT_TIMERS: Aim = Aim { tracepoint: "hrtimer_expire_entry", first: None, armed: Some(-500), other: wakes };
const AT_SWITCHES: Aim = Aim { tracepoint: "sched_switch", ..AT_TIMERS };

fn play(stage: &Stage, wanted: usize, aim: &Aim) -> Option<Seen> {
    let place = Place { tracepoint: aim.tracepoint, cpu: stage.cpu, first: aim.first };
    let spin_ns = (SPIN_NS * lab::slower()) as u32;
    if let Err(e) = Spin::attach(place, spin_ns) {
        punctual_testing::lacks(Lack::Call("bpf", e.errno()));
        return None;
    }
    let spin = OnceLock::new();
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            let on = stage.is_on();
            // Watching has begun: the program runs after the events of this tracepoint are recorded.
            let spin = on.then(|| spin.get_or_init(|| Spin::attach(place, spin_ns).unwrap()));
            let deadline = now() + 2_000_000 * lab::slower();
            if let (Some(spin), Some(armed)) = (spin, aim.armed) {
                spin.arm(deadline.saturating_add_signed(armed * lab::slower() as i64)).unwrap();
            }
            stage.sleep(deadline.saturating_sub(now()));
            if on {
                stage.hit();
            }
        }
        let delays = spin.get().map(|spin| spin.delays().unwrap());
        delays.into_iter().flatten().for_each(|(begin, end)| stage.delayed(begin, end));
    };
    let other = || {
        place::on(stage.cpu);
        place::fifo(20);
        (aim.other)(stage, &spin);
    };
    Some(stage.play(wanted, victim, other))
}

/// Wakes up shortly before each deadline.
fn wakes(stage: &Stage, _: &OnceLock<Spin>) {
    while stage.next_deadline(BEFORE_NS * lab::slower()).is_some() {}
}

/// Arms the program then, and goes to sleep.
fn arms(stage: &Stage, spin: &OnceLock<Spin>) {
    while stage.next_deadline(BEFORE_NS * lab::slower()).is_some() {
        if let Some(spin) = spin.get() {
            spin.arm(now()).unwrap();
        }
        pause(1_000_000 * lab::slower());
    }
}

/// Is busy on the CPU, and another CPU has it do something then: only a CPU that runs this program is called.
fn called(stage: &Stage, spin: &OnceLock<Spin>) {
    membarrier(MembarrierCommand::RegisterPrivateExpedited).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            place::beside(stage.cpu);
            place::fifo(60);
            while let Some(deadline) = stage.next_deadline(3 * BEFORE_NS * lab::slower()) {
                // A CPU that leaves an idle state may be as late as the call is early.
                spin_until(deadline - CALLED_NS * lab::slower());
                if let Some(spin) = spin.get() {
                    spin.arm(now()).unwrap();
                }
                membarrier(MembarrierCommand::PrivateExpedited).unwrap();
                pause(1_000_000 * lab::slower());
            }
        });
        while let Some(deadline) = stage.next_deadline(4 * BEFORE_NS * lab::slower()) {
            spin_until(deadline + BEFORE_NS);
        }
    });
}

/// Receives a datagram over loopback then.
fn sends(stage: &Stage, _: &OnceLock<Spin>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = socket.local_addr().unwrap();
    while stage.next_deadline(BEFORE_NS * lab::slower()).is_some() {
        socket.send_to(&[1; 64], to).unwrap();
        let _ = socket.recv(&mut [0; 64]).unwrap();
    }
}
