use hystrix_core::command;

#[command(thread_pool)]
fn bad<T: Into<u8> + Send>(x: T) -> Result<u8, String> {
    Ok(x.into())
}

fn main() {}
