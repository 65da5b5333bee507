use hystrix_core::*;
use std::time::Duration;

#[test]
fn sync_in_place() {
    let registry = Registry::builder().build();
    let c = Command::builder("a").registry(&registry).build().unwrap();
    assert_eq!(c.run(|| Ok::<_, String>(1)).execute(), Ok(1));
    assert_eq!(c.run(|| Err::<i32, _>("x")).fallback(|_| Ok(2)).execute(), Ok(2));
    let r: Result<i32, CommandError<String>> = c.run(|| panic!("boom")).execute();
    println!("{:?}", r);
    println!("{:#?}", c.metrics());
    println!("{}", c.settings());
}

#[test]
fn pool_timeout_manual() {
    let clock = ManualClock::new();
    let registry = Registry::builder().clock(clock.clone()).build();
    let c = Command::builder("a")
        .registry(&registry)
        .timeout("100ms")
        .thread_pool(ThreadPool::named("p").core_size(1))
        .build()
        .unwrap();
    let (tx, rx) = std::sync::mpsc::channel::<()>();
    let t = std::thread::spawn({
        let c = c.clone();
        move || {
            c.run(move || {
                let _ = rx.recv();
                Ok::<_, String>(1)
            })
            .fallback(|e| {
                println!("{e}");
                Ok(5)
            })
            .execute()
        }
    });
    while c.pool().active == 0 {
        std::thread::yield_now();
    }
    clock.advance(Duration::from_millis(100));
    assert_eq!(t.join().unwrap(), Ok(5));
    println!("{}", c.pool());
    assert_eq!(c.pool().abandoned, 1);
    tx.send(()).unwrap();
    println!("{:?}", registry.shutdown(Duration::from_secs(1)));
    println!("{:?}", c.metrics());
}

#[test]
fn async_in_place() {
    let clock = ManualClock::new();
    let registry = Registry::builder().clock(clock.clone()).build();
    let c = Command::builder("a")
        .registry(&registry)
        .timeout("100ms")
        .build()
        .unwrap();
    futures::executor::block_on(async {
        assert_eq!(c.call(|| async { Ok::<_, String>(1) }).await, Ok(1));
        assert_eq!(
            c.call(|| async { Err::<i32, _>("x") })
                .fallback(|_| async { Ok(2) })
                .await,
            Ok(2)
        );
        assert_eq!(
            c.call(|| async { Err::<i32, _>("x") }).fallback(|_| Ok(2)).await,
            Ok(2)
        );
    });
    let t = std::thread::spawn({
        let c = c.clone();
        move || {
            futures::executor::block_on(async {
                c.call(|| std::future::pending::<Result<i32, String>>()).await
            })
        }
    });
    while clock.armed() == 0 {
        std::thread::yield_now();
    }
    clock.advance(Duration::from_millis(100));
    println!("{:?}", t.join().unwrap());
    println!("{:?}", c.metrics());
}

#[test]
fn queued() {
    let registry = Registry::builder().build();
    let c = Command::builder("a")
        .registry(&registry)
        .timeout("100ms")
        .thread_pool("x")
        .build()
        .unwrap();
    let q = c.run(|| Err::<i32, _>("x")).fallback(|_| Ok(3)).queue();
    assert_eq!(q.wait(), Ok(3));
    let q = c.call(|| std::future::pending::<Result<i32, String>>()).queue();
    println!("{:?}", q.wait());
}
