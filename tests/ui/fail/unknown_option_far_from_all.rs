use hystrix_core::command;

#[command(colour = "red")]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
