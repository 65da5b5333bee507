//! Keeps ARCHITECTURE.md true: the floors, the sizes, and the words that have a room of their own.

use std::fs;
use std::path::{Path, PathBuf};

/// Every module at the root of the library, by floor.
const FLOORS: [&[&str]; 5] = [
    &["identity", "outcome", "error", "event", "clock", "log", "sealed", "sync", "unwind"],
    &["window", "timer", "permits", "workers", "context", "sinks"],
    &["circuit_breaker", "isolation", "fallback"],
    &["runtime", "admission", "execution"],
    &["command", "registry", "compat", "__private", "__hystrix_announce"],
];

/// What a file's own tests and models begin with; they stand at its end.
const OWN_TESTS: [&str; 3] =
    ["#[cfg(test)]", "#[cfg(all(test, not(hystrix_loom)))]", "#[cfg(all(test, hystrix_loom))]"];

struct Source {
    /// From the library's `src/`.
    path: String,
    text: String,
}

impl Source {
    fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap_or_default()
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs")
    }

    /// The lines of code outside tests, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(number, line)| (number + 1, line));
        let lines = lines.take_while(|(_, line)| !OWN_TESTS.contains(line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Where `word` stands, outside tests and comments.
    fn places(&self, word: &str) -> Vec<String> {
        let found = self.code().filter(|(_, line)| line.contains(word));
        found.map(|(number, line)| format!("{}:{number}: {}", self.path, line.trim())).collect()
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(under: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let (base, mut paths) = (root().join("hystrix-core/src"), Vec::new());
    rust_files(&base, &mut paths);
    assert!(paths.len() > 40, "the library is where it was: {}", paths.len());
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&base).unwrap().to_string_lossy().replace('\\', "/"),
    };
    paths.into_iter().map(read).collect()
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// The modules that a line names: `crate::a::b`, and each of `crate::{a, b}`.
fn named(line: &str) -> Vec<&str> {
    let after = line.split("crate::").skip(1);
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    after
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => group.split([',', '}']).map(str::trim).collect::<Vec<_>>(),
            None => vec![rest],
        })
        .filter_map(|path| path.split(|letter| !is_word(letter)).next())
        .filter(|name| name.starts_with(char::is_lowercase))
        .collect()
}

#[test]
fn nothing_names_a_floor_above_its_own_and_stages_do_not_name_each_other() {
    let mut seen = 0;
    for source in sources().iter().filter(|source| source.path != "lib.rs" && !source.is_test()) {
        let own = floor(source.module()).unwrap_or_else(|| panic!("{} is on no floor", source.path));
        for (number, line) in source.code() {
            for name in named(line) {
                let Some(other) = floor(name) else { panic!("{}:{number} names {name}", source.path) };
                seen += 1;
                assert!(other <= own, "{}:{number} goes up to {name}", source.path);
                let stages = own == 2 && other == 2 && name != source.module();
                assert!(!stages, "{}:{number} names the stage {name}", source.path);
            }
        }
    }
    assert!(seen > 200, "the floors were looked at: {seen}");
}

#[test]
fn words_that_have_a_room_stay_in_it() {
    let rooms: [(&str, &[&str]); 7] = [
        ("std::sync", &["sync.rs"]),
        ("Instant::now", &["clock.rs", "clock/tokio.rs"]),
        // BC-066: nothing that the wall clock says can matter.
        ("SystemTime", &[]),
        ("thread::sleep", &[]),
        ("Builder::new().name", &["timer/mod.rs", "workers/worker.rs"]),
        ("loom::", &["sync.rs"]),
        ("static GLOBAL", &["registry/mod.rs"]),
    ];
    for (word, rooms) in rooms {
        let outside = |source: &&Source| !rooms.contains(&&*source.path) && !source.is_test();
        let places: Vec<_> =
            sources().iter().filter(outside).flat_map(|source| source.places(word)).collect();
        assert!(places.is_empty(), "`{word}` belongs to {rooms:?}: {places:#?}");
    }
}

#[test]
fn no_unsafe_code_no_globs_and_nothing_left_for_later() {
    let banned = ["unsafe ", "::*", "todo!", "unimplemented!", "dbg!", ".unwrap()", "println!"];
    for source in sources().iter().filter(|source| !source.is_test()) {
        for word in banned {
            assert_eq!(source.places(word), Vec::<String>::new(), "`{word}`");
        }
    }
    let later =
        [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat(), ["#[ig", "nore"].concat()];
    for (path, text) in everything() {
        for word in &later {
            assert!(!text.contains(word), "{} has a {word}", path.display());
        }
    }
}

#[test]
fn no_file_is_longer_than_can_be_read() {
    for (path, text) in everything() {
        let lines = text.lines().count();
        assert!(lines <= 600, "{} has {lines} lines", path.display());
    }
}

#[test]
fn no_test_makes_something_true_by_sleeping() {
    let sleep = ["thread::sl", "eep"].concat();
    for (path, text) in everything() {
        assert!(!text.contains(&sleep) || path.ends_with("clippy.toml"), "{}", path.display());
    }
}

fn everything() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    for room in ["hystrix-core", "hystrix-macros", "examples", "tests", "benches"] {
        rust_files(&root().join(room), &mut paths);
    }
    let paths = paths.into_iter().filter(|path| !path.ends_with("architecture.rs"));
    paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}
