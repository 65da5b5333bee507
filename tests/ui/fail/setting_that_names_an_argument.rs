use hystrix_core::command;

#[command(semaphore = permits)]
fn get(permits: usize) -> Result<usize, String> {
    Ok(permits)
}

fn main() {}
