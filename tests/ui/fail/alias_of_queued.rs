use hystrix_core::{Queued, command};

type Later = Queued<u8, String>;

#[command(thread_pool)]
fn get() -> Later {
    Ok(1)
}

fn main() {}
