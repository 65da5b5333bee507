use hystrix_core::command;

struct Stock;

#[command]
impl Stock {}

fn main() {}
