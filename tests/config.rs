//! Settings: who wins, what is refused, and that every one of them does something.

mod support;

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures::executor::block_on;
use hystrix_core::{
    CircuitBreaker, CircuitState, Command, CommandConfig, CommandHandle, ConfigError, Limit, Mode, Origin,
    Registry, RejectionKind, Select, Settings, ThreadPool, Timeout,
};

use support::*;

fn layer() -> CommandConfig {
    CommandConfig::new()
}

fn timeout_of(command: &CommandHandle) -> (Option<Duration>, Origin) {
    let setting = command.settings().timeout();
    (setting.value.get(), setting.origin)
}

// ===== who wins =====

#[test]
fn hc_270_hc_271_to_04_dub_32_the_first_layer_that_sets_a_field_wins() {
    let registry = Registry::builder()
        .defaults(layer().timeout("1m"))
        .and_then(|builder| builder.group_defaults("users", layer().timeout("2m")))
        .unwrap()
        .build();
    let builder = |group| Command::builder("get").group(group).registry(&registry);
    let written = builder("users").timeout("3m").build().unwrap();
    let of_group = Command::builder("list").group("users").registry(&registry).build().unwrap();
    let other = builder("other").build().unwrap();
    let minutes = |count: u64| Some(Duration::from_secs(count * 60));
    assert_eq!(timeout_of(&written), (minutes(3), Origin::Code));
    assert_eq!(timeout_of(&of_group), (minutes(2), Origin::GroupDefaults));
    assert_eq!(timeout_of(&other), (minutes(1), Origin::RegistryDefaults));
    assert_eq!(other.settings().semaphore().origin, Origin::BuiltIn);

    let selections = [
        (Select::all(), "4m", Origin::LiveAll),
        (Select::group("users"), "5m", Origin::LiveGroup),
        (Select::command("users", "get"), "6m", Origin::LiveCommand),
    ];
    for (number, (select, timeout, origin)) in selections.iter().enumerate() {
        registry.apply(select.clone(), layer().timeout(*timeout)).unwrap();
        assert_eq!(timeout_of(&written), (minutes(4 + number as u64), *origin));
    }
    assert_eq!(timeout_of(&of_group), (minutes(5), Origin::LiveGroup));
    assert_eq!(timeout_of(&other), (minutes(4), Origin::LiveAll));
    // Taken away in any order, what lies below is in force again.
    for (select, expected) in [(1, minutes(6)), (2, minutes(4)), (0, minutes(3))] {
        assert!(registry.remove(&selections[select].0));
        assert_eq!(timeout_of(&written).0, expected);
        assert!(!registry.remove(&selections[select].0), "it is gone");
    }
    assert_eq!(timeout_of(&of_group), (minutes(2), Origin::GroupDefaults));
}

#[test]
fn a_layer_sets_what_it_names_and_nothing_else() {
    let lab = Lab::new();
    let breaker = CircuitBreaker::new().request_volume_threshold(7).sleep_window(ms(70));
    let command = lab.command("partly").semaphore(3).circuit_breaker(breaker).build().unwrap();
    let live = layer().circuit_breaker(CircuitBreaker::new().sleep_window(ms(5)));
    lab.registry.apply(Select::all(), live).unwrap();
    let settings = command.settings();
    assert_eq!((settings.sleep_window().value, settings.sleep_window().origin), (ms(5), Origin::LiveAll));
    let volume = settings.request_volume_threshold();
    assert_eq!((volume.value, volume.origin), (7, Origin::Code));
    assert_eq!(settings.semaphore().value, Limit::from(3));
}

#[test]
fn layers_reach_commands_that_come_later() {
    let lab = Lab::new();
    lab.registry.apply(Select::command("lab", "later"), layer().semaphore(1)).unwrap();
    let command = lab.command("later").semaphore(50).build().unwrap();
    assert_eq!(command.settings().semaphore().value, Limit::from(1));
    let inside = command.run(|| Ok::<_, ()>(kind(&command.run(|| Ok::<_, ()>(())).execute())));
    assert_eq!(inside.execute(), Ok(Some(RejectionKind::PermitsExhausted)));
}

#[test]
fn what_the_builder_sets_by_itself_wins_over_a_whole_layer() {
    let lab = Lab::new();
    let whole = layer().timeout("1s").semaphore(7);
    let before = lab.command("before").timeout("2s").config(whole.clone()).build().unwrap();
    let after = lab.command("after").config(whole).timeout("2s").build().unwrap();
    for command in [before, after] {
        assert_eq!(timeout_of(&command), (Some(Duration::from_secs(2)), Origin::Code));
        assert_eq!(command.settings().semaphore().value, Limit::from(7));
    }
}

#[test]
fn dub_32_a_layer_that_cannot_be_is_refused_whole_and_what_is_in_force_stays() {
    let lab = Lab::new();
    let command = lab.command("kept").build().unwrap();
    lab.registry.apply(Select::all(), layer().timeout("1m").semaphore(5)).unwrap();
    let before = command.settings();
    let percentage = |value| CircuitBreaker::new().error_threshold_percentage(value);
    let refused = [
        (layer().semaphore(2).timeout(Duration::ZERO), "timeout", "0ns"),
        (layer().semaphore(2).timeout("soon"), "timeout", "\"soon\""),
        (layer().semaphore(2).fallback_semaphore(0), "fallback_semaphore", "0"),
        (layer().timeout("2s").semaphore(0), "semaphore", "0"),
        (layer().semaphore(2).circuit_breaker(percentage(f64::NAN)), "error_threshold_percentage", "NaN"),
        (layer().semaphore(2).rolling_window(ms(100)), "rolling_window", "\"set\""),
        (layer().semaphore(2).circuit_breaker(CircuitBreaker::shared("host")), "shared", "\"host\""),
    ];
    for (layer, field, value) in refused {
        let error = lab.registry.apply(Select::command("lab", "kept"), layer).unwrap_err();
        assert_eq!((error.field(), error.value()), (field, value), "{error}");
        assert!(!error.allowed().is_empty());
        assert_eq!(command.settings(), before);
    }
    assert!(!lab.registry.remove(&Select::command("lab", "kept")), "none of them is kept");
}

#[test]
fn kb_33_of_two_definitions_the_first_stands_and_the_difference_is_told() {
    let lab = Lab::new();
    let first = lab.command("twice").timeout("1s").build().unwrap();
    let second = lab.command("twice").timeout("10ms").build().unwrap();
    let third = lab.command("twice").timeout("10ms").build().unwrap();
    for command in [&first, &second, &third] {
        assert_eq!(timeout_of(command).0, Some(Duration::from_secs(1)));
    }
    let findings = lab.registry.audit();
    assert_eq!(findings.len(), 1, "once: {findings:?}");
    assert_eq!(&*findings[0].about, "lab/twice");
    // Changed on purpose, it changes for all.
    lab.registry.apply(Select::command("lab", "twice"), layer().timeout("10ms")).unwrap();
    assert_eq!(timeout_of(&first).0, Some(ms(10)));
}

#[test]
fn kb_34_readers_never_see_a_default_between_two_values() {
    let registry = Registry::builder().build();
    let semaphore = |permits: usize| layer().semaphore(permits).timeout(Duration::from_secs(permits as u64));
    registry.apply(Select::all(), semaphore(100)).unwrap();
    let command = Command::builder("set_in_a_loop").registry(&registry).build().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let reader = {
        let (command, ended) = (command.clone(), ended.clone());
        aside(move || {
            while !ended.load(SeqCst) {
                let settings = command.settings();
                let (permits, timeout) = (settings.semaphore(), settings.timeout());
                assert_eq!((permits.origin, timeout.origin), (Origin::LiveAll, Origin::LiveAll));
                let seconds = timeout.value.get().unwrap().as_secs() as usize;
                assert_eq!(permits.value, Limit::from(seconds), "both of one layer");
                command.run(|| Ok::<_, ()>(())).execute().unwrap();
            }
        })
    };
    for round in 0..2_000 {
        registry.apply(Select::all(), semaphore(100 + round % 7)).unwrap();
    }
    ended.store(true, SeqCst);
    joined(reader);
}

#[test]
fn kb_51_the_settings_in_effect_can_be_printed_with_their_origins() {
    let lab = Lab::new();
    let command = lab.command("shown").semaphore(64).build().unwrap();
    lab.registry.apply(Select::all(), layer().mode(Mode::Shadow)).unwrap();
    let shown = command.settings().to_string();
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or("missing").to_owned();
    assert!(line("semaphore").contains("64") && line("semaphore").ends_with("Code"), "{shown}");
    assert!(line("mode").contains("Shadow") && line("mode").ends_with("LiveAll"), "{shown}");
    assert!(line("sleep_window").contains("5s") && line("sleep_window").ends_with("BuiltIn"), "{shown}");
    assert_eq!(shown.lines().count(), Settings::NAMES.len());
}

#[test]
fn dub_33_options_of_a_call_do_not_reach_a_command_called_inside() {
    let lab = Lab::new();
    let outer = lab.command("outer").build().unwrap();
    let inner = lab.command("inner").build().unwrap();
    let call = outer
        .run(|| inner.run(|| Err::<u8, _>("E1")).execute().map_err(|_| "E2"))
        .ignore(|_| true)
        .fallback(|_| Ok(7))
        .execute();
    assert_eq!(call, Err(hystrix_core::CommandError::Inner("E2")), "ignored by the outer one");
    assert_eq!(counts(&outer), "bad_request=1");
    assert_eq!(
        counts(&inner),
        "failure=1 fallback_missing=1",
        "by the inner one it is neither ignored nor answered"
    );
}

// ===== what is refused =====

#[test]
fn bc_116_windows_that_do_not_divide_are_refused_by_name() {
    let lab = Lab::new();
    let window = |window, buckets| lab.command("w").rolling_window(window).rolling_buckets(buckets).build();
    let latency = |window, buckets| lab.command("w").latency_window(window).latency_buckets(buckets).build();
    let at = |result: Result<Command, ConfigError>| {
        let error = result.expect_err("a window that cannot be");
        assert!(error.to_string().starts_with("lab/w: "), "{error}");
        (error.field().to_owned(), error.value().to_owned())
    };
    let seconds = Duration::from_secs;
    for (given, buckets, field, value) in [
        (Duration::ZERO, 10, "window", "0ns"),
        (seconds(10), 0, "buckets", "0"),
        (ms(10), 100, "window", "10ms"),
        (seconds(10), 3, "window", "10s"),
        (ms(1), 2, "window", "1ms"),
        (seconds(10), 241, "buckets", "241"),
        (Duration::MAX, 1, "window", "18446744073709551615.999999999s"),
    ] {
        for (prefix, result) in [("rolling", window(given, buckets)), ("latency", latency(given, buckets))] {
            assert_eq!(at(result), (format!("{prefix}_{field}"), value.to_owned()), "{given:?}/{buckets}");
        }
    }
    assert!(window(ms(10), 10).is_ok());
}

#[test]
fn bc_119_bh18_limits_of_nothing_are_refused_by_name() {
    let lab = Lab::new();
    let semaphore = lab.command("s").semaphore(0).build().unwrap_err();
    let fallback = lab.command("f").fallback_semaphore(0).build().unwrap_err();
    let workers = Registry::builder().fallback_workers(0).unwrap_err();
    let defaults = Registry::builder().defaults(layer().semaphore(0)).unwrap_err();
    let group = Registry::builder().group_defaults("users", layer().timeout("0ms")).unwrap_err();
    let family = lab.command("k").semaphore(0).build_keyed().unwrap_err();
    let shown: Vec<String> =
        [semaphore, fallback, workers, defaults, group, family].iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "lab/s: semaphore = 0, but allowed is 1 to 16777215, or None");
    assert!(shown[1].starts_with("lab/f: fallback_semaphore = 0"));
    assert!(shown[2].starts_with("fallback_workers = 0"));
    assert!(shown[3].starts_with("registry defaults: semaphore = 0"));
    assert!(shown[4].starts_with("defaults of group users: timeout = 0ns"));
    assert!(shown[5].starts_with("lab/k: semaphore = 0"));
    assert!(lab.registry.commands().is_empty(), "nothing was made of them");
}

#[test]
fn bc_119_limits_of_one_work() {
    let lab = Lab::new();
    let here = lab.command("here").semaphore(1).fallback_semaphore(1).build().unwrap();
    let pool = lab.on_pool("pool", 1, 0).build().unwrap();
    for _ in 0..3 {
        assert_eq!(here.run(|| Err(())).fallback(|_| Ok(1)).execute(), Ok(1));
        assert_eq!(pool.run(|| Err(())).fallback(|_| Ok(1)).execute(), Ok(1));
    }
}

#[test]
fn bc_121_the_longest_durations_are_taken_and_never_come() {
    let lab = Lab::new();
    let longest = Duration::MAX;
    let breaker = touchy(1).sleep_window(longest);
    let pool = ThreadPool::named("for_ever").core_size(1).maximum_size(2).keep_alive(longest);
    let command =
        lab.command("for_ever").thread_pool(pool).timeout(longest).circuit_breaker(breaker).build().unwrap();
    assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
    until("idle", || command.pool().idle == 1);
    lab.clock.advance(Duration::from_secs(1 << 33));
    assert_eq!(command.run(|| Err::<u8, _>("E1")).execute(), Err("E1".into()));
    lab.clock.advance(Duration::from_secs(1 << 33));
    assert_eq!(kind(&command.run(|| Ok::<_, ()>(1)).execute()), Some(RejectionKind::ShortCircuited));
    assert_eq!((command.pool().size, lab.registry.armed()), (1, 0));
    for zero in [
        lab.command("z").circuit_breaker(touchy(1).sleep_window(Duration::ZERO)).build().err(),
        lab.command("z").thread_pool(ThreadPool::named("z").keep_alive(Duration::ZERO)).build().err(),
        lab.command("z").timeout(Duration::ZERO).build().err(),
    ] {
        assert_eq!(zero.expect("zero is refused").value(), "0ns");
    }
}

#[test]
fn timeouts_are_read_from_text_with_a_unit() {
    let read = |text: &'static str| Timeout::from(text).get();
    assert_eq!(read("250ms"), Some(ms(250)));
    assert_eq!(read("2s"), Some(Duration::from_secs(2)));
    assert_eq!(read("3m"), Some(Duration::from_secs(180)));
    assert_eq!(read("1h"), Some(Duration::from_secs(3600)));
    assert_eq!(read("5us"), Some(Duration::from_micros(5)));
    assert_eq!(read("7ns"), Some(Duration::from_nanos(7)));
    let lab = Lab::new();
    let unreadable =
        ["", "ms", "250", "250 ms", "-1s", "1.5s", "1d", "99999999999999999999s", "18446744073709551615h"];
    for text in unreadable {
        let error = lab.command("text").timeout(text).build().unwrap_err();
        assert_eq!((error.field(), error.value()), ("timeout", format!("{text:?}").as_str()));
    }
}

// ===== every setting does something =====

/// What a command does under two values of one setting.
type Probe = fn() -> [String; 2];

fn under(layers: [CommandConfig; 2], observe: fn(&Lab, &Command) -> String) -> [String; 2] {
    layers.map(|layer| {
        let lab = Lab::new();
        let command = lab.command("probe").config(layer).build().unwrap();
        observe(&lab, &command)
    })
}

fn fail(command: &Command, times: usize) -> String {
    for _ in 0..times {
        let _ = command.run(|| Err::<(), _>("E1")).execute();
    }
    format!("{:?}", command.circuit_state())
}

fn breakers(breakers: [CircuitBreaker; 2], observe: fn(&Lab, &Command) -> String) -> [String; 2] {
    under(breakers.map(|breaker| layer().circuit_breaker(breaker)), observe)
}

const PROBES: &[(&str, Probe)] = &[
    ("timeout", || {
        under(["10ms", "30ms"].map(|timeout| layer().timeout(timeout)), |lab, command| {
            let late = command.run(|| {
                lab.clock.advance(ms(20));
                Ok::<_, ()>(())
            });
            format!("{:?}", late.execute().is_ok())
        })
    }),
    ("semaphore", || {
        under([1, 2].map(|permits| layer().semaphore(permits)), |_, command| {
            let inside = || Ok::<_, ()>(command.run(|| Ok::<_, ()>(())).execute().is_ok());
            format!("{:?}", command.run(inside).execute())
        })
    }),
    ("fallback_semaphore", || {
        under([1, 2].map(|permits| layer().fallback_semaphore(permits)), |_, command| {
            let inner = || command.run(|| Err(())).fallback(|_| Ok(1)).execute().is_ok();
            format!("{:?}", command.run(|| Err(())).fallback(|_| Ok(u8::from(inner()))).execute())
        })
    }),
    ("fallback_enabled", || {
        under([true, false].map(|enabled| layer().fallback_enabled(enabled)), |_, command| {
            format!("{:?}", command.run(|| Err("E1")).fallback(|_| Ok(1)).execute())
        })
    }),
    ("circuit_breaker", || {
        let on_and_off = [Some(CircuitBreaker::new()), None];
        under(on_and_off.map(|breaker| layer().circuit_breaker(breaker)), |_, command| fail(command, 20))
    }),
    ("request_volume_threshold", || breakers([touchy(2), touchy(3)], |_, command| fail(command, 2))),
    ("error_threshold_percentage", || {
        breakers([50.0, 51.0].map(|share| touchy(2).error_threshold_percentage(share)), |_, command| {
            let _ = command.run(|| Ok::<_, ()>(())).execute();
            fail(command, 1)
        })
    }),
    ("sleep_window", || {
        breakers([ms(10), ms(30)].map(|window| touchy(1).sleep_window(window)), |lab, command| {
            fail(command, 1);
            lab.clock.advance(ms(20));
            format!("{:?}", command.run(|| Ok::<_, ()>(())).execute().is_ok())
        })
    }),
    ("mode", || {
        under([Mode::Enforce, Mode::Shadow].map(|mode| layer().mode(mode)), |_, command| {
            command.force_open();
            format!("{:?}", command.run(|| Ok::<_, ()>(())).execute().is_ok())
        })
    }),
    ("rolling_window", || {
        let windows = [ms(100), ms(1000)];
        under(windows.map(|window| layer().rolling_window(window)), |lab, command| {
            fail(command, 1);
            lab.clock.advance(ms(500));
            format!("{:?}", command.metrics().rolling.failure)
        })
    }),
    ("rolling_buckets", || {
        under([1, 10].map(|buckets| layer().rolling_buckets(buckets)), |lab, command| {
            // With one bucket, what was counted lives until the whole window turns; with ten it ages in tenths.
            lab.clock.advance(Duration::from_secs(9));
            fail(command, 1);
            lab.clock.advance(Duration::from_secs(2));
            format!("{:?}", command.metrics().rolling.failure)
        })
    }),
    ("latency_window", || {
        let windows = [ms(600), ms(60_000)];
        under(windows.map(|window| layer().latency_window(window)), |lab, command| {
            fail(command, 1);
            lab.clock.advance(ms(10_000));
            format!("{:?}", command.metrics().total.count())
        })
    }),
    ("latency_buckets", || {
        under([1, 6].map(|buckets| layer().latency_buckets(buckets)), |lab, command| {
            lab.clock.advance(Duration::from_secs(59));
            fail(command, 1);
            lab.clock.advance(Duration::from_secs(10));
            format!("{:?}", command.metrics().total.count())
        })
    }),
];

#[test]
fn bc_118_every_setting_does_something() {
    for name in Settings::NAMES {
        let probe = PROBES.iter().find(|(probed, _)| probed == name);
        let (_, probe) = probe.unwrap_or_else(|| panic!("the setting {name} has no probe"));
        let [one, other] = probe();
        assert_ne!(one, other, "two values of {name} that do the same");
    }
    assert_eq!(PROBES.len(), Settings::NAMES.len());
}

#[test]
fn live_layers_act_on_the_next_call() {
    let lab = Lab::new();
    let command = lab.command("live").semaphore(1).circuit_breaker(touchy(1)).build().unwrap();
    let apply = |layer| lab.registry.apply(Select::all(), layer).unwrap();
    apply(layer().circuit_breaker(None));
    assert_eq!(fail(&command, 5), "Closed");
    apply(layer().fallback_enabled(false));
    let answered = || command.run(|| Err("E1")).fallback(|_| Ok(1)).execute();
    assert_eq!(answered(), Err("E1".into()));
    assert_eq!(command.circuit_state(), CircuitState::Open, "its own circuit is in force again");
    apply(layer().mode(Mode::Off));
    assert_eq!(answered(), Err("E1".into()));
    assert!(lab.registry.remove(&Select::all()));
    assert_eq!(answered(), Ok(1), "short-circuited, and answered");
    assert_eq!(block_on(command.call(|| async { Err("E2") }).fallback(|_| Ok(1)).into_future()), Ok(1));
}
