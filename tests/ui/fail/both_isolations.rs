use hystrix_core::command;

#[command(thread_pool = "a", semaphore = 4)]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
