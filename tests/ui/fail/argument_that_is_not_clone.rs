use hystrix_core::command;

struct NoClone;

#[command(fallback = |_| Ok(drop(order)))]
fn place(order: NoClone) -> Result<(), String> {
    Ok(drop(order))
}

fn main() {}
