use hystrix_core::command;

type Answer = Option<u8>;

#[command]
async fn get() -> Answer {
    Some(1)
}

fn main() {}
