//! [`Need`]: what a refused request lacks, as a value.
//!
//! A program decides by it, or prints the refusal alone. The words of the remedy are no part of this library: the `punctual`
//! command has them.

use std::path::PathBuf;
use std::time::Duration;

use crate::cpu_set::CpuSet;

/// Who withholds a privilege from the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// A user namespace: the scheduler and the limits ignore its capabilities.
    ByUserNamespace,
    /// A container of this kind.
    ByContainer(String),
    /// Something took the capability from root.
    FromRoot,
    /// The user is not root.
    FromUser,
}

/// What would let a refused request succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Nothing known.
    Unknown,
    /// No request: the value can be read, and not be set.
    NoRequest,
    /// A value within the bounds that the reason names.
    WithinBounds,
    /// One of the values that the reason lists.
    OneOfThose,
    /// No other program that changes the same setting.
    NoOtherSetter,
    /// A seccomp filter that allows this call.
    Call(&'static str),
    /// This version of Linux or a later one, and a seccomp filter that allows the call.
    Linux(u32, u32, Option<&'static str>),
    /// This file system, mounted.
    Mounted(&'static str),
    /// The call in the process itself.
    OwnProcess,
    /// For a thread of another: its user and its limits, or CAP_SYS_NICE.
    OtherThread(Withheld),
    /// CAP_SYS_NICE.
    SysNice(Withheld),
    /// CAP_SYS_NICE, or consent to a change that cannot be undone.
    WayBack(Withheld),
    /// CAP_SYS_NICE, or RLIMIT_NICE for a nice value of 0.
    LeaveIdle(Withheld),
    /// RLIMIT_NICE for this nice value, or CAP_SYS_NICE.
    NiceLimit(i32, Withheld),
    /// RLIMIT_RTPRIO, or CAP_SYS_NICE.
    RtPriority {
        /// The priority.
        priority: u64,
        /// Whether the hard limit suffices already.
        within_hard_limit: bool,
        /// Who withholds it.
        withheld: Withheld,
    },
    /// Real-time bandwidth of the cpu cgroup, of which this file is 0.
    GroupBandwidth(String),
    /// Real-time bandwidth of the machine.
    Bandwidth,
    /// The root cgroup, which alone has real-time bandwidth.
    RootGroup,
    /// Consent of a security module or seccomp filter, in a container of this kind where there is one.
    RealTimeAllowed(Option<String>),
    /// Less SCHED_DEADLINE runtime on the machine.
    LessRuntime,
    /// No restriction of the CPUs of a SCHED_DEADLINE thread, or an exclusive cpuset.
    DeadlineOnAllCpus,
    /// A period that the kernel allows.
    DeadlinePeriod,
    /// SCHED_OTHER or SCHED_BATCH.
    FairPolicy,
    /// A time slice from the first to the second.
    SliceBetween(Duration, Duration),
    /// A timer slack of at most this.
    SlackAtMost(Duration),
    /// Nothing else that sets the timer slack of the thread, and no filter that skips the call.
    SlackLeftAlone,
    /// A C-state exit latency that the kernel can count.
    LessLatency,
    /// RLIMIT_MEMLOCK, or CAP_IPC_LOCK.
    MemoryLimit {
        /// Whether the hard limit suffices already.
        within_hard_limit: bool,
        /// Who withholds it.
        withheld: Withheld,
    },
    /// At least one CPU in the request.
    ACpu,
    /// CPUs of these.
    CpusOf(CpuSet),
    /// CPUs of the first list, or the CPU brought online.
    OnlineCpu(CpuSet, usize),
    /// These CPUs in the container.
    CpusInContainer(CpuSet, String),
    /// CPUs of the cpuset of the process, in a container of this kind where there is one.
    CpusOfCpuset(Option<String>),
    /// The CPUs of a SCHED_DEADLINE thread left as they are.
    CpusOfDeadline,
    /// The CPUs whose interrupts have to leave.
    MeasuredCpus,
    /// Fewer CPUs in the request.
    FewerCpus,
    /// A second CPU.
    SecondCpu,
    /// The folder of interrupts.
    InterruptFolder,
    /// This device in the container.
    DeviceInContainer(&'static str, String),
    /// Idle states, and a kernel that bounds them.
    IdleStates,
    /// Write access to /dev/cpu_dma_latency.
    LatencyDevice,
    /// A setting that the driver has.
    AttributeOfDriver,
    /// Write access to the file.
    WriteAccess,
    /// /sys and /proc/irq mounted for writing.
    WritableMount,
    /// The CPU, which may have gone offline.
    CpuStillOnline,
    /// Another governor.
    OtherGovernor,
    /// A value that the driver offers.
    OfferedValue,
    /// The kernel's log, which may say more.
    KernelLog,
    /// A name or a number of the form of the setting.
    SettingForm,
    /// The end of the program that holds the settings.
    HolderEnded,
    /// The removal of this file or folder.
    Removed(PathBuf),
    /// The host of the virtual machine.
    Host,
    /// Performance states in the firmware, and their driver.
    PerformanceStates,
    /// A CPU that is online.
    AnOnlineCpu,
    /// The module of this governor.
    GovernorModule(String),
    /// The governor `userspace`.
    Userspace,
    /// A frequency in the range that the reason names.
    FrequencyInRange,
    /// No other program and no firmware that sets the frequency.
    NoOtherFrequencySetter,
    /// Another way to raise the speed.
    Lever,
    /// For a ring: a name that is not taken.
    FreeName,
    /// For a ring: the other side, which has to create it first.
    CreatedFirst,
    /// For a ring: its descriptor, which another user can pass.
    PassedDescriptor,
    /// For a ring: fewer bytes, or more shared memory.
    SharedMemory,
    /// More open files.
    FileLimit,
    /// For a ring: the file or the memory of one.
    ARing,
    /// For a ring: the same version of its layout on both sides.
    SameVersion,
    /// For a ring: a memfd that cannot shrink (F_SEAL_SHRINK).
    SealedMemory,
    /// For a ring: an end that no other process has.
    FreeEnd,
    /// The end of this process, which restores the setting.
    EndOfProcess,
    /// This value written to the file once its CPU is online.
    ValueWritten {
        /// The value.
        value: String,
        /// The file.
        file: PathBuf,
    },
}
