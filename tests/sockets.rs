//! Sockets: what a command does for a client whose server drips, hangs, fails, or is not there.
//!
//! Where the order of things matters the test itself is the server's end: it says when a byte is sent
//! and when the connection ends.

mod support;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{Router, http::StatusCode, routing::get};
use hystrix_core::{CircuitState, CommandError, CommandHandle, Outcome, RejectionKind, cancellation, compat};
use tokio::io::Interest;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::timeout;

use support::*;

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The server's end of the next connection.
fn accept(listener: &TcpListener) -> TcpStream {
    let listener = listener.try_clone().unwrap();
    let (server, _) = joined(aside(move || listener.accept())).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    server
}

/// Reads what the client has sent, until it closes its end.
fn until_closed(server: &TcpStream) {
    io::copy(&mut &*server, &mut io::sink()).expect("the client closes its end");
}

// ===== a server that drips =====

/// How long a client waits for a single read. Every byte comes sooner: at once in real time, and by the clock
/// of the command a millisecond before.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads until the server closes, or a single read takes too long.
fn download(
    address: SocketAddr,
    read_timeout: Duration,
    each_byte: impl Fn() -> io::Result<()>,
) -> io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(read_timeout))?;
    let mut size = 0;
    while stream.read(&mut [0])? > 0 {
        size += 1;
        each_byte()?;
    }
    Ok(size)
}

/// The same in a task.
async fn download_async(address: SocketAddr, hears: Sender<()>) -> io::Result<usize> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let mut size = 0;
    loop {
        let read = stream.async_io(Interest::READABLE, || stream.try_read(&mut [0]));
        if timeout(READ_TIMEOUT, read).await?? == 0 {
            return Ok(size);
        }
        size += 1;
        hears.send(()).unwrap();
    }
}

/// Sends a byte, and lets pass nearly all the time in which the next one must come.
fn drip(lab: &Lab, mut server: &TcpStream, heard: &Receiver<()>) {
    server.write_all(b".").unwrap();
    heard.recv_timeout(PATIENCE).expect("the client reads the byte");
    lab.clock.advance(READ_TIMEOUT - ms(1));
}

#[test]
fn ht_23_a_read_timeout_ends_the_call_only_where_nothing_comes_at_all() {
    let lab = Lab::new();
    let command = lab.on_pool("silent", 1, 0).timeout(5 * READ_TIMEOUT).build().unwrap();
    let (_listener, address) = listen();
    let silent = command.run(move || download(address, ms(1), || Ok(()))).execute();
    let Err(CommandError::Inner(error)) = silent else { panic!("{silent:?}") };
    assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
    assert_eq!(counts(&command), "failure=1 fallback_missing=1");
}

#[test]
fn ht_23_where_the_server_drips_only_the_commands_timeout_ends_the_wait() {
    let lab = Lab::new();
    let command = lab.on_pool("drip", 1, 0).timeout(5 * READ_TIMEOUT).build().unwrap();
    let (listener, address) = listen();
    let (hears, heard) = channel();
    let body = move || download(address, READ_TIMEOUT, || Ok(hears.send(()).unwrap()));
    let call = aside({
        let command = command.clone();
        move || command.run(body).execute()
    });
    let server = accept(&listener);
    (0..5).for_each(|_| drip(&lab, &server, &heard));
    assert_eq!((command.metrics().in_flight, counts(&command).as_str()), (1, ""));
    assert!(!call.is_finished());
    lab.clock.advance(ms(5));
    assert_eq!(kind(&joined(call)), Some(RejectionKind::TimedOut));
    let event = lab.events.last_call();
    assert_eq!((event.outcome, event.abandoned), (Outcome::Timeout, true));
    assert_eq!((event.body_time(), event.total_time()), (Some(5 * READ_TIMEOUT), 5 * READ_TIMEOUT));
    drop(server);
    assert_at_rest(&command);
}

#[test]
fn ht_23_the_worker_of_a_dripping_download_is_taken_until_the_server_closes() {
    let lab = Lab::new();
    let command = lab.on_pool("drip", 1, 0).timeout(READ_TIMEOUT / 2).build().unwrap();
    let (listener, address) = listen();
    let (hears, heard) = channel();
    let call = command.run(move || download(address, READ_TIMEOUT, || Ok(hears.send(()).unwrap()))).queue();
    let server = accept(&listener);
    drip(&lab, &server, &heard);
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    // Nobody waits any more, and still the client reads.
    (0..5).for_each(|_| drip(&lab, &server, &heard));
    let report = command.pool();
    assert_eq!((report.active, report.abandoned, report.in_use), (1, 1, 1));
    let refused = command.run(|| Ok::<_, ()>(0)).execute();
    assert_eq!(kind(&refused), Some(RejectionKind::PoolFull));
    drop(server);
    assert_at_rest(&command);
    until("free", || command.pool().in_use == 0);
    assert_eq!(command.run(|| Ok::<_, ()>(0)).execute(), Ok(0));
    assert_eq!(counts(&command), "ok=1 timeout=1 pool_rejected=1 fallback_missing=2");
    until("told", || !lab.events.abandoned().is_empty());
    let [told] = &lab.events.abandoned()[..] else { panic!("one end is told") };
    assert_eq!((told.outcome, told.ran), (Outcome::Timeout, 6 * (READ_TIMEOUT - ms(1))));
}

#[test]
fn ht_23_a_client_that_asks_whether_it_is_cancelled_gives_up_at_its_next_byte() {
    let lab = Lab::new();
    let command = lab.on_pool("asks", 1, 0).timeout(READ_TIMEOUT / 2).build().unwrap();
    let (listener, address) = listen();
    let (hears, heard) = channel();
    let asks = move || {
        // Asked before the byte is told of: after that the clock may move at any moment.
        if cancellation().is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(hears.send(()).unwrap())
    };
    let call = command.run(move || download(address, READ_TIMEOUT, asks)).queue();
    let mut server = accept(&listener);
    drip(&lab, &server, &heard);
    assert_eq!(kind(&call.wait()), Some(RejectionKind::TimedOut));
    assert_eq!(command.pool().abandoned, 1);
    server.write_all(b".").unwrap();
    until_closed(&server);
    assert_at_rest(&command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn ht_23_a_task_is_dropped_at_the_timeout_and_its_dripping_server_sees_it_leave() {
    let lab = Lab::new();
    let command = lab.command("drip").semaphore(1).timeout(5 * READ_TIMEOUT).build().unwrap();
    let (listener, address) = listen();
    let (hears, heard) = channel();
    let call = tokio::spawn({
        let command = command.clone();
        async move { command.call(|| download_async(address, hears)).await }
    });
    let server = accept(&listener);
    (0..5).for_each(|_| drip(&lab, &server, &heard));
    assert_eq!((command.metrics().in_flight, counts(&command).as_str()), (1, ""));
    lab.clock.advance(ms(5));
    assert_eq!(kind(&call.await.unwrap()), Some(RejectionKind::TimedOut));
    assert_eq!((command.metrics().permits_in_use, command.metrics().abandoned), (0, 0));
    assert_eq!(lab.events.last_call().total_time(), 5 * READ_TIMEOUT);
    until_closed(&server);
    assert_eq!(command.call(|| async { Ok::<_, ()>(0) }).await, Ok(0));
}

// ===== a server that hangs =====

/// A server that takes every connection, answers none, and counts how many are open at once.
#[derive(Clone)]
struct Hanging {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    /// The server's ends, to hang up on.
    held: Arc<Mutex<Vec<TcpStream>>>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    came: usize,
    open: usize,
    most: usize,
}

impl Hanging {
    fn new() -> Self {
        let (listener, address) = listen();
        let hanging = Self { address, seen: Arc::default(), held: Arc::default() };
        let server = hanging.clone();
        std::thread::spawn(move || listener.incoming().for_each(|client| server.hold(client.unwrap())));
        hanging
    }

    fn hold(&self, client: TcpStream) {
        self.held.lock().unwrap().push(client.try_clone().unwrap());
        self.change(|seen| {
            seen.came += 1;
            seen.open += 1;
            seen.most = seen.most.max(seen.open);
        });
        let server = self.clone();
        std::thread::spawn(move || {
            // Ends when either side has closed, however it did.
            let _ = io::copy(&mut &client, &mut io::sink());
            server.change(|seen| seen.open -= 1);
        });
    }

    /// Hangs up on so many of those who came first.
    fn hang_up(&self, count: usize) {
        let rest = self.seen().open - count;
        for client in self.held.lock().unwrap().drain(..count) {
            client.shutdown(Shutdown::Both).unwrap();
        }
        until("hung up", || self.seen().open == rest);
    }

    fn seen(&self) -> Seen {
        *self.seen.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap());
    }
}

/// A client that waits for an answer as long as it takes.
fn ask(address: SocketAddr) -> io::Result<usize> {
    TcpStream::connect(address)?.read(&mut [0])
}

/// The same in a task.
async fn ask_async(address: SocketAddr) -> io::Result<()> {
    tokio::net::TcpStream::connect(address).await?.readable().await
}

/// Makes twelve calls in three waves, each past its timeout of 100 ms before the next. Before the last wave
/// the server hangs up on two. Gives what the server has seen.
fn three_waves(
    lab: &Lab,
    (command, in_use): (&CommandHandle, impl Fn() -> usize),
    server: &Hanging,
    call: impl Fn() -> Result<usize, CommandError<io::Error>> + Clone + Send + 'static,
) -> Seen {
    let mut callers = Vec::new();
    let mut wave = || {
        callers.extend((0..4).map(|_| aside(call.clone())));
        until("each has come to the server, or was refused", || {
            let counts = command.metrics().cumulative;
            let refused = counts.thread_pool_rejected + counts.semaphore_rejected;
            server.seen().came + refused as usize == callers.len()
        });
        lab.clock.advance(ms(100));
    };
    wave();
    wave();
    server.hang_up(2);
    until("two have left", || in_use() <= 2);
    wave();
    let seen = server.seen();
    server.hang_up(seen.open);
    assert!(callers.into_iter().map(joined).all(|answer| answer.is_ok_and(|value| value == 7)));
    assert_at_rest(command);
    seen
}

#[test]
fn ht_24_a_pool_of_four_never_has_more_than_four_connections() {
    let (lab, server) = (Lab::new(), Hanging::new());
    let address = server.address;
    let command = lab.on_pool("pool", 4, 0).timeout("100ms").circuit_breaker(None).build().unwrap();
    let call = {
        let command = command.clone();
        move || command.run(move || ask(address)).fallback_value(7).execute()
    };
    let seen = three_waves(&lab, (&command, || command.pool().in_use), &server, call);
    assert_eq!((seen.most, seen.came), (4, 6));
    assert_eq!(counts(&command), "timeout=6 pool_rejected=6 fallback_ok=12");
}

#[test]
fn ht_24_a_semaphore_of_four_never_has_more_than_four_connections() {
    let (lab, server) = (Lab::new(), Hanging::new());
    let address = server.address;
    let command = lab.command("semaphore").semaphore(4).timeout("100ms").circuit_breaker(None);
    let command = command.build().unwrap();
    let call = {
        let command = command.clone();
        move || command.run(|| ask(address)).fallback_value(7).execute()
    };
    let seen = three_waves(&lab, (&command, || command.metrics().permits_in_use), &server, call);
    assert_eq!((seen.most, seen.came), (4, 6));
    assert_eq!(counts(&command), "timeout=6 semaphore_rejected=6 fallback_ok=12");
}

#[test]
fn ht_24_with_hystrixes_release_four_permits_are_ten_connections() {
    let (lab, server) = (Lab::new(), Hanging::new());
    let address = server.address;
    let command = lab.command("as_hystrix").semaphore(4).timeout("100ms").circuit_breaker(None);
    let command = command.permit_release(compat::ReleaseAtTimeout).build().unwrap();
    let call = {
        let command = command.clone();
        move || command.run(|| ask(address)).fallback_value(7).execute()
    };
    let seen = three_waves(&lab, (&command, || command.metrics().permits_in_use), &server, call);
    // Four, four more, and another four in place of the two that have left.
    assert_eq!((seen.most, seen.came), (10, 12));
    assert_eq!(counts(&command), "timeout=12 fallback_ok=12");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn ht_24_tasks_under_a_semaphore_of_four_all_come_and_never_more_than_four_at_once() {
    let (lab, server) = (Lab::new(), Hanging::new());
    let address = server.address;
    let command = lab.command("tasks").semaphore(4).timeout("100ms").circuit_breaker(None).build().unwrap();
    for wave in 1..=3 {
        let calls = [(); 4].map(|()| {
            let command = command.clone();
            tokio::spawn(async move { command.call(|| ask_async(address)).await })
        });
        until("all have come", || server.seen().came == 4 * wave);
        lab.clock.advance(ms(100));
        for call in calls {
            assert_eq!(kind(&call.await.unwrap()), Some(RejectionKind::TimedOut));
        }
        until("the server sees them leave", || server.seen().open == 0);
    }
    assert_eq!((server.seen().most, counts(&command).as_str()), (4, "timeout=12 fallback_missing=12"));
    assert_at_rest(&command);
}

// ===== HTTP =====

/// A shop that is asked over HTTP, by a blocking client and by an async one.
struct Shop {
    url: String,
    asked: Arc<AtomicUsize>,
    /// What it answers. `None`: it holds on to whoever asks.
    status: watch::Sender<Option<StatusCode>>,
    agent: ureq::Agent,
    http: reqwest::Client,
}

impl Shop {
    fn open() -> Self {
        let (listener, address) = listen();
        listener.set_nonblocking(true).unwrap();
        let (status, seen) = watch::channel(Some(StatusCode::OK));
        let asked = Arc::new(AtomicUsize::new(0));
        let asks = asked.clone();
        let stock = move || {
            asks.fetch_add(1, SeqCst);
            let mut seen = seen.clone();
            async move {
                // Bounded, so that a call which should not have come fails its test and does not hang it.
                let status = timeout(PATIENCE, seen.wait_for(Option::is_some)).await.unwrap();
                (status.unwrap().unwrap(), "7 pieces")
            }
        };
        let routes = Router::new().route("/stock", get(stock));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, routes).await
            })
        });
        Self { asked, status, ..Self::at(address) }
    }

    /// A shop of which only the address is known.
    fn at(address: SocketAddr) -> Self {
        Self {
            url: format!("http://{address}/stock"),
            asked: Arc::default(),
            status: watch::channel(None).0,
            agent: ureq::Agent::config_builder().proxy(None).build().into(),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    fn answers(&self, status: impl Into<Option<StatusCode>>) {
        self.status.send_replace(status.into());
    }

    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    /// A body for a worker.
    fn stock(&self) -> impl FnOnce() -> Result<String, ureq::Error> + Send + 'static {
        let (agent, url) = (self.agent.clone(), self.url.clone());
        move || agent.get(&url).call()?.body_mut().read_to_string()
    }

    /// A body for a task.
    async fn stock_async(&self) -> reqwest::Result<String> {
        self.http.get(&self.url).send().await?.error_for_status()?.text().await
    }
}

/// An address at which nobody listens, and nobody can while the socket lives.
fn nobody() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn perhaps<E>(_error: CommandError<E>) -> Result<String, E> {
    Ok("perhaps".to_owned())
}

#[tokio::test]
async fn a_blocking_client_on_a_pool_answers_threads_and_tasks() {
    let (lab, shop) = (Lab::new(), Shop::open());
    let command = lab.on_pool("stock", 2, 0).build().unwrap();
    assert_eq!(command.run(shop.stock()).await.unwrap(), "7 pieces");
    let on_a_thread = aside({
        let (command, body) = (command.clone(), shop.stock());
        move || command.run(body).execute()
    });
    assert_eq!(joined(on_a_thread).unwrap(), "7 pieces");
    assert_eq!((shop.asked(), counts(&command).as_str()), (2, "ok=2"));
}

#[tokio::test]
async fn an_async_client_answers_in_its_callers_task() {
    let (lab, shop) = (Lab::new(), Shop::open());
    let command = lab.command("stock").build().unwrap();
    assert_eq!(command.call(|| shop.stock_async()).await.unwrap(), "7 pieces");
    assert_eq!((shop.asked(), counts(&command).as_str()), (1, "ok=1"));
}

#[test]
fn ht_17_a_blocking_clients_404_is_returned_as_it_is_and_is_no_failure() {
    let (lab, shop) = (Lab::new(), Shop::open());
    let command = lab.on_pool("stock", 2, 0).circuit_breaker(touchy(1)).build().unwrap();
    shop.answers(StatusCode::NOT_FOUND);
    let not_found = |error: &ureq::Error| matches!(error, ureq::Error::StatusCode(404));
    let answer = command.run(shop.stock()).ignore(not_found).fallback(perhaps).execute();
    assert!(answer.unwrap_err().inner().is_some_and(not_found));
    assert_eq!((counts(&command).as_str(), command.metrics().request_count()), ("bad_request=1", 0));
    assert_eq!(command.circuit_state(), CircuitState::Closed);
    // The same answer is a failure where nobody ignores it.
    assert_eq!(command.run(shop.stock()).fallback(perhaps).execute().unwrap(), "perhaps");
    assert_eq!(command.circuit_state(), CircuitState::Open);
}

#[tokio::test]
async fn ht_17_an_async_clients_404_is_returned_as_it_is_and_is_no_failure() {
    let (lab, shop) = (Lab::new(), Shop::open());
    let command = lab.command("stock").circuit_breaker(touchy(1)).build().unwrap();
    shop.answers(StatusCode::NOT_FOUND);
    let not_found = |error: &reqwest::Error| error.status() == Some(StatusCode::NOT_FOUND);
    let answer = command.call(|| shop.stock_async()).ignore(not_found).fallback(perhaps).await;
    assert!(answer.unwrap_err().inner().is_some_and(not_found));
    assert_eq!((counts(&command).as_str(), command.metrics().request_count()), ("bad_request=1", 0));
    assert_eq!(command.circuit_state(), CircuitState::Closed);
    assert_eq!(command.call(|| shop.stock_async()).fallback(perhaps).await.unwrap(), "perhaps");
    assert_eq!(command.circuit_state(), CircuitState::Open);
}

#[test]
fn a_blocking_clients_500s_open_the_circuit_and_one_trial_closes_it() {
    let (lab, shop) = (Lab::new(), Shop::open());
    let command = lab.on_pool("stock", 2, 0).circuit_breaker(touchy(4)).build().unwrap();
    let ask = || command.run(shop.stock()).fallback(perhaps);
    shop.answers(StatusCode::INTERNAL_SERVER_ERROR);
    assert!((0..6).all(|_| ask().execute().unwrap() == "perhaps"));
    assert_eq!((shop.asked(), command.circuit_state()), (4, CircuitState::Open));
    lab.clock.advance(ms(200));
    shop.answers(None);
    let trial = ask().queue();
    until("the trial has come", || shop.asked() == 5);
    assert!((0..3).all(|_| ask().execute().unwrap() == "perhaps"));
    assert_eq!(shop.asked(), 5, "one trial at a time");
    shop.answers(StatusCode::OK);
    assert_eq!(trial.wait().unwrap(), "7 pieces");
    assert_eq!(ask().execute().unwrap(), "7 pieces");
    assert_eq!((shop.asked(), command.circuit_state()), (6, CircuitState::Closed));
    assert_eq!(counts(&command), "ok=2 failure=4 short_circuited=5 fallback_ok=9");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_async_clients_500s_open_the_circuit_and_one_trial_closes_it() {
    let (lab, shop) = (Lab::new(), Arc::new(Shop::open()));
    let command = lab.command("stock").circuit_breaker(touchy(4)).build().unwrap();
    let ask = || {
        let (command, shop) = (command.clone(), shop.clone());
        async move { command.call(|| shop.stock_async()).fallback(perhaps).await.unwrap() }
    };
    shop.answers(StatusCode::INTERNAL_SERVER_ERROR);
    for _ in 0..6 {
        assert_eq!(ask().await, "perhaps");
    }
    assert_eq!((shop.asked(), command.circuit_state()), (4, CircuitState::Open));
    lab.clock.advance(ms(200));
    shop.answers(None);
    let trial = tokio::spawn(ask());
    until("the trial has come", || shop.asked() == 5);
    for _ in 0..3 {
        assert_eq!(ask().await, "perhaps");
    }
    assert_eq!(shop.asked(), 5, "one trial at a time");
    shop.answers(StatusCode::OK);
    assert_eq!((trial.await.unwrap().as_str(), ask().await.as_str()), ("7 pieces", "7 pieces"));
    assert_eq!((shop.asked(), command.circuit_state()), (6, CircuitState::Closed));
    assert_eq!(counts(&command), "ok=2 failure=4 short_circuited=5 fallback_ok=9");
}

#[tokio::test]
async fn a_server_that_is_down_is_a_failure_with_the_clients_own_error_inside() {
    let (lab, (_socket, address)) = (Lab::new(), nobody());
    let shop = Shop::at(address);
    let on_pool = lab.on_pool("blocking", 1, 0).build().unwrap();
    let answer = on_pool.run(shop.stock()).await;
    let Err(CommandError::Inner(ureq::Error::Io(error))) = answer else { panic!("{answer:?}") };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let in_place = lab.command("async").build().unwrap();
    let answer = in_place.call(|| shop.stock_async()).await;
    assert!(answer.unwrap_err().inner().is_some_and(reqwest::Error::is_connect));
    for command in [&*on_pool, &*in_place] {
        assert_eq!(counts(command), "failure=1 fallback_missing=1");
    }
}

// ===== a caller that leaves =====

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn to_14_a_dropped_call_closes_its_connection() {
    let lab = Lab::new();
    let command = lab.command("leaves").semaphore(1).build().unwrap();
    let (listener, address) = listen();
    let call = tokio::spawn({
        let (command, shop) = (command.clone(), Shop::at(address));
        async move { command.call(|| shop.stock_async()).await }
    });
    let mut server = accept(&listener);
    assert_eq!(server.read(&mut [0]).unwrap(), 1, "the request is under way");
    assert_eq!(command.metrics().permits_in_use, 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!((counts(&command).as_str(), command.metrics().permits_in_use), ("cancelled=1", 0));
    assert_eq!(lab.events.last_call().outcome, Outcome::Cancelled);
    until_closed(&server);
    assert_at_rest(&command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn to_14_a_dropped_call_on_a_pool_leaves_its_connection_open_until_the_server_closes() {
    let lab = Lab::new();
    let command = lab.on_pool("leaves", 1, 0).build().unwrap();
    let (listener, address) = listen();
    let call = tokio::spawn({
        let command = command.clone();
        async move { command.run(move || ask(address)).await }
    });
    let server = accept(&listener);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!((counts(&command).as_str(), command.metrics().abandoned), ("cancelled=1", 1));
    let refused = command.run(|| Ok::<_, ()>(0)).await;
    assert_eq!(kind(&refused), Some(RejectionKind::PoolFull));
    drop(server);
    assert_at_rest(&command);
    until("free", || command.pool().in_use == 0);
    assert_eq!(command.run(|| Ok::<_, ()>(0)).await, Ok(0));
}
