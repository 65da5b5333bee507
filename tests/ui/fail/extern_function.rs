use hystrix_core::command;

#[command]
extern "C" fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {}
