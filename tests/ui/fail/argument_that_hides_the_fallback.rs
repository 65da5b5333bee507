use hystrix_core::{CommandError, command};

fn stale(_age: u8, _error: CommandError<String>) -> Result<u8, String> {
    Ok(0)
}

#[command(fallback = stale)]
fn get(stale: u8) -> Result<u8, String> {
    Ok(stale)
}

fn main() {}
