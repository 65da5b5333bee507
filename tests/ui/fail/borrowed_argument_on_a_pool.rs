use hystrix_core::command;

#[command(thread_pool)]
fn size(text: &str) -> Result<usize, String> {
    Ok(text.len())
}

fn main() {}
