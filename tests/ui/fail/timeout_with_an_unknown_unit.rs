use hystrix_core::command;

#[command(timeout = "2 seconds")]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
