//! Every signature that a function can have stays what it was under the attribute.

mod support;

use hystrix_core::{CommandError, Registry, command, command_of};

#[command]
fn bump(mut n: i32) -> Result<i32, String> {
    n += 1;
    Ok(n)
}

#[command(thread_pool = "signatures")]
fn bump_on_pool(mut n: i32) -> Result<i32, String> {
    n += 1;
    Ok(n)
}

#[test]
fn bc_001_a_mutable_argument() {
    assert_eq!(bump(1), Ok(2));
    assert_eq!(bump_on_pool(1), Ok(2));
}

pub struct P {
    pub x: i32,
    pub y: i32,
}

#[command]
fn area((w, h): (i32, i32), P { x, y: _ }: P, [a, .., z]: [u8; 4], _: bool) -> Result<i32, String> {
    Ok(w * h + x + a as i32 + z as i32)
}

#[test]
fn bc_002_patterns_and_wildcards() {
    assert_eq!(area((2, 3), P { x: 4, y: 9 }, [1, 0, 0, 5], true), Ok(16));
}

#[command]
fn send(to: u32, #[cfg(not(test))] port: u16, #[cfg(test)] port: u32) -> Result<u32, String> {
    Ok(to + port)
}

fn other_port(to: u32, #[cfg(test)] port: u32, _error: CommandError<String>) -> Result<u32, String> {
    Ok(to + port + 100)
}

#[command(fallback = other_port, semaphore = 1)]
fn send_or(to: u32, #[cfg(not(test))] port: u16, #[cfg(test)] port: u32) -> Result<u32, String> {
    Err(format!("{to} {port}"))
}

#[test]
fn bc_003_arguments_under_cfg() {
    assert_eq!(send(1, 2u32), Ok(3));
    assert_eq!(send_or(1, 2u32), Ok(103));
}

#[command(thread_pool = "signatures")]
fn show(x: impl std::fmt::Display + Send + 'static) -> Result<String, String> {
    Ok(x.to_string())
}

#[test]
fn bc_004_impl_trait_argument_is_one_command() {
    assert_eq!(show(42).unwrap(), "42");
    assert_eq!(show("x".to_string()).unwrap(), "x");
    assert_eq!(command_of!(show).metrics().cumulative.success, 2);
}

#[command]
async fn same(a: &(impl PartialEq<i32> + Sync), b: Option<impl Into<i32> + Send>) -> Result<bool, String> {
    Ok(b.map(|b| *a == b.into()).unwrap_or(false))
}

#[tokio::test]
async fn bc_005_impl_trait_inside() {
    assert!(same(&7, Some(7)).await.unwrap());
}

#[command]
fn evens(n: u32) -> Result<impl Iterator<Item = u32>, String> {
    Ok((0..n).filter(|i| i % 2 == 0))
}

#[test]
fn bc_006_impl_trait_in_the_result() {
    assert_eq!(evens(5).unwrap().collect::<Vec<_>>(), [0, 2, 4]);
}

type Job = Box<dyn FnOnce() -> u8 + Send + Sync>;

#[command]
async fn job() -> Result<Job, std::io::Error> {
    Ok(Box::new(|| 7))
}

#[tokio::test]
async fn bc_007_unsized_coercion() {
    assert_eq!(job().await.unwrap()(), 7);
}

pub struct Foo {
    pub k: u32,
}

impl Foo {
    #[command]
    fn twice(&self, n: u32) -> Result<u32, String> {
        Ok(self.k * n)
    }

    #[command(thread_pool, to_owned(self, text))]
    fn on_pool(&self, text: &str) -> Result<String, String> {
        Ok(format!("{} {text} {}", self.k, std::thread::current().name().unwrap_or_default()))
    }
}

impl Clone for Foo {
    fn clone(&self) -> Self {
        Self { k: self.k + 1 }
    }
}

#[test]
fn bc_009_methods() {
    assert_eq!(Foo { k: 2 }.twice(4), Ok(8));
    assert!(Registry::global().find("Foo", "twice").is_some());
    assert_eq!(Foo { k: 2 }.on_pool("x").unwrap(), "3 x hystrix-Foo-1");
}

pub struct Ctr {
    pub count: u32,
}
impl Ctr {
    #[command]
    fn tick(&mut self) -> Result<u32, String> {
        self.count += 1;
        Ok(self.count)
    }
    #[command]
    async fn tick_later(&mut self) -> Result<&mut u32, String> {
        self.count += 1;
        Ok(&mut self.count)
    }
    #[command]
    fn part(&mut self) -> Result<&mut u32, String> {
        Ok(&mut self.count)
    }
}

#[tokio::test]
async fn bc_010_exclusive_receiver() {
    let mut ctr = Ctr { count: 0 };
    assert_eq!(ctr.tick(), Ok(1));
    *ctr.tick_later().await.unwrap() += 1;
    *ctr.part().unwrap() += 1;
    assert_eq!(ctr.count, 4);
}

pub struct W(pub u32);
impl W {
    #[command(thread_pool)]
    fn a(self: std::sync::Arc<Self>) -> Result<u32, String> {
        Ok(self.0)
    }
    #[command(thread_pool)]
    fn b(self: Box<Self>) -> Result<u32, String> {
        Ok(self.0)
    }
    #[command(thread_pool)]
    fn c(mut self) -> Result<u32, String> {
        self.0 += 1;
        Ok(self.0)
    }
    #[command(thread_pool)]
    fn d(self: &std::sync::Arc<Self>) -> Result<u32, String> {
        Ok(self.0)
    }
}

#[test]
fn bc_011_typed_receivers() {
    assert_eq!(std::sync::Arc::new(W(3)).a(), Ok(3));
    assert_eq!(Box::new(W(3)).b(), Ok(3));
    assert_eq!(W(3).c(), Ok(4));
    assert_eq!(std::sync::Arc::new(W(3)).d(), Ok(3));
}

#[derive(Clone, Debug, PartialEq)]
pub struct Repo<T>(pub T);
impl<T: Clone + Send + Sync + 'static> Repo<T> {
    #[command]
    fn dup(&self) -> Result<Self, String> {
        let c: Self = Self(self.0.clone());
        Ok(c)
    }
}

#[test]
fn bc_012_self_and_impl_generics() {
    assert_eq!(Repo(5u8).dup(), Ok(Repo(5)));
    assert_eq!(Repo("x").dup(), Ok(Repo("x")));
    assert_eq!(Registry::global().find("Repo", "dup").unwrap().metrics().cumulative.success, 2);
}

#[command]
fn parse<T>(s: &'static str) -> Result<T, String>
where
    T: std::str::FromStr + Send + 'static,
    T::Err: std::fmt::Display,
{
    s.parse::<T>().map_err(|e| e.to_string())
}

#[test]
fn bc_013_generic_function_is_one_command() {
    assert_eq!(parse::<u8>("7"), Ok(7));
    assert_eq!(parse::<bool>("true"), Ok(true));
    assert_eq!(command_of!(parse).metrics().cumulative.success, 2);
}

#[expect(clippy::needless_lifetimes, reason = "a lifetime that is named, and one that is not")]
#[command]
async fn len<'a>(a: Option<&'a str>, b: &str) -> Result<usize, String> {
    Ok(a.map_or(0, str::len) + b.len())
}

#[command]
async fn walk(d: u32) -> Result<u32, String> {
    if d == 0 {
        return Ok(0);
    }
    Ok(1 + Box::pin(walk(d - 1)).await?)
}

#[command]
async fn local() -> Result<usize, String> {
    let r = std::rc::Rc::new(1usize);
    std::future::ready(()).await;
    Ok(*r)
}

#[tokio::test]
async fn bc_014_to_016() {
    assert_eq!(len(Some("ab"), "c").await, Ok(3));
    assert_eq!(walk(3).await, Ok(3));
    assert_eq!(local().await, Ok(1));
}

#[command]
fn r#match(n: u8) -> Result<u8, String> {
    Ok(n)
}

#[test]
fn bc_018_raw_identifier() {
    assert_eq!(r#match(1), Ok(1));
    assert_eq!(command_of!(r#match).key().name(), "match");
}

macro_rules! make {
    ($name:ident, $arg:ident : $t:ty, $e:expr) => {
        #[command]
        fn $name($arg: $t) -> Result<$t, String> {
            Ok($arg + $e)
        }
    };
    (method $ty:ident $name:ident) => {
        impl $ty {
            #[command(thread_pool, to_owned(self))]
            fn $name(&self) -> Result<u8, String> {
                Ok(self.0)
            }
        }
    };
}
make!(inc, n: u8, 1);
#[derive(Clone)]
pub struct T3(pub u8);
make!(method T3 get);

#[test]
fn bc_019_from_macro_rules() {
    assert_eq!(inc(1), Ok(2));
    assert_eq!(T3(3).get(), Ok(3));
}

mod aliases {
    pub struct MyErr;
    impl From<hystrix_core::Rejection> for MyErr {
        fn from(_: hystrix_core::Rejection) -> Self {
            MyErr
        }
    }
    pub type Result<T> = std::result::Result<T, MyErr>;
    #[hystrix_core::command]
    pub fn one() -> Result<u8> {
        Ok(1)
    }
    #[hystrix_core::command(fallback_value = 3)]
    pub async fn two() -> Result<u8> {
        Ok(1)
    }
}

#[test]
fn bc_021_result_alias() {
    assert!(matches!(aliases::one(), Ok(1)));
    assert!(matches!(futures::executor::block_on(aliases::two()), Ok(1)));
}
