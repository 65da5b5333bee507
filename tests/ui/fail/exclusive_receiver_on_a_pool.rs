use hystrix_core::command;

struct Stock(u8);

impl Stock {
    #[command(thread_pool, to_owned(self))]
    fn count(&mut self) -> Result<u8, String> {
        self.0 += 1;
        Ok(self.0)
    }
}

fn main() {}
