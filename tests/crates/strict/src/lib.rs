//! Annotated functions in a crate that denies every lint a strict crate is known to deny, the two groups of clippy and the
//! restrictions that generated code trips over most often.
//!
//! Each function here is clean without the attribute. So whatever is reported in this crate, the attribute has caused, or has
//! hidden: an expectation that is not met is reported too (BC-023, BC-024, BC-025). Bodies say `return`, because `implicit_return` wants it.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    unused,
    dead_code,
    unreachable_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    unused_qualifications,
    unused_lifetimes,
    unused_results,
    single_use_lifetimes,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    let_underscore_drop,
    trivial_casts,
    closure_returning_async_block,
    unit_bindings,
    redundant_lifetimes,
    rust_2018_idioms,
    future_incompatible,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![deny(
    clippy::unwrap_in_result,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::implicit_return,
    clippy::missing_docs_in_private_items,
    clippy::let_underscore_must_use,
    clippy::let_underscore_untyped,
    clippy::shadow_same,
    clippy::shadow_reuse,
    clippy::shadow_unrelated,
    clippy::exhaustive_structs,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::absolute_paths,
    clippy::std_instead_of_core,
    clippy::alloc_instead_of_core,
    clippy::question_mark_used,
    clippy::mod_module_files,
    clippy::module_name_repetitions,
    clippy::pattern_type_mismatch,
    clippy::redundant_type_annotations,
    clippy::same_name_method,
    clippy::semicolon_inside_block,
    clippy::str_to_string,
    clippy::min_ident_chars,
    clippy::multiple_inherent_impl,
    clippy::impl_trait_in_params,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::partial_pub_fields,
    clippy::renamed_function_params,
    clippy::ref_patterns,
    clippy::rest_pat_in_fully_bound_structs,
    clippy::undocumented_unsafe_blocks,
    clippy::used_underscore_items,
    clippy::used_underscore_binding
)]
#![expect(clippy::needless_return, reason = "`implicit_return` asks for the opposite")]

mod error;
mod functions;
mod generics;
mod methods;

pub use self::error::ShopError;
pub use self::functions::{
    announce, buy, close, counted, fetch, forget, never, never_at_once, open, parse, price, quote, sum,
};
pub use self::generics::{evens, filled, first, keep, longest};
pub use self::methods::{Branch, Shop};
