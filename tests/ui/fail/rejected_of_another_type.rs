use hystrix_core::command;

#[command(rejected = |rejection| rejection.to_string())]
fn get() -> Result<u8, std::num::ParseIntError> {
    "1".parse()
}

fn main() {}
