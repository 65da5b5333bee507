use hystrix_core::command;

#[command(timeout = 250)]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
