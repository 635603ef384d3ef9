//! What experiments are made of: their list, enumerations of words, and structs of metrics, each by a macro; what an experiment was asked and
//! what came out; and the rules that combine the metrics of two runs. A metric that one run lacks is unknown for both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Parameters and metrics of one experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Typed<P, M: Default + PartialEq> {
    /// What was asked.
    pub parameters: P,
    /// What came out beside the samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: M,
}

impl<P, M: Default + PartialEq> Typed<P, M> {
    /// These parameters, nothing measured yet.
    pub fn asked(parameters: P) -> Self {
        Self { parameters, metrics: M::default() }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The samples behind each of the two.
pub(crate) type Weights = (u64, u64);

/// A number that can be averaged.
pub(super) trait Average {
    fn average(self, other: Self, weights: Weights) -> Self;
}

impl Average for f64 {
    fn average(self, other: Self, (n, m): Weights) -> Self {
        let all = n as f64 + m as f64;
        if all > 0.0 { self * (n as f64 / all) + other * (m as f64 / all) } else { self }
    }
}

impl Average for i64 {
    fn average(self, other: Self, weights: Weights) -> Self {
        (self as f64).average(other as f64, weights).round() as i64
    }
}

/// The mean, weighted by samples.
pub(super) fn mean<T: Average>(mine: Option<T>, other: Option<T>, weights: Weights) -> Option<T> {
    Some(mine?.average(other?, weights))
}

/// The sum of both counts.
pub(super) fn sum(mine: Option<u64>, other: Option<u64>, _: Weights) -> Option<u64> {
    Some(mine?.saturating_add(other?))
}

/// The smaller value.
pub(super) fn least<T: Ord>(mine: Option<T>, other: Option<T>, _: Weights) -> Option<T> {
    Some(mine?.min(other?))
}

/// The value on which both agree.
pub(super) fn same<T: PartialEq>(mine: Option<T>, other: Option<T>, _: Weights) -> Option<T> {
    if mine == other { mine } else { None }
}

/// One list after the other.
pub(super) fn joined<T: Clone>(mine: Option<Vec<T>>, other: Option<Vec<T>>, _: Weights) -> Option<Vec<T>> {
    Some([mine?, other?].concat())
}

/// The mean of each entry; an entry that one lacks counts as zero there.
pub(super) fn mean_of_each(
    mine: Option<BTreeMap<u64, f64>>,
    other: Option<BTreeMap<u64, f64>>,
    weights: Weights,
) -> Option<BTreeMap<u64, f64>> {
    let (mine, other) = (mine?, other?);
    let share = |map: &BTreeMap<u64, f64>, key| map.get(&key).copied().unwrap_or(0.0);
    let keys = mine.keys().chain(other.keys()).copied();
    Some(keys.map(|key| (key, share(&mine, key).average(share(&other, key), weights))).collect())
}

/// What an experiment is asked and what comes out. A parameter may be absent where a `?` follows its name. Each metric has the rule by which
/// those of two runs are merged (a function of this file).
macro_rules! metrics {
    (
        $(#[$asked:meta])* pub struct Parameters {
            $($(#[$about:meta])* $parameter:ident $(?: $optional:ty)? $(: $required:ty)?,)*
        }
        $($metrics:tt)*
    ) => {
        $(#[$asked])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct Parameters {
            $(
                $(#[$about])*
                $(pub $parameter: $required,)?
                $(
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub $parameter: Option<$optional>,
                )?
            )*
        }

        metrics! { $($metrics)* }
    };
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty => $rule:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $field: Option<$kind>,
            )*
        }

        impl $name {
            #[allow(unused_variables, reason = "an experiment may have no metrics")]
            pub(crate) fn merge(&mut self, other: &Self, weights: (u64, u64)) {
                $(self.$field = $crate::experiment::metrics::$rule(self.$field.take(), other.$field.clone(), weights);)*
            }
        }
    };
}

/// The list of experiments: variant, constant of its name in the record, that name, module of its types, accessor.
macro_rules! experiments {
    ($($(#[$about:meta])* $variant:ident($NAME:ident = $name:literal, $module:ident) = $accessor:ident,)*) => {
        /// The experiment of a series, with what it was asked and what came out.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "experiment")]
        pub enum Experiment {
            $(
                $(#[$about])*
                #[serde(rename = $name)]
                $variant(Typed<$module::Parameters, $module::Metrics>),
            )*
            /// One that this version does not know: it is listed, and nothing is concluded from it.
            #[serde(untagged)]
            Other(Other),
        }

        impl Experiment {
            /// The names of all experiments, in the order in which reports show them.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            $(
                #[doc = concat!("The name `", $name, "`.")]
                pub const $NAME: &'static str = $name;
            )*

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::Other(other) => &other.name,
                }
            }

            /// What was asked, as names and values.
            #[must_use]
            pub fn parameters(&self) -> BTreeMap<String, Param> {
                match self {
                    $(Self::$variant(typed) => fields(&typed.parameters),)*
                    Self::Other(other) => other.parameters.clone(),
                }
            }

            /// What came out, as names and values.
            #[must_use]
            pub fn metrics(&self) -> BTreeMap<String, Param> {
                match self {
                    $(Self::$variant(typed) => fields(&typed.metrics),)*
                    Self::Other(other) => other.metrics.clone(),
                }
            }

            /// The experiment of this name with these parameters and metrics, as they stand in a file.
            pub(crate) fn from_parts(name: String, parameters: Value, metrics: Option<Value>) -> Result<Self, String> {
                // An absent map counts as empty: every metric is optional.
                let metrics = metrics.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
                match name.as_str() {
                    $($name => Ok(Self::$variant(Typed {
                        parameters: serde_json::from_value(parameters).map_err(|e| format!("parameters of {}: {e}", $name))?,
                        metrics: serde_json::from_value(metrics).map_err(|e| format!("metrics of {}: {e}", $name))?,
                    })),)*
                    _ => Ok(Self::Other(Other {
                        name,
                        parameters: serde_json::from_value(parameters).map_err(|e| format!("parameters: {e}"))?,
                        metrics: serde_json::from_value(metrics).map_err(|e| format!("metrics: {e}"))?,
                    })),
                }
            }

            /// Adds the metrics of another series of the same parameters; the weights are both series' samples.
            pub(crate) fn merge(&mut self, other: &Self, weights: (u64, u64)) {
                match (self, other) {
                    $((Self::$variant(mine), Self::$variant(theirs)) => mine.metrics.merge(&theirs.metrics, weights),)*
                    (Self::Other(mine), Self::Other(theirs)) => mine.metrics.retain(|name, value| theirs.metrics.get(name) == Some(value)),
                    _ => {}
                }
            }

            $(
                #[doc = concat!("Parameters and metrics of `", $name, "`, if it is that.")]
                #[must_use]
                pub fn $accessor(&self) -> Option<&Typed<$module::Parameters, $module::Metrics>> {
                    match self {
                        Self::$variant(typed) => Some(typed),
                        _ => None,
                    }
                }
            )*
        }
    };
}

/// An enumeration whose values are words in the record.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All of them, in the order of their definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its word in the record.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_does_what_it_says() {
        assert_eq!(mean(Some(10.0), Some(40.0), (2, 1)), Some(20.0));
        assert_eq!(mean(Some(10_i64), Some(40), (1, 2)), Some(30));
        assert_eq!(mean(Some(10.0), None, (2, 1)), None);
        assert_eq!(mean(Some(10.0), Some(4.0), (0, 0)), Some(10.0));
        assert_eq!(sum(Some(u64::MAX), Some(1), (1, 1)), Some(u64::MAX));
        assert_eq!(least(Some(3), Some(2), (9, 1)), Some(2));
        assert_eq!(same(Some("a"), Some("a"), (1, 1)), Some("a"));
        assert_eq!(same(Some("a"), Some("b"), (1, 1)), None);
        assert_eq!(joined(Some(vec![1]), Some(vec![2, 1]), (1, 1)), Some(vec![1, 2, 1]));
        assert_eq!(joined(Some(vec![1]), None, (1, 1)), None);
        let (one, other) = (BTreeMap::from([(1, 1.0)]), BTreeMap::from([(2, 1.0)]));
        assert_eq!(mean_of_each(Some(one), Some(other), (1, 3)), Some(BTreeMap::from([(1, 0.25), (2, 0.75)])));
    }
}
