use hystrix_core::command;

#[command(thread_pool)]
fn bad(x: u8) -> Result<std::rc::Rc<u8>, String> {
    Ok(std::rc::Rc::new(x))
}

fn main() {}
