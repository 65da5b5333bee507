use hystrix_core::command;

#[command(thread_pool, to_owned(txt))]
fn size(text: String) -> Result<usize, String> {
    Ok(text.len())
}

fn main() {}
