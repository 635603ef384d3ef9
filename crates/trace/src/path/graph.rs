//! The text of the tracer `function_graph` (Documentation/trace/ftrace.rst), into calls.

use punctual_record::PathStep;

/// A call from a root function to its return.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) steps: Vec<PathStep>,
    /// An interrupt came in.
    pub(crate) interrupted: bool,
}

impl Graph {
    pub(crate) fn took_ns(&self) -> u64 {
        self.steps.first().and_then(|step| step.took_ns).unwrap_or(0)
    }
}

/// Whether this is the function, or the compiler's copy of it: `root.isra.0`.
fn is(name: &str, root: &str) -> bool {
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// All whole calls of one of these functions in the text. Lines look like ` 1)   0.250 us    |    get_timespec64();`.
pub(crate) fn parse(text: &str, roots: &[String]) -> Vec<Graph> {
    let (mut graphs, mut current, mut open) = (Vec::new(), Graph::default(), Vec::new());
    // How deep the root is called.
    let mut base = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.contains("==========>") {
            current.interrupted = true;
            continue;
        }
        let Some((before, after)) = line.split_once('|') else { continue };
        let (indent, code) = (after.len() - after.trim_start().len(), after.trim());
        let begun = code.strip_suffix("() {");
        if base.is_none() && begun.is_some_and(|name| roots.iter().any(|root| is(name, root))) {
            (base, current, open) = (Some(indent), Graph::default(), Vec::new());
        }
        let Some(from) = base else { continue };
        let depth = (indent.saturating_sub(from) / 2) as u32;
        if let Some(name) = begun {
            open.push(current.steps.len());
            current.steps.push(PathStep { depth, name: name.to_owned(), at_ns: None, took_ns: None });
        } else if let Some(name) = code.strip_suffix("();") {
            let took_ns = duration_ns(before);
            current.steps.push(PathStep { depth, name: name.to_owned(), at_ns: None, took_ns });
        } else if code.starts_with('}') {
            if let Some(step) = open.pop().and_then(|at| current.steps.get_mut(at)) {
                step.took_ns = duration_ns(before);
            }
            if open.is_empty() {
                graphs.push(std::mem::take(&mut current));
                base = None;
            }
        }
    }
    graphs
}

/// ` 1) ! 103.20 us   ` is 103200; none where the column is empty.
fn duration_ns(column: &str) -> Option<u64> {
    let mut words = column.split_whitespace().rev();
    let scale = match words.next()? {
        "us" => 1_000.0,
        "ms" => 1_000_000.0,
        "s" => 1_000_000_000.0,
        _ => return None,
    };
    let number: f64 = words.next()?.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * scale) as u64)
}

/// The call of median length among those that no interrupt came into; how many were, and how many were not.
pub(crate) fn median(graphs: Vec<Graph>) -> (Option<Graph>, u64, u64) {
    let (interrupted, mut whole): (Vec<Graph>, Vec<Graph>) = graphs.into_iter().partition(|graph| graph.interrupted);
    whole.sort_by_key(Graph::took_ns);
    let count = whole.len();
    let middle = (count > 0).then(|| whole.swap_remove(count / 2));
    (middle, count as u64, interrupted.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n\
        # |     |   |                     |   |   |   |\n\
        \x200)   0.100 us    |    } /* left over */\n\
        \x20 0)               |  __x64_sys_sched_yield() {\n\
        \x20 0)               |    do_sched_yield() {\n\
        \x20 0)   0.250 us    |      yield_task_fair();\n\
        \x20 0) + 12.500 us   |    }\n\
        \x20 0) ! 103.20 us   |  }\n\
        \x20 ------------------------------------------\n\
        \x20 0)   bash-1  =>  idle-0\n\
        \x20 0)               |  __x64_sys_sched_yield() {\n\
        \x20 0)   ==========> |\n\
        \x20 0)   9.000 us    |    }\n\
        \x20 0)   <========== |\n\
        \x20 0)   1.000 ms    |  }\n\
        \x20 0)               |  __x64_sys_sched_yield() {\n";

    #[test]
    fn whole_calls_are_read_with_their_depths() {
        let graphs = parse(TEXT, &["__x64_sys_sched_yield".to_owned()]);
        let steps: Vec<_> = graphs[0].steps.iter().map(|step| (step.depth, step.name.as_str(), step.took_ns)).collect();
        let all = [
            (0, "__x64_sys_sched_yield", Some(103_200)),
            (1, "do_sched_yield", Some(12_500)),
            (2, "yield_task_fair", Some(250)),
        ];
        assert_eq!(steps, all);
        assert_eq!((graphs.len(), graphs[0].interrupted, graphs[1].interrupted), (2, false, true));
        // In an instance all of a thread is traced: the root is called from somewhere.
        let inner = parse(TEXT, &["do_sched_yield".to_owned()]);
        assert_eq!((inner.len(), inner[0].steps[1].depth, inner[0].took_ns()), (1, 1, 12_500));
        assert!(parse(TEXT, &["other".to_owned(), "do_sched".to_owned()]).is_empty());
        let (middle, whole, interrupted) = median(graphs);
        assert_eq!((middle.unwrap().took_ns(), whole, interrupted), (103_200, 1, 1));
        assert_eq!(median(Vec::new()), (None, 0, 0));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(lines in proptest::collection::vec("( 0\\)|   1.0 us|  ==========>|)? *\\|? *(f\\(\\) \\{|f\\(\\);|\\}|é)", 0..30)) {
            for graph in parse(&lines.join("\n"), &["f".to_owned()]) {
                proptest::prop_assert!(!graph.steps.is_empty());
            }
        }
    }
}
