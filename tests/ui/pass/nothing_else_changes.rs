#![deny(warnings)]
use hystrix_core::command;

#[command]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {
    assert_eq!(get(), Ok(1));
}
