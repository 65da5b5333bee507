use hystrix_core::command;

#[command]
async fn get() -> Option<u8> {
    Some(1)
}

fn main() {}
