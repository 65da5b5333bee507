use hystrix_core::{CommandError, command};

fn cached(_id: u32, _error: CommandError<String>) -> Option<u8> {
    None
}

#[command(fallback = cached)]
async fn get(id: u32) -> Result<u8, String> {
    Err(id.to_string())
}

fn main() {}
