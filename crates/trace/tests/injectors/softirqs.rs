//! Softirqs that keep the CPU.

use std::net::{Ipv4Addr, UdpSocket};

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

/// A datagram to all of them takes longer than a virtual CPU that wakes up.
const RECEIVERS: usize = 2_500;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 71, 13);

fn flood(stage: &Stage, wanted: usize) -> Option<Seen> {
    let files = RECEIVERS as u64 + 500;
    let permitted = getrlimit(Resource::Nofile);
    // None is no limit.
    let raised = |limit: Option<u64>| limit.map(|limit| limit.max(files));
    let limits = Rlimit { current: raised(permitted.current), maximum: raised(permitted.maximum) };
    setrlimit(Resource::Nofile, limits).unwrap();
    let victim = || {
        place::on(stage.cpu);
        place::fifo(50);
        while stage.goes_on() {
            let on = stage.is_on();
            stage.sleep(1_500_000);
            if on {
                stage.hit();
            }
        }
    };
    let injector = || {
        place::on(stage.cpu);
        place::fifo(20);
        let receivers: Vec<UdpSocket> = (0..RECEIVERS).map(|_| receiver(None)).collect();
        let port = receivers[0].local_addr().unwrap().port();
        drop(receivers);
        let receivers: Vec<UdpSocket> = (0..RECEIVERS).map(|_| receiver(Some(port))).collect();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        sockopt::set_ip_multicast_if(&sender, &Ipv4Addr::LOCALHOST).unwrap();
        if !stage.wait_for_part() {
            return;
        }
        while stage.goes_on() {
            // Full receivers drop it, which takes time too.
            sender.send_to(&[1; 64], (GROUP, port)).unwrap();
        }
        drop(receivers);
    };
    Some(stage.play(wanted, victim, injector))
}

/// One of the receivers, all on the same port.
fn receiver(port: Option<u16>) -> UdpSocket {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    let at = std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port.unwrap_or(0));
    rustix::net::bind(&socket, &at).unwrap();
    let socket = UdpSocket::from(socket);
    socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST).unwrap();
    socket
}
