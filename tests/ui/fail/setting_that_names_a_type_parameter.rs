use hystrix_core::command;

trait Limits {
    const PERMITS: usize;
}

#[command(semaphore = L::PERMITS)]
fn get<L: Limits>() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
