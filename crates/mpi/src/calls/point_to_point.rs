//! Messages between two ranks.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use super::finish;
use crate::library::{Status, is_nobody, waits_by_counterpart};
use crate::patience;
use crate::symbol::Symbol;

nonblocking! {
    "Send" "Isend" (buffer count datatype destination tag comm) () destination;
    "Ssend" "Issend" (buffer count datatype destination tag comm) () destination;
    "Rsend" "Irsend" (buffer count datatype destination tag comm) () destination;
    "Bsend" "Ibsend" (buffer count datatype destination tag comm) () destination;
    "Recv" "Irecv" (buffer count datatype source tag comm) (status) source;
}

/// Six arguments, and the request.
type Start = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, *mut usize) -> c_int;

/// What a message is made of: buffer, count, datatype, peer, tag, communicator.
type Message = [usize; 6];

/// Starts a message, or makes the call of the same parameters that has a status in place of the request.
fn start(how: &Symbol, [a, b, c, d, e, f]: Message, last: *mut usize) -> c_int {
    // SAFETY: MPI_Isend, MPI_Irecv and MPI_Recv have these parameters in every ABI, and the program's are passed on.
    unsafe { transmute::<*mut c_void, Start>(how.address())(a, b, c, d, e, f, last) }
}

/// Both directions at once. The receive is posted first, so that the peer's message need not be copied twice.
fn send_and_receive(
    isend: &Symbol,
    [irecv, recv]: [&Symbol; 2],
    sent: Message,
    received: Message,
    status: usize,
) -> c_int {
    let (mut receive, mut send) = (0, 0);
    let from_nobody = is_nobody(received[3]);
    if !from_nobody {
        let error = start(irecv, received, &raw mut receive);
        if error != 0 {
            return error;
        }
    }
    let error = start(isend, sent, &raw mut send);
    if error != 0 {
        if !from_nobody {
            give_up(receive);
        }
        return error;
    }
    let mut unused = Status::new();
    // SAFETY: both requests were just started, and the status is the caller's or this one.
    let (sent, received) = unsafe {
        match from_nobody {
            true => (finish(send, &raw mut unused), start(recv, received, status as *mut usize)),
            false => {
                let received = finish(receive, status as *mut Status);
                (finish(send, &raw mut unused), received)
            }
        }
    };
    if received != 0 { received } else { sent }
}

/// Cancels a receive and forgets it.
fn give_up(mut request: usize) {
    static CANCEL: Symbol = Symbol::new("PMPI_Cancel\0");
    static FREE: Symbol = Symbol::new("PMPI_Request_free\0");
    for call in [&CANCEL, &FREE] {
        // SAFETY: both take the address of a request, and this one is active.
        unsafe {
            transmute::<*mut c_void, unsafe extern "C" fn(*mut usize) -> c_int>(call.address())(&raw mut request)
        };
    }
}

macro_rules! sendrecv {
    ($name:expr, $real:expr, $isend:expr, $irecv:expr, $recv:expr) => {
        const _: () = {
            static OWN: Symbol = Symbol::new($real);
            static ISEND: Symbol = Symbol::new($isend);
            static IRECV: Symbol = Symbol::new($irecv);
            static RECV: Symbol = Symbol::new($recv);
            marked!($name, (a b c d e f g h i j comm status));

            #[cold]
            #[rustfmt::skip]
            extern "C" fn otherwise(
                a: usize, b: usize, c: usize, d: usize, e: usize,
                f: usize, g: usize, h: usize, i: usize, j: usize, comm: usize, status: usize,
            ) -> c_int {
                if waits_by_counterpart() {
                    return send_and_receive(&ISEND, [&IRECV, &RECV], [a, b, c, d, e, comm], [f, g, h, i, j, comm], status);
                }
                let _waiting = patience::wait();
                pass!(OWN, a b c d e f g h i j comm status)
            }
        };
    };
}

sendrecv!("MPI_Sendrecv", "PMPI_Sendrecv\0", "PMPI_Isend\0", "PMPI_Irecv\0", "PMPI_Recv\0");
#[cfg(target_pointer_width = "64")]
sendrecv!("MPI_Sendrecv_c", "PMPI_Sendrecv_c\0", "PMPI_Isend_c\0", "PMPI_Irecv_c\0", "PMPI_Recv_c\0");
