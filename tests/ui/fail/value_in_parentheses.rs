use hystrix_core::command;

#[command(semaphore(4), timeout("1s"), to_owned(x.y))]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
