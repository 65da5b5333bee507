use hystrix_core::commands;

#[commands(group = "a")]
fn get() {}

fn main() {}
