use hystrix_core::command;

use hystrix_core::Queued;

#[command]
fn get() -> Queued<u8, String> {
    Ok(1)
}

fn main() {}
