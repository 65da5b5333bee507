use hystrix_core::command;

#[command(timeout = "1s")]
#[command]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
