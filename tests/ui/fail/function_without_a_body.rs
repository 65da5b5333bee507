use hystrix_core::command;

trait Stock {
    #[command]
    fn count(&self) -> Result<u8, String>;
}

fn main() {}
