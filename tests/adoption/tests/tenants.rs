//! A search for many tenants. Each has limits of its own, so that one who floods it is refused alone; what a tenant asks wrongly is not held against
//! the index; a tenant that cannot be served sees what was found last.

mod support;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use hystrix_core::{
    CircuitBreaker, CircuitState, Registry, Rejection, RejectionKind, command, command_of, commands,
};
use tokio::sync::Semaphore;

use support::{counts, until_async};

// ===== the service =====

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tenant(u32);

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant {}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum SearchError {
    Syntax { column: usize },
    Shard(&'static str),
    Refused(RejectionKind),
}

impl From<Rejection> for SearchError {
    fn from(rejection: Rejection) -> Self {
        SearchError::Refused(rejection.kind())
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Hits {
    items: Vec<String>,
    /// Shards that did not answer.
    missing: u32,
    stale: bool,
}

struct Index {
    last: Mutex<HashMap<Tenant, Hits>>,
    slow: Arc<Semaphore>,
}

/// What is the tenant's own mistake.
fn is_the_callers(error: &SearchError) -> bool {
    matches!(error, SearchError::Syntax { .. })
}

#[commands(group = "search", semaphore = 2, timeout = "20s")]
impl Index {
    #[command(
        key = tenant,
        circuit_breaker = CircuitBreaker::new().request_volume_threshold(3),
        ignore = is_the_callers,
        failure = |hits| hits.missing > 1,
        fallback = Index::last,
    )]
    async fn search(&self, tenant: Tenant, query: &str) -> Result<Hits, SearchError> {
        let hits = match query {
            "(" => return Err(SearchError::Syntax { column: 1 }),
            "down" => return Err(SearchError::Shard("connection refused")),
            "half" => Hits { missing: 2, ..Hits::default() },
            "slow" => {
                let _turn = self.slow.acquire().await;
                Hits::default()
            }
            words => Hits { items: words.split(' ').map(str::to_owned).collect(), ..Hits::default() },
        };
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(tenant, hits.clone());
        Ok(hits)
    }

    async fn last(
        &self,
        tenant: Tenant,
        _query: &str,
        error: hystrix_core::CommandError<SearchError>,
    ) -> Result<Hits, SearchError> {
        let last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&tenant).cloned();
        last.map(|hits| Hits { stale: true, ..hits }).ok_or_else(|| error.into_error())
    }
}

fn index() -> Arc<Index> {
    Arc::new(Index { last: Mutex::default(), slow: Arc::new(Semaphore::new(0)) })
}

fn found(items: &[&str], stale: bool) -> Hits {
    Hits { items: items.iter().map(|&item| item.to_owned()).collect(), missing: 0, stale }
}

// ===== the tests =====

#[tokio::test]
async fn a_tenant_who_floods_the_search_is_refused_alone() {
    let _own = Registry::builder().build().enter();
    let (index, search) = (index(), command_of!(Index::search));
    let (loud, quiet) = (Tenant(1), Tenant(2));
    let held = [(); 2].map(|()| {
        let index = index.clone();
        tokio::spawn(async move { index.search(loud, "slow").await })
    });
    until_async("the loud tenant has all its permits", || search.get(&loud).metrics().permits_in_use == 2)
        .await;

    assert_eq!(index.search(loud, "pear").await, Err(SearchError::Refused(RejectionKind::PermitsExhausted)));
    assert_eq!(index.search(quiet, "pear tree").await.unwrap(), found(&["pear", "tree"], false));
    index.slow.add_permits(2);
    for call in held {
        assert_eq!(call.await.unwrap(), Ok(Hits::default()));
    }
    assert_eq!(counts(&search.get(&loud)), "ok=2 semaphore_rejected=1 fallback_failure=1");
    assert_eq!(counts(&search.get(&quiet)), "ok=1");
    assert_eq!(search.get(&loud).key().to_string(), "search/search:tenant 1");
}

#[tokio::test]
async fn what_a_tenant_asks_wrongly_is_not_the_indexs_failure() {
    let _own = Registry::builder().build().enter();
    let (index, search) = (index(), command_of!(Index::search));
    let tenant = Tenant(7);
    for _ in 0..10 {
        assert_eq!(index.search(tenant, "(").await, Err(SearchError::Syntax { column: 1 }));
    }
    assert_eq!(search.get(&tenant).circuit_state(), CircuitState::Closed);
    assert_eq!(counts(&search.get(&tenant)), "bad_request=10");
}

#[tokio::test]
async fn a_tenant_whose_shards_are_down_sees_what_was_found_last() {
    let _own = Registry::builder().build().enter();
    let (index, search) = (index(), command_of!(Index::search));
    let tenant = Tenant(9);
    // Nobody has asked before: the error is the index's own.
    assert_eq!(index.search(tenant, "down").await, Err(SearchError::Shard("connection refused")));
    assert_eq!(index.search(tenant, "pear").await.unwrap(), found(&["pear"], false));
    assert_eq!(index.search(tenant, "down").await.unwrap(), found(&["pear"], true));
    assert_eq!(search.get(&tenant).circuit_state(), CircuitState::Open);
    assert_eq!(index.search(tenant, "apple").await.unwrap(), found(&["pear"], true));
    assert_eq!(
        counts(&search.get(&tenant)),
        "ok=1 failure=2 short_circuited=1 fallback_ok=2 fallback_failure=1"
    );
}

#[tokio::test]
async fn half_an_answer_is_a_failure_when_a_closure_says_so() {
    let _own = Registry::builder().build().enter();
    let index = index();
    let hits = index.search(Tenant(3), "half").await.unwrap();
    assert_eq!((hits.missing, hits.stale), (2, true));
    assert_eq!(counts(&command_of!(Index::search).get(&Tenant(3))), "failure=1 fallback_ok=1");
}

#[tokio::test]
async fn the_number_of_tenants_is_bounded() {
    let registry = Registry::builder().build();
    let _own = registry.enter();
    let index = index();
    for tenant in 0..1500 {
        assert!(index.search(Tenant(tenant), "pear").await.is_ok());
    }
    let others = counts(&command_of!(Index::search));
    let others: usize = others.strip_prefix("ok=").unwrap().parse().unwrap();
    let known = registry.commands().len();
    assert!(known <= 1001 && others == 1500 - (known - 1), "{known} commands, {others} calls beyond them");
}
