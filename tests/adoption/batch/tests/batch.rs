//! A nightly batch that knows of no runtime: it reads statements, puts them on a pool, four at once, and collects. A queue that is full is what
//! slows it down; a line that never ends is left behind; the rest of the work is not lost for it.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hystrix_core::{
    CommandError, Queued, Registry, Rejection, RejectionKind, ThreadPool, cancellation, command, command_of,
};

// ===== the job =====

#[derive(Debug, PartialEq)]
enum Broken {
    NoAmount,
    Amount(String),
    Refused(Rejection),
}

impl From<Rejection> for Broken {
    fn from(rejection: Rejection) -> Self {
        Broken::Refused(rejection)
    }
}

type Booking = (String, i64);

/// Reads one line. A line that is wrong is no sign of a broken reader.
#[command(
    group = "batch",
    thread_pool = ThreadPool::of_the_group().core_size(4).max_queue_size(2),
    timeout = "20s",
    to_owned(line),
    ignore = |_| true
)]
fn read(line: &str) -> Queued<Booking, Broken> {
    let (account, amount) = line.split_once(' ').ok_or(Broken::NoAmount)?;
    let amount = amount.parse().map_err(|_| Broken::Amount(amount.into()))?;
    Ok((account.into(), amount))
}

/// A reader that never ends by itself, though it asks whether anybody waits.
#[command(group = "batch", thread_pool = "endless", timeout = "50ms", to_owned(line))]
fn read_for_ever(line: &str) -> Queued<Booking, Broken> {
    while !cancellation().is_cancelled() {
        std::thread::yield_now();
    }
    Err(Broken::Amount(line.into()))
}

#[derive(Default, Debug, PartialEq)]
struct Sums {
    accounts: BTreeMap<String, i64>,
    broken: Vec<Broken>,
    /// How often the pool was full, and a result was waited for before the next line.
    waited: usize,
}

impl Sums {
    fn add(&mut self, booked: Queued<Booking, Broken>) {
        match booked.wait().map_err(CommandError::into_error) {
            Ok((account, amount)) => *self.accounts.entry(account).or_default() += amount,
            Err(error) => self.broken.push(error),
        }
    }
}

/// As many lines at once as the pool takes; never more in memory than that.
fn sum<'a>(lines: impl Iterator<Item = &'a str>) -> Sums {
    let pool = command_of!(read);
    let (mut sums, mut under_way) = (Sums::default(), VecDeque::new());
    for line in lines {
        if under_way.len() == 6 {
            sums.waited += 1;
            under_way.pop_front().into_iter().for_each(|first| sums.add(first));
        }
        under_way.push_back(read(line));
        assert!(pool.metrics().in_flight <= 6);
    }
    under_way.into_iter().for_each(|booked| sums.add(booked));
    sums
}

// ===== the tests =====

#[test]
fn a_batch_is_summed_and_what_is_broken_is_told() {
    let _own = Registry::builder().build().enter();
    let lines: Vec<String> = (0..100).map(|line| format!("account{} {line}", line % 3)).collect();
    let broken = ["nothing", "account0 much"];
    let sums = sum(lines.iter().map(String::as_str).chain(broken));

    let accounts = [("account0", 1683), ("account1", 1617), ("account2", 1650)];
    assert_eq!(sums.accounts, accounts.map(|(account, cents)| (account.to_owned(), cents)).into());
    assert_eq!(sums.broken, [Broken::NoAmount, Broken::Amount("much".into())]);
    assert_eq!(sums.waited, 96);
    let counts = command_of!(read).metrics().cumulative;
    assert_eq!((counts.success, counts.bad_request, counts.thread_pool_rejected), (100, 2, 0));
}

#[test]
fn a_line_that_never_ends_is_left_behind() {
    let _own = Registry::builder().build().enter();
    let (endless, other) = (read_for_ever("account1 ?"), read("account1 5"));
    let late = endless.wait().unwrap_err();
    assert_eq!(late.rejection().map(Rejection::kind), Some(RejectionKind::TimedOut));
    assert_eq!(other.wait(), Ok(("account1".into(), 5)));

    let begin = Instant::now();
    while command_of!(read_for_ever).metrics().abandoned > 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "the worker never came back");
        std::thread::yield_now();
    }
}

/// Nothing of the library is missing for what is async: no feature is asked for.
#[test]
fn bc_034_an_async_command_needs_no_runtime() {
    #[command(group = "batch", timeout = "20s")]
    async fn rate(currency: &str) -> Result<u32, String> {
        std::future::ready(()).await;
        if currency == "NZD" { Ok(61) } else { Err(format!("no rate for {currency}")) }
    }

    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(rate("NZD")).poll(&mut context), Poll::Ready(Ok(61)));
    assert_eq!(pin!(rate("ATS")).poll(&mut context), Poll::Ready(Err("no rate for ATS".into())));
}

#[test]
fn a_program_ends_when_its_work_has() {
    let registry = Registry::builder().build();
    let _own = registry.enter();
    let waiting: Vec<Queued<Booking, Broken>> = ["a 1", "b 2", "c 3"].map(read).into();
    let report = registry.shutdown(Duration::from_secs(30));
    assert!(report.is_clean(), "{report:?}");
    let amounts = waiting.into_iter().map(|booked| booked.wait().unwrap().1);
    assert_eq!(amounts.sum::<i64>(), 6);
    let refused = read("d 4").wait().unwrap_err();
    assert_eq!(refused.rejection().map(Rejection::kind), Some(RejectionKind::ShutDown));
}
