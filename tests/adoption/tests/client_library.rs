//! A client library for a weather station. Every client that it hands out has a limit of its own, which its user chooses: two of them never take
//! each other's permits. What the library does for all of them together is a command that users may check at start-up, watch and force.

mod support;

use hystrix_core::{ConfigError, Registry, Rejection, RejectionKind, command_of};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use support::{counts, until_async};

// ===== the library =====

mod weather {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use hystrix_core::{Annotated, Command, CommandConfig, ConfigError, command, command_of, commands};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpStream;

    /// Asks one station.
    #[derive(Clone, Debug)]
    pub struct Client {
        station: SocketAddr,
        asks: Command,
        name: Arc<str>,
    }

    #[derive(Debug)]
    pub struct Options {
        pub at_once: usize,
        pub timeout: Duration,
    }

    impl Options {
        pub const DEFAULT: Self = Self { at_once: 8, timeout: Duration::from_secs(20) };
    }

    impl Client {
        /// # Errors
        ///
        /// Where the options cannot be, or another client has the name with others.
        pub fn new(name: &str, station: SocketAddr, options: &Options) -> Result<Self, ConfigError> {
            let limits = CommandConfig::new().semaphore(options.at_once).timeout(options.timeout);
            let asks = Command::builder(name.to_owned()).group("weather").config(limits).build()?;
            Ok(Self { station, asks, name: name.into() })
        }

        /// The command of this client's questions.
        pub fn command(&self) -> &Command {
            &self.asks
        }

        /// Asks how warm it is somewhere, in degrees.
        #[command(command = self.asks, fallback = Self::explain)]
        pub async fn warmth(&self, place: &str) -> io::Result<i32> {
            let line = ask(self.station, place).await?;
            line.trim().parse().map_err(io::Error::other)
        }

        /// The same error, and who met it.
        async fn explain(
            &self,
            place: &str,
            error: hystrix_core::CommandError<io::Error>,
        ) -> io::Result<i32> {
            let error = error.into_error();
            Err(io::Error::new(
                error.kind(),
                Unanswered { text: format!("{}: {place}: {error}", self.name), error },
            ))
        }
    }

    /// What an error of the client is made of, so that what refused it can be found.
    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Unanswered {
        text: String,
        #[source]
        error: io::Error,
    }

    async fn ask(station: SocketAddr, place: &str) -> io::Result<String> {
        let mut stream = BufReader::new(connect(station).await?);
        stream.write_all(format!("{place}\n").as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        Ok(line)
    }

    #[command(group = "weather", timeout = "20s")]
    async fn connect(station: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(station).await
    }

    /// What is read off a chart, which belongs to no client.
    #[derive(Debug)]
    pub struct Chart(pub Vec<i32>);

    #[commands(group = "weather", ignore = |error| error.kind() == io::ErrorKind::NotFound)]
    impl Chart {
        /// The warmest day.
        #[command]
        pub fn warmest(&self) -> io::Result<i32> {
            self.0.iter().max().copied().ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    /// The commands that all clients share, for [`hystrix_core::Registry::register`].
    pub fn commands() -> [Annotated; 2] {
        [command_of!(connect), command_of!(Chart::warmest)]
    }
}

// ===== its users =====

/// Answers every question with its length, once the gate is open.
async fn station(gate: watch::Receiver<bool>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, gate.clone()));
        }
    });
    address
}

async fn answer(stream: TcpStream, mut gate: watch::Receiver<bool>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    gate.wait_for(|open| *open).await.unwrap();
    let length = line.trim_end().len();
    stream.write_all(format!("{length}\n").as_bytes()).await.unwrap();
}

/// What refused it, wherever in the chain it stands.
fn rejection(error: &std::io::Error) -> Option<&Rejection> {
    let mut next = error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static));
    while let Some(error) = next {
        if let Some(rejection) = error.downcast_ref() {
            return Some(rejection);
        }
        next = match error.downcast_ref::<std::io::Error>() {
            Some(error) => error.get_ref().map(|inner| inner as _),
            None => error.source(),
        };
    }
    None
}

#[tokio::test]
async fn two_clients_do_not_take_each_others_permits() {
    let _own = Registry::builder().build().enter();
    let (open, gate) = watch::channel(false);
    let station = station(gate).await;
    let options = |at_once| weather::Options { at_once, ..weather::Options::DEFAULT };
    let narrow = weather::Client::new("narrow", station, &options(1)).unwrap();
    let wide = weather::Client::new("wide", station, &options(3)).unwrap();

    let held = |client: &weather::Client, calls: usize| {
        let call =
            |client: weather::Client| tokio::spawn(async move { client.warmth("home").await.unwrap() });
        (0..calls).map(|_| call(client.clone())).collect::<Vec<_>>()
    };
    let calls: Vec<_> = [held(&narrow, 1), held(&wide, 3)].into_iter().flatten().collect();
    let in_use = |client: &weather::Client| client.command().metrics().permits_in_use;
    until_async("all permits are taken", || in_use(&narrow) == 1 && in_use(&wide) == 3).await;

    for (client, said) in [(&narrow, "1 of 1"), (&wide, "3 of 3")] {
        let error = client.warmth("away").await.unwrap_err();
        let refusal = rejection(&error).unwrap();
        assert_eq!(refusal.kind(), RejectionKind::PermitsExhausted);
        assert!(error.to_string().contains("away: weather/") && error.to_string().contains(said), "{error}");
    }

    open.send(true).unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap(), 4);
    }
    assert_eq!(narrow.warmth("away").await.unwrap(), 4);
    assert_eq!(counts(narrow.command()), "ok=2 semaphore_rejected=1 fallback_failure=1");
    assert_eq!(counts(wide.command()), "ok=3 semaphore_rejected=1 fallback_failure=1");
}

#[test]
fn a_limit_that_cannot_be_is_told_where_it_is_written() {
    let _own = Registry::builder().build().enter();
    let nowhere = ([127, 0, 0, 1], 1).into();
    let none = weather::Options { timeout: std::time::Duration::ZERO, ..weather::Options::DEFAULT };
    let error: ConfigError = weather::Client::new("none", nowhere, &none).unwrap_err();
    assert_eq!(error.field(), "timeout");
}

#[test]
fn the_shared_commands_are_known_before_the_first_call() {
    let registry = Registry::builder().strict().build();
    let _own = registry.enter();
    registry.register(weather::commands()).unwrap();
    let mut keys: Vec<String> = registry.commands().iter().map(|command| command.key().to_string()).collect();
    keys.sort();
    assert_eq!(keys, ["weather/connect", "weather/warmest"]);
    assert_eq!(weather::Chart(vec![3, 9, 4]).warmest().unwrap(), 9);
    assert!(weather::Chart(vec![]).warmest().is_err());
    assert_eq!(counts(&command_of!(weather::Chart::warmest)), "ok=1 bad_request=1");
}
