//! The functions of the crate behave as their bodies do in edition 2021.

use futures::executor::block_on;
use hystrix_edition_2021::*;

#[test]
fn bc_026_temporaries_of_the_last_expression_outlive_the_locals() {
    let drops = Drops::default();
    assert_eq!(tail(&drops), Ok(9));
    assert_eq!(drops.seen(), ["local", "temporary"]);
    let drops = Drops::default();
    assert_eq!(block_on(tail_later(&drops)), Ok(9));
    assert_eq!(drops.seen(), ["local", "temporary"]);
    let drops = Drops::default();
    assert_eq!(on_a_worker(&drops), Ok(9));
    assert_eq!(drops.seen(), ["local", "temporary"]);
}

#[test]
fn bc_026_what_an_if_let_matches_outlives_its_else() {
    let drops = Drops::default();
    assert_eq!(if_let(&drops), Ok(1));
    assert_eq!(drops.seen(), ["else", "matched"]);
    let drops = Drops::default();
    assert_eq!(block_on(if_let_later(&drops)), Ok(1));
    assert_eq!(drops.seen(), ["else", "matched"]);
}

#[test]
fn bc_027_unsafe_functions_need_no_blocks_inside_and_one_outside() {
    let byte = 3;
    // SAFETY: the pointers are those of a local that lives on.
    let (now, later, other) =
        unsafe { (peek(&byte), block_on(peek_later(&byte)), peek_or(std::ptr::addr_of!(byte), &0)) };
    assert_eq!((now, later, other), (Ok(3), Ok(3), Ok(3)));
    // SAFETY: as above.
    assert_eq!(unsafe { peek_or(&0, &byte) }, Ok(3));
}

#[test]
fn words_and_methods_mean_what_they_mean_in_the_edition() {
    assert_eq!(generation(1), Ok(2));
    assert_eq!(elements(Box::new([1, 2])), Ok(vec![1, 2]));
    assert_eq!(total((vec![1], vec![2, 3])), Ok(6));
    assert_eq!(described(1), Ok("2".into()));
}

#[test]
fn a_result_without_a_name_captures_what_it_mentions() {
    let text = String::from("green tea");
    let numbers = not_captured(&text).unwrap();
    assert_eq!(names(&text).unwrap().collect::<Vec<_>>(), ["green", "tea"]);
    drop(text);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
}
