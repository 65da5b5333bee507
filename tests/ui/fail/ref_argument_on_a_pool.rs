use hystrix_core::command;

#[command(thread_pool)]
fn size(ref text: String) -> Result<usize, String> {
    Ok(text.len())
}

fn main() {}
