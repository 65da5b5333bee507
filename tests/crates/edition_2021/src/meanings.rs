//! Words and methods that mean something else in other editions, and results that capture less.

use hystrix_core::command;

/// `gen` is a name like any other.
#[allow(keyword_idents_2024, reason = "that is what is shown")]
#[command(fallback = |_| Ok(gen))]
pub fn generation(gen: u32) -> Result<u32, String> {
    let gen = gen + 1;
    Ok(gen)
}

/// A boxed slice gives references to its elements.
#[allow(boxed_slice_into_iter, reason = "that is what is shown")]
#[command]
pub fn elements(all: Box<[u8]>) -> Result<Vec<u8>, String> {
    let mut copies = Vec::new();
    for element in all.into_iter() {
        let element: &u8 = element;
        copies.push(*element);
    }
    Ok(copies)
}

/// A result that has no name captures no lifetime that it does not mention.
#[allow(impl_trait_overcaptures, reason = "that is what is shown")]
#[command]
pub fn not_captured(text: &str) -> Result<impl Iterator<Item = usize>, String> {
    let length = text.len();
    Ok((0..length).filter(|number| number % 2 == 0))
}

/// What is mentioned is captured.
#[command]
pub fn names<'text>(text: &'text str) -> Result<impl Iterator<Item = &'text str> + 'text, String> {
    Ok(text.split(' '))
}

/// A closure captures the fields that it names.
#[command]
pub fn total(mut parts: (Vec<u32>, Vec<u32>)) -> Result<u32, String> {
    let (first, second) = (&mut parts.0, &parts.1);
    let mut add = || first.extend(second);
    add();
    Ok(parts.0.iter().sum())
}

macro_rules! described {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($argument:ident: $type:ty) = $value:expr_2021) => {
        $(#[$attribute])*
        $visibility fn $name($argument: $type) -> Result<String, String> {
            Ok(format!("{}", $value))
        }
    };
}

described! {
    /// Is made by a macro.
    #[command(semaphore = 4)]
    pub fn described(number: u32) = number + 1
}
