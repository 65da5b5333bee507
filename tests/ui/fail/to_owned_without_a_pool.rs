use hystrix_core::command;

#[command(to_owned(text))]
fn size(text: &str) -> Result<usize, String> {
    Ok(text.len())
}

fn main() {}
