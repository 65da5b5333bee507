use hystrix_core::command;

struct Client(std::time::Duration);

impl Client {
    #[command(timeout = self.0)]
    async fn get(&self) -> Result<u8, String> {
        Ok(1)
    }
}

fn main() {}
