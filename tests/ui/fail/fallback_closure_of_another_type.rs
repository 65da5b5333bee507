use hystrix_core::command;

#[command(fallback = |_| Ok("none"))]
fn get(id: u32) -> Result<u8, String> {
    Err(id.to_string())
}

fn main() {}
