//! Firmware tables that QEMU's own lack: P-states, CPPC, C-states.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;

use crate::tools;

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// P-states from 3.0 down to 1.0 GHz for acpi-cpufreq, with all six governors. Each CPU writes its P-state (1 to 6, 1 the fastest) to
    /// its own I/O port, readable through /dev/port.
    PStates,
    /// The same, all CPUs in one frequency domain: one policy for all.
    SharedPStates,
    /// CPPC for amd_pstate with energy-performance preferences. The active mode needs Linux 6.12.
    Cppc,
    /// Idle states C1 and C2 (80 µs) for acpi_idle. C2 returns at once, so idle CPUs spin; its counters are real.
    CStates,
}

impl FromStr for Table {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        match typed {
            "pstates" => Ok(Self::PStates),
            "pstates-shared" => Ok(Self::SharedPStates),
            "cppc" => Ok(Self::Cppc),
            "cstates" => Ok(Self::CStates),
            _ => Err(format!("unknown table '{typed}': expected pstates, pstates-shared, cppc or cstates")),
        }
    }
}

/// The I/O ports of the P-states of CPUs 0, 1 and so on. They are DMA page registers: plain storage, unused without ISA DMA.
const PSTATE_PORTS: [u16; 8] = [0x81, 0x82, 0x83, 0x87, 0x89, 0x8a, 0x8b, 0x8f];
/// Frequencies of the P-states, MHz.
const MEGAHERTZ: [u32; 6] = [3000, 2600, 2200, 1800, 1400, 1000];
/// Address of the CPPC mailbox, reserved with `memmap=`.
const MAILBOX: u64 = 0x0f00_0000;
/// Bytes of mailbox per CPU.
const PER_CPU: u64 = 64;

/// Additions of the tables to the command lines of QEMU and the kernel.
#[derive(Debug, Default)]
pub(crate) struct Firmware {
    pub(crate) qemu: Vec<String>,
    pub(crate) kernel: String,
    /// QEMU's `-cpu`, if not the default.
    pub(crate) cpu: Option<&'static str>,
    /// Kernel modules to load.
    pub(crate) modules: Vec<&'static str>,
}

/// Governors that Debian builds as modules; performance and schedutil are built in.
const GOVERNORS: [&str; 4] = ["cpufreq_powersave", "cpufreq_ondemand", "cpufreq_conservative", "cpufreq_userspace"];

/// Writes the tables' files to `folder`. They name exactly the CPUs that exist: the kernel refuses a table with one more.
pub(crate) fn make(tables: &[Table], cpus: u32, folder: &Path) -> anyhow::Result<Firmware> {
    let mut firmware = Firmware::default();
    for table in tables {
        let (name, source) = match table {
            Table::PStates => ("pstates", p_states(cpus, false)),
            Table::SharedPStates => ("pstates", p_states(cpus, true)),
            Table::Cppc => ("cppc", cppc(cpus)),
            Table::CStates => ("cstates", c_states(cpus)),
        };
        let compiled = compile(name, &source, folder)?;
        firmware.add_table(&compiled);
        match table {
            Table::PStates | Table::SharedPStates => {
                firmware.modules.push("acpi-cpufreq");
                firmware.modules.extend(GOVERNORS);
            }
            Table::Cppc => {
                let mailbox = folder.join("pcct.aml");
                std::fs::write(&mailbox, mailbox_table()).with_context(|| format!("writing {}", mailbox.display()))?;
                firmware.add_table(&mailbox);
                firmware.add_registers(cpus);
                firmware.kernel.push_str(" memmap=64K$0x0f000000 amd_pstate=active");
                firmware.cpu = Some("max,vendor=AuthenticAMD,family=25,model=1");
                firmware.modules.extend(GOVERNORS);
            }
            Table::CStates => {}
        }
    }
    Ok(firmware)
}

impl Firmware {
    fn add_table(&mut self, file: &Path) {
        self.qemu.extend(["-acpitable".into(), format!("file={}", file.display())]);
    }

    /// The mailbox as firmware initialises it: preference 128 (balance_performance), autonomous selection on.
    fn add_registers(&mut self, cpus: u32) {
        for cpu in 0..u64::from(cpus) {
            // The kernel adds 8 to every offset into the shared memory.
            let registers = MAILBOX + 8 + 8 + PER_CPU * cpu;
            for (offset, value) in [(44, 128), (40, 1)] {
                let device = format!("loader,addr={:#x},data={value},data-len=4", registers + offset);
                self.qemu.extend(["-device".into(), device]);
            }
        }
    }
}

fn compile(name: &str, source: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("{name}.asl"));
    std::fs::write(&file, source).with_context(|| format!("writing {}", file.display()))?;
    let target = folder.join(name);
    tools::output(tools::command("iasl")?.arg("-p").arg(&target).arg(&file))?;
    Ok(target.with_extension("aml"))
}

/// A secondary table (SSDT), with a body in the scope of each CPU.
fn table(id: &str, cpus: u32, before: &str, body: impl Fn(u32) -> String) -> String {
    let mut text = format!("DefinitionBlock (\"\", \"SSDT\", 2, \"LAB\", \"{id}\", 1)\n{{\n");
    for cpu in 0..cpus {
        let _ = writeln!(text, "  External (\\_SB.CPUS.C{cpu:03X}, DeviceObj)");
    }
    text.push_str(before);
    for cpu in 0..cpus {
        let _ = write!(text, "  Scope (\\_SB.CPUS.C{cpu:03X}) {{\n{}  }}\n", body(cpu));
    }
    text + "}\n"
}

/// A frequency domain of `cpus` CPUs, coordinated by software (0xFC).
fn domain(number: u32, cpus: u32) -> String {
    format!("    Name (_PSD, Package () {{ Package () {{ 5, 0, {number}, 0xFC, {cpus} }} }})\n")
}

fn p_states(cpus: u32, shared: bool) -> String {
    table("PSTATES", cpus, "", |cpu| {
        let port = PSTATE_PORTS[cpu as usize % PSTATE_PORTS.len()];
        let register = format!("ResourceTemplate () {{ Register (SystemIO, 8, 0, {port:#X}) }}");
        let mut body =
            format!("    Name (_PCT, Package () {{ {register}, {register} }})\n    Name (_PSS, Package () {{\n");
        // MHz, mW, transition latency and bus master latency in us, control, status
        let states = MEGAHERTZ.iter().zip(1..);
        let states: Vec<String> =
            states.map(|(mhz, n)| format!("      Package () {{ {mhz}, {}, 10, 10, {n}, {n} }}", mhz * 10)).collect();
        body.push_str(&states.join(",\n"));
        body.push_str(" })\n    Method (_PPC, 0) { Return (0) }\n");
        body + &if shared { domain(0, cpus) } else { domain(cpu, 1) }
    })
}

fn cppc(cpus: u32) -> String {
    // The kernel asks whether the platform supports CPPC: acknowledge everything.
    let before = "  Scope (\\_SB) { Method (_OSC, 4) {\n    CreateDWordField (Arg3, 0, STS0)\n    STS0 = 0\n    Return (Arg3) } }\n";
    table("CPPC", cpus, before, |cpu| {
        let base = 8 + PER_CPU * u64::from(cpu);
        let register =
            |bits: u32, at: u64| format!("ResourceTemplate () {{ Register (PCC, {bits}, 0, {:#X}, 0) }}", base + at);
        let none = || "ResourceTemplate () { Register (SystemMemory, 0, 0, 0, 0) }".to_owned();
        let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>();
        // ACPI 6.5, 8.4.6.1: 23 entries, revision 3
        let mut entries = numbers(&[23, 3, 255, 180, 100, 40]); // highest, nominal, lowest nonlinear, lowest performance
        entries.push(none()); // guaranteed
        entries.extend([register(32, 0), register(32, 4), register(32, 8)]); // desired, minimum, maximum
        entries.extend([none(), none(), none()]); // reduction tolerance, time window, wraparound
        entries.extend([register(64, 16), register(64, 24)]); // reference and delivered counters
        entries.extend([register(32, 32), register(32, 36), register(32, 40)]); // limited, enable, autonomous
        entries.extend([none(), register(32, 44), none()]); // autonomous window, preference, reference performance
        entries.extend(numbers(&[400, 1800])); // lowest and nominal MHz
        format!("    Name (_CPC, Package () {{ {} }})\n{}", entries.join(", "), domain(cpu, 1))
    })
}

/// The PCC table of one channel (ACPI 6.5, 14.1.2). The doorbell is the status byte of the shared memory, so that ringing it sets
/// "command complete" without firmware.
fn mailbox_table() -> Vec<u8> {
    let address = |width: u8, access: u8, at: u64| {
        let mut bytes = vec![0, width, 0, access];
        bytes.extend(at.to_le_bytes());
        bytes
    };
    let mut channel = vec![0_u8, 62];
    channel.extend([0; 6]);
    channel.extend(MAILBOX.to_le_bytes());
    channel.extend(0x1000_u64.to_le_bytes());
    channel.extend(address(8, 1, MAILBOX + 6));
    channel.extend(0xfe_u64.to_le_bytes()); // bits of the doorbell to keep
    channel.extend(1_u64.to_le_bytes()); // bits to set
    channel.extend(1_u32.to_le_bytes()); // nominal latency, us
    channel.extend(0_u32.to_le_bytes()); // no limit of accesses
    channel.extend(0_u16.to_le_bytes()); // no minimum interval
    debug_assert_eq!(channel.len(), 62);
    let mut table = b"PCCT".to_vec();
    table.extend((36 + 12 + channel.len() as u32).to_le_bytes());
    table.extend([1, 0]); // revision, checksum
    table.extend(b"LAB   LABPCCT ");
    table.extend(1_u32.to_le_bytes());
    table.extend(b"LAB ");
    table.extend(1_u32.to_le_bytes());
    table.extend([0; 12]);
    table.extend(channel);
    table[9] = table.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
    table
}

fn c_states(cpus: u32) -> String {
    table("CSTATES", cpus, "", |_| {
        // type, exit latency us, mW; C1 halts, C2 reads a port
        "    Name (_CST, Package () { 2,\n      Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0x0) }, 1, 2, 1000 },\n      \
         Package () { ResourceTemplate () { Register (SystemIO, 8, 0, 0x61) }, 2, 80, 100 } })\n"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mailbox_table_sums_to_zero_and_knows_its_length() {
        let table = mailbox_table();
        assert_eq!(table.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)), 0);
        assert_eq!(u32::from_le_bytes(table[4..8].try_into().unwrap()) as usize, table.len());
    }

    #[test]
    fn a_table_names_the_cpus_that_exist() {
        let source = p_states(2, false);
        assert!(source.contains("C000") && source.contains("C001") && !source.contains("C002"));
    }
}
