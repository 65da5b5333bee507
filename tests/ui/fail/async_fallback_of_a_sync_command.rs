use hystrix_core::command;

use hystrix_core::CommandError;

async fn cached(_error: CommandError<String>) -> Result<u8, String> {
    Ok(0)
}

#[command(fallback = cached)]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
