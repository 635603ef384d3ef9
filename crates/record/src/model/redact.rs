//! A run without what may be private: command lines, and the paths of files and control groups.

use std::collections::BTreeMap;

use super::{Causes, Run, ThreadBudget, TimePart};

impl Run {
    /// Replaces the words of command lines, and the paths of files and control groups: `/file-1`, `/cgroup-2`. What was one path is one still.
    /// Names of threads, processes, functions and source files stay.
    pub fn redact(&mut self) {
        let mut paths = Paths::default();
        for command in std::iter::once(&mut self.command).chain(self.merged_from.iter_mut().map(|run| &mut run.command))
        {
            // `punctual why`.
            command.truncate(2);
        }
        self.causes.iter_mut().for_each(|causes| paths.hide_in_causes(causes));
    }
}

/// The paths that were replaced so far.
#[derive(Default)]
struct Paths {
    files: BTreeMap<String, usize>,
    cgroups: BTreeMap<String, usize>,
}

impl Paths {
    fn hide_in_causes(&mut self, causes: &mut Causes) {
        for loss in &mut causes.losses {
            self.file(&mut loss.place.file);
            self.cgroup(&mut loss.place.cgroup);
        }
        let Some(budget) = &mut causes.budget else { return };
        for ThreadBudget { parts, .. } in budget.threads.iter_mut().chain(&mut budget.others) {
            parts.iter_mut().for_each(|part| self.hide_in_part(part));
        }
        budget.quotas.iter_mut().for_each(|quota| hide(&mut quota.cgroup, &mut self.cgroups, "cgroup"));
        budget.memory.iter_mut().for_each(|limit| hide(&mut limit.cgroup, &mut self.cgroups, "cgroup"));
        budget.pressure.iter_mut().for_each(|pressure| self.cgroup(&mut pressure.cgroup));
    }

    fn hide_in_part(&mut self, part: &mut TimePart) {
        self.file(&mut part.thing.file);
        self.cgroup(&mut part.thing.cgroup);
        let frames = part.caller.iter_mut().flat_map(|caller| &mut caller.frames);
        frames.for_each(|frame| hide(&mut frame.file, &mut self.files, "file"));
        if let Some(who) = &mut part.who {
            self.cgroup(&mut who.cgroup);
            who.meanwhile.iter_mut().for_each(|did| self.hide_in_part(did));
        }
    }

    fn file(&mut self, path: &mut Option<String>) {
        path.iter_mut().for_each(|path| hide(path, &mut self.files, "file"));
    }

    fn cgroup(&mut self, path: &mut Option<String>) {
        path.iter_mut().for_each(|path| hide(path, &mut self.cgroups, "cgroup"));
    }
}

fn hide(path: &mut String, known: &mut BTreeMap<String, usize>, kind: &str) {
    let next = known.len() + 1;
    let number = *known.entry(std::mem::take(path)).or_insert(next);
    *path = format!("/{kind}-{number}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Budget, Caller, Frame, Loss, LossKind, LossPlace, MemoryLimit, Pressure, Quota, Thing, Who};

    fn secret() -> TimePart {
        let [file, cgroup] = ["/home/ann/payroll.db", "/ann.slice"].map(|path| Some(path.to_owned()));
        let frame = Frame { function: "main".to_owned(), file: "/home/ann/payroll.db".to_owned(), ..Frame::default() };
        let caller = Some(Box::new(Caller { ns: 1, frames: vec![frame] }));
        TimePart { thing: Thing { file, cgroup, ..Thing::default() }, caller, ..TimePart::default() }
    }

    #[test]
    fn no_path_and_no_argument_is_left_and_equal_paths_stay_equal() {
        let cgroup = || "/ann.slice".to_owned();
        let who = Who { cgroup: Some(cgroup()), meanwhile: Some(Box::new(secret())), ..Who::default() };
        let parts = vec![secret(), TimePart { who: Some(who), ..secret() }];
        let thread = ThreadBudget { parts, ..ThreadBudget::default() };
        let budget = Budget {
            others: Some(thread.clone()),
            threads: vec![thread],
            quotas: vec![Quota { cgroup: cgroup(), ..Quota::default() }],
            memory: vec![MemoryLimit { cgroup: "/other.slice".to_owned(), ..MemoryLimit::default() }],
            pressure: vec![Pressure { cgroup: Some(cgroup()), ..Pressure::default() }],
            ..Budget::default()
        };
        let place =
            LossPlace { file: Some("/home/ann/payroll.db".into()), cgroup: Some(cgroup()), ..LossPlace::default() };
        let loss = Loss { kind: LossKind::Disk, ns: 1, times: 1, subject: "server".into(), tid: 1, place };
        let mut causes = Causes { budget: Some(budget), losses: vec![loss], ..Causes::default() };
        Paths::default().hide_in_causes(&mut causes);
        let text = serde_json::to_string(&causes).unwrap();
        assert!(!["ann", "payroll", "slice"].iter().any(|secret| text.contains(secret)), "{text}");
        assert_eq!((text.matches("/file-1\"").count(), text.matches("/file-2\"").count()), (13, 0), "{text}");
        let budget = causes.budget.unwrap();
        assert_eq!((&*budget.quotas[0].cgroup, &*budget.memory[0].cgroup), ("/cgroup-1", "/cgroup-2"));
        assert_eq!(causes.losses[0].place.cgroup.as_deref(), Some("/cgroup-1"));
    }
}
