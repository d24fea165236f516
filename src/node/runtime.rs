//! The I/O threads, which all JavaScript contexts of the process share.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Runtime};

use crate::client::system::SystemHost;
use crate::error::{Error, Result};

/// Returns the runtime. It starts on first use and never stops, because an operation may outlive the context
/// that started it.
pub(super) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            #[cfg(windows)]
            super::windows::install_platform_hooks();
            let mut threads = Builder::new_multi_thread();
            threads.worker_threads(2).thread_name("syncguard");
            #[cfg(unix)]
            threads.on_thread_start(super::exit::block_signals);
            threads.enable_all().build()
        })
        .as_ref()
        .map_err(|error| Error::internal("The system refuses to start a thread, so that no I/O is possible. Check the limits of the process").cause(error))
}

/// Returns the host that all backends share, except those that use JavaScript's time.
pub(super) fn system_host() -> Result<Arc<SystemHost>> {
    static HOST: OnceLock<Arc<SystemHost>> = OnceLock::new();
    let handle = runtime()?.handle();
    let host = HOST.get_or_init(|| Arc::new(SystemHost::new(handle.clone())));
    Ok(Arc::clone(host))
}
