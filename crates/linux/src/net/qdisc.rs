//! The queueing discipline of a network interface, through rtnetlink (`rtnetlink(7)`, `RTM_GETQDISC`).

use std::net::IpAddr;

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use crate::{Error, Result, check, failed};

/// Bytes of the header of a message, and of a `struct tcmsg` behind it (include/uapi/linux/rtnetlink.h).
const HEADER: usize = size_of::<libc::nlmsghdr>();
const TC_MESSAGE: usize = 20;
/// The attribute with the kind (`TCA_KIND`).
const TCA_KIND: u16 = 1;
/// Parent of the root discipline (`TC_H_ROOT`).
const ROOT: u32 = u32::MAX;

/// `getifaddrs(3)`: the name of the interface with this address.
pub fn interface_of(address: IpAddr) -> Result<Option<String>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the list is written by the call and freed below.
    check("getifaddrs", unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut found = None;
    let mut next = list;
    // SAFETY: the list is the kernel's answer as the C library laid it out. It ends with null, and names end with zero. An address
    // that is not null is as long as its family says.
    unsafe {
        while let Some(one) = next.as_ref() {
            if address_at(one.ifa_addr) == Some(address) {
                found = Some(std::ffi::CStr::from_ptr(one.ifa_name).to_string_lossy().into_owned());
                break;
            }
            next = one.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    // All of 127.0.0.0/8 belongs to the loopback, although it has only one address.
    Ok(found.or_else(|| address.is_loopback().then(|| "lo".to_owned())))
}

/// The IP address of a socket address.
///
/// # Safety
/// `at` is null or points to a socket address as long as its family says.
unsafe fn address_at(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by contract.
    unsafe {
        match i32::from(at.as_ref()?.sa_family) {
            libc::AF_INET => {
                let raw = at.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::from(raw.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => Some(IpAddr::from(at.cast::<libc::sockaddr_in6>().read_unaligned().sin6_addr.s6_addr)),
            _ => None,
        }
    }
}

/// The kinds of an interface's disciplines, root first: `noqueue`, `fq`, `mq` with `fq_codel` below, ...
pub fn kinds(interface: &str) -> Result<Vec<String>> {
    let failed = |call, object| move |errno: Errno| failed(call)(errno).on(object);
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(failed("socket", "NETLINK_ROUTE"))?;
    let index = name_to_index(&socket, interface).map_err(failed("if_nametoindex", interface))?.cast_signed();
    send(&socket, &request(index), SendFlags::empty()).map_err(failed("send", "RTM_GETQDISC"))?;
    let mut found: Vec<(bool, String)> = Vec::new();
    let mut buffer = vec![0_u8; 32_768];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty()).map_err(failed("recv", "RTM_GETQDISC"))?;
        if !read_answers(&buffer[..length], index, &mut found)? {
            break;
        }
    }
    found.sort_by_key(|(root, _)| !root);
    Ok(found.into_iter().map(|(_, kind)| kind).collect())
}

/// The request for the disciplines of an interface.
fn request(index: i32) -> Vec<u8> {
    [
        &((HEADER + TC_MESSAGE) as u32).to_ne_bytes()[..],
        &libc::RTM_GETQDISC.to_ne_bytes(),
        &((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes(),
        // The number of the request, its sender, and the family.
        &1_u32.to_ne_bytes(),
        &[0; 8],
        &index.to_ne_bytes(),
        &[0; 12],
    ]
    .concat()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Reads the messages of one reply. False: that was the last.
fn read_answers(mut bytes: &[u8], index: i32, found: &mut Vec<(bool, String)>) -> Result<bool> {
    while let (Some(length), Some(kind)) = (number::<4>(bytes, 0), number::<2>(bytes, 4)) {
        let length = u32::from_ne_bytes(length) as usize;
        if length < HEADER || length > bytes.len() {
            break;
        }
        match i32::from(u16::from_ne_bytes(kind)) {
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => {
                let errno = number::<4>(bytes, HEADER).map_or(libc::EIO, |raw| -i32::from_ne_bytes(raw));
                return if errno == 0 { Ok(false) } else { Err(Error::from_errno("RTM_GETQDISC", errno)) };
            }
            _ => found.extend(read_discipline(&bytes[HEADER..length], index)),
        }
        bytes = &bytes[((length + 3) & !3).min(bytes.len())..];
    }
    Ok(true)
}

/// Whether it is the root, and its kind; `None` if it belongs to another interface.
fn read_discipline(message: &[u8], index: i32) -> Option<(bool, String)> {
    let interface = i32::from_ne_bytes(number(message, 4)?);
    let parent = u32::from_ne_bytes(number(message, 12)?);
    let mut attributes = message.get(TC_MESSAGE..)?;
    while let (Some(length), Some(kind)) = (number::<2>(attributes, 0), number::<2>(attributes, 2)) {
        let length = usize::from(u16::from_ne_bytes(length));
        if length < 4 || length > attributes.len() {
            break;
        }
        if u16::from_ne_bytes(kind) == TCA_KIND && interface == index {
            let name = String::from_utf8_lossy(&attributes[4..length]);
            return Some((parent == ROOT, name.trim_end_matches('\0').to_owned()));
        }
        attributes = &attributes[((length + 3) & !3).min(attributes.len())..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_a_discipline() {
        let name = interface_of("127.0.0.1".parse().unwrap()).unwrap().unwrap();
        assert_eq!(name, "lo");
        assert_eq!(interface_of("127.8.9.10".parse().unwrap()).unwrap().unwrap(), "lo");
        let kinds = kinds(&name).unwrap();
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| !kind.is_empty()), "{kinds:?}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert_eq!(interface_of("192.0.2.77".parse().unwrap()).unwrap(), None);
        let error = kinds("no-such-device").unwrap_err();
        assert!(error.to_string().contains("no-such-device"), "{error}");
    }
}
