//! The conditions to measure under.

use std::time::Duration;

use clap::Args;
use punctual::conditions::{Conditions, CpuSet, Policy};
use punctual_lab::{BadVariant, Variant};

use super::values;
use crate::exit::BadUsage;

/// The conditions to measure under. A refused one is a notice with its remedy, unless `--require` is given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct ConditionArgs {
    /// Scheduling policy: other, batch, idle, rr:PRIO, fifo:PRIO (1-99), deadline:RUNTIME/DEADLINE/PERIOD;
    /// several, separated by commas, are put side by side
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    pub(crate) policy: Vec<Policy>,
    /// Nice value, -20 (favoured) to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::nice)]
    pub(crate) nice: Option<i32>,
    /// CPUs to run on (0-3,8)
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuSet>,
    /// Lock memory and touch the stack beforehand, so that no page fault delays a wake-up
    #[arg(long)]
    pub(crate) lock_memory: bool,
    /// Timer slack: how much later than asked the kernel may wake a thread to save energy (50us is usual, 1ns the least);
    /// several are put side by side
    #[arg(long, value_name = "DUR", value_delimiter = ',', value_parser = values::timer_slack)]
    pub(crate) timer_slack: Vec<Duration>,
    /// Longest exit latency of a CPU idle state to allow (0us: no idle state but polling)
    #[arg(long, value_name = "DUR", value_parser = values::dma_latency)]
    pub(crate) dma_latency: Option<Duration>,
    /// CPU frequency governor for the run, on the CPUs of --cpu, or on all; put back afterwards
    #[arg(long, value_name = "NAME")]
    pub(crate) governor: Option<String>,
    /// Fail when a condition is refused, instead of measuring without it
    #[arg(long)]
    pub(crate) require: bool,
}

impl ConditionArgs {
    /// The governor asked for.
    pub(crate) fn governor(&self) -> Option<punctual_lab::governor::Asked> {
        let cpus = self.cpu.as_ref().map(|cpus| cpus.as_slice().to_vec()).unwrap_or_default();
        self.governor.clone().map(|governor| punctual_lab::governor::Asked { governor, cpus, require: self.require })
    }

    /// What holds for the whole run.
    pub(crate) fn base(&self) -> Conditions {
        Conditions {
            nice: self.nice,
            cpus: self.cpu.clone(),
            lock_memory: self.lock_memory,
            dma_latency: self.dma_latency,
            ..Conditions::default()
        }
    }

    /// What is put side by side.
    pub(crate) fn variants(&self) -> Result<Vec<Variant>, BadVariant> {
        Variant::product(&self.policy, &self.timer_slack)
    }

    /// Refuses what this machine could not do under any circumstances.
    pub(crate) fn check(&self) -> Result<(), BadUsage> {
        match self.base().impossible_here() {
            Some(no) => Err(BadUsage(format!("--{} {}: {}; {}", no.condition, no.asked, no.why, no.remedy))),
            None => Ok(()),
        }
    }

    /// Whether anything was asked about scheduling, so that nothing is compared unasked.
    pub(crate) fn any(&self) -> bool {
        !self.policy.is_empty() || !self.timer_slack.is_empty() || self.base() != Conditions::default()
    }
}
