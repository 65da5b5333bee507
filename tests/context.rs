//! The caller's context: there in every body and fallback, once captured, and gone afterwards.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::IntoFuture;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use hystrix_core::context::{self, Carried, Propagator};
use hystrix_core::{Command, ManualClock, PoolCommand, Registry, ThreadPool};
use tracing::span;
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use support::*;

thread_local! {
    static TENANT: RefCell<Option<&'static str>> = const { RefCell::new(None) };
    static USER: RefCell<u32> = const { RefCell::new(0) };
}

fn tenant() -> Option<&'static str> {
    TENANT.with_borrow(|tenant| *tenant)
}

/// A pool of one, in a registry that carries the two thread-locals.
fn pool(timeout: &'static str) -> (ManualClock, Registry, PoolCommand) {
    let clock = ManualClock::new();
    let registry = Registry::builder()
        .clock(clock.clone())
        .propagator(context::thread_local(&TENANT))
        .propagator(context::thread_local(&USER))
        .build();
    let pool = ThreadPool::named("context").core_size(1).max_queue_size(5);
    let command = Command::builder("context").registry(&registry).thread_pool(pool).timeout(timeout);
    (clock, registry, command.build().unwrap())
}

#[test]
fn kb_11_kb_14_several_propagators_are_carried_together() {
    let (_, _registry, command) = pool("1s");
    TENANT.set(Some("a"));
    USER.set(7);
    let seen = || Ok::<_, ()>((tenant(), USER.with_borrow(|user| *user)));
    assert_eq!(command.run(seen).execute(), Ok((Some("a"), 7)));
    assert_eq!(command.run(seen).queue().wait(), Ok((Some("a"), 7)));
    assert_eq!(block_on(command.call(move || async move { seen() }).into_future()), Ok((Some("a"), 7)));
    // Awaits inside an async body see it at every poll.
    let twice = command.call(move || async move {
        let before = tenant();
        let mut first = true;
        std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if std::mem::take(&mut first) { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
        Ok::<_, ()>((before, tenant()))
    });
    assert_eq!(twice.execute(), Ok((Some("a"), Some("a"))));
}

#[test]
fn bc_089_ht_18_a_worker_keeps_nothing_of_its_last_caller() {
    let (_, _registry, command) = pool("1s");
    TENANT.set(Some("a"));
    let leaves = || {
        let seen = tenant();
        TENANT.set(Some("left behind"));
        Ok::<_, ()>(seen)
    };
    assert_eq!(command.run(leaves).execute(), Ok(Some("a")));
    TENANT.set(None);
    assert_eq!(command.run(|| Ok::<_, ()>(tenant())).execute(), Ok(None));
    TENANT.set(Some("b"));
    let panics = command.run(|| -> Result<(), ()> {
        TENANT.set(Some("left behind"));
        panic!("with a context in place")
    });
    assert!(panics.execute().is_err());
    let bare = Registry::builder().without_default_propagators().build();
    let nobody = Command::builder("bare").registry(&bare).thread_pool("bare").build().unwrap();
    assert_eq!(nobody.run(|| Ok::<_, ()>(tenant())).execute(), Ok(None), "nothing is carried there");
    TENANT.set(None);
    assert_eq!(command.run(|| Ok::<_, ()>(tenant())).execute(), Ok(None));
}

#[test]
fn bc_090_nested_commands_restore_in_order() {
    let (_, registry, outer) = pool("1s");
    let inner = Command::builder("inner").registry(&registry).thread_pool("inner").build().unwrap();
    TENANT.set(Some("a"));
    let seen = outer.run(move || {
        TENANT.set(Some("b"));
        let inside = inner.run(|| {
            let seen = tenant();
            TENANT.set(Some("c"));
            Ok::<_, ()>(seen)
        });
        let inside = inside.execute().unwrap();
        Ok::<_, ()>((inside, tenant()))
    });
    assert_eq!(seen.execute(), Ok((Some("b"), Some("b"))));
    assert_eq!(tenant(), Some("a"));
    TENANT.set(None);
    assert_eq!(outer.run(|| Ok::<_, ()>(tenant())).execute(), Ok(None));
}

#[test]
fn bc_088_ht_10_kb_12_a_fallback_after_a_timeout_sees_its_own_caller() {
    let (clock, _registry, command) = pool("20ms");
    let gate = Gate::new();
    let calls: Vec<_> = (0..6u32)
        .map(|number| {
            USER.set(number);
            let gate = gate.clone();
            let body = move || {
                gate.pass();
                Ok::<_, ()>((0, String::new()))
            };
            let seen =
                |_| Ok((USER.with_borrow(|user| *user), std::thread::current().name().unwrap().to_owned()));
            command.run(body).fallback(seen).queue()
        })
        .collect();
    USER.set(99);
    gate.until_came(1);
    clock.advance(ms(20));
    for (number, call) in calls.into_iter().enumerate() {
        let (user, thread) = call.wait().unwrap();
        assert_eq!(user, number as u32);
        assert!(thread.starts_with("hystrix-fallback-"), "{thread}");
    }
    gate.open();
    // A thread-local nobody registered is not there (HT-10).
    thread_local! { static OTHER: Cell<u8> = const { Cell::new(0) }; }
    OTHER.set(5);
    let unseen = command.run(|| Err(())).fallback(|_| Ok(OTHER.get())).queue();
    assert_eq!(unseen.wait(), Ok(0));
}

#[test]
fn a_context_is_captured_once_per_call_and_not_at_all_where_it_is_not_needed() {
    #[derive(Clone, Default)]
    struct Counting(Arc<(AtomicUsize, AtomicUsize)>);
    impl Propagator for Counting {
        fn capture(&self) -> Option<Box<dyn Carried>> {
            self.0.0.fetch_add(1, SeqCst);
            Some(Box::new(self.clone()))
        }
    }
    impl Carried for Counting {
        fn run(&self, body: &mut dyn FnMut()) {
            self.0.1.fetch_add(1, SeqCst);
            body();
        }
    }
    let counting = Counting::default();
    let registry = Registry::builder().propagator(counting.clone()).build();
    let here = Command::builder("here").registry(&registry).build().unwrap();
    let pool = Command::builder("pool").registry(&registry).thread_pool("pool").build().unwrap();
    let count = || (counting.0.0.load(SeqCst), counting.0.1.load(SeqCst));
    assert_eq!(here.run(|| Err(())).fallback(|_| Ok(1)).execute(), Ok(1));
    assert_eq!(block_on(here.call(|| async { Err(()) }).fallback(|_| Ok(1)).into_future()), Ok(1));
    assert_eq!(count(), (0, 0), "what stays with its caller captures nothing");
    assert_eq!(pool.run(|| Err(())).fallback(|_| Ok(2)).queue().wait(), Ok(2));
    let (captured, run) = count();
    assert_eq!(captured, 1);
    assert!((2..=4).contains(&run), "around the body, the fallback, and what judges them: {run}");
}

#[test]
fn a_propagator_that_misbehaves_costs_no_body() {
    let forgets = context::propagator(|| Some(()), |(): &(), _body: &mut dyn FnMut()| {});
    let twice = context::propagator(
        || Some(()),
        |(): &(), body: &mut dyn FnMut()| {
            body();
            body();
        },
    );
    let panics = context::propagator(|| Some(()), |(): &(), _body: &mut dyn FnMut()| panic!("restoring"));
    let ran = Arc::new(AtomicUsize::new(0));
    let call = |registry: &Registry| {
        let command = Command::builder("odd").registry(registry).thread_pool("odd").build().unwrap();
        let ran = ran.clone();
        let result = command.run(move || Ok::<_, ()>(ran.fetch_add(1, SeqCst))).execute();
        assert_eq!(command.pool().in_use, 0);
        result
    };
    assert_eq!(call(&Registry::builder().propagator(forgets).build()), Ok(0));
    assert_eq!(call(&Registry::builder().propagator(twice).build()), Ok(1));
    assert!(call(&Registry::builder().propagator(panics).build()).is_err());
    assert_eq!(ran.load(SeqCst), 2);
}

#[test]
fn tokio_task_locals_are_carried_by_two_functions() {
    tokio::task_local! { static REQUEST: u64; }
    let carried = context::propagator(
        || REQUEST.try_with(|id| *id).ok(),
        |id: &u64, body: &mut dyn FnMut()| {
            REQUEST.sync_scope(*id, body);
        },
    );
    let registry = Registry::builder().propagator(carried).build();
    let command = Command::builder("task").registry(&registry).thread_pool("task").build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = runtime.block_on(
        REQUEST.scope(5, async { command.run(|| Ok::<_, ()>(REQUEST.try_with(|id| *id).ok())).await }),
    );
    assert_eq!(seen, Ok(Some(5)));
}

#[test]
fn bc_092_the_tokio_runtime_of_the_caller_is_there_on_workers_and_in_fallbacks() {
    let (clock, _registry, command) = pool("50ms");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let spawns = || {
        let handle = tokio::runtime::Handle::try_current().map_err(drop)?;
        Ok::<_, ()>(handle.block_on(async {
            tokio::time::sleep(ms(1)).await;
            tokio::spawn(async { 7 }).await.unwrap()
        }))
    };
    let inside = handle.enter();
    assert_eq!(command.run(spawns).execute(), Ok(7));
    assert_eq!(command.run(|| Err(())).fallback(move |_| spawns()).queue().wait(), Ok(7));
    let gate = Gate::new();
    let body = {
        let gate = gate.clone();
        move || {
            gate.pass();
            Err(())
        }
    };
    let late = command.run(body).fallback(move |_| spawns()).queue();
    gate.until_came(1);
    clock.advance(ms(50));
    assert_eq!(late.wait(), Ok(7));
    gate.open();
    drop(inside);
    assert_eq!(
        command.run(spawns).execute(),
        Err(hystrix_core::CommandError::Inner(())),
        "no runtime, none carried"
    );
    let panicked = command.run(|| Ok::<_, ()>(drop(tokio::spawn(async {})))).execute();
    assert!(panicked.is_err(), "the body's own panic is an outcome");
}

// ===== tracing =====

/// Remembers spans and their parents, and the events seen.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<HashMap<&'static str, Option<&'static str>>>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, _: &span::Attributes<'_>, id: &span::Id, context: LayerContext<'_, S>) {
        let span = context.span(id).expect("a new span is there");
        let parent = span.parent().map(|parent| parent.name());
        self.0.lock().unwrap().insert(span.name(), parent);
    }
}

#[test]
fn bc_087_bc_091_spans_on_workers_and_in_fallbacks_belong_to_the_caller() {
    let recorder = Recorder::default();
    let (clock, _registry, command) = pool("20ms");
    let subscriber = tracing_subscriber::registry().with(recorder.clone());
    let gate = Gate::new();
    let late = tracing::subscriber::with_default(subscriber, || {
        let _request = tracing::info_span!("request").entered();
        let body = || Ok::<_, ()>(drop(tracing::info_span!("in_body").entered()));
        command.run(body).execute().unwrap();
        let inside = gate.clone();
        let body = move || Ok::<_, ()>(inside.pass());
        command.run(body).fallback(|_| Ok(drop(tracing::info_span!("in_fallback").entered()))).queue()
    });
    gate.until_came(1);
    clock.advance(ms(20));
    assert_eq!(late.wait(), Ok(()));
    gate.open();
    let seen = recorder.0.lock().unwrap().clone();
    assert_eq!(seen["in_body"], Some("request"));
    assert_eq!(seen["in_fallback"], Some("request"));
    // Without a subscriber of its own the next caller's spans go nowhere.
    until("free", || command.pool().active == 0);
    command.run(|| Ok::<_, ()>(drop(tracing::info_span!("unseen").entered()))).execute().unwrap();
    assert!(!recorder.0.lock().unwrap().contains_key("unseen"));
}

#[test]
fn bc_091_a_callers_own_subscriber_goes_before_a_global_one() {
    if !in_a_child("bc_091_a_callers_own_subscriber_goes_before_a_global_one") {
        return;
    }
    let [global, own] = [Recorder::default(), Recorder::default()];
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(global.clone())).unwrap();
    let (clock, _registry, command) = pool("20ms");
    let gate = Gate::new();
    let late = tracing::subscriber::with_default(tracing_subscriber::registry().with(own.clone()), || {
        let _request = tracing::info_span!("request").entered();
        let inside = gate.clone();
        let body = move || {
            drop(tracing::info_span!("in_body").entered());
            Ok::<_, ()>(inside.pass())
        };
        command.run(body).fallback(|_| Ok(drop(tracing::info_span!("in_fallback").entered()))).queue()
    });
    gate.until_came(1);
    clock.advance(ms(20));
    assert_eq!(late.wait(), Ok(()));
    gate.open();
    assert_eq!(own.0.lock().unwrap().len(), 3, "request, body, and fallback");
    assert!(global.0.lock().unwrap().is_empty());
    until("free", || command.pool().active == 0);
    command.run(|| Ok::<_, ()>(drop(tracing::info_span!("later").entered()))).execute().unwrap();
    assert!(global.0.lock().unwrap().contains_key("later") && own.0.lock().unwrap().len() == 3);
}
