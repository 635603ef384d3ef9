//! Locked memory of a program as small as the README's: it has one thread, and no more is mapped than resident. A test harness has more
//! mapped, so this program has none.

use punctual::{Applied, Conditions};
use punctual_linux::memory::unlock_all;
use punctual_testing::{alone_on_this_machine, needs_root};

fn main() {
    if !needs_root("locking memory") {
        return;
    }
    let _alone = alone_on_this_machine();
    let Applied { guard, refused } = Conditions::new().lock_memory().apply();
    assert_eq!(refused, [], "the vdso is resident and cannot be locked");
    assert_eq!(guard.lost(), []);
    unlock_all().expect("munlockall");
    assert_eq!(guard.lost().len(), 1, "the program unlocked its memory");
    assert_eq!(guard.restore(), []);
}
