use hystrix_core::command;

fn cached(_id: u32) -> Result<u8, String> {
    Ok(0)
}

#[command(fallback = cached)]
fn get(id: u32) -> Result<u8, String> {
    Err(id.to_string())
}

fn main() {}
