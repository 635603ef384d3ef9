//! The CPUs of a thread, and a cpuset that lacks some.

use punctual::{Conditions, CpuSet};
use punctual_linux::sched;
use punctual_testing::{Lack, lacks, skip};

use crate::common::{on_thread, privileged, state};

#[test]
fn a_cpu_outside_the_cpuset_is_refused_and_the_cpuset_named() {
    let mount = std::path::Path::new("/sys/fs/cgroup/cpuset");
    let cpus = punctual_linux::sched::affinity(0).unwrap();
    if !privileged() {
        return;
    }
    if !mount.join("cpuset.cpus").exists() {
        return lacks(Lack::File("/sys/fs/cgroup/cpuset/cpuset.cpus"));
    }
    if cpus.len() < 2 {
        return lacks(Lack::Cpus(2));
    }
    let group = mount.join(format!("punctual-test-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&group) {
        return skip(&format!("{}: {error}", group.display()));
    }
    let (inside, outside) = (cpus[0], cpus[1]);
    let (in_group, root_tasks) = (group.clone(), mount.join("tasks"));
    let (both, one) = on_thread(move || {
        let thread = sched::current_thread_id().to_string();
        std::fs::write(in_group.join("cpuset.mems"), "0").unwrap();
        std::fs::write(in_group.join("cpuset.cpus"), inside.to_string()).unwrap();
        std::fs::write(in_group.join("tasks"), &thread).unwrap();
        let before = state();
        let asked = |cpus: &[usize]| Conditions::new().cpus(&CpuSet::from_iter(cpus.to_vec()));
        let both = asked(&[inside, outside]).apply().refused;
        assert_eq!(state(), before);
        let one = asked(&[outside]).apply().refused;
        assert_eq!(state(), before);
        std::fs::write(root_tasks, &thread).unwrap();
        (both, one)
    });
    std::fs::remove_dir(&group).unwrap();
    let ([both], [one]) = (&both[..], &one[..]) else { panic!("{both:?}, {one:?}") };
    assert!(both.why.contains(&format!("CPU {outside} is online, but outside the cpuset")), "{both}");
    assert_eq!(one.errno, Some(22));
    for refused in [both, one] {
        let named = format!("which is {inside} ({}/cpuset.effective_cpus)", group.display());
        assert!(refused.why.contains(&named), "{refused}");
    }
}
