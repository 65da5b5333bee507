use hystrix_core::{command, command_of};

#[command(timeout = "0s")]
fn get() -> Result<u8, String> {
    Ok(1)
}

fn main() {
    get().unwrap();
    command_of!(get).force_open();
}
