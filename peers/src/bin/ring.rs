//! `punctual::ipc::Ring` beside its peers: iceoryx2 and crossbeam's lock-free queue, two threads on two CPUs, both polling.
//!
//!     cargo run --release --bin ring -- CPU CPU [ROUNDS]
//!
//! For each size and each channel: a message is written, sent, received and read as a whole, there and back. Then it goes one way as
//! fast as it is taken. They take turns. Threads rather than processes, since crossbeam's queue knows no processes; all of them pass
//! the same bytes.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use iceoryx2::prelude::*;
use punctual::ipc::{Ring, WaitStrategy};

/// Times each channel has its turn.
const TURNS: usize = 7;
/// Bytes that go one way in a throughput turn, at most.
const BYTES: usize = 256 << 20;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a number"));
    let (a, b) = (args.next().unwrap_or(0), args.next().unwrap_or(1));
    let rounds = args.next().unwrap_or(20_000);
    set_log_level(LogLevel::Error);
    println!("{:>8} {:<10} {:>14} {:>14} {:>12}", "bytes", "channel", "round trip", "messages/s", "MB/s");
    size::<8>(a, b, rounds);
    size::<64>(a, b, rounds);
    size::<1024>(a, b, rounds);
    size::<4096>(a, b, rounds);
    size::<16384>(a, b, rounds / 2);
    size::<65536>(a, b, rounds / 8);
    memcpy();
}

/// What one core copies a second, for comparison.
fn memcpy() {
    let from = vec![1_u8; 65_536];
    let mut to = vec![0_u8; 65_536];
    let begin = Instant::now();
    let times = BYTES / 65_536;
    for _ in 0..times {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    println!("   65536 memcpy in one core's cache: {:.0} MB/s", BYTES as f64 / begin.elapsed().as_secs_f64() / 1e6);
    assert!(times > 0);
}

type Duplex<const N: usize> = (Box<dyn FnMut(&[u8; N]) + Send>, Box<dyn FnMut(&mut [u8; N]) + Send>);

fn size<const N: usize>(a: usize, b: usize, rounds: usize) {
    let channels: [(&str, fn() -> (Duplex<N>, Duplex<N>)); 3] =
        [("ring", ring::<N>), ("crossbeam", crossbeam::<N>), ("iceoryx2", iceoryx::<N>)];
    let mut figures = vec![(Vec::new(), Vec::new()); channels.len()];
    for _ in 0..TURNS {
        for (i, (name, open)) in channels.iter().enumerate() {
            figures[i].0.push(ping_pong(open(), a, b, rounds));
            // With these options iceoryx2 0.10.0 drops messages once a queue is full. So there is no rate of all of them.
            if *name != "iceoryx2" {
                figures[i].1.push(one_way(name, open(), (a, b), (BYTES / N).min(rounds * 50)));
            }
        }
    }
    for ((name, _), (trips, rates)) in channels.iter().zip(&mut figures) {
        trips.sort_by(f64::total_cmp);
        rates.sort_by(f64::total_cmp);
        let (trip, rate) = (trips[TURNS / 2], rates.get(TURNS / 2).copied().unwrap_or(f64::NAN));
        println!("{N:>8} {name:<10} {trip:>11.1} ns {rate:>14.0} {:>12.1}", rate * N as f64 / 1e6);
    }
}

fn pin(cpu: usize) {
    punctual_linux::sched::set_affinity(0, &[cpu]).expect("the CPU may be used");
}

/// Median of one round trip, in ns.
fn ping_pong<const N: usize>((here, there): (Duplex<N>, Duplex<N>), a: usize, b: usize, rounds: usize) -> f64 {
    let total = rounds + rounds / 10;
    let echo = std::thread::spawn(move || {
        pin(b);
        let (mut send, mut receive) = there;
        let mut message = [0; N];
        for _ in 0..total {
            receive(&mut message);
            send(&message);
        }
    });
    let ping = std::thread::spawn(move || {
        pin(a);
        let (mut send, mut receive) = here;
        let mut message = [7; N];
        let mut took: Vec<u64> = Vec::with_capacity(total);
        for _ in 0..total {
            let begin = Instant::now();
            send(&message);
            receive(&mut message);
            took.push(begin.elapsed().as_nanos() as u64);
        }
        let mut took = took.split_off(total - rounds);
        took.sort_unstable();
        took[rounds / 2] as f64
    });
    let median = ping.join().expect("ping");
    echo.join().expect("echo");
    median
}

/// Messages a second.
fn one_way<const N: usize>(
    name: &'static str,
    (here, there): (Duplex<N>, Duplex<N>),
    (a, b): (usize, usize),
    messages: usize,
) -> f64 {
    let sender = std::thread::spawn(move || {
        pin(a);
        let (mut send, receive) = here;
        let mut message = [0; N];
        for i in 0..messages {
            message[..8].copy_from_slice(&i.to_ne_bytes());
            send(&message);
        }
        (send, receive)
    });
    let receiver = std::thread::spawn(move || {
        pin(b);
        let (_send, mut receive) = there;
        let mut message = [0; N];
        receive(&mut message);
        let begin = Instant::now();
        for i in 1..messages {
            receive(&mut message);
            assert_eq!(message[..8], i.to_ne_bytes(), "{name} with {N} bytes lost or doubled a message");
        }
        (messages - 1) as f64 / begin.elapsed().as_secs_f64()
    });
    let rate = receiver.join().expect("receiver");
    drop(sender.join().expect("sender"));
    rate
}

/// Messages that fit in between, the same for all.
fn depth(size: usize) -> usize {
    ((1 << 20) / size).clamp(16, 1024)
}

fn ring<const N: usize>() -> (Duplex<N>, Duplex<N>) {
    let lane = || {
        let ring = Ring::anonymous(((N + 24) * depth(N)) as u64).expect("a ring");
        (ring.sender().expect("sender"), ring.receiver().expect("receiver"))
    };
    let (there, back) = (lane(), lane());
    let end = |(mut sender, mut receiver): (punctual::ipc::Sender, punctual::ipc::Receiver)| -> Duplex<N> {
        (
            Box::new(move |m| sender.send(m, WaitStrategy::Spin).expect("sent")),
            Box::new(move |m| {
                receiver.receive(m, WaitStrategy::Spin).expect("received");
            }),
        )
    };
    (end((there.0, back.1)), end((back.0, there.1)))
}

fn crossbeam<const N: usize>() -> (Duplex<N>, Duplex<N>) {
    let (there, back) = (Arc::new(ArrayQueue::<[u8; N]>::new(depth(N))), Arc::new(ArrayQueue::<[u8; N]>::new(depth(N))));
    let end = |out: Arc<ArrayQueue<[u8; N]>>, back: Arc<ArrayQueue<[u8; N]>>| -> Duplex<N> {
        (
            Box::new(move |m| {
                let mut message = *m;
                while let Err(again) = out.push(message) {
                    message = again;
                    std::hint::spin_loop();
                }
            }),
            Box::new(move |m| loop {
                if let Some(message) = back.pop() {
                    *m = message;
                    return;
                }
            }),
        )
    };
    (end(Arc::clone(&there), Arc::clone(&back)), end(back, there))
}

fn iceoryx<const N: usize>() -> (Duplex<N>, Duplex<N>) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let lane = || {
        let node = NodeBuilder::new().create::<ipc_threadsafe::Service>().expect("a node");
        let name = format!("punctual-peers-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let service = node
            .service_builder(&name.as_str().try_into().expect("a name"))
            .publish_subscribe::<[u8; N]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(depth(N))
            .max_publishers(1)
            .max_subscribers(1)
            .create()
            .expect("a service");
        let subscriber = service.subscriber_builder().create().expect("a subscriber");
        let publisher =
            service.publisher_builder().backpressure_strategy(BackpressureStrategy::RetryUntilDelivered).create().expect("a publisher");
        (publisher, subscriber)
    };
    let ((first_out, first_in), (second_out, second_in)) = (lane(), lane());
    macro_rules! end {
        ($out:expr, $in:expr) => {{
            let (out, back) = ($out, $in);
            let duplex: Duplex<N> = (
                Box::new(move |m| {
                    let sample = out.loan_uninit().expect("a sample").write_payload(*m);
                    sample.send().expect("sent");
                }),
                Box::new(move |m| loop {
                    if let Some(sample) = back.receive().expect("received") {
                        *m = *sample.payload();
                        return;
                    }
                }),
            );
            duplex
        }};
    }
    (end!(first_out, second_in), end!(second_out, first_in))
}
