//! Softirqs that keep the CPU.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use punctual_record::Cause;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::judge::Injector;
use crate::place;
use crate::play::{Seen, Stage};

/// Datagrams over loopback, each for many receivers.
pub(crate) const NET_RX: Injector = Injector {
    name: "NET_RX flood over loopback",
    cause: Cause::Softirq,
    culprit: Some("NET_RX"),
    exact: false,
    least_ns: 200_000,
    play: flood,
    ..Injector::SLEEP
};

/// A datagram to all receivers takes at least this long: more than a virtual CPU that wakes up, and so much more than `least_ns` that
/// most wake-ups are hit.
const DATAGRAM: Duration = Duration::from_micros(1_200);
/// So many receivers more until it takes that long.
const MORE: usize = 1_000;
const MOST: usize = 20_000;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 71, 13);

fn flood(stage: &Stage, wanted: usize) -> Option<Seen> {
    let files = |most| setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    let permitted = getrlimit(Resource::Nofile).maximum;
    let wished = permitted.map(|limit| limit.max(MOST as u64 + 500));
    // A superuser without CAP_SYS_RESOURCE cannot raise the limit.
    let permitted = if files(wished).is_ok() { wished } else { permitted };
    files(permitted).unwrap();
    // The others are the test program's own. None is no limit.
    let most = permitted.map_or(MOST, |files| MOST.min(files.saturating_sub(500) as usize));
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    sockopt::set_ip_multicast_if(&sender, &Ipv4Addr::LOCALHOST).unwrap();
    let mut receivers = vec![receiver(None)];
    let port = receivers[0].local_addr().unwrap().port();
    while receivers.len() + MORE <= most && quickest(&sender, port) < DATAGRAM {
        receivers.extend((0..MORE).map(|_| receiver(Some(port))));
    }
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        // Each datagram begins when the victim sleeps again: of equal sleeps, all would end at the same point of one.
        for uneven_ns in (0..DATAGRAM.as_nanos() as u64).step_by(37_000).cycle() {
            if !stage.goes_on() {
                return;
            }
            let on = stage.is_on();
            stage.sleep(1_000_000 + uneven_ns);
            if on {
                stage.hit();
            }
        }
    };
    let injector = || {
        place::on(stage.cpu);
        place::fifo(20);
        if !stage.wait_for_part() {
            return;
        }
        while stage.goes_on() {
            // Full receivers drop it, which takes its time too.
            sender.send_to(&[1; 64], (GROUP, port)).unwrap();
        }
    };
    Some(stage.play(wanted, victim, injector))
}

/// The shortest of some datagrams to all receivers, which are full then.
fn quickest(sender: &UdpSocket, port: u16) -> Duration {
    let sent = |_| {
        let begun = Instant::now();
        sender.send_to(&[1; 64], (GROUP, port)).unwrap();
        begun.elapsed()
    };
    (0..20).map(sent).min().unwrap_or_default()
}

/// One of the receivers, all on the same port.
fn receiver(port: Option<u16>) -> UdpSocket {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    // The least there is.
    sockopt::set_socket_recv_buffer_size(&socket, 1).unwrap();
    let at = std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port.unwrap_or(0));
    rustix::net::bind(&socket, &at).unwrap();
    let socket = UdpSocket::from(socket);
    socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST).unwrap();
    socket
}
