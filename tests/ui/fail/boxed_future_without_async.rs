use hystrix_core::command;

use std::future::Future;
use std::pin::Pin;

#[command]
fn get() -> Pin<Box<dyn Future<Output = Result<u8, String>> + Send>> {
    Box::pin(async { Ok(1) })
}

fn main() {}
