//! Repeats attempts that other programs disturbed.

/// Most attempts before a test fails.
const ATTEMPTS: u32 = 5;

/// An attempt was inconclusive because another program had the CPU, with the evidence. A failure that a quiet machine would show too
/// must panic instead.
#[derive(Debug)]
pub struct Disturbed(pub String);

/// Repeats a disturbed attempt, at most 5 times. The attempt gets the factor by which it may take longer than the first: 1, 2, 4 and so
/// on.
///
/// # Panics
/// If every attempt was disturbed, with the evidence of each.
#[track_caller]
pub fn undisturbed<T>(mut attempt: impl FnMut(u32) -> Result<T, Disturbed>) -> T {
    let mut said = Vec::new();
    for n in 0..ATTEMPTS {
        match attempt(1 << n) {
            Ok(done) => return done,
            Err(Disturbed(how)) => said.push(how),
        }
    }
    panic!("each of {ATTEMPTS} attempts was disturbed:\n{}", said.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_repeated_with_more_time_until_one_attempt_shows_something() {
        let mut seen = Vec::new();
        let shown = undisturbed(|longer| {
            seen.push(longer);
            if longer < 4 { Err(Disturbed("busy".into())) } else { Ok("shown") }
        });
        assert_eq!((shown, seen), ("shown", vec![1, 2, 4]));
    }

    #[test]
    #[should_panic(expected = "each of 5 attempts")]
    fn it_is_not_repeated_for_ever() {
        undisturbed(|longer| Err::<(), _>(Disturbed(format!("{longer} times"))));
    }
}
