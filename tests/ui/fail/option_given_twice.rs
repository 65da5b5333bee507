use hystrix_core::command;

#[command(group = "a", group = "b")]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
