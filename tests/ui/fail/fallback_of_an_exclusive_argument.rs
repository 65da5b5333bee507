use hystrix_core::command;

use hystrix_core::CommandError;

fn clear(_rows: &mut Vec<u8>, _error: CommandError<String>) -> Result<u8, String> {
    Ok(0)
}

#[command(fallback = clear)]
fn fill(rows: &mut Vec<u8>) -> Result<u8, String> {
    rows.push(1);
    Ok(1)
}

fn main() {}
