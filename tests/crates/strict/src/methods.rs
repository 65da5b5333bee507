//! Functions of a type: every receiver, a trait's default method, and its implementation.

use std::sync::Arc;

use hystrix_core::{command, commands};

use crate::ShopError;

/// A shop.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Shop {
    /// What it has.
    pub pieces: u32,
    /// What it is called.
    pub name: String,
}

impl Shop {
    /// A shop of a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        return Self { pieces: 0, name: name.to_owned() };
    }

    /// How many pieces it has.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(fallback = |_error| return Ok(self.pieces), key = self.name)]
    pub fn pieces(&self) -> Result<u32, ShopError> {
        return Ok(self.pieces);
    }

    /// Adds pieces.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command]
    pub fn add(&mut self, pieces: u32) -> Result<&mut u32, ShopError> {
        self.pieces = self.pieces.saturating_add(pieces);
        return Ok(&mut self.pieces);
    }

    /// Sells the shop.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(fallback = |_error| return Ok(self.name))]
    pub fn sold(self) -> Result<String, ShopError> {
        return Ok(self.name);
    }

    /// Counts, on a worker that shares the shop.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(thread_pool)]
    pub fn shared(self: &Arc<Self>, more: u32) -> Result<u32, ShopError> {
        let pieces = self.pieces.saturating_add(more);
        return Ok(pieces);
    }

    /// Counts, on a worker that has a shop of its own.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(thread_pool, to_owned(self))]
    pub fn copied(&self) -> Result<Self, ShopError> {
        let name = format!("{} again", self.name);
        return Ok(Self { name, ..self.clone() });
    }

    /// What it is called, later.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(semaphore = 3)]
    pub async fn name(&self) -> Result<&str, ShopError> {
        return Ok(&self.name);
    }
}

/// A part of something larger.
pub trait Branch {
    /// What it is called.
    ///
    /// # Errors
    ///
    /// If it is refused.
    #[command(semaphore = 3)]
    fn title(&self) -> Result<String, ShopError> {
        return Ok("a branch".to_owned());
    }

    /// Where it stands.
    ///
    /// # Errors
    ///
    /// If it is refused.
    fn place(&self) -> Result<u32, ShopError>;
}

#[commands(group = "branches", timeout = "1s")]
impl Branch for Shop {
    #[command(fallback_value = 0)]
    fn place(&self) -> Result<u32, ShopError> {
        return Ok(self.pieces);
    }
}
