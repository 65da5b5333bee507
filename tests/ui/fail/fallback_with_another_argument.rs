use hystrix_core::command;

use hystrix_core::CommandError;

fn cached(_id: String, _error: CommandError<String>) -> Result<u8, String> {
    Ok(0)
}

#[command(fallback = cached)]
fn get(id: u32) -> Result<u8, String> {
    Err(id.to_string())
}

fn main() {}
