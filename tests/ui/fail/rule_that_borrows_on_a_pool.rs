#![allow(unused_variables)]

use hystrix_core::command;

#[command(thread_pool, ignore = |error| error == name)]
fn get(name: &str, n: u8) -> Result<u8, String> {
    Ok(n)
}

fn main() {}
