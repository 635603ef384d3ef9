//! All ways to pace, one small item each.

mod handed_over;
mod sleeping;

use super::plan::PacingMethod;

/// All methods, including those that this machine lacks, from the common first version to the best one.
pub fn all() -> impl Iterator<Item = &'static PacingMethod> {
    [sleeping::METHODS, handed_over::METHODS].into_iter().flatten()
}

/// The method called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static PacingMethod> {
    all().find(|method| method.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_means_one_method() {
        for method in all() {
            assert!(std::ptr::eq(find(method.name).unwrap(), method), "{} twice", method.name);
            assert!(!method.about.is_empty() && !method.call.is_empty());
        }
    }
}
