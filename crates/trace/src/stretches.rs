//! Time lost in consecutive stretches of a run, in bounded memory: what varies between them is scatter.

/// Stretches are joined in pairs when there are this many.
const MOST: usize = 32;
/// Wake-ups in the first stretches.
const FIRST: u64 = 16;

/// How many wake-ups each stretch has.
#[derive(Debug, Clone)]
pub(crate) struct Stretches {
    each: u64,
    wake_ups: Vec<u64>,
    /// How often stretches were joined.
    joined: u32,
}

/// The time of one cause in each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lost {
    ns: Vec<u64>,
    joined: u32,
}

impl Default for Stretches {
    fn default() -> Self {
        Self { each: FIRST, wake_ups: vec![0], joined: 0 }
    }
}

impl Stretches {
    /// Begins the next wake-up.
    pub(crate) fn next(&mut self) {
        if self.wake_ups.last() == Some(&self.each) {
            if self.wake_ups.len() == MOST {
                join(&mut self.wake_ups);
                (self.each, self.joined) = (self.each * 2, self.joined + 1);
            }
            if self.wake_ups.last() == Some(&self.each) {
                self.wake_ups.push(0);
            }
        }
        if let Some(last) = self.wake_ups.last_mut() {
            *last += 1;
        }
    }

    /// Adds time to the current stretch.
    pub(crate) fn add(&self, lost: &mut Lost, ns: u64) {
        while lost.joined < self.joined {
            join(&mut lost.ns);
            lost.joined += 1;
        }
        lost.ns.resize(self.wake_ups.len(), 0);
        if let Some(last) = lost.ns.last_mut() {
            *last += ns;
        }
    }

    /// Time per wake-up in each whole stretch, ns.
    pub(crate) fn per_wake_up(&self, lost: &Lost) -> Vec<f64> {
        let mut lost = lost.clone();
        self.add(&mut lost, 0);
        let whole = self.wake_ups.iter().zip(&lost.ns).filter(|(wake_ups, _)| **wake_ups == self.each);
        whole.map(|(wake_ups, ns)| *ns as f64 / *wake_ups as f64).collect()
    }
}

fn join(values: &mut Vec<u64>) {
    *values = values.chunks(2).map(|pair| pair.iter().sum()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn nothing_is_lost_by_joining(wake_ups in 1..5000_u64, every in 1..7_u64) {
            let (mut stretches, mut lost, mut total) = (Stretches::default(), Lost::default(), 0);
            for number in 0..wake_ups {
                stretches.next();
                if number % every == 0 {
                    stretches.add(&mut lost, number);
                    total += number;
                }
            }
            stretches.add(&mut lost, 0);
            proptest::prop_assert_eq!(lost.ns.iter().sum::<u64>(), total);
            proptest::prop_assert_eq!(stretches.wake_ups.iter().sum::<u64>(), wake_ups);
            proptest::prop_assert!(stretches.wake_ups.len() <= MOST && lost.ns.len() == stretches.wake_ups.len());
            let whole = wake_ups / stretches.each;
            proptest::prop_assert_eq!(stretches.per_wake_up(&lost).len() as u64, whole);
        }
    }
}
