use hystrix_core::command;

#[command(fallback = |_| Ok(0), fallback_here)]
async fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
