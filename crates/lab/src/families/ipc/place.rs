//! The CPUs of the two processes.

use punctual_record::experiment::ipc::Placement;

use super::topology::Topology;
use crate::frame::{Input, PlanError};

/// The CPUs of the two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The CPU of the sender; in ping-pong, of the one that begins. None: any.
    pub sender: Option<usize>,
    /// The CPU of the receiver; in ping-pong, of the one that answers. None: any.
    pub receiver: Option<usize>,
}

impl Place {
    /// On these two CPUs.
    #[must_use]
    pub const fn on(sender: usize, receiver: usize) -> Self {
        Self { sender: Some(sender), receiver: Some(receiver) }
    }

    /// Both on one CPU.
    #[must_use]
    pub fn is_same(self) -> bool {
        self.sender.is_some() && self.sender == self.receiver
    }

    /// The name of its kind in the record.
    #[must_use]
    pub fn kind(self) -> Placement {
        match (self.sender, self.receiver) {
            (Some(a), Some(b)) if a == b => Placement::SameCpu,
            (Some(_), Some(_)) => Placement::TwoCpus,
            _ => Placement::AnyCpu,
        }
    }
}

/// The requested places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// One place with both on one CPU, and one with each on its own.
    Both,
    /// Both on one CPU.
    Same,
    /// Each on its own.
    Different,
    /// On these.
    On(usize, usize),
    /// Every pair of CPUs.
    Matrix,
}

impl Places {
    /// The places, on the usable CPUs. Two different CPUs belong to two cores, if there are two. With one CPU
    /// [`Places::Both`] is that one.
    pub fn on(&self, allowed: &[usize], topology: &Topology) -> Result<Vec<Place>, PlanError> {
        let list = || allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let one = || format!("two CPUs are asked for, and this process may use one ({})", list());
        let first = allowed.first().copied().unwrap_or(0);
        let second = topology.partner(first, allowed);
        let same = Place::on(first, first);
        let different = second.map(|second| Place::on(first, second));
        match *self {
            Self::Same => Ok(vec![same]),
            Self::Different => Ok(vec![different.ok_or_else(|| PlanError::new(Input::Places, one()))?]),
            Self::Both => Ok([Some(same), different].into_iter().flatten().collect()),
            Self::On(sender, receiver) => match [sender, receiver].into_iter().find(|cpu| !allowed.contains(cpu)) {
                Some(cpu) => {
                    let why = format!("CPU {cpu} is not among those this process may use ({})", list());
                    Err(PlanError::new(Input::Places, why))
                }
                None => Ok(vec![Place::on(sender, receiver)]),
            },
            Self::Matrix if second.is_none() => {
                Err(PlanError::new(Input::Matrix, format!("must have two CPUs or more, not one ({})", list())))
            }
            Self::Matrix => Ok(allowed.iter().flat_map(|&a| allowed.iter().map(move |&b| Place::on(a, b))).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_made_of_allowed_cpus() {
        let allowed = [2, 5, 7];
        let no = |why: &str| PlanError::new(Input::Places, why);
        let on = |places: Places, allowed: &[usize]| places.on(allowed, &Topology::default());
        assert_eq!(on(Places::Both, &allowed).unwrap(), [Place::on(2, 2), Place::on(2, 5)]);
        assert_eq!(on(Places::Matrix, &allowed).unwrap().len(), 9);
        let one = PlanError::new(Input::Matrix, "must have two CPUs or more, not one (4)");
        assert_eq!(on(Places::Matrix, &[4]), Err(one));
        assert_eq!(on(Places::On(7, 2), &allowed).unwrap(), [Place::on(7, 2)]);
        assert_eq!(on(Places::On(7, 3), &allowed), Err(no("CPU 3 is not among those this process may use (2,5,7)")));
        assert_eq!(on(Places::Both, &[4]).unwrap(), [Place::on(4, 4)]);
        assert_eq!(on(Places::Different, &[4]), Err(no("two CPUs are asked for, and this process may use one (4)")));
        assert_eq!((Place::on(1, 1).kind(), Place::on(1, 2).kind()), (Placement::SameCpu, Placement::TwoCpus));
    }
}
