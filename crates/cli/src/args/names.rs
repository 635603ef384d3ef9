//! Names of methods and mechanisms on the command line: what each stands for.

use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::nearest::nearest;

/// What comes before the name of a kind: some kinds are called like one of their methods.
const KIND: &str = "kind:";

/// What can be chosen by name.
pub(crate) trait Item: Send + Sync + 'static {
    /// Its name.
    fn name(&'static self) -> &'static str;
    /// One line on it.
    fn about(&'static self) -> &'static str;
    /// Its kind, as it is written after `kind:`; none: these have no kinds.
    fn kind(&'static self) -> Option<String> {
        None
    }
}

/// The items that a command offers.
pub(crate) trait Shelf: Clone + Copy + Send + Sync + 'static {
    /// What stands on it.
    type Item: Item;
    /// What one of them is called in a refusal: `way to wait`.
    const WHAT: &'static str;
    /// The command that shows them all.
    const LIST: &'static str;

    /// All of them, in the order in which they are listed.
    fn all() -> impl Iterator<Item = &'static Self::Item>;
    /// Whether it is offered here, where the same shelf serves several commands. One that is not can still be named, and the command says
    /// why it does not take it.
    fn is_offered(_: &'static Self::Item) -> bool {
        true
    }
}

/// What a name stands for: one item, or all of a kind.
#[derive(Debug)]
pub(crate) struct Chosen<T: 'static>(Vec<&'static T>);

impl<T> Clone for Chosen<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// All that was named, each once; none: nothing was named.
pub(crate) fn chosen<T>(named: &[Chosen<T>]) -> Option<Vec<&'static T>> {
    let mut all: Vec<&'static T> = Vec::new();
    for item in named.iter().flat_map(|chosen| &chosen.0) {
        if !all.iter().any(|known| std::ptr::eq(*known, *item)) {
            all.push(item);
        }
    }
    (!named.is_empty()).then_some(all)
}

/// Reads the names of a shelf; a mistyped one is answered with those nearest to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<S>(PhantomData<S>);

impl<S: Shelf> Names<S> {
    /// The parser.
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }

    fn offered() -> impl Iterator<Item = &'static S::Item> {
        S::all().filter(|item| S::is_offered(item))
    }

    /// `kind:sleep` and so on, each once.
    fn kinds() -> Vec<String> {
        let mut kinds: Vec<String> = Vec::new();
        for kind in Self::offered().filter_map(Item::kind).map(|kind| format!("{KIND}{kind}")) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn read(name: &str) -> Result<Chosen<S::Item>, String> {
        if let Some(kind) = name.strip_prefix(KIND) {
            let of_kind: Vec<_> = Self::offered().filter(|item| item.kind().as_deref() == Some(kind)).collect();
            if !of_kind.is_empty() {
                return Ok(Chosen(of_kind));
            }
        }
        match S::all().find(|item| item.name() == name) {
            Some(item) => Ok(Chosen(vec![item])),
            None => {
                let names = Self::offered().map(|item| item.name().to_owned()).chain(Self::kinds());
                let near = nearest(name, names);
                let near = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
                Err(format!("not a {}{near} (`{}` shows all)", S::WHAT, S::LIST))
            }
        }
    }
}

impl<S: Shelf> TypedValueParser for Names<S> {
    type Value = Chosen<S::Item>;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let name = value.to_string_lossy();
        Self::read(&name).map_err(|constraint| {
            let mut refused = clap::Error::new(ErrorKind::ValueValidation).with_cmd(command);
            let argument = argument.map(ToString::to_string).unwrap_or_default();
            refused.insert(ContextKind::InvalidArg, ContextValue::String(argument));
            refused.insert(ContextKind::InvalidValue, ContextValue::String(name.into_owned()));
            refused.insert(ContextKind::Custom, ContextValue::String(constraint));
            refused
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        // For completion, which has no use for kinds: to a shell, a colon ends a word.
        Some(Box::new(Self::offered().map(|item| PossibleValue::new(item.name()).help(item.about()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fruit(&'static str, &'static str);

    static FRUIT: [Fruit; 4] =
        [Fruit("apple", "pome"), Fruit("pear", "pome"), Fruit("plum", "drupe"), Fruit("drupe", "drupe")];

    impl Item for Fruit {
        fn name(&'static self) -> &'static str {
            self.0
        }
        fn about(&'static self) -> &'static str {
            "a fruit"
        }
        fn kind(&'static self) -> Option<String> {
            Some(self.1.to_owned())
        }
    }

    #[derive(Clone, Copy)]
    struct Basket;

    impl Shelf for Basket {
        type Item = Fruit;
        const WHAT: &'static str = "fruit";
        const LIST: &'static str = "basket --list";

        fn all() -> impl Iterator<Item = &'static Fruit> {
            FRUIT.iter()
        }
        fn is_offered(item: &'static Fruit) -> bool {
            item.0 != "plum"
        }
    }

    fn read(name: &str) -> Result<Vec<&'static str>, String> {
        Names::<Basket>::read(name).map(|chosen| chosen.0.iter().map(|fruit| fruit.0).collect())
    }

    #[test]
    fn a_name_is_an_item_and_a_kind_is_all_of_it() {
        assert_eq!(read("apple"), Ok(vec!["apple"]));
        assert_eq!(read("drupe"), Ok(vec!["drupe"]), "the item, not the kind of the same name");
        assert_eq!(read("kind:pome"), Ok(vec!["apple", "pear"]));
        assert_eq!(read("plum"), Ok(vec!["plum"]), "what is not offered can be named");
        assert_eq!(read("kind:drupe"), Ok(vec!["drupe"]), "and is in no kind");
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        assert_eq!(read("aple"), Err("not a fruit; nearest: apple (`basket --list` shows all)".into()));
        assert_eq!(read("qqqq"), Err("not a fruit (`basket --list` shows all)".into()));
        assert!(read("kind:pom").unwrap_err().contains("nearest: kind:pome"));
        assert!(read("ome").unwrap_err().contains("nearest: kind:pome "), "a part of a name");
        assert!(read("EA").unwrap_err().contains("nearest: pear "), "whatever its case");
        assert!(read("plu").unwrap_err().ends_with("not a fruit (`basket --list` shows all)"));
    }

    #[test]
    fn what_is_named_twice_is_chosen_once() {
        let named: Vec<_> = ["pear", "kind:pome"].map(|name| Names::<Basket>::read(name).unwrap()).into();
        let names: Vec<_> = chosen(&named).unwrap().iter().map(|fruit| fruit.0).collect();
        assert_eq!(names, ["pear", "apple"]);
        assert!(chosen::<Fruit>(&[]).is_none());
    }
}
