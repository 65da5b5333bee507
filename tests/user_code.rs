//! Code of the user at its worst: it panics where nobody expects it, eats wake-ups, and calls back. Nobody hangs, nothing is lost.

mod support;

use std::cell::RefCell;
use std::future::{Future, IntoFuture, poll_fn};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{current, park};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    AbandonedEvent, Alarm, CallEvent, Clock, Command, CommandError, EventSink, ManualClock, PoolCommand,
    Registry, SystemClock, Timestamp, Waking, context,
};

use support::*;

/// A pool of one without a timeout: who hangs on it hangs for good, and `joined` says so.
fn pool(registry: &Registry, key: &'static str) -> PoolCommand {
    Command::builder(key).thread_pool(key).timeout(None).registry(registry).build().unwrap()
}

fn living() -> Registry {
    Registry::builder().build()
}

/// Panics when it is dropped, unless a panic is under way.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a bomb");
        }
    }
}

/// What a panic carries that panics again.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("a payload");
    }
}

// ===== wake-ups =====

#[test]
fn a_body_that_parks_inside_its_poll_loses_no_wake_up() {
    let registry = living();
    let command = pool(&registry, "parks");
    let answer = aside(move || {
        let body = || {
            let mut first = true;
            poll_fn(move |cx| {
                if !std::mem::take(&mut first) {
                    return Poll::Ready(Ok::<_, ()>(1));
                }
                cx.waker().wake_by_ref();
                // As a channel, a scope or another executor does: this takes the wake-up's token.
                park();
                Poll::Pending
            })
        };
        command.call(body).execute()
    });
    assert_eq!(joined(answer), Ok(1));
}

#[test]
fn a_timeout_reaches_a_worker_whose_body_has_parked() {
    let lab = Lab::new();
    let command = lab.on_pool("parked", 1, 0).timeout("1s").build().unwrap();
    let gate = Gate::new();
    let body = gate.clone();
    let call = command.call(move || {
        let mut first = true;
        poll_fn(move |_| {
            if std::mem::take(&mut first) {
                body.pass();
                std::thread::park_timeout(Duration::ZERO);
            }
            Poll::<Result<(), ()>>::Pending
        })
    });
    let call = call.queue();
    gate.until_came(1);
    lab.clock.advance(ms(1000));
    gate.open();
    assert!(joined(aside(move || call.wait())).is_err());
    until("the worker is free", || command.pool().active == 0);
}

#[test]
fn a_waker_that_panics_keeps_no_shutdown_from_its_end() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    let registry = living();
    let one = hystrix_core::ThreadPool::named("waits").core_size(1).max_queue_size(5);
    let command =
        Command::builder("waits").thread_pool(one).timeout(None).registry(&registry).build().unwrap();
    let gate = Gate::new();
    let _busy = command.run(at_gate(&gate)).queue();
    gate.until_came(1);
    let mut bad = command.run(|| Ok::<_, ()>(())).queue();
    let good = command.run(|| Ok::<_, ()>(())).queue();
    let waker = Waker::from(Arc::new(Panics));
    assert!(Pin::new(&mut bad).poll(&mut Context::from_waker(&waker)).is_pending());
    let ending = aside({
        let registry = registry.clone();
        move || block_on(registry.shutdown_async(ms(1)))
    });
    assert_eq!(joined(ending).left.len(), 1);
    assert!(good.is_ready(), "it was told all the same");
    gate.open();
}

// ===== drops and payloads =====

#[test]
fn a_rule_that_panics_when_it_is_dropped_costs_no_answer() {
    let registry = living();
    let command = pool(&registry, "rule");
    let here = Command::builder("here").timeout("1m").registry(&registry).build().unwrap();
    let bomb = || {
        let bomb = Bomb;
        move |_: &u32| {
            let _ = &bomb;
            true
        }
    };
    let (on_worker, in_place) = (bomb(), bomb());
    let answer = aside(move || command.run(|| Err::<(), _>(7)).ignore(on_worker).execute());
    assert_eq!(joined(answer), Err(CommandError::Inner(7)));
    let answer = here.run(|| Err::<u32, _>(7)).ignore(in_place).fallback(|_| Ok(2)).execute();
    assert_eq!(answer, Err(CommandError::Inner(7)));
    assert!(registry.shutdown(PATIENCE).is_clean(), "nothing is owed");
}

#[test]
fn a_body_that_panics_when_it_is_dropped_costs_no_fallback() {
    let lab = Lab::new();
    let (here, pool) = (lab.command("here").build().unwrap(), lab.on_pool("pool", 1, 0).build().unwrap());
    here.force_open();
    pool.force_open();
    let body = || {
        let bomb = Bomb;
        move || {
            let _ = &bomb;
            Ok::<_, ()>(1)
        }
    };
    assert_eq!(here.run(body()).fallback(|_| Ok(2)).execute(), Ok(2));
    assert_eq!(pool.run(body()).fallback(|_| Ok(2)).execute(), Ok(2));
    assert_eq!(lab.events.calls().len(), 2);
}

#[test]
fn a_panic_whose_payload_panics_again_is_contained_as_well() {
    struct Bad;
    impl EventSink for Bad {
        fn call(&self, _: &CallEvent) {
            panic_any(Payload);
        }
    }
    let registry = Registry::builder().sink(Bad).build();
    let command = pool(&registry, "payload");
    let answers = aside(move || {
        let wants = |_: &CommandError<()>| -> bool { panic_any(Payload) };
        let asked = command.run(|| Err::<u8, ()>(())).fallback(|_| Ok(1)).fallback_if(wants).queue().wait();
        let panicked = command.run(|| -> Result<u8, ()> { panic_any(Payload) }).execute();
        (asked.is_err(), panicked.is_err(), command.run(|| Ok::<_, ()>(1)).execute())
    });
    assert_eq!(joined(answers), (true, true, Ok(1)));
}

// ===== threads and clocks =====

#[test]
fn a_call_on_a_thread_that_is_ending_is_a_call() {
    struct AtExit(PoolCommand, mpsc::Sender<Result<u32, CommandError<()>>>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.run(|| Ok(1)).execute());
        }
    }
    thread_local! { static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) }; }
    let registry = living();
    let command = pool(&registry, "at_exit");
    let (sender, answer) = mpsc::channel();
    joined(aside(move || {
        AT_EXIT.set(Some(AtExit(command.clone(), sender)));
        // Makes the thread's own values of the library after that one, so that they go first.
        context::with(1u8, || command.run(|| Ok::<_, ()>(1)).execute()).unwrap();
    }));
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(1)));
}

/// Does something once, the first time a thread of that name asks for the time.
#[derive(Debug)]
struct Once(SystemClock, &'static str, AtomicBool);

impl Clock for Once {
    fn now(&self) -> Timestamp {
        if current().name() == Some(self.1) && self.2.swap(false, SeqCst) {
            panic!("a clock");
        }
        self.0.now()
    }
}

#[test]
fn a_clock_that_panics_stands_still_for_that_once() {
    for thread in ["hystrix-timer", "hystrix-late-1"] {
        let clock = Once(SystemClock, thread, AtomicBool::new(true));
        let registry = Registry::builder().clock(clock).build();
        let here = Command::builder("late").timeout("10ms").registry(&registry).build().unwrap();
        let command =
            Command::builder("pool").thread_pool("late").timeout(None).registry(&registry).build().unwrap();
        let answers = aside(move || {
            let late =
                [(); 2].map(|()| block_on(here.call(std::future::pending::<Result<(), ()>>).into_future()));
            (late.iter().all(Result::is_err), command.run(|| Ok::<_, ()>(1)).execute())
        });
        assert_eq!(joined(answers), (true, Ok(1)), "{thread}");
    }
}

#[test]
fn a_deadline_that_the_timer_has_called_is_a_timeout_whatever_other_threads_read() {
    #[derive(Debug)]
    struct Ahead(SystemClock);
    impl Clock for Ahead {
        fn now(&self) -> Timestamp {
            let ahead = if current().name() == Some("hystrix-timer") { ms(10) } else { Duration::ZERO };
            self.0.now() + ahead
        }
    }
    let registry = Registry::builder().clock(Ahead(SystemClock)).build();
    let command = Command::builder("ahead").timeout("30ms").registry(&registry).build().unwrap();
    let error = block_on(command.call(std::future::pending::<Result<(), ()>>).into_future()).unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[test]
fn a_task_that_a_moving_clock_wakes_may_move_it_further() {
    type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
    /// Polls its task where it is woken.
    struct Inline(Mutex<Option<Task>>);
    impl Wake for Inline {
        fn wake(self: Arc<Self>) {
            let task = self.0.lock().unwrap().take();
            if let Some(mut task) = task {
                let waker = Waker::from(self.clone());
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    *self.0.lock().unwrap() = Some(task);
                }
            }
        }
    }
    let lab = Lab::new();
    let command = lab.command("inline").timeout("1s").build().unwrap();
    let (clock, begin) = (lab.clock.clone(), lab.clock.now());
    let task = Box::pin(async move {
        let _ = command.call(std::future::pending::<Result<(), ()>>).await;
        clock.advance(ms(500));
    });
    Arc::new(Inline(Mutex::new(Some(task)))).wake();
    let clock = lab.clock.clone();
    joined(aside(move || clock.advance(ms(1000))));
    assert_eq!(lab.clock.now().since(begin), ms(1500));
}

type Hook = Box<dyn FnOnce() + Send>;

/// A clock with a hook in it: the test steps in where one thread asks for the time.
#[derive(Clone, Default)]
struct Hooked(ManualClock, Arc<Mutex<Option<Hook>>>);

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        if current().name() == Some("leaves") {
            let hook = self.1.lock().unwrap().take();
            if let Some(hook) = hook {
                hook();
            }
        }
        self.0.now()
    }

    fn wake_at(&self, when: Timestamp, alarm: &Alarm) -> Waking {
        self.0.wake_at(when, alarm)
    }
}

#[test]
fn a_body_that_ends_while_its_caller_is_leaving_is_counted_as_abandoned_once() {
    struct Ended(mpsc::Sender<()>);
    impl EventSink for Ended {
        fn abandoned_ended(&self, _: &AbandonedEvent) {
            let _ = self.0.send(());
        }
    }
    let (clock, (sender, ended)) = (Hooked::default(), mpsc::channel());
    let registry = Registry::builder().clock(clock.clone()).sink(Ended(sender)).build();
    let command = pool(&registry, "leaving");
    let (gate, seen) = (Gate::new(), Arc::new(Mutex::new(None)));
    let call = command.run(at_gate(&gate)).queue();
    gate.until_came(1);
    let (opens, looks, at) = (gate.clone(), command.clone(), seen.clone());
    *clock.1.lock().unwrap() = Some(Box::new(move || {
        opens.open();
        ended.recv_timeout(PATIENCE).expect("the body ends while its caller is on its way out");
        *at.lock().unwrap() = Some(looks.metrics().abandoned);
    }));
    let leaves = std::thread::Builder::new().name("leaves".into()).spawn(move || drop(call)).unwrap();
    joined(leaves);
    assert_eq!(*seen.lock().unwrap(), Some(0));
    assert_at_rest(&command);
}
