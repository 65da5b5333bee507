//! The functions of the strict crate do what they say.

use std::convert::Infallible;
use std::sync::Arc;

use futures::executor::block_on;
use hystrix_core::{Command, CommandError};
use hystrix_strict::{Branch, Shop, ShopError};

#[test]
fn functions_without_options_or_with_all_of_them() {
    assert_eq!((hystrix_strict::open(), hystrix_strict::close()), (Ok(()), Ok(())));
    assert_eq!(block_on(hystrix_strict::announce("open")), Ok(()));
    assert_eq!(block_on(hystrix_strict::announce("")), Err(ShopError::Missing(String::new())));
    let _endless: fn() -> Result<Infallible, ShopError> = hystrix_strict::never_at_once;
    assert_eq!(block_on(hystrix_strict::never()), Err(ShopError::Refused));
    assert_eq!(block_on(hystrix_strict::price("tea".into())), Ok(3));
    assert_eq!(block_on(hystrix_strict::quote("ann")), Ok(3));
    assert_eq!(hystrix_strict::parse("7").unwrap(), 7);
    assert!(matches!(hystrix_strict::parse("x"), Err(CommandError::Inner(_))));
}

#[test]
fn functions_on_workers() {
    assert_eq!(hystrix_strict::buy("tea", 2, "soon".into()), Ok(6));
    assert_eq!(hystrix_strict::buy("", 2, "soon".into()), Err(ShopError::Missing(String::new())));
    assert_eq!(hystrix_strict::sum(vec![1, 2]), Ok(4));
    assert_eq!(block_on(hystrix_strict::fetch("tea".into())), Ok("tea".into()));
    assert_eq!(hystrix_strict::counted("tea".into()).wait().unwrap(), 3);
}

#[test]
fn a_given_command_counts() {
    let given = Command::builder("given").group("strict").build().unwrap();
    assert_eq!(hystrix_strict::forget(&given, "tea".into()), Ok(()));
    assert_eq!(given.metrics().cumulative.success, 1);
}

#[test]
fn generic_functions() {
    assert_eq!(hystrix_strict::evens(5).unwrap().collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(hystrix_strict::filled::<_, 3>(1_u8), Ok([1; 3]));
    assert_eq!(hystrix_strict::first("green tea", "words"), Ok("green"));
    assert_eq!(block_on(hystrix_strict::longest(["a", "abc"])).unwrap().next(), Some("abc"));
    assert_eq!(block_on(hystrix_strict::keep("tea")), Ok("tea"));
}

#[test]
fn methods() {
    let mut shop = Shop::new("corner");
    *shop.add(2).unwrap() += 1;
    assert_eq!((shop.pieces(), shop.title(), shop.place()), (Ok(3), Ok("a branch".into()), Ok(3)));
    assert_eq!(block_on(shop.name()), Ok("corner"));
    assert_eq!(shop.copied().unwrap().name, "corner again");
    assert_eq!(Arc::new(shop.clone()).shared(1), Ok(4));
    assert_eq!(shop.sold(), Ok("corner".into()));
}
