//! A program does with the library what it does without.

use crate::support::{compiled, run};

/// Every remedy, alone and together.
const SETTINGS: [&str; 12] = [
    "",
    "unknown=1",
    "usleep0=yield",
    "usleep0=pause",
    "usleep0=backoff",
    "sched-yield=pause",
    "sched-yield=backoff",
    "sched-yield=sleep",
    "precise-sleep",
    "precise-sleep=5us,poll-first=20us",
    "precise-sleep=5%,usleep0=backoff",
    "usleep0=yield,sched-yield=backoff,precise-sleep,poll-first=500us",
];

#[test]
fn every_call_returns_what_it_returns_without_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("calls.c", folder.path()) else { return };
    let bare = run(&program, None);
    let said = String::from_utf8_lossy(&bare.stdout).into_owned();
    assert_eq!(bare.status.code(), Some(5), "{said}");
    assert!(said.contains("cancelled: 1") && !said.contains("EARLY"), "{said}");
    for settings in SETTINGS {
        let output = run(&program, Some(settings));
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{settings}");
        assert_eq!(output.status, bare.status, "{settings}");
        assert!(output.stderr.is_empty(), "{settings}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn no_post_is_lost_and_no_wait_is_early() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("posts.c", folder.path()) else { return };
    for settings in [None, Some("precise-sleep"), Some("precise-sleep=5%,poll-first=20us")] {
        let output = run(&program, settings);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "3000 0 -1\n", "{settings:?}");
    }
}

#[test]
fn a_select_of_more_than_a_second_is_not_early() {
    let script = "import select, time; begin = time.monotonic(); select.select([], [], [], 1.001); print(time.monotonic() - begin >= 1.001)";
    for settings in ["precise-sleep", "poll-first=20us"] {
        let mut python = std::process::Command::new("python3");
        python.args(["-c", script]).env("LD_PRELOAD", crate::support::library()).env("PUNCTUAL_PRELOAD", settings);
        let Ok(output) = python.output() else { return punctual_testing::skip("python3") };
        assert_eq!(String::from_utf8_lossy(&output.stdout), "True\n", "{settings}");
    }
}

#[test]
fn a_python_program_does_too() {
    let script = "import asyncio, threading, time, select, subprocess, os\n\
        time.sleep(0.001); time.sleep(0)\n\
        asyncio.run(asyncio.wait_for(asyncio.sleep(0.002, 'slept'), 60))\n\
        threads = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(50)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]\n\
        print(select.select([], [], [], 0.001), threading.Event().wait(0.001), os.sched_yield())\n\
        print(subprocess.run(['sh', '-c', 'exit 3']).returncode)";
    let Ok(bare) = std::process::Command::new("python3").args(["-c", script]).output() else {
        return punctual_testing::skip("python3");
    };
    for settings in SETTINGS {
        let with = std::process::Command::new("python3")
            .args(["-c", script])
            .env("LD_PRELOAD", crate::support::library())
            .env("PUNCTUAL_PRELOAD", settings)
            .output()
            .unwrap();
        assert_eq!((with.status, with.stdout, with.stderr), (bare.status, bare.stdout.clone(), bare.stderr.clone()));
    }
}
