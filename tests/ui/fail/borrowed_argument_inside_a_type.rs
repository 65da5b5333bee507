use hystrix_core::command;

#[command(thread_pool)]
async fn size(text: Option<&str>) -> Result<usize, String> {
    Ok(text.map_or(0, str::len))
}

fn main() {}
