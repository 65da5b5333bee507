//! A back office that calls fifteen things, whose limits are written in one place: what a group has in common stands at its module or block,
//! what operations may tune comes from a file, and a function says only what is its own.

mod support;

use std::time::Duration;

use hystrix_core::{
    CommandConfig, ConfigError, Origin, Registry, Select, Timeout, command, command_of, commands,
};

// ===== the service =====

/// Reading: many at once, and nothing comes of an error that the caller could not show.
#[commands(group = "warehouse", semaphore = 64, fallback_semaphore = None)]
mod warehouse {
    use hystrix_core::{CommandError, command};

    pub type Answer<T> = Result<T, CommandError<String>>;

    #[command(fallback_value = 0)]
    pub async fn pieces(item: &str) -> Answer<usize> {
        found(item)
    }

    #[command(fallback_value = 0)]
    pub async fn reserved(item: &str) -> Answer<usize> {
        found(item)
    }

    #[command(fallback = |_| Ok("unknown".into()))]
    pub async fn shelf(item: &str) -> Answer<String> {
        Ok(format!("shelf {}", found(item)?))
    }

    #[command(semaphore = 2, timeout = "30s")]
    pub async fn recount(item: &str) -> Answer<usize> {
        found(item)
    }

    fn found(item: &str) -> Answer<usize> {
        if item.is_empty() { Err("no item".to_owned())? } else { Ok(item.len()) }
    }
}

/// Writing: on two threads, in order of arrival, and an error is an error.
struct Books(std::sync::Mutex<Vec<i64>>);

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident: $factor:expr;)*) => {
        #[commands(group = "books", thread_pool)]
        impl Books {
            $($(#[$doc])*
            #[command(to_owned(self))]
            fn $name(self: &std::sync::Arc<Self>, cents: u32) -> Result<i64, String> {
                let mut entries = self.0.lock().map_err(|_| "an entry panicked")?;
                let factor: i64 = $factor;
                entries.push(factor * i64::from(cents));
                Ok(entries.iter().sum())
            })*
        }
    };
}

entries! {
    sale: 1;
    refund: -1;
    fee: -1;
    interest: 1;
    correction: 1;
    /// Twice, because there is another side to it.
    transfer: 2;
}

/// What operations wrote: a line a group, with a timeout and a number of permits.
fn registry(file: &str) -> Result<Registry, ConfigError> {
    let everything = CommandConfig::new().timeout("2s");
    let mut registry = Registry::builder().strict().defaults(everything)?;
    for line in file.lines() {
        let mut words = line.split_whitespace();
        let (Some(group), Some(millis)) = (words.next(), words.next()) else { continue };
        let timeout = Duration::from_millis(millis.parse().unwrap_or(0));
        registry = registry.group_defaults(group, CommandConfig::new().timeout(timeout))?;
    }
    Ok(registry.build())
}

fn all() -> impl Iterator<Item = hystrix_core::Annotated> {
    let reading = [
        command_of!(warehouse::pieces),
        command_of!(warehouse::reserved),
        command_of!(warehouse::shelf),
        command_of!(warehouse::recount),
    ];
    let writing = [
        command_of!(Books::sale),
        command_of!(Books::refund),
        command_of!(Books::fee),
        command_of!(Books::interest),
        command_of!(Books::correction),
        command_of!(Books::transfer),
    ];
    reading.into_iter().chain(writing)
}

// ===== the tests =====

fn timeout(of: &hystrix_core::CommandHandle) -> (Timeout, Origin) {
    let setting = of.settings().timeout();
    (setting.value, setting.origin)
}

#[test]
fn what_is_nearer_to_the_function_wins() {
    let registry = registry("books 750").unwrap();
    let _own = registry.enter();
    registry.register(all()).unwrap();
    assert_eq!(registry.commands().len(), 10);

    let pieces = command_of!(warehouse::pieces);
    assert_eq!(pieces.key().to_string(), "warehouse/pieces");
    assert_eq!(timeout(&pieces), ("2s".into(), Origin::RegistryDefaults));
    assert_eq!(timeout(&command_of!(Books::fee)), ("750ms".into(), Origin::GroupDefaults));
    assert_eq!(timeout(&command_of!(warehouse::recount)), ("30s".into(), Origin::Code));
    let permits = [&pieces, &command_of!(warehouse::recount)].map(|of| of.settings().semaphore().value);
    assert_eq!(permits, [64.into(), 2.into()]);

    // At night, while it runs: over everything, and away again.
    let patient = CommandConfig::new().timeout("60s");
    registry.apply(Select::group("warehouse"), patient).unwrap();
    assert_eq!(timeout(&command_of!(warehouse::recount)), ("60s".into(), Origin::LiveGroup));
    assert!(registry.remove(&Select::group("warehouse")));
    assert_eq!(timeout(&pieces).1, Origin::RegistryDefaults);
}

#[tokio::test]
async fn a_function_adds_what_is_its_own() {
    let registry = registry("").unwrap();
    let _own = registry.enter();
    assert_eq!(warehouse::pieces("pears").await, Ok(5));
    assert_eq!(warehouse::pieces("").await, Ok(0));
    assert_eq!(warehouse::reserved("").await, Ok(0));
    assert_eq!(warehouse::shelf("").await.unwrap(), "unknown");
    assert!(warehouse::recount("").await.is_err());
    let of = |key| support::counts(&registry.find("warehouse", key).unwrap());
    assert_eq!(of("pieces"), "ok=1 failure=1 fallback_ok=1");
    assert_eq!(of("recount"), "failure=1 fallback_missing=1");
}

#[test]
fn functions_that_a_macro_made_are_commands_of_their_own() {
    let registry = registry("books 20000").unwrap();
    let _own = registry.enter();
    let books = std::sync::Arc::new(Books(Vec::new().into()));
    let sums = [books.sale(500), books.fee(20), books.refund(80), books.interest(1), books.correction(9)];
    assert_eq!(sums, [500, 480, 400, 401, 410].map(Ok));
    assert_eq!(books.transfer(45), Ok(500));
    for key in ["sale", "refund", "fee", "interest", "correction", "transfer"] {
        assert_eq!(support::counts(&registry.find("books", key).unwrap()), "ok=1", "{key}");
    }
    let pool = registry.pool("books").unwrap();
    assert_eq!((pool.submitted, pool.rejected), (6, 0));
}

#[test]
fn a_file_that_cannot_be_is_refused_before_anything_is_called() {
    let error = registry("warehouse soon").unwrap_err();
    assert_eq!((error.field(), error.value()), ("timeout", "0ns"));
}

#[command(group = "books", key = "sale")]
fn of_the_same_name() -> Result<i64, String> {
    Ok(0)
}

#[test]
fn two_functions_do_not_share_a_name_unless_both_ask_for_it() {
    let registry = Registry::builder().build();
    let _own = registry.enter();
    let books = std::sync::Arc::new(Books(Vec::new().into()));
    assert_eq!((books.sale(1), of_the_same_name()), (Ok(1), Ok(0)));
    let findings = registry.audit();
    assert_eq!((registry.commands().len(), findings.len()), (2, 1));
    assert_eq!(&*findings[0].about, "books/sale");
    assert!(findings[0].message.contains("is the name of another command too"), "{findings:?}");
}
