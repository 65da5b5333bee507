//! Annotated functions in a crate that depends on the library as `hx`, and hands it on to others.
//!
//! `crate = ..` says where the library is. It is said once for a block, and may be any path.

#![deny(warnings, missing_docs)]

mod given;
mod shadowed;

pub use self::given::{Desk, checked, later, on_a_worker, per_tenant, plain};
pub use self::shadowed::{absolute, handed_on, relative};

/// The library, as a framework hands it on.
pub mod framework {
    pub use hx as hystrix_core;
}
