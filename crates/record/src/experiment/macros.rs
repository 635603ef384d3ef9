//! The macros behind the experiments' definitions: the list of experiments, and enumerations of words.

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
