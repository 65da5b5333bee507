//! What a body has by value goes with it as a whole, is held while it runs, and is dropped in the order in which a function's own arguments are.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use hystrix_core::{CommandError, Queued, command};

use support::*;

type Answer<T = usize> = Result<T, CommandError<String>>;

/// Counts how many of it are held.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn of(held: &Arc<AtomicUsize>) -> Self {
        held.fetch_add(1, SeqCst);
        Self(held.clone())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

struct Job {
    data: Vec<u8>,
    gate: Gate,
    _permit: Permit,
}

impl Job {
    fn of(gate: &Gate, held: &Arc<AtomicUsize>) -> Self {
        Self { data: vec![1, 2], gate: gate.clone(), _permit: Permit::of(held) }
    }

    #[command(group = "captures", thread_pool = "jobs", timeout = "20ms")]
    fn run(self) -> Answer {
        self.gate.pass();
        Ok(self.data.len())
    }
}

#[command(group = "captures", thread_pool = "jobs", timeout = "20ms")]
fn run(job: Job) -> Answer {
    job.gate.pass();
    Ok(job.data.len())
}

#[command(group = "captures", thread_pool = "jobs", timeout = "20ms")]
fn run_in_parts((gate, _permit): (Gate, Permit)) -> Answer {
    gate.pass();
    Ok(1)
}

#[command(group = "captures", thread_pool = "jobs", timeout = "20ms")]
fn run_guarded(gate: Gate, _permit: Permit) -> Answer {
    gate.pass();
    Ok(1)
}

#[command(group = "captures", thread_pool = "jobs")]
fn run_later(job: Job) -> Queued<usize, String> {
    job.gate.pass();
    Ok(job.data.len())
}

#[test]
fn what_a_body_does_not_name_of_an_argument_is_held_until_it_really_ends() {
    let calls: [fn(Gate, Arc<AtomicUsize>) -> Answer; 4] = [
        |gate, held| run(Job::of(&gate, &held)),
        |gate, held| Job::of(&gate, &held).run(),
        |gate, held| run_in_parts((gate, Permit::of(&held))),
        |gate, held| run_guarded(gate, Permit::of(&held)),
    ];
    for call in calls {
        let (lab, gate, held) = (Lab::new(), Gate::new(), Arc::new(AtomicUsize::new(0)));
        let (registry, its_gate, its_held) = (lab.registry.clone(), gate.clone(), held.clone());
        let caller = aside(move || {
            let _here = registry.enter();
            call(its_gate, its_held)
        });
        gate.until_came(1);
        lab.advance_when_armed(1, ms(20));
        assert!(joined(caller).unwrap_err().is_timeout());
        assert_eq!(held.load(SeqCst), 1, "the body still runs");
        gate.open();
        until("it is released", || held.load(SeqCst) == 0);
    }
}

#[test]
fn so_it_is_where_the_call_is_queued() {
    let (lab, gate, held) = (Lab::new(), Gate::new(), Arc::new(AtomicUsize::new(0)));
    let _here = lab.registry.enter();
    let answer = run_later(Job::of(&gate, &held));
    gate.until_came(1);
    assert_eq!(held.load(SeqCst), 1);
    gate.open();
    assert_eq!(answer.wait(), Ok(2));
    until("it is released", || held.load(SeqCst) == 0);
}

/// Writes down when it is dropped.
struct Last<'a>(&'static str, &'a Mutex<Vec<&'static str>>);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

type Pair<'a> = (Last<'a>, Last<'a>);

impl Last<'_> {
    fn touch(&self) -> usize {
        self.0.len()
    }
}

#[command(group = "captures")]
fn in_order(a: Last<'_>, (b, c): Pair<'_>, _d: Last<'_>) -> Answer {
    Ok(a.touch() + b.touch() + c.touch())
}

#[command(group = "captures")]
async fn in_order_async(a: Last<'_>, (b, c): Pair<'_>, _d: Last<'_>) -> Answer {
    Ok(a.touch() + b.touch() + c.touch())
}

fn bare(a: Last<'_>, (b, c): Pair<'_>, _d: Last<'_>) -> Answer {
    Ok(a.touch() + b.touch() + c.touch())
}

#[test]
fn arguments_are_dropped_in_the_order_in_which_a_bare_functions_are() {
    let order = |call: &dyn Fn(Last<'_>, Pair<'_>, Last<'_>) -> Answer| {
        let log = Mutex::new(Vec::new());
        let last = |name| Last(name, &log);
        assert_eq!(call(last("a"), (last("b"), last("c")), last("d")), Ok(3));
        log.into_inner().unwrap()
    };
    let expected = order(&|a, parts, d| bare(a, parts, d));
    assert_eq!(expected, ["d", "c", "b", "a"]);
    assert_eq!(order(&|a, parts, d| in_order(a, parts, d)), expected);
    assert_eq!(order(&|a, parts, d| block_on(in_order_async(a, parts, d))), expected);
}

struct Connection {
    id: u32,
}

impl Connection {
    #[command(group = "captures", fallback = |_| Ok(self.id))]
    fn close(self) -> Answer<u32> {
        Err("in use".to_owned())?
    }
}

#[test]
fn an_object_that_only_the_fallback_uses_need_not_be_cloned() {
    assert_eq!(Connection { id: 7 }.close(), Ok(7));
}
