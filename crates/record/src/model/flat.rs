//! Fast reading of structs that contain a flattened [`Summary`].
//!
//! To read a flattened struct, serde keeps all fields as untyped values first. A run has such a struct in every round,
//! and this dominated the time to read a large run. Here one struct lists all the fields and is read at once. serde
//! still does the writing.

use serde::{Deserialize, Deserializer};

/// Most series of one run. Real runs have up to some thousands; a million would exhaust memory.
pub const MOST_SERIES: usize = 100_000;

/// Implements `Deserialize` for a struct with these fields and a `summary`; where `struct` says so, it declares it too.
macro_rules! flat {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        $vis struct $name {
            $($vis $field: $kind,)*
            $vis summary: $crate::model::summary::Summary,
        }
        flat! { $name { $($(#[$attribute])* $field: $kind,)* } }
    };
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* }) => {
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(::serde::Deserialize)]
                struct Flat {
                    $($(#[$attribute])* $field: $kind,)*
                    count: u64,
                    negative: u64,
                    overflow: u64,
                    min: Option<i64>,
                    p50: Option<i64>,
                    p90: Option<i64>,
                    p99: Option<i64>,
                    p999: Option<i64>,
                    max: Option<i64>,
                    mean: Option<f64>,
                    stdev: Option<f64>,
                    ci95: $crate::model::summary::Ci95,
                }
                let flat = Flat::deserialize(deserializer)?;
                let summary = $crate::model::summary::Summary {
                    count: flat.count,
                    negative: flat.negative,
                    overflow: flat.overflow,
                    min: flat.min,
                    p50: flat.p50,
                    p90: flat.p90,
                    p99: flat.p99,
                    p999: flat.p999,
                    max: flat.max,
                    mean: flat.mean,
                    stdev: flat.stdev,
                    ci95: flat.ci95,
                };
                Ok(Self { $($field: flat.$field,)* summary })
            }
        }
    };
}
pub(super) use flat;

/// A list without spare capacity: its length is unknown while it is read.
pub(super) fn tight<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut items = Vec::deserialize(deserializer)?;
    items.shrink_to_fit();
    Ok(items)
}

/// At most [`MOST_SERIES`] items. More are refused before they take memory.
pub(super) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "a list of at most {MOST_SERIES} series")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(series) = items.next_element()? {
                if all.len() == MOST_SERIES {
                    return Err(serde::de::Error::invalid_length(MOST_SERIES + 1, &self));
                }
                all.push(series);
            }
            all.shrink_to_fit();
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Bounded(std::marker::PhantomData))
}
