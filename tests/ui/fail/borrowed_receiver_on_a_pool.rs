use hystrix_core::command;

struct Stock(u8);

impl Stock {
    #[command(thread_pool)]
    fn count(&self) -> Result<u8, String> {
        Ok(self.0)
    }
}

fn main() {}
