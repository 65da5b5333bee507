use hystrix_core::command;

#[command(timout = "1s")]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
