use hystrix_core::command;

#[command(thread_pool)]
fn bad(x: std::rc::Rc<u8>) -> Result<u8, String> {
    Ok(*x)
}

fn main() {}
