//! The default file. A backend with the path in the temp directory stands for a process of the previous
//! version.

#[cfg(unix)]
mod cleaners;
mod moving;

use std::fs;

use super::*;
use crate::backend::sqlite::config::Settings;
use crate::backend::sqlite::file::{Location, Places};
use crate::error::Error;

/// A user with a home directory and a temp directory.
struct User {
    dir: TestDir,
    places: Places,
}

impl User {
    fn new() -> Self {
        let dir = TestDir::new();
        let places = Places {
            home: Some(dir.path().join("home")),
            temp: dir.path().join("temp"),
        };
        for directory in places.home.iter().chain([&places.temp]) {
            fs::create_dir(directory).unwrap();
        }
        Self { dir, places }
    }

    fn settings(&self) -> Settings {
        Settings {
            location: Location::Places(self.places.clone()),
            ..config(Path::new("/unused")).check().unwrap()
        }
    }

    fn backend(&self) -> SqliteBackend {
        SqliteBackend::new(self.settings())
    }

    /// The same user with another `TMPDIR`.
    fn with_temp(&self, name: &str) -> Self {
        let temp = self.dir.path().join(name);
        fs::create_dir(&temp).unwrap();
        Self {
            dir: TestDir::new(),
            places: Places {
                temp,
                ..self.places.clone()
            },
        }
    }

    fn without_home(mut self) -> Self {
        self.places.home = Some(self.dir.path().join("nonexistent"));
        self
    }

    fn home_file(&self) -> PathBuf {
        let state = if cfg!(target_vendor = "apple") {
            "Library/Application Support/syncguard"
        } else if cfg!(windows) {
            "syncguard"
        } else {
            ".local/state/syncguard"
        };
        self.places
            .home
            .as_ref()
            .unwrap()
            .join(state)
            .join("locks.db")
    }

    fn temp_file(&self) -> PathBuf {
        let name = crate::backend::sqlite::file::temp_name();
        let directory = self.places.temp.join(name);
        directory.join("locks.db")
    }

    /// A process of the previous version.
    fn previous(&self) -> SqliteBackend {
        let file = self.temp_file();
        make_private(file.parent().unwrap());
        backend(&file)
    }
}

fn make_private(directory: &Path) {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).unwrap();
}

async fn take(backend: &SqliteBackend, key: &str) -> Option<(AcquireRequest, u64)> {
    let lock = request(key);
    granted(backend.acquire(&lock).await.unwrap()).map(|fence| (lock, fence.value()))
}

async fn refusal(backend: &SqliteBackend) -> Error {
    let error = backend.acquire(&request("k")).await.unwrap_err();
    backend.close().await;
    error
}
