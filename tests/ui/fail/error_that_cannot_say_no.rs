use hystrix_core::command;

struct Missing;

#[command]
fn get() -> Result<u8, Missing> {
    Err(Missing)
}

fn main() {}
