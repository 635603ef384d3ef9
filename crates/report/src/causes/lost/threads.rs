//! The threads that losses are of.

use punctual_record::{Budget, Loss, ThreadBudget};

use super::words::spent;

/// The thread that a loss is of; that which is the furthest behind, where several have its name.
pub(super) fn thread_of<'a>(budget: &'a Budget, loss: &Loss) -> Option<&'a ThreadBudget> {
    let behind = |thread: &&ThreadBudget| thread.turns.as_ref().map_or(0, |turns| turns.behind_ns);
    let most = |thread: &&ThreadBudget| (behind(thread), spent(thread, loss), thread.tid == thread.pid);
    budget.threads.iter().filter(|thread| is_of(loss, thread)).max_by_key(most)
}

/// Whether a loss is of this thread, or of its process.
pub(super) fn is_of(loss: &Loss, thread: &ThreadBudget) -> bool {
    if loss.tid != 0 {
        return loss.tid == thread.tid;
    }
    loss.subject == thread.thread || loss.subject == thread.process && thread.tid == thread.pid
}
