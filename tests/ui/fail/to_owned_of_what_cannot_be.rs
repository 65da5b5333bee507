use hystrix_core::command;

struct NoClone;

#[command(thread_pool, to_owned(order))]
fn place(order: &NoClone) -> Result<(), String> {
    Ok(drop(order))
}

fn main() {}
