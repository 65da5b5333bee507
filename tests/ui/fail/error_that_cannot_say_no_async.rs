use hystrix_core::command;

struct Missing;

#[command(fallback = |_| Ok(1), ignore = |_| true)]
async fn get() -> Result<u8, Missing> {
    Err(Missing)
}

fn main() {}
