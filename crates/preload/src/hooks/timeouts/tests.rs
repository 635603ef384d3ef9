use super::*;

fn time(sec: i64, nsec: i64) -> timespec {
    timespec { tv_sec: sec as _, tv_nsec: nsec as _ }
}

#[test]
fn a_limit_is_rounded_up_to_milliseconds() {
    for (limit, ms) in [(time(0, 0), 0), (time(0, 1), 1), (time(0, 1_000_000), 1), (time(2, 1_000_001), 2_002)] {
        assert_eq!(ms_of(Some(&limit)), ms);
    }
    assert_eq!((ms_of(None), ms_of(Some(&time(1 << 40, 0)))), (-1, c_int::MAX));
}

#[test]
fn a_call_that_looks_is_not_concerned() {
    let polls = Settings { poll_first_ns: 1, ..Settings::default() };
    let precise = Settings { precise: Some(Default::default()), ..Settings::default() };
    assert_eq!([Some(1), None].map(|limit| concerned(&polls, limit)), [true, true]);
    assert_eq!([Some(1), None].map(|limit| concerned(&precise, limit)), [true, false]);
    assert!(!concerned(&Settings::default(), Some(1)) && concerning(Caller::UNKNOWN, Limit::Look).is_none());
}

/// A select on the reading end of an empty pipe, whose number is in the set.
fn with_pipe(run: impl FnOnce(&mut Select, &mut [c_ulong; WORDS], &std::io::PipeWriter)) {
    use std::os::fd::AsRawFd as _;
    let (reader, writer) = std::io::pipe().unwrap();
    let place = reader.as_raw_fd() as usize;
    let mut set = [0; WORDS];
    set[place / c_ulong::BITS as usize] = 1 << (place % c_ulong::BITS as usize);
    let none = std::ptr::null_mut();
    let given = [set.as_mut_ptr(), none, none];
    let count = place as c_int + 1;
    let mut call = Select { count, given, asked: [[0; WORDS]; 3], mask: None, answered: false };
    assert!(call.copy_sets());
    run(&mut call, &mut set, &writer);
}

#[test]
fn an_answer_without_events_is_undone_by_an_error() {
    with_pipe(|call, set, _| {
        let asked = *set;
        assert_eq!((call.look(), *set), (0, asked), "a look is on copies");
        assert_eq!((call.answer(), *set), (0, [0; WORDS]));
        assert_eq!((call.finish(-1), *set), (-1, asked), "the kernel leaves the sets as they are");
        assert_eq!((call.finish(0), *set), (0, [0; WORDS]));
    });
}

#[test]
fn an_event_is_answered_in_the_sets_of_the_program() {
    with_pipe(|call, set, mut writer| {
        let asked = *set;
        assert_eq!(call.answer(), 0);
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        assert_eq!((call.block(None), *set), (1, asked));
        assert_eq!((call.finish(1), *set), (1, asked));
    });
}

#[test]
fn a_limit_of_nanoseconds_is_not_shorter_for_select() {
    with_pipe(|call, _, _| {
        for limit in [time(0, 999_999_001), time(0, 1_001)] {
            let began_ns = now_ns();
            assert_eq!(call.ask_copies(Some(&limit)), 0);
            assert!(now_ns() - began_ns >= length_ns(&limit).unwrap(), "early");
        }
    });
}

#[test]
fn a_call_has_the_mask_that_it_got() {
    with_pipe(|call, _, _| {
        assert!(call.mask().is_null());
        // SAFETY: an empty set is all zero.
        let mask: sigset_t = unsafe { std::mem::zeroed() };
        call.mask = Some(&raw const mask);
        assert_eq!(call.mask(), &raw const mask);
        let (mask, found) = (&raw const mask, std::ptr::null_mut());
        for call in [
            Events::Ppoll { fds: std::ptr::null_mut(), count: 0, mask },
            Events::EpollPwait { epoll: -1, found, most: 0, mask },
            Events::EpollPwait2 { epoll: -1, found, most: 0, mask },
        ] {
            assert_eq!(call.mask(), mask);
        }
    });
}

#[test]
fn more_descriptors_than_a_set_has_are_left_to_the_c_library() {
    with_pipe(|call, _, _| {
        for count in [libc::FD_SETSIZE as c_int + 1, -1] {
            call.count = count;
            assert!(!call.copy_sets(), "{count}");
        }
    });
}
