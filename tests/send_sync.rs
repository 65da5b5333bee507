//! Which public types cross threads. A change here is a change of the public face.

use std::time::Duration;

use hystrix_core::{
    AbandonedEvent, Alarm, CallEvent, Cancellation, CircuitBreaker, CircuitEvent, Command, CommandConfig,
    CommandError, CommandHandle, CommandKey, ConfigError, Counts, Entered, Finding, Keyed, Latency, LeftOver,
    Limit, ManualClock, Metrics, ModeEvent, PoolCommand, PoolEvent, PoolReport, Queued, Registry,
    RegistryBuilder, Rejection, RunningTask, Select, Settings, Shutdown, ShutdownReport, Subscription,
    SystemClock, ThreadPool, Timeout, Timestamp, TokioClock,
};

fn is_send<T: Send>() {}

fn is_send_and_sync<T: Send + Sync>() {}

macro_rules! send_and_sync {
    ($($type:ty),* $(,)?) => { $(is_send_and_sync::<$type>();)* };
}

/// Does not compile where the type has the trait: then there are two ways to read the call.
macro_rules! is_not {
    ($type:ty: $trait:ident) => {{
        trait Ambiguous<A> {
            fn ask() {}
        }
        impl<T: ?Sized> Ambiguous<()> for T {}
        struct Has;
        impl<T: ?Sized + $trait> Ambiguous<Has> for T {}
        <$type as Ambiguous<_>>::ask();
    }};
}

#[test]
fn handles_words_and_snapshots_are_send_and_sync() {
    send_and_sync![
        Command,
        PoolCommand,
        CommandHandle,
        Keyed<Command>,
        Keyed<PoolCommand>,
        CommandConfig,
        CircuitBreaker,
        ThreadPool,
        Timeout,
        Limit,
        Settings,
        Select,
        Registry,
        RegistryBuilder,
        Subscription,
        Shutdown,
        ShutdownReport,
        LeftOver,
        Finding,
        ManualClock,
        SystemClock,
        TokioClock,
        Timestamp,
        Alarm,
        CommandKey,
        CommandError<std::io::Error>,
        Rejection,
        ConfigError,
        Metrics,
        Counts,
        Latency,
        PoolReport,
        RunningTask,
        CallEvent,
        CircuitEvent,
        ModeEvent,
        PoolEvent,
        AbandonedEvent,
        Cancellation
    ];
}

#[test]
fn a_queued_call_crosses_threads_when_its_answer_does() {
    is_send::<Queued<Vec<u8>, std::io::Error>>();
}

#[test]
fn what_belongs_to_a_thread_stays_there() {
    is_not!(Entered: Send);
}

#[test]
fn a_call_in_a_task_is_as_free_as_its_body() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let command = Command::builder("free").timeout(Duration::from_secs(1)).build().expect("a command");
    let pool = Command::builder("free_pool").thread_pool("free").build().expect("a command");
    let here = sent(async { command.call(|| async { Ok::<_, ()>(1) }).fallback(|_| async { Ok(2) }).await });
    let there = sent(async { pool.run(|| Ok::<_, ()>(3)).fallback(|_| async { Ok(4) }).await });
    // A body that stays on its thread may be called there all the same.
    let rc = std::rc::Rc::new(5);
    let stays = command.call(|| async { Ok::<_, ()>(*rc) });
    let all = futures::executor::block_on(async { (here.await, there.await, stays.await) });
    assert_eq!(all, (Ok(1), Ok(3), Ok(5)));
}
