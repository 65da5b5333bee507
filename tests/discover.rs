//! All annotated functions of a program, found without being named.

#![forbid(unsafe_code)]
#![deny(warnings)]

use hystrix_core::{Registry, command, commands};

#[command(semaphore = 3)]
fn second() -> Result<u8, String> {
    Ok(2)
}

mod earlier {
    use hystrix_core::command;

    #[command]
    pub(super) async fn first<T: Default>() -> Result<T, String> {
        Ok(T::default())
    }
}

struct Stock;

#[commands(group = "stock")]
impl Stock {
    const PERMITS: usize = 7;

    #[command(semaphore = Self::PERMITS)]
    fn count(&self) -> Result<u8, String> {
        Ok(3)
    }
}

struct S3;

impl S3 {
    const PERMITS: usize = 5;
}

#[command(group = "stock", semaphore = S3::PERMITS)]
fn upload() -> Result<u8, String> {
    Ok(4)
}

#[test]
fn discover_registers_every_function_that_can_be_named() {
    let registry = Registry::builder().build();
    registry.discover().unwrap();
    let keys: Vec<String> = registry.commands().iter().map(|command| command.key().to_string()).collect();
    assert_eq!(keys, ["discover/second", "earlier/first", "stock/count", "stock/upload"]);
    let permits = registry.find("stock", "count").unwrap().settings().semaphore().value;
    assert_eq!(permits, 7.into());
    let _here = registry.enter();
    assert_eq!((second(), Stock.count(), upload()), (Ok(2), Ok(3), Ok(4)));
    assert_eq!(futures::executor::block_on(earlier::first::<u8>()), Ok(0));
    assert_eq!(registry.commands().len(), 4);
}
