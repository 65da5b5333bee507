use hystrix_core::command;

#[command]
async fn get(n: u32) -> Result<u8, String> {
    Ok(n)
}

fn main() {}
