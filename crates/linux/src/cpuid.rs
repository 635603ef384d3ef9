//! Features that the CPU announces (the CPUID instruction).

/// The registers EAX, EBX, ECX, EDX of a leaf and sub-leaf. Leaves above the highest return data of another leaf (Intel) or zeros
/// (AMD): check leaf 0 or 8000_0000H first.
#[allow(unused_unsafe, reason = "the intrinsic is safe from Rust 1.92 on")]
pub(crate) fn leaf(leaf: u32, sub_leaf: u32) -> [u32; 4] {
    // SAFETY: every x86-64 CPU has CPUID.
    let answer = unsafe { std::arch::x86_64::__cpuid_count(leaf, sub_leaf) };
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}
