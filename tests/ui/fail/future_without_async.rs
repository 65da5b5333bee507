use hystrix_core::command;

use std::future::Future;

#[command]
fn get() -> impl Future<Output = Result<u8, String>> {
    async { Ok(1) }
}

fn main() {}
