//! BC-129, HC-082: a program ends when its `main` returns, or when it says so, whatever threads of ours are idle or busy.
//!
//! A test without the harness, which would have its own end: it starts itself twice, and looks at how that ends.

use std::process::{Command as Process, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hystrix_core::{Command, Registry};

/// The right time is a few milliseconds; the bound is for slow machines, and far below a hang.
const AT_ONCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("return") => {
            busy();
            ExitCode::SUCCESS
        }
        Some("exit") => {
            busy();
            std::process::exit(0)
        }
        _ => {
            for way in ["return", "exit"] {
                ends(way);
            }
            ExitCode::SUCCESS
        }
    }
}

/// Leaves workers that are idle, one that is stuck, fallback workers, and a timer with something pending.
fn busy() {
    let command = Command::builder("busy").thread_pool("main").timeout("1h").circuit_breaker(None).build();
    let command = command.expect("a command");
    for _ in 0..20 {
        assert_eq!(command.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
        assert_eq!(command.run(|| Err::<u8, _>(())).fallback(|_| Ok(2)).queue().wait(), Ok(2));
    }
    let (begins, begun) = std::sync::mpsc::channel();
    let stuck = move || -> Result<(), ()> {
        begins.send(()).expect("the program waits for this");
        loop {
            std::thread::park();
        }
    };
    command.run(stuck).queue().detach();
    begun.recv().expect("the stuck body begins");
    let mine = Registry::builder().build();
    let other = Command::builder("other").thread_pool("other").registry(&mine).build().expect("a command");
    assert_eq!(other.run(|| Ok::<_, ()>(1)).execute(), Ok(1));
}

fn ends(way: &str) {
    let begin = Instant::now();
    let itself = std::env::current_exe().expect("a test has a file");
    let mut child = Process::new(itself)
        .arg(way)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process for the test");
    while child.try_wait().expect("its state is known").is_none() {
        if begin.elapsed() > AT_ONCE {
            child.kill().expect("it can be ended");
            panic!("{way}: the program did not end");
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().expect("it has ended");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{way}: {}", String::from_utf8_lossy(&said));
}
