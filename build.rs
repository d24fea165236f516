fn main() {
    #[cfg(feature = "node")]
    {
        // The macros write there, but do not make it.
        if let Some(folder) = std::env::var_os("NAPI_TYPE_DEF_TMP_FOLDER") {
            let _ = std::fs::create_dir_all(folder);
        }
        napi_build::setup();
    }
}
