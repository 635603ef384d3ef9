//! Names of methods and mechanisms on the command line: what each stands for.

use clap::builder::{OsStringValueParser, PossibleValue, TypedValueParser};

use super::values::unique;
use crate::refusal::Nearest;

/// What comes before the name of a kind: some kinds are called like one of their methods.
const KIND: &str = "kind:";

/// What stands in a list of names.
pub(crate) struct Item {
    /// Its name.
    pub(crate) name: &'static str,
    /// One line on it.
    pub(crate) about: &'static str,
    /// Its kind; none: these have no kinds.
    pub(crate) kind: Option<&'static str>,
}

impl Item {
    /// The kind, as it is written after `kind:`.
    fn kind(&self) -> Option<String> {
        self.kind.map(|kind| kind.replace(' ', "-"))
    }
}

/// The items that a command offers.
pub(crate) struct Shelf<T: 'static> {
    /// What one of them is called in a refusal: `way to wait`.
    pub(crate) what: &'static str,
    /// The command that shows them all.
    pub(crate) list: &'static str,
    /// All of them, in the order in which they are listed.
    pub(crate) all: fn() -> Vec<&'static T>,
    /// What stands in the list of names.
    pub(crate) item: fn(&'static T) -> Item,
    /// Whether it is offered here, where the same shelf serves several commands. One that is not can still be named, and the command says
    /// why it does not take it.
    pub(crate) is_offered: fn(&'static T) -> bool,
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
    let all = named.iter().flat_map(|chosen| chosen.0.iter().copied());
    (!named.is_empty()).then(|| unique(all, |one, other| std::ptr::eq(*one, *other)))
}

/// Reads the names of a shelf; a mistyped one is answered with those nearest to it.
pub(crate) struct Names<T: 'static>(pub(crate) &'static Shelf<T>);

impl<T> Clone for Names<T> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<T> Names<T> {
    /// What is offered, each with its entry.
    fn offered(&self) -> impl Iterator<Item = (&'static T, Item)> {
        let shelf = self.0;
        (shelf.all)()
            .into_iter()
            .filter(|method| (shelf.is_offered)(method))
            .map(|method| (method, (shelf.item)(method)))
    }

    /// `kind:sleep` and so on, each once.
    fn kinds(&self) -> Vec<String> {
        let kinds = self.offered().filter_map(|(_, item)| item.kind());
        unique(kinds.map(|kind| format!("{KIND}{kind}")), String::eq)
    }

    /// The error says what the name is not, and which are near.
    fn read(&self, name: &str) -> Result<Chosen<T>, String> {
        if let Some(kind) = name.strip_prefix(KIND) {
            let is_of = |item: &Item| item.kind().as_deref() == Some(kind);
            let of_kind: Vec<_> = self.offered().filter(|(_, item)| is_of(item)).map(|(one, _)| one).collect();
            if !of_kind.is_empty() {
                return Ok(Chosen(of_kind));
            }
        }
        let Shelf { what, list, all, item, .. } = self.0;
        all().into_iter().find(|method| item(method).name == name).map(|method| Chosen(vec![method])).ok_or_else(|| {
            let spaces = if name.contains(',') { "; names are separated by spaces" } else { "" };
            let names = self.offered().map(|(_, item)| item.name.to_owned()).chain(self.kinds());
            format!("not a {what}{spaces}{} (`{list}` shows all)", Nearest::to(name, names))
        })
    }
}

impl<T: Sync> TypedValueParser for Names<T> {
    type Value = Chosen<T>;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let names = self.clone();
        let parser = OsStringValueParser::new().try_map(move |name| names.read(&name.to_string_lossy()));
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        // For completion, which has no use for kinds: to a shell, a colon ends a word.
        Some(Box::new(self.offered().map(|(_, item)| PossibleValue::new(item.name).help(item.about))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fruit(&'static str, &'static str);

    static FRUIT: [Fruit; 4] =
        [Fruit("apple", "pome"), Fruit("pear", "pome"), Fruit("plum", "drupe"), Fruit("drupe", "drupe")];

    static BASKET: Shelf<Fruit> = Shelf {
        what: "fruit",
        list: "basket --list",
        all: || FRUIT.iter().collect(),
        item: |fruit| Item { name: fruit.0, about: "a fruit", kind: Some(fruit.1) },
        is_offered: |fruit| fruit.0 != "plum",
    };

    fn read(name: &str) -> Result<Vec<&'static str>, String> {
        let chosen = Names(&BASKET).read(name)?;
        Ok(chosen.0.iter().map(|fruit| fruit.0).collect())
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
        let named: Vec<_> = ["pear", "kind:pome"].map(|name| Names(&BASKET).read(name).unwrap()).into();
        let names: Vec<_> = chosen(&named).unwrap().iter().map(|fruit| fruit.0).collect();
        assert_eq!(names, ["pear", "apple"]);
        assert!(chosen::<Fruit>(&[]).is_none());
    }
}
