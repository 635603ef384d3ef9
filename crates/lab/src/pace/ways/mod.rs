//! All ways to pace, one small item each.

mod kernel;
mod library;
mod relative;
mod scheduled;

use super::way::Way;

/// Every way there is, those that this machine lacks included: from what people write first to what does best.
pub fn all() -> impl Iterator<Item = &'static Way> {
    [relative::WAYS, scheduled::WAYS, library::WAYS, kernel::WAYS].into_iter().flatten()
}

/// The way called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Way> {
    all().find(|way| way.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_means_one_way() {
        for way in all() {
            assert!(std::ptr::eq(find(way.name).unwrap(), way), "{} twice", way.name);
            assert!(!way.about.is_empty() && !way.call.is_empty());
        }
    }
}
