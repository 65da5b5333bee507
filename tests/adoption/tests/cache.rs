//! A catalogue that looks into Redis before it asks the origin. A cache must never be the reason that a page fails: when it is down, slow or
//! busy its commands answer that they know nothing, and the origin is asked, which has limits of its own.

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use hystrix_core::{CircuitBreaker, CircuitState, CommandError, command, command_of, commands};
use redis::aio::MultiplexedConnection;
use redis::{AsyncTypedCommands as _, Client, RedisError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use support::{counts, until_async};

// ===== the service =====

#[derive(Clone)]
struct Cache(MultiplexedConnection);

const SOON_OPEN: CircuitBreaker = CircuitBreaker::new().request_volume_threshold(4);

#[commands(group = "cache", semaphore = 32, timeout = "20s", circuit_breaker = SOON_OPEN)]
impl Cache {
    /// Nothing, where the cache cannot say.
    #[command(fallback_value = None)]
    async fn get(&self, key: &str) -> Result<Option<String>, CommandError<RedisError>> {
        // A handle on one connection, which carries many calls at once.
        Ok(self.0.clone().get(key).await?)
    }

    #[command(fallback_value = ())]
    async fn set(&self, key: &str, value: &str) -> Result<(), CommandError<RedisError>> {
        Ok(self.0.clone().set(key, value).await?)
    }
}

struct Catalogue {
    cache: Cache,
    asked: AtomicUsize,
}

impl Catalogue {
    #[command(group = "catalogue", semaphore = 4, timeout = "20s")]
    async fn origin(&self, item: &str) -> Result<String, String> {
        self.asked.fetch_add(1, SeqCst);
        Ok(format!("all about {item}"))
    }

    async fn page(&self, item: &str) -> Result<String, String> {
        if let Ok(Some(page)) = self.cache.get(item).await {
            return Ok(page);
        }
        let page = self.origin(item).await?;
        // Whether it could be kept is the cache's own count.
        let _ = self.cache.set(item, &page).await;
        Ok(page)
    }
}

// ===== a server that speaks as much RESP as the test needs =====

#[derive(Clone, Default)]
struct Server {
    kept: Arc<Mutex<HashMap<String, String>>>,
    broken: Arc<Mutex<bool>>,
}

impl Server {
    async fn listen(&self) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(server.clone().serve(stream));
            }
        });
        address
    }

    /// Until the client closes.
    async fn serve(self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut words = vec![String::new(); length(&mut stream, '*').await?];
            for word in &mut words {
                let mut bytes = vec![0; length(&mut stream, '$').await? + 2];
                stream.read_exact(&mut bytes).await?;
                bytes.truncate(bytes.len() - 2);
                *word = String::from_utf8(bytes).unwrap();
            }
            let answer = self.answer(&words);
            stream.write_all(answer.as_bytes()).await?;
        }
    }

    fn answer(&self, words: &[String]) -> String {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut kept = self.kept.lock().unwrap();
        match words[..] {
            ["GET" | "SET", ..] if *self.broken.lock().unwrap() => "-LOADING into memory\r\n".into(),
            ["GET", key] => match kept.get(key) {
                Some(value) => format!("${}\r\n{value}\r\n", value.len()),
                None => "$-1\r\n".into(),
            },
            ["SET", key, value] => {
                kept.insert(key.into(), value.into());
                "+OK\r\n".into()
            }
            _ => "+OK\r\n".into(),
        }
    }
}

/// The number behind a sign, on a line of its own.
async fn length(stream: &mut BufReader<TcpStream>, sign: char) -> std::io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let number = line.trim_end().strip_prefix(sign).ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok(number.parse().unwrap())
}

// ===== the test =====

#[tokio::test]
async fn a_cache_that_fails_costs_a_question_to_the_origin_and_nothing_else() {
    let server = Server::default();
    let client = Client::open(format!("redis://{}/", server.listen().await)).unwrap();
    let cache = Cache(client.get_multiplexed_async_connection().await.unwrap());
    let catalogue = Catalogue { cache, asked: AtomicUsize::new(0) };
    let (get, set) = (command_of!(Cache::get), command_of!(Cache::set));

    for _ in 0..3 {
        assert_eq!(catalogue.page("pears").await.unwrap(), "all about pears");
    }
    assert_eq!(catalogue.asked.load(SeqCst), 1);
    assert_eq!((&*counts(&get), &*counts(&set)), ("ok=3", "ok=1"));

    *server.broken.lock().unwrap() = true;
    for _ in 0..5 {
        assert_eq!(catalogue.page("pears").await.unwrap(), "all about pears");
    }
    assert_eq!(catalogue.asked.load(SeqCst), 6);
    // Of seven, four failed: from then on the cache is left in peace.
    assert_eq!(get.circuit_state(), CircuitState::Open);
    assert_eq!(counts(&get), "ok=3 failure=3 short_circuited=2 fallback_ok=5");
    assert_eq!(counts(&set), "ok=1 failure=3 short_circuited=2 fallback_ok=5");

    *server.broken.lock().unwrap() = false;
    for command in [&get, &set] {
        command.reset_circuit();
    }
    assert_eq!(catalogue.page("plums").await.unwrap(), "all about plums");
    until_async("everything was given back", || {
        get.metrics().permits_in_use + set.metrics().permits_in_use == 0
    })
    .await;
}
