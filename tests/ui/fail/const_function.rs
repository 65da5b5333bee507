use hystrix_core::command;

#[command]
const fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
