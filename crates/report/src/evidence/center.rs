//! The centre of paired differences of which some lie far off.
//!
//! The p99 of a short run jumps. With one disturbance more it is a millisecond, with one less a tenth of that. The mean
//! of such differences is ruled by the jumps. This centre counts a difference by its size up to half of their standard
//! deviation, and by its sign beyond. Source: P. J. Huber, *Robust estimation of a location parameter*, 1964.
//!
//! Takes one or several differences of each pair. Returns their centre, and the influence of each pair on it. The
//! influences take the place of deviations from a mean. Their variance, divided by the number of pairs, is that of the
//! centre.

use punctual_record::statistics::median;

use super::middle::OF_MEDIAN;

/// Size from which only the sign counts, in robust standard deviations. Decided on simulated machines like those of
/// `tests/all/power.rs`. At 1.3 a comparison takes a third more runs; with the mean, more than twice as many.
const BY_SIZE: f64 = 0.5;

/// Most steps towards the centre. Each moves it to the mean of what is clipped around it.
const STEPS: usize = 100;

/// The centre, and the influence of each pair.
pub(crate) fn center(pairs: &[Vec<f64>], least: f64) -> (f64, Vec<f64>) {
    let all: Vec<f64> = pairs.iter().flatten().copied().collect();
    let mut center = median(&all).unwrap_or(0.0);
    let away: Vec<f64> = all.iter().map(|value| (value - center).abs()).collect();
    let reach = (BY_SIZE * OF_MEDIAN * median(&away).unwrap_or(0.0)).max(least);
    let mut found = influences(pairs, center, reach);
    for _ in 0..STEPS {
        let step = found.iter().sum::<f64>() / found.len().max(1) as f64;
        center += step;
        found = influences(pairs, center, reach);
        if step.abs() < 1e-12 {
            break;
        }
    }
    (center, found)
}

/// The clipped distance of each pair from the centre, over the share of the values that are not clipped.
fn influences(pairs: &[Vec<f64>], center: f64, reach: f64) -> Vec<f64> {
    let mean = |values: &[f64], of: &dyn Fn(f64) -> f64| {
        values.iter().map(|value| of(value - center)).sum::<f64>() / values.len().max(1) as f64
    };
    let inside = |away: f64| f64::from(u8::from(away.abs() <= reach));
    let counted = pairs.iter().map(|its| mean(its, &inside)).sum::<f64>() / pairs.len().max(1) as f64;
    // Without any value inside, a step is as long as the reach.
    let counted = if counted > 0.0 { counted } else { 1.0 };
    pairs.iter().map(|its| mean(its, &|away| away.clamp(-reach, reach)) / counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn singles(values: &[f64]) -> Vec<Vec<f64>> {
        values.iter().map(|value| vec![*value]).collect()
    }

    #[test]
    fn a_few_jumps_do_not_move_it_far() {
        let calm = [0.38, 0.40, 0.41, 0.39, 0.42, 0.40, 0.38, 0.41];
        let (alone, _) = center(&singles(&calm), 0.0);
        let (with_jumps, _) = center(&singles(&[&calm[..], &[2.5, -2.0]].concat()), 0.0);
        assert!((alone - 0.4).abs() < 0.01 && (with_jumps - 0.4).abs() < 0.02, "{alone} {with_jumps}");
        let (more_up, _) = center(&singles(&[&calm[..], &[2.5; 6]].concat()), 0.0);
        assert!(more_up > with_jumps + 0.01, "a jump still counts by its sign: {more_up}");
    }

    #[test]
    fn equal_differences_have_no_spread() {
        assert_eq!(center(&singles(&[0.5; 6]), 0.0), (0.5, vec![0.0; 6]));
    }

    proptest! {
        #[test]
        fn it_lies_among_the_values_and_its_influences_cancel(
            values in prop::collection::vec(-3.0f64..3.0, 3..60), by in -2.0f64..2.0
        ) {
            let (found, influences) = center(&singles(&values), 0.03);
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
            prop_assert!((low - 1e-9..=high + 1e-9).contains(&found));
            prop_assert!(influences.iter().sum::<f64>().abs() < 1e-3 * values.len() as f64);
            let moved: Vec<f64> = values.iter().map(|value| -value + by).collect();
            let (other, _) = center(&singles(&moved), 0.03);
            prop_assert!((found + other - by).abs() < 1e-2, "mirrored and moved: {} {}", found, other);
        }
    }
}
