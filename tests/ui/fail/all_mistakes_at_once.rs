use hystrix_core::command;

#[command(timeout = "0s", semaphore = 0, semaphore = 3, fallback_if = |_| true, thread_pool)]
const fn get(text: &str) -> Result<usize, String> {
    Ok(text.len())
}

fn main() {}
