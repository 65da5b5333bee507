use hystrix_core::command;

#[command(timeout = "0ms")]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
