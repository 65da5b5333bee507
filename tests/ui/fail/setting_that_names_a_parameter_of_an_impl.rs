use hystrix_core::command;

trait Limits {
    const PERMITS: usize;
}

struct Repository<T>(T);

impl<T: Limits> Repository<T> {
    #[command(semaphore = T::PERMITS)]
    fn get(&self) -> Result<u8, String> {
        Ok(1)
    }
}

fn main() {}
