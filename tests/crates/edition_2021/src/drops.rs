//! When temporaries are dropped: in this edition those of the last expression outlive the locals, and those of an `if let` its
//! `else`.

#![allow(tail_expr_drop_order, if_let_rescope, reason = "that is what is shown")]

use std::sync::{Arc, Mutex};

use hystrix_core::command;

/// Remembers what was dropped, in order.
#[derive(Clone, Debug, Default)]
pub struct Drops(Arc<Mutex<Vec<&'static str>>>);

impl Drops {
    /// What was dropped.
    pub fn seen(&self) -> Vec<&'static str> {
        self.0.lock().map(|seen| seen.clone()).unwrap_or_default()
    }

    fn note(&self, name: &'static str) {
        if let Ok(mut seen) = self.0.lock() {
            seen.push(name);
        }
    }

    fn guard(&self, name: &'static str) -> Guard {
        Guard { name, drops: self.clone() }
    }
}

struct Guard {
    name: &'static str,
    drops: Drops,
}

impl Guard {
    fn result(&self) -> Result<usize, String> {
        Ok(self.name.len())
    }

    fn none(&self) -> Option<usize> {
        self.name.is_empty().then_some(0)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.drops.note(self.name);
    }
}

/// The last expression has a temporary.
#[command]
pub fn tail(drops: &Drops) -> Result<usize, String> {
    let _local = drops.guard("local");
    drops.guard("temporary").result()
}

/// The same, later.
#[command(timeout = "10s")]
pub async fn tail_later(drops: &Drops) -> Result<usize, String> {
    let _local = drops.guard("local");
    std::future::ready(()).await;
    drops.guard("temporary").result()
}

/// The same, on a worker.
#[command(thread_pool = "edition 2021", to_owned(drops))]
pub fn on_a_worker(drops: &Drops) -> Result<usize, String> {
    let _local = drops.guard("local");
    drops.guard("temporary").result()
}

/// What is matched is a temporary.
#[command]
pub fn if_let(drops: &Drops) -> Result<usize, String> {
    let length = if let Some(length) = drops.guard("matched").none() {
        length
    } else {
        drops.note("else");
        1
    };
    Ok(length)
}

/// The same, later.
#[command]
pub async fn if_let_later(drops: &Drops) -> Result<usize, String> {
    std::future::ready(()).await;
    let length = if let Some(length) = drops.guard("matched").none() {
        length
    } else {
        drops.note("else");
        1
    };
    Ok(length)
}
