use hystrix_core::command;

#[command]
unsafe fn peek(p: *const u8) -> Result<u8, String> {
    Ok(unsafe { *p })
}

fn look() {
    let byte = 7;
    let _ = peek(&byte);
}

fn main() {}
