//! Correction for multiple comparisons.
//!
//! Y. Benjamini and Y. Hochberg (1995): at most the share `level` of the reported differences is expected to be false.
//! If nothing differs at all, `level` is also the probability of any report.

use super::LEVEL;

/// The probabilities that are significant at this level.
fn significant(probabilities: &[f64], level: f64) -> Vec<bool> {
    let count = probabilities.len() as f64;
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let passes = |(rank, &place): (usize, &usize)| probabilities[place] <= level * (rank + 1) as f64 / count;
    let kept = order.iter().enumerate().filter(|&(rank, place)| passes((rank, place))).map(|(rank, _)| rank + 1).max();
    let mut chosen = vec![false; probabilities.len()];
    for &place in &order[..kept.unwrap_or(0)] {
        chosen[place] = true;
    }
    chosen
}

/// Which of several tests are significant, at [`LEVEL`].
pub(crate) struct Corrected {
    /// In the order of the tests; what was not tested is not significant.
    pub(crate) significant: Vec<bool>,
    /// How many were tested.
    pub(crate) tested: usize,
    /// Error probability of the intervals of selected differences (Y. Benjamini and D. Yekutieli, 2005).
    pub(crate) miss: f64,
}

/// Corrects tests for their number; `None`: not tested.
pub(crate) fn corrected(probabilities: impl IntoIterator<Item = Option<f64>>) -> Corrected {
    let all: Vec<Option<f64>> = probabilities.into_iter().collect();
    let known: Vec<f64> = all.iter().flatten().copied().collect();
    let chosen = significant(&known, LEVEL);
    let selected = chosen.iter().filter(|&&chosen| chosen).count().max(1);
    let mut chosen = chosen.into_iter();
    let significant = all.iter().map(|its| its.is_some() && chosen.next() == Some(true)).collect();
    Corrected { significant, tested: known.len(), miss: LEVEL * selected as f64 / known.len().max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of the 1995 paper, section 4: of fifteen, the first four are rejected.
    #[test]
    fn as_in_the_paper() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0000,
        ];
        let chosen = significant(&p, 0.05);
        assert_eq!(chosen.iter().filter(|&&chosen| chosen).count(), 4);
        assert!(chosen[..4].iter().all(|&chosen| chosen));
        assert!(significant(&[], 0.05).is_empty());
    }

    proptest! {
        #[test]
        fn never_laxer_than_one_alone_nor_stricter_than_bonferroni(p in prop::collection::vec(0.0f64..=1.0, 1..60)) {
            let chosen = significant(&p, 0.05);
            for (chosen, p_of) in chosen.iter().zip(&p) {
                prop_assert!(!chosen || *p_of <= 0.05);
                prop_assert!(*chosen || *p_of > 0.05 / p.len() as f64);
            }
        }
    }
}
