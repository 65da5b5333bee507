//! A ledger in SQLite. Its client blocks, so its calls run on a pool of two threads, with the signatures they had before; an async handler
//! awaits one. A query whose caller has gone asks whether it should, and stops.

mod support;

use std::num::TryFromIntError;
use std::sync::{Arc, Mutex};

use hystrix_core::{
    CommandError, Queued, Registry, Rejection, RejectionKind, ThreadPool, cancellation, command, command_of,
    commands,
};
use rusqlite::{Connection, OptionalExtension as _};
use thiserror::Error;

use support::{counts, until};

// ===== the service =====

#[derive(Debug, Error)]
enum LedgerError {
    #[error("no account {0:?}")]
    NoAccount(String),
    #[error("the ledger is out of order")]
    Database(#[from] rusqlite::Error),
    #[error("a balance is too large")]
    Balance(#[from] TryFromIntError),
    #[error(transparent)]
    Refused(#[from] Rejection),
}

impl LedgerError {
    /// What says nothing of the database's health.
    fn is_the_callers(&self) -> bool {
        matches!(self, LedgerError::NoAccount(_))
    }
}

#[derive(Clone)]
struct Ledger(Arc<Mutex<Connection>>);

const POOL: ThreadPool = ThreadPool::of_the_group().core_size(2).max_queue_size(8);

#[commands(group = "ledger", thread_pool = POOL, timeout = "20s", ignore = LedgerError::is_the_callers)]
impl Ledger {
    fn open() -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch("CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL)")?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    #[command(to_owned(self, account))]
    fn deposit(&self, account: &str, cents: u32) -> Result<(), LedgerError> {
        let connection = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        connection.execute(
            "INSERT INTO accounts VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET cents = cents + ?2",
            (account, cents),
        )?;
        Ok(())
    }

    #[command(to_owned(self, account))]
    fn balance(&self, account: &str) -> Result<u32, LedgerError> {
        let connection = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let find = "SELECT cents FROM accounts WHERE name = ?1";
        let cents: Option<i64> = connection.query_row(find, [account], |row| row.get(0)).optional()?;
        match cents {
            Some(cents) => Ok(u32::try_from(cents)?),
            None => Err(LedgerError::NoAccount(account.into())),
        }
    }

    /// For handlers that are async: it returns at once, and is awaited.
    #[command(to_owned(self))]
    fn total(&self) -> Queued<i64, LedgerError> {
        let connection = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(connection.query_row("SELECT coalesce(sum(cents), 0) FROM accounts", [], |row| row.get(0))?)
    }

    /// Never ends by itself. SQLite asks every thousand steps whether to go on.
    #[command(to_owned(self), timeout = "50ms")]
    fn endless(&self) -> Result<i64, LedgerError> {
        let connection = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let call = cancellation();
        connection.progress_handler(1000, Some(move || call.is_cancelled()));
        let count = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let counted = connection.query_row(count, [], |row| row.get(0));
        connection.progress_handler(0, None::<fn() -> bool>);
        Ok(counted?)
    }
}

async fn report(ledger: &Ledger) -> Result<String, LedgerError> {
    Ok(format!("{} cents in all", ledger.total().await.map_err(CommandError::into_error)?))
}

// ===== the tests =====

#[test]
fn borrowing_signatures_work_on_a_pool() {
    let _own = Registry::builder().build().enter();
    let ledger = Ledger::open().unwrap();
    let account = String::from("anna");
    ledger.deposit(&account, 250).unwrap();
    ledger.deposit(&account, 50).unwrap();
    ledger.deposit("bob", 7).unwrap();
    assert_eq!(ledger.balance(&account).unwrap(), 300);
    assert_eq!(ledger.balance("carl").unwrap_err().to_string(), "no account \"carl\"");
    assert_eq!(counts(&command_of!(Ledger::deposit)), "ok=3");
    assert_eq!(counts(&command_of!(Ledger::balance)), "ok=1 bad_request=1");

    command_of!(Ledger::balance).force_open();
    let refused = ledger.balance("anna").unwrap_err();
    assert!(matches!(&refused, LedgerError::Refused(it) if it.kind() == RejectionKind::ShortCircuited));
    assert!(refused.to_string().starts_with("ledger/balance was short-circuited"), "{refused}");
}

#[tokio::test]
async fn a_handler_awaits_what_runs_on_the_pool() {
    let _own = Registry::builder().build().enter();
    let ledger = Ledger::open().unwrap();
    assert_eq!(report(&ledger).await.unwrap(), "0 cents in all");
    ledger.0.lock().unwrap().execute_batch("DROP TABLE accounts").unwrap();
    let LedgerError::Database(error) = report(&ledger).await.unwrap_err() else { panic!("of the database") };
    assert!(error.to_string().contains("no such table"), "{error}");
    assert_eq!(counts(&command_of!(Ledger::total)), "ok=1 failure=1 fallback_missing=1");
}

#[test]
fn a_query_ends_when_its_caller_has_gone() {
    let _own = Registry::builder().build().enter();
    let ledger = Ledger::open().unwrap();
    let endless = command_of!(Ledger::endless);
    let LedgerError::Refused(late) = ledger.endless().unwrap_err() else { panic!("it has no end") };
    assert_eq!((late.kind(), late.http_status()), (RejectionKind::TimedOut, 504));
    until("the worker has come back", || endless.metrics().abandoned == 0);
    assert_eq!(counts(&endless), "timeout=1 fallback_missing=1");
    assert_eq!(ledger.0.lock().unwrap().query_row("SELECT 1", [], |row| row.get(0)), Ok(1));
}
