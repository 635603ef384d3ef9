//! The kernel lab on the command line: boots a Debian kernel and runs a command in it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use punctual_vm::{Kernel, Machine, Table, User};

/// What to boot and run.
#[derive(Debug, clap::Args)]
pub(crate) struct VmArgs {
    /// Fetch these kernels and run nothing [default: all]
    #[arg(long, value_name = "KERNEL", num_args = 0.., conflicts_with = "command")]
    fetch: Option<Vec<Kernel>>,
    /// Kernel: 6.1, 6.1-rt, 6.12, 6.12-rt, 7.3, 7.3-rt
    #[arg(long, default_value = "6.1")]
    kernel: Kernel,
    /// CPUs, 1 to 8
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Memory in MB
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// Firmware tables: pstates (acpi-cpufreq), cppc (amd_pstate), cstates (acpi_idle), none
    #[arg(long, value_delimiter = ',', default_value = "pstates")]
    table: Vec<String>,
    /// Kernel modules to load, with their dependencies
    #[arg(long, value_delimiter = ',')]
    module: Vec<String>,
    /// Words to append to the kernel's command line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Files or folders to copy, HOST or HOST:GUEST; programs bring their libraries
    #[arg(long, value_name = "HOST[:GUEST]")]
    file: Vec<String>,
    /// Folder of the host to mount on /out, writable
    #[arg(long, value_name = "DIR")]
    share: Option<PathBuf>,
    /// Run the command as a plain user
    #[arg(long)]
    user: bool,
    /// Time limit in seconds
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Show the kernel's console afterwards
    #[arg(long)]
    console: bool,
    /// Copy this punctual instead of building the release binary
    #[arg(long, value_name = "FILE")]
    punctual: Option<PathBuf>,
    /// A shell script in one word, or a program and its arguments; `punctual` is in PATH
    #[arg(last = true)]
    command: Vec<String>,
}

/// Fetches kernels, or boots one. Returns the command's exit status.
pub(crate) fn run(args: &VmArgs) -> anyhow::Result<u8> {
    if let Some(kernels) = &args.fetch {
        let kernels = if kernels.is_empty() { &Kernel::ALL[..] } else { kernels };
        for kernel in kernels {
            kernel.fetch().with_context(|| format!("kernel {kernel}"))?;
            println!("kernel {kernel}: fetched");
        }
        return Ok(0);
    }
    anyhow::ensure!(!args.command.is_empty(), "no command given (example: -- punctual governor show); or use --fetch");
    args.kernel.fetch()?;
    let punctual = args.punctual.clone().map_or_else(crate::tools::punctual, Ok)?;
    let tables = args.table.iter().filter(|name| *name != "none").map(|name| name.parse().map_err(anyhow::Error::msg));
    let mut machine = Machine {
        cpus: args.cpus,
        memory_mb: args.memory,
        tables: tables.collect::<anyhow::Result<Vec<Table>>>()?,
        modules: args.module.clone(),
        append: args.append.clone(),
        share: args.share.clone(),
        limit: Duration::from_secs(args.limit),
        user: if args.user { User::Plain } else { User::Root },
        ..Machine::new(args.kernel)
    }
    .file(punctual, "usr/bin/punctual");
    for file in &args.file {
        let (host, guest) = match file.split_once(':') {
            Some((host, guest)) => (PathBuf::from(host), PathBuf::from(guest)),
            None => {
                (PathBuf::from(file), PathBuf::from("root").join(PathBuf::from(file).file_name().unwrap_or_default()))
            }
        };
        machine = machine.file(host, guest);
    }
    let script = match args.command.as_slice() {
        [script] => script.clone(),
        words => punctual_vm::quoted(words),
    };
    let done = machine.run(&script)?;
    print!("{}", done.stdout);
    eprint!("{}", done.stderr);
    if args.console {
        eprint!("{}", done.console);
    }
    Ok(done.status)
}
