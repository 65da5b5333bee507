//! What the attribute says about mistakes, and what it compiles without a word.
//!
//! BC-017 is `argument_that_is_not_send`, BC-027 `unsafe_stays_unsafe`, BC-028 `const_function` and `extern_function`.

#[test]
fn mistakes_are_told_in_our_words_at_the_users_token() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
