//! What a task may do with the future of an annotated function: what it may do with the bare one.

use std::future::Future;

mod free {
    use hystrix_core::{CommandError, command};
    use std::error::Error;
    use std::future::ready;
    use std::rc::Rc;

    #[command]
    pub(super) async fn plain(number: u8) -> Result<u8, Box<dyn Error>> {
        ready(()).await;
        Ok(number)
    }

    #[command(timeout = "1s", fallback = |_| Ok(Rc::new(1)))]
    pub(super) async fn with_a_fallback(number: u8) -> Result<Rc<u8>, String> {
        ready(()).await;
        Ok(Rc::new(number))
    }

    #[command(fallback = |_| Ok(Rc::new(1)), fallback_if = |error| error.is_timeout(), ignore = |_| false)]
    pub(super) async fn with_rules(number: u8) -> Result<Rc<u8>, CommandError<Rc<u8>>> {
        ready(()).await;
        Ok(Rc::new(number))
    }
}

#[test]
fn a_task_may_move_although_its_result_may_not() {
    fn may_move<F: Future + Send>(future: F) {
        drop(future);
    }
    may_move(free::plain(1));
    may_move(free::with_a_fallback(1));
    may_move(free::with_rules(1));
}

#[test]
fn a_future_survives_an_unwinding_where_the_bare_one_does() {
    fn survives<F: Future + std::panic::UnwindSafe>(future: F) {
        drop(future);
    }
    survives(free::plain(1));
}
