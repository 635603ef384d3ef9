//! Repeating what other programs disturbed.

/// How often an attempt is made before a test fails.
const ATTEMPTS: u32 = 5;

/// An attempt showed nothing because something else had the CPU, and how that shows. What would be wrong on a quiet machine too is
/// none of these: there the test panics.
#[derive(Debug)]
pub struct Disturbed(pub String);

/// Repeats an attempt that was disturbed, a bounded number of times. The attempt gets the factor by which it may take longer than the first
/// one: 1, 2, 4 and so on.
///
/// # Panics
/// When every attempt was disturbed, with how each of them was.
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
