//! Two dependencies over HTTP: one asked by a blocking client on a thread pool, one by an async client under a semaphore.
//!
//! Run it with `cargo run --example quickstart`.

use std::error::Error;
use std::time::Duration;

use axum::{Router, extract::Path, http::StatusCode, routing::get};
use hystrix_core::{CircuitBreaker, CommandError, Registry, ThreadPool, command};

/// A blocking client: its calls run on four threads of their own, and nobody waits longer than 200 ms for one.
#[command(
    group = "shop",
    thread_pool = ThreadPool::named("shop").core_size(4),
    timeout = "200ms",
    fallback = |error| Ok(format!("perhaps some ({error})"))
)]
async fn stock(agent: ureq::Agent, url: String) -> Result<String, CommandError<ureq::Error>> {
    Ok(agent.get(&url).call()?.body_mut().read_to_string()?)
}

/// An async client: at most 64 calls at a time, in this task. Four calls of which half fail open the circuit.
#[command(
    group = "shop",
    semaphore = 64,
    timeout = "300ms",
    circuit_breaker = CircuitBreaker::new().request_volume_threshold(4)
)]
async fn price(http: &reqwest::Client, url: &str) -> Result<String, CommandError<reqwest::Error>> {
    Ok(http.get(url).send().await?.error_for_status()?.text().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shop = shop().await?;
    for item in ["apple", "pear"] {
        let answer = stock(ureq::agent(), format!("{shop}/stock/{item}")).await?;
        println!("stock of {item:5} {answer}");
    }
    let http = reqwest::Client::new();
    for item in ["apple", "pear", "plum", "plum", "plum"] {
        match price(&http, &format!("{shop}/price/{item}")).await {
            Ok(text) => println!("price of {item:5} {text}"),
            Err(error) => println!("price of {item:5} {error}"),
        }
    }

    for command in Registry::global().commands() {
        let (counts, circuit) = (command.metrics().cumulative, command.circuit_state());
        println!(
            "{}: {} ok, {} failed, {} timed out, {} short-circuited, {} answered by the fallback, circuit {circuit:?}",
            command.key(),
            counts.success,
            counts.failure,
            counts.timeout,
            counts.short_circuited,
            counts.fallback_success,
        );
    }
    let left = Registry::global().shutdown_async(Duration::from_secs(3)).await.left;
    println!("left at the end: {}", left.len());
    Ok(())
}

/// A shop on a loopback port. It takes its time for the stock of pears, and knows no price of a plum.
async fn shop() -> std::io::Result<String> {
    let stock = |Path(item): Path<String>| async move {
        if item == "pear" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        "7 pieces"
    };
    let price = |Path(item): Path<String>| async move {
        if item == "plum" { Err(StatusCode::NOT_FOUND) } else { Ok("0.30 each") }
    };
    let routes = Router::new().route("/stock/{item}", get(stock)).route("/price/{item}", get(price));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, routes).into_future());
    Ok(format!("http://{address}"))
}
