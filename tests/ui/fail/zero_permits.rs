use hystrix_core::command;

#[command(semaphore = 0)]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
