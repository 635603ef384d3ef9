//! The kernel: its preemption model, tick rate and machine name.
//!
//! Takes the kernel's version string, its configuration if it is readable, and debugfs if access is allowed.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::tree::Tree;

/// Largest unpacked configuration; real ones have some 300 kB.
const MOST_CONFIG_BYTES: u64 = 8 << 20;

/// The kernel's build configuration; empty if it cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Config(Option<String>);

impl Config {
    /// From `/proc/config.gz`, or the copies that distributions install.
    pub(crate) fn read(tree: &Tree, release: Option<&str>) -> Self {
        let packed = tree.bytes("proc/config.gz").and_then(|bytes| unpack(&bytes));
        let installed = || {
            // A release is one path component; anything else would lead out of the folder.
            let release = release.filter(|release| !release.contains('/') && !release.starts_with('.'))?;
            let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
            places.iter().find_map(|place| tree.word(place))
        };
        Self(packed.or_else(installed))
    }

    /// The value of an option, `y` or a number; `None` if it is unset or unknown.
    fn get(&self, option: &str) -> Option<&str> {
        let lines = self.0.as_deref()?.lines();
        lines.filter_map(|line| line.trim().split_once('=')).find(|(name, _)| *name == option).map(|(_, value)| value)
    }

    fn has(&self, option: &str) -> bool {
        self.get(option) == Some("y")
    }

    /// `CONFIG_HZ`.
    pub(crate) fn hz(&self) -> Option<u32> {
        self.get("CONFIG_HZ")?.parse().ok().filter(|hz| (1..=100_000).contains(hz))
    }

    /// The built-in model, as far as the configuration alone determines it.
    fn preemption(&self) -> Option<&'static str> {
        let built = [
            ("CONFIG_PREEMPT_RT", "rt"),
            ("CONFIG_PREEMPT_DYNAMIC", "dynamic"),
            ("CONFIG_PREEMPT_LAZY", "lazy"),
            ("CONFIG_PREEMPT", "full"),
            ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
            ("CONFIG_PREEMPT_NONE", "none"),
        ];
        built.into_iter().find(|(option, _)| self.has(option)).map(|(_, model)| model)
    }
}

fn unpack(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).take(MOST_CONFIG_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The preemption model in force: from the scheduler (debugfs), else from the version string and the configuration.
pub(crate) fn preemption(tree: &Tree, release: Option<&str>, version: Option<&str>, config: &Config) -> Option<String> {
    if is_preempt_rt(tree.number("sys/kernel/realtime"), version) == Some(true) {
        return Some("rt".into());
    }
    let in_force = tree.text("sys/kernel/debug/sched/preempt");
    if let Some(model) = in_force.as_deref().and_then(chosen) {
        return Some(model.into());
    }
    let stated = version.and_then(|version| stated(version, release));
    stated.or_else(|| config.preemption()).map(Into::into)
}

/// The word in parentheses of `none voluntary (full) lazy`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('(')?;
    let (word, _) = rest.split_once(')')?;
    ["none", "voluntary", "full", "lazy"].contains(&word).then_some(word)
}

/// The model in a version string (init/Makefile: PREEMPT, PREEMPT_DYNAMIC, PREEMPT_RT). The absence of such a word
/// means `none` or `voluntary`. Since Linux 6.13 PREEMPT means `full` or `lazy`. In these cases only the configuration
/// decides.
fn stated(version: &str, release: Option<&str>) -> Option<&'static str> {
    let mut words = version.split_ascii_whitespace();
    match words.find(|word| word.starts_with("PREEMPT"))? {
        "PREEMPT_DYNAMIC" => Some("dynamic"),
        "PREEMPT" if release.and_then(numbers).is_some_and(|numbers| numbers < (6, 13)) => Some("full"),
        _ => None,
    }
}

/// Major and minor number of a release.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether PREEMPT_RT is built in: `/sys/kernel/realtime`, or the version string (`PREEMPT_RT`; `PREEMPT RT` before
/// Linux 5.4).
pub(crate) fn is_preempt_rt(realtime: Option<u8>, version: Option<&str>) -> Option<bool> {
    if realtime == Some(1) {
        return Some(true);
    }
    let words: Vec<&str> = version?.split_ascii_whitespace().collect();
    Some(words.contains(&"PREEMPT_RT") || words.windows(2).any(|pair| pair == ["PREEMPT", "RT"]))
}

/// `uname -m`: `/proc/sys/kernel/arch` since Linux 6.1; before that, on the machine itself, the target of this program.
pub(crate) fn architecture(tree: &Tree) -> Option<String> {
    tree.word("proc/sys/kernel/arch").or_else(|| tree.is_machine().then(|| std::env::consts::ARCH.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn models_of_version_strings() {
        let cases = [
            ("#1 SMP PREEMPT_DYNAMIC Debian 6.1.90-1", "6.1.0", Some("dynamic")),
            ("#1 SMP PREEMPT Mon Jan 1", "5.15.84-v8+", Some("full")),
            ("#1 SMP PREEMPT Mon Jan 1", "6.13.0", None),
            ("#1 SMP Debian 5.10.1", "5.10.0", None),
        ];
        for (version, release, model) in cases {
            assert_eq!(stated(version, Some(release)), model, "{version}");
        }
        assert_eq!(is_preempt_rt(None, Some("#1 SMP PREEMPT_RT Debian")), Some(true));
        assert_eq!(is_preempt_rt(None, Some("#1 SMP PREEMPT RT Mon")), Some(true));
        assert_eq!(is_preempt_rt(Some(1), None), Some(true));
        assert_eq!(is_preempt_rt(None, Some("#1 SMP PREEMPT")), Some(false));
        assert_eq!(is_preempt_rt(None, None), None);
    }

    #[test]
    fn model_in_force() {
        assert_eq!(chosen("none voluntary (full) lazy"), Some("full"));
        assert_eq!(chosen("none voluntary full"), None);
    }

    #[test]
    fn configuration() {
        let config = Config(Some(
            "# CONFIG_PREEMPT is not set\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n".into(),
        ));
        assert_eq!((config.hz(), config.preemption()), (Some(250), Some("voluntary")));
        assert_eq!((Config(None).hz(), Config(None).preemption()), (None, None));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in ".{0,60}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (chosen(&text), stated(&text, Some(&text)), numbers(&text), is_preempt_rt(None, Some(&text)), unpack(&bytes));
            let config = Config(Some(text));
            let _ = (config.hz(), config.preemption());
        }
    }
}
