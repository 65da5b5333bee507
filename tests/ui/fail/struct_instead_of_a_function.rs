use hystrix_core::command;

#[command]
struct Stock;

fn main() {}
