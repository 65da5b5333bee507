use hystrix_core::{command, commands};

trait Limits {
    const PERMITS: usize;
}

struct Stock<L>(L);

#[commands(semaphore = L::PERMITS)]
impl<L: Limits> Stock<L> {
    #[command]
    fn count(&self) -> Result<u8, String> {
        Ok(1)
    }
}

fn main() {}
