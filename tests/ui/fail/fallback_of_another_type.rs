use hystrix_core::command;

use hystrix_core::CommandError;

fn cached(_id: u32, _error: CommandError<String>) -> Result<String, String> {
    Ok(String::new())
}

#[command(fallback = cached)]
fn get(id: u32) -> Result<u8, String> {
    Err(id.to_string())
}

fn main() {}
