//! The plan of `yield`: methods, competitors and CPU, validated before anything is changed.

use punctual::Policy;
use punctual::conditions::Conditions;
use punctual_record::experiment::yielding::{CompetitorKind, Rank};

use crate::crowd::{self, Restraint};
use crate::frame::{self, Family as _, Input, PlanError, at_least_one, one_cpu, place_of};
use crate::ways::YieldMethod;

/// Policy of the competitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompetitorPolicy {
    /// The policy under which `punctual` was started.
    AsFound,
    /// The caller's policy, in each of its variants.
    Same,
    /// A policy of their own.
    Policy(Policy),
}

/// Competitors of one kind, policy and nice value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompetitorSpec {
    /// Processes or threads.
    pub kind: CompetitorKind,
    /// Their policy. None: as found.
    pub policy: Option<Policy>,
    /// Their nice value. None: as found.
    pub nice: Option<i32>,
    /// Their rank relative to the caller.
    pub rank: Rank,
}

/// The rank of a competitor's policy and priority relative to the caller's. None: as found. Nice values are not
/// compared: they change shares, not precedence.
fn rank_of(competitor: Option<Policy>, caller: Option<Policy>) -> Rank {
    let found = Conditions::inspect().get_policy().unwrap_or(Policy::Other);
    let place = |policy: Option<Policy>| match policy.unwrap_or(found) {
        Policy::Idle => 0,
        Policy::Other | Policy::Batch => 1,
        Policy::RoundRobin(priority) | Policy::Fifo(priority) => 1 + i32::from(priority),
        Policy::Deadline { .. } => 1000,
    };
    match place(competitor).cmp(&place(caller)) {
        std::cmp::Ordering::Greater => Rank::Higher,
        std::cmp::Ordering::Equal => Rank::Same,
        std::cmp::Ordering::Less => Rank::Lower,
    }
}

impl CompetitorSpec {
    /// Their way of releasing the CPU. Only a real-time member needs to. Against a caller of its own rank it yields
    /// after each burst: the caller's own yields decide who runs. Otherwise it sleeps.
    pub(crate) fn restraint(&self) -> Restraint {
        match (self.policy.as_ref().is_some_and(Policy::is_real_time), self.rank) {
            (false, _) => Restraint::None,
            (true, Rank::Same) => Restraint::Yields,
            (true, _) => Restraint::Sleeps,
        }
    }

    /// Their conditions on this CPU.
    pub(crate) fn conditions(&self, cpu: usize) -> Conditions {
        Conditions::new().maybe(self.policy, Conditions::policy).maybe(self.nice, Conditions::nice).cpu(cpu)
    }

    /// Their policy and nice value in the record.
    pub(crate) fn label(&self) -> String {
        let policy = self.policy.map_or_else(|| "as found".to_owned(), |p| p.to_string());
        self.nice.map_or_else(|| policy.clone(), |nice| format!("{policy}, nice {nice}"))
    }
}

/// One method, one situation, one variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Index into [`Plan::methods`].
    pub method: usize,
    /// Index into the variants of the request.
    pub variant: usize,
    /// Index into [`Plan::specs`]. None: alone.
    pub(crate) spec: Option<usize>,
    /// Number of competitors. 0: alone.
    pub competitors: u32,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to yield.
    pub methods: Vec<&'static YieldMethod>,
    /// The cells, in the order of the first round.
    pub cells: Vec<Cell>,
    /// The specifications of the competitors.
    pub(crate) specs: Vec<CompetitorSpec>,
    /// Conditions of the caller, including its only CPU, and amounts.
    pub request: frame::Request,
    /// The CPU that the caller and its competitors share.
    pub cpu: usize,
    /// The observed system calls of each method.
    pub(super) observed: Vec<String>,
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ways to yield.
    pub methods: Vec<&'static YieldMethod>,
    /// Numbers of competitors. 0: alone.
    pub competitors: Vec<u32>,
    /// Processes, threads, or both.
    pub kinds: Vec<CompetitorKind>,
    /// Their policies.
    pub competitor_policies: Vec<CompetitorPolicy>,
    /// Their nice value.
    pub competitor_nice: Option<i32>,
    /// Conditions of the caller, and amounts. They name one CPU, or none: then one is chosen.
    pub frame: frame::Request,
}

impl Plan {
    /// Checks the request and lays out the cells.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let cpu = one_cpu(request.frame.base.get_cpus().as_ref())?;
        if let Some(many) = request.competitors.iter().find(|n| **n > crowd::MOST) {
            let why = format!("at most {} share a CPU here, not {many}", crowd::MOST);
            return Err(PlanError::new(Input::Competitors, why));
        }
        request.frame.check()?;
        at_least_one(Input::Methods, request.methods.len() as u32)?;
        let plan = Self::lay_out(request, cpu);
        plan.checked()
    }

    fn lay_out(request: Request, cpu: usize) -> Self {
        let base = request.frame.base.cpu(cpu);
        let mut plan = Self {
            methods: request.methods,
            cells: Vec::new(),
            specs: Vec::new(),
            request: frame::Request { base, ..request.frame },
            cpu,
            observed: Vec::new(),
        };
        for variant in 0..plan.request.variants.len() {
            for &competitors in &request.competitors {
                let specs = match competitors {
                    0 => vec![None],
                    _ => plan.specs_for(variant, &request.kinds, &request.competitor_policies, request.competitor_nice),
                };
                for spec in specs {
                    let cell = |method| Cell { method, variant, spec, competitors };
                    plan.cells.extend((0..plan.methods.len()).map(cell));
                }
            }
        }
        plan
    }

    fn specs_for(
        &mut self,
        variant: usize,
        kinds: &[CompetitorKind],
        policies: &[CompetitorPolicy],
        nice: Option<i32>,
    ) -> Vec<Option<usize>> {
        let mut specs = Vec::new();
        for &kind in kinds {
            for competitor_policy in policies {
                let policy = match *competitor_policy {
                    CompetitorPolicy::AsFound => None,
                    CompetitorPolicy::Same => self.request.variants[variant].conditions.get_policy(),
                    CompetitorPolicy::Policy(policy) => Some(policy),
                };
                let rank = rank_of(policy, self.request.variants[variant].conditions.get_policy());
                let spec = CompetitorSpec { kind, policy, nice, rank };
                let index = place_of(&mut self.specs, spec, PartialEq::eq);
                if !specs.contains(&Some(index)) {
                    specs.push(Some(index));
                }
            }
        }
        specs
    }

    /// The largest number of competitors of this specification in any cell.
    pub(crate) fn most_of(&self, spec: usize) -> u32 {
        self.cells.iter().filter(|c| c.spec == Some(spec)).map(|c| c.competitors).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::CpuSet;

    use super::*;
    use crate::families::yielding::methods;
    use crate::frame::{Amount, Variant};

    fn request() -> Request {
        Request {
            methods: vec![methods::find("sched_yield").unwrap(), methods::find("usleep0").unwrap()],
            competitors: vec![0, 1, 3],
            kinds: vec![CompetitorKind::Process],
            competitor_policies: vec![CompetitorPolicy::AsFound],
            competitor_nice: None,
            frame: frame::Request::as_found(Amount::Time(Duration::from_secs(1)), 10),
        }
    }

    #[test]
    fn every_situation_gets_every_method() {
        let plan = Plan::new(request()).unwrap();
        assert_eq!((plan.cells.len(), plan.specs.len(), plan.most_of(0)), (6, 1, 3));
        assert_eq!(plan.request.base.get_cpus(), Some(CpuSet::from_iter([plan.cpu])));
        let plan =
            Plan::new(Request { kinds: vec![CompetitorKind::Process, CompetitorKind::Thread], ..request() }).unwrap();
        assert_eq!((plan.cells.len(), plan.specs.len()), (10, 2));
    }

    #[test]
    fn the_same_policy_follows_the_caller() {
        let fifo = Policy::Fifo(40);
        let variants = [Policy::Other, fifo].map(|policy| Variant::new(Conditions::new().policy(policy))).to_vec();
        let competitor_policies =
            vec![CompetitorPolicy::Same, CompetitorPolicy::Policy(fifo), CompetitorPolicy::Policy(Policy::Idle)];
        let frame = frame::Request { variants, ..request().frame };
        let plan = Plan::new(Request { frame, competitor_policies, competitors: vec![1], ..request() }).unwrap();
        let met = |variant: usize| {
            let mut met: Vec<String> = plan
                .cells
                .iter()
                .filter(|c| c.variant == variant && c.method == 0)
                .map(|c| plan.specs[c.spec.unwrap()].label())
                .collect();
            met.sort();
            met
        };
        assert_eq!(met(0), ["fifo:40", "idle", "other"]);
        assert_eq!(met(1), ["fifo:40", "idle"]);
        let rank = |spec: &str, variant: Policy| rank_of(Some(spec.parse().unwrap()), Some(variant)).name();
        assert_eq!((rank("fifo:40", fifo), rank("rr:41", fifo), rank("idle", fifo)), ("same", "higher", "lower"));
        assert_eq!((rank("batch", Policy::Other), rank("fifo:1", Policy::Other)), ("same", "higher"));
        let restraints: Vec<Restraint> = plan.specs.iter().map(CompetitorSpec::restraint).collect();
        assert!(restraints.contains(&Restraint::Yields) && restraints.contains(&Restraint::Sleeps), "{restraints:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |request: Request| Plan::new(request).unwrap_err();
        let of_frame = |frame: frame::Request| refused(Request { frame, ..request() });
        let on = |cpus: &[usize]| {
            let base = Conditions::new().cpus(&CpuSet::from_iter(cpus.iter().copied()));
            of_frame(frame::Request { base, ..request().frame })
        };
        assert!(on(&[0, 1]).to_string().starts_with("invalid CPU: must be one CPU, not 0-1"));
        assert!(on(&[8000]).why.contains("may not run on CPU 8000"));
        let many = refused(Request { competitors: vec![65], ..request() });
        assert_eq!(many.to_string(), "invalid number of competitors: at most 64 share a CPU here, not 65");
        assert_eq!(of_frame(frame::Request { rounds: 0, ..request().frame }).input, Input::Rounds);
        let endless = of_frame(frame::Request { amount: Amount::Samples(1 << 40), ..request().frame });
        assert!(endless.input == Input::Samples && endless.why.contains("give the time instead"), "{endless}");
    }
}
