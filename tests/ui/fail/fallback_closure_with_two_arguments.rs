use hystrix_core::command;

#[command(fallback = |id, error| Ok(0))]
fn get(id: u32) -> Result<u8, String> {
    Err(id.to_string())
}

fn main() {}
