//! Fuzzes datagrams to `pace --receive`, over the loopback.

use std::net::UdpSocket;

use punctual::Conditions;
use punctual_lab::pace::receive;
use punctual_lab::pace::{HEADER, Header, this_boot};
use punctual_lab::{Amount, Session, Silent, Stop};

use super::mutate;
use super::random::Random;

/// Datagrams per receiver, which reports at its end.
pub(super) const AT_ONCE: u64 = 2_000;

/// Sends datagrams to a receiver and checks that it returns a run.
pub(super) fn check(random: &mut Random) -> Result<bool, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let socket = receive::listen(([127, 0, 0, 1], 0).into()).map_err(|e| failed(&e))?;
    let to = socket.local_addr().map_err(|e| failed(&e))?;
    let sender = UdpSocket::bind(("127.0.0.1", 0)).map_err(|e| failed(&e))?;
    let receiver = std::thread::spawn(move || {
        let mut observer = Silent;
        let mut session = Session::open(vec!["punctual".into(), "pace".into()], "pace", Stop::default(), &mut observer);
        let received = receive::run(socket, Some(Amount::Samples(AT_ONCE)), (&Conditions::new(), false), &mut session);
        received.map_err(|e| e.to_string()).map(|()| session.close())
    });
    let (boot, mut sent) = (this_boot(), 0_u64);
    // The receiver ignores foreign datagrams, and some are lost: send more until it has enough.
    while !receiver.is_finished() {
        // Fails once the receiver ended; a full socket drops some.
        let _ = sender.send_to(&datagram(random, boot, sent), to);
        sent += 1;
        if sent.is_multiple_of(64) {
            std::thread::yield_now();
        }
    }
    let run = receiver.join().map_err(|_| "the receiver panicked".to_owned())??;
    let mut bytes = Vec::new();
    run.to_json(&mut bytes).map_err(|e| failed(&e))?;
    punctual_record::Run::from_slice(&bytes).map(|_| true).map_err(|e| failed(&e))
}

fn datagram(random: &mut Random, boot: u64, sequence: u64) -> Vec<u8> {
    let mut any = |right: u64| if random.one_in(4) { random.number() } else { right };
    let header = Header {
        stream: any(1) as u32,
        sequence: any(sequence),
        intended_ns: any(1_000_000) as i64,
        sent_ns: any(1_000_000) as i64,
        boot: any(boot),
        period_ns: any(1_000_000),
    };
    let mut bytes = vec![0; HEADER + random.below(64)];
    header.write(&mut bytes);
    if random.one_in(6) {
        mutate::bytes(&mut bytes, random);
        bytes.truncate(60_000);
    }
    bytes
}
