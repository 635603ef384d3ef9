//! Sends 20 000 datagrams a second, evenly, to itself, in batches that bring at most 200 us of jitter.
//!
//! `cargo run --release --example packet_sender`
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use punctual::{Pacer, Rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_nonblocking(true)?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;

    let rate = Rate::per_second(20_000)?;
    let mut pacer = Pacer::options(rate).jitter(Duration::from_micros(200)).build();
    let (mut received, mut worst) = (0, Duration::ZERO);
    let (begin, total) = (Instant::now(), 20_000);
    while pacer.events() < total {
        let batch = pacer.next();
        for n in 0..batch.count {
            sender.send(&(batch.index + n).to_be_bytes())?;
        }
        worst = worst.max(batch.lateness());
        let mut buffer = [0; 16];
        while receiver.recv(&mut buffer).is_ok() {
            received += 1;
        }
    }
    let reached = pacer.events() as f64 / begin.elapsed().as_secs_f64();
    println!("{} sent in batches of {}, {received} received", pacer.events(), pacer.batch_size());
    println!("{reached:.1} a second of {:.1}, worst batch {worst:?} late", rate.per_second_f64());
    Ok(())
}
