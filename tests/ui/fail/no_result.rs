use hystrix_core::command;

#[command]
fn get() {
}

fn main() {}
