use hystrix_core::command;

#[command(command = vec![7u8])]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
