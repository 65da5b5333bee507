//! A storefront: an axum server that asks an upstream with reqwest. What the library refuses becomes an HTTP status by itself:
//! 504 when the upstream is slow, 429 when too many wait for it already, 503 with `Retry-After` while its circuit is open.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::extract::{Path, State};
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use hystrix_core::{
    CircuitBreaker, CircuitState, CommandConfig, CommandError, Registry, Select, command, command_of,
};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use support::{counts, until_async};

// ===== the service =====

#[derive(Clone)]
struct Shop {
    http: reqwest::Client,
    upstream: String,
}

/// Asks what an item costs. That there is no such item says nothing of the upstream's health.
#[command(
    group = "shop",
    semaphore = 2,
    timeout = "20s",
    circuit_breaker = CircuitBreaker::new().request_volume_threshold(8),
    ignore = |error| error.status() == Some(StatusCode::NOT_FOUND)
)]
async fn price(http: &reqwest::Client, url: &str) -> Result<String, CommandError<reqwest::Error>> {
    let answer = http.get(url).send().await?.error_for_status()?;
    Ok(answer.text().await?)
}

async fn show_price(State(shop): State<Shop>, Path(item): Path<String>) -> Result<String, Unanswered> {
    let price = price(&shop.http, &format!("{}/{item}", shop.upstream)).await?;
    Ok(format!("{item}: {price}"))
}

/// A call without an answer, as a response.
struct Unanswered(CommandError<reqwest::Error>);

impl From<CommandError<reqwest::Error>> for Unanswered {
    fn from(error: CommandError<reqwest::Error>) -> Self {
        Self(error)
    }
}

impl IntoResponse for Unanswered {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let Some(rejection) = error.rejection() else {
            let is_unknown = error.inner().and_then(reqwest::Error::status) == Some(StatusCode::NOT_FOUND);
            return if is_unknown { StatusCode::NOT_FOUND } else { StatusCode::BAD_GATEWAY }.into_response();
        };
        let status = StatusCode::from_u16(rejection.http_status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let retry = rejection.retry_after().map(|after| [(RETRY_AFTER, after.as_secs().max(1).to_string())]);
        (status, retry.unwrap_or_else(|| [(RETRY_AFTER, "1".into())]), error.to_string()).into_response()
    }
}

fn routes(upstream: String) -> Router {
    let shop = Shop { http: reqwest::Client::new(), upstream };
    Router::new().route("/price/{item}", get(show_price)).with_state(shop)
}

// ===== the test =====

/// Holds back what it is asked for until there are tokens, and knows how many have asked.
#[derive(Clone)]
struct Upstream {
    asked: Arc<AtomicUsize>,
    pears: Arc<Semaphore>,
}

impl Upstream {
    async fn answer(
        State(upstream): State<Self>,
        Path(item): Path<String>,
    ) -> Result<&'static str, StatusCode> {
        upstream.asked.fetch_add(1, SeqCst);
        match &*item {
            "apple" => Ok("0.30"),
            "pear" => {
                upstream.pears.acquire().await.unwrap().forget();
                Ok("0.40")
            }
            "melon" => std::future::pending().await,
            "quince" => Err(StatusCode::NOT_FOUND),
            _ => Err(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, routes).into_future());
    format!("http://{address}")
}

#[tokio::test]
async fn each_refusal_has_a_status_of_its_own() {
    let upstream = Upstream { asked: Arc::default(), pears: Arc::new(Semaphore::new(0)) };
    let answers = Router::new().route("/{item}", get(Upstream::answer)).with_state(upstream.clone());
    let shop = serve(routes(serve(answers).await)).await;
    let browser = reqwest::Client::new();
    let ask = |item: &str| {
        let request = browser.get(format!("{shop}/price/{item}"));
        async move { request.send().await.unwrap() }
    };
    let price = command_of!(price);

    assert_eq!(ask("apple").await.text().await.unwrap(), "apple: 0.30");
    assert_eq!(ask("quince").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(counts(&price), "ok=1 bad_request=1");

    let pears = [tokio::spawn(ask("pear")), tokio::spawn(ask("pear"))];
    until_async("both pears were asked for", || upstream.asked.load(SeqCst) == 4).await;
    let refused = ask("apple").await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.text().await.unwrap(), "shop/price found no permit (2 of 2 in use)");
    upstream.pears.add_permits(2);
    for pear in pears {
        assert_eq!(pear.await.unwrap().text().await.unwrap(), "pear: 0.40");
    }

    let impatient = CommandConfig::new().timeout("50ms");
    Registry::global().apply(Select::command("shop", "price"), impatient).unwrap();
    assert_eq!(ask("melon").await.status(), StatusCode::GATEWAY_TIMEOUT);
    assert!(Registry::global().remove(&Select::command("shop", "price")));

    // The eighth result that counts, of which five are not good, opens the circuit.
    for _ in 0..3 {
        assert_eq!(price.circuit_state(), CircuitState::Closed);
        assert_eq!(ask("plum").await.status(), StatusCode::BAD_GATEWAY);
    }
    let refused = ask("apple").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let after: u64 = refused.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=5).contains(&after), "{after}");
    assert_eq!(
        counts(&price),
        "ok=3 failure=3 timeout=1 bad_request=1 short_circuited=1 semaphore_rejected=1 fallback_missing=6"
    );
    assert_eq!(price.metrics().permits_in_use, 0);
}
