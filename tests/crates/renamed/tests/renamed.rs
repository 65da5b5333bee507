//! The functions of the renamed crate are commands, seen from a crate that knows the library by that name too.

use futures::executor::block_on;
use hx::{Registry, command_of};
use hystrix_renamed::Desk;

#[test]
fn bc_020_functions_of_a_renamed_dependency_are_commands() {
    assert_eq!(hystrix_renamed::plain(1), Ok(1));
    assert_eq!(block_on(hystrix_renamed::later("tea")), Ok(3));
    assert_eq!(hystrix_renamed::on_a_worker("tea", 1).unwrap(), 4);
    assert_eq!(hystrix_renamed::per_tenant("ann"), Ok(3));
    assert_eq!((hystrix_renamed::checked(0), hystrix_renamed::checked(1)), (Ok(100), Ok(0)));
    let counts = Registry::global().find("given", "checked").unwrap().metrics().cumulative;
    assert_eq!((counts.success, counts.failure, counts.fallback_success), (1, 1, 1));
}

#[test]
fn bc_020_a_block_says_it_for_its_functions() {
    let desk = Desk(7);
    assert_eq!((desk.number(), desk.from_a_worker()), (Ok(7), Ok(7)));
    assert_eq!(command_of!(Desk::number).metrics().cumulative.success, 1);
    assert_eq!(command_of!(Desk::from_a_worker).key().group(), "desks");
}

#[test]
fn bc_020_any_path_will_do() {
    assert_eq!((hystrix_renamed::absolute(), hystrix_renamed::relative(2)), (Ok(1), Ok(2)));
    assert_eq!(block_on(hystrix_renamed::handed_on(3)), Ok(3));
}
