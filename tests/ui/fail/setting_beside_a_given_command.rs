use hystrix_core::command;

struct Client {
    quota: hystrix_core::Command,
}

impl Client {
    #[command(command = self.quota, timeout = "1s")]
    async fn get(&self) -> Result<u8, String> {
        Ok(1)
    }
}

fn main() {}
