//! The error of every function here.

use hystrix_core::Rejection;

/// Why a shop did not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShopError {
    /// There is none of it.
    Missing(String),
    /// The command was refused.
    Refused,
}

impl ShopError {
    /// Whether a thing is missing.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        return matches!(*self, Self::Missing(_));
    }
}

impl From<Rejection> for ShopError {
    fn from(_rejection: Rejection) -> Self {
        return Self::Refused;
    }
}
