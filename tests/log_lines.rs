//! What an operator sees unasked: few lines, each with the numbers, and none per call.

#[path = "support/log.rs"]
mod log;
mod support;

use hystrix_core::Command;

use log::lines;
use support::*;

/// Fills a command with a call whose body makes others, which are refused.
fn refused(command: &Command, times: usize) {
    let full = command.run(|| {
        let refusals = (0..times).filter(|_| command.run(|| Ok::<_, ()>(())).execute().is_err());
        assert_eq!(refusals.count(), times);
        Ok::<_, ()>(())
    });
    full.execute().unwrap();
}

#[test]
fn a_circuit_says_why_it_changed_once_per_change() {
    let lab = Lab::new();
    let command = lab.command("touchy").circuit_breaker(touchy(2)).build().unwrap();
    let call = |result: Result<(), &'static str>| drop(command.run(move || result).execute());
    let opening = lines(|| (0..2).for_each(|_| call(Err("E1"))));
    let [line] = &opening[..] else { panic!("{opening:?}") };
    for part in ["WARN", "circuit changed", "lab/touchy", "Closed", "Open", "requests=2", "failures=2"] {
        assert!(line.to_lowercase().contains(&part.to_lowercase()), "{part}: {line}");
    }
    lab.clock.advance(ms(200));
    let recovery = lines(|| call(Ok(())));
    assert_eq!(recovery.len(), 2, "half-open, then closed: {recovery:?}");
    assert_eq!(lines(|| (0..100).for_each(|_| call(Ok(())))), Vec::<String>::new());
}

#[test]
fn refusals_say_so_once_a_minute_and_cause() {
    let lab = Lab::new();
    let command = lab.command("full").semaphore(1).circuit_breaker(touchy(1000)).build().unwrap();
    let first = lines(|| refused(&command, 50));
    let [line] = &first[..] else { panic!("{first:?}") };
    assert!(line.contains("WARN") && line.contains("lab/full") && line.contains("refused=1"), "{line}");
    assert!(!line.contains("suggested"), "somebody chose this limit: {line}");
    lab.clock.advance(ms(59_999));
    assert_eq!(lines(|| refused(&command, 50)), Vec::<String>::new());
    lab.clock.advance(ms(1));
    assert_eq!(lines(|| refused(&command, 50)).len(), 1);
    command.force_open();
    let other_cause = lines(|| drop(command.run(|| Ok::<_, ()>(())).execute()));
    assert_eq!(other_cause.len(), 1, "{other_cause:?}");
    assert_eq!(command.metrics().cumulative.semaphore_rejected, 150);
}

#[test]
fn a_limit_nobody_chose_comes_with_the_one_its_traffic_suggests() {
    let lab = Lab::new();
    let command = lab.command("default").build().unwrap();
    // 60 calls of a second each in 10 s keep six permits busy; twice that is the advice.
    for _ in 0..9 {
        for _ in 0..6 {
            let call = command.run(|| Ok::<_, ()>(lab.clock.advance(ms(150))));
            call.execute().unwrap();
        }
    }
    let mut said = Vec::new();
    fn nested(command: &Command, depth: usize) {
        let deeper = || {
            Ok::<_, ()>(if depth > 0 {
                nested(command, depth - 1)
            })
        };
        let _ = command.run(deeper).execute();
    }
    said.extend(lines(|| nested(&command, 10)));
    let [line] = &said[..] else { panic!("{said:?}") };
    assert!(line.contains("a limit nobody chose") && line.contains("suggested_limit=11"), "{line}");
}
